"""`/api/admin/dlq`: dead letters are listed, searched, grouped, counted and looked at.

Looking takes the role viewer for the tenant; the letters of nobody, messages that could not be read, are those of the
tenant `-`, for viewers of all tenants. What secrets there are is hidden from everybody below the role admin;
`redacted` says where.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from counterfoil.db import Connection, Database
from counterfoil.dead_letters import entries, groups, search, timeline
from counterfoil.dead_letters.entries import STATUSES, DeadLetterFilter, Details, Entry, Place, Status
from counterfoil.dead_letters.redaction import redact, without_traceback
from counterfoil.errors import RejectedRequestError
from functions.admin_api import http
from functions.admin_api.auth import UNASSIGNED, Caller, Role, item_id, scoped
from functions.admin_api.http import NotFoundError
from functions.admin_api.logs import TryLog, of_trace, of_try

DEEPEST = 10_000
"""Letters that are paged through by number; behind them the cursor goes on."""
LAST_EVENTS = 100
"""Of each kind in a timeline: with the longest errors they are within the 6 MB of Lambda's answers."""
LAST_DEATHS = 50
"""Of a letter's earlier ones that are shown."""

Pointers = Annotated[list[str], Field(description="JSON pointers (RFC 6901) to what was hidden.")]


class LastError(BaseModel):
    """Error that ended the work."""

    model_config = ConfigDict(extra="allow")

    type: str
    code: str | None = Field(default=None, description="Stable name of the failure; null if only its message tells.")
    message: str
    timestamp: datetime
    context: dict[str, JsonValue] = Field(
        default={}, description="`worker`, `attempt` and, for admins, `traceback`: frames of Counterfoil's own code."
    )


class Metadata(BaseModel):
    """What delivery knows of the work."""

    model_config = ConfigDict(extra="allow")

    created_at: datetime
    retry_count: int
    max_retry: int
    last_error: LastError


class Resolution(BaseModel):
    """How it was settled."""

    model_config = ConfigDict(extra="allow")

    action: str
    notes: str | None = None


class LetterSummary(BaseModel):
    """A dead letter as lists have it."""

    job_id: UUID
    tenant: str
    worker: str
    task_type: str
    work_id: UUID | None
    revision: int | None
    attempts: int
    fingerprint: str
    dlq_reason: str
    dlq_timestamp: datetime = Field(description="When it died last.")
    status: Status
    resolution: Resolution | None
    resolved_at: datetime | None
    resolved_by: str | None
    metadata: Metadata
    version: int = Field(description="Version, for `If-Match`.")
    file_name: str | None = Field(description="File that the work item processed, if any.")
    redacted: Pointers


class EarlierDeath(BaseModel):
    """A death that was not the last one, and how it was settled."""

    model_config = ConfigDict(extra="allow")

    revision: int | None
    dlq_reason: str
    dlq_timestamp: datetime
    status: Status
    resolution: Resolution | None = None
    attempts: int | None = None
    last_error: LastError | None = None


class Letter(LetterSummary):
    """A dead letter with all that was kept of it."""

    payload: dict[str, JsonValue]
    lineage: list[EarlierDeath] = Field(description=f"The last {LAST_DEATHS} at most, the first of them first.")


class LetterPage(BaseModel):
    """Dead letters, the newest first, and the cursor of the page after them.

    A page of a search may be short, and another one follow.
    """

    letters: list[LetterSummary]
    next: str | None


class LetterGroup(BaseModel):
    """Dead letters that died of the same."""

    fingerprint: str
    worker: str
    error_type: str
    sentence: str = Field(description="The error without what differs from letter to letter.")
    first_seen: datetime
    last_seen: datetime
    count: int
    pending: int
    retried: int
    resolved: int
    ignored: int
    state: groups.State = Field(description="Resolved or ignored as a whole; open again once a letter dies later.")
    trend: list[int] = Field(
        description=f"How many died in each of the last {groups.HOURS} hours, the current one last."
    )
    redacted: Pointers


class LetterGroupPage(BaseModel):
    """Groups, those that died last first, and the cursor of the page after them."""

    groups: list[LetterGroup]
    next: str | None


class LetterCounts(BaseModel):
    """How many letters there are in each state."""

    count: int
    pending: int
    retried: int
    resolved: int
    ignored: int


class LetterCountsOfType(LetterCounts):
    """The same, of one type of task."""

    task_type: str


