"""Splits lines into cells, and finds neighboring cells and labeled values. Pure.

Words separated by single spaces form a cell. A wider gap separates a label from its value, or two columns. The value of
a label follows in the same cell, in the next cell on the line, or directly below.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from counterfoil.documents.lexicon import READER
from counterfoil.documents.lexicon.folding import fold_letters
from counterfoil.documents.text.page import Line, Page, Word
from counterfoil.documents.text.table_headings import Kind, heading_kinds

_GAP_BETWEEN_CELLS = 0.9  # minimum gap in text heights: about three spaces
_REACH_BELOW = 2.2  # maximum distance from a label to the value below it, in text heights


@dataclass(frozen=True, eq=False)
class Cell:
    """Adjacent words on a line. Pages count from 1, and lines on a page from 0."""

    words: tuple[Word, ...]
    page: int
    line: int

    @cached_property
    def text(self) -> str:
        """The words, separated by single spaces."""
        return " ".join(word.text for word in self.words)

    @cached_property
    def left(self) -> float:
        """Left edge, in points."""
        return self.words[0].left

    @cached_property
    def right(self) -> float:
        """Right edge, in points."""
        return max(word.right for word in self.words)

    @cached_property
    def top(self) -> float:
        """Top edge, in points."""
        return min(word.top for word in self.words)

    @cached_property
    def bottom(self) -> float:
        """Bottom edge, in points."""
        return max(word.bottom for word in self.words)

    @property
    def height(self) -> float:
        """Height of the text, in points."""
        return self.bottom - self.top

    @cached_property
    def plain(self) -> str:
        """Text after `fold_letters`, which keeps its length."""
        return fold_letters(self.text)


class Layout:
    """A document's cells by line, with access to their neighbors."""

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
        """All cells, line by line."""
        return [cell for line in self.lines for cell in line]

    @cached_property
    def _pages(self) -> dict[int, list[Cell]]:
        cells: dict[int, list[Cell]] = {}
        for cell in self.cells:
            cells.setdefault(cell.page, []).append(cell)
        return cells

    def over(self, cell: Cell, distance: float) -> list[Cell]:
        """Return the cells above a cell, from top to bottom.

        Their bottom edges are at most `distance` points above the cell's top edge and not below the cell's middle.
        """
        limit, middle = cell.top - distance, (cell.top + cell.bottom) / 2
        return [other for other in self._pages[cell.page] if limit <= other.bottom <= middle]

    def line(self, cell: Cell) -> list[Cell]:
        """Return all cells on a cell's line, left to right."""
        return self._line_of[cell.page, cell.line]

    def right_of(self, cell: Cell) -> Cell | None:
        """Return the next cell on the same line, or None."""
        line = self.line(cell)
        following = line[line.index(cell) + 1 :]
        return following[0] if following else None

    def left_of(self, cell: Cell) -> list[Cell]:
        """Return the cells to the left on the same line."""
        line = self.line(cell)
        return line[: line.index(cell)]

    def below(self, cell: Cell) -> Cell | None:
        """Return the nearest horizontally overlapping cell, at most two lines below."""
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
        """Yield the cells below that overlap this one horizontally, top to bottom.

        Only cells on the same page are included.
        """
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


Place = Literal["behind", "right", "below"]

_CONFIDENCE = {"behind": 0.95, "right": 0.95, "below": 0.85}
_FEWEST_IN_A_ROW = 3
BUYER_LABEL = re.compile(
    rf"^(?:{READER.alternatives('labels.yours_before')})\b|\b(?:{READER.alternatives('labels.yours_behind')})\W*$"
)
"""Words that mark an adjacent number as the buyer's."""
SUPPLIER_LABEL = re.compile(rf"^\W*(?:{READER.alternatives('labels.ours')})\b")
"""Words that mark the order number after them as the supplier's own."""
_COLUMN_KINDS = frozenset({Kind.QUANTITY, Kind.PRICE, Kind.NET})
_ONLY_MARKS = re.compile(r"[\s.:#)\-]*")
_MARKS_BEFORE = re.compile(
    r"[\s.*•:(\-]*(?:(?:ihre?r?|unsere?r?|your|our|votre|vos|notre|nos|v/|vs|ns|vostr[oa]|nostr[oa]|su|nuestr[oa]|uw|onze"
    r"|jeres|deres|vores)\b\.?\s*)?"
)
_WITH_DATE = re.compile(r"[\s.]*[/,|]\s*(?:vom|datum|date|data|fecha|dato)\b[\s.:]*$")
"""End of a label for a number that is followed by a date: `Rechnungs-Nr./Datum`."""
NUMBER_WORD = re.compile(rf"\s*(?<![a-z0-9])(?:{READER.alternatives('labels.number_word')})(?![a-z])[\s.:#]*")
TRANSLATION_SEPARATOR = re.compile(r"[\s.:]*[/|]\s*")
"""Separator between a label and its translation."""
_OTHER_LABEL = re.compile(r".*\S(?:\s+[-\u2013|\u00b7\u2022]|;)\s+")
"""Text before a label that is not at the start of its cell: `30 days net - Due date: 1 March`."""
_WORD_CONTINUES = re.compile(r"[-/_]\w")


