"""Histories of calls from several processes match a simple model of the breaker."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from counterfoil.errors import BreakerOpenError, CancelledError, DatabaseUnavailableError, ServiceUnavailableError
from tests.breaker_processes import FAILURES, OPEN_SECONDS, PROBE_SECONDS, ProcessBreakers, end, processes
from tests.delivery.harness import Clock


class Model:
    """Simple model of a breaker: which calls it allows, and how outcomes change it."""

    def __init__(self) -> None:
        self.failures = 0
        self.open_count = 0
        self.until: datetime | None = None
        self.probe_lasts = False
        self.epoch = object()

    def step(self) -> None:
        self.epoch = object()

    def enter(self, now: datetime) -> datetime | object:
        """Return the epoch if the call is allowed.

        Otherwise, the result is the time until which calls are rejected.
        """
        if self.until is None:
            return self.epoch
        if now < self.until:
            return min(self.until, now + timedelta(seconds=OPEN_SECONDS)) if self.probe_lasts else self.until
        self.until, self.probe_lasts = now + timedelta(seconds=PROBE_SECONDS), True
        self.step()
        return self.epoch

    def end(self, epoch: object, outcome: str, now: datetime, retry_after: float) -> None:
        if epoch is not self.epoch:
            return
        was_open = self.until is not None
        if outcome == "answer":
            self.failures = 0
            if was_open:
                self.open_count, self.until, self.probe_lasts = 0, None, False
                self.step()
        elif outcome == "failure":
            self.failures += 1
            if was_open or self.failures >= FAILURES:
                self.open_count += 1
                seconds = max(min(600, OPEN_SECONDS * 2 ** (self.open_count - 1)), retry_after)
                self.until, self.probe_lasts = now + timedelta(seconds=seconds), False
                self.step()
        elif outcome == "nothing" and was_open:
            self.until, self.probe_lasts = now, False
            self.step()


TICKS = st.sampled_from([1, 2, 29, 30, 31, 60, PROBE_SECONDS, 600, 901])


class History(RuleBasedStateMachine):
    """Calls in any order and with any outcome, compared with the model at each step."""

    names = (f"llm:{number}" for number in count())

    def __init__(self, processes: Sequence[ProcessBreakers], clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.processes = processes
        self.name = next(self.names)
        self.model = Model()
        self.calls: list[tuple[AbstractContextManager[None], object]] = []

    @rule(process=st.integers(0, 2), tick=TICKS)
    def begin(self, process: int, tick: int) -> None:
        self.clock.advance(seconds=tick)
        expected = self.model.enter(self.clock())
        guard = self.processes[process].guard(self.name)
        rejected_until = None
        try:
            guard.__enter__()
        except BreakerOpenError as error:
            rejected_until = error.until
        assert rejected_until == (expected if isinstance(expected, datetime) else None)
        if rejected_until is None:
            self.calls.append((guard, expected))

    @precondition(lambda self: self.calls)
    @rule(
        index=st.integers(0, 99),
        outcome=st.sampled_from(["answer", "failure", "nothing"]),
        tick=TICKS,
        retry_after=st.sampled_from([0, 45, 900]),
    )
    def finish(self, index: int, outcome: str, tick: int, retry_after: float) -> None:
        self.clock.advance(seconds=tick)
        guard, epoch = self.calls.pop(index % len(self.calls))
        errors = {
            "failure": ServiceUnavailableError("503", retry_after=retry_after),
            "nothing": CancelledError("stopped"),
        }
        self.model.end(epoch, outcome, self.clock(), retry_after)
        end(guard, errors.get(outcome))

    @precondition(lambda self: self.calls)
    @rule(index=st.integers(0, 99))
    def kill(self, index: int) -> None:
        """Kill a process during a call. The call's outcome is lost."""
        guard, _ = self.calls.pop(index % len(self.calls))
        self._end_unrecorded(guard)

    @invariant()
    def row_matches_model(self) -> None:
        outage = self.processes[0].open_breakers().get(self.name)
        assert (outage.until if outage else None) == self.model.until

    def teardown(self) -> None:
        for guard, _ in self.calls:
            self._end_unrecorded(guard)

    def _end_unrecorded(self, guard: AbstractContextManager[None]) -> None:
        for breakers in self.processes:
            breakers.process.failure = DatabaseUnavailableError("dead")
        end(guard)
        for breakers in self.processes:
            breakers.process.failure = None


def test_every_history_matches_model(database_url: str) -> None:
    clock = Clock()
    with processes(database_url, clock) as start:
        running_processes = [start() for _ in range(3)]

        class DatabaseHistory(History):
            def __init__(self) -> None:
                super().__init__(running_processes, clock)

        run_state_machine_as_test(
            DatabaseHistory,
            settings=settings(max_examples=100, stateful_step_count=40, deadline=None, database=None),
        )
