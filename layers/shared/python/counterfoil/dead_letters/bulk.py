"""Operations on many dead letters: they are tried again, resolved or ignored, so many a second, as somebody asked.

An operation is a row, and each letter that it means another one, which gets its result once: done, failed or skipped.
Which letters are meant is frozen by the time of the request: those that were pending then. What dies later is not
among them, and what was settled meanwhile, or died again, is skipped. `bulk_steps` carries operations out.

All functions but `going_on` and `forget` run in a transaction of `Database.tenant`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil import audit
from counterfoil.db import Connection
from counterfoil.dead_letters import bulk_selection, entries, search
from counterfoil.dead_letters.actions import LONGEST_NOTE, VersionError
from counterfoil.dead_letters.entries import DeadLetterFilter, Entry
from counterfoil.errors import RejectedRequestError
from counterfoil.notifications.notice import OPERATION, Failure
from counterfoil.notifications.store import owe

Action = Literal["retry", "resolve", "ignore"]
State = Literal["waiting", "canary", "running", "paused", "done", "aborted", "stopped"]
Result = Literal["done", "failed", "skipped"]
RESULTS: tuple[Result, ...] = ("done", "failed", "skipped")
MAX_RATE = 500
"""Letters a second."""
MOST_NAMED = 1_000
"""Letters that are named one by one."""
COUNTED = 10_000
"""Letters that a search counts at most: it finds them page by page."""
SAMPLE = 10
KEPT = timedelta(days=90)
"""After the end of an operation. The database lets nothing be deleted sooner."""
FORGOTTEN_AT_ONCE = 20_000
"""Letters' results that are deleted in one transaction."""


class NoOperationError(RejectedRequestError):
    """The tenant has no such operation."""


class OperationStateError(RejectedRequestError):
    """The operation is in a state in which this cannot be done."""


@dataclass(frozen=True)
class BulkOperation:
    """A row."""

    id: UUID
    tenant_id: UUID
    action: Action
    filter: Mapping[str, Any] | None
    """None: the letters were named."""
    note: str | None
    rate: int
    """Letters a second."""
    canary: int | None
    """So many letters are tried again first, and waited for."""
    requested_by: str
    requested_at: datetime
    state: State
    version: int
    """Grows with each change of the state, and not with progress: who pauses one need not race it."""
    reason: str | None
    """Why it was stopped, or paused by itself."""
    ended_at: datetime | None
    cursor_at: datetime | None
    cursor_id: UUID | None
    is_selected: bool
    """Whether all letters are selected, so that `selected` is their number."""
    selected: int
    handled: int
    done: int
    failed: int
    skipped: int
    canary_begun_at: datetime | None
    """Since when the canary is waited for: all of it was begun, and nobody has left it untried."""
    canary_passed_at: datetime | None
    stepped_at: datetime
    """Until when the rate is used up."""

    @property
    def goes_on_as(self) -> State:
        """The state that it is in when nothing holds it."""
        if not self.is_selected:
            return "waiting"
        return "canary" if self.canary is not None and self.canary_passed_at is None else "running"


COLUMNS = ", ".join(BulkOperation.__dataclass_fields__)


@dataclass(frozen=True)
class Item:
    """What became of a letter of an operation."""

    number: int
    """In the order in which the operation takes them, the newest letters first."""
    job_id: UUID
    result: Result | None
    """None: its turn has not come, and if the operation has ended it never will."""
    reason: str | None
    version: int | None
    """The letter's, by what was done."""
    revision: int | None
    """Of the work, where it was begun anew."""


@dataclass(frozen=True)
class Asked:
    """What somebody asks for: `selection`, or the letters `job_ids`."""

    action: Action
    selection: DeadLetterFilter | None
    job_ids: Sequence[UUID]
    note: str | None
    rate: int
    canary: int | None
    actor: str
    now: datetime


