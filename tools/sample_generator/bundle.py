"""One PDF of many papers, as a scanner's operator or an accounting program makes it: text, no XML; and its truth."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

from fpdf import FPDF
from fpdf.enums import XPos, YPos
from pypdf import PdfReader, PdfWriter

from tools.sample_generator.layout import Layout, layout_of
from tools.sample_generator.model import Document, Firm
from tools.sample_generator.pdf import write_page
from tools.sample_generator.wording import WORDS


@dataclass(frozen=True)
class Bundle:
    """A PDF of many papers. Pages count from 1; a range is the first page and the last one."""

    content: bytes
    documents: tuple[Document, ...]
    ranges: tuple[tuple[int, int], ...]
    """Of each of the documents."""
    covers: tuple[int, ...]
    """Pages that are of no document."""


def write_bundle(papers: Sequence[Document]) -> bytes:
    """One PDF of papers in the plainest layout."""
    return _joined([write_page(paper) for paper in papers])


def bundle(
    papers: Sequence[Document], *, layout: Layout | None = None, sent_by: Firm | None = None, separated: bool = False
) -> Bundle:
    """One PDF of papers, each in its firm's layout, or all in one that is given.

    Where `sent_by` is given, a page of that firm comes first and lists what follows. With `separated` a separator sheet
    stands before each paper.
    """
    language = (sent_by or papers[0].written_by).language
    files = [] if sent_by is None else [_cover(sent_by, papers)]
    covers = list(range(1, len(files) + 1))
    ranges: list[tuple[int, int]] = []
    last = len(files)
    for paper in papers:
        if separated:
            files.append(_separator(language))
            last += 1
            covers.append(last)
        files.append(write_page(paper, layout=layout or layout_of(paper.written_by)))
        first, last = last + 1, last + len(PdfReader(io.BytesIO(files[-1])).pages)
        ranges.append((first, last))
    return Bundle(_joined(files), tuple(papers), tuple(ranges), tuple(covers))


def _joined(files: Sequence[bytes]) -> bytes:
    writer, file = PdfWriter(), io.BytesIO()
    for one in files:
        writer.append(io.BytesIO(one))
    writer.write(file)
    return file.getvalue()


def _cover(firm: Firm, papers: Sequence[Document]) -> bytes:
    """A page that lists the papers, on as many pages as it needs."""
    words = WORDS[firm.language]
    page = _blank(papers[0])
    page.set_font("Helvetica", "B", 14)
    page.cell(0, 12, firm.name, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    page.set_font("Helvetica", "", 10)
    page.cell(0, 10, words.enclosed, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    for paper in papers:
        title = WORDS[paper.written_by.language].titles[paper.kind]
        text = f"{title} {paper.number}, {paper.written_by.name}"
        page.cell(0, 5, text, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    return bytes(page.output())


def _separator(language: str) -> bytes:
    page = _blank(None)
    page.set_font("Helvetica", "B", 30)
    page.set_y(120)
    page.cell(0, 20, WORDS[language].separator, align="C")
    return bytes(page.output())


def _blank(first: Document | None) -> FPDF:
    page = FPDF(format="A4")
    page.core_fonts_encoding = "windows-1252"
    if first is not None:
        page.set_lang(first.written_by.language)
    page.add_page()
    return page
