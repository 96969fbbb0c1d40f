"""`counterfoil evaluate`: output files, figures, and errors of invalid sets."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from tests.documents.matching.samples import SampleDocument as Paper
from tests.documents.matching.samples import contract, delivery, invoice, line, order
from tools.evaluation.command import evaluate
from tools.evaluation.labeled_set import InvalidSetError, read_set

pytestmark = pytest.mark.slow

app = typer.Typer()
app.command()(evaluate)
UBL = Path(__file__).parents[3].parent / "shared" / "data" / "ubl-oasis-chain"


def write_set(folder: Path, papers: list[Paper], tenant: str = "Brede", **files: str) -> Path:
    """Write a set with the document ids p0, p1, and so on.

    The names of `files` end with `_csv` instead of `.csv`.
    """
    folder.mkdir(exist_ok=True)
    with (folder / "documents.jsonl").open("w", encoding="utf-8") as file:
        for position, paper in enumerate(papers):
            row = {
                "id": f"p{position}",
                "tenant": tenant,
                "type": paper.kind,
                "received_at": paper.received_at.isoformat(),
                "structured_data": paper.data,
            }
            file.write(json.dumps(row) + "\n")
    for name, text in files.items():
        (folder / name.replace("_csv", ".csv")).write_text(text, encoding="utf-8")
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


@pytest.fixture
def small_set(tmp_path: Path) -> Path:
    """A purchase order with related documents, and an unrelated invoice.

    The related documents are a delivery note, an invoice and a contract.
    """
    return write_set(
        tmp_path / "small",
        [
            contract("RV-60"),
            order("4711", contract_reference="RV-60"),
            delivery(po_reference="4711"),
            invoice("R-1", po_reference="4711"),
            invoice("R-2", 200, po_reference="9999", lines=[]),
        ],
        edges_csv="a,b\np1,p0\np1,p2\np1,p3\np2,p3\np4,p0\n",
        clusters_csv="document,cluster\np0,c\np1,k\np2,k\np3,k\np4,k\n",
    )


def test_results_are_written_and_measured(small_set: Path, tmp_path: Path) -> None:
    result = run(small_set, "--output-dir", tmp_path / "out", "--json")
    assert result.exit_code == 0
    figures: dict[str, Any] = json.loads(result.stdout)
    assert rows(tmp_path / "out" / "edges.csv") == [["a", "b"], ["p0", "p1"], ["p1", "p2"], ["p1", "p3"], ["p2", "p3"]]
    assert rows(tmp_path / "out" / "predicted.csv") == [
        ["document", "cluster"], ["p0", "p0"], ["p1", "p1"], ["p2", "p1"], ["p3", "p1"], ["p4", "p4"],
    ]  # fmt: skip
    assert (figures["documents"], figures["skipped"], figures["edges"], figures["clusters"]) == (5, 0, 4, 3)
    assert figures["edge_agreement"] == {
        "precision": 1.0,
        "recall": 0.8,
        "f1": 0.8889,
        "predicted": 4,
        "expected": 5,
        "correct": 4,
    }
    assert figures["edge_agreement_copies_as_one"] == figures["edge_agreement"]
    assert figures["cluster_pair_agreement"]["recall"] == 0.5
    assert figures["documents_per_second"] > 0


def test_document_order_and_concurrency_do_not_change_results(small_set: Path, tmp_path: Path) -> None:
    run(small_set, "--output-dir", tmp_path / "one")
    result = run(small_set, "--output-dir", tmp_path / "other", "--shuffle", 7, "--concurrency", 4)
    assert result.exit_code == 0
    for name in ("edges.csv", "predicted.csv"):
        assert (tmp_path / "one" / name).read_text() == (tmp_path / "other" / name).read_text()


def test_set_without_labels_is_matched_but_not_measured(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "bare", [order(), invoice(po_reference="4711")])
    figures = json.loads(run(folder, "--output-dir", tmp_path / "out", "--json").stdout)
    assert figures["edges"] == 1
    assert "edge_agreement" not in figures
    assert "cluster_pair_agreement" not in figures


def test_variances_are_measured_in_found_and_true_clusters(tmp_path: Path) -> None:
    folder = write_set(
        tmp_path / "wrong",
        [
            order("4711"),
            delivery(po_reference="4711"),
            invoice("R-1", po_reference="4711", lines=[line("A-100", "12")]),
        ],
        edges_csv="a,b\np0,p1\n",
        clusters_csv="document,cluster\np0,k\np1,k\np2,m\n",
        variances_csv="cluster,code,document,detail\nk,over_billed_quantity,p2,\nm,missing_purchase_order,p2,\n",
    )
    figures = json.loads(run(folder, "--output-dir", tmp_path / "out", "--json").stdout)
    found, in_true = figures["variance_agreement"], figures["variance_agreement_in_true_clusters"]
    assert (found["predicted"], found["expected"], found["correct"]) == (2, 2, 1)
    assert (in_true["predicted"], in_true["expected"], in_true["correct"]) == (1, 2, 1)
    assert [row[:3] for row in rows(tmp_path / "out" / "variances.csv")] == [
        ["document", "code", "verdict"],
        ["p2", "billed_beyond_order", "wrong"],
        ["p2", "missing_purchase_order", "missed"],
        ["p2", "over_billed_quantity", "right"],
    ]
    assert rows(tmp_path / "out" / "variances_in_true_clusters.csv")[1] == [
        "p2", "missing_purchase_order", "right", "Invoice R-1 names purchase order 4711, which has not been received.",
    ]  # fmt: skip


def test_standard_output_is_empty_without_json_option(small_set: Path, tmp_path: Path) -> None:
    result = run(small_set, "--output-dir", tmp_path / "out")
    assert result.stdout == ""
    assert "edge agreement" in result.stderr


@pytest.mark.skipif(not UBL.exists(), reason="the sibling folder with the UBL data is missing")
@pytest.mark.parametrize("arguments", [(), ("--shuffle", 3, "--concurrency", 8)])
def test_ubl_chain_documents_are_in_their_true_clusters(tmp_path: Path, arguments: tuple[object, ...]) -> None:
    figures = json.loads(run(UBL, "--output-dir", tmp_path / "out", "--json", *arguments).stdout)
    assert figures["cluster_pair_agreement"]["f1"] == 1.0
    assert figures["edge_agreement_copies_as_one"]["f1"] == 1.0


@pytest.mark.parametrize(
    ("name", "line", "complaint"),
    [
        ("documents.jsonl", "{", "line 2: not JSON"),
        ("documents.jsonl", "[]", "line 2: not a JSON object"),
        ("documents.jsonl", '{"id": "p0"}', "line 2: tenant is missing"),
        ("edges.csv", "p0,p9", "line 2: unknown document p9"),
        ("edges.csv", "p0,p0", "line 2: links a document to itself"),
        ("edges.csv", "p0", "line 2: a or b is missing"),
        ("clusters.csv", "p9,c", "line 2: unknown document p9"),
        ("variances.csv", "p9,tax_mismatch", "line 2: unknown document p9"),
        ("variances.csv", "p0,odd", "line 2: odd is not a variance code"),
    ],
)
def test_invalid_set_error_has_file_and_line(tmp_path: Path, name: str, line: str, complaint: str) -> None:
    folder = write_set(tmp_path / "broken", [order()])
    headers = {"edges.csv": "a,b\n", "clusters.csv": "document,cluster\n", "variances.csv": "document,code\n"}
    header = headers.get(name, "")
    before = (folder / name).read_text() if name == "documents.jsonl" else header
    (folder / name).write_text(before + line + "\n")
    with pytest.raises(InvalidSetError, match=f"{name}, {complaint}"):
        read_set(folder)


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("type", "postcard", "is not a document type"),
        ("received_at", "yesterday", "is not an ISO 8601 time"),
        ("structured_data", None, "structured_data is not a JSON object"),
        ("id", 7, "id is not a non-empty string"),
    ],
)
def test_invalid_document_field_is_reported(tmp_path: Path, field: str, value: object, complaint: str) -> None:
    folder = write_set(tmp_path / "broken", [order()])
    row = json.loads((folder / "documents.jsonl").read_text()) | {field: value}
    (folder / "documents.jsonl").write_text(json.dumps(row))
    with pytest.raises(InvalidSetError, match=complaint):
        read_set(folder)


def test_incomplete_duplicate_and_missing_input_is_invalid(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "broken", [order()], clusters_csv="document,cluster\n")
    with pytest.raises(InvalidSetError, match="lacks 1"):
        read_set(folder)
    text = (folder / "documents.jsonl").read_text()
    (folder / "documents.jsonl").write_text(text + text)
    with pytest.raises(InvalidSetError, match="line 2: duplicate id p0"):
        read_set(folder)
    with pytest.raises(InvalidSetError, match="is not a folder"):
        read_set(tmp_path / "nowhere")
