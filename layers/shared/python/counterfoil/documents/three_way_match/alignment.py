"""Alignment of a document's lines with the lines of an order, or of a delivery without an order. Pure.

Each possible pair is weighed by what both lines state: article numbers, the order line that a line names, words,
quantity, unit and price. The pairs of the largest total weight are taken, each line once (`assign`). A line that is
left over joins the line that it fits, if it does so clearly: one order line, billed or delivered in several (a split).

Documents name the same article differently: the order may know the buyer's number only, the delivery note the seller's,
and both may abbreviate. So the numbers and words of all lines that are about one order line are used for the next
(`learn`), until nothing changes.

The assignment is Kuhn and Munkres' problem on a sparse graph, by successive shortest augmenting paths with potentials
(Edmonds and Karp 1972; Jonker and Volgenant 1987): for r rows and e possible pairs, at most r searches of O(e log e),
each of which ends at the first free column. A numerical library would double the layer's size for this.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from heapq import heappop, heappush
from math import inf
from uuid import UUID

from rapidfuzz.fuzz import ratio

from counterfoil.documents.three_way_match.model import Document, Line, factor

Pairs = Mapping[tuple[int, int], float]


def assign(weights: Pairs) -> dict[int, int]:
    """Pair rows with columns, each at most once, for the largest sum of `weights`; pairs of weight <= 0 are never made.

    `weights` holds the possible pairs by (row, column); the others are impossible. Returns the column of each row that
    has one. Of several best answers it is always the same one, whatever the order of the mapping.
    """
    costs: dict[int, dict[int, float]] = {}
    for (row, column), weight in sorted(weights.items()):
        if weight > 0:
            costs.setdefault(row, {})[column] = -weight
    alone = 1 + max((column for row in costs.values() for column in row), default=0)
    for row, possible in costs.items():
        possible[alone + row] = 0.0  # a column of its own: the row may stay without a partner, at no gain and no cost
    return {row: column for row, column in _Assignment(costs).rows.items() if column < alone}


class _Assignment:
    """The pairs of the least total cost, row by row. Costs less the potentials of both ends are never negative."""

    def __init__(self, costs: Mapping[int, Mapping[int, float]]) -> None:
        """`costs` of pairs by row and column; every row has a column that no other row has."""
        self.rows: dict[int, int] = {}
        self._costs = costs
        self._columns: dict[int, int] = {}
        self._row_potential = dict.fromkeys(costs, 0.0)
        self._column_potential: dict[int, float] = {}
        for row in costs:
            self._augment(row)

    def _augment(self, start: int) -> None:
        """Give a row its column, and those rows another one whose columns are on the way."""
        settled: dict[int, float] = {}
        reached: dict[int, float] = {}
        before: dict[int, int] = {}
        ahead: list[tuple[float, int]] = []
        row, length = start, 0.0
        while True:
            for column, cost in self._costs[row].items():
                reduced = cost - self._row_potential[row] - self._column_potential.get(column, 0.0)
                if column not in settled and length + reduced < reached.get(column, inf):
                    reached[column], before[column] = length + reduced, row
                    heappush(ahead, (length + reduced, column))
            length, nearest = heappop(ahead)
            while nearest in settled:
                length, nearest = heappop(ahead)
            if nearest not in self._columns:
                break
            settled[nearest] = length
            row = self._columns[nearest]
        self._row_potential[start] += length
        for column, at in settled.items():
            self._row_potential[self._columns[column]] += length - at
            self._column_potential[column] = self._column_potential.get(column, 0.0) - (length - at)
        self._turn_round(start, nearest, before)

    def _turn_round(self, start: int, column: int, before: Mapping[int, int]) -> None:
        while True:
            row = before[column]
            taken = self.rows.get(row)
            self.rows[row], self._columns[column] = column, row
            if row == start or taken is None:
                return
            column = taken


_MIN = 2.0
"""A pair that weighs less is none."""
_MIN_SPLIT = 4.0
"""And what a line must weigh to join one that has a partner already: no equal quantity speaks for it."""
_SURE = 4.0
"""What is said by lines of this weight is learned."""
_OTHER_WORDS = -2.5
"""What it costs to have no word in common: descriptions may be in two languages."""
_ROUNDS = 4
_NEAR_CODE = 75
"""Codes whose letters are this much alike (of 100) may be one, damaged by capture."""
_NEAR_WORD = 80
_MIN_ABBREVIATION = 3
_ALL = 30
"""Anchors that are all looked at, whatever a line has of them."""
_MOST = 100
"""Anchors that a line is weighed against, at most."""
_ZERO = Decimal(0)

Place = tuple[UUID, int]
"""A line of a document, by the document's id and the line's place."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A line that others are held against."""

    document: Document
    line: Line

    @property
    def place(self) -> Place:
        """Which line it is."""
        return self.document.id, self.line.place


