"""Outbox: target queues, send times, and messages that SQS rejects."""

import json
from collections.abc import Callable
from datetime import timedelta
from itertools import cycle
from statistics import mean
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery import outbox
from counterfoil.delivery.outbox import BATCH_SIZE, CALL_TIMEOUT_SECONDS, Outbox
from counterfoil.delivery.work import Message, OutboxMessage, enqueue, start_revision, wake
from counterfoil.errors import DatabaseUnavailableError, RejectedRequestError
from counterfoil.kinds import WORK_KINDS
from tests.delivery.harness import QUEUE_URL, Clock, FakeSqs, Flaky, database_unavailable, succeed
from tests.delivery.requeue_harness import (
    LATE_CONTEXT,
    QUEUE,
    RETRY_ARN,
    RETRY_QUEUE,
    Run,
    Task,
    defer,
    next_send,
    sent_messages,
)
from tests.factories import NOW


def test_rejected_batch_does_not_block_other_batches(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Callable[..., Message],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch_sizes: list[int] = []
    messages = [pending() for _ in range(BATCH_SIZE + 2)]
    outbox_messages = start_revision(admin, "matching", [message.work_id for message in messages], clock())
    original_call = outbox._call

    def refuse_first(url: str, entries: Any, **options: Any) -> Any:
        batch_sizes.append(len(entries))
        if len(batch_sizes) == 1:
            raise RejectedRequestError("BatchRequestTooLong")
        return original_call(url, entries, **options)

    monkeypatch.setattr(outbox, "_call", refuse_first)

    assert Outbox(database, {"matching": QUEUE_URL}, clock=clock).send(outbox_messages) == 2
    assert batch_sizes == [BATCH_SIZE, 2]
    ((unsent_numbers,),) = admin.execute("SELECT count(*) FROM outbox WHERE sent_at IS NULL").fetchall()
    assert unsent_numbers == BATCH_SIZE


def enqueue_tasks(admin: Connection, tenant: UUID, *messages: Message) -> list[OutboxMessage]:
    references = [(message.work_id, tenant, message.revision, message.send_number) for message in messages]
    return enqueue(admin, WORK_KINDS["tasks"], references, NOW, NOW)


def test_first_attempts_and_retries_use_different_queues(
    outbox: Outbox, task: Task, admin: Connection, tenant: UUID, sqs: FakeSqs
):
    first, retry = task(), task(send_number=3, attempts=1)
    assert outbox.send(enqueue_tasks(admin, tenant, first, retry)) == 2
    assert [message for message, _ in sent_messages(sqs, QUEUE)] == [first]
    assert [message for message, _ in sent_messages(sqs, RETRY_QUEUE)] == [retry]


def test_parked_first_attempt_stays_on_main_queue(run: Run, task: Task, sqs: FakeSqs):
    message = task()
    run(succeed, message, context=LATE_CONTEXT)
    assert sent_messages(sqs, QUEUE) == [(next_send(message), 0)]
    assert sqs.sent[RETRY_QUEUE] == []


def test_parked_retry_stays_on_retry_queue(run: Run, task: Task, sqs: FakeSqs):
    message = task(attempts=1, send_number=1)
    run(succeed, message, arn=RETRY_ARN, context=LATE_CONTEXT)
    assert sent_messages(sqs, RETRY_QUEUE) == [(next_send(message), 0)]
    assert sqs.sent[QUEUE] == []


@pytest.mark.parametrize(("attempts", "queue"), [(0, QUEUE), (1, RETRY_QUEUE)])
def test_attempts_decide_queue_of_woken_work_item(
    outbox: Outbox, task: Task, database: Database, tenant: UUID, sqs: FakeSqs, clock: Clock, attempts: int, queue: str
):
    message = task(attempts=attempts, send_number=1, next_attempt_at=clock.now + timedelta(minutes=20))
    with database.tenant(tenant) as connection:
        outbox_messages = wake(connection, "tasks", [message.work_id], clock.now)
    outbox.send(outbox_messages)
    assert sent_messages(sqs, queue) == [(next_send(message), 0)]
    assert len(sqs.sent) == 1


def test_deferred_first_attempt_uses_retry_queue(run: Run, task: Task, sqs: FakeSqs):
    message = task()
    run(defer, message)
    assert sent_messages(sqs, RETRY_QUEUE) == [(next_send(message), 40)]
    assert sqs.sent[QUEUE] == []


def test_database_outage_leaves_messages_in_outbox(
    outbox: Outbox, task: Task, admin: Connection, tenant: UUID, sqs: FakeSqs, monkeypatch: pytest.MonkeyPatch
):
    outbox_messages = enqueue_tasks(admin, tenant, task(send_number=1))

    def fail(*_: Any, **_options: Any) -> Any:
        raise DatabaseUnavailableError("PostgreSQL is not available")

    monkeypatch.setattr(Database, "delivery", fail)
    assert outbox.send(outbox_messages) == 0
    assert sqs.sent == {}


def unsent_numbers(admin: Connection) -> list[int]:
    """Return the send numbers of unsent messages."""
    return [number for (number,) in admin.execute("SELECT send_number FROM outbox WHERE sent_at IS NULL")]


def test_messages_stay_in_outbox_without_time_left(
    outbox: Outbox, task: Task, admin: Connection, tenant: UUID, sqs: FakeSqs
):
    assert outbox.send(enqueue_tasks(admin, tenant, task()), time_left=lambda: CALL_TIMEOUT_SECONDS - 1) == 0
    assert (sqs.sent, unsent_numbers(admin)) == ({}, [0])


def test_message_not_accepted_by_sqs_stays_in_outbox(
    outbox: Outbox, task: Task, admin: Connection, tenant: UUID, sqs: FakeSqs, monkeypatch: pytest.MonkeyPatch
):
    response = {"Successful": [{"Id": "0"}], "Failed": [{"Id": "1", "Code": "InternalError"}]}
    monkeypatch.setattr(sqs, "send_message_batch", lambda **_: response)
    outbox_messages = enqueue_tasks(admin, tenant, task(), task(attempts=0))
    assert outbox.send(outbox_messages) == 1
    assert admin.execute("SELECT id FROM outbox WHERE sent_at IS NULL").fetchall() == [(outbox_messages[1].id,)]


def test_failed_marking_leaves_sent_messages_unmarked(
    flaky_database: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Task
):
    newest = pending(send_number=1)
    references = [(newest.work_id, None, 1, number) for number in (0, 1)]
    enqueue(admin, WORK_KINDS["matching"], references, NOW, NOW)
    outbox = Outbox(flaky_database, {"matching": QUEUE_URL}, clock=clock)
    # Reading the outbox succeeds, but marking messages as sent fails.
    flaky_database.fail_delivery = [lambda: None, database_unavailable, database_unavailable]

    assert outbox.send_unsent(created_before=clock()) == 2

    assert [json.loads(entry["MessageBody"])["send_number"] for entry in sqs.sent[QUEUE_URL]] == [1]
    assert sorted(unsent_numbers(admin)) == [0, 1]


def test_superseded_message_is_never_sent(
    outbox: Outbox, task: Task, admin: Connection, tenant: UUID, sqs: FakeSqs, clock: Clock
):
    newest = task(send_number=4, attempts=1)
    older = [newest.model_copy(update={"send_number": number}) for number in (2, 3)]
    enqueue_tasks(admin, tenant, *older, newest, other := task())

    assert outbox.send_unsent(created_before=clock.now) == 4  # including two superseded messages

    assert [message for message, _ in sent_messages(sqs)] == [newest]
    assert [message for message, _ in sent_messages(sqs, QUEUE)] == [other]
    assert outbox.send_unsent(created_before=clock.now) == 0


def test_message_of_deleted_task_is_dropped(
    outbox: Outbox, task: Task, admin: Connection, tenant: UUID, sqs: FakeSqs, capsys: pytest.CaptureFixture[str]
):
    deleted, existing = task(), task()
    outbox_messages = enqueue_tasks(admin, tenant, deleted, existing)
    admin.execute("DELETE FROM task WHERE id = %s", [deleted.work_id])

    outbox.send(outbox_messages)

    assert [message for message, _ in sent_messages(sqs, QUEUE)] == [existing]
    assert admin.execute("SELECT count(*) FROM outbox WHERE sent_at IS NULL").fetchone() == (0,)
    assert '"OrphanedMessages"' in capsys.readouterr().out


def test_large_messages_are_sent_in_smaller_batches(
    outbox: Outbox, task: Task, admin: Connection, tenant: UUID, sqs: FakeSqs, monkeypatch: pytest.MonkeyPatch
):
    batch_sizes: list[int] = []
    send_message_batch = sqs.send_message_batch

    def record_size(**arguments: Any) -> dict[str, Any]:
        batch_sizes.append(len(arguments["Entries"]))
        return send_message_batch(**arguments)

    monkeypatch.setattr(sqs, "send_message_batch", record_size)
    messages = [task(payload=json.dumps("x" * 100_000)) for _ in range(5)]

    assert outbox.send(enqueue_tasks(admin, tenant, *messages)) == 5
    assert batch_sizes == [2, 2, 1]


def test_payload_is_sent_unescaped(outbox: Outbox, task: Task, admin: Connection, tenant: UUID, sqs: FakeSqs):
    message = task(payload='{"message": "Grüße \\"née\\" 1.10"}')
    outbox.send(enqueue_tasks(admin, tenant, message))
    (entry,) = sqs.sent[QUEUE]
    assert "Grüße" in entry["MessageBody"]  # unescaped, to save space
    assert json.loads(entry["MessageBody"])["payload"] == {"message": 'Grüße "née" 1.10'}


@pytest.mark.parametrize("seconds", [0, 0.25, 2.5, 4.99, 300])
def test_rounded_delays_average_to_exact_delay(
    database: Database, admin: Connection, tenant: UUID, clock: Clock, sqs: FakeSqs, task: Task, seconds: float
):
    fractions = cycle([number / 100 for number in range(100)])
    outbox = Outbox(database, {"tasks": QUEUE}, clock=clock, random=lambda: next(fractions))
    due_at = clock.now + timedelta(seconds=seconds)
    (send,) = enqueue(admin, WORK_KINDS["tasks"], [(task().work_id, tenant, 1, 0)], due_at, NOW)
    for _ in range(100):
        admin.execute("UPDATE outbox SET sent_at = NULL")
        outbox.send([send])
    delays = [delay for _, delay in sent_messages(sqs, QUEUE)]
    assert mean(delays) == pytest.approx(seconds, abs=0.011)
    assert max(delays) - min(delays) <= 1
