"""Database outages, unknown commit outcomes, and the heartbeat."""

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from threading import Event
from time import monotonic
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from cli.local.postgres import Server
from counterfoil import db
from counterfoil.db import Connection, Database
from counterfoil.delivery import claims
from counterfoil.delivery.attempt import Attempt, Effects, Outcome, Skipped, Succeeded, TenantAttempt
from counterfoil.delivery.concurrency import Threads
from counterfoil.delivery.heartbeat import Heartbeat, ReceivedMessage, Visibility, clamp_visibility
from counterfoil.delivery.work import Message, ParsedMessage
from counterfoil.errors import ConflictError, DatabaseUnavailableError, InvalidMessageError, StaleClaimError
from counterfoil.kinds import WORK_KINDS
from tests import faulty_servers
from tests.delivery.harness import (
    DONE,
    QUEUE_URL,
    Clock,
    Context,
    FakeSqs,
    Flaky,
    commit_unknown,
    database_unavailable,
    event,
    life_cycle,
    make_consumer,
    record,
    rows,
    succeed,
)

Pending = Callable[..., Message]


def test_rolled_back_settlement_is_repeated(
    flaky_database: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Callable[..., Message]
) -> None:
    message = pending()
    flaky_database.fail_tenant = [commit_unknown]

    response = make_consumer(flaky_database, lambda attempt: DONE, clock).handle(event(record(message)), Context())

    assert response == {"batchItemFailures": []}
    assert life_cycle(admin, message.work_id)["status"] == "succeeded"


def test_committed_but_unconfirmed_settlement_is_not_repeated(
    flaky_database: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Callable[..., Message]
) -> None:
    message, runs = pending(), []

    def work(attempt: TenantAttempt) -> Succeeded:
        def effects(connection: Connection) -> Effects:
            runs.append(attempt.number)
            return Effects()

        return Succeeded(effects)

    flaky_database.commit_then_fail = True
    flaky_database.fail_tenant = [commit_unknown]

    response = make_consumer(flaky_database, work, clock).handle(event(record(message)), Context())

    assert response == {"batchItemFailures": []}
    assert runs == [1]
    assert life_cycle(admin, message.work_id)["status"] == "succeeded"


