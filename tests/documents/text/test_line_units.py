"""Units have a code where it is certain."""

import pytest

from counterfoil.documents.text.line_units import code, stated_in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Stk.", "C62"),
        ("Stück", "C62"),
        ("Unit(s)", "C62"),
        ("m²", "MTK"),
        ("Liter(s)", "LTR"),
        ("Tag(e)", "DAY"),
        ("Std", "HUR"),
        ("heures", "HUR"),
        ("KWH", "KWH"),
        ("H87", "H87"),
        ("Ktn", "XCT"),
        ("maanden", "MON"),
    ],
)
def test_a_unit_that_is_known_has_its_code(text: str, expected: str):
    assert code(text) == expected


@pytest.mark.parametrize("text", ["", "VPE 12", "Eiche", "12", "()"])
def test_other_words_have_none(text: str):
    assert code(text) is None


def test_a_description_may_state_the_unit():
    assert stated_in("Design (hours): Of a sample") == "HUR"
    assert stated_in("Heiße Luft pro Liter") == "LTR"
    assert stated_in("Tisch (Eiche)") is None
