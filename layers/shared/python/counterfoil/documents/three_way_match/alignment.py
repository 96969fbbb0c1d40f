"""Alignment of line items with those of an order or a delivery. Pure.

A document is aligned with its order, or with its delivery if that has no order.

Each possible pair is scored by article numbers, named order and line, words, quantity, amount, unit and price. The
pairs with the largest total score are chosen, each line item once (`assign`). A remaining line item joins the order
line that it clearly matches, because an order line may be billed or delivered in several parts (a split).

Documents name an article differently: the order may have only the buyer's number, the delivery note only the
supplier's, and both may abbreviate. Each round therefore also uses the numbers and words of all line items that the
previous round aligned with an order line (`learn_item_codes`). It ends when nothing changes, or after _ROUNDS rounds.

The assignment problem (Kuhn, Munkres) is solved on a sparse graph by successive shortest augmenting paths with
potentials (Edmonds and Karp 1972; Jonker and Volgenant 1987). For r rows and e possible pairs, this takes at most r
searches of O(e log e), each of which ends at the first free column. A numerical library would double the layer's size.
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

from counterfoil.documents.three_way_match.model import Document, Line, conversion_factor

Pairs = Mapping[tuple[int, int], float]


def assign(weights: Pairs) -> dict[int, int]:
    """Pair rows with columns for the largest sum of positive `weights`.

    Each row and each column is paired at most once. `weights` contains the possible pairs by (row, column). Returns the
    column of each paired row. The choice among equally good results does not depend on the order of the mapping.
    """
    costs: dict[int, dict[int, float]] = {}
    for (row, column), weight in sorted(weights.items()):
        if weight > 0:
            costs.setdefault(row, {})[column] = -weight
    first_separate = 1 + max((column for row in costs.values() for column in row), default=0)
    for row, row_costs in costs.items():
        row_costs[first_separate + row] = 0.0  # a separate column: the row may stay unpaired at no cost
    return {row: column for row, column in _Assignment(costs).rows.items() if column < first_separate}


class _Assignment:
    """Finds the pairs with the lowest total cost, row by row.

    Costs minus potentials are never negative.
    """

    def __init__(self, costs: Mapping[int, Mapping[int, float]]) -> None:
        """Assign all rows.

        `costs` are by row and column. Every row has a column that no other row has.
        """
        self.rows: dict[int, int] = {}
        self._costs = costs
        self._columns: dict[int, int] = {}
        self._row_potential = dict.fromkeys(costs, 0.0)
        self._column_potential: dict[int, float] = {}
        for row in costs:
            self._augment(row)

    def _augment(self, start: int) -> None:
        """Assign a column to a row along the shortest augmenting path.

        The other rows on the path get new columns.
        """
        final_lengths: dict[int, float] = {}
        lengths: dict[int, float] = {}
        previous_rows: dict[int, int] = {}
        queue: list[tuple[float, int]] = []
        row, length = start, 0.0
        while True:
            for column, cost in self._costs[row].items():
                reduced = cost - self._row_potential[row] - self._column_potential.get(column, 0.0)
                if column not in final_lengths and length + reduced < lengths.get(column, inf):
                    lengths[column], previous_rows[column] = length + reduced, row
                    heappush(queue, (length + reduced, column))
            length, nearest = heappop(queue)
            while nearest in final_lengths:
                length, nearest = heappop(queue)
            if nearest not in self._columns:
                break
            final_lengths[nearest] = length
            row = self._columns[nearest]
        self._row_potential[start] += length
        for column, column_length in final_lengths.items():
            self._row_potential[self._columns[column]] += length - column_length
            self._column_potential[column] = self._column_potential.get(column, 0.0) - (length - column_length)
        self._flip_path(start, nearest, previous_rows)

    def _flip_path(self, start: int, column: int, previous_rows: Mapping[int, int]) -> None:
        while True:
            row = previous_rows[column]
            previous_column = self.rows.get(row)
            self.rows[row], self._columns[column] = column, row
            if row == start or previous_column is None:
                return
            column = previous_column


_MIN = 2.0
"""Minimum score of a pair."""
_MIN_SPLIT = 4.0
"""Minimum score to join an anchor that is already paired. Equal quantities do not count in this score."""
_MIN_LEARNED = 4.0
"""Minimum score of a pair from which names are learned."""
_NO_COMMON_WORDS = -2.5
"""Minimum score of two descriptions. Without common words, they may be in different languages."""
_ROUNDS = 4
_NEAR_CODE = 75
"""Minimum similarity (0 to 100) of codes that may be equal except for OCR errors."""
_NEAR_WORD = 80
_MIN_ABBREVIATION = 3
_COMPARE_ALL = 30
"""If a document has at most this many anchors, its line items are compared with all of them."""
_MAX_ANCHORS = 100
"""Maximum number of anchors compared with a line item."""
_ZERO = Decimal(0)

Place = tuple[UUID, int]
"""A line item by document id and index."""


@dataclass(frozen=True, slots=True)
class OrderLine:
    """An anchor: a line item with which other line items are aligned."""

    document: Document
    line: Line

    @property
    def place(self) -> Place:
        """Document and index of the line item."""
        return self.document.id, self.line.place


@dataclass(frozen=True, slots=True)
class Names:
    """An article's numbers and descriptions, learned from aligned line items."""

    codes: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()


