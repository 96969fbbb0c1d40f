"""Adapter for pydantic: validates external input and translates its errors."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, StringConstraints, ValidationError, WithJsonSchema

from counterfoil.errors import CounterfoilError

M = TypeVar("M", bound=BaseModel)
PrintableText = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$")]
SLUG = "[a-z0-9][a-z0-9-]{0,62}"
"""Regular expression for a tenant's name in URLs."""
UNASSIGNED = "-"
"""Slug for dead letters and audit entries without a tenant, such as dead letters of unreadable messages."""
DECEPTIVE_CHARS = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Control characters for a regular expression's character class, including bidirectional controls (UAX #9)."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ]|\Z)")


def _require_date_text(value: object) -> object:
    if isinstance(value, datetime) or (isinstance(value, str) and _DATE.match(value)):
        return value
    raise ValueError("should be a date, or a date and a time, such as 2026-01-31 or 2026-01-31T09:00:00Z")


def _default_to_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


Moment = Annotated[
    datetime,
    BeforeValidator(_require_date_text),
    AfterValidator(_default_to_utc),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]}),
]
"""A time (RFC 3339). Numbers are rejected. A time without an offset is in UTC, and a date means midnight."""
UTC_DESCRIPTION = "A date alone means midnight, and a time without an offset is in UTC."


class ValidationProblem(NamedTuple):
    """The first validation error.

    The location may be text from the sender. The other fields come from pydantic.
    """

    location: tuple[int | str, ...]
    """Path of names and indexes to the invalid part. Empty if the whole value is invalid."""
    type: str
    """Pydantic's name of the failed check, such as `missing` or `json_invalid`."""
    message: str


def validate(form: type[M], value: Any, to_error: Callable[[ValidationProblem], CounterfoilError]) -> M:
    """Return a value as an instance of `form`.

    Raises:
        CounterfoilError: the result of `to_error` for the first problem.
    """
    return _validate(form.model_validate, value, to_error)


def validate_json(form: type[M], text: str, to_error: Callable[[ValidationProblem], CounterfoilError]) -> M:
    """Return a JSON text as an instance of `form`.

    Raises the same errors as `validate`.
    """
    return _validate(form.model_validate_json, text, to_error)


def _validate(check: Callable[[Any], M], value: Any, to_error: Callable[[ValidationProblem], CounterfoilError]) -> M:
    try:
        return check(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    # Raised outside the handler. Otherwise pydantic's error, which contains the whole value, would become the context.
    raise to_error(ValidationProblem(first["loc"], first["type"], first["msg"]))
