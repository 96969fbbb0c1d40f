"""Work items whose retries are new messages on a separate retry queue."""

import json
from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.heartbeat import Visibility
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import RedeliverPolicy, RequeuePolicy
from counterfoil.errors import InvalidDocumentError
from counterfoil.tasks.store import read_task_message
from functions.dead_letters.archiver import Archiver
from tests.delivery.harness import (
    Clock,
    Context,
    FakeSqs,
    event,
    fail_transiently,
    record,
    rows,
    settings,
    succeed,
    task_body,
)
from tests.delivery.requeue_harness import (
    ARN,
    DLQ_ARN,
    FIXED_RANDOM,
    QUEUE,
    RETRY_ARN,
    RETRY_QUEUE,
    Run,
    Task,
    next_send,
    sent_messages,
    task_row,
)
from tests.factories import NOW

# -- failed attempts --------------------------------------------------------------------------------------------------


def test_failed_attempt_sends_message_to_retry_queue(
    run: Run, task: Task, admin: Connection, sqs: FakeSqs, clock: Clock
):
    message = task()

    assert run(fail_transiently, message) == []  # acknowledged

    stored = task_row(admin, message)
    assert (stored["status"], stored["attempts"], stored["send_number"]) == ("pending", 1, 1)
    due_at = clock.now + timedelta(seconds=2 + FIXED_RANDOM)
    assert admin.execute("SELECT next_attempt_at FROM task").fetchall() == [(due_at,)]
    assert sent_messages(sqs) == [(next_send(message), 2)]
    assert sqs.sent[QUEUE] == []
    assert json.loads(sqs.sent[RETRY_QUEUE][0]["MessageBody"])["metadata"]["last_error"]["message"] == "later"


def test_retry_delays_double_up_to_task_limit(run: Run, task: Task, admin: Connection, sqs: FakeSqs, clock: Clock):
    message = task(max_retry=5)
    for retry in range(1, 6):
        run(fail_transiently, message, arn=ARN if retry == 1 else RETRY_ARN)
        message, delay = sent_messages(sqs)[-1]
        assert (message.send_number, delay) == (retry, 2**retry)
        clock.advance(seconds=2**retry + 1)

    assert run(fail_transiently, message, arn=RETRY_ARN) == []

    assert len(sent_messages(sqs)) == 5
    assert task_row(admin, message)["status"] == "failed"
    (dead_letter,) = rows(admin, "dead_letter")
    assert (dead_letter["dlq_reason"], dead_letter["attempts"], dead_letter["task_type"]) == (
        "max_retries_exceeded",
        6,
        "echo",
    )
    assert (dead_letter["metadata"]["retry_count"], dead_letter["metadata"]["max_retry"]) == (5, 5)


@pytest.mark.parametrize("max_retry", [0, 1])
def test_task_can_request_fewer_retries(run: Run, task: Task, admin: Connection, clock: Clock, max_retry: int):
    message = task(max_retry=max_retry)
    for retry in range(max_retry + 1):
        run(fail_transiently, next_send(message, retry))
        clock.advance(seconds=10)
    stored = task_row(admin, message)
    assert (stored["status"], stored["attempts"]) == ("failed", max_retry + 1)


@pytest.mark.parametrize("error", [InvalidDocumentError("It is damaged", code="damaged_pdf"), ValueError("unmapped")])
def test_permanent_or_unknown_error_is_dead_lettered_immediately(
    run: Run, task: Task, admin: Connection, sqs: FakeSqs, error: Exception
):
    def work(attempt: TenantAttempt) -> Outcome:
        raise error

    message = task()
    assert run(work, message) == []
    assert task_row(admin, message)["status"] == "failed"
    assert [dead_letter["dlq_reason"] for dead_letter in rows(admin, "dead_letter")] == ["non_retriable_error"]
    assert sqs.sent == {}


def test_older_message_is_dropped(run: Run, task: Task, admin: Connection, sqs: FakeSqs, clock: Clock):
    message = task()
    run(fail_transiently, message)
    clock.advance(seconds=60)

    assert run(succeed, message) == []

    assert task_row(admin, message)["status"] == "pending"  # until the retry's message is received
    assert run(succeed, next_send(message), arn=RETRY_ARN) == []
    assert task_row(admin, message)["status"] == "succeeded"


def test_early_retry_is_parked(run: Run, task: Task, admin: Connection, sqs: FakeSqs, clock: Clock):
    message = task(attempts=1, send_number=1, next_attempt_at=clock.now + timedelta(seconds=20))

    assert run(succeed, message, arn=RETRY_ARN) == []

    assert task_row(admin, message)["status"] == "pending"
    assert sent_messages(sqs) == [(next_send(message), 20)]


