"""Numbers, rows and cells of line item tables. Pure.

`1.234,56`, `1,234.56`, `1 234,56` and `1'234.56` are the same amount; `1.234` alone is ambiguous. Unambiguous numbers
decide the decimal mark for the whole document. If a document has only ambiguous numbers, its language decides, because
a delivery note may contain only whole quantities. If the language is unclear too, only whole numbers without marks are
read.

Each amount below an amount heading starts a line item, together with the numbers beside it. Other words belong to the
nearest line item above them, and to the column in which they start. Cells may therefore have several rows, rows may be
vertically centered, and line items may continue on the next page.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

from counterfoil.documents.lexicon import READER
from counterfoil.documents.lexicon.folding import fold_letters
from counterfoil.documents.text.page import Word
from counterfoil.documents.text.table_headings import (
    NUMERIC_KINDS,
    TEXT_KINDS,
    Column,
    Heading,
    Kind,
    is_carried,
    is_section,
    is_tax_name,
    is_total,
)

_SIGNS = "-\N{MINUS SIGN}\N{EN DASH}"
_APOSTROPHES = "'\N{RIGHT SINGLE QUOTATION MARK}\N{MODIFIER LETTER APOSTROPHE}`"
_MAX_DIGITS = 15
_BLANK_IN_NUMBER = 0.58
"""Maximum width of a space within a number, in text heights. Columns are further apart."""

_CURRENCY = r"(?:€|£|\$|EUR|CHF|GBP|USD|DKK|SEK|NOK|PLN|CZK|HUF|DEM|US\$|[Kk]r\.?|Fr\.|SFr\.?)"
_PRINTED = re.compile(
    rf"(?P<before>{_CURRENCY})?(?P<sign>[{_SIGNS}+])?(?P<digits>\d[\d.,{_APOSTROPHES}]*)"
    rf"(?P<trailing>[{_SIGNS}])?(?P<percent>%)?(?P<after>{_CURRENCY})?(?P<stop>[;:])?"
)
_CURRENCY_WORD = re.compile(rf"{_CURRENCY}|Euros?")
_GROUPED_BEFORE_COMMA = re.compile(rf"\d{{1,3}}(?:[.{_APOSTROPHES}]\d{{3}})+,\d+")
_GROUPED_BEFORE_DOT = re.compile(rf"\d{{1,3}}(?:[,{_APOSTROPHES}]\d{{3}})+\.\d+")
_PRICE_AND_BASIS = re.compile(r"(\d[\d.,]*[.,]\d{2,4})(/(?:1|10|100|1000)[^\W\d]{0,3}\.?)")
_TWO_GROUPS = re.compile(r"\d{1,3}(?:([.,])\d{3})(?:\1\d{3})+")
_FRACTION = re.compile(r"(?:\d{1,4}([.,])(?:\d{1,2}|\d{4,})|0([.,])\d+)")
_LONG_FRACTION = re.compile(r"\d{5,}([.,])\d{1,2}")
_ONE_GROUP = re.compile(r"[1-9]\d{0,2}([.,])\d{3}")
_SURE = 5
"""Votes of a number with both marks. A number with one mark has one vote, because it may be a date or a time."""

_COMMA_WORDS = frozenset(READER.terms("languages.decimal_comma"))
_DOT_WORDS = frozenset(READER.terms("languages.decimal_dot"))
_SWISS = re.compile(r"CHF|CHE-?\d.*|Schweiz|Suisse|Svizzera|Switzerland")
"""Words of Swiss documents, which use a decimal point in German, French and Italian too."""

Mark = Literal[",", "."]


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """A document's decimal mark and digit grouping.

    `mark` is None if the decimal mark is unknown. `blanks_group` is true if spaces group digits. `by_language` is true
    if the mark was derived from the document's language.
    """

    mark: Mark | None
    blanks_group: bool
    by_language: bool = False


class Token(NamedTuple):
    """A word, or several words that form one number, with its box in points.

    `value` is None for words and for ambiguous numbers, which have two interpretations.
    """

    text: str
    left: float
    top: float
    right: float
    bottom: float
    value: Decimal | None = None
    is_percent: bool = False
    is_ambiguous: bool = False

    @property
    def middle(self) -> float:
        """Vertical middle on the page, in points."""
        return (self.top + self.bottom) / 2


def number_format(words: Iterable[Word]) -> NumberFormat:
    """Derive the number format from all words of a document."""
    votes: Counter[Mark] = Counter()
    weak_votes: Counter[Mark] = Counter()
    groups: Counter[str] = Counter()
    ambiguous_groups: Counter[str] = Counter()
    texts = [word.text for word in words]
    for text in texts:
        match = _PRINTED.fullmatch(text)
        if match is None:
            continue
        digits = match["digits"].rstrip(".,")
        if _GROUPED_BEFORE_COMMA.fullmatch(digits):
            votes[","] += _SURE
            groups["."] += 1
        elif _GROUPED_BEFORE_DOT.fullmatch(digits):
            votes["."] += _SURE
            groups[","] += 1
        elif two_groups := _TWO_GROUPS.fullmatch(digits):
            votes["," if two_groups[1] == "." else "."] += 1
            groups[two_groups[1]] += 1
        elif fraction := _FRACTION.fullmatch(digits):
            votes["," if "," in fraction[0] else "."] += 1
        elif fraction := _LONG_FRACTION.fullmatch(digits):
            weak_votes["," if "," in fraction[0] else "."] += 1  # may be an article number as well
        elif one_group := _ONE_GROUP.fullmatch(digits):
            ambiguous_groups[one_group[1]] += 1
    mark = _winner(votes)
    if mark is not None or votes:
        return NumberFormat(mark, not groups)
    language_mark = _mark_of_language(texts, ambiguous_groups)
    return NumberFormat(language_mark or _winner(weak_votes), not groups, by_language=language_mark is not None)


def _winner(votes: "Counter[Mark]") -> Mark | None:
    ranked = votes.most_common(2)
    is_decided = len(ranked) == 1 or (len(ranked) == 2 and ranked[0][1] > ranked[1][1])
    return ranked[0][0] if is_decided else None


def _mark_of_language(texts: Iterable[str], ambiguous_groups: "Counter[str]") -> Mark | None:
    """Return the decimal mark of a document's language; None if unclear.

    It is unclear in Swiss documents, and in English documents with numbers such as `1.234`.
    """
    commas = dots = 0
    for text in texts:
        if _SWISS.fullmatch(text):
            return None
        word = fold_letters(text).strip(".:,;()")
        commas += word in _COMMA_WORDS
        dots += word in _DOT_WORDS
    if commas > 2 * dots:
        return ","
    return "." if dots > 2 * commas and not ambiguous_groups["."] else None


def parse_number(text: str, form: NumberFormat) -> Decimal | None:
    """Return the value of a number, or None if the text is not a number.

    The number may have a sign, a currency or a percent sign.
    """
    match = _PRINTED.fullmatch(text.removesuffix(","))
    if match is None or match["stop"]:
        return None
    number = _parse_unsigned(match["digits"], form)
    if number is None:
        return None
    is_negative = match["sign"] not in {None, "+"} or match["trailing"] is not None
    return -number if is_negative else number


def _parse_unsigned(digits: str, form: NumberFormat) -> Decimal | None:
    if sum(map(str.isdigit, digits)) > _MAX_DIGITS:
        return None
    mark = form.mark
    if mark is None:
        return Decimal(digits) if digits.isdecimal() and digits.isascii() else None
    group = "." if mark == "," else ","
    integer, _, fraction = digits.partition(mark)
    parts = re.split(rf"[{re.escape(group)}{_APOSTROPHES} ]", integer)
    is_grouped = 1 <= len(parts[0]) <= 3 and all(len(part) == 3 for part in parts[1:])
    if (len(parts) > 1 and not is_grouped) or not "".join(parts).isascii() or not "".join(parts).isdecimal():
        return None
    if mark in digits and not (fraction.isdecimal() and fraction.isascii()):
        return None
    return Decimal("".join(parts) + (f".{fraction}" if fraction else ""))


def read_tokens(words: Sequence[Word], form: NumberFormat) -> list[Token]:
    """Return a line's words from left to right, with parsed numbers.

    The currencies of numbers are omitted.
    """
    tokens: list[Token] = []
    for word in _split_prices(words):
        previous = tokens[-1] if tokens else None
        if word.text == "%" and previous is not None and previous.value is not None:
            tokens[-1] = previous._replace(text=f"{previous.text} %", right=word.right, is_percent=True)
        elif form.blanks_group and previous is not None and _continues(previous, word):
            text = f"{previous.text} {word.text}"
            number = parse_number(text.replace(" ", ""), form)
            tokens[-1] = Token(text, previous.left, previous.top, word.right, word.bottom, number)
        else:
            number = parse_number(word.text, form)
            is_ambiguous = number is None and form.mark is None and _ONE_GROUP.fullmatch(word.text) is not None
            tokens.append(Token(*word, number, number is not None and "%" in word.text, is_ambiguous))
    return _without_currencies(tokens)


def _split_prices(words: Iterable[Word]) -> Iterator[Word]:
    """Yield the words, with prices such as `10,03/100` split into price and basis."""
    for word in words:
        match = _PRICE_AND_BASIS.fullmatch(word.text)
        if match is None:
            yield word
            continue
        middle = word.left + (word.right - word.left) * len(match[1]) / len(word.text)
        yield Word(match[1], word.left, word.top, middle, word.bottom)
        yield Word(match[2], middle, word.top, word.right, word.bottom)


def _continues(previous: Token, word: Word) -> bool:
    """Return whether a word continues a number with digits grouped by spaces.

    It contains the next three digits.
    """
    if word.left - previous.right > _BLANK_IN_NUMBER * (word.bottom - word.top) or word.left < previous.right - 1:
        return False
    starts_group = re.fullmatch(rf"[{_SIGNS}]?[1-9]\d{{0,2}}(?: \d{{3}}){{0,3}}", previous.text)
    return starts_group is not None and re.fullmatch(r"\d{3}(?:[.,]\d+)?", word.text) is not None


def _without_currencies(tokens: Sequence[Token]) -> list[Token]:
    remaining = []
    for index, token in enumerate(tokens):
        neighbors = [tokens[other] for other in (index - 1, index + 1) if 0 <= other < len(tokens)]
        if _CURRENCY_WORD.fullmatch(token.text) and any(other.value is not None for other in neighbors):
            continue
        remaining.append(token)
    return remaining


_LONGEST_LABEL = 200
_MIN_WORDS = 3
_RUN_GAP = 2.0
"""Minimum number of words in a row that ends in a labeled sum, and the minimum gap before the label in text heights.
"""


@dataclass(frozen=True)
class Row:
    """A row of words on a page. Pages count from 1."""

    page: int
    tokens: tuple[Token, ...]

    @cached_property
    def top(self) -> float:
        """Top edge of the highest word, in points."""
        return min(token.top for token in self.tokens)

    @cached_property
    def bottom(self) -> float:
        """Bottom edge of the lowest word, in points."""
        return max(token.bottom for token in self.tokens)

    @cached_property
    def height(self) -> float:
        """Height of the first word, in points."""
        return max(self.tokens[0].bottom - self.tokens[0].top, 1.0)

    @cached_property
    def label(self) -> str:
        """Words before the first number, truncated to 200 characters.

        A number at the start of the row counts as a word.
        """
        words: list[str] = []
        for token in self.tokens:
            if token.value is not None and words:
                break
            words.append(token.text)
        return " ".join(words)[:_LONGEST_LABEL]

    @cached_property
    def last_label(self) -> str:
        """Words between a wide gap and the number at the end of the row; empty if absent."""
        if self.tokens[-1].value is None or len(self.tokens) < _MIN_WORDS:
            return ""
        run: list[Token] = []
        for token in reversed(self.tokens[:-1]):
            if run and run[-1].left - token.right > _RUN_GAP * self.height:
                return " ".join(word.text for word in reversed(run))[:_LONGEST_LABEL]
            if token.value is not None:
                break
            run.append(token)
        return ""


@dataclass(frozen=True)
class Stretch:
    """The part of a table on one page: the table's heading and the rows on that page."""

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
        """The words, separated by single spaces."""
        return " ".join(token.text for token in self.tokens)

    @property
    def top(self) -> float:
        """Top of the row, in points."""
        return min(token.top for token in self.tokens)

    @property
    def bottom(self) -> float:
        """Bottom of the row, in points."""
        return max(token.bottom for token in self.tokens)


