"""Files are split into documents; files with uncertain boundaries stay whole."""

from collections.abc import Sequence
from time import process_time
from typing import Any

import pytest
from fpdf import FPDF
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as bounded
from hypothesis import strategies as st

from counterfoil.documents import pdf
from counterfoil.documents.splitting import MIN_CONFIDENCE, Boundary, PageRange, Split, split
from counterfoil.documents.text import page
from counterfoil.documents.text.page import Page, Word
from counterfoil.errors import InvalidDocumentError
from tools.sample_generator.bulk import orders_with_deliveries_and_invoices
from tools.sample_generator.bundle import Bundle, bundle, write_bundle
from tools.sample_generator.layout import Layout
from tools.sample_generator.model import Document
from tools.sample_generator.pdf import write_hybrid

Texts = Sequence[Sequence[str]]


def pages(*texts: Sequence[str]) -> bytes:
    """Return a PDF with one page per sequence of lines.

    Lines that start with # are in large print.
    """
    document = FPDF()
    document.set_font("Helvetica")
    for lines in texts:
        document.add_page()
        for line in lines:
            document.set_font_size(20 if line.startswith("#") else 12)
            document.cell(text=line.lstrip("# "), new_x="LMARGIN", new_y="NEXT")
    return bytes(document.output())


def split_pages(*texts: Sequence[str]) -> Split:
    return split(page.pages(pages(*texts)))


def invoice_page(number: int) -> list[str]:
    return ["Nordwind GmbH", f"Rechnung R-{number}", "Vielen Dank."]


@pytest.mark.parametrize(
    ("texts", "ranges"),
    [
        ([invoice_page(1), invoice_page(2), invoice_page(3)], [(1, 1), (2, 2), (3, 3)]),
        ([invoice_page(1), ["Seite 2"], invoice_page(2), ["Seite 2"], ["Seite 3"]], [(1, 2), (3, 5)]),
        ([invoice_page(1), invoice_page(1), invoice_page(2)], [(1, 2), (3, 3)]),
        ([invoice_page(1), ["Seite 2"], invoice_page(1), invoice_page(2)], [(1, 3), (4, 4)]),
        ([invoice_page(1), []], [(1, 2)]),
        ([[]], [(1, 1)]),
    ],
)
def test_page_with_new_number_starts_a_document(texts: Texts, ranges: list[tuple[int, int]]):
    result = split_pages(*texts)
    assert (result.ranges, result.is_certain) == ([PageRange(*pages) for pages in ranges], True)


# -- several languages ----------------------------------------------------------------------------------------------

INVOICE_TEXTS = {
    "German": (
        ["Nordwind GmbH", "Rechnungs-Nr. 2025-{n}", "Datum: 0{n}.03.2025", "Kundennummer: 4711", "Seite 1 von 2"],
        ["4 Schrauben 10,00", "Gesamtbetrag 1{n}0,00 EUR", "Seite 2 von 2"],
    ),
    "English": (
        ["Northwind Ltd", "Invoice number: 2025-{n}", "Invoice date: 0{n}/03/2025", "Customer no. 4711", "Page 1 of 2"],
        ["4 bolts 10.00", "Amount due 1{n}0.00 GBP", "Page 2 of 2"],
    ),
    "French": (
        ["Vent du Nord SARL", "Facture n° 2025-{n}", "Date : 0{n}/03/2025", "Code client 4711", "Page 1 sur 2"],
        ["4 vis 10,00", "Net à payer 1{n}0,00", "Page 2 sur 2"],
    ),
    "Italian": (
        ["Vento del Nord S.r.l.", "Fattura n. 2025-{n}", "Data: 0{n}/03/2025", "Codice cliente 471", "Pagina 1 di 2"],
        ["4 viti 10,00", "Totale documento 1{n}0,00", "Pagina 2 di 2"],
    ),
    "Spanish": (
        ["Viento Norte S.L.", "Factura nº 2025-{n}", "Fecha: 0{n}/03/2025", "Código de cliente 4711", "Página 1 de 2"],
        ["4 tornillos 10,00", "Total a pagar 1{n}0,00", "Página 2 de 2"],
    ),
    "Dutch": (
        ["Noordenwind B.V.", "Factuurnummer: 2025-{n}", "Datum: 0{n}-03-2025", "Klantnummer 4711", "Pagina 1 van 2"],
        ["4 schroeven 10,00", "Te betalen 1{n}0,00", "Pagina 2 van 2"],
    ),
    "Danish": (
        ["Nordenvind A/S", "Faktura nr. 2025-{n}", "Fakturadato: 0{n}-03-2025", "Kundenr. 4711", "Side 1 af 2"],
        ["4 skruer 10,00", "I alt 1{n}0,00", "Side 2 af 2"],
    ),
}  # fmt: skip


