"""The verdict of the chaos: it finds nothing in a good end, and each fault in a bad one. Needs no cloud."""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from tests.e2e.found import Found
from tests.e2e.load import Truth
from tests.e2e.verdict import faults

ENDED = ("succeeded", "succeeded", "succeeded")
WORK = "matching 0197"
BY_RULES, BY_MODEL = ("invoice 1", "order 1", "rules"), ("invoice 2", "order 2", "llm")
SPARE = ("invoice 3", "order 3", "rules")
TRUTH = Truth(
    edges=frozenset({BY_RULES, BY_MODEL, SPARE}),
    clusters=frozenset({frozenset(BY_RULES[:2]), frozenset(BY_MODEL[:2]), frozenset(SPARE[:2]), frozenset({"twin 2"})}),
    deals=frozenset({frozenset(BY_RULES[:2]), frozenset((*BY_MODEL[:2], "twin 2")), frozenset(SPARE[:2])}),
)
NAMES = sorted(name for deal in TRUTH.deals for name in deal)
GOOD = Found(
    states=Counter({ENDED: len(NAMES)}),
    documents=Counter(NAMES),
    attempts={"acquisition": 1, "ingestion": 3, "matching": 2},
    begun_again=2,
    edges=Counter(TRUTH.edges),
    clusters=TRUTH.clusters,
    failed=Counter(),
    spoilt=frozenset(),
    letters=Counter(),
    notified=Counter(),
    unsent=0,
)
FAILED = replace(
    GOOD,
    states=Counter({ENDED: len(NAMES) - 1, ("succeeded", "succeeded", "failed"): 1}),
    edges=GOOD.edges - Counter([SPARE]),
    clusters=GOOD.clusters - {frozenset(SPARE[:2])} | {frozenset({name}) for name in SPARE[:2]},
    failed=Counter([WORK]),
    spoilt=frozenset({"invoice 3"}),
    letters=Counter([(WORK, "max_retries_exceeded", 3)]),
    notified=Counter([WORK]),
)
"""One document was tried three times in vain, and its deal stays apart."""

Change = Callable[[Found], Found]


def judge(found: Found, *, uploaded: Collection[str] = NAMES, spoilt_at_most: int = 1) -> list[str]:
    return faults(found, uploaded, TRUTH, spoilt_at_most=spoilt_at_most)


def in_states(*states: str | None) -> Change:
    """One of the uploads is in these states."""
    return lambda found: replace(found, states=found.states - Counter([ENDED]) + Counter([states]))


def test_nothing_is_wrong_when_every_document_has_ended_once_and_right():
    assert judge(GOOD) == []


def test_a_document_that_failed_after_three_tries_and_was_told_once_is_no_fault():
    assert judge(FAILED) == []


@pytest.mark.parametrize("states", [("failed", None, None), ("succeeded", "failed", None)])
def test_a_document_may_fail_at_any_stage(states: tuple[str | None, ...]):
    gone = GOOD.documents - Counter(["invoice 3"]) if states[0] == "failed" else GOOD.documents
    found = replace(FAILED, states=Counter({ENDED: len(NAMES) - 1, states: 1}), documents=gone)

    assert judge(found) == []


