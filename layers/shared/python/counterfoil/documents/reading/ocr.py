"""OCR of scanned pages and images.

The result is words with boxes, as in a text layer.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

from botocore.exceptions import ClientError
from pydantic import BaseModel, Field

from counterfoil import aws, http
from counterfoil.deadline import Deadline
from counterfoil.documents.page_images import MAX_OCR_BYTES
from counterfoil.documents.reading.cache import AnswerCache
from counterfoil.documents.sandbox import parsers
from counterfoil.documents.sandbox.parsers import FileText
from counterfoil.documents.text.page import Page, Word
from counterfoil.errors import CancelledError, ServiceUnavailableError
from counterfoil.validation import validate

CALL_TIMEOUT_SECONDS = 45.0
"""Timeout of a call; most take one to three seconds."""
MIN_SECONDS_LEFT = 5.0
"""Minimum seconds left to start a call. With less time, the call would probably be aborted but still billed."""

_PAGE_ERRORS = frozenset(
    {"UnsupportedDocumentException", "BadDocumentException", "DocumentTooLargeException", "InvalidParameterException"}
)
"""Errors caused by a page, not by permissions or the service."""
_PLACES = 2
"""Decimal places of stored boxes: a hundredth of a point is less than a printer's dot."""


class Breakers(Protocol):
    """The circuit breakers."""

    def guard(self, name: str) -> AbstractContextManager[None]:
        """Return a context for one call to a service."""


@dataclass(frozen=True)
class OcrPage:
    """A page's words from OCR, and their mean confidence, 0 to 1."""

    page: Page
    confidence: float


class Ocr(Protocol):
    """An OCR service."""

    @property
    def name(self) -> str:
        """Name of the service, which is part of the cache key."""

    def recognize(self, image: bytes, width: float, height: float, *, time_left: Callable[[], float]) -> OcrPage | None:
        """Return the words of one page. `image` is a PDF with one page, or an image.

        `width` and `height` are in points. Returns None if the page is rejected because of its content, format
        or size. A sideways page is rotated upright.

        Raises:
            ServiceUnavailableError: throttled, failed or timed out.
            RejectedRequestError: permanently rejected, for a reason that applies to every page.
            BreakerOpenError: the circuit breaker is open, and no call was made.
            CancelledError: not enough time is left, or it ran out.
        """


def question(name: str, content_hash: bytes, number: int) -> bytes:
    """Return the cache key of a page's OCR result. Pages count from 1."""
    return sha256(f"recognize/1\n{name}\n{content_hash.hex()}\n{number}".encode()).digest()


def pack(recognized: OcrPage | None) -> Any:
    """Return an OCR result as JSON; null for a rejected page."""
    if recognized is None:
        return None
    page = recognized.page
    return {
        "width": page.width,
        "height": page.height,
        "confidence": recognized.confidence,
        "words": [[word.text, *(round(edge, _PLACES) for edge in word[1:])] for word in page.words],
    }


def unpack(stored: Any) -> OcrPage | None:
    """Parse the output of `pack`."""
    if stored is None:
        return None
    words = tuple(Word(*word) for word in stored["words"])
    return OcrPage(Page(stored["width"], stored["height"], words), stored["confidence"])


# -- Amazon Textract ------------------------------------------------------------------------------------------------


class _Point(BaseModel):
    x: float = Field(alias="X")
    y: float = Field(alias="Y")


class _Geometry(BaseModel):
    polygon: list[_Point] = Field(alias="Polygon", min_length=4)


class _Block(BaseModel):
    type: str = Field(alias="BlockType")
    text: str = Field(alias="Text", default="")
    confidence: float = Field(alias="Confidence", default=0.0)
    geometry: _Geometry | None = Field(alias="Geometry", default=None)


class _Answer(BaseModel):
    blocks: list[_Block] = Field(alias="Blocks")


class _Quad(NamedTuple):
    """Corners of a word in points, clockwise from the text's top left corner."""

    text: str
    corners: tuple[tuple[float, float], ...]


class Textract:
    """Amazon Textract's DetectDocumentText, with the function's permissions."""

    name = "textract"

    def __init__(self, breakers: Breakers) -> None:
        self._breakers = breakers

    def recognize(self, image: bytes, width: float, height: float, *, time_left: Callable[[], float]) -> OcrPage | None:
        """See `Ocr`."""
        if len(image) > MAX_OCR_BYTES:
            return None
        seconds = min(CALL_TIMEOUT_SECONDS, time_left())
        if seconds < MIN_SECONDS_LEFT:
            raise CancelledError("Not enough time is left for OCR of a page")
        with self._breakers.guard("ocr:textract"):
            try:
                response = http.run_with_deadline(seconds, lambda: _detect(image))
            except TimeoutError:
                if seconds < CALL_TIMEOUT_SECONDS and time_left() <= 0:
                    # The function's own timeout must not open the service's breaker.
                    raise CancelledError("Time ran out during OCR of a page") from None
                message = f"Textract did not answer within {seconds:g} seconds"
                raise ServiceUnavailableError(message) from None
            if response is None:
                return None
            parsed = validate(
                _Answer, response, lambda problem: ServiceUnavailableError(_invalid_answer_message(problem.type))
            )
        return _ocr_page(parsed.blocks, width, height)