def two_page_invoices(language: str, *, numbered: bool) -> list[list[str]]:
    """Return the pages of three two-page invoices, with or without page numbers."""
    texts = [text for number in (1, 2, 3) for text in INVOICE_TEXTS[language] for number in [number]]
    numbers = [1, 1, 2, 2, 3, 3]
    numbered_lines = slice(None) if numbered else slice(-1)
    return [[line.format(n=n) for line in text[numbered_lines]] for text, n in zip(texts, numbers, strict=True)]


@pytest.mark.parametrize("language", INVOICE_TEXTS)
@pytest.mark.parametrize("numbered", [True, False])
def test_two_page_invoices_are_split_in_every_language(language: str, numbered: bool):
    result = split_pages(*two_page_invoices(language, numbered=numbered))
    assert result.ranges == [(1, 2), (3, 4), (5, 6)], result.boundaries


@pytest.mark.parametrize("language", INVOICE_TEXTS)
def test_page_numbers_suffice_to_split_documents(language: str):
    texts = [[text[-1], "Lorem ipsum dolor sit amet"] for _ in range(3) for text in INVOICE_TEXTS[language]]
    assert split_pages(*texts).ranges == [(1, 2), (3, 4), (5, 6)]


@pytest.mark.parametrize(
    "title",
    [
        "Honorarnote Nr.",
        "Warenbegleitschein",
        "Bestelbon nr.",
        "Lieferavis",
        "Rahmenvereinbarung",
        "Avis de réception n°",
    ],
)
def test_page_with_known_title_starts_a_document(title: str):
    result = split_pages(*(["Nordwind GmbH", f"{title} A-{number}", "Datum: 01.03.2025", *TOTAL] for number in (1, 2)))
    assert result.ranges == [(1, 1), (2, 2)], result.boundaries


# -- pages that continue a document ---------------------------------------------------------------------------------

FIRST = ["Nordwind GmbH", "Rechnung R-1", "Datum: 01.03.2025", "Kundennummer: 4711"]
TOTAL = ["Gesamtbetrag 119,00 EUR"]


@pytest.mark.parametrize(
    "second",
    [
        ["Bestell-Nr.: B-77", "Lieferschein-Nr.: L-88", "4 Schrauben 10,00", *TOTAL],
        ["4 Schrauben 10,00", "Lieferschein L-88 vom 02.03.2025", "5 Muttern 9,00", *TOTAL],
        ["4 Schrauben 10,00", "abzüglich Abschlagsrechnung R-0 vom 01.02.2025 -50,00", *TOTAL],
        ["4 Schrauben 10,00", "Gutschrift zu Rechnung R-0 wird gesondert erteilt.", *TOTAL],
        ["Ihre Bestellung: B-77", "Unser Auftrag: A-99", "4 Schrauben 10,00", *TOTAL],
        ["Übertrag 1.000,00", "4 Schrauben 10,00", *TOTAL],
        ["Fortsetzung von Seite 1", "4 Schrauben 10,00", *TOTAL],
        ["Rechnung R-1", "4 Schrauben 10,00", *TOTAL],
        ["Rechnung R-1 vom 01.03.2025", "4 Schrauben 10,00", *TOTAL],
        ["Allgemeine Geschäftsbedingungen", "1. Es gilt, was gilt.", "2. Der Rest gilt auch."],
        ["Anlage zur Rechnung", "Stundenzettel", "03.03.2025 8 Stunden"],
        ["Bei Rückfragen zu Seite 1 rufen Sie uns an.", "4 Schrauben 10,00", *TOTAL],
        [],
    ],
)
def test_references_and_continuations_do_not_start_documents(second: list[str]):
    result = split_pages(FIRST, second)
    assert (result.ranges, result.is_certain) == ([(1, 2)], True), result.boundaries


