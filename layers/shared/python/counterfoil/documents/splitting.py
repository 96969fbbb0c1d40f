"""Splits a file into documents, with the evidence for every boundary. Pure.

Each feature adds to or subtracts from the log-odds of a boundary, as in a naive Bayes classifier with weights set by
hand. No feature decides alone. The confidence is the logistic function of the sum. If strong features contradict each
other, the page stays uncertain, whatever the sum.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp
from typing import Literal, NamedTuple

from counterfoil.documents.lexicon import SPLITTER
from counterfoil.documents.lexicon.folding import normalize_text
from counterfoil.documents.page_features import PageFeatures, PagePlace, TypeMention, read
from counterfoil.documents.text.page import Page

MIN_CONFIDENCE = 0.9
"""Minimum confidence to act on a boundary, or on its absence."""

Kind = Literal["document", "cover"]
"""A cover is a page that belongs to no document: a separator sheet, a fax cover or a list of documents.

It becomes a separate part, so that no page is lost and no document contains a page about other documents.
"""


class PageRange(NamedTuple):
    """First and last page of a part, counted from 1."""

    first: int
    last: int


@dataclass(frozen=True)
class Part:
    """Pages of one document, or a cover."""

    pages: PageRange
    kind: Kind = "document"


@dataclass(frozen=True)
class Boundary:
    """Decision on whether a part starts at a page."""

    page: int
    """From 2 to the number of pages."""
    is_start: bool
    confidence: float
    """Probability that `is_start` is correct, 0.5 to 1."""
    evidence: tuple[str, ...] = ()
    """Sentences for and against a boundary, the strongest first."""

    @property
    def is_certain(self) -> bool:
        """Return whether the confidence is high enough to split."""
        return self.confidence >= MIN_CONFIDENCE


@dataclass(frozen=True)
class Split:
    """Parts of a file. If any boundary is uncertain, the whole file is one part."""

    page_count: int
    boundaries: tuple[Boundary, ...] = ()
    """One for each page except the first."""
    cover_pages: frozenset[int] = frozenset()
    """Pages that are covers."""

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Parts in page order; a single part if any boundary is uncertain."""
        return self.proposed_parts if self.is_certain else (Part(PageRange(1, self.page_count)),)

    @cached_property
    def proposed_parts(self) -> tuple[Part, ...]:
        """The most likely parts, regardless of confidence."""
        return tuple(self._proposed())

    @property
    def ranges(self) -> list[PageRange]:
        """The page ranges of the parts."""
        return [part.pages for part in self.parts]

    @property
    def confidence(self) -> float:
        """Confidence of the least certain boundary; 1 for a single page."""
        return min((boundary.confidence for boundary in self.boundaries), default=1.0)

    @property
    def is_certain(self) -> bool:
        """Return whether every boundary is certain."""
        return not self.uncertain_boundaries

    @property
    def uncertain_boundaries(self) -> tuple[Boundary, ...]:
        """The boundaries below the minimum confidence."""
        return tuple(boundary for boundary in self.boundaries if not boundary.is_certain)

    @property
    def reason(self) -> str | None:
        """Reason why the file is not split, or None if all boundaries are certain."""
        if self.is_certain:
            return None
        pages = [boundary.page for boundary in self.uncertain_boundaries]
        least_certain = min(self.uncertain_boundaries, key=lambda boundary: boundary.confidence)
        detail = f" At page {least_certain.page}: {' '.join(least_certain.evidence)}" if least_certain.evidence else ""
        return (
            f"The file may contain several documents, and it is unclear whether one starts at {_page_list(pages)}. The "
            f"file stays whole. Send its documents as separate files.{detail}"
        )

    @property
    def summary(self) -> str:
        """Summary of the parts in a sentence."""
        covers = sum(part.kind == "cover" for part in self.parts)
        documents = len(self.parts) - covers
        suffix = {0: "", 1: " and a cover page"}.get(covers, f" and {covers} cover pages")
        return f"The file was split into {documents} document{'s' * (documents != 1)}{suffix}."

    def resolve(self, decisions: Mapping[int, Boundary]) -> "Split":
        """Replace uncertain boundaries with decisions. Certain boundaries stay."""
        resolved = (
            boundary if boundary.is_certain else decisions.get(boundary.page, boundary) for boundary in self.boundaries
        )
        return replace(self, boundaries=tuple(resolved))

    def _proposed(self) -> Iterator[Part]:
        first_pages = [1, *(boundary.page for boundary in self.boundaries if boundary.is_start)]
        last_pages = [page - 1 for page in first_pages[1:]] + [self.page_count]
        for first, last in zip(first_pages, last_pages, strict=True):
            yield Part(PageRange(first, last), "cover" if first in self.cover_pages else "document")


