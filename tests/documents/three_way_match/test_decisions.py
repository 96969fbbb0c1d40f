"""A decision on a difference applies only as long as the figures are unchanged."""

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


def make_cluster(price: str = "4.30", quantity: str = "10") -> list[Document]:
    """Return an order for 10 pieces at 4.20, its delivery and its invoice.

    The invoice has this price and quantity.
    """
    return [
        make_document("purchase_order", "4711", 0, [line()]),
        make_document("delivery_note", "L1", 3, [line()]),
        make_document("invoice", "R1", 5, [line("A-1", quantity, price)]),
    ]


def decide(variance: Variance, *, accepted: bool = True, reason: str | None = None) -> VarianceDecision:
    return VarianceDecision(1, variance_key(variance), variance.currency, accepted, "ann", AT, reason)


def reexamine(documents: list[Document], *decisions: VarianceDecision) -> Result:
    return find_variances(documents, links(documents), Tolerances(), decisions)


def test_accepted_difference_is_resolved_with_author_and_reason():
    (match_result,) = result(*make_cluster()).variances
    decision_result = reexamine(make_cluster(), decide(match_result, reason="agreed by phone"))
    assert decision_result.outcome is ThreeWayMatchStatus.MATCHED
    assert decision_result.variances[0].decided_by == "Accepted by ann on 2026-04-01: agreed by phone."
    assert decision_result.reasons == (f"{match_result.message} Accepted by ann on 2026-04-01: agreed by phone.",)


def test_disputed_difference_is_open_despite_tolerance():
    (match_result,) = result(*make_cluster("4.21")).variances
    assert match_result.is_tolerated
    decision_result = reexamine(make_cluster("4.21"), decide(match_result, accepted=False))
    assert decision_result.outcome is ThreeWayMatchStatus.EXCEPTION
    assert decision_result.reasons == (f"{match_result.message} Disputed by ann on 2026-04-01.",)


@pytest.mark.parametrize(("price", "quantity"), [("4.31", "10"), ("4.30", "12")])
def test_decision_leaves_changed_and_new_differences_open(price: str, quantity: str):
    (match_result,) = result(*make_cluster()).variances
    changed = reexamine(make_cluster(price, quantity), decide(match_result))
    assert changed.outcome is ThreeWayMatchStatus.EXCEPTION
    open_ = {variance.code for variance in changed.variances if variance.is_open}
    assert open_ == (
        {VarianceCode.PRICE_MISMATCH}
        if price == "4.31"
        else {VarianceCode.OVER_BILLED_QUANTITY, VarianceCode.OVER_ORDERED_AMOUNT}
    )


def test_decision_does_not_apply_to_another_line():
    (match_result,) = result(*make_cluster()).variances
    document, code, _, expected, actual = variance_key(match_result)
    other = VarianceDecision(1, (document, code, "7", expected, actual), "EUR", True, "ann", AT, None)
    assert reexamine(make_cluster(), other).outcome is ThreeWayMatchStatus.EXCEPTION


def test_decision_applies_despite_trailing_zeros():
    (match_result,) = result(*make_cluster()).variances
    decision = decide(match_result)
    document, code, location, expected, actual = decision.variance_key
    stored = replace(
        decision, variance_key=(document, code, location, expected + Decimal("0.000"), actual + Decimal("0.0"))
    )
    assert reexamine(make_cluster(), stored).outcome is ThreeWayMatchStatus.MATCHED


def test_duplicate_is_not_a_difference():
    copy = make_document("invoice", "R1", 5, [line()], received=9, po_reference=None)
    result_ = [*result(*make_cluster("4.20"), replace(copy, id=UUID(int=5))).variances]
    assert [variance.code for variance in result_] == [VarianceCode.DUPLICATE_INVOICE]
    assert not is_difference(result_[0])
