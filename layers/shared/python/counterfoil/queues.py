"""Worker queues: depth, history, firing alarms, pausing and resuming.

A trigger adds a row to `finished_work` in the transaction that settles a work item (migrations/0015.queues.sql). Each
minute, the watchdog adds up these rows per tenant and in total, deletes them, and records the sums and the backlog. A
worker's last hour is therefore sixty rows, regardless of the load. All times come from the database's clock.

A pause is a row in `queue_pause`, which is committed with an audit entry before AWS is called. Then the worker's event
source mappings ("mappings" below) are disabled. Messages are no longer received, so their receive counts do not change.
A process that changes a mapping locks the row and applies its current state, so the last change to a mapping applies
the last request.

A mapping can differ from the row if a process ended before it called Lambda, if Lambda rejected the call, or if a
deployment enabled the mapping. The watchdog reconciles such differences each minute. It always disables the mappings of
a paused queue. It enables the mappings of a resumed queue only until this has succeeded, and for at least
LAMBDA_SETTLE_TIME after the request. If an operator disables a mapping in AWS after that, the mapping stays disabled.
The watchdog also takes the lock (`lock_pause`) before it enables a queue whose service has recovered.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Any, TypeVar
from uuid import UUID

from aws_lambda_powertools import Logger
from botocore.exceptions import ClientError
from psycopg.sql import SQL, Composed, Literal

from counterfoil import audit, aws
from counterfoil.audit import AuditRecord
from counterfoil.db import Connection, Database, retry_on_conflict
from counterfoil.delivery.work import WorkKind
from counterfoil.errors import CounterfoilError, RejectedRequestError, safe_message
from counterfoil.http import run_with_deadline
from counterfoil.kinds import WORK_KINDS

T = TypeVar("T")

CONCURRENT_REQUESTS = 8
"""Maximum number of concurrent requests for queue depths."""
REQUEST_TIMEOUT_SECONDS = 2.0
"""Timeout of a request for queue depths or alarms."""
ALARM_PREFIX = "counterfoil-"
"""Prefix of the names of Counterfoil's alarms."""
MAX_ALARMS = 100
"""Maximum number of alarms in a CloudWatch response."""
_ATTRIBUTES = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)

logger = Logger()


@dataclass(frozen=True)
class Depth:
    """Numbers of messages in all queues of a worker. SQS's numbers are approximate."""

    visible: int
    in_flight: int
    delayed: int

    @property
    def total(self) -> int:
        """Number of all messages."""
        return self.visible + self.in_flight + self.delayed


@dataclass(frozen=True)
class AlarmState:
    """An alarm in state ALARM."""

    name: str
    """Name without ALARM_PREFIX, such as `matching-queue-depth` or `dead-letter-rate`."""
    since: datetime | None
    description: str | None


def queue_depths(urls: Mapping[str, Sequence[str]]) -> dict[str, Depth]:
    """Return the depth by worker for the queues at `urls`.

    A worker is missing if SQS does not answer for one of its queues.
    """
    worker_urls = [(worker, url) for worker, queue_urls in urls.items() for url in queue_urls]
    if not worker_urls:
        return {}
    sqs = aws.client("sqs")
    with ThreadPoolExecutor(min(CONCURRENT_REQUESTS, len(worker_urls))) as pool:
        counts = list(
            pool.map(lambda worker_url: _call_or_none(lambda: _message_counts(sqs, worker_url[1])), worker_urls)
        )
    counts_by_worker: dict[str, list[Sequence[int] | None]] = {worker: [] for worker in urls}
    for (worker, _), count in zip(worker_urls, counts, strict=True):
        counts_by_worker[worker].append(count)
    return {
        worker: Depth(*map(sum, zip(*available, strict=True)))
        for worker, available in _complete_counts(counts_by_worker)
    }


