"""Variances are accepted and disputed in a real database.

Clusters are also recomputed.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database, retry_on_conflict
from counterfoil.documents import clusters, diagnostics, differences
from counterfoil.documents.clusters import ClusterFilter
from counterfoil.documents.differences import DecisionResult, VarianceSelector
from counterfoil.documents.review import DecisionContext, DecisionRejected
from counterfoil.documents.three_way_match import VarianceCode
from counterfoil.documents.three_way_match.model import DecisionKind
from counterfoil.documents.three_way_match.tolerances import Key
from counterfoil.errors import StaleClaimError
from tests.dead_letters.audit_trail import verified_changes
from tests.delivery.harness import rows
from tests.documents.matching.samples import delivery, invoice, line, order
from tests.documents.matching.tenant_harness import NOW, TenantHarness

ORDERED = [line("A-100", "10", "100.00"), line("A-200", "5", "12.50")]
BILLED = [line("A-100", "10", "101.50"), line("A-200", "6", "12.50")]
"""Billed line items: A-100 costs 1.5 percent more than ordered, and one A-200 too many is billed."""


@pytest.fixture
def harness(database: Database, admin: Connection) -> TenantHarness:
    documents = [order(lines=ORDERED), delivery(po_reference="4711", lines=ORDERED)]
    harness = TenantHarness(database, admin, [*documents, invoice(po_reference="4711", lines=BILLED)])
    harness.match_all()
    compute(harness)
    return harness


def compute(harness: TenantHarness, position: int = 0) -> dict[str, Any]:
    """Compute the three-way match of a document's cluster as the worker does.

    Return the record.
    """
    cluster_id = harness.ids[position]
    with harness.database.tenant(harness.tenant_id) as connection:
        diagnostics.enqueue_diagnostics(connection, harness.tenant_id, [cluster_id], NOW)
        match_result = diagnostics.load(connection, harness.tenant_id, cluster_id)
        assert match_result is not None
        result = match_result.compare()
        rows = connection.execute("SELECT claim_token FROM cluster_diagnostics WHERE id = %s", [cluster_id]).fetchall()
        diagnostics.write(connection, cluster_id, rows[0][0], result, NOW)
    harness.admin.execute("UPDATE cluster_diagnostics SET status = 'succeeded'")
    return result.record


def decide(
    harness: TenantHarness,
    decision: DecisionKind,
    selector: VarianceSelector = VarianceSelector(),  # noqa: B008  # the default is immutable
    *,
    by: str = "ann",
    overrides: Sequence[int] = (),
    cluster: UUID | None = None,
) -> DecisionResult | DecisionRejected:
    def attempt() -> DecisionResult | DecisionRejected:
        with harness.database.tenant(harness.tenant_id) as connection:
            context = DecisionContext(by, "agreed", overrides)
            return differences.decide(
                connection, harness.tenant_id, cluster or harness.ids[0], selector, decision, NOW, context
            )

    return retry_on_conflict(attempt)


def test_accepting_all_variances_resolves_the_cluster(harness: TenantHarness, admin: Connection):
    assert compute(harness)["outcome"] == "exception"
    decision_result = decide(harness, "accepted")
    assert isinstance(decision_result, DecisionResult)
    assert (len(decision_result.differences), decision_result.remaining) == (
        3,
        (),
    )  # a price, a quantity above the order, and a quantity above the delivery
    (row,) = rows(admin, "cluster_diagnostics")
    assert row["status"] == "pending"
    assert {message.message.work_id for message in decision_result.messages} == {harness.ids[0]}
    result = compute(harness)
    assert result["outcome"] == "matched"
    assert all(variance["decided_by"] == "Accepted by ann on 2026-06-01: agreed." for variance in result["variances"])


@pytest.mark.parametrize(
    ("decision", "outcome", "status"), [("accepted", "matched", "accepted"), ("disputed", "exception", "disputed")]
)
def test_decision_is_visible_before_recomputation(
    harness: TenantHarness, decision: DecisionKind, outcome: str, status: str
):
    assert isinstance(decide(harness, decision), DecisionResult)

    with harness.database.tenant(harness.tenant_id) as connection:
        details = clusters.show(connection, harness.tenant_id, harness.ids[0], limit=10)
    assert details is not None
    assert details.comparison is not None
    assert (details.comparison.outcome, details.status, details.is_computing) == (outcome, status, True)
    assert {variance["decision"] for variance in details.comparison.variances} == {decision}


def test_large_cluster_is_recomputed_by_the_worker(harness: TenantHarness, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(diagnostics, "MAX_IMMEDIATE_DOCUMENTS", 2)

    assert isinstance(decide(harness, "accepted"), DecisionResult)

    with harness.database.tenant(harness.tenant_id) as connection:
        details = clusters.show(connection, harness.tenant_id, harness.ids[0], limit=10)
        (listed,) = clusters.page(connection, harness.tenant_id, ClusterFilter(), limit=5).clusters
    assert details is not None
    assert (details.status, details.is_computing) == ("exception", True)
    assert (listed.status, listed.is_computing) == ("exception", True)
    assert compute(harness)["outcome"] == "matched"


def test_single_variance_is_accepted_and_others_stay_open(harness: TenantHarness):
    decision_result = decide(harness, "accepted", VarianceSelector(harness.ids[2], VarianceCode.PRICE_MISMATCH, "1"))
    assert isinstance(decision_result, DecisionResult)
    assert (len(decision_result.differences), len(decision_result.remaining)) == (1, 2)
    result = compute(harness)
    assert result["outcome"] == "exception"
    assert [variance["code"] for variance in result["variances"] if variance["decided_by"]] == ["price_mismatch"]


def test_accepted_variance_is_not_open_before_recomputation(harness: TenantHarness):
    decide(harness, "accepted", VarianceSelector(code=VarianceCode.OVER_BILLED_QUANTITY))
    decision_result = decide(harness, "accepted", VarianceSelector(code=VarianceCode.PRICE_MISMATCH))
    assert isinstance(decision_result, DecisionResult)
    (remaining,) = decision_result.remaining
    assert "were ordered" in remaining


def test_acceptance_applies_until_the_figures_change(harness: TenantHarness):
    decide(harness, "accepted")
    harness.match(harness.file(invoice("R-82", 12, po_reference="4711", lines=[line("A-200", "2", "12.50")])))
    open_ = {variance["code"] for variance in compute(harness)["variances"] if not variance["decided_by"]}
    assert open_ == {"over_billed_quantity", "billed_beyond_order"}  # three pieces too many now; the price is unchanged


def test_decision_must_supersede_the_previous_one(harness: TenantHarness):
    assert isinstance(decide(harness, "accepted"), DecisionResult)
    repeated = decide(harness, "accepted", by="bob")
    assert isinstance(repeated, DecisionRejected)
    assert repeated.message == "Accepted by ann on 2026-06-01: agreed. No change is needed."
    disputed = decide(harness, "disputed", by="bob")
    assert isinstance(disputed, DecisionRejected)
    assert "To replace that decision, add its id" in disputed.message
    assert disputed.decision == repeated.decision
    with harness.database.tenant(harness.tenant_id) as connection:
        known = [decision.id for decision in diagnostics.list_variance_decisions(connection)]
    assert isinstance(decide(harness, "disputed", by="bob", overrides=known), DecisionResult)
    assert compute(harness)["outcome"] == "exception"
    with harness.database.tenant(harness.tenant_id) as connection:
        assert {
            (decision.is_accepted, decision.by) for decision in diagnostics.list_variance_decisions(connection)
        } == {(False, "bob")}


def test_accepted_and_disputed_variances_reach_the_audit_trail(harness: TenantHarness, admin: Connection):
    decide(harness, "accepted", VarianceSelector(code=VarianceCode.PRICE_MISMATCH))
    decide(
        harness, "accepted", VarianceSelector(code=VarianceCode.PRICE_MISMATCH)
    )  # rejected, because it is already accepted
    decide(harness, "disputed", VarianceSelector(code=VarianceCode.OVER_BILLED_QUANTITY), by="bob")

    assert verified_changes(admin, harness.tenant_id) == [
        ("ann", "variances accepted", [str(harness.ids[0])]),
        ("bob", "variances disputed", [str(harness.ids[0])]),
    ]


def test_only_first_of_concurrent_decisions_is_stored(harness: TenantHarness, admin: Connection):
    with ThreadPoolExecutor(6) as pool:
        results = list(pool.map(lambda number: decide(harness, "accepted", by=f"clerk-{number}"), range(6)))
    assert sum(isinstance(response, DecisionResult) for response in results) == 1
    assert len(rows(admin, "variance_decision")) == 3


def test_decision_during_computation_is_not_lost(harness: TenantHarness):
    """A result computed from data before the decision must be rejected as stale."""
    with harness.database.tenant(harness.tenant_id) as connection:
        read = diagnostics.load(connection, harness.tenant_id, harness.ids[0])
        (token,) = connection.execute("SELECT claim_token FROM cluster_diagnostics").fetchone() or (0,)
    assert read is not None
    decide(harness, "accepted")
    stale = read.compare()
    with pytest.raises(StaleClaimError), harness.database.tenant(harness.tenant_id) as connection:
        diagnostics.write(connection, harness.ids[0], token, stale, NOW + timedelta(seconds=1))


def test_only_numeric_variances_can_be_accepted(database: Database, admin: Connection):
    harness = TenantHarness(database, admin, [order(lines=ORDERED), invoice(po_reference="4711", lines=ORDERED)])
    harness.match_all()
    compute(harness)
    rejection = decide(harness, "accepted")
    assert isinstance(rejection, DecisionRejected)
    assert rejection.message.startswith("The cluster has no open difference that can be accepted or disputed. Invoice ")
    of_code = decide(harness, "accepted", VarianceSelector(code=VarianceCode.MISSING_DELIVERY))
    assert isinstance(of_code, DecisionRejected)
    assert "Change the documents instead" in of_code.message
    assert decide(harness, "disputed", VarianceSelector(line="99")) == DecisionRejected(
        "changed", "The cluster has no such difference."
    )


def test_decision_about_missing_or_foreign_cluster_is_rejected(harness: TenantHarness, admin: Connection):
    rejection = DecisionRejected("gone", "The cluster does not exist or has not been compared yet.")
    assert decide(harness, "accepted", cluster=UUID(int=3)) == rejection
    foreign = TenantHarness(harness.database, admin)
    assert decide(foreign, "accepted", cluster=harness.ids[0]) == rejection
    assert rows(admin, "variance_decision") == []


def test_decision_labels_name_supplier_and_exclude_other_tenants(harness: TenantHarness, admin: Connection):
    decide(harness, "accepted", VarianceSelector(code=VarianceCode.PRICE_MISMATCH))
    with harness.database.tenant(harness.tenant_id) as connection:
        (label,) = differences.labels(connection)
    assert (label.sellers, label.key) == (("DE136695976", "Tarnow Schrauben AG"), Key.PRICE)
    assert (label.size("percent"), label.direction, label.decision.measure) == (Decimal("1.5"), "more", "EUR")
    foreign = TenantHarness(harness.database, admin)
    with foreign.database.tenant(foreign.tenant_id) as connection:
        assert list(differences.labels(connection)) == []


def test_decision_labels_include_disputes_and_current_acceptances(harness: TenantHarness):
    decide(harness, "accepted", VarianceSelector(code=VarianceCode.PRICE_MISMATCH))
    decide(harness, "accepted", VarianceSelector(code=VarianceCode.OVER_BILLED_QUANTITY))
    decide(harness, "disputed", VarianceSelector(code=VarianceCode.OVER_ORDERED_AMOUNT))
    assert labels(harness) == [("billed_beyond_order", False), ("over_billed_quantity", True), ("price_mismatch", True)]
    harness.match(harness.file(invoice("R-82", 12, po_reference="4711", lines=[line("A-200", "2", "12.50")])))
    compute(harness)  # the billed quantity now exceeds the accepted quantity
    assert labels(harness) == [("billed_beyond_order", False), ("price_mismatch", True)]
    harness.decide(2, 0, "rejected")
    harness.decide(2, 1, "rejected")
    compute(harness)
    compute(harness, 2)  # the invoice no longer belongs to the order's cluster
    assert labels(harness) == [("billed_beyond_order", False)]


def labels(harness: TenantHarness) -> list[tuple[str, bool]]:
    with harness.database.tenant(harness.tenant_id) as connection:
        return sorted(
            (label.decision.variance_key[1].value, label.decision.is_accepted)
            for label in differences.labels(connection)
        )


def test_removing_a_document_deletes_its_variance_decisions(harness: TenantHarness, admin: Connection):
    decide(harness, "accepted")
    admin.execute("DELETE FROM document WHERE id = %s", [harness.ids[2]])
    assert rows(admin, "variance_decision") == []
