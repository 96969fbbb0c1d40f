"""Lambda handler of the HTTP API and the console: routes, problems and the OpenAPI description.

Only the console is served without a token.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response, content_types
from aws_lambda_powertools.event_handler.exceptions import NotFoundError as NoRouteError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError, ResponseValidationError
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2
from aws_lambda_powertools.utilities.typing import LambdaContext
from pydantic import TypeAdapter

from counterfoil.dead_letters.actions import (
    DeadLetterNotFoundError,
    NotPendingError,
    NotRetryableError,
    PayloadNotEditableError,
)
from counterfoil.dead_letters.export import TooManyExportsError
from counterfoil.errors import (
    CounterfoilError,
    PermanentError,
    RejectedRequestError,
    TransientError,
    VersionConflictError,
    safe_message,
)
from counterfoil.offers.profiles import ProfileChangedError
from counterfoil.operations.store import NoOperationError, OperationStateError
from counterfoil.queues import PauseConflictError
from counterfoil.settings import settings
from counterfoil.tasks.chat import SessionNotFoundError
from counterfoil.tasks.payloads import TooLargeError
from counterfoil.tasks.store import IdempotencyKeyConflictError, TaskFinishedError
from counterfoil.tasks.task_type import InvalidPayloadError, RetryLaterError
from functions.admin_api import console
from functions.admin_api.api import (
    chat,
    clusters,
    dead_letters,
    destinations,
    documents,
    erasure,
    exporting,
    mail,
    offers,
    operations,
    people,
    queues,
    reviews,
    tasks,
    tenants,
    tolerances,
    uploads,
    users,
)
from functions.admin_api.auth import RateLimitedError, UnauthorizedError, verified
from functions.admin_api.endpoint import DESCRIPTION, Routes, count_reads
from functions.admin_api.http import (
    NO_OBJECT,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    PreconditionRequiredError,
    UnreadableError,
    conditional,
    problem,
    problem_response,
    read_json,
    readable,
    responses,
)

logger = Logger()
api = APIGatewayHttpResolver(
    enable_validation=True,
    response_validation_error_http_code=500,
    json_body_deserializer=read_json,
    serializer=partial(json.dumps, separators=(",", ":"), ensure_ascii=False),  # Lambda limits the bytes of a response
)
api.use(middlewares=[count_reads])

about = Routes()


@about.get(
    DESCRIPTION,
    summary="This document",
    tags=["about"],
    responses=responses({200: (dict[str, Any], "OpenAPI 3.1.")}, 422),
)
def openapi() -> Response[dict[str, Any]]:
    """Return the OpenAPI description of the API."""
    return Response(200, content_types.APPLICATION_JSON, document())


RESOURCES = (
    *(tasks, chat, reviews, dead_letters, exporting, queues, operations, documents, uploads, clusters),
    *(users, offers, tenants, destinations, tolerances, people, mail, erasure),
)
ROUTES = (about, *(resource.routes for resource in RESOURCES))
for routes in ROUTES:
    api.include_router(routes)


_YEAR = 365 * 24 * 60 * 60
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Strict-Transport-Security": f"max-age={_YEAR}",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Default headers of API responses: they are private, and not pages."""


