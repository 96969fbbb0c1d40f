"""The lines of pages taken apart into cells, and the neighbours of a cell. Pure.

Words with a blank between are one cell; a wider gap separates a label from its value, and a column from the next.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from counterfoil.documents.lexicon.folding import fold_letters
from counterfoil.documents.text.page import Line, Page, Word

_GAP_BETWEEN_CELLS = 0.9  # of the height of the text: three blanks or more
_REACH_BELOW = 2.2  # heights of the text from a label to the value below it


@dataclass(frozen=True, eq=False)
class Cell:
    """Words that stand together on a line; the page counts from 1, the line from 0 on its page."""

    words: tuple[Word, ...]
    page: int
    line: int

    @cached_property
    def text(self) -> str:
        """The words with one blank between."""
        return " ".join(word.text for word in self.words)

    @cached_property
    def left(self) -> float:
        """Where it begins."""
        return self.words[0].left

    @cached_property
    def right(self) -> float:
        """Where it ends."""
        return max(word.right for word in self.words)

    @cached_property
    def top(self) -> float:
        """Its upper edge."""
        return min(word.top for word in self.words)

    @cached_property
    def bottom(self) -> float:
        """Its lower edge."""
        return max(word.bottom for word in self.words)

    @property
    def height(self) -> float:
        """How tall its text is, in points."""
        return self.bottom - self.top

    @cached_property
    def plain(self) -> str:
        """Its folded text, as long as the text."""
        return fold_letters(self.text)


class Layout:
    """All cells of a document, in lines, with a look to the right of a cell and below it."""

    def __init__(self, pages: Sequence[Page]) -> None:
        self.pages = pages
        self.lines: list[list[Cell]] = []
        self._line_of: dict[tuple[int, int], list[Cell]] = {}
        for number, page in enumerate(pages, 1):
            for index, line in enumerate(page.lines()):
                cells = list(_cells(line, number, index))
                self.lines.append(cells)
                self._line_of[number, index] = cells

    @cached_property
    def cells(self) -> list[Cell]:
        """Every cell, line by line."""
        return [cell for line in self.lines for cell in line]

    @cached_property
    def _pages(self) -> dict[int, list[Cell]]:
        cells: dict[int, list[Cell]] = {}
        for cell in self.cells:
            cells.setdefault(cell.page, []).append(cell)
        return cells

    def over(self, cell: Cell, distance: float) -> list[Cell]:
        """The cells of the same page that end above the middle of a cell and within a distance in points, downwards."""
        limit, middle = cell.top - distance, (cell.top + cell.bottom) / 2
        return [other for other in self._pages[cell.page] if limit <= other.bottom <= middle]

    def line(self, cell: Cell) -> list[Cell]:
        """The cells of the line that a cell stands on, left to right."""
        return self._line_of[cell.page, cell.line]

    def right_of(self, cell: Cell) -> Cell | None:
        """The next cell on the same line; a colon that stands alone is passed over."""
        line = self.line(cell)
        following = line[line.index(cell) + 1 :]
        return following[0] if following else None

    def left_of(self, cell: Cell) -> list[Cell]:
        """The cells before this one on its line."""
        line = self.line(cell)
        return line[: line.index(cell)]

    def below(self, cell: Cell) -> Cell | None:
        """The nearest cell below that begins under this one or spans it, within two lines' distance."""
        limit = cell.bottom + _REACH_BELOW * cell.height
        index = cell.line + 1
        while (line := self._line_of.get((cell.page, index))) is not None:
            index += 1
            for other in line:
                if other.top > limit:
                    return None
                if other.left < cell.right and other.right > cell.left and other.top >= cell.top + cell.height / 2:
                    return other
        return None

    def under(self, cell: Cell) -> Iterator[Cell]:
        """All cells of the same page below this one that begin at its left edge or overlap its width, downwards."""
        index = cell.line + 1
        while (line := self._line_of.get((cell.page, index))) is not None:
            index += 1
            yield from (other for other in line if other.left < cell.right and other.right > cell.left)


def _cells(line: Line, page: int, index: int) -> Iterator[Cell]:
    group: list[Word] = []
    for word in line.words:
        if group and word.left - group[-1].right > _GAP_BETWEEN_CELLS * min(
            word.bottom - word.top, group[-1].bottom - group[-1].top
        ):
            yield Cell(tuple(group), page, index)
            group = []
        group.append(word)
    if group:
        yield Cell(tuple(group), page, index)
