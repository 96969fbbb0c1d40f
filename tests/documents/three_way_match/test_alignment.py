"""Line items are paired by weight.

Also: repeated delivery notes, and raised limits.
"""

from dataclasses import replace
from decimal import Decimal

import pytest

from counterfoil.documents.three_way_match.alignment import OrderLine, line_similarity, text_similarity
from counterfoil.documents.three_way_match.cluster import _is_repeated
from counterfoil.documents.three_way_match.decisions import _raise_limit
from counterfoil.documents.three_way_match.tolerances import Limits
from tests.documents.three_way_match.samples import codes, delivery, invoice, line, order, result

ORDER = order(lines=(line("SKR-4711-220-A"),))
ANCHOR = OrderLine(ORDER, ORDER.lines[0])
BILLED = invoice(lines=(line("SKR-4711-220-A"),)).lines[0]


def weight(**changes: object) -> float:
    return line_similarity(replace(BILLED, **changes), ANCHOR, {ORDER.id: frozenset()}, {})  # type: ignore[arg-type]


def test_equal_amount_adds_weight_only_with_equal_quantity() -> None:
    assert weight() - weight(net=Decimal("41.99")) == 1.0
    assert weight(quantity=Decimal(9)) == weight(quantity=Decimal(9), net=Decimal("41.99"))


def test_typo_costs_less_than_different_article_number() -> None:
    assert BILLED.article is not None
    assert weight(article=BILLED.article[:-1] + "B") - weight(article="XYZ000Q") == 4.0


@pytest.mark.parametrize(("second", "is_near"), [("schroube", True), ("dichtung", False)])
def test_only_nearly_equal_words_are_similar(second: str, is_near: bool) -> None:
    assert (text_similarity("schraube", second) > 0) == is_near


def test_repeated_delivery_note_has_the_same_date() -> None:
    assert _is_repeated(delivery("L1", 5), delivery("L1", 5, received=9))
    assert not _is_repeated(delivery("L1", 5), delivery("L1", 6))


def test_raising_a_limit_never_lowers_it() -> None:
    limits = Limits(upper_absolute=Decimal(1), upper_percent=Decimal(5))

    assert _raise_limit(limits, "more", "percent", Decimal(2)).upper_percent == 5
    assert _raise_limit(limits, "more", "percent", Decimal(7)).upper_percent == 7


def test_split_lines_of_one_article_cause_no_variance() -> None:
    ordered = [line(description="Bolt red"), line(description="Bolt blue")]
    billed = [line(quantity="5", description="")] * 4

    assert codes(result(order(lines=ordered), delivery(lines=ordered), invoice(lines=billed))) == []
