"""SQL for notification digests: pending failures, grouping and deliveries."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database, maintenance_connection
from counterfoil.notifications.digest import Failure, NotificationDigest, Tenant

MAX_LISTED = 5
"""Maximum number of failures listed in a digest."""
BATCH_SIZE = 1000
"""Maximum number of digests created or deleted per transaction."""


@dataclass(frozen=True)
class Delivery:
    """Delivery of a digest to one recipient, with the current attempt."""

    digest_id: UUID
    channel: str
    recipient: str
    attempt: int
    """Number of the current attempt, from 1."""


_INSERT_EVENT = """
INSERT INTO failure_event (tenant_id, worker, job_id, revision, fingerprint, payload, created_at)
VALUES (%(tenant)s, %(worker)s, %(job)s, %(revision)s, %(fingerprint)s, %(payload)s, %(now)s)
ON CONFLICT (job_id, revision) DO NOTHING
"""


def enqueue_notification(
    connection: Connection,
    failure: Failure,
    now: datetime,
    *,
    tenant_id: UUID | None,
    revision: int,
    fingerprint: str,
) -> None:
    """Enqueue a failure for a notification digest, in the caller's transaction.

    Each job id and revision is enqueued only once. A digest groups failures with the same fingerprint. If `tenant_id`
    is None, the failure is unassigned.
    """
    payload = {
        "work_id": None if failure.work_id is None else str(failure.work_id),
        "error": failure.error,
        "attempts": failure.attempts,
    }
    values = {
        "tenant": tenant_id,
        "worker": failure.worker,
        "job": failure.job_id,
        "revision": revision,
        "fingerprint": fingerprint,
        "payload": Jsonb(payload),
        "now": now,
    }
    connection.execute(_INSERT_EVENT, values)


# A group (tenant, fingerprint) is due unless it had a digest within the window. Its digest includes all pending
# failures. If the window had already ended at the first pending failure, the digest includes only that failure and
# starts a new window.
_GROUP = """
WITH waiting AS (
    SELECT tenant_id, fingerprint, min(created_at) AS since, (array_agg(id ORDER BY created_at, id))[1] AS first
    FROM failure_event WHERE digest_id IS NULL GROUP BY tenant_id, fingerprint
), due AS (
    SELECT uuidv7() AS digest_id, w.tenant_id, w.fingerprint,
           CASE WHEN last.notified_at IS NULL OR w.since >= last.notified_at + %(window)s THEN w.first END AS only_event
    FROM waiting w LEFT JOIN LATERAL (
        SELECT max(n.created_at) AS notified_at FROM notification_digest n
        WHERE n.created_at > w.since - %(window)s AND n.fingerprint = w.fingerprint
          AND n.tenant_id IS NOT DISTINCT FROM w.tenant_id
    ) last ON true
    WHERE last.notified_at IS NULL OR last.notified_at + %(window)s <= %(now)s
    ORDER BY w.since LIMIT %(limit)s
), created AS (
    INSERT INTO notification_digest (id, tenant_id, fingerprint, created_at)
    SELECT digest_id, tenant_id, fingerprint, %(now)s FROM due
), grouped AS (
    UPDATE failure_event n SET digest_id = due.digest_id FROM due
    WHERE n.digest_id IS NULL AND n.fingerprint = due.fingerprint AND n.tenant_id IS NOT DISTINCT FROM due.tenant_id
      AND n.id = coalesce(due.only_event, n.id)
)
SELECT due.digest_id, due.tenant_id,
       array(SELECT email FROM tenant_admin a WHERE a.tenant_id = due.tenant_id ORDER BY email)
FROM due
"""

_INSERT_DELIVERIES = """
INSERT INTO notification_delivery (digest_id, tenant_id, channel, recipient, next_attempt_at)
SELECT digest_id, tenant_id, channel, recipient, %(now)s
FROM unnest(%(digest_ids)s::uuid[], %(tenants)s::uuid[], %(channels)s::text[], %(recipients)s::text[])
    AS d (digest_id, tenant_id, channel, recipient)
