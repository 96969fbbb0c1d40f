"""Sample documents, scans, and OCR and LLM responses for extraction tests."""

import io
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fpdf import FPDF
from PIL import Image

from counterfoil.documents.text import page
from counterfoil.documents.text.page import Page
from tests.llm.server import Answer, Raw

LASKU = (
    "Kuusela Oy   Satamakatu 4   33200 Tampere",
    "LASKU",
    "Laskun numero L-2026/118",
    "Päiväys 14.3.2026",
    "Eräpäivä 13.4.2026",
    "Asiakas: Nordwind GmbH, Hafenstraße 7, 20457 Hamburg",
    "Tilausnumero PO 4711-22",
    "Tuote          Määrä    à-hinta   Yhteensä",
    "Ruuvi M8x40    1 200    0,85      1 020,00",
    "Mutteri M8     500      0,36        180,00",
    "Veroton yhteensä                  1 200,00 EUR",
    "ALV 25,5 %                          306,00 EUR",
    "Maksettava                        1 506,00 EUR",
)
"""Lines of a Finnish invoice. The extraction rules do not support Finnish."""

READ: dict[str, Any] = {
    "type": "invoice",
    "number": "L-2026/118",
    "date": "2026-03-14",
    "payment_due_date": "2026-04-13",
    "seller": {"name": "Kuusela Oy", "street": "Satamakatu 4", "postal_code": "33200", "city": "Tampere"},
    "buyer": {"name": "Nordwind GmbH", "street": "Hafenstraße 7", "postal_code": "20457", "city": "Hamburg"},
    "currency": "EUR",
    "po_reference": "PO 4711-22",
    "total_net": "1200.00",
    "total_tax": "306.00",
    "total_gross": "1506.00",
    "line_items": [
        {"description": "Ruuvi M8x40", "quantity": "1200", "unit_price": "0.85", "net_amount": "1020.00"},
        {"description": "Mutteri M8", "quantity": "500", "unit_price": "0.36", "net_amount": "180.00"},
    ],
}
"""The model's correct answer for the Finnish invoice."""


def extraction_response(**changes: Any) -> Answer:
    """Return the model's answer for the Finnish invoice with `changes`.

    None removes a field.
    """
    return Answer(json.dumps({name: value for name, value in (READ | changes).items() if value is not None}))


def text_pdf(*pages: Sequence[str]) -> bytes:
    """Return a PDF with one page per sequence of lines."""
    pdf = FPDF(unit="pt", format="A4")
    pdf.set_font("Helvetica", size=10)
    for lines in pages:
        pdf.add_page()
        for row, line in enumerate(lines):
            pdf.text(50, 60 + 16 * row, line)
    return bytes(pdf.output())


def scanned_pdf(count: int = 1) -> bytes:
    """Return a PDF with `count` pages that contain only an image."""
    pdf = FPDF(unit="pt", format="A4")
    for shade in range(count):
        pdf.add_page()
        pdf.image(Image.new("L", (60, 84), 255 - shade % 50), 0, 0, pdf.w, pdf.h)
    return bytes(pdf.output())


def picture(format_: str = "PNG", size: tuple[int, int] = (60, 84), pages: int = 1) -> bytes:
    """Return a blank image file."""
    file = io.BytesIO()
    more_images = [Image.new("L", size, 200) for _ in range(pages - 1)]
    Image.new("L", size, 255).save(
        file, format_, **({"save_all": True, "append_images": more_images} if more_images else {})
    )
    return file.getvalue()


def tiff(*shades: int, size: tuple[int, int] = (60, 84), compression: str = "tiff_deflate") -> bytes:
    """Return a TIFF with one page per shade of gray."""
    first, *other_images = (Image.new("L", size, shade) for shade in shades)
    file = io.BytesIO()
    first.save(file, "TIFF", save_all=True, append_images=other_images, compression=compression)
    return file.getvalue()


def textract_responses(content: bytes, confidence: float = 99.0) -> list[Raw]:
    """Return Textract's response for each page, with words at printed positions."""
    return [textract_response(source, confidence) for source in page.pages(content)]