def test_retry_less_than_a_second_early_runs(run: Run, task: Task, admin: Connection, clock: Clock):
    message = task(attempts=1, send_number=1, next_attempt_at=clock.now + timedelta(seconds=0.99))
    run(succeed, message, arn=RETRY_ARN)
    assert task_row(admin, message)["status"] == "succeeded"


def test_lost_attempt_is_followed_by_second_attempt(run: Run, task: Task, admin: Connection, clock: Clock):
    expired = clock.now - timedelta(seconds=1)
    message = task(status="in-progress", attempts=1, claimed_at=NOW, lease_expires_at=expired, claim_token=1)
    run(succeed, message, receives=2)
    stored = task_row(admin, message)
    assert (stored["status"], stored["attempts"]) == ("succeeded", 2)


def test_lost_last_attempt_fails_work_item(run: Run, task: Task, admin: Connection, clock: Clock):
    expired = clock.now - timedelta(seconds=1)
    message = task(
        status="in-progress", attempts=2, max_retry=1, claimed_at=NOW, lease_expires_at=expired, claim_token=1
    )
    assert run(succeed, message, receives=2) == []
    (attempt,) = rows(admin, "work_attempt")
    assert task_row(admin, message)["status"] == "failed"
    assert (attempt["number"], attempt["outcome"], attempt["error_type"]) == (2, "failed", "WorkerLost")


def test_visibility_changes_use_source_queue(run: Run, task: Task, sqs: FakeSqs, monkeypatch: pytest.MonkeyPatch):
    queue_urls = []
    change_visibility = sqs.change_message_visibility_batch

    def record_queue(**arguments: Any) -> Any:
        queue_urls.append(arguments["QueueUrl"])
        return change_visibility(**arguments)

    monkeypatch.setattr(sqs, "change_message_visibility_batch", record_queue)
    run(succeed, task())
    run(succeed, task(send_number=1), arn=RETRY_ARN)
    assert queue_urls == [QUEUE, RETRY_QUEUE]


# -- messages from the dead-letter queue ------------------------------------------------------------------------------


def test_archiver_returns_unattempted_task_after_five_minutes(
    maintenance_database: Database,
    clock: Clock,
    sqs: FakeSqs,
    task: Task,
    admin: Connection,
):
    outbox = Outbox(maintenance_database, {"tasks": QUEUE}, {"tasks": RETRY_QUEUE}, clock=clock, random=lambda: 0.0)
    archiver = Archiver(maintenance_database, outbox, RedeliverPolicy(), clock, {"tasks": RequeuePolicy()})
    message = task()

    assert archiver.process("tasks", SQSRecord(record(task_body(message), arn=DLQ_ARN))) is None

    assert sent_messages(sqs) == [(next_send(message), 300)]
    assert task_row(admin, message)["send_number"] == 1


def test_archiver_applies_task_attempt_limit(
    maintenance_database: Database, clock: Clock, outbox: Outbox, task: Task, admin: Connection,
):  # fmt: skip
    archiver = Archiver(maintenance_database, outbox, RedeliverPolicy(), clock, {"tasks": RequeuePolicy()})
    expired = clock.now - timedelta(seconds=1)
    lost = {"status": "in-progress", "claimed_at": NOW, "lease_expires_at": expired, "claim_token": 1}
    exhausted, unexhausted = task(attempts=1, max_retry=0, **lost), task(attempts=6, max_retry=9, **lost)

    for message in (exhausted, unexhausted):
        archiver.process("tasks", SQSRecord(record(task_body(message), arn=DLQ_ARN)))

    assert task_row(admin, exhausted)["status"] == "failed"
    assert task_row(admin, unexhausted)["status"] == "pending"


def test_unreadable_message_is_dead_lettered_once_across_queues(
    run: Run, admin: Connection, outbox: Outbox, maintenance_database: Database, clock: Clock, database: Database,
    sqs: FakeSqs,
):  # fmt: skip
    unreadable = record("not JSON", arn=RETRY_ARN)
    config = settings(
        worker={"name": "tasks", "timeout": 120, "start_margin": 30, "retries": "requeue"}, queue_urls={"tasks": QUEUE}
    )
    visibility = Visibility(QUEUE, RETRY_QUEUE)
    consumer = Consumer(
        config, succeed, database=database, outbox=outbox, visibility=visibility, read=read_task_message, clock=clock
    )
    consumer.handle(event(unreadable), Context())
    archiver = Archiver(maintenance_database, outbox, RedeliverPolicy(), clock)

    archiver.process("tasks", SQSRecord(unreadable | {"eventSourceARN": DLQ_ARN}))

    assert len(rows(admin, "dead_letter")) == 1
