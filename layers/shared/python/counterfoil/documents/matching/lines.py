"""Which lines of two documents are about the same thing. Pure."""

from collections.abc import Sequence
from typing import NamedTuple

from rapidfuzz import fuzz
from rapidfuzz.distance import OSA

from counterfoil.documents.matching.profile import Line


class LineMatch(NamedTuple):
    """A line of the child and the line of the parent that it is about."""

    child: Line
    parent: Line
    weight: float


def match_lines(child: Sequence[Line], parent: Sequence[Line], *, priced: bool = True) -> list[LineMatch]:
    """Pair the lines that are about the same thing, the best pairs first; each line is used once."""
    pairs = sorted(
        (
            (weight, i, j)
            for i, mine in enumerate(child)
            for j, theirs in enumerate(parent)
            if (weight := _line(mine, theirs, priced=priced)) > 0
        ),
        key=lambda pair: (-pair[0], pair[1], pair[2]),
    )
    used_child: set[int] = set()
    used_parent: set[int] = set()
    found = []
    for weight, i, j in pairs:
        if i not in used_child and j not in used_parent:
            used_child.add(i)
            used_parent.add(j)
            found.append(LineMatch(child[i], parent[j], weight))
    return found


def _line(mine: Line, theirs: Line, *, priced: bool) -> float:
    """How well two lines go together; 0 where they are about different items."""
    same_price = priced and close(mine.price, theirs.price)
    weight = _item(mine, theirs, same_price=same_price)
    if weight <= 0:
        return 0.0
    if priced and mine.price is not None and theirs.price is not None:
        weight += 3.0 if same_price else -1.0
    if mine.quantity is not None and theirs.quantity is not None:
        same = close(mine.quantity, theirs.quantity)
        weight += 2.0 if same else 0.5 if mine.quantity < theirs.quantity else -1.0
    return max(weight, 0.1)


def _item(mine: Line, theirs: Line, *, same_price: bool) -> float:
    for a, b in ((mine.article, theirs.article), (mine.buyer_article, theirs.buyer_article)):
        if a and b:
            if a == b:
                return 3.0
            if OSA.distance(a, b, score_cutoff=1) > 1:
                return 0.0
    similarity = fuzz.token_set_ratio(mine.text, theirs.text) if mine.text and theirs.text else 0.0
    if similarity >= 90:
        return 2.0
    # Another language, or damaged: the same unit and price still say that it is the same thing.
    if same_price and mine.unit == theirs.unit and mine.price is not None and mine.price >= 1:
        return 1.5 if similarity >= 50 else 0.5
    return 1.0 if similarity >= 75 else 0.0


def close(a: float | None, b: float | None, tolerance: float = 1e-6) -> bool:
    """Whether two numbers are stated and equal but for rounding."""
    return a is not None and b is not None and abs(a - b) <= tolerance * max(abs(a), abs(b))
