"""`/api/admin/dlq/purge`: settled dead letters are taken out of sight, and had back within a week.

A purge takes the role admin for the tenant and its slug, typed: without that, it says how many letters it would take.
That number is the version of what would go, which a purge that is confirmed names in If-Match: so it never takes more
than were shown. A purge has a version, too, which grows when it is undone, and whoever undoes it names that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from aws_lambda_powertools import Logger
from pydantic import BaseModel, Field

from counterfoil.db import Database, retry_conflicts
from counterfoil.dead_letters import keeping
from counterfoil.dead_letters.keeping import Purge
from counterfoil.delivery.letters import ClosedStatus
from counterfoil.errors import RejectedRequestError, TransientError, VersionError, sentence
from functions.admin_api import request
from functions.admin_api.allowance import Change
from functions.admin_api.caller import Caller, Role
from functions.admin_api.etags import seen
from functions.admin_api.problems import ConflictError, ForbiddenError, NotFoundError
from functions.admin_api.tenancy import id_of, slug_of, viewed

NO_PURGE = "There is no such purge."

logger = Logger()


class LetterPurgePlan(BaseModel):
    """What a purge would do."""

    tenant: str
    died_before: datetime
    statuses: list[ClosedStatus]
    count: int = Field(description="How many letters it would take: the ETag that has to be named for it to be done.")
    confirm: str = Field(description="What the parameter `confirm` has to say for it to be done.")


class LetterPurge(BaseModel):
    """A purge. The letters are out of sight; for a week they can be had back, then they are deleted."""

    purge_id: UUID
    tenant: str
    died_before: datetime
    statuses: list[ClosedStatus]
    requested_by: str
    requested_at: datetime
    hidden: int = Field(description="How many letters are out of sight because of it.")
    is_complete: bool = Field(description="Whether all of them are; once it is undone, whether all are back.")
    undo_until: datetime = Field(description="When it is too late to undo it.")
    undone_by: str | None
    undone_at: datetime | None
    version: int = Field(description="Grows when it is undone; who undoes it names it in If-Match.")


class LetterPurgePage(BaseModel):
    """Purges, the newest first, and the cursor of the page after them."""

    purges: list[LetterPurge]
    next: str | None


@dataclass(frozen=True)
class Wanted:
    """What is to be purged."""

    tenant: str | None
    died_before: datetime
    statuses: Sequence[ClosedStatus]
    confirm: str | None
    """The tenant's slug, as a person typed it."""
    condition: str | None
    """If-Match: how many letters that person was told."""


def purge(wanted: Wanted, change: Change) -> LetterPurgePlan | LetterPurge:
    """Say what a purge would do; or, where it is confirmed, do it.

    Many letters are taken out of sight by and by.

    Raises:
        RejectedRequestError: it is not said of which tenant, or another one is confirmed.
        NoConditionError, VersionError: it is confirmed, and If-Match is missing, or names another number of letters.
        ForbiddenError: the caller is no admin of the tenant, or has no name. It is not told whether there is a tenant.
        NotFoundError, TooManyError, DatabaseUnavailableError: see `Change.admit`.
    """
    slug = slug_of(wanted.tenant, change.caller)
    tenant_id = _admit(slug, change)
    before = min(wanted.died_before, change.now)
    if wanted.confirm is None:
        with change.database.tenant(tenant_id) as connection:
            count = keeping.count(connection, tenant_id, before, wanted.statuses)
        return LetterPurgePlan(
            tenant=slug, died_before=before, statuses=list(wanted.statuses), count=count, confirm=slug
        )
    if wanted.confirm != slug:
        raise RejectedRequestError("confirm is not the slug of the tenant whose letters are to be purged.")
    shown = seen(wanted.condition)

    def once() -> Purge:
        with change.database.tenant(tenant_id) as connection:
            count = keeping.count(connection, tenant_id, before, wanted.statuses)
            if count != shown:
                raise VersionError(
                    f"Nothing is purged: the number of letters that would go is {count:,} by now, and was {shown:,}."
                )
            by = change.caller.subject
            return keeping.request(connection, tenant_id, before, wanted.statuses, by=by, now=change.now)

    return _stepped(retry_conflicts(once), slug, change)


