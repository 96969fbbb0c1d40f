"""Pages of a PDF whose content is not text: scans, and pages whose text layer is noise."""

from collections.abc import Iterator, Mapping, Sequence

import pypdfium2  # type: ignore[import-untyped]
from pypdfium2 import raw

from counterfoil.documents.text.page import Page, is_legible

FEWEST_WORDS = 10
"""A page with fewer words and something else on it is a scan with a stamp or a line that the scanner printed."""
FEW_WORDS = 25
"""A page with fewer words over a picture of the whole page is a scan, too."""
_WHOLE_PAGE = 0.6
"""Share of the page's area."""


def noise(pages: Sequence[Page]) -> frozenset[int]:
    """Return the numbers of the pages whose text layer is noise. Pages count from 1."""
    return frozenset(number for number, page in enumerate(pages, 1) if not is_legible(page))


def find(content: bytes, pages: Sequence[Page]) -> dict[int, tuple[float, float]]:
    """Return width and height, in points as shown, of the pages whose content is not text, or noise.

    Raises `InvalidDocumentError` on damage.
    """
    from counterfoil.documents import pdf  # its import takes 0.3 s

    noisy = noise(pages)
    few = {
        number: 0 if number in noisy else len(page.words)
        for number, page in enumerate(pages, 1)
        if number in noisy or len(page.words) < FEW_WORDS
    }
    if not few:
        return {}
    with pdf.opened(content) as document:
        return dict(_drawn(document, few, noisy))


def _drawn(
    document: pypdfium2.PdfDocument, words: Mapping[int, int], noise: frozenset[int]
) -> Iterator[tuple[int, tuple[float, float]]]:
    for number, count in words.items():
        page = document[number - 1]
        try:
            if number in noise or (_has_drawing(page) if count < FEWEST_WORDS else _is_picture(page)):
                yield number, page.get_size()
        finally:
            page.close()


def _has_drawing(page: pypdfium2.PdfPage) -> bool:
    return any(thing.type != raw.FPDF_PAGEOBJ_TEXT for thing in page.get_objects(max_depth=1))


def _is_picture(page: pypdfium2.PdfPage) -> bool:
    """Return True if one picture covers most of a page."""
    left, bottom, right, top = page.get_bbox()
    area = (right - left) * (top - bottom)
    for thing in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=2):
        x0, y0, x1, y1 = thing.get_bounds()
        width, height = min(x1, right) - max(x0, left), min(y1, top) - max(y0, bottom)
        if width > 0 and height > 0 and width * height > _WHOLE_PAGE * area:
            return True
    return False
