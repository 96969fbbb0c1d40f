"""The table of alarms, with their metrics, thresholds and severities.

This module does not import CDK.

To add an alarm, add an entry here, a page with the alarm's name in docs/runbook, and a row in the table of the
runbook's README. Alarms about the health of a function or a dead-letter queue are defined in the worker's row
(`infra.worker_table.Alarm`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from infra.worker_table import WorkerSpec

NAMESPACE = "Counterfoil"
MIN_ENDED = 20
"""Minimum number of ended work items for a failure rate. With fewer, a single damaged file would raise the alarm."""
ENDED = "FILL(m0, 0) + FILL(m1, 0)"
"""Number of failed and succeeded work items. FILL is required because CloudWatch has no data points for zero."""
MAX_ATTEMPT_FRACTION = 0.8
"""Upper limit of the duration threshold, as a fraction of the worker's timeout, which no attempt can exceed."""


class Severity(StrEnum):
    """Severity of an alarm. Each severity has its own topic."""

    CRITICAL = "critical"
    """An operator must act immediately."""
    WARNING = "warning"


class Scope(StrEnum):
    """Workers and values that an alarm covers."""

    WORKER = "worker"
    """One alarm per worker with a queue."""
    RETRIES = "retries"
    """One alarm per worker with a retry queue."""
    SUM = "sum"
    """One alarm on the sum of the values of all workers with a queue."""
    ALL = "all"
    """One alarm on the metric without dimensions."""


@dataclass(frozen=True, kw_only=True)
class AlarmSpec:
    """One alarm.

    It fires when the value exceeds the threshold for `periods` consecutive periods.

    A condition "for 5 minutes" is one period of 5 minutes with the statistic Minimum. A missed watchdog run does not
    prevent such an alarm.
    """

    name: str
    """Name of the alarm, its threshold setting and its runbook page. In CloudWatch: `counterfoil-{worker}-{name}`, or
    `counterfoil-{name}` for a single alarm about all workers."""
    summary: str
    """Sentence with the placeholders {worker} and {threshold}."""
    scope: Scope
    metrics: tuple[str, ...]
    statistic: str
    threshold: float
    requeued: float | None = None
    """Threshold for workers with a retry queue and the configured delays, or None to use `threshold`."""
    expression: str = "m0"
    """Metric math on `metrics`, which are named m0, m1, and so on. For Scope.SUM, m0 is the sum."""
    minutes: int = 1
    """Length of a period in minutes."""
    periods: int = 1
    severity: Severity = Severity.WARNING
    silence_counts: bool = False
    """Whether missing data also fires the alarm."""
    grace_minutes: int = 0
    """Minutes without notifications after a deployment. Required with `silence_counts`, because data is missing until
    the new functions run."""

    def threshold_for(self, row: WorkerSpec | None, override: float | None) -> float:
        """Return the threshold of `row`'s alarm.

        `override` is the deployment's setting, if any.
        """
        default = self.threshold
        if self.requeued is not None and row is not None and row.has_retry_queue and not row.retry_delays:
            default = self.requeued
        threshold = default if override is None else override
        if row is not None and "AttemptSeconds" in self.metrics:
            return min(threshold, MAX_ATTEMPT_FRACTION * row.timeout)
        return threshold


