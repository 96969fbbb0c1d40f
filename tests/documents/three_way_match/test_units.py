"""Units are converted by fixed factors, and distinguish goods from services."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil.documents.three_way_match import model
from counterfoil.documents.three_way_match.model import conversion_factor, is_goods, unit_name


@pytest.mark.parametrize(
    ("unit", "expected", "factor"),
    [
        ("TNE", "KGM", "1000"),
        ("GRM", "KGM", "0.001"),
        ("DZN", "C62", "12"),
        ("CMT", "MTR", "0.01"),
        ("FOT", "INH", "12"),
        ("MTQ", "LTR", "1000"),
        ("HUR", "MIN", "60"),
        (None, "KGM", "1"),
        ("KGM", None, "1"),
        ("XYZ", "XYZ", "1"),
    ],
)
def test_convertible_equal_or_missing_units_have_a_factor(unit: str | None, expected: str | None, factor: str):
    assert conversion_factor(unit, expected) == Decimal(factor)


@pytest.mark.parametrize(
    ("unit", "expected"),
    [("XBX", "C62"), ("KGM", "MTR"), ("DAY", "HUR"), ("MON", "DAY"), ("XPK", "XBX"), ("LTR", "KGM")],
)
def test_conversions_without_fixed_factor_yield_none(unit: str, expected: str):
    assert conversion_factor(unit, expected) is None


@given(st.sampled_from(sorted(model._FACTORS)), st.sampled_from(sorted(model._FACTORS)))
def test_conversion_and_inverse_cancel_out(one: str, other: str):
    forward, backward = conversion_factor(one, other), conversion_factor(other, one)
    assert (forward is None) == (backward is None)
    if forward is not None and backward is not None:
        assert abs(forward * backward - 1) < Decimal("1e-20")


@pytest.mark.parametrize(
    ("unit", "goods_lines"), [("C62", True), ("KGM", True), ("HUR", False), ("LS", False), (None, False)]
)
def test_time_services_and_missing_units_are_not_goods(unit: str | None, goods_lines: bool):
    assert is_goods(unit) is goods_lines


@pytest.mark.parametrize(
    ("unit", "quantity", "expected"),
    [
        ("C62", "1", "piece"),
        ("C62", "-1", "piece"),
        ("C62", "1.5", "pieces"),
        ("KGM", "9", "kg"),
        ("X9", "2", "X9"),
        (None, "2", ""),
    ],
)
def test_unit_name_depends_on_unit_and_quantity(unit: str | None, quantity: str, expected: str):
    assert unit_name(unit, Decimal(quantity)) == expected
