"""Queue messages: what a body names, and how one is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from counterfoil.db import Connection
from counterfoil.errors import InvalidMessageError, NewerSchemaError
from counterfoil.validation import Problem, validate

NEWEST_SCHEMA = 1
LARGEST = 2**31 - 1
"""The largest number that a column of type integer holds."""


class Message(BaseModel):
    """The body of a queue message: names work, carries none of it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    schema_version: int = Field(default=NEWEST_SCHEMA, ge=1, le=NEWEST_SCHEMA)
    work_id: UUID = Field(strict=False)
    revision: int = Field(ge=1, le=LARGEST)
    send_number: int = Field(ge=0, le=LARGEST)

    @property
    def order(self) -> tuple[int, int]:
        """Of two messages of one work, the greater is the newer."""
        return self.revision, self.send_number

    @property
    def named(self) -> dict[str, str | int]:
        """What it names, for a record of what became of it."""
        return {"work_id": str(self.work_id), "revision": self.revision, "send_number": self.send_number}


@dataclass(frozen=True)
class Intake:
    """What the body of a message means for a queue: the work that it names."""

    messages: Sequence[Message]
    """Usually one. None: nothing to do. Several: each gets a message of its own."""
    register: Callable[[Connection, datetime], None] | None = None
    """Inserts the work that a message from outside brings along; runs before the claim, and again each time."""


def read_message(body: str) -> Intake:
    """Read a message of our own.

    Raises:
        InvalidMessageError: it can never be read.
        NewerSchemaError: it is of a version that a deployment under way will bring.
    """
    return Intake([validate(Message, opened(body), _wrong)])


def opened(body: str) -> dict[str, Any]:
    """The JSON object of a message of our own, of a version that is known here. Raises as `read_message`."""
    try:
        parsed = from_json(body)
    except (ValueError, TypeError):  # TypeError: half a surrogate
        raise InvalidMessageError(f"The message is not JSON ({len(body)} characters)") from None
    if not isinstance(parsed, dict):
        raise InvalidMessageError(f"The message is a JSON {type(parsed).__name__}, not an object")
    version = parsed.get("schema_version")
    if isinstance(version, int) and not isinstance(version, bool) and version > NEWEST_SCHEMA:
        raise NewerSchemaError(f"The message has a schema version newer than {NEWEST_SCHEMA}, the newest known here")
    return parsed


def _wrong(problem: Problem) -> InvalidMessageError:
    # Only a field that we know may be quoted: any other is the sender's text.
    known = [str(part) for part in problem.place if part in Message.model_fields]
    return InvalidMessageError(f"The message is wrong at {'.'.join(known) or 'a field'}: {problem.message}")