ALARMS: tuple[AlarmSpec, ...] = (
    AlarmSpec(
        name="stuck-in-progress",
        summary="The {worker} worker has work items in progress for more than 10 minutes whose leases have expired.",
        scope=Scope.WORKER,
        metrics=("StuckInProgress",),
        statistic="Maximum",
        threshold=0,
    ),
    AlarmSpec(
        name="waiting-for-retry",
        summary="The {worker} worker has more than {threshold} work items that are waiting for a retry.",
        scope=Scope.WORKER,
        metrics=("WaitingForRetry",),
        statistic="Minimum",
        threshold=1000,
        minutes=5,
    ),
    AlarmSpec(
        name="oldest-pending",
        summary="The oldest {worker} work item has been due for more than {threshold} s.",
        scope=Scope.WORKER,
        metrics=("OldestPendingSeconds",),
        statistic="Minimum",
        threshold=3600,
        minutes=5,
    ),
    AlarmSpec(
        name="queue-depth",
        summary="The {worker} queue has more than {threshold} messages.",
        scope=Scope.WORKER,
        metrics=("QueueDepth",),
        statistic="Minimum",
        threshold=1000,
        minutes=5,
    ),
    AlarmSpec(
        name="retry-queue-depth",
        summary="The {worker} retry queue has more than {threshold} messages.",
        scope=Scope.RETRIES,
        metrics=("RetryQueueDepth",),
        statistic="Minimum",
        threshold=1000,
        minutes=5,
    ),
    AlarmSpec(
        name="failure-rate",
        summary=f"More than {{threshold}}% of at least {MIN_ENDED} {{worker}} work items failed in 15 minutes.",
        scope=Scope.WORKER,
        metrics=("Failed", "Succeeded"),
        statistic="Sum",
        expression=f"IF({ENDED} >= {MIN_ENDED}, 100 * FILL(m0, 0) / ({ENDED}), 0)",
        threshold=1,
        minutes=15,
    ),
    AlarmSpec(
        name="job-duration",
        summary="The 95th percentile of {worker} attempt durations exceeds {threshold} s.",
        scope=Scope.WORKER,
        metrics=("AttemptSeconds",),
        statistic="p95",
        threshold=300,
        minutes=5,
        periods=3,
    ),
    AlarmSpec(
        name="attempts-before-success",
        summary="Successful {worker} work items take more than {threshold} attempts on average.",
        scope=Scope.WORKER,
        metrics=("AttemptsBeforeSuccess",),
        statistic="Average",
        threshold=2,
        requeued=4,  # three retries
        minutes=15,
    ),
    AlarmSpec(
        name="retry-rate",
        summary="More than {threshold} attempts failed within a minute and will be retried.",
        scope=Scope.ALL,
        metrics=("Retries",),
        statistic="Sum",
        threshold=500,
    ),
    AlarmSpec(
        name="pending-dead-letters",
        summary="More than {threshold} dead letters are pending.",
        scope=Scope.SUM,
        metrics=("PendingDeadLetters",),
        statistic="Maximum",
        threshold=100,
    ),
    AlarmSpec(
        name="pending-dead-letters-sustained",
        summary="More than {threshold} dead letters have been pending for an hour.",
        scope=Scope.SUM,
        metrics=("PendingDeadLetters",),
        statistic="Maximum",
        threshold=500,
        minutes=5,
        periods=12,
    ),
    AlarmSpec(
        name="dead-letter-spike",
        summary="More than {threshold} work items were dead-lettered within one of the last five minutes.",
        scope=Scope.ALL,
        metrics=("DeadLettersPerMinute",),
        statistic="Maximum",
        threshold=10,
    ),
    AlarmSpec(
        name="dead-letter-rate",
        summary="The five-minute rate of dead letters has been above {threshold} per second for 10 minutes.",
        scope=Scope.ALL,
        metrics=("DeadLetterRate",),
        statistic="Minimum",
        threshold=0.2,
        minutes=5,
        periods=2,
        severity=Severity.CRITICAL,
    ),
    AlarmSpec(
        name="dlq-consumer-failing",
        summary="Messages stay in dead-letter queues because their consumer fails.",
        scope=Scope.ALL,
        metrics=("DlqRetained",),
        statistic="Sum",
        threshold=0,
        # Messages are retried after 5 minutes, and a shorter outage does not require an operator.
        minutes=10,
        periods=2,
    ),
    AlarmSpec(
        name="returned-unattempted",
        summary="Messages reach a dead-letter queue without an attempt. The worker may crash at startup.",
        scope=Scope.ALL,
        metrics=("ReturnedUnattempted",),
        statistic="Sum",
        threshold=0,
        minutes=5,
    ),
    AlarmSpec(
        name="outbox-overdue",
        summary="Due messages have not been sent, or the watchdog is not running.",
        scope=Scope.ALL,
        metrics=("OutboxOverdue",),
        statistic="Maximum",
        threshold=0,
        periods=5,
        severity=Severity.CRITICAL,
        silence_counts=True,
        grace_minutes=15,
    ),
    AlarmSpec(
        name="uploads-without-event",
        summary="S3 events for uploads or mail were lost. The watchdog found the objects and enqueued their jobs.",
        scope=Scope.ALL,
        metrics=("UploadsWithoutEvent",),
        statistic="Maximum",
        threshold=0,
    ),
    AlarmSpec(
        name="upload-listing",
        summary="The last complete listing of the bucket is older than {threshold} s, so lost uploads are found late.",
        scope=Scope.ALL,
        metrics=("UploadListingSeconds",),
        statistic="Maximum",
        threshold=86_400,
    ),
    AlarmSpec(
        name="notification-failures",
        summary="Notifications about failed work items could not be sent.",
        scope=Scope.ALL,
        metrics=("NotificationFailures",),
        statistic="Sum",
        threshold=0,
    ),
    AlarmSpec(
        name="failed-offers",
        summary="Offers for the current day have failed permanently.",
        scope=Scope.ALL,
        metrics=("OffersFailed",),
        statistic="Maximum",
        threshold=0,
        severity=Severity.CRITICAL,
    ),
    AlarmSpec(
        name="incomplete-offers",
        summary="An hour after a date's offers were due, more than {threshold}% of the users have no offers.",
        scope=Scope.ALL,
        metrics=("OffersIncompletePercent",),
        statistic="Maximum",
        threshold=0.1,  # 99.9% of jobs must be complete
        severity=Severity.CRITICAL,
    ),
    AlarmSpec(
        name="offers-duration",
        summary="For 5% of the users, computing their shard's offers took more than {threshold} s.",
        scope=Scope.ALL,
        metrics=("OffersUserSeconds",),
        statistic="Maximum",
        threshold=30,
    ),
    AlarmSpec(
        name="offers-overdue",
        summary="After 10:00 local time, more than {threshold} users have no offers for the day.",
        scope=Scope.ALL,
        metrics=("OffersOverdue",),
        statistic="Minimum",
        threshold=0,
        minutes=5,
        severity=Severity.CRITICAL,
    ),
    AlarmSpec(
        name="offers-not-scheduled",
        summary="For two hours, due offers could not be queued, or the scheduler did not run.",
        scope=Scope.ALL,
        metrics=("PoolsNotPinned",),
        statistic="Maximum",
        threshold=0,
        minutes=60,
        periods=2,
        severity=Severity.CRITICAL,
        silence_counts=True,
        grace_minutes=120,
    ),
    AlarmSpec(
        name="duplicate-offers",
        summary="A user has a duplicate offer, or two sets of offers for a day.",
        scope=Scope.ALL,
        metrics=("DuplicateOffers",),
        statistic="Maximum",
        threshold=0,
        severity=Severity.CRITICAL,
    ),
    AlarmSpec(
        name="breaker-open",
        summary=(
            "A circuit breaker is open: a language model or a webhook host is unavailable, and work items are waiting."
        ),
        scope=Scope.ALL,
        metrics=("BreakerOpen",),
        statistic="Maximum",
        threshold=0,
        periods=3,
    ),
)

THRESHOLDS = {spec.name: spec.threshold for spec in ALARMS}
"""Default thresholds by alarm name. The context setting `alarms` overrides them."""


def alarm_targets(spec: AlarmSpec, rows: Sequence[WorkerSpec]) -> Sequence[WorkerSpec | None]:
    """Return the rows that have their own alarm.

    A list of one None represents a single alarm about all rows.
    """
    if spec.scope is Scope.RETRIES:
        return [row for row in rows if row.has_retry_queue]
    return rows if spec.scope is Scope.WORKER else [None]
