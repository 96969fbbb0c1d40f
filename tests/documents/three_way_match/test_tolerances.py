"""Only the most specific tolerance applies, and both of its limits must hold."""

from decimal import Decimal

import pytest

from counterfoil.documents.three_way_match import Key, Limits, Tolerance, Tolerances
from counterfoil.documents.three_way_match.tolerances import DEFAULTS, symmetric_limits


def percent(number: int) -> Limits:
    return symmetric_limits(percent=Decimal(number))


LAYERS = Tolerances(
    [
        Tolerance(Key.PRICE, percent(2)),
        Tolerance(Key.PRICE, percent(3), supplier="DE136695976"),
        Tolerance(Key.PRICE, percent(4), article="A-1"),
        Tolerance(Key.PRICE, percent(5), supplier="Tarnow Schrauben AG", article="A1"),
    ]
)


@pytest.mark.parametrize(
    ("suppliers", "articles", "applies"),
    [
        ([], [], 2),
        (["DE 136 695 976", "Tarnow Schrauben AG"], ["B2"], 3),
        (["DE811907980"], ["A1"], 4),
        (["DE136695976"], ["A1"], 4),
        (["DE136695976", "TARNOW SCHRAUBEN"], ["B2", "a.1"], 5),
    ],
)
def test_most_specific_tolerance_applies(suppliers: list[str], articles: list[str], applies: int):
    assert LAYERS.limits(Key.PRICE, suppliers=suppliers, articles=articles) == percent(applies)


@pytest.mark.parametrize(
    ("spelling", "stated"),
    [
        ("3M Deutschland GmbH", "3M DEUTSCHLAND"),
        ("A1 Telekom Austria AG", "A1 Telekom Austria"),
        ("CHE-123.456.789 MWST", "CHE123456789MWST"),
        ("12/345/67890", "1234567890"),
    ],
)
def test_spelling_variants_of_supplier_share_a_tolerance(spelling: str, stated: str):
    tolerances = Tolerances([Tolerance(Key.PRICE, percent(7), supplier=spelling)])
    assert tolerances.limits(Key.PRICE, suppliers=[stated]) == percent(7)


def test_key_without_tolerance_uses_the_default():
    assert LAYERS.limits(Key.TOTAL) == DEFAULTS[Key.TOTAL]


def test_limits_of_two_tolerances_are_not_combined():
    layers = Tolerances(
        [Tolerance(Key.PRICE, percent(2)), Tolerance(Key.PRICE, Limits(upper_absolute=Decimal(1)), article="A1")]
    )
    limits = layers.limits(Key.PRICE, articles=["A1"])
    assert limits.contains(Decimal(1), Decimal(2))
    assert limits.contains(Decimal(100), Decimal(1))


@pytest.mark.parametrize(
    ("limits", "expected", "actual", "is_allowed"),
    [
        (percent(1), "100", "101", True),
        (percent(1), "100", "101.01", False),
        (percent(1), "100", "99", True),
        (percent(1), "100", "98.99", False),
        (percent(1), "0", "0.01", False),
        (percent(1), "-100", "-101", True),
        (Limits(upper_absolute=Decimal(2), upper_percent=Decimal(1)), "100", "101.5", False),
        (Limits(upper_absolute=Decimal(2), upper_percent=Decimal(1)), "1000", "1003", False),
        (Limits(upper_absolute=Decimal(2), upper_percent=Decimal(1)), "1000", "1002", True),
        (Limits(upper_absolute=Decimal(0)), "100", "1", True),
        (Limits(), "1", "1000000", True),
    ],
)
def test_difference_must_be_within_all_set_limits(limits: Limits, expected: str, actual: str, is_allowed: bool):
    assert limits.contains(Decimal(expected), Decimal(actual)) is is_allowed
