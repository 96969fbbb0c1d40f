"""Scanned pages and images, turned into pages with words where somebody can recognise them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pypdfium2  # type: ignore[import-untyped]
from pypdfium2 import raw

from counterfoil.documents import pdf
from counterfoil.documents.reading import images, ocr, tiff
from counterfoil.documents.reading.memory import Memory
from counterfoil.documents.reading.ocr import Ocr, Recognised
from counterfoil.documents.text.legibility import is_legible
from counterfoil.documents.text.page import Page

MAX_SCANNED_PAGES = 200
"""Of one file: what a recognition costs is bounded, and so is the time for it."""
FEWEST_WORDS = 10
"""With fewer words, and something else on it, a page is a scan that bears a stamp or a line of a scanner's own."""
FEW_WORDS = 25
"""With fewer words over a picture of the whole page, too."""
_WHOLE_PAGE = 0.6
"""Of the page's area."""
OFF = "no recognition of characters is configured (OCR)"
_NAMED = 5
_LONG_SIDE = 842.0
"""Of A4, in points: an image has no size on paper, and its proportions are what counts."""


@dataclass(frozen=True)
class Recognition:
    """The pages of a file as they can be read. Pages count from 1."""

    pages: Sequence[Page]
    sure: Mapping[int, float] = field(default_factory=dict)
    """How sure the recognition was, by page that was recognised: 0 to 1."""
    unread: tuple[int, ...] = ()
    """Pages that are scans, or whose text layer is noise, and that were not recognised."""
    noise: frozenset[int] = frozenset()
    """Pages whose text layer is noise."""
    reason: str | None = None
    """Why they were not: half a sentence for people."""

    @property
    def told(self) -> str | None:
        """What could not be read and why, in a sentence; None where all could be."""
        scanned = [number for number in self.unread if number not in self.noise]
        noisy = [number for number in self.unread if number in self.noise]
        told = []
        if scanned:
            told.append(f"{_listed(scanned)} scanned and could not be read: {self.reason}.")
        if noisy:
            told.append(
                f"{_listed(noisy)} printed with fonts that do not name their letters, so that the text is noise, and"
                f" could not be read: {self.reason}."
            )
        return " ".join(told) or None


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_NAMED]))
    more = f" and {len(numbers) - _NAMED} more" if len(numbers) > _NAMED else ""
    return f"Page {shown} is" if len(numbers) == 1 else f"Pages {shown}{more} are"


@dataclass(frozen=True)
class Recogniser:
    """Who recognises characters, as one try at one file uses it."""

    ocr: Ocr
    memory: Memory
    content_hash: bytes
    """Of the file whose pages they are; of the whole one for a document that was cut out of it."""
    first_page: int
    """In that file, from 1."""
    time_left: Callable[[], float]
    check: Callable[[], None]
    """Raises where the try must not go on."""

    def recognise(
        self, sizes: Mapping[int, tuple[float, float]], cut: Callable[[Sequence[int]], Iterable[bytes]]
    ) -> dict[int, Recognised | None]:
        """The words of pages, by number; None for one that is refused. `cut` gives the pages of some numbers.

        Raises:
            CounterfoilError: as `Ocr.recognise`, `Memory` and `check`. What was recognised before is kept.
        """
        questions = {
            number: ocr.question(self.ocr.name, self.content_hash, self.first_page + number - 1) for number in sizes
        }
        kept = self.memory.find(questions.values())
        found = {number: ocr.unpacked(kept[key]) for number, key in questions.items() if key in kept}
        missing = [number for number in sizes if number not in found]
        for number, image in zip(missing, cut(missing) if missing else (), strict=True):
            self.check()
            found[number] = self.ocr.recognise(image, *sizes[number], time_left=self.time_left)
            self.memory.keep(questions[number], ocr.packed(found[number]), self.ocr.name)
        return found


