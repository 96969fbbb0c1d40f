"""`/api/admin/dlq`: dead letters are looked at."""

from datetime import UTC, datetime
from os import environ
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from counterfoil.dead_letters.entries import LONGEST_TEXT, LONGEST_TYPE, STATUSES, DeadLetterFilter, Fingerprint, Status
from counterfoil.validation import IN_UTC, Moment, PrintableText
from functions.admin_api import dead_letters
from functions.admin_api.endpoint import (
    PAGE,
    VERSIONED,
    Cursor,
    Id,
    IfNoneMatch,
    Limit,
    Routes,
    TenantOrUnassigned,
    answer,
    caller,
    database,
)
from functions.admin_api.http import etag, is_current, responses
from functions.admin_api.logs import console

routes = Routes()


States = Annotated[
    list[Status] | None,
    Query(description="Repeated, or several with commas. Of all states where it is not said."),
]
_LETTER = responses(
    {200: (dead_letters.Letter, "The letter."), 304: (None, "It is still the one that If-None-Match names.")}, 404, 422
)
_LETTER[200]["headers"] = VERSIONED


@routes.get(
    "/api/admin/dlq",
    summary="List dead letters",
    tags=["dead letters"],
    responses=responses({200: (dead_letters.LetterPage, "A page, the newest first.")}, 404, 422),
)
def list_dead_letters(  # noqa: PLR0913, PLR0917  # a query is this many parameters
    tenant: TenantOrUnassigned = None,
    status: States = None,
    task_type: Annotated[PrintableText | None, Query(max_length=LONGEST_TYPE)] = None,
    from_date: Annotated[Moment | None, Query(description=f"Died then or later. {IN_UTC}")] = None,
    to_date: Annotated[Moment | None, Query(description=f"Died before. {IN_UTC}")] = None,
    text: Annotated[
        PrintableText | None,
        Query(
            min_length=1,
            max_length=LONGEST_TEXT,
            description="Words of the error and of the file's name, all of which a letter has; or an id.",
        ),
    ] = None,
    fingerprint: Annotated[Fingerprint | None, Query(description="Of a group.")] = None,
    page: Annotated[
        int,
        Query(ge=1, le=dead_letters.DEEPEST, description=f"{dead_letters.DEEPEST} letters deep; further with cursor."),
    ] = 1,
    limit: Limit = PAGE,
    cursor: Cursor = None,
) -> Response[dead_letters.LetterPage]:
    """A page of a tenant's dead letters."""
    wanted = DeadLetterFilter(
        status=tuple(status or STATUSES),
        task_type=task_type,
        from_date=from_date,
        to_date=to_date,
        text=text,
        fingerprint=fingerprint,
    )
    asked = dead_letters.Listing(tenant, wanted, page, limit, cursor)
    return answer(200, dead_letters.listed(asked, caller(), database()))


@routes.get(
    "/api/admin/dlq/stats",
    summary="Count dead letters",
    tags=["dead letters"],
    responses=responses({200: (dead_letters.LetterStats, "How many there are.")}, 404, 422),
)
def count_dead_letters(tenant: TenantOrUnassigned = None) -> Response[dead_letters.LetterStats]:
    """How many dead letters a tenant has, by type of task and state."""
    return answer(200, dead_letters.stats(tenant, caller(), database()))


@routes.get(
    "/api/admin/dlq/groups",
    summary="List groups of dead letters",
    tags=["dead letters"],
    responses=responses({200: (dead_letters.LetterGroupPage, "A page, those that died last first.")}, 404, 422),
)
def list_groups(
    tenant: TenantOrUnassigned = None, status: States = None, cursor: Cursor = None, limit: Limit = PAGE
) -> Response[dead_letters.LetterGroupPage]:
    """A page of the errors that a tenant's letters died of, with those that have letters in one of the states."""
    asked = dead_letters.Listing(tenant, DeadLetterFilter(status=tuple(status or STATUSES)), 1, limit, cursor)
    return answer(200, dead_letters.grouped(asked, caller(), database(), datetime.now(UTC)))


@routes.get("/api/admin/dlq/<job_id>", summary="Show a dead letter", tags=["dead letters"], responses=_LETTER)
def show_dead_letter(job_id: Id, known: IfNoneMatch = None) -> Response[dead_letters.Letter | None]:
    """One dead letter with its payload and its earlier deaths."""
    letter = dead_letters.shown(job_id, caller(), database())
    headers = {"ETag": etag(letter.version), "Cache-Control": "private, no-cache", "Vary": "Authorization"}
    if is_current(known, letter.version):
        return Response(304, headers=headers)
    return answer(200, letter, headers)


@routes.get(
    "/api/admin/dlq/<job_id>/timeline",
    summary="Show what happened to a dead letter",
    tags=["dead letters"],
    responses=responses({200: (dead_letters.LetterTimeline, "Tries, deaths and changes in their order.")}, 404, 422),
)
def show_timeline(job_id: Id) -> Response[dead_letters.LetterTimeline]:
    """The tries of a dead letter's work, its deaths, and what was done about it."""
    return answer(200, dead_letters.told(job_id, caller(), database(), console(environ)))
