"""Recovery: sends unsent messages, and resends messages of overdue work items."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from aws_lambda_powertools import Logger

from counterfoil import aws
from counterfoil.db import Database
from counterfoil.delivery.outbox import CALL_TIMEOUT_SECONDS, Outbox, TimeLeft
from counterfoil.delivery.work import WorkKind
from counterfoil.errors import CounterfoilError
from counterfoil.http import run_with_deadline
from counterfoil.kinds import WORK_KINDS
from counterfoil.metrics import Metric, emit
from counterfoil.queues import list_pauses
from counterfoil.settings import Settings

logger = Logger()

QUEUE_RETENTION = timedelta(days=10)
"""Message retention of every queue. Older messages no longer exist."""
MAX_VISIBILITY = timedelta(hours=12)
"""Maximum visibility timeout of SQS, assumed for a queue that does not respond."""
VISIBILITY_TIMEOUT_MULTIPLE = 3
"""Number of visibility timeouts to wait before due work items are resent while their queues hold messages."""
MAX_RESENDS = 1000
"""Maximum messages resent per run and worker while the worker's queues are empty."""
MAX_RESENDS_BUSY = 100
"""Maximum messages resent per run and worker while the queues hold messages, because most resends are duplicates."""
MAX_OUTBOX_QUERIES = 10
"""Maximum outbox queries per run, each for another thousand rows per worker."""
REQUEST_TIMEOUT_SECONDS = 2.0
"""Timeout for requesting the depth of one queue."""
DEPTHS_TIMEOUT_SECONDS = 4.0
"""Time limit for requesting the depths of all queues."""
DEPTHS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
VISIBILITY = "VisibilityTimeout"

# Due work items whose current message was sent too long ago, longest wait first. A duplicate is harmless: it has the
# same send number, so one of the two messages finds the work item in progress or ended. Work items without an outbox
# row were created by an S3 event.
_OVERDUE = """
SELECT t.id, t.tenant_id, t.{revision}, t.{send_number} FROM {table} t
LEFT JOIN outbox o ON o.worker = %(worker)s AND o.work_id = t.id AND o.revision = t.{revision}
    AND o.send_number = t.{send_number}
CROSS JOIN LATERAL (
    SELECT coalesce(greatest(o.sent_at, t.{claimed_at}, t.{next_attempt_at}, t.{lease_expires_at}), '-infinity') AS at
) last_event
WHERE t.{status} IN ('pending', 'in-progress') AND (o.id IS NULL OR o.sent_at IS NOT NULL)
  AND last_event.at <= %(now)s - %(min_age)s
  AND (%(is_empty)s OR last_event.at <= %(now)s - least(coalesce(o.sent_at - o.scheduled_at, '0'), %(retention)s))
ORDER BY last_event.at, t.id LIMIT %(limit)s
"""

_RESEND = """
INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, scheduled_at, created_at)
SELECT tenant_id, %(worker)s, id, revision, send_number, %(now)s, %(now)s
FROM unnest(%(ids)s::uuid[], %(tenants)s::uuid[], %(revisions)s::int[], %(send_numbers)s::int[])
    AS w (id, tenant_id, revision, send_number)
ON CONFLICT (worker, work_id, revision, send_number) DO UPDATE SET sent_at = NULL
"""


@dataclass(frozen=True)
class RecoveryResult:
    """Result of a run."""

    sent: int
    """Number of overdue messages sent from the outbox."""
    resent: Mapping[str, int]
    """Number of messages resent, by worker."""


@dataclass(frozen=True)
class QueueState:
    """Depth and visibility timeout of a queue, as reported by SQS."""

    depth: int
    visibility: timedelta
    """Visibility timeout."""


