"""Watchdogs that crash anywhere leave no queue paused and overrule no person."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from counterfoil.db import Connection
from tests.functions.mappings import MAPPING, MATCHING, FakeLambda, Killed, World, lives_on, paused, status


def die() -> None:
    raise Killed


def round_that_dies(world: World, point: str) -> None:
    setattr(world.lambda_, point, die)
    world.clock.pass_(seconds=60)
    world.lambda_.settle()
    with pytest.raises(Killed):
        world.pauses.run()
    setattr(world.lambda_, point, lives_on)


@pytest.mark.parametrize("point", ["before", "after"])
def test_watchdog_killed_while_pausing_is_continued(point: str, world: World, admin: Connection) -> None:
    world.service_fails()
    round_that_dies(world, point)
    assert status(admin) == "pausing"
    world.minute()
    world.minute()
    assert (world.state(), status(admin)) == ("Disabled", "paused")
    world.service_is_back()
    world.minute()
    assert world.state() == "Enabled"


@pytest.mark.parametrize("point", ["before", "after"])
def test_recovery_during_a_killed_pause_resumes_the_queue(point: str, world: World, admin: Connection) -> None:
    world.service_fails()
    round_that_dies(world, point)
    world.service_is_back()
    for _ in range(4):
        world.minute()
    assert (world.state(), status(admin)) == ("Enabled", "released")


@pytest.mark.parametrize("point", ["before", "after"])
def test_watchdog_killed_while_resuming_is_continued(point: str, world: World, admin: Connection) -> None:
    paused(world)
    world.service_is_back()
    round_that_dies(world, point)
    assert status(admin) == "paused"
    world.minute()
    world.minute()
    assert (world.state(), status(admin)) == ("Enabled", "released")


def test_crash_while_resuming_is_not_a_persons_change(world: World) -> None:
    paused(world)
    world.service_is_back()
    round_that_dies(world, "after")
    world.service_fails()
    assert world.minute().paused == ["matching"]


def test_pause_row_outlives_calls_in_progress(
    watch: Callable[..., World], lambda_: FakeLambda, admin: Connection
) -> None:
    slow, other = watch(MATCHING), watch(MATCHING)

    def the_service_is_back_and_the_other_makes_a_round() -> None:
        lambda_.before = lives_on
        other.service_is_back()
        other.minute()
        assert status(admin) == "pausing"

    lambda_.before = the_service_is_back_and_the_other_makes_a_round
    slow.service_fails()
    slow.minute()
    assert slow.state() == "Disabled"
    other.minute()
    assert other.state() == "Enabled"


def test_two_watchdogs_at_once_do_what_one_does(watch: Callable[..., World], lambda_: FakeLambda) -> None:
    one, other = watch(MATCHING), watch(MATCHING)

    def the_other_makes_its_round() -> None:
        lambda_.before = lives_on
        other.pauses.run()

    lambda_.before = the_other_makes_its_round
    one.service_fails()
    one.minute()
    assert one.state() == "Disabled"
    one.minute()
    one.service_is_back()
    lambda_.before = the_other_makes_its_round
    one.minute()
    one.minute()
    assert one.state() == "Enabled"
    assert lambda_.calls == [(MAPPING, False), (MAPPING, True)]


class History(RuleBasedStateMachine):
    """Outages, people and crashing watchdogs, in any order.

    A person disables the mapping only while no row records our pause, because the two cannot be distinguished.
    """

    world: World
    admin: Connection

    def __init__(self) -> None:
        super().__init__()
        lambda_ = self.world.lambda_
        lambda_.states[MAPPING] = "Enabled"
        lambda_.disabled_by.clear()
        if self.world.breakers.open_breakers():
            self.world.service_is_back()
        self.admin.execute("DELETE FROM breaker_mapping_pause")

    @initialize(calm=st.booleans())
    def begins(self, calm: bool) -> None:
        """Random steps rarely combine a failure, a minute and a run."""
        if not calm:
            self.world.service_fails()
            self.world.minute()

    def ours(self) -> bool:
        return status(self.admin) in {"pausing", "paused"}

    @rule(seconds=st.sampled_from([1, 59, 60, 61, 119, 121, 600]), settled=st.booleans())
    def time_passes(self, seconds: int, settled: bool) -> None:
        self.world.clock.pass_(seconds=seconds)
        if settled:
            self.world.lambda_.settle()

    @rule()
    def service_fails(self) -> None:
        self.world.service_fails()

    @precondition(lambda self: self.world.breakers.open_breakers())
    @rule()
    def service_is_back(self) -> None:
        self.world.service_is_back()

    @rule(point=st.sampled_from(["before", "after", "never"]))
    def a_round(self, point: str) -> None:
        if point != "never":
            setattr(self.world.lambda_, point, die)
        with suppress(Killed):
            self.world.pauses.run()
        self.world.lambda_.before = self.world.lambda_.after = lives_on

    @rule()
    def a_person_enables_it(self) -> None:
        self.world.lambda_.a_person_switches(MAPPING, on=True)

    @precondition(lambda self: not self.ours())
    @rule()
    def a_person_disables_it(self) -> None:
        self.world.lambda_.a_person_switches(MAPPING, on=False)

    @invariant()
    def what_we_disabled_is_on_record(self) -> None:
        if self.world.lambda_.disabled_by.get(MAPPING) == "us":
            assert self.ours()

    def teardown(self) -> None:
        """At the end the service and the queue are available, unless a person paused the queue."""
        if self.world.breakers.open_breakers():
            self.world.service_is_back()
        for _ in range(5):
            self.world.minute()
        assert self.world.lambda_.disabled_by.get(MAPPING) != "us"
        assert not self.ours()


def test_no_history_leaves_queue_paused_or_overrules_person(world: World, admin: Connection) -> None:
    class OfThisWorld(History):
        pass

    OfThisWorld.world, OfThisWorld.admin = world, admin
    run_state_machine_as_test(
        OfThisWorld, settings=settings(max_examples=60, stateful_step_count=30, deadline=None, database=None)
    )
    assert {(MAPPING, False), (MAPPING, True)} <= set(world.lambda_.calls)  # otherwise the histories prove nothing
