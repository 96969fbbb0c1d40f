"""The delivery rules satisfy all invariants, and every rule is necessary."""

import os
from dataclasses import fields
from pathlib import Path

import pytest

from tools.delivery_model import MUTANTS, RULES, Bounds, explore
from tools.delivery_model.exploration import Search
from tools.delivery_model.reduction import Reduction
from tools.delivery_model.states import DELETED, State

PAGE = Path(__file__).parents[2] / "docs" / "delivery.md"
SMALL = Bounds(crashes=2, copies=1, revisions=1)
"""Bounds within which most mutants violate an invariant."""
COPIES = 2 if "COUNTERFOIL_SOAK_SECONDS" in os.environ else 1
"""Number of duplicate messages that SQS may deliver. `make soak` explores two."""
STATES = {1: 43_123, 2: 355_200}
"""Number of reachable states by number of duplicates, with two crashes and one new revision."""
MUTANT_BOUNDS = {
    "lost message not resent to a busy queue": Bounds(crashes=0, copies=0, revisions=0, purges=1, busy=True),
    "newer message acknowledged as unknown": Bounds(crashes=0, copies=0, revisions=0, restores=1),
}
"""Bounds for mutants that violate no invariant within `SMALL`."""
LOST = "the work item is lost: it has neither a message nor an outbox row"
DEAD_LETTERED = "a message was dead-lettered without a fault"
STALE = "a stale attempt writes"
STUCK = "the rules cannot finish the work item"
VIOLATIONS = {
    "delete in finally": LOST,
    "no claim token": STALE,
    "attempts used as the token, reset by a new revision": STALE,
    "no new token with a new revision": STALE,
    "no new token taken by the archiver": STALE,
    "no new token taken by parking": STALE,
    "attempts returned without the token": "the attempts do not equal the claims",
    "no lease: never reclaimed": STUCK,
    "no lease: claimed while running": "a work item is claimed during its attempt",
    "exhausted work item claimed again": "too many attempts",
    "exhausted when claimed, returned when settled": "a dead letter with attempts left",
    "stale attempt acknowledged": LOST,
    "no send number": "a parked work item has too many messages",
    "parked without its outbox row": LOST,
    "early message skipped": LOST,
    "breaker by short visibility": DEAD_LETTERED,
    "permit before protection": DEAD_LETTERED,
    "throttling limit": DEAD_LETTERED,
    "unconfirmed commit assumed": LOST,
    "notification after the transaction": "a failure without its one notification",
    "permanent failure retried": "a failed work item is retried in the same revision",
    "dead letter deleted before it is written": LOST,
    "lost message not resent to a busy queue": STUCK,
    "newer message acknowledged as unknown": LOST,
}
"""Expected violation by mutant."""


def test_reachable_states_satisfy_all_invariants() -> None:
    exploration = explore(RULES, Bounds(crashes=2, copies=COPIES, revisions=1))

    assert exploration.counterexample is None, str(exploration.counterexample)
    assert exploration.states == STATES[COPIES]
    assert f"the {STATES[2]:,} states with two duplicates" in PAGE.read_text()


def test_lost_message_is_resent_to_a_busy_queue() -> None:
    exploration = explore(RULES, Bounds(crashes=1, copies=1, revisions=1, purges=1, busy=True))

    assert exploration.counterexample is None, str(exploration.counterexample)
    assert exploration.states > 15_000


@pytest.mark.parametrize(("crashes", "revisions", "states"), [(1, 0, 15_000), (0, 1, 1_500)])
def test_message_newer_than_row_loses_no_work(crashes: int, revisions: int, states: int) -> None:
    exploration = explore(RULES, Bounds(crashes=crashes, copies=0, revisions=revisions, restores=1))

    assert exploration.counterexample is None, str(exploration.counterexample)
    assert exploration.states > states


@pytest.mark.parametrize("name", MUTANTS)
def test_mutant_violates_invariant(name: str) -> None:
    counterexample = explore(MUTANTS[name], MUTANT_BOUNDS.get(name, SMALL)).counterexample

    assert counterexample is not None
    assert counterexample.violation == VIOLATIONS[name]


def test_counterexample_is_readable() -> None:
    counterexample = explore(MUTANTS["delete in finally"], SMALL).counterexample

    assert str(counterexample).splitlines() == [
        "  0. an external event refers to a new work item",
        "     unregistered, attempts 0; message current visible, received 0",
        "  1. the message is protected",
        "     unregistered, attempts 0; message current hidden, received 1, protected",
        "  2. claim: claimed",
        "     in-progress, attempts 1; lease live; message current hidden, received 1, working",
        "  3. transient failure: backoff",
        "     pending, attempts 1; not due; message current hidden, received 1, acknowledging",
        "  4. acknowledged",
        "     pending, attempts 1; not due",
        "     VIOLATION: the work item is lost: it has neither a message nor an outbox row",
    ]


def test_every_rule_has_a_mutant() -> None:
    for rule in fields(RULES):
        assert any(not getattr(mutant, rule.name) for mutant in MUTANTS.values()), rule.name


def canonical(state: State) -> State:
    """Sort messages and consumers, and drop deleted messages without consumers."""
    messages = [one for one in state.messages if one.consumers or one.status != DELETED]
    messages = sorted(one._replace(consumers=tuple(sorted(one.consumers))) for one in messages)
    return state._replace(messages=tuple(messages), unsent=tuple(sorted(state.unsent)))


def test_reduction_preserves_reachable_states() -> None:
    bounds = Bounds(crashes=1, copies=0, revisions=0, messages=3)
    reduction = Reduction(RULES)
    reduced, whole = Search(RULES, bounds, reduction), Search(RULES, bounds, canonical)

    assert reduced.run().counterexample is None
    assert whole.run().counterexample is None

    assert len(whole.states) > 10 * len(reduced.states)
    assert {reduction(state) for state in whole.states} == set(reduced.states)
