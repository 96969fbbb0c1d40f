"""`/api/admin/dlq`: one dead letter is changed; and who changed what."""

from typing import Annotated, Any
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Query

from counterfoil.delivery.outbox import Outbox
from counterfoil.settings import settings
from functions.admin_api import letter_changes
from functions.admin_api.endpoint import (
    PAGE,
    VERSIONED,
    Id,
    IfMatch,
    Limit,
    Routes,
    TenantOrUnassigned,
    answer,
    caller,
    database,
    request,
)
from functions.admin_api.http import etag, responses

routes = Routes()

_FAILURES = (400, 404, 409, 412, 413, 415, 422, 429)
_CHANGED = responses({200: (letter_changes.LetterChanged, "It is done.")}, *_FAILURES)
_EDITED = responses({200: (letter_changes.LetterChanged, "It is done.")}, *_FAILURES, 428)
for _answers in (_CHANGED, _EDITED):
    _answers[200]["headers"] = VERSIONED
IfMatchSent = Annotated[
    str | None, Header(alias="If-Match", description="The ETag of the dead letter as seen; the change depends on it.")
]


@routes.post("/api/admin/dlq/<job_id>/retry", summary="Try again", tags=["dead letters"], responses=_CHANGED)
def retry_dead_letter(
    job_id: Id, asked: Annotated[letter_changes.LetterRetry | None, Body()] = None, condition: IfMatchSent = None
) -> Response[letter_changes.LetterChanged]:
    """A dead letter's work, which has failed, is begun anew."""
    return _versioned(_bench().retry(job_id, asked, condition, request()))


@routes.post("/api/admin/dlq/<job_id>/resolve", summary="Resolve", tags=["dead letters"], responses=_CHANGED)
def resolve_dead_letter(
    job_id: Id, asked: Annotated[letter_changes.LetterResolution, Body()], condition: IfMatchSent = None
) -> Response[letter_changes.LetterChanged]:
    """A dead letter's failure was dealt with in another way."""
    return _versioned(_bench().resolve(job_id, asked, condition, request()))


@routes.post("/api/admin/dlq/<job_id>/ignore", summary="Ignore", tags=["dead letters"], responses=_CHANGED)
def ignore_dead_letter(
    job_id: Id,
    asked: Annotated[letter_changes.LetterIgnoring | None, Body()] = None,
    reason: Annotated[
        letter_changes.Note | None, Query(description="Why; needed, here or in the body, and the same if in both.")
    ] = None,
    condition: IfMatchSent = None,
) -> Response[letter_changes.LetterChanged]:
    """Nothing is done about a dead letter."""
    return _versioned(_bench().ignore(job_id, letter_changes.reason_of(asked, reason), condition, request()))


@routes.get(
    "/api/admin/dlq/<job_id>/payload",
    summary="Show the payload of a task that has failed",
    tags=["dead letters"],
    responses=responses({200: (letter_changes.LetterPayload, "The payload, for who may edit it.")}, 404, 409, 422),
)
def show_payload(job_id: Id) -> Response[letter_changes.LetterPayload]:
    """The payload of a dead letter's task, as it was tried and as it will be."""
    return _versioned(_bench().payload(job_id, caller()))


@routes.patch("/api/admin/dlq/<job_id>/payload", summary="Edit a payload", tags=["dead letters"], responses=_EDITED)
def edit_payload(
    job_id: Id, asked: Annotated[letter_changes.LetterEdit, Body()], condition: IfMatch = None
) -> Response[letter_changes.LetterChanged]:
    """A dead letter's task is tried with another payload when it is tried again."""
    return _versioned(_bench().edit(job_id, asked, condition, request()))


@routes.get(
    "/api/admin/dlq/audit",
    summary="List who changed what",
    tags=["dead letters"],
    responses=responses({200: (letter_changes.AuditPage, "A page, the newest first.")}, 404, 422),
)
def list_audit(
    tenant: TenantOrUnassigned = None,
    target: Annotated[UUID | None, Query(description="What was changed: the id of a dead letter, for example.")] = None,
    cursor: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="`next` of the page before.")] = None,
    limit: Limit = PAGE,
) -> Response[letter_changes.AuditPage]:
    """A page of a tenant's audit trail."""
    asked = letter_changes.TrailFilter(tenant, target, cursor, limit)
    return answer(200, letter_changes.trail(asked, caller(), database()))


def _versioned(body: letter_changes.LetterChanged | letter_changes.LetterPayload) -> Response[Any]:
    return answer(200, body, {"ETag": etag(body.version), "Cache-Control": "no-store"})


def _bench() -> letter_changes.Bench:
    now = request()
    outbox = Outbox(database(), settings().queue_urls, settings().retry_queue_urls)
    return letter_changes.Bench(database(), outbox, settings(), now.time_left)
