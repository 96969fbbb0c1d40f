"""Scanned pages and images, turned into pages with words where somebody can recognise them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pypdfium2  # type: ignore[import-untyped]
from pypdfium2 import raw

from counterfoil.documents import pdf
from counterfoil.documents.reading import images, ocr
from counterfoil.documents.reading.memory import Memory
from counterfoil.documents.reading.ocr import Ocr, Recognised
from counterfoil.documents.text.page import Page

MAX_SCANNED_PAGES = 200
"""Of one file: what a recognition costs is bounded, and so is the time for it."""
FEWEST_WORDS = 10
"""With fewer words, and something else on it, a page is a scan that bears a stamp or a line of a scanner's own."""
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
    """Pages that are scans and were not recognised."""
    reason: str | None = None
    """Why they were not: half a sentence for people."""

    @property
    def told(self) -> str | None:
        """What could not be read and why, in a sentence; None where all could be."""
        if not self.unread:
            return None
        shown = ", ".join(map(str, self.unread[:_NAMED]))
        more = f" and {len(self.unread) - _NAMED} more" if len(self.unread) > _NAMED else ""
        which = f"Page {shown} is" if len(self.unread) == 1 else f"Pages {shown}{more} are"
        return f"{which} scanned and could not be read: {self.reason}."


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
    """Have the scanned pages of a PDF recognised; `pages` is its text layer.

    Raises:
        InvalidDocumentError: the PDF is damaged.
        CounterfoilError: as `Recogniser.recognise`.
    """
    sizes = _scans(content, pages)
    numbers = tuple(sizes)
    if not sizes:
        return Recognition(pages)
    if recogniser is None:
        return Recognition(pages, unread=numbers, reason=OFF)
    if len(sizes) > MAX_SCANNED_PAGES:
        reason = f"there are more than {MAX_SCANNED_PAGES} of them; send the file in smaller parts"
        return Recognition(pages, unread=numbers, reason=reason)
    found = recogniser.recognise(sizes, lambda missing: pdf.cut(content, [(number, number) for number in missing]))
    read, sure = list(pages), dict[int, float]()
    for number, recognised in found.items():
        if recognised is not None and len(recognised.page.words) > len(pages[number - 1].words):
            read[number - 1] = recognised.page
            sure[number] = recognised.confidence
    unread = tuple(number for number in numbers if found[number] is None)
    return Recognition(read, sure, unread, _REFUSED if unread else None)


_REFUSED = "the recognition of characters refuses them, for their format or their size"


def of_image(content: bytes, recogniser: Recogniser | None) -> Recognition:
    """Have an image recognised, as one page. Raises as `Recogniser.recognise`."""
    if recogniser is None:
        return Recognition((), unread=(1,), reason=OFF)
    image = images.measure(content)
    if image is None:
        return Recognition((), unread=(1,), reason="only PNG, JPEG and TIFF are; send it as one of them, or as a PDF")
    if image.pages > 1:
        return Recognition((), unread=(1,), reason="a TIFF of several pages is not; send it as a PDF")
    scale = _LONG_SIDE / max(image.width, image.height)
    found = recogniser.recognise(
        {1: (image.width * scale, image.height * scale)}, lambda missing: [content] * len(missing)
    )
    recognised = found[1]
    if recognised is None:
        return Recognition((), unread=(1,), reason=_REFUSED)
    return Recognition((recognised.page,), {1: recognised.confidence})


def _scans(content: bytes, pages: Sequence[Page]) -> dict[int, tuple[float, float]]:
    """Width and height, as shown, of the pages whose content is no text."""
    few = [number for number, page in enumerate(pages, 1) if len(page.words) < FEWEST_WORDS]
    if not few:
        return {}
    with pdf.opened(content) as document:
        return dict(_drawn(document, few))


def _drawn(document: pypdfium2.PdfDocument, numbers: Iterable[int]) -> Iterator[tuple[int, tuple[float, float]]]:
    for number in numbers:
        page = document[number - 1]
        try:
            if any(thing.type != raw.FPDF_PAGEOBJ_TEXT for thing in page.get_objects(max_depth=1)):
                yield number, page.get_size()
        finally:
            page.close()
