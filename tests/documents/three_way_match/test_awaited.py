"""An invoice that names a delivery which is not here yet is not said to be wrong: the case waits for the paper."""

from typing import Any

import pytest

from counterfoil.documents.three_way_match import Document, Outcome, Result
from tests.documents.three_way_match.papers import TWO, codes, delivery, invoice, line, order, receipt, result

SIX = [line(quantity="6"), TWO[1]]
FOUR = [line(quantity="4")]


def billed(*others: Document, names: Any = ("L1", "L2"), **more: Any) -> Result:
    return result(order(), *others, invoice(delivery_note_reference=list(names), **more))


def test_what_is_billed_and_in_a_delivery_that_is_not_here_is_awaited():
    found = billed(delivery(lines=SIX))
    assert codes(found) == ["over_billed_quantity", "under_delivered"]
    assert found.outcome is Outcome.INCOMPLETE
    assert found.reasons[1] == (
        "Invoice R-100 bills 10 pieces of 'Bolt A-1'; 6 pieces were delivered, 4 pieces too many. "
        "It names delivery L2, which is not here."
    )
    assert found.record["variances"][1]["awaits"] == "It names delivery L2, which is not here."


def test_when_it_comes_everything_agrees():
    assert billed(delivery(lines=SIX), delivery("L2", 7, lines=FOUR)).outcome is Outcome.MATCHED


@pytest.mark.parametrize(
    ("others", "names"),
    [
        ([delivery(lines=SIX)], ["L1"]),
        ([delivery(lines=SIX)], []),
        ([delivery(lines=SIX)], ["LI"]),  # as capture reads L1
        ([delivery("L9", lines=SIX)], ["L1"]),  # a number that capture damaged
        ([receipt(lines=SIX, delivery_note_reference="L1")], ["L1"]),  # the receipt speaks for it
        ([receipt(lines=SIX)], ["L1"]),
    ],
)
def test_where_nothing_is_awaited_it_is_an_exception(others: list[Document], names: list[str]):
    found = billed(*others, names=names)
    assert (codes(found), found.outcome) == (["over_billed_quantity", "under_delivered"], Outcome.EXCEPTION)


def test_no_delivery_makes_right_what_goes_beyond_the_order():
    found = billed(delivery(lines=SIX), lines=[line(quantity="11"), TWO[1]])
    assert codes(found) == ["billed_beyond_order", "over_billed_quantity", "under_delivered"]
    assert found.outcome is Outcome.EXCEPTION
