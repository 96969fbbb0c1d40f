"""What the API answers where it does not do what was asked: `application/problem+json` (RFC 9457), with a sentence.

Some answers are the gateway's, which has one form for them and cannot be told another: `{"message"}`. Their media type
is `application/json`, so that a client can tell the two apart.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.types import OpenAPIResponse
from pydantic import BaseModel, ConfigDict, Field

from counterfoil.errors import RejectedRequestError

MEDIA_TYPE = "application/problem+json"
GATEWAY_MEDIA_TYPE = "application/json"
BY_THE_GATEWAY = (401, 403, 413, 429, 500, 503, 504)
"""What the gateway may answer by itself, whatever is asked: no valid token, more than 10 MB, more requests than it lets
through, a function that fails, has no room or takes too long."""
BY_EVERY_ROUTE = (401, 403, 500, 503)
"""What any of our routes may answer: no token that is taken, no role, a failure of ours, no database."""

SENTENCES = {
    400: "The body is not JSON, or no text at all.",
    401: "There is no valid token.",
    403: "The token does not allow it.",
    404: "There is no such thing, or none that the caller may see.",
    405: "The path has no such method; Allow has those that it has.",
    409: "What the request is about is not as the caller saw it any more.",
    412: "It was changed meanwhile: If-Match names another version.",
    413: "The request is larger than is taken.",
    415: "The body is declared as something else than JSON.",
    422: "The request can be read, and cannot be carried out as it is. The sentence says why.",
    428: "If-Match is needed: the ETag of what is changed.",
    429: "Too many requests. Retry-After says when to ask again; where the gateway answers, wait for a second.",
    500: "This failed on our side. Where the gateway answers, it may have been done all the same.",
    503: "This cannot be answered just now. Retry-After says when to ask again; where the gateway answers, wait for a "
    "few seconds, and it may have been done all the same.",
    504: "This took too long, and may have been done all the same.",
}


class Problem(BaseModel):
    """A problem (RFC 9457), of the type `about:blank`: the status says what kind it is."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(default="about:blank", pattern="^about:blank$")
    title: str
    status: int
    detail: str
    """A sentence for people."""


class GatewayAnswer(BaseModel):
    """What the gateway says by itself."""

    message: str


class ForbiddenError(RejectedRequestError):
    """The caller may not do this."""


class NotFoundError(RejectedRequestError):
    """What the request names does not exist."""


class ConflictError(RejectedRequestError):
    """What the request is about is not as the caller saw it any more."""


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Response[str]:
    """The answer."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return Response(status, MEDIA_TYPE, body.model_dump_json(), headers=dict(headers or {}))


def problem_response(status: int) -> dict[str, Any]:
    """How an OpenAPI document tells of a problem."""
    content = {
        media_type: {"schema": {"$ref": f"#/components/schemas/{form['model'].__name__}"}}
        for media_type, form in _content(status, ours=True).items()
    }
    return {"description": SENTENCES[status], "content": content}


def responses(success: Mapping[int, tuple[Any, str]], *problems: int) -> dict[int, OpenAPIResponse]:
    """What a route may answer, for its description: models (None: no body) and sentences by status, and problems.

    Those that every route may answer, and the gateway in its place, need not be named.
    """
    found: dict[int, Any] = {
        status: {"description": sentence, "content": {"application/json": {"model": model}} if model else {}}
        for status, (model, sentence) in success.items()
    }
    ours = {*problems, *BY_EVERY_ROUTE}
    for status in sorted({*ours, *BY_THE_GATEWAY}):
        found[status] = {"description": SENTENCES[status], "content": _content(status, ours=status in ours)}
        if status in {429, 503}:
            found[status]["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
        elif status == 401:
            told = "What is wrong with the token (RFC 6750)."
            found[status]["headers"] = {"WWW-Authenticate": {"description": told, "schema": {"type": "string"}}}
    return found


def _content(status: int, *, ours: bool) -> dict[str, dict[str, type[BaseModel]]]:
    """The forms of a status, by their media types."""
    found: dict[str, dict[str, type[BaseModel]]] = {}
    if ours:
        found[MEDIA_TYPE] = {"model": Problem}
    if status in BY_THE_GATEWAY:
        found[GATEWAY_MEDIA_TYPE] = {"model": GatewayAnswer}
    return found
