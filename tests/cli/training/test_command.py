"""`counterfoil train`: what it writes and says, and that `evaluate` weighs with it."""

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli.evaluate import evaluate
from cli.training.command import NothingToLearnError, train
from cli.training.file import InvalidWeightsError, read_weights
from tests.cli.test_evaluate import write_set
from tests.cli.training.sets import orders_and_invoices
from tests.documents.matching.papers import invoice, order

app = typer.Typer()
app.command()(train)
app.command()(evaluate)


@pytest.fixture
def learned(tmp_path: Path) -> Path:
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


def test_evaluate_weighs_with_what_was_learned(learned: Path, tmp_path: Path) -> None:
    arguments = ["evaluate", str(tmp_path / "A"), "--out", str(tmp_path / "out"), "--weights", str(learned), "--json"]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["edge_agreement"]["precision"] == 1.0


def test_a_set_without_labels_teaches_nothing(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "bare", [order(), invoice()])
    found = CliRunner().invoke(app, ["train", str(folder), "--out", str(tmp_path / "w.json")])
    assert isinstance(found.exception, NothingToLearnError)
    assert "edges.csv" in str(found.exception)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"version": 1, "by number": 3}'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "w.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidWeightsError, match="counterfoil train"):
        read_weights(tmp_path / "w.json")
