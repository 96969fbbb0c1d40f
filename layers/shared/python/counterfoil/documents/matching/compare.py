"""Compares two documents: for each feature the level of agreement or contradiction. Pure.

Features and levels are codes. `weights.json` has bits for them, and matches and reviews store them. `evidence` renders
them for people. A value that only one of the two documents states has no level, and neither has a value that nearly all
candidates share, such as the currency.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum, auto
from functools import cache
from typing import NamedTuple

from rapidfuzz import fuzz
from rapidfuzz.distance import OSA

from counterfoil.documents.matching.names import Name
from counterfoil.documents.matching.normalize import (
    CONTRACT,
    DELIVERY,
    INVOICE,
    ORDER,
    RECEIPT,
    Document,
    Line,
    Party,
    Reference,
    same_vat,
)


class LineMatch(NamedTuple):
    """A line item of the child and its counterpart in the parent."""

    child: Line
    parent: Line
    weight: float


def match_lines(child: Sequence[Line], parent: Sequence[Line], *, priced: bool = True) -> list[LineMatch]:
    """Pair line items about the same goods, the best pairs first. Each line item is used once."""
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
    """Return the similarity of two line items; 0 if they are about different goods."""
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
    # In another language, or damaged, an equal unit and price still indicate the same goods.
    if same_price and mine.unit == theirs.unit and mine.price is not None and mine.price >= 1:
        return 1.5 if similarity >= 50 else 0.5
    return 1.0 if similarity >= 75 else 0.0


def close(a: float | None, b: float | None, tolerance: float = 1e-6) -> bool:
    """Return whether two numbers are present and equal within a tolerance."""
    return a is not None and b is not None and abs(a - b) <= tolerance * max(abs(a), abs(b))


_PRICED = frozenset({INVOICE, ORDER, CONTRACT, "credit_note", "order_confirmation"})


class Feature(StrEnum):
    """Compared property of two documents."""

    PRIOR = auto()
    DUPLICATE = auto()
    NUMBER = auto()
    SHARED_PURCHASE_ORDER = auto()
    SHARED_DELIVERY_NOTE = auto()
    SHARED_CONTRACT = auto()
    SELLER = auto()
    BUYER = auto()
    DATE = auto()
    CURRENCY = auto()
    LINES = auto()
    ARTICLES = auto()
    UNMATCHED_LINES = auto()
    PRICES = auto()
    QUANTITIES = auto()
    REMAINING_QUANTITY = auto()
    TOTAL = auto()


class Number(StrEnum):
    """Agreement of two document numbers, the best first."""

    SAME = auto()
    SAME_AS_READ = auto()
    """Equal except for characters that OCR confuses."""
    SAME_END = auto()
    ONE_CHARACTER_DIFFERS = auto()
    DIFFERENT = auto()


class Length(StrEnum):
    """Length of a number that agrees: a longer one is stronger evidence."""

    SHORT = auto()
    MEDIUM = auto()
    LONG = auto()

    @classmethod
    def of(cls, characters: int) -> "Length":
        """Return the class of a number with this many characters."""
        return cls.SHORT if characters <= 3 else cls.MEDIUM if characters <= 5 else cls.LONG


class Identity(StrEnum):
    """Agreement of two parties' identifiers."""

    SAME_VAT_ID = auto()
    SIMILAR_VAT_ID = auto()
    """One character differs."""
    DIFFERENT_VAT_ID = auto()
    SAME_IDENTIFIER = auto()
    DIFFERENT_IDENTIFIER = auto()
    """The register or endpoint ID differs."""


class PartyName(StrEnum):
    """Agreement of two parties' names."""

    SAME_NAME = auto()
    DIFFERENT_LEGAL_FORM = auto()
    """The names are otherwise the same."""
    SIMILAR_NAME = auto()
    ABBREVIATED_NAME = auto()
    LOOSELY_SIMILAR_NAME = auto()
    DIFFERENT_NAME = auto()


