"""HTTP messages of the API: bodies, cursors, ETags, and problems (RFC 9457).

API Gateway answers some requests itself, always with `{"message"}` as `application/json`. Our errors are
`application/problem+json`, so clients can tell them apart.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from math import isfinite
from typing import Any, TypeVar, overload
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.types import OpenAPIResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import from_json

from counterfoil.db import PageCursor
from counterfoil.documents.review import EarlierDecision
from counterfoil.errors import RejectedRequestError, VersionConflictError

T = TypeVar("T")


class ForbiddenError(RejectedRequestError):
    """The caller lacks a required permission."""


class NotFoundError(RejectedRequestError):
    """The resource does not exist."""


class ConflictError(RejectedRequestError):
    """The resource's current state does not permit the request.

    `decision` is the reviewer's earlier decision that conflicts with the request, if any.
    """

    def __init__(self, message: str, decision: EarlierDecision | None = None) -> None:
        super().__init__(message)
        self.decision = decision


# -- request bodies ---------------------------------------------------------------------------------------------------

MAX_BODY_BYTES = 1024 * 1024
"""Maximum body size. A payload of 256 KiB fits even if every character is escaped."""
JSON = "application/json"
NOT_AN_OBJECT = "The body must be a JSON object."
LIST_NOT_ALLOWED = 'The body must be a JSON object. Put the list in a field, such as {"job_ids": ["..."]}.'
DUPLICATE_NAMES = "The body must be a JSON object with unique field names."
_JSON_MEDIA_TYPES = {"", JSON, "application/x-www-form-urlencoded"}
"""Accepted media types. curl sends the last one by default; no route accepts forms."""


class UnreadableError(RejectedRequestError):
    """The body is not JSON."""

    status = 400


class BodyTooLargeError(UnreadableError):
    """The body is too large."""

    status = 413


class MediaTypeError(UnreadableError):
    """The media type of the body is not JSON."""

    status = 415


def _parse_whole_number(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("should be a whole number")
    return value


WholeNumber = BeforeValidator(_parse_whole_number)
"""Integer as defined by JSON Schema: accepts 5 and 5.0, but not text. In `Annotated`, list it after the bounds."""


def normalize_body(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event with its body as text, declared as JSON.

    The gateway encodes bodies of other media types in base64. The body of a GET request has no meaning and is dropped.

    Raises:
        UnreadableError: the body is not text, is too large (BodyTooLargeError) or is not declared as JSON
            (MediaTypeError).
    """
    raw_body = event.get("body") or ""
    headers = {name.lower(): text for name, text in (event.get("headers") or {}).items()}
    if not raw_body or event["requestContext"]["http"]["method"] == "GET":
        return {
            **event,
            "body": None,
            "headers": {name: text for name, text in headers.items() if name != "content-type"},
        }
    if headers.get("content-type", "").partition(";")[0].strip().lower() not in _JSON_MEDIA_TYPES:
        raise MediaTypeError("The body must be declared as application/json.")
    try:
        content = base64.b64decode(raw_body) if event.get("isBase64Encoded") else raw_body.encode()
        if len(content) > MAX_BODY_BYTES:
            raise BodyTooLargeError(f"The body has {len(content)} bytes; the limit is {MAX_BODY_BYTES} (1 MiB).")
        body = content.decode()
    except (ValueError, binascii.Error):
        raise UnreadableError(NOT_AN_OBJECT) from None
    return {**event, "body": body, "isBase64Encoded": False, "headers": {**headers, "content-type": JSON}}


def read_json(text: str) -> Any:
    """Parse a body. Every route with a body requires an object.

    Raises:
        json.JSONDecodeError: the body is not an object with unique field names. Powertools handles only this error
            class, and passes the message on.
    """
    try:
        body = from_json(text, allow_inf_nan=False)
    except (ValueError, TypeError):
        body = None
    if not isinstance(body, dict):
        raise json.JSONDecodeError(LIST_NOT_ALLOWED if isinstance(body, list) else NOT_AN_OBJECT, "", 0)
    try:
        json.loads(text, object_pairs_hook=_reject_duplicate_names, parse_int=str)
    except ValueError:
        raise json.JSONDecodeError(DUPLICATE_NAMES, "", 0) from None
    return body


def _reject_duplicate_names(members: Sequence[tuple[str, Any]]) -> None:
    """Reject duplicate names, because parsers differ in which of the values they use."""
    if len({name for name, _ in members}) < len(members):
        raise ValueError


# -- cursors ----------------------------------------------------------------------------------------------------------

_INVALID_CURSOR = "cursor must be `next_cursor` of the previous page."


