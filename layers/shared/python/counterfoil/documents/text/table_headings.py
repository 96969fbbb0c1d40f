"""Table headings, their columns, and the vocabulary of other rows. Pure.

The words are German, English, French, Italian, Spanish, Dutch and Danish. An ambiguous name (`Amount` is a quantity or
a sum of money) has several kinds, the most likely first. The values below it decide.

A heading has one or more lines of column names. Words below each other form one column: either one name over several
lines (`Meng.-` / `einheit`), or several names for cells with one value above another (`Art-Nr-Kunde` / `Art-Nr-Lief.`).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise, product
from types import MappingProxyType

from counterfoil.documents.lexicon import READER
from counterfoil.documents.lexicon.folding import normalize_text
from counterfoil.documents.text.page import Line, Word


class Kind(StrEnum):
    """Kind of a column.

    The value is the name of the field in structured data, if there is one.
    """

    POSITION = "position"
    ARTICLE = "article_number"
    BUYER_ARTICLE = "buyer_article_number"
    GTIN = "gtin"
    DESCRIPTION = "description"
    QUANTITY = "quantity"
    ORDERED = "ordered quantity"
    REJECTED = "rejected_quantity"
    UNIT = "unit"
    PRICE = "unit_price"
    BASIS = "price_basis_quantity"
    DISCOUNT = "discount"
    NET = "net_amount"
    GROSS = "gross amount"
    TAX_RATE = "tax_rate"
    TAX_AMOUNT = "tax amount"
    ORDER = "po_reference"
    ORDER_LINE = "po_line"
    OTHER = "other"


TEXT_KINDS = frozenset({Kind.ARTICLE, Kind.BUYER_ARTICLE, Kind.GTIN, Kind.DESCRIPTION, Kind.ORDER, Kind.ORDER_LINE})
NUMERIC_KINDS = frozenset(
    {
        Kind.QUANTITY, Kind.ORDERED, Kind.REJECTED, Kind.PRICE, Kind.BASIS, Kind.DISCOUNT, Kind.NET, Kind.GROSS,
        Kind.TAX_RATE, Kind.TAX_AMOUNT,
    }
)  # fmt: skip

_KINDS = MappingProxyType(
    {
        phrase: tuple(map(Kind, kinds.split("; ")))
        for kinds, phrases in reversed(list(READER.meanings("tables.heading").items()))
        for phrase in phrases
    }
)

_CURRENCIES = frozenset(READER.terms("tables.currency"))
_WITHOUT_TAX = READER.alternatives("tables.without_tax")
_QUALIFIED = re.compile(rf"(?P<before>(?:{_WITHOUT_TAX}) )?(?P<phrase>.+?)(?P<after> (?:{_WITHOUT_TAX}))?")
_WITH_TAX = re.compile(rf"(?P<phrase>.+?) (?:{READER.alternatives('tables.with_tax')})")
_PRICED = frozenset({Kind.PRICE, Kind.NET})
_OURS = frozenset(READER.terms("tables.whose", "ours"))
_YOURS = frozenset(READER.terms("tables.whose", "yours"))
_DANGLING = re.compile(rf" (?:{READER.alternatives('tables.dangling')})$")
_WITH_BASIS = re.compile(
    r"(?P<price>[a-z ]+?) (?:(?:per|je|pro|par|por|pr|a|fur|for) )?(?P<basis>1|10|100|1000)"
    r"(?: (?:st|stk|stck|stuck|pcs|pc|pieces|einheiten|units|u|pz|pezzi|ud|uds|stuks|kg|m|l))?"
)
_MOST_LANGUAGES = 3
_NOT_HEADING = re.compile(r"[^a-z0-9#%]+")


@lru_cache(maxsize=4096)
def heading_kinds(text: str) -> tuple[Kind, ...]:
    """Return the kinds of column that a heading may name, the most likely first.

    The result is empty if the heading is unknown.
    """
    plain = plain_heading(text)
    if plain in _KINDS:
        return _KINDS[plain]
    if (trimmed := _DANGLING.sub("", plain)) in _KINDS:
        return _KINDS[trimmed]
    if (kinds := _multilingual_kinds(text)) is not None:
        return kinds
    owner, _, noun = plain.partition(" ")
    if Kind.ARTICLE in _KINDS.get(noun, ()) and (owner in _OURS or owner in _YOURS):
        return (Kind.ARTICLE if owner in _OURS else Kind.BUYER_ARTICLE,)
    return _amount_kinds(plain)


def _multilingual_kinds(text: str) -> tuple[Kind, ...] | None:
    """Return the kinds of a heading in several languages, such as `Qté / Aantal`.

    Returns None for other headings.
    """
    parts = [part for part in text.split("/") if part.strip()]
    if not 2 <= len(parts) <= _MOST_LANGUAGES:
        return None
    part_kinds = [_KINDS.get(plain_heading(part), ()) for part in parts]
    common = [kind for kind in part_kinds[0] if all(kind in kinds for kinds in part_kinds)]
    return tuple(common) or None


def _amount_kinds(plain: str) -> tuple[Kind, ...]:
    """Return the kinds of an amount whose heading has a qualifier.

    The qualifier is a price basis, or states whether tax is included.
    """
    if (basis_match := _WITH_BASIS.fullmatch(plain)) and Kind.PRICE in heading_kinds(basis_match["price"]):
        return (Kind.PRICE,)
    if (tax_match := _WITH_TAX.fullmatch(plain)) and not _PRICED.isdisjoint(_KINDS.get(tax_match["phrase"], ())):
        return (Kind.GROSS,)
    match = _QUALIFIED.fullmatch(plain)
    kinds = _KINDS.get(match["phrase"], ()) if match and (match["before"] or match["after"]) else ()
    if Kind.PRICE in kinds:
        return (Kind.PRICE, Kind.NET)
    return kinds if Kind.NET in kinds else ()


def basis(text: str) -> int:
    """Return the price basis in a heading such as `Preis/100` or `Price per 1000`.

    Returns 1 if the heading states no basis.
    """
    match = _WITH_BASIS.fullmatch(plain_heading(text))
    return int(match["basis"]) if match and Kind.PRICE in heading_kinds(match["price"]) else 1


def plain_heading(text: str) -> str:
    """Return a heading's lowercased words without accents, punctuation or currency."""
    words = _NOT_HEADING.sub(" ", normalize_text(text).replace("%", " % ")).split()
    remaining = [word for word in words if word not in _CURRENCIES]
    if len(remaining) < len(words) and remaining and remaining[-1] == "in":
        remaining.pop()
    return " ".join(remaining)


