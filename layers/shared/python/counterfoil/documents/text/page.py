"""Words of a page with their boxes, their lines, and a legibility check.

The check is for text layers. Pages come from a PDF's text layer (`pages`) or from OCR, and have the same form.
"""

import ctypes
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import pypdfium2  # type: ignore[import-untyped]
from pypdfium2 import raw

from counterfoil.errors import InvalidDocumentError


@dataclass(frozen=True)
class Evidence:
    """Source, confidence (0 to 1) and page (from 1) of a field's value.

    `source` is how the value was found ("label", "title", "address", ...), never document text.
    """

    source: str
    confidence: float
    page: int


MAX_CHARACTERS = 5_000_000
"""Maximum characters in a PDF: about 2,000 full pages."""
MAX_WORDS = 300_000
"""Maximum words in a PDF: about 1,500 pages and 100 MiB of memory. The longest of 169 real files has 6,122."""
MAX_CHARACTERS_OF_PAGE = 200_000
"""Maximum characters on a page. The densest of 282 real pages has 21,601."""

_SMALLEST_PRINT = 1.0  # in points; smaller text is meant for machines, not for readers
_SPACE = 0x20
_GAP_BETWEEN_WORDS = 0.125  # in text heights; a space has about 0.25, kerning much less
_SAME_LINE_OVERLAP = 0.5  # minimum vertical overlap of two boxes, as a share of the shorter one
_STRAIGHT = 0.02  # maximum deviation from upright, in quarter turns: about two degrees
_PLACEHOLDERS = frozenset("\ufffd")
_NON_LETTERS = frozenset({"Cc", "Cn", "Co", "Cs"})
"""Unicode categories without printable characters: control, unassigned, private use and surrogate."""
# pdfium represents a hyphen at the end of a line as U+0002. Some fonts map a ligature to a single character.
_PRINTED = {
    "\x02": "-",
    "\u00ad": "-",
    "\ufb00": "ff",
    "\ufb01": "fi",
    "\ufb02": "fl",
    "\ufb03": "ffi",
    "\ufb04": "ffl",
}


class Word(NamedTuple):
    """A word and its box, in points from the top left corner of the displayed page."""

    text: str
    left: float
    top: float
    right: float
    bottom: float


@dataclass(frozen=True)
class Line:
    """The words on one baseline, left to right."""

    words: tuple[Word, ...]

    @cached_property
    def text(self) -> str:
        """The words, separated by single spaces."""
        return " ".join(word.text for word in self.words)

    @property
    def left(self) -> float:
        """Left edge of the first word, in points."""
        return self.words[0].left

    @property
    def right(self) -> float:
        """Right edge of the rightmost word, in points."""
        return max(word.right for word in self.words)

    @property
    def top(self) -> float:
        """Top edge of the highest word, in points."""
        return min(word.top for word in self.words)

    @property
    def bottom(self) -> float:
        """Bottom edge of the lowest word, in points."""
        return max(word.bottom for word in self.words)


@dataclass(frozen=True)
class Page:
    """A page: width and height in points, and its words in the file's order.

    `lost_characters` is the number of characters that the fonts do not map to letters. `lost_words` contains them as
    words with boxes, with U+FFFD in place of each character.
    """

    width: float
    height: float
    words: tuple[Word, ...]
    lost_characters: int = 0
    lost_words: tuple[Word, ...] = ()

    def lines(self) -> list[Line]:
        """Return the lines from top to bottom, whatever the word order in the file."""
        return list(self._lines)

    @cached_property
    def text(self) -> str:
        """The lines as text, separated by line breaks."""
        return "\n".join(line.text for line in self._lines)

    @cached_property
    def _lines(self) -> tuple[Line, ...]:
        return tuple(_lines(self.words))


def _lines(words: Sequence[Word]) -> Iterator[Line]:
    """Group words whose boxes overlap vertically by at least half.

    Each word is compared only with a line's first word. Otherwise, lines could drift downwards.
    """
    rows: list[list[Word]] = []
    open_rows: list[list[Word]] = []
    for word in sorted(words, key=lambda word: (word.top + word.bottom, word.left)):
        open_rows = [row for row in open_rows if row[0].bottom > word.top]
        row = max(open_rows, key=lambda row: _overlap(row[0], word), default=None)
        if row is None or _overlap(row[0], word) < _SAME_LINE_OVERLAP:
            row = []
            rows.append(row)
            open_rows.append(row)
        row.append(word)
    for row in rows:
        yield Line(tuple(sorted(row, key=lambda word: word.left)))


def _overlap(a: Word, b: Word) -> float:
    """Return the vertical overlap as a share of the shorter box.

    It is at most 1, and negative for a gap.
    """
    shared = min(a.bottom, b.bottom) - max(a.top, b.top)
    return shared / max(min(a.bottom - a.top, b.bottom - b.top), 0.1)


