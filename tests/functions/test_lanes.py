"""A destination that answers slowly leaves permits to the others, and loses no attempt by that."""

from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.errors import BreakerOpenError, DeferredError, ServiceUnavailableError
from functions.document_output.lanes import KNOWN_SECONDS, MOST, SLOW_SECONDS, WAIT, Lanes
from infra.worker_table import WORKERS
from tests.delivery.harness import Clock, FakeSqs
from tests.functions.output_world import World
from tests.llm.server import Raw, Server

SLOW, QUICK = UUID(int=1), UUID(int=2)
NOW = datetime(2026, 3, 2, 8, tzinfo=UTC)


class Seconds:
    """A clock of seconds that is told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def call(lanes: Lanes, seconds: Seconds, destination: UUID, took: float) -> None:
    with lanes.lane(destination, "office", NOW):
        seconds.now += took


def held(lanes: Lanes, destination: UUID, wanted: int) -> int:
    """How many calls at once a destination gets, of those that are wanted."""
    with ExitStack() as under_way:
        for number in range(wanted):
            try:
                under_way.enter_context(lanes.lane(destination, "office", NOW))
            except DeferredError:
                return number
    return wanted


def test_the_part_of_a_slow_destination_is_half():
    (row,) = [row for row in WORKERS if row.name == "document_output"]
    assert row.permits == 2 * MOST


def test_a_slow_destination_gets_a_part_and_a_quick_one_all():
    lanes = Lanes(seconds := Seconds())
    call(lanes, seconds, SLOW, SLOW_SECONDS + 1)
    call(lanes, seconds, QUICK, SLOW_SECONDS - 1)
    assert (held(lanes, SLOW, 4), held(lanes, QUICK, 4)) == (MOST, 4)


@pytest.mark.parametrize("later", [True, False])
def test_it_gets_all_again_after_a_quick_answer_or_a_minute(later: bool):
    lanes = Lanes(seconds := Seconds())
    call(lanes, seconds, SLOW, SLOW_SECONDS + 1)
    if later:
        seconds.now += KNOWN_SECONDS
    else:
        call(lanes, seconds, SLOW, 0.1)
    assert held(lanes, SLOW, 4) == 4


def test_a_call_that_was_not_made_is_no_quick_answer():
    """The breaker was open, or no time was left."""
    lanes = Lanes(seconds := Seconds())
    call(lanes, seconds, SLOW, SLOW_SECONDS + 1)
    with pytest.raises(BreakerOpenError), lanes.lane(SLOW, "office", NOW):
        raise BreakerOpenError("It is away", until=NOW)
    assert held(lanes, SLOW, 4) == MOST


def test_a_call_that_fails_slowly_is_slow():
    lanes = Lanes(seconds := Seconds())
    with suppress(ServiceUnavailableError), lanes.lane(SLOW, "office", NOW):
        seconds.now += SLOW_SECONDS + 1
        raise ServiceUnavailableError("No answer within 20 seconds")
    assert held(lanes, SLOW, 4) == MOST


def test_a_delivery_whose_lane_is_full_waits_without_losing_an_attempt_while_another_is_made(
    database: Database, admin: Connection, clock: Clock, tenant: UUID, sqs: FakeSqs
):
    world = World(database, admin, clock, tenant)
    lanes = Lanes(seconds := Seconds())
    world.ways = replace(world.ways, lanes=lanes)
    with Server() as slow, Server() as quick, ExitStack() as under_way:
        world.webhook(slow.url, "slow")
        world.webhook(quick.url, "quick")
        ids: dict[str, UUID] = dict(admin.execute("SELECT name, id FROM destination").fetchall())
        call(lanes, seconds, ids["slow"], SLOW_SECONDS + 1)
        for _ in range(MOST):
            under_way.enter_context(lanes.lane(ids["slow"], "slow", NOW))
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
