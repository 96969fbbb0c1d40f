"""Extraction from arbitrary pages is quick and yields valid structured data."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.documents.structured import to_structured_data
from counterfoil.documents.text import reading
from counterfoil.documents.text.page import Page, Word, pages
from counterfoil.errors import InvalidDocumentError
from tests.documents.einvoice_samples import pdf
from tests.documents.text.text_pages import draw_page

pytestmark = pytest.mark.slow

_KEYWORDS = (
    "Rechnung Invoice Nr. No. # : 4711 R-17 FT 1981/2025 vom 01.02.2025 04/03/2025 24. Januar 2014 Datum Date Fällig am"
    " zahlbar bis Verkäufer: Käufer Bill to Acme GmbH Herrn Ecke 12 · | 12345 Stadt D-80333 2100 Deutschland USt-IdNr."
    " DE136695976 DE123456789 IBAN DE08 7009 0100 1234 5678 90 a@b.de @ Nettobetrag Gesamtbetrag MwSt 19 % auf 100,00"
    " 19,00 119,00 -1.234,56 € EUR Bestellung Lieferschein Ihre Gutschrift Order Contract ( ) , ;"
)
_WORDS = st.one_of(
    st.sampled_from(_KEYWORDS.split()),
    st.from_regex(r"[0-9]{1,5}([.,/-][0-9]{1,4}){0,3}", fullmatch=True),
    st.text(min_size=1, max_size=8),
)
_POSITIONS = st.floats(min_value=-50, max_value=900, allow_nan=False)
_FULL_PAGE = 60
_SECONDS = 5


@st.composite
def _pages(draw: st.DrawFn) -> Page:
    rows = draw(st.lists(st.lists(st.tuples(_WORDS, st.integers(0, 90)), max_size=9), max_size=25))
    words = []
    for number, row in enumerate(rows):
        top = draw(_POSITIONS) if draw(st.booleans()) else 30.0 + 12 * number
        words += [Word(word, 6.0 * column, top, 6.0 * (column + len(word)), top + 11) for word, column in row]
    return Page(595.0, 842.0, tuple(words))


@settings(max_examples=150, deadline=None)
@given(st.lists(_pages(), max_size=3))
def test_any_page_yields_valid_structured_data(found: list[Page]):
    stated = reading.read([draw_page("Rechnung Nr. 17"), *found])
    assert stated is not None
    record, _ = to_structured_data(stated.type, stated.fields)
    assert record.data()
    assert all(0 <= fact.confidence <= 1 and 1 <= fact.page <= len(found) + 1 for fact in stated.evidence.values())


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(_KEYWORDS.split()), st.sampled_from([*_KEYWORDS.split(), "a", ".", "1", "("]))
def test_repetitive_pages_are_read_quickly(first: str, second: str):
    line = " ".join([first, second] * 30)
    started = time.process_time()
    reading.read([draw_page("\n".join([line] * _FULL_PAGE))])
    assert time.process_time() - started < _SECONDS


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_pdf_is_read_or_rejected(data: st.DataObject):
    content = bytearray(pdf(text="Rechnung Nr. 17"))
    for _ in range(data.draw(st.integers(1, 20))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        result = pages(bytes(content))
    except InvalidDocumentError:
        return
    assert all(word.text for page in result for word in page.words)
