"""The table of alarms: metric, threshold and severity of each. It imports no CDK.

A new alarm is one value here and one section of docs/operations.md under its name. Those about the health of a function
or a dead-letter queue are in the row of their worker (`infra.worker_table.Alarm`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from infra.worker_table import Row

NAMESPACE = "Counterfoil"
LEAST_ENDED = 20
"""Least volume of a failure rate: below it, one damaged file is a high rate."""
ENDED = "FILL(m0, 0) + FILL(m1, 0)"
"""Work items that failed or succeeded. CloudWatch has no data point where a count is zero."""
LONGEST_TRY = 0.8
"""Share of the time-out at which a duration is too long. No attempt outlives its function."""


class Severity(StrEnum):
    """Severity of an alarm. Each has its own topic."""

    CRITICAL = "critical"
    """An operator must look at once."""
    WARNING = "warning"


class Scope(StrEnum):
    """Subject of an alarm."""

    WORKER = "worker"
    """Each worker with a queue has its own alarm."""
    RETRIES = "retries"
    """Each worker with a queue for retries has its own alarm."""
    SUM = "sum"
    """Sum of the separate values of all workers with a queue."""
    ALL = "all"
    """Everything that counts under this metric, whatever its dimension."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """One alarm: it goes off when the value is above the threshold for `periods` in a row.

    "For 5 minutes" is one period of 5 minutes and the statistic Minimum: a missed run of the watchdog hides nothing.
    """

    name: str
    """Name, also of the threshold and the page of the runbook. CloudWatch shows `counterfoil-{worker}-{name}`."""
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
    grace_minutes: int = 0
    """Time after a deployment during which it notifies no one. Required where silence counts: nothing is measured until
    the new functions run."""

    def threshold_for(self, row: Row | None, chosen: float | None) -> float:
        """Return the threshold of `row`'s alarm. The deployment's choice, if any, replaces the default."""
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
        statistic="Minimum",
        threshold=1000,
        minutes=5,
    ),
    Watch(
        name="oldest-pending",
        says="Work of {worker} is due for more than {threshold} s and was not started.",
        scope=Scope.WORKER,
        metrics=("OldestPendingSeconds",),
        statistic="Minimum",
        threshold=3600,
        minutes=5,
    ),
    Watch(
        name="queue-depth",
        says="More than {threshold} messages are in the queue of {worker}.",
        scope=Scope.WORKER,
        metrics=("QueueDepth",),
        statistic="Minimum",
        threshold=1000,
        minutes=5,
    ),
    Watch(
        name="retry-queue-depth",
        says="More than {threshold} messages are in the queue for retries of {worker}.",
        scope=Scope.RETRIES,
        metrics=("RetryQueueDepth",),
        statistic="Minimum",
        threshold=1000,
        minutes=5,
    ),
    Watch(
        name="failure-rate",
        says=f"More than {{threshold}} % of {LEAST_ENDED} or more work items of {{worker}} failed in 15 minutes.",
        scope=Scope.WORKER,
        metrics=("Failed", "Succeeded"),
        statistic="Sum",
        expression=f"IF({ENDED} >= {LEAST_ENDED}, 100 * FILL(m0, 0) / ({ENDED}), 0)",
        threshold=1,
        minutes=15,
    ),
    Watch(
        name="job-duration",
        says="Of 100 attempts of {worker}, 5 take longer than {threshold} s.",
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
        says="More than {threshold} attempts failed within a minute and will be retried.",
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
        says="More than {threshold} work items were dead-lettered within one of the last five minutes.",
        scope=Scope.ALL,
        metrics=("DeadLettersPerMinute",),
        statistic="Maximum",
        threshold=10,
    ),
    Watch(
        name="dead-letter-rate",
        says="For 10 minutes, the five-minute rate of dead letters has been above {threshold} per second.",
        scope=Scope.ALL,
        metrics=("DeadLetterRate",),
        statistic="Minimum",
        threshold=0.2,
        minutes=5,
        periods=2,
        severity=Severity.CRITICAL,
    ),
    Watch(
        name="kept-dead-letters",
        says="Messages stay in dead-letter queues, for the function that settles them fails on them.",
        scope=Scope.ALL,
        metrics=("Kept",),
        statistic="Sum",
        threshold=0,
        # The next attempt is after 5 minutes, and a shorter outage needs no operator.
        minutes=10,
        periods=2,
    ),
    Watch(
        name="returned-unattempted",
        says="Messages reach a dead-letter queue without an attempt: its worker may crash at start.",
        scope=Scope.ALL,
        metrics=("ReturnedUnattempted",),
        statistic="Sum",
        threshold=0,
        minutes=5,
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
        grace_minutes=15,
    ),
    Watch(
        name="uploads-without-event",
        says="S3 events of uploads or mail were lost. The watchdog found the objects and enqueued their jobs.",
        scope=Scope.ALL,
        metrics=("UploadsWithoutEvent",),
        statistic="Maximum",
        threshold=0,
    ),
    Watch(
        name="upload-listing",
        says="The bucket was last listed completely more than {threshold} s ago, so lost uploads are found late.",
        scope=Scope.ALL,
        metrics=("UploadListingSeconds",),
        statistic="Maximum",
        threshold=86_400,
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
        says="The offers of people have failed permanently for the day that it is where they are.",
        scope=Scope.ALL,
        metrics=("OffersFailed",),
        statistic="Maximum",
        threshold=0,
        severity=Severity.CRITICAL,
    ),
    Watch(
        name="incomplete-offers",
        says="An hour after their time, more than {threshold} % of the people of a date have no offers.",
        scope=Scope.ALL,
        metrics=("OffersIncompletePercent",),
        statistic="Maximum",
        threshold=0.1,  # 99.9 % of jobs are complete
        severity=Severity.CRITICAL,
    ),
    Watch(
        name="offers-duration",
        says="The offers of 5 of 100 users take longer than {threshold} s.",
        scope=Scope.ALL,
        metrics=("OffersUserSeconds",),
        statistic="Maximum",
        threshold=30,
    ),
    Watch(
        name="late-offers",
        says="It is past 10:00, and more than {threshold} people are still without the offers of their day.",
        scope=Scope.ALL,
        metrics=("OffersLate",),
        statistic="Minimum",
        threshold=0,
        minutes=5,
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
        grace_minutes=120,
    ),
    Watch(
        name="duplicate-offers",
        says="A user has an offer twice on a day, or two sets of offers, which must never happen.",
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


def subjects_of(watch: Watch, rows: Sequence[Row]) -> Sequence[Row | None]:
    """Return the rows of `rows` that have their own alarm; None stands for one about all."""
    if watch.scope is Scope.RETRIES:
        return [row for row in rows if row.has_retry_queue]
    return rows if watch.scope is Scope.WORKER else [None]