@dataclass
class RawLine:
    """Numbers and words of a line item before its fields are read.

    `values` contains the numbers by column kind, and `cells` the words of each cell from top to bottom.
    `quantity_neighbor` is the word right after or before the quantity, in any column. If `is_below_sum` is true, only
    arithmetic can confirm the line item.
    """

    page: int
    top: float
    values: dict[Kind, Token]
    cells: dict[int, list[Piece]] = field(default_factory=dict)
    quantity_neighbor: str = ""
    is_below_sum: bool = False

    def add(self, column: int, piece: Piece) -> None:
        """Add words to the cell of a column."""
        self.cells.setdefault(column, []).append(piece)


def is_end(row: Row) -> bool:
    """Return whether a row is a sum or starts a section after the table."""
    label = row.label
    return (is_total(label) and not is_carried(label) and _states_number(row)) or is_section(label) or ends_in_sum(row)


def _states_number(row: Row) -> bool:
    return any(token.value is not None for token in row.tokens)


def is_sum_or_title(row: Row) -> bool:
    """Return whether a row is a sum, a carried sum or a section title."""
    label = row.label
    return is_total(label) or is_carried(label) or is_section(label) or ends_in_sum(row)


def ends_in_sum(row: Row) -> bool:
    """Return whether a row ends in a sum next to unrelated text.

    The text may be a tax table or payment terms.
    """
    label = row.last_label
    is_rollup = bool(label) and is_total(label) and not is_carried(label) and not is_tax_name(label)
    return is_rollup and not is_position(row.tokens[0].text)


