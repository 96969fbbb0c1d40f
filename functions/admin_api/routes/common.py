"""What routes have in common: their usual parameters, who asks, the database, and how an answer is given."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from inspect import signature
from typing import Annotated, Any, TypeVar, cast

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response, content_types
from aws_lambda_powertools.event_handler.middlewares import NextMiddleware
from aws_lambda_powertools.event_handler.openapi.params import Header, Path, Query
from aws_lambda_powertools.event_handler.openapi.types import OpenAPIResponseHeader
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter
from pydantic import StringConstraints

from counterfoil.db import Database
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Send
from counterfoil.settings import settings
from functions.admin_api import tasks
from functions.admin_api.allowance import Allowance, Change, Reads
from functions.admin_api.caller import Caller
from functions.admin_api.request import only
from functions.admin_api.tenancy import Somebody

Route = TypeVar("Route", bound=Callable[..., Any])

PAGE, LONGEST_PAGE = 20, 100
DESCRIPTION = "/api/openapi.json"
Id = Annotated[str, Path(json_schema_extra={"format": "uuid"})]
Limit = Annotated[int, Query(ge=1, le=LONGEST_PAGE, description="How many, at most.")]
Cursor = Annotated[str | None, Query(description="`next` of the page before.")]
OneTenant = Annotated[Somebody | None, Query(description="A tenant's slug.")]
TenantOrNobody = Annotated[
    Annotated[str, StringConstraints(pattern="^(?:-|[a-z0-9][a-z0-9-]{0,62})$")] | None,
    Query(description="A tenant's slug; `-` for what is nobody's, which is for those who are of all tenants."),
]
IfMatch = Annotated[str | None, Header(alias="If-Match", description="The ETag of what is changed, as seen; needed.")]
IfNoneMatch = Annotated[str | None, Header(alias="If-None-Match", description="The ETag of before.")]
VERSIONED: dict[str, OpenAPIResponseHeader] = {"ETag": {"description": "Its version.", "schema": {"type": "string"}}}
"""Headers of an answer, as the description has them."""


class Routes(APIGatewayHttpRouter):
    """The routes of one module. Each refuses query parameters that its function does not have."""

    def __init__(self) -> None:
        """Without routes."""
        super().__init__()  # type: ignore[no-untyped-call]

    def route(self, *args: Any, **kwargs: Any) -> Callable[[Route], Route]:
        """Register a function for a path and methods, as Powertools does."""
        register = super().route(*args, **kwargs)

        def decorate(function: Route) -> Route:
            known = _query_parameters(function)

            @wraps(function)
            def checked(**parameters: Any) -> Any:
                only(self.current_event.query_string_parameters, *known)
                return function(**parameters)

            return cast("Route", register(checked))

        return decorate


def _query_parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of a route's query parameters in a URL."""
    return [
        one.alias or name
        for name, parameter in signature(function).parameters.items()
        for one in getattr(parameter.annotation, "__metadata__", ())
        if isinstance(one, Query)
    ]


_asked = Routes()
"""Has no routes: it knows the request that is being answered."""


@cache
def database() -> Database:
    """The process's connections: one request at a time needs one."""
    return Database.from_settings(settings(), max_connections=1)


def caller() -> Caller:
    """Who asks."""
    authorizer = _asked.current_event.request_context.authorizer
    return Caller.of((authorizer.jwt_claim if authorizer else None) or {})


def change() -> Change:
    """What goes before everything that changes something."""
    allowance = Allowance(settings().changes_per_second, settings().changes_at_once)
    return Change(caller(), database().now(), database(), allowance, send)


reads_of_process = Reads()


def count_reads(app: APIGatewayHttpResolver, next_middleware: NextMiddleware) -> Response[Any]:
    """Take tokens for a read before its route runs. Changes take theirs in `change`."""
    asked = app.current_event
    if asked.http_method != "GET" or asked.path == DESCRIPTION:
        return next_middleware(app)
    allowance = Allowance(settings().reads_per_second, settings().reads_at_once, "read")
    with reads_of_process.admitted(caller(), database(), allowance):
        return next_middleware(app)


def send(sends: Sequence[Send]) -> None:
    """Send messages after their commit. The watchdog sends the others."""
    if sends:
        where = desk()
        where.outbox.send(sends, time_left=where.time_left)


def desk() -> tasks.Desk:
    """Where tasks are handed in."""
    outbox = Outbox(database(), settings().queue_urls, settings().retry_queue_urls)
    left = _asked.lambda_context.get_remaining_time_in_millis
    return tasks.Desk(database(), outbox, settings(), lambda: left() / 1000)


def answer(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response[Any]:
    """JSON."""
    return Response(status, content_types.APPLICATION_JSON, body, dict(headers or {}))