"""


def create_digests(
    database: Database,
    recipients: Callable[[Sequence[str]], Sequence[tuple[str, str]]],
    window: timedelta,
    now: datetime,
) -> int:
    """Create the due digests, and enqueue a delivery for each recipient.

    Returns the number of digests.

    `recipients` returns pairs of channel and recipient for a tenant's admins. Of two concurrent watchdogs, only one
    creates digests.
    """
    with maintenance_connection(database) as connection:
        cursor = connection.execute("SELECT pg_try_advisory_xact_lock(hashtext('notification_digest'))")
        has_lock = cursor.fetchone() == (True,)
        if not has_lock:
            return 0
        digests = connection.execute(_GROUP, {"window": window, "now": now, "limit": BATCH_SIZE}).fetchall()
        deliveries = [
            (digest_id, tenant_id, channel, recipient)
            for digest_id, tenant_id, admins in digests
            for channel, recipient in recipients(admins)
        ]
        if deliveries:
            digest_ids, tenants, channels, names = zip(*deliveries, strict=True)
            values = {
                "digest_ids": list(digest_ids),
                "tenants": list(tenants),
                "channels": list(channels),
                "recipients": list(names),
                "now": now,
            }
            connection.execute(_INSERT_DELIVERIES, values)
    return len(digests)


# The sender holds a lease on the row until `lost_at`. After a crash, the row becomes due again at this time.
_CLAIM_DELIVERY = """
WITH due AS MATERIALIZED (
    SELECT digest_id, channel, recipient FROM notification_delivery
    WHERE channel = %(channel)s AND sent_at IS NULL AND abandoned_at IS NULL AND next_attempt_at <= %(now)s
    ORDER BY next_attempt_at, digest_id, recipient LIMIT 1 FOR UPDATE SKIP LOCKED
)
UPDATE notification_delivery d SET attempts = attempts + 1, next_attempt_at = %(lost_at)s FROM due
WHERE (d.digest_id, d.channel, d.recipient) = (due.digest_id, due.channel, due.recipient)
RETURNING d.digest_id, d.channel, d.recipient, d.attempts
"""

_SELECT_DIGEST = """
SELECT t.id, t.slug, t.name, f.count, f.since, f.until
FROM notification_digest n LEFT JOIN tenant t ON t.id = n.tenant_id
CROSS JOIN LATERAL (
    SELECT count(*) AS count, min(created_at) AS since, max(created_at) AS until
    FROM failure_event WHERE digest_id = n.id
) f
WHERE n.id = %s
"""

_FIRST_FAILURES = """
SELECT payload ->> 'work_id', job_id, worker, payload ->> 'error', (payload ->> 'attempts')::int
FROM failure_event WHERE digest_id = %s ORDER BY created_at, id LIMIT %s
"""


def claim_delivery(
    database: Database, channel: str, now: datetime, lease: timedelta
) -> tuple[Delivery, NotificationDigest] | None:
    """Claim the delivery of a channel that has been due the longest.

    The claim is valid for `lease`.

    Returns None if no delivery is due.
    """
    with maintenance_connection(database) as connection:
        row = connection.execute(_CLAIM_DELIVERY, {"channel": channel, "now": now, "lost_at": now + lease}).fetchone()
        if row is None:
            return None
        delivery = Delivery(*row)
        tenant_id, slug, name, count, since, until = connection.execute(
            _SELECT_DIGEST, [delivery.digest_id]
        ).fetchall()[0]
        rows = connection.execute(_FIRST_FAILURES, [delivery.digest_id, MAX_LISTED]).fetchall()
    failures = tuple(
        Failure(UUID(work_id) if work_id else None, job_id, worker, error, attempts)
        for work_id, job_id, worker, error, attempts in rows
    )
    tenant = None if tenant_id is None else Tenant(tenant_id, slug, name)
    return delivery, NotificationDigest(delivery.digest_id, tenant, count, failures, since, until)


_UPDATE_DELIVERY = """
UPDATE notification_delivery SET {}
WHERE digest_id = %(digest_id)s AND channel = %(channel)s AND recipient = %(recipient)s AND sent_at IS NULL
"""
_SENT = _UPDATE_DELIVERY.format("sent_at = %(now)s, abandoned_at = NULL, error = NULL")
_FAILED = _UPDATE_DELIVERY.format("next_attempt_at = %(due)s, error = %(error)s") + " AND attempts = %(attempt)s"
_DEFERRED = (
    _UPDATE_DELIVERY.format("next_attempt_at = %(due)s, attempts = attempts - 1") + " AND attempts = %(attempt)s"
)


def mark_sent(database: Database, delivery: Delivery, now: datetime) -> None:
    """Record a successful delivery.

    It is recorded even if another process has claimed the delivery in the meantime.
    """
    _end(database, _SENT, delivery, now=now)


def mark_failed(database: Database, delivery: Delivery, error: str, due: datetime) -> None:
    """Record a failed attempt and the due time of the next one."""
    _end(database, _FAILED, delivery, error=error, due=due)


def mark_deferred(database: Database, delivery: Delivery, due: datetime) -> None:
    """Record a deferred attempt and the due time of the next one.

    The deferred attempt is not counted.
    """
    _end(database, _DEFERRED, delivery, due=due)


def _end(database: Database, statement: str, delivery: Delivery, **values: object) -> None:
    with maintenance_connection(database) as connection:
        connection.execute(statement.encode(), vars(delivery) | values)


def abandon_expired(database: Database, created_before: datetime, now: datetime) -> list[str]:
    """Abandon the unsent deliveries of digests created before a time.

    Returns each delivery's channel.
    """
    with maintenance_connection(database) as connection:
        rows = connection.execute(
            """
            UPDATE notification_delivery d SET abandoned_at = %s FROM notification_digest n
            WHERE n.id = d.digest_id AND n.created_at < %s AND d.sent_at IS NULL AND d.abandoned_at IS NULL
            RETURNING d.channel
            """,
            [now, created_before],
        ).fetchall()
    return [channel for (channel,) in rows]


def purge(database: Database, created_before: datetime) -> int:
    """Delete up to BATCH_SIZE of the oldest digests created before a time.

    Returns their number.
    """
    with maintenance_connection(database) as connection:
        return connection.execute(
            """
            DELETE FROM notification_digest
            WHERE id IN (SELECT id FROM notification_digest WHERE created_at < %s ORDER BY created_at LIMIT %s)
            """,
            [created_before, BATCH_SIZE],
        ).rowcount
