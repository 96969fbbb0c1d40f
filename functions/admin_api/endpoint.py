"""Endpoints: registration of routes, common parameters, and the current request.

This module is separate from `http` to avoid a circular import: it imports `auth`, which imports `http`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, wraps
from inspect import Parameter, signature
from typing import Annotated, Any, Protocol, TypeVar, cast

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response, content_types
from aws_lambda_powertools.event_handler.middlewares import NextMiddleware
from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Path, Query
from aws_lambda_powertools.event_handler.openapi.types import OpenAPIResponseHeader
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from pydantic import StringConstraints

from counterfoil.db import Database
from counterfoil.dead_letters.actions import MAX_NOTE_CHARS
from counterfoil.errors import RejectedRequestError
from counterfoil.settings import settings
from counterfoil.validation import SLUG, UNASSIGNED
from functions.admin_api.auth import Caller, RateLimiter, ReadTokens, Request, TenantSlug
from functions.admin_api.http import etag, is_current

Route = TypeVar("Route", bound=Callable[..., Any])

PAGE, MAX_PAGE = 20, 100
DESCRIPTION = "/api/openapi.json"
Id = Annotated[str, Path(json_schema_extra={"format": "uuid"})]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Maximum number of items.")]
Cursor = Annotated[str | None, Query(description="`next_cursor` of the previous page.")]
OneTenant = Annotated[TenantSlug | None, Query(description="Slug of a tenant.")]
TenantPath = Annotated[TenantSlug, Path(description="Slug of the tenant.")]
TenantOrUnassigned = Annotated[
    Annotated[str, StringConstraints(pattern=f"^(?:{UNASSIGNED}|{SLUG})$")] | None,
    Query(description="Slug of a tenant, or `-` for unassigned data, which requires access to all tenants."),
]
Note = Annotated[
    str,
    StringConstraints(min_length=1, max_length=MAX_NOTE_CHARS, strip_whitespace=True, pattern=r"^[^\x00-\x1f\x7f]*$"),
]
"""Reason for a change, for the audit trail."""
IfMatch = Annotated[str | None, Header(alias="If-Match", description="ETag of the version that you read. Required.")]
IfNoneMatch = Annotated[str | None, Header(alias="If-None-Match", description="ETag of a previous response.")]
VERSIONED: dict[str, OpenAPIResponseHeader] = {
    "ETag": {"description": "Current version of the resource.", "schema": {"type": "string"}}
}
"""OpenAPI description of the ETag header."""


class Routes(APIGatewayHttpRouter):
    """Routes of one resource.

    A function with a parameter `request` gets the current Request. Unknown query parameters are rejected, because a
    misspelled filter would return everything.
    """

    def __init__(self) -> None:
        """Create an empty router."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.bodies: list[Any] = []
        """Types of request bodies."""

    def route(self, *args: Any, **kwargs: Any) -> Callable[[Route], Route]:
        """Register a function for a path and methods, like the base class."""
        register = super().route(*args, **kwargs)

        def decorate(function: Route) -> Route:
            declared = signature(function)
            parameters = [one for name, one in declared.parameters.items() if name != "request"]
            takes_request = len(parameters) < len(declared.parameters)
            known = {one.alias or name for name, _, one in _metadata(parameters) if isinstance(one, Query)}
            self.bodies += [annotation for _, annotation, one in _metadata(parameters) if isinstance(one, Body)]

            @wraps(function)
            def checked(**values: Any) -> Any:
                unknown = (self.current_event.query_string_parameters or {}).keys() - known
                if unknown:
                    raise RejectedRequestError(f"Unknown query parameter: {min(unknown)!r}.")
                return function(request(), **values) if takes_request else function(**values)

            checked.__signature__ = declared.replace(parameters=parameters)  # type: ignore[attr-defined]
            return cast("Route", register(checked))

        return decorate


def _metadata(parameters: Iterable[Parameter]) -> Iterator[tuple[str, Any, object]]:
    """Yield names, types and metadata of annotated parameters."""
    for parameter in parameters:
        for one in getattr(parameter.annotation, "__metadata__", ()):
            yield parameter.name, parameter.annotation, one


_current = Routes()
"""Router without routes, which only provides access to the current event."""


@cache
def database() -> Database:
    """Return the connection pool.

    It has one connection, because a process serves one request at a time.
    """
    return Database.from_settings(settings(), max_connections=1)


def caller() -> Caller:
    """Return the caller of the current request."""
    authorizer = _current.current_event.request_context.authorizer
    return Caller.from_claims((authorizer.jwt_claim if authorizer else None) or {})


def request() -> Request:
    """Return the current request."""
    remaining = _current.lambda_context.get_remaining_time_in_millis
    changes = RateLimiter(settings().rate_limit_per_second, settings().rate_limit_burst)
    return Request(caller(), database(), database().now(), changes, lambda: remaining() / 1000)


read_tokens = ReadTokens()


def charge_reads(app: APIGatewayHttpResolver, next_middleware: NextMiddleware) -> Response[Any]:
    """Charge a read to the rate limit before its route runs.

    `Request.admit` charges changes.
    """
    event = app.current_event
    if event.http_method != "GET" or event.path == DESCRIPTION:
        return next_middleware(app)
    limiter = RateLimiter(settings().reads_per_second, settings().reads_at_once, "read")
    with read_tokens.admit(caller(), database(), limiter):
        return next_middleware(app)


class Versioned(Protocol):
    """A response body with a version."""

    version: int


def json_response(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response[Any]:
    """Return a JSON response."""
    return Response(status, content_types.APPLICATION_JSON, body, dict(headers or {}))


def private_headers(version: int | str) -> dict[str, str]:
    """Return the headers of a response that only its caller may cache."""
    return {"ETag": etag(version), "Cache-Control": "private, no-cache", "Vary": "Authorization"}


def json_response_if_changed(if_none_match: str | None, body: Any, version: int | str) -> Response[Any]:
    """Return a JSON response with the ETag of `version`, or 304 if it is unchanged."""
    headers = private_headers(version)
    return Response(304, headers=headers) if is_current(if_none_match, version) else json_response(200, body, headers)


def versioned_response(body: Versioned, status: int = 200) -> Response[Any]:
    """Return a JSON response with the ETag of its version."""
    return json_response(status, body, {"ETag": etag(body.version), "Cache-Control": "no-store"})
