"""What breaks down around a record: its verdict, its thread, its permit, its queue. No message goes with it."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Effects, Succeeded, TenantAttempt
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.sql import Answer
from counterfoil.delivery.work import Message, enqueue
from counterfoil.errors import RejectedRequestError
from counterfoil.kinds import KINDS
from functions.watchdog.recovery import Watchdog
from tests.delivery.harness import (
    DONE,
    QUEUE_URL,
    Clock,
    Context,
    FakeSqs,
    claim,
    event,
    fails,
    life_cycle,
    make_consumer,
    record,
    settings,
)

Pending = Callable[..., Message]
QUICK = {"name": "matching", "timeout": 120, "permits": 2, "start_margin": 119}
"""A worker whose loop looks at the clock as soon as it is under way."""


# -- slow and broken verdicts -----------------------------------------------------------------------------------------


def test_a_verdict_that_is_still_being_carried_out_at_the_deadline_keeps_its_message(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message, context, answered = pending(), Context(), threading.Event()
    change = sqs.change_message_visibility_batch

    def slow(**call: Any) -> Any:
        if threading.current_thread().name.startswith("matching"):  # the backoff, on the record's own thread
            context.left = 3
            assert answered.wait(10)
        return change(**call)

    sqs.change_message_visibility_batch = slow  # type: ignore[method-assign]
    consumer = make_consumer(database, fails, clock, worker=QUICK)

    response = consumer.handle(event(record(message)), context)
    answered.set()

    assert len(response["batchItemFailures"]) == 1
    assert life_cycle(admin, message.work_id)["status"] == "pending"
    assert consumer.gate.take(1, timeout=10) == 1


def test_a_backoff_that_breaks_costs_time_and_not_the_message(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()
    change = sqs.change_message_visibility_batch

    def broken(**call: Any) -> Any:
        if threading.current_thread().name.startswith("matching"):
            raise RuntimeError("can't start new thread")
        return change(**call)

    sqs.change_message_visibility_batch = broken  # type: ignore[method-assign]

    response = make_consumer(database, fails, clock).handle(event(record(message)), Context())

    assert len(response["batchItemFailures"]) == 1


def test_a_renewal_that_hangs_does_not_hold_up_a_verdict(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message, renewing, verdict = pending(), threading.Event(), threading.Event()
    change = sqs.change_message_visibility_batch

    def hang(**call: Any) -> Any:
        if threading.current_thread().name == "heartbeat":
            renewing.set()
            assert verdict.wait(20)
        return change(**call)

    def work(attempt: TenantAttempt) -> Succeeded:
        assert renewing.wait(10)
        return DONE

    sqs.change_message_visibility_batch = hang  # type: ignore[method-assign]

    response = make_consumer(database, work, clock, heartbeat_seconds=0.01).handle(event(record(message)), Context())
    verdict.set()

    assert response == {"batchItemFailures": []}
    assert life_cycle(admin, message.work_id)["status"] == "succeeded"


def test_effects_that_leave_by_any_door_are_a_failed_try(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()

    def leave(_connection: Connection) -> Effects:
        raise SystemExit(3)

    response = make_consumer(database, lambda _attempt: Succeeded(leave), clock).handle(
        event(record(message)), Context()
    )

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"]) == ("pending", 1)
    assert row["error"].startswith("Unexpected SystemExit")
    assert len(response["batchItemFailures"]) == 1


# -- permits and threads that are taken -------------------------------------------------------------------------------


class Running(Context):
    """A context whose time runs: a tenth of a second passes at each look."""

    def get_remaining_time_in_millis(self) -> int:  # type: ignore[override]
        self.left -= 0.1
        return int(self.left * 1000)


def test_a_process_whose_permits_are_all_held_by_hung_tries_parks_its_batch_and_ends(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    ended, release, context = [], threading.Event(), Context()

    def hang(attempt: TenantAttempt) -> Succeeded:
        context.left = 2
        assert release.wait(10)
        return DONE

    consumer = make_consumer(database, hang, clock, worker=QUICK, on_starved=lambda: ended.append(True))
    consumer.handle(event(record(pending()), record(pending())), context)
    assert ended == []

    waiting = pending()
    response = consumer.handle(event(record(waiting)), Running(left=119.9))
    release.set()

    assert ended == [True]
    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, waiting.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 0, 1)
    assert row["next_attempt_at"] == clock.now + timedelta(seconds=300)  # no room here now, nor soon
    assert [consumer.gate.take(1, timeout=10) for _ in range(2)] == [1, 1]


def test_work_to_be_run_alone_starves_like_any_other_where_no_permit_is_left(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, monkeypatch: pytest.MonkeyPatch
) -> None:
    lapsed = clock() - timedelta(seconds=1)
    message, ended = pending(status="in-progress", attempts=1, lease_expires_at=lapsed), []
    consumer = make_consumer(database, fails, clock, worker=QUICK, on_starved=lambda: ended.append(True))
    give_back = consumer.gate.give_back

    def taken_by_a_hung_try(permits: int = 1) -> None:
        """The permits that asking for the claim gives back go to a try that never ends."""
        give_back(permits)
        consumer.gate.take(2)

    monkeypatch.setattr(consumer.gate, "give_back", taken_by_a_hung_try)

    response = consumer.handle(event(record(message)), Running(left=120.5))

    assert ended == [True]
    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 1, 1)


def test_work_that_never_settled_is_parked_without_time_and_keeps_its_mark(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(status="in-progress", attempts=1, lease_expires_at=clock() - timedelta(minutes=5))

    response = make_consumer(database, fails, clock).handle(event(record(message)), Context(left=20))

    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["returns"], row["send_number"]) == ("pending", 1, 0, 1)
    with database.delivery() as connection:
        parked = message.model_copy(update={"send_number": 1})
        assert claim(connection, [parked], clock())[parked].answer is Answer.UNSETTLED


def test_a_record_that_no_thread_can_be_started_for_was_no_try(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending() for _ in range(3)]
    consumer = make_consumer(
        database,
        lambda _attempt: DONE,
        clock,
        worker={"name": "matching", "timeout": 120, "permits": 3, "start_margin": 30},
    )
    begin, begun = consumer.concurrency.begin, []

    def refuse_the_second(name: str, function: Callable[[], None]) -> None:
        if name == "matching":
            begun.append(name)
            if len(begun) == 2:
                raise RuntimeError("can't start new thread")
        begin(name, function)

    consumer.concurrency.begin = refuse_the_second  # type: ignore[method-assign]

    response = consumer.handle(event(*map(record, messages)), Context())

    states = [(row["status"], row["attempts"]) for row in (life_cycle(admin, one.work_id) for one in messages)]
    assert response == {"batchItemFailures": []}
    assert sorted(states) == [("pending", 0), ("succeeded", 1), ("succeeded", 1)]
    assert consumer.gate.take(3) == 3


# -- queues that refuse -----------------------------------------------------------------------------------------------


def owed(admin: Connection, worker: str, clock: Clock) -> None:
    hour_ago = clock() - timedelta(hours=1)
    enqueue(admin, KINDS[worker], [(uuid4(), None, 1, 0)], hour_ago, hour_ago)


def test_a_queue_that_refuses_does_not_hold_up_the_others(
    keeper_database: Database, admin: Connection, sqs: FakeSqs, clock: Clock
) -> None:
    queues = {"ingestion": "http://127.0.0.1/gone", "matching": QUEUE_URL}
    owed(admin, "ingestion", clock)
    owed(admin, "matching", clock)
    send, ask = sqs.send_message_batch, sqs.get_queue_attributes

    def refuse(call: Callable[..., Any]) -> Callable[..., Any]:
        def called(**arguments: Any) -> Any:
            if arguments["QueueUrl"].endswith("gone"):
                raise RejectedRequestError("QueueDoesNotExist")
            return call(**arguments)

        return called

    sqs.send_message_batch, sqs.get_queue_attributes = refuse(send), refuse(ask)  # type: ignore[method-assign]
    outbox = Outbox(keeper_database, queues, clock=clock)

    recovered = Watchdog(settings(queue_urls=queues), keeper_database, outbox, clock).run()

    assert recovered.sent == 1
    assert len(sqs.sent[QUEUE_URL]) == 1


def test_rows_of_a_worker_that_is_gone_leave_room_for_the_others(
    keeper_database: Database, admin: Connection, sqs: FakeSqs, clock: Clock
) -> None:
    long_ago = clock() - timedelta(days=1)
    admin.execute(
        "INSERT INTO outbox (worker, work_id, revision, send_number, not_before, created_at) "
        "SELECT 'retired', gen_random_uuid(), 1, 0, %s, %s FROM generate_series(1, 1000)",
        [long_ago, long_ago],
    )
    owed(admin, "matching", clock)
    chosen = settings()

    recovered = Watchdog(chosen, keeper_database, Outbox(keeper_database, chosen.queue_urls, clock=clock), clock).run()

    assert recovered.sent == 1
