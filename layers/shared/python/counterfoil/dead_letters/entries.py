"""Dead letters as people see them: pages, single ones, their history, and ids by their ends.

Each function runs in a transaction of one tenant or, for unassigned dead letters (tenant None), of the delivery role:
see `transaction`.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any, Literal, LiteralString, NamedTuple, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from counterfoil.db import Connection, Database
from counterfoil.documents.uploads import DECEPTIVE
from counterfoil.validation import IN_UTC, Moment, PrintableText

Status = Literal["pending", "retried", "resolved", "ignored"]
STATUSES: tuple[Status, ...] = ("pending", "retried", "resolved", "ignored")
LONGEST_TYPE = 100
LONGEST_TEXT = 200
Fingerprint = Annotated[str, StringConstraints(pattern="^[0-9a-f]{16}$")]


@dataclass(frozen=True)
class Entry:
    """A dead letter."""

    job_id: UUID
    worker: str
    task_type: str
    work_id: UUID | None
    """None where the message named no work."""
    revision: int | None
    attempts: int
    fingerprint: str
    dlq_reason: str
    dlq_timestamp: datetime
    """When it died last."""
    status: Status
    resolution: Mapping[str, Any] | None
    resolved_at: datetime | None
    resolved_by: str | None
    metadata: Mapping[str, Any]
    version: int
    file_name: str | None
    """Name of the file that the work item processed; None if it processed no file."""


@dataclass(frozen=True)
class Details(Entry):
    """A dead letter with all that was kept."""

    payload: Mapping[str, Any]
    lineage: Sequence[Mapping[str, Any]]
    """Its earlier deaths, the first of them first."""


class Place(NamedTuple):
    """Where a page ends, or begins behind."""

    dlq_timestamp: datetime
    job_id: UUID


class DeadLetterFilter(BaseModel):
    """Dead letters of one tenant, for lists, searches, exports and bulk operations."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: tuple[Status, ...] = Field(default=STATUSES, description="All statuses by default.")
    task_type: Annotated[PrintableText, StringConstraints(max_length=LONGEST_TYPE)] | None = None
    from_date: Moment | None = Field(default=None, description=f"Died then or later. {IN_UTC}")
    to_date: Moment | None = Field(default=None, description=f"Died before. {IN_UTC}")
    text: Annotated[PrintableText, StringConstraints(min_length=1, max_length=LONGEST_TEXT)] | None = Field(
        default=None, description="Words of the error and of the file's name, all of which a letter has; or an id."
    )
    fingerprint: Fingerprint | None = Field(default=None, description="Of a group.")

    @field_validator("status", mode="after")
    @classmethod
    def _in_order(cls, given: tuple[Status, ...]) -> tuple[Status, ...]:
        return tuple(status for status in STATUSES if status in given) if given else STATUSES

    def before(self, now: datetime) -> Self:
        """The same without dead letters from `now` on."""
        return self.model_copy(update={"to_date": now if self.to_date is None else min(self.to_date, now)})

    @property
    def pending(self) -> Self:
        """The same of pending dead letters only."""
        return self.model_copy(update={"status": ("pending",)})

    @property
    def stored(self) -> dict[str, Any]:
        """JSON of the fields that are set."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def hash(self) -> bytes:
        """SHA-256, equal for equal filters."""
        return hashlib.sha256(json.dumps(self.stored, sort_keys=True, separators=(",", ":")).encode()).digest()


def transaction(database: Database, tenant_id: UUID | None) -> AbstractContextManager[Connection]:
    """A transaction that sees a tenant's letters, or may see those of nobody."""
    return database.delivery() if tenant_id is None else database.tenant(tenant_id)


def about(statement: str, tenant_id: UUID | None) -> bytes:
    """The statement, which names `%(tenant)s`, as it is about a tenant, or about nobody: NULL equals nothing."""
    return (statement.replace("= %(tenant)s", "IS NULL") if tenant_id is None else statement).encode()


# Deceptive characters as escapes of PostgreSQL's regular expressions, whose texts hold no NUL.
_DECEPTIVE = "".join(one if one == "-" else f"\\u{max(1, ord(one)):04x}" for one in DECEPTIVE)
_FILE_NAME = "coalesce(payload #>> '{file,file_name}', regexp_replace(payload #>> '{file,key}', '^.*/', ''))"
_EXPRESSIONS = {"file_name": f"regexp_replace({_FILE_NAME}, '[{_DECEPTIVE}]', '\N{REPLACEMENT CHARACTER}', 'g')"}