def _complete_counts(
    counts_by_worker: Mapping[str, list[Sequence[int] | None]],
) -> Iterable[tuple[str, list[Sequence[int]]]]:
    for worker, counts in counts_by_worker.items():
        available = [count for count in counts if count is not None]
        if len(available) == len(counts) > 0:
            yield worker, available


def _message_counts(client: Any, url: str) -> Sequence[int]:
    response = client.get_queue_attributes(QueueUrl=url, AttributeNames=list(_ATTRIBUTES))
    return [int(response["Attributes"][name]) for name in _ATTRIBUTES]


def firing_alarms() -> list[AlarmState] | None:
    """Return up to MAX_ALARMS alarms in state ALARM, sorted by name.

    Returns None if CloudWatch does not answer.
    """

    def describe() -> list[AlarmState]:
        cloudwatch = aws.client("cloudwatch")
        response = cloudwatch.describe_alarms(AlarmNamePrefix=ALARM_PREFIX, StateValue="ALARM", MaxRecords=MAX_ALARMS)
        return [
            AlarmState(
                str(alarm["AlarmName"]).removeprefix(ALARM_PREFIX),
                alarm.get("StateUpdatedTimestamp"),
                alarm.get("AlarmDescription"),
            )
            for alarm in response["MetricAlarms"]
        ]

    alarms = _call_or_none(describe)
    return None if alarms is None else sorted(alarms, key=lambda alarm: alarm.name)


def _call_or_none(call: Callable[[], T]) -> T | None:
    try:
        with aws.translate_errors():
            return run_with_deadline(REQUEST_TIMEOUT_SECONDS, call)
    except CounterfoilError as error:
        logger.warning("AWS did not return the state of queues or alarms", error=safe_message(error, for_log=True))
        return None


DISPLAYED_MINUTES = timedelta(hours=1)
RETENTION = timedelta(hours=2)
MINUTE = timedelta(minutes=1)
MAX_FINISHED_ROWS = 100_000
"""Maximum number of `finished_work` rows per run."""
_MINUTES = DISPLAYED_MINUTES // MINUTE

# Unassigned work items and work items of deleted tenants count only toward the total.
_ROLL_UP = """
WITH finished AS (
    DELETE FROM finished_work WHERE ctid = ANY (ARRAY(SELECT ctid FROM finished_work LIMIT %(at_once)s))
    RETURNING worker, tenant_id, outcome, date_trunc('minute', ended_at) AS minute
), counted AS (
    SELECT tenant_id, worker, minute, count(*) FILTER (WHERE outcome = 'succeeded') AS succeeded,
           count(*) FILTER (WHERE outcome = 'skipped') AS skipped, count(*) FILTER (WHERE outcome = 'failed') AS failed
    FROM finished GROUP BY GROUPING SETS ((worker, minute), (tenant_id, worker, minute))
    HAVING grouping(tenant_id) = 1 OR EXISTS (SELECT FROM tenant t WHERE t.id = finished.tenant_id)
)
INSERT INTO queue_minute_stats AS m (tenant_id, worker, minute, succeeded, skipped, failed)
SELECT tenant_id, worker, minute, succeeded, skipped, failed FROM counted
ON CONFLICT (tenant_id, worker, minute) DO UPDATE
SET succeeded = m.succeeded + excluded.succeeded, skipped = m.skipped + excluded.skipped,
    failed = m.failed + excluded.failed
"""

# A work item is due at the end of its delay. Without a delay, it is due when its message is created. LIMIT makes
# PostgreSQL look up each work item in the index.
_BACKLOG = """
SELECT {worker} AS worker, t.tenant_id, count(*) AS pending,
       extract(epoch FROM %(now)s - min(due.since) FILTER (WHERE due.since <= %(now)s))::int AS oldest_seconds
FROM {table} t
LEFT JOIN LATERAL (
    SELECT greatest(t.{next_attempt_at}, o.created_at) AS since FROM outbox o
    WHERE o.worker = {worker} AND o.work_id = t.id AND o.revision = t.{revision} AND o.send_number = t.{send_number}
    LIMIT 1
) due ON true
WHERE t.{status} = 'pending' GROUP BY t.tenant_id
"""

