"""Delivery's rules hold in every state that they can reach, and no rule is there for nothing."""

import os
from dataclasses import fields
from pathlib import Path

import pytest

from tools.delivery_model import RULES, TWINS, Bounds, explore
from tools.delivery_model.exploration import Search
from tools.delivery_model.reduction import Reduction
from tools.delivery_model.states import DELETED, State

WHY = Path(__file__).parents[2] / "docs" / "why.md"
SMALL = Bounds(crashes=2, copies=1, revisions=1)
"""Enough for every twin to go wrong."""
COPIES = 2 if "COUNTERFOIL_SOAK_SECONDS" in os.environ else 1
"""Copies of messages that SQS may deliver; `make soak` explores two."""
STATES = {1: 43_123, 2: 355_200}
"""Reachable states by copies, with two crashes and one new revision. They change with the rules alone."""
NEEDED = {
    "lost message not resent to a busy queue": Bounds(crashes=0, copies=0, revisions=0, purges=1, busy=True),
    "newer message acknowledged as unknown": Bounds(crashes=0, copies=0, revisions=0, restores=1),
}
"""Bounds of the mutants that need other faults than `SMALL` has."""
LOST = "the work is lost: neither a message nor the outbox owes it"
DIED = "a message died though nothing went wrong"
STALE = "a stale try writes"
STUCK = "no rule can end this"
BROKEN = {
    "delete in finally": LOST,
    "no claim token": STALE,
    "attempts used as the token, reset by a new revision": STALE,
    "no new token with a new revision": STALE,
    "no new token taken by the archiver": STALE,
    "no new token taken by parking": STALE,
    "attempts given back without the token": "the attempts counted are not the claims made",
    "no lease: never reclaimed": STUCK,
    "no lease: claimed while running": "work is claimed while its try is alive",
    "exhausted work claimed again": "more attempts than there may be",
    "exhausted when asked, given back when settled": "a dead letter for work with attempts left",
    "stale try acknowledged": LOST,
    "no send number": "parked work has more messages than it was owed",
    "parked without its outbox row": LOST,
    "early message skipped": LOST,
    "breaker by short visibility": DIED,
    "permit before protection": DIED,
    "throttling gate": DIED,
    "unheard commit taken for made": LOST,
    "notification after the transaction": "a failure without its one notification",
    "permanent failure tried again": "failed work is tried again in the same revision",
    "dead letter deleted before it is written": LOST,
    "lost message not resent to a busy queue": STUCK,
    "newer message acknowledged as unknown": LOST,
}
"""What each twin breaks."""


def test_no_reachable_state_breaks_an_invariant() -> None:
    exploration = explore(RULES, Bounds(crashes=2, copies=COPIES, revisions=1))

    assert exploration.counterexample is None, str(exploration.counterexample)
    assert exploration.states == STATES[COPIES]
    assert f": {STATES[2]:,}, and in each of them" in WHY.read_text()


def test_lost_message_is_resent_to_a_busy_queue() -> None:
    exploration = explore(RULES, Bounds(crashes=1, copies=1, revisions=1, purges=1, busy=True))

    assert exploration.counterexample is None, str(exploration.counterexample)
    assert exploration.states > 15_000


@pytest.mark.parametrize(("crashes", "revisions", "states"), [(1, 0, 15_000), (0, 1, 1_500)])
def test_newer_message_than_its_row_loses_no_work(crashes: int, revisions: int, states: int) -> None:
    exploration = explore(RULES, Bounds(crashes=crashes, copies=0, revisions=revisions, restores=1))

    assert exploration.counterexample is None, str(exploration.counterexample)
    assert exploration.states > states


@pytest.mark.parametrize("name", TWINS)
def test_without_one_of_its_rules_delivery_goes_wrong(name: str) -> None:
    counterexample = explore(TWINS[name], NEEDED.get(name, SMALL)).counterexample

    assert counterexample is not None
    assert counterexample.broken == BROKEN[name]


def test_a_counterexample_reads_as_a_history() -> None:
    counterexample = explore(TWINS["delete in finally"], SMALL).counterexample

    assert str(counterexample).splitlines() == [
        "  0. an event from outside tells of work",
        "     unborn, attempts 0; message current visible, received 0",
        "  1. the message is protected",
        "     unborn, attempts 0; message current hidden, received 1, protected",
        "  2. claim: mine",
        "     in-progress, attempts 1; lease lives; message current hidden, received 1, working",
        "  3. transient failure: backoff",
        "     pending, attempts 1; not due; message current hidden, received 1, acknowledging",
        "  4. acknowledged",
        "     pending, attempts 1; not due",
        "     BROKEN: the work is lost: neither a message nor the outbox owes it",
    ]


def test_every_rule_has_a_twin_that_is_without_it() -> None:
    for rule in fields(RULES):
        assert any(not getattr(twin, rule.name) for twin in TWINS.values()), rule.name


def in_order(state: State) -> State:
    """Forgets nothing but the order of messages and consumers, and messages that are gone for everybody."""
    messages = [one for one in state.messages if one.consumers or one.place != DELETED]
    messages = sorted(one._replace(consumers=tuple(sorted(one.consumers))) for one in messages)
    return state._replace(messages=tuple(messages), unsent=tuple(sorted(state.unsent)))


def test_the_states_that_are_taken_for_one_another_behave_alike() -> None:
    bounds = Bounds(crashes=1, copies=0, revisions=0, messages=3)
    reduction = Reduction(RULES)
    reduced, whole = Search(RULES, bounds, reduction), Search(RULES, bounds, in_order)

    assert reduced.run().counterexample is None
    assert whole.run().counterexample is None

    assert len(whole.states) > 10 * len(reduced.states)
    assert {reduction(state) for state in whole.states} == set(reduced.states)
