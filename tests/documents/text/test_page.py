"""Words and lines have the order and positions of the displayed page.

Garbled text is detected.
"""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from fpdf import FPDF
from pypdf import PdfReader, PdfWriter

from counterfoil.documents.text import page as text_page
from counterfoil.documents.text.page import Page, Word, is_legible, pages
from counterfoil.errors import InvalidDocumentError
from tests.documents.reading.samples import LASKU, garble, text_pdf
from tests.documents.text.drawn_documents import DRAWN_DOCUMENTS
from tests.documents.text.drawn_documents.german import labels_over_values

_POINT = 72 / 25.4  # points per millimeter


def _pdf(draw: Callable[[FPDF], None], *, rotation: int = 0) -> bytes:
    document = FPDF(format="A4")
    document.add_page()
    document.set_font("helvetica", size=10)
    draw(document)
    writer, file = PdfWriter(), io.BytesIO()
    writer.add_page(PdfReader(io.BytesIO(bytes(document.output()))).pages[0])
    writer.pages[0].rotate(rotation)
    writer.write(file)
    return file.getvalue()


def _texts(page: Page) -> list[str]:
    return [word.text for word in page.words]


def test_word_box_matches_the_displayed_page():
    (page,) = pages(_pdf(lambda document: document.text(20, 50, "Rechnung Nr. 17")))

    assert (round(page.width), round(page.height)) == (595, 842)
    assert _texts(page) == ["Rechnung", "Nr.", "17"]
    first = page.words[0]
    assert first.left == pytest.approx(20 * _POINT, abs=1)
    assert first.top < 50 * _POINT < first.bottom
    assert first.right < page.words[1].left


def test_label_and_value_share_a_line():
    def draw(document: FPDF) -> None:
        document.text(150, 60, "119,00")
        document.text(150, 65, "19,00")
        document.text(20, 60, "Gesamt")
        document.text(20, 65, "Steuer")

    (page,) = pages(_pdf(draw))

    assert [line.text for line in page.lines()] == ["Gesamt 119,00", "Steuer 19,00"]
    assert page.text == "Gesamt 119,00\nSteuer 19,00"


def test_words_on_one_baseline_share_a_line():
    def draw(document: FPDF) -> None:
        document.text(20, 60, "Total")
        document.set_font_size(16)
        document.text(60, 60, "119.00")

    (page,) = pages(_pdf(draw))

    assert [line.text for line in page.lines()] == ["Total 119.00"]


def test_adjacent_columns_are_separate_words():
    def draw(document: FPDF) -> None:
        document.set_char_spacing(0)
        document.text(20, 60, "12")
        document.text(40, 60, "34")

    (page,) = pages(_pdf(draw))

    assert _texts(page) == ["12", "34"]


@pytest.mark.parametrize("angle", [90, 180, 270])
def test_rotated_text_is_read_upright(angle: int):
    def draw(document: FPDF) -> None:
        with document.rotation(angle, 100, 100):
            document.text(100, 100, "Invoice 17")
            document.text(100, 110, "Total 119.00")

    (page,) = pages(_pdf(draw))

    assert [line.text for line in page.lines()] == ["Invoice 17", "Total 119.00"]
    assert (page.width > page.height) == (angle != 180)


def test_rotated_page_is_read_as_displayed():
    def draw(document: FPDF) -> None:
        with document.rotation(90, 100, 100):
            document.text(100, 100, "Invoice 17")

    (page,) = pages(_pdf(draw, rotation=90))

    assert page.text == "Invoice 17"
    assert page.width > page.height


def test_diagonal_stamp_is_ignored():
    def draw(document: FPDF) -> None:
        document.text(20, 60, "Invoice 17")
        with document.rotation(45, 100, 100):
            document.text(100, 100, "COPY")

    (page,) = pages(_pdf(draw))

    assert page.text == "Invoice 17"


def test_off_page_and_tiny_text_is_ignored():
    def draw(document: FPDF) -> None:
        document.text(20, 60, "Invoice 17")
        document.text(-80, 60, "Invoice 18")
        document.set_font_size(0.5)
        document.text(20, 70, "Invoice 19")

    (page,) = pages(_pdf(draw))

    assert page.text == "Invoice 17"


def test_invisible_ocr_text_is_read():
    def draw(document: FPDF) -> None:
        with document.local_context(text_mode="INVISIBLE"):
            document.text(20, 60, "Invoice 17")

    (page,) = pages(_pdf(draw))

    assert page.text == "Invoice 17"


def test_page_without_text_is_empty():
    (page,) = pages(_pdf(lambda document: document.rect(10, 10, 50, 50)))

    assert page.words == ()
    assert page.lines() == []
    assert page.text == ""


def test_overlapping_lines_stay_separate():
    words = tuple(Word(str(number), 10, 10 * number, 30, 10 * number + 13) for number in range(30))

    assert [line.text for line in Page(100, 400, words).lines()] == [str(number) for number in range(30)]


@pytest.mark.parametrize(
    ("limit", "most", "reason"),
    [
        ("MAX_CHARACTERS", 14, "The PDF contains more than 14 characters"),
        ("MAX_CHARACTERS_OF_PAGE", 14, "Page 1 has more than 14 characters"),
        ("MAX_WORDS", 2, "The PDF contains more than 2 words"),
    ],
)
def test_file_over_a_text_limit_is_rejected(limit: str, most: int, reason: str, monkeypatch: pytest.MonkeyPatch):
    content = _pdf(lambda document: document.text(20, 50, "Rechnung Nr. 17"))
    monkeypatch.setattr(text_page, limit, most + 1)
    assert len(pages(content)) == 1

    monkeypatch.setattr(text_page, limit, most)
    with pytest.raises(InvalidDocumentError, match=reason):
        pages(content)


def test_damaged_file_is_rejected():
    with pytest.raises(InvalidDocumentError, match="damaged"):
        pages(b"%PDF-1.7 nothing")


_DATA = Path(__file__).resolve().parents[4] / "shared" / "data" / "zugferd"


def _read(content: bytes) -> Page:
    (page,) = pages(content)
    return page


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda code: 0xE000 + code, id="private use"),
        pytest.param(lambda _: 0xFFFD, id="unknown"),
        pytest.param(lambda _: 0, id="null character"),
        pytest.param(lambda code: code - 29 if code > 61 else code + 29, id="shifted by 29"),
        pytest.param(lambda code: code + 3, id="shifted by 3"),
        pytest.param(lambda code: 0x21 + code % 15, id="punctuation"),
    ],
)
def test_garbled_page_is_illegible(change):
    assert not is_legible(_read(garble(labels_over_values().content, change)))


def test_correct_text_is_legible():
    assert is_legible(_read(garble(text_pdf(LASKU), lambda code: code)))
    assert is_legible(_read(text_pdf(["1 200,00", "XK-4711 BCDF-99"] * 30)))
    assert is_legible(_read(text_pdf([""])))


@pytest.mark.parametrize("draw", DRAWN_DOCUMENTS, ids=lambda draw: draw.__name__.replace("_", " "))
def test_drawn_documents_are_legible(draw):
    assert all(map(is_legible, pages(draw().content)))


@pytest.mark.skipif(not _DATA.is_dir(), reason="the ZUGFeRD corpus is not next to the repository")
def test_real_invoices_are_legible():
    files = sorted((_DATA / "ZUGFeRDv2" / "correct").rglob("*.pdf"))[:20]
    assert files
    assert all(is_legible(page) for file in files for page in pages(file.read_bytes()))
