"""Extracts or matches documents again at a bounded rate after a release.

An operation covers documents that were received before the request. It processes them in order of receipt and id, so it
stores only a cursor.
"""

from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.delivery.dead_letter import close_pending
from counterfoil.documents.kinds import BY_WORKER
from counterfoil.errors import RejectedRequestError
from counterfoil.operations import store
from counterfoil.operations.engine import ApplyResult, Definition, Schedule
from counterfoil.operations.store import REPROCESSING, NewOperation, Operation

Kind = Literal["extract", "match"]
REASON = {"extract": "The document is extracted again.", "match": "The document is matched again."}


def request_reprocessing(
    connection: Connection,
    tenant_id: UUID,
    kind: Kind,
    *,
    received_from: datetime | None,
    received_before: datetime | None,
    rate: int,
    by: str,
    now: datetime,
) -> Operation:
    """Store an operation in the tenant's transaction.

    The next step of the engine starts it.

    Raises:
        RejectedRequestError: the rate is out of bounds, or the time range is empty.
    """
    until = min(received_before or now, now)
    if received_from is not None and received_from >= until:
        raise RejectedRequestError("The start of the time range must be in the past and before its end.")
    filter_ = {"received_from": received_from and received_from.isoformat(), "received_before": until.isoformat()}
    operation = store.insert(connection, tenant_id, NewOperation(kind, filter_, by, now, rate=rate))
    store.record(connection, operation, "request", by, now)
    return operation


# Excludes documents with revision 0: they are still pending, or are never processed, such as cover pages.
_NEXT = """
SELECT d.id, d.received_at FROM document d LEFT JOIN ingestion_job i ON i.id = d.id
WHERE d.tenant_id = %(tenant)s AND d.received_at < %(until)s::timestamptz
  AND d.received_at >= coalesce(%(cursor_at)s::timestamptz, %(from)s::timestamptz, '-infinity')
  AND (%(cursor_id)s::uuid IS NULL OR (d.received_at, d.id) > (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid))
  AND CASE %(kind)s::text WHEN 'extract' THEN i.revision > 0 ELSE d.matching_revision > 0 END
ORDER BY d.received_at, d.id LIMIT %(limit)s
"""


class Reprocessing(Definition):
    """Defines the operations `extract` and `match`."""

    actions = ("extract", "match")
    rate_unit = timedelta(minutes=1)

    def apply(
        self, connection: Connection, operation: Operation, limit: int, schedule: Schedule, _prepared: Any
    ) -> ApplyResult:
        """Start the next documents' work items, and close their dead letters as retried."""
        filter_ = operation.filter or {}
        values = {
            "tenant": operation.tenant_id,
            "kind": operation.action,
            "from": filter_["received_from"],
            "until": filter_["received_before"],
            "cursor_at": operation.cursor_at,
            "cursor_id": operation.cursor_id,
            "limit": limit,
        }
        rows = connection.execute(_NEXT, values).fetchall()
        worker = REPROCESSING[operation.action]
        messages = schedule.start_work_items(connection, [(worker, id_) for id_, _ in rows])
        job_ids = [BY_WORKER[worker].job_id(id_) for id_, _ in rows]
        if job_ids:
            by, reason = operation.requested_by, REASON[operation.action]
            close_pending(connection, job_ids, "retried", schedule.now, actor=by, note=reason)
        cursor = (rows[-1][1], rows[-1][0]) if rows else None
        return ApplyResult({"succeeded": len(rows)}, messages, is_last=len(rows) < limit, cursor=cursor)
