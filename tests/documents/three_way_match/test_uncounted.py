"""What cannot be counted is not taken for nothing: a person is told that it cannot, and no variance is made of it."""

from typing import Any

import pytest

from counterfoil.documents.three_way_match import Outcome
from tests.documents.three_way_match.papers import TWO, codes, delivery, invoice, line, order, receipt, result

BOX = [line(quantity="1", unit="BX"), TWO[1]]
UNSAID = [{name: value for name, value in line().items() if name != "quantity"}, TWO[1]]


def test_a_delivery_in_boxes_of_who_knows_how_many_is_neither_short_nor_billed_beyond():
    found = result(order(), delivery(lines=BOX), invoice())
    assert codes(found) == []
    assert found.outcome is Outcome.EXCEPTION
    assert found.reasons == (
        "Delivery note L1, line 1: its unit XBX cannot be compared with the order's: check the quantity.",
    )


def test_a_delivery_that_states_no_quantity_of_an_article_is_not_none_of_it():
    found = result(order(), delivery(lines=UNSAID), invoice())
    assert (codes(found), found.outcome) == ([], Outcome.INCOMPLETE)
    assert found.reasons == (
        "Delivery note L1 states no quantity of 'Bolt A-1', so the delivered quantity is unknown.",
    )


def test_a_line_of_text_beside_the_quantity_takes_nothing_from_it():
    text = {"description": "Bolt A-1", "article_number": "A-1"}
    assert result(order(), delivery(lines=[*TWO, text]), invoice()).outcome is Outcome.MATCHED


@pytest.mark.parametrize("named", [{}, {"delivery_note_reference": "L1"}])
def test_what_the_receipt_counted_is_counted_whatever_the_note_says(named: dict[str, Any]):
    found = result(order(), delivery(lines=BOX), receipt(lines=[line(quantity="8"), TWO[1]], **named), invoice())
    assert codes(found) == ["over_billed_quantity", "under_delivered"]


def test_a_receipt_in_boxes_leaves_it_to_the_note():
    found = result(order(), delivery(lines=[line(quantity="8"), TWO[1]]), receipt(lines=BOX), invoice())
    assert codes(found) == ["over_billed_quantity", "under_delivered"]