def encode_cursor(position: tuple[datetime | float, UUID | str] | None) -> str | None:
    """Return the cursor of the page after `position`, a time or number and an id."""
    if position is None:
        return None
    at, id_ = position
    key = at.isoformat() if isinstance(at, datetime) else repr(at)
    return base64.urlsafe_b64encode(f"{key}|{id_}".encode()).decode()


def split_page(
    rows: Sequence[T], limit: int, position: Callable[[T], tuple[datetime, UUID | str]]
) -> tuple[Sequence[T], str | None]:
    """Return the first `limit` rows and the cursor of the next page.

    `rows` has up to `limit` + 1 rows.
    """
    page = rows[:limit]
    return page, encode_cursor(position(page[-1]) if len(rows) > limit else None)


@overload
def decode_cursor(text: str | None) -> PageCursor | None: ...
@overload
def decode_cursor(text: str | None, parse_id: Callable[[str], T]) -> tuple[datetime, T] | None: ...
def decode_cursor(text: str | None, parse_id: Callable[[str], Any] = UUID) -> tuple[datetime, Any] | None:
    """Decode a cursor; None stays None. `parse_id` parses the id in the cursor.

    Raises:
        RejectedRequestError: the cursor is invalid.
    """
    if text is None:
        return None
    try:
        at, id_ = _split_cursor(text)
        time = datetime.fromisoformat(at)
        if time.tzinfo is None or not id_.isprintable():
            raise ValueError
        return PageCursor(time, parse_id(id_))
    except ValueError:
        raise RejectedRequestError(_INVALID_CURSOR) from None


def decode_number_cursor(text: str | None) -> tuple[float, UUID] | None:
    """Decode the cursor of a list that is ordered by a number; None stays None.

    Raises:
        RejectedRequestError: the cursor is invalid.
    """
    if text is None:
        return None
    try:
        number, id_ = _split_cursor(text)
        if not isfinite(float(number)):
            raise ValueError
        return float(number), UUID(id_)
    except ValueError:
        raise RejectedRequestError(_INVALID_CURSOR) from None


def _split_cursor(cursor: str) -> tuple[str, str]:
    """Split a cursor into key and id. Raises ValueError if the cursor is invalid."""
    key, id_ = base64.b64decode(cursor, altchars=b"-_", validate=True).decode("ascii").split("|")
    return key, id_


# -- entity tags (RFC 9110, 8.8.3): strong tags name a version, weak tags hash a response --------------------------

_TAG = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\U0010ffff]*")')
_STRONG = re.compile(r'"(\d{1,18})"')
_DIGITS = 32
"""Hexadecimal digits in a weak tag: 128 bits of SHA-256."""


class PreconditionRequiredError(RejectedRequestError):
    """If-Match is missing."""


def etag(version: int | str) -> str:
    """Return the strong entity tag of a version."""
    return f'"{version}"'


def is_current(if_none_match: str | None, version: int | str) -> bool:
    """Return whether If-None-Match contains this version or is an asterisk.

    The comparison is weak.
    """
    return _matches_tag(if_none_match, etag(version))


def _matches_tag(condition: str | None, tag: str) -> bool:
    if condition is None:
        return False
    return condition.strip() == "*" or tag in _TAG.findall(condition)


