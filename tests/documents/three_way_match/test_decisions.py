"""A decision on a difference holds only for its figures."""

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest

from counterfoil.documents.three_way_match import (
    Document,
    Result,
    ThreeWayMatchStatus,
    Tolerances,
    VarianceCode,
    VarianceDecision,
    find_variances,
)
from counterfoil.documents.three_way_match.decisions import is_difference, variance_key
from counterfoil.documents.three_way_match.model import Variance
from tests.documents.three_way_match.samples import line, links, make_document, result

AT = datetime(2026, 4, 1, 9, tzinfo=UTC)


def case(price: str = "4.30", quantity: str = "10") -> list[Document]:
    """Return an order at 4.20, its delivery, and an invoice at another price."""
    return [
        make_document("purchase_order", "4711", 0, [line()]),
        make_document("delivery_note", "L1", 3, [line()]),
        make_document("invoice", "R1", 5, [line("A-1", quantity, price)]),
    ]


def decide(variance: Variance, *, accepted: bool = True, reason: str | None = None) -> VarianceDecision:
    return VarianceDecision(1, variance_key(variance), variance.currency, accepted, "ann", AT, reason)


def reexamine(documents: list[Document], *verdicts: VarianceDecision) -> Result:
    return find_variances(documents, links(documents), Tolerances(), verdicts)


def test_accepted_difference_is_settled_with_author():
    (found,) = result(*case()).variances
    decided = reexamine(case(), decide(found, reason="agreed by phone"))
    assert decided.outcome is ThreeWayMatchStatus.MATCHED
    assert decided.variances[0].decided_by == "Accepted by ann on 2026-04-01: agreed by phone."
    assert decided.reasons == (f"{found.message} Accepted by ann on 2026-04-01: agreed by phone.",)


def test_disputed_difference_is_open_despite_tolerance():
    (found,) = result(*case("4.21")).variances
    assert found.is_tolerated
    decided = reexamine(case("4.21"), decide(found, accepted=False))
    assert decided.outcome is ThreeWayMatchStatus.EXCEPTION
    assert decided.reasons == (f"{found.message} Disputed by ann on 2026-04-01.",)


@pytest.mark.parametrize(("price", "quantity"), [("4.31", "10"), ("4.30", "12")])
def test_changed_figures_are_open_again(price: str, quantity: str):
    (found,) = result(*case()).variances
    changed = reexamine(case(price, quantity), decide(found))
    assert changed.outcome is ThreeWayMatchStatus.EXCEPTION
    open_ = {variance.code for variance in changed.variances if variance.is_open}
    assert open_ == (
        {VarianceCode.PRICE_MISMATCH}
        if price == "4.31"
        else {VarianceCode.OVER_BILLED_QUANTITY, VarianceCode.OVER_ORDERED_AMOUNT}
    )


def test_decision_applies_to_one_line_and_document():
    (found,) = result(*case()).variances
    document, code, _, expected, actual = variance_key(found)
    other = VarianceDecision(1, (document, code, "7", expected, actual), "EUR", True, "ann", AT, None)
    assert reexamine(case(), other).outcome is ThreeWayMatchStatus.EXCEPTION


def test_trailing_zeros_do_not_change_a_decision():
    (found,) = result(*case()).variances
    verdict = decide(found)
    document, code, place, expected, actual = verdict.about
    stored = replace(verdict, about=(document, code, place, expected + Decimal("0.000"), actual + Decimal("0.0")))
    assert reexamine(case(), stored).outcome is ThreeWayMatchStatus.MATCHED


def test_duplicate_cannot_be_accepted():
    copy = make_document("invoice", "R1", 5, [line()], received=9, po_reference=None)
    found = [*result(*case("4.20"), replace(copy, id=UUID(int=5))).variances]
    assert [variance.code for variance in found] == [VarianceCode.DUPLICATE_INVOICE]
    assert not is_difference(found[0])
