"""`/api/admin/dlq`: many dead letters are changed as one operation, which is looked at and steered."""

from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query

from counterfoil.dead_letters.bulk import Result
from functions.admin_api import bulk
from functions.admin_api.bulk import BulkPreview, LetterOperation, LetterOperationItemPage, LetterOperationPage
from functions.admin_api.etags import etag
from functions.admin_api.problems import responses
from functions.admin_api.routes.common import (
    PAGE,
    VERSIONED,
    Cursor,
    Id,
    IfMatch,
    Limit,
    OneTenant,
    answer,
    caller,
    change,
    database,
    only,
    routes_of,
)

routes = routes_of()
FORMS = (bulk.BulkRetry, bulk.BulkResolution, bulk.BulkIgnoring, bulk.BulkFilter)
"""Of bodies."""

_ASKED = responses(
    {
        200: (BulkPreview, "A dry run: what it would be about."),
        202: (LetterOperation, "It is stored, and begins within a minute."),
    },
    *(400, 404, 413, 415, 422, 429),
)
_ASKED[202]["headers"] = VERSIONED
_SHOWN = responses({200: (LetterOperation, "How far it is.")}, 404, 422)
_SHOWN[200]["headers"] = VERSIONED
_STEERED = responses({200: (LetterOperation, "It is done.")}, 404, 409, 412, 413, 422, 428, 429)
_STEERED[200]["headers"] = VERSIONED


@routes.post(
    "/api/admin/dlq/bulk-retry", summary="Try many dead letters again", tags=["dead letters"], responses=_ASKED
)
def retry_dead_letters(asked: Annotated[bulk.BulkRetry, Body()]) -> Response[BulkPreview | LetterOperation]:
    """The works of many dead letters are begun anew, so many a second."""
    only()
    return _asked(bulk.asked("retry", asked, change()))


@routes.post(
    "/api/admin/dlq/bulk-resolve", summary="Resolve many dead letters", tags=["dead letters"], responses=_ASKED
)
def resolve_dead_letters(asked: Annotated[bulk.BulkResolution, Body()]) -> Response[BulkPreview | LetterOperation]:
    """The failures of many dead letters were dealt with in another way."""
    only()
    return _asked(bulk.asked("resolve", asked, change()))


@routes.post("/api/admin/dlq/bulk-ignore", summary="Ignore many dead letters", tags=["dead letters"], responses=_ASKED)
def ignore_dead_letters(asked: Annotated[bulk.BulkIgnoring, Body()]) -> Response[BulkPreview | LetterOperation]:
    """Nothing is done about many dead letters."""
    only()
    return _asked(bulk.asked("ignore", asked, change()))


@routes.get(
    "/api/admin/dlq/operations",
    summary="List operations on dead letters",
    tags=["dead letters"],
    responses=responses({200: (LetterOperationPage, "A page, the newest first.")}, 404, 422),
)
def list_letter_operations(
    tenant: OneTenant = None, cursor: Cursor = None, limit: Limit = PAGE
) -> Response[LetterOperationPage]:
    """A page of a tenant's operations on many dead letters."""
    only("tenant", "cursor", "limit")
    return answer(200, bulk.listed(tenant, cursor, limit, caller(), database()))


@routes.get(
    "/api/admin/dlq/operations/<operation_id>",
    summary="Show an operation on dead letters",
    tags=["dead letters"],
    responses=_SHOWN,
)
def show_letter_operation(operation_id: Id) -> Response[LetterOperation]:
    """How far an operation is."""
    only()
    return _versioned(200, bulk.shown(operation_id, caller(), database()))


@routes.get(
    "/api/admin/dlq/operations/<operation_id>/items",
    summary="List what became of an operation's dead letters",
    tags=["dead letters"],
    responses=responses({200: (LetterOperationItemPage, "A page, in the order of the operation.")}, 404, 422),
)
def list_letter_operation_items(
    operation_id: Id,
    result: Annotated[Result | None, Query(description="Only letters with this result.")] = None,
    cursor: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="`next` of the page before.")] = None,
    limit: Limit = PAGE,
) -> Response[LetterOperationItemPage]:
    """A page of what became of each letter of an operation."""
    only("result", "cursor", "limit")
    return answer(200, bulk.items(operation_id, result, cursor, limit, caller(), database()))


@routes.post(
    "/api/admin/dlq/operations/<operation_id>/pause",
    summary="Pause an operation on dead letters",
    tags=["dead letters"],
    responses=_STEERED,
)
def pause_letter_operation(operation_id: Id, condition: IfMatch = None) -> Response[LetterOperation]:
    """An operation is held. What it has begun goes on."""
    only()
    return _versioned(200, bulk.steered(operation_id, "pause", condition, change()))


@routes.post(
    "/api/admin/dlq/operations/<operation_id>/resume",
    summary="Resume an operation on dead letters",
    tags=["dead letters"],
    responses=_STEERED,
)
def resume_letter_operation(operation_id: Id, condition: IfMatch = None) -> Response[LetterOperation]:
    """An operation goes on where it was paused."""
    only()
    return _versioned(200, bulk.steered(operation_id, "resume", condition, change()))


@routes.post(
    "/api/admin/dlq/operations/<operation_id>/abort",
    summary="Abort an operation on dead letters",
    tags=["dead letters"],
    responses=_STEERED,
)
def abort_letter_operation(operation_id: Id, condition: IfMatch = None) -> Response[LetterOperation]:
    """An operation ends for good. What it has begun goes on."""
    only()
    return _versioned(200, bulk.steered(operation_id, "abort", condition, change()))


def _asked(body: BulkPreview | LetterOperation) -> Response[Any]:
    return _versioned(202, body) if isinstance(body, LetterOperation) else answer(200, body)


def _versioned(status: int, body: LetterOperation) -> Response[Any]:
    return answer(status, body, {"ETag": etag(body.version), "Cache-Control": "no-store"})
