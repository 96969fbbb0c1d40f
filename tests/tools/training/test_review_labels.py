"""Reviewers' decisions are used as labels once there are enough of them."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from uuid import UUID

import pytest
import typer
from typer.testing import CliRunner

from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.local.postgres import Server
from counterfoil.db import Connection, Database
from counterfoil.documents.matching.score import parse
from tests.cli.fake_cloud import FakeCloud
from tests.documents.matching.samples import confirmation, invoice, order
from tests.documents.matching.tenant_harness import TenantHarness
from tests.tools.training.labeled_sets import orders_and_invoices
from tools.training import learning
from tools.training.command import train
from tools.training.learning import MIN_CASES, CalibrationCase, calibration_cases, cross_validate
from tools.training.review_labels import ReviewedTenant, TooFewDecisionsError, read_decided
from tools.training.weights_file import read_weights, shipped

app = typer.Typer()
app.command()(train)


@pytest.fixture
def harness(
    postgres: Server, migrated_database: str, database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> TenantHarness:
    cloud = FakeCloud(postgres, migrated_database, database)
    monkeypatch.setattr(Cloud, "at", lambda _: cloud)
    return TenantHarness(database, admin)


def confirm_and_reject(harness: TenantHarness, confirmed: int, rejected: int) -> None:
    """Store orders and invoices without references, and confirm or reject matches."""
    for number in range(confirmed + rejected):
        made = harness.file(order(f"PO-{number:04}", number))
        billed = harness.file(invoice(f"R-{number:04}", number + 9))
        harness.decide(billed, made, "confirmed" if number < confirmed else "rejected")


def read_labels(harness: TenantHarness) -> ReviewedTenant:
    with harness.database.tenant(harness.tenant_id) as connection:
        return read_decided(connection, harness.tenant_id, "acme")


def run(*arguments: object) -> dict[str, object]:
    found = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    if found.exception is not None:
        raise found.exception
    figures: dict[str, object] = json.loads(found.stdout)
    return figures


def test_last_decision_is_the_label(harness: TenantHarness) -> None:
    confirm_and_reject(harness, 1, 1)
    harness.decide(0, 1, "rejected")
    harness.decide(2, 3, "confirmed")
    harness.file(confirmation("AB-1", 1))
    harness.decide(3, 4, "confirmed")  # an invoice and an order confirmation, which never match
    found = read_labels(harness)
    labels = [
        (harness.ids.index(one.child.id), harness.ids.index(one.parent.id), one.is_match) for one in found.pairs()
    ]
    assert sorted(labels) == [(1, 0, False), (3, 2, True)]
    assert [(len(group.candidates), len(group.matches)) for group in found.groups()] == [(1, 0), (1, 1)]


@pytest.mark.parametrize(("confirmed", "rejected"), [(0, 0), (20, 20), (MIN_CASES, 9)])
def test_too_few_decisions_are_an_error(harness: TenantHarness, tmp_path: Path, confirmed: int, rejected: int) -> None:
    confirm_and_reject(harness, confirmed, rejected)
    with pytest.raises(TooFewDecisionsError, match=f"{confirmed} confirmed and {rejected} rejected"):
        run("--from-reviews", "--out", tmp_path / "w.json")
    assert not (tmp_path / "w.json").exists()


def test_document_with_many_rejected_candidates_counts_once(harness: TenantHarness, tmp_path: Path) -> None:
    confirm_and_reject(harness, 12, 0)
    billed = harness.file(invoice("R-9999", 9))
    for number in range(60):
        harness.decide(billed, harness.file(order(f"PX-{number:04}", number)), "rejected")
    with pytest.raises(TooFewDecisionsError, match="12 confirmed and 1 rejected without a reference number"):
        run("--from-reviews", "--out", tmp_path / "w.json")


def test_calibration_with_few_decisions_is_unchanged(harness: TenantHarness, tmp_path: Path) -> None:
    confirm_and_reject(harness, 10, 50)
    made = harness.file(order("PO-8000", 3))
    harness.decide(harness.file(invoice("R-8000", 9, po_reference="PO-8000")), made, "rejected")
    assert run("--from-reviews", "--out", tmp_path / "w.json")["calibrated"] == ["by_content"]
    written = json.loads((tmp_path / "w.json").read_text())
    assert written["by_number"]["calibration"] == shipped()["by_number"]["calibration"]
    assert written["by_content"]["calibration"] != shipped()["by_content"]["calibration"]


def test_calibration_considers_quantities_billed_by_other_invoices(harness: TenantHarness) -> None:
    made = harness.file(order("PO-1", 1))
    billed = harness.file(invoice("R-1", 9))
    harness.decide(billed, made, "rejected")
    (alone,) = calibration_cases(parse(shipped()), [read_labels(harness)])
    harness.match(harness.file(invoice("R-2", 5, po_reference="PO-1")))  # R-2 bills the whole order
    (claimed,) = calibration_cases(parse(shipped()), [read_labels(harness)])
    assert claimed.bits < alone.bits
    harness.decide(2, made, "rejected")  # R-2 no longer bills the order
    assert calibration_cases(parse(shipped()), [read_labels(harness)])[0].bits == alone.bits


def test_calibration_is_measured_on_held_out_decisions(harness: TenantHarness, tmp_path: Path) -> None:
    """Reviewers rejected matches that the shipped calibration considers likely."""
    confirm_and_reject(harness, 10, 50)
    figures = run("--from-reviews", "--out", tmp_path / "w.json")
    assert figures["decisions"] == 60
    before, after = float(str(figures["calibration_error_before"])), float(str(figures["calibration_error"]))
    assert 0 < after < before
    found = cross_validate(shipped(), [read_labels(harness)])
    assert (found.calibration_error_before, found.calibration_error) == (before, after)
    unchecked = run("--from-reviews", "--no-check", "--out", tmp_path / "w.json")
    assert "calibration_error" not in unchecked


def test_cross_validation_excludes_the_tested_cases(harness: TenantHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    confirm_and_reject(harness, 10, 50)
    learned_from: list[frozenset[UUID]] = []
    fitted = learning._fit_calibration  # the function that fits each calibration

    def record_and_fit(questions: Iterable[CalibrationCase], expected: Mapping[bool, tuple[float, float]]) -> object:
        several = list(questions)
        learned_from.append(frozenset(one.child for one in several))
        return fitted(several, expected)

    monkeypatch.setattr(learning, "_fit_calibration", record_and_fit)
    cross_validate(shipped(), [read_labels(harness)])
    children = frozenset().union(*learned_from)
    assert len(children) == 60
    assert all(sum(child not in some for some in learned_from) == 1 for child in children)


def test_decisions_alone_change_only_the_calibration(harness: TenantHarness, tmp_path: Path) -> None:
    confirm_and_reject(harness, 10, 50)
    figures = run("--from-reviews", "--out", tmp_path / "w.json")
    found, known = read_weights(tmp_path / "w.json"), shipped()
    assert (figures["decided_pairs"], figures["version"]) == (60, found.version)
    assert found.version != known["version"]
    written = json.loads((tmp_path / "w.json").read_text())
    for name in ("by_number", "by_content"):
        assert written[name]["general"] == known[name]["general"]
        assert written[name]["particular"] == known[name]["particular"]
    assert (
        written["by_number"]["calibration"] == known["by_number"]["calibration"]
    )  # none of these had a reference number
    assert written["by_content"]["calibration"][0] < known["by_content"]["calibration"][0]  # most were rejected


def test_decisions_complement_a_labeled_set(harness: TenantHarness, tmp_path: Path) -> None:
    confirm_and_reject(harness, 10, 50)
    orders_and_invoices(tmp_path / "A", 12, "A")
    figures = run(tmp_path / "A", "--from-reviews", "--no-check", "--out", tmp_path / "both.json")
    assert figures["tenants"] == 2
    alone = run(tmp_path / "A", "--no-check", "--out", tmp_path / "alone.json")
    assert figures["version"] != alone["version"]


def test_missing_input_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--from-reviews"):
        run("--out", tmp_path / "w.json")