def shown(purge_id: str, caller: Caller, database: Database) -> LetterPurge:
    """A purge as it is.

    Raises:
        NotFoundError: there is none, or none that the caller may see.
        DatabaseUnavailableError: this cannot be known just now.
    """
    return _told(*_owned(purge_id, caller, database))


def undo(purge_id: str, condition: str | None, change: Change) -> LetterPurge:
    """Have the letters of a purge back, all but their messages in SQS.

    Raises:
        NotFoundError: there is no such purge, or none that the caller may see.
        NoConditionError, VersionError: If-Match is missing, or names another version.
        ConflictError: it is undone already, or too late.
        ForbiddenError, TooManyError, DatabaseUnavailableError: see `purge`.
    """
    found, slug = _owned(purge_id, change.caller, change.database)
    _admit(slug, change, found.tenant_id)
    version = seen(condition)

    def once() -> Purge | None:
        with change.database.tenant(found.tenant_id) as connection:
            return keeping.undo(connection, found.id, version=version, by=change.caller.subject, now=change.now)

    undone = retry_conflicts(once)
    if undone is None:
        late = change.now >= found.undo_until
        raise ConflictError(
            f"A purge can be undone for {keeping.UNDO_WITHIN.days} days." if late else "The purge is undone already."
        )
    return _stepped(undone, slug, change)


def listed(tenant: str | None, cursor: str | None, limit: int, caller: Caller, database: Database) -> LetterPurgePage:
    """A page of a tenant's purges.

    Raises:
        RejectedRequestError: the cursor cannot be read, or it is not said of which tenant.
        ForbiddenError, NotFoundError: the caller is no viewer of the tenant, or there is none.
        DatabaseUnavailableError: this cannot be known just now.
    """
    after = None if cursor is None else request.after(cursor)
    tenant_id, slug = viewed(database, tenant, caller)
    with database.tenant(tenant_id) as connection:
        found = keeping.of_tenant(connection, tenant_id, limit=limit + 1, after=after)
    shown, following = request.cut(found, limit, lambda one: (one.requested_at, one.id))
    return LetterPurgePage(purges=[_told(one, slug) for one in shown], next=following)


def _admit(slug: str, change: Change, tenant_id: UUID | None = None) -> UUID:
    if not change.caller.may(Role.ADMIN, slug):
        raise ForbiddenError("Purging takes the role admin for this tenant: ask an admin for it.")
    tenant_id = change.admit("Purging", slug, tenant_id)
    change.caller.named()
    return tenant_id


def _owned(purge_id: str, caller: Caller, database: Database) -> tuple[Purge, str]:
    """A purge that the caller may see, and the tenant's slug."""
    id_ = id_of(purge_id, NO_PURGE)
    with database.delivery() as connection:
        found = keeping.find(connection, id_)
        row = found and connection.execute("SELECT slug FROM tenant WHERE id = %s", [found.tenant_id]).fetchone()
    if found is None or not row or not caller.may(Role.VIEWER, row[0]):
        raise NotFoundError(NO_PURGE)
    return found, row[0]


def _stepped(purge: Purge, slug: str, change: Change) -> LetterPurge:
    """The purge after its first step, which is the last one of most.

    The watchdog takes the others, and this one too where it cannot be taken now: what is asked for is stored.
    """
    try:
        with change.database.delivery() as connection:
            keeping.step(connection, change.now, purge.id)
            purge = keeping.find(connection, purge.id) or purge
    except TransientError as error:
        logger.warning("A purge waits for the watchdog", purge=str(purge.id), error=sentence(error, for_log=True))
    return _told(purge, slug)


def _told(purge: Purge, slug: str) -> LetterPurge:
    named = {"purge_id": purge.id, "tenant": slug, "undo_until": purge.undo_until, "version": purge.version}
    return LetterPurge.model_validate({**vars(purge), **named})
