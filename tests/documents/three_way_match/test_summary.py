"""The summary of a cluster contains status, supplier, orders, amounts and age."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from counterfoil.documents.three_way_match import ClusterStatus, Document, Result, VarianceDecision, find_variances
from counterfoil.documents.three_way_match.decisions import is_difference, variance_key
from tests.documents.three_way_match.samples import (
    TWO,
    credit,
    delivery,
    invoice,
    line,
    links,
    make_document,
    order,
    receipt,
    result,
)

DEARER = [line(price="5.00"), TWO[1]]
NET = Decimal("104.50")
"""Net total of the default order with both line items."""


def decide_all(match_result: Result, documents: list[Document], decision: str, **fields: Any) -> Result:
    """Repeat the three-way match with a decision on every difference."""
    decisions = [
        VarianceDecision(
            number, variance_key(variance), None, decision == "accepted", "ann", datetime(2026, 6, 1, tzinfo=UTC), None
        )
        for number, variance in enumerate(match_result.variances)
        if is_difference(variance)
    ]
    return find_variances(documents, links(documents), None, decisions, **fields)


def test_matched_cluster_has_all_amounts():
    summary = result(order(), delivery(), invoice()).summary

    assert summary.status is ClusterStatus.MATCHED
    assert (summary.ordered, summary.delivered, summary.billed, summary.affected) == (NET, NET, NET, Decimal(0))
    assert (summary.currency, summary.order_numbers, summary.documents) == ("EUR", ("4711",), 3)
    assert summary.waiting_since == invoice().received_at


def test_price_difference_puts_its_amount_affected():
    summary = result(order(), delivery(), invoice(lines=DEARER)).summary

    assert summary.status is ClusterStatus.EXCEPTION
    assert summary.affected == Decimal("8.00")  # 10 pieces, each billed 0.80 too high


@pytest.mark.parametrize(
    ("decision", "status", "affected"),
    [("accepted", ClusterStatus.ACCEPTED, "0"), ("disputed", ClusterStatus.DISPUTED, "8")],
)
def test_decision_changes_the_status(decision: str, status: ClusterStatus, affected: str):
    documents = [order(), delivery(), invoice(lines=DEARER)]

    result_ = decide_all(result(*documents), documents, decision)

    assert (result_.summary.status, result_.summary.affected) == (status, Decimal(affected))
    assert {variance.decision for variance in result_.variances} == {decision}
    assert {variance["decision"] for variance in result_.record["variances"]} == {decision}


def test_undecided_difference_beside_disputed_is_an_exception():
    documents = [order(), delivery(), invoice(lines=[line(price="5.00"), line("B-2", "6", "12.50")])]
    match_result = result(*documents)
    (price,) = [variance for variance in match_result.variances if variance.code.value == "price_mismatch"]
    decision = VarianceDecision(1, variance_key(price), None, False, "ann", datetime(2026, 6, 1, tzinfo=UTC), None)

    repeated = find_variances(documents, links(documents), None, [decision])

    assert repeated.summary.status is ClusterStatus.EXCEPTION


def test_quantity_beyond_order_and_delivery_counts_once():
    match_result = result(order(), delivery(), invoice(lines=[TWO[0], line("B-2", "6", "12.50")]))

    assert len([variance for variance in match_result.variances if variance.is_open]) == 2
    assert match_result.summary.affected == Decimal("12.50")


@pytest.mark.parametrize(
    "documents",
    [
        [invoice(po_reference="9999")],  # the order is missing
        [order(), invoice()],  # the delivery is missing
        [invoice(po_reference=None)],  # the invoice has no order reference
    ],
)
def test_invoice_without_order_or_delivery_is_fully_affected(documents: list[Document]):
    summary = result(*documents).summary

    assert (summary.status, summary.affected) == (ClusterStatus.INCOMPLETE, NET)


def test_order_without_invoice_affects_no_amount():
    summary = result(order()).summary

    assert (summary.status, summary.affected, summary.billed, summary.delivered) == (
        ClusterStatus.INCOMPLETE,
        Decimal(0),
        None,
        None,
    )


def test_ambiguous_match_needs_review():
    documents = [order(), delivery(), invoice()]

    summary = find_variances(documents, links(documents), ambiguous_ids=[documents[2].id]).summary

    assert summary.status is ClusterStatus.NEEDS_REVIEW


def test_invoice_without_supplier_needs_review():
    summary = result(order(), delivery(), invoice(issuer=None)).summary

    assert summary.status is ClusterStatus.NEEDS_REVIEW
    assert summary.supplier is not None  # the supplier is known from the order


@pytest.mark.parametrize("name", ["name", "vat_id", "tax_number", "registration_id"])
def test_name_or_identifier_identifies_the_supplier(name: str):
    documents = [order(), delivery(supplier={name: "12/345/678"}), invoice()]

    assert result(*documents).summary.status is ClusterStatus.MATCHED


@pytest.mark.parametrize("supplier", [None, {}, {"email": "sales@tarnow.example"}, "Tarnow"])
def test_cluster_with_unidentified_supplier_needs_review(supplier: Any):
    match_result = result(order(), delivery(supplier=supplier), invoice())

    assert match_result.summary.status is ClusterStatus.NEEDS_REVIEW
    assert match_result.reasons == ("Delivery note L1 names no supplier.", "Everything agrees.")


def test_confirmed_match_resolves_a_missing_supplier():
    documents = [order(), delivery(supplier=None), invoice()]

    match_result = find_variances(documents, links(documents), confirmed_ids=[documents[1].id])

    assert (match_result.summary.status, match_result.reasons) == (ClusterStatus.MATCHED, ("Everything agrees.",))


def test_ambiguous_match_is_the_first_reason():
    documents = [order(), delivery(), invoice()]

    match_result = find_variances(documents, links(documents), ambiguous_ids=[documents[2].id])

    assert match_result.reasons == ("Invoice R-100: its match is ambiguous, see Review.", "Everything agrees.")


def test_reasons_of_an_exception_omit_reviews():
    documents = [order(), delivery(), invoice(lines=DEARER)]

    match_result = find_variances(documents, links(documents), ambiguous_ids=[documents[2].id])

    assert not any("ambiguous" in reason for reason in match_result.reasons)


def test_exception_outranks_a_review():
    documents = [order(), delivery(), invoice(lines=DEARER)]

    summary = find_variances(documents, links(documents), ambiguous_ids=[documents[2].id]).summary

    assert summary.status is ClusterStatus.EXCEPTION


def test_delivered_amount_excludes_rejected_goods():
    received_lines = [line(quantity="9", rejected_quantity="1"), TWO[1]]

    summary = result(order(), delivery(), receipt(lines=received_lines), invoice()).summary

    assert summary.delivered == NET - Decimal("8.40")


def test_credit_notes_reduce_the_billed_amount():
    summary = result(order(), delivery(), invoice(), credit(lines=[TWO[1]])).summary

    assert summary.billed == NET - Decimal("62.50")


def test_amounts_in_other_currencies_are_ignored():
    summary = result(order(), delivery(), invoice(currency="USD")).summary

    assert (summary.currency, summary.ordered, summary.billed, summary.affected) == ("USD", None, NET, NET)


def test_summary_without_documents_is_incomplete():
    summary = result().summary

    assert (summary.status, summary.waiting_since, summary.documents) == (ClusterStatus.INCOMPLETE, None, 0)


def test_contract_is_not_counted():
    summary = result(order(), delivery(), invoice(), make_document("contract", "RV-60")).summary

    assert summary.documents == 3


@pytest.mark.parametrize("sign", ["", "-"])
def test_credit_note_of_either_sign_lowers_billed_amount(sign: str):
    credit_note = credit(lines=[line(quantity="5")], total_net=f"{sign}21.00")

    assert result(order(), delivery(), invoice(), credit_note).summary.billed == NET - 21
