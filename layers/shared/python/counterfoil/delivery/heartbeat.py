"""Received messages, their visibility timeouts, and the heartbeat.

The heartbeat renews visibility timeouts and leases.
"""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from types import TracebackType
from uuid import UUID

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil import aws
from counterfoil.db import SHORT_TRANSACTION_SECONDS, Database
from counterfoil.delivery import sql
from counterfoil.delivery.attempt import Attempt
from counterfoil.delivery.concurrency import Concurrency
from counterfoil.delivery.work import ParsedMessage, WorkKind
from counterfoil.errors import CounterfoilError, safe_message

_TRACE_ID = re.compile("1-[0-9a-f]{8}-[0-9a-f]{24}")


@dataclass(eq=False)
class ReceivedMessage:
    """One delivery of a message. Two deliveries of the same message are not equal."""

    record: SQSRecord
    received_at: datetime
    parsed: ParsedMessage | None = None
    """Parsed body, or None until it is parsed."""
    stages: dict[str, datetime] = field(default_factory=dict)
    """Times when the message was `protected`, `permitted`, `claimed` and `ended`."""

    @property
    def message_id(self) -> str:
        """The SQS message id."""
        return self.record.message_id

    @property
    def queue(self) -> str:
        """Name of the source queue."""
        return self.record.event_source_arn.rsplit(":", 1)[-1]

    @property
    def receives(self) -> int:
        """Number of times that SQS has delivered this message, including this delivery."""
        return int(self.record.attributes.approximate_receive_count)

    @property
    def trace(self) -> str | None:
        """X-Ray trace header from the message's sender, or else from this invocation."""
        return self.record.attributes.aws_trace_header or os.environ.get("_X_AMZN_TRACE_ID")

    @property
    def trace_id(self) -> str | None:
        """Id of the X-Ray trace, or None if the trace is missing, invalid or not sampled."""
        parts = dict(part.strip().partition("=")[::2] for part in (self.trace or "").split(";"))
        root = parts.get("Root", "")
        return root if _TRACE_ID.fullmatch(root) and parts.get("Sampled") == "1" else None


MAX_VISIBILITY_TIMEOUT = timedelta(hours=12)
"""SQS's maximum visibility timeout, measured from the receive."""
RECEIVE_MARGIN = timedelta(seconds=60)
BATCH_SIZE = 10

logger = Logger()


class Visibility:
    """Changes visibility timeouts in one worker's queues."""

    def __init__(self, queue_url: str, *other_urls: str) -> None:
        """Use these queues.

        Messages from unknown queues are treated as messages from the first queue.
        """
        self._queue_url = queue_url
        self._other_urls = {_queue_name(url): url for url in other_urls}

    def protect(self, records: Sequence[ReceivedMessage], seconds: int, now: datetime) -> set[ReceivedMessage]:
        """Set the visibility timeout of `records` to `seconds` from now, with one retry.

        Returns the messages whose timeout could not be extended.
        """
        failed = self._change_visibility(records, seconds, now)
        if failed:
            failed = self._change_visibility([record for record in records if record in failed], seconds, now)
        return failed

    def set_delay(self, record: ReceivedMessage, seconds: float, now: datetime) -> None:
        """Set the visibility timeout of one message to `seconds` from now.

        A failure is logged. It delays the message but does not lose it.
        """
        if self._change_visibility([record], int(seconds), now):
            logger.warning("A message's visibility timeout was not changed", message_id=record.message_id)

    def _change_visibility(
        self, records: Sequence[ReceivedMessage], seconds: int, now: datetime
    ) -> set[ReceivedMessage]:
        by_queue: dict[str, list[ReceivedMessage]] = {}
        for record in records:
            by_queue.setdefault(self._other_urls.get(record.queue, self._queue_url), []).append(record)
        return {
            record
            for url, queue_records in by_queue.items()
            for record in self._change_queue_visibility(url, queue_records, seconds, now)
        }

    def _change_queue_visibility(
        self, url: str, records: Sequence[ReceivedMessage], seconds: int, now: datetime
    ) -> set[ReceivedMessage]:
        failed: set[ReceivedMessage] = set()
        for start in range(0, len(records), BATCH_SIZE):
            batch = records[start : start + BATCH_SIZE]
            entries = [
                {
                    "Id": str(index),
                    "ReceiptHandle": record.record.receipt_handle,
                    "VisibilityTimeout": clamp_visibility(seconds, record.received_at, now),
                }
                for index, record in enumerate(batch)
            ]
            try:
                with aws.translate_errors():
                    response = aws.client("sqs").change_message_visibility_batch(QueueUrl=url, Entries=entries)
            except Exception as error:  # noqa: BLE001  # a failure delays messages but does not lose them
                logger.warning("Visibility timeouts were not changed", error=safe_message(error))
                failed |= set(batch)
            else:
                failed |= set(batch) - {batch[int(entry["Id"])] for entry in response.get("Successful", [])}
        return failed


