"""Every metric that Counterfoil emits, and the one place that writes them, in CloudWatch's embedded metric format.

Lambda's log group turns each line into metrics by itself, so that no call is made and nothing can fail or wait.
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
"""Values of one metric in one line, at most: the format's bound."""


class Metric(StrEnum):
    """A metric: its name in CloudWatch, and its unit. What each is counted by is said in groups."""

    unit: MetricUnit

    def __new__(cls, name: str, unit: MetricUnit = MetricUnit.Count) -> "Metric":
        """A member that is its name and knows its unit."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.unit = unit
        return member

    # By worker, for each batch of messages.
    SUCCEEDED = "Succeeded"
    SKIPPED = "Skipped"
    FAILED = "Failed"
    """Work that ended in failure."""
    RETRIES = "Retries"
    """Tries that failed and will be made again."""
    DEFERRED = "Deferred"
    """Tries that gave their attempt back: no time left to start, or a circuit breaker is open."""
    STALE = "Stale"
    """Tries that a newer claim had overtaken."""
    SUPERSEDED = "Superseded"
    """Messages dropped, since a newer revision of their work has begun."""
    UNSETTLED = "Unsettled"
    """Tries whose outcome could not be written, since the database was away."""
    UNPROTECTED = "Unprotected"
    """Messages not started, since their visibility could not be extended."""
    JOB_SECONDS = "JobSeconds", MetricUnit.Seconds
    """How long each settled try took."""
    ATTEMPTS_BEFORE_SUCCESS = "AttemptsBeforeSuccess"
    """Attempts that each success took, itself among them."""
    END_TO_END_SECONDS = "EndToEndSeconds", MetricUnit.Seconds
    """How long it took from the beginning of each work to its success, where it was not begun anew in between."""

    # By worker and type of error, for each batch of messages.
    ERRORS = "Errors"
    """Tries that failed or were lost with their workers, and messages that could not be read."""

    # By worker, by whoever sends messages.

    NEVER_SENT = "NeverSent"
    """Messages that were owed to work which is no more."""

    # By worker, by whoever settles its dead-letter queue.
    KEPT = "Kept"
    """Messages that could not be settled, and stay in the dead-letter queue for another try."""
    RETURNED_UNATTEMPTED = "ReturnedUnattempted"
    """Work items returned from the dead-letter queue without any attempt."""

    # By worker, each minute, by the watchdog from PostgreSQL and SQS.
    STUCK_IN_PROGRESS = "StuckInProgress"
    """Work in progress that began long ago and whose lease is over."""
    UNSENT_OUTBOX = "UnsentOutbox"
    """Messages due that nobody has sent for a while."""
    PENDING_WITHOUT_MESSAGE = "PendingWithoutMessage"
    """Due work whose message was resent, because it may be lost."""
    OLDEST_PENDING_SECONDS = "OldestPendingSeconds", MetricUnit.Seconds
    """How long the oldest work that is due has waited."""
    WAITING_FOR_RETRY = "WaitingForRetry"
    """Pending work that was tried before."""
    UNSETTLED_DEAD_LETTERS = "UnsettledDeadLetters"
    """Dead letters that nobody has decided about."""
    QUEUE_DEPTH = "QueueDepth"
    """Messages in the queue, those in flight and delayed ones among them."""
    RETRY_QUEUE_DEPTH = "RetryQueueDepth"
    """The same of its queue for retries, where it has one."""

    # By breaker, each minute, by the watchdog.
    BREAKER_OPEN = "BreakerOpen"
    """1 while a circuit breaker is not closed."""

    # By nothing, each minute, by the watchdog.
    DEAD_LETTER_RATE = "DeadLetterRate", MetricUnit.CountPerSecond
    """Dead letters per second of the last five minutes, of all workers."""
    DEAD_LETTERS_PER_MINUTE = "DeadLettersPerMinute"
    """Dead letters of the busiest of the last five minutes, of all workers."""
    DESTINATIONS_AWAY = "DestinationsAway"
    """Destinations of tenants whose circuit breaker is not closed."""

    # By nothing, each minute, by the watchdog from S3.
    UPLOADS_WITHOUT_EVENT = "UploadsWithoutEvent"
    """Uploads and mail whose S3 event was lost. Each counts once, when its event can no longer arrive."""
    UPLOAD_LISTING_SECONDS = "UploadListingSeconds", MetricUnit.Seconds
    """Time since the last complete listing of the bucket began. A lost upload is found after this long at most."""

    # By nothing, each minute, by the watchdog: people whose offers of the day that it is where they are ...
    OFFERS_COMPLETED = "OffersCompleted"
    """... are there."""
    OFFERS_PENDING = "OffersPending"
    """... are to come."""
    OFFERS_FAILED = "OffersFailed"
    """... wait for a person."""
    OFFERS_LATE = "OffersLate"
    """... are to come, and were to be there by 10:00."""

    OFFERS_INCOMPLETE_PERCENT = "OffersIncompletePercent", MetricUnit.Percent
    """Share of people without offers an hour after their time, of the date and time zone where it is largest."""
    OFFERS_USER_SECONDS = "OffersUserSeconds", MetricUnit.Seconds
    """95th percentile of the time that a user's offers took, of the last 15 minutes."""

    # By nothing, each hour, by the watchdog.
    DUPLICATE_OFFERS = "DuplicateOffers"
    """Offers that somebody has twice on a date, or beside other offers of that date."""

    # By channel.
    NOTIFICATIONS_SENT = "NotificationsSent"
    NOTIFICATION_FAILURES = "NotificationFailures"

    # By provider.
    LLM_CALLS = "LlmCalls"
    LLM_FAILURES = "LlmFailures"
    LLM_OVER_BUDGET = "LlmOverBudget"
    """Questions that were not asked, since the budget of the day was used up."""

    # By nothing, each hour, by the scheduler of daily offers.
    POOLS_PINNED = "PoolsPinned"
    """Pools of offers that were pinned, or to which people who came late were added."""
    POOLS_LEFT = "PoolsLeft"
    """Those that could not be: they failed, or no time was left."""

    # By nothing, by the migrations of a deployment.
    DEPLOYMENTS = "Deployments"
    """Deployments that migrated the database. Alarms about missing data have a grace period after one."""

    # By nothing.
    UNEMBEDDED = "Unembedded"
    """Documents matched without the embedding that was asked for: the model failed, or its budget was used up."""


def record(values: Mapping[Metric, float | Sequence[float]], **dimensions: str) -> None:
    """Write the metrics in one line, each under its dimensions and, for alarms about everything, under none.

    A list of values becomes an array, of which CloudWatch makes percentiles; one that is empty is left out, and what is
    beyond MAX_VALUES goes into further lines. Threads may call it at once: a line is written in one piece.
    """
    lists = {
        metric: [float(value)] if isinstance(value, int | float) else [float(one) for one in value]
        for metric, value in values.items()
    }
    # Without dimensions of its own: Powertools would add the function's service to those that it keeps.
    serializer = AmazonCloudWatchEMFProvider(namespace=NAMESPACE)
    if dimensions:
        serializer.dimension_sets.append({})
    for start in range(0, max(map(len, lists.values()), default=0), MAX_VALUES):
        part: dict[str, Any] = {
            metric.value: {"Unit": metric.unit.value, "Value": numbers[start : start + MAX_VALUES]}
            for metric, numbers in lists.items()
            if numbers[start:]
        }
        line = serializer.serialize_metric_set(metrics=part, dimensions=dict(dimensions))
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
