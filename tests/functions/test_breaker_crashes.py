"""A watchdog crash at any point leaves no queue paused and overrides no manual change."""

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
from tests.functions.fake_lambda import MAPPING, MATCHING, FakeLambda, Killed, World, do_nothing, paused, status


def kill_process() -> None:
    raise Killed


def run_killed_watchdog(world: World, point: str) -> None:
    setattr(world.lambda_, point, kill_process)
    world.clock.pass_(seconds=60)
    world.lambda_.settle()
    with pytest.raises(Killed):
        world.pauses.run()
    setattr(world.lambda_, point, do_nothing)


@pytest.mark.parametrize("point", ["before", "after"])
def test_watchdog_killed_while_pausing_is_continued(point: str, world: World, admin: Connection) -> None:
    world.service_fails()
    run_killed_watchdog(world, point)
    assert status(admin) == "pausing"
    world.minute()
    world.minute()
    assert (world.state(), status(admin)) == ("Disabled", "paused")
    world.service_recovers()
    world.minute()
    assert world.state() == "Enabled"


@pytest.mark.parametrize("point", ["before", "after"])
def test_recovery_during_a_killed_pause_resumes_the_queue(point: str, world: World, admin: Connection) -> None:
    world.service_fails()
    run_killed_watchdog(world, point)
    world.service_recovers()
    for _ in range(4):
        world.minute()
    assert (world.state(), status(admin)) == ("Enabled", "released")


@pytest.mark.parametrize("point", ["before", "after"])
def test_watchdog_killed_while_resuming_is_continued(point: str, world: World, admin: Connection) -> None:
    paused(world)
    world.service_recovers()
    run_killed_watchdog(world, point)
    assert status(admin) == "paused"
    world.minute()
    world.minute()
    assert (world.state(), status(admin)) == ("Enabled", "released")


def test_crash_while_resuming_is_not_a_manual_change(world: World) -> None:
    paused(world)
    world.service_recovers()
    run_killed_watchdog(world, "after")
    world.service_fails()
    assert world.minute().paused == ["matching"]


def test_pause_row_outlives_calls_in_progress(
    watch: Callable[..., World], lambda_: FakeLambda, admin: Connection
) -> None:
    slow, other = watch(MATCHING), watch(MATCHING)

    def recover_and_run_other_watchdog() -> None:
        lambda_.before = do_nothing
        other.service_recovers()
        other.minute()
        assert status(admin) == "pausing"

    lambda_.before = recover_and_run_other_watchdog
    slow.service_fails()
    slow.minute()
    assert slow.state() == "Disabled"
    other.minute()
    assert other.state() == "Enabled"


def test_concurrent_watchdogs_act_like_one(watch: Callable[..., World], lambda_: FakeLambda) -> None:
    one, other = watch(MATCHING), watch(MATCHING)

    def run_other_watchdog() -> None:
        lambda_.before = do_nothing
        other.pauses.run()

    lambda_.before = run_other_watchdog
    one.service_fails()
    one.minute()
    assert one.state() == "Disabled"
    one.minute()
    one.service_recovers()
    lambda_.before = run_other_watchdog
    one.minute()
    one.minute()
    assert one.state() == "Enabled"
    assert lambda_.calls == [(MAPPING, False), (MAPPING, True)]


class History(RuleBasedStateMachine):
    """Outages, manual changes and watchdog crashes, in any order.

    An operator disables the mapping only while no row records our pause, because the two look the same.
    """

    world: World
    admin: Connection

    def __init__(self) -> None:
        super().__init__()
        lambda_ = self.world.lambda_
        lambda_.states[MAPPING] = "Enabled"
        lambda_.disabled_by.clear()
        if self.world.breakers.open_breakers():
            self.world.service_recovers()
        self.admin.execute("DELETE FROM breaker_mapping_pause")

    @initialize(calm=st.booleans())
    def begin(self, calm: bool) -> None:
        """Start half of the histories with a paused queue, which random steps rarely reach."""
        if not calm:
            self.world.service_fails()
            self.world.minute()

    def has_own_pause(self) -> bool:
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
    def service_recovers(self) -> None:
        self.world.service_recovers()

    @rule(point=st.sampled_from(["before", "after", "never"]))
    def run_watchdog(self, point: str) -> None:
        if point != "never":
            setattr(self.world.lambda_, point, kill_process)
        with suppress(Killed):
            self.world.pauses.run()
        self.world.lambda_.before = self.world.lambda_.after = do_nothing

    @rule()
    def enable_manually(self) -> None:
        self.world.lambda_.switch_manually(MAPPING, on=True)

    @precondition(lambda self: not self.has_own_pause())
    @rule()
    def disable_manually(self) -> None:
        self.world.lambda_.switch_manually(MAPPING, on=False)

    @invariant()
    def own_pause_is_recorded(self) -> None:
        if self.world.lambda_.disabled_by.get(MAPPING) == "watchdog":
            assert self.has_own_pause()

    def teardown(self) -> None:
        """Let the service recover. The queue must be resumed unless an operator paused it."""
        if self.world.breakers.open_breakers():
            self.world.service_recovers()
        for _ in range(5):
            self.world.minute()
        assert self.world.lambda_.disabled_by.get(MAPPING) != "watchdog"
        assert not self.has_own_pause()


def test_no_history_leaves_queue_paused(world: World, admin: Connection) -> None:
    class BoundHistory(History):
        pass

    BoundHistory.world, BoundHistory.admin = world, admin
    run_state_machine_as_test(
        BoundHistory, settings=settings(max_examples=60, stateful_step_count=30, deadline=None, database=None)
    )
    assert {(MAPPING, False), (MAPPING, True)} <= set(world.lambda_.calls)  # otherwise the histories prove nothing