class Timing(StrEnum):
    """Date of the child relative to that of its parent."""

    OVER_A_MONTH_BEFORE = auto()
    WEEKS_BEFORE = auto()
    DAYS_BEFORE = auto()
    JUST_BEFORE = auto()
    WITHIN_THREE_WEEKS = auto()
    WITHIN_SIX_WEEKS = auto()
    WEEKS_AFTER = auto()
    MONTHS_AFTER = auto()
    YEARS_AFTER = auto()
    BEFORE_THE_CONTRACT = auto()
    IN_THE_FIRST_YEAR = auto()
    """The contract is less than 400 days older."""
    IN_LATER_YEARS = auto()


class Share(StrEnum):
    """Share of line items with a counterpart."""

    ALL = auto()
    MOST = auto()
    FEW = auto()
    NONE = auto()


class Count(StrEnum):
    """Number of counterparts. More are stronger evidence."""

    ONE = auto()
    TWO = auto()
    SEVERAL = auto()

    @classmethod
    def of(cls, number: int) -> "Count":
        """Return the class of a number."""
        return cls.ONE if number == 1 else cls.TWO if number == 2 else cls.SEVERAL


class Values(StrEnum):
    """Agreement of articles, prices or quantities of paired line items."""

    ALL_SAME = auto()
    SOME_SAME = auto()
    NONE_SAME = auto()
    SOME_MORE = auto()
    """The child has a larger quantity."""
    NONE_MORE = auto()


class Remaining(StrEnum):
    """Quantities of the child compared with the remaining quantities of its parent."""

    EXACT = auto()
    WITHIN = auto()
    EXCEEDED = auto()
    NOTHING = auto()


class Total(StrEnum):
    """Net total of the child compared with its parent's."""

    SAME = auto()
    ONE_LINE_OVER_TOTAL = auto()
    USUAL_ADVANCE_SHARE = auto()
    DIFFERENT_WITHOUT_LINES = auto()
    LESS = auto()
    MORE = auto()


class Duplicate(StrEnum):
    """Content that a duplicate has in common with its original."""

    SAME_NUMBER = auto()
    SAME_CONTENT = auto()
    """The numbers differ."""


class Flag(StrEnum):
    """Levels of features that have only one."""

    DOCUMENT_TYPES = auto()
    DIFFERENT = auto()
    PRESENT = auto()


class FeatureLevel(NamedTuple):
    """Level at which a feature agrees."""

    feature: Feature
    code: str
    """Value of an enum in this module, or two joined by `+` if they weigh together."""

    @staticmethod
    @cache
    def of(feature: Feature, *values: StrEnum | None) -> "FeatureLevel":
        """Join the known values."""
        return FeatureLevel(feature, "+".join(value for value in values if value is not None))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Levels of a pair."""

    levels: tuple[FeatureLevel, ...]
    named: bool
    """Whether the child names the parent's number, exactly or apart from OCR errors."""


def compare(child: Document, parent: Document, claims: Collection[Document] = ()) -> Comparison:
    """Compare a document with a possible parent.

    `claims` are the documents that name the parent's number and reduce its remaining quantities.
    """
    number = _best(child.named.get(parent.kind, ()), parent.number)
    named = number is not None and number.agreement not in (Number.DIFFERENT, Number.ONE_CHARACTER_DIFFERS)
    found = [FeatureLevel.of(Feature.NUMBER, *number)] if number else []
    found += parties(child, parent)
    found += _dates(child, parent)
    if child.currency and parent.currency and child.currency != parent.currency:
        found.append(FeatureLevel.of(Feature.CURRENCY, Flag.DIFFERENT))
    if child.kind != parent.kind:
        found += _shared_numbers(child, parent)
    if not (named and parent.kind == CONTRACT):  # a frame contract does not list the orders under it
        found += _lines(child, parent)
    found += _total(child, parent)
    if not named and parent.kind != CONTRACT:
        found += _left(child, parent, claims)
    return Comparison(tuple(found), named)


# -- numbers --------------------------------------------------------------------------------------------------------

