"""How well two documents fit: a sum of match weights, each with its evidence. Pure.

The model is Fellegi and Sunter's (A Theory for Record Linkage, 1969): a feature that agrees or disagrees at some level
adds log2(m / u) bits, where m is how often true pairs show that level and u how often other pairs do. The weights below
are estimates of that, the same for every tenant, rounded to half bits; features that depend on one another share a
bound. A value that many documents have alike says little (u is large): the number `34` adds less than `AEG012345`, the
tenant's own name, which is on all of its documents, less than its supplier's. What contradicts adds negative bits.

`SURE` is the sum from which a named partner is certain enough to be linked without asking: candidates that share a key
are partners about once in twenty (-4 bits), so 11 bits leave one error in a hundred or so. Who names no number has its
partner picked among similar documents, which needs more (`SURE_BY_CONTENT`), and a distance to the next best
(`MARGIN`).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rapidfuzz import fuzz
from rapidfuzz.distance import OSA

from counterfoil.documents.matching.normalise import Reference
from counterfoil.documents.matching.profile import CONTRACT, DELIVERY, INVOICE, ORDER, RECEIPT, Document, Line, Party

SURE = 11.0
SURE_BY_CONTENT = 16.0
MARGIN = 3.0
PRIOR = -4.0
"""Bits before any evidence, see above."""
DOUBTFUL = -PRIOR
"""The sum from which a named partner is more likely than not: too much to be passed over, if not enough to be sure."""

_PRICED = frozenset({INVOICE, ORDER, CONTRACT, "credit_note", "order_confirmation"})


class Evidence(NamedTuple):
    """What one feature says: bits, positive for a match."""

    feature: str
    level: str
    weight: float


@dataclass(frozen=True, slots=True)
class Score:
    """A pair's evidence."""

    evidence: tuple[Evidence, ...]
    named: bool
    """Whether the child names the parent's number, exactly or nearly."""

    @property
    def total(self) -> float:
        """Bits for a match in all."""
        return sum(item.weight for item in self.evidence)

    @property
    def fit(self) -> float:
        """Bits that tell candidates of one party apart: all but what says that the parties are the same.

        How completely a document names its parties says nothing about which of them is meant.
        """
        return sum(item.weight for item in self.evidence if item.feature not in ("seller", "buyer") or item.weight < 0)

    @property
    def probability(self) -> float:
        """Of a match, from the sum and the prior."""
        return 1.0 / (1.0 + math.exp2(-max(-60.0, min(60.0, self.total + PRIOR))))


def score(child: Document, parent: Document) -> Score:
    """Weigh whether `child` belongs to `parent`."""
    number = _number(child.named.get(parent.kind, ()), parent.number)
    found = [number] if number else []
    found += _party("seller", child.seller, parent.seller, 1.0, 1.0)
    found += _party("buyer", child.buyer, parent.buyer, _COMMON, 1.0)
    found += _dates(child, parent)
    if child.currency and parent.currency and child.currency != parent.currency:
        found.append(Evidence("currency", "differs", -3.0))
    if child.kind != parent.kind:
        found += _shared_numbers(child, parent)
    matched = match_lines(child.lines, parent.lines, priced=child.kind in _PRICED and parent.kind in _PRICED)
    found += _lines(child, parent, matched)
    found += _amounts(child, parent)
    return Score(tuple(found), number is not None and number.weight > 0)


def parties(a: Document, b: Document) -> float:
    """Bits for two documents being between the same parties."""
    found = _party("seller", a.seller, b.seller, 1.0, 1.0) + _party("buyer", a.buyer, b.buyer, _COMMON, 1.0)
    return sum(item.weight for item in found)


# -- numbers --------------------------------------------------------------------------------------------------------

_MAX_NUMBER = 12.0
_BITS_PER_CHARACTER = 2.0
"""Of a number's characters: numbers run in sequence, so less than the 3.3 bits of a random digit."""


def _number(named: Iterable[Reference], own: Reference | None) -> Evidence | None:
    """The best agreement of the numbers that the child names with the parent's own."""
    if own is None:
        return None
    return max((_agreement(reference, own) for reference in named), key=lambda item: item.weight, default=None)


def _agreement(named: Reference, own: Reference) -> Evidence:
    bits = min(_MAX_NUMBER, 2.0 + _BITS_PER_CHARACTER * min(named.length, own.length))
    if named.exact & own.exact:
        return Evidence("number", "same", bits)
    if named.folded & own.folded:
        return Evidence("number", "same but for characters that capture confuses", bits - 1.0)
    if named.tail is not None and named.tail == own.tail:
        return Evidence("number", "same digits at the end", min(bits, 2.0 + _BITS_PER_CHARACTER * len(own.tail)) - 2.0)
    if min(named.length, own.length) >= 4 and any(OSA.distance(a, b) <= 1 for a in named.folded for b in own.folded):
        return Evidence("number", "one character differs", -1.0)  # a typing error, or the next number of the sequence
    return Evidence("number", "names another", -8.0)


def _shared_numbers(child: Document, parent: Document) -> list[Evidence]:
    """Both name the same third document: the order of a delivery and of the receipt for it."""
    for kind in (ORDER, DELIVERY):
        if kind in (child.kind, parent.kind):
            continue
        mine, theirs = child.named.get(kind, ()), parent.named.get(kind, ())
        if mine and theirs:
            best = max((_agreement(a, b) for a in mine for b in theirs), key=lambda item: item.weight)
            return [Evidence(f"{kind} of both", best.level, min(6.0, best.weight))]
    return []


# -- parties --------------------------------------------------------------------------------------------------------

_COMMON = 0.3
"""Share of the weight of an agreement that a value keeps which is on most documents of a tenant: its own name."""
_MAX_PARTY = 9.0
_IDENTIFIED = 8.0


