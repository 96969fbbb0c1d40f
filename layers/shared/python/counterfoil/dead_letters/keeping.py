"""How long dead letters are kept: settled ones for a time, purged ones for a week, in which they can be had back.

A purge is a row. It means what was settled when it was asked for, which is taken out of sight in steps, each a
transaction of a bounded number of letters, and back again if it is undone: whatever dies in between, the next step goes
on. What waits for a person is never purged. Who purges and who undoes it comes into the audit trail in the same
transaction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from counterfoil import audit
from counterfoil.audit import Operation
from counterfoil.db import Connection
from counterfoil.delivery.letters import ClosedStatus
from counterfoil.errors import VersionError

SETTLED: tuple[ClosedStatus, ...] = ("retried", "resolved", "ignored")
UNDO_WITHIN = timedelta(days=7)
"""Of a purge. The database lets nothing be deleted sooner."""
AT_ONCE = 5_000
"""Letters of a step."""


@dataclass(frozen=True)
class Purge:
    """A purge."""

    id: UUID
    tenant_id: UUID
    died_before: datetime
    statuses: Sequence[ClosedStatus]
    requested_by: str
    requested_at: datetime
    hidden: int
    """Letters out of sight because of it."""
    is_complete: bool
    """Whether all are; once it is undone, whether all are back."""
    undone_by: str | None
    undone_at: datetime | None

    @property
    def undo_until(self) -> datetime:
        """When it is too late to undo it."""
        return self.requested_at + UNDO_WITHIN

    @property
    def version(self) -> int:
        """Grows when it is undone, and with none of its steps."""
        return 1 if self.undone_at is None else 2


_MEANT = """
SELECT count(*) FROM dead_letter
WHERE tenant_id = %(tenant)s AND status = ANY(%(statuses)s) AND dlq_timestamp < %(before)s AND purged_at IS NULL
"""


def count(connection: Connection, tenant_id: UUID, died_before: datetime, statuses: Sequence[ClosedStatus]) -> int:
    """How many letters a purge would take. Nothing is changed; every one of them is looked at, in an index alone."""
    values = {"tenant": tenant_id, "statuses": list(statuses), "before": died_before}
    ((number,),) = connection.execute(_MEANT, values).fetchall()
    return int(number)


_COLUMNS = ", ".join(Purge.__dataclass_fields__)
_REQUEST = f"""
INSERT INTO dead_letter_purge (tenant_id, died_before, statuses, requested_by, requested_at)
VALUES (%(tenant)s, least(%(before)s, %(now)s), %(statuses)s, %(by)s, %(now)s) RETURNING {_COLUMNS}
"""  # noqa: S608  # the columns of the dataclass


def request(
    connection: Connection,
    tenant_id: UUID,
    died_before: datetime,
    statuses: Sequence[ClosedStatus],
    *,
    by: str,
    now: datetime,
) -> Purge:
    """Store a purge of what is settled in one of these states and died before, in the tenant's transaction.

    The audit trail is written, too: nothing else should follow in the transaction.
    """
    values = {"tenant": tenant_id, "before": died_before, "statuses": list(statuses), "by": by, "now": now}
    purge = Purge(*connection.execute(_REQUEST.encode(), values).fetchall()[0])
    detail = {"died_before": purge.died_before.isoformat(), "statuses": list(purge.statuses)}
    audit.record(connection, tenant_id, Operation(by, "purged", [str(purge.id)], now, detail=detail))
    return purge


_LIST = f"""
SELECT {_COLUMNS} FROM dead_letter_purge
WHERE tenant_id = %(tenant)s
  AND (%(at)s::timestamptz IS NULL OR (requested_at, id) < (%(at)s::timestamptz, %(id)s::uuid))