@lru_cache(maxsize=4096)
def is_heading_word(word: str) -> bool:
    """Return whether a word is punctuation or occurs in headings."""
    return all(part in _HEADING_WORDS for part in plain_heading(word).split())


_HEADING_WORDS = (
    frozenset(word for phrase in _KINDS for word in phrase.split())
    | _CURRENCIES
    | set(READER.terms("tables.function_word"))
    | {"10", "100", "1000"}
)

_TOTAL = re.compile(rf"(?:{READER.alternatives('tables.total')})(?: .*)?")
_NO_TOTAL = re.compile(
    r"(?:ust|mwst|umsatzsteuer|steuer|lohnsteuer|vat|tax|btw|moms)-"
    r"(?!(?:betrag|summe|satz|gesamt|total|bedrag|amount|rate|bel\u00f8b|basis)\b)[^\W\d]{3,}",
    re.IGNORECASE,
)
"""Services with a tax in their name: `Umsatzsteuer-Voranmeldung`."""
_CARRY = re.compile(rf"(?:{READER.alternatives('tables.carried')})(?: .*)?")
_SECTION = re.compile(rf"(?:{READER.alternatives('tables.section')})(?: .*)?")


@lru_cache(maxsize=4096)
def is_total(text: str) -> bool:
    """Return whether a row's text is the label of a sum, a tax or a weight."""
    return _TOTAL.fullmatch(plain_heading(text)) is not None and _NO_TOTAL.match(text) is None


def is_tax_name(text: str) -> bool:
    """Return whether a text only names a tax, as in the cells of a tax column."""
    return Kind.TAX_RATE in heading_kinds(text)


@lru_cache(maxsize=4096)
def is_carried(text: str) -> bool:
    """Return whether a row states a sum carried over from or to another page."""
    return _CARRY.fullmatch(plain_heading(text)) is not None


