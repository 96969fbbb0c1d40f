"""The matching benchmark reads sets, lists mistakes and scores other libraries."""

import csv
import sys
from pathlib import Path
from subprocess import run
from typing import Any

import numpy as np
import pytest

from counterfoil.documents.matching.keys import PARENT_KINDS
from tests.benchmarks.matching import text
from tests.benchmarks.matching.__main__ import main
from tests.benchmarks.matching.comparison import ROOT, Absent, best_threshold, compare, reach
from tests.benchmarks.matching.errors import mistakes, write_mistakes
from tests.benchmarks.matching.labeled_sets import by_tenant, origin, read_samples
from tests.benchmarks.matching.pairs import read_half, records, whole_text
from tests.benchmarks.matching.peers import (
    Peer,
    dedupe,
    number_only,
    ours_decided,
    peak_megabytes,
    splink,
    splink_labeled,
)
from tests.benchmarks.matching.quality import Figures, Scored, average
from tests.documents.matching.samples import OTHER_SELLER, contract, delivery, invoice, line, order
from tests.tools.evaluation.test_evaluate import write_set
from tools.evaluation.agreement import Agreement, Edge
from tools.evaluation.command import MatchingResult, document_ids
from tools.evaluation.labeled_set import read_set

PAPERS = [
    order("4711"),
    delivery(po_reference="PO 4711"),
    invoice("R-1", po_reference="4711"),
    contract("RV-60"),
    order("4711", seller=OTHER_SELLER, lines=[line("B-7", "3", "99.00")]),
]
LABELS = {
    "edges_csv": "a,b\np0,p1\np0,p2\np1,p2\n",
    "clusters_csv": "document,cluster\np0,k\np1,k\np2,k\np3,p3\np4,p4\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_set(tmp_path / "linked", PAPERS, **LABELS)


def test_origin_is_read_from_the_readme(folder: Path):
    assert origin(folder) == "unknown"
    (folder / "README.md").write_text("# linked\n\nGenerated data: a mix. Real firms are in it by chance.\n")
    (sample,) = read_samples(folder.parent)
    assert (sample.name, sample.origin, sample.can_train) == ("linked", "generated", False)


def test_folder_without_labels_is_skipped(folder: Path):
    write_set(folder.parent / "bare", PAPERS)
    assert [sample.name for sample in read_samples(folder.parent)] == ["linked"]


def test_set_is_split_by_tenant(folder: Path):
    other = write_set(folder.parent / "other", PAPERS, tenant="Ulm").joinpath("documents.jsonl").read_text()
    renamed = other.replace('"id": "p', '"id": "q')
    (folder / "documents.jsonl").write_text((folder / "documents.jsonl").read_text() + renamed)
    (folder / "clusters.csv").write_text(
        LABELS["clusters_csv"] + "".join(f"q{number},q{number}\n" for number in range(len(PAPERS)))
    )
    ours, theirs = by_tenant(read_set(folder))
    assert (ours.name, len(ours.documents), len(ours.edges or ())) == ("linked/Brede", 5, 3)
    assert (theirs.name, len(theirs.documents), len(theirs.edges or ())) == ("linked/Ulm", 5, 0)


def test_false_and_missed_links_are_listed_with_evidence(folder: Path, tmp_path: Path):
    labeled = read_set(folder)
    ids = document_ids(labeled.documents)
    features = [["number", "same, medium", 8.5], ["seller", "another name", -1.5]]
    false = {"by": "reference", "child": str(ids["p2"]), "probability": 0.9, "features": features}
    right: dict[Edge, dict[str, Any]] = {frozenset({"p0", "p1"}): {}, frozenset({"p1", "p2"}): {}}
    matched = MatchingResult({}, {**right, frozenset({"p4", "p2"}): false}, {"p2": "Why."}, 0, 0, 1.0)
    wrong, missed = found = list(mistakes(labeled, matched))
    assert (wrong.error, wrong.child, wrong.parent, wrong.rule, wrong.bits) == ("false", "p2", "p4", "reference", 7.0)
    assert wrong.waterfall == "named number: same, medium +8.50; supplier: another name -1.50"
    assert (missed.error, missed.child, missed.parent, missed.rule) == ("missed", "p2", "p0", "")
    assert "named number: same" in missed.waterfall
    assert missed.bits is not None
    assert missed.bits > 0
    assert missed.reason == "Why."
    path = tmp_path / "errors.csv"
    assert write_mistakes(path, (("linked", "others", one) for one in found)) == 2
    with path.open(newline="", encoding="utf-8") as file:
        assert [row["error"] for row in csv.DictReader(file)] == ["false", "missed"]


def test_average_averages_figures_and_sums_counts():
    halves = [
        Scored("", "", "", Figures(one, one, one, error, 10, 2.0), ())
        for one, error in ((Agreement.from_counts(4, 4, 4), 0.0), (Agreement.from_counts(2, 4, 1), 0.1))
    ]
    mean = average(halves)
    assert (mean.edges.precision, mean.edges.recall, mean.edges.expected) == (0.75, 0.625, 8)
    assert (mean.calibration_error, mean.documents, mean.seconds) == (0.05, 20, 4.0)


def test_records_contain_reference_and_document_number(folder: Path):
    half = read_half(folder)
    by_kinds = {(pair.child.kind, pair.parent.kind, pair.is_match): pair for pair in half.pairs}
    child, parent = records(by_kinds["delivery_note", "purchase_order", True])
    assert (child["number"], parent["number"]) == ("4711", "4711")
    assert child.keys() == parent.keys()
    child, parent = records(by_kinds["invoice", "purchase_order", False])
    assert child["seller_vat"] != parent["seller_vat"]
    assert not set(child["articles"]) & set(parent["articles"])
    assert all(pair.parent.kind in PARENT_KINDS[pair.child.kind] for pair in half.pairs)


def test_candidate_pairs_and_true_links_are_counted(folder: Path):
    half = read_half(folder)
    reached = reach(folder)
    assert (reached.pairs, reached.true_pairs, reached.true_links) == (len(half.pairs), sum(half.truth), 3)


def test_whole_text_joins_all_normalized_words():
    assert whole_text({"a": "Größe M", "b": [{"c": "10"}, None, 7]}).split() == ["grosse", "m", "10"]


def test_rules_decide_between_orders_with_equal_numbers(folder: Path):
    half = read_half(folder)
    named = [
        score
        for score, pair in zip(number_only(half)(half), half.pairs, strict=True)
        if pair.parent.kind == "purchase_order"
    ]
    assert named.count(1.0) > sum(half.truth)
    decided = ours_decided(half)(half)
    assert [score == 1.0 for score in decided] == half.truth


@pytest.mark.parametrize(("module", "peer"), [("splink", splink_labeled), ("splink", splink), ("dedupe", dedupe)])
def test_other_library_ranks_true_pairs_first(tmp_path: Path, module: str, peer: Peer):
    pytest.importorskip(module, reason="the compared libraries are not installed")
    papers, edges, alone = [], [], []
    for number in range(12):
        items = [line(f"A-{number}{number}", str(number + 2), f"{number + 3}.50")]
        papers += [order(f"47{number:02}", number, lines=items), order(f"47{number:02}", number, seller=OTHER_SELLER)]
        papers.append(invoice(f"R-{number}", number + 9, po_reference=f"47{number:02}", lines=items))
        edges.append(f"p{3 * number},p{3 * number + 2}")
        alone += [f"p{position},{position}" for position in range(3 * number, 3 * number + 3)]
    labels = {"edges_csv": "\n".join(["a,b", *edges]), "clusters_csv": "\n".join(["document,cluster", *alone])}
    half = read_half(write_set(tmp_path / "many", papers, **labels))
    ranked = sorted(zip(peer(half)(half), half.truth, strict=True), reverse=True)
    assert sum(is_true for _, is_true in ranked[: len(edges)]) >= len(edges) * 0.9


@pytest.mark.parametrize(
    ("scores", "truth", "expected"),
    [
        ([0.9, 0.8, 0.3, 0.1], [True, True, False, False], 0.8),
        ([0.5, 0.5, 0.5], [True, False, False], 0.5),
        ([0.9, 0.5, 0.5, 0.1], [False, True, True, False], 0.5),
        ([0.4], [False], float("inf")),
    ],
)
def test_best_threshold_has_the_highest_f1(scores: list[float], truth: list[bool], expected: float):
    assert best_threshold(scores, truth) == expected


def test_peak_memory_includes_allocated_memory():
    before = peak_megabytes()
    held = bytearray(64 * 1024 * 1024)
    held[::4096] = b"x" * len(held[::4096])
    assert peak_megabytes() >= max(before, 64)


def test_missing_library_is_reported_as_absent(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tests.benchmarks.matching.comparison.PEERS", {"Splink 5, EM": None})
    hidden = run([sys.executable, "-c", "import splink"], capture_output=True, check=False, cwd=ROOT).returncode
    if not hidden:
        pytest.skip("Splink is installed")
    (absent,) = compare(folder, folder)
    assert isinstance(absent, Absent)
    assert absent.reason.startswith("splink is not installed")


def test_leftover_pair_with_better_partners_is_not_best():
    alike = np.array([[0.9, 0.5], [0.4, 0.1]])
    assert list(text.assign_pairs(alike)) == [(0, 0, True), (1, 1, False)]
    alike = np.array([[0.9, 0.8], [0.7, 0.1], [0.0, 0.0]])
    assert list(text.assign_pairs(alike)) == [(0, 1, True), (1, 0, True)]


def test_rare_letter_sequences_outweigh_common_ones():
    alike = text.similarities(["black phone kx7", "black phone"], ["phone kx 7 white", "black phone set"])
    assert alike.shape == (2, 2)
    assert alike[0, 0] > 0
    assert alike[1, 1] > alike[1, 0]
    assert alike.max() <= 1 + 1e-9


def test_folder_without_labeled_sets_returns_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([str(tmp_path), "--only", "quality", "peers", "text"]) == 1
    output = capsys.readouterr().out
    for missing in ("No labeled set", "linked-office or linked-hostile", "lacks abt-buy", "lacks dblp-acm"):
        assert missing in output
