"""The watchdog resumes queues after an outage, even if it crashes.

Manual changes persist.
"""

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
from tests.functions.fake_lambda import (
    MAPPING,
    MATCHING,
    FakeLambda,
    ProcessKilled,
    WatchdogHarness,
    do_nothing,
    pause_matching_queue,
    status,
)


def kill_process() -> None:
    raise ProcessKilled


def run_and_kill_watchdog(watchdog: WatchdogHarness, point: str) -> None:
    setattr(watchdog.lambda_, point, kill_process)
    watchdog.clock.advance(seconds=60)
    watchdog.lambda_.settle()
    with pytest.raises(ProcessKilled):
        watchdog.pauses.run()
    setattr(watchdog.lambda_, point, do_nothing)


@pytest.mark.parametrize("point", ["before", "after"])
def test_interrupted_pause_is_completed_by_next_run(point: str, watchdog: WatchdogHarness, admin: Connection) -> None:
    watchdog.service_fails()
    run_and_kill_watchdog(watchdog, point)
    assert status(admin) == "pausing"
    watchdog.minute()
    watchdog.minute()
    assert (watchdog.state(), status(admin)) == ("Disabled", "paused")
    watchdog.service_recovers()
    watchdog.minute()
    assert watchdog.state() == "Enabled"


@pytest.mark.parametrize("point", ["before", "after"])
def test_recovery_after_interrupted_pause_resumes_the_queue(
    point: str, watchdog: WatchdogHarness, admin: Connection
) -> None:
    watchdog.service_fails()
    run_and_kill_watchdog(watchdog, point)
    watchdog.service_recovers()
    for _ in range(4):
        watchdog.minute()
    assert (watchdog.state(), status(admin)) == ("Enabled", "released")


@pytest.mark.parametrize("point", ["before", "after"])
def test_interrupted_resume_is_completed_by_next_run(point: str, watchdog: WatchdogHarness, admin: Connection) -> None:
    pause_matching_queue(watchdog)
    watchdog.service_recovers()
    run_and_kill_watchdog(watchdog, point)
    assert status(admin) == "paused"
    watchdog.minute()
    watchdog.minute()
    assert (watchdog.state(), status(admin)) == ("Enabled", "released")


def test_interrupted_resume_is_not_mistaken_for_manual_change(watchdog: WatchdogHarness) -> None:
    pause_matching_queue(watchdog)
    watchdog.service_recovers()
    run_and_kill_watchdog(watchdog, "after")
    watchdog.service_fails()
    assert watchdog.minute().paused == ["matching"]


def test_pause_row_remains_while_disable_call_runs(
    start_watchdog: Callable[..., WatchdogHarness], lambda_: FakeLambda, admin: Connection
) -> None:
    slow_watchdog, other_watchdog = start_watchdog(MATCHING), start_watchdog(MATCHING)

    def recover_and_run_other_watchdog() -> None:
        lambda_.before = do_nothing
        other_watchdog.service_recovers()
        other_watchdog.minute()
        assert status(admin) == "pausing"

    lambda_.before = recover_and_run_other_watchdog
    slow_watchdog.service_fails()
    slow_watchdog.minute()
    assert slow_watchdog.state() == "Disabled"
    other_watchdog.minute()
    assert other_watchdog.state() == "Enabled"


def test_concurrent_watchdogs_make_no_duplicate_calls(
    start_watchdog: Callable[..., WatchdogHarness], lambda_: FakeLambda
) -> None:
    first, second = start_watchdog(MATCHING), start_watchdog(MATCHING)

    def run_other_watchdog() -> None:
        lambda_.before = do_nothing
        second.pauses.run()

    lambda_.before = run_other_watchdog
    first.service_fails()
    first.minute()
    assert first.state() == "Disabled"
    first.minute()
    first.service_recovers()
    lambda_.before = run_other_watchdog
    first.minute()
    first.minute()
    assert first.state() == "Enabled"
    assert lambda_.calls == [(MAPPING, False), (MAPPING, True)]


class History(RuleBasedStateMachine):
    """Outages, manual changes and watchdog crashes, in any order.

    The operator never disables a mapping that the watchdog has paused, because the two look identical.
    """

    watchdog: WatchdogHarness
    admin: Connection

    def __init__(self) -> None:
        super().__init__()
        lambda_ = self.watchdog.lambda_
        lambda_.states[MAPPING] = "Enabled"
        lambda_.disabled_by.clear()
        if self.watchdog.breakers.open_breakers():
            self.watchdog.service_recovers()
        self.admin.execute("DELETE FROM breaker_mapping_pause")

    @initialize(is_idle=st.booleans())
    def begin(self, is_idle: bool) -> None:
        """Start half of the histories with a paused queue.

        Random steps rarely pause it.
        """
        if not is_idle:
            self.watchdog.service_fails()
            self.watchdog.minute()

    def has_own_pause(self) -> bool:
        return status(self.admin) in {"pausing", "paused"}

    @rule(seconds=st.sampled_from([1, 59, 60, 61, 119, 121, 600]), settled=st.booleans())
    def time_passes(self, seconds: int, settled: bool) -> None:
        self.watchdog.clock.advance(seconds=seconds)
        if settled:
            self.watchdog.lambda_.settle()

    @rule()
    def service_fails(self) -> None:
        self.watchdog.service_fails()

    @precondition(lambda self: self.watchdog.breakers.open_breakers())
    @rule()
    def service_recovers(self) -> None:
        self.watchdog.service_recovers()

    @rule(point=st.sampled_from(["before", "after", "never"]))
    def run_watchdog(self, point: str) -> None:
        if point != "never":
            setattr(self.watchdog.lambda_, point, kill_process)
        with suppress(ProcessKilled):
            self.watchdog.pauses.run()
        self.watchdog.lambda_.before = self.watchdog.lambda_.after = do_nothing

    @rule()
    def enable_manually(self) -> None:
        self.watchdog.lambda_.switch_manually(MAPPING, on=True)

    @precondition(lambda self: not self.has_own_pause())
    @rule()
    def disable_manually(self) -> None:
        self.watchdog.lambda_.switch_manually(MAPPING, on=False)

    @invariant()
    def own_pause_is_recorded(self) -> None:
        if self.watchdog.lambda_.disabled_by.get(MAPPING) == "watchdog":
            assert self.has_own_pause()

    def teardown(self) -> None:
        """Let the service recover.

        The queue must be resumed unless an operator paused it.
        """
        if self.watchdog.breakers.open_breakers():
            self.watchdog.service_recovers()
        for _ in range(5):
            self.watchdog.minute()
        assert self.watchdog.lambda_.disabled_by.get(MAPPING) != "watchdog"
        assert not self.has_own_pause()


def test_every_history_ends_without_a_watchdog_pause(watchdog: WatchdogHarness, admin: Connection) -> None:
    class BoundHistory(History):
        pass

    BoundHistory.watchdog, BoundHistory.admin = watchdog, admin
    run_state_machine_as_test(
        BoundHistory, settings=settings(max_examples=60, stateful_step_count=30, deadline=None, database=None)
    )
    assert {(MAPPING, False), (MAPPING, True)} <= set(watchdog.lambda_.calls)  # both calls occurred
