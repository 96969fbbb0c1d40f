"""Retention and purges of closed dead letters.

Closed dead letters are deleted after DLQ_RETENTION_DAYS, or a week after they were purged.

A purge is an operation that hides dead letters in steps. It applies to dead letters that were closed before the
request, and never to pending dead letters. A restore is another operation, which shows them again.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.dead_letters.search import DeadLetterFilter
from counterfoil.delivery.dead_letter import ClosedStatus
from counterfoil.errors import RejectedRequestError, VersionConflictError
from counterfoil.operations import store
from counterfoil.operations.engine import ApplyResult, Definition, Schedule
from counterfoil.operations.store import NewOperation, Operation, OperationNotFoundError, OperationStateError

CLOSED_STATUSES: tuple[ClosedStatus, ...] = ("retried", "resolved", "ignored")
RESTORE_PERIOD = timedelta(days=7)
"""Time during which a purge can be undone. The database prevents earlier deletion."""


def purge_filter(failed_before: datetime, statuses: Sequence[ClosedStatus]) -> DeadLetterFilter:
    """Return the filter for a purge of dead letters that failed before a time."""
    return DeadLetterFilter(status=tuple(statuses), to_date=failed_before)


def request(
    connection: Connection,
    tenant_id: UUID,
    failed_before: datetime,
    statuses: Sequence[ClosedStatus],
    *,
    by: str,
    now: datetime,
) -> Operation:
    """Store a purge of dead letters with these statuses that failed before a time.

    Runs in the tenant's transaction.
    """
    filter_ = purge_filter(failed_before, statuses).before(now)
    operation = store.insert(connection, tenant_id, NewOperation("purge", filter_.stored_fields, by, now))
    detail = {"failed_before": min(failed_before, now).isoformat(), "statuses": list(statuses)}
    store.record(connection, operation, "request", by, now, detail)
    return operation


_MARK_RESTORED = """
UPDATE operation SET restored_at = %(now)s, version = version + 1, ended_at = coalesce(ended_at, %(now)s),
    state = CASE WHEN ended_at IS NULL THEN 'canceled' ELSE state END
WHERE id = %(id)s
"""


def restore(connection: Connection, purge_id: UUID, *, version: int, by: str, now: datetime) -> Operation:
    """Store an operation that restores a purge.

    The dead letters are restored unchanged, except for their version. A purge in progress is canceled.

    Raises:
        OperationNotFoundError: the tenant has no such purge.
        VersionConflictError: the purge is not at `version`.
        OperationStateError: the purge was already restored, or is older than RESTORE_PERIOD.
    """
    purge = store.show(connection, purge_id, lock=True)
    if purge.action != "purge":
        raise OperationNotFoundError("There is no such purge.")
    if purge.version != version:
        raise VersionConflictError(f"The purge has changed: it is at version {purge.version}.")
    if purge.restored_at is not None:
        raise OperationStateError("The purge was already undone.")
    if now >= purge.requested_at + RESTORE_PERIOD:
        raise OperationStateError(f"A purge can be undone for {RESTORE_PERIOD.days} days.")
    connection.execute(_MARK_RESTORED, {"id": purge_id, "now": now})
    new = NewOperation("restore", {"purge": str(purge_id)}, by, now)
    operation = store.insert(connection, purge.tenant_id, new)
    store.record(connection, operation, "request", by, now)
    return operation


# Neither statement orders rows, because each step takes the next rows of an index. ARRAY makes PostgreSQL run the
# subquery exactly once. With a join, it could run repeatedly and lock different rows, which would exceed the limit.
_HIDE = """
UPDATE dead_letter SET purged_at = %(now)s, purge_id = %(id)s, version = version + 1
WHERE job_id = ANY(ARRAY(
    SELECT job_id FROM dead_letter
    WHERE tenant_id = %(tenant)s AND status = ANY(%(statuses)s) AND dlq_timestamp < %(before)s AND purged_at IS NULL
      AND (resolved_at > %(requested_at)s) IS NOT TRUE
    LIMIT %(limit)s FOR NO KEY UPDATE
))
"""
_RESTORE = """
UPDATE dead_letter SET purged_at = NULL, purge_id = NULL, retain_until = %(retain_until)s, version = version + 1
WHERE job_id = ANY(ARRAY(
    SELECT job_id FROM dead_letter WHERE purge_id = %(purge)s LIMIT %(limit)s FOR NO KEY UPDATE
))
"""


class PurgeSteps(Definition):
    """Steps of the operations purge and restore."""

    actions = ("purge", "restore")
    batch_size = 5_000

    def apply(
        self, connection: Connection, operation: Operation, limit: int, schedule: Schedule, _prepared: Any
    ) -> ApplyResult:
        """Hide the next dead letters, or show them again."""
        if operation.action == "purge":
            filter_ = DeadLetterFilter(**operation.filter or {})
            if "pending" in filter_.status:
                raise RejectedRequestError("Pending dead letters are never purged.")
            values = {
                "id": operation.id,
                "tenant": operation.tenant_id,
                "statuses": list(filter_.status),
                "before": filter_.to_date,
                "requested_at": operation.requested_at,
                "now": schedule.now,
                "limit": limit,
            }
            count = connection.execute(_HIDE, values).rowcount
        else:
            retain_until = operation.requested_at + RESTORE_PERIOD
            values = {"purge": UUID((operation.filter or {})["purge"]), "retain_until": retain_until, "limit": limit}
            count = connection.execute(_RESTORE, values).rowcount
        return ApplyResult({"succeeded": count}, (), is_last=count < limit)


# Dead letters are not deleted while their purge is being restored, even if the restore takes a long time. After that,
# they are retained until `retain_until`. Each branch has its own index.
_DELETE = """
WITH due AS (
    (SELECT job_id FROM dead_letter d
     WHERE purged_at < %(purged_before)s
       AND NOT EXISTS (SELECT FROM operation p WHERE p.id = d.purge_id AND p.restored_at IS NOT NULL)
     ORDER BY purged_at LIMIT %(limit)s)
    UNION ALL
    (SELECT job_id FROM dead_letter
     WHERE status <> 'pending' AND resolved_at < %(closed_before)s AND purged_at IS NULL AND retain_until IS NULL
     ORDER BY resolved_at LIMIT %(limit)s)
    UNION ALL
    (SELECT job_id FROM dead_letter
     WHERE status <> 'pending' AND resolved_at < %(closed_before)s AND purged_at IS NULL AND retain_until < %(now)s
     ORDER BY retain_until LIMIT %(limit)s)
), deleted AS (
    DELETE FROM dead_letter WHERE job_id IN (SELECT job_id FROM due) RETURNING worker, work_id
), deleted_tasks AS (
    DELETE FROM task WHERE status = 'failed' AND id IN (SELECT work_id FROM deleted WHERE worker = 'tasks')
)
SELECT count(*) FROM deleted
"""


def delete(
    connection: Connection, now: datetime, retention: timedelta, *, batch_size: int = PurgeSteps.batch_size
) -> int:
    """Delete dead letters a week after their purge, or `retention` after closing.

    Runs as counterfoil_maintenance. Restored dead letters are retained for at least a week after the restore. A failed
    task is deleted with its dead letter. Returns the number of deleted dead letters.
    """
    values = {
        "purged_before": now - RESTORE_PERIOD,
        "closed_before": now - retention,
        "now": now,
        "limit": batch_size,
    }
    [(count,)] = connection.execute(_DELETE, values).fetchall()
    return int(count)
