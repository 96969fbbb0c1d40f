"""Breadth-first search through all states, with invariants and counterexamples."""

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
    UNKNOWN,
    UNREGISTERED,
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
    """One of the shortest histories that violate an invariant."""

    violation: str
    path: Sequence[tuple[str, State]]
    """Each transition with the state after it, starting with the initial state."""

    def __str__(self) -> str:
        lines = [f"{number:3}. {name}\n     {describe(state)}" for number, (name, state) in enumerate(self.path)]
        return "\n".join([*lines, f"     VIOLATION: {self.violation}"])

    def __len__(self) -> int:
        return len(self.path) - 1


@dataclass(frozen=True)
class Exploration:
    """Result of a search."""

    states: int
    counterexample: Counterexample | None
    seconds: float


def explore(rules: Rules | None = None, bounds: Bounds | None = None) -> Exploration:
    """Visit all reachable states until one violates an invariant.

    `rules` and `bounds` determine which states are reachable. States closer to the start are visited first.
    """
    rules = rules or Rules()
    return Search(rules, bounds or Bounds(), Reduction(rules)).run()


class Search:
    """One search. `reduction` merges equivalent states."""

    def __init__(self, rules: Rules, bounds: Bounds, reduction: Callable[[State], State]) -> None:
        self._rules = rules
        self._bounds = bounds
        self._steps = Steps(rules, bounds)
        self._reduced = reduction
        self._numbers: dict[State, int] = {}
        self.states: list[State] = []
        self._reached_from = array("l")
        self._reached_by: list[str] = []
        # Transitions that make progress, as pairs of state numbers: before, after.
        self._before = array("l")
        self._after = array("l")

    def run(self) -> Exploration:
        """Visit every state, until one violates an invariant."""
        started = perf_counter()
        was_enabled = gc.isenabled()
        gc.disable()  # the states have no reference cycles, but the collector would traverse all of them repeatedly
        try:
            counterexample = self._search()
        finally:
            if was_enabled:
                gc.enable()
        return Exploration(len(self.states), counterexample, perf_counter() - started)

    def _search(self) -> Counterexample | None:
        for name, state in _initial_states(self._bounds):
            self._number(state, -1, name)
        number = 0
        while number < len(self.states):
            state = self.states[number]
            violation = self._find_violation(state)
            if violation is not None:
                return Counterexample(violation, self._path(number))
            for step in self._steps.after(state):
                after = self._number(self._reduced(step.state), number, step.name)
                if step.is_progress:
                    self._before.append(number)
                    self._after.append(after)
            number += 1
        return self._find_endless()

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

    def _find_endless(self) -> Counterexample | None:
        """Return a path to a state from which the rules might not terminate, or None.

        From each state, every path without faults and deferrals must be finite and end in a final state.
        """
        successors: list[list[int]] = [[] for _ in self.states]
        incoming = array("l", bytes(self._before.itemsize * len(self.states)))
        for before, successor in zip(self._before, self._after, strict=True):
            successors[before].append(successor)
            incoming[successor] += 1
        dead_end = next(
            (number for number, edges in enumerate(successors) if not edges and not _is_finished(self.states[number])),
            None,
        )
        if dead_end is not None:
            return Counterexample("the rules cannot finish the work item", self._path(dead_end))
        pending = [number for number, edges in enumerate(incoming) if not edges]
        while pending:
            for successor in successors[pending.pop()]:
                incoming[successor] -= 1
                if not incoming[successor]:
                    pending.append(successor)
        cycle = next((number for number, edges in enumerate(incoming) if edges), None)
        if cycle is None:
            return None
        return Counterexample("the rules can loop forever", self._path(cycle))

    def _find_violation(self, state: State) -> str | None:
        """Return the first violated invariant, or None."""
        work = state.work
        if work.violation:
            return work.violation
        violations = {
            "effects were committed twice or with a different outcome": work.effects != (work.status == SUCCEEDED),
            "too many attempts": work.attempts > MAX_ATTEMPTS,
            "the attempts do not equal the claims": work.attempts != work.claims,
            "a dead letter without a failure, or two for one failure": work.failures != (work.status == FAILED),
            "a failure without its one notification": work.notifications != work.failures,
        }
        if work.status not in ENDED and work.status != UNKNOWN:
            violations |= self._violations_while_unfinished(state)
        return next((violation for violation, is_violated in violations.items() if is_violated), None)

    def _violations_while_unfinished(self, state: State) -> dict[str, bool]:
        """Return which message invariants of an unfinished work item are violated."""
        bounds = self._bounds
        queued = [message for message in state.messages if message.status in {VISIBLE, HIDDEN}]
        dead = any(message.status == DEAD and message.age <= CURRENT for message in state.messages)
        has_message = dead or CURRENT in state.unsent or any(message.age <= CURRENT for message in queued)
        purged = state.purges < bounds.purges
        restored = state.restores < bounds.restores
        is_fault_free = (
            state.crashes == bounds.crashes and state.copies == bounds.copies and not purged and not restored
        )
        queued_count = sum(message.age < self._rules.oldest and not _is_acknowledged(message) for message in queued)
        unsent_count = sum(age < self._rules.oldest for age in state.unsent)
        return {
            "the work item is lost: it has neither a message nor an outbox row": not has_message and not purged,
            "a message was dead-lettered without a fault": dead and is_fault_free,
            "a parked work item has too many messages": queued_count + unsent_count > 1 + bounds.copies - state.copies
            and not restored,
        }


def _initial_states(bounds: Bounds) -> Iterator[tuple[str, State]]:
    limits = (bounds.crashes, bounds.copies, bounds.revisions, bounds.purges, bounds.restores)
    message = (Message(VISIBLE, CURRENT, 0),)
    yield "a work item is accepted, with its outbox row", State(Work(PENDING), (), (CURRENT,), *limits)
    yield "an external event refers to a new work item", State(Work(UNREGISTERED), message, (), *limits)
    yield "a message refers to an unknown work item", State(Work(UNKNOWN), message, (), *limits)


def _is_acknowledged(message: Message) -> bool:
    return any(consumer.is_newest and consumer.step == ACKNOWLEDGING for consumer in message.consumers)


def _is_finished(state: State) -> bool:
    """Return whether the work item is finished and nothing is in progress."""
    is_ended = state.work.status in ENDED or state.work.status == UNKNOWN
    return is_ended and not state.messages and not state.unsent


AGES = {
    NEWER: "newer than its row",
    CURRENT: "current",
    OLDER_SEND: "of an older send number",
    OLDER_REVISION: "of an older revision",
}


def describe(state: State) -> str:
    """Describe a state in one line."""
    work = state.work
    parts = [f"{work.status}, attempts {work.attempts}"]
    if work.returns:
        parts.append(f"returned {work.returns}")
    if work.status == RUNNING:
        parts.append("lease live" if work.is_leased else "lease expired")
    if work.status == PENDING and not work.is_due:
        parts.append("not due")
    for message in state.messages:
        consumers = "".join(
            f", {consumer.step}{'' if consumer.is_newest else ' with an outdated receipt'}"
            for consumer in message.consumers
        )
        parts.append(f"message {AGES[message.age]} {message.status}, received {message.receives}{consumers}")
    parts += [f"outbox row {AGES[age]}" for age in state.unsent]
    return "; ".join(parts)
