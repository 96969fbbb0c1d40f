"""Which dead letters an operation means: selected bit by bit, the newest first, each with a number of its own.

Each function runs in a transaction of `Database.tenant`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.dead_letters import search
from counterfoil.dead_letters.entries import CONDITIONS, DeadLetterFilter, Place

AT_ONCE = 5_000
"""Letters that are selected in one transaction."""
SEARCHED = 500
"""The same, of a search."""


@dataclass(frozen=True)
class Selected:
    """What a step of a selection did."""

    number: int
    """Letters."""
    last: Place | None
    """Where the next step begins."""
    is_all: bool


_INSERT = """
INSERT INTO dead_letter_operation_item (operation_id, number, tenant_id, job_id)
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
# Letters that were pending at the request, and that somebody settled before they were selected. What is kept as a
# purge brought it back was settled before: dying again ends that.
_SETTLED_MEANWHILE = f"""
WITH few AS MATERIALIZED (
    SELECT d.job_id, d.dlq_timestamp FROM dead_letter d
    WHERE d.status <> 'pending' AND d.resolved_at >= %(requested_at)s AND d.tenant_id = %(tenant)s
      AND d.purged_at IS NULL AND d.kept_until IS NULL {{conditions}}
      AND NOT EXISTS (
          SELECT FROM dead_letter_operation_item i WHERE i.operation_id = %(operation)s AND i.job_id = d.job_id)
), made AS ({_INSERT})
SELECT count(*) FROM few
"""  # noqa: S608
_NAME = """
INSERT INTO dead_letter_operation_item (operation_id, number, tenant_id, job_id)
SELECT %(operation)s, number, %(tenant)s, id FROM unnest(%(ids)s::uuid[]) WITH ORDINALITY AS named (id, number)
"""
_SO_FAR = "SELECT cursor_at, cursor_id, selected FROM dead_letter_operation WHERE id = %s"


def name(connection: Connection, tenant_id: UUID, operation_id: UUID, ids: Sequence[UUID]) -> Selected:
    """Select the letters that are named, each once. Those that the tenant has not got are skipped in their turn."""
    values = {"operation": operation_id, "tenant": tenant_id, "ids": list(dict.fromkeys(ids))}
    return Selected(connection.execute(_NAME, values).rowcount, None, is_all=True)


def more(
    connection: Connection, tenant_id: UUID, operation_id: UUID, selection: DeadLetterFilter, requested_at: datetime
) -> Selected:
    """Select the next letters of an operation, whose row the caller has locked."""
    ((at, last, selected),) = connection.execute(_SO_FAR, [operation_id]).fetchall()
    after = None if at is None else Place(at, last)
    if selection.text is not None:
        return _searched(connection, tenant_id, operation_id, selection, requested_at, after, selected)
    values = _values(tenant_id, selection, requested_at, after)
    values |= {"operation": operation_id, "selected": selected, "limit": AT_ONCE}
    ((number, at, last),) = connection.execute(_with_conditions(_MORE, values), values).fetchall()
    if number == AT_ONCE:
        return Selected(number, Place(at, last), is_all=False)
    values |= {"selected": selected + number, "after_at": None, "requested_at": requested_at}
    ((settled,),) = connection.execute(_with_conditions(_SETTLED_MEANWHILE, values), values).fetchall()
    return Selected(number + settled, None if at is None else Place(at, last), is_all=True)


def _searched(
    connection: Connection,
    tenant_id: UUID,
    operation_id: UUID,
    selection: DeadLetterFilter,
    requested_at: datetime,
    after: Place | None,
    selected: int,
) -> Selected:
    found = search.page(connection, tenant_id, selection.pending.before(requested_at), limit=SEARCHED, after=after)
    ids = [entry.job_id for entry in found.entries]
    values = {"operation": operation_id, "tenant": tenant_id, "ids": ids, "selected": selected}
    connection.execute(_NAME.replace("s, number,", "s, %(selected)s + number,").encode(), values)
    return Selected(len(ids), found.next, is_all=found.next is None)


_COUNT = """
SELECT count(*) FROM dead_letter d
WHERE d.tenant_id = %(tenant)s AND d.status = 'pending' AND d.purged_at IS NULL {conditions}
"""


def count(connection: Connection, tenant_id: UUID, selection: DeadLetterFilter, now: datetime) -> int:
    """How many letters a selection without a text means: what an index says."""
    values = _values(tenant_id, selection, now, None)
    ((number,),) = connection.execute(_with_conditions(_COUNT, values), values).fetchall()
    return int(number)


def _values(tenant_id: UUID, selection: DeadLetterFilter, now: datetime, after: Place | None) -> dict[str, Any]:
    wanted = selection.before(now)
    return {
        "tenant": tenant_id,
        "task_type": wanted.task_type,
        "fingerprint": wanted.fingerprint,
        "since": wanted.from_date,
        "until": wanted.to_date,
        "after_at": after and after.dlq_timestamp,
        "after_id": after and after.job_id,
    }


def _with_conditions(statement: str, values: Mapping[str, Any]) -> bytes:
    """The statement with a condition for each value that there is, so that each form has a plan of its own index."""
    conditions = " ".join(text for name, text in CONDITIONS.items() if values[name] is not None)
    return statement.format(conditions=conditions).encode()
