"""Lists, searches and counts dead letters, and finds them by id.

A search finds dead letters by words in their errors and file names, and by the ids of dead letters and work items.
Words that all errors in a group share are stored with the group. A dead letter's other words are stored in an index.
A dead letter matches if each word of the search is in its group or in its index entries. The cost of a page depends
neither on the number of dead letters nor on the number of results.

Each function requires a tenant's transaction, or a transaction of the delivery role for unassigned dead letters (tenant
None). See `transaction`.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, LiteralString, NamedTuple, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from counterfoil.db import Connection, Database, PageCursor
from counterfoil.delivery.dead_letter import search_words
from counterfoil.kinds import WORK_KINDS
from counterfoil.validation import DECEPTIVE_CHARS, UTC_DESCRIPTION, Moment, PrintableText

Status = Literal["pending", "retried", "resolved", "ignored"]
STATUSES: tuple[Status, ...] = ("pending", "retried", "resolved", "ignored")
MAX_TYPE_CHARS = 100
MAX_SEARCH_CHARS = 200
Fingerprint = Annotated[str, StringConstraints(pattern="^[0-9a-f]{16}$")]


@dataclass(frozen=True)
class DeadLetterEntry:
    """A dead letter in a list."""

    job_id: UUID
    worker: str
    task_type: str
    work_id: UUID | None
    """None if the message did not name a work item."""
    revision: int | None
    attempts: int
    fingerprint: str
    dlq_reason: str
    dlq_timestamp: datetime
    """Time of the last failure."""
    status: Status
    resolution: Mapping[str, Any] | None
    resolved_at: datetime | None
    resolved_by: str | None
    metadata: Mapping[str, Any]
    version: int
    file_name: str | None
    """Name of the file that the work item processed, or None if it processed no file."""

    @property
    def cursor(self) -> PageCursor:
        """Cursor for the page after this entry."""
        return PageCursor(self.dlq_timestamp, self.job_id)


@dataclass(frozen=True)
class DeadLetterDetails(DeadLetterEntry):
    """A dead letter with its payload and history."""

    payload: Mapping[str, Any]
    previous_failures: Sequence[Mapping[str, Any]]
    """Earlier failures, oldest first."""


class DeadLetterFilter(BaseModel):
    """Selects dead letters for lists, searches, exports and bulk operations."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: tuple[Status, ...] = Field(default=STATUSES, description="All statuses by default.")
    task_type: Annotated[PrintableText, StringConstraints(max_length=MAX_TYPE_CHARS)] | None = None
    from_date: Moment | None = Field(default=None, description=f"Failed at or after this time. {UTC_DESCRIPTION}")
    to_date: Moment | None = Field(default=None, description=f"Failed before this time. {UTC_DESCRIPTION}")
    search: Annotated[PrintableText, StringConstraints(min_length=1, max_length=MAX_SEARCH_CHARS)] | None = Field(
        default=None, description="Words from the error message and the file name, or an id."
    )
    fingerprint: Fingerprint | None = Field(default=None, description="A group's fingerprint.")

    @field_validator("status", mode="after")
    @classmethod
    def _sort_statuses(cls, statuses: tuple[Status, ...]) -> tuple[Status, ...]:
        return tuple(status for status in STATUSES if status in statuses) if statuses else STATUSES

    def before(self, now: datetime) -> Self:
        """Return this filter without dead letters that failed at or after `now`."""
        return self.model_copy(update={"to_date": now if self.to_date is None else min(self.to_date, now)})

    @property
    def pending(self) -> Self:
        """This filter, limited to pending dead letters."""
        return self.model_copy(update={"status": ("pending",)})

    @property
    def stored_fields(self) -> dict[str, Any]:
        """JSON object with the fields that differ from their defaults."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def hash(self) -> bytes:
        """SHA-256 hash. Equal filters have equal hashes."""
        return hashlib.sha256(json.dumps(self.stored_fields, sort_keys=True, separators=(",", ":")).encode()).digest()


def transaction(database: Database, tenant_id: UUID | None) -> AbstractContextManager[Connection]:
    """Begin a transaction that sees a tenant's dead letters.

    Tenant None means unassigned dead letters.
    """
    return database.delivery() if tenant_id is None else database.tenant(tenant_id)


def for_tenant(statement: str, tenant_id: UUID | None) -> bytes:
    """Return a statement, with IS NULL for `= %(tenant)s` if the tenant is None."""
    return (statement.replace("= %(tenant)s", "IS NULL") if tenant_id is None else statement).encode()


# -- pages ------------------------------------------------------------------------------------------------------------

# Deceptive characters, escaped for PostgreSQL's regular expressions. NUL is excluded, because PostgreSQL's texts cannot
# contain it.
_DECEPTIVE = "".join(char if char == "-" else f"\\u{max(1, ord(char)):04x}" for char in DECEPTIVE_CHARS)
_FILE_NAME = "coalesce(payload #>> '{file,file_name}', regexp_replace(payload #>> '{file,key}', '^.*/', ''))"
_EXPRESSIONS = {"file_name": f"regexp_replace({_FILE_NAME}, '[{_DECEPTIVE}]', '\N{REPLACEMENT CHARACTER}', 'g')"}


def _select_list(form: type[DeadLetterEntry]) -> str:
    return ", ".join(_EXPRESSIONS.get(name, name) for name in form.__dataclass_fields__)


_COLUMNS = _select_list(DeadLetterEntry)
ALL_COLUMNS = _select_list(DeadLetterDetails)
"""Select list of `DeadLetterDetails`."""
# A statement contains only the conditions that its filter sets, so PostgreSQL can choose the best index.
_CONDITIONS = {
    "task_type": "AND d.task_type = %(task_type)s",
    "fingerprint": "AND d.fingerprint = %(fingerprint)s",
    "since": "AND d.dlq_timestamp >= %(since)s",
    "until": "AND d.dlq_timestamp < %(until)s",
    "after_at": "AND (d.dlq_timestamp, d.job_id) < (%(after_at)s, %(after_id)s)",
}


def filter_values(tenant_id: UUID | None, filter_: DeadLetterFilter, after: PageCursor | None = None) -> dict[str, Any]:
    """Return the parameters of a statement from `with_conditions`."""
    return {
        "tenant": tenant_id,
        "statuses": list(filter_.status),
        "task_type": filter_.task_type,
        "fingerprint": filter_.fingerprint,
        "since": filter_.from_date,
        "until": filter_.to_date,
        "after_at": after and after.at,
        "after_id": after and after.id,
    }


def with_conditions(statement: str, values: Mapping[str, Any], columns: str = "") -> bytes:
    """Return the statement with a condition for each filter field set in `values`."""
    conditions = " ".join(text for name, text in _CONDITIONS.items() if values[name] is not None)
    return for_tenant(statement.format(columns=columns, conditions=conditions), values["tenant"])


# The rows of a page are found with an index-only scan. The other columns are read only for these rows.
_SELECT_ENTRIES = """
SELECT {{columns}} FROM ({page}) AS page JOIN dead_letter d USING (job_id)
ORDER BY d.dlq_timestamp DESC, d.job_id DESC
"""
_PAGE = _SELECT_ENTRIES.format(
    page="""
    SELECT latest.job_id
    FROM unnest(%(statuses)s::text[]) AS s (status)
    CROSS JOIN LATERAL (
        SELECT d.job_id, d.dlq_timestamp FROM dead_letter d
        WHERE d.tenant_id = %(tenant)s AND d.status = s.status AND d.purged_at IS NULL {conditions}
        ORDER BY d.dlq_timestamp DESC, d.job_id DESC LIMIT %(limit)s::bigint + %(offset)s
    ) AS latest
    ORDER BY latest.dlq_timestamp DESC, latest.job_id DESC LIMIT %(limit)s OFFSET %(offset)s"""
)
_BY_GROUP = _SELECT_ENTRIES.format(
    page="""
    SELECT latest.job_id
    FROM unnest(%(statuses)s::text[]) AS s (status) CROSS JOIN unnest(%(fingerprints)s::text[]) AS f (fingerprint)
    CROSS JOIN LATERAL (
        SELECT d.job_id, d.dlq_timestamp FROM dead_letter d
        WHERE d.tenant_id = %(tenant)s AND d.fingerprint = f.fingerprint AND d.status = s.status
          AND d.purged_at IS NULL {conditions}
        ORDER BY d.dlq_timestamp DESC, d.job_id DESC LIMIT %(limit)s
    ) AS latest
    ORDER BY latest.dlq_timestamp DESC, latest.job_id DESC LIMIT %(limit)s"""
)
_BY_GROUP_AMONG_NEWEST = _SELECT_ENTRIES.format(
    page="""
    SELECT newest.job_id FROM (
        SELECT latest.*
        FROM unnest(%(statuses)s::text[]) AS s (status)
        CROSS JOIN LATERAL (
            SELECT d.job_id, d.dlq_timestamp, d.fingerprint FROM dead_letter d
            WHERE d.tenant_id = %(tenant)s AND d.status = s.status AND d.purged_at IS NULL {conditions}
            ORDER BY d.dlq_timestamp DESC, d.job_id DESC LIMIT %(among)s
        ) AS latest
        ORDER BY latest.dlq_timestamp DESC, latest.job_id DESC LIMIT %(among)s
    ) AS newest
    WHERE newest.fingerprint = ANY(%(fingerprints)s)
    ORDER BY newest.dlq_timestamp DESC, newest.job_id DESC LIMIT %(limit)s"""
)
_BY_IDS = """
SELECT {columns} FROM dead_letter d
WHERE d.job_id = ANY(%(ids)s) AND d.tenant_id = %(tenant)s AND d.status = ANY(%(statuses)s) AND d.purged_at IS NULL
  {conditions}
