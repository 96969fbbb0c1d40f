"""`/api/admin/dlq/purge`: settled dead letters are taken out of sight, and had back."""

from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Header, Query

from counterfoil.dead_letters import keeping
from counterfoil.delivery.letters import ClosedStatus
from counterfoil.validation import IN_UTC, Moment
from functions.admin_api import purging
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
    Routes,
    answer,
    caller,
    change,
    database,
)

routes = Routes()
_UNLESS_SAID: list[ClosedStatus] = ["resolved", "ignored"]
"""Of states: what was tried again may die again, and its letter then tells what was done."""
_ASKED = responses(
    {
        200: (purging.LetterPurgePlan | purging.LetterPurge, "What it would do, or that it is done."),
        202: (purging.LetterPurge, "It is stored, and letters go out of sight by and by."),
    },
    *(404, 412, 413, 422, 428, 429),
)
_ASKED[200]["headers"] = _ASKED[202]["headers"] = VERSIONED
_SHOWN = responses({200: (purging.LetterPurge, "How far it is.")}, 404, 422)
_SHOWN[200]["headers"] = VERSIONED
_UNDONE = responses(
    {
        200: (purging.LetterPurge, "All of its letters are back."),
        202: (purging.LetterPurge, "Its letters come back by and by."),
    },
    *(404, 409, 412, 413, 422, 428, 429),
)
_UNDONE[200]["headers"] = _UNDONE[202]["headers"] = VERSIONED


@routes.delete("/api/admin/dlq/purge", summary="Purge settled dead letters", tags=["dead letters"], responses=_ASKED)
def purge_dead_letters(
    before_date: Annotated[Moment, Query(description=f"Those that died before. {IN_UTC}")],
    status: Annotated[
        list[ClosedStatus], Query(min_length=1, description="Repeated, or several with commas.")
    ] = _UNLESS_SAID,
    tenant: OneTenant = None,
    confirm: Annotated[
        str | None,
        Query(max_length=63, description="The tenant's slug. Without it nothing is done, and said how many would go."),
    ] = None,
    condition: Annotated[
        str | None,
        Header(alias="If-Match", description="The ETag of the answer that said how many would go; `confirm` needs it."),
    ] = None,
) -> Response[purging.LetterPurgePlan | purging.LetterPurge]:
    """Settled dead letters go out of sight, and are deleted a week later; who only asks is told how many.

    It is asked for twice: without `confirm`, and then with it and the ETag of that answer, so that no more letters go
    than were shown.
    """
    statuses = [one for one in keeping.SETTLED if one in status]
    done = purging.purge(purging.Wanted(tenant, before_date, statuses, confirm, condition), change())
    if isinstance(done, purging.LetterPurgePlan):
        return _versioned(200, done, done.count)
    return _versioned(200 if done.is_complete else 202, done, done.version)


@routes.get(
    "/api/admin/dlq/purges",
    summary="List purges",
    tags=["dead letters"],
    responses=responses({200: (purging.LetterPurgePage, "A page, the newest first.")}, 404, 422),
)
def list_purges(
    tenant: OneTenant = None, cursor: Cursor = None, limit: Limit = PAGE
) -> Response[purging.LetterPurgePage]:
    """A page of a tenant's purges."""
    return answer(200, purging.listed(tenant, cursor, limit, caller(), database()))


@routes.get("/api/admin/dlq/purges/<purge_id>", summary="Show a purge", tags=["dead letters"], responses=_SHOWN)
def show_purge(purge_id: Id) -> Response[purging.LetterPurge]:
    """How far a purge is, or that it is undone."""
    found = purging.shown(purge_id, caller(), database())
    return _versioned(200, found, found.version)


@routes.post("/api/admin/dlq/purges/<purge_id>/undo", summary="Undo a purge", tags=["dead letters"], responses=_UNDONE)
def undo_purge(purge_id: Id, condition: IfMatch = None) -> Response[purging.LetterPurge]:
    """The letters of a purge are had back within a week, but for their messages in SQS."""
    undone = purging.undo(purge_id, condition, change())
    return _versioned(200 if undone.is_complete else 202, undone, undone.version)


def _versioned(status: int, body: purging.LetterPurgePlan | purging.LetterPurge, version: int) -> Response[Any]:
    return answer(status, body, {"ETag": etag(version), "Cache-Control": "no-store"})
