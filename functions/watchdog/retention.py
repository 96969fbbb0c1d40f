"""Delete rows, closed dead letters and task payloads after their retention.

Each statement deletes a bounded number of the oldest rows, using an index. So a late run, or the first run after a long
pause, takes no longer than any other run. The audit trail of dead letters is append-only and not affected.

A task payload's S3 key is stored in PostgreSQL before the payload is written, and again when its task is deleted
(migrations/0012.tasks.sql). So the bucket is never searched. Failed deletions are retried.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from counterfoil import aws
from counterfoil.db import Database, maintenance_connection
from counterfoil.dead_letters import groups, purges
from counterfoil.errors import InvalidSettingsError, ServiceUnavailableError
from counterfoil.http import run_with_deadline
from counterfoil.operations import store
from counterfoil.tasks import payloads
from functions.watchdog.steps import run_all

OUTBOX_RETENTION = timedelta(days=14)
"""Retention of sent messages. It is longer than the retention of a queue."""
CALL_RETENTION = timedelta(days=400)
"""Retention of language model call costs: 13 months. The database hides newer rows from the watchdog."""
ATTEMPT_RETENTION = timedelta(days=90)
"""Retention of attempts. The database prevents earlier deletion."""
TASK_RETENTION = timedelta(days=90)
"""Retention of succeeded and canceled tasks. The database prevents earlier deletion."""
SESSION_RETENTION = TASK_RETENTION
"""Retention of conversations after their last message. The database hides newer conversations from the watchdog."""
OFFERS_RETENTION = timedelta(days=90)
"""Retention of offers, their jobs and their pools. The database prevents earlier deletion. The profiles of a pool's
users are deleted a week after its date."""
BATCH_SIZE = 10_000
"""Maximum rows deleted per table and run: about 14 million a day."""
MAX_SESSIONS = 100
"""Maximum conversations deleted per run, with all their messages."""
MAX_JOBS = 2_000
"""Maximum number of users' jobs deleted per run, with all their offers: about 3 million a day."""
MAX_SHARDS = 20
"""Maximum number of shards cleared, or pools deleted, per run. A shard of ten thousand users has about a megabyte of
data."""

_OUTBOX = "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox WHERE sent_at < %s ORDER BY sent_at LIMIT %s)"
_CALLS = "DELETE FROM llm_call WHERE id IN (SELECT id FROM llm_call WHERE created_at < %s ORDER BY created_at LIMIT %s)"
_ATTEMPTS = """
DELETE FROM work_attempt WHERE id IN (SELECT id FROM work_attempt WHERE ended_at < %s ORDER BY ended_at LIMIT %s)
"""
_TASKS = """
DELETE FROM task WHERE id IN (SELECT id FROM task WHERE (status = 'succeeded' OR status IS NULL) AND ended_at < %s
                              ORDER BY ended_at LIMIT %s)
"""
# Conversations with pending messages are excluded. The row-level security policy checks again, because a conversation
# may be used concurrently. A trigger deletes the payloads of a conversation's tasks (migrations/0012.tasks.sql). Failed
# tasks are stored longer.
_SESSIONS = """
DELETE FROM chat_session WHERE id IN (
    SELECT id FROM chat_session s WHERE last_used_at < %s AND NOT EXISTS (
        SELECT FROM chat_message m JOIN task t ON t.id = m.job_id
        WHERE m.session_id = s.id AND m.role = 'user' AND t.status IN ('pending', 'in-progress')
    ) ORDER BY last_used_at LIMIT %s
)
"""
_OFFERS = """
DELETE FROM matchmaking_jobs WHERE id IN (SELECT id FROM matchmaking_jobs WHERE date < %s ORDER BY date LIMIT %s)
"""
_POOLS = "DELETE FROM offer_pool WHERE id IN (SELECT id FROM offer_pool WHERE date < %s ORDER BY date LIMIT %s)"
_CLEAR_POOLS = "SELECT clear_expired_pools(%s)"


@dataclass(frozen=True)
class DeletedRows:
    """Numbers of deleted rows."""

    outbox: int
    llm_call: int
    work_attempt: int
    task: int
    chat_session: int
    """Number of conversations deleted with their messages."""
    matchmaking_jobs: int
    """Number of users' jobs deleted with their offers."""
    offer_pool: int
    """Number of pools deleted with their shards."""
    offer_shard: int
    """Number of shards whose profiles were deleted. Their other data is retained longer."""


