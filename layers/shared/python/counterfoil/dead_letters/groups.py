"""Groups of dead letters with one fingerprint, and counts of all dead letters.

Counts are read from `dead_letter_count`, which a trigger maintains. The cost of a query grows with the number of
groups, not with the number of dead letters. Each function except `roll_up` requires a transaction of
`search.transaction`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.dead_letters.search import Status, for_tenant

TREND_HOURS = 24
"""Number of hours in a group's trend."""
TREND_RETENTION = timedelta(days=7)

State = Literal["open", "resolved", "ignored"]


@dataclass(frozen=True)
class DeadLetterGroup:
    """A group of dead letters with the same fingerprint."""

    fingerprint: str
    worker: str
    error_type: str
    message: str
    """Error message of the latest dead letter with one of the requested statuses."""
    first_seen: datetime
    last_seen: datetime
    pending: int
    retried: int
    resolved: int
    ignored: int
    closed_as: Literal["resolved", "ignored"] | None
    closed_at: datetime | None
    """Time when the group was closed. Dead letters that fail after this time are not covered."""
    trend: Sequence[int]
    """Number of dead letters in each of the last TREND_HOURS hours, the current hour last."""

    @property
    def count(self) -> int:
        """Number of dead letters in all statuses."""
        return self.pending + self.retried + self.resolved + self.ignored

    @property
    def state(self) -> State:
        """State of the whole group. A new dead letter reopens it."""
        if self.closed_as is None or self.closed_at is None or self.last_seen >= self.closed_at:
            return "open"
        return self.closed_as


_GROUPS = """
WITH counted AS (
    SELECT fingerprint, max(last_at) AS last_seen,
           sum(delta) FILTER (WHERE status = 'pending') AS pending,
           sum(delta) FILTER (WHERE status = 'retried') AS retried,
           sum(delta) FILTER (WHERE status = 'resolved') AS resolved,
           sum(delta) FILTER (WHERE status = 'ignored') AS ignored
    FROM dead_letter_count WHERE tenant_id = %(tenant)s AND hour IS NULL
    GROUP BY fingerprint
    HAVING sum(delta) FILTER (WHERE status = ANY(%(statuses)s)) > 0
       AND (%(after_at)s::timestamptz IS NULL
            OR (max(last_at), fingerprint) < (%(after_at)s::timestamptz, %(after)s::text))
    ORDER BY last_seen DESC, fingerprint DESC LIMIT %(limit)s
)
SELECT c.fingerprint, g.worker, g.error_type, coalesce(l.message, g.message), g.first_seen, c.last_seen,
       coalesce(c.pending, 0)::bigint, coalesce(c.retried, 0)::bigint, coalesce(c.resolved, 0)::bigint,
       coalesce(c.ignored, 0)::bigint, g.closed_as, g.closed_at
FROM counted c JOIN dead_letter_group g ON g.tenant_id = %(tenant)s AND g.fingerprint = c.fingerprint
LEFT JOIN LATERAL (
    SELECT (SELECT metadata #>> '{last_error,message}' FROM dead_letter WHERE job_id = newest.job_id) AS message
    FROM unnest(%(statuses)s::text[]) AS s (status)
    CROSS JOIN LATERAL (
        SELECT d.dlq_timestamp, d.job_id FROM dead_letter d
        WHERE d.tenant_id = %(tenant)s AND d.fingerprint = c.fingerprint AND d.status = s.status AND d.purged_at IS NULL
        ORDER BY d.dlq_timestamp DESC, d.job_id DESC LIMIT 1
    ) AS newest
    ORDER BY newest.dlq_timestamp DESC, newest.job_id DESC LIMIT 1
) AS l ON true
ORDER BY c.last_seen DESC, c.fingerprint DESC
"""
_TREND = """
SELECT fingerprint, hour, sum(delta)::bigint FROM dead_letter_count
WHERE tenant_id = %(tenant)s AND fingerprint = ANY(%(fingerprints)s) AND hour > %(since)s
GROUP BY fingerprint, hour
"""


def page(
    connection: Connection,
    tenant_id: UUID | None,
    statuses: Sequence[Status],
    now: datetime,
    *,
    limit: int,
    after: tuple[datetime, str] | None = None,
) -> list[DeadLetterGroup]:
    """Return at most `limit` groups, latest failure first.

    Each group has a dead letter with one of these statuses. `after` contains `last_seen` and `fingerprint` of the
    previous page's last group.
    """
    at, fingerprint = after or (None, None)
    rows = connection.execute(
        for_tenant(_GROUPS, tenant_id),
        {"tenant": tenant_id, "statuses": list(statuses), "limit": limit, "after_at": at, "after": fingerprint},
    ).fetchall()
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    hours = [this_hour - timedelta(hours=hours_ago) for hours_ago in reversed(range(TREND_HOURS))]
    failures: dict[str, dict[datetime, int]] = {}
    values = {"tenant": tenant_id, "fingerprints": [row[0] for row in rows], "since": hours[0] - timedelta(seconds=1)}
    for failed_group, hour, count in connection.execute(for_tenant(_TREND, tenant_id), values):
        failures.setdefault(failed_group, {})[hour] = count
    return [DeadLetterGroup(*(*row, [failures.get(row[0], {}).get(hour, 0) for hour in hours])) for row in rows]


_STATS = """
SELECT task_type, status, sum(delta)::bigint FROM dead_letter_count
WHERE tenant_id = %(tenant)s AND hour IS NULL GROUP BY task_type, status HAVING sum(delta) <> 0
"""


def stats(connection: Connection, tenant_id: UUID | None) -> dict[str, dict[Status, int]]:
    """Return the number of dead letters by task type and status."""
    counts: dict[str, dict[Status, int]] = {}
    for task_type, status, count in connection.execute(for_tenant(_STATS, tenant_id), {"tenant": tenant_id}):
        counts.setdefault(task_type, {})[status] = count
    return counts


_DELETE_OLD = "DELETE FROM dead_letter_count WHERE hour < %s"
_ROLL_UP = """
WITH due AS (
    SELECT tenant_id, fingerprint FROM dead_letter_count WHERE NOT is_rollup GROUP BY tenant_id, fingerprint LIMIT %s
), deleted AS (
    DELETE FROM dead_letter_count c USING due
    WHERE c.fingerprint = due.fingerprint AND c.tenant_id IS NOT DISTINCT FROM due.tenant_id
    RETURNING c.*
)
INSERT INTO dead_letter_count (tenant_id, fingerprint, task_type, status, hour, delta, last_at, is_rollup)
SELECT tenant_id, fingerprint, task_type, status, hour, sum(delta), max(last_at), true
FROM deleted GROUP BY tenant_id, fingerprint, task_type, status, hour HAVING sum(delta) <> 0
"""


def roll_up(connection: Connection, now: datetime, *, groups: int) -> int:
    """Add up the counts of up to `groups` changed groups.

    Delete hourly counts older than TREND_RETENTION.

    Runs as counterfoil_maintenance. The next run adds up rows from concurrent writers. No writer waits, and no count is
    lost. Returns the number of rows written for these groups.
    """
    connection.execute(_DELETE_OLD, [now - TREND_RETENTION])
    return connection.execute(_ROLL_UP, [groups]).rowcount
