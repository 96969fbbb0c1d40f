"""Handler of the worker `dead_letters`, which consumes all dead-letter queues."""

from datetime import UTC, datetime
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil import metrics
from counterfoil.db import Database
from counterfoil.delivery import retry
from counterfoil.delivery.heartbeat import ReceivedMessage, Visibility
from counterfoil.delivery.outbox import Outbox
from counterfoil.errors import TransientError, safe_message
from counterfoil.metrics import Metric
from counterfoil.settings import Settings, settings
from functions.dead_letters.archiver import Archiver

logger = Logger()

UNKNOWN = "unknown"
"""Worker name in metrics about an unknown queue."""


class StillRunningError(TransientError):
    """Another process is still running the message's work item."""


class OutOfTimeError(TransientError):
    """The invocation is about to end."""


class _Function:
    """Objects that are reused across invocations."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        database = Database.from_settings(settings, max_connections=1)
        outbox = Outbox(database, settings.queue_urls, settings.retry_queue_urls)
        worker_policies = {worker: retry.requeue_policy(settings, worker) for worker in settings.retry_queue_urls}
        self._archiver = Archiver(database, outbox, retry.redeliver_policy(settings), database.now, worker_policies)

    def protect(self, event: dict[str, Any]) -> None:
        """Extend the visibility timeouts of the batch before its messages are settled.

        A failure is harmless: at worst, messages are received twice.
        """
        now = datetime.now(UTC)
        by_queue: dict[str, list[ReceivedMessage]] = {}
        for raw in event.get("Records", []):
            record = ReceivedMessage(SQSRecord(raw), now)
            by_queue.setdefault(record.record.queue_url, []).append(record)
        for url, records in by_queue.items():
            Visibility(url).protect(records, self.settings.min_visibility_seconds, now)

    def archive(self, record: SQSRecord, lambda_context: Any) -> None:
        """Settle one message. If this raises an error, the message stays in its queue.

        Failures are counted here, because Lambda has no metric for single messages. A work item in progress is not a
        failure.
        """
        try:
            if lambda_context.get_remaining_time_in_millis() < self.settings.require_worker().start_margin * 1000:
                raise OutOfTimeError("The remaining time is too short to process the message; it stays in the queue")
            retry_after = self._archiver.process(self.settings.dead_letter_sources[record.event_source_arn], record)
        except Exception as error:
            worker = self.settings.dead_letter_sources.get(record.event_source_arn, UNKNOWN)
            metrics.emit({Metric.DLQ_RETAINED: 1}, worker=worker)
            logger.warning(
                "retained",
                queue=record.event_source_arn,
                message_id=record.message_id,
                error=safe_message(error),
            )
            raise
        if retry_after is not None:
            now = datetime.now(UTC)
            Visibility(record.queue_url).set_delay(ReceivedMessage(record, now), retry_after.seconds, now)
            raise StillRunningError("The work item is in progress; its message stays in the queue")


@cache
def function() -> _Function:
    """Return the function's objects, created at the first invocation."""
    return _Function(settings())


def handle(event: dict[str, Any], context: Any) -> Any:
    """Process one batch of messages."""
    function().protect(event)
    processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
    return process_partial_response(
        event=event, record_handler=function().archive, processor=processor, context=context
    )