def _select_list(form: type[Entry]) -> str:
    return ", ".join(_EXPRESSIONS.get(name, name) for name in form.__dataclass_fields__)


_COLUMNS = _select_list(Entry)
ALL_COLUMNS = _select_list(Details)
"""Select list of `Details`."""

# Each condition stands in the statement only where it is wanted, so that each form has a plan of its own index.
CONDITIONS = {
    "task_type": "AND d.task_type = %(task_type)s",
    "fingerprint": "AND d.fingerprint = %(fingerprint)s",
    "since": "AND d.dlq_timestamp >= %(since)s",
    "until": "AND d.dlq_timestamp < %(until)s",
    "after_at": "AND (d.dlq_timestamp, d.job_id) < (%(after_at)s, %(after_id)s)",
}
# The places of a page come from the index alone; what stands there is looked up for those that are shown.
_PAGE = """
SELECT {columns} FROM (
    SELECT few.job_id
    FROM unnest(%(statuses)s::text[]) AS wanted (state)
    CROSS JOIN LATERAL (
        SELECT d.job_id, d.dlq_timestamp FROM dead_letter d
        WHERE d.tenant_id = %(tenant)s AND d.status = wanted.state AND d.purged_at IS NULL {conditions}
        ORDER BY d.dlq_timestamp DESC, d.job_id DESC LIMIT %(limit)s::bigint + %(offset)s
    ) AS few
    ORDER BY few.dlq_timestamp DESC, few.job_id DESC LIMIT %(limit)s OFFSET %(offset)s
) AS shown JOIN dead_letter d USING (job_id)
ORDER BY d.dlq_timestamp DESC, d.job_id DESC
"""
_OF_GROUPS = """
SELECT {columns} FROM (
    SELECT few.job_id
    FROM unnest(%(statuses)s::text[]) AS wanted (state) CROSS JOIN unnest(%(fingerprints)s::text[]) AS alike (print)
    CROSS JOIN LATERAL (
        SELECT d.job_id, d.dlq_timestamp FROM dead_letter d
        WHERE d.tenant_id = %(tenant)s AND d.fingerprint = alike.print AND d.status = wanted.state
          AND d.purged_at IS NULL {conditions}
        ORDER BY d.dlq_timestamp DESC, d.job_id DESC LIMIT %(limit)s
    ) AS few
    ORDER BY few.dlq_timestamp DESC, few.job_id DESC LIMIT %(limit)s
) AS shown JOIN dead_letter d USING (job_id)
ORDER BY d.dlq_timestamp DESC, d.job_id DESC
"""
_OF_GROUPS_AMONG_NEWEST = """
SELECT {columns} FROM (
    SELECT newest.job_id FROM (
        SELECT few.*
        FROM unnest(%(statuses)s::text[]) AS wanted (state)
        CROSS JOIN LATERAL (
            SELECT d.job_id, d.dlq_timestamp, d.fingerprint FROM dead_letter d
            WHERE d.tenant_id = %(tenant)s AND d.status = wanted.state AND d.purged_at IS NULL {conditions}
            ORDER BY d.dlq_timestamp DESC, d.job_id DESC LIMIT %(among)s
        ) AS few
        ORDER BY few.dlq_timestamp DESC, few.job_id DESC LIMIT %(among)s
    ) AS newest
    WHERE newest.fingerprint = ANY(%(fingerprints)s)
    ORDER BY newest.dlq_timestamp DESC, newest.job_id DESC LIMIT %(limit)s
) AS shown JOIN dead_letter d USING (job_id)
ORDER BY d.dlq_timestamp DESC, d.job_id DESC
"""
_OF_IDS = """
SELECT {columns} FROM dead_letter d
WHERE d.job_id = ANY(%(ids)s) AND d.tenant_id = %(tenant)s AND d.status = ANY(%(statuses)s) AND d.purged_at IS NULL
  {conditions}
ORDER BY d.dlq_timestamp DESC, d.job_id DESC LIMIT %(limit)s
"""