def is_position(text: str) -> bool:
    """Return whether a word may be a line item's position: `1`, `010`, `2.1`, `A3`."""
    return re.fullmatch(r"(?:[A-Z]?\d{1,5}|0\d{5})(?:[.-]\d{1,4})*[.)]?", text) is not None


_ALIGNED = 5.0
"""Alignment tolerance in points, about the width of a trailing minus.

Numbers in a column share their left edge, right edge or middle.
"""
_SAME_ROW = 0.6
_NEAR_ROW = 1.4
_LARGE_GAP = 2.2
_ATTACHED = 0.6
_CELL_GAP = 0.9
_BESIDE = 2.0
_SAME_RUN = 0.6
_WIDE_BLANK = 3.0
"""Maximum distances within rows, line items, cells and tables, in text heights."""
_RATE_KINDS = frozenset({Kind.TAX_RATE, Kind.DISCOUNT})
_NO_COLUMN = Column(0.0, 0.0, ((Kind.OTHER,),))
_BARELY_BELOW = 0.25
_MOSTLY_BELOW = 0.5
"""Maximum share of a run of words below its own heading, and minimum share below the next, to move it to the next
column."""
_SAME_EDGE = 2.5
_PER = re.compile(r"(?:/|je|pro|per|par|por|pr\.?|à|a|x|@)", re.IGNORECASE)


