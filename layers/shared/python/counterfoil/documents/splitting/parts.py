"""What a file falls into: ranges of pages, and how sure each boundary is."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

SURE = 0.9
"""The least confidence with which a boundary, or its absence, is acted upon."""

Kind = Literal["document", "cover"]
"""A cover belongs to no document: a separator sheet, a fax cover, a list of what follows. It is a part of its own, so
that no page is lost, and no document has a page that tells of others."""


class PageRange(NamedTuple):
    """The pages of one part, both ends included, counted from 1."""

    first: int
    last: int


@dataclass(frozen=True)
class Part:
    """Pages that belong together."""

    pages: PageRange
    kind: Kind = "document"


@dataclass(frozen=True)
class Boundary:
    """What is known of the place before a page: whether a part begins there."""

    page: int
    """2 to the number of pages."""
    begins: bool
    confidence: float
    """Of `begins` being right, 0.5 to 1."""
    evidence: tuple[str, ...] = ()
    """A sentence for each thing that speaks for or against a beginning, the weightiest first."""

    @property
    def is_sure(self) -> bool:
        """Whether it can be acted upon."""
        return self.confidence >= SURE


@dataclass(frozen=True)
class Split:
    """What a file falls into. Where a single boundary is not sure, nothing is taken apart: it is one part, whole."""

    page_count: int
    boundaries: tuple[Boundary, ...] = ()
    """One for each page but the first."""
    covers: frozenset[int] = frozenset()
    """Pages that are covers."""

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts, which cover the whole file in order; one where there is any doubt."""
        return self.proposed if self.is_sure else (Part(PageRange(1, self.page_count)),)

    @cached_property
    def proposed(self) -> tuple[Part, ...]:
        """The parts that the evidence favours, however little."""
        return tuple(self._proposed())

    @property
    def ranges(self) -> list[PageRange]:
        """The pages of the parts."""
        return [part.pages for part in self.parts]

    @property
    def confidence(self) -> float:
        """That of the least sure boundary; 1 for a single page."""
        return min((boundary.confidence for boundary in self.boundaries), default=1.0)

    @property
    def is_sure(self) -> bool:
        """Whether every boundary is."""
        return not self.doubts

    @property
    def doubts(self) -> tuple[Boundary, ...]:
        """The boundaries that are not sure."""
        return tuple(boundary for boundary in self.boundaries if not boundary.is_sure)

    @property
    def doubt(self) -> str | None:
        """Why the file stays whole, for a person: a sentence or two; None where everything is sure."""
        if self.is_sure:
            return None
        pages = [boundary.page for boundary in self.doubts]
        least = min(self.doubts, key=lambda boundary: boundary.confidence)
        why = f" At page {least.page}: {' '.join(least.evidence)}" if least.evidence else ""
        return (
            f"The file may hold several documents, and it cannot be told whether one begins with {_pages(pages)}; it "
            f"stays whole. Send its documents as files of their own.{why}"
        )

    @property
    def told(self) -> str:
        """What it was taken apart into, in a sentence."""
        covers = sum(part.kind == "cover" for part in self.parts)
        documents = len(self.parts) - covers
        beside = {0: "", 1: " and a cover page"}.get(covers, f" and {covers} cover pages")
        return f"The file holds {documents} document{'s' * (documents != 1)}{beside}, which were taken apart."

    def settled(self, decisions: Mapping[int, Boundary]) -> "Split":
        """The same with other boundaries in the places of the doubtful ones; what is sure stays as it is."""
        kept = (
            boundary if boundary.is_sure else decisions.get(boundary.page, boundary) for boundary in self.boundaries
        )
        return replace(self, boundaries=tuple(kept))

    def _proposed(self) -> Iterator[Part]:
        begins = [1, *(boundary.page for boundary in self.boundaries if boundary.begins)]
        ends = [page - 1 for page in begins[1:]] + [self.page_count]
        for first, last in zip(begins, ends, strict=True):
            yield Part(PageRange(first, last), "cover" if first in self.covers else "document")


_NAMED = 5


def _pages(numbers: Iterable[int]) -> str:
    named = list(numbers)
    shown = ", ".join(map(str, named[:_NAMED]))
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"page {shown}" if len(named) == 1 else f"pages {shown}{more}"
