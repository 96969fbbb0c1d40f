"""Failures of settlement, threads, permits and queues lose no message."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Effects, Succeeded, TenantAttempt
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.sql import ClaimStatus
from counterfoil.delivery.work import Message, enqueue
from counterfoil.errors import RejectedRequestError
from counterfoil.kinds import WORK_KINDS
from functions.watchdog.recovery import Watchdog
from tests.delivery.harness import (
    DONE,
    QUEUE_URL,
    Clock,
    Context,
    FakeSqs,
    claim,
    event,
    fail_transiently,
    life_cycle,
    make_consumer,
    record,
    settings,
)

Pending = Callable[..., Message]
QUICK = {"name": "matching", "timeout": 120, "permits": 2, "start_margin": 119}
"""Settings for a worker that checks the remaining time within a second."""


# -- slow and failing visibility changes ------------------------------------------------------------------------------


def test_slow_visibility_change_at_deadline_reports_message(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message, context, handled = pending(), Context(), threading.Event()
    change_visibility = sqs.change_message_visibility_batch

    def change_slowly(**arguments: Any) -> Any:
        if threading.current_thread().name.startswith("matching"):  # sets the retry delay, on the attempt's thread
            context.left = 3
            assert handled.wait(10)
        return change_visibility(**arguments)

    sqs.change_message_visibility_batch = change_slowly  # type: ignore[method-assign]
    consumer = make_consumer(database, fail_transiently, clock, worker=QUICK)

    response = consumer.handle(event(record(message)), context)
    handled.set()

    assert len(response["batchItemFailures"]) == 1
    assert life_cycle(admin, message.work_id)["status"] == "pending"
    assert consumer.permits.acquire(1, timeout=10) == 1


def test_failed_visibility_change_still_reports_message(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()
    change_visibility = sqs.change_message_visibility_batch

    def fail_backoff(**arguments: Any) -> Any:
        if threading.current_thread().name.startswith("matching"):
            raise RuntimeError("can't start new thread")
        return change_visibility(**arguments)

    sqs.change_message_visibility_batch = fail_backoff  # type: ignore[method-assign]

    response = make_consumer(database, fail_transiently, clock).handle(event(record(message)), Context())

    assert len(response["batchItemFailures"]) == 1


def test_hanging_renewal_does_not_block_settlement(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message, renewing, settled = pending(), threading.Event(), threading.Event()
    change_visibility = sqs.change_message_visibility_batch

    def hang_heartbeat(**arguments: Any) -> Any:
        if threading.current_thread().name == "heartbeat":
            renewing.set()
            assert settled.wait(20)
        return change_visibility(**arguments)

    def work(attempt: TenantAttempt) -> Succeeded:
        assert renewing.wait(10)
        return DONE

    sqs.change_message_visibility_batch = hang_heartbeat  # type: ignore[method-assign]

    response = make_consumer(database, work, clock, heartbeat_interval_seconds=0.01).handle(
        event(record(message)), Context()
    )
    settled.set()

    assert response == {"batchItemFailures": []}
    assert life_cycle(admin, message.work_id)["status"] == "succeeded"


def test_system_exit_in_effects_fails_attempt(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()

    def exit_process(_connection: Connection) -> Effects:
        raise SystemExit(3)

    response = make_consumer(database, lambda _attempt: Succeeded(exit_process), clock).handle(
        event(record(message)), Context()
    )

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"]) == ("pending", 1)
    assert row["error"].startswith("Unexpected SystemExit")
    assert len(response["batchItemFailures"]) == 1


# -- exhausted permits and threads ------------------------------------------------------------------------------------


class ElapsingContext(Context):
    """A Lambda context whose remaining time drops by 0.1 s each time it is read."""

    def get_remaining_time_in_millis(self) -> int:  # type: ignore[override]
        self.left -= 0.1
        return int(self.left * 1000)


def test_hung_attempts_park_batch_and_end_process(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    process_ends, release, context = [], threading.Event(), Context()

    def hang(attempt: TenantAttempt) -> Succeeded:
        context.left = 2
        assert release.wait(10)
        return DONE

    consumer = make_consumer(database, hang, clock, worker=QUICK, on_starved=lambda: process_ends.append(True))
    consumer.handle(event(record(pending()), record(pending())), context)
    assert process_ends == []

    waiting_message = pending()
    response = consumer.handle(event(record(waiting_message)), ElapsingContext(seconds_left=119.9))
    release.set()

    assert process_ends == [True]
    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, waiting_message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 0, 1)
    assert row["next_attempt_at"] == clock.now + timedelta(seconds=300)  # delayed because no permit became free
    assert [consumer.permits.acquire(1, timeout=10) for _ in range(2)] == [1, 1]


def test_permit_starvation_parks_work_item_with_expired_lease(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, monkeypatch: pytest.MonkeyPatch
) -> None:
    expired = clock() - timedelta(seconds=1)
    message, process_ends = pending(status="in-progress", attempts=1, lease_expires_at=expired), []
    consumer = make_consumer(
        database, fail_transiently, clock, worker=QUICK, on_starved=lambda: process_ends.append(True)
    )
    release = consumer.permits.release

    def release_to_hung_attempt(permits: int = 1) -> None:
        """Give the returned permits to an attempt that never ends."""
        release(permits)
        consumer.permits.acquire(2)

    monkeypatch.setattr(consumer.permits, "release", release_to_hung_attempt)

    response = consumer.handle(event(record(message)), ElapsingContext(seconds_left=120.5))

    assert process_ends == [True]
    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 1, 1)


def test_parked_work_item_keeps_its_unsettled_attempt(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(status="in-progress", attempts=1, lease_expires_at=clock() - timedelta(minutes=5))

    response = make_consumer(database, fail_transiently, clock).handle(event(record(message)), Context(seconds_left=20))

    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["dlq_returns"], row["send_number"]) == ("pending", 1, 0, 1)
    with database.delivery() as connection:
        parked = message.model_copy(update={"send_number": 1})
        assert claim(connection, [parked], clock())[parked].status is ClaimStatus.LEASE_EXPIRED


def test_failed_thread_start_spends_no_attempt(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending() for _ in range(3)]
    consumer = make_consumer(
        database,
        lambda _attempt: DONE,
        clock,
        worker={"name": "matching", "timeout": 120, "permits": 3, "start_margin": 30},
    )
    start_thread, started = consumer.concurrency.start, []

    def fail_second_thread(name: str, function: Callable[[], None]) -> None:
        if name == "matching":
            started.append(name)
            if len(started) == 2:
                raise RuntimeError("can't start new thread")
        start_thread(name, function)

    consumer.concurrency.start = fail_second_thread  # type: ignore[method-assign]

    response = consumer.handle(event(*map(record, messages)), Context())

    states = [(row["status"], row["attempts"]) for row in (life_cycle(admin, message.work_id) for message in messages)]
    assert response == {"batchItemFailures": []}
    assert sorted(states) == [("pending", 0), ("succeeded", 1), ("succeeded", 1)]
    assert consumer.permits.acquire(3) == 3


# -- missing queues ---------------------------------------------------------------------------------------------------


def enqueue_overdue(admin: Connection, worker: str, clock: Clock) -> None:
    hour_ago = clock() - timedelta(hours=1)
    enqueue(admin, WORK_KINDS[worker], [(uuid4(), None, 1, 0)], hour_ago, hour_ago)


def test_missing_queue_does_not_block_other_queues(
    maintenance_database: Database, admin: Connection, sqs: FakeSqs, clock: Clock
) -> None:
    queues = {"ingestion": "http://127.0.0.1/gone", "matching": QUEUE_URL}
    enqueue_overdue(admin, "ingestion", clock)
    enqueue_overdue(admin, "matching", clock)
    send_batch, get_attributes = sqs.send_message_batch, sqs.get_queue_attributes

    def reject_missing_queue(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(**arguments: Any) -> Any:
            if arguments["QueueUrl"].endswith("gone"):
                raise RejectedRequestError("QueueDoesNotExist")
            return call(**arguments)

        return wrapper

    sqs.send_message_batch = reject_missing_queue(send_batch)  # type: ignore[method-assign]
    sqs.get_queue_attributes = reject_missing_queue(get_attributes)  # type: ignore[method-assign]
    outbox = Outbox(maintenance_database, queues, clock=clock)

    stats = Watchdog(settings(queue_urls=queues), maintenance_database, outbox, clock).run()

    assert stats.sent == 1
    assert len(sqs.sent[QUEUE_URL]) == 1


def test_removed_worker_does_not_block_outbox(
    maintenance_database: Database, admin: Connection, sqs: FakeSqs, clock: Clock
) -> None:
    yesterday = clock() - timedelta(days=1)
    admin.execute(
        "INSERT INTO outbox (worker, work_id, revision, send_number, scheduled_at, created_at) "
        "SELECT 'retired', gen_random_uuid(), 1, 0, %s, %s FROM generate_series(1, 1000)",
        [yesterday, yesterday],
    )
    enqueue_overdue(admin, "matching", clock)
    config = settings()

    stats = Watchdog(
        config, maintenance_database, Outbox(maintenance_database, config.queue_urls, clock=clock), clock
    ).run()

    assert stats.sent == 1