ORDER BY d.dlq_timestamp DESC, d.job_id DESC LIMIT %(limit)s
"""


class Page(NamedTuple):
    """A page of dead letters."""

    entries: Sequence[DeadLetterEntry]
    """Newest first."""
    next_cursor: PageCursor | None
    """Cursor for the next page, or None if this is the last page. In a search, earlier pages can be short too."""


def page(
    connection: Connection,
    tenant_id: UUID | None,
    filter_: DeadLetterFilter,
    *,
    limit: int,
    after: PageCursor | None = None,
    offset: int = 0,
) -> Page:
    """Return at most `limit` matching dead letters after the cursor `after`.

    If the filter has no search text, the next `offset` dead letters after the cursor are skipped. Each status is read
    in index order, so the cost grows only with `offset`.
    """
    query = _Query(connection, tenant_id, filter_, limit + 1, after)
    text = filter_.search
    if text is None:
        return _to_page(query.entries(_PAGE, offset=offset), limit)
    if (id_ := _parse_id(text)) is not None:
        return _to_page(query.find_by_ids([id_, *(kind.job_id(id_) for kind in WORK_KINDS.values())]), limit)
    entries, until = query.find_by_words(sorted(search_words(text))[:MAX_WORDS])
    merged = sorted({entry.job_id: entry for entry in entries}.values(), key=_cursor, reverse=True)
    if until is not None:  # after this cursor, there may be older matches that were not read
        merged = [entry for entry in merged if entry.cursor >= until]
    return _to_page(merged, limit) if len(merged) > limit else Page(merged, until)


def page_cursors(
    connection: Connection,
    tenant_id: UUID | None,
    filter_: DeadLetterFilter,
    *,
    limit: int,
    after: PageCursor | None = None,
) -> tuple[Sequence[PageCursor], PageCursor | None]:
    """Return the cursors of a `page`'s entries, and the cursor for the next page.

    If the filter has no search text, only an index is read.
    """
    if filter_.search is not None:
        entries, next_cursor = page(connection, tenant_id, filter_, limit=limit, after=after)
        return [entry.cursor for entry in entries], next_cursor
    query = _Query(connection, tenant_id, filter_, limit, after)
    cursors = [PageCursor(*row) for row in query.rows(_PAGE, "d.dlq_timestamp, d.job_id", offset=0)]
    return cursors, cursors[-1] if len(cursors) == limit else None


def find_by_ids(
    connection: Connection, tenant_id: UUID | None, filter_: DeadLetterFilter, ids: Sequence[UUID]
) -> list[DeadLetterEntry]:
    """Return the dead letters with these ids that match the filter, newest first."""
    return _Query(connection, tenant_id, filter_, len(ids), None).find_by_ids(ids)


_COUNT = """
SELECT count(*) FROM dead_letter d
WHERE d.tenant_id = %(tenant)s AND d.status = ANY(%(statuses)s) AND d.purged_at IS NULL {conditions}
"""


def count(connection: Connection, tenant_id: UUID, filter_: DeadLetterFilter) -> int:
    """Return the number of dead letters that match a filter without a search text.

    Reads only an index.
    """
    values = filter_values(tenant_id, filter_)
    ((total,),) = connection.execute(with_conditions(_COUNT, values), values).fetchall()
    return int(total)


def _to_page(entries: Sequence[DeadLetterEntry], limit: int) -> Page:
    page_entries = entries[:limit]
    return Page(page_entries, page_entries[-1].cursor if len(entries) > limit else None)


def _cursor(entry: DeadLetterEntry) -> PageCursor:
    return entry.cursor


def _parse_id(text: str) -> UUID | None:
    try:
        return UUID(text.strip())
    except ValueError:
        return None


# -- words ------------------------------------------------------------------------------------------------------------

MAX_WORDS = 8
"""Maximum number of words in a search. Additional words are ignored."""
RARE_WORD_LIMIT = 1_000
"""A word in at most this many dead letters is rare. A search for it reads all of them."""
SCAN_LIMIT = (100, 1_000, 5_000)
"""Numbers of dead letters with a frequent word that are read for a page. If the matches do not fill the page, the
search is repeated with the next number."""
RECENT_LIMIT = 500
"""Number of newest dead letters that are checked before each group is read separately."""
_GROUP_BATCH_SIZE = 100

_GROUPS = """
SELECT fingerprint, ARRAY(SELECT unnest(words) INTERSECT SELECT unnest(%(words)s::text[]))
FROM dead_letter_group WHERE tenant_id = %(tenant)s AND words && %(words)s::text[]
"""
# Groups are read in order of their latest failure, because these groups contain the newest dead letters.
_LAST_FAILURES = """
SELECT fingerprint, max(last_at) FROM dead_letter_count
WHERE tenant_id = %(tenant)s AND fingerprint = ANY(%(fingerprints)s) AND hour IS NULL AND status = ANY(%(statuses)s)
GROUP BY fingerprint ORDER BY 2 DESC
"""
_FREQUENCY = """
SELECT word, count(*) FROM unnest(%(words)s::text[]) AS word CROSS JOIN LATERAL (
    SELECT FROM dead_letter_word w WHERE w.tenant_id = %(tenant)s AND w.word = word.word LIMIT %(max_rows)s
) AS matches GROUP BY word
"""
_SCAN = """
SELECT dlq_timestamp, job_id FROM dead_letter_word w
WHERE tenant_id = %(tenant)s AND word = %(word)s {after}
ORDER BY dlq_timestamp DESC, job_id DESC LIMIT %(max_rows)s
"""
_AFTER = "AND (dlq_timestamp, job_id) < (%(after_at)s, %(after_id)s)"
_MISSING_WORDS = """
SELECT DISTINCT d.job_id
FROM dead_letter d LEFT JOIN dead_letter_group g ON g.tenant_id = %(tenant)s AND g.fingerprint = d.fingerprint
CROSS JOIN unnest(%(words)s::text[]) AS required (word)
WHERE d.job_id = ANY(%(ids)s) AND NOT coalesce(required.word = ANY(g.words), false)
  AND NOT EXISTS (SELECT FROM dead_letter_word w WHERE w.job_id = d.job_id AND w.word = required.word)
