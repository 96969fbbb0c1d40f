"""Compares two documents: for each feature, and for their lines, the level of agreement or contradiction. Pure.

A level is a word or two, for a table of weights and for people. A value that only one of the two states has no level,
nor has what nearly all candidates share, such as the currency.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rapidfuzz import fuzz
from rapidfuzz.distance import OSA

from counterfoil.documents.matching.normalise import (
    CONTRACT,
    DELIVERY,
    INVOICE,
    ORDER,
    RECEIPT,
    Document,
    Line,
    Name,
    Party,
    Reference,
    same_vat,
)


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


_PRICED = frozenset({INVOICE, ORDER, CONTRACT, "credit_note", "order_confirmation"})


class Level(NamedTuple):
    """At which level a feature agrees."""

    feature: str
    level: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A pair's levels."""

    levels: tuple[Level, ...]
    named: bool
    """Whether the child names the parent's number, as far as capture lets it be read."""


def compare(child: Document, parent: Document, claims: Collection[Document] = ()) -> Comparison:
    """Compare a document with one that it may belong to.

    `claims` are the documents that name the parent's number, which leave less of it to a child that does not.
    """
    number = _best(child.named.get(parent.kind, ()), parent.number)
    named = number is not None and number not in ("another", "one character differs")
    found = [Level("number", number)] if number else []
    found += parties(child, parent)
    found += _dates(child, parent)
    if child.currency and parent.currency and child.currency != parent.currency:
        found.append(Level("currency", "differs"))
    if child.kind != parent.kind:
        found += _shared_numbers(child, parent)
    if not (named and parent.kind == CONTRACT):  # a frame contract does not list all that is called off under it
        found += _lines(child, parent)
    found += _total(child, parent)
    if not named and parent.kind != CONTRACT:
        found += _left(child, parent, claims)
    return Comparison(tuple(found), named)


# -- numbers --------------------------------------------------------------------------------------------------------

_RANK = ("same", "same as far as capture can be read", "the same end", "one character differs", "another")


def _best(named: Iterable[Reference], own: Reference | None) -> str | None:
    """The best agreement of the numbers that one names with the other's own."""
    if own is None:
        return None
    return min(
        (agreement(reference, own) for reference in named),
        key=lambda level: _RANK.index(level.split(", ", maxsplit=1)[0]),
        default=None,
    )


def _rank(level: str) -> int:
    return _RANK.index(level.split(", ", maxsplit=1)[0])


def agreement(named: Reference, own: Reference) -> str:
    """How a number that somebody names agrees with a document's own. What agrees says how long it is."""
    length = min(named.length, own.length)
    if named.exact & own.exact:
        return f"same, {length_of(length)}"
    if named.folded & own.folded:
        return f"same as far as capture can be read, {length_of(length)}"
    if named.tail is not None and named.tail == own.tail:
        return f"the same end, {length_of(len(named.tail))}"
    if length >= 3 and any(OSA.distance(a, b) <= 1 for a in named.folded for b in own.folded):
        return "one character differs"
    return "another"


def length_of(characters: int) -> str:
    """How long a number is, as the levels say it: longer ones say more."""
    return "short" if characters <= 3 else "medium" if characters <= 5 else "long"


def _shared_numbers(child: Document, parent: Document) -> list[Level]:
    """Both name the same third document: the order of a delivery and of the receipt for it."""
    found = []
    for kind in (ORDER, DELIVERY, CONTRACT):
        if kind in (child.kind, parent.kind):
            continue
        mine, theirs = child.named.get(kind, ()), parent.named.get(kind, ())
        if mine and theirs:
            best = min(
                (agreement(a, b) for a in mine for b in theirs),
                key=lambda level: _RANK.index(level.split(", ", maxsplit=1)[0]),
            )
            found.append(Level(f"{kind.replace('_', ' ')} of both", best))
    return found


# -- parties --------------------------------------------------------------------------------------------------------


IDENTITIES = (
    "same VAT id",
    "VAT id differs by one character",
    "another VAT id",
    "same identifier",
    "another register or endpoint id",
)
NAMES = (
    "same name",
    "same name, another legal form",
    "similar name",
    "shortened name",
    "name resembles",
    "another name",
)


