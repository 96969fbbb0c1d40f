"""Leases, due times and sends follow the server's clock, whatever the clock of the process says."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from counterfoil.db import Connection, Database, DatabaseClock
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.work import Message
from counterfoil.errors import BreakerOpenError, ServiceUnavailableError
from tests.delivery.harness import DONE, QUEUE_URL, Context, FakeSqs, event, make_consumer, record
from tests.factories import NOW

Pending = Callable[..., Message]


@pytest.fixture(params=[-3600, 3600], ids=["behind", "ahead"])
def wrong(database: Database, request: pytest.FixtureRequest) -> Database:
    """A database in a process whose clock is an hour off."""
    database.clock.local = lambda: datetime.now(UTC) + timedelta(seconds=request.param)
    return database


def seconds_until(admin: Connection, column: str) -> float:
    """Seconds until a time of the only document, by the server's clock."""
    ((seconds,),) = admin.execute(
        f"SELECT extract(epoch FROM matching_{column} - clock_timestamp())::float FROM document".encode()
    ).fetchall()
    return float(seconds)


def test_lease_lasts_by_the_server_clock(wrong: Database, admin: Connection, sqs: FakeSqs, pending: Pending) -> None:
    leases = list[float]()

    def work(attempt: TenantAttempt) -> Outcome:
        leases.append(seconds_until(admin, "lease_expires_at"))
        return DONE

    make_consumer(wrong, work, wrong.clock).handle(event(record(pending())), Context())

    assert [100 < seconds < 121 for seconds in leases] == [True]


def test_renewed_lease_lasts_by_the_server_clock(
    wrong: Database, admin: Connection, sqs: FakeSqs, pending: Pending
) -> None:
    leases = list[float]()

    def work(attempt: TenantAttempt) -> Outcome:
        admin.execute("UPDATE document SET matching_lease_expires_at = clock_timestamp()")
        heartbeat.wait_for(lambda: seconds_until(admin, "lease_expires_at") > 1, 5)
        leases.append(seconds_until(admin, "lease_expires_at"))
        return DONE

    consumer = make_consumer(wrong, work, wrong.clock, heartbeat_seconds=0.05)
    heartbeat = consumer.concurrency
    consumer.handle(event(record(pending())), Context())

    assert [100 < seconds < 121 for seconds in leases] == [True]


def test_retry_is_due_by_the_server_clock(wrong: Database, admin: Connection, sqs: FakeSqs, pending: Pending) -> None:
    def work(attempt: TenantAttempt) -> Outcome:
        raise ServiceUnavailableError("later")

    make_consumer(wrong, work, wrong.clock).handle(event(record(pending())), Context())

    assert 280 < seconds_until(admin, "next_attempt_at") < 301


def test_deferred_work_is_sent_by_the_server_clock(
    wrong: Database, admin: Connection, sqs: FakeSqs, pending: Pending
) -> None:
    def work(attempt: TenantAttempt) -> Outcome:
        raise BreakerOpenError("The breaker is open", until=attempt.now() + timedelta(seconds=60))

    make_consumer(wrong, work, wrong.clock).handle(event(record(pending())), Context())

    assert 40 < seconds_until(admin, "next_attempt_at") < 61
    assert [40 < entry["DelaySeconds"] < 62 for entry in sqs.sent[QUEUE_URL]] == [True]


def test_first_transaction_of_a_process_parks_by_the_server_clock(
    wrong: Database, admin: Connection, sqs: FakeSqs, pending: Pending
) -> None:
    make_consumer(wrong, lambda attempt: DONE, wrong.clock).handle(event(record(pending())), Context(left=20))

    assert -20 < seconds_until(admin, "next_attempt_at") < 1


def test_slow_answer_keeps_a_right_clock() -> None:
    local = iter(NOW + timedelta(seconds=second) for second in (0, 9, 9))
    clock = DatabaseClock(lambda: next(local))

    clock.set(NOW + timedelta(seconds=1), asked=clock.local())

    assert clock() == NOW + timedelta(seconds=9)


def test_server_time_is_read_once(wrong: Database) -> None:
    assert abs(wrong.now() - datetime.now(UTC)) < timedelta(seconds=20)
    wrong.close()
    assert abs(wrong.now() - datetime.now(UTC)) < timedelta(seconds=20)
