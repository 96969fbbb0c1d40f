"""Work that is put off again and again comes to an end."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.claims import Claims
from counterfoil.delivery.retry import MAX_SENDS
from counterfoil.delivery.work import begin
from tests.delivery.harness import Clock, FakeSqs, done, rows
from tests.delivery.requeued import LATE, QUEUE, RETRY_ARN, Run, Task, later, put_off, row, sent


def test_a_try_that_is_put_off_costs_no_attempt(run: Run, task: Task, admin: Connection, sqs: FakeSqs):
    message = task()
    assert run(put_off, message) == []
    found = row(admin, message)
    assert (found["status"], found["attempts"], found["send_number"]) == ("pending", 0, 1)
    assert sent(sqs) == [(later(message), 40)]


def test_work_that_is_put_off_without_end_is_ended(run: Run, task: Task, admin: Connection, sqs: FakeSqs):
    message = task(send_number=MAX_SENDS)
    assert run(put_off, message, arn=RETRY_ARN) == []
    assert row(admin, message)["status"] == "failed"
    (letter,) = rows(admin, "dead_letter")
    assert letter["metadata"]["last_error"]["type"] == "CirclingError"
    assert "deferred 1000 times" in letter["metadata"]["last_error"]["message"]
    assert sqs.sent == {}


def test_work_for_which_there_is_never_any_time_is_ended(run: Run, task: Task, admin: Connection, sqs: FakeSqs):
    message = task(send_number=MAX_SENDS - 1)
    assert run(done, message, arn=RETRY_ARN, context=LATE) == []
    ((message, _),) = sent(sqs, QUEUE) + sent(sqs)
    assert message.send_number == MAX_SENDS

    assert run(done, message, arn=RETRY_ARN, context=LATE) == []

    found = row(admin, message)
    assert (found["status"], found["attempts"]) == ("failed", 0)
    (letter,) = rows(admin, "dead_letter")
    assert letter["metadata"]["last_error"]["type"] == "CirclingError"
    assert letter["metadata"]["last_error"]["message"].endswith("The last reason: The invocation was about to end")
    assert len(sent(sqs, QUEUE) + sent(sqs)) == 1


def test_work_whose_messages_always_come_too_soon_is_ended(
    run: Run, task: Task, admin: Connection, sqs: FakeSqs, clock: Clock
):
    message = task(attempts=1, send_number=MAX_SENDS, next_attempt_at=clock.now + timedelta(seconds=20))
    assert run(done, message, arn=RETRY_ARN) == []
    assert row(admin, message)["status"] == "failed"
    assert "It was early" in row(admin, message)["error"]
    assert sqs.sent == {}


def test_work_that_somebody_begins_while_it_is_found_to_go_in_circles_goes_on(
    run: Run, task: Task, admin: Connection, monkeypatch: pytest.MonkeyPatch
):
    message = task(send_number=MAX_SENDS)
    look = Claims.park

    def overtaken(*given: Any) -> Any:
        found = look(*given)
        admin.execute("UPDATE task SET status = 'in-progress', claim_token = claim_token + 1, attempts = 1")
        return found

    monkeypatch.setattr(Claims, "park", overtaken)
    assert len(run(done, message, arn=RETRY_ARN, context=LATE)) == 1
    assert row(admin, message)["status"] == "in-progress"
    assert rows(admin, "dead_letter") == []


def test_a_redrive_of_what_went_in_circles_begins_anew(
    run: Run, task: Task, admin: Connection, database: Database, tenant: UUID, clock: Clock
):
    message = task(send_number=MAX_SENDS)
    run(put_off, message, arn=RETRY_ARN)
    with database.tenant(tenant) as connection:
        (send,) = begin(connection, "tasks", [message.work_id], clock.now)
    run(done, send.message)
    assert row(admin, message)["status"] == "succeeded"