_RANK = {agreement: rank for rank, agreement in enumerate(Number)}


class NumberMatch(NamedTuple):
    """Agreement of two numbers."""

    agreement: Number
    length: Length | None
    """None if the numbers differ."""


def _best(named: Iterable[Reference], own: Reference | None) -> NumberMatch | None:
    """Return the best agreement of the named numbers with the document's own number."""
    if own is None:
        return None
    return min((identifier_agreement(reference, own) for reference in named), key=_rank, default=None)


def _rank(match: NumberMatch) -> int:
    return _RANK[match.agreement]


def identifier_agreement(named: Reference, own: Reference) -> NumberMatch:
    """Compare a number that a document names with another document's own number."""
    length = min(named.length, own.length)
    if named.exact & own.exact:
        return NumberMatch(Number.SAME, Length.of(length))
    if named.folded & own.folded:
        return NumberMatch(Number.SAME_AS_READ, Length.of(length))
    if named.tail is not None and named.tail == own.tail:
        return NumberMatch(Number.SAME_END, Length.of(len(named.tail)))
    if length >= 3 and any(OSA.distance(a, b) <= 1 for a in named.folded for b in own.folded):
        return NumberMatch(Number.ONE_CHARACTER_DIFFERS, None)
    return NumberMatch(Number.DIFFERENT, None)


_SHARED = {
    ORDER: Feature.SHARED_PURCHASE_ORDER,
    DELIVERY: Feature.SHARED_DELIVERY_NOTE,
    CONTRACT: Feature.SHARED_CONTRACT,
}


def _shared_numbers(child: Document, parent: Document) -> list[FeatureLevel]:
    """Return the agreement on a third document, such as the order of a delivery and of its receipt."""
    found = []
    for kind, feature in _SHARED.items():
        if kind in (child.kind, parent.kind):
            continue
        mine, theirs = child.named.get(kind, ()), parent.named.get(kind, ())
        if mine and theirs:
            found.append(
                FeatureLevel.of(feature, *min((identifier_agreement(a, b) for a in mine for b in theirs), key=_rank))
            )
    return found


# -- parties --------------------------------------------------------------------------------------------------------


class PartyMatch(NamedTuple):
    """Agreement of two parties; None if one document does not state the value."""

    identity: Identity | None
    name: PartyName | None

    @property
    def contradicts(self) -> bool:
        """Return whether the identifiers or the names differ."""
        return self.identity in (Identity.DIFFERENT_VAT_ID, Identity.DIFFERENT_IDENTIFIER) or self.name in (
            PartyName.DIFFERENT_LEGAL_FORM,
            PartyName.DIFFERENT_NAME,
        )


def parties(a: Document, b: Document) -> list[FeatureLevel]:
    """Compare suppliers and buyers of two documents."""
    return [FeatureLevel.of(feature, *match) for feature, match in _parties(a, b) if any(match)]


def _parties(a: Document, b: Document) -> tuple[tuple[Feature, PartyMatch], ...]:
    return (Feature.SELLER, _party(a.seller, b.seller)), (Feature.BUYER, _party(a.buyer, b.buyer))


def _party(a: Party, b: Party) -> PartyMatch:
    return PartyMatch(_identity(a, b), _name(a, b))


def _identity(a: Party, b: Party) -> Identity | None:
    if a.vat and b.vat:
        if same_vat(a.vat, b.vat):
            return Identity.SAME_VAT_ID
        is_similar = OSA.distance(a.vat, b.vat, score_cutoff=1) <= 1
        return Identity.SIMILAR_VAT_ID if is_similar else Identity.DIFFERENT_VAT_ID
    both = a.identifiers.keys() & b.identifiers.keys()
    if any(a.identifiers[field] == b.identifiers[field] for field in both):
        return Identity.SAME_IDENTIFIER
    return Identity.DIFFERENT_IDENTIFIER if both & {"registration_id", "endpoint_id"} else None


