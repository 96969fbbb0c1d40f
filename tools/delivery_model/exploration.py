"""The search through every state of the model: what must be true in each, and the shortest way to where it is not."""

import gc
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter

from tools.delivery_model.reduction import Reduction
from tools.delivery_model.states import (
    ACKNOWLEDGING,
    CURRENT,
    DEAD,
    ENDED,
    FAILED,
    HIDDEN,
    MAX_ATTEMPTS,
    NEWER,
    OLDER_REVISION,
    OLDER_SEND,
    PENDING,
    RUNNING,
    SUCCEEDED,
    UNBORN,
    UNKNOWN,
    VISIBLE,
    Bounds,
    Message,
    Rules,
    State,
    Work,
)
from tools.delivery_model.steps import Steps


@dataclass(frozen=True)
class Counterexample:
    """A shortest history that breaks an invariant."""

    broken: str
    path: Sequence[tuple[str, State]]
    """Each transition with the state after it; the first is the beginning."""

    def __str__(self) -> str:
        lines = [f"{number:3}. {name}\n     {described(state)}" for number, (name, state) in enumerate(self.path)]
        return "\n".join([*lines, f"     BROKEN: {self.broken}"])

    def __len__(self) -> int:
        return len(self.path) - 1


@dataclass(frozen=True)
class Exploration:
    """What a search found."""

    states: int
    counterexample: Counterexample | None
    seconds: float


def explore(rules: Rules | None = None, bounds: Bounds | None = None) -> Exploration:
    """Visit every state that `rules` can reach within `bounds`, nearest first, until one breaks an invariant."""
    rules = rules or Rules()
    return Search(rules, bounds or Bounds(), Reduction(rules)).run()


class Search:
    """One search; `reduction` decides which states are one."""

    def __init__(self, rules: Rules, bounds: Bounds, reduction: Callable[[State], State]) -> None:
        self._rules = rules
        self._bounds = bounds
        self._steps = Steps(rules, bounds)
        self._reduced = reduction
        self._numbers: dict[State, int] = {}
        self.states: list[State] = []
        self._reached_from = array("l")
        self._reached_by: list[str] = []
        # The transitions that go on, as pairs of numbers: before, after.
        self._before = array("l")
        self._after = array("l")

    def run(self) -> Exploration:
        """Visit every state."""
        started = perf_counter()
        collects = gc.isenabled()
        gc.disable()  # nothing here is a circle of references, and the collector would walk all states again and again
        try:
            counterexample = self._search()
        finally:
            if collects:
                gc.enable()
        return Exploration(len(self.states), counterexample, perf_counter() - started)

    def _search(self) -> Counterexample | None:
        for name, state in _beginnings(self._bounds):
            self._number(state, -1, name)
        number = 0
        while number < len(self.states):
            state = self.states[number]
            broken = self._broken(state)
            if broken is not None:
                return Counterexample(broken, self._path(number))
            for step in self._steps.after(state):
                after = self._number(self._reduced(step.state), number, step.name)
                if step.goes_on:
                    self._before.append(number)
                    self._after.append(after)
            number += 1
        return self._endless()

    def _number(self, state: State, before: int, name: str) -> int:
        number = self._numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
            self._reached_from.append(before)
            self._reached_by.append(name)
        return number

    def _path(self, number: int) -> list[tuple[str, State]]:
        path = []
        while number >= 0:
            path.append((self._reached_by[number], self.states[number]))
            number = self._reached_from[number]
        return path[::-1]

    def _endless(self) -> Counterexample | None:
        """A state from which the rules never come to an end, though nothing more goes wrong and no work is deferred.

        Every way on must be finite: no circle, and rest wherever there is no way on.
        """
        after: list[list[int]] = [[] for _ in self.states]
        ways_in = array("l", bytes(self._before.itemsize * len(self.states)))
        for one, other in zip(self._before, self._after, strict=True):
            after[one].append(other)
            ways_in[other] += 1
        halt = next(
            (number for number, ways in enumerate(after) if not ways and not _at_rest(self.states[number])), None
        )
        if halt is not None:
            return Counterexample("no rule can end this", self._path(halt))
        free = [number for number, ways in enumerate(ways_in) if not ways]
        while free:
            for other in after[free.pop()]:
                ways_in[other] -= 1
                if not ways_in[other]:
                    free.append(other)
        circle = next((number for number, ways in enumerate(ways_in) if ways), None)
        if circle is None:
            return None
        return Counterexample("this can go round in a circle for ever", self._path(circle))

    def _broken(self, state: State) -> str | None:
        """The first invariant that does not hold in `state`."""
        work = state.work
        if work.breach:
            return work.breach
        wrong = {
            "effects were committed twice, or beside another end": work.effects != (work.status == SUCCEEDED),
            "more attempts than there may be": work.attempts > MAX_ATTEMPTS,
            "the attempts counted are not the claims made": work.attempts != work.claims,
            "a dead letter without failed work, or two for one failure": work.failures != (work.status == FAILED),
            "a failure without its one notification": work.notices != work.failures,
        }
        if work.status not in ENDED and work.status != UNKNOWN:
            wrong |= self._wrong_while_open(state)
        return next((sentence for sentence, is_so in wrong.items() if is_so), None)

    def _wrong_while_open(self, state: State) -> dict[str, bool]:
        """What must not be true of the messages of work that has not ended."""
        bounds = self._bounds
        queued = [one for one in state.messages if one.place in {VISIBLE, HIDDEN}]
        dead = any(one.place == DEAD and one.age <= CURRENT for one in state.messages)
        owed = dead or CURRENT in state.unsent or any(one.age <= CURRENT for one in queued)
        purged = state.purges < bounds.purges
        restored = state.restores < bounds.restores
        quiet = state.crashes == bounds.crashes and state.copies == bounds.copies and not purged and not restored
        live = sum(one.age < self._rules.oldest and not _leaving(one) for one in queued)
        rows = sum(age < self._rules.oldest for age in state.unsent)
        return {
            "the work is lost: neither a message nor the outbox owes it": not owed and not purged,
            "a message died though nothing went wrong": dead and quiet,
            "parked work has more messages than it was owed": live + rows > 1 + bounds.copies - state.copies
            and not restored,
        }


