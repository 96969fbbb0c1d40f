"""Which problem each error is answered with; what is on record of it, and what the caller is told."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError as NoRouteError
from aws_lambda_powertools.event_handler.openapi.exceptions import RequestValidationError, ResponseValidationError
from pydantic import BaseModel

from counterfoil.dead_letters.actions import NoLetterError, NotPendingError, NotRetriableError
from counterfoil.dead_letters.edits import NotEditableError
from counterfoil.dead_letters.exports import TooManyExportsError
from counterfoil.errors import (
    CounterfoilError,
    PermanentError,
    RejectedRequestError,
    TransientError,
    VersionError,
    sentence,
)
from counterfoil.offers.profiles import ProfileChangedError
from counterfoil.operations.store import NoOperationError, OperationStateError
from counterfoil.queues import PauseConflictError
from counterfoil.tasks.chat import SessionNotFoundError
from counterfoil.tasks.payloads import TooLargeError
from counterfoil.tasks.store import EndedError, KeyTakenError
from counterfoil.tasks.task_type import InvalidPayloadError, RetryLaterError
from functions.admin_api.allowance import TooManyError
from functions.admin_api.claims import UnauthorizedError
from functions.admin_api.etags import NoConditionError
from functions.admin_api.problems import ConflictError, ForbiddenError, NotFoundError, problem
from functions.admin_api.request import NO_OBJECT, UnreadableError

RETRY_AFTER_SECONDS = 5
_OURS = "This failed on our side."
_STATUS: dict[type[CounterfoilError], int] = {
    ForbiddenError: 403,
    NotFoundError: 404,
    SessionNotFoundError: 404,
    NoLetterError: 404,
    NoOperationError: 404,
    ConflictError: 409,
    KeyTakenError: 409,
    EndedError: 409,
    NotPendingError: 409,
    NotRetriableError: 409,
    NotEditableError: 409,
    TooManyExportsError: 409,
    OperationStateError: 409,
    VersionError: 412,
    PauseConflictError: 412,
    ProfileChangedError: 412,
    TooLargeError: 413,
    InvalidPayloadError: 422,
    NoConditionError: 428,
    RejectedRequestError: 422,
}
"""The nearest class of an error decides."""

logger = Logger()


def register(api: APIGatewayHttpResolver, forms: Sequence[type[BaseModel]], allowed: Callable[[], list[str]]) -> None:
    """Have every error answered. `forms`: of bodies; `allowed()`: the methods of the path that is asked for."""
    fields = frozenset(name for form in forms for name in form.model_fields)
    handlers: dict[type[Exception], Callable[[Any], Response[str]]] = {
        **{error: partial(refused, status) for error, status in _STATUS.items()},
        RequestValidationError: partial(_not_in_form, fields),
        ResponseValidationError: _not_as_promised,
        NoRouteError: lambda _: _no_route(allowed()),
        TooManyError: _too_many,
        RetryLaterError: _too_many,
        TransientError: _later,
        PermanentError: _broken,
    }
    for error, handler in handlers.items():
        api.exception_handler(error)(handler)


def refused(status: int, error: CounterfoilError, headers: dict[str, str] | None = None) -> Response[str]:
    """The answer to what is not done because of what was asked."""
    logger.info("refused", status=status, error=sentence(error, for_log=True))
    return problem(status, sentence(error), headers)


def unauthorized(error: UnauthorizedError) -> Response[str]:
    """The answer to a request without a token that is taken (RFC 6750, 3)."""
    says = f'Bearer error="invalid_token", error_description="{sentence(error)}"'
    return refused(401, error, {"WWW-Authenticate": says})


def _not_in_form(fields: frozenset[str], error: RequestValidationError) -> Response[str]:
    """Say what is wrong first. Of a body, only a field that we know is quoted: any other is the sender's text."""
    first = error.errors()[0]
    where, *place = first["loc"]
    says = first["msg"].removeprefix("Value error, ")
    if first["type"] == "string_pattern_mismatch" and {"reason", "notes"} & set(place):
        says = "it takes one line, without control characters"
    if where in {"query", "path"}:
        return refused(422, RejectedRequestError(f"The parameter {place[0]} is wrong: {says}."))
    if first["type"] == "json_invalid":
        return refused(400, UnreadableError(first["ctx"]["error"]))  # of `read_json`
    if first["type"] == "missing" and not place:
        return refused(400, UnreadableError(NO_OBJECT))
    known = [str(part) for part in place if part in fields]
    return refused(422, RejectedRequestError(f"The body is wrong at {'.'.join(known) or 'a field'}: {says}."))


def _not_as_promised(error: ResponseValidationError) -> Response[str]:
    first = error.errors()[0]
    logger.error("failed", error=f"An answer is not in its form at {first['loc']}: {first['type']}")
    return problem(500, _OURS)


def _no_route(allowed: Sequence[str]) -> Response[str]:
    if allowed:
        return problem(405, f"This path takes {' and '.join(allowed)}.", {"Allow": ", ".join(allowed)})
    return problem(404, "There is no such path.")


def _too_many(error: TooManyError | RetryLaterError) -> Response[str]:
    return refused(429, error, {"Retry-After": str(error.retry_after)})


def _later(error: TransientError) -> Response[str]:
    logger.warning("unavailable", error=sentence(error, for_log=True))
    return problem(503, "This cannot be answered just now; ask again.", {"Retry-After": str(RETRY_AFTER_SECONDS)})


def _broken(error: PermanentError) -> Response[str]:
    logger.error("failed", error=sentence(error, for_log=True))
    return problem(500, _OURS)
