"""Metrics for alarms and the console: stuck work items, offers and queue depths.

Ages and counts of pending work items are measured here, because SQS's message age excludes messages received three
times and work items whose message was lost.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta

from psycopg.sql import SQL, Composed, Literal

from counterfoil.db import Database, maintenance_connection
from counterfoil.delivery.work import WorkKind
from counterfoil.kinds import WORK_KINDS
from counterfoil.metrics import Metric, emit
from counterfoil.offers import pool_list
from counterfoil.queues import queue_depths, reconcile_pauses, record_depths, roll_up_minutes
from counterfoil.settings import QueueSettings
from functions.watchdog.steps import run_all

STUCK_AFTER = timedelta(minutes=10)
"""Work items in progress count as stuck after this time if their lease has expired."""
RATE_WINDOW = timedelta(minutes=5)
"""Window for the rate of dead letters. It spans several runs, so dead letters are counted even if a run is missed."""

# A work item is due from the end of its delay, or from the time when its message was enqueued. Resends do not count.
# LIMIT makes PostgreSQL look up each message. Otherwise, the join could read weeks of sent messages in the outbox.
_WORK = """
SELECT {worker},
       count(*) FILTER (WHERE {status} = 'in-progress' AND {claimed_at} <= %(stuck_before)s
                        AND {lease_expires_at} <= %(now)s),
       count(*) FILTER (WHERE {status} = 'pending' AND {attempts} > 0),
       min(due.since) FILTER (WHERE {status} = 'pending' AND due.since <= %(now)s)
