"""A slow destination cannot use all permits.

Deferred deliveries spend no attempt.
"""

from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.errors import BreakerOpenError, DeferredError, ServiceUnavailableError
from functions.document_output.limiter import (
    MAX_SLOW_CALLS,
    SLOW_MEMORY_SECONDS,
    SLOW_SECONDS,
    WAIT,
    DestinationLimiter,
)
from infra.worker_table import WORKERS
from tests.delivery.harness import Clock, FakeSqs
from tests.functions.output_harness import OutputHarness
from tests.llm.server import Raw, Server

SLOW, QUICK = UUID(int=1), UUID(int=2)
NOW = datetime(2026, 3, 2, 8, tzinfo=UTC)


class Seconds:
    """Clock whose time in seconds is set by the test."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def call(limiter: DestinationLimiter, seconds: Seconds, destination: UUID, duration: float) -> None:
    with limiter.slot(destination, "office", NOW):
        seconds.now += duration


def count_granted_slots(limiter: DestinationLimiter, destination: UUID, requested: int) -> int:
    """Return how many of `requested` concurrent calls are permitted to a destination."""
    with ExitStack() as open_slots:
        for number in range(requested):
            try:
                open_slots.enter_context(limiter.slot(destination, "office", NOW))
            except DeferredError:
                return number
    return requested


def test_slow_destination_may_use_half_the_permits():
    (row,) = [row for row in WORKERS if row.name == "document_output"]
    assert row.permits == 2 * MAX_SLOW_CALLS


def test_only_slow_destination_is_limited():
    limiter = DestinationLimiter(seconds := Seconds())
    call(limiter, seconds, SLOW, SLOW_SECONDS + 1)
    call(limiter, seconds, QUICK, SLOW_SECONDS - 1)
    assert (count_granted_slots(limiter, SLOW, 4), count_granted_slots(limiter, QUICK, 4)) == (MAX_SLOW_CALLS, 4)


@pytest.mark.parametrize("later", [True, False])
def test_limit_ends_after_fast_response_or_one_minute(later: bool):
    limiter = DestinationLimiter(seconds := Seconds())
    call(limiter, seconds, SLOW, SLOW_SECONDS + 1)
    if later:
        seconds.now += SLOW_MEMORY_SECONDS
    else:
        call(limiter, seconds, SLOW, 0.1)
    assert count_granted_slots(limiter, SLOW, 4) == 4


def test_skipped_call_is_not_a_fast_response():
    """A call is skipped if the breaker is open or no time is left."""
    limiter = DestinationLimiter(seconds := Seconds())
    call(limiter, seconds, SLOW, SLOW_SECONDS + 1)
    with pytest.raises(BreakerOpenError), limiter.slot(SLOW, "office", NOW):
        raise BreakerOpenError("Unavailable", until=NOW)
    assert count_granted_slots(limiter, SLOW, 4) == MAX_SLOW_CALLS


def test_slow_failure_counts_as_a_slow_call():
    limiter = DestinationLimiter(seconds := Seconds())
    with suppress(ServiceUnavailableError), limiter.slot(SLOW, "office", NOW):
        seconds.now += SLOW_SECONDS + 1
        raise ServiceUnavailableError("No answer within 20 seconds")
    assert count_granted_slots(limiter, SLOW, 4) == MAX_SLOW_CALLS


def test_delivery_without_free_slot_spends_no_attempt(
    database: Database, admin: Connection, clock: Clock, tenant: UUID, sqs: FakeSqs
):
    output = OutputHarness(database, admin, clock, tenant)
    limiter = DestinationLimiter(seconds := Seconds())
    output.dependencies = replace(output.dependencies, limiter=limiter)
    with Server() as slow_server, Server() as fast_server, ExitStack() as open_slots:
        output.webhook(slow_server.url, "slow")
        output.webhook(fast_server.url, "quick")
        ids: dict[str, UUID] = dict(admin.execute("SELECT name, id FROM destination").fetchall())
        call(limiter, seconds, ids["slow"], SLOW_SECONDS + 1)
        for _ in range(MAX_SLOW_CALLS):
            open_slots.enter_context(limiter.slot(ids["slow"], "slow", NOW))
        fast_server.add_steps(Raw(204))
        output.result()
        assert output.run() == {"batchItemFailures": []}
        jobs = {job["destination_id"]: job for job in output.jobs()}
        assert jobs[str(ids["quick"])]["status"] == "succeeded"
        deferred_job = jobs[str(ids["slow"])]
        assert (deferred_job["status"], deferred_job["attempts"], slow_server.requests) == ("pending", 0, [])
        assert datetime.fromisoformat(deferred_job["next_attempt_at"]) == clock() + WAIT
        open_slots.close()
        clock.advance(seconds=30)
        slow_server.add_steps(Raw(204))
        output.run()
        assert {job["status"] for job in output.jobs()} == {"succeeded"}
