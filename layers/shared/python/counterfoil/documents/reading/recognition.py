"""Scanned pages and images, turned into pages with words where somebody can recognise them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from counterfoil.deadline import Deadline
from counterfoil.documents.reading import ocr, scans
from counterfoil.documents.reading.memory import Memory
from counterfoil.documents.reading.ocr import Ocr, Recognised
from counterfoil.documents.sandbox import parsers
from counterfoil.documents.text.page import Page

MAX_SCANNED_PAGES = 200
"""Of one file: what a recognition costs is bounded, and so is the time for it."""
OFF = "OCR is off"
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
    def has_words(self) -> bool:
        """True if any page has words."""
        return any(page.words for page in self.pages)

    @property
    def told(self) -> str | None:
        """Sentences about the pages that were not read, with the reason; None if all were read."""
        scanned = [number for number in self.unread if number not in self.noise]
        noisy = [number for number in self.unread if number in self.noise]
        told = []
        if scanned:
            told.append(f"{_listed(scanned)} scanned and could not be read: {self.reason}.")
        if noisy:
            told.append(
                f"{_listed(noisy)} printed in fonts without usable characters and could not be read: {self.reason}."
            )
        return " ".join(told) or None

    @property
    def why_empty(self) -> str:
        """Sentences about a document without words, for people."""
        return self.told or "The pages contain no text."


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
    deadline: Deadline

    def recognise(self, sizes: Mapping[int, tuple[float, float]], cut: "Cut") -> dict[int, Recognised | None]:
        """The words of pages, by number; None for one that is refused. `cut` gives the pages of some numbers.

        Raises:
            CounterfoilError: as `Ocr.recognise`, `Memory` and `Deadline.check`. Earlier pages stay in the memory.
        """
        questions = {
            number: ocr.question(self.ocr.name, self.content_hash, self.first_page + number - 1) for number in sizes
        }
        kept = self.memory.find(questions.values())
        found = {number: ocr.unpacked(kept[key]) for number, key in questions.items() if key in kept}
        missing = [number for number in sizes if number not in found]
        for number, image in zip(missing, cut(missing) if missing else (), strict=True):
            self.deadline.check()
            found[number] = self.ocr.recognise(image, *sizes[number], time_left=self.deadline.remaining)
            self.memory.keep(questions[number], ocr.packed(found[number]), self.ocr.name)
        return found


Cut = Callable[[Sequence[int]], Iterable[bytes]]
"""Returns a PDF of one page for each page number."""


def of_pdf(
    pages: Sequence[Page],
    sizes: Mapping[int, tuple[float, float]],
    recogniser: Recogniser | None = None,
    cut: Cut = lambda _: (),
) -> Recognition:
    """Run OCR on the scanned pages of a PDF.

    `pages` is its text layer, and `sizes` the result of `scans.find`. Without OCR, a page whose text is noise has no
    words.

    Raises:
        CounterfoilError: as `Recogniser.recognise` and `cut`.
    """
    noise = scans.noise(pages)
    pages = [replace(page, words=()) if number in noise else page for number, page in enumerate(pages, 1)]
    numbers = tuple(sizes)
    if not sizes:
        return Recognition(pages)
    if recogniser is None:
        return Recognition(pages, unread=numbers, noise=noise, reason=OFF)
    if len(sizes) > MAX_SCANNED_PAGES:
        reason = f"there are more than {MAX_SCANNED_PAGES} of them; send the file in smaller parts"
        return Recognition(pages, unread=numbers, noise=noise, reason=reason)
    found = recogniser.recognise(sizes, cut)
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
    pages = parsers.page_sizes(content, recogniser.deadline.check)
    if pages is None:
        return Recognition((), unread=(1,), reason="only PNG, JPEG and TIFF are; send it as one of them, or as a PDF")
    if len(pages) > MAX_SCANNED_PAGES:
        reason = f"a TIFF of more than {MAX_SCANNED_PAGES} pages is not; send it in smaller parts"
        return Recognition((), unread=(1,), reason=reason)
    sizes = {number: _points(*size) for number, size in enumerate(pages, 1) if size is not None}
    if len(pages) == 1:
        return _of_images(sizes, lambda missing: [content] * len(missing), 1, recogniser)
    return _of_images(
        sizes, lambda missing: parsers.tiff_pages(content, missing, recogniser.deadline.check), len(pages), recogniser
    )


def _points(width: int, height: int) -> tuple[float, float]:
    """Return width and height in points, as if the image were printed on A4."""
    scale = _LONG_SIDE / max(width, height)
    return width * scale, height * scale


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
