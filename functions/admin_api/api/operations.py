"""`/api/admin/operations`: bulk operations and purges of dead letters, and reprocessing of documents.

`/api/admin/dlq/bulk-...`, `/purge` and `/export` start operations on dead letters. Purges and reprocessing require the
admin role, bulk operations the operator role, and exports and reads the viewer role. A change requires the version of
the operation in `If-Match`. The version grows with each change of the state, not with progress.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from counterfoil.db import retry_on_conflict
from counterfoil.dead_letters import bulk, export, purges, search
from counterfoil.dead_letters.export import Format
from counterfoil.dead_letters.purges import PurgeSteps
from counterfoil.dead_letters.search import DeadLetterFilter
from counterfoil.delivery.dead_letter import ClosedStatus
from counterfoil.documents import reprocess
from counterfoil.errors import RejectedRequestError, TransientError, VersionConflictError, safe_message
from counterfoil.operations import engine, store
from counterfoil.operations.store import (
    MAX_RATES,
    REPROCESSING,
    Action,
    LetterAction,
    NewOperation,
    Operation,
    OperationCommand,
    OperationItem,
    Result,
    State,
)
from counterfoil.validation import IN_UTC, UNASSIGNED, Moment
from functions.admin_api import http
from functions.admin_api.api.dead_letters import DeadLetterSummary, Pointers, hide_secrets, summary
from functions.admin_api.auth import ONE_BY_ONE, Caller, Owned, Request, Role, TenantSlug
from functions.admin_api.endpoint import (
    PAGE,
    VERSIONED,
    Cursor,
    Id,
    IfMatch,
    Limit,
    Note,
    OneTenant,
    Routes,
    answer,
    versioned,
)
from functions.admin_api.http import NotFoundError, etag, required_version, responses

RETRY_RATE = 50
"""Default rate of retries: dead letters per second."""
REPROCESSING_RATE = 60
"""Default rate of reprocessing: documents per minute."""
NO_OPERATION = "There is no such operation."
Rate = Annotated[int, Field(ge=1, le=MAX_RATES["retry"], description="Dead letters per second.")]

logger = Logger()
routes = Routes()


class BulkFilter(DeadLetterFilter):
    """Filter for dead letters that are pending at the time of the request."""

    tenant: TenantSlug | None = None


class BulkRequestBody(BaseModel):
    """Dead letters, selected by either `job_ids` or `filter`."""

    model_config = ConfigDict(extra="forbid")

    job_ids: list[UUID] | None = Field(default=None, min_length=1, max_length=bulk.MAX_NAMED_IDS)
    filter: BulkFilter | None = None
    dry_run: bool = Field(default=False, description="Only return the number of dead letters and a sample.")


class BulkRetry(BulkRequestBody):
    """A bulk retry of dead letters."""

    rate: Rate = RETRY_RATE
    canary: int | None = Field(
        default=None, ge=1, le=10_000, description="Number to retry first. The rest starts when these have succeeded."
    )
    notes: Note | None = None


class BulkResolution(BulkRequestBody):
    """A bulk resolution of dead letters, with a note on how the failure was handled."""

    rate: Rate = MAX_RATES["resolve"]
    notes: Note | None = Field(default=None, description="Required unless `dry_run` is set.")


class BulkIgnoring(BulkRequestBody):
    """A bulk request to ignore dead letters, with the reason."""

    rate: Rate = MAX_RATES["ignore"]
    reason: Note | None = Field(default=None, description="Required unless `dry_run` is set.")


class BulkPreview(BaseModel):
    """Preview of a bulk operation."""

    tenant: str
    count: int
    is_exact: bool = Field(
        description=f"Whether `count` is exact. For a text search, counting stops at {bulk.COUNT_LIMIT}."
    )
    sample: list[DeadLetterSummary] = Field(description=f"The newest dead letters, at most {bulk.SAMPLE_SIZE}.")


class PurgePlan(BaseModel):
    """Preview of a purge."""

    tenant: str
    failed_before: datetime
    statuses: list[ClosedStatus]
    count: int = Field(description="Number of dead letters to purge. It is also the ETag of this preview.")
    confirm: str = Field(description="Value of the parameter `confirm` that starts the purge.")


class OperationFile(BaseModel):
    """File of an export."""

    format: Format
    redacted: bool = Field(description="Whether secrets are redacted.")
    bytes: int
    expires_at: datetime = Field(description="Time at which the file is deleted.")


class OperationProgress(BaseModel):
    """An operation on many dead letters or documents, and its progress."""

    operation_id: UUID
    tenant: str
    action: Action
    filter: dict[str, JsonValue] | None = Field(description="Filter of the items; null if `job_ids` selected them.")
    notes: str | None
    rate: int | None = Field(description="Dead letters per second, or documents per minute; null for unlimited.")
    canary: int | None
    requested_by: str
    requested_at: str
    state: State = Field(
        description="selecting: dead letters are being selected. canary: the first items are in progress. paused: "
        "by a person, or because the canary did not finish. halted: an item of the canary failed again."
    )
    version: int = Field(description="Version, for `If-Match`.")
    reason: str | None = Field(description="Reason of an automatic stop or pause.")
    ended_at: str | None
    restorable_until: datetime | None = Field(
        description="Time until which a purge can be undone; null for other operations."
    )
    file: OperationFile | None = Field(
        description="File of an export; null for other operations. `/file` returns a link to it."
    )
    selected: int | None = Field(description="Number of items; null until all are selected.")
    succeeded: int
    failed: int
    skipped: int = Field(description="Dead letters that were already closed, failed again, or no longer exist.")
    remaining: int = Field(description="Selected items that are not processed yet.")
    redacted_paths: Pointers


class OperationPage(BaseModel):
    """Operations, newest first, and the cursor of the next page."""

    operations: list[OperationProgress]
    next_cursor: str | None


class OperationItemPage(BaseModel):
    """Items of an operation in processing order, and the cursor of the next page."""

    operation_id: UUID
    items: list[OperationItem]
    next_cursor: int | None


class ReprocessingRequest(BaseModel):
    """A request to extract or match documents again."""

    model_config = ConfigDict(extra="forbid")

    tenant: TenantSlug | None = None
    action: reprocess.Kind = Field(
        description="extract: extract the files again, then match the documents. match: only match them again."
    )
    received_from: Moment | None = Field(default=None, description=f"Received at or after this time. {IN_UTC}")
    received_until: Moment | None = Field(
        default=None, description=f"Received before this time. Default: now. {IN_UTC}"
    )
    rate: int = Field(default=REPROCESSING_RATE, ge=1, le=MAX_RATES["match"], description="Documents per minute.")


class OperationChange(BaseModel):
    """The new rate of an operation."""

    model_config = ConfigDict(extra="forbid")

    rate: int = Field(
        ge=1,
        le=max(MAX_RATES.values()),
        description=f"Dead letters per second (at most {MAX_RATES['retry']}), or documents per minute.",
    )


DOING: dict[LetterAction, str] = {"retry": "Retrying", "resolve": "Resolving", "ignore": "Ignoring"}


@dataclass(frozen=True)
class _ResolvedSelection:
    """Dead letters of one tenant."""

    tenant_id: UUID
    slug: str
    selection: DeadLetterFilter | None
    job_ids: Sequence[UUID]


def _bulk(
    action: LetterAction, wanted: BulkRetry | BulkResolution | BulkIgnoring, request: Request
) -> BulkPreview | OperationProgress:
    """Start a bulk operation, or return its preview for a dry run.

    Raises:
        RejectedRequestError: the selection or its tenant is missing, none is pending, or a note is missing.
        NotFoundError: the caller may not view any of the dead letters.
    """
    if (wanted.job_ids is None) == (wanted.filter is None):
        raise RejectedRequestError("Give either `job_ids` or `filter` to select dead letters.")
    meant = _meant(action, wanted, request)
    if wanted.dry_run:
        with request.database.tenant(meant.tenant_id) as connection:
            found = bulk.preview(connection, meant.tenant_id, meant.selection, meant.job_ids, request.now)
        sample = [summary(dead_letter, meant.slug, request.caller) for dead_letter in found.sample]
        return BulkPreview(tenant=meant.slug, count=found.count, is_exact=found.is_exact, sample=sample)
    by = request.caller.require_subject()
    note = wanted.reason if isinstance(wanted, BulkIgnoring) else wanted.notes
    canary = wanted.canary if isinstance(wanted, BulkRetry) else None
    selection = None if meant.selection is None else meant.selection.stored
    new = NewOperation(action, selection, by, request.now, note=note, rate=wanted.rate, canary=canary)
    operation = request.commit(
        meant.tenant_id, lambda connection: bulk.request(connection, meant.tenant_id, new, meant.job_ids)
    )
    return progress(operation, meant.slug, request.caller)


def _meant(action: LetterAction, wanted: BulkRequestBody, request: Request) -> _ResolvedSelection:
    if wanted.filter is not None:
        slug = request.slug(wanted.filter.tenant)
        tenant_id = request.admit(DOING[action], slug)
        return _ResolvedSelection(tenant_id, slug, _pending(wanted.filter), ())
    ids = wanted.job_ids or []
    with request.database.delivery() as connection:
        found = search.owners(connection, ids)
    visible = [(owner, name) for owner, name in found if request.caller.has_role(Role.VIEWER, name or UNASSIGNED)]
    if not visible:
        raise NotFoundError("There are no such dead letters.")
    if len(visible) > 1:
        raise RejectedRequestError("The dead letters belong to several tenants. Send one request per tenant.")
    ((owner, name),) = visible
    if owner is None or name is None:
        raise RejectedRequestError(f"Unassigned dead letters {ONE_BY_ONE}.")
    request.admit(DOING[action], name, owner)
    return _ResolvedSelection(owner, name, None, ids)


def _pending(wanted: BulkFilter) -> DeadLetterFilter:
    if "pending" not in wanted.status:
        raise RejectedRequestError("Bulk operations change only pending dead letters. Include `pending` in `status`.")
    return DeadLetterFilter(**wanted.model_dump(exclude={"tenant", "status"}))


def owned(request: Request, operation_id: str) -> Owned:
    """Return an operation that the caller may view, by its id."""
    return request.owned(operation_id, "operation", NO_OPERATION)


def progress(operation: Operation, slug: str, caller: Caller) -> OperationProgress:
    """Return an operation as the API shows it to a caller."""
    told: dict[str, Any] = {
        **vars(operation),
        "operation_id": operation.id,
        "tenant": slug,
        **hide_secrets({"filter": operation.filter, "notes": operation.note, "reason": operation.reason}, caller),
        "requested_at": operation.requested_at.isoformat(),
        "ended_at": operation.ended_at and operation.ended_at.isoformat(),
        "restorable_until": _restorable_until(operation),
        "file": operation.file and {**operation.file, "expires_at": operation.requested_at + export.KEPT},
        "selected": operation.selected if operation.selection_complete else None,
        "remaining": operation.selected - operation.processed,
    }
    return OperationProgress.model_validate(told)


def _restorable_until(operation: Operation) -> datetime | None:
    if operation.action != "purge" or operation.restored_at is not None:
        return None
    return operation.requested_at + purges.RESTORE_WITHIN


# -- requests on dead letters -----------------------------------------------------------------------------------------

_ASKED = responses(
    {
        200: (BulkPreview, "The preview, for a dry run."),
        202: (OperationProgress, "The operation is accepted, and starts within a minute."),
    },
    *(400, 404, 413, 415, 422, 429),
)
_ASKED[202]["headers"] = VERSIONED


@routes.post("/api/admin/dlq/bulk-retry", summary="Retry many dead letters", tags=["dead letters"], responses=_ASKED)
def retry_dead_letters(
    request: Request, asked: Annotated[BulkRetry, Body()]
) -> Response[BulkPreview | OperationProgress]:
    """Retry many dead letters at a bounded rate."""
    return _asked(_bulk("retry", asked, request))


@routes.post(
    "/api/admin/dlq/bulk-resolve", summary="Resolve many dead letters", tags=["dead letters"], responses=_ASKED
)
def resolve_dead_letters(
    request: Request, asked: Annotated[BulkResolution, Body()]
) -> Response[BulkPreview | OperationProgress]:
    """Close many dead letters whose failures were handled in another way."""
    return _asked(_bulk("resolve", asked, request))


@routes.post("/api/admin/dlq/bulk-ignore", summary="Ignore many dead letters", tags=["dead letters"], responses=_ASKED)
def ignore_dead_letters(
    request: Request, asked: Annotated[BulkIgnoring, Body()]
) -> Response[BulkPreview | OperationProgress]:
    """Close many dead letters without further action."""
    return _asked(_bulk("ignore", asked, request))


def _asked(body: BulkPreview | OperationProgress) -> Response[Any]:
    return versioned(body, 202) if isinstance(body, OperationProgress) else answer(200, body)


# -- purges -----------------------------------------------------------------------------------------------------------

_UNLESS_SAID: list[ClosedStatus] = ["resolved", "ignored"]
"""Default statuses. Retried dead letters are excluded, because their history is useful if they fail again."""
_PURGED = responses(
    {
        200: (PurgePlan | OperationProgress, "The preview, or the completed purge."),
        202: (OperationProgress, "The purge is in progress."),
    },
    *(404, 412, 413, 422, 428, 429),
)
_PURGED[200]["headers"] = _PURGED[202]["headers"] = VERSIONED
_RESTORED = responses(
    {
        200: (OperationProgress, "All dead letters are restored."),
        202: (OperationProgress, "The restoration is in progress."),
    },
    *(404, 409, 412, 413, 422, 428, 429),
)
_RESTORED[200]["headers"] = _RESTORED[202]["headers"] = VERSIONED


@routes.delete("/api/admin/dlq/purge", summary="Purge closed dead letters", tags=["dead letters"], responses=_PURGED)
def purge_dead_letters(
    request: Request,
    before_date: Annotated[Moment, Query(description=f"Dead-lettered before this time. {IN_UTC}")],
    status: Annotated[
        list[ClosedStatus], Query(min_length=1, description="One or more statuses, repeated or separated by commas.")
    ] = _UNLESS_SAID,
    tenant: OneTenant = None,
    confirm: Annotated[
        str | None,
        Query(max_length=63, description="The tenant's slug. Without it, the response is a preview."),
    ] = None,
    condition: Annotated[
        str | None,
        Header(alias="If-Match", description="ETag of the preview. Required with `confirm`."),
    ] = None,
) -> Response[Any]:
    """Hide closed dead letters, and delete them a week later. Without `confirm`, only count them.

    The confirming request sends the ETag of the preview, so that it purges only as many dead letters as were shown.
    """
    slug = request.slug(tenant)
    tenant_id = _admit_purge(slug, request)
    statuses = [one for one in purges.CLOSED_STATUSES if one in status]
    before = min(before_date, request.now)
    if confirm is None:
        with request.database.tenant(tenant_id) as connection:
            count = search.count(connection, tenant_id, purges.purge_filter(before, statuses))
        plan = PurgePlan(tenant=slug, failed_before=before, statuses=statuses, count=count, confirm=slug)
        return answer(200, plan, {"ETag": etag(count), "Cache-Control": "no-store"})
    if confirm != slug:
        raise RejectedRequestError("`confirm` must be the slug of the tenant.")
    shown = required_version(condition)

    def once() -> Operation:
        with request.database.tenant(tenant_id) as connection:
            count = search.count(connection, tenant_id, purges.purge_filter(before, statuses))
            if count != shown:
                raise VersionConflictError(
                    f"Nothing was purged: the preview showed {shown:,} dead letters, and there are now {count:,}."
                )
            by = request.caller.subject
            return purges.request(connection, tenant_id, before, statuses, by=by, now=request.now)

    return _stepped(retry_on_conflict(once), slug, request)


@routes.post(
    "/api/admin/operations/<operation_id>/restore", summary="Undo a purge", tags=["operations"], responses=_RESTORED
)
def restore_purge(request: Request, operation_id: Id, condition: IfMatch = None) -> Response[OperationProgress]:
    """Restore the dead letters of a purge, within a week. Their messages in SQS are not restored."""
    tenant_id, slug, id_ = owned(request, operation_id)
    _admit_purge(slug, request, tenant_id)
    version = required_version(condition)
    by = request.caller.subject
    operation = request.commit(
        tenant_id, lambda connection: purges.restore(connection, id_, version=version, by=by, now=request.now)
    )
    return _stepped(operation, slug, request)


def _admit_purge(slug: str, request: Request, tenant_id: UUID | None = None) -> UUID:
    tenant_id = request.admit("Purging", slug, tenant_id, role=Role.ADMIN)
    request.caller.require_subject()
    return tenant_id


def _stepped(operation: Operation, slug: str, request: Request) -> Response[OperationProgress]:
    """Run the first step, which usually completes the operation. The worker runs the remaining steps."""
    try:
        engine.step(request.database, PurgeSteps(), operation.id, operation.tenant_id, request.now)
        with request.database.tenant(operation.tenant_id) as connection:
            operation = store.show(connection, operation.id)
    except TransientError as error:
        logger.warning("A purge waits for the worker", purge=str(operation.id), error=safe_message(error, for_log=True))
    return versioned(progress(operation, slug, request.caller), 202 if operation.ended_at is None else 200)


# -- operations -------------------------------------------------------------------------------------------------------

_STORED = responses(
    {202: (OperationProgress, "The operation is accepted, and starts within a minute.")}, 400, 404, 413, 415, 422, 429
)
_STORED[202]["headers"] = VERSIONED
_SHOWN = responses({200: (OperationProgress, "The progress of the operation.")}, 404, 422)
_SHOWN[200]["headers"] = VERSIONED
_STEERED = responses({200: (OperationProgress, "The new state.")}, 404, 409, 412, 413, 422, 428, 429)
_STEERED[200]["headers"] = VERSIONED
_RATE_CHANGED = responses({200: (OperationProgress, "The new rate.")}, 400, 404, 409, 412, 413, 415, 422, 428, 429)
_RATE_CHANGED[200]["headers"] = VERSIONED


@routes.post("/api/admin/operations", summary="Reprocess documents", tags=["operations"], responses=_STORED)
def reprocess_documents(request: Request, asked: Annotated[ReprocessingRequest, Body()]) -> Response[OperationProgress]:
    """Extract or match a tenant's documents again, at a bounded rate."""
    slug = request.slug(asked.tenant)
    tenant_id = request.admit("Reprocessing", slug, role=Role.ADMIN)
    by = request.caller.require_subject()
    operation = request.commit(
        tenant_id,
        lambda connection: reprocess.request(
            connection,
            tenant_id,
            asked.action,
            received_from=asked.received_from,
            received_until=asked.received_until,
            rate=asked.rate,
            by=by,
            now=request.now,
        ),
    )
    return versioned(progress(operation, slug, request.caller), 202)