class LetterStats(LetterCounts):
    """How many letters there are."""

    tenant: str
    task_types: list[LetterCountsOfType]


class ToldError(BaseModel):
    """An error as it was kept."""

    type: str | None
    message: str | None


class LetterEvent(BaseModel):
    """Something that happened to a letter or to its work."""

    at: datetime = Field(description="When it was over.")
    kind: Literal["try", "death", "change"]
    what: str = Field(description="How the try ended, why the work died, or what was done about it.")
    who: str = Field(description="The worker, or the person.")
    error: ToldError | None
    revision: int | None
    number: int | None = Field(description="Of the try, or of the tries before the death.")
    began_at: datetime | None
    next_attempt_at: datetime | None
    detail: dict[str, JsonValue]
    log: TryLog | None = Field(description="Of a try.")
    trace_id: str | None = Field(
        description="Of the X-Ray trace of a try that was chosen as a sample. X-Ray keeps it for 30 days."
    )
    trace_url: str | None = Field(description="Of that trace in the AWS console; null in a local cloud.")


class LetterTimeline(BaseModel):
    """What happened, the first of it first."""

    job_id: UUID
    tenant: str
    events: list[LetterEvent] = Field(description=f"The last {LAST_EVENTS} tries, deaths and changes at most.")
    redacted: Pointers


@dataclass(frozen=True)
class Listing:
    """A page of a list."""

    tenant: str | None
    wanted: DeadLetterFilter
    page: int
    limit: int
    cursor: str | None


def listed(asked: Listing, caller: Caller, database: Database) -> LetterPage:
    """A page of a tenant's dead letters.

    Raises:
        RejectedRequestError: a parameter cannot be read, or a page by its number is too deep or one of a search.
        ForbiddenError, NotFoundError: the caller is no viewer of the tenant, or there is none.
        DatabaseUnavailableError: this cannot be known just now.
    """
    after = None if asked.cursor is None else Place(*http.after(asked.cursor))
    _check_page(asked)
    tenant_id, slug = scoped(database, asked.tenant, caller)
    with entries.transaction(database, tenant_id) as connection:
        shown, last = _page(connection, tenant_id, asked, after)
    return LetterPage(
        letters=[summary(one, slug, caller) for one in shown],
        next=None if last is None else http.cursor(*last),
    )


def summary(letter: Entry, slug: str, caller: Caller) -> LetterSummary:
    """A letter of the tenant `slug` as the caller may see it."""
    return LetterSummary.model_validate(_told(letter, slug, caller))


def _check_page(asked: Listing) -> None:
    if asked.page == 1:
        return
    if asked.cursor is not None:
        raise RejectedRequestError("page and cursor say two things: leave one of them out.")
    if asked.wanted.text is not None:
        raise RejectedRequestError("A search has no pages by number: go on with cursor, which is 'next' of a page.")
    if asked.page * asked.limit > DEEPEST:
        raise RejectedRequestError(f"page goes {DEEPEST} letters deep: go on with cursor, which is 'next' of a page.")


def _page(
    connection: Connection, tenant_id: UUID | None, asked: Listing, after: Place | None
) -> tuple[Sequence[Entry], Place | None]:
    """Letters, and where they end if there is more."""
    offset = (asked.page - 1) * asked.limit
    if offset == 0:
        found = search.page(connection, tenant_id, asked.wanted, limit=asked.limit, after=after)
        return found.entries, found.next
    more = entries.page(connection, tenant_id, asked.wanted, limit=asked.limit + 1, after=after, offset=offset)
    shown = more[: asked.limit]
    return shown, Place(shown[-1].dlq_timestamp, shown[-1].job_id) if len(more) > asked.limit else None


def grouped(asked: Listing, caller: Caller, database: Database, now: datetime) -> LetterGroupPage:
    """A page of a tenant's groups. Raises as `listed`."""
    after = None if asked.cursor is None else http.after(asked.cursor, str)
    tenant_id, _ = scoped(database, asked.tenant, caller)
    with entries.transaction(database, tenant_id) as connection:
        found = groups.page(connection, tenant_id, asked.wanted.status, now, limit=asked.limit + 1, after=after)
    shown = found[: asked.limit]
    last = shown[-1] if len(found) > asked.limit else None
    return LetterGroupPage(
        groups=[
            LetterGroup.model_validate(
                {**vars(one), "count": one.count, "state": one.state, **hidden({"sentence": one.sentence}, caller)}
            )
            for one in shown
        ],
        next=None if last is None else http.cursor(last.last_seen, last.fingerprint),
    )


