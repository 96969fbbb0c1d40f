"""A text layer is believed where its letters are letters, and only there."""

from pathlib import Path

import pytest

from counterfoil.documents.text.legibility import is_legible
from counterfoil.documents.text.page import Page, pages
from tests.documents.reading.papers import LASKU, garbled, printed
from tests.documents.text.strangers import STRANGERS
from tests.documents.text.strangers.german import labels_over_values

_DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "zugferd"


def _read(content: bytes) -> Page:
    (page,) = pages(content)
    return page


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda code: 0xE000 + code, id="of private use"),
        pytest.param(lambda _: 0xFFFD, id="unknown"),
        pytest.param(lambda _: 0, id="nothing"),
        pytest.param(lambda code: code - 29 if code > 61 else code + 29, id="29 places before"),
        pytest.param(lambda code: code + 3, id="three places behind"),
        pytest.param(lambda code: 0x21 + code % 15, id="signs"),
    ],
)
def test_letters_that_are_others_than_they_look_are_noise(change):
    assert not is_legible(_read(garbled(labels_over_values().content, change)))


def test_letters_that_are_what_they_look_like_are_legible():
    assert is_legible(_read(garbled(printed(LASKU), lambda code: code)))
    assert is_legible(_read(printed(["1 200,00", "XK-4711 BCDF-99"] * 30)))
    assert is_legible(_read(printed([""])))


@pytest.mark.parametrize("draw", STRANGERS, ids=lambda draw: draw.__name__.replace("_", " "))
def test_papers_are_legible(draw):
    assert all(map(is_legible, pages(draw().content)))


@pytest.mark.skipif(not _DATA.is_dir(), reason="the ZUGFeRD corpus is not beside the project")
def test_real_invoices_are_legible():
    files = sorted((_DATA / "ZUGFeRDv2" / "correct").rglob("*.pdf"))[:20]
    assert files
    assert all(is_legible(page) for file in files for page in pages(file.read_bytes()))
