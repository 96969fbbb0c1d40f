"""Outbox: sends enqueued messages at least once, after the commit or later."""

import json
import logging
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import floor
from types import MappingProxyType
from typing import Any
from uuid import UUID

from counterfoil import aws
from counterfoil.db import SHORT_TRANSACTION_SECONDS, Database
from counterfoil.delivery.work import WORK_KINDS, Message, OutboxMessage
from counterfoil.errors import CounterfoilError, PermanentError
from counterfoil.http import run_with_deadline
from counterfoil.metrics import Metric, emit

MAX_DELAY = timedelta(seconds=900)
"""SQS's maximum DelaySeconds. Messages that are due later than that stay in the outbox."""
BATCH_SIZE = 10
"""Maximum number of messages per SendMessageBatch call, a limit of SQS."""
BATCH_BYTES = 250_000
"""Maximum total size of the bodies per call. Even with trace headers, a call is below every limit SQS has ever had."""
CALL_TIMEOUT_SECONDS = 5.0
"""Timeout of an SQS call if the caller passes `time_left`."""

_ATTEMPTED = "SELECT id FROM {table} WHERE id = ANY(%(ids)s) AND {attempts} > 0"

TimeLeft = Callable[[], float]

log = logging.getLogger(__name__)


class Outbox:
    """Sends rows of the outbox to their workers' queues."""

    def __init__(
        self,
        database: Database,
        queue_urls: Mapping[str, str],
        retry_queue_urls: Mapping[str, str] = MappingProxyType({}),
        *,
        clock: Callable[[], datetime] | None = None,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`queue_urls` are the queues that this function can send to.

        The watchdog sends all other messages.

        If the worker has a queue in `retry_queue_urls`, retries are sent to it, so they never delay first attempts (see
        `_by_queue`). `random` returns numbers in [0, 1). Settlement also uses it to spread retries.
        """
        self._database = database
        self._queue_urls = queue_urls
        self._retry_queue_urls = retry_queue_urls
        self._clock = clock or database.clock
        self.random = random

    def send(
        self, messages: Sequence[OutboxMessage], *, trace: str | None = None, time_left: TimeLeft | None = None
    ) -> int:
        """Send messages that are due within MAX_DELAY and mark them as sent.

        Returns their number.

        If a message's work item no longer exists, the message is not sent, but it is marked and counted as sent.
        The messages continue `trace`, the X-Ray trace of the attempt that enqueued them. With `time_left`, no call
        starts that could take longer than the remaining time.

        Call this after the commit that enqueued the messages. Failures are logged and not raised, because no message is
        lost: the watchdog sends unsent rows.
        """
        now = self._clock()
        by_worker: dict[str, list[OutboxMessage]] = defaultdict(list)
        for message in messages:
            if message.scheduled_at <= now + MAX_DELAY and message.worker in self._queue_urls:
                by_worker[message.worker].append(message)
        sent: list[UUID] = []
        for url, queue_messages in self._by_queue(by_worker, now):
            worker = queue_messages[0].worker
            try:
                for start in range(0, len(queue_messages), BATCH_SIZE):  # limits the bodies in memory
                    if time_left is not None and time_left() < CALL_TIMEOUT_SECONDS:
                        log.warning("Messages to %s stay in the outbox: too little time is left", worker)
                        break
                    chunk = queue_messages[start : start + BATCH_SIZE]
                    sent += self._send_batches(url, chunk, now, trace, is_short=time_left is not None)
            except CounterfoilError as error:  # continue with the other queues
                log.warning("Messages to %s stay in the outbox: %s", worker, error)
        try:
            self._mark_sent(sent, now)
        except CounterfoilError as error:
            log.warning("Sent messages may be sent again: %s", error)
        return len(sent)

    def _by_queue(
        self, by_worker: Mapping[str, list[OutboxMessage]], now: datetime
    ) -> Iterator[tuple[str, list[OutboxMessage]]]:
        """Yield queue URLs, each with its messages.

        The first message of a revision is sent to the main queue, and later messages to the retry queue. If a parked
        work item had no attempt and is due, its message is also sent to the main queue. A first attempt must not wait
        behind retries.
        """
        for worker, messages in by_worker.items():
            main_url, retry_url = self._queue_urls[worker], self._retry_queue_urls.get(worker)
            if retry_url is None:
                yield main_url, messages
                continue
            try:
                unattempted = self._find_unattempted(worker, messages, now)
            except CounterfoilError as error:
                log.warning("Messages to %s stay in the outbox: %s", worker, error)
                continue
            by_queue: dict[str, list[OutboxMessage]] = defaultdict(list)
            for row in messages:
                is_first = row.message.send_number == 0 or row.id in unattempted
                by_queue[main_url if is_first else retry_url].append(row)
            yield from by_queue.items()

    def _find_unattempted(self, worker: str, messages: Sequence[OutboxMessage], now: datetime) -> set[UUID]:
        """Return the ids of due rows whose work item was parked before its first attempt.

        Raises the same errors as `_load_bodies`.
        """
        parked = [row for row in messages if row.message.send_number > 0 and row.scheduled_at <= now]
        if not parked:
            return set()
        with self._database.delivery(seconds=SHORT_TRANSACTION_SECONDS) as connection:
            ids = [row.message.work_id for row in parked]
            attempted = {id_ for (id_,) in connection.execute(WORK_KINDS[worker].sql(_ATTEMPTED), {"ids": ids})}
        return {row.id for row in parked if row.message.work_id not in attempted}

    def _send_batches(
        self, url: str, messages: Sequence[OutboxMessage], now: datetime, trace: str | None, *, is_short: bool
    ) -> list[UUID]:
        """Send messages to one queue.

        Returns the ids of rows that must not be sent again.

        If SQS rejects a batch permanently, the other batches are still sent.

        Raises:
            CounterfoilError: SQS or the database is unavailable. The messages may have been sent.
        """
        worker = messages[0].worker
        bodies, sent_ids = self._load_bodies(worker, messages)
        for batch in _batches([row for row in messages if row.id in bodies], bodies):
            entries = [self._entry(index, row, bodies[row.id], now, trace) for index, row in enumerate(batch)]
            try:
                sent_ids += [batch[index].id for index in _call(url, entries, is_short=is_short)]
            except PermanentError as error:
                log.error("SQS rejected %d messages to %s: %s", len(batch), worker, error)
        return sent_ids

    def _load_bodies(self, worker: str, messages: Sequence[OutboxMessage]) -> tuple[dict[UUID, str], list[UUID]]:
        """Return message bodies by row id, and the ids of rows without a work item.

        Raises:
            DatabaseUnavailableError: the bodies could not be read.
        """
        raw_bodies = {row.id: row.body for row in messages if row.body is not None}
        messages = [row for row in messages if row.body is None]
        envelope = WORK_KINDS[worker].body_query
        if envelope is None or not messages:
            return raw_bodies | {row.id: row.message.model_dump_json() for row in messages}, []
        with self._database.delivery(seconds=SHORT_TRANSACTION_SECONDS) as connection:
            ids = list({row.message.work_id for row in messages})
            envelopes = dict(connection.execute(envelope.encode(), {"ids": ids}).fetchall())
        # If the body is NULL, another process has already sent the message and marks the row as sent.
        bodies = raw_bodies | {
            row.id: _encode_body(body | {"revision": row.message.revision, "send_number": row.message.send_number})
            for row in messages
            if (body := envelopes.get(row.message.work_id)) is not None
        }
        orphaned = [row.id for row in messages if row.message.work_id not in envelopes]
        if orphaned:
            log.warning("%d messages to %s are not sent: their work items no longer exist", len(orphaned), worker)
            emit({Metric.ORPHANED_MESSAGES: len(orphaned)}, worker=worker)
        return bodies, orphaned

    def _entry(self, index: int, row: OutboxMessage, body: str, now: datetime, trace: str | None) -> dict[str, Any]:
        """Return a message's entry for SendMessageBatch."""
        entry = {"Id": str(index), "MessageBody": body, "DelaySeconds": self._round_to_seconds(row.scheduled_at - now)}
        if row.tenant_id is not None:
            entry["MessageGroupId"] = str(row.tenant_id)  # fair queue: a burst does not delay other tenants
        if trace is not None:
            entry["MessageSystemAttributes"] = {"AWSTraceHeader": {"DataType": "String", "StringValue": trace}}
        return entry

    def _round_to_seconds(self, wait: timedelta) -> int:
        """Round a delay up or down at random, because SQS requires whole seconds.

        The mean stays the same.
        """
        return max(0, floor(wait.total_seconds() + self.random()))

    def _mark_sent(self, ids: Sequence[UUID], now: datetime) -> None:
        if ids:
            with self._database.delivery(durable=False, seconds=SHORT_TRANSACTION_SECONDS) as connection:
                connection.execute("UPDATE outbox SET sent_at = %s WHERE id = ANY(%s)", [now, list(ids)])

    def send_unsent(
        self, *, created_before: datetime, max_per_worker: int = 1000, time_left: TimeLeft | None = None
    ) -> int:
        """Send rows that a crash left unsent, and rows that have become due.

        Sends at most `max_per_worker` rows per worker. Superseded rows are only marked as sent, because consumers would
        drop their messages. Returns the number of sent and superseded rows.

        With `time_left`, no call starts that could take longer than the remaining time. Rows created after
        `created_before` are skipped, unless they were delayed by more than MAX_DELAY, because the process that created
        them may still be sending them. If rows cannot be sent to one worker, other workers' limits are unaffected.
        """
        now = self._clock()
        with self._database.delivery() as connection:
            rows = connection.execute(
                """
                SELECT o.id, o.worker, o.tenant_id, o.work_id, o.revision, o.send_number, o.scheduled_at,
                    o.raw_body, EXISTS (
                    SELECT FROM outbox n WHERE n.worker = o.worker AND n.work_id = o.work_id
                      AND (n.revision, n.send_number) > (o.revision, o.send_number)
                )
                FROM unnest(%(workers)s::text[]) AS w (worker)
                CROSS JOIN LATERAL (
                    SELECT * FROM outbox
                    WHERE worker = w.worker AND sent_at IS NULL AND scheduled_at <= %(due)s
                      AND (created_at <= %(created_before)s OR scheduled_at > created_at + %(max_delay)s)
                    ORDER BY scheduled_at LIMIT %(each)s
                ) o
                """,
                {
                    "workers": list(self._queue_urls),
                    "due": now + MAX_DELAY,
                    "created_before": created_before,
                    "max_delay": MAX_DELAY,
                    "each": max_per_worker,
                },
            ).fetchall()
        superseded = [row[0] for row in rows if row[-1]]
        try:
            self._mark_sent(superseded, now)
        except CounterfoilError as error:
            log.warning("Superseded messages stay in the outbox: %s", error)
        messages = [
            OutboxMessage(
                id_, worker, tenant_id, Message(work_id=work_id, revision=revision, send_number=send_number), due, body
            )
            for id_, worker, tenant_id, work_id, revision, send_number, due, body, is_superseded in rows
            if not is_superseded
        ]
        return self.send(messages, time_left=time_left) + len(superseded)


_REJECTED_CHARACTERS = {0xFFFE: "\\ufffe", 0xFFFF: "\\uffff"}
"""Characters that SQS rejects, apart from those that JSON escapes or PostgreSQL cannot store."""


def _encode_body(content: Mapping[str, Any]) -> str:
    """Return JSON with only characters that SQS accepts.

    It contains as few escapes as possible to save space.
    """
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).translate(_REJECTED_CHARACTERS)


def _batches(messages: Sequence[OutboxMessage], bodies: Mapping[UUID, str]) -> Iterator[list[OutboxMessage]]:
    """Split messages into batches within the limits of a call."""
    batch: list[OutboxMessage] = []
    size = 0
    for row in messages:
        bytes_ = len(bodies[row.id].encode())
        if batch and (len(batch) == BATCH_SIZE or size + bytes_ > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += bytes_
    if batch:
        yield batch


def _call(queue_url: str, entries: list[dict[str, Any]], *, is_short: bool) -> list[int]:
    """Send one batch. Returns the indexes of accepted messages.

    A call that times out may have sent all messages.
    """

    def send() -> dict[str, Any]:
        response: dict[str, Any] = aws.client("sqs").send_message_batch(QueueUrl=queue_url, Entries=entries)
        return response

    with aws.translate_errors():
        response = run_with_deadline(CALL_TIMEOUT_SECONDS, send) if is_short else send()
    for failure in response.get("Failed", []):
        log.warning("A message stays in the outbox: SQS answered %s", failure.get("Code"))
    return [int(success["Id"]) for success in response.get("Successful", [])]
