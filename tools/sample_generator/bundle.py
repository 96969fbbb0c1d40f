"""A PDF that contains many documents, with its ground truth.

It has text but no XML, like a scan.
"""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from fpdf import FPDF
from fpdf.enums import XPos, YPos
from pypdf import PdfReader, PdfWriter

from tools.sample_generator.labels import LABELS
from tools.sample_generator.layout import Layout, layout_of
from tools.sample_generator.model import Company, Document
from tools.sample_generator.pdf import write_page


@dataclass(frozen=True)
class Bundle:
    """A PDF that contains many documents.

    Pages are numbered from 1. Ranges include both ends.
    """

    content: bytes
    documents: tuple[Document, ...]
    ranges: tuple[tuple[int, int], ...]
    """Page ranges of the documents."""
    covers: tuple[int, ...]
    """Pages that belong to no document."""


def write_bundle(documents: Sequence[Document]) -> bytes:
    """Return one PDF with all documents, in the simplest layout."""
    return _joined([write_page(document) for document in documents])


def bundle(
    documents: Sequence[Document],
    *,
    layout: Layout | None = None,
    sender: Company | None = None,
    has_separators: bool = False,
) -> Bundle:
    """Create one PDF with all documents, each in its company's layout.

    `layout` overrides the companies' layouts. If `sender` is given, a cover page from that company lists the documents.
    With `has_separators`, a separator sheet precedes each document.
    """
    language = (sender or documents[0].issuer).language
    files = [] if sender is None else [_cover(sender, documents)]
    covers = list(range(1, len(files) + 1))
    ranges: list[tuple[int, int]] = []
    last = len(files)
    for document in documents:
        if has_separators:
            files.append(_separator(language))
            last += 1
            covers.append(last)
        files.append(write_page(document, layout=layout or layout_of(document.issuer)))
        first, last = last + 1, last + len(PdfReader(io.BytesIO(files[-1])).pages)
        ranges.append((first, last))
    return Bundle(_joined(files), tuple(documents), tuple(ranges), tuple(covers))


def _joined(files: Sequence[bytes]) -> bytes:
    writer, file = PdfWriter(), io.BytesIO()
    for content in files:
        writer.append(io.BytesIO(content))
    writer.write(file)
    return file.getvalue()


def _cover(company: Company, documents: Sequence[Document]) -> bytes:
    """Return the cover page that lists the documents."""
    labels = LABELS[company.language]
    page = _blank(documents[0])
    page.set_font("Helvetica", "B", 14)
    page.cell(0, 12, company.name, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    page.set_font("Helvetica", "", 10)
    page.cell(0, 10, labels.enclosed, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    for document in documents:
        title = LABELS[document.issuer.language].titles[document.kind]
        text = f"{title} {document.number}, {document.issuer.name}"
        page.cell(0, 5, text, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    return bytes(page.output())


def _separator(language: str) -> bytes:
    page = _blank(None)
    page.set_font("Helvetica", "B", 30)
    page.set_y(120)
    page.cell(0, 20, LABELS[language].separator, align="C")
    return bytes(page.output())


def _blank(first: Document | None) -> FPDF:
    page = FPDF(format="A4")
    page.core_fonts_encoding = "windows-1252"
    if first is not None:
        page.set_lang(first.issuer.language)
    page.add_page()
    return page