_RECORD_BACKLOG = """
WITH waiting AS ({waiting}), pending_dead_letters AS (
    SELECT g.worker, c.tenant_id, sum(c.delta) AS dead_letters FROM dead_letter_count c
    JOIN dead_letter_group g ON g.tenant_id IS NOT DISTINCT FROM c.tenant_id AND g.fingerprint = c.fingerprint
    WHERE c.status = 'pending' AND c.hour IS NULL GROUP BY g.worker, c.tenant_id HAVING sum(c.delta) > 0
), combined AS (
    SELECT worker, tenant_id, pending, oldest_seconds, 0 AS dead_letters FROM waiting
    UNION ALL SELECT worker, tenant_id, 0, NULL, dead_letters FROM pending_dead_letters
    UNION ALL SELECT worker, NULL, 0, NULL, 0 FROM unnest(%(workers)s::text[]) AS w (worker)
), summed AS (
    SELECT tenant_id, worker, sum(pending) AS pending, max(oldest_seconds) AS oldest_seconds,
           sum(dead_letters) AS dead_letters
    FROM combined WHERE worker = ANY(%(workers)s)
    GROUP BY GROUPING SETS ((worker), (tenant_id, worker))
    HAVING grouping(tenant_id) = 1 OR EXISTS (SELECT FROM tenant t WHERE t.id = combined.tenant_id)
)
INSERT INTO queue_minute_stats (tenant_id, worker, minute, pending, oldest_seconds, dead_letters, depth)
SELECT s.tenant_id, s.worker, date_trunc('minute', %(now)s::timestamptz), s.pending, s.oldest_seconds, s.dead_letters,
       CASE WHEN s.tenant_id IS NULL THEN d.depth END
FROM summed s LEFT JOIN unnest(%(measured)s::text[], %(depths)s::int[]) AS d (worker, depth) ON d.worker = s.worker
ON CONFLICT (tenant_id, worker, minute) DO UPDATE
SET pending = excluded.pending, oldest_seconds = excluded.oldest_seconds, dead_letters = excluded.dead_letters,
    depth = excluded.depth
"""

_DELETE_OLD = "DELETE FROM queue_minute_stats WHERE minute < %s"

_LAST_RECORDED = """
SELECT max(minute) FROM queue_minute_stats
WHERE tenant_id IS NULL AND worker = ANY(%(workers)s) AND pending IS NOT NULL AND minute >= %(from)s
"""
_READ = """
SELECT worker, minute, succeeded, skipped, failed, pending, oldest_seconds, dead_letters, depth FROM queue_minute_stats
WHERE tenant_id {} AND worker = ANY(%(workers)s) AND minute >= %(from)s ORDER BY worker, minute
"""
_RUNNING = "SELECT {worker}, count(*) FROM {table} WHERE {status} = 'in-progress'"


@dataclass(frozen=True)
class MinuteSeries:
    """Numbers per minute for the last 60 complete minutes, oldest first."""

    succeeded: Sequence[int]
    skipped: Sequence[int]
    failed: Sequence[int]
    depth: Sequence[int | None]
    """Number of messages at the watchdog's run in each minute, or None if it was not recorded."""


@dataclass(frozen=True)
class Backlog:
    """A worker's backlog, as last recorded by the watchdog."""

    pending: int = 0
    oldest_seconds: int | None = None
    """Time since the oldest due work item became due, or None if none was due."""
    dead_letters: int = 0
    """Number of pending dead letters."""


@dataclass(frozen=True)
class QueueHistory:
    """A worker's last hour."""

    series: MinuteSeries
    backlog: Backlog | None
    """None if no backlog was recorded in the last hour."""