_MAX_LISTED = 5


def _page_list(numbers: Iterable[int]) -> str:
    page_numbers = list(numbers)
    listed = ", ".join(map(str, page_numbers[:_MAX_LISTED]))
    suffix = f" and {len(page_numbers) - _MAX_LISTED} more" if len(page_numbers) > _MAX_LISTED else ""
    return f"page {listed}" if len(page_numbers) == 1 else f"pages {listed}{suffix}"


_SEPARATOR = re.compile(rf"\b(?:{SPLITTER.alternatives('pages.separator')})")
_FAX = re.compile(SPLITTER.alternatives("pages.fax"))
_FAX_LABELS = tuple(
    re.compile(rf"(?:{'|'.join(labels)})\b" + (r"[^\d]{0,25}\d" if means == "pages" else " ?:"))
    for means, labels in SPLITTER.meanings("pages.fax_label").items()
)
_COVERING = re.compile(rf"\b(?:{SPLITTER.alternatives('pages.covering')})\b")
_SEPARATOR_WORDS = 20
"""Maximum number of words on a separator sheet."""
_MIN_LISTED = 2
"""Minimum number of later documents that a page without its own number must list to be a cover."""
_FEWEST_FAX_LABELS = 2


def cover_pages(pages: Sequence[Page], features: Sequence[PageFeatures]) -> dict[int, str]:
    """Return the covers by page index, each with a sentence that names its kind.

    A separator sheet may be anywhere. Cover letters and lists count only at the start of the file, because later pages
    of an invoice may also mention enclosures and list delivery notes. They must be followed by a page that starts a
    document.
    """
    covers = {
        index: _cover_sentence(index, "is a separator sheet") for index, page in enumerate(pages) if _is_separator(page)
    }
    later_numbers = Counter(number for page_features in features if (number := page_features.number) is not None)
    leading: dict[int, str] = {}
    for index, (page, page_features) in enumerate(zip(pages, features, strict=True)):
        if index in covers:
            continue
        if page_features.number is not None:
            later_numbers[page_features.number] -= 1
        kind = _cover_kind(page, page_features, {number for number, count in later_numbers.items() if count > 0})
        if kind is None:
            return covers | leading if _may_begin_document(page_features) else covers
        leading[index] = _cover_sentence(index, kind)
    return covers  # no document starts after the leading pages, so they are not covers


def _cover_sentence(place: int, kind: str) -> str:
    return f"Page {place + 1} {kind}."


def _is_separator(page: Page) -> bool:
    return len(page.words) <= _SEPARATOR_WORDS and _SEPARATOR.search(normalize_text(page.text)) is not None


def _cover_kind(page: Page, features: PageFeatures, later_numbers: Set[str]) -> str | None:
    """Return a phrase for the kind of cover; None if the page is not a cover.

    `later_numbers` are the document numbers on later pages. A page with its own number, a page number above 1 or a
    total is not a cover. Only a list of documents may have a total.
    """
    if not features.words or any(place.place > 1 for place in features.places):
        return None
    listed_numbers = _words(page) & later_numbers
    if len(listed_numbers) >= _MIN_LISTED and (
        features.number is None or (features.number in listed_numbers and _names_alike(features, listed_numbers))
    ):
        return "lists the documents that follow"
    if features.has_total or features.number is not None:
        return None
    if _is_fax_cover(page):
        return "is a fax cover"
    return "is a cover letter for the documents that follow" if _COVERING.search(normalize_text(page.text)) else None


def _names_alike(features: PageFeatures, listed_numbers: Set[str]) -> bool:
    """Return whether the apparent own number is one of several in the same style.

    Only listed numbers of later documents count.
    """
    similar_numbers = {
        mention.number for mention in features.named if features.own is not None and mention.style == features.own.style
    }
    return len(similar_numbers & listed_numbers) >= _MIN_LISTED