def split_rows(stretches: Sequence[Stretch]) -> list[RawLine]:
    """Read the line items of a table, page by page.

    Words above the first line item of a page belong to the last line item of the previous page.
    """
    lines: list[RawLine] = []
    is_closed = False
    for stretch in stretches:
        page_lines = _Reader(stretch, is_closed).read(lines[-1] if lines else None)
        lines += page_lines
        is_closed = is_closed or any(line.is_below_sum for line in page_lines) or _has_total(stretch)
    return lines


def _has_total(stretch: Stretch) -> bool:
    return any(is_end(row) for row in stretch.rows)


class _Reader:
    """Reads the part of a table on one page."""

    def __init__(self, stretch: Stretch, is_closed: bool) -> None:
        self.page, self.columns, self.rows = stretch.page, stretch.heading.columns, stretch.rows
        self.is_closed = is_closed
        self.row_of: dict[Token, Row] = {token: row for row in self.rows for token in row.tokens}
        self.taken: set[Token] = set()

    def read(self, open_line: RawLine | None) -> list[RawLine]:
        """Read the page.

        Words above the first line item are added to `open_line`, unless it is None.
        """
        numbers = self._column_numbers()
        lines = self._anchor_lines(numbers)
        self._set_bounds(lines)
        self._pull_up(lines)
        self._distribute(lines, open_line)
        return lines

    def _column_numbers(self) -> dict[Kind, list[Token]]:
        """Return the numbers below numeric headings, by kind.

        Each row has at most one number per kind.
        """
        numbers: dict[Kind, list[Token]] = {}
        for row in self.rows:
            if is_sum_or_title(row) and not self._has_companions(row):
                continue
            nearest: dict[Kind, Token] = {}
            for previous, token in pairwise((None, *row.tokens)):
                if token is None or (token.value is None and not token.is_ambiguous):
                    continue
                if previous is not None and token.left - previous.right <= row.height and _PER.fullmatch(previous.text):
                    continue
                extended = _with_words(token, row)
                column = self._column_of(extended)
                if column.kind in NUMERIC_KINDS:
                    other = nearest.get(column.kind)
                    if other is None or _distance(column, extended) < _distance(column, _with_words(other, row)):
                        nearest[column.kind] = token
            for kind, token in nearest.items():
                numbers.setdefault(kind, []).append(token)
        return numbers

    def _has_companions(self, row: Row) -> bool:
        """Return whether a row has a quantity, a price and an amount.

        A sum does not have all three.
        """
        kinds = {self._column_of(token).kind for token in row.tokens if token.value is not None}
        return {Kind.QUANTITY, Kind.PRICE, Kind.NET} <= kinds

    def _column_of(self, token: Token) -> Column:
        """Return the column whose heading is nearest to a number.

        Percentages belong only to rate columns.
        """
        rates = [column for column in self.columns if column.kind in _RATE_KINDS]
        if token.is_percent:
            return min(rates or [_NO_COLUMN], key=lambda column: _distance(column, token))
        return min(self.columns, key=lambda column: _distance(column, token))

    def _anchor_lines(self, numbers: Mapping[Kind, Sequence[Token]]) -> list[RawLine]:
        """Return a line item for each amount, with the numbers beside it.

        A table without amounts has a line item for each quantity, or else for each price.
        """
        anchor = next((kind for kind in (Kind.NET, Kind.QUANTITY, Kind.PRICE) if numbers.get(kind)), None)
        if anchor is None:
            return []
        extended = [_with_words(token, self.row_of[token]) for token in numbers[anchor]]
        anchors = _best_aligned(numbers[anchor], extended)
        if anchor is not Kind.NET:
            anchors = self._until_blank(anchors)
        lines = [RawLine(self.page, self.row_of[token].top, {anchor: token}) for token in anchors]
        for kind, tokens in numbers.items():
            if kind is not anchor:
                for line, token in _pair_with_numbers(anchors, tokens, lines):
                    line.values[kind] = token
                    line.top = min(line.top, self.row_of[token].top)
        ends = [row.top for row in self.rows if is_end(row)]
        for line in lines:
            line.is_below_sum = self.is_closed or any(end < line.top for end in ends)
        retained = [line for line in lines if len(line.values) > 1 or self._has_text(line)]
        for line in retained:
            self.taken.update(line.values.values())
            line.quantity_neighbor = self._quantity_neighbor(line)
        return sorted(retained, key=lambda line: line.top)

    def _until_blank(self, anchors: Sequence[Token]) -> list[Token]:
        """Return the numbers above the first wide vertical gap.

        A table without amounts ends at this gap.
        """
        tops = sorted((row.top, row.bottom, row.height) for row in self.rows)
        end, reach = float("inf"), None
        for top, bottom, height in tops:
            if reach is not None and top - reach > _WIDE_BLANK * height and top > min(token.top for token in anchors):
                end = top
                break
            reach = max(bottom, reach or bottom)
        return [token for token in anchors if token.top < end - 1]

    def _quantity_neighbor(self, line: RawLine) -> str:
        quantity = line.values.get(Kind.QUANTITY)
        if quantity is None:
            return ""
        tokens = self.row_of[quantity].tokens
        index = tokens.index(quantity)
        reach = _BESIDE * (quantity.bottom - quantity.top)
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        if after is not None and after.value is None and after.left - quantity.right <= reach:
            return after.text
        before = tokens[index - 1] if index else None
        if before is not None and before.value is None and quantity.left - before.right <= reach / 2:
            return before.text
        return ""

    def _has_text(self, line: RawLine) -> bool:
        """Return whether a lone amount follows words that could describe goods."""
        token = next(iter(line.values.values()))
        row = self.row_of[token]
        return any(other.value is None and other.right < token.left for other in row.tokens) and not is_sum_or_title(
            row
        )

    def _set_bounds(self, lines: Sequence[RawLine]) -> None:
        """Set each column boundary to the middle of the widest gap between two columns.

        The gap is measured in the headings and in the rows of line items.
        """
        number_rows = [self.row_of[token] for line in lines for token in line.values.values()]
        rows = list({id(row): row for row in number_rows}.values())
        boxes = [(token.left, token.right) for row in rows for token in row.tokens]
        boxes += [(column.left, column.right) for column in self.columns]
        self.bounds = [_widest_blank(a, b, boxes) for a, b in pairwise(self.columns)]
        first_tokens = [row.tokens[0] for row in rows]
        first_tokens += [
            token
            for row in rows
            for previous, token in pairwise(row.tokens)
            if token.left - previous.right > _CELL_GAP * row.height
        ]
        self.begins = [(self._column_at(token.left), token.left) for token in first_tokens]

    def _column_at(self, left: float) -> int:
        return sum(1 for bound in self.bounds if left >= bound)

    def _pull_up(self, lines: Sequence[RawLine]) -> None:
        """Move the top of each line item up to its position number.

        Nothing moves unless every line item has one position number above its other numbers.
        """
        position_column = next(
            (index for index, column in enumerate(self.columns) if column.holds(Kind.POSITION)), None
        )
        if position_column is None or not lines:
            return
        rows = [
            row
            for row in self.rows
            if self._column_at(row.tokens[0].left) == position_column and is_position(row.tokens[0].text)
        ]
        if len(rows) != len(lines):
            return
        tops = []
        floor = float("-inf")
        for line in lines:
            candidates = [row.top for row in rows if floor < row.top < line.top - 1]
            if len(candidates) != 1:
                return
            tops.append(candidates[0])
            floor = line.top
        for line, top in zip(lines, tops, strict=True):
            line.top = top

    def _distribute(self, lines: Sequence[RawLine], open_line: RawLine | None) -> None:
        """Add the remaining words to the cells of line items.

        Words below a sum or far below the last line item are omitted.
        """
        line, bottom = (None if self.is_closed else open_line), None
        upcoming = list(lines)
        pending: list[tuple[int, Piece]] = []
        for row in sorted(self.rows, key=lambda row: row.top):
            middle = (row.top + row.bottom) / 2
            if upcoming and middle >= upcoming[0].top:
                next_line = upcoming.pop(0)
                for index, piece in self._attached_above(pending, next_line):
                    next_line.add(index, piece)
                pending, line, bottom = [], next_line, row.bottom
            is_of_line = line is not None and any(self.row_of.get(token) is row for token in line.values.values())
            is_title = not is_of_line and self._is_title(row)
            if is_title or (
                not is_of_line and (is_sum_or_title(row) or (bottom is not None and self._is_far(row, bottom)))
            ):
                line, pending = None, []
            if is_title:
                continue
            pieces = list(self._pieces(row, is_of_line))
            if line is None:
                pending += pieces
                continue
            bottom = max(row.bottom, bottom or row.bottom)
            for index, piece in pieces:
                line.add(index, piece)
        for line in lines:
            self._move_to_next_column(line)
        self._move_to_next(lines)

    def _move_to_next_column(self, line: RawLine) -> None:
        """Move words that are left-aligned with the next column's text to that column."""
        for index, column in enumerate(self.columns[:-1]):
            edges = [piece.tokens[0].left for piece in line.cells.get(index + 1, [])]
            pieces = line.cells.get(index, [])
            if column.kind not in TEXT_KINDS or self.columns[index + 1].kind not in TEXT_KINDS:
                continue
            moved = [
                piece
                for piece in pieces
                if abs(piece.tokens[0].left - column.left) > _SAME_EDGE
                and any(abs(piece.tokens[0].left - edge) <= _SAME_EDGE for edge in edges)
            ]
            if moved:
                line.cells[index] = [piece for piece in pieces if piece not in moved]
                merged = [*line.cells[index + 1], *moved]
                line.cells[index + 1] = sorted(merged, key=lambda piece: (piece.page, piece.top))

    def _is_title(self, row: Row) -> bool:
        """Return whether a row is a group title: its words start in the position column."""
        place = self._column_at(row.tokens[0].left)
        return (
            self.columns[place].kind is Kind.POSITION
            and self._nearest_column(row.tokens[:1]) == place
            and not is_position(row.tokens[0].text)
        )

    def _is_far(self, row: Row, bottom: float) -> bool:
        return row.top - bottom > _LARGE_GAP * row.height

    def _attached_above(self, pending: Sequence[tuple[int, Piece]], line: RawLine) -> list[tuple[int, Piece]]:
        """Return the description right above a line item's numbers.

        It belongs to the line item, because a cell with several rows may be centered vertically beside the numbers.
        """
        attached: list[tuple[int, Piece]] = []
        top = line.top
        for index, piece in reversed(pending):
            height = piece.bottom - piece.top
            if top - piece.bottom > _ATTACHED * height or not self.columns[index].holds(Kind.DESCRIPTION):
                break
            attached.append((index, piece))
            top = piece.top
        return attached[::-1]

    def _move_to_next(self, lines: Sequence[RawLine]) -> None:
        """Move description rows below a gap to the line item that they directly precede."""
        for line, next_line in pairwise(lines):
            for index, pieces in line.cells.items():
                if not self.columns[index].holds(Kind.DESCRIPTION):
                    continue
                own_pieces = [piece for piece in pieces if piece.page == self.page]
                gaps = [b.top - a.bottom for a, b in pairwise(own_pieces)]
                height = own_pieces[0].bottom - own_pieces[0].top if own_pieces else 0.0
                gap_to_next = next_line.top - own_pieces[-1].bottom if own_pieces else 0.0
                widest_gap = max(gaps, default=0.0)
                if (
                    gap_to_next <= 0.35 * height
                    and widest_gap > 0.5 * height
                    and widest_gap > 2 * max(gap_to_next, 0.5)
                ):
                    moved = own_pieces[gaps.index(widest_gap) + 1 :]
                    line.cells[index] = [piece for piece in pieces if piece not in moved]
                    next_line.cells[index] = [*moved, *next_line.cells.get(index, [])]

    def _pieces(self, row: Row, is_of_line: bool) -> Iterator[tuple[int, Piece]]:
        """Yield the remaining runs of words in a row, each with its column index."""
        run: list[Token] = []
        place = -1
        for token in row.tokens:
            if token in self.taken:
                if run:
                    yield self._nearest_column(run), Piece(self.page, tuple(run))
                run = []
                continue
            if run and self._continues_run(run[-1], token, place, is_of_line):
                run.append(token)
                continue
            if run:
                yield self._nearest_column(run), Piece(self.page, tuple(run))
            run, place = [token], self._column_at(token.left)
        if run:
            yield self._nearest_column(run), Piece(self.page, tuple(run))

    def _nearest_column(self, run: Sequence[Token]) -> int:
        """Return the index of the column to which words belong.

        This is the column in which they start, or the next column if most of their width is below it.
        """
        left, right = run[0].left, run[-1].right
        index = self._column_at(left)
        if index + 1 < len(self.columns):
            width = max(right - left, 0.1)
            own_overlap, next_overlap = (
                (min(right, column.right) - max(left, column.left)) / width
                for column in self.columns[index : index + 2]
            )
            if own_overlap < _BARELY_BELOW and next_overlap > _MOSTLY_BELOW:
                return index + 1
        return index

    def _continues_run(self, last: Token, token: Token, column_index: int, is_of_line: bool) -> bool:
        """Return whether a word continues the run before it.

        It must be near, or in the same column.
        """
        token_column = self._column_at(token.left)
        gap = token.left - last.right
        height = last.bottom - last.top
        if self.columns[column_index].kind is Kind.POSITION:
            return False
        if token_column == column_index:
            return True
        if is_of_line:
            return gap <= _SAME_RUN * height
        starts_at_edge = any(
            start_column == token_column and abs(left - token.left) <= _SAME_EDGE for start_column, left in self.begins
        )
        return gap <= (0.3 if starts_at_edge and self.columns[token_column].kind in TEXT_KINDS else _CELL_GAP) * height