def test_references_do_not_join_documents():
    order = ["Acme AG", "Bestellung B-77", "Datum: 01.03.2025", "Lieferantennummer: 12", "4 Schrauben"]
    delivery = ["Nordwind GmbH", "Lieferschein L-88", "Datum: 03.03.2025", "Ihre Bestellung: B-77", "4 Schrauben"]
    invoice = [*FIRST, "Bestellung: B-77", "Lieferschein: L-88", "4 Schrauben 10,00", *TOTAL]
    result = split_pages(order, delivery, invoice)
    assert (result.ranges, result.is_certain) == ([(1, 1), (2, 2), (3, 3)], True), result.boundaries


# -- uncertain boundaries -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param([["Guten Tag"], ["Bis bald"]], id="nothing indicates a boundary"),
        pytest.param([["Lorem ipsum"], ["dolor sit"]], id="no number on any page"),
        pytest.param([[*FIRST, "Seite 1 von 3"], ["Schrauben", "Seite 3 von 3"]], id="a page is missing"),
        pytest.param(
            [[*FIRST, "Seite 1 von 2"], [*invoice_page(2), "Seite 2 von 2"]],
            id="document number and page number conflict",
        ),
        pytest.param([[*FIRST, *TOTAL], [*FIRST, *TOTAL]], id="same number twice"),
        pytest.param([[*FIRST, *TOTAL], ["Geschäftsbedingungen", "Seite 1 von 1"]], id="page of terms"),
        pytest.param([[*FIRST, *TOTAL], ["Südwind AG", "Faktur 12", "Datum: 01.04.2025"]], id="unknown words"),
    ],
)
def test_uncertain_file_is_not_split(texts: Texts):
    result = split_pages(*texts)
    assert result.ranges == [(1, 2)], result.boundaries
    assert result.confidence < MIN_CONFIDENCE
    assert result.reason is not None
    assert "page 2" in result.reason
    assert "stays whole" in result.reason


def test_short_last_page_continues_the_document():
    documents = [
        document
        for transaction in orders_with_deliveries_and_invoices(7433, 3, country="DE", varied=True)
        for document in transaction
    ]
    layout = Layout(letterhead_on_every_page=True, names_itself_on_every_page=False, carries_subtotals=True)
    file = bundle([document for document in documents if document.number == "202502611"], layout=layout)
    assert file.ranges == ((1, 3),)
    assert "Bankverbindung:" in page.pages(file.content)[2].text
    assert split_of(file) == (True, expected_parts(file))


def test_repeated_first_pages_are_separate_documents():
    copy = [*FIRST, *TOTAL, "Seite 1 von 1"]
    assert split_pages(copy, copy).ranges == [(1, 1), (2, 2)]


def test_one_uncertain_boundary_prevents_the_split():
    page_ = split_pages(invoice_page(1), invoice_page(2), [*invoice_page(3), "Seite 2 von 2"], invoice_page(4))
    assert (len(page_.parts), [boundary.page for boundary in page_.uncertain_boundaries]) == (1, [3])
    settled = page_.resolve({3: Boundary(3, True, 0.9), 2: Boundary(2, False, 1.0)})
    assert settled.ranges == [(1, 1), (2, 2), (3, 3), (4, 4)]  # certain boundaries are not changed