LearnedNames = Mapping[Place, Names]
_NO_NAMES = Names()


def anchors(document: Document) -> list[OrderLine]:
    """Return the line items with a quantity or an amount, which can be anchors."""
    return [OrderLine(document, line) for line in document.lines if line.quantity is not None or line.net is not None]


def align_documents(documents: Mapping[UUID, tuple[Document, Sequence[OrderLine]]]) -> dict[Place, OrderLine]:
    """Return the anchor of each aligned line item.

    `documents` has the possible anchors of each document.
    """
    learned: LearnedNames = {}
    aligned: dict[Place, OrderLine] = {}
    for _ in range(_ROUNDS):
        alignments = [align(document, candidates, learned) for document, candidates in documents.values()]
        updated = {place: anchor for alignment in alignments for place, (anchor, _) in alignment.items()}
        if updated == aligned:
            break
        aligned = updated
        learned = learn_item_codes((pair for alignment in alignments for pair in alignment.items()), documents)
    return aligned


def learn_item_codes(
    pairs: Iterable[tuple[Place, tuple[OrderLine, float]]],
    documents: Mapping[UUID, tuple[Document, Sequence[OrderLine]]],
) -> LearnedNames:
    """Return each anchor's names, learned from line items that clearly match it.

    A number or text aligned with two anchors of one document is ambiguous and not learned.
    """
    codes: dict[Place, set[str]] = defaultdict(set)
    texts: dict[Place, set[str]] = defaultdict(set)
    holders: dict[tuple[UUID, str], set[int]] = defaultdict(set)
    for (document_id, place), (anchor, weight) in pairs:
        if weight < _MIN_LEARNED:
            continue
        line = documents[document_id][0].lines[place]
        id_, anchor_place = anchor.place
        for code in _codes_of(line):
            codes[anchor.place].add(code)
            holders[id_, f"#{code}"].add(anchor_place)
        if line.words:
            texts[anchor.place].add(line.words)
            holders[id_, line.words].add(anchor_place)
    return _share_by_article(
        {
            place: Names(
                frozenset(code for code in codes[place] if len(holders[place[0], f"#{code}"]) == 1),
                frozenset(text for text in texts[place] if len(holders[place[0], text]) == 1),
            )
            for place in codes.keys() | texts.keys()
        },
        {anchor.place: _codes_of(anchor.line) for _, candidates in documents.values() for anchor in candidates},
    )


def _share_by_article(learned: LearnedNames, own_codes: Mapping[Place, frozenset[str]]) -> LearnedNames:
    """Share the learned names of an article between all orders that contain it."""
    texts_by_code: dict[str, set[str]] = defaultdict(set)
    for place, names in learned.items():
        for code in names.codes | own_codes[place]:
            texts_by_code[code] |= names.texts
    return {
        place: Names(names.codes, names.texts.union(*(texts_by_code[code] for code in names.codes | codes)))
        for place, codes in own_codes.items()
        if (names := learned.get(place, _NO_NAMES)) is not _NO_NAMES or any(code in texts_by_code for code in codes)
    }


