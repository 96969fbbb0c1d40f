"""Finds the heading of a table of goods on a page, and what its columns hold. Pure.

A heading is one or more lines of words that name columns. Words that stand below one another are one column: either one
name over several lines (`Meng.-` / `einheit`), or several names, for cells that hold one thing above another
(`Art-Nr-Kunde` / `Art-Nr-Lief.`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from counterfoil.documents.text.line_vocabulary import (
    NUMERIC_KINDS,
    TEXT_KINDS,
    Kind,
    basis,
    heading,
    is_heading_word,
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
