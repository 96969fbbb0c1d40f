"""`/api/admin/dlq/bulk-...`, `/operations`: many dead letters are tried again, resolved or ignored, as one operation.

Asking for one takes the role operator for the tenant, looking the role viewer. Who steers one names its version in
If-Match: that grows with each change of its state, and not with its progress.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from counterfoil.db import Database, retry_conflicts
from counterfoil.dead_letters import bulk, entries
from counterfoil.dead_letters.bulk import Action, Asked, BulkOperation, Item, Result, State, Steer
from counterfoil.dead_letters.entries import DeadLetterFilter
from counterfoil.errors import RejectedRequestError
from functions.admin_api import request
from functions.admin_api.allowance import Change
from functions.admin_api.caller import NOBODY, Caller, Role
from functions.admin_api.dead_letters import LetterSummary, Pointers, hidden, summary
from functions.admin_api.etags import seen
from functions.admin_api.letter_changes import Note
from functions.admin_api.problems import NotFoundError
from functions.admin_api.tenancy import ONE_BY_ONE, Somebody, owned, slug_of, viewed

RETRY_RATE = 50
"""Letters a second, where it is not said."""
NO_OPERATION = "There is no such operation."
Rate = Annotated[int, Field(ge=1, le=bulk.MAX_RATE, description="Letters a second.")]


class BulkFilter(DeadLetterFilter):
    """Pending dead letters at the time of the request."""

    tenant: Somebody | None = None


class Bulk(BaseModel):
    """Which letters, and how fast: `job_ids` or `filter`."""

    model_config = ConfigDict(extra="forbid")

    job_ids: list[UUID] | None = Field(default=None, min_length=1, max_length=bulk.MOST_NAMED)
    filter: BulkFilter | None = None
    dry_run: bool = Field(default=False, description="Only say how many there are, and show some.")


class BulkRetry(Bulk):
    """Letters whose work is to be tried again."""

    rate: Rate = RETRY_RATE
    canary: int | None = Field(
        default=None, ge=1, le=10_000, description="So many first: the others follow when these have succeeded."
    )
    notes: Note | None = None


class BulkResolution(Bulk):
    """Letters whose failure was dealt with in another way, and how."""

    rate: Rate = bulk.MAX_RATE
    notes: Note | None = Field(default=None, description="Needed, unless it is a dry run.")


class BulkIgnoring(Bulk):
    """Letters that nothing is done about, and why."""

    rate: Rate = bulk.MAX_RATE
    reason: Note | None = Field(default=None, description="Needed, unless it is a dry run.")


class BulkPreview(BaseModel):
    """What an operation would be about."""

    tenant: str
    count: int
    is_exact: bool = Field(description=f"Whether there are no more: a search counts {bulk.COUNTED} and some.")
    sample: list[LetterSummary] = Field(description=f"The newest of them, at most {bulk.SAMPLE}.")


class LetterOperation(BaseModel):
    """An operation on many dead letters, and how far it is."""

    operation_id: UUID
    tenant: str
    action: Action
    filter: dict[str, JsonValue] | None = Field(description="Null where the letters were named.")
    notes: str | None
    rate: int
    canary: int | None
    requested_by: str
    requested_at: str
    state: State = Field(
        description="waiting: letters are being selected. canary: some were tried first, and are waited for. paused: "
        "somebody paused it, or the canary does not succeed. stopped: one of the canary died again."
    )
    version: int = Field(description="Grows with each change of the state; a change names it in If-Match.")
    reason: str | None = Field(description="Why it was stopped, or paused by itself.")
    ended_at: str | None
    total: int | None = Field(description="Letters that are meant; null until all are selected.")
    done: int
    failed: int
    skipped: int = Field(description="Letters that somebody settled meanwhile, that died again, or are gone.")
    left: int = Field(description="Selected letters that have no result yet, or never get one, as it has ended.")
    redacted: Pointers


class LetterOperationPage(BaseModel):
    """Operations, the newest first, and the cursor of the page after them."""

    operations: list[LetterOperation]
    next: str | None


class LetterOperationItem(BaseModel):
    """What became of a letter."""

    number: int
    job_id: UUID
    result: Result | None = Field(description="Null: its turn has not come.")
    reason: str | None = Field(description="Why it was not done.")
    version: int | None = Field(description="The letter's, by then.")
    revision: int | None = Field(description="Of the work that was begun anew.")


class LetterOperationItemPage(BaseModel):
    """Letters of an operation in their order, and the cursor of the page after them."""

    operation_id: UUID
    items: list[LetterOperationItem]
    next: int | None


DOING: dict[Action, str] = {"retry": "Trying again", "resolve": "Resolving", "ignore": "Ignoring"}


@dataclass(frozen=True)
class _Meant:
    """Which letters, of which tenant."""

    tenant_id: UUID
    slug: str
    selection: DeadLetterFilter | None
    job_ids: Sequence[UUID]


def asked(
    action: Action, wanted: BulkRetry | BulkResolution | BulkIgnoring, change: Change
) -> BulkPreview | LetterOperation:
    """Store an operation; or, for a dry run, say what it would be about.

    Raises:
        RejectedRequestError: it is not said which letters or of which tenant, no pending ones are meant, or a note is
            missing.
        ForbiddenError, NotFoundError, TooManyError, DatabaseUnavailableError: see `Change.admit`. There is no letter of
            these ids that the caller may see.
    """
    if (wanted.job_ids is None) == (wanted.filter is None):
        raise RejectedRequestError("Say which letters are meant: with job_ids or with filter.")
    meant = _meant(action, wanted, change)
    if wanted.dry_run:
        with change.database.tenant(meant.tenant_id) as connection:
            found = bulk.preview(connection, meant.tenant_id, meant.selection, meant.job_ids, change.now)
        sample = [summary(letter, meant.slug, change.caller) for letter in found.sample]
        return BulkPreview(tenant=meant.slug, count=found.count, is_exact=found.is_exact, sample=sample)
    by = change.caller.named()
    note = wanted.reason if isinstance(wanted, BulkIgnoring) else wanted.notes
    canary = wanted.canary if isinstance(wanted, BulkRetry) else None
    operation = Asked(action, meant.selection, meant.job_ids, note, wanted.rate, canary, by, change.now)

    def once() -> BulkOperation:
        with change.database.tenant(meant.tenant_id) as connection:
            return bulk.request(connection, meant.tenant_id, operation)

    return _told(retry_conflicts(once), meant.slug, change.caller)


def _meant(action: Action, wanted: Bulk, change: Change) -> _Meant:
    if wanted.filter is not None:
        slug = slug_of(wanted.filter.tenant, change.caller)
        tenant_id = change.admit(DOING[action], slug)
        return _Meant(tenant_id, slug, _pending(wanted.filter), ())
    ids = wanted.job_ids or []
    with change.database.delivery() as connection:
        found = entries.owners(connection, ids)
    visible = [(owner, name) for owner, name in found if change.caller.may(Role.VIEWER, name or NOBODY)]
    if not visible:
        raise NotFoundError("There are no such dead letters.")
    if len(visible) > 1:
        raise RejectedRequestError("The dead letters are of several tenants: ask for one tenant's at a time.")
    ((owner, name),) = visible
    if owner is None or name is None:
        raise RejectedRequestError(f"The dead letters are nobody's: {ONE_BY_ONE}.")
    change.admit(DOING[action], name, owner)
    return _Meant(owner, name, None, ids)


def _pending(wanted: BulkFilter) -> DeadLetterFilter:
    if "pending" not in wanted.status:
        raise RejectedRequestError("Only pending letters can be tried again or settled: status leaves them out.")
    return DeadLetterFilter(**wanted.model_dump(exclude={"tenant", "status"}))


def listed(
    tenant: str | None, cursor: str | None, limit: int, caller: Caller, database: Database
) -> LetterOperationPage:
    """A page of a tenant's operations.

    Raises:
        RejectedRequestError: the cursor cannot be read, or it is not said of which tenant.
        ForbiddenError, NotFoundError: the caller is no viewer of the tenant, or there is none.
        DatabaseUnavailableError: this cannot be known just now.
    """
    after = None if cursor is None else request.after(cursor)
    tenant_id, slug = viewed(database, tenant, caller)
    with database.tenant(tenant_id) as connection:
        found = bulk.page(connection, tenant_id, limit=limit + 1, after=after)
    shown, following = request.cut(found, limit, lambda one: (one.requested_at, one.id))
    return LetterOperationPage(operations=[_told(one, slug, caller) for one in shown], next=following)


def shown(operation_id: str, caller: Caller, database: Database) -> LetterOperation:
    """An operation as it is.

    Raises:
        NotFoundError: there is none, or none that the caller may see.
        DatabaseUnavailableError: this cannot be known just now.
    """
    tenant_id, slug, id_ = owned(operation_id, bulk.owner, caller, database, NO_OPERATION)
    with database.tenant(tenant_id) as connection:
        return _told(bulk.show(connection, id_), slug, caller)


def items(  # what of which operation, for whom
    operation_id: str,
    result: Result | None,
    after: int | None,
    limit: int,
    caller: Caller,
    database: Database,
) -> LetterOperationItemPage:
    """A page of an operation's letters. Raises as `shown`."""
    tenant_id, _, id_ = owned(operation_id, bulk.owner, caller, database, NO_OPERATION)
    with database.tenant(tenant_id) as connection:
        found: list[Item] = bulk.items(connection, id_, limit=limit + 1, after=after or 0, result=result)
    page = found[:limit]
    return LetterOperationItemPage(
        operation_id=id_,
        items=[LetterOperationItem.model_validate(vars(one)) for one in page],
        next=page[-1].number if len(found) > limit else None,
    )


