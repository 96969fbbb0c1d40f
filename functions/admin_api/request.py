"""Requests as the gateway hands them on, put into the one form that the routes read; and the cursor of a list."""

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any, TypeVar, overload
from uuid import UUID

from pydantic import BeforeValidator
from pydantic_core import from_json

from counterfoil.errors import RejectedRequestError

T = TypeVar("T")

_NO_CURSOR = "cursor is what 'next' of the page before said."
MAX_BODY_BYTES = 1024 * 1024
"""Of a request. A payload of 256 KiB has room in it even where all of its characters are escaped."""
JSON = "application/json"
NO_OBJECT = "The body must be JSON, an object."
NO_LIST = 'The body must be JSON, an object: a list stands in it under its name, as in {"job_ids": ["..."]}.'
TWICE = "The body must be JSON, an object, in which no name stands twice."
_AS_JSON = {"", JSON, "application/x-www-form-urlencoded"}
"""What a body may be declared as. The last one is what curl says of everything; no route takes forms."""


def _whole(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("should be a whole number")
    return value


whole = BeforeValidator(_whole)
"""For a number in a body: whole as JSON Schema has it, 5 and 5.0, and no text. It goes behind the number's bounds."""


class UnreadableError(RejectedRequestError):
    """A body is no JSON."""

    status = 400


class TooLongError(UnreadableError):
    """A body is longer than is taken."""

    status = 413


class MediaTypeError(UnreadableError):
    """A body is declared as something else than JSON."""

    status = 415


def readable(event: Mapping[str, Any]) -> dict[str, Any]:
    """The same request with its body as text, declared as JSON. The gateway encodes what is declared otherwise.

    What comes with a GET means nothing, and is left out.

    Raises:
        UnreadableError: it cannot be, or TooLongError, or MediaTypeError.
    """
    given = event.get("body") or ""
    headers = {name.lower(): text for name, text in (event.get("headers") or {}).items()}
    if not given or event["requestContext"]["http"]["method"] == "GET":
        return {
            **event,
            "body": None,
            "headers": {name: text for name, text in headers.items() if name != "content-type"},
        }
    if headers.get("content-type", "").partition(";")[0].strip().lower() not in _AS_JSON:
        raise MediaTypeError("The body must be declared as application/json.")
    try:
        content = base64.b64decode(given) if event.get("isBase64Encoded") else given.encode()
        if len(content) > MAX_BODY_BYTES:
            raise TooLongError(f"The body has {len(content)} bytes, and {MAX_BODY_BYTES} (1 MiB) are taken.")
        body = content.decode()
    except (ValueError, binascii.Error):
        raise UnreadableError(NO_OBJECT) from None
    return {**event, "body": body, "isBase64Encoded": False, "headers": {**headers, "content-type": JSON}}


def read_json(text: str) -> Any:
    """What a body holds: an object, for every route that takes one.

    Raises:
        json.JSONDecodeError: it is none. The event handler knows no other error, and tells of its message.
    """
    try:
        found = from_json(text, allow_inf_nan=False)
    except (ValueError, TypeError):
        found = None
    if not isinstance(found, dict):
        raise json.JSONDecodeError(NO_LIST if isinstance(found, list) else NO_OBJECT, "", 0)
    try:
        json.loads(text, object_pairs_hook=_named_once, parse_int=str)
    except ValueError:
        raise json.JSONDecodeError(TWICE, "", 0) from None
    return found


def _named_once(members: Sequence[tuple[str, Any]]) -> None:
    """Of two members of one name, readers before and after this one may take another one each."""
    if len({name for name, _ in members}) < len(members):
        raise ValueError


def cursor(at: datetime | float, id_: UUID | str) -> str:
    """Return the cursor of the page after an item that is ordered by a time, or a number, and an id."""
    key = at.isoformat() if isinstance(at, datetime) else repr(at)
    return base64.urlsafe_b64encode(f"{key}|{id_}".encode()).decode()


def cut(found: Sequence[T], limit: int, place: Callable[[T], tuple[datetime, UUID]]) -> tuple[Sequence[T], str | None]:
    """A page, and the cursor of the one after it, of what was `found` when one more than `limit` was asked for."""
    shown = found[:limit]
    return shown, cursor(*place(shown[-1])) if len(found) > limit else None


@overload
def after(text: str) -> tuple[datetime, UUID]: ...
@overload
def after(text: str, read: Callable[[str], T]) -> tuple[datetime, T]: ...
def after(text: str, read: Callable[[str], object] = UUID) -> tuple[datetime, object]:
    """What a cursor says; `read` makes an id of its text.

    Raises:
        RejectedRequestError: it is none of ours.
    """
    try:
        at, id_ = _parts(text)
        found = datetime.fromisoformat(at)
        if found.tzinfo is None or not id_.isprintable():
            raise ValueError
        return found, read(id_)
    except ValueError:
        raise RejectedRequestError(_NO_CURSOR) from None


def after_number(text: str) -> tuple[float, UUID]:
    """Return what the cursor of a list that is ordered by a number says.

    Raises:
        RejectedRequestError: it is not such a cursor.
    """
    try:
        number, id_ = _parts(text)
        if not isfinite(float(number)):
            raise ValueError
        return float(number), UUID(id_)
    except ValueError:
        raise RejectedRequestError(_NO_CURSOR) from None


def _parts(cursor: str) -> tuple[str, str]:
    """Split a cursor into key and id. Raises ValueError."""
    key, id_ = base64.b64decode(cursor, altchars=b"-_", validate=True).decode("ascii").split("|")
    return key, id_


def only(query: Mapping[str, str] | None, *known: str) -> None:
    """Refuse a parameter that means nothing here: whoever misspells a filter would get everything.

    Raises:
        RejectedRequestError: names it.
    """
    unknown = (query or {}).keys() - set(known)
    if unknown:
        raise RejectedRequestError(f"There is no parameter {min(unknown)!r}.")
