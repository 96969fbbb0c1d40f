"""Recovery: sends unsent messages, and resends the messages of overdue work."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from aws_lambda_powertools import Logger

from counterfoil import aws
from counterfoil.db import Database
from counterfoil.delivery.outbox import CALL_SECONDS, Outbox, TimeLeft
from counterfoil.delivery.work import WorkKind
from counterfoil.errors import CounterfoilError
from counterfoil.http import within
from counterfoil.kinds import KINDS
from counterfoil.metrics import Metric, record
from counterfoil.queues import list_pauses
from counterfoil.settings import Settings

logger = Logger()

QUEUE_RETENTION = timedelta(days=10)
"""Message retention of every queue: a message sent earlier no longer exists."""
LONGEST_VISIBILITY = timedelta(hours=12)
"""SQS's longest visibility timeout, assumed for a queue that does not answer."""
VISIBILITY_TIMEOUTS = 3
"""How many visibility timeouts due work waits for its message while its queues hold messages."""
RESENDS = 1000
"""Messages resent per run and worker while its queues are empty."""
BUSY_RESENDS = 100
"""The same while they hold messages, because most of these resends are duplicates."""
ROUNDS = 10
"""How often at most one run asks the outbox for another thousand rows of each worker."""
ASK_SECONDS = 2.0
"""Longest time that one queue has to say how full it is."""
ASKING_SECONDS = 4.0
"""As long as all queues together have for that."""
DEPTHS = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
VISIBILITY = "VisibilityTimeout"

# Due work whose current message was sent too long ago, the longest wait first. A duplicate does no harm: it has the
# same send number, so one of the two finds the work running or ended. Work without an outbox row came by S3 event.
_OVERDUE = """
SELECT t.id, t.tenant_id, t.{revision}, t.{send_number} FROM {table} t
LEFT JOIN outbox o ON o.worker = %(worker)s AND o.work_id = t.id AND o.revision = t.{revision}
    AND o.send_number = t.{send_number}
CROSS JOIN LATERAL (
    SELECT coalesce(greatest(o.sent_at, t.{claimed_at}, t.{next_attempt_at}, t.{lease_expires_at}), '-infinity') AS at
) since
WHERE t.{status} IN ('pending', 'in-progress') AND (o.id IS NULL OR o.sent_at IS NOT NULL)
  AND since.at <= %(now)s - %(patience)s
  AND (%(is_empty)s OR since.at <= %(now)s - least(coalesce(o.sent_at - o.not_before, '0'), %(retention)s))
ORDER BY since.at, t.id LIMIT %(limit)s
"""

_RESEND = """
INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, not_before, created_at)
SELECT tenant_id, %(worker)s, id, revision, send_number, %(now)s, %(now)s
FROM unnest(%(ids)s::uuid[], %(tenants)s::uuid[], %(revisions)s::int[], %(sends)s::int[])
    AS w (id, tenant_id, revision, send_number)
ON CONFLICT (worker, work_id, revision, send_number) DO UPDATE SET sent_at = NULL
"""


@dataclass(frozen=True)
class Recovered:
    """What one run of the watchdog did."""

    sent: int
    """Messages sent that their writers had not sent, or that fell due."""
    resent: Mapping[str, int]
    """Messages resent, by worker."""


@dataclass(frozen=True)
class QueueState:
    """State of a queue, as SQS reports it."""

    depth: int
    visibility: timedelta
    """Its visibility timeout."""