def _may_begin_document(features: PageFeatures) -> bool:
    if any(place.place > 1 for place in features.places):
        return False
    return features.number is not None or (features.own is not None and features.own.style != "label")


def _words(page: Page) -> set[str]:
    """Return a page's words, normalized like document numbers."""
    return {"".join(character for character in normalize_text(word.text) if character.isalnum()) for word in page.words}


def _is_fax_cover(page: Page) -> bool:
    lines = [normalize_text(line.text) for line in page.lines()]
    labels = sum(any(pattern.search(line) for line in lines) for pattern in _FAX_LABELS)
    return labels >= _FEWEST_FAX_LABELS and any(_FAX.match(line) for line in lines)


_PRIOR = -1.5
"""Log-odds of a boundary before any evidence. Most pages of most files continue a document."""
_STRONG = 3.0
_CONTRADICTED_CONFIDENCE = 0.6
"""Confidence if strong features contradict each other."""
_COVER_CONFIDENCE = 0.95
_COUNTERPARTS_NAMED = 2
_BILLS = ("invoice", "credit_note")
_MIDDLE = 0.5
_MIN_SHARED, _MAX_REMAINING = 3, 3
"""Minimum number of lines shared by two pages, and maximum number of lines only on the second."""

_BY_STYLE = {"title": 4.5, "heading": 4.0, "label": 3.0}


@dataclass(frozen=True)
class BoundaryEvidence:
    """A feature for (positive) or against (negative) a boundary, in log-odds."""

    weight: float
    message: str


class _CurrentDocument:
    """The document that the next page may continue, with its features so far."""

    def __init__(self, first: PageFeatures) -> None:
        self.first = self.last = first
        self.count = 0
        self.own: TypeMention | None = None
        self.has_total = False
        """Whether its total has been found."""
        self.numbers: set[str] = set()
        """Own numbers found so far."""
        self.figures: set[str] = set()
        """All numbers, dates and ids found so far."""
        self.large: set[str] = set()
        """Large text found so far."""
        self.sender: set[str] = set()
        self.firms: set[str] = set()
        self.add(first)

    def add(self, page: PageFeatures) -> None:
        """Add a page."""
        self.last = page
        self.count += 1
        self.own = self.own or page.own
        self.has_total |= page.has_total
        if page.number is not None:
            self.numbers.add(page.number)
        self.figures |= page.figures
        self.large |= page.large
        self.sender |= page.sender
        self.firms |= page.firms

    @property
    def has_ended(self) -> bool:
        """Return whether its last page looks like the end of a document."""
        numbered = [place for place in self.last.places if place.count is not None]
        return self.last.has_total or (bool(numbered) and all(place.place == place.count for place in numbered))

    @property
    def is_known(self) -> bool:
        """Return whether this document's start was recognizable.

        If so, the next document's start should be too.
        """
        return self.first.own is not None or self.first.number is not None or bool(self.first.places)


def split(pages: Sequence[Page]) -> Split:
    """Split a file with at least one page into documents and covers."""
    features = [read(page) for page in pages]
    covering = cover_pages(pages, features)
    boundaries: list[Boundary] = []
    current = _CurrentDocument(features[0])
    for index in range(1, len(features)):
        next_page = features[index + 1] if index + 1 < len(features) else None
        messages = [covering[neighbor] for neighbor in (index - 1, index) if neighbor in covering]
        if messages:
            boundary = Boundary(index + 1, True, _COVER_CONFIDENCE, tuple(messages))
        else:
            boundary = _weigh_signs(index + 1, list(_signs_at(current, features[index], next_page)))
        boundaries.append(boundary)
        if boundary.is_start:
            current = _CurrentDocument(features[index])
        else:
            current.add(features[index])
    return Split(len(pages), tuple(boundaries), frozenset(index + 1 for index in covering))


def _repeats_previous(previous: PageFeatures, page: PageFeatures) -> bool:
    """Return whether a page repeats the previous page's letterhead and footer.

    The page must have hardly any other text.
    """
    return len(page.lines & previous.lines) >= _MIN_SHARED and len(page.lines - previous.lines) <= _MAX_REMAINING


