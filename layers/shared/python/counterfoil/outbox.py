"""The outbox: sends the messages that transactions owe, right after their commit or later, at least once."""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any
from uuid import UUID

from counterfoil import aws
from counterfoil.db import Database
from counterfoil.errors import CounterfoilError
from counterfoil.http import within
from counterfoil.messages import Message
from counterfoil.work import Send

MAX_DELAY = timedelta(seconds=900)
"""The longest DelaySeconds of SQS. What is due later stays in the outbox until it is nearer."""
BATCH = 10
"""Messages in one SendMessageBatch call, SQS's own bound."""
CALL_SECONDS = 5.0
"""Longest call of a sender whose time is short."""

TimeLeft = Callable[[], float]

log = logging.getLogger(__name__)


class Outbox:
    """Sends rows of the outbox to the queues of their workers."""

    def __init__(
        self,
        database: Database,
        queue_urls: Mapping[str, str],
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`queue_urls`: the queue of each worker that this function may send to; others are left for the watchdog."""
        self._database = database
        self._queue_urls = queue_urls
        self._clock = clock

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
        for worker, owed in by_worker.items():
            try:
                for start in range(0, len(owed), BATCH):
                    if time_left is not None and time_left() < CALL_SECONDS:
                        log.warning("Messages to %s stay in the outbox: no time is left", worker)
                        break
                    entries = _entries(owed[start : start + BATCH], now, trace)
                    successful = _call(self._queue_urls[worker], entries, is_short=time_left is not None)
                    sent += [owed[start + index].id for index in successful]
            except CounterfoilError as error:  # this queue's messages wait; the others go on
                log.warning("Messages to %s stay in the outbox: %s", worker, error)
        try:
            self._mark_sent(sent, now)
        except CounterfoilError as error:
            log.warning("Sent messages may be sent again: %s", error)
        return len(sent)

    def _mark_sent(self, ids: Sequence[UUID], now: datetime) -> None:
        if ids:
            with self._database.delivery() as connection:
                connection.execute("UPDATE outbox SET sent_at = %s WHERE id = ANY(%s)", [now, list(ids)])

    def send_unsent(self, *, created_before: datetime, each: int = 1000, time_left: TimeLeft | None = None) -> int:
        """Send rows that a crash left behind or that fall due only now, up to `each` per worker. Returns how many.

        Where `time_left` is given, no call is begun that could last beyond those seconds. Rows younger than
        `created_before` are still in the hands of whoever wrote them, unless they were written to be sent later. A
        worker's rows that cannot be sent leave room for those of the others.
        """
        now = self._clock()
        with self._database.delivery() as connection:
            rows = connection.execute(
                """
                SELECT o.id, o.worker, o.tenant_id, o.work_id, o.revision, o.send_number, o.not_before
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
        return self.send(
            [
                Send(id_, worker, tenant, Message(work_id=work, revision=revision, send_number=send), due)
                for id_, worker, tenant, work, revision, send, due in rows
            ],
            time_left=time_left,
        )


def _entries(sends: Sequence[Send], now: datetime, trace: str | None) -> list[dict[str, Any]]:
    """The messages as SendMessageBatch takes them; the id of each is its place."""
    entries: list[dict[str, Any]] = []
    for index, send in enumerate(sends):
        entry = {
            "Id": str(index),
            "MessageBody": send.message.model_dump_json(),
            "DelaySeconds": max(0, ceil((send.not_before - now).total_seconds())),
        }
        if send.tenant_id is not None:
            entry["MessageGroupId"] = str(send.tenant_id)  # a fair queue: one tenant's burst delays no other tenant
        if trace is not None:
            entry["MessageSystemAttributes"] = {"AWSTraceHeader": {"DataType": "String", "StringValue": trace}}
        entries.append(entry)
    return entries


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