def of_pdf(content: bytes, pages: Sequence[Page], recogniser: Recogniser | None) -> Recognition:
    """Have the pages of a PDF recognised that are scanned, or whose text is noise; `pages` is its text layer.

    Noise is read by nobody: without a recognition such a page has no words.

    Raises:
        InvalidDocumentError: the PDF is damaged.
        CounterfoilError: as `Recogniser.recognise`.
    """
    noise = frozenset(number for number, page in enumerate(pages, 1) if not is_legible(page))
    pages = [replace(page, words=()) if number in noise else page for number, page in enumerate(pages, 1)]
    sizes = _scans(content, pages, noise)
    numbers = tuple(sizes)
    if not sizes:
        return Recognition(pages)
    if recogniser is None:
        return Recognition(pages, unread=numbers, noise=noise, reason=OFF)
    if len(sizes) > MAX_SCANNED_PAGES:
        reason = f"there are more than {MAX_SCANNED_PAGES} of them; send the file in smaller parts"
        return Recognition(pages, unread=numbers, noise=noise, reason=reason)
    found = recogniser.recognise(sizes, lambda missing: pdf.cut(content, [(number, number) for number in missing]))
    read, sure = list(pages), dict[int, float]()
    for number, recognised in found.items():
        if recognised is not None and len(recognised.page.words) > len(pages[number - 1].words):
            read[number - 1] = recognised.page
            sure[number] = recognised.confidence
    unread = tuple(number for number in numbers if found[number] is None)
    return Recognition(read, sure, unread, noise, _REFUSED if unread else None)


_REFUSED = "the recognition of characters refuses them, for their format or their size"


def of_image(content: bytes, recogniser: Recogniser | None) -> Recognition:
    """Have an image recognised, each page of a TIFF by itself. Raises as `Recogniser.recognise`."""
    if recogniser is None:
        return Recognition((), unread=(1,), reason=OFF)
    image = images.measure(content)
    if image is None:
        return Recognition((), unread=(1,), reason="only PNG, JPEG and TIFF are; send it as one of them, or as a PDF")
    if image.pages > MAX_SCANNED_PAGES:
        reason = f"a TIFF of more than {MAX_SCANNED_PAGES} pages is not; send it in smaller parts"
        return Recognition((), unread=(1,), reason=reason)
    if image.pages == 1:
        return _of_images({1: _size(image)}, lambda missing: [content] * len(missing), 1, recogniser)
    measured = {number: images.measure(tiff.page(content, number)) for number in range(1, image.pages + 1)}
    sizes = {number: _size(one) for number, one in measured.items() if one is not None}
    return _of_images(
        sizes, lambda missing: (tiff.page(content, number) for number in missing), image.pages, recogniser
    )


def _size(image: images.Image) -> tuple[float, float]:
    """Width and height in points, as if the image were printed on A4."""
    scale = _LONG_SIDE / max(image.width, image.height)
    return image.width * scale, image.height * scale


def _of_images(
    sizes: Mapping[int, tuple[float, float]],
    pictures: Callable[[Sequence[int]], Iterable[bytes]],
    count: int,
    recogniser: Recogniser,
) -> Recognition:
    found = recogniser.recognise(sizes, pictures)
    pages, sure, unread = list[Page](), dict[int, float](), list[int]()
    for number in range(1, count + 1):
        recognised = found.get(number)
        if recognised is None:
            unread.append(number)
            pages.append(Page(*sizes.get(number, (0.0, 0.0)), ()))
        else:
            pages.append(recognised.page)
            sure[number] = recognised.confidence
    return Recognition(pages, sure, tuple(unread), reason=_REFUSED if unread else None)


def _scans(content: bytes, pages: Sequence[Page], noise: frozenset[int]) -> dict[int, tuple[float, float]]:
    """Width and height, as shown, of the pages whose content is no text, or noise."""
    few = {number: len(page.words) for number, page in enumerate(pages, 1) if len(page.words) < FEW_WORDS}
    if not few:
        return {}
    with pdf.opened(content) as document:
        return dict(_drawn(document, few, noise))


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
    """Tell whether one picture takes most of a page."""
    left, bottom, right, top = page.get_bbox()
    area = (right - left) * (top - bottom)
    for thing in page.get_objects(filter=[raw.FPDF_PAGEOBJ_IMAGE], max_depth=2):
        x0, y0, x1, y1 = thing.get_bounds()
        width, height = min(x1, right) - max(x0, left), min(y1, top) - max(y0, bottom)
        if width > 0 and height > 0 and width * height > _WHOLE_PAGE * area:
            return True
    return False
