"""Unreadable files: damaged, encrypted, unsafe, incomplete or unsupported.

Each function returns the bytes of one file. Damaged files start as valid documents.
"""

import re
from datetime import UTC, datetime, time
from random import Random

import pypdfium2  # type: ignore[import-untyped]
from fpdf import FPDF

from tools.sample_generator.model import Document
from tools.sample_generator.pdf import write_hybrid, write_page
from tools.sample_generator.ubl import write_ubl

_SCANNED_SCALE = 100 / 72  # 100 dpi
_STOCK_LIST = """<?xml version="1.0" encoding="UTF-8"?>
<StockTaking xmlns="urn:example:warehouse:stock-taking:1" date="{day}">
  <Bin id="A-01"><Counted unit="C62">{first}</Counted></Bin>
  <Bin id="A-02"><Counted unit="C62">{second}</Counted></Bin>
</StockTaking>
"""
_NOTE = """Übergabe Wareneingang

Bitte die Palette in Halle {hall} bis Freitag einräumen, der Fahrer kommt um {hour} Uhr wieder.
Die leeren Gitterboxen (Stück: {boxes}) stehen hinter Tor 3. Grüße, Jörg
"""


def truncated_pdf(document: Document) -> bytes:
    """Return a truncated hybrid PDF without a cross-reference table or catalog."""
    content = write_hybrid(document)
    return content[: len(content) * 2 // 5]


def scanned_pdf(document: Document) -> bytes:
    """Return a PDF with an image of the document but no text, as from a scanner."""
    with pypdfium2.PdfDocument(write_page(document)) as pdf:
        picture = pdf[0].render(scale=_SCANNED_SCALE, grayscale=True).to_pil()
    scan = FPDF(format="A4")
    scan.set_creation_date(datetime.combine(document.issue_date, time(8), UTC))
    scan.add_page()
    scan.image(picture, 0, 0, scan.w, scan.h)
    return bytes(scan.output())


def locked_pdf(document: Document) -> bytes:
    """Return an encrypted PDF."""
    return write_page(document, password="nur für Befugte")  # noqa: S106 - extraction must not know it


def pdf_without_pages() -> bytes:
    """Return a valid PDF without pages."""
    objects = (b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [] /Count 0 >>")
    content, offsets = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"trailer\n<< /Size 3 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % len(content)
    return content + b"xref\n0 3\n0000000000 65535 f \n" + table + trailer


def xml_with_doctype(document: Document) -> bytes:
    """Return an invoice with a DOCTYPE and an external entity.

    A safe parser rejects it.
    """
    text = write_ubl(document).decode()
    declaration, rest = text.split("\n", 1)
    doctype = '<!DOCTYPE Invoice [<!ENTITY supplier SYSTEM "file:///etc/hostname">]>'
    body = rest.replace("<cbc:Note>", "<cbc:Note>&supplier; ", 1)
    return f"{declaration}\n{doctype}\n{body}".encode()


def xml_without_number(document: Document) -> bytes:
    """Return an invoice without an invoice number."""
    return re.sub(rb"\n  <cbc:ID>[^<]*</cbc:ID>", b"", write_ubl(document), count=1)


def xml_cut_off(document: Document) -> bytes:
    """Return an invoice that ends in the middle of an element."""
    content = write_ubl(document)
    return content[: len(content) * 3 // 5]


def xml_in_wrong_encoding(document: Document) -> bytes:
    """Return an invoice that declares UTF-8 but is encoded in Latin-1."""
    text = write_ubl(document).decode().replace("</cbc:Note>", " Größe geprüft.</cbc:Note>", 1)
    return text.encode("latin-1", errors="replace")


def stock_list(rng: Random) -> bytes:
    """Return well-formed XML that is not a business document."""
    day = f"2025-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}"
    return _STOCK_LIST.format(day=day, first=rng.randint(1, 90), second=rng.randint(1, 90)).encode()


def note(rng: Random) -> bytes:
    """Return a plain text file."""
    return _NOTE.format(hall=rng.randint(1, 9), hour=rng.randint(7, 17), boxes=rng.randint(2, 30)).encode()


def noise(rng: Random) -> bytes:
    """Return random bytes of an unknown file type."""
    return b"\x93CFX\x00\x01" + rng.randbytes(rng.randint(800, 4000))
