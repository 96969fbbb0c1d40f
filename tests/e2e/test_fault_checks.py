"""`find_faults` reports each fault, and none in a correct result.

Requires no cloud.
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

import pytest

from tests.e2e.database_snapshot import Snapshot
from tests.e2e.fault_checks import find_faults
from tests.e2e.load import GroundTruth

ENDED_STATES = ("succeeded", "succeeded", "succeeded")
WORK_ITEM = "matching 0197"
BY_RULES, BY_MODEL = ("invoice 1", "order 1", "rules"), ("invoice 2", "order 2", "llm")
UNAFFECTED = ("invoice 3", "order 3", "rules")
GROUND_TRUTH = GroundTruth(
    edges=frozenset({BY_RULES, BY_MODEL, UNAFFECTED}),
    clusters=frozenset(
        {frozenset(BY_RULES[:2]), frozenset(BY_MODEL[:2]), frozenset(UNAFFECTED[:2]), frozenset({"twin 2"})}
    ),
    deals=frozenset({frozenset(BY_RULES[:2]), frozenset((*BY_MODEL[:2], "twin 2")), frozenset(UNAFFECTED[:2])}),
)
NAMES = sorted(name for deal in GROUND_TRUTH.deals for name in deal)
CORRECT = Snapshot(
    states=Counter({ENDED_STATES: len(NAMES)}),
    documents=Counter(NAMES),
    attempts={"acquisition": 1, "ingestion": 3, "matching": 2},
    retried_items=2,
    edges=Counter(GROUND_TRUTH.edges),
    clusters=GROUND_TRUTH.clusters,
    failed=Counter(),
    failed_files=frozenset(),
    dead_letters=Counter(),
    notified=Counter(),
    unsent=0,
)
CORRECT_WITH_FAILURE = replace(
    CORRECT,
    states=Counter({ENDED_STATES: len(NAMES) - 1, ("succeeded", "succeeded", "failed"): 1}),
    edges=CORRECT.edges - Counter([UNAFFECTED]),
    clusters=CORRECT.clusters - {frozenset(UNAFFECTED[:2])} | {frozenset({name}) for name in UNAFFECTED[:2]},
    failed=Counter([WORK_ITEM]),
    failed_files=frozenset({"invoice 3"}),
    dead_letters=Counter([(WORK_ITEM, "max_retries_exceeded", 3)]),
    notified=Counter([WORK_ITEM]),
)
"""One document failed after three attempts, so its deal has no edge."""

Change = Callable[[Snapshot], Snapshot]


def check(snapshot: Snapshot, *, uploaded: Collection[str] = NAMES, max_failed: int = 1) -> list[str]:
    return find_faults(snapshot, uploaded, GROUND_TRUTH, max_failed=max_failed)


def with_upload_in(*states: str | None) -> Change:
    """Return a change that replaces one upload's states."""
    return lambda snapshot: replace(snapshot, states=snapshot.states - Counter([ENDED_STATES]) + Counter([states]))


def test_correct_result_is_not_a_fault():
    assert check(CORRECT) == []


def test_notified_failure_after_three_attempts_is_permitted():
    assert check(CORRECT_WITH_FAILURE) == []


@pytest.mark.parametrize("states", [("failed", None, None), ("succeeded", "failed", None)])
def test_failure_at_any_stage_is_permitted(states: tuple[str | None, ...]):
    documents = CORRECT.documents - Counter(["invoice 3"]) if states[0] == "failed" else CORRECT.documents
    snapshot = replace(
        CORRECT_WITH_FAILURE, states=Counter({ENDED_STATES: len(NAMES) - 1, states: 1}), documents=documents
    )

    assert check(snapshot) == []