@lru_cache(maxsize=4096)
def is_section(text: str) -> bool:
    """Return whether a row starts a section after the table.

    These sections contain terms, bank details, notes or signatures.
    """
    return _SECTION.fullmatch(plain_heading(text)) is not None


_WITHIN_A_NAME = 0.95
"""Maximum gap between words of a column name, in text heights."""
_SAME_COLUMN = 0.3
_SURELY_SAME_COLUMN = 0.6
"""Minimum overlap of names in one column, as a share of the narrower name."""
_NEXT_LINE = 0.9
"""Maximum gap between the lines of a heading, in text heights."""
_MAX_WORDS = 40
_MAX_READINGS = 12
_MONEY = frozenset({Kind.NET, Kind.PRICE, Kind.GROSS})
_REPEATED = frozenset({Kind.OTHER, Kind.GTIN, Kind.GROSS, Kind.TAX_AMOUNT, Kind.DESCRIPTION})
"""Kinds that several columns of a table may have. Columns with a product's name and its remarks form one
description."""
_NAME_KINDS = frozenset({Kind.DESCRIPTION, Kind.ARTICLE, Kind.BUYER_ARTICLE, Kind.GTIN})


@dataclass(frozen=True)
class Column:
    """A table column: the position of its heading and the kinds of its values.

    `left` and `right` are the edges of the heading in points. `names` are the names in the heading from top to bottom,
    each with its possible kinds, the most likely first. `basis` is the number of units that the prices are for, or 1 if
    the heading does not state it.
    """

    left: float
    right: float
    names: tuple[tuple[Kind, ...], ...]
    basis: int = 1

    @property
    def kind(self) -> Kind:
        """Kind of the values. If cells have several kinds, the kind of the top value."""
        return self.names[0][0]

    def holds(self, kind: Kind) -> bool:
        """Return whether cells of this column hold `kind`."""
        return any(name[0] is kind for name in self.names)


