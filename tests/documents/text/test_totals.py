"""Checks of totals allow for rounding, and unreadable amounts are reported."""

from decimal import Decimal

import pytest

from counterfoil.documents.extraction import extract
from counterfoil.documents.text import totals
from counterfoil.documents.text.page import Page, Word, pages
from counterfoil.documents.text.totals import (
    gross_agrees,
    indices_of_sum,
    line_agrees,
    line_net,
    sum_agrees,
    tax_agrees,
)
from tests.documents.reading.samples import LASKU, invoice_without_readable_amounts, text_pdf


@pytest.mark.parametrize(
    ("quantity", "price", "net"),
    [("3", "3.33", "10.00"), ("1", "41.1765", "41.18"), ("10000", "0.0205", "205.00"), ("30", "10", "300")],
)
def test_amount_from_a_rounded_price_agrees(quantity: str, price: str, net: str):
    assert line_agrees(Decimal(quantity), Decimal(price), Decimal(net))


@pytest.mark.parametrize(("quantity", "price", "net"), [("3", "3.33", "10.10"), ("30", "10", "301"), ("2", "5", "-10")])
def test_amount_beyond_rounding_disagrees(quantity: str, price: str, net: str):
    assert not line_agrees(Decimal(quantity), Decimal(price), Decimal(net))


def test_price_basis_and_discount_are_applied():
    assert line_agrees(Decimal(1800), Decimal("12.05"), Decimal("216.90"), basis=Decimal(100))
    assert line_agrees(Decimal(20), Decimal("4.55"), Decimal("81.90"), discount=Decimal(10))
    assert line_net(Decimal(20), Decimal("4.55"), discount=Decimal(10)) == Decimal("81.90")


def test_zero_price_basis_never_agrees():
    assert not line_agrees(Decimal(1), Decimal(1), Decimal(1), basis=Decimal(0))


def test_sum_is_exact_except_for_sub_cent_amounts():
    assert sum_agrees([Decimal("0.10"), Decimal("0.20")], Decimal("0.30"))
    assert not sum_agrees([Decimal("0.10"), Decimal("0.20")], Decimal("0.31"))
    assert sum_agrees([Decimal("0.104"), Decimal("0.20")], Decimal("0.30"))


def test_tax_rounded_once_or_per_line_agrees():
    assert tax_agrees(Decimal("100.03"), Decimal(19), Decimal("19.01"))
    assert not tax_agrees(Decimal("100.03"), Decimal(19), Decimal("19.03"))
    assert tax_agrees(Decimal("100.03"), Decimal(19), Decimal("19.03"), parts=5)


def test_gross_must_equal_net_plus_tax():
    assert gross_agrees(Decimal("100.00"), Decimal("19.00"), Decimal(119))
    assert not gross_agrees(Decimal("100.00"), Decimal("19.00"), Decimal("119.01"))


def test_unique_subset_with_the_sum_is_found():
    assert indices_of_sum([Decimal(20), Decimal(5), Decimal(7)], Decimal(12)) == (1, 2)


def test_ambiguous_or_missing_subset_is_not_chosen():
    assert indices_of_sum([Decimal(20), Decimal(5), Decimal(20)], Decimal(20)) is None
    assert indices_of_sum([Decimal(20), Decimal(5)], Decimal(99)) is None


def test_too_many_amounts_are_not_searched():
    assert indices_of_sum([Decimal(1)] * 14 + [Decimal(2)], Decimal(2)) is None


def test_page_of_unreadable_amounts_is_found_by_field() -> None:
    assert totals.unreadable_amounts(pages(invoice_without_readable_amounts()), {}) == {
        "line_items": 1,
        "total_net": 1,
        "total_gross": 1,
    }


def test_extraction_warns_about_unreadable_amounts() -> None:
    result = extract(invoice_without_readable_amounts())

    assert result.structured_data is not None
    assert result.structured_data["invoice_number"] == "R-2026-17"
    assert result.warnings[-1] == (
        "These fields are printed on page 1 in a font without usable characters: line_items, total_gross, total_net. "
        "Print the document to a new PDF and send that."
    )


def test_readable_amounts_give_no_warning() -> None:
    read = {"line_items": [{}], "total_net": "1020.00", "total_gross": "1213.80"}
    assert totals.unreadable_warning(pages(invoice_without_readable_amounts()), read) is None
    assert totals.unreadable_warning(pages(text_pdf(LASKU)), {}) is None


def test_symbol_in_unreadable_font_causes_no_warning() -> None:
    total, bullet = Word("Gesamtbetrag", 50, 10, 120, 20), Word("\ufffd", 300, 10, 310, 20)
    assert totals.unreadable_warning([Page(595, 842, (total,), 1, (bullet,))], {}) is None