def parties(a: Document, b: Document) -> list[Level]:
    """How two documents agree in who sells and who buys."""
    return [
        Level(side, ", ".join(levels))
        for side, one, other in (("seller", a.seller, b.seller), ("buyer", a.buyer, b.buyer))
        if (levels := [level for level in (_identity(one, other), _name(one, other)) if level])
    ]


def _identity(a: Party, b: Party) -> str | None:
    if a.vat and b.vat:
        if same_vat(a.vat, b.vat):
            return "same VAT id"
        return (
            "VAT id differs by one character" if OSA.distance(a.vat, b.vat, score_cutoff=1) <= 1 else "another VAT id"
        )
    both = a.identifiers.keys() & b.identifiers.keys()
    if any(a.identifiers[field] == b.identifiers[field] for field in both):
        return "same identifier"
    return "another register or endpoint id" if both & {"registration_id", "endpoint_id"} else None


def _name(a: Party, b: Party) -> str | None:
    if a.name is None or b.name is None:
        return None
    if a.name.core == b.name.core:
        other_form = a.name.form is not None and b.name.form is not None and a.name.form != b.name.form
        return "same name, another legal form" if other_form else "same name"
    similarity = fuzz.ratio(a.name.core, b.name.core)
    if similarity >= 88 or _other_name(a.name, b.name):
        return "similar name"
    if _abbreviated(a.name.core, b.name.core):
        return "shortened name"
    return "name resembles" if similarity >= 70 else "another name"


def _other_name(a: Name, b: Name) -> bool:
    """Whether one name is the other name that the other one states, or both state the same one."""
    return a.core in b.others or b.core in a.others or not a.others.isdisjoint(b.others)


def _abbreviated(a: str, b: str) -> bool:
    """Whether the words of the shorter name each begin a word of the longer one."""
    short, long = sorted((a.split(), b.split()), key=lambda found: (len(found), sum(map(len, found))))
    return all(any(word.startswith(part) or part.startswith(word) for word in long) for part in short if len(part) > 2)


# -- dates ----------------------------------------------------------------------------------------------------------

_DAYS = (
    (-31, "more than a month before it"),
    (-15, "weeks before it"),
    (-4, "days before it"),
    (-1, "just before it"),
    (21, "within three weeks"),
    (45, "soon after"),
    (100, "weeks after"),
    (400, "months after"),
)


def _dates(child: Document, parent: Document) -> list[Level]:
    if child.day is None or parent.day is None:
        return []
    days = child.day - parent.day
    if parent.kind == CONTRACT:
        return [Level("date", "before the contract" if days < 0 else "while it may run" if days <= 400 else "years on")]
    return [Level("date", next((level for last, level in _DAYS if days <= last), "years after"))]


# -- lines and amounts ----------------------------------------------------------------------------------------------


def _lines(child: Document, parent: Document) -> list[Level]:
    if not child.lines or not parent.lines:
        return []
    priced = child.kind in _PRICED and parent.kind in _PRICED
    matched = match_lines(child.lines, parent.lines, priced=priced)
    if parent.kind == CONTRACT:  # it fixes prices
        matched = [pair for pair in matched if not _other_price(pair)]
    several = len(child.named.get(parent.kind, ())) > 1  # who names several parents has lines about each of them
    whole = min(len(child.lines), len(parent.lines)) if several else len(child.lines)
    found = [Level("lines", f"{_share(len(matched), whole)} of {_count(whole)}")]
    found += _articles(child, parent, matched)
    if matched:
        found += [Level("rest", "lines left over")] if len(matched) < len(parent.lines) else []
        found += _prices(matched) if priced else []
        found += _quantities(matched)
    return found


def _share(part: int, whole: int) -> str:
    return "all" if part >= whole else "most" if 2 * part > whole else "few" if part else "none"


def _count(number: int) -> str:
    return {1: "one", 2: "two"}.get(number, "several")


