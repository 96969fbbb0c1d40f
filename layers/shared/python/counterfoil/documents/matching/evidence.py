"""Renders evidence for users. Pure.

Matches and reviews store codes (`compare.Feature` and its levels), so the words here can change at any time.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from counterfoil.documents.matching.compare import (
    Count,
    Duplicate,
    Feature,
    Flag,
    Identity,
    Length,
    Number,
    PartyName,
    Remaining,
    Share,
    Timing,
    Total,
    Values,
    compare_lines,
)
from counterfoil.documents.matching.normalize import (
    CONFIRMATION,
    CONTRACT,
    CREDIT_NOTE,
    DELIVERY,
    INVOICE,
    ORDER,
    RECEIPT,
    Document,
    Reference,
)
from counterfoil.documents.matching.rules import MatchMethod, ProposedMatch

# Codes without an entry are rendered with spaces for underscores.
_WORDS: dict[str, str] = {
    Feature.PRIOR: "document types",
    Feature.NUMBER: "named number",
    Feature.SELLER: "supplier",
    Feature.SHARED_PURCHASE_ORDER: "order number",
    Feature.SHARED_DELIVERY_NOTE: "delivery note number",
    Feature.SHARED_CONTRACT: "contract number",
    Feature.LINES: "line items",
    Feature.ARTICLES: "article numbers",
    Feature.UNMATCHED_LINES: "unmatched line items",
    Feature.TOTAL: "net total",
    Number.SAME_AS_READ: "same except for characters that OCR confuses",
    Number.SAME_END: "same last characters",
    Identity.SAME_VAT_ID: "same VAT ID",
    Identity.SIMILAR_VAT_ID: "VAT ID differs by one character",
    Identity.DIFFERENT_VAT_ID: "different VAT ID",
    Identity.DIFFERENT_IDENTIFIER: "different register or endpoint ID",
    PartyName.DIFFERENT_LEGAL_FORM: "same name, different legal form",
    Timing.OVER_A_MONTH_BEFORE: "more than a month before",
    Timing.IN_THE_FIRST_YEAR: "in the first year of the contract",
    Timing.IN_LATER_YEARS: "in later years of the contract",
    Share.ALL: "all match",
    Share.MOST: "most match",
    Share.FEW: "few match",
    Share.NONE: "none match",
    Values.ALL_SAME: "all are the same",
    Values.SOME_SAME: "some are the same",
    Values.NONE_SAME: "all are different",
    Values.SOME_MORE: "some are larger",
    Values.NONE_MORE: "none is larger",
    Remaining.EXACT: "fully used",
    Remaining.WITHIN: "not exceeded",
    Remaining.EXCEEDED: "exceeded",
    Remaining.NOTHING: "nothing left",
    Total.ONE_LINE_OVER_TOTAL: "one line item equals the whole total",
    Total.USUAL_ADVANCE_SHARE: "a usual share for an advance payment",
    Total.DIFFERENT_WITHOUT_LINES: "different, no line items",
    Total.LESS: "smaller",
    Total.MORE: "larger",
    Duplicate.SAME_CONTENT: "same content, different number",
    Flag.DOCUMENT_TYPES: "how often documents of these types match",
    Flag.PRESENT: "in the other document",
}
_DETAILS: dict[str, str] = {
    Length.SHORT: "up to 3 characters",
    Length.MEDIUM: "4 or 5 characters",
    Length.LONG: "over 5 characters",
    Count.ONE: "1 in total",
    Count.TWO: "2 in total",
    Count.SEVERAL: "3 or more in total",
}
"""Second values of levels. They follow the first value in parentheses."""
MIN_BITS, MAX_SENTENCES = 1.0, 4
"""Minimum weight of a supporting feature, and maximum number of features in a reasoning."""
_RULES: dict[MatchMethod, str] = {
    "content": "Clearly the best candidate.",
    "through": "Follows from a shared purchase order or delivery note.",
}
"""Sentences for match methods that the features do not explain."""


@dataclass(frozen=True)
class Step:
    """One feature of the evidence: its bits, and the sum so far."""

    feature: str
    """Code."""
    level: str
    """Code."""
    label: str
    """Feature in words."""
    text: str
    """Level in words."""
    sentence: str
    """Feature and level in a sentence. It names the documents' types and the parent's number, if they are known."""
    bits: float
    total: float


def evidence_steps(
    features: Iterable[Sequence[str | float]],
    child: str = "document",
    parent: str = "other document",
    number: str | None = None,
) -> list[Step]:
    """Return the steps of stored evidence, in the order of the score.

    `features` are triples of feature, level and bits. `child` and `parent` are the documents' types in words, and
    `number` is the parent's number.
    """
    parsed = [(str(feature), str(level), float(bits)) for feature, level, bits in features]
    totals = accumulate(bits for _, _, bits in parsed)
    return [
        Step(
            feature,
            level,
            label(feature),
            label(level),
            _plain_sentence(feature, level, child, parent, number),
            bits,
            round(total, 2),
        )
        for (feature, level, bits), total in zip(parsed, totals, strict=True)
    ]


def label(code: str) -> str:
    """Return the words for the code of a feature or a level."""
    values = code.split("+")
    words = (_WORDS.get(value) or value.replace("_", " ") for value in values if value not in _DETAILS)
    return ", ".join(words) + "".join(f" ({_DETAILS[value]})" for value in values if value in _DETAILS)


def reasoning(match: ProposedMatch, child: Document, parent: Document) -> str:
    """Return sentences that explain a match made by rules, with values.

    The strongest features come first.
    """
    supporting = sorted(
        (step for step in match.score.evidence if step.weight >= MIN_BITS), key=lambda step: -step.weight
    )
    sentences = [_sentence(step.feature, step.level, child, parent) for step in supporting[:MAX_SENTENCES]]
    rule = _RULES.get(match.by)
    return " ".join(sentences if rule is None else [rule, *sentences])


def _sentence(feature: str, level: str, child: Document, parent: Document) -> str:
    first = level.partition("+")[0]
    if feature in _NUMBERS:
        return _number_sentence(first, *_NUMBERS[Feature(feature)](child, parent))
    if feature in (Feature.SELLER, Feature.BUYER):
        role, side = ("supplier", parent.seller) if feature == Feature.SELLER else ("buyer", parent.buyer)
        if first == Identity.SAME_VAT_ID:
            return f"Same {role} (VAT {side.vat_text})."
        text = label(level).removeprefix("same identifier, ")
        return f"{role.capitalize()}: {text}."
    if feature == Feature.LINES:
        matched, line_count = compare_lines(child, parent)
        return f"{len(matched)} of {line_count} {'line item matches' if line_count == 1 else 'line items match'}."
    return _plain_sentence(feature, level, child.kind.replace("_", " "), parent.kind.replace("_", " "))


def _plain_sentence(feature: str, level: str, child: str, parent: str, number: str | None = None) -> str:
    first = level.partition("+")[0]
    if feature == Feature.NUMBER and first == Number.SAME:
        return f"The {child} names {f'{parent} {number}' if number else f'the number of the {parent}'}."
    sentence = _SENTENCES.get((feature, first))
    if sentence is not None:
        return sentence.format(child=child, parent=parent)
    name, text = label(feature), label(first if feature in _NUMBERS else level)
    return f"{name[:1].upper()}{name[1:]}: {text}."


def _number_sentence(level: str, kind: str, number: Reference | None) -> str:
    name = f"{_NUMBER_NAMES[kind]} {'' if number is None else number.text}".rstrip()
    return f"Same {name}." if level == Number.SAME else f"{name.capitalize()}: {label(level)}."


def _shared_number(kind: str) -> Callable[[Document, Document], tuple[str, Reference | None]]:
    """Return a function that finds a third document's number in both documents."""

    def find(child: Document, parent: Document) -> tuple[str, Reference | None]:
        pairs = ((a, b) for a in child.references.get(kind, ()) for b in parent.references.get(kind, ()))
        return kind, next((a for a, b in pairs if a.folded & b.folded), None)

    return find