def handle(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request. Only the console's routes are answered without a token."""
    if event["routeKey"] in console.ROUTES:
        return console.console().answer(event, settings())
    try:
        asked = readable(verified(event, settings().oidc, datetime.now(UTC)))
        answer = conditional(asked, api.resolve(asked, context))
    except UnauthorizedError as error:
        answer = _plain(_unauthorized(error))
    except UnreadableError as error:
        answer = _plain(_refused(error.status, error))
    body = answer["body"] or ""  # the local gateway fails on null, which is the body of 204 and 304
    return {**answer, "headers": {**_HEADERS, **answer["headers"]}, "body": body}


def _plain(refused: Response[str]) -> dict[str, Any]:
    return {"statusCode": refused.status_code, "headers": refused.headers, "body": refused.body}


# -- problems ---------------------------------------------------------------------------------------------------------

RETRY_AFTER_SECONDS = 5
_INTERNAL = "Internal error."
_STATUS: dict[type[CounterfoilError], int] = {
    ForbiddenError: 403,
    NotFoundError: 404,
    SessionNotFoundError: 404,
    DeadLetterNotFoundError: 404,
    NoOperationError: 404,
    ConflictError: 409,
    IdempotencyKeyConflictError: 409,
    TaskFinishedError: 409,
    NotPendingError: 409,
    NotRetryableError: 409,
    PayloadNotEditableError: 409,
    TooManyExportsError: 409,
    OperationStateError: 409,
    VersionConflictError: 412,
    PauseConflictError: 412,
    ProfileChangedError: 412,
    TooLargeError: 413,
    InvalidPayloadError: 422,
    PreconditionRequiredError: 428,
    RejectedRequestError: 422,
}
"""Response status of each error class, for all routes. The nearest base class applies."""


def _refused(status: int, error: CounterfoilError, headers: dict[str, str] | None = None) -> Response[str]:
    logger.info("refused", status=status, error=safe_message(error, for_log=True))
    return problem(status, safe_message(error), headers)


def _unauthorized(error: UnauthorizedError) -> Response[str]:
    """Return 401 with the challenge of RFC 6750, section 3."""
    challenge = f'Bearer error="invalid_token", error_description="{safe_message(error)}"'
    return _refused(401, error, {"WWW-Authenticate": challenge})


def _invalid(error: RequestValidationError) -> Response[str]:
    """Return the first validation error. Unknown field names are text from the sender and are not quoted."""
    first = error.errors()[0]
    where, *place = first["loc"]
    says = first["msg"].removeprefix("Value error, ")
    if first["type"] == "string_pattern_mismatch" and {"reason", "notes"} & set(place):
        says = "it must be one line without control characters"
    if where in {"query", "path"}:
        return _refused(422, RejectedRequestError(f"The parameter {place[0]} is wrong: {says}."))
    if first["type"] == "json_invalid":
        return _refused(400, UnreadableError(first["ctx"]["error"]))  # from `read_json`
    if first["type"] == "missing" and not place:
        return _refused(400, UnreadableError(NO_OBJECT))
    known = [str(part) for part in place if part in _body_fields()]
    return _refused(422, RejectedRequestError(f"The body is wrong at {'.'.join(known) or 'a field'}: {says}."))


@cache
def _body_fields() -> frozenset[str]:
    """Return the names of all fields of request bodies."""
    schemas = [TypeAdapter(body).json_schema() for routes in ROUTES for body in routes.bodies]
    parts = [part for schema in schemas for part in (schema, *schema.get("$defs", {}).values())]
    return frozenset(name for part in parts for name in part.get("properties", ()))


def _broken_promise(error: ResponseValidationError) -> Response[str]:
    first = error.errors()[0]
    logger.error("failed", error=f"A response does not match its model at {first['loc']}: {first['type']}")
    return problem(500, _INTERNAL)


def _no_route(_: NoRouteError) -> Response[str]:
    allowed = methods(document(), api.current_event)
    if allowed:
        return problem(405, f"This path accepts {' and '.join(allowed)}.", {"Allow": ", ".join(allowed)})
    return problem(404, "There is no such path.")


def _too_many(error: RateLimitedError | RetryLaterError) -> Response[str]:
    return _refused(429, error, {"Retry-After": str(error.retry_after)})


def _unavailable(error: TransientError) -> Response[str]:
    logger.warning("unavailable", error=safe_message(error, for_log=True))
    return problem(503, "Temporarily unavailable. Retry later.", {"Retry-After": str(RETRY_AFTER_SECONDS)})


def _failed(error: PermanentError) -> Response[str]:
    logger.error("failed", error=safe_message(error, for_log=True))
    return problem(500, _INTERNAL)


_HANDLERS: dict[type[Exception], Callable[[Any], Response[str]]] = {
    **{error: partial(_refused, status) for error, status in _STATUS.items()},
    RequestValidationError: _invalid,
    ResponseValidationError: _broken_promise,
    NoRouteError: _no_route,
    RateLimitedError: _too_many,
    RetryLaterError: _too_many,
    TransientError: _unavailable,
    PermanentError: _failed,
}
for exception, answered in _HANDLERS.items():
    api.exception_handler(exception)(answered)


# -- OpenAPI description ----------------------------------------------------------------------------------------------

VERSION = "1"
"""Version of the API under `/api`."""
ABOUT = (
    "Upload documents, review matches, submit tasks and manage dead letters. Requests require an ID token (JWT) of the "
    "deployment's issuer. Its groups are a role (`viewer`, `operator` or `admin`), and `tenant:{slug}` for each tenant "
    "or `tenant:*` for all tenants. Errors are problem details (RFC 9457, application/problem+json), or "
    '`{"message"}` from the gateway (application/json). Requests with the same `idempotency_key` create only one task, '
    "so retry them if there is no response or its status is 500 or higher."
)
_REPLACED = ("HTTPValidationError", "ValidationError", "ResponseValidationError")
"""Models of Powertools that ours replace."""


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of the API."""
    return build_openapi(api)


def build_openapi(api: APIGatewayHttpResolver) -> dict[str, Any]:
    """Return the description that Powertools generates, with corrections."""
    from aws_lambda_powertools.event_handler.openapi.models import HTTPBearer  # slow to import and rarely used

    api.configure_openapi(
        title="Counterfoil",
        version=VERSION,
        description=ABOUT,
        security_schemes={"token": HTTPBearer(bearerFormat="JWT")},
        security=[{"token": []}],
    )
    found: dict[str, Any] = json.loads(api.get_openapi_json_schema())
    for path, of_path in found["paths"].items():
        for method, operation in of_path.items():
            operation["operationId"] = operation["operationId"].removesuffix(re.sub(r"\W", "_", path) + f"_{method}")
            operation["responses"] = {
                status: answer
                for status, answer in sorted(operation["responses"].items())
                if not any(name in json.dumps(answer) for name in _REPLACED)
            } | {"500": problem_response(500)}
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _not_null(parameter["schema"])
                if parameter["in"] == "header":
                    parameter["name"] = parameter["name"].title()  # Powertools looks for headers in lower case
            for body in operation.get("requestBody", {}).get("content", {}).values():
                body["schema"] = _not_null(body["schema"])
            if method == "get" and "application/json" in operation["responses"]["200"].get("content", {}):
                _describe_condition(operation)
    for name in _REPLACED:
        found["components"]["schemas"].pop(name, None)
    return found


def _describe_condition(operation: dict[str, Any]) -> None:
    """Describe the ETag of a GET and 304 (see `http.conditional`)."""
    tag = {"description": "Version or hash of the response.", "schema": {"type": "string"}}
    operation["responses"]["200"].setdefault("headers", {}).setdefault("ETag", tag)
    operation["responses"].setdefault("304", {"description": "Unchanged: `If-None-Match` contains the current ETag."})
    parameters = operation.setdefault("parameters", [])
    if not any(parameter["name"] == "If-None-Match" for parameter in parameters):
        known = {"description": "ETag of a previous response.", "schema": {"type": "string"}}
        parameters.append({"name": "If-None-Match", "in": "header", "required": False, **known})


def methods(document: dict[str, Any], asked: APIGatewayProxyEventV2) -> list[str]:
    """Return the methods of a path if it does not support the requested one; empty for an unknown path."""
    paths = document["paths"]
    named = (
        [paths[asked.path]]
        if asked.path in paths
        else [
            operations
            for template, operations in paths.items()
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), asked.path)
        ]
    )
    found = {method.upper() for operations in named for method in operations}
    return [] if asked.http_method in found else sorted(found)


def _not_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from the schema of an optional parameter or body. Callers omit it instead."""
    given = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return rest | (given[0] if len(given) == 1 else {"anyOf": given} if given else {})
