"""Known units have a code, and equivalent codes share one canonical form."""

import pytest

from counterfoil.documents.units import canonical, unit_code


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
def test_known_unit_has_a_code(text: str, expected: str):
    assert unit_code(text) == expected


@pytest.mark.parametrize("text", ["", "VPE 12", "Eiche", "12", "()", "ML", "dozen"])
def test_ambiguous_and_unknown_words_have_no_code(text: str):
    assert unit_code(text) is None


@pytest.mark.parametrize(
    ("unit", "spellings"),
    [
        ("C62", ["C62", "Stk", "Stk.", "pcs", "H87", "EA", "PCE", "XPP", "ST", "Unit(s)"]),
        ("XCT", ["Karton", "CT", "XCT", "ctn", "cartons"]),
        ("XRO", ["Rolle", "RO", "XRO", "rouleaux"]),
        ("XPX", ["Palette", "PF", "PX", "XPX"]),
        ("XPK", ["PK", "NMP", "Pack"]),
        ("XBX", ["BX", "box"]),
        ("KGM", [" kg ", "KG", "KGM", "kilo"]),
        ("MTK", ["m²", "m2", "MTK"]),
        ("MIN", ["MIN", "min", "Minuten"]),
    ],
)
def test_spellings_of_a_unit_share_one_code(unit: str, spellings: list[str]):
    assert {canonical(spelling) for spelling in spellings} == {unit}


@pytest.mark.parametrize("spelling", ["vpe 12", "LBR", "MWH", "XBC"])
def test_unit_without_equivalent_is_only_uppercased(spelling: str):
    assert canonical(spelling) == spelling.upper()


@pytest.mark.parametrize("text", [None, "", "  "])
def test_missing_unit_returns_none(text: str | None):
    assert canonical(text) is None