def page(  # a page is this many facts
    connection: Connection,
    tenant_id: UUID | None,
    wanted: DeadLetterFilter,
    *,
    limit: int,
    after: Place | None = None,
    offset: int = 0,
) -> list[Entry]:
    """At most `limit` dead letters behind `after` and `offset` more, the newest first.

    Each state is read by an index that has it in this order: what is read grows with `offset`, and not with how many
    letters there are.
    """
    return _entries(connection, _PAGE, tenant_id, wanted, limit, after, offset=offset)


def places(
    connection: Connection, tenant_id: UUID | None, wanted: DeadLetterFilter, *, limit: int, after: Place | None = None
) -> list[Place]:
    """As `page`, where they are, and nothing else of them."""
    rows = _rows(connection, _PAGE, "d.dlq_timestamp, d.job_id", tenant_id, wanted, limit, after, offset=0)
    return [Place(*row) for row in rows]


def of_groups(  # a page is this many facts
    connection: Connection,
    tenant_id: UUID | None,
    wanted: DeadLetterFilter,
    fingerprints: Sequence[str],
    *,
    limit: int,
    after: Place | None = None,
    among: int | None = None,
) -> list[Entry]:
    """As `page`, of letters that have one of these fingerprints; with `among` only of so many newest behind `after`.

    The former costs a look for each fingerprint, the latter one for each of those letters.
    """
    statement = _OF_GROUPS if among is None else _OF_GROUPS_AMONG_NEWEST
    alike = {"fingerprints": list(fingerprints), "among": among}
    return _entries(connection, statement, tenant_id, wanted, limit, after, **alike)


def of_ids(  # a page is this many facts
    connection: Connection,
    tenant_id: UUID | None,
    wanted: DeadLetterFilter,
    ids: Sequence[UUID],
    *,
    limit: int,
    after: Place | None = None,
) -> list[Entry]:
    """As `page`, of letters that have one of these ids."""
    return _entries(connection, _OF_IDS, tenant_id, wanted, limit, after, ids=list(ids))


def _entries(
    connection: Connection,
    statement: str,
    tenant_id: UUID | None,
    wanted: DeadLetterFilter,
    limit: int,
    after: Place | None,
    **among: object,
) -> list[Entry]:
    rows = _rows(connection, statement, _COLUMNS, tenant_id, wanted, limit, after, **among)
    return [Entry(*row) for row in rows]


def _rows(  # a page is this many facts
    connection: Connection,
    statement: str,
    columns: str,
    tenant_id: UUID | None,
    wanted: DeadLetterFilter,
    limit: int,
    after: Place | None,
    **among: object,
) -> Iterable[tuple[Any, ...]]:
    values = {
        "tenant": tenant_id,
        "statuses": list(wanted.status),
        "task_type": wanted.task_type,
        "fingerprint": wanted.fingerprint,
        "since": wanted.from_date,
        "until": wanted.to_date,
        "after_at": after and after.dlq_timestamp,
        "after_id": after and after.job_id,
        "limit": limit,
        **among,
    }
    conditions = " ".join(text for name, text in CONDITIONS.items() if values[name] is not None)
    complete = statement.format(columns=columns, conditions=conditions)
    return connection.execute(about(complete, tenant_id), values)


_OWNER = """
SELECT t.id, t.slug FROM dead_letter d LEFT JOIN tenant t ON t.id = d.tenant_id
WHERE d.job_id = %s AND d.purged_at IS NULL
"""


def owner(connection: Connection, job_id: UUID) -> tuple[UUID, str] | tuple[None, None] | None:
    """The tenant of a dead letter, by id and slug, of which nobody's has none; as the delivery role.

    None where there is no such letter.
    """
    row = connection.execute(_OWNER, [job_id]).fetchone()
    return None if row is None else (row[0], row[1])


_OWNERS = """
SELECT DISTINCT d.tenant_id, t.slug FROM dead_letter d LEFT JOIN tenant t ON t.id = d.tenant_id
WHERE d.job_id = ANY(%s) AND d.purged_at IS NULL ORDER BY t.slug
"""


def owners(connection: Connection, job_ids: Sequence[UUID]) -> list[tuple[UUID | None, str | None]]:
    """The tenants of dead letters, by id and slug, None where one is nobody's; as the delivery role."""
    return connection.execute(_OWNERS, [list(job_ids)]).fetchall()


