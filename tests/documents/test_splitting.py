"""A PDF of many invoices falls into the pages of each; one that cannot be told apart stays whole."""

from collections.abc import Sequence

import pytest
from fpdf import FPDF

from cli.sample.bulk import deals
from cli.sample.bundle import write_bundle
from cli.sample.model import Document
from cli.sample.pdf import write_hybrid
from counterfoil.documents import pdf
from counterfoil.documents.extraction import extract, extract_text
from counterfoil.documents.splitting import PageRange, split
from counterfoil.documents.text import page
from counterfoil.errors import InvalidDocumentError


def pages(*texts: Sequence[str]) -> bytes:
    """A PDF with these lines on each page."""
    document = FPDF()
    document.set_font("Helvetica")
    for lines in texts:
        document.add_page()
        for line in lines:
            document.cell(text=line, new_x="LMARGIN", new_y="NEXT")
    return bytes(document.output())


def one(number: int) -> list[str]:
    return ["Nordwind GmbH", f"Rechnung R-{number}", "Vielen Dank."]


@pytest.mark.parametrize(
    ("texts", "ranges"),
    [
        ([one(1), one(2), one(3)], [(1, 1), (2, 2), (3, 3)]),
        ([one(1), ["Seite 2"], one(2), ["Seite 2"], ["Seite 3"]], [(1, 2), (3, 5)]),
        ([one(1), one(1), one(2)], [(1, 2), (3, 3)]),
        ([one(1), ["Seite 2"], one(1), one(2)], [(1, 3), (4, 4)]),
        ([["Anbei unsere Rechnungen"], one(1), one(2)], [(1, 1), (2, 2), (3, 3)]),
        ([one(1), []], [(1, 2)]),
        ([["Guten Tag"], ["Bis bald"]], [(1, 2)]),
        ([[]], [(1, 1)]),
    ],
)
def test_a_page_with_another_number_begins_a_document(texts: list[list[str]], ranges: list[tuple[int, int]]):
    assert split(page.pages(pages(*texts))).ranges == [PageRange(*pages) for pages in ranges]


def test_a_damaged_file_is_refused():
    with pytest.raises(InvalidDocumentError, match="damaged"):
        page.pages(b"%PDF-1.7\n" + bytes(range(256)) * 20 + b"startxref\n9\n%%EOF")


@pytest.fixture(scope="module", params=[1, 2, 3])
def invoices(request: pytest.FixtureRequest) -> list[Document]:
    return [invoice for _, invoice in deals(request.param, 23)]


def test_every_invoice_of_a_bundle_is_found_with_what_it_states(invoices: list[Document]):
    bundle = write_bundle(invoices)
    assert extract(bundle).structured_data is None
    parts = list(pdf.cut(bundle, split(page.pages(bundle)).ranges))
    assert len(parts) == len(invoices)
    for invoice, part in zip(invoices, parts, strict=True):
        found, truth = extract_text(part).structured_data, invoice.structured_data
        assert found is not None
        assert {"invoice_number", "issuer", "recipient", "po_reference", "total_gross", "currency"} <= found.keys()
        for side in ("issuer", "recipient"):
            assert found.pop(side).items() <= truth[side].items()
        assert found.items() <= truth.items()


def test_the_same_pages_are_the_same_bytes(invoices: list[Document]):
    bundle = write_bundle(invoices)
    ranges = split(page.pages(bundle)).ranges
    assert list(pdf.cut(bundle, ranges)) == list(pdf.cut(bundle, ranges))


def test_a_part_carries_no_file_that_was_embedded_in_the_whole(invoices: list[Document]):
    assert [pdf.embedded_xml(part) for part in pdf.cut(write_hybrid(invoices[0]), [(1, 1)])] == [[]]


def test_a_part_without_a_number_is_kept_with_a_reason():
    extraction = extract_text(pages(["Guten Tag"]))
    assert (extraction.structured_data, extraction.method) == (None, "none")
    assert extraction.reason == "The text of the pages names no kind of document with a number of its own; they are kept."