def request(connection: Connection, tenant_id: UUID, asked: Asked) -> BulkOperation:
    """Store an operation, select the first letters that it means, and tell of it in the trail.

    Raises:
        RejectedRequestError: there is no note where one is needed, or the rate or the canary cannot be.
    """
    _check(asked)
    (row,) = connection.execute(
        _REQUEST.encode(),
        {
            "tenant": tenant_id,
            "action": asked.action,
            "filter": None if asked.selection is None else Jsonb(asked.selection.stored),
            "note": asked.note,
            "rate": asked.rate,
            "canary": asked.canary,
            "by": asked.actor,
            "now": asked.now,
        },
    ).fetchall()
    operation = BulkOperation(*row)
    if asked.selection is None:
        selected = bulk_selection.name(connection, tenant_id, operation.id, asked.job_ids)
    else:
        selected = bulk_selection.more(connection, tenant_id, operation.id, asked.selection, asked.now)
    operation = note_selected(connection, operation, selected)
    if asked.selection is None:
        meant: dict[str, Any] = {"letters": operation.selected}
    else:
        meant = {"filter_hash": audit.keyed(connection, tenant_id, asked.selection.hash).hex()}
    detail = {"rate": asked.rate, "canary": asked.canary, **meant}
    tell(connection, operation, f"bulk-{asked.action}", asked.actor, asked.now, asked.note, detail)
    return operation


_REQUEST = f"""
INSERT INTO dead_letter_operation (tenant_id, action, filter, note, rate, canary, requested_by, requested_at,
                                   stepped_at)
VALUES (%(tenant)s, %(action)s, %(filter)s, %(note)s, %(rate)s, %(canary)s, %(by)s, %(now)s, %(now)s)
RETURNING {COLUMNS}
"""  # noqa: S608  # the columns of the dataclass


def _check(asked: Asked) -> None:
    if asked.note is not None and not 0 < len(asked.note.strip()) <= len(asked.note) <= LONGEST_NOTE:
        raise RejectedRequestError(f"The note is empty, or longer than {LONGEST_NOTE} characters.")
    if asked.action != "retry" and asked.note is None:
        raise RejectedRequestError("A note is needed: say why.")
    if not 1 <= asked.rate <= MAX_RATE:
        raise RejectedRequestError(f"The rate is within 1 and {MAX_RATE} letters a second.")
    if asked.canary is not None and (asked.action != "retry" or asked.canary < 1):
        raise RejectedRequestError("A canary is some letters, at least one, that are tried again first.")
    if asked.selection is None and not 1 <= len(set(asked.job_ids)) <= MOST_NAMED:
        raise RejectedRequestError(f"Name 1 to {MOST_NAMED} letters, or say with a filter which ones.")


def tell(  # an entry is this many facts
    connection: Connection,
    operation: BulkOperation,
    action: str,
    actor: str,
    now: datetime,
    note: str | None = None,
    detail: Mapping[str, Any] | None = None,
    version_before: int | None = None,
) -> None:
    """Write what is done with an operation into the trail: one entry, however many letters it is about."""
    said = audit.Operation(
        actor, action, [str(operation.id)], now, note, version_before, operation.version, dict(detail or {})
    )
    audit.record(connection, operation.tenant_id, said)


def notify(connection: Connection, operation: BulkOperation, now: datetime) -> None:
    """Have people be told that an operation halted itself: once, for its version names the halt."""
    halt = Failure(operation.id, operation.id, OPERATION, operation.reason or "", attempts=0)
    fingerprint = f"{OPERATION}/{operation.id}"
    owe(connection, halt, now, tenant_id=operation.tenant_id, revision=operation.version, fingerprint=fingerprint)


_SELECTED = f"""
UPDATE dead_letter_operation o SET selected = selected + %(number)s, is_selected = %(is_all)s,
    cursor_at = coalesce(%(at)s, cursor_at), cursor_id = coalesce(%(last)s, cursor_id),
    state = CASE WHEN NOT %(is_all)s THEN state WHEN canary IS NULL THEN 'running' ELSE 'canary' END,
    version = version + %(is_all)s::int
WHERE id = %(id)s RETURNING {COLUMNS}
"""  # noqa: S608


