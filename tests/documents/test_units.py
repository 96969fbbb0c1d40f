"""Units have a code where it is certain, and of several codes that say the same one."""

import pytest

from counterfoil.documents.units import canonical, code


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


@pytest.mark.parametrize("text", ["", "VPE 12", "Eiche", "12", "()", "ML", "dozen"])
def test_other_words_have_none(text: str):
    assert code(text) is None


@pytest.mark.parametrize(
    ("unit", "writings"),
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
def test_writings_of_one_unit_are_one(unit: str, writings: list[str]):
    assert {canonical(written) for written in writings} == {unit}


@pytest.mark.parametrize("written", ["vpe 12", "LBR", "MWH", "XBC"])
def test_what_has_no_other_writing_stays(written: str):
    assert canonical(written) == written.upper()


@pytest.mark.parametrize("text", [None, "", "  "])
def test_no_unit_is_none(text: str | None):
    assert canonical(text) is None
