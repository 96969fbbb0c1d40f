"""Pages that belong to no document: separator sheets, fax covers, lists of what follows."""

from collections.abc import Sequence

from counterfoil.documents.splitting import words
from counterfoil.documents.splitting.signs import Signs
from counterfoil.documents.splitting.words import fold
from counterfoil.documents.text.page import Page

_SEPARATOR_WORDS = 20
"""A separator sheet says little more than that it is one."""
_LISTED = 2
"""A page that names so many of the documents after it, and none as its own, is a list of them."""
_FAX_LABELS = 2


def covers(pages: Sequence[Page], signs: Sequence[Signs]) -> dict[int, str]:
    """The covers among the pages, by their place from 0, each with a sentence that says of what kind it is.

    A page with a number of its own, a place in a document, or a sum is none, but for a list of what follows, which may
    have a sum. Something must follow that begins as a document does, or another cover.
    """
    found: dict[int, str] = {}
    for place in reversed(range(len(pages) - 1)):
        if signs[place].words and (place + 1 in found or _begins(signs[place + 1])):
            kind = _kind(pages[place], signs[place], signs[place + 1 :])
            if kind is not None:
                found[place] = f"Page {place + 1} {kind}."
    return found


def _kind(page: Page, own: Signs, following: Sequence[Signs]) -> str | None:
    text = fold(page.text)
    if own.words <= _SEPARATOR_WORDS and words.SEPARATOR.search(text):
        return "is a separator sheet"
    listed = _listed(page, following)
    if len(listed) >= _LISTED and (_heading(own) is None or _names_alike(own, listed)):
        return "lists the documents that follow"
    if _heading(own) is not None:
        return None
    if own.has_total or own.number is not None:
        return None
    if _is_fax_cover(page):
        return "is the cover of a fax"
    return "goes with the documents that follow" if words.COVERING.search(text) else None


def _heading(signs: Signs) -> str | None:
    """The number that a page is headed with."""
    return None if signs.own is None or signs.own.style == "label" else signs.own.number


def _names_alike(signs: Signs, listed: set[str]) -> bool:
    """Whether what looks like the page's own number is one of several that it lists in the same way."""
    alike = {mention.number for mention in signs.named if signs.own is not None and mention.style == signs.own.style}
    return _heading(signs) in listed and len(alike & listed) >= _LISTED


def _begins(signs: Signs) -> bool:
    if any(place.place > 1 for place in signs.places):
        return False
    return signs.number is not None or (signs.own is not None and signs.own.style != "label")


def _listed(page: Page, following: Sequence[Signs]) -> set[str]:
    """The numbers of following documents that the page names."""
    numbers = {signs.number for signs in following if signs.number is not None}
    named = {
        "".join(character for character in fold(word.text) if character.isalnum())
        for line in page.lines()
        for word in line.words
    }
    return numbers & named


def _is_fax_cover(page: Page) -> bool:
    lines = [fold(line.text) for line in page.lines()]
    labels = sum(any(pattern.search(line) for line in lines) for pattern in words.FAX_LABELS)
    return labels >= _FAX_LABELS and any(words.FAX.match(line) for line in lines)