"""


@dataclass(frozen=True)
class _Query:
    """Query for dead letters that match a filter, after a cursor."""

    connection: Connection
    tenant_id: UUID | None
    filter: DeadLetterFilter
    limit: int
    after: PageCursor | None

    def rows(self, statement: str, columns: str = "", **values: object) -> list[tuple[Any, ...]]:
        values = {**filter_values(self.tenant_id, self.filter, self.after), "limit": self.limit, **values}
        return self.connection.execute(with_conditions(statement, values, columns), values).fetchall()

    def entries(self, statement: str, **values: object) -> list[DeadLetterEntry]:
        return [DeadLetterEntry(*row) for row in self.rows(statement, _COLUMNS, **values)]

    def find_by_ids(self, ids: Sequence[UUID]) -> list[DeadLetterEntry]:
        return self.entries(_BY_IDS, ids=list(ids)) if ids else []

    def find_by_words(self, words: Sequence[str]) -> tuple[list[DeadLetterEntry], PageCursor | None]:
        """Return dead letters that contain all words.

        If there may be more matches, also return the cursor up to which the matches are complete.
        """
        if not words:
            return [], None
        group_words: dict[str, list[str]] = dict(self.rows(_GROUPS, words=list(words)))
        entries = self._find_in_groups(
            [fingerprint for fingerprint, shared in group_words.items() if set(shared).issuperset(words)]
        )
        until: PageCursor | None = None
        for word, is_rare in self._index_words(words, frozenset().union(*group_words.values())):
            for max_rows in (RARE_WORD_LIMIT,) if is_rare else SCAN_LIMIT:
                ids, last_read = self._find_by_word(words, word, max_rows)
                matches = self.find_by_ids(ids)
                if is_rare or last_read is None or len(matches) >= self.limit:
                    break
            entries += matches
            if last_read is not None and not is_rare:
                until = last_read if until is None else max(until, last_read)
        return entries, until

    def _find_in_groups(self, fingerprints: Sequence[str]) -> list[DeadLetterEntry]:
        """Return the newest dead letters in these groups.

        Checks the newest RECENT_LIMIT dead letters first, because reading by group costs one lookup per group.
        """
        if self.filter.fingerprint is not None:
            fingerprints = [fingerprint for fingerprint in fingerprints if fingerprint == self.filter.fingerprint]
        if not fingerprints:
            return []
        newest = self.entries(_BY_GROUP_AMONG_NEWEST, fingerprints=fingerprints, among=RECENT_LIMIT)
        if len(newest) == self.limit:
            return newest
        groups = self.rows(_LAST_FAILURES, fingerprints=fingerprints)
        entries: list[DeadLetterEntry] = []
        for start in range(0, len(groups), _GROUP_BATCH_SIZE):
            batch = groups[start : start + _GROUP_BATCH_SIZE]
            if len(entries) >= self.limit and entries[self.limit - 1].dlq_timestamp > batch[0][1]:
                break
            entries += self.entries(_BY_GROUP, fingerprints=[row[0] for row in batch])
            entries.sort(key=_cursor, reverse=True)
        return entries[: self.limit]

    def _index_words(self, words: Sequence[str], group_words: Collection[str]) -> Iterable[tuple[str, bool]]:
        """Return the words to look up in the index, and whether each word is rare.

        If a word is in no group, each match is in the index under this word. The rarest of these words is sufficient.
        """
        frequency: Mapping[str, int] = dict(self.rows(_FREQUENCY, words=list(words), max_rows=RARE_WORD_LIMIT + 1))
        own_words = [word for word in words if word not in group_words]
        selected = [min(own_words, key=lambda word: frequency.get(word, 0))] if own_words else list(frequency)
        return [(word, frequency[word] <= RARE_WORD_LIMIT) for word in selected if word in frequency]

    def _find_by_word(self, words: Sequence[str], word: str, max_rows: int) -> tuple[list[UUID], PageCursor | None]:
        """Read the newest `max_rows` dead letters with `word`.

        Returns the ids of dead letters that contain all `words`, and the last cursor read if there may be more.
        """
        scan = _SCAN.format(after="" if self.after is None else _AFTER)
        cursors = [PageCursor(*row) for row in self.rows(scan, word=word, max_rows=max_rows)]
        ids = [cursor.id for cursor in cursors]
        other_words = [other for other in words if other != word]
        if ids and other_words:
            incomplete = {id_ for (id_,) in self.rows(_MISSING_WORDS, ids=ids, words=other_words)}
            ids = [id_ for id_ in ids if id_ not in incomplete]
        return ids, cursors[-1] if len(cursors) == max_rows else None


# -- ids --------------------------------------------------------------------------------------------------------------

_OWNERS = """
SELECT DISTINCT d.tenant_id, t.slug FROM dead_letter d LEFT JOIN tenant t ON t.id = d.tenant_id
WHERE d.job_id = ANY(%s) AND d.purged_at IS NULL ORDER BY t.slug
"""


def find_owners(connection: Connection, job_ids: Sequence[UUID]) -> list[tuple[UUID | None, str | None]]:
    """Return the ids and slugs of the tenants that own dead letters.

    Both are None for unassigned dead letters. Runs as the delivery role.
    """
    return connection.execute(_OWNERS, [list(job_ids)]).fetchall()


_SHOW = f"SELECT {ALL_COLUMNS} FROM dead_letter WHERE job_id = %(id)s AND purged_at IS NULL"  # noqa: S608


def show(connection: Connection, tenant_id: UUID | None, job_id: UUID) -> DeadLetterDetails | None:
    """Return a tenant's dead letter, or None if it does not exist."""
    values = {"id": job_id, "tenant": tenant_id}
    row = connection.execute(for_tenant(f"{_SHOW} AND tenant_id = %(tenant)s", tenant_id), values).fetchone()
    return None if row is None else DeadLetterDetails(*row)


