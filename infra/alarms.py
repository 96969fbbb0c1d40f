"""The alarms about delivery: what each watches, when it goes off, and how bad that is. It imports no CDK.

A new alarm is one value here and one section of docs/operations.md under its name. Those about the health of a function
or a dead-letter queue are in the row of their worker (`infra.workers.Alarm`).
"""

from dataclasses import dataclass
from enum import StrEnum

from infra.workers import Row

NAMESPACE = "Counterfoil"
LONGEST_TRY = 0.8
"""No try outlives its function: a duration is also too long at this share of the time-out."""


class Severity(StrEnum):
    """Whom an alarm is for: each has a topic of its own."""

    CRITICAL = "critical"
    """Somebody has to look at once."""
    WARNING = "warning"


class Scope(StrEnum):
    """What an alarm is about."""

    WORKER = "worker"
    """One worker with a queue: each has an alarm of its own."""
    RETRIES = "retries"
    """One worker with a queue for retries: each has an alarm of its own."""
    SUM = "sum"
    """All workers with a queue, each measured by itself and added up."""
    ALL = "all"
    """Everything that counts under this metric, whatever its dimension."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """One alarm: it goes off when the value is above the threshold for `periods` in a row."""

    name: str
    """Of its threshold and its page of the runbook too; in CloudWatch after `counterfoil-` and the worker's name."""
    says: str
    """A sentence; {worker} and {threshold} are put in."""
    scope: Scope
    metrics: tuple[str, ...]
    statistic: str
    threshold: float
    requeued: float | None = None
    """The threshold for workers with a queue for retries, where it differs. Those whose waits are fixed have few."""
    expression: str = "m0"
    """Metric math on `metrics`, which are m0, m1, ...; for Scope.SUM m0 is the sum."""
    minutes: int = 1
    """Length of a period."""
    periods: int = 1
    severity: Severity = Severity.WARNING
    silence_counts: bool = False
    """Whether it goes off when nothing is measured, too."""

    def threshold_for(self, row: Row | None, chosen: float | None) -> float:
        """The threshold of `row`'s alarm, where `chosen` is what the deployment says in the place of the default."""
        default = self.threshold
        if self.requeued is not None and row is not None and row.has_retry_queue and not row.retry_waits:
            default = self.requeued
        threshold = default if chosen is None else chosen
        if row is not None and "JobSeconds" in self.metrics:
            return min(threshold, LONGEST_TRY * row.timeout)
        return threshold


