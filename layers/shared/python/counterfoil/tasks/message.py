"""The message of a task: what the outbox composes of its row, and what is read of it.

    {"schema_version": 1, "job_id": uuid, "task_type": name, "payload": {...} or {"$claim_check": {"key": ...}},
     "metadata": {"created_at", "retry_count", "max_retry", "last_error", "last_retry_at", "idempotency_key"},
     "revision": 1, "send_number": 0}

It names the task, its revision and the send; the row decides everything else. What else the message says is for people
who look at a queue: a sender's clock that is wrong, or a count that is, changes nothing.
"""

from datetime import datetime
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from counterfoil.errors import InvalidMessageError
from counterfoil.messages import LARGEST, NEWEST_SCHEMA, Intake, Message, opened
from counterfoil.validation import Problem, validate


class LastError(BaseModel):
    """How the last try failed."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    type: str | None = None
    message: str | None = None
    timestamp: datetime | None = None
    context: dict[str, JsonValue] | None = None


class Metadata(BaseModel):
    """What is told about a task besides its payload."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    created_at: datetime
    retry_count: int = Field(ge=0, le=LARGEST)
    max_retry: int = Field(ge=0, le=LARGEST)
    last_error: LastError | None = None
    last_retry_at: datetime | None = None
    idempotency_key: str | None = None


class TaskMessage(BaseModel):
    """The body of a message."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schema_version: int = Field(default=NEWEST_SCHEMA, ge=1, le=NEWEST_SCHEMA)
    job_id: UUID
    task_type: str
    payload: dict[str, JsonValue]
    metadata: Metadata
    revision: int = Field(ge=1, le=LARGEST)
    send_number: int = Field(ge=0, le=LARGEST)


def read_task_message(body: str) -> Intake:
    """The task that a message names.

    Raises:
        InvalidMessageError: it can never be read.
        NewerSchemaError: it is of a version that a deployment under way will bring.
    """
    found = validate(TaskMessage, opened(body), _wrong)
    return Intake([Message(work_id=found.job_id, revision=found.revision, send_number=found.send_number)])


_FIELDS = {name for form in (TaskMessage, Metadata, LastError) for name in form.model_fields}


def _wrong(problem: Problem) -> InvalidMessageError:
    # Only a field that we know may be quoted: any other is the sender's text.
    known = [str(part) for part in problem.place if part in _FIELDS]
    return InvalidMessageError(f"The message is wrong at {'.'.join(known) or 'a field'}: {problem.message}")
