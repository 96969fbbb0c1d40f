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
from counterfoil.messages import Message
from counterfoil.work import Send

MAX_DELAY = timedelta(seconds=900)
"""The longest DelaySeconds of SQS. What is due later stays in the outbox until it is nearer."""
BATCH = 10
"""Messages in one SendMessageBatch call, SQS's own bound."""

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

    def send(self, sends: Sequence[Send]) -> int:
        """Send what is due within MAX_DELAY and mark it sent. Returns how many were sent.

        Called right after the commit that owes the messages. A failure here loses nothing, and is therefore logged and
        not raised: the rows stay unsent, and the watchdog sends them.
        """
        now = self._clock()
        by_worker: dict[str, list[Send]] = defaultdict(list)
        for send in sends:
            if send.not_before <= now + MAX_DELAY and send.worker in self._queue_urls:
                by_worker[send.worker].append(send)
        sent: list[UUID] = []
        try:
            for worker, owed in by_worker.items():
                for start in range(0, len(owed), BATCH):
                    sent += self._send_batch(self._queue_urls[worker], owed[start : start + BATCH], now)
        except CounterfoilError as error:
            log.warning("Messages stay in the outbox: %s", error)
        try:
            self._mark_sent(sent, now)
        except CounterfoilError as error:
            log.warning("Sent messages may be sent again: %s", error)
        return len(sent)

    @staticmethod
    def _send_batch(queue_url: str, sends: Sequence[Send], now: datetime) -> list[UUID]:
        entries: list[dict[str, Any]] = []
        for index, send in enumerate(sends):
            entry = {
                "Id": str(index),
                "MessageBody": send.message.model_dump_json(),
                "DelaySeconds": max(0, ceil((send.not_before - now).total_seconds())),
            }
            if send.tenant_id is not None:
                entry["MessageGroupId"] = str(send.tenant_id)  # a fair queue: one tenant's burst delays no other tenant
            entries.append(entry)
        with aws.errors_mapped():
            answer = aws.client("sqs").send_message_batch(QueueUrl=queue_url, Entries=entries)
        for failure in answer.get("Failed", []):
            log.warning("A message stays in the outbox: SQS answered %s", failure.get("Code"))
        return [sends[int(success["Id"])].id for success in answer.get("Successful", [])]

    def _mark_sent(self, ids: Sequence[UUID], now: datetime) -> None:
        if ids:
            with self._database.delivery() as connection:
                connection.execute("UPDATE outbox SET sent_at = %s WHERE id = ANY(%s)", [now, list(ids)])

    def send_unsent(self, *, created_before: datetime, limit: int = 1000) -> int:
        """Send rows that a crash left behind or that fall due only now. Returns how many were sent.

        Rows younger than `created_before` are still in the hands of whoever wrote them, unless they were written to be
        sent later.
        """
        now = self._clock()
        with self._database.delivery() as connection:
            rows = connection.execute(
                """
                SELECT id, worker, tenant_id, work_id, revision, send_number, not_before FROM outbox
                WHERE sent_at IS NULL AND not_before <= %s
                  AND (created_at <= %s OR not_before > created_at + %s)
                ORDER BY not_before LIMIT %s
                """,
                [now + MAX_DELAY, created_before, MAX_DELAY, limit],
            ).fetchall()
        return self.send(
            [
                Send(id_, worker, tenant, Message(work_id=work, revision=revision, send_number=send), due)
                for id_, worker, tenant, work, revision, send, due in rows
            ]
        )
