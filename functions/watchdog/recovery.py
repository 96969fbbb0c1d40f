"""Recovery of what a crash left behind: unsent messages, and work whose message must be gone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from aws_lambda_powertools import Logger

from counterfoil import aws
from counterfoil.db import Database
from counterfoil.errors import CounterfoilError
from counterfoil.http import within
from counterfoil.metrics import Metric, record
from counterfoil.outbox import CALL_SECONDS, Outbox, TimeLeft
from counterfoil.settings import Settings
from counterfoil.work import KINDS, Kind

logger = Logger()

QUEUE_RETENTION = timedelta(days=10)
"""How long a queue keeps a message: what was sent before that, and not since, is gone."""
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

# Work that should have a message: due, and not sent for a while. A message that exists after all does no harm: this one
# is the same again (same send number), and of two copies one finds the work running or ended. Work without an outbox
# row came by an S3 event, no later than its first claim.
_ORPHANS = """
SELECT t.id, t.tenant_id, t.{revision}, t.{send_number} FROM {table} t
LEFT JOIN LATERAL (
    SELECT bool_or(o.sent_at IS NULL) AS unsent, max(o.sent_at) AS sent_at FROM outbox o
    WHERE o.worker = %(worker)s AND o.work_id = t.id AND o.revision = t.{revision}
) o ON true
WHERE ((t.{status} = 'pending' AND coalesce(t.{next_attempt_at}, '-infinity') <= %(before)s)
       OR (t.{status} = 'in-progress' AND t.{lease_expires_at} <= %(before)s))
  AND NOT coalesce(o.unsent, false)
  AND coalesce(o.sent_at, t.{claimed_at}, '-infinity') <= %(sent_before)s
ORDER BY t.id LIMIT %(limit)s
"""

_RESEND = """
INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, not_before, created_at)
SELECT tenant_id, %(worker)s, id, revision, send_number, %(now)s, %(now)s
FROM unnest(%(ids)s::uuid[], %(tenants)s::uuid[], %(revisions)s::int[], %(sends)s::int[])
    AS w (id, tenant_id, revision, send_number)
ON CONFLICT (worker, work_id, revision, send_number) DO UPDATE SET sent_at = NULL, not_before = excluded.not_before
"""


@dataclass(frozen=True)
class Recovered:
    """What one run of the watchdog did."""

    sent: int
    """Messages sent that their writers had not sent, or that fell due."""
    resent: Mapping[str, int]
    """Messages sent once more, by worker."""


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

    def _resend(self, kind: Kind, asking: TimeLeft | None) -> int:
        """Owe the messages of work whose own must be gone: the queue is empty, or keeps nothing sent so long ago."""
        now = self._clock()
        quiet = timedelta(seconds=self._settings.watchdog_resend_after_seconds)
        of_retries = self._settings.retry_queue_urls.get(kind.worker)
        depth = self._depth(kind.worker, self._settings.queue_urls[kind.worker], asking)
        retry_depth = None if of_retries is None else self._depth(kind.worker, of_retries, asking)
        is_empty = depth == 0 and (of_retries is None or retry_depth == 0)
        patience = quiet if is_empty else QUEUE_RETENTION
        with self._database.delivery() as connection:
            rows = connection.execute(
                kind.sql(_ORPHANS),
                {
                    "worker": kind.worker,
                    "before": now - quiet,
                    "sent_before": now - patience,
                    "limit": 1000,
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
        depths = {Metric.QUEUE_DEPTH: depth, Metric.RETRY_QUEUE_DEPTH: retry_depth}
        known = {metric: messages for metric, messages in depths.items() if messages is not None}
        record({Metric.PENDING_WITHOUT_MESSAGE: len(rows)} | known, worker=kind.worker)
        return len(rows)

    @staticmethod
    def _depth(worker: str, url: str, asking: TimeLeft | None) -> int | None:
        """How many messages a queue says it holds; None for one that does not say and may hold any number."""
        if asking is not None and asking() <= 0:
            logger.warning("A queue was not asked how full it is: others took the time", worker=worker)
            return None
        sqs = aws.client("sqs")

        def ask() -> dict[str, dict[str, str]]:
            answer: dict[str, dict[str, str]] = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(DEPTHS))
            return answer

        try:
            with aws.errors_mapped():
                answer = ask() if asking is None else within(min(ASK_SECONDS, asking()), ask)
        except CounterfoilError as error:
            logger.warning("A queue did not say how full it is", worker=worker, error=str(error))
            return None
        return sum(int(answer["Attributes"][name]) for name in DEPTHS)


def _first(seconds: float, time_left: TimeLeft) -> TimeLeft:
    """What is left of the first seconds from now on."""
    end = time_left() - seconds
    return lambda: time_left() - end