ORDER BY requested_at DESC, id DESC LIMIT %(limit)s
"""  # noqa: S608


def of_tenant(
    connection: Connection, tenant_id: UUID, *, limit: int = 100, after: tuple[datetime, UUID] | None = None
) -> list[Purge]:
    """At most `limit` purges of a tenant, the newest first; those behind the one of this time and id."""
    at, id_ = after or (None, None)
    values = {"tenant": tenant_id, "at": at, "id": id_, "limit": limit}
    return [Purge(*row) for row in connection.execute(_LIST.encode(), values)]


_FIND = f"SELECT {_COLUMNS} FROM dead_letter_purge WHERE id = %s"  # noqa: S608


def find(connection: Connection, purge_id: UUID) -> Purge | None:
    """One purge: of the tenant's, or as the delivery role of any tenant's. None where there is none."""
    row = connection.execute(_FIND.encode(), [purge_id]).fetchone()
    return None if row is None else Purge(*row)


_LOCK = f"SELECT {_COLUMNS} FROM dead_letter_purge WHERE id = %s FOR UPDATE"  # noqa: S608
_UNDO = f"""
UPDATE dead_letter_purge SET undone_by = %(by)s, undone_at = %(now)s, is_complete = false
WHERE id = %(id)s AND undone_at IS NULL AND requested_at > %(since)s RETURNING {_COLUMNS}
"""  # noqa: S608


def undo(connection: Connection, purge_id: UUID, *, version: int, by: str, now: datetime) -> Purge | None:
    """Have a purge's letters back, as they were but for their version. None where it is undone, or too late.

    The audit trail is written as by `request`.

    Raises:
        VersionError: it is not at `version` any more.
    """
    row = connection.execute(_LOCK.encode(), [purge_id]).fetchone()
    seen = None if row is None else Purge(*row).version
    if seen not in {None, version}:
        raise VersionError(f"The purge was changed meanwhile: it is at version {seen}.")
    values = {"id": purge_id, "by": by, "now": now, "since": now - UNDO_WITHIN}
    row = connection.execute(_UNDO.encode(), values).fetchone()
    if row is None:
        return None
    purge = Purge(*row)
    audit.record(connection, purge.tenant_id, Operation(by, "purge undone", [str(purge.id)], now))
    return purge


_TAKE = f"""
SELECT {_COLUMNS} FROM dead_letter_purge WHERE NOT is_complete AND (%(id)s::uuid IS NULL OR id = %(id)s)
ORDER BY requested_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
"""  # noqa: S608
# Neither is put into an order: each takes the next ones of its index, however many there are.
_HIDE = """
UPDATE dead_letter SET purged_at = %(now)s, purge_id = %(id)s, version = version + 1
WHERE job_id IN (
    SELECT job_id FROM dead_letter
    WHERE tenant_id = %(tenant)s AND status = ANY(%(statuses)s) AND dlq_timestamp < %(before)s AND purged_at IS NULL
      AND (resolved_at > %(requested_at)s) IS NOT TRUE
    LIMIT %(most)s FOR NO KEY UPDATE
)
"""
_BRING_BACK = """
UPDATE dead_letter SET purged_at = NULL, purge_id = NULL, kept_until = %(kept_until)s, version = version + 1
WHERE job_id IN (SELECT job_id FROM dead_letter WHERE purge_id = %(id)s LIMIT %(most)s FOR NO KEY UPDATE)
"""
_NOTE = """
UPDATE dead_letter_purge SET hidden = hidden + %(moved)s, is_complete = %(is_complete)s WHERE id = %(id)s
"""


def step(connection: Connection, now: datetime, purge_id: UUID | None = None, *, at_once: int = AT_ONCE) -> bool:
    """Take a step of the purge that has waited longest, or of one that is named. False where none has to be taken."""
    row = connection.execute(_TAKE.encode(), {"id": purge_id}).fetchone()
    if row is None:
        return False
    purge = Purge(*row)
    values = {
        "id": purge.id,
        "tenant": purge.tenant_id,
        "statuses": list(purge.statuses),
        "before": purge.died_before,
        "requested_at": purge.requested_at,
        "now": now,
        "kept_until": purge.undone_at and purge.undone_at + UNDO_WITHIN,
        "most": at_once,
    }
    moved = connection.execute(_HIDE if purge.undone_at is None else _BRING_BACK, values).rowcount
    signed = moved if purge.undone_at is None else -moved
    connection.execute(_NOTE, {"id": purge.id, "moved": signed, "is_complete": moved < at_once})
    return True


# A purge that is undone brings back what is left of it, however long that takes. That is kept for a week more: who has
# something back has time to use it. Each branch takes what it finds by an index of its own.
_DELETE = """
WITH due AS (
    (SELECT job_id FROM dead_letter d
     WHERE purged_at < %(purged_before)s
       AND NOT EXISTS (SELECT FROM dead_letter_purge p WHERE p.id = d.purge_id AND p.undone_at IS NOT NULL)
     ORDER BY purged_at LIMIT %(most)s)
    UNION ALL
    (SELECT job_id FROM dead_letter
     WHERE status <> 'pending' AND resolved_at < %(settled_before)s AND purged_at IS NULL AND kept_until IS NULL
     ORDER BY resolved_at LIMIT %(most)s)
    UNION ALL
    (SELECT job_id FROM dead_letter
     WHERE status <> 'pending' AND resolved_at < %(settled_before)s AND purged_at IS NULL AND kept_until < %(now)s
     ORDER BY kept_until LIMIT %(most)s)
), gone AS (
    DELETE FROM dead_letter WHERE job_id IN (SELECT job_id FROM due) RETURNING worker, work_id
), gone_with_it AS (
    DELETE FROM task WHERE status = 'failed' AND id IN (SELECT work_id FROM gone WHERE worker = 'tasks')
)
SELECT count(*) FROM gone
"""


def delete(connection: Connection, now: datetime, retention: timedelta, *, at_once: int = AT_ONCE) -> int:
    """Delete what was purged a week ago, and what was settled longer ago than `retention`; as counterfoil_keeper.

    What an undone purge brought back is kept for a week from then, however long ago it was settled. A task that failed
    goes with its letter. Returns how many letters went.
    """
    values = {
        "purged_before": now - UNDO_WITHIN,
        "settled_before": now - retention,
        "now": now,
        "most": at_once,
    }
    [(number,)] = connection.execute(_DELETE, values).fetchall()
    return int(number)