class Watchdog:
    """Looks after every queue of `settings.queue_urls`."""

    def __init__(self, settings: Settings, database: Database, outbox: Outbox, clock: Callable[[], datetime]) -> None:
        self._settings = settings
        self._database = database
        self._outbox = outbox
        self._clock = clock

    def run(self, time_left: TimeLeft | None = None) -> Recovered:
        """One round. Where `time_left` is given, what does not fit in those seconds is left to the next one.

        Raises:
            DatabaseUnavailableError: nothing can be recovered without the database.
        """
        asking = None if time_left is None else _first(ASKING_SECONDS, time_left)
        resent = {
            kind.worker: self._resend(kind, asking)
            for kind in KINDS.values()
            if kind.worker in self._settings.queue_urls
        }
        unsent_before = self._clock() - timedelta(seconds=self._settings.watchdog_unsent_after_seconds)
        sent = 0
        for _ in range(ROUNDS):
            if time_left is not None and time_left() < CALL_SECONDS:
                logger.warning("No time is left to send more: the next round goes on", sent=sent)
                break
            latest = self._outbox.send_unsent(created_before=unsent_before, time_left=time_left)
            sent += latest
            if latest == 0:
                break
        return Recovered(sent, resent)

    def _resend(self, kind: WorkKind, asking: TimeLeft | None) -> int:
        """Enqueue again the messages that must be lost, and record how many.

        Empty queues lost every message, so work is resent as soon as it is due and was not sent for
        WATCHDOG_RESEND_AFTER_SECONDS. Queues that hold messages show nothing about any single one: work then waits for
        `VISIBILITY_TIMEOUTS`, in which SQS redelivers whatever a worker dropped. Each resend that brings nothing
        doubles the wait, up to the retention, and a run resends `BUSY_RESENDS` at most. So a backlog of 100,000
        messages grows by 100 a minute at most, and by each of its messages eight times in ten days. A lost message is
        soon the oldest of the backlog, and the oldest are resent first. A paused queue that holds messages is not
        received from, so its work waits for the retention.
        """
        now = self._clock()
        retry_url = self._settings.retry_queue_urls.get(kind.worker)
        queue = self._state(kind.worker, self._settings.queue_urls[kind.worker], asking)
        retry_queue = None if retry_url is None else self._state(kind.worker, retry_url, asking)
        states = [queue] if retry_url is None else [queue, retry_queue]
        is_empty = all(state is not None and state.depth == 0 for state in states)
        patience = timedelta(seconds=self._settings.watchdog_resend_after_seconds)
        if not is_empty:
            visibility = max(LONGEST_VISIBILITY if state is None else state.visibility for state in states)
            patience = max(patience, VISIBILITY_TIMEOUTS * visibility)
        with self._database.delivery() as connection:
            pause = list_pauses(connection).get(kind.worker)
            if not is_empty and pause is not None and pause.is_paused:
                patience = QUEUE_RETENTION
            rows = connection.execute(
                kind.sql(_OVERDUE),
                {
                    "worker": kind.worker,
                    "now": now,
                    "patience": patience,
                    "is_empty": is_empty,
                    "retention": QUEUE_RETENTION,
                    "limit": RESENDS if is_empty else BUSY_RESENDS,
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
                        "sends": [row[3] for row in rows],
                    },
                )
        depths = {Metric.QUEUE_DEPTH: queue, Metric.RETRY_QUEUE_DEPTH: retry_queue}
        known = {metric: state.depth for metric, state in depths.items() if state is not None}
        record({Metric.PENDING_WITHOUT_MESSAGE: len(rows)} | known, worker=kind.worker)
        return len(rows)

    @staticmethod
    def _state(worker: str, url: str, asking: TimeLeft | None) -> QueueState | None:
        """State of a queue; None if it does not answer in time."""
        if asking is not None and asking() <= 0:
            logger.warning("No time to ask a queue for its depth", worker=worker)
            return None
        sqs = aws.client("sqs")

        def ask() -> dict[str, dict[str, str]]:
            names = [*DEPTHS, VISIBILITY]
            answer: dict[str, dict[str, str]] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)
            return answer

        try:
            with aws.errors_mapped():
                answer = ask() if asking is None else within(min(ASK_SECONDS, asking()), ask)
        except CounterfoilError as error:
            logger.warning("A queue did not return its depth", worker=worker, error=str(error))
            return None
        attributes = {name: int(answer["Attributes"][name]) for name in (*DEPTHS, VISIBILITY)}
        return QueueState(sum(attributes[name] for name in DEPTHS), timedelta(seconds=attributes[VISIBILITY]))


def _first(seconds: float, time_left: TimeLeft) -> TimeLeft:
    """What is left of the first seconds from now on."""
    end = time_left() - seconds
    return lambda: time_left() - end