def _name(a: Party, b: Party) -> PartyName | None:
    if a.name is None or b.name is None:
        return None
    if a.name.core == b.name.core:
        other_form = a.name.form is not None and b.name.form is not None and a.name.form != b.name.form
        return PartyName.DIFFERENT_LEGAL_FORM if other_form else PartyName.SAME_NAME
    similarity = fuzz.ratio(a.name.core, b.name.core)
    if similarity >= 88 or _other_name(a.name, b.name):
        return PartyName.SIMILAR_NAME
    if _abbreviated(a.name.core, b.name.core):
        return PartyName.ABBREVIATED_NAME
    return PartyName.LOOSELY_SIMILAR_NAME if similarity >= 70 else PartyName.DIFFERENT_NAME


def _other_name(a: Name, b: Name) -> bool:
    """Return whether one name is an alternative name of the other, or both share an alternative name."""
    return a.core in b.others or b.core in a.others or not a.others.isdisjoint(b.others)


def _abbreviated(a: str, b: str) -> bool:
    """Return whether each word of the shorter name is a prefix of a word in the longer one."""
    short, long = sorted((a.split(), b.split()), key=lambda found: (len(found), sum(map(len, found))))
    return all(any(word.startswith(part) or part.startswith(word) for word in long) for part in short if len(part) > 2)


# -- dates ----------------------------------------------------------------------------------------------------------

_DAYS = (
    (-31, Timing.OVER_A_MONTH_BEFORE),
    (-15, Timing.WEEKS_BEFORE),
    (-4, Timing.DAYS_BEFORE),
    (-1, Timing.JUST_BEFORE),
    (21, Timing.WITHIN_THREE_WEEKS),
    (45, Timing.WITHIN_SIX_WEEKS),
    (100, Timing.WEEKS_AFTER),
    (400, Timing.MONTHS_AFTER),
)


def _dates(child: Document, parent: Document) -> list[FeatureLevel]:
    if child.day is None or parent.day is None:
        return []
    days = child.day - parent.day
    if parent.kind == CONTRACT:
        first, later = Timing.IN_THE_FIRST_YEAR, Timing.IN_LATER_YEARS
        found = Timing.BEFORE_THE_CONTRACT if days < 0 else first if days <= 400 else later
    else:
        found = next((level for last, level in _DAYS if days <= last), Timing.YEARS_AFTER)
    return [FeatureLevel.of(Feature.DATE, found)]


# -- lines and amounts ----------------------------------------------------------------------------------------------


def _lines(child: Document, parent: Document) -> list[FeatureLevel]:
    if not child.lines or not parent.lines:
        return []
    priced = child.kind in _PRICED and parent.kind in _PRICED
    matched = match_lines(child.lines, parent.lines, priced=priced)
    if parent.kind == CONTRACT:  # it fixes prices
        matched = [pair for pair in matched if not _other_price(pair)]
    several = (
        len(child.named.get(parent.kind, ())) > 1
    )  # a document that names several parents has line items about each
    whole = min(len(child.lines), len(parent.lines)) if several else len(child.lines)
    found = [FeatureLevel.of(Feature.LINES, _share(len(matched), whole), Count.of(whole))]
    found += _articles(child, parent, matched)
    if matched:
        found += [FeatureLevel.of(Feature.UNMATCHED_LINES, Flag.PRESENT)] if len(matched) < len(parent.lines) else []
        found += _prices(matched) if priced else []
        found += _quantities(matched)
    return found


def _share(part: int, whole: int) -> Share:
    return Share.ALL if part >= whole else Share.MOST if 2 * part > whole else Share.FEW if part else Share.NONE


def _articles(child: Document, parent: Document, matched: Sequence[LineMatch]) -> list[FeatureLevel]:
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
    found = (Values.SOME_SAME, Count.of(same)) if same else (Values.NONE_SAME,)
    return [FeatureLevel.of(Feature.ARTICLES, *found)]


def _other_price(pair: LineMatch) -> bool:
    one, other = pair.child.price, pair.parent.price
    return one is not None and other is not None and not close(one, other)


