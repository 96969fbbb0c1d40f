"""Papers that no rule can read, scans of papers, and what recognises them: for tests of reading."""

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
"""An invoice in Finnish, which rules do not know."""

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
"""What a model that reads it well says."""


def said(**changes: Any) -> Answer:
    """A model's answer about the Finnish invoice, with changes; None takes a field away."""
    return Answer(json.dumps({name: value for name, value in (READ | changes).items() if value is not None}))


def printed(*pages: Sequence[str]) -> bytes:
    """A PDF of pages with these lines, columns apart."""
    pdf = FPDF(unit="pt", format="A4")
    pdf.set_font("Helvetica", size=10)
    for lines in pages:
        pdf.add_page()
        for place, line in enumerate(lines):
            pdf.text(50, 60 + 16 * place, line)
    return bytes(pdf.output())


def scanned(count: int = 1) -> bytes:
    """A PDF of pages that are pictures, with no text at all."""
    pdf = FPDF(unit="pt", format="A4")
    for shade in range(count):
        pdf.add_page()
        pdf.image(Image.new("L", (60, 84), 255 - shade % 50), 0, 0, pdf.w, pdf.h)
    return bytes(pdf.output())


def picture(format_: str = "PNG", size: tuple[int, int] = (60, 84), pages: int = 1) -> bytes:
    """An image."""
    file = io.BytesIO()
    more = [Image.new("L", size, 200) for _ in range(pages - 1)]
    Image.new("L", size, 255).save(file, format_, **({"save_all": True, "append_images": more} if more else {}))
    return file.getvalue()


def tiff(*shades: int, size: tuple[int, int] = (60, 84), compression: str = "tiff_deflate") -> bytes:
    """A TIFF with a page of each shade of grey."""
    first, *others = (Image.new("L", size, shade) for shade in shades)
    file = io.BytesIO()
    first.save(file, "TIFF", save_all=True, append_images=others, compression=compression)
    return file.getvalue()


def recognised(content: bytes, confidence: float = 99.0) -> list[Raw]:
    """What Textract answers for each page of a paper that was scanned: the words where they were printed."""
    return [textract(one, confidence) for one in page.pages(content)]


def textract(of: Page, confidence: float = 99.0, turns: int = 0) -> Raw:
    """Textract's answer for a page, laid down with so many quarter turns with the clock."""
    blocks: list[dict[str, Any]] = [{"BlockType": "PAGE", "Id": "p"}]
    for number, word in enumerate(of.words):
        corners = [
            (word.left, word.top),
            (word.right, word.top),
            (word.right, word.bottom),
            (word.left, word.bottom),
        ]
        placed = [_turned(x / of.width, y / of.height, turns) for x, y in corners]
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
    answer = {"Blocks": blocks, "DocumentMetadata": {"Pages": 1}, "DetectDocumentTextModelVersion": "1.0"}
    return Raw(200, json.dumps(answer).encode(), {"Content-Type": "application/x-amz-json-1.1"})


def _turned(x: float, y: float, turns: int) -> tuple[float, float]:
    for _ in range(turns):
        x, y = 1 - y, x
    return x, y


def refusal(code: str, status: int = 400) -> Raw:
    """Textract's way to refuse a page or a call."""
    body = json.dumps({"__type": code, "Message": "Something."}).encode()
    return Raw(status, body, {"x-amzn-ErrorType": code})


def bundle(parts: Iterable[bytes]) -> bytes:
    """One PDF of several."""
    from pypdf import PdfWriter

    writer, file = PdfWriter(), io.BytesIO()
    for part in parts:
        writer.append(io.BytesIO(part))
    writer.write(file)
    return file.getvalue()


def stamped(words: int) -> bytes:
    """A scanned page over which a machine has printed some words."""
    pdf = FPDF(unit="pt", format="A4")
    pdf.set_font("Helvetica", size=8)
    pdf.add_page()
    pdf.image(Image.new("L", (60, 84), 240), 0, 0, pdf.w, pdf.h)
    pdf.text(20, 20, " ".join(f"fax{number}" for number in range(words)))
    return bytes(pdf.output())


def without_amounts() -> bytes:
    """An invoice whose amounts are in a font that names no letters, and the rest in a sound one."""
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
    for place, (text, amount) in enumerate(rows):
        for font, left, words in (("Helvetica", 50, text), ("Courier", 400, amount)):
            pdf.set_font(font, size=10)
            pdf.text(left, 60 + 16 * place, words)
    return garbled(bytes(pdf.output()), lambda code: 0xE000 + code, only="/Courier")


def garbled(content: bytes, change: Callable[[int], int], *, only: str = "") -> bytes:
    """Return the PDF with fonts that map each code to the letter that `change` returns for it.

    `only` limits this to the font of a name.
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
