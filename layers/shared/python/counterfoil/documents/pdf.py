"""Embedded files, scanned pages and page extraction of PDFs, and pdfium's lock.

Never runs scripts.
"""

import io
import logging
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import IO, Any

import pypdfium2  # type: ignore[import-untyped]
from pypdf import PdfReader, PdfWriter, apply_configuration
from pypdf.errors import DependencyError, FileNotDecryptedError, LimitReachedError
from pypdf.generic import DictionaryObject, EmbeddedFile
from pypdfium2 import raw

from counterfoil.documents.einvoice.xml import MAX_XML_BYTES
from counterfoil.documents.text.page import Page, is_legible
from counterfoil.errors import InvalidDocumentError

MAX_PAGES = 10_000
MAX_EMBEDDED_FILES = 100
MIN_WORDS = 10
"""A page with fewer words and any other content is a scan. Its text is a stamp or was added by the scanner."""
MIN_WORDS_OVER_PICTURE = 25
"""A page with a full-page picture and fewer words is also a scan."""
_WHOLE_PAGE = 0.6
"""A full-page picture covers more than this share of the page's area."""
_TRAILER_WITHIN = 2048  # ISO 32000-1 requires the trailer at the very end; readers search the last KiB
_PADDING_WITHIN = 64 * 1024
_PADDING = b"\0\t\n\r "  # mail gateways and tape backups pad files
_OBJECT_HEADER = re.compile(rb"([0-9]{1,10})[\t\n\r ]++([0-9]{1,10})[\t\n\r ]++obj[\t\n\r ]*+(?=[^\0\f\v])")

# pdfium is not thread-safe, and workers handle several documents at a time.
_pdfium_lock = threading.Lock()
# pypdf's warnings quote document content, which must not reach logs.
logging.getLogger("pypdf").setLevel(logging.CRITICAL)

_DAMAGED = "The PDF is damaged and cannot be opened; ask its sender for an intact file."


@dataclass(frozen=True)
class EmbeddedXml:
    """An XML file embedded in a PDF."""

    name: str
    content: bytes


def embedded_xml(content: bytes) -> list[EmbeddedXml]:
    """Return the XML files embedded in a PDF.

    Files in the name tree precede other associated files.

    Validates the whole file: raises `InvalidDocumentError` if it is truncated, damaged or encrypted, has no pages or
    more than `MAX_PAGES`, has more than `MAX_EMBEDDED_FILES` embedded files, or XML that unpacks to more than
    `MAX_XML_BYTES`.
    """
    end = content[-_PADDING_WITHIN:].rstrip(_PADDING)
    if b"startxref" not in end[-_TRAILER_WITHIN:]:
        message = "The PDF is truncated: its end is missing; send the complete file again."
        raise InvalidDocumentError(message, code="truncated_pdf")
    try:
        with apply_configuration(page_tree_maximum_entries=MAX_PAGES, zlib_maximum_output_length=MAX_XML_BYTES):
            return _read_embedded_xml(content)
    except (InvalidDocumentError, MemoryError):
        raise
    except LimitReachedError as error:
        message = f"The PDF has more than {MAX_PAGES} pages or unpacks to too much data; send it in smaller parts."
        raise InvalidDocumentError(message, code="pdf_too_large") from error
    except (DependencyError, FileNotDecryptedError, NotImplementedError) as error:
        raise _encrypted() from error
    except Exception as error:
        # pypdf raises arbitrary errors for damaged objects.
        raise InvalidDocumentError(_DAMAGED, code="damaged_pdf") from error


def _stream_of(content: bytes) -> io.BufferedReader:
    """Return a stream over the content without copying it.

    Given a BytesIO, pypdf would copy its buffer.
    """
    return io.BufferedReader(io.BytesIO(content))


