"""A slow destination leaves permits to others and loses no attempt."""

from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.errors import BreakerOpenError, DeferredError, ServiceUnavailableError
from functions.document_output.lanes import MAX_SLOW_CALLS, SLOW_MEMORY_SECONDS, SLOW_SECONDS, WAIT, DestinationLimiter
from infra.worker_table import WORKERS
from tests.delivery.harness import Clock, FakeSqs
from tests.functions.output_world import World
from tests.llm.server import Raw, Server

SLOW, QUICK = UUID(int=1), UUID(int=2)
NOW = datetime(2026, 3, 2, 8, tzinfo=UTC)


class Seconds:
    """A clock in seconds, set by the test."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def call(lanes: DestinationLimiter, seconds: Seconds, destination: UUID, took: float) -> None:
    with lanes.slot(destination, "office", NOW):
        seconds.now += took


def held(lanes: DestinationLimiter, destination: UUID, wanted: int) -> int:
    """Return how many of the requested concurrent calls a destination gets."""
    with ExitStack() as under_way:
        for number in range(wanted):
            try:
                under_way.enter_context(lanes.slot(destination, "office", NOW))
            except DeferredError:
                return number
    return wanted


def test_the_part_of_a_slow_destination_is_half():
    (row,) = [row for row in WORKERS if row.name == "document_output"]
    assert row.permits == 2 * MAX_SLOW_CALLS


def test_slow_destination_gets_a_share_of_the_slots():
    lanes = DestinationLimiter(seconds := Seconds())
    call(lanes, seconds, SLOW, SLOW_SECONDS + 1)
    call(lanes, seconds, QUICK, SLOW_SECONDS - 1)
    assert (held(lanes, SLOW, 4), held(lanes, QUICK, 4)) == (MAX_SLOW_CALLS, 4)


@pytest.mark.parametrize("later", [True, False])
def test_fast_response_or_a_minute_restores_all_slots(later: bool):
    lanes = DestinationLimiter(seconds := Seconds())
    call(lanes, seconds, SLOW, SLOW_SECONDS + 1)
    if later:
        seconds.now += SLOW_MEMORY_SECONDS
    else:
        call(lanes, seconds, SLOW, 0.1)
    assert held(lanes, SLOW, 4) == 4


def test_skipped_call_is_not_a_fast_response():
    """The breaker was open, or no time was left."""
    lanes = DestinationLimiter(seconds := Seconds())
    call(lanes, seconds, SLOW, SLOW_SECONDS + 1)
    with pytest.raises(BreakerOpenError), lanes.slot(SLOW, "office", NOW):
        raise BreakerOpenError("It is away", until=NOW)
    assert held(lanes, SLOW, 4) == MAX_SLOW_CALLS


def test_a_call_that_fails_slowly_is_slow():
    lanes = DestinationLimiter(seconds := Seconds())
    with suppress(ServiceUnavailableError), lanes.slot(SLOW, "office", NOW):
        seconds.now += SLOW_SECONDS + 1
        raise ServiceUnavailableError("No answer within 20 seconds")
    assert held(lanes, SLOW, 4) == MAX_SLOW_CALLS


def test_delivery_without_a_slot_waits_without_an_attempt(
    database: Database, admin: Connection, clock: Clock, tenant: UUID, sqs: FakeSqs
):
    world = World(database, admin, clock, tenant)
    lanes = DestinationLimiter(seconds := Seconds())
    world.ways = replace(world.ways, lanes=lanes)
    with Server() as slow, Server() as quick, ExitStack() as under_way:
        world.webhook(slow.url, "slow")
        world.webhook(quick.url, "quick")
        ids: dict[str, UUID] = dict(admin.execute("SELECT name, id FROM destination").fetchall())
        call(lanes, seconds, ids["slow"], SLOW_SECONDS + 1)
        for _ in range(MAX_SLOW_CALLS):
            under_way.enter_context(lanes.slot(ids["slow"], "slow", NOW))
        quick.then(Raw(204))
        world.result()
        assert world.run() == {"batchItemFailures": []}
        jobs = {job["destination_id"]: job for job in world.jobs()}
        assert jobs[str(ids["quick"])]["status"] == "succeeded"
        waiting = jobs[str(ids["slow"])]
        assert (waiting["status"], waiting["attempts"], slow.requests) == ("pending", 0, [])
        assert datetime.fromisoformat(waiting["next_attempt_at"]) == clock() + WAIT
        under_way.close()
        clock.pass_(seconds=30)
        slow.then(Raw(204))
        world.run()
        assert {job["status"] for job in world.jobs()} == {"succeeded"}