FROM {table} t
LEFT JOIN LATERAL (
    SELECT greatest(t.{next_attempt_at}, o.created_at) AS since FROM outbox o
    WHERE t.{status} = 'pending' AND o.worker = {worker} AND o.work_id = t.id AND o.revision = t.{revision}
      AND o.send_number = t.{send_number}
    LIMIT 1
) due ON true
WHERE {status} IN ('pending', 'in-progress')
"""

_OUTBOX = """
SELECT worker, count(*) FROM outbox
WHERE worker = ANY(%(workers)s) AND sent_at IS NULL AND scheduled_at <= %(unsent_before)s GROUP BY worker
"""

_DEAD_LETTERS = """
SELECT worker, count(*) FROM dead_letter WHERE status = 'pending' AND worker = ANY(%(workers)s) GROUP BY worker
"""

_RATE = """
SELECT coalesce(sum(number), 0)::int, coalesce(max(number), 0) FROM (
    SELECT count(*) AS number FROM dead_letter WHERE dlq_timestamp > %(rate_since)s
    GROUP BY div(extract(epoch FROM %(now)s - dlq_timestamp), 60)
) AS minute
"""

MetricsByWorker = Mapping[str, Mapping[Metric, float]]


def measure(database: Database, workers: Sequence[str], *, now: datetime, unsent_after: timedelta) -> MetricsByWorker:
    """Measure and emit the metrics of each worker. Return the values by worker.

    Raises:
        DatabaseUnavailableError: nothing was measured.
    """
    kinds = [kind for kind in WORK_KINDS.values() if kind.worker in workers]
    values = {
        "workers": [kind.worker for kind in kinds],
        "now": now,
        "stuck_before": now - STUCK_AFTER,
        "unsent_before": now - unsent_after,
        "rate_since": now - RATE_WINDOW,
    }
    if not kinds:
        return {}
    with database.delivery() as connection:
        work = connection.execute(SQL(" UNION ALL ").join(map(_work_query, kinds)), values).fetchall()
        unsent = dict(connection.execute(_OUTBOX, values).fetchall())
        ((recent, busiest),) = connection.execute(_RATE, values).fetchall()
        dead_letters = dict(connection.execute(_DEAD_LETTERS, values).fetchall())
    emit({Metric.DEAD_LETTER_RATE: recent / RATE_WINDOW.total_seconds(), Metric.DEAD_LETTERS_PER_MINUTE: busiest})
    measured: dict[str, dict[Metric, float]] = {}
    for worker, stuck, waiting, oldest in work:
        measured[worker] = {
            Metric.STUCK_IN_PROGRESS: stuck,
            Metric.WAITING_FOR_RETRY: waiting,
            Metric.OLDEST_PENDING_SECONDS: 0 if oldest is None else (now - oldest).total_seconds(),
            Metric.OUTBOX_OVERDUE: unsent.get(worker, 0),
            Metric.PENDING_DEAD_LETTERS: dead_letters.get(worker, 0),
        }
        emit(measured[worker], worker=worker)
    return measured


def _work_query(kind: WorkKind) -> Composed:
    return SQL(_WORK).format(worker=Literal(kind.worker), **kind.names)


CHECK_INTERVAL = timedelta(hours=1)
"""Interval between searches for duplicate offers. A new process also starts with a search."""


class OfferMetrics:
    """Measures the daily offers of all tenants."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        """`database` must connect as counterfoil_maintenance."""
        self._database = database
        self._clock = clock
        self._duplicates_checked_at: datetime | None = None

    def run(self, time_left: Callable[[], float]) -> dict[str, int]:
        """Measure and emit within `time_left` seconds. Return the values by name.

        Raises:
            DatabaseUnavailableError: the next run retries. A slow search for duplicates is retried after an hour.
        """
        now = self._clock()
        with self._database.delivery() as connection:
            stats = pool_list.current_stats(connection, now)
            incomplete = pool_list.incomplete_percent(connection, now)
            user_seconds = pool_list.user_seconds(connection, now)
        emit(
            {
                Metric.OFFERS_INCOMPLETE_PERCENT: incomplete,
                Metric.OFFERS_COMPLETED: stats.completed,
                Metric.OFFERS_PENDING: stats.pending,
                Metric.OFFERS_FAILED: stats.failed,
                Metric.OFFERS_OVERDUE: stats.late_users,
                Metric.OFFERS_USER_SECONDS: [] if user_seconds is None else user_seconds,
            }
        )
        counts = {f"offers_{name}": number for name, number in asdict(stats).items()}
        if self._is_check_due(now):
            counts["offers_twice"] = self._count_duplicates(now, time_left())
        return counts

    def _is_check_due(self, now: datetime) -> bool:
        return self._duplicates_checked_at is None or now - self._duplicates_checked_at >= CHECK_INTERVAL

    def _count_duplicates(self, now: datetime, seconds: float) -> int:
        with self._database.delivery() as connection:
            self._duplicates_checked_at = now  # a slow search must not delay every run
            number = pool_list.duplicates(connection, now, seconds)
        emit({Metric.DUPLICATE_OFFERS: number})
        return number


def update_queues(
    database: Database,
    queues: Mapping[str, QueueSettings],
    clock: Callable[[], datetime],
    time_left: Callable[[], float],
) -> dict[str, int]:
    """Reconcile queue pauses, and store new outcomes and the current backlog.

    Pauses are reconciled with event source mappings. Returns the numbers of reconciled queues, and of rows written for
    outcomes and for the backlog.

    Raises:
        StepsFailedError, DatabaseUnavailableError: see `run_all`. The next run continues.
    """

    def reconcile() -> int:
        mappings = {worker: queue.mappings for worker, queue in queues.items()}
        return len(reconcile_pauses(database, mappings, clock(), time_left))

    def count_outcomes() -> int:
        with maintenance_connection(database) as connection:
            return roll_up_minutes(connection, clock())

    def count_messages() -> int:
        depths = queue_depths({worker: queue.urls for worker, queue in queues.items()})
        with maintenance_connection(database) as connection:
            return record_depths(
                connection, list(queues), {worker: depth.total for worker, depth in depths.items()}, clock()
            )

    return run_all({"queue_pause": reconcile, "queue_ends": count_outcomes, "queue_minute_stats": count_messages})
