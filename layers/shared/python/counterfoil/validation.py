"""Pydantic's adapter: what comes from outside is put into its form here, or becomes an error of ours."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, StringConstraints, ValidationError, WithJsonSchema

from counterfoil.errors import CounterfoilError

M = TypeVar("M", bound=BaseModel)
PrintableText = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$")]
SLUG = "[a-z0-9][a-z0-9-]{0,62}"
"""Pattern of a tenant's name in URLs."""
UNASSIGNED = "-"
"""Slug of dead letters and audit entries without a tenant, such as those of unreadable messages."""
DECEPTIVE = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Control characters for a character class, including those that change the direction of writing (UAX #9)."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ]|\Z)")


def _written_out(value: object) -> object:
    if isinstance(value, datetime) or (isinstance(value, str) and _DATE.match(value)):
        return value
    raise ValueError("should be a date or a date and a time, such as 2026-01-31 or 2026-01-31T09:00:00Z")


def _in_utc(found: datetime) -> datetime:
    return found if found.tzinfo else found.replace(tzinfo=UTC)


Moment = Annotated[
    datetime,
    BeforeValidator(_written_out),
    AfterValidator(_in_utc),
    WithJsonSchema({"anyOf": [{"type": "string", "format": "date-time"}, {"type": "string", "format": "date"}]}),
]
"""A time (RFC 3339), not a number. Without an offset it is in UTC; a date is its midnight."""
IN_UTC = "A date alone is its midnight, and a time without an offset is one of UTC."


class Problem(NamedTuple):
    """The first thing that is wrong with a value. Its place may be the sender's text; the rest is pydantic's."""

    place: tuple[int | str, ...]
    """The names and indexes that lead to it; empty for the whole."""
    type: str
    """Pydantic's name of the check that failed, such as `missing` or `json_invalid`."""
    message: str


def validate(form: type[M], value: Any, wrong: Callable[[Problem], CounterfoilError]) -> M:
    """A value in its form.

    Raises:
        CounterfoilError: what `wrong` makes of the first problem.
    """
    return _checked(form.model_validate, value, wrong)


def validate_json(form: type[M], text: str, wrong: Callable[[Problem], CounterfoilError]) -> M:
    """A JSON text in its form. Raises as `validate`."""
    return _checked(form.model_validate_json, text, wrong)


def _checked(check: Callable[[Any], M], value: Any, wrong: Callable[[Problem], CounterfoilError]) -> M:
    try:
        return check(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    # Outside of the handler: pydantic's error, in the context of ours, would hold the whole value.
    raise wrong(Problem(first["loc"], first["type"], first["msg"]))
