"""Suggested tolerances, from accepted differences to a tolerance that applies."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.commands import clusters
from cli.commands.tenants import app
from cli.failures import UsageError
from counterfoil.audit import Change
from counterfoil.db import Connection, Database
from counterfoil.documents import tolerances
from tests.delivery.harness import rows
from tests.documents.matching.samples import delivery, invoice, line, order
from tests.documents.matching.tenant_harness import TenantHarness
from tests.documents.test_differences import compute
from tests.factories import NOW


@pytest.fixture
def harness(api: None, database: Database, admin: Connection) -> TenantHarness:
    harness = TenantHarness(database, admin)
    admin.execute("UPDATE tenant SET slug = 'acme' WHERE id = %s", [harness.tenant_id])
    return harness


def invoiced_order(harness: TenantHarness, number: int, price: str) -> int:
    """Store an order at 100.00, its delivery note and its invoice at `price`.

    Return the order's index.
    """
    position = harness.file(order(f"PO-{number:04}", lines=[line(f"A-{number}", "10", "100.00")]))
    named = f"PO-{number:04}"
    harness.file(delivery(f"LS-{number:04}", po_reference=named, lines=[line(f"A-{number}", "10")]))
    harness.file(invoice(f"R-{number:04}", po_reference=named, lines=[line(f"A-{number}", "10", price)]))
    harness.match_all(range(position, position + 3))
    compute(harness, position)
    return position


def call(program: Any, *words: str) -> str:
    result = CliRunner().invoke(program, words)
    if result.exception is not None:
        raise result.exception
    return result.output


def accept(harness: TenantHarness, position: int, *words: str) -> str:
    return call(clusters.app, "accept", str(harness.ids[position]), "--by", "ann", *words)


def suggestions() -> dict[str, Any]:
    suggestions: dict[str, Any] = json.loads(call(app, "tolerances", "acme", "--suggest", "--json"))
    return suggestions


def outcome_of(harness: TenantHarness, position: int) -> str:
    outcome: str = compute(harness, position)["outcome"]
    return outcome


@pytest.fixture
def accepted_differences(harness: TenantHarness) -> TenantHarness:
    """Store 20 accepted price differences of 1.5% and a disputed difference of 2.5%."""
    for number in range(20):
        accept(harness, invoiced_order(harness, number, "101.50"))
    disputed = invoiced_order(harness, 20, "102.50")
    call(clusters.app, "dispute", str(harness.ids[disputed]), "--by", "bob", "--reason", "not agreed")
    return harness


def test_accepted_suggestion_becomes_a_tolerance(accepted_differences: TenantHarness, admin: Connection):
    proposal = suggestions()["proposals"][0]["proposal"]
    assert (proposal["supplier"], proposal["key"], proposal["direction"]) == ("DE136695976", "price", "more")
    assert (proposal["limits"]["upper_percent"], proposal["limits"]["lower_percent"]) == ("1.50", "1")
    assert (proposal["accepted"], proposal["smallest_disputed"]) == (20, "2.5")
    shown = " ".join(call(app, "tolerances", "acme", "--suggest").split())
    assert "Current tolerance: 1% more or less. Suggested: 1% less, 1.5% more." in shown
    assert "Accepted in 20 documents by ann, on" in shown
    assert "95% are within 1.5%, and the largest is 1.5%; the smallest disputed is 2.5%." in shown
    assert "20 of these documents would not have needed a review." in shown
    assert "at least 86% of such differences" in shown

    next_ = invoiced_order(accepted_differences, 30, "101.50")
    assert rows(admin, "tolerance") == []
    assert outcome_of(accepted_differences, next_) == "exception"

    proposal = suggestions()["proposals"][0]["proposal"]
    words = ("--accept", proposal["id"], "--by", "eve", "--reason", "agreed with the buyer", "--json")
    (entry,) = json.loads(call(app, "tolerances", "acme", *words))
    assert (entry["supplier"], entry["upper_percent"], entry["lower_percent"]) == ("DE136695976", "1.50", "1")
    assert (entry["set_by"], entry["reason"], entry["evidence"]) == ("eve", "agreed with the buyer", proposal)
    assert outcome_of(accepted_differences, next_) == "within-tolerance"
    assert outcome_of(accepted_differences, invoiced_order(accepted_differences, 31, "101.51")) == "exception"
    assert outcome_of(accepted_differences, 60) == "exception"  # a disputed variance stays disputed
    assert suggestions()["proposals"] == []


def test_outdated_suggestion_is_refused(accepted_differences: TenantHarness, admin: Connection):
    proposal = suggestions()["proposals"][0]["proposal"]
    another = invoiced_order(accepted_differences, 30, "101.20")
    call(clusters.app, "dispute", str(accepted_differences.ids[another]), "--by", "bob")
    with pytest.raises(UsageError, match="no longer applies: decisions or tolerances have changed"):
        call(app, "tolerances", "acme", "--accept", proposal["id"])
    assert rows(admin, "tolerance") == []
    (withheld,) = suggestions()["withheld"]
    assert withheld["reason"] == "0 documents accepted below the disputed 1.2%; 20 are required."


def test_only_one_of_two_concurrent_acceptances_succeeds(
    accepted_differences: TenantHarness, api_database_url: str, admin: Connection
):
    proposal = suggestions()["proposals"][0]["proposal"]

    def put(by: str) -> bool:
        with api_database.tenant(accepted_differences.tenant_id) as connection:
            return tolerances.accept(connection, Change(accepted_differences.tenant_id, by, NOW), proposal["id"], None)

    with closing(Database(api_database_url)) as api_database, ThreadPoolExecutor(2) as pool:
        done = list(pool.map(put, ("ann", "bob")))
    assert sorted(done) == [False, True]
    assert [row["set_by"] for row in rows(admin, "tolerance")] == [["ann", "bob"][done.index(True)]]


def test_too_few_accepted_differences_suggest_nothing(harness: TenantHarness):
    for number in range(3):
        accept(harness, invoiced_order(harness, number, "101.50"))
    shown = " ".join(call(app, "tolerances", "acme", "--suggest").split())
    assert "No suggestions for" in shown
    assert (
        "Tarnow Schrauben AG (DE136695976), prices, more than expected: 3 documents accepted; 20 are required." in shown
    )
    assert "To accept:" not in shown


@pytest.mark.usefixtures("harness")
def test_empty_suggestions_show_how_to_accept():
    assert "counterfoil clusters accept ID" in call(app, "tolerances", "acme", "--suggest")


def test_acceptance_lists_accepted_and_open_variances(harness: TenantHarness):
    position = harness.file(order("PO-1", lines=[line("A-1", "10", "100.00")]))
    harness.file(invoice("R-1", po_reference="PO-1", lines=[line("A-1", "10", "101.50")]))
    harness.match_all()
    compute(harness, position)
    end = str(position_id := harness.ids[position])[-8:]
    assert f"To decide: counterfoil clusters accept {end}, or dispute {end}" in call(
        clusters.app, "show", str(position_id)
    )
    shown = " ".join(accept(harness, position).split())
    assert (
        "Accepted: Invoice R-1, line item 1: “Bolt A-1” is billed at 101.50 EUR per piece, ordered at 100.00 EUR"
        in shown
    )
    assert "Still open: Invoice R-1 bills 10 pieces of “Bolt A-1”, but there is no delivery note" in shown
    compute(harness, position)
    assert "To decide:" not in call(clusters.app, "show", str(position_id))
    case = json.loads(call(clusters.app, "show", str(harness.ids[position]), "--json"))
    assert case["comparison"]["outcome"] == "incomplete"


def test_decision_changes_only_with_override(harness: TenantHarness):
    position = invoiced_order(harness, 1, "101.50")
    accept(harness, position)
    id_ = str(harness.ids[position])
    with pytest.raises(UsageError, match="use --override on the command line"):
        call(clusters.app, "dispute", id_, "--by", "bob")
    decision = json.loads(call(clusters.app, "dispute", id_, "--by", "bob", "--override", "--json"))
    assert (decision["verdict"], len(decision["differences"]), decision["tenant"]) == ("disputed", 1, "acme")


def test_invalid_variance_selection_is_refused(harness: TenantHarness):
    position, other = invoiced_order(harness, 1, "101.50"), invoiced_order(harness, 2, "101.50")
    with pytest.raises(UsageError, match="invalid at code"):
        accept(harness, position, "--code", "prices")
    with pytest.raises(UsageError, match="The cluster has no such difference"):
        accept(harness, position, "--document", str(harness.ids[other]))
    with pytest.raises(UsageError, match="The cluster has no such difference"):
        accept(harness, position, "--document", str(harness.ids[position + 2]), "--line", "8")
    with pytest.raises(UsageError, match="One change at a time"):
        call(app, "tolerances", "acme", "--suggest", "--set", "price")
