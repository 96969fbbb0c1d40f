"""Fake SQS, Lambda context and clock, and a consumer that uses them."""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from aws_lambda_powertools.utilities.typing import LambdaContext

from counterfoil.db import CommitUnknownError, Connection, Database
from counterfoil.delivery import sql
from counterfoil.delivery.attempt import BatchWorker, Effects, RoutingWorker, Succeeded, TenantAttempt, Worker
from counterfoil.delivery.concurrency import Threads
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.heartbeat import Visibility
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.sql import Claim
from counterfoil.delivery.work import Message, ParsedMessage, read_message
from counterfoil.errors import DatabaseUnavailableError, ServiceUnavailableError
from counterfoil.kinds import WORK_KINDS
from counterfoil.settings import Settings
from tests.factories import NOW

QUEUE_URL = "http://127.0.0.1:1/000000000000/counterfoil-matching"
QUEUE_ARN = "arn:aws:sqs:eu-central-1:000000000000:counterfoil-matching"
DONE = Succeeded(lambda connection: Effects())


def succeed(attempt: TenantAttempt) -> Succeeded:
    return DONE


def fail_transiently(attempt: TenantAttempt) -> Succeeded:
    raise ServiceUnavailableError("later")


SQS_BODY_PATTERN = re.compile(r"[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")
"""Pattern for message bodies that SQS accepts. SQS rejects all other bodies as InvalidMessageContents."""


@dataclass
class FakeSqs:
    """Fake SQS that records calls in order and fails on demand."""

    log: list[tuple[str, Any]] = field(default_factory=list)
    visibility: dict[str, int] = field(default_factory=dict)
    sent: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    refuse_visibility: dict[str, int] = field(default_factory=dict)
    """Number of visibility changes that will fail, by receipt handle."""
    depths: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        assert len(Entries) <= 10
        failed, successful = [], []
        for entry in Entries:
            handle, seconds = entry["ReceiptHandle"], entry["VisibilityTimeout"]
            assert 0 <= seconds <= 43_200
            self.log.append(("visibility", (handle, seconds)))
            if self.refuse_visibility.get(handle, 0) > 0:
                self.refuse_visibility[handle] -= 1
                failed.append({"Id": entry["Id"], "Code": "InternalError", "SenderFault": False})
            else:
                self.visibility[handle] = seconds
                successful.append({"Id": entry["Id"]})
        return {"Successful": successful, "Failed": failed}

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        assert len(Entries) <= 10
        for entry in Entries:
            assert 0 <= entry["DelaySeconds"] <= 900
            assert SQS_BODY_PATTERN.fullmatch(entry["MessageBody"])
            assert len(entry["MessageBody"].encode()) <= 1024 * 1024
            self.log.append(("send", (QueueUrl, entry)))
            self.sent[QueueUrl].append(entry)
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}

    def get_queue_attributes(self, *, QueueUrl: str, AttributeNames: list[str]) -> dict[str, Any]:  # noqa: N803
        depths = {name: str(self.depths[QueueUrl]) for name in AttributeNames}
        return {"Attributes": depths | {"VisibilityTimeout": "720"}}


class Flaky(Database):
    """A database whose next transactions fail before or after their commit."""

    fail_tenant: list[Callable[[], Exception | None]]
    fail_delivery: list[Callable[[], Exception | None]]
    commit_then_fail: bool = False

    @contextmanager
    def tenant(self, tenant_id: UUID, **options: Any) -> Iterator[Connection]:
        with self._failing(super().tenant(tenant_id, **options), self.fail_tenant) as connection:
            yield connection

    @contextmanager
    def delivery(self, **options: Any) -> Iterator[Connection]:
        with self._failing(super().delivery(**options), self.fail_delivery) as connection:
            yield connection

    @contextmanager
    def _failing(self, transaction: Any, errors: list[Callable[[], Exception | None]]) -> Iterator[Connection]:
        error = errors.pop(0)() if errors else None
        if error is not None and not self.commit_then_fail:
            with transaction as connection:
                yield connection
                raise error  # rolled back
        else:
            with transaction as connection:
                yield connection
            if error is not None:
                raise error  # committed, but reported as failed


def commit_unknown() -> Exception:
    return CommitUnknownError("lost")