@dataclass(frozen=True)
class LabeledValue:
    """A value, the cell of its label and the cell of the value itself."""

    value: str
    confidence: float
    label: Cell
    cell: Cell


def find(
    layout: Layout,
    label: "re.Pattern[str]",
    parse: Callable[[str], tuple[str, float] | None],
    *,
    anywhere: bool = False,
    below: bool = True,
) -> Iterator[LabeledValue]:
    """Yield the values that `parse` reads beside each label, page by page.

    A label must start its cell, unless `anywhere` is true. `below` also permits a value below its label. `parse`
    receives the text after the label or a neighboring cell's text. It returns the value and a confidence from 0 to 1 in
    its format, or None.
    """
    for cell in layout.cells:
        for match in label.finditer(cell.plain):
            if not anywhere and not starts_at(cell, match.start()):
                continue
            if _WORD_CONTINUES.match(cell.text, match.end()) and not _WITH_DATE.match(cell.plain, match.end()):
                continue  # part of a longer word, or the first letters of a number
            end = label_end(label, cell, match.end())
            allows_below = _may_be_above_value(
                layout, cell, below=below or _WITH_DATE.match(cell.plain, end) is not None
            )
            labeled = _value_beside(layout, cell, end, parse, below=allows_below)
            if labeled is not None:
                yield labeled
                break


def label_end(label: "re.Pattern[str]", cell: Cell, end: int) -> int:
    """Return the end of a label, including its translation: `Datum / Date`."""
    while (mark := TRANSLATION_SEPARATOR.match(cell.plain, end)) and (
        translation := label.match(cell.plain, mark.end())
    ):
        end = translation.end()
    return end


def starts_at(cell: Cell, start: int) -> bool:
    """Return whether a label at a position can start a cell.

    Only punctuation, a possessive, or another text that ends in a separator may precede the label.
    """
    prefix = cell.plain[:start]
    return _MARKS_BEFORE.fullmatch(prefix) is not None or _OTHER_LABEL.fullmatch(prefix) is not None


def _may_be_above_value(layout: Layout, cell: Cell, *, below: bool) -> bool:
    """Return whether a label's value may be below it.

    `below` permits that for labels that are not column headers.
    """
    return (below and not is_line_item_header(layout, cell)) or is_column_header(layout, cell)


def is_column_header(layout: Layout, cell: Cell) -> bool:
    """Return whether a cell is in a row of labels, most of them above a value.

    The row must have at least three labels, without digits. The heading of a line item table does not count.
    """
    row = layout.line(cell)
    if len(row) < _FEWEST_IN_A_ROW or any(letter.isdigit() for other in row for letter in other.text):
        return False
    if is_line_item_header(layout, cell):
        return False
    return 2 * sum(1 for other in row if layout.below(other) is not None) > len(row)


def is_line_item_header(layout: Layout, cell: Cell) -> bool:
    """Return whether a cell is in the heading of a line item table."""
    kinds = {kind for other in layout.line(cell) for kind in heading_kinds(other.text)}
    return Kind.DESCRIPTION in kinds and not _COLUMN_KINDS.isdisjoint(kinds)


def _value_beside(
    layout: Layout, cell: Cell, end: int, parse: Callable[[str], tuple[str, float] | None], *, below: bool
) -> LabeledValue | None:
    if number_word := NUMBER_WORD.match(cell.plain, end):
        end = number_word.end()
    if with_date := _WITH_DATE.match(cell.plain, end):
        end = with_date.end()
    rest = cell.text[end:]
    if not _ONLY_MARKS.fullmatch(rest):
        parsed = parse(rest)
        return None if parsed is None else LabeledValue(parsed[0], parsed[1] * _CONFIDENCE["behind"], cell, cell)
    right = layout.right_of(cell)
    if right is not None and _ONLY_MARKS.fullmatch(right.text):
        right = layout.right_of(right)
        if right is None:
            return None  # a label with a colon but no value
    if right is not None and (parsed := parse(right.text)) is not None:
        return LabeledValue(parsed[0], parsed[1] * _CONFIDENCE["right"], cell, right)
    under = layout.below(cell) if below else None
    if under is not None and (parsed := parse(under.text)) is not None:
        return LabeledValue(parsed[0], parsed[1] * _CONFIDENCE["below"], cell, under)
    return None
