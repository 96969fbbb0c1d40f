"""What people said of a difference counts for its figures, and for no others."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from counterfoil.documents.three_way_match import Code, Document, Outcome, Result, Tolerances, Verdict, examine
from counterfoil.documents.three_way_match.decisions import about, is_difference
from counterfoil.documents.three_way_match.model import Variance
from tests.documents.three_way_match.papers import line, links, paper, result

AT = datetime(2026, 4, 1, 9, tzinfo=UTC)


def case(price: str = "4.30", quantity: str = "10") -> list[Document]:
    """An order at 4.20, delivered, and billed at another price."""
    return [
        paper("purchase_order", "4711", 0, [line()]),
        paper("delivery_note", "L1", 3, [line()]),
        paper("invoice", "R1", 5, [line("A-1", quantity, price)]),
    ]


def say(variance: Variance, *, accepted: bool = True, reason: str | None = None) -> Verdict:
    return Verdict(1, about(variance), variance.currency, accepted, "ann", AT, reason)


def again(documents: list[Document], *verdicts: Verdict) -> Result:
    return examine(documents, links(documents), Tolerances(), verdicts)


def test_an_accepted_difference_needs_nobody_and_says_who_accepted_it():
    (found,) = result(*case()).variances
    told = again(case(), say(found, reason="agreed by phone"))
    assert told.outcome is Outcome.MATCHED
    assert told.variances[0].settled_by == "Accepted by ann on 2026-04-01: agreed by phone."
    assert told.reasons == (f"{found.sentence} Accepted by ann on 2026-04-01: agreed by phone.",)


def test_a_disputed_difference_is_open_though_it_is_tolerated():
    (found,) = result(*case("4.21")).variances
    assert found.is_tolerated
    told = again(case("4.21"), say(found, accepted=False))
    assert told.outcome is Outcome.EXCEPTION
    assert told.reasons == (f"{found.sentence} Disputed by ann on 2026-04-01.",)


@pytest.mark.parametrize(("price", "quantity"), [("4.31", "10"), ("4.30", "12")])
def test_other_figures_are_open_again(price: str, quantity: str):
    (found,) = result(*case()).variances
    changed = again(case(price, quantity), say(found))
    assert changed.outcome is Outcome.EXCEPTION
    open_ = {variance.code for variance in changed.variances if variance.is_open}
    assert open_ == (
        {Code.PRICE_MISMATCH} if price == "4.31" else {Code.OVER_BILLED_QUANTITY, Code.BILLED_BEYOND_ORDER}
    )


def test_a_verdict_is_about_its_own_line_and_document():
    (found,) = result(*case()).variances
    document, code, _, expected, actual = about(found)
    other = Verdict(1, (document, code, "7", expected, actual), "EUR", True, "ann", AT, None)
    assert again(case(), other).outcome is Outcome.EXCEPTION


def test_figures_are_the_same_however_many_zeros_they_are_stored_with():
    (found,) = result(*case()).variances
    verdict = say(found)
    document, code, place, expected, actual = verdict.about
    stored = replace(verdict, about=(document, code, place, expected + Decimal("0.000"), actual + Decimal("0.0")))
    assert again(case(), stored).outcome is Outcome.MATCHED


def test_what_documents_settle_is_no_difference_that_people_could_accept():
    copy = paper("invoice", "R1", 5, [line()], received=9, po_reference=None)
    found = [*result(*case("4.20"), replace(copy, id=UUID(int=5))).variances]
    assert [variance.code for variance in found] == [Code.DUPLICATE_INVOICE]
    assert not is_difference(found[0])
