"""Accept and dispute variances of clusters in a real database."""

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
from counterfoil.documents.differences import DecisionResult, VarianceSelector, Word
from counterfoil.documents.review import DecisionContext, DecisionRejected
from counterfoil.documents.three_way_match import VarianceCode
from counterfoil.documents.three_way_match.tolerances import Key
from counterfoil.errors import StaleClaimError
from tests.dead_letters.audit_trail import verified_changes
from tests.delivery.harness import rows
from tests.documents.matching.office import NOW, Office
from tests.documents.matching.papers import delivery, invoice, line, order

ORDERED = [line("A-100", "10", "100.00"), line("A-200", "5", "12.50")]
BILLED = [line("A-100", "10", "101.50"), line("A-200", "6", "12.50")]
"""A-100 is 1.5 percent too expensive, and one A-200 too many is billed."""


@pytest.fixture
def office(database: Database, admin: Connection) -> Office:
    documents = [order(lines=ORDERED), delivery(po_reference="4711", lines=ORDERED)]
    office = Office(database, admin, [*documents, invoice(po_reference="4711", lines=BILLED)])
    office.match_all()
    compute(office)
    return office


def compute(office: Office, position: int = 0) -> dict[str, Any]:
    """Compute the three-way match of a document's cluster like the worker."""
    cluster_id = office.ids[position]
    with office.database.tenant(office.tenant_id) as connection:
        diagnostics.enqueue_diagnostics(connection, office.tenant_id, [cluster_id], NOW)
        found = diagnostics.load(connection, office.tenant_id, cluster_id)
        assert found is not None
        result = found.examine()
        rows = connection.execute("SELECT claim_token FROM cluster_diagnostics WHERE id = %s", [cluster_id]).fetchall()
        diagnostics.write(connection, cluster_id, rows[0][0], result, NOW)
    office.admin.execute("UPDATE cluster_diagnostics SET status = 'succeeded'")
    return result.record


def decide(
    office: Office,
    word: Word,
    which: VarianceSelector = VarianceSelector(),  # noqa: B008  # it is frozen
    *,
    by: str = "ann",
    overrides: Sequence[int] = (),
    cluster: UUID | None = None,
) -> DecisionResult | DecisionRejected:
    def once() -> DecisionResult | DecisionRejected:
        with office.database.tenant(office.tenant_id) as connection:
            who = DecisionContext(by, "agreed", overrides)
            return differences.say(connection, office.tenant_id, cluster or office.ids[0], which, word, NOW, who)

    return retry_on_conflict(once)


def test_accepted_variances_resolve_and_recompute_the_cluster(office: Office, admin: Connection):
    assert compute(office)["outcome"] == "exception"
    decided = decide(office, "accepted")
    assert isinstance(decided, DecisionResult)
    assert (len(decided.sentences), decided.left) == (3, ())  # a price, and a quantity above order and delivery
    (row,) = rows(admin, "cluster_diagnostics")
    assert row["status"] == "pending"
    assert {send.message.work_id for send in decided.sends} == {office.ids[0]}
    result = compute(office)
    assert result["outcome"] == "matched"
    assert all(variance["decided_by"] == "Accepted by ann on 2026-06-01: agreed." for variance in result["variances"])


@pytest.mark.parametrize(
    ("word", "outcome", "status"), [("accepted", "matched", "accepted"), ("disputed", "exception", "disputed")]
)
def test_decision_shows_before_the_cluster_is_recomputed(office: Office, word: Word, outcome: str, status: str):
    assert isinstance(decide(office, word), DecisionResult)

    with office.database.tenant(office.tenant_id) as connection:
        found = clusters.show(connection, office.tenant_id, office.ids[0], limit=10)
    assert found is not None
    assert found.comparison is not None
    assert (found.comparison.outcome, found.status, found.is_computing) == (outcome, status, True)
    assert {variance["decision"] for variance in found.comparison.variances} == {word}


