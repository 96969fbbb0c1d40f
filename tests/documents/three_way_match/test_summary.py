"""Summary of a cluster: status, supplier, orders, amounts, age."""

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
"""Net total of an order of both lines."""


def decided(found: Result, documents: list[Document], decision: str, **more: Any) -> Result:
    """Compare again after a reviewer has decided about every difference."""
    verdicts = [
        VarianceDecision(
            number, variance_key(one), None, decision == "accepted", "ann", datetime(2026, 6, 1, tzinfo=UTC), None
        )
        for number, one in enumerate(found.variances)
        if is_difference(one)
    ]
    return find_variances(documents, links(documents), None, verdicts, **more)


def test_matched_cluster_has_all_amounts():
    found = result(order(), delivery(), invoice()).summary

    assert found.status is ClusterStatus.MATCHED
    assert (found.ordered, found.delivered, found.billed, found.at_stake) == (NET, NET, NET, Decimal(0))
    assert (found.currency, found.order_numbers, found.documents) == ("EUR", ("4711",), 3)
    assert found.waiting_since == invoice().received_at


def test_price_difference_puts_its_amount_at_stake():
    found = result(order(), delivery(), invoice(lines=DEARER)).summary

    assert found.status is ClusterStatus.EXCEPTION
    assert found.at_stake == Decimal("8.00")  # 10 pieces, each 0.80 too expensive


@pytest.mark.parametrize(
    ("decision", "status", "at_stake"),
    [("accepted", ClusterStatus.ACCEPTED, "0"), ("disputed", ClusterStatus.DISPUTED, "8")],
)
def test_decision_changes_the_status(decision: str, status: ClusterStatus, at_stake: str):
    documents = [order(), delivery(), invoice(lines=DEARER)]

    found = decided(result(*documents), documents, decision)

    assert (found.summary.status, found.summary.at_stake) == (status, Decimal(at_stake))
    assert {one.decision for one in found.variances} == {decision}
    assert {one["decision"] for one in found.record["variances"]} == {decision}


def test_undecided_difference_beside_disputed_is_an_exception():
    documents = [order(), delivery(), invoice(lines=[line(price="5.00"), line("B-2", "6", "12.50")])]
    found = result(*documents)
    (price,) = [one for one in found.variances if one.code.value == "price_mismatch"]
    verdict = VarianceDecision(1, variance_key(price), None, False, "ann", datetime(2026, 6, 1, tzinfo=UTC), None)

    again = find_variances(documents, links(documents), None, [verdict])

    assert again.summary.status is ClusterStatus.EXCEPTION


def test_quantity_beyond_order_and_delivery_counts_once():
    found = result(order(), delivery(), invoice(lines=[TWO[0], line("B-2", "6", "12.50")]))

    assert len([one for one in found.variances if one.is_open]) == 2
    assert found.summary.at_stake == Decimal("12.50")


@pytest.mark.parametrize(
    "documents",
    [
        [invoice(po_reference="9999")],  # the order is missing
        [order(), invoice()],  # the delivery is missing
        [invoice(po_reference=None)],  # names no order
    ],
)
def test_invoice_without_order_or_delivery_is_at_stake(documents: list[Document]):
    found = result(*documents).summary

    assert (found.status, found.at_stake) == (ClusterStatus.INCOMPLETE, NET)


def test_order_without_invoice_puts_nothing_at_stake():
    found = result(order()).summary

    assert (found.status, found.at_stake, found.billed, found.delivered) == (
        ClusterStatus.INCOMPLETE,
        Decimal(0),
        None,
        None,
    )


def test_ambiguous_match_needs_review():
    documents = [order(), delivery(), invoice()]

    found = find_variances(documents, links(documents), ambiguous=[documents[2].id]).summary

    assert found.status is ClusterStatus.NEEDS_REVIEW


def test_missing_supplier_needs_review():
    found = result(order(), delivery(), invoice(issuer=None)).summary

    assert found.status is ClusterStatus.NEEDS_REVIEW
    assert found.supplier is not None  # the order states it


@pytest.mark.parametrize("name", ["name", "vat_id", "tax_number", "registration_id"])
def test_any_identifier_names_the_supplier(name: str):
    documents = [order(), delivery(supplier={name: "12/345/678"}), invoice()]

    assert result(*documents).summary.status is ClusterStatus.MATCHED


@pytest.mark.parametrize("supplier", [None, {}, {"email": "sales@tarnow.example"}, "Tarnow"])
def test_supplier_without_identifier_needs_review(supplier: Any):
    found = result(order(), delivery(supplier=supplier), invoice())

    assert found.summary.status is ClusterStatus.NEEDS_REVIEW
    assert found.reasons == ("Delivery note L1 names no supplier.", "Everything agrees.")


def test_confirmed_match_resolves_a_missing_supplier():
    documents = [order(), delivery(supplier=None), invoice()]

    found = find_variances(documents, links(documents), confirmed=[documents[1].id])

    assert (found.summary.status, found.reasons) == (ClusterStatus.MATCHED, ("Everything agrees.",))


def test_ambiguous_match_is_the_first_reason():
    documents = [order(), delivery(), invoice()]

    found = find_variances(documents, links(documents), ambiguous=[documents[2].id])

    assert found.reasons == ("Invoice R-100: its match is ambiguous, see Review.", "Everything agrees.")


def test_exception_omits_reviews_from_its_reasons():
    documents = [order(), delivery(), invoice(lines=DEARER)]

    found = find_variances(documents, links(documents), ambiguous=[documents[2].id])

    assert not any("ambiguous" in reason for reason in found.reasons)


def test_exception_outranks_a_review():
    documents = [order(), delivery(), invoice(lines=DEARER)]

    found = find_variances(documents, links(documents), ambiguous=[documents[2].id]).summary

    assert found.status is ClusterStatus.EXCEPTION


def test_received_goods_less_rejected_count_as_delivered():
    goods = [line(quantity="9", rejected_quantity="1"), TWO[1]]

    found = result(order(), delivery(), receipt(lines=goods), invoice()).summary

    assert found.delivered == NET - Decimal("8.40")


def test_credit_notes_reduce_the_billed_amount():
    found = result(order(), delivery(), invoice(), credit(lines=[TWO[1]])).summary

    assert found.billed == NET - Decimal("62.50")


def test_other_currencies_do_not_count():
    found = result(order(), delivery(), invoice(currency="USD")).summary

    assert (found.currency, found.ordered, found.billed, found.at_stake) == ("USD", None, NET, NET)


def test_summary_of_no_documents_is_incomplete():
    found = result().summary

    assert (found.status, found.waiting_since, found.documents) == (ClusterStatus.INCOMPLETE, None, 0)


def test_contract_is_not_counted():
    found = result(order(), delivery(), invoice(), make_document("contract", "RV-60")).summary

    assert found.documents == 3


@pytest.mark.parametrize("sign", ["", "-"])
def test_credit_note_of_either_sign_lowers_billed_amount(sign: str):
    back = credit(lines=[line(quantity="5")], total_net=f"{sign}21.00")

    assert result(order(), delivery(), invoice(), back).summary.billed == NET - 21
