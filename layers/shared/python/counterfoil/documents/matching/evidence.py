"""Renders evidence for users. Pure.

Matches and reviews store codes (`compare.Feature` and its levels), so the words here can change at any time.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from counterfoil.documents.matching.compare import (
    Duplicate,
    Feature,
    Flag,
    Identity,
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

# Codes without an entry are rendered with spaces for underscores. `{}` is replaced by the second of two values.
_WORDS: dict[str, str] = {
    Feature.PRIOR: "document types",
    Feature.SELLER: "supplier",
    Feature.SHARED_PURCHASE_ORDER: "shared purchase order",
    Feature.SHARED_DELIVERY_NOTE: "shared delivery note",
    Feature.SHARED_CONTRACT: "shared contract",
    Feature.LINES: "line items",
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
    Share.ALL: "all of {}",
    Share.MOST: "most of {}",
    Share.FEW: "few of {}",
    Share.NONE: "none of {}",
    Values.ALL_SAME: "all {} the same",
    Values.SOME_SAME: "some the same",
    Values.NONE_SAME: "none the same",
    Remaining.EXACT: "fully used",
    Remaining.WITHIN: "not exceeded",
    Remaining.EXCEEDED: "exceeded",
    Remaining.NOTHING: "nothing left",
    Total.ONE_LINE_OVER_TOTAL: "one line item equals the whole total",
    Total.USUAL_ADVANCE_SHARE: "a usual share for an advance payment",
    Total.DIFFERENT_WITHOUT_LINES: "different, no line items",
    Duplicate.SAME_CONTENT: "same content, different number",
    Flag.DOCUMENT_TYPES: "how often documents of these types match",
}
MIN_BITS, MAX_SENTENCES = 1.0, 4
"""Minimum weight of a supporting feature, and maximum number of features in a reasoning."""
_RULES: dict[MatchMethod, str] = {
    "content": "Clearly the best candidate.",
    "through": "Follows from a shared order or delivery note.",
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
    """Feature and level in a sentence without values."""
    bits: float
    total: float


def evidence_steps(features: Iterable[Sequence[str | float]]) -> list[Step]:
    """Return the steps of stored evidence: feature, level and bits, in the order of the score."""
    parsed = [(str(feature), str(level), float(bits)) for feature, level, bits in features]
    totals = accumulate(bits for _, _, bits in parsed)
    return [
        Step(feature, level, label(feature), label(level), _plain_sentence(feature, level), bits, round(total, 2))
        for (feature, level, bits), total in zip(parsed, totals, strict=True)
    ]


def label(code: str) -> str:
    """Return the words for the code of a feature or a level."""
    first, *second = (_WORDS.get(value) or value.replace("_", " ") for value in code.split("+"))
    return first.format(*second) if "{}" in first else ", ".join([first, *second])


def reasoning(match: ProposedMatch, child: Document, parent: Document) -> str:
    """Return sentences that explain a match made by rules, with values. The strongest features come first."""
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
    return _plain_sentence(feature, level)


def _plain_sentence(feature: str, level: str) -> str:
    name = label(feature)
    return _SENTENCES.get((feature, level.partition("+")[0])) or f"{name[:1].upper()}{name[1:]}: {label(level)}."


def _number_sentence(level: str, kind: str, number: Reference | None) -> str:
    name = f"{_NUMBER_NAMES[kind]} {'' if number is None else number.text}".rstrip()
    return f"Same {name}." if level == Number.SAME else f"{name.capitalize()}: {label(level)}."


def _shared_number(kind: str) -> Callable[[Document, Document], tuple[str, Reference | None]]:
    """Return a function that finds the number of a third document that both documents name."""

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
    (Feature.NUMBER, Number.SAME): "Same document number.",
    (Feature.NUMBER, Number.DIFFERENT): "Different document number.",
    (Feature.LINES, Share.ALL): "All line items match.",
    (Feature.LINES, Share.MOST): "Most line items match.",
    (Feature.LINES, Share.FEW): "Few line items match.",
    (Feature.LINES, Share.NONE): "No line item matches.",
    (Feature.CURRENCY, Flag.DIFFERENT): "Different currencies.",
    (Feature.ARTICLES, Values.NONE_SAME): "Different article numbers.",
    (Feature.DUPLICATE, Duplicate.SAME_NUMBER): "Duplicate with the same number.",
    (Feature.DUPLICATE, Duplicate.SAME_CONTENT): "Duplicate with another number.",
    (Feature.ARTICLES, Values.SOME_SAME): "Same article numbers.",
    (Feature.PRICES, Values.ALL_SAME): "Same prices.",
    (Feature.QUANTITIES, Values.ALL_SAME): "Same quantities.",
    (Feature.QUANTITIES, Values.NONE_MORE): "No quantity is larger.",
    (Feature.QUANTITIES, Values.SOME_MORE): "Some quantities are larger.",
    (Feature.PRICES, Values.NONE_SAME): "Different prices.",
    (Feature.REMAINING_QUANTITY, Remaining.EXACT): "The quantities equal the remaining quantities.",
    (Feature.REMAINING_QUANTITY, Remaining.WITHIN): "The quantities do not exceed the remaining quantities.",
    (Feature.REMAINING_QUANTITY, Remaining.EXCEEDED): "The quantities exceed the remaining quantities.",
    (Feature.REMAINING_QUANTITY, Remaining.NOTHING): "No quantity remains.",
    (Feature.TOTAL, Total.SAME): "Same net total.",
    (Feature.TOTAL, Total.LESS): "The net total is smaller.",
    (Feature.TOTAL, Total.MORE): "The net total is larger.",
    (Feature.TOTAL, Total.ONE_LINE_OVER_TOTAL): "One line item equals the whole total.",
    (Feature.TOTAL, Total.USUAL_ADVANCE_SHARE): "The total is a usual share for an advance payment.",
}
"""Sentences by feature and level. Other levels are rendered from `_WORDS`."""