def roll_up_minutes(connection: Connection, now: datetime) -> int:
    """Add up settled work items and delete old minutes.

    Runs as counterfoil_maintenance.

    Returns the number of rows of `queue_minute_stats` that were written.
    """
    count = connection.execute(_ROLL_UP, {"at_once": MAX_FINISHED_ROWS}).rowcount
    connection.execute(_DELETE_OLD, [now - RETENTION])
    return count


def record_depths(connection: Connection, workers: Sequence[str], depths: Mapping[str, int], now: datetime) -> int:
    """Record the backlog of `workers`, and return the number of rows.

    Runs as counterfoil_maintenance.

    `depths` is the number of messages by worker.
    """
    kinds = [kind for kind in WORK_KINDS.values() if kind.worker in workers]
    if not kinds:
        return 0
    statement = SQL(_RECORD_BACKLOG).format(
        waiting=SQL(" UNION ALL ").join(_for_kind(_BACKLOG, kind) for kind in kinds)
    )
    values = {
        "now": now,
        "workers": [kind.worker for kind in kinds],
        "measured": list(depths),
        "depths": list(depths.values()),
    }
    return connection.execute(statement, values).rowcount


def last_recorded_at(connection: Connection, workers: Sequence[str], now: datetime) -> datetime | None:
    """Return the last minute with a recorded backlog.

    Returns None if the last hour has no such minute. Runs in a transaction of the delivery role.
    """
    values = {"workers": list(workers), "from": first_minute(now)}
    ((minute,),) = connection.execute(_LAST_RECORDED, values).fetchall()
    return minute  # type: ignore[no-any-return]  # a timestamp


def last_hour(
    connection: Connection,
    workers: Sequence[str],
    now: datetime,
    *,
    last_recorded: datetime | None,
    tenant_id: UUID | None,
) -> dict[str, QueueHistory]:
    """Return the last hour of each worker, for one tenant or in total (None).

    Requires the tenant's transaction, or a transaction of the delivery role for the total. `last_recorded` comes from
    `last_recorded_at`. A worker without a row for that minute had no backlog.
    """
    values = {"workers": list(workers), "from": first_minute(now), "tenant": tenant_id}
    rows = connection.execute(minute_stats_query(tenant_id), values).fetchall()
    minutes_by_worker: dict[str, dict[datetime, tuple[int, ...]]] = {worker: {} for worker in workers}
    for worker, minute, *counts in rows:
        minutes_by_worker[worker][minute] = tuple(counts)
    return {
        worker: _history(minutes, first_minute(now), last_recorded) for worker, minutes in minutes_by_worker.items()
    }


def minute_stats_query(tenant_id: UUID | None) -> Composed:
    """Return the statement that reads one tenant's minutes, or the total (None).

    PostgreSQL can use the index in both cases.
    """
    return SQL(_READ).format(SQL("IS NULL" if tenant_id is None else "= %(tenant)s"))


def running_counts(connection: Connection, workers: Sequence[str]) -> dict[str, int]:
    """Return the number of work items in progress by worker.

    Work items that the transaction cannot see are not counted.
    """
    kinds = [kind for kind in WORK_KINDS.values() if kind.worker in workers]
    if not kinds:
        return {}
    return dict(connection.execute(SQL(" UNION ALL ").join(_for_kind(_RUNNING, kind) for kind in kinds)).fetchall())


def first_minute(now: datetime) -> datetime:
    """Return the first of the last 60 complete minutes before `now`."""
    return now.replace(second=0, microsecond=0) - DISPLAYED_MINUTES


def _history(minutes: Mapping[datetime, tuple[int, ...]], first: datetime, last: datetime | None) -> QueueHistory:
    empty = (0, 0, 0, None, None, 0, None)
    rows = [minutes.get(first + MINUTE * index, empty) for index in range(_MINUTES)]
    succeeded, skipped, failed, _, _, _, depth = (list(column) for column in zip(*rows, strict=True))
    series = MinuteSeries(succeeded, skipped, failed, depth)
    if last is None:
        return QueueHistory(series, None)
    row = minutes.get(last)
    if row is None or row[3] is None:
        return QueueHistory(series, Backlog())
    return QueueHistory(series, Backlog(row[3], row[4], row[5] or 0))


