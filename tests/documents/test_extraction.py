"""Extraction returns data or a reason for missing data, or rejects the file."""

import io
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pypdf import PdfWriter

from counterfoil.documents import extraction as module
from counterfoil.documents.extraction import extract
from counterfoil.documents.structured import DocumentType, ExtractionResult, to_structured_data
from counterfoil.errors import InvalidDocumentError
from tests.documents.einvoice_samples import INVOICE_LINE, cii_invoice, pdf, ubl, ubl_invoice, write_pdf
from tests.documents.reading.samples import LASKU, garble, scanned_pdf, text_pdf

HYBRID = pdf(text="Rechnung 2025/311", files=(("factur-x.xml", cii_invoice()),))
NUMBER = "<cbc:ID>R-5108</cbc:ID>"


def read(content: bytes) -> ExtractionResult:
    """Extract data, and check the invariants that hold for every extraction."""
    extraction = extract(content)
    data = extraction.structured_data
    assert (data is None) == (extraction.method == "none") == (extraction.reason is not None)
    if data is not None:
        assert extraction.type is not None
        assert to_structured_data(extraction.type, data)[0].data() == data  # normalizing the data again changes nothing
    return extraction


def number(extraction: ExtractionResult) -> str:
    assert extraction.structured_data is not None
    result = extraction.structured_data["invoice_number"]
    assert isinstance(result, str)
    return result


def test_hybrid_pdf_is_read_from_its_xml():
    extraction = read(HYBRID)
    assert (extraction.type, extraction.method) == ("invoice", "embedded-xml")
    assert extraction.structured_data == extract(cii_invoice()).structured_data


def test_text_only_ignores_embedded_xml():
    extraction = extract(HYBRID, text_only=True)
    assert (extraction.type, extraction.method) == ("invoice", "text")
    assert extraction.structured_data == {"invoice_number": "2025/311"}
    assert extraction.evidence["invoice_number"]["page"] == 1


def test_pdf_without_xml_is_read_from_its_pages():
    assert number(read(pdf(text="Rechnung 2025/311"))) == "2025/311"


def test_text_only_reads_xml_files():
    assert extract(ubl_invoice(), text_only=True) == extract(ubl_invoice())


@pytest.mark.parametrize(
    "name", ["factur-x.xml", "zugferd-invoice.xml", "ZUGFeRD-invoice.xml", "xrechnung.xml", "Rechnung 17.XML"]
)
def test_embedded_xml_with_any_name_is_read(name: str):
    assert number(read(pdf(files=((name, cii_invoice()),)))) == "2025/311"


def test_newest_embedded_format_is_used():
    older = cii_invoice(("2025/311", "OLD"))
    newer = cii_invoice(("2025/311", "NEW"))
    files = (("ZUGFeRD-invoice.xml", older), ("another.xml", older), ("factur-x.xml", newer))
    assert number(read(pdf(files=files))) == "NEW"


def test_unusable_embedded_xml_is_ignored():
    files = (
        ("a.xml", b"<broken"),
        ("b.xml", b"<note/>"),
        ("c.xml", ubl_invoice((NUMBER, ""))),
        ("d.xml", ubl_invoice()),
    )
    assert number(read(pdf(files=files))) == "R-5108"


@pytest.mark.parametrize(
    "invalid", [b"<broken", b"<!DOCTYPE x><x/>", b"", cii_invoice(("<ram:ID>2025/311</ram:ID>", ""))]
)
def test_broken_embedded_e_invoice_is_rejected(invalid: bytes):
    with pytest.raises(InvalidDocumentError, match="The e-invoice inside the PDF cannot be read"):
        extract(pdf(text="Rechnung", files=(("factur-x.xml", invalid),)))


@pytest.mark.parametrize(
    ("content", "document_type", "reason"),
    [
        (pdf(text="Guten Tag"), None, "No document type with a document number was found"),
        (
            garble(text_pdf(LASKU), lambda code: 0xE000 + code),
            None,
            "in fonts without usable characters and could not be read: OCR is not enabled.",
        ),
        (scanned_pdf(), None, "Page 1 is scanned and could not be read: OCR is not enabled."),
        (pdf(), None, "The pages contain no text."),
        (pdf(files=(("notes.xml", b"<notes/>"),)), None, "The pages contain no text."),
        (b"\x89PNG\r\n\x1a\n", None, "Page 1 is scanned and could not be read: OCR is not enabled."),
        (b"PK\x03\x04", DocumentType.OTHER, "archive"),
        (b"To whom it may concern", DocumentType.OTHER, "file type is unknown"),
        (b"<html><body>Rechnung</body></html>", DocumentType.OTHER, "file type is unknown"),
        (b"<notes/>", DocumentType.OTHER, "XML format is unknown"),
    ],
)
def test_file_without_extracted_data_has_a_reason(content: bytes, document_type: DocumentType | None, reason: str):
    extraction = read(content)
    assert extraction.type == document_type
    assert reason in (extraction.reason or "")


@pytest.mark.parametrize("empty", [b"", b" \r\n\t"])
def test_empty_file_is_rejected(empty: bytes):
    with pytest.raises(InvalidDocumentError, match="empty"):
        extract(empty)