def _weigh_signs(page: int, signs: Sequence[BoundaryEvidence]) -> Boundary:
    score = _PRIOR + sum(sign.weight for sign in signs)
    confidence = 1 / (1 + exp(-abs(score)))
    weights = [sign.weight for sign in signs]
    if weights and max(weights) >= _STRONG and min(weights) <= -_STRONG:
        confidence = min(confidence, _CONTRADICTED_CONFIDENCE)
    ordered = sorted(signs, key=lambda sign: -abs(sign.weight))
    return Boundary(page, score > 0, confidence, tuple(sign.message for sign in ordered))


def _signs_at(
    current: _CurrentDocument, page: PageFeatures, next_page: PageFeatures | None
) -> Iterator[BoundaryEvidence]:
    """Yield the evidence for and against a document that starts at `page`."""
    if page.words == 0:
        yield BoundaryEvidence(-_STRONG, "The page has no text.")
        return
    yield from _by_place(current, page, next_page)
    yield from _by_number(current, page)
    yield from _by_sender(current, page)
    yield from _by_layout(current, page)


# -- page numbers ---------------------------------------------------------------------------------------------------


def _by_place(
    current: _CurrentDocument, page: PageFeatures, next_page: PageFeatures | None
) -> Iterator[BoundaryEvidence]:
    previous_places, places = current.last.places, page.places
    if _continues_numbering(previous_places, places):
        yield BoundaryEvidence(-5.0, "Its page number follows the previous one.")
        return
    if any(place.place == 1 for place in places):
        yield BoundaryEvidence(5.0, "Its page number is 1.")
    elif places:
        is_expected = not previous_places and min(place.place for place in places) == current.count + 1
        strength = -4.0 if is_expected else -_STRONG
        yield BoundaryEvidence(strength, "Its page number is not 1.")
        if previous_places:
            yield BoundaryEvidence(_STRONG, "Its page number does not follow the previous one.")
    elif (
        next_page is not None
        and _is_page_two(next_page)
        and not _continues_numbering(previous_places, next_page.places)
    ):
        yield BoundaryEvidence(_STRONG, "The page after it is page 2.")
    counted = [place for place in previous_places if place.count is not None]
    if counted and all(place.place == place.count for place in counted):
        yield BoundaryEvidence(2.5, "The previous page is the last one of its document, by its page number.")
    elif counted and not places and all(place.place != place.count for place in counted):
        yield BoundaryEvidence(-2.5, "By its page number, the page before is not the last one of its document.")


def _is_page_two(page: PageFeatures) -> bool:
    return any(place.place == 2 for place in page.places)


def _continues_numbering(previous_places: Sequence[PagePlace], places: Sequence[PagePlace]) -> bool:
    return any(
        place.place == earlier.place + 1 and place.count == earlier.count
        for earlier in previous_places
        for place in places
    )


# -- numbers and kinds ----------------------------------------------------------------------------------------------


def _by_number(current: _CurrentDocument, page: PageFeatures) -> Iterator[BoundaryEvidence]:
    mention, current_mention = page.own, current.own
    if mention is None:
        yield from _by_generic_number(current, page)
    elif current_mention is not None and mention.kind != current_mention.kind:
        yield from _by_kind(current_mention, mention, page)
    elif mention.number is None:
        if mention.style == "title" or (mention.style == "heading" and current.has_ended):
            yield BoundaryEvidence(
                2.0 if mention.style == "title" else 1.0, f"It is headed as {_with_article(mention)}."
            )
    elif not current.numbers:
        yield BoundaryEvidence(
            _strength(mention) / 2,
            f"It states the number of {_with_article(mention)}, and the current document has none so far.",
        )
    elif mention.number in current.numbers:
        # After the current document has ended, the same number may be on a copy, or on another company's document.
        yield BoundaryEvidence(-2.0 if current.has_ended else -4.5, "It states the number of the current document.")
    elif any(other.kind == mention.kind and other.number in current.numbers for other in page.named):
        yield BoundaryEvidence(-_STRONG, "It states the number of the current document, and another one.")
    else:
        yield BoundaryEvidence(
            _strength(mention), f"It states another number of {_with_article(mention)} than the current document."
        )