_NUMBERS: dict[Feature, Callable[[Document, Document], tuple[str, Reference | None]]] = {
    Feature.NUMBER: lambda _, parent: (parent.kind, parent.number),
    Feature.SHARED_PURCHASE_ORDER: _shared_number(ORDER),
    Feature.SHARED_DELIVERY_NOTE: _shared_number(DELIVERY),
    Feature.SHARED_CONTRACT: _shared_number(CONTRACT),
}
"""For each feature of numbers, a function that returns the type and number on which a pair agrees."""
_NUMBER_NAMES = {
    ORDER: "order number",
    CONFIRMATION: "confirmation number",
    DELIVERY: "delivery note number",
    RECEIPT: "goods receipt number",
    INVOICE: "invoice number",
    CREDIT_NOTE: "credit note number",
    CONTRACT: "contract number",
}
_SENTENCES: dict[tuple[str, str], str] = {
    (Feature.DUPLICATE, Duplicate.SAME_NUMBER): "Duplicate with the same number.",
    (Feature.DUPLICATE, Duplicate.SAME_CONTENT): "Duplicate with another number.",
    (Feature.NUMBER, Number.DIFFERENT): "The {child} names a different number.",
    (Feature.SHARED_PURCHASE_ORDER, Number.SAME): "Same order number.",
    (Feature.SHARED_DELIVERY_NOTE, Number.SAME): "Same delivery note number.",
    (Feature.SHARED_CONTRACT, Number.SAME): "Same contract number.",
    (Feature.CURRENCY, Flag.DIFFERENT): "Different currencies.",
    (Feature.LINES, Share.ALL): "All line items match.",
    (Feature.LINES, Share.MOST): "Most line items match.",
    (Feature.LINES, Share.FEW): "Few line items match.",
    (Feature.LINES, Share.NONE): "No line item matches.",
    (Feature.ARTICLES, Values.SOME_SAME): "Same article numbers.",
    (Feature.ARTICLES, Values.NONE_SAME): "Different article numbers.",
    (Feature.UNMATCHED_LINES, Flag.PRESENT): "The {parent} has line items that the {child} does not have.",
    (Feature.PRICES, Values.ALL_SAME): "Same prices.",
    (Feature.PRICES, Values.NONE_SAME): "Different prices.",
    (Feature.QUANTITIES, Values.ALL_SAME): "Same quantities.",
    (Feature.QUANTITIES, Values.NONE_MORE): "No quantity is larger than in the {parent}.",
    (Feature.QUANTITIES, Values.SOME_MORE): "Some quantities are larger than in the {parent}.",
    (Feature.REMAINING_QUANTITY, Remaining.EXACT): "The quantities equal the remaining quantities of the {parent}.",
    (Feature.REMAINING_QUANTITY, Remaining.WITHIN): (
        "The quantities do not exceed the remaining quantities of the {parent}."
    ),
    (Feature.REMAINING_QUANTITY, Remaining.EXCEEDED): "The quantities exceed the remaining quantities of the {parent}.",
    (Feature.REMAINING_QUANTITY, Remaining.NOTHING): "The {parent} has no remaining quantities.",
    (Feature.TOTAL, Total.SAME): "Same net total.",
    (Feature.TOTAL, Total.LESS): "The net total is smaller than that of the {parent}.",
    (Feature.TOTAL, Total.MORE): "The net total is larger than that of the {parent}, as in many matches.",
    (Feature.TOTAL, Total.ONE_LINE_OVER_TOTAL): "One line item equals the whole total of the {parent}.",
    (Feature.TOTAL, Total.USUAL_ADVANCE_SHARE): "The total is a usual share for an advance payment.",
}
"""Sentences by feature and level. Other levels are rendered from `_WORDS`."""