def note_selected(connection: Connection, operation: BulkOperation, selected: bulk_selection.Selected) -> BulkOperation:
    """Note how far the selection is; once all letters are selected the operation begins."""
    at, last = selected.last or (None, None)
    values = {
        "id": operation.id,
        "number": selected.number,
        "is_all": selected.is_all,
        "at": at,
        "last": last,
    }
    (row,) = connection.execute(_SELECTED.encode(), values).fetchall()
    return BulkOperation(*row)


# -- looking ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Preview:
    """What an operation would be about."""

    count: int
    is_exact: bool
    """False: there are at least so many."""
    sample: Sequence[Entry]
    """The newest of them."""


def preview(
    connection: Connection, tenant_id: UUID, selection: DeadLetterFilter | None, job_ids: Sequence[UUID], now: datetime
) -> Preview:
    """What an operation would be about, of `selection` or the letters `job_ids`, as of now. Nothing is stored."""
    if selection is None:
        found = entries.of_ids(
            connection, tenant_id, DeadLetterFilter().pending.before(now), job_ids, limit=len(job_ids)
        )
        return Preview(len(found), True, found[:SAMPLE])
    wanted = selection.pending.before(now)
    if selection.text is None:
        sample = entries.page(connection, tenant_id, wanted, limit=SAMPLE)
        return Preview(bulk_selection.count(connection, tenant_id, selection, now), True, sample)
    number, sample, after = 0, [], None
    while number < COUNTED:
        part = search.page(connection, tenant_id, wanted, limit=bulk_selection.SEARCHED, after=after)
        number += len(part.entries)
        sample += part.entries[: SAMPLE - len(sample)]
        after = part.next
        if after is None:
            return Preview(number, True, sample)
    return Preview(number, False, sample)


_PAGE = f"""
SELECT {COLUMNS} FROM dead_letter_operation WHERE tenant_id = %(tenant)s
  AND (%(at)s::timestamptz IS NULL OR (requested_at, id) < (%(at)s::timestamptz, %(id)s::uuid))
ORDER BY requested_at DESC, id DESC LIMIT %(limit)s
"""  # noqa: S608


def page(
    connection: Connection, tenant_id: UUID, *, limit: int, after: tuple[datetime, UUID] | None = None
) -> list[BulkOperation]:
    """At most `limit` operations, the newest first, behind the one requested at `after`."""
    at, id_ = after or (None, None)
    rows = connection.execute(_PAGE.encode(), {"tenant": tenant_id, "at": at, "id": id_, "limit": limit})
    return [BulkOperation(*row) for row in rows]


_SHOW = f"SELECT {COLUMNS} FROM dead_letter_operation WHERE id = %s"  # noqa: S608


def show(connection: Connection, operation_id: UUID) -> BulkOperation:
    """An operation as it is.

    Raises:
        NoOperationError: the tenant has none of this id.
    """
    row = connection.execute(_SHOW.encode(), [operation_id]).fetchone()
    if row is None:
        raise NoOperationError("There is no such operation.")
    return BulkOperation(*row)


_ITEMS = """
SELECT number, job_id, result, reason, version, revision FROM dead_letter_operation_item
WHERE operation_id = %(id)s AND number > %(after)s AND (%(result)s::text IS NULL OR result = %(result)s)
ORDER BY number LIMIT %(limit)s
"""


def items(
    connection: Connection, operation_id: UUID, *, limit: int, after: int = 0, result: Result | None = None
) -> list[Item]:
    """At most `limit` letters of an operation behind the number `after`, with this result if one is named."""
    values = {"id": operation_id, "after": after, "result": result, "limit": limit}
    return [Item(*row) for row in connection.execute(_ITEMS, values)]


_OWNER = """
SELECT o.tenant_id, t.slug FROM dead_letter_operation o JOIN tenant t ON t.id = o.tenant_id WHERE o.id = %s
"""


def owner(connection: Connection, operation_id: UUID) -> tuple[UUID, str] | None:
    """The tenant of an operation, by id and slug; as the delivery role."""
    row = connection.execute(_OWNER, [operation_id]).fetchone()
    return None if row is None else (row[0], row[1])