STEERING: dict[Steer, str] = {"pause": "Pausing", "resume": "Resuming", "abort": "Aborting"}


def steered(operation_id: str, how: Steer, condition: str | None, change: Change) -> LetterOperation:
    """Pause, resume or abort an operation. Up to a minute's worth of its rate is begun ahead, and goes on.

    Raises:
        NotFoundError: there is none, or none that the caller may see.
        ForbiddenError, TooManyError: see `Change.admit`.
        NoConditionError, VersionError: If-Match is missing, or names another version.
        OperationStateError: it has ended, or is paused already, or is not.
        DatabaseUnavailableError: this cannot be done just now.
    """
    tenant_id, slug, id_ = owned(operation_id, bulk.owner, change.caller, change.database, NO_OPERATION)
    change.admit(STEERING[how], slug, tenant_id)
    by = change.caller.named()
    version = seen(condition)

    def once() -> BulkOperation:
        with change.database.tenant(tenant_id) as connection:
            return bulk.steer(connection, id_, how, version=version, actor=by, now=change.now)

    return _told(retry_conflicts(once), slug, change.caller)


def _told(operation: BulkOperation, slug: str, caller: Caller) -> LetterOperation:
    told: dict[str, Any] = {
        **vars(operation),
        "operation_id": operation.id,
        "tenant": slug,
        **hidden({"filter": operation.filter, "notes": operation.note, "reason": operation.reason}, caller),
        "requested_at": operation.requested_at.isoformat(),
        "ended_at": operation.ended_at and operation.ended_at.isoformat(),
        "total": operation.selected if operation.is_selected else None,
        "left": operation.selected - operation.handled,
    }
    return LetterOperation.model_validate(told)