def test_large_cluster_is_left_to_the_worker(office: Office, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(diagnostics, "COMPARED_AT_ONCE", 2)

    assert isinstance(decide(office, "accepted"), DecisionResult)

    with office.database.tenant(office.tenant_id) as connection:
        found = clusters.show(connection, office.tenant_id, office.ids[0], limit=10)
        (listed,) = clusters.page(connection, office.tenant_id, ClusterFilter(), limit=5).clusters
    assert found is not None
    assert (found.status, found.is_computing) == ("exception", True)
    assert (listed.status, listed.is_computing) == ("exception", True)
    assert compute(office)["outcome"] == "matched"


def test_single_variance_is_accepted_and_others_stay_open(office: Office):
    decided = decide(office, "accepted", VarianceSelector(office.ids[2], VarianceCode.PRICE_MISMATCH, "1"))
    assert isinstance(decided, DecisionResult)
    assert (len(decided.sentences), len(decided.left)) == (1, 2)
    result = compute(office)
    assert result["outcome"] == "exception"
    assert [variance["code"] for variance in result["variances"] if variance["decided_by"]] == ["price_mismatch"]


def test_accepted_variance_is_not_open_before_recomputation(office: Office):
    decide(office, "accepted", VarianceSelector(code=VarianceCode.OVER_BILLED_QUANTITY))
    decided = decide(office, "accepted", VarianceSelector(code=VarianceCode.PRICE_MISMATCH))
    assert isinstance(decided, DecisionResult)
    (left,) = decided.left
    assert "were ordered" in left


def test_acceptance_holds_until_the_figures_change(office: Office):
    decide(office, "accepted")
    office.match(office.file(invoice("R-82", 12, po_reference="4711", lines=[line("A-200", "2", "12.50")])))
    open_ = {variance["code"] for variance in compute(office)["variances"] if not variance["decided_by"]}
    assert open_ == {"over_billed_quantity", "billed_beyond_order"}  # three units too many now; the price is unchanged


def test_decision_must_supersede_the_previous_one(office: Office):
    assert isinstance(decide(office, "accepted"), DecisionResult)
    again = decide(office, "accepted", by="bob")
    assert again == DecisionRejected("changed", "Accepted by ann on 2026-06-01: agreed. No change is needed.")
    disputed = decide(office, "disputed", by="bob")
    assert isinstance(disputed, DecisionRejected)
    assert "Supersede that decision explicitly" in disputed.message
    with office.database.tenant(office.tenant_id) as connection:
        known = [decision.id for decision in diagnostics.list_variance_decisions(connection)]
    assert isinstance(decide(office, "disputed", by="bob", overrides=known), DecisionResult)
    assert compute(office)["outcome"] == "exception"
    with office.database.tenant(office.tenant_id) as connection:
        assert {
            (decision.is_accepted, decision.by) for decision in diagnostics.list_variance_decisions(connection)
        } == {(False, "bob")}


def test_accepted_and_disputed_variances_reach_the_audit_trail(office: Office, admin: Connection):
    decide(office, "accepted", VarianceSelector(code=VarianceCode.PRICE_MISMATCH))
    decide(office, "accepted", VarianceSelector(code=VarianceCode.PRICE_MISMATCH))  # refused: already accepted
    decide(office, "disputed", VarianceSelector(code=VarianceCode.OVER_BILLED_QUANTITY), by="bob")

    assert verified_changes(admin, office.tenant_id) == [
        ("ann", "variances accepted", [str(office.ids[0])]),
        ("bob", "variances disputed", [str(office.ids[0])]),
    ]


def test_one_of_concurrent_decisions_wins(office: Office, admin: Connection):
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda number: decide(office, "accepted", by=f"clerk-{number}"), range(6)))
    assert sum(isinstance(answer, DecisionResult) for answer in answers) == 1
    assert len(rows(admin, "variance_decision")) == 3