@routes.get(
    "/api/admin/operations",
    summary="List operations",
    tags=["operations"],
    responses=responses({200: (OperationPage, "A page, newest first.")}, 404, 422),
)
def list_operations(
    request: Request,
    tenant: OneTenant = None,
    action: Annotated[
        list[Action] | None, Query(description="One or more actions, repeated or separated by commas. Default: all.")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = PAGE,
) -> OperationPage:
    """Return a page of a tenant's operations."""
    after = None if cursor is None else http.decode_cursor(cursor)
    tenant_id, slug = request.tenant(tenant)
    with request.database.tenant(tenant_id) as connection:
        found = store.page(connection, tenant_id, limit=limit + 1, actions=action or store.ACTIONS, after=after)
    shown, following = http.split_page(found, limit, lambda one: (one.requested_at, one.id))
    return OperationPage(operations=[progress(one, slug, request.caller) for one in shown], next_cursor=following)


@routes.get("/api/admin/operations/<operation_id>", summary="Show an operation", tags=["operations"], responses=_SHOWN)
def show_operation(request: Request, operation_id: Id) -> Response[OperationProgress]:
    """Return the progress of an operation."""
    tenant_id, slug, id_ = owned(request, operation_id)
    with request.database.tenant(tenant_id) as connection:
        return versioned(progress(store.show(connection, id_), slug, request.caller))


@routes.get(
    "/api/admin/operations/<operation_id>/items",
    summary="List the results of an operation",
    tags=["operations"],
    responses=responses({200: (OperationItemPage, "A page, in processing order.")}, 404, 422),
)
def list_operation_items(
    request: Request,
    operation_id: Id,
    result: Annotated[Result | None, Query(description="Only items with this result.")] = None,
    cursor: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="`next_cursor` of the previous page.")] = None,
    limit: Limit = PAGE,
) -> OperationItemPage:
    """Return a page of the dead letters of an operation with their results. Reprocessing has no items."""
    tenant_id, _, id_ = owned(request, operation_id)
    with request.database.tenant(tenant_id) as connection:
        found = store.items(connection, id_, limit=limit + 1, after=cursor or 0, result=result)
    page = found[:limit]
    return OperationItemPage(
        operation_id=id_,
        items=page,
        next_cursor=page[-1].number if len(found) > limit else None,
    )


