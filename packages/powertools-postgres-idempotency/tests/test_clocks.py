"""Expiry depends on the database clock, not on process clocks."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError
from psycopg_pool import ConnectionPool

from harness import ORDER, PLACED, Connection, Orders, Time
from powertools_postgres_idempotency import PostgresPersistence

HOUR = 3600.0
SKEWS = pytest.mark.parametrize(("first_skew", "second_skew"), [(-HOUR, 0.0), (HOUR, 0.0), (0.0, -HOUR), (0.0, HOUR)])
"""Clock skew of the first and second process, in seconds."""


class Processes:
    """Two processes with different clocks."""

    def __init__(
        self, clock: Time, first_skew: float, second_skew: float, make: Callable[[], PostgresPersistence]
    ) -> None:
        self._time = clock
        self._first_skew, self._second_skew = first_skew, second_skew
        self.first, self.second = (Orders(make(), seconds_left=60, expires_after_seconds=300) for _ in range(2))

    def place_first(self) -> Any:
        self._time.passed = self._first_skew
        return self.first.place(order=ORDER)

    def place_second(self) -> Any:
        """Place the order in the second process. The first may still be running."""
        before, self._time.passed = self._time.passed, self._second_skew
        try:
            return self.second.place(order=ORDER)
        finally:
            self._time.passed = before

    def runs(self) -> int:
        return self.first.runs + self.second.runs


@SKEWS
def test_running_function_survives_clock_skew(
    clock: Time, first_skew: float, second_skew: float, store: PostgresPersistence
) -> None:
    processes = Processes(clock, first_skew, second_skew, lambda: store)

    def call_during_run() -> None:
        with pytest.raises(IdempotencyAlreadyInProgressError):
            processes.place_second()

    processes.first.during = call_during_run
    assert processes.place_first() == PLACED
    assert processes.runs() == 1


@SKEWS
def test_result_survives_clock_skew(
    clock: Time, first_skew: float, second_skew: float, store: PostgresPersistence
) -> None:
    processes = Processes(clock, first_skew, second_skew, lambda: store)
    processes.place_first()

    assert processes.place_second() == PLACED
    assert processes.runs() == 1


def test_process_clock_skew_causes_second_run(clock: Time, pool: ConnectionPool[Connection]) -> None:
    processes = Processes(clock, -HOUR, 0.0, lambda: PostgresPersistence(pool.connection, clock=clock))
    processes.first.during = processes.place_second
    processes.place_first()

    assert processes.runs() == 2


@SKEWS
def test_database_clock_decides_expiry(
    clock: Time, first_skew: float, second_skew: float, store: PostgresPersistence, admin: Connection
) -> None:
    processes = Processes(clock, first_skew, second_skew, lambda: store)
    processes.place_first()
    admin.execute("UPDATE idempotency SET expires_at = now() - interval '1 second'")

    assert processes.place_second() == PLACED
    assert processes.runs() == 2


@pytest.mark.parametrize("skew", [-HOUR, 0.0, HOUR])
def test_times_are_converted_to_process_clock(clock: Time, skew: float, store: PostgresPersistence) -> None:
    processes = Processes(clock, 0.0, skew, lambda: store)
    processes.place_first()
    clock.passed = skew
    record = store.get_record(ORDER)

    assert record is not None
    assert record.expiry_timestamp is not None
    assert abs(record.expiry_timestamp - (clock.seconds() + 300)) < 30  # for a slow machine


def test_stored_times_use_database_clock(clock: Time, store: PostgresPersistence, admin: Connection) -> None:
    Processes(clock, HOUR, 0.0, lambda: store).place_first()
    row = admin.execute(
        "SELECT claimed_at, completed_at - claimed_at, expires_at - completed_at, in_progress_until - claimed_at "
        "FROM idempotency"
    ).fetchone()

    assert row is not None
    assert abs((row[0] - datetime.now(UTC)).total_seconds()) < 30
    assert 0 <= row[1].total_seconds() < 30
    assert 298 < row[2].total_seconds() <= 300
    assert 59 < row[3].total_seconds() <= 60