def test_stale_attempt_changes_nothing_after_lost_commit(
    flaky_database: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()

    def take_over() -> None:
        admin.execute("UPDATE document SET matching_claim_token = nextval('claim_token')")

    def work(attempt: TenantAttempt) -> Succeeded:
        flaky_database.fail_tenant, flaky_database.fail_delivery = [commit_unknown], [take_over]
        return DONE

    response = make_consumer(flaky_database, work, clock).handle(event(record(message)), Context())

    assert len(response["batchItemFailures"]) == 1
    assert life_cycle(admin, message.work_id)["status"] == "in-progress"


def test_unconfirmed_claim_is_recognized_by_token(
    flaky_database: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Callable[..., Message]
) -> None:
    message = pending()
    flaky_database.commit_then_fail = True
    flaky_database.fail_delivery = [commit_unknown]

    response = make_consumer(flaky_database, lambda attempt: DONE, clock).handle(event(record(message)), Context())

    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"]) == ("succeeded", 1)


def test_rolled_back_claim_reports_message(
    flaky_database: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Callable[..., Message]
) -> None:
    message = pending()
    flaky_database.fail_delivery = [commit_unknown]

    response = make_consumer(flaky_database, lambda attempt: DONE, clock).handle(
        event(record(message, handle="it")), Context()
    )

    assert len(response["batchItemFailures"]) == 1
    assert sqs.visibility["it"] == 300
    assert life_cycle(admin, message.work_id)["status"] == "pending"


@pytest.mark.parametrize(("receives", "visible_in"), [(1, 300), (2, 1800), (3, 300)])
def test_database_outage_delays_messages_by_receive_count(
    flaky_database: Flaky, sqs: FakeSqs, clock: Clock, pending: Callable[..., Message], receives: int, visible_in: int
) -> None:
    message = pending()
    flaky_database.fail_delivery = [database_unavailable] * 9

    response = make_consumer(flaky_database, lambda attempt: DONE, clock).handle(
        event(record(message, receives=receives, handle="it")), Context()
    )

    assert len(response["batchItemFailures"]) == 1
    # The third receive does not change the timeout, because SQS then moves the message to the DLQ.
    assert sqs.visibility["it"] == visible_in


@pytest.mark.parametrize("named", [0, 2])
def test_outage_reports_invalid_and_unsplit_messages(
    flaky_database: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, named: int
) -> None:
    messages = [pending() for _ in range(named)]
    flaky_database.fail_delivery = [database_unavailable] * 9

    def read(body: str) -> ParsedMessage:
        if not messages:
            raise InvalidMessageError("It names no work item")
        return ParsedMessage(messages)

    response = make_consumer(flaky_database, succeed, clock, read=read).handle(
        event(record("{}", handle="it")), Context()
    )

    assert len(response["batchItemFailures"]) == 1
    assert sqs.visibility["it"] == 300
    assert rows(admin, "outbox") == rows(admin, "dead_letter") == []


def test_failed_settlement_reports_message(
    flaky_database: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    consumer, other_message = make_consumer(flaky_database, succeed, clock), pending()
    flaky_database.fail_tenant = [ZeroDivisionError] * 4  # success and then failure of both messages

    response = consumer.handle(event(record(pending()), record(pending())), Context())

    assert len(response["batchItemFailures"]) == 2
    # The permits are free again.
    assert consumer.handle(event(record(other_message)), Context()) == {"batchItemFailures": []}
    assert life_cycle(admin, other_message.work_id)["status"] == "succeeded"


def test_conflicting_settlement_is_repeated(
    flaky_database: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Callable[..., Message]
) -> None:
    message = pending()
    flaky_database.fail_tenant = [lambda: ConflictError("deadlock")] * 2

    response = make_consumer(flaky_database, lambda attempt: DONE, clock).handle(event(record(message)), Context())

    assert response == {"batchItemFailures": []}
    assert life_cycle(admin, message.work_id)["status"] == "succeeded"


def test_unsettled_attempt_stays_in_progress_and_reports_message(
    flaky_database: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Callable[..., Message]
) -> None:
    message = pending()
    flaky_database.fail_tenant = [database_unavailable] * 9

    response = make_consumer(flaky_database, lambda attempt: DONE, clock).handle(
        event(record(message, handle="it")), Context()
    )

    assert len(response["batchItemFailures"]) == 1
    assert sqs.visibility["it"] == 300
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"]) == ("in-progress", 1)  # until the lease expires
    assert rows(admin, "dead_letter") == []


def make_attempt(database: Database, message: Message, token: int, clock: Clock) -> Attempt:
    return Attempt(
        work_id=message.work_id,
        tenant_id=None,
        revision=1,
        number=1,
        token=token,
        database=database,
        now=clock,
    )


def make_heartbeat(database: Database, clock: Clock, interval: float = 3600) -> Heartbeat:
    return Heartbeat(
        kind=WORK_KINDS["matching"],
        database=database,
        visibility=Visibility(QUEUE_URL),
        min_visibility_seconds=lambda: 300,
        lease=timedelta(seconds=120),
        interval=interval,
        clock=clock,
        concurrency=Threads(),
    )


def test_heartbeat_renews_leases_and_stops_stale_attempts(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Callable[..., Message]
) -> None:
    current = pending(status="in-progress", claim_token=5, lease_expires_at=clock.now)
    stale = pending(status="in-progress", claim_token=9, lease_expires_at=clock.now)
    received = [
        ReceivedMessage(SQSRecord(record(message, handle=str(message.work_id))), clock.now)
        for message in (current, stale)
    ]
    attempts = [make_attempt(database, message, 5, clock) for message in (current, stale)]
    heartbeat = make_heartbeat(database, clock)
    for item, attempt in zip(received, attempts, strict=True):
        heartbeat.watch(item)
        heartbeat.watch_attempt(item, attempt)

    clock.advance(seconds=30)
    heartbeat.renew_once()

    assert sqs.visibility == {str(current.work_id): 300, str(stale.work_id): 300}
    assert life_cycle(admin, current.work_id)["lease_expires_at"] == clock.now + timedelta(seconds=120)
    attempts[0].deadline.check()
    with pytest.raises(StaleClaimError):
        attempts[1].deadline.check()


def test_lease_of_unprotected_message_is_not_renewed(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Callable[..., Message]
) -> None:
    message = pending(status="in-progress", claim_token=5, lease_expires_at=clock.now)
    received = ReceivedMessage(SQSRecord(record(message, handle="it")), clock.now)
    heartbeat = make_heartbeat(database, clock)
    heartbeat.watch(received)
    heartbeat.watch_attempt(received, make_attempt(database, message, 5, clock))
    sqs.refuse_visibility = {"it": 2}

    heartbeat.renew_once()

    assert life_cycle(admin, message.work_id)["lease_expires_at"] == clock.now


def test_heartbeat_extends_visibility_during_database_outage(
    flaky_database: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(status="in-progress", claim_token=5, lease_expires_at=clock.now)
    received, attempt = (
        ReceivedMessage(SQSRecord(record(message, handle="it")), clock.now),
        make_attempt(flaky_database, message, 5, clock),
    )
    heartbeat = make_heartbeat(flaky_database, clock)
    heartbeat.watch(received)
    heartbeat.watch_attempt(received, attempt)
    flaky_database.fail_delivery = [database_unavailable]

    heartbeat.renew_once()

    assert sqs.visibility == {"it": 300}
    assert life_cycle(admin, message.work_id)["lease_expires_at"] == clock.now
    attempt.deadline.check()


def test_heartbeat_continues_after_failed_renewal(
    database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeat, beats, beat_again = make_heartbeat(database, clock, interval=0), count(), Event()

    def fail_once() -> None:
        if next(beats) == 0:
            raise ZeroDivisionError
        beat_again.set()

    monkeypatch.setattr(heartbeat, "renew_once", fail_once)
    with heartbeat:
        assert beat_again.wait(10)


def test_released_message_is_not_renewed(database: Database, sqs: FakeSqs, clock: Clock, pending: Any) -> None:
    received = ReceivedMessage(SQSRecord(record(pending())), clock.now)
    heartbeat = make_heartbeat(database, clock)
    heartbeat.watch(received)
    heartbeat.release(received)

    heartbeat.renew_once()

    assert sqs.log == []


def test_visibility_timeout_is_limited_to_twelve_hours(clock: Clock) -> None:
    received_at = clock.now

    assert clamp_visibility(300, received_at, received_at) == 300
    assert clamp_visibility(300, received_at, received_at + timedelta(hours=11, minutes=58)) == 60
    assert clamp_visibility(300, received_at, received_at + timedelta(hours=13)) == 0


def test_releasing_duplicate_does_not_stop_first_messages_renewal(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(status="in-progress", claim_token=5, lease_expires_at=clock.now)
    raw = record(message)
    first, second = (
        ReceivedMessage(SQSRecord(raw | {"receiptHandle": handle}), clock.now) for handle in ("first", "second")
    )
    heartbeat = make_heartbeat(database, clock)
    heartbeat.watch(first)
    heartbeat.watch(second)
    heartbeat.watch_attempt(first, make_attempt(database, message, 5, clock))

    heartbeat.release(second)  # as if the work item were already running
    heartbeat.renew_once()

    assert sqs.visibility == {"first": 300}
    assert life_cycle(admin, message.work_id)["lease_expires_at"] == clock.now + timedelta(seconds=120)


def test_duplicate_delivery_in_batch_runs_once(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()
    raw = record(message)
    attempt_numbers: list[int] = []

    def work(attempt: TenantAttempt) -> Outcome:
        attempt_numbers.append(attempt.number)
        return Skipped("seen")

    batch = event(*(raw | {"receiptHandle": handle} for handle in ("first", "second")))
    response = make_consumer(database, work, clock).handle(batch, Context())

    assert attempt_numbers == [1]
    assert response == {"batchItemFailures": [{"itemIdentifier": raw["messageId"]}]}
    assert sqs.visibility == {"first": 300, "second": 300}  # both receives are protected


def test_claim_on_hung_database_times_out(
    postgres: Server, migrated_database: str, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(claims, "SHORT_TRANSACTION_SECONDS", 0.3)
    monkeypatch.setattr(db, "SERVER_GRACE_SECONDS", 0.2)
    messages = [pending(), pending()]
    with faulty_servers.cutting_proxy(postgres.port) as proxy:
        database = Database(f"postgresql://counterfoil_worker@{faulty_servers.HOST}:{proxy.port}/{migrated_database}")
        with database.delivery() as connection:
            connection.execute("SELECT 1")
        proxy.responding.clear()
        start = monotonic()

        response = make_consumer(database, lambda attempt: DONE, clock).handle(event(*map(record, messages)), Context())

        assert monotonic() - start < 5
        database.close()
    assert len(response["batchItemFailures"]) == 2
    assert [life_cycle(admin, item.work_id)["attempts"] for item in messages] == [0, 0]
    assert set(sqs.visibility.values()) == {300}


def test_lost_connection_spends_no_attempt(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message, runs = pending(), list[int]()

    def work(attempt: TenantAttempt) -> Outcome:
        runs.append(attempt.number)
        with database.tenant(attempt.tenant_id) as connection:
            (backend_pid,) = connection.execute("SELECT pg_backend_pid()").fetchall()[0]
            if len(runs) == 1:  # as if the database restarted, or another thread held the GIL too long
                admin.execute("SELECT pg_terminate_backend(%s, 5000)", [backend_pid])
            connection.execute("SELECT 1")
        return DONE

    response = make_consumer(database, work, clock).handle(event(record(message)), Context())

    assert response == {"batchItemFailures": []}
    assert runs == [1, 1]
    assert (life_cycle(admin, message.work_id)["status"], rows(admin, "work_attempt")) == ("succeeded", [])


def test_second_connection_loss_fails_attempt(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message, runs = pending(), list[int]()

    def work(attempt: TenantAttempt) -> Outcome:
        runs.append(attempt.number)
        raise DatabaseUnavailableError("PostgreSQL is unavailable")

    response = make_consumer(database, work, clock).handle(event(record(message)), Context())

    row = life_cycle(admin, message.work_id)
    assert len(response["batchItemFailures"]) == 1
    assert (runs, row["status"], row["attempts"]) == ([1, 1], "pending", 1)


def test_attempt_is_not_repeated_without_time_left(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message, runs, context = pending(), list[int](), Context()

    def work(attempt: TenantAttempt) -> Outcome:
        runs.append(attempt.number)
        context.left = 9
        raise DatabaseUnavailableError("PostgreSQL is unavailable")

    make_consumer(database, work, clock).handle(event(record(message)), context)

    assert (runs, life_cycle(admin, message.work_id)["attempts"]) == ([1], 1)
