"""The outbox: sends the messages that transactions owe, right after their commit or later, at least once."""

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
from counterfoil.db import SHORT_SECONDS, Database
from counterfoil.delivery.work import KINDS, Message, Send
from counterfoil.errors import CounterfoilError, PermanentError
from counterfoil.http import within
from counterfoil.metrics import Metric, record

MAX_DELAY = timedelta(seconds=900)
"""The longest DelaySeconds of SQS. What is due later stays in the outbox until it is nearer."""
BATCH = 10
"""Messages in one SendMessageBatch call, SQS's own bound."""
BATCH_BYTES = 250_000
"""Of their bodies together: with the trace of each, less than SQS ever took at once."""
CALL_SECONDS = 5.0
"""Longest call of a sender whose time is short."""

_TRIED = "SELECT id FROM {table} WHERE id = ANY(%(ids)s) AND {attempts} > 0"

TimeLeft = Callable[[], float]

log = logging.getLogger(__name__)


class Outbox:
    """Sends rows of the outbox to the queues of their workers."""

    def __init__(
        self,
        database: Database,
        queue_urls: Mapping[str, str],
        retry_queue_urls: Mapping[str, str] = MappingProxyType({}),
        *,
        clock: Callable[[], datetime] | None = None,
        random: Callable[[], float] = random.random,
    ) -> None:
        """`queue_urls`: the queue of each worker that this function may send to; others are left for the watchdog.

        Of a worker in `retry_queue_urls`, what comes again goes there, so that retries never hold up first tries (see
        `_by_queue`). `random` draws from [0, 1), for whoever spreads what is sent.
        """
        self._database = database
        self._queue_urls = queue_urls
        self._retry_queue_urls = retry_queue_urls
        self._clock = clock or database.clock
        self.random = random

    def send(self, sends: Sequence[Send], *, trace: str | None = None, time_left: TimeLeft | None = None) -> int:
        """Send what is due within MAX_DELAY and mark it sent. Returns how many were sent.

        `trace` is the X-Ray trace of the work that owes them; its messages belong to it too. Where `time_left` is
        given, no call is begun that could last beyond those seconds.

        Called right after the commit that owes the messages. A failure here loses nothing, and is therefore logged and
        not raised: the rows stay unsent, and the watchdog sends them.
        """
        now = self._clock()
        by_worker: dict[str, list[Send]] = defaultdict(list)
        for send in sends:
            if send.not_before <= now + MAX_DELAY and send.worker in self._queue_urls:
                by_worker[send.worker].append(send)
        sent: list[UUID] = []
        for url, owed in self._by_queue(by_worker, now):
            worker = owed[0].worker
            try:
                for first in range(0, len(owed), BATCH):  # so that no more bodies are held than are sent at once
                    if time_left is not None and time_left() < CALL_SECONDS:
                        log.warning("Messages to %s stay in the outbox: no time is left", worker)
                        break
                    some = owed[first : first + BATCH]
                    sent += self._send_some(url, some, now, trace, is_short=time_left is not None)
            except CounterfoilError as error:  # this queue's messages wait; the others go on
                log.warning("Messages to %s stay in the outbox: %s", worker, error)
        try:
            self._mark_sent(sent, now)
        except CounterfoilError as error:
            log.warning("Sent messages may be sent again: %s", error)
        return len(sent)

    def _by_queue(self, by_worker: Mapping[str, list[Send]], now: datetime) -> Iterator[tuple[str, list[Send]]]:
        """What is owed, by the queue that it goes to.

        To a queue for retries goes what was tried, and what is to wait. What is due, and was only parked or woken, is
        a first try still: it waits with others of its like, and not behind a herd of retries.
        """
        for worker, owed in by_worker.items():
            first, retries = self._queue_urls[worker], self._retry_queue_urls.get(worker)
            if retries is None:
                yield first, owed
                continue
            try:
                untried = self._untried(worker, owed, now)
            except CounterfoilError as error:
                log.warning("Messages to %s stay in the outbox: %s", worker, error)
                continue
            by_queue: dict[str, list[Send]] = defaultdict(list)
            for send in owed:
                is_first = send.message.send_number == 0 or send.id in untried
                by_queue[first if is_first else retries].append(send)
            yield from by_queue.items()

    def _untried(self, worker: str, owed: Sequence[Send], now: datetime) -> set[UUID]:
        """Which of the rows that are owed again are due and of work that was never tried. Raises as `_bodies`."""
        again = [send for send in owed if send.message.send_number > 0 and send.not_before <= now]
        if not again:
            return set()
        with self._database.delivery(seconds=SHORT_SECONDS) as connection:
            ids = [send.message.work_id for send in again]
            tried = {id_ for (id_,) in connection.execute(KINDS[worker].sql(_TRIED), {"ids": ids})}
        return {send.id for send in again if send.message.work_id not in tried}

    def _send_some(
        self, url: str, owed: Sequence[Send], now: datetime, trace: str | None, *, is_short: bool
    ) -> list[UUID]:
        """Send messages to one queue. Returns the rows that are done with; what SQS refuses for good stops no others.

        Raises:
            CounterfoilError: SQS or the database is away; nothing is known of these messages.
        """
        worker = owed[0].worker
        bodies, done = self._bodies(worker, owed)
        for batch in _batches([send for send in owed if send.id in bodies], bodies):
            entries = [self._entry(index, send, bodies[send.id], now, trace) for index, send in enumerate(batch)]
            try:
                done += [batch[index].id for index in _call(url, entries, is_short=is_short)]
            except PermanentError as error:
                log.error("%d messages to %s are refused: %s", len(batch), worker, error)
        return done

    def _bodies(self, worker: str, owed: Sequence[Send]) -> tuple[dict[UUID, str], list[UUID]]:
        """The bodies of messages by row, and the rows that nobody needs a message of any more.

        Raises:
            DatabaseUnavailableError: nothing is known of what the messages carry.
        """
        whole = {send.id: send.body for send in owed if send.body is not None}
        owed = [send for send in owed if send.body is None]
        envelope = KINDS[worker].envelope
        if envelope is None or not owed:
            return whole | {send.id: send.message.model_dump_json() for send in owed}, []
        with self._database.delivery(seconds=SHORT_SECONDS) as connection:
            ids = list({send.message.work_id for send in owed})
            found = dict(connection.execute(envelope.encode(), {"ids": ids}).fetchall())
        # What is found without a body is owed no more: another sender was quicker, and marks it.
        bodies = whole | {
            send.id: _body(body | {"revision": send.message.revision, "send_number": send.message.send_number})
            for send in owed
            if (body := found.get(send.message.work_id)) is not None
        }
        gone = [send.id for send in owed if send.message.work_id not in found]
        if gone:
            log.warning("%d messages to %s are not sent: their work is no more", len(gone), worker)
            record({Metric.NEVER_SENT: len(gone)}, worker=worker)
        return bodies, gone

    def _entry(self, index: int, send: Send, body: str, now: datetime, trace: str | None) -> dict[str, Any]:
        """A message as SendMessageBatch takes it."""
        entry = {"Id": str(index), "MessageBody": body, "DelaySeconds": self._whole_seconds(send.not_before - now)}
        if send.tenant_id is not None:
            entry["MessageGroupId"] = str(send.tenant_id)  # a fair queue: one tenant's burst delays no other tenant
        if trace is not None:
            entry["MessageSystemAttributes"] = {"AWSTraceHeader": {"DataType": "String", "StringValue": trace}}
        return entry

    def _whole_seconds(self, wait: timedelta) -> int:
        """SQS takes whole seconds: a fraction is rounded at random, so that the mean of many waits is what it was."""
        return max(0, floor(wait.total_seconds() + self.random()))

    def _mark_sent(self, ids: Sequence[UUID], now: datetime) -> None:
        if ids:
            with self._database.delivery(durable=False, seconds=SHORT_SECONDS) as connection:
                connection.execute("UPDATE outbox SET sent_at = %s WHERE id = ANY(%s)", [now, list(ids)])

    def send_unsent(self, *, created_before: datetime, each: int = 1000, time_left: TimeLeft | None = None) -> int:
        """Send rows that a crash left behind or that fall due only now, up to `each` per worker.

        A row that a newer one of the same work has superseded is done with, and not sent: whoever received it would
        drop it. Returns how many rows were sent or done with.

        Where `time_left` is given, no call is begun that could last beyond those seconds. Rows younger than
        `created_before` are still in the hands of whoever wrote them, unless they were written to be sent later. A
        worker's rows that cannot be sent leave room for those of the others.
        """
        now = self._clock()
        with self._database.delivery() as connection:
            rows = connection.execute(
                """
                SELECT o.id, o.worker, o.tenant_id, o.work_id, o.revision, o.send_number, o.not_before, o.body, EXISTS (
                    SELECT FROM outbox n WHERE n.worker = o.worker AND n.work_id = o.work_id
                      AND (n.revision, n.send_number) > (o.revision, o.send_number)
                )
                FROM unnest(%(workers)s::text[]) AS known (worker)
                CROSS JOIN LATERAL (
                    SELECT * FROM outbox
                    WHERE worker = known.worker AND sent_at IS NULL AND not_before <= %(due)s
                      AND (created_at <= %(created_before)s OR not_before > created_at + %(max_delay)s)
                    ORDER BY not_before LIMIT %(each)s
                ) o
                """,
                {
                    "workers": list(self._queue_urls),
                    "due": now + MAX_DELAY,
                    "created_before": created_before,
                    "max_delay": MAX_DELAY,
                    "each": each,
                },
            ).fetchall()
        superseded = [row[0] for row in rows if row[-1]]
        try:
            self._mark_sent(superseded, now)
        except CounterfoilError as error:
            log.warning("Superseded messages stay in the outbox: %s", error)
        owed = [
            Send(id_, worker, tenant, Message(work_id=work, revision=revision, send_number=send), due, body)
            for id_, worker, tenant, work, revision, send, due, body, is_superseded in rows
            if not is_superseded
        ]
        return self.send(owed, time_left=time_left) + len(superseded)