def _for_kind(template: str, kind: WorkKind) -> Composed:
    return SQL(template).format(worker=Literal(kind.worker), **kind.names)


LAMBDA_SETTLE_TIME = timedelta(minutes=2)
"""Maximum time until a call to Lambda takes effect, even if its caller has lost the lock. Until then, the watchdog
keeps checking the mappings of a resumed queue."""
MAPPING_TIMEOUT_SECONDS = 15.0
"""Time reserved to reconcile one mapping, with two calls of at most 7 seconds each."""


class PauseConflictError(RejectedRequestError):
    """The queue was paused or resumed after the caller read its version."""


@dataclass(frozen=True)
class QueuePause:
    """State of a queue after the last request to pause or resume it."""

    worker: str
    is_paused: bool
    reason: str
    changed_by: str
    changed_at: datetime
    is_applied: bool
    """Whether the request was applied to all mappings."""
    version: int


@dataclass(frozen=True)
class PauseRequest:
    """A request to pause or resume a worker's queue."""

    worker: str
    is_paused: bool
    reason: str
    by: str
    at: datetime
    expected_version: int
    """Version that the caller read, or 0 if the queue was never paused."""


_PAUSE_COLUMNS = ", ".join(QueuePause.__dataclass_fields__)
_LOCK_PAUSE = f"SELECT {_PAUSE_COLUMNS} FROM queue_pause WHERE worker = %s FOR UPDATE"  # noqa: S608  # only column names
_LIST_PAUSES = f"SELECT {_PAUSE_COLUMNS} FROM queue_pause ORDER BY worker"  # noqa: S608  # only column names

_SAVE_PAUSE = f"""
INSERT INTO queue_pause (worker, is_paused, reason, changed_by, changed_at)
VALUES (%(worker)s, %(is_paused)s, %(reason)s, %(by)s, %(at)s)
ON CONFLICT (worker) DO UPDATE
SET is_paused = excluded.is_paused, reason = excluded.reason, changed_by = excluded.changed_by,
    changed_at = excluded.changed_at, is_applied = false, version = queue_pause.version + 1
WHERE queue_pause.version = %(expected_version)s
RETURNING {_PAUSE_COLUMNS}
"""  # noqa: S608  # only column names

_MARK_APPLIED = "UPDATE queue_pause SET is_applied = true WHERE worker = %s AND version = %s AND NOT is_applied"


def list_pauses(connection: Connection) -> dict[str, QueuePause]:
    """Return each worker's pause. Must run in a transaction of the delivery role."""
    return {row[0]: QueuePause(*row) for row in connection.execute(_LIST_PAUSES.encode())}


def request_pause(database: Database, request: PauseRequest) -> QueuePause | None:
    """Store a request with an audit entry.

    A request for the current state changes nothing.

    Returns the stored state, or None if the queue was never paused and the request resumes it.

    Raises:
        PauseConflictError: the queue was paused or resumed after the caller read its version.
        DatabaseUnavailableError: the state is unknown.
    """

    def run_once() -> QueuePause | None:
        with database.delivery() as connection:
            row = connection.execute(_LOCK_PAUSE.encode(), [request.worker]).fetchone()
            current = None if row is None else QueuePause(*row)
            if request.is_paused == (current is not None and current.is_paused):
                return current
            if request.expected_version != (0 if current is None else current.version):
                raise PauseConflictError("The queue was paused or resumed after you read its state.")
            saved_row = connection.execute(_SAVE_PAUSE.encode(), vars(request)).fetchone()
            if saved_row is None:  # a concurrent request paused it first
                raise PauseConflictError("The queue was paused or resumed after you read its state.")
            saved = QueuePause(*saved_row)
            # A queue does not belong to a tenant, so its entries are in the unassigned audit trail.
            entry = AuditRecord(
                request.by,
                "queue-paused" if request.is_paused else "queue-resumed",
                [request.worker],
                request.at,
                note=request.reason,
                version_before=request.expected_version,
                version_after=saved.version,
            )
            audit.record(connection, None, entry)
            return saved

    return retry_on_conflict(run_once)