LOST_CASES: dict[str, Change] = {
    "upload state": lambda snapshot: replace(snapshot, states=snapshot.states - Counter([ENDED_STATES])),
    "document": lambda snapshot: replace(snapshot, documents=snapshot.documents - Counter(["order 1"])),
    "after acquisition": with_upload_in("succeeded", None, None),
    "after ingestion": with_upload_in("succeeded", "succeeded", None),
    "before acquisition": with_upload_in("pending", None, None),
}
STUCK_CASES: dict[str, Change] = {
    "in acquisition": with_upload_in("in-progress", None, None),
    "in ingestion": with_upload_in("succeeded", "in-progress", None),
    "in matching": with_upload_in("succeeded", "succeeded", "in-progress"),
    "before ingestion": with_upload_in("succeeded", "pending", None),
    "before matching": with_upload_in("succeeded", "succeeded", "pending"),
    "in matching after a failed ingestion": with_upload_in("succeeded", "failed", "in-progress"),
    "with an unsent message": lambda snapshot: replace(snapshot, unsent=1),
}
DOUBLED_CASES: dict[str, Change] = {
    "as a document": lambda snapshot: replace(snapshot, documents=snapshot.documents + Counter(["order 1"])),
    "as an upload": lambda snapshot: replace(snapshot, states=snapshot.states + Counter([ENDED_STATES])),
    "as an edge": lambda snapshot: replace(snapshot, edges=snapshot.edges + Counter([BY_RULES])),
    "by rules and by model": lambda snapshot: replace(
        snapshot, edges=snapshot.edges + Counter([(*BY_RULES[:2], "llm")])
    ),
    "by an extra attempt": lambda snapshot: replace(snapshot, attempts=snapshot.attempts | {"matching": 4}),
}
WRONG_CASES: dict[str, Change] = {
    "an edge is missing": lambda snapshot: replace(snapshot, edges=snapshot.edges - Counter([BY_MODEL])),
    "an edge to the twin": lambda snapshot: replace(
        snapshot, edges=snapshot.edges + Counter([("invoice 2", "twin 2", "llm")])
    ),
    "a model decision instead of a rule": lambda snapshot: replace(
        snapshot, edges=snapshot.edges - Counter([BY_RULES]) + Counter([(*BY_RULES[:2], "llm")])
    ),
    "two clusters merged into one": lambda snapshot: replace(
        snapshot,
        clusters=snapshot.clusters - {frozenset(BY_RULES[:2]), frozenset({"twin 2"})}
        | {frozenset((*BY_RULES[:2], "twin 2"))},
    ),
    "a cluster split in two": lambda snapshot: replace(
        snapshot,
        clusters=snapshot.clusters - {frozenset(BY_RULES[:2])} | {frozenset({"invoice 1"}), frozenset({"order 1"})},
    ),
}


@pytest.mark.parametrize("snapshot", [CORRECT, CORRECT_WITH_FAILURE], ids=["without failures", "with a failure"])
@pytest.mark.parametrize("change", [pytest.param(change, id=f"lost {name}") for name, change in LOST_CASES.items()])
def test_lost_document_is_reported(change: Change, snapshot: Snapshot):
    assert check(change(snapshot))


@pytest.mark.parametrize("change", [pytest.param(change, id=f"stuck {name}") for name, change in STUCK_CASES.items()])
def test_stuck_document_is_reported(change: Change):
    assert check(change(CORRECT))


@pytest.mark.parametrize(
    "change", [pytest.param(change, id=f"processed twice {name}") for name, change in DOUBLED_CASES.items()]
)
def test_document_processed_twice_is_reported(change: Change):
    assert check(change(CORRECT))


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in WRONG_CASES.items()])
def test_wrong_match_is_reported(change: Change):
    assert check(change(CORRECT))


@pytest.mark.parametrize(
    ("dead_letters", "message"),
    [
        ([], f"{WORK_ITEM} has failed but has no dead letter after 3 attempts."),
        ([(WORK_ITEM, "max_retries_exceeded", 3)] * 2, "2 dead letters are wrong"),
        ([(WORK_ITEM, "max_retries_exceeded", 2)], "1 dead letters are wrong"),
        ([(WORK_ITEM, "non_retriable_error", 3)], "1 dead letters are wrong"),
        (
            [(WORK_ITEM, "max_retries_exceeded", 3), ("matching 0198", "max_retries_exceeded", 3)],
            "1 dead letters are wrong",
        ),
    ],
    ids=["none", "two", "after two attempts", "for another reason", "extra one for a work item that has not failed"],
)
def test_failure_without_exactly_one_dead_letter_is_reported(dead_letters: list[tuple[str, str, int]], message: str):
    assert message in " ".join(check(replace(CORRECT_WITH_FAILURE, dead_letters=Counter(dead_letters))))


@pytest.mark.parametrize(
    ("notified", "message"),
    [
        ([], "has failed with 0 notifications"),
        ([WORK_ITEM, WORK_ITEM], "has failed with 2 notifications"),
        ([WORK_ITEM, "matching 0198"], "matching 0198 has a notification but has not failed."),
    ],
    ids=["none", "two", "extra one for a work item that has not failed"],
)
def test_failure_without_exactly_one_notification_is_reported(notified: list[str], message: str):
    assert message in " ".join(check(replace(CORRECT_WITH_FAILURE, notified=Counter(notified))))


def test_too_many_failures_are_reported():
    assert check(CORRECT_WITH_FAILURE, max_failed=0) == ["1 documents have failed, more than 0."]


def test_result_without_model_decisions_is_inconclusive():
    (fault,) = check(replace(CORRECT_WITH_FAILURE, failed_files=frozenset({"invoice 2", "invoice 3"})), max_failed=2)
    assert fault.startswith("Inconclusive")
