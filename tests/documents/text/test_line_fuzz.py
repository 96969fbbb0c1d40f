"""Line items from arbitrary pages are valid, and are extracted quickly."""

import time
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.documents.text.page import Page, Word
from counterfoil.documents.text.table_lines import read_lines
from tests.documents.text.text_pages import draw_page

pytestmark = pytest.mark.slow

_KEYWORDS = (
    "Pos Menge Preis Betrag Beschreibung Artikel Total Summe netto 19% 7 % 1.234,56 12,00 3 Stk je 100 -5,00 € Rabatt"
    " Übertrag GTIN 4012345001235 (GTIN) Bestellung # Amount"
)
_WORDS = st.one_of(
    st.sampled_from(_KEYWORDS.split()),
    st.from_regex(r"[0-9]{1,4}([.,][0-9]{1,4}){0,3}-?%?", fullmatch=True),
    st.text(min_size=1, max_size=8),
)
_PAGES = 20
_SECONDS_PER_PAGE = 0.5  # ten times the duration on an idle machine
_POSITIONS = st.floats(min_value=-50, max_value=900, allow_nan=False)


@st.composite
def _pages(draw: st.DrawFn) -> Page:
    rows = draw(st.lists(st.lists(st.tuples(_WORDS, st.integers(0, 90)), max_size=9), max_size=25))
    words = []
    for number, row in enumerate(rows):
        top = draw(_POSITIONS) if draw(st.booleans()) else 30.0 + 12 * number
        words += [Word(text, 6.0 * column, top, 6.0 * (column + len(text)), top + 11) for text, column in row]
    return Page(595.0, 842.0, tuple(words))


@settings(max_examples=60, deadline=None)
@given(st.lists(_pages(), max_size=3), st.booleans())
def test_any_page_yields_valid_line_items(pages: list[Page], is_credit_note: bool):
    lines = read_lines(pages, is_credit_note=is_credit_note, total_net=Decimal(1), total_gross=Decimal(1))

    for item in lines.items:
        assert item.fields.keys() == item.evidence.keys()
        assert all(item.fields.values())
        assert all(0 <= evidence.confidence <= 1 for evidence in item.evidence.values())
        for name in ("quantity", "unit_price", "net_amount", "tax_rate", "price_basis_quantity"):
            assert Decimal(item.fields.get(name, "0")).is_finite()


def test_full_pages_are_read_quickly():
    heading = "Pos  Artikel   Bezeichnung               Menge ME      Preis       Betrag\n"
    row = "{0:<5}A-{0:<8}Teil {0:<20}   10 Stk     10,00       100,00\n"
    drawings = ["".join(row.format(49 * page + location) for location in range(1, 50)) for page in range(_PAGES)]
    pages = [draw_page(heading + drawing) for drawing in drawings]

    started = time.perf_counter()
    lines = read_lines(pages)

    assert len(lines.items) == 49 * _PAGES
    assert time.perf_counter() - started < _PAGES * _SECONDS_PER_PAGE


def test_very_long_words_are_read_quickly():
    words = tuple(Word("Menge1" * 20_000, 0.0, 12.0 * row, 500.0, 12.0 * row + 11) for row in range(60))

    started = time.perf_counter()

    assert read_lines([Page(595.0, 842.0, words)]).items == ()
    assert time.perf_counter() - started < 5
