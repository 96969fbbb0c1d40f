"""Levels of agreement or contradiction between two documents, by feature. Pure.

Features and levels are codes. `weights.json` assigns bits to them, matches and reviews store them, and `evidence`
renders them for users. A feature has no level if a document does not state its value, or if agreement would not
distinguish candidates, as for equal currencies.
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
    """Pair line items for the same goods, best pairs first.

    Each line item is used at most once.
    """
    pairs = sorted(
        (
            (weight, child_index, parent_index)
            for child_index, child_line in enumerate(child)
            for parent_index, parent_line in enumerate(parent)
            if (weight := _line_similarity(child_line, parent_line, priced=priced)) > 0
        ),
        key=lambda pair: (-pair[0], pair[1], pair[2]),
    )
    used_child: set[int] = set()
    used_parent: set[int] = set()
    matches = []
    for weight, child_index, parent_index in pairs:
        if child_index not in used_child and parent_index not in used_parent:
            used_child.add(child_index)
            used_parent.add(parent_index)
            matches.append(LineMatch(child[child_index], parent[parent_index], weight))
    return matches


def _line_similarity(child: Line, parent: Line, *, priced: bool) -> float:
    """Return the similarity of two line items; 0 if they are for different goods."""
    same_price = priced and is_close(child.price, parent.price)
    weight = _item_similarity(child, parent, same_price=same_price)
    if weight <= 0:
        return 0.0
    if priced and child.price is not None and parent.price is not None:
        weight += 3.0 if same_price else -1.0
    if child.quantity is not None and parent.quantity is not None:
        same_quantity = is_close(child.quantity, parent.quantity)
        weight += 2.0 if same_quantity else 0.5 if child.quantity < parent.quantity else -1.0
    return max(weight, 0.1)


def _item_similarity(child: Line, parent: Line, *, same_price: bool) -> float:
    for a, b in ((child.article, parent.article), (child.buyer_article, parent.buyer_article)):
        if a and b:
            if a == b:
                return 3.0
            if OSA.distance(a, b, score_cutoff=1) > 1:
                return 0.0
    similarity = fuzz.token_set_ratio(child.text, parent.text) if child.text and parent.text else 0.0
    if similarity >= 90:
        return 2.0
    # If the text is damaged or in another language, the same unit and price still indicate the same goods.
    if same_price and child.unit == parent.unit and child.price is not None and child.price >= 1:
        return 1.5 if similarity >= 50 else 0.5
    return 1.0 if similarity >= 75 else 0.0


def is_close(a: float | None, b: float | None, tolerance: float = 1e-6) -> bool:
    """Return whether two numbers are present and equal within a relative tolerance."""
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
    """Agreement of two document numbers, best first."""

    SAME = auto()
    SAME_AS_READ = auto()
    """Equal except for characters that OCR confuses."""
    SAME_END = auto()
    ONE_CHARACTER_DIFFERS = auto()
    DIFFERENT = auto()


class Length(StrEnum):
    """Length of a matching number. A longer number is stronger evidence."""

    SHORT = auto()
    MEDIUM = auto()
    LONG = auto()

    @classmethod
    def of(cls, characters: int) -> "Length":
        """Return the level for a number with this many characters."""
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
    """Date of the child relative to the parent's date."""

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
    """The contract is at most 400 days older."""
    IN_LATER_YEARS = auto()


class Share(StrEnum):
    """Share of line items with a counterpart."""

    ALL = auto()
    MOST = auto()
    FEW = auto()
    NONE = auto()


class Count(StrEnum):
    """Number of counterparts. A larger number is stronger evidence."""

    ONE = auto()
    TWO = auto()
    SEVERAL = auto()

    @classmethod
    def of(cls, number: int) -> "Count":
        """Return the level for a number of counterparts."""
        return cls.ONE if number == 1 else cls.TWO if number == 2 else cls.SEVERAL


class Values(StrEnum):
    """Agreement of the articles, prices or quantities in paired line items."""

    ALL_SAME = auto()
    SOME_SAME = auto()
    NONE_SAME = auto()
    SOME_MORE = auto()
    """The child has a larger quantity."""
    NONE_MORE = auto()


class Remaining(StrEnum):
    """The child's quantities compared with the remaining quantities of its parent."""

    EXACT = auto()
    WITHIN = auto()
    EXCEEDED = auto()
    NOTHING = auto()