@pytest.mark.parametrize("start", [b"%PDF-1.7\n", b"<?xml version='1.0'?><Invoice>", b"\x89PNG\r\n"])
def test_oversized_file_is_rejected_without_parsing_it(start: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "recognize", None)
    with pytest.raises(InvalidDocumentError, match="larger than 100 MiB"):
        extract(start + bytes(200 * 1024 * 1024))


@pytest.mark.parametrize(
    "incomplete",
    [
        ubl_invoice((NUMBER, "")),
        ubl_invoice((NUMBER, "<cbc:ID>  </cbc:ID>")),
        cii_invoice(("<ram:ID>2025/311</ram:ID>", "")),
        ubl("Order", "<cbc:IssueDate>2025-01-01</cbc:IssueDate>"),
        ubl("OrderChange", "<cbc:ID>C-1</cbc:ID>"),
        ubl("DespatchAdvice", ""),
        ubl("ReceiptAdvice", ""),
        ubl("OrderResponseSimple", ""),
        ubl("CreditNote", ""),
    ],
)
def test_document_without_a_document_number_is_rejected(incomplete: bytes):
    with pytest.raises(InvalidDocumentError, match="does not state its number"):
        extract(incomplete)


@pytest.mark.parametrize("incomplete", [ubl_invoice((INVOICE_LINE, "")), ubl("CreditNote", "<cbc:ID>G-1</cbc:ID>")])
def test_invoice_or_credit_note_requires_line_items(incomplete: bytes):
    with pytest.raises(InvalidDocumentError, match="has no line items"):
        extract(incomplete)


def test_invalid_amount_is_rejected_with_its_path():
    with pytest.raises(
        InvalidDocumentError, match=r"In the invoice, line_items\.0\.net_amount is not a decimal number"
    ):
        extract(
            ubl_invoice(
                (
                    ">105.00</cbc:LineExtensionAmount>\n  <cac:OrderLine",
                    ">1,05</cbc:LineExtensionAmount>\n  <cac:OrderLine",
                )
            )
        )


def test_invalid_tax_rate_is_omitted_with_a_warning():
    extraction = read(ubl_invoice(("<cbc:Percent>19</cbc:Percent>", "<cbc:Percent>full</cbc:Percent>")))
    assert "tax_rate" not in (extraction.structured_data or {})["line_items"][0]
    assert extraction.warnings == ("line_items.0.tax_rate is not a decimal number and was omitted.",)


def test_pdf_without_pages_is_rejected():
    with pytest.raises(InvalidDocumentError, match="no pages"):
        extract(write_pdf(PdfWriter()))


def test_encrypted_pdf_is_rejected():
    writer = PdfWriter(io.BytesIO(HYBRID))
    writer.encrypt("secret", algorithm="AES-256")
    with pytest.raises(InvalidDocumentError, match="encrypted"):
        extract(write_pdf(writer))


def outcome(content: bytes) -> tuple[dict[str, Any] | None, str | None]:
    """Return the extracted data, and the reason for missing data or a rejection."""
    try:
        extraction = read(content)
    except InvalidDocumentError as refusal:
        return None, str(refusal)
    return extraction.structured_data, extraction.reason


STARTS = (
    b"",
    b"%PDF-1.7\n",
    b"<?xml version='1.0'?>",
    b"<",
    b"\xff\xfe<\x00",
    b"\xef\xbb\xbf<",
    b"PK\x03\x04",
    b"\xff\xd8\xff",
)


@given(
    start=st.sampled_from(STARTS),
    rest=st.binary(max_size=2_000),
    end=st.sampled_from((b"", b"startxref\n0\n%%EOF", b">")),
)
@settings(max_examples=300, deadline=None)
def test_arbitrary_bytes_yield_a_reason(start: bytes, rest: bytes, end: bytes):
    data, reason = outcome(start + rest + end)
    assert data is None
    assert reason is not None
    assert reason.endswith(".")


@given(
    content=st.sampled_from((ubl_invoice(), cii_invoice(), HYBRID)),
    place=st.floats(0, 1, exclude_max=True),
    length=st.integers(0, 40),
    patch=st.binary(max_size=40),
)
@example(content=HYBRID, place=0.999, length=40, patch=b"")
@settings(max_examples=400, deadline=None)
def test_damaged_document_yields_data_or_a_reason(content: bytes, place: float, length: int, patch: bytes):
    position = int(place * len(content))
    data, reason = outcome(content[:position] + patch + content[position + length :])
    assert data if reason is None else reason.endswith(".")


STATED = ("R-5108", "2025-03-14", "119.00", "250", "EUR", "DE811907980")


@given(st.dictionaries(st.sampled_from(STATED), st.text(max_size=20)))
@settings(max_examples=200, deadline=None)
def test_arbitrary_value_leaves_other_values_unchanged(values: dict[str, str]):
    escapes = str.maketrans({"<": "&lt;", "&": "&amp;"})
    invoice = ubl_invoice(
        *((old, new.encode("utf-8", "replace").decode().translate(escapes)) for old, new in values.items())
    )
    data, reason = outcome(invoice)
    if reason is None:
        assert [old for old in STATED if old not in values and old not in str(data)] == []
    else:
        assert values
        assert reason.endswith(".")