# -- steering ---------------------------------------------------------------------------------------------------------

Steer = Literal["pause", "resume", "abort"]
_TOLD: Mapping[Steer, str] = {"pause": "bulk-pause", "resume": "bulk-resume", "abort": "bulk-abort"}
_LOCK = f"SELECT {COLUMNS} FROM dead_letter_operation WHERE id = %s FOR UPDATE"  # noqa: S608
_CHANGE = f"""
UPDATE dead_letter_operation SET state = %(state)s, version = version + 1, ended_at = %(ended)s, reason = NULL,
    canary_begun_at = CASE WHEN %(resumed)s THEN greatest(canary_begun_at, %(now)s) ELSE canary_begun_at END
WHERE id = %(id)s RETURNING {COLUMNS}
"""  # noqa: S608


def steer(
    connection: Connection, operation_id: UUID, how: Steer, *, version: int, actor: str, now: datetime
) -> BulkOperation:
    """Pause, resume or abort an operation, and tell of it in the trail.

    Letters that were begun go on: up to a minute's worth of the rate is begun ahead. A canary that was begun is waited
    for anew from when the operation is resumed.

    Raises:
        NoOperationError: the tenant has none of this id.
        VersionError: it is not at `version` any more.
        OperationStateError: it has ended, or is paused already, or is not.
    """
    row = connection.execute(_LOCK.encode(), [operation_id]).fetchone()
    if row is None:
        raise NoOperationError("There is no such operation.")
    operation = BulkOperation(*row)
    if operation.version != version:
        raise VersionError(f"The operation was changed meanwhile: it is at version {operation.version}.")
    becomes: dict[Steer, State] = {"pause": "paused", "resume": operation.goes_on_as, "abort": "aborted"}
    is_as_it_must_be = how == "abort" or (operation.state == "paused") == (how == "resume")
    if operation.ended_at is not None or not is_as_it_must_be:
        raise OperationStateError(f"The operation is {operation.state}.")
    values = {
        "id": operation_id,
        "state": becomes[how],
        "ended": now if how == "abort" else None,
        "resumed": how == "resume" and operation.canary_begun_at is not None,
        "now": now,
    }
    (row,) = connection.execute(_CHANGE.encode(), values).fetchall()
    changed = BulkOperation(*row)
    tell(connection, changed, _TOLD[how], actor, now, version_before=version)
    return changed


# -- keeping ----------------------------------------------------------------------------------------------------------

_GOING_ON = """
SELECT id, tenant_id FROM dead_letter_operation WHERE state IN ('waiting', 'canary', 'running')
ORDER BY requested_at, id
"""


def going_on(connection: Connection) -> list[tuple[UUID, UUID]]:
    """All operations that go on, by id and tenant, the oldest first; as the delivery role."""
    return connection.execute(_GOING_ON).fetchall()


_PAST_KEEPING = "SELECT id FROM dead_letter_operation WHERE ended_at < %s ORDER BY ended_at LIMIT 1"
_FORGET_ITEMS = """
DELETE FROM dead_letter_operation_item WHERE operation_id = %(id)s AND number = ANY (ARRAY(
    SELECT number FROM dead_letter_operation_item WHERE operation_id = %(id)s ORDER BY number LIMIT %(most)s))
"""
_FORGET = "DELETE FROM dead_letter_operation WHERE id = %s"


def forget(connection: Connection, now: datetime, *, at_once: int = FORGOTTEN_AT_ONCE) -> int:
    """Delete the operation that ended first, if that was long enough ago; as counterfoil_keeper.

    Of its results at most `at_once` are deleted; it goes with the last of them. Returns the operations deleted.
    """
    row = connection.execute(_PAST_KEEPING, [now - KEPT]).fetchone()
    if row is None:
        return 0
    gone = connection.execute(_FORGET_ITEMS, {"id": row[0], "most": at_once}).rowcount
    return connection.execute(_FORGET, row).rowcount if gone < at_once else 0
