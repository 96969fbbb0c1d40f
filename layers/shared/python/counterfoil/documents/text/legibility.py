"""Whether the text layer of a page says what a reader sees, or its letters are unknown or senseless. Pure.

A font may name no letters for its shapes, or the wrong ones: the page looks right and its text is noise. Then the page
is as unreadable as a scan, and has to be recognised like one.
"""

import unicodedata
from collections.abc import Sequence

from counterfoil.documents.text.page import Page

FEWEST_JUDGED = 40
"""Characters: what fewer of them are says nothing about a font."""
MOST_LOST = 0.3
"""Of a page's characters: more without a letter of theirs cannot be read around."""
FEWEST_LETTERS = 0.6
"""Of a page's characters, digits among them; the pages of real invoices have nine tenths, noise is of signs."""
FEWEST_VOWELS = 0.24
"""Of the Latin letters in words, 100 at least: the languages that write with them have a third or more. Letters that a
font misnames have what chance puts in the places of vowels. Codes, which have digits in them, are no words."""

_FEWEST_LATIN = 100
_SHORTEST_WORD = 3
_VOWELS = frozenset("aeiouyæøœ")
_PUNCTUATION = ".,:;()!?'\"/-"
_RULES = frozenset("._-=*|/\\•·")
"""Signs that fill lines."""


def is_legible(page: Page) -> bool:
    """Tell whether the words of a page are words; a page with hardly any text is."""
    characters = [character for word in page.words for character in word.text if character not in _RULES]
    count = len(characters) + page.lost
    if count < FEWEST_JUDGED:
        return True
    has_letters = sum(map(str.isalnum, characters)) >= FEWEST_LETTERS * len(characters)
    return page.lost <= MOST_LOST * count and has_letters and _has_vowels(page)


def _has_vowels(page: Page) -> bool:
    words = [word.text.strip(_PUNCTUATION) for word in page.words]
    latin = _latin([word for word in words if len(word) >= _SHORTEST_WORD and word.isalpha()])
    return len(latin) < _FEWEST_LATIN or sum(letter in _VOWELS for letter in latin) >= FEWEST_VOWELS * len(latin)


def _latin(words: Sequence[str]) -> list[str]:
    """The Latin letters of words, small and without accents."""
    letters = (unicodedata.normalize("NFD", letter.lower())[0] for word in words for letter in word)
    return [letter for letter in letters if letter.isascii() or letter in _VOWELS]