def stats(tenant: str | None, caller: Caller, database: Database) -> LetterStats:
    """How many letters a tenant has, by type of task and state. Raises as `listed`."""
    tenant_id, slug = scoped(database, tenant, caller)
    with entries.transaction(database, tenant_id) as connection:
        found = groups.stats(connection, tenant_id)
    by_type = {
        task_type: {status: found[task_type].get(status, 0) for status in STATUSES} for task_type in sorted(found)
    }
    total = {status: sum(counts[status] for counts in by_type.values()) for status in STATUSES}
    return LetterStats.model_validate(
        {
            **total,
            "count": sum(total.values()),
            "tenant": slug,
            "task_types": [
                {**counts, "count": sum(counts.values()), "task_type": task_type}
                for task_type, counts in by_type.items()
            ],
        }
    )


def shown(job_id: str, caller: Caller, database: Database) -> Letter:
    """One dead letter.

    Raises:
        NotFoundError: there is none, or none that the caller may see.
        DatabaseUnavailableError: this cannot be known just now.
    """
    tenant_id, slug, id_ = owner(job_id, caller, database)
    with entries.transaction(database, tenant_id) as connection:
        letter = _there(connection, tenant_id, id_)
    return Letter.model_validate(_told(replace(letter, lineage=letter.lineage[-LAST_DEATHS:]), slug, caller))


def told(job_id: str, caller: Caller, database: Database, console: str | None) -> LetterTimeline:
    """What happened to one dead letter, with links into the AWS `console`. Raises as `shown`."""
    tenant_id, slug, id_ = owner(job_id, caller, database)
    with entries.transaction(database, tenant_id) as connection:
        letter = _there(connection, tenant_id, id_)
        events = timeline.of(connection, tenant_id, letter, limit=LAST_EVENTS)
    told = hidden({"events": [asdict(event) for event in events]}, caller)
    for event, shown in zip(events, told["events"], strict=True):  # nothing of this is anybody's text
        shown["log"] = _log(event, letter, console)
        shown["trace_url"] = of_trace(event.trace_id, console)
    return LetterTimeline.model_validate({"job_id": id_, "tenant": slug, **told})


def _log(event: timeline.Event, letter: entries.Details, console: str | None) -> TryLog | None:
    if event.kind != "try" or letter.work_id is None or event.revision is None or event.began_at is None:
        return None
    return of_try(letter.worker, letter.work_id, event.revision, event.began_at, event.at, console)


def owner(job_id: str, caller: Caller, database: Database) -> tuple[UUID | None, str, UUID]:
    """The tenant of a letter that the caller may see, by id and slug and the letter's id.

    Raises:
        NotFoundError: there is none, or none that the caller may see.
        DatabaseUnavailableError: this cannot be known just now.
    """
    id_ = item_id(job_id, NO_LETTER)
    with database.delivery() as connection:
        found = entries.owner(connection, id_)
    if found is None:
        raise NotFoundError(NO_LETTER)
    tenant_id, slug = found[0], found[1] or UNASSIGNED
    if not caller.may(Role.VIEWER, slug):
        raise NotFoundError(NO_LETTER)
    return tenant_id, slug, id_


NO_LETTER = "There is no such dead letter."


def _there(connection: Connection, tenant_id: UUID | None, id_: UUID) -> Details:
    letter = (entries.show_nobodys if tenant_id is None else entries.show)(connection, id_)
    if letter is None:  # it was there, and has just been purged
        raise NotFoundError(NO_LETTER)
    return letter


_KEPT = ("payload", "metadata", "resolution", "lineage", "file_name")
"""Fields with text from outside, which can hold secrets."""


def _told(letter: Entry, slug: str, caller: Caller) -> dict[str, Any]:
    """A letter as the caller may see it."""
    whole = vars(letter)
    kept = {name: whole[name] for name in _KEPT if name in whole}
    return {**whole, "tenant": slug, **hidden(kept, caller)}


def hidden(kept: dict[str, Any], caller: Caller) -> dict[str, Any]:
    """Fields as the caller may see them. `redacted` points to hidden values. Only admins see tracebacks."""
    if caller.role >= Role.ADMIN:
        return {**kept, "redacted": []}
    found = redact(without_traceback(kept))
    return {**found.value, "redacted": found.pointers}