def test_decision_during_computation_is_not_lost(office: Office):
    """The worker loaded the cluster before the decision, so its result is stale."""
    with office.database.tenant(office.tenant_id) as connection:
        read = diagnostics.load(connection, office.tenant_id, office.ids[0])
        (token,) = connection.execute("SELECT claim_token FROM cluster_diagnostics").fetchone() or (0,)
    assert read is not None
    decide(office, "accepted")
    stale = read.examine()
    with pytest.raises(StaleClaimError), office.database.tenant(office.tenant_id) as connection:
        diagnostics.write(connection, office.ids[0], token, stale, NOW + timedelta(seconds=1))


def test_only_numeric_variances_can_be_accepted(database: Database, admin: Connection):
    office = Office(database, admin, [order(lines=ORDERED), invoice(po_reference="4711", lines=ORDERED)])
    office.match_all()
    compute(office)
    refused = decide(office, "accepted")
    assert isinstance(refused, DecisionRejected)
    assert refused.message.startswith("The cluster has no open difference that can be accepted or disputed. Invoice ")
    of_code = decide(office, "accepted", VarianceSelector(code=VarianceCode.MISSING_DELIVERY))
    assert isinstance(of_code, DecisionRejected)
    assert "Change the documents instead" in of_code.message
    assert decide(office, "disputed", VarianceSelector(line="99")) == DecisionRejected(
        "changed", "The cluster has no such difference."
    )


def test_missing_or_other_tenants_cluster_is_refused(office: Office, admin: Connection):
    gone = DecisionRejected("gone", "The cluster does not exist or has not been compared yet.")
    assert decide(office, "accepted", cluster=UUID(int=3)) == gone
    theirs = Office(office.database, admin)
    assert decide(theirs, "accepted", cluster=office.ids[0]) == gone
    assert rows(admin, "variance_decision") == []


def test_labels_name_seller_and_stay_within_tenant(office: Office, admin: Connection):
    decide(office, "accepted", VarianceSelector(code=VarianceCode.PRICE_MISMATCH))
    with office.database.tenant(office.tenant_id) as connection:
        (label,) = differences.labels(connection)
    assert (label.sellers, label.key) == (("DE136695976", "Tarnow Schrauben AG"), Key.PRICE)
    assert (label.size("percent"), label.direction, label.verdict.measure) == (Decimal("1.5"), "more", "EUR")
    theirs = Office(office.database, admin)
    with theirs.database.tenant(theirs.tenant_id) as connection:
        assert list(differences.labels(connection)) == []


def test_labels_keep_disputes_and_current_acceptances(office: Office):
    decide(office, "accepted", VarianceSelector(code=VarianceCode.PRICE_MISMATCH))
    decide(office, "accepted", VarianceSelector(code=VarianceCode.OVER_BILLED_QUANTITY))
    decide(office, "disputed", VarianceSelector(code=VarianceCode.OVER_ORDERED_AMOUNT))
    assert labels(office) == [("billed_beyond_order", False), ("over_billed_quantity", True), ("price_mismatch", True)]
    office.match(office.file(invoice("R-82", 12, po_reference="4711", lines=[line("A-200", "2", "12.50")])))
    compute(office)  # more is billed now than was accepted
    assert labels(office) == [("billed_beyond_order", False), ("price_mismatch", True)]
    office.decide(2, 0, "rejected")
    office.decide(2, 1, "rejected")
    compute(office)
    compute(office, 2)  # the invoice belongs to another order
    assert labels(office) == [("billed_beyond_order", False)]


def labels(office: Office) -> list[tuple[str, bool]]:
    with office.database.tenant(office.tenant_id) as connection:
        return sorted(
            (label.verdict.about[1].value, label.verdict.is_accepted) for label in differences.labels(connection)
        )


def test_removed_document_deletes_its_variance_decisions(office: Office, admin: Connection):
    decide(office, "accepted")
    admin.execute("DELETE FROM document WHERE id = %s", [office.ids[2]])
    assert rows(admin, "variance_decision") == []
