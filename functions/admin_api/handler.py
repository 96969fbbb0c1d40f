"""Lambda handler of the HTTP API and the console.

It provides the routes, problem responses and the OpenAPI description. Only the console is served without a token.
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
from counterfoil.operations.store import OperationNotFoundError, OperationStateError
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
    exports,
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
from functions.admin_api.auth import RateLimitedError, UnauthorizedError, verify_token
from functions.admin_api.endpoint import DESCRIPTION, Routes, charge_reads
from functions.admin_api.http import (
    NOT_AN_OBJECT,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    PreconditionRequiredError,
    UnreadableError,
    add_etag,
    normalize_body,
    problem,
    problem_response,
    read_json,
    responses,
)

logger = Logger()
api = APIGatewayHttpResolver(
    enable_validation=True,
    response_validation_error_http_code=500,
    json_body_deserializer=read_json,
    serializer=partial(json.dumps, separators=(",", ":"), ensure_ascii=False),  # Lambda limits the response size
)
api.use(middlewares=[charge_reads])

about = Routes()


@about.get(
    DESCRIPTION,
    summary="Show the OpenAPI description",
    tags=["about"],
    responses=responses({200: (dict[str, Any], "The OpenAPI 3.1 description.")}, 422),
)
def openapi() -> Response[dict[str, Any]]:
    """Return the OpenAPI description of the API."""
    return Response(200, content_types.APPLICATION_JSON, document())


RESOURCES = (
    *(tasks, chat, reviews, dead_letters, exports, queues, operations, documents, uploads, clusters),
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
"""Default headers of API responses, which are private and are not web pages."""


def handle(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Return the response to one request. Only the console's routes require no token."""
    if event["routeKey"] in console.ROUTES:
        return console.console().respond(event, settings())
    try:
        request = normalize_body(verify_token(event, settings().oidc, datetime.now(UTC)))
        response = add_etag(request, api.resolve(request, context))
    except UnauthorizedError as error:
        response = _to_gateway(_reject_token(error))
    except UnreadableError as error:
        response = _to_gateway(_reject(error.status, error))
    body = response["body"] or ""  # the local gateway fails on null, which is the body of 204 and 304
    return {**response, "headers": {**_HEADERS, **response["headers"]}, "body": body}


def _to_gateway(response: Response[str]) -> dict[str, Any]:
    return {"statusCode": response.status_code, "headers": response.headers, "body": response.body}


# -- problems ---------------------------------------------------------------------------------------------------------

RETRY_AFTER_SECONDS = 5
_INTERNAL = "Internal error."
_STATUS: dict[type[CounterfoilError], int] = {
    ForbiddenError: 403,
    NotFoundError: 404,
    SessionNotFoundError: 404,
    DeadLetterNotFoundError: 404,
    OperationNotFoundError: 404,
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


def _reject(status: int, error: CounterfoilError, headers: dict[str, str] | None = None) -> Response[str]:
    logger.info("refused", status=status, error=safe_message(error, for_log=True))
    decision = error.decision if isinstance(error, ConflictError) else None
    return problem(status, safe_message(error), headers, decision)


def _reject_token(error: UnauthorizedError) -> Response[str]:
    """Return a 401 response with the challenge defined in RFC 6750, section 3."""
    challenge = f'Bearer error="invalid_token", error_description="{safe_message(error)}"'
    return _reject(401, error, {"WWW-Authenticate": challenge})


def _handle_invalid_request(error: RequestValidationError) -> Response[str]:
    """Return a problem for the first validation error.

    Unknown field names are not quoted, because they are external text.
    """
    first = error.errors()[0]
    source, *path = first["loc"]
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] == "string_pattern_mismatch" and {"reason", "notes"} & set(path):
        reason = "it must be one line without control characters"
    if source in {"query", "path"}:
        return _reject(422, RejectedRequestError(f"The parameter {path[0]} is invalid: {reason}."))
    if first["type"] == "json_invalid":
        return _reject(400, UnreadableError(first["ctx"]["error"]))  # from `read_json`
    if first["type"] == "missing" and not path:
        return _reject(400, UnreadableError(NOT_AN_OBJECT))
    field_path = [str(part) for part in path if part in _body_fields()]
    return _reject(422, RejectedRequestError(f"The body is invalid at {'.'.join(field_path) or 'a field'}: {reason}."))


@cache
def _body_fields() -> frozenset[str]:
    """Return the names of all fields of request bodies."""
    schemas = [TypeAdapter(body).json_schema() for routes in ROUTES for body in routes.bodies]
    parts = [part for schema in schemas for part in (schema, *schema.get("$defs", {}).values())]
    return frozenset(name for part in parts for name in part.get("properties", ()))


def _handle_invalid_response(error: ResponseValidationError) -> Response[str]:
    first = error.errors()[0]
    logger.error("failed", error=f"A response does not match its model at {first['loc']}: {first['type']}")
    return problem(500, _INTERNAL)


