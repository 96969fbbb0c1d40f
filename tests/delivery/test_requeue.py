"""Work whose retries are new messages on a queue of their own: each settled in one transaction, none forked."""

import json
from collections.abc import Callable
from datetime import timedelta
from itertools import cycle
from statistics import mean
from typing import Any
from uuid import UUID

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil.db import Connection, Database
from counterfoil.delivery import Attempt, Consumer, Outcome, Skip, Success, store
from counterfoil.delivery.claims import Claims
from counterfoil.delivery.visibility import Visibility
from counterfoil.errors import BreakerOpenError, InvalidDocumentError, ServiceUnavailableError
from counterfoil.messages import Message
from counterfoil.outbox import Outbox
from counterfoil.retry import MAX_SENDS, RedeliverPolicy, RequeuePolicy
from counterfoil.tasks.message import read_task_message
from counterfoil.work import KINDS, Send, begin, owe
from functions.dead_letters.archiver import Archiver
from tests.delivery.harness import (
    DONE,
    Clock,
    Context,
    FakeSqs,
    done,
    event,
    fails,
    make_consumer,
    record,
    rows,
    settings,
    task_body,
)
from tests.factories import NOW, make_task

QUEUE, RETRY_QUEUE = (f"http://127.0.0.1:1/000000000000/counterfoil-tasks{suffix}" for suffix in ("", "-retry"))
ARN, RETRY_ARN, DLQ_ARN = (
    f"arn:aws:sqs:eu-central-1:000000000000:counterfoil-tasks{suffix}" for suffix in ("", "-retry", "-dlq")
)
CHANCE = 0.25
"""What chance says, always."""

Task = Callable[..., Message]
Run = Callable[..., list[str]]


@pytest.fixture
def outbox(database: Database, clock: Clock) -> Outbox:
    return Outbox(database, {"tasks": QUEUE}, {"tasks": RETRY_QUEUE}, clock=clock, random=lambda: CHANCE)


@pytest.fixture
def task(admin: Connection, tenant: UUID) -> Task:
    """`task(**columns)` makes a task that waits, and returns the message that names it."""

    def make(**columns: Any) -> Message:
        id_ = make_task(admin, tenant, **columns)
        return Message(work_id=id_, revision=1, send_number=columns.get("send_number", 0))

    return make


