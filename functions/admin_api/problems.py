"""What the API answers where it does not do what was asked: `application/problem+json` (RFC 9457), with a sentence."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.types import OpenAPIResponse
from pydantic import BaseModel, ConfigDict, Field

from counterfoil.errors import RejectedRequestError

MEDIA_TYPE = "application/problem+json"

SENTENCES = {
    400: "The body is not JSON, or no text at all.",
    401: "There is no valid token. The gateway answers, in its own form.",
    403: "The token's groups do not allow it.",
    404: "There is no such thing, or none that the caller may see.",
    405: "The path has no such method; Allow has those that it has.",
    409: "What the request is about is not as the caller saw it any more.",
    413: "The request is larger than is taken.",
    415: "The body is declared as something else than JSON.",
    422: "The request can be read, and cannot be carried out as it is. The sentence says why.",
    429: "Too many requests. Retry-After says when to ask again.",
    500: "This failed on our side.",
    503: "This cannot be answered just now. Retry-After says when to ask again.",
}


class Problem(BaseModel):
    """A problem (RFC 9457), of the type `about:blank`: the status says what kind it is."""

    model_config = ConfigDict(extra="forbid")

    type: str = Field(default="about:blank", pattern="^about:blank$")
    title: str
    status: int
    detail: str
    """A sentence for people."""


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
    schema = {"$ref": f"#/components/schemas/{Problem.__name__}"}
    return {"description": SENTENCES[status], "content": {MEDIA_TYPE: {"schema": schema}}}


def responses(success: Mapping[int, tuple[Any, str]], *problems: int) -> dict[int, OpenAPIResponse]:
    """What a route may answer, for its description: models (None: no body) and sentences by status, and problems.

    Those that every route may answer (no token, no role, no database) need not be named.
    """
    found: dict[int, Any] = {
        status: {"description": sentence, "content": {"application/json": {"model": model}} if model else {}}
        for status, (model, sentence) in success.items()
    }
    for status in sorted({*problems, 401, 403, 500, 503}):
        content = {"application/json": {"schema": {"type": "object"}}} if status == 401 else {MEDIA_TYPE: _PROBLEM}
        found[status] = {"description": SENTENCES[status], "content": content}
        if status in {429, 503}:
            found[status]["headers"] = {"Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}}}
    return found


_PROBLEM = {"model": Problem}