@dataclass(frozen=True, slots=True)
class Names:
    """What else an anchor's article is called, in lines that are about it."""

    codes: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()


Learned = Mapping[Place, Names]
_NOTHING = Names()


def anchors(document: Document) -> list[Anchor]:
    """The lines of a document that can be held against others: those with a quantity or an amount."""
    return [Anchor(document, line) for line in document.lines if line.quantity is not None or line.net is not None]


def align_all(wanted: Mapping[UUID, tuple[Document, Sequence[Anchor]]]) -> dict[Place, Anchor]:
    """The anchor of each line that has one; `wanted` says for each document what its lines may be held against."""
    learned: Learned = {}
    found: dict[Place, Anchor] = {}
    for _ in range(_ROUNDS):
        weighed = [align(document, candidates, learned) for document, candidates in wanted.values()]
        again = {place: anchor for one in weighed for place, (anchor, _) in one.items()}
        if again == found:
            break
        found = again
        learned = learn((pair for one in weighed for pair in one.items()), wanted)
    return found


def learn(
    pairs: Iterable[tuple[Place, tuple[Anchor, float]]], wanted: Mapping[UUID, tuple[Document, Sequence[Anchor]]]
) -> Learned:
    """What each anchor is called by the lines that are surely about it.

    A number or a text that lines of two anchors of one document have tells nothing, and is not learned.
    """
    codes: dict[Place, set[str]] = defaultdict(set)
    texts: dict[Place, set[str]] = defaultdict(set)
    holders: dict[tuple[UUID, str], set[int]] = defaultdict(set)
    for (document_id, place), (anchor, weight) in pairs:
        if weight < _SURE:
            continue
        line = wanted[document_id][0].lines[place]
        id_, anchor_place = anchor.place
        for code in _codes_of(line):
            codes[anchor.place].add(code)
            holders[id_, f"#{code}"].add(anchor_place)
        if line.words:
            texts[anchor.place].add(line.words)
            holders[id_, line.words].add(anchor_place)
    return _of_articles(
        {
            place: Names(
                frozenset(code for code in codes[place] if len(holders[place[0], f"#{code}"]) == 1),
                frozenset(text for text in texts[place] if len(holders[place[0], text]) == 1),
            )
            for place in codes.keys() | texts.keys()
        },
        {anchor.place: _codes_of(anchor.line) for _, candidates in wanted.values() for anchor in candidates},
    )


def _of_articles(learned: Learned, own: Mapping[Place, frozenset[str]]) -> Learned:
    """An article that several orders have is called in all of them what it is called in one."""
    called: dict[str, set[str]] = defaultdict(set)
    for place, names in learned.items():
        for code in names.codes | own[place]:
            called[code] |= names.texts
    return {
        place: Names(names.codes, names.texts.union(*(called[code] for code in names.codes | codes)))
        for place, codes in own.items()
        if (names := learned.get(place, _NOTHING)) is not _NOTHING or any(code in called for code in codes)
    }


