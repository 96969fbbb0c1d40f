"""`/api/admin/dlq/purge`: settled dead letters are taken out of sight, and had back."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from counterfoil.dead_letters import keeping
from functions.admin_api import purging
from functions.admin_api.problems import responses
from functions.admin_api.request import IN_UTC, Moment
from functions.admin_api.routes.common import (
    PAGE,
    Cursor,
    Id,
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
_UNLESS_SAID: list[keeping.Settled] = ["resolved", "ignored"]
"""Of states: what was tried again may die again, and its letter then tells what was done."""


@routes.delete(
    "/api/admin/dlq/purge",
    summary="Purge settled dead letters",
    tags=["dead letters"],
    responses=responses(
        {
            200: (purging.LetterPurgePlan | purging.LetterPurge, "What it would do, or that it is done."),
            202: (purging.LetterPurge, "It is stored, and letters go out of sight by and by."),
        },
        *(404, 413, 422, 429),
    ),
)
def purge_dead_letters(
    before_date: Annotated[Moment, Query(description=f"Those that died before. {IN_UTC}")],
    status: Annotated[
        list[keeping.Settled], Query(min_length=1, description="Repeated, or several with commas.")
    ] = _UNLESS_SAID,
    tenant: OneTenant = None,
    confirm: Annotated[
        str | None,
        Query(max_length=63, description="The tenant's slug. Without it nothing is done, and said how many would go."),
    ] = None,
) -> Response[purging.LetterPurgePlan | purging.LetterPurge]:
    """Settled dead letters go out of sight, and are deleted a week later; who only asks is told how many."""
    only("tenant", "before_date", "status", "confirm")
    statuses = [one for one in keeping.SETTLED if one in status]
    done = purging.purge(purging.Wanted(tenant, before_date, statuses, confirm), change())
    return answer(202 if isinstance(done, purging.LetterPurge) and not done.is_complete else 200, done)


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
    only("tenant", "cursor", "limit")
    return answer(200, purging.listed(tenant, cursor, limit, caller(), database()))


@routes.post(
    "/api/admin/dlq/purges/<purge_id>/undo",
    summary="Undo a purge",
    tags=["dead letters"],
    responses=responses(
        {
            200: (purging.LetterPurge, "All of its letters are back."),
            202: (purging.LetterPurge, "Its letters come back by and by."),
        },
        *(404, 409, 413, 422, 429),
    ),
)
def undo_purge(purge_id: Id) -> Response[purging.LetterPurge]:
    """The letters of a purge are had back within a week, but for their messages in SQS."""
    only()
    undone = purging.undo(purge_id, change())
    return answer(200 if undone.is_complete else 202, undone)
