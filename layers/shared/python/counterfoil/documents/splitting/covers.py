"""Pages that belong to no document: separator sheets, fax covers, lists of what follows."""

from collections import Counter
from collections.abc import Sequence, Set

from counterfoil.documents.lexicon.folding import fold
from counterfoil.documents.splitting import words
from counterfoil.documents.splitting.signs import Signs
from counterfoil.documents.text.page import Page

_SEPARATOR_WORDS = 20
"""A separator sheet says little more than that it is one."""
_LISTED = 2
"""A page that names so many of the documents after it, and none as its own, is a list of them."""
_FAX_LABELS = 2


def covers(pages: Sequence[Page], signs: Sequence[Signs]) -> dict[int, str]:
    """The covers among the pages, by their place from 0, each with a sentence that says of what kind it is.

    A separator sheet may stand anywhere. What goes with documents, or lists them, counts at the beginning of the file
    alone: an invoice's later pages speak of enclosures, and list delivery notes that follow, just as well. Something
    must come after it that begins as a document does.
    """
    found = {place: _told(place, "is a separator sheet") for place, page in enumerate(pages) if _is_separator(page)}
    following = Counter(number for one in signs if (number := one.number) is not None)
    leading: dict[int, str] = {}
    for place, (page, own) in enumerate(zip(pages, signs, strict=True)):
        if place in found:
            continue
        if own.number is not None:
            following[own.number] -= 1
        kind = _kind(page, own, {number for number, count in following.items() if count > 0})
        if kind is None:
            return found | leading if _begins(own) else found
        leading[place] = _told(place, kind)
    return found  # of what is nothing but covers, each may be a document


def _told(place: int, kind: str) -> str:
    return f"Page {place + 1} {kind}."


def _is_separator(page: Page) -> bool:
    return len(page.words) <= _SEPARATOR_WORDS and words.SEPARATOR.search(fold(page.text)) is not None


def _kind(page: Page, own: Signs, following: Set[str]) -> str | None:
    """What kind of cover a page is that stands before documents of these numbers.

    One with a number of its own, a place in a document, or a sum is none, but for a list, which may have a sum.
    """
    if not own.words or any(place.place > 1 for place in own.places):
        return None
    listed = _words(page) & following
    if len(listed) >= _LISTED and (own.number is None or (own.number in listed and _names_alike(own, listed))):
        return "lists the documents that follow"
    if own.has_total or own.number is not None:
        return None
    if _is_fax_cover(page):
        return "is the cover of a fax"
    return "goes with the documents that follow" if words.COVERING.search(fold(page.text)) else None


def _names_alike(signs: Signs, listed: Set[str]) -> bool:
    """Whether what looks like the page's own number is one of several that it lists in the same way."""
    alike = {mention.number for mention in signs.named if signs.own is not None and mention.style == signs.own.style}
    return len(alike & listed) >= _LISTED


def _begins(signs: Signs) -> bool:
    if any(place.place > 1 for place in signs.places):
        return False
    return signs.number is not None or (signs.own is not None and signs.own.style != "label")


def _words(page: Page) -> set[str]:
    """Its words in the form of numbers."""
    return {"".join(character for character in fold(word.text) if character.isalnum()) for word in page.words}


def _is_fax_cover(page: Page) -> bool:
    lines = [fold(line.text) for line in page.lines()]
    labels = sum(any(pattern.search(line) for line in lines) for pattern in words.FAX_LABELS)
    return labels >= _FAX_LABELS and any(words.FAX.match(line) for line in lines)