def purge(database: Database, clock: Callable[[], datetime], *, batch_size: int = BATCH_SIZE) -> DeletedRows:
    """Delete rows whose retention has expired.

    `database` must connect as counterfoil_maintenance.

    Raises:
        StepsFailedError, DatabaseUnavailableError: the next run deletes the remaining rows. See `run_all`.
    """
    now = clock()

    def deletion(statement: str, before: datetime, limit: int = batch_size) -> Callable[[], int]:
        def delete_rows() -> int:
            with maintenance_connection(database) as connection:
                return connection.execute(statement.encode(), [before, limit]).rowcount

        return delete_rows

    def clear_expired_pools() -> int:
        with maintenance_connection(database) as connection:
            ((shards,),) = connection.execute(_CLEAR_POOLS, [min(batch_size, MAX_SHARDS)]).fetchall()
            return int(shards)

    offers_before = now - OFFERS_RETENTION
    deletions = {
        "outbox": deletion(_OUTBOX, now - OUTBOX_RETENTION),
        "llm_call": deletion(_CALLS, now - CALL_RETENTION),
        "work_attempt": deletion(_ATTEMPTS, now - ATTEMPT_RETENTION),
        "task": deletion(_TASKS, now - TASK_RETENTION),
        "chat_session": deletion(_SESSIONS, now - SESSION_RETENTION, min(batch_size, MAX_SESSIONS)),
        "matchmaking_jobs": deletion(_OFFERS, offers_before, min(batch_size, MAX_JOBS)),
        "offer_pool": deletion(_POOLS, offers_before, min(batch_size, MAX_SHARDS)),
        "offer_shard": clear_expired_pools,
    }
    return DeletedRows(**run_all(deletions))


MAX_PAYLOADS = 1000
"""Maximum number of payloads per run: the limit of one S3 call."""

_DUE_PAYLOADS = "SELECT key FROM payload_deletion WHERE due_at < now() ORDER BY due_at LIMIT %s"


def delete_payloads(
    database: Database, bucket: str | None, time_left: Callable[[], float], *, batch_size: int = MAX_PAYLOADS
) -> int:
    """Delete the payloads that are due, oldest first, as counterfoil_maintenance.

    Returns the number of deleted payloads.

    Raises:
        ServiceUnavailableError, RejectedRequestError: S3 did not delete all payloads. The next run retries.
        InvalidSettingsError: payloads are due, and UPLOADS_BUCKET is not set.
        DatabaseUnavailableError: the next run retries the deletions.
    """
    with maintenance_connection(database) as connection:
        keys = [key for (key,) in connection.execute(_DUE_PAYLOADS, [batch_size])]
    if not keys:
        return 0
    if bucket is None:
        raise InvalidSettingsError("UPLOADS_BUCKET is not set. Large payloads require a bucket.")
    with aws.translate_errors():
        failures = run_with_deadline(time_left(), partial(payloads.remove, bucket, keys))
    removed = [key for key in keys if key not in failures]
    with maintenance_connection(database) as connection:
        connection.execute("DELETE FROM payload_deletion WHERE key = ANY(%s)", [removed])
    if failures:
        codes = ", ".join(sorted(set(failures.values())))
        raise ServiceUnavailableError(f"S3 did not delete {len(failures)} of {len(keys)} payloads: {codes}")
    return len(removed)


MAX_GROUPS = 2_000
"""Maximum groups per run whose counts are added up."""


def maintain_dead_letters(database: Database, clock: Callable[[], datetime], retention: timedelta) -> dict[str, int]:
    """Delete expired dead letters and operations, and add up counts.

    Runs with the role counterfoil_maintenance. Returns the numbers of dead letters and operations deleted, and of count
    rows written.

    Raises:
        StepsFailedError, DatabaseUnavailableError: the next run continues. See `run_all`.
    """

    def delete_dead_letters() -> int:
        with maintenance_connection(database) as connection:
            return purges.delete(connection, clock(), retention)

    def delete_operations() -> int:
        with maintenance_connection(database) as connection:
            return store.delete_expired(connection, clock())

    def add_up_counts() -> int:
        with maintenance_connection(database) as connection:
            return groups.roll_up(connection, clock(), groups=MAX_GROUPS)

    return run_all(
        {
            "dead_letter": delete_dead_letters,
            "operation": delete_operations,
            "dead_letter_count": add_up_counts,
        }
    )
