"""Counterfoil's metrics in CloudWatch's embedded metric format.

CloudWatch extracts the metrics from the log, so writing them requires no call that could fail or block.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import AmazonCloudWatchEMFProvider

NAMESPACE = "Counterfoil"
MAX_VALUES = 100
"""Maximum number of values per metric in one line, a limit of the format."""


class Metric(StrEnum):
    """Name and unit of a metric in CloudWatch.

    A comment before each group names its dimensions.
    """

    unit: MetricUnit

    def __new__(cls, name: str, unit: MetricUnit = MetricUnit.Count) -> "Metric":
        """Create a member whose value is its name."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.unit = unit
        return member

    # By worker, for each batch of messages.
    SUCCEEDED = "Succeeded"
    SKIPPED = "Skipped"
    FAILED = "Failed"
    """Work items that failed permanently."""
    RETRIES = "Retries"
    """Failed attempts that will be retried."""
    DEFERRED = "Deferred"
    """Attempts that were deferred, for example for lack of time or because a circuit breaker is open."""
    STALE_CLAIMS = "StaleClaims"
    """Attempts that stopped because their claim was stale."""
    SUPERSEDED = "Superseded"
    """Messages dropped because a newer revision of their work item exists."""
    OUTCOME_NOT_WRITTEN = "OutcomeNotWritten"
    """Attempts whose outcome could not be committed because the database was unavailable."""
    VISIBILITY_NOT_EXTENDED = "VisibilityNotExtended"
    """Messages not started because their visibility timeout could not be extended."""
    ATTEMPT_SECONDS = "AttemptSeconds", MetricUnit.Seconds
    """Duration of each settled attempt."""
    ATTEMPTS_BEFORE_SUCCESS = "AttemptsBeforeSuccess"
    """Number of attempts for each work item that succeeded, including the successful one."""
    END_TO_END_SECONDS = "EndToEndSeconds", MetricUnit.Seconds
    """Time from the creation of each work item to its success, if it succeeded in its first revision."""

    # By worker and type of error, for each batch of messages.
    ERRORS = "Errors"
    """Failed attempts, attempts whose worker was lost, and unreadable messages."""

    # By worker, from every function that sends messages.

    ORPHANED_MESSAGES = "OrphanedMessages"
    """Outbox messages whose work item no longer exists."""

    # By worker, from the archiver of dead-letter queues.
    DLQ_RETAINED = "DlqRetained"
    """Messages that could not be archived, and stay in the dead-letter queue until the next attempt."""
    RETURNED_UNATTEMPTED = "ReturnedUnattempted"
    """Work items returned from the dead-letter queue without any attempt."""

    # By worker. The watchdog writes them each minute, from PostgreSQL and SQS.
    STUCK_IN_PROGRESS = "StuckInProgress"
    """Work items in progress that were claimed at least 10 minutes ago and whose lease has expired."""
    OUTBOX_OVERDUE = "OutboxOverdue"
    """Overdue messages in the outbox."""
    PENDING_WITHOUT_MESSAGE = "PendingWithoutMessage"
    """Due work items whose message was resent because it may be lost."""
    OLDEST_PENDING_SECONDS = "OldestPendingSeconds", MetricUnit.Seconds
    """Time since the oldest due work item became due."""
    WAITING_FOR_RETRY = "WaitingForRetry"
    """Pending work items with at least one earlier attempt."""
    PENDING_DEAD_LETTERS = "PendingDeadLetters"
    """Pending dead letters."""
    QUEUE_DEPTH = "QueueDepth"
    """Messages in the queue, including those in flight and delayed ones."""
    RETRY_QUEUE_DEPTH = "RetryQueueDepth"
    """Messages in the retry queue, for workers that have one."""

    # By breaker. The watchdog writes it each minute.
    BREAKER_OPEN = "BreakerOpen"
    """1 while a circuit breaker is not closed."""

    # Without dimensions. The watchdog writes them each minute.
    DEAD_LETTER_RATE = "DeadLetterRate", MetricUnit.CountPerSecond
    """New dead letters per second in the last five minutes, for all workers."""
    DEAD_LETTERS_PER_MINUTE = "DeadLettersPerMinute"
    """New dead letters in the busiest of the last five minutes, for all workers."""
    DESTINATIONS_UNAVAILABLE = "DestinationsUnavailable"
    """Tenants' destinations whose circuit breaker is not closed."""

    # Without dimensions. The watchdog writes them each minute, from S3.
    UPLOADS_WITHOUT_EVENT = "UploadsWithoutEvent"
    """Uploads and mail whose S3 event was lost. Each counts once, as soon as its event can no longer arrive."""
    UPLOAD_LISTING_SECONDS = "UploadListingSeconds", MetricUnit.Seconds
    """Time since the last complete bucket listing or inventory began. Later lost uploads may not be found yet."""

    # Without dimensions. The watchdog writes them each minute: users by the state of their offers for the current local
    # date.
    OFFERS_COMPLETED = "OffersCompleted"
    OFFERS_PENDING = "OffersPending"
    OFFERS_FAILED = "OffersFailed"
    """Users whose offers failed with a pending dead letter."""
    OFFERS_OVERDUE = "OffersOverdue"
    """Users whose offers are pending after 10:00, or for late users more than an hour after they joined."""

    OFFERS_INCOMPLETE_PERCENT = "OffersIncompletePercent", MetricUnit.Percent
    """Share of users without offers at 10:00, for the date and time zone with the largest share."""
    OFFERS_USER_SECONDS = "OffersUserSeconds", MetricUnit.Seconds
    """95th percentile of shard durations in the last 15 minutes, weighted by the users of each shard."""

    # Without dimensions. The watchdog writes it each hour.
    DUPLICATE_OFFERS = "DuplicateOffers"
    """Offers that are duplicates or missing from the user's stored result. The number must be 0."""

    # By channel.
    NOTIFICATIONS_SENT = "NotificationsSent"
    NOTIFICATION_FAILURES = "NotificationFailures"

    # By provider.
    LLM_CALLS = "LlmCalls"
    LLM_FAILURES = "LlmFailures"
    LLM_BUDGET_EXCEEDED = "LlmBudgetExceeded"
    """Calls that were not made because the daily budget was used up."""

    # Without dimensions. The scheduler of daily offers writes them each hour.
    POOLS_PINNED = "PoolsPinned"
    """Pools that were pinned, or extended by shards of late users."""
    POOLS_NOT_PINNED = "PoolsNotPinned"
    """Pools or tenants that failed, or that the scheduler had no time for."""

    # Without dimensions, from a deployment's migrations.
    DEPLOYMENTS = "Deployments"
    """Deployments that migrated the database. Alarms about missing data have a grace period after one."""

    # Without dimensions.
    EMBEDDINGS_SKIPPED = "EmbeddingsSkipped"
    """Documents matched without the requested embedding, because the model failed or its budget was used up."""


def emit(values: Mapping[Metric, float | Sequence[float]], **dimensions: str) -> None:
    """Write metrics to the log, both with `dimensions` and without any.

    Alarms on totals use the metrics without dimensions. A list becomes an array, which CloudWatch requires for
    percentiles. Empty lists are skipped, and values beyond MAX_VALUES go to further lines. The function is thread-safe,
    because each line is a single write.
    """
    series = {
        metric: [float(value)] if isinstance(value, int | float) else [float(item) for item in value]
        for metric, value in values.items()
    }
    # A new serializer for each call, because Powertools adds the service to the dimensions of a shared one.
    serializer = AmazonCloudWatchEMFProvider(namespace=NAMESPACE)
    if dimensions:
        serializer.dimension_sets.append({})
    for start in range(0, max(map(len, series.values()), default=0), MAX_VALUES):
        chunk: dict[str, Any] = {
            metric.value: {"Unit": metric.unit.value, "Value": points[start : start + MAX_VALUES]}
            for metric, points in series.items()
            if points[start:]
        }
        line = serializer.serialize_metric_set(metrics=chunk, dimensions=dict(dimensions))
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
