"""A missing delivery that an invoice references makes the match incomplete.

Billing beyond the order is an exception nevertheless.
"""

from typing import Any

import pytest

from counterfoil.documents.three_way_match import Document, Result, ThreeWayMatchStatus
from tests.documents.three_way_match.samples import TWO, codes, delivery, invoice, line, order, receipt, result

SIX = [line(quantity="6"), TWO[1]]
FOUR = [line(quantity="4")]


def match_deliveries(*rest: Document, names: Any = ("L1", "L2"), **fields: Any) -> Result:
    return result(order(), *rest, invoice(delivery_note_reference=list(names), **fields))


def test_match_with_named_missing_delivery_is_incomplete():
    result_ = match_deliveries(delivery(lines=SIX))
    assert codes(result_) == ["over_billed_quantity", "under_delivered"]
    assert result_.outcome is ThreeWayMatchStatus.INCOMPLETE
    assert result_.reasons[1] == (
        "Invoice R-100 bills 10 pieces of “Bolt A-1”, but only 6 pieces were delivered (4 pieces too many). "
        "It names delivery L2, which has not been received."
    )
    assert result_.record["variances"][1]["awaited_deliveries"] == "It names delivery L2, which has not been received."


def test_arrived_delivery_completes_the_match():
    assert match_deliveries(delivery(lines=SIX), delivery("L2", 7, lines=FOUR)).outcome is ThreeWayMatchStatus.MATCHED


@pytest.mark.parametrize(
    ("other_orders", "names"),
    [
        ([delivery(lines=SIX)], ["L1"]),
        ([delivery(lines=SIX)], []),
        ([delivery(lines=SIX)], ["LI"]),  # L1 misread by OCR
        ([delivery("L9", lines=SIX)], ["L1"]),  # the delivery note has a damaged number
        ([receipt(lines=SIX, delivery_note_reference="L1")], ["L1"]),  # the receipt references L1, which is missing
        ([receipt(lines=SIX)], ["L1"]),
    ],
)
def test_short_delivery_without_awaited_delivery_is_exception(other_orders: list[Document], names: list[str]):
    result_ = match_deliveries(*other_orders, names=names)
    assert (codes(result_), result_.outcome) == (
        ["over_billed_quantity", "under_delivered"],
        ThreeWayMatchStatus.EXCEPTION,
    )


def test_billing_beyond_order_is_exception_despite_missing_delivery():
    result_ = match_deliveries(delivery(lines=SIX), lines=[line(quantity="11"), TWO[1]])
    assert codes(result_) == ["billed_beyond_order", "over_billed_quantity", "under_delivered"]
    assert result_.outcome is ThreeWayMatchStatus.EXCEPTION