def align(document: Document, candidates: Sequence[Anchor], learned: Learned) -> dict[Place, tuple[Anchor, float]]:
    """The anchor of each line of `document` that has one, and how much speaks for it."""
    near = _Near(candidates, learned)
    weights = {
        (line.place, index): weight
        for line in document.lines
        for index in near.to(line)
        if (weight := weigh(line, candidates[index], near.positions, learned)) >= _MIN
    }
    pairs = assign(weights)
    left = {index: anchor.line.quantity or _ZERO for index, anchor in enumerate(candidates)}
    for place, index in pairs.items():
        left[index] -= document.lines[place].quantity or _ZERO
    possible: dict[int, list[int]] = defaultdict(list)
    for place, index in weights:
        possible[place].append(index)
    split: dict[int, int] = {}
    for line in document.lines:
        if line.place in pairs:
            continue
        fitting = [
            (weight + (1.0 if 0 < (line.quantity or _ZERO) <= left[index] else 0.0), -index)
            for index in possible[line.place]
            if (weight := weigh(line, candidates[index], near.positions, learned, with_quantity=False)) >= _MIN_SPLIT
        ]
        if fitting:
            split[line.place] = -max(fitting)[1]
            left[split[line.place]] -= line.quantity or _ZERO
    return {
        (document.id, place): (candidates[index], weights[place, index]) for place, index in (pairs | split).items()
    }


class _Near:
    """Finds the anchors that a line may be about: few are all looked at, and of many those that have something of it.

    An equal article number or description says enough: where a line has one, only the anchors that have it too are
    looked at, and those of the order line that it names. Else it is those that share a word, or quantity and amount.
    """

    def __init__(self, candidates: Sequence[Anchor], learned: Learned) -> None:
        self.positions = _positions(candidates)
        self._count = len(candidates)
        self._equal: dict[object, list[int]] = defaultdict(list)
        self._alike: dict[object, list[int]] = defaultdict(list)
        self._order_lines: dict[str, list[int]] = defaultdict(list)
        self._quantities = [anchor.line.quantity for anchor in candidates]
        for index, anchor in enumerate(candidates):
            line, names = anchor.line, learned.get(anchor.place, _NOTHING)
            for key in {*_codes_of(line), *names.codes, (line.words,), *((text,) for text in names.texts)} - {("",)}:
                self._equal[key].append(index)
            for word in {*line.words.split(), (line.quantity, line.net)}:
                self._alike[word].append(index)
            for label in {line.label.lstrip("0"), str(line.place + 1)}:
                self._order_lines[label].append(index)

    def to(self, line: Line) -> Sequence[int]:
        """The anchors by their places in the list, each once, at most _MOST."""
        if self._count <= _ALL:
            return range(self._count)
        named = self._order_lines.get((line.order_line or "").lstrip("0"), [])
        found = {index for key in (*_codes_of(line), (line.words,)) for index in self._equal.get(key, ())}
        if not found:
            keys = (*line.words.split(), (line.quantity, line.net))
            found = {index for key in keys for index in self._alike.get(key, ())}
        found.update(named)
        if len(found) <= _MOST:
            return sorted(found)
        return sorted(found, key=lambda index: (self._quantities[index] != line.quantity, index))[:_MOST]


def _positions(candidates: Iterable[Anchor]) -> Mapping[UUID, frozenset[str]]:
    found: dict[UUID, set[str]] = defaultdict(set)
    for anchor in candidates:
        found[anchor.document.id].add(anchor.line.label.lstrip("0"))
    return {id_: frozenset(labels) for id_, labels in found.items()}