def _with_words(token: Token, row: Row) -> Token:
    """Extend the box of a number by the words attached to it: `4 kg`, `12,05 je 100`."""
    right = token.right
    index = row.tokens.index(token)
    for previous, other in pairwise(row.tokens[index:]):
        is_separate = other.left - previous.right > _SAME_RUN * row.height
        if is_separate or (other.value is not None and not _PER.fullmatch(previous.text)):
            break
        right = other.right
    return token._replace(right=right)


def _distance(column: Column, token: Token) -> tuple[float, float]:
    gap = max(column.left - token.right, token.left - column.right, 0.0)
    return gap, abs((column.left + column.right) - (token.left + token.right))


def _best_aligned(tokens: Sequence[Token], extended: Sequence[Token]) -> list[Token]:
    """Return a column's numbers with the most common alignment.

    The alignment is measured with and without attached words. Returns all numbers if no two are aligned.
    """
    best: list[Token] = []
    for edges in (
        [token.right for token in tokens],
        [token.left for token in tokens],
        [(token.left + token.right) / 2 for token in tokens],
        [box.right for box in extended],
        [(box.left + box.right) / 2 for box in extended],
    ):
        for edge in edges:
            aligned = [token for token, other in zip(tokens, edges, strict=True) if abs(other - edge) <= _ALIGNED]
            if len(aligned) > len(best):
                best = aligned
    return best if len(best) > 1 else list(tokens)


