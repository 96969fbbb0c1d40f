"""Ambiguous matches are listed, compared and decided on the command line."""

import json
from typing import Any
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from cli.commands.review import app
from cli.failures import UsageError
from counterfoil.db import Connection, Database
from tests.documents.matching.samples import delivery, invoice, order
from tests.documents.matching.tenant_harness import TenantHarness
from tests.documents.matching.test_judge import TWICE


@pytest.fixture
def harness(api: None, database: Database, admin: Connection) -> TenantHarness:
    """An ambiguous invoice with two candidates, and a certain match."""
    documents = [*TWICE, order("X-900", 1, lines=[]), delivery("L-900", 2, po_reference="X-900", lines=[])]
    harness = TenantHarness(database, admin, documents)
    harness.match_all()
    assert (harness.links(), harness.reviews()) == ({(3, 4)}, {2: [[0, 1]]})
    return harness


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "160"})
    if result.exception is not None:
        raise result.exception
    return result.output


def call(*words: object) -> Any:
    """Run a command with --json, and return its output."""
    return json.loads(run(*words, "--json"))


def test_list_shows_documents_with_their_candidates(harness: TenantHarness) -> None:
    (row,) = [line for line in run().splitlines() if "invoice R-81" in line]
    assert "purchase order 4711 or purchase order 4711" in row
    assert run("--document-type", "credit_note").strip() == "No documents found (waiting for review)."
    assert run("--min-probability", "0.9").strip() == "No documents found (waiting for review)."
    assert [review["id"] for review in call()] == [str(harness.ids[2])]


def test_missing_fields_are_listed(harness: TenantHarness, admin: Connection) -> None:
    change = "UPDATE document SET structured_data = structured_data - %s::text WHERE id = %s"
    admin.execute(change, ["total_net", harness.ids[2]])
    admin.execute(change, ["buyer", harness.ids[1]])

    heading, row = (next(line for line in run().splitlines() if word in line) for word in ("missing", "invoice R-81"))
    assert row[heading.index("missing") :].startswith("total ")
    (shown,) = (line for line in run("show", harness.ids[2]).splitlines() if line.startswith("missing"))
    assert shown.split() == ["missing", "total", "buyer"]


def test_show_compares_candidates_with_their_evidence(harness: TenantHarness) -> None:
    shown = run("show", harness.ids[2])
    assert "Two purchase orders with the number 4711 match equally well." in shown
    (total,) = [line for line in shown.splitlines() if line.startswith("sum")]
    (record,) = call("show", harness.ids[2])["ambiguous_matches"]
    assert total.split()[1::2] == [f"{candidate['weight_bits']:+.1f}" for candidate in record["candidates"]]
    evidence = record["candidates"][0]["evidence"]
    assert "The invoice names purchase order 4711." in [step["sentence"] for step in evidence]
    for step in evidence:
        assert any(line.startswith(step["label"]) and step["text"][:12] in line for line in shown.splitlines())


def test_confirmation_stores_reviewer_and_reason(harness: TenantHarness) -> None:
    output = run("confirm", harness.ids[2], harness.ids[1], "--by", "ann", "--reason", "the driver's note")
    assert "invoice R-81" in output
    assert "were confirmed as a match." in output
    assert harness.links() == {(1, 2), (3, 4)}
    assert run().strip() == "No documents found (waiting for review)."
    assert "ann confirmed" in run("show", harness.ids[2])
    assert "the driver's note" in run("show", harness.ids[2])


def test_all_candidates_are_rejected_together(harness: TenantHarness) -> None:
    done = call("reject", harness.ids[2], "--all", "--by", "ann")
    assert (done["verdict"], len(done["decided"]), harness.reviews()) == ("rejected", 2, {})


def test_earlier_decision_requires_override(harness: TenantHarness) -> None:
    run("confirm", harness.ids[2], harness.ids[1], "--by", "ann")
    with pytest.raises(UsageError, match="ann confirmed this pair"):
        run("reject", harness.ids[2], harness.ids[1], "--by", "bob")
    run("reject", harness.ids[2], harness.ids[1], "--by", "bob", "--override")
    assert harness.links() == {(0, 2), (3, 4)}


def test_clusters_are_merged_and_split(harness: TenantHarness) -> None:
    assert call("merge", harness.ids[2], harness.ids[4], "--by", "ann")["verdict"] == "confirmed"
    assert harness.clusters() == [0, 1, 2, 2, 2]
    run("split", harness.ids[2], "--override", "--by", "ann")
    assert harness.clusters() == [0, 1, 2, 3, 3]


def test_invalid_decision_is_rejected(harness: TenantHarness, database: Database, admin: Connection) -> None:
    other = TenantHarness(database, admin, [invoice()])
    with pytest.raises(UsageError, match="document does not exist"):
        run("merge", harness.ids[2], other.ids[0])
    with pytest.raises(UsageError, match="There is no such review"):
        run("reject", harness.ids[0], "--all")
    with pytest.raises(UsageError, match="or --all"):
        run("reject", harness.ids[2])
    with pytest.raises(UsageError, match="There is no such review"):
        run("show", harness.ids[0])
    with pytest.raises(UsageError, match="There is no such"):
        run("show", uuid4())
    with pytest.raises(UsageError, match="neither is a candidate"):
        run("confirm", harness.ids[2], harness.ids[3])


@pytest.mark.parametrize("option", [("--tenant", "acme"), ("--state", "resolved"), ("--limit", "3"), ("--json",)])
def test_list_option_before_a_decision_is_refused(option: tuple[str, ...], harness: TenantHarness) -> None:
    with pytest.raises(UsageError, match=f"{option[0]} before 'reject' applies to the list"):
        run(*option, "reject", harness.ids[2], "--all")
    assert harness.reviews() == {2: [[0, 1]]}


def test_list_footer_shows_state_and_truncation(harness: TenantHarness) -> None:
    assert run("--limit", "1").splitlines()[-1].startswith("1 waiting for review. ")
    harness.match(harness.file(invoice("R-82", 40, po_reference="4711", lines=[], total_gross="333.00")))
    assert run("--limit", "1").splitlines()[-1].startswith("1 waiting for review. To see more, raise --limit. ")
    run("reject", harness.ids[2], "--all", "--by", "ann")
    assert run("--state", "decided").splitlines()[-1].startswith("1 decided by a reviewer. ")
    assert run("--state", "resolved").strip() == "No documents found (resolved without a decision)."
