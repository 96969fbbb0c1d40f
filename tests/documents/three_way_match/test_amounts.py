"""What a line and its tax come to is held against what they say: a price is what is paid, whatever is printed."""

from decimal import Decimal
from typing import Any

import pytest

from counterfoil.documents.three_way_match import Document, Outcome
from tests.documents.three_way_match.papers import TWO, codes, delivery, invoice, line, order, result


def only(*documents: Document, code: str) -> str:
    found = result(*documents)
    assert codes(found) == [code]
    return found.reasons[0]


def test_a_line_that_comes_to_more_than_its_price_is_billed_at_more():
    wrong = invoice(lines=[line(net_amount="52.00"), TWO[1]])
    assert only(order(), delivery(), wrong, code="price_mismatch") == (
        "Invoice R-100, line 1: 'Bolt A-1' is billed at 5.20 EUR per piece (52.00 EUR for 10 pieces), ordered at "
        "4.20 EUR per piece, 23.8 % more."
    )


def test_a_discount_that_was_ordered_and_is_not_given():
    discounted = order(lines=[line(net_amount="37.80"), TWO[1]])
    assert only(discounted, delivery(), invoice(), code="price_mismatch") == (
        "Invoice R-100, line 1: 'Bolt A-1' is billed at 4.20 EUR per piece, ordered at 3.78 EUR per piece "
        "(37.80 EUR for 10 pieces), 11.1 % more."
    )


@pytest.mark.parametrize(
    "billed", [line(price="3.78"), line(net_amount="37.80"), line(price="3.78", quantity="5", net_amount="18.90")]
)
def test_a_discount_is_the_same_whether_the_price_or_the_amount_has_it(billed: dict[str, str]):
    discounted = order(lines=[line(net_amount="37.80"), TWO[1]])
    assert codes(result(discounted, delivery(), invoice(lines=[billed, TWO[1]]))) == []


@pytest.mark.parametrize(
    ("price", "quantity", "net"), [("0.33", "1000", "333.30"), ("4.2", "10", "42.01"), ("0.042", "999", "41.96")]
)
def test_a_price_rounded_for_print_is_no_discount(price: str, quantity: str, net: str):
    lines = [line(quantity=quantity, price=price, net_amount=net)]
    ordered = [line(quantity=quantity, price=price)]
    found = result(order(lines=ordered), delivery(lines=ordered), invoice(lines=lines))
    assert (codes(found), found.outcome) == ([], Outcome.MATCHED)


def test_a_basis_that_only_the_order_states_is_found_by_what_the_line_comes_to():
    ordered = line(quantity="1000", price="4.20", price_basis_quantity="100")
    billed = line(quantity="1000", price="4.20", net_amount="42.00")
    found = result(order(lines=[ordered]), delivery(lines=[line(quantity="1000")]), invoice(lines=[billed]))
    assert (codes(found), found.outcome) == ([], Outcome.MATCHED)


def test_an_order_whose_amount_makes_no_sense_is_taken_at_its_price():
    ordered = line(quantity="100", price="100.00", net_amount="100.00")
    billed = line(quantity="100", price="1.00")
    found = result(order(lines=[ordered]), delivery(lines=[line(quantity="100")]), invoice(lines=[billed]))
    assert codes(found) == ["price_mismatch"]


# -- tax ------------------------------------------------------------------------------------------------------------


def taxed(tax: str, *rates: str, **more: Any) -> Document:
    """An invoice over 42.00 and 62.50 net, whose lines state these rates."""
    lines = [item if rate == "" else {**item, "tax_rate": rate} for item, rate in zip(TWO, rates, strict=True)]
    return invoice(lines=lines, total_tax=tax, total_gross=f"{104.5 + float(tax):.2f}", **more)


def test_tax_that_is_not_what_the_rates_come_to():
    assert only(order(), delivery(), taxed("7.32", "19", "19"), code="tax_mismatch") == (
        "Invoice R-100: its lines' tax rates come to 19.86 EUR, its tax is 7.32 EUR."
    )


@pytest.mark.parametrize(
    ("tax", "rates"),
    [
        ("19.86", ("19", "19")),
        ("19.85", ("19", "19")),  # rounded line by line
        ("14.82", ("7", "19")),
        ("0.00", ("0", "0")),  # reverse charge
        ("7.32", ("19", "")),  # who knows the other's rate
    ],
)
def test_tax_by_the_rates_is_right_however_it_was_rounded(tax: str, rates: tuple[str, str]):
    assert codes(result(order(), delivery(), taxed(tax, *rates))) == []


def test_tax_is_left_alone_where_the_lines_do_not_come_to_the_net_total():
    assert codes(result(order(), delivery(), taxed("7.32", "19", "19", total_net="38.53"))) == ["total_mismatch"]


@pytest.mark.parametrize(("tax", "differs"), [("1.90", False), ("1.89", True)])
def test_tax_may_differ_by_rounding_of_each_amount(tax: str, differs: bool):
    lines = [line(quantity="1", price="10.05", tax_rate="19")]  # 1.9095
    bill = invoice(lines=lines, total_tax=tax, total_gross=str(Decimal("10.05") + Decimal(tax)))
    found = result(order(lines=lines), delivery(lines=lines), bill)
    assert [one.code.value for one in found.variances] == ["tax_mismatch"] * differs
