"""What became of the cases is held against their truth: nothing that differs goes unseen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from counterfoil.documents.upload_list import Stage, State, Upload
from tools.demo.cases_run import Found, deviations
from tools.sample_generator.cases import Cases, generate_cases

Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]
CASES = generate_cases(1, "rechnung@cases.example")


def shown(place: int, cases: Cases) -> dict[str, Any]:
    """Return the cluster of a case, as the API describes it, without deviations."""
    case = cases.cases[place]
    documents = [
        {
            "id": str(UUID(int=(place + 1) * 100 + n)),
            "type": paper.document.kind,
            "number": paper.document.number,
            "file_name": "file",
            "dead_letter": None,
        }
        for n, paper in enumerate(case.papers)
    ]
    variances = [
        {"number": paper.document.number, "code": code, "within_tolerance": False, "settled_by": None}
        for paper in case.papers
        for code in paper.wrong
    ]
    comparison = {"outcome": "exception" if variances else "matched", "variances": variances}
    return {"id": documents[0]["id"], "documents": documents, "contracts": [], "comparison": comparison}


def all_well() -> Found:
    clusters = {UUID(one["id"]): one for one in (shown(place, CASES) for place in range(len(CASES.cases)))}
    told = {str(id_): {"outcome": one["comparison"]["outcome"]} for id_, one in clusters.items()}
    return Found((), clusters, told, 0)


def changed(found: Found, change: Change) -> Found:
    """The first cluster is another one."""
    (id_, first), *rest = found.clusters.items()
    return replace(found, clusters={id_: change(first), **dict(rest)})


def with_variance(**more: Any) -> Change:
    variance = {"number": "1", "code": "price_mismatch", "within_tolerance": False, "settled_by": None, **more}
    return lambda one: {**one, "comparison": {"outcome": "matched", "variances": [variance]}}


def test_where_all_is_as_it_must_be_nothing_is_told():
    assert deviations(CASES, all_well()) == []


def expected_of(found: Found) -> Sequence[str]:
    return [one.expected for one in deviations(CASES, found)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (with_variance(), "nothing wrong"),
        (lambda one: {**one, "documents": one["documents"][:-1]}, "one cluster of these"),
        (lambda one: {**one, "comparison": None}, "the result for the receiver: None"),
        (lambda one: {**one, "documents": one["documents"][1:]}, "a cluster: all agrees"),
    ],
    ids=["something else is wrong", "a paper is missing", "nothing was computed", "the first paper is missing"],
)
def test_difference_is_a_deviation(change: Change, expected: str):
    assert expected in expected_of(changed(all_well(), change))


@pytest.mark.parametrize("settled", [{"within_tolerance": True}, {"settled_by": "Credited."}])
def test_what_nobody_has_to_look_at_is_no_deviation(settled: dict[str, Any]):
    assert expected_of(changed(all_well(), with_variance(**settled))) == []


def test_a_missing_variance_is_told():
    found = all_well()
    wrong = next(id_ for id_, one in found.clusters.items() if one["comparison"]["variances"])
    silent = {**found.clusters[wrong], "comparison": {"outcome": "exception", "variances": []}}
    (one,) = deviations(CASES, replace(found, clusters={**found.clusters, wrong: silent}))
    assert one.found == "nothing wrong"


def test_a_receiver_that_heard_something_else_is_told():
    found = all_well()
    id_ = str(next(iter(found.clusters)))
    for told in ({**found.told, id_: {"outcome": "incomplete"}}, {**found.told, id_: None}):
        assert expected_of(replace(found, told=told)) == ["the result for the receiver: matched"]


def test_a_failed_document_is_told():
    failed = Upload(
        UUID(int=1), "cases", "a.pdf", "key", datetime.now(UTC), Stage.INGESTION, State.FAILED, "The file is empty."
    )
    (one,) = deviations(CASES, replace(all_well(), documents=[failed]))
    assert (one.files, one.found) == (["a.pdf"], "failed: The file is empty.")