@pytest.fixture
def run(database: Database, outbox: Outbox, clock: Clock, sqs: FakeSqs) -> Run:
    """`run(work, *messages)` hands the messages to a consumer of tasks; returns the ids that SQS is to keep."""

    def go(
        work: Callable[[Attempt], Outcome],
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
        answer = consumer.handle(event(*records), context or Context())
        return [str(item["itemIdentifier"]) for item in answer["batchItemFailures"]]

    return go


def row(admin: Connection, message: Message) -> dict[str, Any]:
    return next(one for one in rows(admin, "task") if one["id"] == str(message.work_id))


def sent(sqs: FakeSqs, queue: str = RETRY_QUEUE) -> list[tuple[Message, float]]:
    return [(read_task_message(entry["MessageBody"]).messages[0], entry["DelaySeconds"]) for entry in sqs.sent[queue]]


def later(message: Message, by: int = 1) -> Message:
    return message.model_copy(update={"send_number": message.send_number + by})


# -- a failed try -----------------------------------------------------------------------------------------------------


def test_a_failed_try_is_made_again_by_a_new_message_on_the_queue_for_retries(
    run: Run, task: Task, admin: Connection, sqs: FakeSqs, clock: Clock
):
    message = task()

    assert run(fails, message) == []  # acknowledged

    found = row(admin, message)
    assert (found["status"], found["attempts"], found["send_number"]) == ("pending", 1, 1)
    due = clock.now + timedelta(seconds=2 + CHANCE)
    assert admin.execute("SELECT next_attempt_at FROM task").fetchall() == [(due,)]
    assert sent(sqs) == [(later(message), 2)]
    assert sqs.sent[QUEUE] == []
    assert json.loads(sqs.sent[RETRY_QUEUE][0]["MessageBody"])["metadata"]["last_error"]["message"] == "later"


def test_the_waits_double_and_the_bound_is_the_task_s_own(
    run: Run, task: Task, admin: Connection, sqs: FakeSqs, clock: Clock
):
    message = task(max_retry=5)
    for retry in range(1, 6):
        run(fails, message, arn=ARN if retry == 1 else RETRY_ARN)
        message, delay = sent(sqs)[-1]
        assert (message.send_number, delay) == (retry, 2**retry)
        clock.pass_(seconds=2**retry + 1)

    assert run(fails, message, arn=RETRY_ARN) == []

    assert len(sent(sqs)) == 5
    assert row(admin, message)["status"] == "failed"
    (letter,) = rows(admin, "dead_letter")
    assert (letter["dlq_reason"], letter["attempts"], letter["task_type"]) == ("max_retries_exceeded", 6, "echo")
    assert (letter["metadata"]["retry_count"], letter["metadata"]["max_retry"]) == (5, 5)


@pytest.mark.parametrize("max_retry", [0, 1])
def test_a_task_may_ask_for_fewer_retries(run: Run, task: Task, admin: Connection, clock: Clock, max_retry: int):
    message = task(max_retry=max_retry)
    for retry in range(max_retry + 1):
        run(fails, later(message, retry))
        clock.pass_(seconds=10)
    found = row(admin, message)
    assert (found["status"], found["attempts"]) == ("failed", max_retry + 1)


@pytest.mark.parametrize("error", [InvalidDocumentError("It is damaged"), ValueError("nobody mapped it")])
def test_what_no_retry_can_cure_is_a_dead_letter_at_once(
    run: Run, task: Task, admin: Connection, sqs: FakeSqs, error: Exception
):
    def work(attempt: Attempt) -> Outcome:
        raise error

    message = task()
    assert run(work, message) == []
    assert row(admin, message)["status"] == "failed"
    assert [letter["dlq_reason"] for letter in rows(admin, "dead_letter")] == ["non_retriable_error"]
    assert sqs.sent == {}


def test_an_older_copy_of_a_message_is_dropped(run: Run, task: Task, admin: Connection, sqs: FakeSqs, clock: Clock):
    message = task()
    run(fails, message)
    clock.pass_(seconds=60)

    assert run(done, message) == []

    assert row(admin, message)["status"] == "pending"  # for the retry, which nobody has received yet
    assert run(done, later(message), arn=RETRY_ARN) == []
    assert row(admin, message)["status"] == "succeeded"


def test_a_retry_that_comes_early_is_put_off_and_not_skipped(
    run: Run, task: Task, admin: Connection, sqs: FakeSqs, clock: Clock
):
    message = task(attempts=1, send_number=1, next_attempt_at=clock.now + timedelta(seconds=20))

    assert run(done, message, arn=RETRY_ARN) == []

    assert row(admin, message)["status"] == "pending"
    assert sent(sqs) == [(later(message), 20)]


def test_a_retry_less_than_a_second_early_is_not_early(run: Run, task: Task, admin: Connection, clock: Clock):
    message = task(attempts=1, send_number=1, next_attempt_at=clock.now + timedelta(seconds=0.99))
    run(done, message, arn=RETRY_ARN)
    assert row(admin, message)["status"] == "succeeded"


def test_a_try_that_was_lost_with_its_worker_is_followed_by_another_of_the_same_message(
    run: Run, task: Task, admin: Connection, clock: Clock
):
    over = clock.now - timedelta(seconds=1)
    message = task(status="in-progress", attempts=1, claimed_at=NOW, lease_expires_at=over, claim_token=1)
    run(done, message, receives=2)
    found = row(admin, message)
    assert (found["status"], found["attempts"]) == ("succeeded", 2)


def test_work_that_was_lost_in_its_last_try_has_failed(run: Run, task: Task, admin: Connection, clock: Clock):
    over = clock.now - timedelta(seconds=1)
    message = task(status="in-progress", attempts=2, max_retry=1, claimed_at=NOW, lease_expires_at=over, claim_token=1)
    assert run(done, message, receives=2) == []
    (attempt,) = rows(admin, "work_attempt")
    assert row(admin, message)["status"] == "failed"
    assert (attempt["number"], attempt["outcome"], attempt["error_type"]) == (2, "failed", "WorkerLost")


def test_messages_of_both_queues_are_hidden_where_they_are(
    run: Run, task: Task, sqs: FakeSqs, monkeypatch: pytest.MonkeyPatch
):
    asked = []
    real = sqs.change_message_visibility_batch

    def change(**call: Any) -> Any:
        asked.append(call["QueueUrl"])
        return real(**call)

    monkeypatch.setattr(sqs, "change_message_visibility_batch", change)
    run(done, task())
    run(done, task(send_number=1), arn=RETRY_ARN)
    assert asked == [QUEUE, RETRY_QUEUE]


# -- work that goes in circles ----------------------------------------------------------------------------------------


def put_off(attempt: Attempt) -> Outcome:
    raise BreakerOpenError("The breaker is open", until=attempt.now() + timedelta(seconds=40))


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
    assert "put off 1000 times" in letter["metadata"]["last_error"]["message"]
    assert sqs.sent == {}


LATE = Context(left=20)
"""Too little time to begin anything."""


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
    assert letter["metadata"]["last_error"]["message"].endswith("The last time: No time was left to begin it")
    assert len(sent(sqs, QUEUE) + sent(sqs)) == 1


def test_work_whose_messages_always_come_too_soon_is_ended(
    run: Run, task: Task, admin: Connection, sqs: FakeSqs, clock: Clock
):
    message = task(attempts=1, send_number=MAX_SENDS, next_attempt_at=clock.now + timedelta(seconds=20))
    assert run(done, message, arn=RETRY_ARN) == []
    assert row(admin, message)["status"] == "failed"
    assert "came before its time" in row(admin, message)["error"]
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


# -- the history of tries ---------------------------------------------------------------------------------------------


def test_every_try_is_written_down_with_what_came_of_it(
    run: Run, task: Task, admin: Connection, clock: Clock, sqs: FakeSqs
):
    message = task()
    for number, work in enumerate((fails, put_off, done)):
        run(work, later(message, number))
        clock.pass_(seconds=60)
    found = [
        (one["number"], one["outcome"], one["error_type"], one["next_attempt_at"] is not None)
        for one in sorted(rows(admin, "work_attempt"), key=lambda one: one["ended_at"])
    ]
    assert found == [
        (1, "retry", "ServiceUnavailableError", True),
        (2, "deferred", "BreakerOpenError", True),
        (2, "succeeded", None, False),
    ]


def test_a_wait_is_counted_from_the_end_of_the_try_that_failed(
    run: Run, task: Task, admin: Connection, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    def slow(attempt: Attempt) -> Outcome:
        clock.pass_(seconds=7)
        return fails(attempt)

    note = store.note

    def late(*given: Any) -> None:
        clock.pass_(seconds=3)  # the statements of a settlement take their time, too
        note(*given)

    monkeypatch.setattr(store, "note", late)
    run(slow, task())

    times = admin.execute("SELECT ended_at - began_at, next_attempt_at - ended_at FROM work_attempt").fetchall()
    assert times == [(timedelta(seconds=7), timedelta(seconds=2 + CHANCE))]


def test_a_skip_is_written_down_as_such(run: Run, task: Task, admin: Connection):
    run(lambda _attempt: Skip("There is nothing to do"), task())
    assert [one["outcome"] for one in rows(admin, "work_attempt")] == ["skipped"]


def test_a_try_of_a_stale_claim_is_not_written_down(run: Run, task: Task, admin: Connection):
    message = task()

    def overtaken(attempt: Attempt) -> Success:
        admin.execute("UPDATE task SET claim_token = claim_token + 1")
        return DONE

    assert len(run(overtaken, message)) == 1
    assert rows(admin, "work_attempt") == []


# -- the outbox -------------------------------------------------------------------------------------------------------


def owed(admin: Connection, tenant: UUID, *messages: Message) -> list[Send]:
    named = [(one.work_id, tenant, one.revision, one.send_number) for one in messages]
    return owe(admin, KINDS["tasks"], named, NOW, NOW)


def test_first_tries_and_retries_go_to_different_queues(
    outbox: Outbox, task: Task, admin: Connection, tenant: UUID, sqs: FakeSqs
):
    first, retry = task(), task(send_number=3)
    assert outbox.send(owed(admin, tenant, first, retry)) == 2
    assert [message for message, _ in sent(sqs, QUEUE)] == [first]
    assert [message for message, _ in sent(sqs, RETRY_QUEUE)] == [retry]


def test_a_message_that_a_newer_one_has_superseded_is_never_sent(
    outbox: Outbox, task: Task, admin: Connection, tenant: UUID, sqs: FakeSqs, clock: Clock
):
    newest = task(send_number=4)
    older = [newest.model_copy(update={"send_number": number}) for number in (2, 3)]
    owed(admin, tenant, *older, newest, other := task())

    assert outbox.send_unsent(created_before=clock.now) == 4  # of which two are done with

    assert [message for message, _ in sent(sqs)] == [newest]
    assert [message for message, _ in sent(sqs, QUEUE)] == [other]
    assert outbox.send_unsent(created_before=clock.now) == 0


def test_a_message_whose_task_is_no_more_is_not_sent_and_not_owed_any_longer(
    outbox: Outbox, task: Task, admin: Connection, tenant: UUID, sqs: FakeSqs, capsys: pytest.CaptureFixture[str]
):
    gone, there = task(), task()
    sends = owed(admin, tenant, gone, there)
    admin.execute("DELETE FROM task WHERE id = %s", [gone.work_id])

    outbox.send(sends)

    assert [message for message, _ in sent(sqs, QUEUE)] == [there]
    assert admin.execute("SELECT count(*) FROM outbox WHERE sent_at IS NULL").fetchone() == (0,)
    assert '"NeverSent"' in capsys.readouterr().out


def test_large_messages_are_sent_in_smaller_batches(
    outbox: Outbox, task: Task, admin: Connection, tenant: UUID, sqs: FakeSqs
):
    messages = [task(payload=json.dumps("x" * 100_000)) for _ in range(5)]
    assert outbox.send(owed(admin, tenant, *messages)) == 5
    assert [len(call[1][1]["MessageBody"]) > 100_000 for call in sqs.log] == [True] * 5


def test_a_payload_crosses_the_queue_as_it_is(
    outbox: Outbox, task: Task, admin: Connection, tenant: UUID, sqs: FakeSqs
):
    message = task(payload='{"message": "Grüße \\"née\\" 1.10"}')
    outbox.send(owed(admin, tenant, message))
    (entry,) = sqs.sent[QUEUE]
    assert "Grüße" in entry["MessageBody"]  # and not escaped, which takes more room
    assert json.loads(entry["MessageBody"])["payload"] == {"message": 'Grüße "née" 1.10'}


@pytest.mark.parametrize("seconds", [0, 0.25, 2.5, 4.99, 300])
def test_fractions_of_a_second_keep_their_mean(
    database: Database, admin: Connection, tenant: UUID, clock: Clock, sqs: FakeSqs, task: Task, seconds: float
):
    evenly = cycle([number / 100 for number in range(100)])
    outbox = Outbox(database, {"tasks": QUEUE}, clock=clock, random=lambda: next(evenly))
    due = clock.now + timedelta(seconds=seconds)
    (send,) = owe(admin, KINDS["tasks"], [(task().work_id, tenant, 1, 0)], due, NOW)
    for _ in range(100):
        admin.execute("UPDATE outbox SET sent_at = NULL")
        outbox.send([send])
    delays = [delay for _, delay in sent(sqs, QUEUE)]
    assert mean(delays) == pytest.approx(seconds, abs=0.011)
    assert max(delays) - min(delays) <= 1


# -- from the dead-letter queue ---------------------------------------------------------------------------------------


def test_a_task_that_was_never_tried_is_returned_by_its_own_policy(
    keeper_database: Database,
    clock: Clock,
    sqs: FakeSqs,
    task: Task,
    admin: Connection,
):
    outbox = Outbox(keeper_database, {"tasks": QUEUE}, {"tasks": RETRY_QUEUE}, clock=clock, random=lambda: 0.0)
    archiver = Archiver(keeper_database, outbox, RedeliverPolicy(), clock, {"tasks": RequeuePolicy()})
    message = task()

    assert archiver.settle("tasks", SQSRecord(record(task_body(message), arn=DLQ_ARN))) is None

    assert sent(sqs) == [(later(message), 2)]
    assert row(admin, message)["returns"] == 1


def test_a_task_is_exhausted_by_its_own_bound(
    keeper_database: Database, clock: Clock, outbox: Outbox, task: Task, admin: Connection,
):  # fmt: skip
    archiver = Archiver(keeper_database, outbox, RedeliverPolicy(), clock, {"tasks": RequeuePolicy()})
    over = clock.now - timedelta(seconds=1)
    lost = {"status": "in-progress", "claimed_at": NOW, "lease_expires_at": over, "claim_token": 1}
    at_its_end, with_more = task(attempts=1, max_retry=0, **lost), task(attempts=6, max_retry=9, **lost)

    for message in (at_its_end, with_more):
        archiver.settle("tasks", SQSRecord(record(task_body(message), arn=DLQ_ARN)))

    assert row(admin, at_its_end)["status"] == "failed"
    assert row(admin, with_more)["status"] == "pending"


def test_a_message_that_cannot_be_read_is_one_dead_letter_from_whichever_queue(
    run: Run, admin: Connection, outbox: Outbox, keeper_database: Database, clock: Clock, database: Database,
    sqs: FakeSqs,
):  # fmt: skip
    unread = record("not JSON", arn=RETRY_ARN)
    chosen = settings(
        worker={"name": "tasks", "timeout": 120, "start_margin": 30, "retries": "requeue"}, queue_urls={"tasks": QUEUE}
    )
    visibility = Visibility(QUEUE, RETRY_QUEUE)
    consumer = Consumer(
        chosen, done, database=database, outbox=outbox, visibility=visibility, read=read_task_message, clock=clock
    )
    consumer.handle(event(unread), Context())
    archiver = Archiver(keeper_database, outbox, RedeliverPolicy(), clock)

    archiver.settle("tasks", SQSRecord(unread | {"eventSourceARN": DLQ_ARN}))

    assert len(rows(admin, "dead_letter")) == 1


def test_work_of_other_kinds_keeps_no_successes(
    database: Database, admin: Connection, clock: Clock, sqs: FakeSqs, pending: Task
):
    good, bad = pending(), pending()

    def work(attempt: Attempt) -> Outcome:
        if attempt.work_id == bad.work_id:
            raise ServiceUnavailableError("later")
        return DONE

    make_consumer(database, work, clock).handle(event(record(good), record(bad)), Context())
    assert [(one["worker"], one["outcome"]) for one in rows(admin, "work_attempt")] == [("matching", "retry")]
