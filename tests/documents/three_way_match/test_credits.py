"""Credit notes resolve variances from returns, prices and duplicate invoices."""

from collections.abc import Sequence
from typing import Any

import pytest

from counterfoil.documents.three_way_match import Document, ThreeWayMatchStatus
from tests.documents.three_way_match.samples import TWO, codes, credit, delivery, invoice, line, links, order, result

DEAR = invoice(lines=[line(price="8.40"), TWO[1]])
"""An invoice for 10 pieces at 8.40, which were ordered at 4.20."""


def credit_note(**fields: Any) -> Document:
    return credit(invoice_reference="R-100", **fields)


def test_price_credit_does_not_reduce_the_billed_quantity():
    """Two pieces too many are billed, and 30 cents per piece are credited."""
    invoice_ = invoice(lines=[line(quantity="12"), TWO[1]])
    match_result = result(order(), delivery(), invoice_, credit_note(lines=[line(price="0.30")]))
    assert codes(match_result) == ["billed_beyond_order", "over_billed_quantity"]


def test_credit_for_partial_return_leaves_price_difference_open():
    match_result = result(order(), delivery(), DEAR, credit_note(lines=[line(quantity="5", price="8.40")]))
    assert codes(match_result) == ["price_mismatch"]


@pytest.mark.parametrize("credited", [line(price="4.20"), line(price="8.40"), line(quantity="1", price="42.00")])
def test_credit_for_excess_or_all_goods_resolves_difference(credited: dict[str, str]):
    match_result = result(order(), delivery(), DEAR, credit_note(lines=[credited]))
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.MATCHED)


def test_one_credit_resolves_only_one_price_difference():
    half = [line(quantity="5", price="8.40"), TWO[1]]
    invoices = [invoice("R-100", 10, lines=half), invoice("R-200", 11, lines=half[:1])]
    once = credit_note(lines=[line(quantity="5", price="4.20")])
    assert codes(result(order(), delivery(), *invoices, once)) == ["price_mismatch"]
    twice = credit("G2", 22, lines=[line(quantity="5", price="4.20", net_amount="21.00")])
    assert codes(result(order(), delivery(), *invoices, once, twice)) == []


@pytest.mark.parametrize(("amount", "open_"), [("41.99", []), ("41.98", ["price_mismatch"])])
def test_price_credit_may_be_one_cent_short(amount: str, open_: list[str]):
    match_result = result(order(), delivery(), DEAR, credit_note(lines=[line(quantity="1", price=amount)]))
    assert codes(match_result) == open_


# -- duplicate invoices -----------------------------------------------------------------------------------------------


def codes_with_duplicates(documents: Sequence[Document], duplicates: Sequence[Document]) -> list[str]:
    """Return the codes of open variances if duplicates are linked only to the first."""
    original, *later = duplicates
    edges = [edge for edge in links(documents) if not {document.id for document in later} & set(edge)]
    edges += [(original.id, document.id) for document in later]
    return codes(result(*documents, edges=edges))


def test_cancellation_of_original_resolves_the_duplicate():
    first, second = invoice("R-100", 10), invoice("R-101", 13)
    canceled = credit_note(day=12)
    assert codes_with_duplicates([order(), delivery(), first, canceled, second], [first, second]) == []


@pytest.mark.parametrize("sign", ["", "-"])
def test_each_credit_note_cancels_one_duplicate(sign: str):
    first, second, third = invoice("R-100", 10), invoice("R-101", 13), invoice("R-102", 14)
    canceled = credit_note(total_gross=f"{sign}104.50")
    documents = [order(), delivery(), first, second, third, canceled]
    assert codes_with_duplicates(documents, [first, second, third]) == ["duplicate_invoice"]
    assert codes_with_duplicates([*documents, credit("G2", 22)], [first, second, third]) == []


def test_partial_credit_note_cancels_no_duplicate():
    first, second = invoice("R-100", 10), invoice("R-101", 13)
    part = credit_note(lines=[line(quantity="1")])
    assert codes_with_duplicates([order(), delivery(), first, part, second], [first, second]) == ["duplicate_invoice"]