def _handle_unknown_route(_: NoRouteError) -> Response[str]:
    allowed = methods(document(), api.current_event)
    if allowed:
        return problem(405, f"This path accepts {' and '.join(allowed)}.", {"Allow": ", ".join(allowed)})
    return problem(404, "There is no such path.")


def _handle_rate_limit(error: RateLimitedError | RetryLaterError) -> Response[str]:
    return _reject(429, error, {"Retry-After": str(error.retry_after)})


def _handle_unavailable(error: TransientError) -> Response[str]:
    logger.warning("unavailable", error=safe_message(error, for_log=True))
    return problem(503, "Temporarily unavailable. Retry later.", {"Retry-After": str(RETRY_AFTER_SECONDS)})


def _handle_failure(error: PermanentError) -> Response[str]:
    logger.error("failed", error=safe_message(error, for_log=True))
    return problem(500, _INTERNAL)


_HANDLERS: dict[type[Exception], Callable[[Any], Response[str]]] = {
    **{error: partial(_reject, status) for error, status in _STATUS.items()},
    RequestValidationError: _handle_invalid_request,
    ResponseValidationError: _handle_invalid_response,
    NoRouteError: _handle_unknown_route,
    RateLimitedError: _handle_rate_limit,
    RetryLaterError: _handle_rate_limit,
    TransientError: _handle_unavailable,
    PermanentError: _handle_failure,
}
for exception, error_handler in _HANDLERS.items():
    api.exception_handler(exception)(error_handler)


# -- OpenAPI description ----------------------------------------------------------------------------------------------

VERSION = "1"
"""Version of the API under `/api`."""
ABOUT = (
    "Upload documents, review matches, submit tasks and manage dead letters. Requests require an ID token (JWT) from "
    "the deployment's issuer. The token's groups are a role (`viewer`, `operator` or `admin`), and `tenant:{slug}` for "
    "each tenant or `tenant:*` for all tenants. Errors are problem details (RFC 9457, application/problem+json), or "
    '`{"message"}` from the gateway (application/json). Requests with the same `idempotency_key` create only one task, '
    "so they can be repeated safely if there is no response or the status is 500 or higher."
)
_REPLACED = ("HTTPValidationError", "ValidationError", "ResponseValidationError")
"""Powertools models that are replaced by our own."""


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
    description: dict[str, Any] = json.loads(api.get_openapi_json_schema())
    for path, path_item in description["paths"].items():
        for method, operation in path_item.items():
            operation["operationId"] = operation["operationId"].removesuffix(re.sub(r"\W", "_", path) + f"_{method}")
            operation["responses"] = {
                status: response
                for status, response in sorted(operation["responses"].items())
                if not any(name in json.dumps(response) for name in _REPLACED)
            } | {"500": problem_response(500)}
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
                if parameter["in"] == "header":
                    parameter["name"] = parameter["name"].title()  # Powertools looks for headers in lower case
            for body in operation.get("requestBody", {}).get("content", {}).values():
                body["schema"] = _without_null(body["schema"])
            if method == "get" and "application/json" in operation["responses"]["200"].get("content", {}):
                _describe_condition(operation)
    for name in _REPLACED:
        description["components"]["schemas"].pop(name, None)
    return description


def _describe_condition(operation: dict[str, Any]) -> None:
    """Describe the ETag, If-None-Match and status 304 of a GET (see `http.add_etag`)."""
    tag = {"description": "Version or hash of the response.", "schema": {"type": "string"}}
    operation["responses"]["200"].setdefault("headers", {}).setdefault("ETag", tag)
    operation["responses"].setdefault("304", {"description": "Unchanged: `If-None-Match` contains the current ETag."})
    parameters = operation.setdefault("parameters", [])
    if not any(parameter["name"] == "If-None-Match" for parameter in parameters):
        header = {"description": "ETag of a previous response.", "schema": {"type": "string"}}
        parameters.append({"name": "If-None-Match", "in": "header", "required": False, **header})


def methods(document: dict[str, Any], event: APIGatewayProxyEventV2) -> list[str]:
    """Return a path's methods if they do not include the request's method.

    Otherwise, the result is an empty list.
    """
    paths = document["paths"]
    path_items = (
        [paths[event.path]]
        if event.path in paths
        else [
            operations
            for template, operations in paths.items()
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), event.path)
        ]
    )
    supported = {method.upper() for operations in path_items for method in operations}
    return [] if event.http_method in supported else sorted(supported)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from the schema of an optional parameter or body.

    Callers omit the value instead.
    """
    alternatives = [alternative for alternative in schema.get("anyOf", ()) if alternative != {"type": "null"}]
    rest = {name: value for name, value in schema.items() if name != "anyOf"}
    return rest | (alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives} if alternatives else {})