def _party(feature: str, a: Party, b: Party, agree: float, differ: float) -> list[Evidence]:
    found = _vat(a, b) + _identifiers(a, b) + _name(a, b)
    if not found:
        return []
    agreeing = max((weight for _, weight in found if weight > 0), default=0.0)
    second = sum(weight for _, weight in found if weight > 0) - agreeing
    differing = min((weight for _, weight in found if weight < 0), default=0.0)
    if agreeing >= _IDENTIFIED:
        differing = max(differing, -1.0)  # the identifier is the party, whatever its name looks like
    weight = min(_MAX_PARTY, agreeing + second / 2) * agree + differing * differ
    return [Evidence(feature, ", ".join(level for level, _ in found), round(weight, 1))]


def _vat(a: Party, b: Party) -> list[tuple[str, float]]:
    if not a.vat or not b.vat:
        return []
    if a.vat == b.vat:
        return [("same VAT id", 8.0)]
    if OSA.distance(a.vat, b.vat, score_cutoff=1) <= 1:
        return [("VAT id differs by one character", 3.0)]
    return [("another VAT id", -9.0)]


def _identifiers(a: Party, b: Party) -> list[tuple[str, float]]:
    both = a.identifiers.keys() & b.identifiers.keys()
    if same := sorted(field for field in both if a.identifiers[field] == b.identifiers[field]):
        return [(f"same {same[0].replace('_', ' ')}", 6.0)]
    if both & {"registration_id", "endpoint_id"}:
        return [("another register or endpoint id", -3.0)]
    return []


def _name(a: Party, b: Party) -> list[tuple[str, float]]:
    if a.name is None or b.name is None:
        return []
    other_form = a.name.form is not None and b.name.form is not None and a.name.form != b.name.form
    if a.name.core == b.name.core:
        return [("same name, another legal form", 2.0), ("form", -2.0)] if other_form else [("same name", 5.0)]
    similarity = fuzz.ratio(a.name.core, b.name.core)
    if similarity >= 88:
        return [("similar name", 3.0)]
    if _abbreviated(a.name.core, b.name.core):
        return [("shortened name", 2.0)]
    return [("name resembles", -2.0)] if similarity >= 70 else [("another name", -6.0)]


def _abbreviated(a: str, b: str) -> bool:
    """Whether the words of the shorter name each begin a word of the longer one."""
    short, long = sorted((a.split(), b.split()), key=lambda found: (len(found), sum(map(len, found))))
    return all(any(word.startswith(part) or part.startswith(word) for word in long) for part in short if len(part) > 2)


# -- dates ----------------------------------------------------------------------------------------------------------


def _dates(child: Document, parent: Document) -> list[Evidence]:
    """A child is dated after its parent, mostly within two months; a contract runs for years."""
    if child.day is None or parent.day is None:
        return []
    days = child.day - parent.day
    if parent.kind == CONTRACT:
        level, weight = ("before the contract", -6.0) if days < 0 else ("while it runs", 1.0 if days <= 400 else -2.0)
    elif days < -30:
        level, weight = "long before it", -10.0
    elif days < -(14 if parent.kind in (DELIVERY, INVOICE) else 3):
        level, weight = "before it", -4.0
    elif days <= 45:
        level, weight = "soon after", 2.0
    elif days <= 100:
        level, weight = "weeks after", 0.0
    else:
        level, weight = ("months after", -3.0) if days <= 400 else ("years after", -7.0)
    return [Evidence("date", level, weight)]


# -- lines and amounts ----------------------------------------------------------------------------------------------

_MAX_LINES, _MIN_LINES = 14.0, -9.0
_MIN_LINES_OF_SEVERAL = -4.0
"""Who names several parents has lines about each of them."""


class LineMatch(NamedTuple):
    """A line of the child and the line of the parent that it is about."""

    child: Line
    parent: Line
    weight: float


def match_lines(child: tuple[Line, ...], parent: tuple[Line, ...], *, priced: bool = True) -> list[LineMatch]:
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
    """Bits for two lines being about the same item of the same deal; 0 where they are about different items."""
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


def _lines(child: Document, parent: Document, matched: list[LineMatch]) -> list[Evidence]:
    if not child.lines or not parent.lines:
        return []
    missing = len(child.lines) - len(matched)
    level = f"{len(matched)} of {len(child.lines)} lines fit"
    weight = sum(pair.weight for pair in matched)
    if parent.kind == CONTRACT:  # who calls off names the contract, or takes just what it is about
        others = len(parent.lines) - len(matched)
        level += f", {others} of the contract's are not there" if others else ""
        weight = min(_MAX_LINES, weight) - 5.0 * (missing + others)
    else:
        weight = min(_MAX_LINES, weight - 3.0 * missing)
    least = _MIN_LINES if len(child.named.get(parent.kind, ())) < 2 else _MIN_LINES_OF_SEVERAL
    return [Evidence("lines", level, round(max(least, weight), 1))]


_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Usual shares of an order's total that are billed in advance."""


def _amounts(child: Document, parent: Document) -> list[Evidence]:
    """Totals; for a child without goods, also one line over the parent's total, or a usual share of it."""
    if child.kind in (DELIVERY, RECEIPT) or parent.kind == CONTRACT or not child.net or not parent.net:
        return []
    if abs(child.net - parent.net) <= 1:
        return [Evidence("total", "same", 5.0)]
    if not child.lines:
        if any(abs(amount - parent.net) <= 1 for amount in child.amounts):
            return [Evidence("total", "a line over the whole", 5.0)]
        if any(abs(child.net - parent.net * share) <= 1 for share in _SHARES):
            return [Evidence("total", "a usual share in advance", 4.0)]
        return [Evidence("total", "differs", -2.0)]
    return []