def add_etag(event: Mapping[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    """Add an ETag to the response to a GET, or return 304 if the client has it.

    This makes polling by the console cheap. Routes of versioned resources set the ETag themselves. Base64 bodies are
    files and get no ETag.
    """
    headers = response["headers"]
    is_cacheable = event["requestContext"]["http"]["method"] == "GET" and response["statusCode"] == 200  # OK
    if not is_cacheable or "ETag" in headers or response.get("isBase64Encoded"):
        return response
    tag = f'"{hashlib.sha256(response["body"].encode(errors="surrogatepass")).hexdigest()[:_DIGITS]}"'
    tagged = {**headers, "ETag": f"W/{tag}"}
    if not _matches_tag(event["headers"].get("if-none-match"), tag):
        return {**response, "headers": tagged}
    return {**response, "statusCode": 304, "headers": {"ETag": tagged["ETag"]}, "body": ""}


def sent_version(if_match: str | None) -> int | None:
    """Return the version in If-Match; None if the header is absent or an asterisk.

    Raises:
        VersionConflictError: the header contains no version.
    """
    return None if if_match is None or if_match.strip() in {"", "*"} else required_version(if_match)


def required_version(if_match: str | None) -> int:
    """Return the version in If-Match, or the highest if there are several.

    The highest version is the latest, because versions only increase.

    Raises:
        PreconditionRequiredError: the header is absent, or an asterisk, which would match a version that the caller
            has not read.
        VersionConflictError: the header contains no version.
    """
    if if_match is None or if_match.strip() in {"", "*"}:
        raise PreconditionRequiredError("If-Match is required. Send the ETag of the version that you read.")
    versions = [
        int(version) for tag in if_match.split(",") for version in _STRONG.findall(tag) if tag.strip()[0] == '"'
    ]
    if not versions:
        raise VersionConflictError("If-Match must be the ETag of the version that you read.")
    return max(versions)


# -- problems ---------------------------------------------------------------------------------------------------------

MEDIA_TYPE = "application/problem+json"
GATEWAY_MEDIA_TYPE = JSON
GATEWAY_STATUSES = (401, 403, 413, 429, 500, 503, 504)
"""Statuses that the gateway may return for any request: invalid token, body over 10 MB, rate limit exceeded, function
failed, at its concurrency limit or timed out."""
COMMON_STATUSES = (401, 403, 500, 503)
"""Statuses that any route may return: an invalid token, a missing role, an internal error, an unavailable database."""

STATUS_DESCRIPTIONS = {
    400: "The body is not valid JSON.",
    401: "The token is missing or invalid.",
    403: "The token does not permit this request.",
    404: "The resource does not exist, or the caller may not view it.",
    405: "The path does not support this method. `Allow` lists the supported methods.",
    409: "The resource's current state does not permit this request.",
    412: "The resource has changed: `If-Match` does not match its current version.",
    413: "The request is too large.",
    415: "The media type of the body is not JSON.",
    422: "The request is invalid. `detail` gives the reason.",
    428: "`If-Match` is required, with the ETag of the resource.",
    429: "Too many requests. Retry after the seconds in `Retry-After`, or after one second if it is missing.",
    500: "Internal error. If the response comes from the gateway, the request may have been carried out.",
    503: "Temporarily unavailable. Retry after the seconds in `Retry-After`. If the response comes from the gateway, "
    "the header is missing and the request may have been carried out.",
    504: "Timeout. The request may have been carried out.",
}


class Problem(BaseModel):
    """Problem details (RFC 9457) of type `about:blank`.

    The status identifies the kind of problem.
    """

    model_config = ConfigDict(extra="forbid")

    type: str = Field(default="about:blank", pattern="^about:blank$")
    title: str
    status: int
    detail: str
    """Human-readable explanation."""
    decision: EarlierDecision | None = Field(
        default=None,
        description="Earlier decision with the same verdict, or that `overrides` does not contain. Only with status "
        "409 of a decision.",
    )


class GatewayError(BaseModel):
    """Error response of API Gateway."""

    message: str


def problem(
    status: int, detail: str, headers: Mapping[str, str] | None = None, decision: EarlierDecision | None = None
) -> Response[str]:
    """Return a problem response."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, decision=decision)
    return Response(status, MEDIA_TYPE, body.model_dump_json(exclude_none=True), headers=dict(headers or {}))


def problem_response(status: int) -> dict[str, Any]:
    """Return the OpenAPI response for a problem with this status."""
    content = {
        media_type: {"schema": {"$ref": f"#/components/schemas/{content['model'].__name__}"}}
        for media_type, content in _models(status, from_api=True).items()
    }
    return {"description": STATUS_DESCRIPTIONS[status], "content": content}


def responses(success: Mapping[int, tuple[Any, str]], *problems: int) -> dict[int, OpenAPIResponse]:
    """Return the OpenAPI responses of a route: successes and problems.

    `success` maps a status to a model (None for no body) and a description. COMMON_STATUSES and GATEWAY_STATUSES are
    added.
    """
    documented: dict[int, Any] = {
        status: {"description": sentence, "content": {"application/json": {"model": model}} if model else {}}
        for status, (model, sentence) in success.items()
    }
    ours = {*problems, *COMMON_STATUSES}
    for status in sorted({*ours, *GATEWAY_STATUSES}):
        documented[status] = {
            "description": STATUS_DESCRIPTIONS[status],
            "content": _models(status, from_api=status in ours),
        }
        if status in {429, 503}:
            documented[status]["headers"] = {
                "Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}
            }
        elif status == 401:
            description = "Reason why the token was rejected (RFC 6750)."
            documented[status]["headers"] = {
                "WWW-Authenticate": {"description": description, "schema": {"type": "string"}}
            }
    return documented


def _models(status: int, *, from_api: bool) -> dict[str, dict[str, type[BaseModel]]]:
    """Return the response models for a status, by media type."""
    models: dict[str, dict[str, type[BaseModel]]] = {}
    if from_api:
        models[MEDIA_TYPE] = {"model": Problem}
    if status in GATEWAY_STATUSES:
        models[GATEWAY_MEDIA_TYPE] = {"model": GatewayError}
    return models