def _pair_with_numbers(
    anchors: Sequence[Token], tokens: Sequence[Token], lines: Sequence[RawLine]
) -> Iterator[tuple[RawLine, Token]]:
    """Pair line items with another column's numbers at the median vertical offset."""
    ordered = sorted(tokens, key=lambda token: token.middle)
    middles = [token.middle for token in ordered]
    nearest = []
    for anchor in anchors:
        index = bisect_left(middles, anchor.middle)
        neighbors = ordered[max(index - 1, 0) : index + 1]
        nearest.append(min(neighbors, key=lambda token: abs(token.middle - anchor.middle)))
    height = median(token.bottom - token.top for token in anchors)
    offsets = [token.middle - anchor.middle for anchor, token in zip(anchors, nearest, strict=True)]
    # If a line item has no number in this column, its nearest number belongs to another line item. Therefore, each
    # number counts only for the nearest line item.
    closest: dict[Token, float] = {}
    for token, offset in zip(nearest, offsets, strict=True):
        closest[token] = min(closest.get(token, offset), offset, key=abs)
    near_offsets = [offset for offset in closest.values() if abs(offset) <= _NEAR_ROW * height]
    if not near_offsets:
        return
    usual_offset = median(near_offsets)
    paired: set[Token] = set()
    for line, token, offset in zip(lines, nearest, offsets, strict=True):
        if abs(offset - usual_offset) <= _SAME_ROW * height and token not in paired:
            paired.add(token)
            yield line, token


def _widest_blank(a: Column, b: Column, boxes: Sequence[tuple[float, float]]) -> float:
    """Return the middle of the widest horizontal gap between two columns' centers."""
    low, high = (a.left + a.right) / 2, (b.left + b.right) / 2
    covered, widest_gap, position = low, 0.0, (a.right + b.left) / 2
    for left, right in sorted(box for box in boxes if box[1] > low and box[0] < high):
        if left - covered > widest_gap:
            widest_gap, position = left - covered, (left + covered) / 2
        covered = max(covered, right)
    if high - covered > widest_gap:
        position = (high + covered) / 2
    return position