def textract_response(source: Page, confidence: float = 99.0, turns: int = 0) -> Raw:
    """Return Textract's response for a page rotated by `turns` quarter turns.

    The rotation is clockwise.
    """
    blocks: list[dict[str, Any]] = [{"BlockType": "PAGE", "Id": "p"}]
    for number, word in enumerate(source.words):
        corners = [
            (word.left, word.top),
            (word.right, word.top),
            (word.right, word.bottom),
            (word.left, word.bottom),
        ]
        placed = [_rotate(x / source.width, y / source.height, turns) for x, y in corners]
        blocks.append(
            {
                "BlockType": "WORD",
                "Id": str(number),
                "Text": word.text,
                "TextType": "PRINTED",
                "Confidence": confidence,
                "Geometry": {"Polygon": [{"X": x, "Y": y} for x, y in placed]},
            }
        )
    response = {"Blocks": blocks, "DocumentMetadata": {"Pages": 1}, "DetectDocumentTextModelVersion": "1.0"}
    return Raw(200, json.dumps(response).encode(), {"Content-Type": "application/x-amz-json-1.1"})


def _rotate(x: float, y: float, turns: int) -> tuple[float, float]:
    for _ in range(turns):
        x, y = 1 - y, x
    return x, y


def refusal(code: str, status: int = 400) -> Raw:
    """Return a Textract error response."""
    body = json.dumps({"__type": code, "Message": "Something."}).encode()
    return Raw(status, body, {"x-amzn-ErrorType": code})


def bundle(parts: Iterable[bytes]) -> bytes:
    """Return one PDF with the pages of all PDFs in `parts`."""
    from pypdf import PdfWriter

    writer, file = PdfWriter(), io.BytesIO()
    for part in parts:
        writer.append(io.BytesIO(part))
    writer.write(file)
    return file.getvalue()


def stamped_scan(words: int) -> bytes:
    """Return a scanned page with a stamped line of text, such as a fax header."""
    pdf = FPDF(unit="pt", format="A4")
    pdf.set_font("Helvetica", size=8)
    pdf.add_page()
    pdf.image(Image.new("L", (60, 84), 240), 0, 0, pdf.w, pdf.h)
    pdf.text(20, 20, " ".join(f"fax{number}" for number in range(words)))
    return bytes(pdf.output())


def invoice_without_readable_amounts() -> bytes:
    """Return an invoice with amounts in a font without usable characters."""
    rows = (
        ("Nordwind GmbH, Hafenstr. 7, 20457 Hamburg", ""),
        ("RECHNUNG", ""),
        ("Rechnungsnummer: R-2026-17", ""),
        ("Rechnungsdatum: 14.03.2026", ""),
        ("Schraube M8     100 Stk", "1.020,00"),
        ("Nettobetrag EUR", "1.020,00"),
        ("Gesamtbetrag EUR", "1.213,80"),
    )
    pdf = FPDF(unit="pt", format="A4")
    pdf.add_page()
    for row, (text, amount) in enumerate(rows):
        for font, left, words in (("Helvetica", 50, text), ("Courier", 400, amount)):
            pdf.set_font(font, size=10)
            pdf.text(left, 60 + 16 * row, words)
    return garble(bytes(pdf.output()), lambda code: 0xE000 + code, only="/Courier")


def garble(content: bytes, change: Callable[[int], int], *, only: str = "") -> bytes:
    """Map each font's character codes to the characters that `change` returns.

    Only fonts whose name contains `only` are changed.
    """
    from pypdf import PdfWriter
    from pypdf.generic import DecodedStreamObject, NameObject

    names = [f"<{code:02X}> <{change(code):04X}>" for code in range(33, 133)]
    map_ = DecodedStreamObject()
    map_.set_data(
        "\n".join(
            [
                "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapType 2 def",
                "1 begincodespacerange <00> <FF> endcodespacerange",
                f"{len(names)} beginbfchar",
                *names,
                "endbfchar endcmap end end",
            ]
        ).encode()
    )
    writer, file = PdfWriter(io.BytesIO(content)), io.BytesIO()
    reference = writer._add_object(map_)
    for page_ in writer.pages:
        for font in page_["/Resources"]["/Font"].values():  # type: ignore[index]
            if only in font.get_object()["/BaseFont"]:
                font.get_object()[NameObject("/ToUnicode")] = reference
    writer.write(file)
    return file.getvalue()