def _detect(image: bytes) -> Any:
    """Call Textract. Returns None if it rejects the page."""
    with aws.translate_errors():
        try:
            return aws.client("textract").detect_document_text(Document={"Bytes": image})
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in _PAGE_ERRORS:
                return None
            raise


def _invalid_answer_message(type_: str) -> str:
    return f"Textract returned an invalid answer ({type_})"


def _ocr_page(blocks: Iterable[_Block], width: float, height: float) -> OcrPage:
    word_blocks = [
        block for block in blocks if block.type == "WORD" and block.geometry is not None and block.text.strip()
    ]
    quads = [_quad(block, width, height) for block in word_blocks]
    turns = _prevailing_turns(quads)
    page_width, page_height = (height, width) if turns % 2 else (width, height)
    words = tuple(_to_upright(quad, turns, width, height) for quad in quads)
    confidence = sum(block.confidence for block in word_blocks) / (100 * len(word_blocks)) if word_blocks else 0.0
    return OcrPage(Page(page_width, page_height, words), round(min(max(confidence, 0.0), 1.0), 4))


def _quad(block: _Block, width: float, height: float) -> _Quad:
    assert block.geometry is not None  # checked by the caller
    text = block.text.replace("\x00", "\ufffd")  # PostgreSQL cannot store it
    return _Quad(text, tuple((point.x * width, point.y * height) for point in block.geometry.polygon))


def _prevailing_turns(quads: Iterable[_Quad]) -> int:
    """Return the clockwise quarter turns of most of the text.

    Longer words count more.
    """
    counts: Counter[int] = Counter()
    for text, corners in quads:
        (x0, y0), (x1, y1) = corners[:2]
        counts[round(math.atan2(y1 - y0, x1 - x0) / (math.pi / 2)) % 4] += len(text)
    return counts.most_common(1)[0][0] if counts else 0


def _to_upright(quad: _Quad, turns: int, width: float, height: float) -> Word:
    """Return the box of a word on the upright page."""
    xs, ys = zip(*_rotate_back(quad.corners, turns, width, height), strict=True)
    return Word(quad.text, min(xs), min(ys), max(xs), max(ys))


def _rotate_back(
    corners: Iterable[tuple[float, float]], turns: int, width: float, height: float
) -> Iterator[tuple[float, float]]:
    for x, y in corners:
        match turns:
            case 0:
                yield x, y
            case 1:
                yield y, width - x
            case 2:
                yield width - x, height - y
            case _:
                yield height - y, x


MAX_SCANNED_PAGES = 200
"""Maximum number of scanned pages per file, to limit cost and time."""
OCR_DISABLED = "OCR is not enabled"
_MAX_LISTED = 5
_LONG_SIDE = 842.0
"""Long side of A4 in points. An image has no size on paper, only proportions."""


@dataclass(frozen=True)
class Recognition:
    """A file's pages after OCR. Pages count from 1."""

    pages: Sequence[Page]
    confidences: Mapping[int, float] = field(default_factory=dict)
    """Mean OCR confidence by page, 0 to 1."""
    unread: tuple[int, ...] = ()
    """Scanned pages, and pages with an illegible text layer, for which OCR failed or was not run."""
    noise: frozenset[int] = frozenset()
    """Pages with an illegible text layer."""
    reason: str | None = None
    """Reason why pages are unread: a clause for users, without a period."""

    @property
    def has_words(self) -> bool:
        """True if any page has words."""
        return any(page.words for page in self.pages)

    @property
    def warning(self) -> str | None:
        """Sentences about unread pages, with the reason; None if all were read."""
        scanned = [number for number in self.unread if number not in self.noise]
        noisy = [number for number in self.unread if number in self.noise]
        sentences = []
        if scanned:
            sentences.append(f"{_page_list(scanned)} scanned and could not be read: {self.reason}.")
        if noisy:
            sentences.append(
                f"{_page_list(noisy)} printed in fonts without usable characters and could not be read: {self.reason}."
            )
        return " ".join(sentences) or None

    @property
    def empty_reason(self) -> str:
        """Reason why a document has no words, in sentences for users."""
        return self.warning or "The pages contain no text."


def _page_list(numbers: Sequence[int]) -> str:
    page_list = ", ".join(map(str, numbers[:_MAX_LISTED]))
    suffix = f" and {len(numbers) - _MAX_LISTED} more" if len(numbers) > _MAX_LISTED else ""
    return f"Page {page_list} is" if len(numbers) == 1 else f"Pages {page_list}{suffix} are"


