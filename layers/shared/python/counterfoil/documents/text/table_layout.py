"""Finds tables of goods on a page: headings, columns, rows, and the words of each line's cells. Pure.

A heading is one or more lines of words that name columns. Words below each other are one column: either one name over
several lines (`Meng.-` / `einheit`), or several names, for cells that hold one value above another (`Art-Nr-Kunde` /
`Art-Nr-Lief.`).

Lines hang on the numbers below a heading of amounts: a line is where an amount is, with the numbers beside it. All
other words belong to the nearest line above that no other line begins after, and to the column that they begin in. So
cells may hold several rows, may be centered beside each other, and lines may run over pages.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, product
from statistics import median

from counterfoil.documents.text.line_numbers import Token
from counterfoil.documents.text.line_vocabulary import (
    NUMERIC_KINDS,
    TEXT_KINDS,
    Kind,
    basis,
    heading,
    is_carried,
    is_heading_word,
    is_section,
    is_tax_name,
    is_total,
    plain_heading,
)
from counterfoil.documents.text.page import Line, Word

_WITHIN_A_NAME = 0.95
"""Of the text's height: words of one column's name stand no further apart."""
_SAME_COLUMN = 0.3
_SURELY_SAME_COLUMN = 0.6
"""Of the narrower of two names that stand below one another."""
_NEXT_LINE = 0.9
"""Of the text's height: a heading's lines have no larger gap between them."""
_MAX_WORDS = 40
_MAX_READINGS = 12
_MONEY = frozenset({Kind.NET, Kind.PRICE, Kind.GROSS})
_REPEATED = frozenset({Kind.OTHER, Kind.GTIN, Kind.GROSS, Kind.TAX_AMOUNT, Kind.DESCRIPTION})
"""What several columns of a table may hold; a product and what is said of it are a description together."""
_NAMING = frozenset({Kind.DESCRIPTION, Kind.ARTICLE, Kind.BUYER_ARTICLE, Kind.GTIN})


@dataclass(frozen=True)
class Column:
    """A column by its heading: where it stands, in points, and what it holds.

    `names` are the names in its heading from top to bottom, each with the kinds that it may mean, the likelier first.
    `basis` is the number of units that its prices are for, where its heading says so.
    """

    left: float
    right: float
    names: tuple[tuple[Kind, ...], ...]
    basis: int = 1

    @property
    def kind(self) -> Kind:
        """What the column holds, or the upper of what its cells hold."""
        return self.names[0][0]

    def holds(self, kind: Kind) -> bool:
        """Tell whether cells of this column hold `kind`."""
        return any(name[0] is kind for name in self.names)


@dataclass(frozen=True)
class Heading:
    """The heading of a table: its columns from left to right, and the lines that it takes."""

    columns: tuple[Column, ...]
    top: float
    bottom: float

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """What its columns hold, from left to right, cells of several things one after another."""
        return tuple(name[0] for column in self.columns for name in column.names)

    @property
    def has_prices(self) -> bool:
        """Tell whether the table states prices or amounts."""
        return not _MONEY.isdisjoint(self.kinds)

    @property
    def is_of_goods(self) -> bool:
        """Tell whether the columns are those of goods or services: what, and how many or how much."""
        kinds = {kind for column in self.columns for name in column.names for kind in name}
        return not _NAMING.isdisjoint(kinds) and not {Kind.QUANTITY, Kind.NET, Kind.PRICE}.isdisjoint(kinds)

    def readings(self) -> Iterator["Heading"]:
        """Every way to read names of several meanings, the likelier first, no kind twice; at most 12."""
        count = 0
        for choice in sorted(product(*(range(len(name)) for name in self._names())), key=sum):
            kinds = [name[index] for name, index in zip(self._names(), choice, strict=True)]
            unique = [kind for kind in kinds if kind not in _REPEATED]
            if len(set(unique)) == len(unique):
                yield self._read_as(kinds)
                count += 1
                if count == _MAX_READINGS:
                    return
        if not count:
            kinds = [name[0] for name in self._names()]
            for kept in _amounts_first(kinds):
                yield self._read_as(_without_repeats(kept))

    def _names(self) -> list[tuple[Kind, ...]]:
        return [name for column in self.columns for name in column.names]

    def _read_as(self, kinds: Sequence[Kind]) -> "Heading":
        left = iter(kinds)
        columns = (replace(column, names=tuple((next(left),) for _ in column.names)) for column in self.columns)
        return replace(self, columns=tuple(columns))


def _amounts_first(kinds: Sequence[Kind]) -> Iterator[list[Kind]]:
    """Every way to take one of several amounts for that of the line; first the last, where a discount stands before."""
    places = [place for place, kind in enumerate(kinds) if kind is Kind.NET]
    if places and Kind.DISCOUNT in kinds[places[0] : places[-1]]:
        places.reverse()
    for place in places or [-1]:
        yield [Kind.OTHER if kind is Kind.NET and other != place else kind for other, kind in enumerate(kinds)]


def _without_repeats(kinds: Sequence[Kind]) -> list[Kind]:
    """The first of several columns of one kind is that kind; the others are something else."""
    repeated = {kind for index, kind in enumerate(kinds) if kind in kinds[:index]} - {Kind.DESCRIPTION}
    return [Kind.OTHER if kind in repeated and kind in kinds[:index] else kind for index, kind in enumerate(kinds)]


@dataclass(frozen=True)
class _Cell:
    """Words of one heading's line that belong together, and the kinds that they name."""

    text: str
    left: float
    right: float
    kinds: tuple[Kind, ...]


