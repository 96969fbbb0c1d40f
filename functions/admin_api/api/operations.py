"""`/api/admin/operations`: dead letter operations and document reprocessing.

`/api/admin/dlq/bulk-...`, `/purge` and `/export` start operations on dead letters. Purges and reprocessing require the
admin role, bulk operations the operator role, and exports and reads the viewer role. A change requires the operation's
version in `If-Match`. The version increases with each change of state or rate, but not with progress.
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
    DeadLetterAction,
    NewOperation,
    Operation,
    OperationCommand,
    OperationItem,
    Result,
    State,
)
from counterfoil.validation import UNASSIGNED, UTC_DESCRIPTION, Moment
from functions.admin_api import http
from functions.admin_api.api.dead_letters import DeadLetterSummary, Pointers, hide_secrets, summary
from functions.admin_api.auth import ONE_AT_A_TIME, Caller, Owned, Request, Role, TenantSlug
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
    json_response,
    versioned_response,
)
from functions.admin_api.http import NotFoundError, etag, required_version, responses

RETRY_RATE = 50
"""Default rate of retries, in dead letters per second."""
REPROCESSING_RATE = 60
"""Default rate of reprocessing, in documents per minute."""
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

    job_ids: list[UUID] | None = Field(default=None, min_length=1, max_length=bulk.MAX_LISTED_IDS)
    filter: BulkFilter | None = None
    dry_run: bool = Field(default=False, description="Only return the number of dead letters and a sample.")


class BulkRetry(BulkRequestBody):
    """A bulk retry of dead letters."""

    rate: Rate = RETRY_RATE
    canary: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Number of dead letters to retry first. Further retries start after these have succeeded.",
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
    sample: list[DeadLetterSummary] = Field(description=f"At most the {bulk.SAMPLE_SIZE} newest dead letters.")


class PurgePlan(BaseModel):
    """Preview of a purge."""

    tenant: str
    failed_before: datetime
    statuses: list[ClosedStatus]
    count: int = Field(description="Number of dead letters to purge. It is also the ETag of this preview.")
    confirm: str = Field(description="Value for the parameter `confirm`, which starts the purge.")


class OperationFile(BaseModel):
    """An export's file."""

    format: Format
    redacted: bool = Field(description="Whether secrets are redacted.")
    bytes: int
    expires_at: datetime = Field(description="Time at which the file is deleted.")


class OperationProgress(BaseModel):
    """An operation on many dead letters or documents, and its progress."""

    operation_id: UUID
    tenant: str
    action: Action
    filter: dict[str, JsonValue] | None = Field(
        description="Filter that selected the items; null if `job_ids` selected them."
    )
    notes: str | None
    rate: int | None = Field(description="Dead letters per second, or documents per minute; null for unlimited.")
    canary: int | None
    requested_by: str
    requested_at: str
    state: State = Field(
        description="selecting: dead letters are being selected. canary: the first items are in progress. paused: "
        "by a person, or because the canary did not finish. halted: an item in the canary failed again."
    )
    version: int = Field(description="Version, for `If-Match`.")
    reason: str | None = Field(description="Reason for an automatic stop or pause.")
    ended_at: str | None
    restorable_until: datetime | None = Field(
        description="Time until which a purge can be undone; null for other operations."
    )
    file: OperationFile | None = Field(
        description="File of an export; null for other operations. `/file` returns a link to it."
    )
    selected: int | None = Field(description="Number of items; null until all have been selected.")
    succeeded: int
    failed: int = Field(description="Items that failed, including retries in the canary that failed again.")
    skipped: int = Field(description="Dead letters that were already closed, failed again, or no longer exist.")
    remaining: int = Field(description="Selected items that are not processed yet.")
    redacted_paths: Pointers


class OperationPage(BaseModel):
    """Operations, newest first, and the cursor of the next page."""

    operations: list[OperationProgress]
    next_cursor: str | None