# -- covers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cover",
    [
        ["Nordwind GmbH", "Anbei erhalten Sie die folgenden Belege:", "Rechnung R-1", "Rechnung R-2"],
        ["Übersicht März", "R-1 119,00", "R-2 238,00", "Gesamtbetrag 357,00"],
        ["Anbei unsere Rechnungen"],
        ["Sehr geehrte Damen und Herren,", "in der Anlage finden Sie unsere Rechnungen.", "Mit freundlichen Grüßen"],
        ["TRENNBLATT"],
        ["Telefax", "An: Acme AG", "Von: Nordwind GmbH", "Seiten: 3 (mit dieser)", "Betreff: Rechnungen"],
        ["Fax cover sheet", "To: Acme plc", "From: Northwind Ltd", "Pages: 3", "Re: invoices"],
    ],
)
def test_cover_page_is_a_separate_part(cover: list[str]):
    page_ = split_pages(cover, invoice_page(1), invoice_page(2))
    assert [(part.pages, part.kind) for part in page_.parts] == [
        ((1, 1), "cover"),
        ((2, 2), "document"),
        ((3, 3), "document"),
    ]
    assert page_.summary == "The file was split into 2 documents and a cover page."


def test_separator_sheets_are_covers():
    sheet = ["Trennblatt"]
    page_ = split_pages(sheet, invoice_page(1), ["Seite 2"], sheet, invoice_page(2))
    assert [(part.pages, part.kind) for part in page_.parts] == [
        ((1, 1), "cover"),
        ((2, 3), "document"),
        ((4, 4), "cover"),
        ((5, 5), "document"),
    ]


def test_invoice_mentioning_enclosures_is_not_a_cover():
    page_ = split_pages([*FIRST, "Anbei unsere Geschäftsbedingungen.", *TOTAL], invoice_page(2))
    assert [part.kind for part in page_.parts] == ["document", "document"]


def test_invoice_listing_delivery_notes_keeps_its_pages():
    invoice = (
        [*FIRST, "4 Schrauben 10,00"],
        ["Lieferschein L-1", "5 Muttern 9,00", "Lieferschein L-2", "Anbei!", *TOTAL],
    )
    notes = [
        ["Nordwind GmbH", f"# Lieferschein L-{number}", "Datum: 01.03.2025", "Kundennummer: 4711"] for number in (1, 2)
    ]
    result = split_pages(*invoice, *notes)
    assert not result.cover_pages
    assert result.proposed_parts[0].pages == (1, 2), result.boundaries


# -- many documents -------------------------------------------------------------------------------------------------

