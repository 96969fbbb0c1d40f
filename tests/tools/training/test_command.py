"""`counterfoil train`: its output, and the use of its weights by `evaluate`."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.failures import UsageError
from tests.documents.matching.samples import contract, invoice, order
from tests.tools.evaluation.test_evaluate import write_set
from tests.tools.training.labeled_sets import orders_and_invoices
from tools.evaluation.command import evaluate
from tools.training.command import NothingToLearnError, train
from tools.training.weights_file import InvalidWeightsError, read_weights

app = typer.Typer()
app.command()(train)
app.command()(evaluate)


@pytest.fixture
def weights_path(tmp_path: Path) -> Path:
    for name in "AB":
        orders_and_invoices(tmp_path / name, 12, name)
    out = tmp_path / "weights.json"
    found = CliRunner().invoke(app, ["train", str(tmp_path / "A"), str(tmp_path / "B"), "--out", str(out), "--json"])
    assert found.exit_code == 0, found.output
    figures = json.loads(found.stdout)
    assert figures["version"] == read_weights(out).version
    assert (figures["tenants"], figures["decisions"]) == (2, 24)
    assert 0 <= figures["calibration_error"] < 1
    return out


def test_evaluate_uses_learned_weights(weights_path: Path, tmp_path: Path) -> None:
    arguments = [
        "evaluate",
        str(tmp_path / "A"),
        "--output-dir",
        str(tmp_path / "out"),
        "--weights",
        str(weights_path),
        "--json",
    ]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["edge_agreement"]["precision"] == 1.0


def test_set_without_labels_is_rejected(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "bare", [order(), invoice()])
    found = CliRunner().invoke(app, ["train", str(folder), "--out", str(tmp_path / "w.json")])
    assert isinstance(found.exception, NothingToLearnError)
    assert "edges.csv" in str(found.exception)


@pytest.fixture
def unmatched_set(tmp_path: Path) -> Path:
    """A set of two documents that share no blocking key."""
    other = {"name": "Vossberg Papier KG"}
    papers = [contract("A", 0), order("B", 3, seller=other, buyer={"name": "Omega"}, lines=[])]
    return write_set(tmp_path / "apart", papers, edges_csv="a,b\np0,p1\n")


def test_set_without_candidate_pairs_is_rejected(unmatched_set: Path, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["train", str(unmatched_set), "--out", str(tmp_path / "w.json")])
    assert isinstance(found.exception, NothingToLearnError)
    assert "no candidate pairs" in str(found.exception)


def test_set_without_pairs_does_not_stop_others(unmatched_set: Path, tmp_path: Path) -> None:
    """The unmatched set is measured with weights from the other set.

    The other set is measured with priors.
    """
    orders_and_invoices(tmp_path / "A", 12, "A")
    arguments = ["train", str(unmatched_set), str(tmp_path / "A"), "--out", str(tmp_path / "w.json"), "--json"]
    found = CliRunner().invoke(app, arguments)
    assert found.exception is None
    assert json.loads(found.stdout)["decisions"] == 12


def test_missing_output_folder_is_rejected_before_learning(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["train", str(tmp_path), "--out", str(tmp_path / "no" / "w.json")])
    assert isinstance(found.exception, UsageError)
    assert "does not exist" in str(found.exception)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1, "by_number": 3}'])
def test_invalid_weights_file_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "w.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidWeightsError, match="counterfoil train"):
        read_weights(tmp_path / "w.json")