@routes.post(
    "/api/admin/operations/<operation_id>/pause", summary="Pause an operation", tags=["operations"], responses=_STEERED
)
def pause_operation(request: Request, operation_id: Id, condition: IfMatch = None) -> Response[OperationProgress]:
    """Pause an operation. Items that have started are completed."""
    return _steered(request, operation_id, "pause", condition)


@routes.post(
    "/api/admin/operations/<operation_id>/resume",
    summary="Resume an operation",
    tags=["operations"],
    responses=_STEERED,
)
def resume_operation(request: Request, operation_id: Id, condition: IfMatch = None) -> Response[OperationProgress]:
    """Resume a paused operation."""
    return _steered(request, operation_id, "resume", condition)


@routes.post(
    "/api/admin/operations/<operation_id>/cancel",
    summary="Cancel an operation",
    tags=["operations"],
    responses=_STEERED,
)
def cancel_operation(request: Request, operation_id: Id, condition: IfMatch = None) -> Response[OperationProgress]:
    """Cancel an operation permanently. Items that have started are completed."""
    return _steered(request, operation_id, "cancel", condition)


@routes.patch(
    "/api/admin/operations/<operation_id>",
    summary="Change the rate of an operation",
    tags=["operations"],
    responses=_RATE_CHANGED,
)
def change_operation(
    request: Request, operation_id: Id, asked: Annotated[OperationChange, Body()], condition: IfMatch = None
) -> Response[OperationProgress]:
    """Change the rate of the remaining items. For reprocessing, this requires the admin role."""
    tenant_id, slug, id_ = owned(request, operation_id)
    with request.database.tenant(tenant_id) as connection:
        action = store.show(connection, id_).action
    role = Role.ADMIN if action in REPROCESSING else Role.OPERATOR
    request.admit("Changing the rate", slug, tenant_id, role=role)
    by = request.caller.require_subject()
    version = required_version(condition)
    operation = request.commit(
        tenant_id,
        lambda connection: store.change_rate(connection, id_, asked.rate, version=version, actor=by, now=request.now),
    )
    return versioned(progress(operation, slug, request.caller))


_STEERING: dict[OperationCommand, str] = {"pause": "Pausing", "resume": "Resuming", "cancel": "Canceling"}


def _steered(
    request: Request, operation_id: str, how: OperationCommand, condition: str | None
) -> Response[OperationProgress]:
    """Pause, resume or cancel an operation."""
    tenant_id, slug, id_ = owned(request, operation_id)
    request.admit(_STEERING[how], slug, tenant_id)
    by = request.caller.require_subject()
    version = required_version(condition)
    operation = request.commit(
        tenant_id,
        lambda connection: store.change_state(connection, id_, how, version=version, actor=by, now=request.now),
    )
    return versioned(progress(operation, slug, request.caller))