LAYOUTS = st.builds(
    Layout,
    page_numbers=st.sampled_from(("none", "place", "place of count")),
    letterhead_on_every_page=st.booleans(),
    names_itself_on_every_page=st.booleans(),
    carries_subtotals=st.booleans(),
)
COUNTRIES = st.sampled_from(("DE", "FR", "IT", "NL", "GB"))
rendering = bounded(
    max_examples=8,
    deadline=None,
    phases=[
        Phase.explicit,
        Phase.reuse,
        Phase.generate,
    ],  # no shrinking, because it would take minutes at 2 s per example
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def expected_parts(bundle_: Bundle) -> list[tuple[tuple[int, int], str]]:
    covers = [((page, page), "cover") for page in bundle_.covers]
    return sorted([*((pages, "document") for pages in bundle_.ranges), *covers])


def split_of(bundle_: Bundle) -> tuple[bool, list[tuple[PageRange, str]]]:
    split_ = split(page.pages(bundle_.content))
    return split_.is_certain, [(part.pages, part.kind) for part in split_.parts]


@pytest.mark.slow
@rendering
@given(seed=st.integers(0, 10_000), country=COUNTRIES, layout=st.none() | LAYOUTS, covered=st.booleans())
def test_every_boundary_of_23_invoices_is_found(seed: int, country: str, layout: Layout | None, covered: bool):
    bundles = list(orders_with_deliveries_and_invoices(seed, 23, country=country, varied=True))
    buyer = bundles[0][0].issuer
    file = bundle([invoice for *_, invoice in bundles], layout=layout, sender=buyer if covered else None)
    assert len(file.ranges) == 23
    assert any(last > first for first, last in file.ranges)
    assert split_of(file) == (True, expected_parts(file))


@pytest.mark.slow
@rendering
@given(
    seed=st.integers(0, 10_000),
    country=COUNTRIES,
    layout=st.none() | LAYOUTS,
    separated=st.booleans(),
    shuffled=st.randoms(use_true_random=False),
)
def test_mixed_documents_in_any_order_are_split(
    seed: int, country: str, layout: Layout | None, separated: bool, shuffled: Any
):
    documents = [
        document
        for transaction in orders_with_deliveries_and_invoices(seed, 5, country=country, varied=True)
        for document in transaction
    ]
    shuffled.shuffle(documents)
    file = bundle(documents, layout=layout, has_separators=separated)
    assert split_of(file) == (True, expected_parts(file)), split(page.pages(file.content)).boundaries


WORDS = st.builds(
    lambda text, left, top, height: Word(text, left, top, left + 5 * len(text), top + height),
    st.sampled_from(("Rechnung", "R-1", "R-2", "Seite", "1", "2", "von", "Lieferschein:", "Übertrag", "119,00", "€"))
    | st.text(min_size=1, max_size=8).filter(lambda text: not text.isspace()),
    st.floats(0, 500),
    st.floats(0, 800),
    st.floats(1, 40),
)
ANY_PAGES = st.lists(
    st.builds(Page, st.just(595.0), st.just(842.0), st.lists(WORDS, max_size=25).map(tuple)), max_size=8
)


@bounded(deadline=None)
@given(ANY_PAGES.filter(bool))
def test_split_never_loses_a_page(any_pages: list[Page]):
    split_ = split(any_pages)
    for parts in (split_.parts, split_.proposed_parts):
        covered = [number for part in parts for number in range(part.pages.first, part.pages.last + 1)]
        assert covered == list(range(1, len(any_pages) + 1))
    assert [boundary.page for boundary in split_.boundaries] == list(range(2, len(any_pages) + 1))
    assert all(0.5 <= boundary.confidence <= 1 for boundary in split_.boundaries)


# -- extraction of parts ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def invoices() -> list[Document]:
    return [invoice for *_, invoice in orders_with_deliveries_and_invoices(1, 3)]


def test_damaged_file_is_rejected():
    with pytest.raises(InvalidDocumentError, match="damaged"):
        page.pages(b"%PDF-1.7\n" + bytes(range(256)) * 20 + b"startxref\n9\n%%EOF")


def test_extracting_parts_is_deterministic(invoices: list[Document]):
    content = write_bundle(invoices)
    ranges = split(page.pages(content)).ranges
    assert len(ranges) == len(invoices)
    assert list(pdf.extract_pages(content, ranges)) == list(pdf.extract_pages(content, ranges))


def test_extracted_part_omits_embedded_files(invoices: list[Document]):
    assert [pdf.embedded_xml(part) for part in pdf.extract_pages(write_hybrid(invoices[0]), [(1, 1)])] == [[]]


@pytest.mark.slow
@pytest.mark.parametrize("part", ["1", "a", "A-1", "a1.", "DE89"])
def test_long_word_is_processed_in_linear_time(part: str):
    word = Word(part * (50_000 // len(part)), 110, 10, 500, 20)
    before = process_time()
    split([Page(600, 800, (Word("Rechnungsnummer:", 10, 10, 100, 20), word))])
    assert process_time() - before < 10  # linear: 0.1 s; quadratic: 0.3 s for only 4,000 letters