WATCHES: tuple[Watch, ...] = (
    Watch(
        name="stuck-in-progress",
        says="Work of {worker} is in progress for more than 10 minutes with its lease over: its worker crashed.",
        scope=Scope.WORKER,
        metrics=("StuckInProgress",),
        statistic="Maximum",
        threshold=0,
    ),
    Watch(
        name="waiting-for-retry",
        says="More than {threshold} pieces of work of {worker} wait for another try.",
        scope=Scope.WORKER,
        metrics=("WaitingForRetry",),
        statistic="Maximum",
        threshold=1000,
        periods=5,
    ),
    Watch(
        name="oldest-pending",
        says="Work of {worker} is due for more than {threshold} s and was not started.",
        scope=Scope.WORKER,
        metrics=("OldestPendingSeconds",),
        statistic="Maximum",
        threshold=3600,
        periods=5,
    ),
    Watch(
        name="queue-depth",
        says="More than {threshold} messages are in the queue of {worker}.",
        scope=Scope.WORKER,
        metrics=("QueueDepth",),
        statistic="Maximum",
        threshold=1000,
        periods=5,
    ),
    Watch(
        name="retry-queue-depth",
        says="More than {threshold} messages are in the queue for retries of {worker}.",
        scope=Scope.RETRIES,
        metrics=("RetryQueueDepth",),
        statistic="Maximum",
        threshold=1000,
        periods=5,
    ),
    Watch(
        name="failure-rate",
        says="More than {threshold} % of the work that {worker} ended in 15 minutes has failed.",
        scope=Scope.WORKER,
        metrics=("Failed", "Succeeded"),
        statistic="Sum",
        # A count that is zero is not written: where nothing succeeds, there is no datapoint of success.
        expression="100 * FILL(m0, 0) / (FILL(m0, 0) + FILL(m1, 0))",
        threshold=1,
        minutes=15,
    ),
    Watch(
        name="job-duration",
        says="Of 100 tries of {worker}, 5 take longer than {threshold} s.",
        scope=Scope.WORKER,
        metrics=("JobSeconds",),
        statistic="p95",
        threshold=300,
        minutes=5,
        periods=3,
    ),
    Watch(
        name="attempts-before-success",
        says="Work of {worker} that succeeds takes more than {threshold} attempts on average.",
        scope=Scope.WORKER,
        metrics=("AttemptsBeforeSuccess",),
        statistic="Average",
        threshold=2,
        requeued=4,  # three retries
        minutes=15,
    ),
    Watch(
        name="retries",
        says="More than {threshold} tries failed within a minute and will be made again.",
        scope=Scope.ALL,
        metrics=("Retries",),
        statistic="Sum",
        threshold=500,
    ),
    Watch(
        name="unsettled-dead-letters",
        says="More than {threshold} dead letters wait for a decision.",
        scope=Scope.SUM,
        metrics=("UnsettledDeadLetters",),
        statistic="Maximum",
        threshold=100,
    ),
    Watch(
        name="unsettled-dead-letters-for-an-hour",
        says="More than {threshold} dead letters have waited for a decision for an hour.",
        scope=Scope.SUM,
        metrics=("UnsettledDeadLetters",),
        statistic="Maximum",
        threshold=500,
        minutes=5,
        periods=12,
    ),
    Watch(
        name="dead-letters-per-minute",
        says="More than {threshold} pieces of work ended as dead letters within a minute.",
        scope=Scope.SUM,
        metrics=("DeadLettersWritten",),
        statistic="Maximum",
        threshold=10,
    ),
    Watch(
        name="dead-letter-rate",
        says="For 10 minutes, more than {threshold} pieces of work a second have ended as dead letters.",
        scope=Scope.SUM,
        metrics=("DeadLettersWritten",),
        statistic="Maximum",
        expression="m0 / 60",
        threshold=0.2,
        periods=10,
        severity=Severity.CRITICAL,
    ),
    Watch(
        name="kept-dead-letters",
        says="Messages stay in dead-letter queues, for the function that settles them fails on them.",
        scope=Scope.ALL,
        metrics=("Kept",),
        statistic="Sum",
        threshold=0,
        # One that is kept is tried again after 5 minutes; an outage that is over sooner is nobody's business.
        minutes=10,
        periods=2,
    ),
    Watch(
        name="unsent-outbox",
        says="Messages that are due stay unsent, or the watchdog, which sends and counts them, does not run.",
        scope=Scope.ALL,
        metrics=("UnsentOutbox",),
        statistic="Maximum",
        threshold=0,
        periods=5,
        severity=Severity.CRITICAL,
        silence_counts=True,
    ),
    Watch(
        name="notification-failures",
        says="Notifications of failed work cannot be sent.",
        scope=Scope.ALL,
        metrics=("NotificationFailures",),
        statistic="Sum",
        threshold=0,
    ),
    Watch(
        name="failed-offers",
        says="Of the people whose day of offers it is, more than {threshold} % have none, for theirs have failed.",
        scope=Scope.ALL,
        metrics=("OffersFailed", "OffersCompleted"),
        statistic="Maximum",
        expression="100 * m0 / (m0 + m1)",
        threshold=1,
        minutes=5,
    ),
    Watch(
        name="late-offers",
        says="It is past 10:00, and more than {threshold} people are still without the offers of their day.",
        scope=Scope.ALL,
        metrics=("OffersLate",),
        statistic="Maximum",
        threshold=0,
        periods=5,
        severity=Severity.CRITICAL,
    ),
    Watch(
        name="unpinned-offers",
        says="For two hours, days of offers that are due could not be queued, or the scheduler of offers did not run.",
        scope=Scope.ALL,
        metrics=("PoolsLeft",),
        statistic="Maximum",
        threshold=0,
        minutes=60,
        periods=2,
        severity=Severity.CRITICAL,
        silence_counts=True,
    ),
    Watch(
        name="duplicate-offers",
        says="Somebody has an offer twice on a day, or two sets of offers: what must never be.",
        scope=Scope.ALL,
        metrics=("DuplicateOffers",),
        statistic="Maximum",
        threshold=0,
        severity=Severity.CRITICAL,
    ),
    Watch(
        name="breaker-open",
        says="A circuit breaker is open: a language model or a webhook's host fails, and work that needs it waits.",
        scope=Scope.ALL,
        metrics=("BreakerOpen",),
        statistic="Maximum",
        threshold=0,
        periods=3,
    ),
)

THRESHOLDS = {watch.name: watch.threshold for watch in WATCHES}
"""The default of each threshold, which the context `alarms` may change."""
