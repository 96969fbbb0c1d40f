"""Fixtures for delivery tests: fake SQS, clock, pending documents and tasks."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.heartbeat import Visibility
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Message
from counterfoil.tasks.store import read_task_message
from tests.delivery.harness import Clock, Context, FakeSqs, Flaky, event, record, settings, task_body
from tests.delivery.requeue_harness import ARN, FIXED_RANDOM, QUEUE, RETRY_QUEUE, Run, Task
from tests.factories import NOW, make_task


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> FakeSqs:
    fake_sqs = FakeSqs()
    monkeypatch.setattr(aws, "client", lambda service: {"sqs": fake_sqs}[service])
    return fake_sqs


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def flaky_database(database_url: str) -> Iterator[Flaky]:
    database = Flaky(database_url)
    database.fail_tenant, database.fail_delivery = [], []
    yield database
    database.close()


@pytest.fixture
def tenant(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def pending(make_document: Callable[..., UUID], tenant: UUID) -> Callable[..., Message]:
    """`pending(**columns)` creates a pending document and returns its message.

    The columns can set another status.
    """

    def make(**columns: object) -> Message:
        values = {"matching_status": "pending", "matching_revision": 1} | {
            f"matching_{name}": value for name, value in columns.items()
        }
        if values["matching_status"] == "in-progress":
            values.setdefault("matching_claimed_at", NOW)
        document_id = make_document(tenant, {"invoice_number": "1"}, type="invoice", **values)
        return Message(
            work_id=document_id,
            revision=values["matching_revision"],  # type: ignore[arg-type]
            send_number=values.get("matching_send_number", 0),  # type: ignore[arg-type]
        )

    return make


@pytest.fixture
def outbox(database: Database, clock: Clock) -> Outbox:
    return Outbox(database, {"tasks": QUEUE}, {"tasks": RETRY_QUEUE}, clock=clock, random=lambda: FIXED_RANDOM)


@pytest.fixture
def task(admin: Connection, tenant: UUID) -> Task:
    """`task(**columns)` creates a task, by default pending, and returns its message."""

    def make(**columns: Any) -> Message:
        id_ = make_task(admin, tenant, **columns)
        return Message(work_id=id_, revision=1, send_number=columns.get("send_number", 0))

    return make


@pytest.fixture
def run(database: Database, outbox: Outbox, clock: Clock, sqs: FakeSqs) -> Run:
    """`run(work, *messages)` consumes task messages.

    It returns the SQS ids of failed messages.
    """

    def consume(
        work: Callable[[TenantAttempt], Outcome],
        *messages: Message,
        arn: str = ARN,
        receives: int = 1,
        context: Context | None = None,
    ) -> list[str]:
        consumer = Consumer(
            settings(
                worker={"name": "tasks", "timeout": 120, "permits": 2, "start_margin": 30, "retries": "requeue"},
                queue_urls={"tasks": QUEUE},
                retry_queue_urls={"tasks": RETRY_QUEUE},
            ),
            work,
            database=database,
            outbox=outbox,
            visibility=Visibility(QUEUE, RETRY_QUEUE),
            read=read_task_message,
            clock=clock,
        )
        records = [record(task_body(message), arn=arn, receives=receives) for message in messages]
        response = consumer.handle(event(*records), context or Context())
        return [str(item["itemIdentifier"]) for item in response["batchItemFailures"]]

    return consume