class Total(StrEnum):
    """The child's net total compared with the parent's."""

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
    """Levels of features that have only one level."""

    DOCUMENT_TYPES = auto()
    DIFFERENT = auto()
    PRESENT = auto()


class FeatureLevel(NamedTuple):
    """A feature and its level in a comparison."""

    feature: Feature
    code: str
    """Value of an enum in this module, or two values joined by `+` if they share a weight."""

    @staticmethod
    @cache
    def of(feature: Feature, *values: StrEnum | None) -> "FeatureLevel":
        """Join the values that are not None into one level."""
        return FeatureLevel(feature, "+".join(value for value in values if value is not None))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Feature levels of a pair."""

    levels: tuple[FeatureLevel, ...]
    is_referenced: bool
    """Whether the child names the parent's number: exactly, with OCR errors, or only its last digits."""


def compare(child: Document, parent: Document, claims: Collection[Document] = ()) -> Comparison:
    """Compare a document with a possible parent.

    `claims` are the documents that name the parent's number and use up part of its quantities.
    """
    number = _best(child.references.get(parent.kind, ()), parent.number)
    named = number is not None and number.agreement not in (Number.DIFFERENT, Number.ONE_CHARACTER_DIFFERS)
    levels = [FeatureLevel.of(Feature.NUMBER, *number)] if number else []
    levels += compare_parties(child, parent)
    levels += _dates(child, parent)
    if child.currency and parent.currency and child.currency != parent.currency:
        levels.append(FeatureLevel.of(Feature.CURRENCY, Flag.DIFFERENT))
    if child.kind != parent.kind:
        levels += _shared_numbers(child, parent)
    if not (named and parent.kind == CONTRACT):  # a framework contract does not list the orders under it
        levels += _lines(child, parent)
    levels += _total(child, parent)
    if not named and parent.kind != CONTRACT:
        levels += _remaining_quantities(child, parent, claims)
    return Comparison(tuple(levels), named)


# -- numbers --------------------------------------------------------------------------------------------------------

_RANK = {agreement: rank for rank, agreement in enumerate(Number)}


class NumberMatch(NamedTuple):
    """Agreement of two numbers."""

    agreement: Number
    length: Length | None
    """None if the numbers differ."""


def _best(references: Iterable[Reference], own: Reference | None) -> NumberMatch | None:
    """Return the best agreement of the references with a document's own number."""
    if own is None:
        return None
    return min((identifier_agreement(reference, own) for reference in references), key=_rank, default=None)


def _rank(match: NumberMatch) -> int:
    return _RANK[match.agreement]


def identifier_agreement(reference: Reference, own: Reference) -> NumberMatch:
    """Compare a number that a document names with another document's own number."""
    length = min(reference.length, own.length)
    if reference.exact & own.exact:
        return NumberMatch(Number.SAME, Length.of(length))
    if reference.folded & own.folded:
        return NumberMatch(Number.SAME_AS_READ, Length.of(length))
    if reference.tail is not None and reference.tail == own.tail:
        return NumberMatch(Number.SAME_END, Length.of(len(reference.tail)))
    if length >= 3 and any(OSA.distance(a, b) <= 1 for a in reference.folded for b in own.folded):
        return NumberMatch(Number.ONE_CHARACTER_DIFFERS, None)
    return NumberMatch(Number.DIFFERENT, None)


_SHARED = {
    ORDER: Feature.SHARED_PURCHASE_ORDER,
    DELIVERY: Feature.SHARED_DELIVERY_NOTE,
    CONTRACT: Feature.SHARED_CONTRACT,
}


def _shared_numbers(child: Document, parent: Document) -> list[FeatureLevel]:
    """Return agreements on third documents, such as an order that both name."""
    levels = []
    for kind, feature in _SHARED.items():
        if kind in (child.kind, parent.kind):
            continue
        child_numbers, parent_numbers = child.references.get(kind, ()), parent.references.get(kind, ())
        if child_numbers and parent_numbers:
            levels.append(
                FeatureLevel.of(
                    feature,
                    *min((identifier_agreement(a, b) for a in child_numbers for b in parent_numbers), key=_rank),
                )
            )
    return levels


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


def compare_parties(a: Document, b: Document) -> list[FeatureLevel]:
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
    if similarity >= 88 or _shares_alias(a.name, b.name):
        return PartyName.SIMILAR_NAME
    if _is_abbreviation(a.name.core, b.name.core):
        return PartyName.ABBREVIATED_NAME
    return PartyName.LOOSELY_SIMILAR_NAME if similarity >= 70 else PartyName.DIFFERENT_NAME


