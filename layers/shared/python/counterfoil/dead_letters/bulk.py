"""Bulk operations on dead letters: requests, previews and the selection of dead letters.

The time of the request fixes the selection: dead letters that were pending then. Later ones are excluded; those that
were settled in between, or failed again, are skipped. `bulk_steps` has the steps. Each function requires a transaction
of `Database.tenant`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from counterfoil import audit
from counterfoil.db import Connection
from counterfoil.dead_letters import search
from counterfoil.dead_letters.actions import LONGEST_NOTE
from counterfoil.dead_letters.search import DeadLetterCursor, DeadLetterFilter, Entry, filter_values, with_conditions
from counterfoil.errors import RejectedRequestError
from counterfoil.operations import store
from counterfoil.operations.store import COLUMNS, NewOperation, Operation

Action = Literal["retry", "resolve", "ignore"]
MAX_RATE = 500
"""Dead letters per second."""
MOST_NAMED = 1_000
"""Dead letters that a caller may list."""
COUNTED = 10_000
"""Dead letters that the preview of a search counts, page by page."""
SAMPLE = 10
AT_ONCE = 5_000
"""Dead letters selected in one transaction."""
SEARCHED = 500
"""The same for a search."""


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


def request(connection: Connection, tenant_id: UUID, asked: Asked) -> Operation:
    """Store an operation, select its first dead letters, and record it in the audit trail.

    Raises:
        RejectedRequestError: a note is required and missing, or the rate or the canary is out of bounds.
    """
    _check(asked)
    filter_ = None if asked.selection is None else asked.selection.stored
    new = NewOperation(asked.action, filter_, asked.note, asked.rate, asked.canary, asked.actor, asked.now)
    operation = store.insert(connection, tenant_id, new)
    if asked.selection is None:
        operation = _note(connection, operation, _name(connection, operation, asked.job_ids))
        meant: dict[str, Any] = {"letters": operation.selected}
    else:
        operation = select(connection, operation)
        meant = {"filter_hash": audit.keyed(connection, tenant_id, asked.selection.hash).hex()}
    detail = {"rate": asked.rate, "canary": asked.canary, **meant}
    store.record(connection, operation, "request", asked.actor, asked.now, detail)
    return operation


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


# -- selection --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selected:
    """Result of a step of the selection."""

    number: int
    last: DeadLetterCursor | None
    """The next step begins behind it."""
    is_all: bool


_INSERT = """
INSERT INTO operation_item (operation_id, number, tenant_id, job_id)
SELECT %(operation)s, %(selected)s + row_number() OVER (ORDER BY dlq_timestamp DESC, job_id DESC), %(tenant)s, job_id
FROM few
"""
_MORE = f"""
WITH few AS MATERIALIZED (
    SELECT d.job_id, d.dlq_timestamp FROM dead_letter d
    WHERE d.tenant_id = %(tenant)s AND d.status = 'pending' AND d.purged_at IS NULL {{conditions}}
    ORDER BY d.dlq_timestamp DESC, d.job_id DESC LIMIT %(limit)s
), made AS ({_INSERT})
SELECT count(*), min(dlq_timestamp), (array_agg(job_id ORDER BY dlq_timestamp, job_id))[1] FROM few
"""  # noqa: S608  # the statement above
# Dead letters that were pending at the request, and were settled before they were selected. kept_until excludes those
# that a purge restored: they were settled earlier.
_SETTLED_MEANWHILE = f"""
WITH few AS MATERIALIZED (
    SELECT d.job_id, d.dlq_timestamp FROM dead_letter d
    WHERE d.status <> 'pending' AND d.resolved_at >= %(requested_at)s AND d.tenant_id = %(tenant)s
      AND d.purged_at IS NULL AND d.kept_until IS NULL {{conditions}}
      AND NOT EXISTS (
          SELECT FROM operation_item i WHERE i.operation_id = %(operation)s AND i.job_id = d.job_id)
), made AS ({_INSERT})
SELECT count(*) FROM few
"""  # noqa: S608
_NAME = """
INSERT INTO operation_item (operation_id, number, tenant_id, job_id)
SELECT %(operation)s, %(selected)s + number, %(tenant)s, id
FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS named (id, number)
"""
_SELECTED = f"""
UPDATE operation SET selected = selected + %(number)s, is_selected = %(is_all)s,
    cursor_at = coalesce(%(at)s, cursor_at), cursor_id = coalesce(%(last)s, cursor_id),
    state = CASE WHEN NOT %(is_all)s THEN state WHEN canary IS NULL THEN 'running' ELSE 'canary' END,
    version = version + %(is_all)s::int