def _prices(matched: Sequence[LineMatch]) -> list[FeatureLevel]:
    stated = [pair for pair in matched if pair.child.price is not None and pair.parent.price is not None]
    if not stated:
        return []
    same = sum(not _other_price(pair) for pair in stated)
    if same == len(stated):
        return [FeatureLevel.of(Feature.PRICES, Values.ALL_SAME, Count.of(same))]
    return [FeatureLevel.of(Feature.PRICES, Values.SOME_SAME if same else Values.NONE_SAME)]


def _quantities(matched: Sequence[LineMatch]) -> list[FeatureLevel]:
    stated = [
        (pair.child.quantity, pair.parent.quantity)
        for pair in matched
        if pair.child.quantity is not None and pair.parent.quantity is not None
    ]
    if not stated:
        return []
    if all(close(a, b) for a, b in stated):
        return [FeatureLevel.of(Feature.QUANTITIES, Values.ALL_SAME, Count.of(len(stated)))]
    more = any(a > b and not close(a, b) for a, b in stated)
    return [FeatureLevel.of(Feature.QUANTITIES, Values.SOME_MORE if more else Values.NONE_MORE)]


def _left(child: Document, parent: Document, claims: Collection[Document]) -> list[FeatureLevel]:
    """Compare the child's quantities with those that documents naming the parent leave.

    Only for a child that does not name the parent.
    """
    others = {
        _once(other): other
        for other in claims
        if other.kind == child.kind and other.id != child.id and _names(other, parent)
    }
    taken: dict[int, float] = {}
    for other in others.values():
        if not any(match.contradicts for _, match in _parties(other, parent)):
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
        return [FeatureLevel.of(Feature.REMAINING_QUANTITY, Remaining.NOTHING)]
    if all(close(quantity, left) for quantity, left in fits):
        return [FeatureLevel.of(Feature.REMAINING_QUANTITY, Remaining.EXACT)]
    more = any(quantity > left and not close(quantity, left) for quantity, left in fits)
    return [FeatureLevel.of(Feature.REMAINING_QUANTITY, Remaining.EXCEEDED if more else Remaining.WITHIN)]


def _names(other: Document, parent: Document) -> bool:
    """Return whether a document names the parent's complete number."""
    best = _best(other.named.get(parent.kind, ()), parent.number)
    return best is not None and best.agreement in (Number.SAME, Number.SAME_AS_READ)


def _once(other: Document) -> str:
    """Return a key under which documents with the same number count once."""
    return min(other.number.folded) if other.number else str(other.id)


def _taken(child: Document, parent: Document) -> list[tuple[int, float]]:
    """Return the quantities of the parent's line items that a child uses, by index."""
    index = {id(line): number for number, line in enumerate(parent.lines)}
    priced = child.kind in _PRICED and parent.kind in _PRICED
    return [
        (index[id(pair.parent)], pair.child.quantity)
        for pair in match_lines(child.lines, parent.lines, priced=priced)
        if pair.child.quantity is not None and pair.parent.quantity is not None
    ]


_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Usual shares of an order's total that are billed in advance."""


def _total(child: Document, parent: Document) -> list[FeatureLevel]:
    """Compare totals.

    Without goods, also compare a line item with the parent's total or a usual share of it.
    """
    if child.kind in (DELIVERY, RECEIPT) or parent.kind == CONTRACT or not child.net or not parent.net:
        return []
    return [FeatureLevel.of(Feature.TOTAL, _total_level(child, child.net, parent.net))]


def _total_level(child: Document, own: int, whole: int) -> Total:
    if abs(own - whole) <= 1:
        return Total.SAME
    if child.lines:
        return Total.LESS if own < whole else Total.MORE
    if any(abs(amount - whole) <= 1 for amount in child.amounts):
        return Total.ONE_LINE_OVER_TOTAL
    if any(abs(own - whole * share) <= 1 for share in _SHARES):
        return Total.USUAL_ADVANCE_SHARE
    return Total.DIFFERENT_WITHOUT_LINES