@dataclass(frozen=True)
class OperationItemDetail(OperationItem):
    """A dead letter in an operation, with its result."""

    dead_letter: Annotated[DeadLetterSummary | None, Field(description="The dead letter; null if it was deleted.")]


class OperationItemPage(BaseModel):
    """Items of an operation in processing order, and the cursor of the next page."""

    operation_id: UUID
    items: list[OperationItemDetail]
    next_cursor: int | None


class ReprocessingRequest(BaseModel):
    """A request to extract or match documents again."""

    model_config = ConfigDict(extra="forbid")

    tenant: TenantSlug | None = None
    action: reprocess.Kind = Field(
        description="extract: extract the files again, then match the documents. match: only match them again."
    )
    received_from: Moment | None = Field(default=None, description=f"Received at or after this time. {UTC_DESCRIPTION}")
    received_before: Moment | None = Field(
        default=None, description=f"Received before this time. Default: now. {UTC_DESCRIPTION}"
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


ACTION_NAMES: dict[DeadLetterAction, str] = {"retry": "Retrying", "resolve": "Resolving", "ignore": "Ignoring"}


@dataclass(frozen=True)
class _ResolvedSelection:
    """Selected dead letters, which all belong to one tenant."""

    tenant_id: UUID
    slug: str
    filter: DeadLetterFilter | None
    job_ids: Sequence[UUID]


def _start_bulk(
    action: DeadLetterAction, body: BulkRetry | BulkResolution | BulkIgnoring, request: Request
) -> BulkPreview | OperationProgress:
    """Start a bulk operation, or return its preview for a dry run.

    Raises:
        RejectedRequestError: the selection, its tenant or a required note is missing, or no dead letter is pending.
        NotFoundError: the caller may not view any of the dead letters.
    """
    if (body.job_ids is None) == (body.filter is None):
        raise RejectedRequestError("Give either `job_ids` or `filter` to select dead letters.")
    selection = _resolve_selection(action, body, request)
    if body.dry_run:
        with request.database.tenant(selection.tenant_id) as connection:
            preview = bulk.preview(connection, selection.tenant_id, selection.filter, selection.job_ids, request.now)
        sample = [summary(dead_letter, selection.slug, request.caller) for dead_letter in preview.sample]
        return BulkPreview(tenant=selection.slug, count=preview.count, is_exact=preview.is_exact, sample=sample)
    actor = request.caller.require_subject()
    note = body.reason if isinstance(body, BulkIgnoring) else body.notes
    canary = body.canary if isinstance(body, BulkRetry) else None
    stored_filter = None if selection.filter is None else selection.filter.stored_fields
    new_operation = NewOperation(action, stored_filter, actor, request.now, note=note, rate=body.rate, canary=canary)
    operation = request.commit(
        selection.tenant_id,
        lambda connection: bulk.request(connection, selection.tenant_id, new_operation, selection.job_ids),
    )
    return progress(operation, selection.slug, request.caller)


def _resolve_selection(action: DeadLetterAction, body: BulkRequestBody, request: Request) -> _ResolvedSelection:
    if body.filter is not None:
        slug = request.slug(body.filter.tenant)
        tenant_id = request.admit(ACTION_NAMES[action], slug)
        return _ResolvedSelection(tenant_id, slug, _pending_filter(body.filter), ())
    ids = body.job_ids or []
    with request.database.delivery() as connection:
        owners = search.find_owners(connection, ids)
    visible = [(owner, name) for owner, name in owners if request.caller.has_role(Role.VIEWER, name or UNASSIGNED)]
    if not visible:
        raise NotFoundError("There are no such dead letters.")
    if len(visible) > 1:
        raise RejectedRequestError("The dead letters belong to several tenants. Send one request per tenant.")
    ((owner, name),) = visible
    if owner is None or name is None:
        raise RejectedRequestError(f"Unassigned dead letters {ONE_AT_A_TIME}.")
    request.admit(ACTION_NAMES[action], name, owner)
    return _ResolvedSelection(owner, name, None, ids)


def _pending_filter(body: BulkFilter) -> DeadLetterFilter:
    if "pending" not in body.status:
        raise RejectedRequestError("Bulk operations change only pending dead letters. Include `pending` in `status`.")
    return DeadLetterFilter(**body.model_dump(exclude={"tenant", "status"}))


def owned_operation(request: Request, operation_id: str) -> Owned:
    """Return the tenant and id of an operation that the caller may view."""
    return request.owned(operation_id, "operation", NO_OPERATION)


def progress(operation: Operation, slug: str, caller: Caller) -> OperationProgress:
    """Return an operation and its progress, without values hidden from the caller."""
    fields: dict[str, Any] = {
        **vars(operation),
        "operation_id": operation.id,
        "tenant": slug,
        **hide_secrets({"filter": operation.filter, "notes": operation.note, "reason": operation.reason}, caller),
        "requested_at": operation.requested_at.isoformat(),
        "ended_at": operation.ended_at and operation.ended_at.isoformat(),
        "restorable_until": _restorable_until(operation),
        "file": operation.file and {**operation.file, "expires_at": operation.requested_at + export.RETENTION},
        "selected": operation.selected if operation.selection_complete else None,
        "remaining": operation.selected - operation.processed,
    }
    return OperationProgress.model_validate(fields)


def _restorable_until(operation: Operation) -> datetime | None:
    if operation.action != "purge" or operation.restored_at is not None:
        return None
    return operation.requested_at + purges.RESTORE_PERIOD


# -- requests on dead letters -----------------------------------------------------------------------------------------

_BULK_RESPONSES = responses(
    {
        200: (BulkPreview, "The preview, for a dry run."),
        202: (OperationProgress, "The operation was accepted and starts within a minute."),
    },
    *(400, 404, 413, 415, 422, 429),
)
_BULK_RESPONSES[202]["headers"] = VERSIONED


@routes.post(
    "/api/admin/dlq/bulk-retry", summary="Retry many dead letters", tags=["dead letters"], responses=_BULK_RESPONSES
)
def retry_dead_letters(
    request: Request, body: Annotated[BulkRetry, Body()]
) -> Response[BulkPreview | OperationProgress]:
    """Retry many dead letters at a bounded rate."""
    return _bulk_response(_start_bulk("retry", body, request))


@routes.post(
    "/api/admin/dlq/bulk-resolve", summary="Resolve many dead letters", tags=["dead letters"], responses=_BULK_RESPONSES
)
def resolve_dead_letters(
    request: Request, body: Annotated[BulkResolution, Body()]
) -> Response[BulkPreview | OperationProgress]:
    """Close many dead letters whose failures were handled in another way."""
    return _bulk_response(_start_bulk("resolve", body, request))


@routes.post(
    "/api/admin/dlq/bulk-ignore", summary="Ignore many dead letters", tags=["dead letters"], responses=_BULK_RESPONSES
)
def ignore_dead_letters(
    request: Request, body: Annotated[BulkIgnoring, Body()]
) -> Response[BulkPreview | OperationProgress]:
    """Close many dead letters without further action."""
    return _bulk_response(_start_bulk("ignore", body, request))


def _bulk_response(body: BulkPreview | OperationProgress) -> Response[Any]:
    return versioned_response(body, 202) if isinstance(body, OperationProgress) else json_response(200, body)


# -- purges -----------------------------------------------------------------------------------------------------------

_DEFAULT_STATUSES: list[ClosedStatus] = ["resolved", "ignored"]
"""Default statuses. Retried dead letters are excluded, because their history is useful if they fail again."""
_PURGE_RESPONSES = responses(
    {
        200: (PurgePlan | OperationProgress, "The preview, or the completed purge."),
        202: (OperationProgress, "The purge is in progress."),
    },
    *(404, 412, 413, 422, 428, 429),
)
_PURGE_RESPONSES[200]["headers"] = _PURGE_RESPONSES[202]["headers"] = VERSIONED
_RESTORE_RESPONSES = responses(
    {
        200: (OperationProgress, "All dead letters were restored."),
        202: (OperationProgress, "The restoration is in progress."),
    },
    *(404, 409, 412, 413, 422, 428, 429),
)
_RESTORE_RESPONSES[200]["headers"] = _RESTORE_RESPONSES[202]["headers"] = VERSIONED


@routes.delete(
    "/api/admin/dlq/purge", summary="Purge closed dead letters", tags=["dead letters"], responses=_PURGE_RESPONSES
)
def purge_dead_letters(
    request: Request,
    before_date: Annotated[Moment, Query(description=f"Dead-lettered before this time. {UTC_DESCRIPTION}")],
    status: Annotated[
        list[ClosedStatus], Query(min_length=1, description="One or more statuses, repeated or separated by commas.")
    ] = _DEFAULT_STATUSES,
    tenant: OneTenant = None,
    confirm: Annotated[
        str | None,
        Query(max_length=63, description="The tenant's slug. If it is omitted, the response is a preview."),
    ] = None,
    if_match: Annotated[
        str | None,
        Header(alias="If-Match", description="ETag of the preview. Required with `confirm`."),
    ] = None,
) -> Response[Any]:
    """Hide closed dead letters, and delete them a week later.

    If `confirm` is omitted, only count them.

    A request with `confirm` must send the preview's ETag. It fails if the number of dead letters has changed.
    """
    slug = request.slug(tenant)
    tenant_id = _admit_purge(slug, request)
    statuses = [closed_status for closed_status in purges.CLOSED_STATUSES if closed_status in status]
    before = min(before_date, request.now)
    if confirm is None:
        with request.database.tenant(tenant_id) as connection:
            count = search.count(connection, tenant_id, purges.purge_filter(before, statuses))
        plan = PurgePlan(tenant=slug, failed_before=before, statuses=statuses, count=count, confirm=slug)
        return json_response(200, plan, {"ETag": etag(count), "Cache-Control": "no-store"})
    if confirm != slug:
        raise RejectedRequestError("`confirm` must be the tenant's slug.")
    expected = required_version(if_match)

    def purge() -> Operation:
        with request.database.tenant(tenant_id) as connection:
            count = search.count(connection, tenant_id, purges.purge_filter(before, statuses))
            if count != expected:
                raise VersionConflictError(
                    "Nothing was purged: the number of dead letters has changed since the preview, from "
                    f"{expected:,} to {count:,}."
                )
            actor = request.caller.subject
            return purges.request(connection, tenant_id, before, statuses, by=actor, now=request.now)

    return _run_first_step(retry_on_conflict(purge), slug, request)


@routes.post(
    "/api/admin/operations/<operation_id>/restore",
    summary="Undo a purge",
    tags=["operations"],
    responses=_RESTORE_RESPONSES,
)
def restore_purge(request: Request, operation_id: Id, if_match: IfMatch = None) -> Response[OperationProgress]:
    """Restore a purge's dead letters, within a week.

    Their SQS messages are not restored.
    """
    tenant_id, slug, id_ = owned_operation(request, operation_id)
    _admit_purge(slug, request, tenant_id)
    version = required_version(if_match)
    actor = request.caller.subject
    operation = request.commit(
        tenant_id, lambda connection: purges.restore(connection, id_, version=version, by=actor, now=request.now)
    )
    return _run_first_step(operation, slug, request)


def _admit_purge(slug: str, request: Request, tenant_id: UUID | None = None) -> UUID:
    tenant_id = request.admit("Purging", slug, tenant_id, role=Role.ADMIN)
    request.caller.require_subject()
    return tenant_id


def _run_first_step(operation: Operation, slug: str, request: Request) -> Response[OperationProgress]:
    """Run the first step, which usually completes the operation.

    The worker runs the remaining steps.
    """
    try:
        engine.run_step(request.database, PurgeSteps(), operation.id, operation.tenant_id, request.now)
        with request.database.tenant(operation.tenant_id) as connection:
            operation = store.show(connection, operation.id)
    except TransientError as error:
        logger.warning(
            "The worker must finish a purge", purge=str(operation.id), error=safe_message(error, for_log=True)
        )
    return versioned_response(progress(operation, slug, request.caller), 202 if operation.ended_at is None else 200)


# -- operations -------------------------------------------------------------------------------------------------------

_REPROCESS_RESPONSES = responses(
    {202: (OperationProgress, "The operation was accepted and starts within a minute.")}, 400, 404, 413, 415, 422, 429
)
_REPROCESS_RESPONSES[202]["headers"] = VERSIONED
_DETAIL_RESPONSES = responses({200: (OperationProgress, "The progress of the operation.")}, 404, 422)
_DETAIL_RESPONSES[200]["headers"] = VERSIONED
_COMMAND_RESPONSES = responses({200: (OperationProgress, "The new state.")}, 404, 409, 412, 413, 422, 428, 429)
_COMMAND_RESPONSES[200]["headers"] = VERSIONED
_RATE_RESPONSES = responses({200: (OperationProgress, "The new rate.")}, 400, 404, 409, 412, 413, 415, 422, 428, 429)
_RATE_RESPONSES[200]["headers"] = VERSIONED


@routes.post(
    "/api/admin/operations", summary="Reprocess documents", tags=["operations"], responses=_REPROCESS_RESPONSES
)
def reprocess_documents(request: Request, body: Annotated[ReprocessingRequest, Body()]) -> Response[OperationProgress]:
    """Extract or match a tenant's documents again, at a bounded rate."""
    slug = request.slug(body.tenant)
    tenant_id = request.admit("Reprocessing", slug, role=Role.ADMIN)
    actor = request.caller.require_subject()
    operation = request.commit(
        tenant_id,
        lambda connection: reprocess.request_reprocessing(
            connection,
            tenant_id,
            body.action,
            received_from=body.received_from,
            received_before=body.received_before,
            rate=body.rate,
            by=actor,
            now=request.now,
        ),
    )
    return versioned_response(progress(operation, slug, request.caller), 202)


@routes.get(
    "/api/admin/operations",
    summary="List operations",
    tags=["operations"],
    responses=responses({200: (OperationPage, "A page of operations, newest first.")}, 404, 422),
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
        rows = store.page(connection, tenant_id, limit=limit + 1, actions=action or store.ACTIONS, after=after)
    page, next_cursor = http.split_page(rows, limit, lambda operation: (operation.requested_at, operation.id))
    return OperationPage(
        operations=[progress(operation, slug, request.caller) for operation in page], next_cursor=next_cursor
    )


@routes.get(
    "/api/admin/operations/<operation_id>",
    summary="Show an operation",
    tags=["operations"],
    responses=_DETAIL_RESPONSES,
)
def show_operation(request: Request, operation_id: Id) -> Response[OperationProgress]:
    """Return the progress of an operation."""
    tenant_id, slug, id_ = owned_operation(request, operation_id)
    with request.database.tenant(tenant_id) as connection:
        return versioned_response(progress(store.show(connection, id_), slug, request.caller))


@routes.get(
    "/api/admin/operations/<operation_id>/items",
    summary="List an operation's results",
    tags=["operations"],
    responses=responses({200: (OperationItemPage, "A page of items, in processing order.")}, 404, 422),
)
def list_operation_items(
    request: Request,
    operation_id: Id,
    result: Annotated[Result | None, Query(description="Only items with this result.")] = None,
    cursor: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="`next_cursor` of the previous page.")] = None,
    limit: Limit = PAGE,
) -> OperationItemPage:
    """Return a page of an operation's dead letters with their results.

    Reprocessing has no items.
    """
    tenant_id, slug, id_ = owned_operation(request, operation_id)
    with request.database.tenant(tenant_id) as connection:
        rows = store.items(connection, id_, limit=limit + 1, after=cursor or 0, result=result)
        page = rows[:limit]
        entries = search.find_by_ids(connection, tenant_id, DeadLetterFilter(), [item.job_id for item in page])
    dead_letters = {entry.job_id: summary(entry, slug, request.caller) for entry in entries}
    return OperationItemPage(
        operation_id=id_,
        items=[OperationItemDetail(**vars(item), dead_letter=dead_letters.get(item.job_id)) for item in page],
        next_cursor=page[-1].number if len(rows) > limit else None,
    )