def _beginnings(bounds: Bounds) -> Iterator[tuple[str, State]]:
    rest = (bounds.crashes, bounds.copies, bounds.revisions, bounds.purges, bounds.restores)
    message = (Message(VISIBLE, CURRENT, 0),)
    yield "work is accepted, with its row of the outbox", State(Work(PENDING), (), (CURRENT,), *rest)
    yield "an event from outside tells of work", State(Work(UNBORN), message, (), *rest)
    yield "a message names work that nobody knows", State(Work(UNKNOWN), message, (), *rest)


def _leaving(message: Message) -> bool:
    return any(one.newest and one.step == ACKNOWLEDGING for one in message.consumers)


def _at_rest(state: State) -> bool:
    """Whether everything is over: the work has ended and nothing is under way."""
    over = state.work.status in ENDED or state.work.status == UNKNOWN
    return over and not state.messages and not state.unsent


AGES = {
    NEWER: "newer than its row",
    CURRENT: "current",
    OLDER_SEND: "of an older send number",
    OLDER_REVISION: "of an older revision",
}


def described(state: State) -> str:
    """One line about a state."""
    work = state.work
    parts = [f"{work.status}, attempts {work.attempts}"]
    if work.returns:
        parts.append(f"returned {work.returns}")
    if work.status == RUNNING:
        parts.append("lease lives" if work.leased else "lease over")
    if work.status == PENDING and not work.due:
        parts.append("not due")
    for message in state.messages:
        consumers = "".join(f", {one.step}{'' if one.newest else ' by an old receipt'}" for one in message.consumers)
        parts.append(f"message {AGES[message.age]} {message.place}, received {message.receives}{consumers}")
    parts += [f"outbox row {AGES[age]}" for age in state.unsent]
    return "; ".join(parts)