_SHOW = f"SELECT {ALL_COLUMNS} FROM dead_letter WHERE job_id = %s AND purged_at IS NULL"  # noqa: S608


def show(connection: Connection, job_id: UUID) -> Details | None:
    """One dead letter of the tenant whose transaction it is; None where it has none of this id."""
    row = connection.execute(_SHOW.encode(), [job_id]).fetchone()
    return None if row is None else Details(*row)


def show_nobodys(connection: Connection, job_id: UUID) -> Details | None:
    """One dead letter of nobody, as the delivery role; None where there is none of this id."""
    row = connection.execute(f"{_SHOW} AND tenant_id IS NULL".encode(), [job_id]).fetchone()
    return None if row is None else Details(*row)


EventKind = Literal["try", "death", "change"]
_ORDER: tuple[EventKind, ...] = ("try", "death", "change")
"""Order of events at the same time."""
_DIED = "dead"
"""Action of a dead letter in the audit trail."""


@dataclass(frozen=True)
class Event:
    """Event of a dead letter or its work item."""

    at: datetime
    """End of an attempt, or time of the event."""
    kind: EventKind
    what: str
    """Outcome of an attempt, reason of the failure, or action of an operator."""
    who: str
    """Worker or operator."""
    error: Mapping[str, str | None] | None = None
    """`type` and `message`."""
    revision: int | None = None
    number: int | None = None
    """Number of the attempt, or of attempts before the failure."""
    began_at: datetime | None = None
    next_attempt_at: datetime | None = None
    trace_id: str | None = None
    """X-Ray trace of a sampled attempt."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Detail of the audit entry: ids and short words."""


_ATTEMPT = "revision, number, began_at, ended_at, outcome, error_type, error, next_attempt_at, trace_id"
_ATTEMPTS = f"""
SELECT {_ATTEMPT} FROM work_attempt
WHERE work_id = %(work)s AND worker = %(worker)s ORDER BY ended_at DESC, id DESC LIMIT %(limit)s
"""  # noqa: S608  # names alone
_UNASSIGNED_ATTEMPTS = f"SELECT {_ATTEMPT} FROM unassigned_attempts(%(worker)s, %(work)s, %(limit)s)"  # noqa: S608
_TRAIL = """
SELECT action, actor, detail, recorded_at FROM dead_letter_audit
WHERE job_id = %s ORDER BY recorded_at DESC, id DESC LIMIT %s
"""


def history(connection: Connection, tenant_id: UUID | None, letter: Details, *, limit: int) -> list[Event]:
    """Return the events of a dead letter, oldest first.

    Of attempts, failures and audit entries, it returns the newest `limit` each.
    """
    found = [*_attempts(connection, tenant_id, letter, limit), *_deaths_and_changes(connection, letter, limit)]
    return sorted(found, key=lambda event: (event.at, _ORDER.index(event.kind)))


def _attempts(connection: Connection, tenant_id: UUID | None, letter: Details, limit: int) -> Iterator[Event]:
    if letter.work_id is None:
        return
    statement = _UNASSIGNED_ATTEMPTS if tenant_id is None else _ATTEMPTS
    values = {"work": letter.work_id, "worker": letter.worker, "limit": limit}
    rows = connection.execute(statement.encode(), values).fetchall()
    for revision, number, began_at, ended_at, outcome, error_type, error, again_at, trace in reversed(rows):
        said = None if error is None and error_type is None else {"type": error_type, "message": error}
        yield Event(ended_at, "try", outcome, letter.worker, said, revision, number, began_at, again_at, trace)


def _deaths_and_changes(connection: Connection, letter: Details, limit: int) -> Iterator[Event]:
    deaths = {death.at: death for death in _deaths(letter)[-limit:]}
    for action, actor, detail, at in reversed(connection.execute(_TRAIL, [letter.job_id, limit]).fetchall()):
        death = deaths.pop(at, None) if action == _DIED else None
        if death is None:
            yield Event(at, "change", action, actor, detail=detail)
        else:  # the audit trail has the actor, and the dead letter the error
            yield Event(at, "death", death.what, actor, death.error, death.revision, death.number)
    yield from deaths.values()