@dataclass(frozen=True)
class Heading:
    """The heading of a table: its columns from left to right, and its lines."""

    columns: tuple[Column, ...]
    top: float
    bottom: float

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of the columns from left to right, each column from top to bottom."""
        return tuple(name[0] for column in self.columns for name in column.names)

    @property
    def has_prices(self) -> bool:
        """True if the table has prices or amounts."""
        return not _MONEY.isdisjoint(self.kinds)

    @property
    def is_of_goods(self) -> bool:
        """True if the columns list goods or services.

        They have a description or article number, and a quantity, price or amount.
        """
        kinds = {kind for column in self.columns for name in column.names for kind in name}
        return not _NAME_KINDS.isdisjoint(kinds) and not {Kind.QUANTITY, Kind.NET, Kind.PRICE}.isdisjoint(kinds)

    def readings(self) -> Iterator["Heading"]:
        """Yield at most 12 interpretations of ambiguous names, the most likely first.

        No interpretation has the same kind twice, except for kinds in `_REPEATED`.
        """
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
            for reordered in _amounts_first(kinds):
                yield self._read_as(_without_repeats(reordered))

    def _names(self) -> list[tuple[Kind, ...]]:
        return [name for column in self.columns for name in column.names]

    def _read_as(self, kinds: Sequence[Kind]) -> "Heading":
        remaining = iter(kinds)
        columns = (replace(column, names=tuple((next(remaining),) for _ in column.names)) for column in self.columns)
        return replace(self, columns=tuple(columns))


def _amounts_first(kinds: Sequence[Kind]) -> Iterator[list[Kind]]:
    """Yield one variant for each NET column, with OTHER for all other NET columns.

    They are in column order, or in reverse order if a discount column is between NET columns.
    """
    places = [place for place, kind in enumerate(kinds) if kind is Kind.NET]
    if places and Kind.DISCOUNT in kinds[places[0] : places[-1]]:
        places.reverse()
    for place in places or [-1]:
        yield [Kind.OTHER if kind is Kind.NET and other != place else kind for other, kind in enumerate(kinds)]


def _without_repeats(kinds: Sequence[Kind]) -> list[Kind]:
    """Replace repeated kinds with OTHER, except DESCRIPTION."""
    repeated = {kind for index, kind in enumerate(kinds) if kind in kinds[:index]} - {Kind.DESCRIPTION}
    return [Kind.OTHER if kind in repeated and kind in kinds[:index] else kind for index, kind in enumerate(kinds)]


@dataclass(frozen=True)
class _Cell:
    """Adjacent words in one line of a heading, and the kinds that they name."""

    text: str
    left: float
    right: float
    kinds: tuple[Kind, ...]


def headings(lines: Sequence[Line]) -> Iterator[Heading]:
    """Yield the headings of all tables on a page, from top to bottom."""
    next_index = 0
    for index, line in enumerate(lines):
        if index < next_index or not _may_begin(line):
            continue
        cells = _cells(line)
        if sum(bool(cell.kinds) for cell in cells) < 2 or not _is_mostly_known(cells):
            continue
        first, last = _block(lines, index, next_index)
        heading = Heading(
            _columns([_cells(line) for line in lines[first : last + 1]]),
            min(line.top for line in lines[first : last + 1]),
            max(line.bottom for line in lines[first : last + 1]),
        )
        if len(heading.columns) >= 2:
            yield heading
            next_index = last + 1


def _may_begin(line: Line) -> bool:
    return 2 <= len(line.words) <= _MAX_WORDS and sum(is_heading_word(word.text) for word in line.words) >= 2


def _is_mostly_known(cells: Sequence[_Cell]) -> bool:
    """Return whether most cells are known heading names.

    A line of prose may contain two heading words. In a heading, at most one name or a third of the names is unknown,
    and unknown names have no digits.
    """
    unknown = sum(1 for cell in cells if not cell.kinds and plain_heading(cell.text))
    has_number = any(letter.isdigit() for cell in cells for letter in cell.text if not cell.kinds)
    return not has_number and unknown <= max(1, len(cells) // 3)


def _block(lines: Sequence[Line], index: int, after: int) -> tuple[int, int]:
    """Return the first and last line of the heading that contains `index`."""
    first = last = index
    while first > after and _extends(lines[first - 1], lines[first], lines[first]):
        first -= 1
    while last + 1 < len(lines) and _extends(lines[last + 1], lines[last], lines[last + 1]):
        last += 1
    return first, last


def _extends(line: Line, neighbor: Line, lower: Line) -> bool:
    """Return whether a line extends an adjacent heading.

    It must be near, and contain only heading words.
    """
    upper = line if lower is neighbor else neighbor
    if lower.top - upper.bottom > _NEXT_LINE * (neighbor.bottom - neighbor.top):
        return False
    words = [word for word in line.words if plain_heading(word.text)]
    return (
        0 < len(words) <= _MAX_WORDS
        and all(is_heading_word(word.text) for word in words)
        and not all(any(map(str.isdigit, word.text)) for word in words)
        and not (len(words) == 1 and line.text.endswith(":"))
    )


def _cells(line: Line) -> list[_Cell]:
    """Split a line into names, with as many known words and as few names as possible."""
    words = line.words
    best: list[tuple[tuple[int, int], list[_Cell]]] = [((0, 0), [])]
    for end in range(1, len(words) + 1):
        options = []
        for start in range(end - 1, max(end - 6, -1), -1):
            if start < end - 1 and _gap(words[start], words[start + 1]) > _WITHIN_A_NAME:
                break
            cell = _cell(words[start:end])
            if end - start == 1 or cell.kinds:
                (unnamed, cells), previous_cells = best[start]
                cost = (unnamed + (0 if cell.kinds else end - start), cells + 1)
                options.append((cost, [*previous_cells, cell]))
        best.append(min(options, key=lambda option: option[0]))
    return list(_join_unnamed(best[-1][1], words[0].bottom - words[0].top))


def _gap(a: Word, b: Word) -> float:
    return (b.left - a.right) / max(a.bottom - a.top, 0.1)


def _cell(words: Sequence[Word]) -> _Cell:
    text = " ".join(word.text for word in words)
    kinds = heading_kinds(text) or tuple(kind for names in _code_over_name(text) for kind in names)
    return _Cell(text, words[0].left, max(word.right for word in words), kinds)


def _join_unnamed(cells: Sequence[_Cell], height: float) -> Iterator[_Cell]:
    """Join unknown names that are only a word gap apart."""
    pending: _Cell | None = None
    for cell in cells:
        if pending and not pending.kinds and not cell.kinds and cell.left - pending.right <= height * 0.5:
            pending = _Cell(f"{pending.text} {cell.text}", pending.left, cell.right, ())
            continue
        if pending:
            yield pending
        pending = cell
    if pending:
        yield pending


def _columns(rows: Sequence[Sequence[_Cell]]) -> tuple[Column, ...]:
    """Join cells below each other into columns.

    Names without a known kind form columns of kind OTHER.
    """
    stacks: list[list[_Cell]] = []
    for row in rows:
        for cell in row:
            if not plain_heading(cell.text):
                continue
            stack = max(stacks, key=lambda stack: _shared_width(stack, cell), default=None)
            if stack is None or _shared_width(stack, cell) < _share_needed(stack, cell):
                stacks.append([cell])
            else:
                stack.append(cell)
    columns = [
        Column(
            min(cell.left for cell in stack),
            max(cell.right for cell in stack),
            _names(stack),
            basis(_join([cell.text for cell in stack])),
        )
        for stack in stacks
    ]
    return tuple(sorted(columns, key=lambda column: column.left))


def _shared_width(stack: Sequence[_Cell], cell: _Cell) -> float:
    left, right = min(other.left for other in stack), max(other.right for other in stack)
    return (min(right, cell.right) - max(left, cell.left)) / max(min(right - left, cell.right - cell.left), 0.1)


def _share_needed(stack: Sequence[_Cell], cell: _Cell) -> float:
    """Return the overlap that a name needs to join a column.

    The overlap is a share of the narrower width. The share is higher if the column would mix words and numbers.
    """
    numeric = [bool(other.kinds) and other.kinds[0] in NUMERIC_KINDS for other in (*stack, cell) if other.kinds]
    return _SURELY_SAME_COLUMN if len(set(numeric)) > 1 else _SAME_COLUMN


def _names(stack: Sequence[_Cell]) -> tuple[tuple[Kind, ...], ...]:
    """Return the names of a column.

    If its lines form one known name, the column has only that name. Otherwise, it may have several.
    """
    texts = [cell.text for cell in stack]
    if len(texts) == 1 and (both_names := _code_over_name(texts[0])):
        return both_names
    joined_kinds = heading_kinds(_join(texts))
    if joined_kinds or len(texts) == 1:
        return (joined_kinds or (Kind.OTHER,),)
    best: list[tuple[tuple[int, int], list[tuple[Kind, ...]]]] = [((0, 0), [])]
    for end in range(1, len(texts) + 1):
        options = []
        for start in range(end):
            kinds = heading_kinds(_join(texts[start:end]))
            (unnamed, names), previous_names = best[start]
            cost = (unnamed + (0 if kinds else end - start), names + 1)
            options.append((cost, [*previous_names, kinds]))
        best.append(min(options, key=lambda option: option[0]))
    known_names = [kinds for kinds in best[-1][1] if kinds]
    if not known_names:
        return ((Kind.OTHER,),)
    is_text_only = all(kinds[0] in TEXT_KINDS or kinds[0] is Kind.OTHER for kinds in known_names)
    return tuple(known_names) if is_text_only else (known_names[0],)


def _code_over_name(text: str) -> tuple[tuple[Kind, ...], ...]:
    """Return both names of a heading such as `Material/Bezeichnung`, in either order."""
    upper, _, lower = text.partition("/")
    if Kind.DESCRIPTION in heading_kinds(upper) and heading_kinds(lower) == (Kind.ARTICLE,):
        return ((Kind.DESCRIPTION,), (Kind.ARTICLE,))
    if lower and Kind.ARTICLE in heading_kinds(upper) and heading_kinds(lower) == (Kind.DESCRIPTION,):
        return ((Kind.ARTICLE,), (Kind.DESCRIPTION,))
    return ()


def _join(texts: Sequence[str]) -> str:
    """Join the lines of a name with spaces, without hyphens at line ends."""
    joined = texts[0]
    for previous, text in pairwise(texts):
        joined = f"{joined.rstrip('-')} {text}" if previous.endswith("-") else f"{joined} {text}"
    return joined