@dataclass(frozen=True)
class CachedOcr:
    """OCR service with cached results for the pages of one file."""

    ocr: Ocr
    cache: AnswerCache
    content_hash: bytes
    """SHA-256 of the whole file, even if only a part of it is processed."""
    first_page: int
    """Number of the first page within the whole file, from 1."""

    def recognize(
        self, sizes: Mapping[int, tuple[float, float]], render: "PageRenderer", deadline: Deadline
    ) -> dict[int, OcrPage | None]:
        """Return the words of pages by number, or None for a rejected page.

        Raises:
            CounterfoilError: see `Ocr.recognize`, `AnswerCache` and `Deadline.check`. Earlier pages stay cached.
        """
        questions = {
            number: question(self.ocr.name, self.content_hash, self.first_page + number - 1) for number in sizes
        }
        cached = self.cache.find(questions.values())
        results = {number: unpack(cached[key]) for number, key in questions.items() if key in cached}
        missing = [number for number in sizes if number not in results]
        for number, image in zip(missing, render(missing) if missing else (), strict=True):
            deadline.check()
            results[number] = self.ocr.recognize(image, *sizes[number], time_left=deadline.remaining)
            self.cache.store(questions[number], pack(results[number]), self.ocr.name)
        return results


PageRenderer = Callable[[Sequence[int]], Iterable[bytes]]
"""Returns a PDF or an image for each page number."""


def ocr_pdf(content: bytes, text: FileText, service: CachedOcr | None, deadline: Deadline) -> Recognition:
    """Run OCR on a PDF's scanned pages.

    A recognized page replaces a page with fewer words.

    Scanned pages are unread without a service, or if there are more than MAX_SCANNED_PAGES. Pages with an illegible
    text layer have no words unless OCR finds some.

    Raises:
        CounterfoilError: see `CachedOcr.recognize` and `parsers.extract_pages`.
    """
    pages = [replace(page, words=()) if number in text.noise else page for number, page in enumerate(text.pages, 1)]
    sizes, numbers = text.scans, tuple(text.scans)
    if not sizes:
        return Recognition(pages)
    if service is None:
        return Recognition(pages, unread=numbers, noise=text.noise, reason=OCR_DISABLED)
    if len(sizes) > MAX_SCANNED_PAGES:
        reason = f"there are more than {MAX_SCANNED_PAGES} of them; send the file in smaller parts"
        return Recognition(pages, unread=numbers, noise=text.noise, reason=reason)

    def cut(missing: Sequence[int]) -> Iterator[bytes]:
        return parsers.extract_pages(content, [(number, number) for number in missing], deadline.check)

    results = service.recognize(sizes, cut, deadline)
    read_pages, confidences = list(pages), dict[int, float]()
    for number, recognized in results.items():
        if recognized is not None and len(recognized.page.words) > len(pages[number - 1].words):
            read_pages[number - 1] = recognized.page
            confidences[number] = recognized.confidence
    unread = tuple(number for number in numbers if results[number] is None)
    return Recognition(read_pages, confidences, unread, text.noise, _REFUSED_PAGES if unread else None)


_REFUSED_PAGES = "the OCR service rejects their format or size"


def ocr_image(content: bytes, service: CachedOcr | None, deadline: Deadline) -> Recognition:
    """Run OCR on an image, page by page for a TIFF.

    Raises the same errors as `CachedOcr.recognize`.
    """
    if service is None:
        return Recognition((), unread=(1,), reason=OCR_DISABLED)
    page_pixels = parsers.page_sizes(content, deadline.check)
    if page_pixels is None:
        return Recognition((), unread=(1,), reason="only PNG, JPEG and TIFF are supported; send one of these or a PDF")
    if len(page_pixels) > MAX_SCANNED_PAGES:
        reason = f"a TIFF may have at most {MAX_SCANNED_PAGES} pages; send it in smaller parts"
        return Recognition((), unread=(1,), reason=reason)
    sizes = {number: _points(*size) for number, size in enumerate(page_pixels, 1) if size is not None}

    def cut(missing: Sequence[int]) -> Iterable[bytes]:
        if len(page_pixels) == 1:
            return [content] * len(missing)
        return parsers.tiff_pages(content, missing, deadline.check)

    results = service.recognize(sizes, cut, deadline)
    pages, confidences, unread = list[Page](), dict[int, float](), list[int]()
    for number in range(1, len(page_pixels) + 1):
        recognized = results.get(number)
        if recognized is None:
            unread.append(number)
            pages.append(Page(*sizes.get(number, (0.0, 0.0)), ()))
        else:
            pages.append(recognized.page)
            confidences[number] = recognized.confidence
    return Recognition(pages, confidences, tuple(unread), reason=_REFUSED_PAGES if unread else None)


def _points(width: int, height: int) -> tuple[float, float]:
    """Return width and height in points, as if the image were printed on A4."""
    scale = _LONG_SIDE / max(width, height)
    return width * scale, height * scale