def _by_generic_number(current: _CurrentDocument, page: PageFeatures) -> Iterator[BoundaryEvidence]:
    if page.unnamed is None or not current.numbers:
        return
    if page.unnamed in current.numbers:
        yield BoundaryEvidence(-4.0, "It states the number of the current document.")
    else:
        yield BoundaryEvidence(2.0, "It states another number.")


def _by_kind(current_mention: TypeMention, mention: TypeMention, page: PageFeatures) -> Iterator[BoundaryEvidence]:
    """Compare a page's type with the current document's and with cited types.

    Later pages of an invoice name its order and its delivery notes, even on separate lines. An order does not name
    invoices. The stages of a purchase distinguish these cases.
    """
    if mention.style == "title" or mention.stage > current_mention.stage:
        if mention.style != "label" or not _is_counterpart(mention, page):
            yield BoundaryEvidence(
                _strength(mention),
                f"It is {_with_article(mention)}, and the current document is {_with_article(current_mention)}.",
            )
    elif mention.style == "heading" and mention.above <= _MIDDLE:
        yield BoundaryEvidence(
            1.5 if page.head_labels > 1 else 0.5,
            f"It names {_with_article(mention)}, as {_with_article(current_mention)} may do.",
        )


def _strength(mention: TypeMention) -> float:
    return _BY_STYLE[mention.style] * (1.0 if mention.above <= _MIDDLE else 0.4)


def _is_counterpart(mention: TypeMention, page: PageFeatures) -> bool:
    """Return whether a page names more than two types in the same style.

    These types are then references.
    """
    kinds = {other.kind for other in page.named if other.style == mention.style} | {mention.kind}
    return len(kinds) > _COUNTERPARTS_NAMED


def _with_article(mention: TypeMention) -> str:
    name = mention.kind.replace("_", " ")
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _is_named(current: _CurrentDocument, page: PageFeatures) -> bool:
    """Return whether a page states its own type or number, and not only a reference."""
    if page.own is None or current.own is None:
        return page.number is not None or page.own is not None
    return page.own.style != "label" or page.own.stage >= current.own.stage


# -- sender and layout ----------------------------------------------------------------------------------------------


def _by_sender(current: _CurrentDocument, page: PageFeatures) -> Iterator[BoundaryEvidence]:
    if page.sender and current.sender and not page.sender & current.sender:
        yield BoundaryEvidence(_STRONG, "Header and footer have other VAT ids and accounts.")
    if page.firms and current.firms and not page.firms & current.firms:
        yield BoundaryEvidence(2.0, "The header names another company.")
    earlier = current.last.header
    if current.count > 1 and page.header == current.first.header != earlier and page.header:
        yield BoundaryEvidence(1.5, "The header is again that of the first page.")


def _by_layout(current: _CurrentDocument, page: PageFeatures) -> Iterator[BoundaryEvidence]:
    if page.carries_in or current.last.carries_out:
        yield BoundaryEvidence(-4.0, "Something is carried on from the page before.")
    if page.is_annex:
        yield BoundaryEvidence(-_STRONG, "It is headed as an annex or as terms and conditions.")
    is_named = _is_named(current, page) or bool(page.places)
    head = page.head if is_named else [figures for figures in page.head if not figures & current.figures]
    if len(head) > 1:
        weight, amount = (2.8, "the") if len(head) > 2 else (1.5, "some of the")
        yield BoundaryEvidence(weight, f"It has {amount} head of a first page.")
    if current.is_known and not (is_named or head) and _repeats_previous(current.last, page):
        yield BoundaryEvidence(-2.0, "It repeats the previous page, apart from a few lines.")
    if current.is_known and not is_named:
        is_headed = not page.large <= current.large
        if not page.head and not is_headed:
            yield BoundaryEvidence(-_STRONG, "It has no feature of a first page.")
        else:
            weight = -0.5 if is_headed else -1.0 if len(head) > 1 else -1.5 if current.has_ended else -2.0
            yield BoundaryEvidence(weight, "It has no number and names no document type.")
    if current.last.has_total:
        yield BoundaryEvidence(1.2, "The previous page ends with a total.")
    elif not is_named and current.own and current.own.kind in _BILLS and not current.has_total:
        yield BoundaryEvidence(-1.0, "The current invoice has no total yet.")
