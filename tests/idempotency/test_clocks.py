"""Whose clock counts: the database's, which is one, whatever the clocks of processes say."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError

from counterfoil.db import Connection, Database
from counterfoil.idempotency import PostgresPersistence
from tests.idempotency.conftest import Time
from tests.idempotency.orders import ORDER, PLACED, Orders

HOUR = 3600.0
SKEWS = pytest.mark.parametrize(("one_by", "other_by"), [(-HOUR, 0.0), (HOUR, 0.0), (0.0, -HOUR), (0.0, HOUR)])
"""Seconds by which the clocks of two processes are wrong."""


class Processes:
    """Two processes, each with a clock of its own."""

    def __init__(
        self, time_told: Time, one_by: float, other_by: float, make: Callable[[], PostgresPersistence]
    ) -> None:
        self._time = time_told
        self._one_by, self._other_by = one_by, other_by
        self.one, self.other = (Orders(make(), left=60, expires_after_seconds=300) for _ in range(2))

    def place_one(self) -> Any:
        self._time.passed = self._one_by
        return self.one.place(order=ORDER)

    def place_other(self) -> Any:
        """May be called in the middle of the one's run."""
        before, self._time.passed = self._time.passed, self._other_by
        try:
            return self.other.place(order=ORDER)
        finally:
            self._time.passed = before

    def runs(self) -> int:
        return self.one.runs + self.other.runs


@SKEWS
def test_a_run_is_not_taken_for_lost_by_a_process_whose_clock_differs(
    time_told: Time, one_by: float, other_by: float, persistence: PostgresPersistence
) -> None:
    processes = Processes(time_told, one_by, other_by, lambda: persistence)

    def while_it_runs() -> None:
        with pytest.raises(IdempotencyAlreadyInProgressError):
            processes.place_other()

    processes.one.during = while_it_runs
    assert processes.place_one() == PLACED
    assert processes.runs() == 1


@SKEWS
def test_a_result_is_not_taken_for_expired_by_a_process_whose_clock_differs(
    time_told: Time, one_by: float, other_by: float, persistence: PostgresPersistence
) -> None:
    processes = Processes(time_told, one_by, other_by, lambda: persistence)
    processes.place_one()

    assert processes.place_other() == PLACED
    assert processes.runs() == 1


def test_by_the_clocks_of_processes_it_would_run_twice(time_told: Time, database: Database, tenant: UUID) -> None:
    processes = Processes(time_told, -HOUR, 0.0, lambda: PostgresPersistence(database, tenant, clock=time_told))
    processes.one.during = processes.place_other
    processes.place_one()

    assert processes.runs() == 2


@SKEWS
def test_what_is_over_by_the_database_s_clock_is_over_for_each_process(
    time_told: Time, one_by: float, other_by: float, persistence: PostgresPersistence, admin: Connection
) -> None:
    processes = Processes(time_told, one_by, other_by, lambda: persistence)
    processes.place_one()
    admin.execute("UPDATE idempotency SET expires_at = now() - interval '1 second'")

    assert processes.place_other() == PLACED
    assert processes.runs() == 2


@pytest.mark.parametrize("skew", [-HOUR, 0.0, HOUR])
def test_times_are_told_to_powertools_by_the_clock_of_its_process(
    time_told: Time, skew: float, persistence: PostgresPersistence
) -> None:
    processes = Processes(time_told, 0.0, skew, lambda: persistence)
    processes.place_one()
    time_told.passed = skew
    record = persistence.get_record(ORDER)

    assert record is not None
    assert record.expiry_timestamp is not None
    assert abs(record.expiry_timestamp - (time_told.seconds() + 300)) < 30  # as slow as a machine may be


def test_times_are_kept_by_the_database_s_clock(
    time_told: Time, persistence: PostgresPersistence, admin: Connection
) -> None:
    Processes(time_told, HOUR, 0.0, lambda: persistence).place_one()
    row = admin.execute(
        "SELECT claimed_at, completed_at - claimed_at, expires_at - completed_at, in_progress_until - claimed_at "
        "FROM idempotency"
    ).fetchone()

    assert row is not None
    assert abs((row[0] - datetime.now(UTC)).total_seconds()) < 30
    assert 0 <= row[1].total_seconds() < 30
    assert 298 < row[2].total_seconds() <= 300
    assert 59 < row[3].total_seconds() <= 60