class Watchdog:
    """Recovers the messages of every queue in `settings.queue_urls`."""

    def __init__(self, settings: Settings, database: Database, outbox: Outbox, clock: Callable[[], datetime]) -> None:
        self._settings = settings
        self._database = database
        self._outbox = outbox
        self._clock = clock

    def run(self, time_left: TimeLeft | None = None) -> RecoveryResult:
        """Run recovery once. When `time_left` runs out, the next run continues.

        Raises:
            DatabaseUnavailableError: nothing was recovered.
        """
        depth_time_left = None if time_left is None else _limit_time(DEPTHS_TIMEOUT_SECONDS, time_left)
        resent = {
            kind.worker: self._resend(kind, depth_time_left)
            for kind in WORK_KINDS.values()
            if kind.worker in self._settings.queue_urls
        }
        unsent_before = self._clock() - timedelta(seconds=self._settings.outbox_overdue_seconds)
        sent = 0
        for _ in range(MAX_OUTBOX_QUERIES):
            if time_left is not None and time_left() < CALL_TIMEOUT_SECONDS:
                logger.warning("Out of time: the next run sends the remaining messages", sent=sent)
                break
            latest = self._outbox.send_unsent(created_before=unsent_before, time_left=time_left)
            sent += latest
            if latest == 0:
                break
        return RecoveryResult(sent, resent)

    def _resend(self, kind: WorkKind, depth_time_left: TimeLeft | None) -> int:
        """Enqueue lost messages again. Emit and return their number.

        If the queues are empty, the messages of due work items are lost. They are resent
        RESEND_AFTER_SECONDS after they were last sent.

        If the queues hold messages, SQS does not show for which work items. In this case, work items wait for
        `VISIBILITY_TIMEOUT_MULTIPLE` visibility timeouts, in which SQS redelivers messages that a worker dropped. Each
        resend without effect doubles the wait, up to the retention, and a run resends at most `MAX_RESENDS_BUSY`. So a
        backlog of 100,000 messages grows by at most 100 per minute, and at most eight times per message in ten days.
        The oldest messages are resent first, and a lost message soon becomes one of the oldest.

        Workers do not receive from a paused queue. If a paused queue holds messages, its work items wait
        until the queue's retention has passed.
        """
        now = self._clock()
        retry_url = self._settings.retry_queue_urls.get(kind.worker)
        queue = self._request_state(kind.worker, self._settings.queue_urls[kind.worker], depth_time_left)
        retry_queue = None if retry_url is None else self._request_state(kind.worker, retry_url, depth_time_left)
        states = [queue] if retry_url is None else [queue, retry_queue]
        is_empty = all(state is not None and state.depth == 0 for state in states)
        min_age = timedelta(seconds=self._settings.resend_after_seconds)
        if not is_empty:
            visibility = max(MAX_VISIBILITY if state is None else state.visibility for state in states)
            min_age = max(min_age, VISIBILITY_TIMEOUT_MULTIPLE * visibility)
        with self._database.delivery() as connection:
            pause = list_pauses(connection).get(kind.worker)
            if not is_empty and pause is not None and pause.is_paused:
                min_age = QUEUE_RETENTION
            rows = connection.execute(
                kind.sql(_OVERDUE),
                {
                    "worker": kind.worker,
                    "now": now,
                    "min_age": min_age,
                    "is_empty": is_empty,
                    "retention": QUEUE_RETENTION,
                    "limit": MAX_RESENDS if is_empty else MAX_RESENDS_BUSY,
                },
            ).fetchall()
            if rows:
                connection.execute(
                    _RESEND,
                    {
                        "worker": kind.worker,
                        "now": now,
                        "ids": [row[0] for row in rows],
                        "tenants": [row[1] for row in rows],
                        "revisions": [row[2] for row in rows],
                        "send_numbers": [row[3] for row in rows],
                    },
                )
        depths = {Metric.QUEUE_DEPTH: queue, Metric.RETRY_QUEUE_DEPTH: retry_queue}
        reported = {metric: state.depth for metric, state in depths.items() if state is not None}
        emit({Metric.PENDING_WITHOUT_MESSAGE: len(rows)} | reported, worker=kind.worker)
        return len(rows)

    @staticmethod
    def _request_state(worker: str, url: str, depth_time_left: TimeLeft | None) -> QueueState | None:
        """Return the state of a queue; None if SQS does not respond in time."""
        if depth_time_left is not None and depth_time_left() <= 0:
            logger.warning("Out of time: the depth of a queue was not requested", worker=worker)
            return None
        sqs = aws.client("sqs")

        def request_attributes() -> dict[str, dict[str, str]]:
            names = [*DEPTHS, VISIBILITY]
            response: dict[str, dict[str, str]] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)
            return response

        try:
            with aws.translate_errors():
                response = (
                    request_attributes()
                    if depth_time_left is None
                    else run_with_deadline(min(REQUEST_TIMEOUT_SECONDS, depth_time_left()), request_attributes)
                )
        except CounterfoilError as error:
            logger.warning("A queue did not return its depth", worker=worker, error=str(error))
            return None
        attributes = {name: int(response["Attributes"][name]) for name in (*DEPTHS, VISIBILITY)}
        return QueueState(sum(attributes[name] for name in DEPTHS), timedelta(seconds=attributes[VISIBILITY]))


def _limit_time(seconds: float, time_left: TimeLeft) -> TimeLeft:
    """Return a timer for the first `seconds` of the remaining time."""
    end = time_left() - seconds
    return lambda: time_left() - end