def _shares_alias(a: Name, b: Name) -> bool:
    """Return whether an alternative name of one party is any name of the other."""
    return a.core in b.aliases or b.core in a.aliases or not a.aliases.isdisjoint(b.aliases)


def _is_abbreviation(a: str, b: str) -> bool:
    """Return whether one name abbreviates the other, word by word.

    Each word of the shorter name must be the start of a word of the longer name, or the reverse. Words of one or two
    letters are ignored.
    """
    shorter, longer = sorted((a.split(), b.split()), key=lambda words: (len(words), sum(map(len, words))))
    return all(
        any(word.startswith(part) or part.startswith(word) for word in longer) for part in shorter if len(part) > 2
    )


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
        timing = Timing.BEFORE_THE_CONTRACT if days < 0 else first if days <= 400 else later
    else:
        timing = next((level for max_days, level in _DAYS if days <= max_days), Timing.YEARS_AFTER)
    return [FeatureLevel.of(Feature.DATE, timing)]


# -- lines and amounts ----------------------------------------------------------------------------------------------


class LineAgreement(NamedTuple):
    """The child's line items that have a counterpart in the parent."""

    matched: list[LineMatch]
    line_count: int
    """Number of line items that should have a counterpart."""


def compare_lines(child: Document, parent: Document) -> LineAgreement:
    """Pair the line items of two documents."""
    matched = match_lines(child.lines, parent.lines, priced=_is_priced(child, parent))
    if parent.kind == CONTRACT:  # contracts fix prices, so these pairs are for different goods
        matched = [pair for pair in matched if not _prices_differ(pair)]
    # A document that names several parents has line items for each of them.
    names_several_parents = len(child.references.get(parent.kind, ())) > 1
    line_count = min(len(child.lines), len(parent.lines)) if names_several_parents else len(child.lines)
    return LineAgreement(matched, line_count)


def _is_priced(child: Document, parent: Document) -> bool:
    return child.kind in _PRICED and parent.kind in _PRICED


def _lines(child: Document, parent: Document) -> list[FeatureLevel]:
    if not child.lines or not parent.lines:
        return []
    matched, line_count = compare_lines(child, parent)
    levels = [FeatureLevel.of(Feature.LINES, _share(len(matched), line_count), Count.of(line_count))]
    levels += _articles(child, parent, matched)
    if matched:
        levels += [FeatureLevel.of(Feature.UNMATCHED_LINES, Flag.PRESENT)] if len(matched) < len(parent.lines) else []
        levels += _prices(matched) if _is_priced(child, parent) else []
        levels += _quantities(matched)
    return levels


def _share(part: int, whole: int) -> Share:
    return Share.ALL if part >= whole else Share.MOST if 2 * part > whole else Share.FEW if part else Share.NONE


def _articles(child: Document, parent: Document, matched: Sequence[LineMatch]) -> list[FeatureLevel]:
    codes = [
        [(line.article, line.buyer_article) for line in document.lines if line.article or line.buyer_article]
        for document in (child, parent)
    ]
    comparable = any(any(a[index] for a in codes[0]) and any(b[index] for b in codes[1]) for index in (0, 1))
    if not comparable:
        return []
    same_count = sum(
        1
        for pair in matched
        if (pair.child.article and pair.child.article == pair.parent.article)
        or (pair.child.buyer_article and pair.child.buyer_article == pair.parent.buyer_article)
    )
    values = (Values.SOME_SAME, Count.of(same_count)) if same_count else (Values.NONE_SAME,)
    return [FeatureLevel.of(Feature.ARTICLES, *values)]


def _prices_differ(pair: LineMatch) -> bool:
    child_price, parent_price = pair.child.price, pair.parent.price
    return child_price is not None and parent_price is not None and not is_close(child_price, parent_price)


def _prices(matched: Sequence[LineMatch]) -> list[FeatureLevel]:
    priced_pairs = [pair for pair in matched if pair.child.price is not None and pair.parent.price is not None]
    if not priced_pairs:
        return []
    same_count = sum(not _prices_differ(pair) for pair in priced_pairs)
    if same_count == len(priced_pairs):
        return [FeatureLevel.of(Feature.PRICES, Values.ALL_SAME, Count.of(same_count))]
    return [FeatureLevel.of(Feature.PRICES, Values.SOME_SAME if same_count else Values.NONE_SAME)]