def pages(content: bytes) -> list[Page]:
    """Return the text layer of each page of a PDF. A page without text has no words.

    Includes the invisible text that OCR adds to a scan. Excludes text outside the page, text too small to be visible,
    and text at a different angle from most of the page. A page with sideways text is rotated upright.

    Raises `InvalidDocumentError` for damaged files, and for more than `pdf.MAX_PAGES` pages, `MAX_CHARACTERS`
    characters, `MAX_CHARACTERS_OF_PAGE` characters on a page, or `MAX_WORDS` words.
    """
    from counterfoil.documents import pdf  # importing it takes 0.3 s

    parsed, characters, words = list[Page](), 0, 0
    with pdf.open_pdf(content) as document:
        for number in range(len(document)):
            page = document[number]
            text_page = page.get_textpage()
            try:
                count = max(text_page.count_chars(), 0)
                characters += count
                if characters > MAX_CHARACTERS:
                    message = f"The PDF contains more than {MAX_CHARACTERS} characters; send it in smaller parts."
                    raise InvalidDocumentError(message, code="pdf_too_large")
                if count > MAX_CHARACTERS_OF_PAGE:
                    message = (
                        f"Page {number + 1} has more than {MAX_CHARACTERS_OF_PAGE} characters; print it to a new PDF."
                    )
                    raise InvalidDocumentError(message, code="pdf_too_large")
                parsed.append(_page(page, text_page))
                words += len(parsed[-1].words) + len(parsed[-1].lost_words)
                if words > MAX_WORDS:
                    message = f"The PDF contains more than {MAX_WORDS} words; send it in smaller parts."
                    raise InvalidDocumentError(message, code="pdf_too_large")
            finally:
                text_page.close()
                page.close()
    return parsed


class _Character(NamedTuple):
    """A character and its box in PDF coordinates, where y increases upwards."""

    text: str
    left: float
    bottom: float
    right: float
    top: float


class _Run(NamedTuple):
    """Consecutive characters in the file, without a space between them.

    `turns` counts clockwise quarter turns; None for a slanted run.
    """

    characters: list[_Character]
    turns: int | None


def _page(page: pypdfium2.PdfPage, text_page: pypdfium2.PdfTextPage) -> Page:
    box = page.get_bbox()
    runs = list(_runs(text_page.raw, text_page.count_chars()))
    turns = _prevailing_turns(runs)
    width, height = box[2] - box[0], box[3] - box[1]
    if turns % 2:
        width, height = height, width
    words = (
        word
        for run in runs
        if run.turns == turns
        for word in _words([_upright(character, turns, box) for character in run.characters])
    )

    def visible(words: Iterable[Word]) -> tuple[Word, ...]:
        return tuple(
            word
            for word in words
            if word.bottom - word.top >= _SMALLEST_PRINT
            and 0 <= (word.left + word.right) / 2 <= width
            and 0 <= (word.top + word.bottom) / 2 <= height
        )

    lost_indexes = _lost_indexes(text_page.raw, text_page.count_chars())
    boxes = [_upright(character, turns, box) for character in _boxes(text_page.raw, lost_indexes)]
    return Page(width, height, visible(words), len(lost_indexes), visible(_words(boxes)))


def _lost_indexes(text_page: ctypes.c_void_p, count: int) -> list[int]:
    """Return the indexes of characters whose glyphs map to no letter."""
    return [index for index in range(count) if _is_lost(raw.FPDFText_GetUnicode(text_page, index))]


def _boxes(text_page: ctypes.c_void_p, indexes: Iterable[int]) -> Iterator[_Character]:
    box = raw.FS_RECTF()
    for index in indexes:
        if raw.FPDFText_GetLooseCharBox(text_page, index, box):
            yield _Character("\ufffd", box.left, box.bottom, box.right, box.top)


@lru_cache(maxsize=4096)
def _is_lost(code: int) -> bool:
    return chr(code) in _PLACEHOLDERS or (unicodedata.category(chr(code)) in _NON_LETTERS and not _visible_text(code))


def _prevailing_turns(runs: Sequence[_Run]) -> int:
    """Return the quarter turns of most text, clockwise from the page's rotation.

    If the page is rotated one way and its text the other, as after a sideways scan, the text is displayed upright.
    """
    counts: Counter[int] = Counter()
    for run in runs:
        if run.turns is not None:
            counts[run.turns] += len(run.characters)
    return counts.most_common(1)[0][0] if counts else 0


def _runs(text_page: ctypes.c_void_p, count: int) -> Iterator[_Run]:
    """Split characters at spaces in the file.

    Spaces that pdfium inserts may only be kerning.
    """
    characters: list[_Character] = []
    turns: int | None = 0
    box = raw.FS_RECTF()
    for index in range(count):
        text = _visible_text(code := raw.FPDFText_GetUnicode(text_page, index))
        if text == " ":
            if characters and not _may_be_kerning(text_page, index, code):
                yield _Run(characters, turns)
                characters = []
        elif text and raw.FPDFText_GetLooseCharBox(text_page, index, box):
            if not characters:
                turns = _turns(raw.FPDFText_GetCharAngle(text_page, index))
            characters.append(_Character(text, box.left, box.bottom, box.right, box.top))
    if characters:
        yield _Run(characters, turns)