WHERE id = %(id)s RETURNING {COLUMNS}
"""  # noqa: S608  # the columns of the dataclass


def select(connection: Connection, operation: Operation) -> Operation:
    """Select the next dead letters of an operation, whose row is locked. It runs once all are selected."""
    return _note(connection, operation, _more(connection, operation))


def _note(connection: Connection, operation: Operation, selected: Selected) -> Operation:
    at, last = selected.last or (None, None)
    values = {"id": operation.id, "number": selected.number, "is_all": selected.is_all, "at": at, "last": last}
    (row,) = connection.execute(_SELECTED.encode(), values).fetchall()
    return Operation(*row)


def _name(connection: Connection, operation: Operation, ids: Sequence[UUID]) -> Selected:
    """Select the listed dead letters, each once. Those of other tenants are skipped later."""
    values = {"operation": operation.id, "tenant": operation.tenant_id, "ids": list(dict.fromkeys(ids)), "selected": 0}
    return Selected(connection.execute(_NAME, values).rowcount, None, is_all=True)


def _more(connection: Connection, operation: Operation) -> Selected:
    wanted = DeadLetterFilter(**operation.filter or {}).pending
    at, last = operation.cursor_at, operation.cursor_id
    after = None if at is None or last is None else DeadLetterCursor(at, last)
    of_operation = {"operation": operation.id, "tenant": operation.tenant_id, "selected": operation.selected}
    wanted = wanted.before(operation.requested_at)
    if wanted.text is not None:
        found = search.page(connection, operation.tenant_id, wanted, limit=SEARCHED, after=after)
        ids = [entry.job_id for entry in found.entries]
        connection.execute(_NAME, of_operation | {"ids": ids})
        return Selected(len(ids), found.next, is_all=found.next is None)
    values = filter_values(operation.tenant_id, wanted, after) | of_operation | {"limit": AT_ONCE}
    ((number, at, last),) = connection.execute(with_conditions(_MORE, values), values).fetchall()
    if number == AT_ONCE:
        return Selected(number, DeadLetterCursor(at, last), is_all=False)
    values |= {"selected": operation.selected + number, "after_at": None, "requested_at": operation.requested_at}
    ((settled,),) = connection.execute(with_conditions(_SETTLED_MEANWHILE, values), values).fetchall()
    return Selected(number + settled, None if at is None else DeadLetterCursor(at, last), is_all=True)


# -- preview ----------------------------------------------------------------------------------------------------------


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
        found = search.of_ids(connection, tenant_id, DeadLetterFilter().pending.before(now), job_ids)
        return Preview(len(found), True, found[:SAMPLE])
    wanted = selection.pending.before(now)
    if selection.text is None:
        newest = search.page(connection, tenant_id, wanted, limit=SAMPLE)
        return Preview(search.count(connection, tenant_id, wanted), True, newest.entries)
    number, sample, after = 0, list[Entry](), None
    while number < COUNTED:
        part = search.page(connection, tenant_id, wanted, limit=SEARCHED, after=after)
        number += len(part.entries)
        sample += part.entries[: SAMPLE - len(sample)]
        after = part.next
        if after is None:
            return Preview(number, True, sample)
    return Preview(number, False, sample)
