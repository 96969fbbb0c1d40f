"""The visibility of received messages: protection before anything that can wait, renewal, backoff."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from aws_lambda_powertools import Logger

from counterfoil import aws
from counterfoil.delivery.received import Received
from counterfoil.errors import sentence

LONGEST = timedelta(hours=12)
"""SQS refuses to hide a message longer than this after its receipt."""
MARGIN = timedelta(seconds=60)
BATCH = 10

logger = Logger()


class Visibility:
    """ChangeMessageVisibility on the queues of one worker."""

    def __init__(self, queue_url: str, *others: str) -> None:
        """Know the queues by their addresses; what comes from none of them is taken to be from the first."""
        self._queue_url = queue_url
        self._others = {_name(url): url for url in others}

    def protect(self, records: Sequence[Received], seconds: int, now: datetime) -> set[Received]:
        """Hide `records` for at least `seconds` from now, in batch calls; what failed is tried once more.

        Returns those that are not protected.
        """
        failed = self._change(records, seconds, now)
        if failed:
            failed = self._change([record for record in records if record in failed], seconds, now)
        return failed

    def back_off(self, record: Received, seconds: float, now: datetime) -> None:
        """Make one message visible after `seconds`: a backoff. A failure costs time, not the message, and is logged."""
        if self._change([record], int(seconds), now):
            logger.warning("The visibility of a message was not changed", message_id=record.message_id)

    def _change(self, records: Sequence[Received], seconds: int, now: datetime) -> set[Received]:
        by_queue: dict[str, list[Received]] = {}
        for record in records:
            by_queue.setdefault(self._others.get(record.queue, self._queue_url), []).append(record)
        return {record for url, those in by_queue.items() for record in self._change_in(url, those, seconds, now)}

    def _change_in(self, url: str, records: Sequence[Received], seconds: int, now: datetime) -> set[Received]:
        failed: set[Received] = set()
        for start in range(0, len(records), BATCH):
            batch = records[start : start + BATCH]
            entries = [
                {
                    "Id": str(index),
                    "ReceiptHandle": record.record.receipt_handle,
                    "VisibilityTimeout": bounded(seconds, record.received_at, now),
                }
                for index, record in enumerate(batch)
            ]
            try:
                with aws.errors_mapped():
                    answer = aws.client("sqs").change_message_visibility_batch(QueueUrl=url, Entries=entries)
            except Exception as error:  # noqa: BLE001  # a backoff or renewal that failed costs time, never the message
                logger.warning("Visibility was not changed", error=sentence(error))
                failed |= set(batch)
            else:
                failed |= set(batch) - {batch[int(entry["Id"])] for entry in answer.get("Successful", [])}
        return failed


def _name(queue_url: str) -> str:
    return queue_url.rsplit("/", 1)[-1]


def bounded(seconds: int, received_at: datetime, now: datetime) -> int:
    """`seconds` cut so that the message never stays hidden past 12 hours from its receipt."""
    left = received_at + LONGEST - MARGIN - now
    return max(0, min(seconds, int(left.total_seconds())))