def _may_be_kerning(text_page: ctypes.c_void_p, index: int, code: int) -> bool:
    """Return whether pdfium inserted this space before a lowercase letter.

    The gap may then be kerning.
    """
    guessed = code == _SPACE and raw.FPDFText_IsGenerated(text_page, index) == 1
    return guessed and _visible_text(raw.FPDFText_GetUnicode(text_page, index + 1)).islower()


@lru_cache(maxsize=4096)
def _visible_text(code: int) -> str:
    """Return the visible form of a code point, or "" if it has none.

    Whitespace becomes a space, and a ligature becomes several letters.
    """
    text = _PRINTED.get(text := chr(code), text)
    if text.isspace():
        return " "
    return text if text.isprintable() and text not in _PLACEHOLDERS else ""


def _turns(angle: float) -> int | None:
    """Convert pdfium's angle in radians to clockwise quarter turns; None if slanted."""
    quarters = angle / (math.pi / 2)
    return round(quarters) % 4 if abs(quarters - round(quarters)) < _STRAIGHT else None


def _upright(character: _Character, turns: int, box: tuple[float, float, float, float]) -> Word:
    """Rotate a character upright, and measure its box from the top left corner.

    The corner is that of the upright page.
    """
    text, left, bottom, right, top = character
    x0, y0, x1, y1 = box
    match turns:
        case 0:
            return Word(text, left - x0, y1 - top, right - x0, y1 - bottom)
        case 1:
            return Word(text, y1 - top, x1 - right, y1 - bottom, x1 - left)
        case 2:
            return Word(text, x1 - right, bottom - y0, x1 - left, top - y0)
        case _:
            return Word(text, bottom - y0, left - x0, top - y0, right - x0)


def _words(characters: Sequence[Word]) -> Iterator[Word]:
    """Group characters into words.

    A gap as wide as a space or a move to another line ends a word.
    """
    word: list[Word] = []
    for character in characters:
        if word and _is_apart(word[-1], character):
            yield _join(word)
            word = []
        word.append(character)
    if word:
        yield _join(word)


def _is_apart(a: Word, b: Word) -> bool:
    height = max(a.bottom - a.top, b.bottom - b.top)
    gap = b.left - a.right
    return gap > _GAP_BETWEEN_WORDS * height or gap < -height or _overlap(a, b) < _SAME_LINE_OVERLAP


def _join(characters: Sequence[Word]) -> Word:
    return Word(
        "".join(character.text for character in characters),
        min(character.left for character in characters),
        min(character.top for character in characters),
        max(character.right for character in characters),
        max(character.bottom for character in characters),
    )


MIN_JUDGED_CHARACTERS = 40
"""Minimum number of characters to judge whether a page is legible."""
MAX_LOST_SHARE = 0.3
"""Maximum share of a legible page's characters that map to no letter."""
MIN_LETTER_SHARE = 0.6
"""Minimum share of letters and digits on a legible page. Real invoices have 0.9; noise is mostly symbols."""
MIN_VOWEL_SHARE = 0.24
"""Minimum share of vowels among the Latin letters of a legible page.

Checked only if the page has at least 100 Latin letters, not counting words with digits. Real text has a third or more;
wrongly mapped letters have a random share.
"""

_FEWEST_LATIN = 100
_SHORTEST_WORD = 3
_VOWELS = frozenset("aeiouyæøœ")
_PUNCTUATION = ".,:;()!?'\"/-"
_RULES = frozenset("._-=*|/\\•·")
"""Characters used to draw lines."""


def is_legible(page: Page) -> bool:
    """Return whether a page's text layer contains real words.

    A page with hardly any text counts as legible. A font may map its glyphs to no letters or to wrong ones. Such a page
    looks correct when displayed, but its text is noise. It requires OCR like a scan.
    """
    characters = [character for word in page.words for character in word.text if character not in _RULES]
    count = len(characters) + page.lost_characters
    if count < MIN_JUDGED_CHARACTERS:
        return True
    has_letters = sum(map(str.isalnum, characters)) >= MIN_LETTER_SHARE * len(characters)
    return page.lost_characters <= MAX_LOST_SHARE * count and has_letters and _has_vowels(page)


def _has_vowels(page: Page) -> bool:
    words = [word.text.strip(_PUNCTUATION) for word in page.words]
    latin = _latin_letters([word for word in words if len(word) >= _SHORTEST_WORD and word.isalpha()])
    return len(latin) < _FEWEST_LATIN or sum(letter in _VOWELS for letter in latin) >= MIN_VOWEL_SHARE * len(latin)


def _latin_letters(words: Sequence[str]) -> list[str]:
    """Return the Latin letters of words, lowercased and without accents."""
    letters = (unicodedata.normalize("NFD", letter.lower())[0] for word in words for letter in word)
    return [letter for letter in letters if letter.isascii() or letter in _VOWELS]