def _queue_name(queue_url: str) -> str:
    return queue_url.rsplit("/", 1)[-1]


def clamp_visibility(seconds: int, received_at: datetime, now: datetime) -> int:
    """Limit a visibility timeout to 12 hours after the receive, minus RECEIVE_MARGIN."""
    remaining = received_at + MAX_VISIBILITY_TIMEOUT - RECEIVE_MARGIN - now
    return max(0, min(seconds, int(remaining.total_seconds())))


RENEW_TIMEOUT_SECONDS = 2
"""Maximum wait for a renewal in progress. A longer wait would delay the end of the invocation."""


class Heartbeat:
    """Renews visibility timeouts and leases while a batch is processed."""

    def __init__(
        self,
        *,
        kind: WorkKind,
        database: Database,
        visibility: Visibility,
        min_visibility_seconds: Callable[[], int],
        lease: timedelta,
        interval: float,
        clock: Callable[[], datetime],
        concurrency: Concurrency,
    ) -> None:
        self._kind = kind
        self._database = database
        self._visibility = visibility
        self._protection_seconds = min_visibility_seconds
        self._lease = lease
        self._interval = interval
        self._clock = clock
        self._concurrency = concurrency
        self._unfinished: set[ReceivedMessage] = set()
        self._running: dict[ReceivedMessage, Attempt] = {}
        self._renewing: set[ReceivedMessage] = set()
        self._lock = Lock()
        self._stopping = False
        self._beating = True

    def __enter__(self) -> "Heartbeat":
        self._concurrency.start("heartbeat", self._beat_until_stopped)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping = True
        self._concurrency.notify()
        self._concurrency.wait_for(lambda: not self._beating, RENEW_TIMEOUT_SECONDS)

    def watch(self, record: ReceivedMessage) -> None:
        """Renew this message's visibility timeout until `release`."""
        with self._lock:
            self._unfinished.add(record)

    def watch_attempt(self, record: ReceivedMessage, attempt: Attempt) -> None:
        """Renew this attempt's lease until `release`."""
        with self._lock:
            self._running[record] = attempt

    def release(self, record: ReceivedMessage) -> None:
        """Stop renewing this message, and wait briefly for a renewal in progress."""
        with self._lock:
            self._unfinished.discard(record)
            self._running.pop(record, None)
        self._concurrency.wait_for(lambda: record not in self._renewing, RENEW_TIMEOUT_SECONDS)

    def _beat_until_stopped(self) -> None:
        try:
            while not self._concurrency.wait_for(lambda: self._stopping, self._interval):
                try:
                    self.renew_once()
                except Exception as error:  # noqa: BLE001  # if the heartbeat stopped, every lease would expire
                    logger.error("A heartbeat failed", error=safe_message(error))
        finally:
            self._beating = False
            self._concurrency.notify()

    def renew_once(self) -> None:
        """Renew visibility timeouts, then leases.

        A lease must expire before its message's visibility timeout.
        """
        with self._lock:
            records = list(self._unfinished)
            self._renewing = set(self._unfinished)
        try:
            unprotected = self._visibility.protect(records, self._protection_seconds(), self._clock())
        finally:
            with self._lock:
                self._renewing = set()
                running = {record: attempt for record, attempt in self._running.items() if record in self._unfinished}
            self._concurrency.notify()
        running = {record: attempt for record, attempt in running.items() if record not in unprotected}
        by_work: dict[UUID, Attempt] = {attempt.work_id: attempt for attempt in running.values()}
        if not by_work:
            return
        tokens = {work_id: attempt.token for work_id, attempt in by_work.items()}
        try:
            with self._database.delivery(seconds=SHORT_TRANSACTION_SECONDS) as connection:
                lost = sql.renew(connection, self._kind, tokens, self._clock() + self._lease)
        except CounterfoilError as error:
            logger.warning("Leases were not renewed: %s", error)
            return
        for work_id in lost:
            by_work[work_id].deadline.superseded.set()