def headings(lines: Sequence[Line]) -> Iterator[Heading]:
    """Find the headings of tables among the lines of a page, from top to bottom, those of other tables among them."""
    after = 0
    for index, line in enumerate(lines):
        if index < after or not _may_begin(line):
            continue
        cells = _cells(line)
        if sum(bool(cell.kinds) for cell in cells) < 2 or not _is_mostly_known(cells):
            continue
        first, last = _block(lines, index, after)
        found = Heading(
            _columns([_cells(line) for line in lines[first : last + 1]]),
            min(line.top for line in lines[first : last + 1]),
            max(line.bottom for line in lines[first : last + 1]),
        )
        if len(found.columns) >= 2:
            yield found
            after = last + 1


def _may_begin(line: Line) -> bool:
    return 2 <= len(line.words) <= _MAX_WORDS and sum(is_heading_word(word.text) for word in line.words) >= 2


def _is_mostly_known(cells: Sequence[_Cell]) -> bool:
    """A line of text may hold two words of headings; a heading's names are known, but for one or a third."""
    unknown = sum(1 for cell in cells if not cell.kinds and plain_heading(cell.text))
    has_number = any(letter.isdigit() for cell in cells for letter in cell.text if not cell.kinds)
    return not has_number and unknown <= max(1, len(cells) // 3)


def _block(lines: Sequence[Line], index: int, after: int) -> tuple[int, int]:
    """The first and last line of the heading that `index` belongs to."""
    first = last = index
    while first > after and _extends(lines[first - 1], lines[first], lines[first]):
        first -= 1
    while last + 1 < len(lines) and _extends(lines[last + 1], lines[last], lines[last + 1]):
        last += 1
    return first, last


def _extends(line: Line, neighbour: Line, lower: Line) -> bool:
    """Tell whether a line is more of the heading beside it: near, of a heading's words, and without numbers."""
    upper = line if lower is neighbour else neighbour
    if lower.top - upper.bottom > _NEXT_LINE * (neighbour.bottom - neighbour.top):
        return False
    words = [word for word in line.words if plain_heading(word.text)]
    return (
        0 < len(words) <= _MAX_WORDS
        and all(is_heading_word(word.text) for word in words)
        and not all(any(map(str.isdigit, word.text)) for word in words)
        and not (len(words) == 1 and line.text.endswith(":"))
    )


def _cells(line: Line) -> list[_Cell]:
    """Part a line into names: as many words as possible named, in as few names as possible."""
    words = line.words
    best: list[tuple[tuple[int, int], list[_Cell]]] = [((0, 0), [])]
    for end in range(1, len(words) + 1):
        options = []
        for start in range(end - 1, max(end - 6, -1), -1):
            if start < end - 1 and _gap(words[start], words[start + 1]) > _WITHIN_A_NAME:
                break
            cell = _cell(words[start:end])
            if end - start == 1 or cell.kinds:
                (unnamed, cells), found = best[start]
                cost = (unnamed + (0 if cell.kinds else end - start), cells + 1)
                options.append((cost, [*found, cell]))
        best.append(min(options, key=lambda option: option[0]))
    return list(_unnamed_joined(best[-1][1], words[0].bottom - words[0].top))


def _gap(a: Word, b: Word) -> float:
    return (b.left - a.right) / max(a.bottom - a.top, 0.1)


def _cell(words: Sequence[Word]) -> _Cell:
    text = " ".join(word.text for word in words)
    kinds = heading(text) or tuple(kind for names in _code_over_name(text) for kind in names)
    return _Cell(text, words[0].left, max(word.right for word in words), kinds)


def _unnamed_joined(cells: Sequence[_Cell], height: float) -> Iterator[_Cell]:
    """Put names together that mean nothing, where they stand as close as words do."""
    held: _Cell | None = None
    for cell in cells:
        if held and not held.kinds and not cell.kinds and cell.left - held.right <= height * 0.5:
            held = _Cell(f"{held.text} {cell.text}", held.left, cell.right, ())
            continue
        if held:
            yield held
        held = cell
    if held:
        yield held


def _columns(rows: Sequence[Sequence[_Cell]]) -> tuple[Column, ...]:
    """Put cells that stand below one another together; what names nothing is a column of another kind."""
    stacks: list[list[_Cell]] = []
    for row in rows:
        for cell in row:
            if not plain_heading(cell.text):
                continue
            stack = max(stacks, key=lambda stack: _shared(stack, cell), default=None)
            if stack is None or _shared(stack, cell) < _share_needed(stack, cell):
                stacks.append([cell])
            else:
                stack.append(cell)
    columns = [
        Column(
            min(cell.left for cell in stack),
            max(cell.right for cell in stack),
            _names(stack),
            basis(_joined([cell.text for cell in stack])),
        )
        for stack in stacks
    ]
    return tuple(sorted(columns, key=lambda column: column.left))


def _shared(stack: Sequence[_Cell], cell: _Cell) -> float:
    left, right = min(other.left for other in stack), max(other.right for other in stack)
    return (min(right, cell.right) - max(left, cell.left)) / max(min(right - left, cell.right - cell.left), 0.1)


def _share_needed(stack: Sequence[_Cell], cell: _Cell) -> float:
    """How much of a name must stand below another to be of its column: more where words and numbers would mix."""
    numeric = [bool(one.kinds) and one.kinds[0] in NUMERIC_KINDS for one in (*stack, cell) if one.kinds]
    return _SURELY_SAME_COLUMN if len(set(numeric)) > 1 else _SAME_COLUMN


def _names(stack: Sequence[_Cell]) -> tuple[tuple[Kind, ...], ...]:
    """The names that a column's words are: all lines one name where that names something, else a name a line."""
    texts = [cell.text for cell in stack]
    if len(texts) == 1 and (both := _code_over_name(texts[0])):
        return both
    whole = heading(_joined(texts))
    if whole or len(texts) == 1:
        return (whole or (Kind.OTHER,),)
    best: list[tuple[tuple[int, int], list[tuple[Kind, ...]]]] = [((0, 0), [])]
    for end in range(1, len(texts) + 1):
        options = []
        for start in range(end):
            kinds = heading(_joined(texts[start:end]))
            (unnamed, names), found = best[start]
            cost = (unnamed + (0 if kinds else end - start), names + 1)
            options.append((cost, [*found, kinds]))
        best.append(min(options, key=lambda option: option[0]))
    named = [kinds for kinds in best[-1][1] if kinds]
    if not named:
        return ((Kind.OTHER,),)
    texts_only = all(kinds[0] in TEXT_KINDS or kinds[0] is Kind.OTHER for kinds in named)
    return tuple(named) if texts_only else (named[0],)


def _code_over_name(text: str) -> tuple[tuple[Kind, ...], ...]:
    """The names of a heading such as `Material/Bezeichnung`, whose cells hold a code above a description, or below."""
    upper, _, lower = text.partition("/")
    if Kind.DESCRIPTION in heading(upper) and heading(lower) == (Kind.ARTICLE,):
        return ((Kind.DESCRIPTION,), (Kind.ARTICLE,))
    if lower and Kind.ARTICLE in heading(upper) and heading(lower) == (Kind.DESCRIPTION,):
        return ((Kind.ARTICLE,), (Kind.DESCRIPTION,))
    return ()


def _joined(texts: Sequence[str]) -> str:
    """Lines of one name; a hyphen at the end of a line parts a word."""
    joined = texts[0]
    for before, text in pairwise(texts):
        joined = f"{joined.rstrip('-')} {text}" if before.endswith("-") else f"{joined} {text}"
    return joined


_LONGEST_LABEL = 200
_FEWEST = 3
_RUN_GAP = 2.0
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
            if run and run[-1].left - token.right > _RUN_GAP * self.height:
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


_ALIGNED = 5.0
"""Points: numbers of one column end, begin or have their middle at the same place; a trailing minus is that wide."""
_SAME_ROW = 0.6
_NEAR_ROW = 1.4
_LARGE_GAP = 2.2
_ATTACHED = 0.6
_CELL_GAP = 0.9
_BESIDE = 2.0
_SAME_RUN = 0.6
_WIDE_BLANK = 3.0
"""Of the text's height: how far numbers of a line stand from its first, rows from the next, runs of words apart, a
unit from its quantity, words of a run from one another on the row of a line, what is no table from a table."""
_OF_RATES = frozenset({Kind.TAX_RATE, Kind.DISCOUNT})
_NO_COLUMN = Column(0.0, 0.0, ((Kind.OTHER,),))
_BARELY_BELOW = 0.25
_MOSTLY_BELOW = 0.5
"""Of a run of words: how much of it stands below a heading."""
_SAME_EDGE = 2.5
_PER = re.compile(r"(?:/|je|pro|per|par|por|pr\.?|à|a|x|@)", re.IGNORECASE)


def raw_lines(stretches: Sequence[Stretch]) -> list[RawLine]:
    """Read the lines of one table, page by page; a line goes on where the next page begins with words and no number."""
    lines: list[RawLine] = []
    is_closed = False
    for stretch in stretches:
        found = _Reader(stretch, is_closed).read(lines[-1] if lines else None)
        lines += found
        is_closed = is_closed or any(line.closed for line in found) or _has_total(stretch)
    return lines


def _has_total(stretch: Stretch) -> bool:
    return any(is_end(row) for row in stretch.rows)


class _Reader:
    """Reads what one page holds of a table."""

    def __init__(self, stretch: Stretch, is_closed: bool) -> None:
        self.page, self.columns, self.rows = stretch.page, stretch.heading.columns, stretch.rows
        self.is_closed = is_closed
        self.row_of: dict[Token, Row] = {token: row for row in self.rows for token in row.tokens}
        self.taken: set[Token] = set()

    def read(self, open_line: RawLine | None) -> list[RawLine]:
        """Read the page; words above its first line go to `open_line`, where there is one."""
        hits = self._hits()
        lines = self._anchored(hits)
        self._bound(lines)
        self._pull_up(lines)
        self._distribute(lines, open_line)
        return lines

    def _hits(self) -> dict[Kind, list[Token]]:
        """Numbers that stand below a heading of numbers, by what it says they are; at most one a row and column."""
        hits: dict[Kind, list[Token]] = {}
        for row in self.rows:
            if is_aside(row) and not self._has_companions(row):
                continue
            nearest: dict[Kind, Token] = {}
            for before, token in pairwise((None, *row.tokens)):
                if token is None or (token.value is None and not token.is_doubtful):
                    continue
                if before is not None and token.left - before.right <= row.height and _PER.fullmatch(before.text):
                    continue
                whole = _with_words(token, row)
                column = self._column_of(whole)
                if column.kind in NUMERIC_KINDS:
                    other = nearest.get(column.kind)
                    if other is None or _distance(column, whole) < _distance(column, _with_words(other, row)):
                        nearest[column.kind] = token
            for kind, token in nearest.items():
                hits.setdefault(kind, []).append(token)
        return hits

    def _has_companions(self, row: Row) -> bool:
        """Tell whether a row has the numbers of a line, whatever its first word: quantity, price and amount."""
        kinds = {self._column_of(token).kind for token in row.tokens if token.value is not None}
        return {Kind.QUANTITY, Kind.PRICE, Kind.NET} <= kinds

    def _column_of(self, token: Token) -> Column:
        """The column whose heading stands above a number, or nearest beside it; percentages have columns of theirs."""
        rates = [column for column in self.columns if column.kind in _OF_RATES]
        if token.is_percent:
            return min(rates or [_NO_COLUMN], key=lambda column: _distance(column, token))
        return min(self.columns, key=lambda column: _distance(column, token))

    def _anchored(self, hits: Mapping[Kind, Sequence[Token]]) -> list[RawLine]:
        """A line for each amount, or quantity where a table has no amounts, with the numbers beside it."""
        anchor = next((kind for kind in (Kind.NET, Kind.QUANTITY, Kind.PRICE) if hits.get(kind)), None)
        if anchor is None:
            return []
        wholes = [_with_words(token, self.row_of[token]) for token in hits[anchor]]
        anchors = _aligned(hits[anchor], wholes)
        if anchor is not Kind.NET:
            anchors = self._until_blank(anchors)
        lines = [RawLine(self.page, self.row_of[token].top, {anchor: token}) for token in anchors]
        for kind, tokens in hits.items():
            if kind is not anchor:
                for line, token in _beside(anchors, tokens, lines):
                    line.values[kind] = token
                    line.top = min(line.top, self.row_of[token].top)
        ends = [row.top for row in self.rows if is_end(row)]
        for line in lines:
            line.closed = self.is_closed or any(end < line.top for end in ends)
        kept = [line for line in lines if len(line.values) > 1 or self._has_text(line)]
        for line in kept:
            self.taken.update(line.values.values())
            line.beside_quantity = self._beside_quantity(line)
        return sorted(kept, key=lambda line: line.top)

    def _until_blank(self, anchors: Sequence[Token]) -> list[Token]:
        """The numbers above the first wide blank: without amounts, nothing else tells a table from a page's foot."""
        tops = sorted((row.top, row.bottom, row.height) for row in self.rows)
        end, reach = float("inf"), None
        for top, bottom, height in tops:
            if reach is not None and top - reach > _WIDE_BLANK * height and top > min(token.top for token in anchors):
                end = top
                break
            reach = max(bottom, reach or bottom)
        return [token for token in anchors if token.top < end - 1]

    def _beside_quantity(self, line: RawLine) -> str:
        quantity = line.values.get(Kind.QUANTITY)
        if quantity is None:
            return ""
        tokens = self.row_of[quantity].tokens
        place = tokens.index(quantity)
        reach = _BESIDE * (quantity.bottom - quantity.top)
        after = tokens[place + 1] if place + 1 < len(tokens) else None
        if after is not None and after.value is None and after.left - quantity.right <= reach:
            return after.text
        before = tokens[place - 1] if place else None
        if before is not None and before.value is None and quantity.left - before.right <= reach / 2:
            return before.text
        return ""

    def _has_text(self, line: RawLine) -> bool:
        """Tell whether an amount that stands alone has words before it that could be goods."""
        token = next(iter(line.values.values()))
        row = self.row_of[token]
        return any(other.value is None and other.right < token.left for other in row.tokens) and not is_aside(row)

    def _bound(self, lines: Sequence[RawLine]) -> None:
        """Place a boundary between neighbouring columns where the widest blank stands on the rows of lines."""
        own = [self.row_of[token] for line in lines for token in line.values.values()]
        rows = list({id(row): row for row in own}.values())
        boxes = [(token.left, token.right) for row in rows for token in row.tokens]
        boxes += [(column.left, column.right) for column in self.columns]
        self.bounds = [_widest_blank(a, b, boxes) for a, b in pairwise(self.columns)]
        firsts = [row.tokens[0] for row in rows]
        firsts += [
            token
            for row in rows
            for before, token in pairwise(row.tokens)
            if token.left - before.right > _CELL_GAP * row.height
        ]
        self.begins = [(self._place(token.left), token.left) for token in firsts]

    def _place(self, left: float) -> int:
        return sum(1 for bound in self.bounds if left >= bound)

    def _pull_up(self, lines: Sequence[RawLine]) -> None:
        """Let lines begin at their position's row, where every line's position stands above its numbers."""
        place = next((index for index, column in enumerate(self.columns) if column.holds(Kind.POSITION)), None)
        if place is None or not lines:
            return
        rows = [
            row for row in self.rows if self._place(row.tokens[0].left) == place and is_position(row.tokens[0].text)
        ]
        if len(rows) != len(lines):
            return
        tops = []
        floor = float("-inf")
        for line in lines:
            own = [row.top for row in rows if floor < row.top < line.top - 1]
            if len(own) != 1:
                return
            tops.append(own[0])
            floor = line.top
        for line, top in zip(lines, tops, strict=True):
            line.top = top

    def _distribute(self, lines: Sequence[RawLine], open_line: RawLine | None) -> None:
        """Put all other words into cells. What is far below, or below a sum, is no part of a line any more."""
        line, bottom = (None if self.is_closed else open_line), None
        waiting = list(lines)
        held: list[tuple[int, Piece]] = []
        for row in sorted(self.rows, key=lambda row: row.top):
            middle = (row.top + row.bottom) / 2
            if waiting and middle >= waiting[0].top:
                following = waiting.pop(0)
                for place, piece in self._attached_above(held, following):
                    following.add(place, piece)
                held, line, bottom = [], following, row.bottom
            is_of_line = line is not None and any(self.row_of.get(token) is row for token in line.values.values())
            is_title = not is_of_line and self._is_title(row)
            if is_title or (not is_of_line and (is_aside(row) or (bottom is not None and self._is_far(row, bottom)))):
                line, held = None, []
            if is_title:
                continue
            pieces = list(self._pieces(row, is_of_line))
            if line is None:
                held += pieces
                continue
            bottom = max(row.bottom, bottom or row.bottom)
            for place, piece in pieces:
                line.add(place, piece)
        for line in lines:
            self._straighten(line)
        self._rehang(lines)

    def _straighten(self, line: RawLine) -> None:
        """Move words to the next column that begin where the line's words in that one begin, not those in their own."""
        for place, column in enumerate(self.columns[:-1]):
            edges = [piece.tokens[0].left for piece in line.cells.get(place + 1, [])]
            pieces = line.cells.get(place, [])
            if column.kind not in TEXT_KINDS or self.columns[place + 1].kind not in TEXT_KINDS:
                continue
            moved = [
                piece
                for piece in pieces
                if abs(piece.tokens[0].left - column.left) > _SAME_EDGE
                and any(abs(piece.tokens[0].left - edge) <= _SAME_EDGE for edge in edges)
            ]
            if moved:
                line.cells[place] = [piece for piece in pieces if piece not in moved]
                together = [*line.cells[place + 1], *moved]
                line.cells[place + 1] = sorted(together, key=lambda piece: (piece.page, piece.top))

    def _is_title(self, row: Row) -> bool:
        """Tell whether a row is the title of a group of lines: words that begin where positions stand."""
        place = self._place(row.tokens[0].left)
        return (
            self.columns[place].kind is Kind.POSITION
            and self._nearest_place(row.tokens[:1]) == place
            and not is_position(row.tokens[0].text)
        )

    def _is_far(self, row: Row, bottom: float) -> bool:
        return row.top - bottom > _LARGE_GAP * row.height

    def _attached_above(self, held: Sequence[tuple[int, Piece]], line: RawLine) -> list[tuple[int, Piece]]:
        """Words of no line that stand close above one are its own: a cell whose text is taller than its numbers."""
        attached: list[tuple[int, Piece]] = []
        top = line.top
        for place, piece in reversed(held):
            height = piece.bottom - piece.top
            if top - piece.bottom > _ATTACHED * height or not self.columns[place].holds(Kind.DESCRIPTION):
                break
            attached.append((place, piece))
            top = piece.top
        return attached[::-1]

    def _rehang(self, lines: Sequence[RawLine]) -> None:
        """Move words that a clear blank parts from their line, and none from the next, to that next line."""
        for line, following in pairwise(lines):
            for place, pieces in line.cells.items():
                if not self.columns[place].holds(Kind.DESCRIPTION):
                    continue
                own = [piece for piece in pieces if piece.page == self.page]
                gaps = [b.top - a.bottom for a, b in pairwise(own)]
                height = own[0].bottom - own[0].top if own else 0.0
                last = following.top - own[-1].bottom if own else 0.0
                widest = max(gaps, default=0.0)
                if last <= 0.35 * height and widest > 0.5 * height and widest > 2 * max(last, 0.5):
                    moved = own[gaps.index(widest) + 1 :]
                    line.cells[place] = [piece for piece in pieces if piece not in moved]
                    following.cells[place] = [*moved, *following.cells.get(place, [])]

    def _pieces(self, row: Row, is_of_line: bool) -> Iterator[tuple[int, Piece]]:
        """Part a row's words that are no line's numbers by the column that each run of words begins in."""
        run: list[Token] = []
        place = -1
        for token in row.tokens:
            if token in self.taken:
                if run:
                    yield self._nearest_place(run), Piece(self.page, tuple(run))
                run = []
                continue
            if run and self._goes_on(run[-1], token, place, is_of_line):
                run.append(token)
                continue
            if run:
                yield self._nearest_place(run), Piece(self.page, tuple(run))
            run, place = [token], self._place(token.left)
        if run:
            yield self._nearest_place(run), Piece(self.page, tuple(run))

    def _nearest_place(self, run: Sequence[Token]) -> int:
        """The column that words begin in, or the next where they stand below its heading and not below their own."""
        left, right = run[0].left, run[-1].right
        place = self._place(left)
        if place + 1 < len(self.columns):
            width = max(right - left, 0.1)
            own, following = (
                (min(right, column.right) - max(left, column.left)) / width
                for column in self.columns[place : place + 2]
            )
            if own < _BARELY_BELOW and following > _MOSTLY_BELOW:
                return place + 1
        return place

    def _goes_on(self, last: Token, token: Token, place: int, is_of_line: bool) -> bool:
        """Tell whether a word belongs to the run before it: near, or in the same column."""
        other = self._place(token.left)
        gap = token.left - last.right
        height = last.bottom - last.top
        if self.columns[place].kind is Kind.POSITION:
            return False
        if other == place:
            return True
        if is_of_line:
            return gap <= _SAME_RUN * height
        begins = any(at == other and abs(left - token.left) <= _SAME_EDGE for at, left in self.begins)
        return gap <= (0.3 if begins and self.columns[other].kind in TEXT_KINDS else _CELL_GAP) * height


def _with_words(token: Token, row: Row) -> Token:
    """A number's box with the words that go with it: `4 kg`, `12,05 je 100`."""
    right = token.right
    place = row.tokens.index(token)
    for before, other in pairwise(row.tokens[place:]):
        is_apart = other.left - before.right > _SAME_RUN * row.height
        if is_apart or (other.value is not None and not _PER.fullmatch(before.text)):
            break
        right = other.right
    return token._replace(right=right)


def _distance(column: Column, token: Token) -> tuple[float, float]:
    gap = max(column.left - token.right, token.left - column.right, 0.0)
    return gap, abs((column.left + column.right) - (token.left + token.right))


def _aligned(tokens: Sequence[Token], wholes: Sequence[Token]) -> list[Token]:
    """The numbers of a column that end, begin or have their middle where most do, alone or with the words beside them.

    All where no two agree.
    """
    best: list[Token] = []
    for edges in (
        [token.right for token in tokens],
        [token.left for token in tokens],
        [(token.left + token.right) / 2 for token in tokens],
        [whole.right for whole in wholes],
        [(whole.left + whole.right) / 2 for whole in wholes],
    ):
        for edge in edges:
            near = [token for token, other in zip(tokens, edges, strict=True) if abs(other - edge) <= _ALIGNED]
            if len(near) > len(best):
                best = near
    return best if len(best) > 1 else list(tokens)


def _beside(
    anchors: Sequence[Token], tokens: Sequence[Token], lines: Sequence[RawLine]
) -> Iterator[tuple[RawLine, Token]]:
    """Pair lines with the numbers of another column: as far up or down as these stand from most of the lines."""
    ordered = sorted(tokens, key=lambda token: token.middle)
    middles = [token.middle for token in ordered]
    nearest = []
    for anchor in anchors:
        place = bisect_left(middles, anchor.middle)
        around = ordered[max(place - 1, 0) : place + 1]
        nearest.append(min(around, key=lambda token: abs(token.middle - anchor.middle)))
    height = median(token.bottom - token.top for token in anchors)
    offsets = [token.middle - anchor.middle for anchor, token in zip(anchors, nearest, strict=True)]
    # A column that only some lines fill is nearest to their neighbours too: a number counts for the line it is nearest.
    closest: dict[Token, float] = {}
    for token, offset in zip(nearest, offsets, strict=True):
        closest[token] = min(closest.get(token, offset), offset, key=abs)
    near = [offset for offset in closest.values() if abs(offset) <= _NEAR_ROW * height]
    if not near:
        return
    usual = median(near)
    used: set[Token] = set()
    for line, token, offset in zip(lines, nearest, offsets, strict=True):
        if abs(offset - usual) <= _SAME_ROW * height and token not in used:
            used.add(token)
            yield line, token


def _widest_blank(a: Column, b: Column, boxes: Sequence[tuple[float, float]]) -> float:
    """The middle of the widest blank between the middles of two columns; where there is none, before the second."""
    low, high = (a.left + a.right) / 2, (b.left + b.right) / 2
    reach, widest, place = low, 0.0, (a.right + b.left) / 2
    for left, right in sorted(box for box in boxes if box[1] > low and box[0] < high):
        if left - reach > widest:
            widest, place = left - reach, (left + reach) / 2
        reach = max(reach, right)
    if high - reach > widest:
        place = (high + reach) / 2
    return place