def align(
    document: Document, candidates: Sequence[OrderLine], learned: LearnedNames
) -> dict[Place, tuple[OrderLine, float]]:
    """Return the anchor and score of each aligned line item of `document`."""
    candidate_index = _CandidateIndex(candidates, learned)
    positions = candidate_index.positions
    weights = {
        (line.place, index): weight
        for line in document.lines
        for index in candidate_index.candidates_for(line)
        if (weight := line_similarity(line, candidates[index], positions, learned)) >= _MIN
    }
    pairs = assign(weights)
    remaining = {index: anchor.line.quantity or _ZERO for index, anchor in enumerate(candidates)}
    for place, index in pairs.items():
        remaining[index] -= document.lines[place].quantity or _ZERO
    candidate_indexes: dict[int, list[int]] = defaultdict(list)
    for place, index in weights:
        candidate_indexes[place].append(index)
    split: dict[int, int] = {}
    for line in document.lines:
        if line.place in pairs:
            continue
        options = [
            (weight + (1.0 if 0 < (line.quantity or _ZERO) <= remaining[index] else 0.0), -index)
            for index in candidate_indexes[line.place]
            if (weight := line_similarity(line, candidates[index], positions, learned, with_quantity=False))
            >= _MIN_SPLIT
        ]
        if options:
            split[line.place] = -max(options)[1]
            remaining[split[line.place]] -= line.quantity or _ZERO
    return {
        (document.id, place): (candidates[index], weights[place, index]) for place, index in (pairs | split).items()
    }


class _CandidateIndex:
    """Finds the anchors that a line item may match.

    If there are few anchors, all are returned.

    If there are many, anchors with the same article number or description are returned. If no anchor has the same,
    anchors with a common word, or with the same quantity and amount, are returned. The named order line is added.
    Beyond _MAX_ANCHORS, anchors with the same quantity come first, and the rest are dropped.
    """

    def __init__(self, candidates: Sequence[OrderLine], learned: LearnedNames) -> None:
        self.positions = _positions(candidates)
        self._count = len(candidates)
        self._equal: dict[object, list[int]] = defaultdict(list)
        self._similar: dict[object, list[int]] = defaultdict(list)
        self._order_lines: dict[str, list[int]] = defaultdict(list)
        self._quantities = [anchor.line.quantity for anchor in candidates]
        for index, anchor in enumerate(candidates):
            line, names = anchor.line, learned.get(anchor.place, _NO_NAMES)
            for key in {*_codes_of(line), *names.codes, (line.words,), *((text,) for text in names.texts)} - {("",)}:
                self._equal[key].append(index)
            for word in {*line.words.split(), (line.quantity, line.net)}:
                self._similar[word].append(index)
            for label in {line.label.lstrip("0"), str(line.place + 1)}:
                self._order_lines[label].append(index)

    def candidates_for(self, line: Line) -> Sequence[int]:
        """Return the distinct indices of at most _MAX_ANCHORS anchors."""
        if self._count <= _COMPARE_ALL:
            return range(self._count)
        by_order_line = self._order_lines.get((line.order_line or "").lstrip("0"), [])
        indexes = {index for key in (*_codes_of(line), (line.words,)) for index in self._equal.get(key, ())}
        if not indexes:
            keys = (*line.words.split(), (line.quantity, line.net))
            indexes = {index for key in keys for index in self._similar.get(key, ())}
        indexes.update(by_order_line)
        if len(indexes) <= _MAX_ANCHORS:
            return sorted(indexes)
        return sorted(indexes, key=lambda index: (self._quantities[index] != line.quantity, index))[:_MAX_ANCHORS]


def _positions(candidates: Iterable[OrderLine]) -> Mapping[UUID, frozenset[str]]:
    labels_by_document: dict[UUID, set[str]] = defaultdict(set)
    for anchor in candidates:
        labels_by_document[anchor.document.id].add(anchor.line.label.lstrip("0"))
    return {id_: frozenset(labels) for id_, labels in labels_by_document.items()}


