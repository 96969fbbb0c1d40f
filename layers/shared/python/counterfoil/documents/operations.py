"""Operations: documents of a tenant are read or matched anew, so many a minute, after what does that has changed.

An operation is a row. Each step of it begins the next documents and moves its cursor, in one transaction: whatever ends
in between, none is left out and none begun twice. What is received after the request is done by the new code already.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from counterfoil import audit
from counterfoil.db import Connection
from counterfoil.delivery.letters import renew
from counterfoil.work import Send

Kind = Literal["extract", "match"]
State = Literal["running", "paused", "done", "aborted"]
WORKERS: dict[Kind, str] = {"extract": "ingestion", "match": "matching"}
MAX_RATE = 1000
"""Documents a minute: what one transaction begins in well under a second."""
BURST = timedelta(minutes=1)
"""As much of the rate as is saved up while no step is taken."""
WHY = {"extract": "The document is read anew.", "match": "The document is matched anew."}


@dataclass(frozen=True)
class Operation:
    """A row."""

    id: UUID
    tenant_id: UUID
    kind: Kind
    received_from: datetime | None
    received_until: datetime
    """Exclusive."""
    rate: int
    """Documents a minute."""
    requested_by: str
    requested_at: datetime
    state: State
    ended_at: datetime | None
    cursor_at: datetime | None
    """Receipt of the last document that was begun."""
    cursor_id: UUID | None
    stepped_at: datetime
    """Until when the rate is used up."""
    begun: int
    """Documents begun so far."""


_COLUMNS = ", ".join(Operation.__dataclass_fields__)

_REQUEST = f"""
INSERT INTO operation (tenant_id, kind, received_from, received_until, rate, requested_by, requested_at, stepped_at)
VALUES (%(tenant)s, %(kind)s, %(from)s, least(%(until)s, %(now)s), %(rate)s, %(by)s, %(now)s, %(now)s - %(burst)s)
RETURNING {_COLUMNS}
"""  # noqa: S608  # the columns of the dataclass


def request(  # what an operation is
    connection: Connection,
    tenant_id: UUID,
    kind: Kind,
    *,
    received_from: datetime | None,
    received_until: datetime | None,
    rate: int,
    by: str,
    now: datetime,
) -> Operation:
    """Store an operation, in the tenant's transaction. It begins with the next step.

    Raises:
        RejectedStatementError: the rate is not within 1 and MAX_RATE, or the time begins after its end. (Mapped by the
            caller's transaction.)
    """
    values = {
        "tenant": tenant_id,
        "kind": kind,
        "from": received_from,
        "until": received_until,
        "rate": rate,
        "by": by,
        "now": now,
        "burst": BURST,
    }
    operation = Operation(*connection.execute(_REQUEST.encode(), values).fetchall()[0])
    _record(connection, operation, "started", by, now)
    return operation


_LIST = f"SELECT {_COLUMNS} FROM operation WHERE tenant_id = %s ORDER BY requested_at DESC, id"  # noqa: S608


def of_tenant(connection: Connection, tenant_id: UUID) -> list[Operation]:
    """A tenant's operations, the newest first."""
    return [Operation(*row) for row in connection.execute(_LIST.encode(), [tenant_id])]


_CHANGE = f"""
UPDATE operation SET state = %(to)s, ended_at = %(ended)s, stepped_at = greatest(stepped_at, %(stepped)s)
WHERE id = %(id)s AND state = ANY(%(from)s) RETURNING {_COLUMNS}
"""  # noqa: S608
_MAY_BECOME: dict[State, Sequence[State]] = {
    "paused": ["running"],
    "running": ["paused"],
    "aborted": ["running", "paused"],
}


_ACTIONS: dict[State, str] = {"paused": "paused", "running": "resumed", "aborted": "aborted"}


def change(connection: Connection, operation_id: UUID, state: State, now: datetime, *, by: str) -> Operation | None:
    """Pause, resume (`running`) or abort an operation. None where it is not in a state in which it can be.

    What it has begun goes on. One that is resumed has saved up nothing of its rate.
    """
    values = {
        "id": operation_id,
        "to": state,
        "from": _MAY_BECOME[state],
        "ended": now if state == "aborted" else None,
        "stepped": now if state == "running" else None,
    }
    row = connection.execute(_CHANGE.encode(), values).fetchone()
    if row is None:
        return None
    operation = Operation(*row)
    _record(connection, operation, _ACTIONS[state], by, now)
    return operation


def _record(connection: Connection, operation: Operation, action: str, by: str, now: datetime) -> None:
    detail = {"what": operation.kind, "rate": operation.rate}
    entry = audit.Operation(by, f"reprocessing {action}", [str(operation.id)], now, detail=detail)
    audit.record(connection, operation.tenant_id, entry)


_RUNNING = "SELECT id FROM operation WHERE state = 'running' ORDER BY requested_at, id"


def running(connection: Connection) -> list[UUID]:
    """All operations that run, the oldest request first; as the delivery role."""
    return [id_ for (id_,) in connection.execute(_RUNNING)]


_TAKE = f"SELECT {_COLUMNS} FROM operation WHERE id = %s AND state = 'running' FOR UPDATE SKIP LOCKED"  # noqa: S608

# The next documents of the tenant. Those that were never read or matched wait for their first time, or never will be:
# a cover page is read by nobody.
_NEXT = """
SELECT d.id, d.received_at FROM document d LEFT JOIN ingestion_job i ON i.id = d.id
WHERE d.tenant_id = %(tenant)s AND d.received_at < %(until)s
  AND d.received_at >= coalesce(%(cursor_at)s::timestamptz, %(from)s::timestamptz, '-infinity')
  AND (%(cursor_id)s::uuid IS NULL OR (d.received_at, d.id) > (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid))
  AND CASE %(kind)s::text WHEN 'extract' THEN i.revision > 0 ELSE d.matching_revision > 0 END
ORDER BY d.received_at, d.id LIMIT %(limit)s
"""

_MOVE = """
UPDATE operation SET cursor_at = %(cursor_at)s, cursor_id = %(cursor_id)s, stepped_at = %(stepped)s,
    begun = begun + %(begun)s, state = %(state)s, ended_at = %(ended)s
WHERE id = %(id)s
"""


@dataclass(frozen=True)
class Step:
    """What a step did."""

    begun: int
    sends: Sequence[Send]
    """Messages owed, to be sent after the commit."""
    is_done: bool


def step(connection: Connection, operation_id: UUID, now: datetime) -> Step | None:
    """Begin as many documents as the rate allows by now, in the caller's transaction, as the delivery role.

    None where the operation does not run any more, or somebody else is at it.
    """
    row = connection.execute(_TAKE.encode(), [operation_id]).fetchone()
    if row is None:
        return None
    operation = Operation(*row)
    limit, stepped_at = allowance(operation.rate, operation.stepped_at, now)
    if limit == 0:
        return Step(0, (), is_done=False)
    values: dict[str, Any] = {
        "tenant": operation.tenant_id,
        "kind": operation.kind,
        "from": operation.received_from,
        "until": operation.received_until,
        "cursor_at": operation.cursor_at,
        "cursor_id": operation.cursor_id,
        "limit": limit,
    }
    found = connection.execute(_NEXT, values).fetchall()
    is_done = len(found) < limit
    by, why = operation.requested_by, WHY[operation.kind]
    sends = renew(connection, WORKERS[operation.kind], [id_ for id_, _ in found], now, actor=by, why=why)
    if found:
        values |= {"cursor_id": found[-1][0], "cursor_at": found[-1][1]}
    values |= {
        "id": operation.id,
        "stepped": stepped_at,
        "begun": len(found),
        "state": "done" if is_done else "running",
        "ended": now if is_done else None,
    }
    connection.execute(_MOVE, values)
    return Step(len(found), sends, is_done)


def allowance(rate: int, stepped_at: datetime, now: datetime) -> tuple[int, datetime]:
    """How many documents may be begun now at `rate` a minute, and until when the rate is used up by that. Pure.

    At most a minute's worth. What a step leaves of its time is the next one's, up to BURST and one document's time.
    """
    each = timedelta(minutes=1) / rate
    since = max(stepped_at, now - BURST - each)
    count = max(0, min((now - since) // each, rate))
    return count, since + count * each