def database_unavailable() -> Exception:
    return DatabaseUnavailableError("away")


class Context(LambdaContext):
    """A Lambda context whose remaining time is always `left` seconds."""

    def __init__(self, seconds_left: float = 120) -> None:
        self.left = seconds_left

    def get_remaining_time_in_millis(self) -> int:  # type: ignore[override]  # Powertools declares a static method
        return int(self.left * 1000)


@dataclass
class Clock:
    """A clock that advances only on request."""

    now: datetime = NOW + timedelta(hours=1)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **units: float) -> None:
        self.now += timedelta(**units)


def record(
    body: str | Message, *, receives: int = 1, handle: str | None = None, arn: str = QUEUE_ARN
) -> dict[str, Any]:
    """Return one record of an SQS Lambda event."""
    message_id = str(uuid4())
    return {
        "messageId": message_id,
        "receiptHandle": handle or message_id,
        "body": body.model_dump_json() if isinstance(body, Message) else body,
        "attributes": {
            "ApproximateReceiveCount": str(receives),
            "SentTimestamp": str(int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)),
        },
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": "eu-central-1",
    }


def task_body(message: Message) -> str:
    """Return a task's message body."""
    return json.dumps(
        {
            "schema_version": 1,
            "job_id": str(message.work_id),
            "task_type": "echo",
            "payload": {"say": "hello"},
            "metadata": {"created_at": NOW.isoformat(), "retry_count": 0, "max_retry": 5},
            "revision": message.revision,
            "send_number": message.send_number,
        }
    )


def event(*records: dict[str, Any]) -> dict[str, Any]:
    """Return an SQS Lambda event."""
    return {"Records": list(records)}


def settings(**changes: Any) -> Settings:
    """Return settings for the matching worker.

    By default, a heartbeat is due after 119 seconds.
    """
    values = {
        "worker": {"name": "matching", "timeout": 120, "permits": 2, "start_margin": 30},
        "queue_urls": {"matching": QUEUE_URL},
        "heartbeat_interval_seconds": 119,
    }
    return Settings.model_validate(values | changes)


class _Threads(Threads):
    """Real threads that call `on_starved` instead of ending the process."""

    def __init__(self, on_starved: Callable[[], None]) -> None:
        super().__init__()
        self.end_process = on_starved  # type: ignore[method-assign]


def make_consumer(
    database: Database,
    work: Worker | BatchWorker | RoutingWorker,
    clock: Callable[[], datetime],
    *,
    read: Callable[[str], ParsedMessage] = read_message,
    on_starved: Callable[[], None] = lambda: None,
    **changes: Any,
) -> Consumer:
    """Return a consumer for document matching that uses the fake queue."""
    config = settings(**changes)
    outbox = Outbox(database, config.queue_urls, config.retry_queue_urls, clock=clock)
    return Consumer(
        config,
        work,
        database=database,
        outbox=outbox,
        visibility=Visibility(QUEUE_URL),
        read=read,
        clock=clock,
        concurrency=_Threads(on_starved),
    )


def claim(connection: Connection, messages: Iterable[Message], now: datetime, **options: Any) -> dict[Message, Claim]:
    """Claim the work items of `messages`, as the matching worker does."""
    lease = now + timedelta(seconds=120)
    return sql.claim(
        connection, WORK_KINDS["matching"], list(messages), now=now, lease=lease, max_attempts=3, **options
    )


def life_cycle(admin: Connection, document_id: UUID) -> dict[str, Any]:
    """Return a document's `matching_` columns, without the prefix."""
    with admin.cursor() as cursor:
        cursor.execute("SELECT * FROM document WHERE id = %s", [document_id])
        row = cursor.fetchone()
        assert row is not None
        assert cursor.description is not None
        columns = [column.name for column in cursor.description]
    return {
        name.removeprefix("matching_"): value
        for name, value in zip(columns, row, strict=True)
        if name.startswith("matching_")
    }


def rows(admin: Connection, table: str) -> list[dict[str, Any]]:
    """Return all rows of a table as dicts, sorted by their columns in table order."""
    records = admin.execute(f"SELECT to_jsonb(t) FROM {table} t ORDER BY t".encode()).fetchall()
    return [row[0] if isinstance(row[0], dict) else json.loads(row[0]) for row in records]
