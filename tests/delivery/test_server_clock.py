"""Leases, due times and send times use the database server's clock."""

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
def skewed_database(database: Database, request: pytest.FixtureRequest) -> Database:
    """Database client in a process whose clock is an hour behind or ahead."""
    database.clock.local = lambda: datetime.now(UTC) + timedelta(seconds=request.param)
    return database


def seconds_until(admin: Connection, column: str) -> float:
    """Return the seconds until the time in `column`, by the server's clock.

    The only document is read. `column` omits the prefix `matching_`.
    """
    ((seconds,),) = admin.execute(
        f"SELECT extract(epoch FROM matching_{column} - clock_timestamp())::float FROM document".encode()
    ).fetchall()
    return float(seconds)


def test_lease_uses_server_clock(skewed_database: Database, admin: Connection, sqs: FakeSqs, pending: Pending) -> None:
    leases = list[float]()

    def work(attempt: TenantAttempt) -> Outcome:
        leases.append(seconds_until(admin, "lease_expires_at"))
        return DONE

    make_consumer(skewed_database, work, skewed_database.clock).handle(event(record(pending())), Context())

    assert [100 < seconds < 121 for seconds in leases] == [True]


def test_renewed_lease_uses_server_clock(
    skewed_database: Database, admin: Connection, sqs: FakeSqs, pending: Pending
) -> None:
    leases = list[float]()

    def work(attempt: TenantAttempt) -> Outcome:
        admin.execute("UPDATE document SET matching_lease_expires_at = clock_timestamp()")
        heartbeat.wait_for(lambda: seconds_until(admin, "lease_expires_at") > 1, 5)
        leases.append(seconds_until(admin, "lease_expires_at"))
        return DONE

    consumer = make_consumer(skewed_database, work, skewed_database.clock, heartbeat_interval_seconds=0.05)
    heartbeat = consumer.concurrency
    consumer.handle(event(record(pending())), Context())

    assert [100 < seconds < 121 for seconds in leases] == [True]


def test_retry_due_time_uses_server_clock(
    skewed_database: Database, admin: Connection, sqs: FakeSqs, pending: Pending
) -> None:
    def work(attempt: TenantAttempt) -> Outcome:
        raise ServiceUnavailableError("later")

    make_consumer(skewed_database, work, skewed_database.clock).handle(event(record(pending())), Context())

    assert 280 < seconds_until(admin, "next_attempt_at") < 301


def test_deferral_uses_server_clock(
    skewed_database: Database, admin: Connection, sqs: FakeSqs, pending: Pending
) -> None:
    def defer(attempt: TenantAttempt) -> Outcome:
        raise BreakerOpenError("The breaker is open", until=attempt.now() + timedelta(seconds=60))

    make_consumer(skewed_database, defer, skewed_database.clock).handle(event(record(pending())), Context())

    assert 40 < seconds_until(admin, "next_attempt_at") < 61
    assert [40 < entry["DelaySeconds"] < 62 for entry in sqs.sent[QUEUE_URL]] == [True]


def test_parking_uses_server_clock(
    skewed_database: Database, admin: Connection, sqs: FakeSqs, pending: Pending
) -> None:
    make_consumer(skewed_database, lambda attempt: DONE, skewed_database.clock).handle(
        event(record(pending())), Context(seconds_left=20)
    )

    assert -20 < seconds_until(admin, "next_attempt_at") < 1


def test_slow_response_does_not_shift_clock() -> None:
    local = iter(NOW + timedelta(seconds=second) for second in (0, 9, 9))
    clock = DatabaseClock(lambda: next(local))

    clock.set(NOW + timedelta(seconds=1), requested_at=clock.local())

    assert clock() == NOW + timedelta(seconds=9)


def test_server_time_is_read_once(skewed_database: Database) -> None:
    assert abs(skewed_database.now() - datetime.now(UTC)) < timedelta(seconds=20)
    skewed_database.close()
    assert abs(skewed_database.now() - datetime.now(UTC)) < timedelta(seconds=20)
