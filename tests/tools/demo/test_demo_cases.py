"""Every difference between actual and expected results of a case is reported."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from counterfoil.documents.upload_list import Stage, State, Upload
from tools.demo.demo_cases import CaseResults, mismatches
from tools.sample_generator.cases import Cases, generate_cases

Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]
CASES = generate_cases(1, "rechnung@cases.example")


def cluster_of(place: int, cases: Cases) -> dict[str, Any]:
    """Return the cluster that the API is expected to return for a case."""
    case = cases.cases[place]
    documents = [
        {
            "id": str(UUID(int=(place + 1) * 100 + n)),
            "type": item.document.kind,
            "number": item.document.number,
            "file_name": "file",
            "dead_letter": None,
        }
        for n, item in enumerate(case.documents)
    ]
    variances = [
        {"number": item.document.number, "code": code, "within_tolerance": False, "decided_by": None}
        for item in case.documents
        for code in item.codes
    ]
    comparison = {"outcome": "exception" if variances else "matched", "variances": variances}
    return {"id": documents[0]["id"], "documents": documents, "contracts": [], "comparison": comparison}


def expected_results() -> CaseResults:
    clusters = {UUID(one["id"]): one for one in (cluster_of(place, CASES) for place in range(len(CASES.cases)))}
    received = {str(id_): {"outcome": one["comparison"]["outcome"]} for id_, one in clusters.items()}
    return CaseResults((), clusters, received, 0)


def change_result(found: CaseResults, change: Change) -> CaseResults:
    """Return the results with a change to the first cluster."""
    (id_, first), *rest = found.clusters.items()
    return replace(found, clusters={id_: change(first), **dict(rest)})


def with_variance(**more: Any) -> Change:
    variance = {"number": "1", "code": "price_mismatch", "within_tolerance": False, "decided_by": None, **more}
    return lambda one: {**one, "comparison": {"outcome": "matched", "variances": [variance]}}


def test_expected_results_have_no_mismatch():
    assert mismatches(CASES, expected_results()) == []


def expected_of(found: CaseResults) -> Sequence[str]:
    return [one.expected for one in mismatches(CASES, found)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (with_variance(), "no variances"),
        (lambda one: {**one, "documents": one["documents"][:-1]}, "one cluster with exactly these documents"),
        (lambda one: {**one, "comparison": None}, "webhook result: None"),
        (lambda one: {**one, "documents": one["documents"][1:]}, "a cluster: no differences"),
    ],
    ids=["unexpected variance", "last document missing", "no comparison", "first document missing"],
)
def test_difference_is_a_mismatch(change: Change, expected: str):
    assert expected in expected_of(change_result(expected_results(), change))


@pytest.mark.parametrize("settled", [{"within_tolerance": True}, {"decided_by": "Credited."}])
def test_tolerated_or_decided_variance_is_not_reported(settled: dict[str, Any]):
    assert expected_of(change_result(expected_results(), with_variance(**settled))) == []


def test_missing_variance_is_a_mismatch():
    found = expected_results()
    id_ = next(id_ for id_, one in found.clusters.items() if one["comparison"]["variances"])
    silent = {**found.clusters[id_], "comparison": {"outcome": "exception", "variances": []}}
    (one,) = mismatches(CASES, replace(found, clusters={**found.clusters, id_: silent}))
    assert one.found == "no variances"


def test_different_webhook_result_is_a_mismatch():
    found = expected_results()
    id_ = str(next(iter(found.clusters)))
    for received in ({**found.received, id_: {"outcome": "incomplete"}}, {**found.received, id_: None}):
        assert expected_of(replace(found, received=received)) == ["webhook result: matched"]


def test_failed_document_is_a_mismatch():
    failed = Upload(
        UUID(int=1), "cases", "a.pdf", "key", datetime.now(UTC), Stage.INGESTION, State.FAILED, "The file is empty."
    )
    (one,) = mismatches(CASES, replace(expected_results(), documents=[failed]))
    assert (one.files, one.found) == (["a.pdf"], "failed: The file is empty.")
