"""Draw test pages as monospaced text."""

from counterfoil.documents.text.page import Page, Word

_LETTER_WIDTH = 6.0
_LINE_PITCH = 12.0
_LETTER_HEIGHT = 11.0
_TOP = 60.0


def draw_page(text: str, *, top: float = _TOP) -> Page:
    """Return a page with the words of `text`, laid out as in the string."""
    words = []
    for number, line in enumerate(text.strip("\n").split("\n")):
        y = top + number * _LINE_PITCH
        column = 0
        for part in line.split(" "):
            if part:
                left = column * _LETTER_WIDTH
                words.append(Word(part, left, y, left + len(part) * _LETTER_WIDTH, y + _LETTER_HEIGHT))
            column += len(part) + 1
    return Page(595.0, 842.0, tuple(words))