def apply_pause(database: Database, worker: str, mappings: Sequence[UUID]) -> bool:
    """Enable or disable a worker's mappings as last requested.

    Returns True if all were changed, or if the queue was never paused.

    Raises:
        DatabaseUnavailableError: the request is unknown.
    """
    versions, all_applied = set(), True
    for mapping in mappings:
        with database.delivery() as connection:
            row = connection.execute(_LOCK_PAUSE.encode(), [worker]).fetchone()
            if row is None:
                return True
            pause = QueuePause(*row)
            versions.add(pause.version)
            all_applied = _switch_mapping(worker, mapping, is_enabled=not pause.is_paused) and all_applied
    if not all_applied or len(versions) != 1:  # a concurrent request changed the version, and its caller applies it
        return False
    with database.delivery() as connection:
        connection.execute(_MARK_APPLIED, [worker, *versions])
    return True


@contextmanager
def lock_pause(database: Database, worker: str) -> Iterator[bool]:
    """Lock a queue's state, so that its mappings do not change.

    Yields True if the queue is paused.

    Raises:
        ConflictError, DatabaseUnavailableError: the state is unknown.
    """
    with database.delivery() as connection:
        row = connection.execute(_LOCK_PAUSE.encode(), [worker]).fetchone()
        yield row is not None and QueuePause(*row).is_paused


def reconcile_pauses(
    database: Database,
    mappings: Mapping[str, Sequence[UUID]],
    now: datetime,
    time_left: Callable[[], float] = lambda: inf,
) -> list[str]:
    """Apply each worker's last pause or resume request to mappings that differ.

    Returns the workers whose mappings differed. A worker for which too little time is left is skipped until the next
    run.

    Raises:
        DatabaseUnavailableError: the requests are unknown.
    """
    with database.delivery() as connection:
        pauses = list_pauses(connection)
    reconciled = []
    for worker, pause in pauses.items():
        worker_mappings = mappings.get(worker, ())
        if pause.is_applied and not pause.is_paused and pause.changed_at < now - LAMBDA_SETTLE_TIME:
            continue
        if time_left() < MAPPING_TIMEOUT_SECONDS * len(worker_mappings):
            logger.warning("A queue was not reconciled: too little time is left", worker=worker)
            continue
        states = [_mapping_state(mapping) for mapping in worker_mappings]
        differs = ("Enabled" if pause.is_paused else "Disabled") in states
        if differs:
            logger.warning(
                "The mappings of a queue differ from the last request",
                worker=worker,
                paused=pause.is_paused,
                mappings=states,
            )
            reconciled.append(worker)
        if differs or not pause.is_applied:
            apply_pause(database, worker, worker_mappings)
    return reconciled


def _mapping_state(mapping: UUID) -> str | None:
    """Return a mapping's state from Lambda, or None if the call fails."""
    try:
        with aws.translate_errors():
            response: dict[str, Any] = aws.client("lambda").get_event_source_mapping(UUID=str(mapping))
    except CounterfoilError as error:
        logger.warning("A mapping could not be read", mapping=str(mapping), error=str(error))
        return None
    return str(response["State"])


def _switch_mapping(worker: str, mapping: UUID, *, is_enabled: bool) -> bool:
    """Enable or disable a mapping.

    Return False if the call fails, for example during another change.
    """
    try:
        with aws.translate_errors():
            aws.client("lambda").update_event_source_mapping(UUID=str(mapping), Enabled=is_enabled)
    except CounterfoilError as error:
        cause = error.__cause__
        code = cause.response["Error"]["Code"] if isinstance(cause, ClientError) else None
        logger.warning("A mapping could not be changed", worker=worker, on=is_enabled, code=code, error=str(error))
        return False
    return True