@routes.post(
    "/api/admin/operations/<operation_id>/pause",
    summary="Pause an operation",
    tags=["operations"],
    responses=_COMMAND_RESPONSES,
)
def pause_operation(request: Request, operation_id: Id, if_match: IfMatch = None) -> Response[OperationProgress]:
    """Pause an operation. Items that have started are completed."""
    return _run_command(request, operation_id, "pause", if_match)


@routes.post(
    "/api/admin/operations/<operation_id>/resume",
    summary="Resume an operation",
    tags=["operations"],
    responses=_COMMAND_RESPONSES,
)
def resume_operation(request: Request, operation_id: Id, if_match: IfMatch = None) -> Response[OperationProgress]:
    """Resume a paused operation."""
    return _run_command(request, operation_id, "resume", if_match)


@routes.post(
    "/api/admin/operations/<operation_id>/cancel",
    summary="Cancel an operation",
    tags=["operations"],
    responses=_COMMAND_RESPONSES,
)
def cancel_operation(request: Request, operation_id: Id, if_match: IfMatch = None) -> Response[OperationProgress]:
    """Cancel an operation permanently. Items that have started are completed."""
    return _run_command(request, operation_id, "cancel", if_match)


@routes.patch(
    "/api/admin/operations/<operation_id>",
    summary="Change an operation's rate",
    tags=["operations"],
    responses=_RATE_RESPONSES,
)
def change_operation(
    request: Request, operation_id: Id, body: Annotated[OperationChange, Body()], if_match: IfMatch = None
) -> Response[OperationProgress]:
    """Change the rate of the remaining items.

    For reprocessing, this requires the admin role.
    """
    tenant_id, slug, id_ = owned_operation(request, operation_id)
    with request.database.tenant(tenant_id) as connection:
        action = store.show(connection, id_).action
    role = Role.ADMIN if action in REPROCESSING else Role.OPERATOR
    request.admit("Changing the rate", slug, tenant_id, role=role)
    actor = request.caller.require_subject()
    version = required_version(if_match)
    operation = request.commit(
        tenant_id,
        lambda connection: store.change_rate(connection, id_, body.rate, version=version, actor=actor, now=request.now),
    )
    return versioned_response(progress(operation, slug, request.caller))


_COMMAND_NAMES: dict[OperationCommand, str] = {"pause": "Pausing", "resume": "Resuming", "cancel": "Canceling"}


def _run_command(
    request: Request, operation_id: str, command: OperationCommand, if_match: str | None
) -> Response[OperationProgress]:
    """Pause, resume or cancel an operation."""
    tenant_id, slug, id_ = owned_operation(request, operation_id)
    request.admit(_COMMAND_NAMES[command], slug, tenant_id)
    actor = request.caller.require_subject()
    version = required_version(if_match)
    operation = request.commit(
        tenant_id,
        lambda connection: store.change_state(connection, id_, command, version=version, actor=actor, now=request.now),
    )
    return versioned_response(progress(operation, slug, request.caller))