IdKind = Literal["dead_letter", "operation", "group", "task", "document"]
MIN_PARTIAL_ID_CHARS = 4
"""Minimum length of a partial id."""
_INDEXED_CHARS = 8
"""Number of an id's last characters in the indexes `dead_letter_by_id_suffix` and `task_by_id_suffix`, which store them
in reverse order."""

# MATERIALIZED makes every plan start with the index, so a query never reads all dead letters of a large tenant.
_DEAD_LETTERS_BY_END = """
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
_ROWS_BY_END: LiteralString = """
WITH ending AS MATERIALIZED (
    SELECT id, tenant_id FROM {table}
    WHERE reverse(right(id::text, 8)) COLLATE "C" BETWEEN %(first)s AND %(last)s
      AND right(id::text, length(%(part)s)) = %(part)s
)
SELECT e.id, t.slug FROM ending e JOIN tenant t ON t.id = e.tenant_id
WHERE %(slugs)s::text[] IS NULL OR t.slug = ANY(%(slugs)s)
LIMIT {limit}
"""
_QUERIES: dict[IdKind, LiteralString] = {
    "dead_letter": _DEAD_LETTERS_BY_END,
    "operation": _OPERATIONS_BY_END,
    "group": _GROUPS_BY_START,
    "task": _ROWS_BY_END.format(table="task", limit="20"),
    "document": _ROWS_BY_END.format(table="document", limit="2"),
}


def find_by_partial_id(
    connection: Connection, kind: IdKind, part: str, slugs: Sequence[str] | None
) -> list[tuple[UUID | str, str | None]]:
    """Return up to two ids that end with `part`, with their tenants' slugs.

    For tasks, returns up to 20 ids. Runs as the delivery role. Groups are found by the start of their fingerprint.
    `part` must have at least MIN_PARTIAL_ID_CHARS characters. If `slugs` is None, all tenants and unassigned dead
    letters are searched. The slug of an unassigned dead letter is None. Purged dead letters are not found.
    """
    reversed_end = part[::-1][:_INDEXED_CHARS]
    values = {"part": part, "first": reversed_end, "last": f"{reversed_end}~", "slugs": slugs and [*slugs]}
    return connection.execute(_QUERIES[kind], values).fetchall()
