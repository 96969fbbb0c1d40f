"""Work items that exceed the deferral limit fail."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.claims import Claims
from counterfoil.delivery.retry import MAX_MESSAGES_PER_REVISION
from counterfoil.delivery.work import start_revision
from tests.delivery.harness import Clock, FakeSqs, rows, succeed
from tests.delivery.requeue_harness import (
    LATE_CONTEXT,
    QUEUE,
    RETRY_ARN,
    Run,
    Task,
    defer,
    next_send,
    sent_messages,
    task_row,
)


def test_deferral_spends_no_attempt(run: Run, task: Task, admin: Connection, sqs: FakeSqs):
    message = task()
    assert run(defer, message) == []
    stored = task_row(admin, message)
    assert (stored["status"], stored["attempts"], stored["send_number"]) == ("pending", 0, 1)
    assert sent_messages(sqs) == [(next_send(message), 40)]


def test_deferral_at_limit_fails_work_item(run: Run, task: Task, admin: Connection, sqs: FakeSqs):
    message = task(send_number=MAX_MESSAGES_PER_REVISION)
    assert run(defer, message, arn=RETRY_ARN) == []
    assert task_row(admin, message)["status"] == "failed"
    (dead_letter,) = rows(admin, "dead_letter")
    assert dead_letter["metadata"]["last_error"]["type"] == "TooManyDeferralsError"
    assert "deferred 1000 times" in dead_letter["metadata"]["last_error"]["message"]
    assert sqs.sent == {}


def test_late_message_at_deferral_limit_fails_work_item(run: Run, task: Task, admin: Connection, sqs: FakeSqs):
    message = task(send_number=MAX_MESSAGES_PER_REVISION - 1)
    assert run(succeed, message, arn=RETRY_ARN, context=LATE_CONTEXT) == []
    ((message, _),) = sent_messages(sqs, QUEUE) + sent_messages(sqs)
    assert message.send_number == MAX_MESSAGES_PER_REVISION

    assert run(succeed, message, arn=RETRY_ARN, context=LATE_CONTEXT) == []

    stored = task_row(admin, message)
    assert (stored["status"], stored["attempts"]) == ("failed", 0)
    (dead_letter,) = rows(admin, "dead_letter")
    assert dead_letter["metadata"]["last_error"]["type"] == "TooManyDeferralsError"
    assert dead_letter["metadata"]["last_error"]["message"].endswith("The last reason: The invocation was about to end")
    assert len(sent_messages(sqs, QUEUE) + sent_messages(sqs)) == 1


def test_early_message_at_deferral_limit_fails_work_item(
    run: Run, task: Task, admin: Connection, sqs: FakeSqs, clock: Clock
):
    message = task(attempts=1, send_number=MAX_MESSAGES_PER_REVISION, next_attempt_at=clock.now + timedelta(seconds=20))
    assert run(succeed, message, arn=RETRY_ARN) == []
    assert task_row(admin, message)["status"] == "failed"
    assert "It was not due yet" in task_row(admin, message)["error"]
    assert sqs.sent == {}


def test_concurrent_claim_prevents_deferral_limit_failure(
    run: Run, task: Task, admin: Connection, monkeypatch: pytest.MonkeyPatch
):
    message = task(send_number=MAX_MESSAGES_PER_REVISION)
    original_park = Claims.park

    def park_and_claim(*arguments: Any) -> Any:
        stored = original_park(*arguments)
        admin.execute("UPDATE task SET status = 'in-progress', claim_token = claim_token + 1, attempts = 1")
        return stored

    monkeypatch.setattr(Claims, "park", park_and_claim)
    assert len(run(succeed, message, arn=RETRY_ARN, context=LATE_CONTEXT)) == 1
    assert task_row(admin, message)["status"] == "in-progress"
    assert rows(admin, "dead_letter") == []


def test_new_revision_resets_deferral_count(
    run: Run, task: Task, admin: Connection, database: Database, tenant: UUID, clock: Clock
):
    message = task(send_number=MAX_MESSAGES_PER_REVISION)
    run(defer, message, arn=RETRY_ARN)
    with database.tenant(tenant) as connection:
        (send,) = start_revision(connection, "tasks", [message.work_id], clock.now)
    run(succeed, send.message)
    assert task_row(admin, message)["status"] == "succeeded"