def _quantities(matched: Sequence[LineMatch]) -> list[FeatureLevel]:
    quantities = [
        (pair.child.quantity, pair.parent.quantity)
        for pair in matched
        if pair.child.quantity is not None and pair.parent.quantity is not None
    ]
    if not quantities:
        return []
    if all(is_close(a, b) for a, b in quantities):
        return [FeatureLevel.of(Feature.QUANTITIES, Values.ALL_SAME, Count.of(len(quantities)))]
    has_excess = any(a > b and not is_close(a, b) for a, b in quantities)
    return [FeatureLevel.of(Feature.QUANTITIES, Values.SOME_MORE if has_excess else Values.NONE_MORE)]


def _remaining_quantities(child: Document, parent: Document, claims: Collection[Document]) -> list[FeatureLevel]:
    """Compare the child's quantities with the remaining quantities of the parent.

    Documents that name the parent use up its quantities. Call it only for a child that does not name the parent.
    """
    claimants = {
        _deduplication_key(claimant): claimant
        for claimant in claims
        if claimant.kind == child.kind and claimant.id != child.id and _names_number_of(claimant, parent)
    }
    used: dict[int, float] = {}
    for claimant in claimants.values():
        if not any(match.contradicts for _, match in _parties(claimant, parent)):
            for line, quantity in _used_quantities(claimant, parent):
                used[line] = used.get(line, 0.0) + quantity
    if not used:
        return []
    quantities = [
        (quantity, (parent.lines[line].quantity or 0.0) - used.get(line, 0.0))
        for line, quantity in _used_quantities(child, parent)
    ]
    if not quantities:
        return []
    if all(remaining <= 0 for _, remaining in quantities):
        return [FeatureLevel.of(Feature.REMAINING_QUANTITY, Remaining.NOTHING)]
    if all(is_close(quantity, remaining) for quantity, remaining in quantities):
        return [FeatureLevel.of(Feature.REMAINING_QUANTITY, Remaining.EXACT)]
    has_excess = any(quantity > remaining and not is_close(quantity, remaining) for quantity, remaining in quantities)
    return [FeatureLevel.of(Feature.REMAINING_QUANTITY, Remaining.EXCEEDED if has_excess else Remaining.WITHIN)]


def _names_number_of(document: Document, parent: Document) -> bool:
    """Return whether a document names the parent's complete number."""
    best = _best(document.references.get(parent.kind, ()), parent.number)
    return best is not None and best.agreement in (Number.SAME, Number.SAME_AS_READ)


def _deduplication_key(document: Document) -> str:
    """Return a key for counting documents with the same number only once."""
    return min(document.number.folded) if document.number else str(document.id)


def _used_quantities(child: Document, parent: Document) -> list[tuple[int, float]]:
    """Return the quantities that a child uses, by the parent's line item index."""
    indexes = {id(line): index for index, line in enumerate(parent.lines)}
    priced = child.kind in _PRICED and parent.kind in _PRICED
    return [
        (indexes[id(pair.parent)], pair.child.quantity)
        for pair in match_lines(child.lines, parent.lines, priced=priced)
        if pair.child.quantity is not None and pair.parent.quantity is not None
    ]


_SHARES = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
"""Usual shares of an order's total that are billed in advance."""


def _total(child: Document, parent: Document) -> list[FeatureLevel]:
    """Compare net totals.

    If the child has no goods, also compare its line items with the parent's total, and its total with usual shares of
    the parent's total.
    """
    if child.kind in (DELIVERY, RECEIPT) or parent.kind == CONTRACT or not child.net or not parent.net:
        return []
    return [FeatureLevel.of(Feature.TOTAL, _total_level(child, child.net, parent.net))]


def _total_level(child: Document, child_total: int, parent_total: int) -> Total:
    if abs(child_total - parent_total) <= 1:
        return Total.SAME
    if child.lines:
        return Total.LESS if child_total < parent_total else Total.MORE
    if any(abs(amount - parent_total) <= 1 for amount in child.amounts):
        return Total.ONE_LINE_OVER_TOTAL
    if any(abs(child_total - parent_total * share) <= 1 for share in _SHARES):
        return Total.USUAL_ADVANCE_SHARE
    return Total.DIFFERENT_WITHOUT_LINES