def line_similarity(
    line: Line,
    anchor: OrderLine,
    positions: Mapping[UUID, frozenset[str]],
    learned: LearnedNames,
    *,
    with_quantity: bool = True,
) -> float:
    """Return the score of a line item and an anchor."""
    anchor_line, names = anchor.line, learned.get(anchor.place, _NO_NAMES)
    weight = 0.0 if line.is_item == anchor_line.is_item else -1.0
    weight += _score_reference(line, anchor, positions[anchor.document.id])
    weight += _score_codes(line, anchor_line, names)
    weight += max(_score_words(line.words, text) for text in (anchor_line.words, *names.texts))
    if line.unit is not None and anchor_line.unit is not None:
        weight += (
            0.5 if line.unit == anchor_line.unit else 0.0 if conversion_factor(line.unit, anchor_line.unit) else -2.0
        )
    if with_quantity and line.quantity is not None and line.quantity == anchor_line.quantity:
        weight += 1.0
        weight += 1.0 if line.net is not None and line.net == anchor_line.net else 0.0
    return weight + _score_prices(line, anchor_line)


def _score_reference(line: Line, anchor: OrderLine, positions: frozenset[str]) -> float:
    """Return the score of the named order and order line.

    An order line is named by its position, or else by its index from 1.
    """
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


def _score_codes(line: Line, other: Line, names: Names) -> float:
    """Return the score of article numbers.

    The supplier's and the buyer's numbers may be swapped.
    """
    codes = _codes_of(line)
    equal = len(codes & (_codes_of(other) | names.codes))
    if equal:
        return 7.0 + equal
    weight = 0.0
    for code, other_code in ((line.article, other.article), (line.buyer_article, other.buyer_article)):
        if code is not None and other_code is not None:
            weight -= 1.0 if ratio(code, other_code) >= _NEAR_CODE else 5.0
    return weight


def _score_words(words: str, other_words: str) -> float:
    if not words or not other_words:
        return 0.0
    if words == other_words:
        return 6.0
    return max(9.0 * text_similarity(words, other_words) - 4.0, _NO_COMMON_WORDS)


@lru_cache(maxsize=20_000)
def text_similarity(first: str, second: str) -> float:
    """Return the similarity of two descriptions, from 0 to 1.

    It is the mean share of each description that occurs in the other. The order of words is ignored. A word also
    matches its abbreviation, and a spelling with OCR errors. Results are cached, because an order's line items recur in
    its deliveries and invoices.
    """
    shares = _share(first.split(), second.split()), _share(second.split(), first.split())
    return (min(shares) + max(shares)) / 2


def _share(words: Sequence[str], other_words: Sequence[str]) -> float:
    scored = [(_word_weight(word), max(_word_similarity(word, other) for other in other_words)) for word in words]
    return sum(weight * similarity for weight, similarity in scored) / sum(weight for weight, _ in scored)


def _word_weight(word: str) -> int:
    """Return a word's length, from 4 to 10.

    Short words count as 4, because they may be sizes.
    """
    return min(max(len(word), 4), 10)


def _word_similarity(word: str, other: str) -> float:
    if word == other:
        return 1.0
    shorter, longer = sorted((word, other), key=len)
    if any(letter.isdigit() for letter in word + other):
        return 0.0  # sizes and types: a different digit means a different article
    if len(shorter) >= _MIN_ABBREVIATION and longer.startswith(shorter):
        return 0.9
    similarity = ratio(word, other)
    return similarity / 100 if similarity >= _NEAR_WORD else 0.0


def _score_prices(line: Line, other: Line) -> float:
    price, other_price = line.price, other.price
    if not price or not other_price:
        return 0.0
    per_unit = conversion_factor(line.unit, other.unit)
    if per_unit is None:
        return 0.0
    deviation = abs(price / per_unit / other_price - 1)
    return 2.5 if deviation <= Decimal("0.005") else 1.0 if deviation <= Decimal("0.1") else -0.5