def _deaths(letter: Details) -> list[Event]:
    before = [
        Event(
            datetime.fromisoformat(death["dlq_timestamp"]),
            "death",
            death["dlq_reason"],
            letter.worker,
            _error(death.get("last_error")),
            death.get("revision"),
            death.get("attempts"),
        )
        for death in letter.lineage
    ]
    error = _error(letter.metadata.get("last_error"))
    last = Event(
        letter.dlq_timestamp, "death", letter.dlq_reason, letter.worker, error, letter.revision, letter.attempts
    )
    return [*before, last]


def _error(kept: Mapping[str, Any] | None) -> Mapping[str, str | None] | None:
    return None if kept is None else {"type": kept.get("type"), "message": kept.get("message")}


IdKind = Literal["letter", "operation", "group", "task", "document"]
MIN_END = 4
"""Fewest characters that find an id."""
_INDEXED = 8
"""Last characters of an id in the indexes `dead_letter_by_end` and `task_by_end_of_id`, reversed."""

# The index comes first in every plan, so that the dead letters of a large tenant are not all read.
_LETTERS_BY_END = """
WITH ending AS MATERIALIZED (
    SELECT job_id, tenant_id FROM dead_letter
    WHERE reverse(right(job_id::text, 8)) COLLATE "C" BETWEEN %(first)s AND %(last)s
      AND right(job_id::text, length(%(part)s)) = %(part)s AND purged_at IS NULL
)
SELECT d.job_id, t.slug FROM ending d LEFT JOIN tenant t ON t.id = d.tenant_id
WHERE %(slugs)s::text[] IS NULL OR t.slug = ANY(%(slugs)s)
LIMIT 2
"""
_OPERATIONS_BY_END = """
SELECT o.id, t.slug FROM operation o JOIN tenant t ON t.id = o.tenant_id
WHERE right(o.id::text, length(%(part)s)) = %(part)s AND (%(slugs)s::text[] IS NULL OR t.slug = ANY(%(slugs)s))
LIMIT 2
"""
_GROUPS_BY_START = """
SELECT g.fingerprint, min(t.slug) FROM dead_letter_group g LEFT JOIN tenant t ON t.id = g.tenant_id
WHERE starts_with(g.fingerprint, %(part)s) AND (%(slugs)s::text[] IS NULL OR t.slug = ANY(%(slugs)s))
GROUP BY g.fingerprint
LIMIT 2
"""
_TASKS_BY_END = """
WITH ending AS MATERIALIZED (
    SELECT id, tenant_id FROM task
    WHERE reverse(right(id::text, 8)) COLLATE "C" BETWEEN %(first)s AND %(last)s
      AND right(id::text, length(%(part)s)) = %(part)s
)
SELECT e.id, t.slug FROM ending e JOIN tenant t ON t.id = e.tenant_id
WHERE %(slugs)s::text[] IS NULL OR t.slug = ANY(%(slugs)s)
LIMIT 20
"""
_DOCUMENTS_BY_END = """
WITH ending AS MATERIALIZED (
    SELECT id, tenant_id FROM document
    WHERE reverse(right(id::text, 8)) COLLATE "C" BETWEEN %(first)s AND %(last)s
      AND right(id::text, length(%(part)s)) = %(part)s
)
SELECT e.id, t.slug FROM ending e JOIN tenant t ON t.id = e.tenant_id
WHERE %(slugs)s::text[] IS NULL OR t.slug = ANY(%(slugs)s)
LIMIT 2
"""
_QUERIES: dict[IdKind, LiteralString] = {
    "letter": _LETTERS_BY_END,
    "operation": _OPERATIONS_BY_END,
    "group": _GROUPS_BY_START,
    "task": _TASKS_BY_END,
    "document": _DOCUMENTS_BY_END,
}


def find_by_end(
    connection: Connection, kind: IdKind, part: str, slugs: Sequence[str] | None
) -> list[tuple[UUID | str, str | None]]:
    """Return up to two ids (of tasks, 20) that end with `part`, with their tenants' slugs.

    Runs as the delivery role. `part` has at least MIN_END characters. `slugs` None means all tenants and unassigned
    dead letters, which have no slug. Purged dead letters are not found.
    """
    backwards = part[::-1][:_INDEXED]
    values = {"part": part, "first": backwards, "last": f"{backwards}~", "slugs": slugs and [*slugs]}
    return connection.execute(_QUERIES[kind], values).fetchall()
