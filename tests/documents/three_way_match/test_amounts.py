"""Line and tax amounts are checked against stated prices and rates."""

from decimal import Decimal
from typing import Any

import pytest

from counterfoil.documents.three_way_match import Document, ThreeWayMatchStatus
from tests.documents.three_way_match.samples import TWO, codes, delivery, invoice, line, order, result


def only_reason(*documents: Document, code: str) -> str:
    match_result = result(*documents)
    assert codes(match_result) == [code]
    return match_result.reasons[0]


def test_overstated_line_amount_is_a_price_difference():
    wrong = invoice(lines=[line(net_amount="52.00"), TWO[1]])
    assert only_reason(order(), delivery(), wrong, code="price_mismatch") == (
        "Invoice R-100, line item 1: “Bolt A-1” is billed at 5.20 EUR per piece (52.00 EUR for 10 pieces), ordered at "
        "4.20 EUR per piece, 23.8% more."
    )


def test_missing_discount_is_a_price_difference():
    discounted = order(lines=[line(net_amount="37.80"), TWO[1]])
    assert only_reason(discounted, delivery(), invoice(), code="price_mismatch") == (
        "Invoice R-100, line item 1: “Bolt A-1” is billed at 4.20 EUR per piece, ordered at 3.78 EUR per piece "
        "(37.80 EUR for 10 pieces), 11.1% more."
    )


@pytest.mark.parametrize(
    "billed_order", [line(price="3.78"), line(net_amount="37.80"), line(price="3.78", quantity="5", net_amount="18.90")]
)
def test_discount_in_price_or_amount_is_equivalent(billed_order: dict[str, str]):
    discounted = order(lines=[line(net_amount="37.80"), TWO[1]])
    assert codes(result(discounted, delivery(), invoice(lines=[billed_order, TWO[1]]))) == []


@pytest.mark.parametrize(
    ("price", "quantity", "net"), [("0.33", "1000", "333.30"), ("4.2", "10", "42.01"), ("0.042", "999", "41.96")]
)
def test_rounded_price_is_not_a_discount(price: str, quantity: str, net: str):
    lines = [line(quantity=quantity, price=price, net_amount=net)]
    ordered = [line(quantity=quantity, price=price)]
    match_result = result(order(lines=ordered), delivery(lines=ordered), invoice(lines=lines))
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.MATCHED)


def test_price_basis_is_derived_from_the_line_amount():
    ordered = line(quantity="1000", price="4.20", price_basis_quantity="100")
    billed = line(quantity="1000", price="4.20", net_amount="42.00")
    match_result = result(order(lines=[ordered]), delivery(lines=[line(quantity="1000")]), invoice(lines=[billed]))
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.MATCHED)


def test_implausible_order_amount_is_ignored():
    ordered = line(quantity="100", price="100.00", net_amount="100.00")
    billed = line(quantity="100", price="1.00")
    match_result = result(order(lines=[ordered]), delivery(lines=[line(quantity="100")]), invoice(lines=[billed]))
    assert codes(match_result) == ["price_mismatch"]


# -- tax ------------------------------------------------------------------------------------------------------------


def taxed_invoice(tax: str, *rates: str, **fields: Any) -> Document:
    """Return an invoice for 42.00 and 62.50 net with these tax rates.

    An empty rate is omitted.
    """
    lines = [item if rate == "" else {**item, "tax_rate": rate} for item, rate in zip(TWO, rates, strict=True)]
    return invoice(lines=lines, total_tax=tax, total_gross=f"{104.5 + float(tax):.2f}", **fields)


def test_incorrect_tax_total_is_a_tax_difference():
    assert only_reason(order(), delivery(), taxed_invoice("7.32", "19", "19"), code="tax_mismatch") == (
        "Invoice R-100: the tax rates of its line items result in 19.86 EUR, but its tax is 7.32 EUR."
    )


@pytest.mark.parametrize(
    ("tax", "rates"),
    [
        ("19.86", ("19", "19")),
        ("19.85", ("19", "19")),  # rounded per line item
        ("14.82", ("7", "19")),
        ("0.00", ("0", "0")),  # reverse charge
        ("7.32", ("19", "")),  # the second line item has no tax rate
    ],
)
def test_tax_consistent_with_rates_is_not_a_difference(tax: str, rates: tuple[str, str]):
    assert codes(result(order(), delivery(), taxed_invoice(tax, *rates))) == []


def test_tax_is_not_checked_if_net_total_differs():
    assert codes(result(order(), delivery(), taxed_invoice("7.32", "19", "19", total_net="38.53"))) == [
        "total_mismatch"
    ]


@pytest.mark.parametrize(("tax", "differs"), [("1.90", False), ("1.89", True)])
def test_only_tax_difference_beyond_rounding_is_reported(tax: str, differs: bool):
    lines = [line(quantity="1", price="10.05", tax_rate="19")]  # exact tax: 1.9095
    invoice_ = invoice(lines=lines, total_tax=tax, total_gross=str(Decimal("10.05") + Decimal(tax)))
    match_result = result(order(lines=lines), delivery(lines=lines), invoice_)
    assert [variance.code.value for variance in match_result.variances] == ["tax_mismatch"] * differs