_NOT_CARRIED = {0xFFFE: "\\ufffe", 0xFFFF: "\\uffff"}
"""All of Unicode that SQS refuses a body for, besides what JSON escapes and what PostgreSQL cannot hold."""


def _body(carried: Mapping[str, Any]) -> str:
    """JSON whose characters SQS takes; what need not be escaped is not, for it would take more room."""
    return json.dumps(carried, ensure_ascii=False, separators=(",", ":")).translate(_NOT_CARRIED)


def _batches(sends: Sequence[Send], bodies: Mapping[UUID, str]) -> Iterator[list[Send]]:
    """As many messages at once as a call takes."""
    batch: list[Send] = []
    size = 0
    for send in sends:
        bytes_ = len(bodies[send.id].encode())
        if batch and (len(batch) == BATCH or size + bytes_ > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(send)
        size += bytes_
    if batch:
        yield batch


def _call(queue_url: str, entries: list[dict[str, Any]], *, is_short: bool) -> list[int]:
    """Send one batch. Returns the places of those that SQS took; a call that was left to itself may have sent all."""

    def send() -> dict[str, Any]:
        answer: dict[str, Any] = aws.client("sqs").send_message_batch(QueueUrl=queue_url, Entries=entries)
        return answer

    with aws.errors_mapped():
        answer = within(CALL_SECONDS, send) if is_short else send()
    for failure in answer.get("Failed", []):
        log.warning("A message stays in the outbox: SQS answered %s", failure.get("Code"))
    return [int(success["Id"]) for success in answer.get("Successful", [])]
