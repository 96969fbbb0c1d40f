"""Quantities that cannot be compared are reported, and cause no variance."""

from typing import Any

import pytest

from counterfoil.documents.three_way_match import ThreeWayMatchStatus
from tests.documents.three_way_match.samples import TWO, codes, delivery, invoice, line, order, receipt, result

BOX = [line(quantity="1", unit="BX"), TWO[1]]
NO_QUANTITY = [{name: value for name, value in line().items() if name != "quantity"}, TWO[1]]


def test_delivery_in_boxes_causes_no_quantity_variance():
    match_result = result(order(), delivery(lines=BOX), invoice())
    assert codes(match_result) == []
    assert match_result.outcome is ThreeWayMatchStatus.EXCEPTION
    assert match_result.reasons == (
        "Delivery note L1, line item 1: its unit XBX cannot be converted to the unit in the purchase order. "
        "Check the quantity.",
    )


def test_delivery_without_quantity_is_incomplete():
    match_result = result(order(), delivery(lines=NO_QUANTITY), invoice())
    assert (codes(match_result), match_result.outcome) == ([], ThreeWayMatchStatus.INCOMPLETE)
    assert match_result.reasons == (
        "Delivery note L1 states no quantity of “Bolt A-1”, so the delivered quantity is unknown.",
    )


def test_text_line_without_quantity_changes_nothing():
    text = {"description": "Bolt A-1", "article_number": "A-1"}
    assert result(order(), delivery(lines=[*TWO, text]), invoice()).outcome is ThreeWayMatchStatus.MATCHED


@pytest.mark.parametrize("named", [{}, {"delivery_note_reference": "L1"}])
def test_receipt_quantity_overrides_an_inconvertible_note(named: dict[str, Any]):
    match_result = result(order(), delivery(lines=BOX), receipt(lines=[line(quantity="8"), TWO[1]], **named), invoice())
    assert codes(match_result) == ["over_billed_quantity", "under_delivered"]


def test_inconvertible_receipt_falls_back_to_the_note():
    match_result = result(order(), delivery(lines=[line(quantity="8"), TWO[1]]), receipt(lines=BOX), invoice())
    assert codes(match_result) == ["over_billed_quantity", "under_delivered"]