LOST: dict[str, Change] = {
    "without a trace": lambda found: replace(found, states=found.states - Counter([ENDED])),
    "and its name with it": lambda found: replace(found, documents=found.documents - Counter(["order 1"])),
    "after acquisition": in_states("succeeded", None, None),
    "after ingestion": in_states("succeeded", "succeeded", None),
    "with its message": in_states("pending", None, None),
}
STUCK: dict[str, Change] = {
    "in acquisition": in_states("in-progress", None, None),
    "in ingestion": in_states("succeeded", "in-progress", None),
    "in matching": in_states("succeeded", "succeeded", "in-progress"),
    "before ingestion": in_states("succeeded", "pending", None),
    "before matching": in_states("succeeded", "succeeded", "pending"),
    "in matching, though it had failed before": in_states("succeeded", "failed", "in-progress"),
    "with a message that nobody sends": lambda found: replace(found, unsent=1),
}
DOUBLED: dict[str, Change] = {
    "as a document": lambda found: replace(found, documents=found.documents + Counter(["order 1"])),
    "as an upload": lambda found: replace(found, states=found.states + Counter([ENDED])),
    "as an edge": lambda found: replace(found, edges=found.edges + Counter([BY_RULES])),
    "by rules and by model": lambda found: replace(found, edges=found.edges + Counter([(*BY_RULES[:2], "llm")])),
    "by one try too many": lambda found: replace(found, attempts=found.attempts | {"matching": 4}),
}
WRONG: dict[str, Change] = {
    "an edge is missing": lambda found: replace(found, edges=found.edges - Counter([BY_MODEL])),
    "an edge to the twin": lambda found: replace(found, edges=found.edges + Counter([("invoice 2", "twin 2", "llm")])),
    "a model's word for a rule's": lambda found: replace(
        found, edges=found.edges - Counter([BY_RULES]) + Counter([(*BY_RULES[:2], "llm")])
    ),
    "two clusters in one": lambda found: replace(
        found,
        clusters=found.clusters - {frozenset(BY_RULES[:2]), frozenset({"twin 2"})}
        | {frozenset((*BY_RULES[:2], "twin 2"))},
    ),
    "a cluster in two": lambda found: replace(
        found,
        clusters=found.clusters - {frozenset(BY_RULES[:2])} | {frozenset({"invoice 1"}), frozenset({"order 1"})},
    ),
}


@pytest.mark.parametrize("found", [GOOD, FAILED], ids=["good", "with a failure"])
@pytest.mark.parametrize("change", [pytest.param(change, id=f"lost {name}") for name, change in LOST.items()])
def test_a_lost_document_is_found(change: Change, found: Found):
    assert judge(change(found))


@pytest.mark.parametrize("change", [pytest.param(change, id=f"stuck {name}") for name, change in STUCK.items()])
def test_a_document_that_is_stuck_is_found(change: Change):
    assert judge(change(GOOD))


@pytest.mark.parametrize("change", [pytest.param(change, id=f"done twice {name}") for name, change in DOUBLED.items()])
def test_a_document_that_was_done_twice_is_found(change: Change):
    assert judge(change(GOOD))


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in WRONG.items()])
def test_a_wrong_end_is_found(change: Change):
    assert judge(change(GOOD))


@pytest.mark.parametrize(
    ("letters", "says"),
    [
        ([], f"{WORK} has failed, and has no dead letter of 3 tries."),
        ([(WORK, "max_retries_exceeded", 3)] * 2, "2 dead letters are wrong"),
        ([(WORK, "max_retries_exceeded", 2)], "1 dead letters are wrong"),
        ([(WORK, "non_retriable_error", 3)], "1 dead letters are wrong"),
        ([(WORK, "max_retries_exceeded", 3), ("matching 0198", "max_retries_exceeded", 3)], "1 dead letters are wrong"),
    ],
    ids=["none", "two", "after two tries", "for another reason", "one more, for work that has not failed"],
)
def test_a_failure_without_its_one_dead_letter_is_found(letters: list[tuple[str, str, int]], says: str):
    assert says in " ".join(judge(replace(FAILED, letters=Counter(letters))))


@pytest.mark.parametrize(
    ("notified", "says"),
    [
        ([], "0 notifications tell of it"),
        ([WORK, WORK], "2 notifications tell of it"),
        ([WORK, "matching 0198"], "matching 0198 has not failed, and a notification tells that it has."),
    ],
    ids=["none", "two", "one more, for work that has not failed"],
)
def test_a_failure_that_is_not_told_once_is_found(notified: list[str], says: str):
    assert says in " ".join(judge(replace(FAILED, notified=Counter(notified))))


def test_more_failures_than_chance_explains_are_found():
    assert judge(FAILED, spoilt_at_most=0) == ["1 documents have failed, more than 0."]


def test_an_end_in_which_everything_that_a_model_decides_has_failed_proves_nothing():
    (fault,) = judge(replace(FAILED, spoilt=frozenset({"invoice 2", "invoice 3"})), spoilt_at_most=2)
    assert fault.startswith("Too few are left to judge by")