class _Reader(PdfReader):
    """A pypdf reader that matches object headers with one regular expression.

    When pypdf opens a file, it reads the headers of all objects byte by byte, which is slow.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        super().__init__(_stream_of(content), strict=False)

    def read_object_header(self, stream: IO[Any]) -> tuple[int, int]:
        """Return an object's number and generation.

        Raises `ValueError` if no object starts here.
        """
        match = _OBJECT_HEADER.match(self._content, stream.tell())
        if match is None:  # a comment, a stray space, or not an object
            return super().read_object_header(stream)
        stream.seek(match.end())
        return int(match[1]), int(match[2])


def _read_embedded_xml(content: bytes) -> list[EmbeddedXml]:
    reader = _Reader(content)
    if reader.is_encrypted:
        raise _encrypted()
    if len(reader.pages) == 0:
        message = "The PDF has no pages; send a file with content."
        raise InvalidDocumentError(message, code="empty_pdf")
    files = list(islice(_embedded_files(reader), MAX_EMBEDDED_FILES + 1))
    if len(files) > MAX_EMBEDDED_FILES:
        message = f"The PDF has more than {MAX_EMBEDDED_FILES} embedded files; send them separately."
        raise InvalidDocumentError(message, code="too_many_attachments")
    return [EmbeddedXml(name, file.content) for name, file in files if name.casefold().endswith(".xml")]


def _embedded_files(reader: PdfReader) -> Iterator[tuple[str, EmbeddedFile]]:
    """Yield the files in the name tree, then other associated files (PDF/A-3)."""
    names: set[str] = set()
    for file in reader.attachment_list:
        name = str(file.alternative_name or file.name)
        names.add(name)
        yield name, file
    for entry in reader.root_object.get("/AF", []) or []:
        specification = entry.get_object()
        if isinstance(specification, DictionaryObject) and "/EF" in specification:
            file = EmbeddedFile("", specification)
            name = str(file.alternative_name or "")
            if name not in names:
                names.add(name)
                yield name, file


def _encrypted() -> InvalidDocumentError:
    message = "The PDF is encrypted; send it without a password or restrictions."
    return InvalidDocumentError(message, code="encrypted_pdf")


@contextmanager
def open_pdf(content: bytes) -> Iterator[pypdfium2.PdfDocument]:
    """Open a PDF in pdfium for one thread at a time.

    Use the document only within the context.

    Raises `InvalidDocumentError` for damaged files and for more than `MAX_PAGES` pages.
    """
    try:
        with _pdfium_lock, pypdfium2.PdfDocument(content) as document:
            if len(document) > MAX_PAGES:
                message = f"The PDF has more than {MAX_PAGES} pages; send it in smaller parts."
                raise InvalidDocumentError(message, code="pdf_too_large")
            yield document
    except pypdfium2.PdfiumError as error:
        raise InvalidDocumentError(_DAMAGED, code="damaged_pdf") from error


def find_scans(content: bytes, pages: Sequence[Page]) -> tuple[dict[int, tuple[float, float]], frozenset[int]]:
    """Return the sizes of scanned or noisy pages, and the numbers of noisy pages.

    A page is noisy if its text is not legible. `pages` is the text layer. Sizes are width and height in points, by page
    number. Pages count from 1. Raises `InvalidDocumentError` for a damaged file.
    """
    noisy = frozenset(number for number, page in enumerate(pages, 1) if not is_legible(page))
    word_counts = {
        number: 0 if number in noisy else len(page.words)
        for number, page in enumerate(pages, 1)
        if number in noisy or len(page.words) < MIN_WORDS_OVER_PICTURE
    }
    if not word_counts:
        return {}, noisy
    with open_pdf(content) as document:
        return dict(_scanned_pages(document, word_counts, noisy)), noisy


def _scanned_pages(
    document: pypdfium2.PdfDocument, words: Mapping[int, int], noise: frozenset[int]
) -> Iterator[tuple[int, tuple[float, float]]]:
    for number, count in words.items():
        page = document[number - 1]
        try:
            if number in noise or (_has_drawing(page) if count < MIN_WORDS else _is_picture(page)):
                yield number, page.get_size()
        finally:
            page.close()


def _has_drawing(page: pypdfium2.PdfPage) -> bool:
    return any(page_object.type != raw.FPDF_PAGEOBJ_TEXT for page_object in page.get_objects(max_depth=1))


def _is_picture(page: pypdfium2.PdfPage) -> bool:
    """Return whether one picture covers most of a page."""
    left, bottom, right, top = page.get_bbox()
    area = (right - left) * (top - bottom)
    for picture in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=2):
        x0, y0, x1, y1 = picture.get_bounds()
        width, height = min(x1, right) - max(x0, left), min(y1, top) - max(y0, bottom)
        if width > 0 and height > 0 and width * height > _WHOLE_PAGE * area:
            return True
    return False


def extract_pages(content: bytes, ranges: Iterable[tuple[int, int]]) -> Iterator[bytes]:
    """Yield a separate PDF for each page range: first and last page, counted from 1.

    The same pages of the same file result in the same bytes. Raises `InvalidDocumentError` for damaged files.
    """
    try:
        with apply_configuration(page_tree_maximum_entries=MAX_PAGES):
            reader = _Reader(content)
            for first, last in ranges:
                writer, file = PdfWriter(), io.BytesIO()
                for page in reader.pages[first - 1 : last]:
                    writer.add_page(page)
                writer.write(file)
                yield file.getvalue()
    except MemoryError:
        raise
    except Exception as error:
        # pypdf raises arbitrary errors for damaged objects.
        raise InvalidDocumentError(_DAMAGED, code="damaged_pdf") from error
