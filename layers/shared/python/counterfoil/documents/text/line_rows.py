"""Rows of a page, and what a line of goods takes of them. Pure."""

import re
from dataclasses import dataclass, field
from functools import cached_property

from counterfoil.documents.text.line_columns import Heading
from counterfoil.documents.text.line_numbers import Token
from counterfoil.documents.text.line_vocabulary import Kind, is_carried, is_section, is_tax_name, is_total

_LONGEST_LABEL = 200
_FEWEST = 3
_APART = 2.0
"""Words of a row that ends in a sum with something to the left; of the text's height, the blank between both."""


@dataclass(frozen=True)
class Row:
    """A row of words on a page; pages count from 1."""

    page: int
    tokens: tuple[Token, ...]

    @cached_property
    def top(self) -> float:
        """Where its tallest word begins."""
        return min(token.top for token in self.tokens)

    @cached_property
    def bottom(self) -> float:
        """Where its deepest word ends."""
        return max(token.bottom for token in self.tokens)

    @cached_property
    def height(self) -> float:
        """The height of its first word."""
        return max(self.tokens[0].bottom - self.tokens[0].top, 1.0)

    @cached_property
    def label(self) -> str:
        """Its words before the first number, as many as a label has."""
        words: list[str] = []
        for token in self.tokens:
            if token.value is not None and words:
                break
            words.append(token.text)
        return " ".join(words)[:_LONGEST_LABEL]

    @cached_property
    def last_label(self) -> str:
        """The words right before the number that ends it, and a wide blank before them; "" if there are none."""
        if self.tokens[-1].value is None or len(self.tokens) < _FEWEST:
            return ""
        run: list[Token] = []
        for token in reversed(self.tokens[:-1]):
            if run and run[-1].left - token.right > _APART * self.height:
                return " ".join(word.text for word in reversed(run))[:_LONGEST_LABEL]
            if token.value is not None:
                break
            run.append(token)
        return ""


@dataclass(frozen=True)
class Stretch:
    """What a table takes of one page: its heading there, and the rows below it."""

    page: int
    heading: Heading
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Piece:
    """Words of one row within one cell."""

    page: int
    tokens: tuple[Token, ...]

    @property
    def text(self) -> str:
        """The words with one blank between."""
        return " ".join(token.text for token in self.tokens)

    @property
    def top(self) -> float:
        """Where the row begins."""
        return min(token.top for token in self.tokens)

    @property
    def bottom(self) -> float:
        """Where the row ends."""
        return max(token.bottom for token in self.tokens)


@dataclass
class RawLine:
    """A line as its words: the numbers by what they are, and the words of each column's cell, top to bottom.

    `beside_quantity` is the word after its quantity, or before, whatever column it stands in. `closed` lines stand
    below a sum, where only arithmetic can show that they are lines.
    """

    page: int
    top: float
    values: dict[Kind, Token]
    cells: dict[int, list[Piece]] = field(default_factory=dict)
    beside_quantity: str = ""
    closed: bool = False

    def add(self, column: int, piece: Piece) -> None:
        """Put words into a column's cell."""
        self.cells.setdefault(column, []).append(piece)


def is_end(row: Row) -> bool:
    """Tell whether a row is a sum, or begins what follows a table."""
    label = row.label
    return (is_total(label) and not is_carried(label) and _states_number(row)) or is_section(label) or is_sum_aside(row)


def _states_number(row: Row) -> bool:
    return any(token.value is not None for token in row.tokens)


def is_aside(row: Row) -> bool:
    """Tell whether a row is no line: a sum, a carried sum, a section's title."""
    label = row.label
    return is_total(label) or is_carried(label) or is_section(label) or is_sum_aside(row)


def is_sum_aside(row: Row) -> bool:
    """Tell whether a row ends in a sum, with a table of taxes or a text of terms to the left of its label."""
    label = row.last_label
    is_sum = bool(label) and is_total(label) and not is_carried(label) and not is_tax_name(label)
    return is_sum and not is_position(row.tokens[0].text)


def is_position(text: str) -> bool:
    """Tell whether a word can be a line's position: `1`, `010`, `2.1`, `A3`."""
    return re.fullmatch(r"(?:[A-Z]?\d{1,5}|0\d{5})(?:[.-]\d{1,4})*[.)]?", text) is not None