def weigh(
    line: Line,
    anchor: Anchor,
    positions: Mapping[UUID, frozenset[str]],
    learned: Learned,
    *,
    with_quantity: bool = True,
) -> float:
    """How much speaks for a line being about an anchor, and against it."""
    other, names = anchor.line, learned.get(anchor.place, _NOTHING)
    weight = 0.0 if line.is_item == other.is_item else -1.0
    weight += _named(line, anchor, positions[anchor.document.id])
    weight += _codes(line, other, names)
    weight += max(_words(line.words, text) for text in (other.words, *names.texts))
    if line.unit is not None and other.unit is not None:
        weight += 0.5 if line.unit == other.unit else 0.0 if factor(line.unit, other.unit) else -2.0
    if with_quantity and line.quantity is not None and line.quantity == other.quantity:
        weight += 1.0
        weight += 1.0 if line.net is not None and line.net == other.net else 0.0
    return weight + _prices(line, other)


def _named(line: Line, anchor: Anchor, positions: frozenset[str]) -> float:
    """The order and the order line that a line names; the line by its position, else counted."""
    weight = 0.0
    if line.order is not None and anchor.document.reference is not None:
        weight += 3.0 if line.order.folded & anchor.document.reference.folded else -3.0
    if line.order_line is not None:
        label = line.order_line.lstrip("0")
        if label in positions:
            weight += 4.0 if label == anchor.line.label.lstrip("0") else -3.0
        else:
            weight += 4.0 if label == str(anchor.line.place + 1) else -2.0
    return weight


def _codes_of(line: Line) -> frozenset[str]:
    return frozenset(code for code in (line.article, line.buyer_article) if code is not None)


def _codes(line: Line, other: Line, names: Names) -> float:
    """Article numbers of the seller and of the buyer, which some write in each other's place."""
    mine = _codes_of(line)
    equal = len(mine & (_codes_of(other) | names.codes))
    if equal:
        return 7.0 + equal
    weight = 0.0
    for one, two in ((line.article, other.article), (line.buyer_article, other.buyer_article)):
        if one is not None and two is not None:
            weight -= 1.0 if ratio(one, two) >= _NEAR_CODE else 5.0
    return weight


def _words(mine: str, theirs: str) -> float:
    if not mine or not theirs:
        return 0.0
    if mine == theirs:
        return 6.0
    return max(9.0 * alike(mine, theirs) - 4.0, _OTHER_WORDS)


@lru_cache(maxsize=20_000)
def alike(mine: str, theirs: str) -> float:
    """How far two descriptions agree, from 0 to 1: the share of each that is in the other, in whatever order.

    A word also agrees with its abbreviation, and with what capture makes of it. The answers are kept: the lines of an
    order come again in each of its deliveries and invoices.
    """
    shares = _share(mine.split(), theirs.split()), _share(theirs.split(), mine.split())
    return (min(shares) + max(shares)) / 2


def _share(words: Sequence[str], others: Sequence[str]) -> float:
    said = [(_worth(word), max(_same_word(word, other) for other in others)) for word in words]
    return sum(worth * same for worth, same in said) / sum(worth for worth, _ in said)


def _worth(word: str) -> int:
    """How much a word says. A size of one letter tells articles apart as a long word does."""
    return min(max(len(word), 4), 10)


def _same_word(one: str, other: str) -> float:
    if one == other:
        return 1.0
    shorter, longer = sorted((one, other), key=len)
    if any(letter.isdigit() for letter in one + other):
        return 0.0  # sizes and types: a digit apart is another article
    if len(shorter) >= _MIN_ABBREVIATION and longer.startswith(shorter):
        return 0.9
    found = ratio(one, other)
    return found / 100 if found >= _NEAR_WORD else 0.0


def _prices(line: Line, other: Line) -> float:
    mine, theirs = line.price, other.price
    if not mine or not theirs:
        return 0.0
    per_unit = factor(line.unit, other.unit)
    if per_unit is None:
        return 0.0
    apart = abs(mine / per_unit / theirs - 1)
    return 2.5 if apart <= Decimal("0.005") else 1.0 if apart <= Decimal("0.1") else -0.5