def _articles(child: Document, parent: Document, matched: Sequence[LineMatch]) -> list[Level]:
    stated = [
        [(line.article, line.buyer_article) for line in document.lines if line.article or line.buyer_article]
        for document in (child, parent)
    ]
    comparable = any(any(a[sort] for a in stated[0]) and any(b[sort] for b in stated[1]) for sort in (0, 1))
    if not comparable:
        return []
    same = sum(
        1
        for pair in matched
        if (pair.child.article and pair.child.article == pair.parent.article)
        or (pair.child.buyer_article and pair.child.buyer_article == pair.parent.buyer_article)
    )
    return [Level("articles", "none the same" if not same else f"{_count(same)} the same")]


def _other_price(pair: LineMatch) -> bool:
    one, other = pair.child.price, pair.parent.price
    return one is not None and other is not None and not close(one, other)


def _prices(matched: Sequence[LineMatch]) -> list[Level]:
    stated = [pair for pair in matched if pair.child.price is not None and pair.parent.price is not None]
    if not stated:
        return []
    same = sum(not _other_price(pair) for pair in stated)
    return [
        Level(
            "prices", f"all {_count(same)} the same" if same == len(stated) else "some the same" if same else "differ"
        )
    ]


def _quantities(matched: Sequence[LineMatch]) -> list[Level]:
    stated = [
        (pair.child.quantity, pair.parent.quantity)
        for pair in matched
        if pair.child.quantity is not None and pair.parent.quantity is not None
    ]
    if not stated:
        return []
    if all(close(a, b) for a, b in stated):
        return [Level("quantities", f"all {_count(len(stated))} the same")]
    more = any(a > b and not close(a, b) for a, b in stated)
    return [Level("quantities", "some more" if more else "none more")]


def _left(child: Document, parent: Document, claims: Collection[Document]) -> list[Level]:
    """What others of its kind that name the parent leave of its quantities to the child, which does not name it."""
    others = {
        _once(other): other
        for other in claims
        if other.kind == child.kind and other.id != child.id and _names(other, parent)
    }
    taken: dict[int, float] = {}
    for other in others.values():
        if not any("another" in level.level for level in parties(other, parent)):
            for line, quantity in _taken(other, parent):
                taken[line] = taken.get(line, 0.0) + quantity
    if not taken:
        return []
    fits = [
        (quantity, (parent.lines[line].quantity or 0.0) - taken.get(line, 0.0))
        for line, quantity in _taken(child, parent)
    ]
    if not fits:
        return []
    if all(left <= 0 for _, left in fits):
        return [Level("left", "nothing is left")]
    if all(close(quantity, left) for quantity, left in fits):
        return [Level("left", "just what is left")]
    more = any(quantity > left and not close(quantity, left) for quantity, left in fits)
    return [Level("left", "more than is left" if more else "no more than is left")]


def _names(other: Document, parent: Document) -> bool:
    """Whether a document names the parent's whole number."""
    return (_best(other.named.get(parent.kind, ()), parent.number) or "").startswith("same")


def _once(other: Document) -> str:
    """Two papers of one number take once what they are about."""
    return min(other.number.folded) if other.number else str(other.id)


def _taken(child: Document, parent: Document) -> list[tuple[int, float]]:
    """How much of which of the parent's lines a child is about."""
    index = {id(line): number for number, line in enumerate(parent.lines)}
    priced = child.kind in _PRICED and parent.kind in _PRICED
    return [
        (index[id(pair.parent)], pair.child.quantity)
        for pair in match_lines(child.lines, parent.lines, priced=priced)
        if pair.child.quantity is not None and pair.parent.quantity is not None
    ]


_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Usual shares of an order's total that are billed in advance."""


def _total(child: Document, parent: Document) -> list[Level]:
    """Totals; for a child without goods, also one line over the parent's total, or a usual share of it."""
    if child.kind in (DELIVERY, RECEIPT) or parent.kind == CONTRACT or not child.net or not parent.net:
        return []
    if abs(child.net - parent.net) <= 1:
        return [Level("total", "same")]
    if not child.lines:
        if any(abs(amount - parent.net) <= 1 for amount in child.amounts):
            return [Level("total", "a line over the whole")]
        if any(abs(child.net - parent.net * share) <= 1 for share in _SHARES):
            return [Level("total", "a usual share in advance")]
        return [Level("total", "differs, no lines")]
    return [Level("total", "less" if child.net < parent.net else "more")]
