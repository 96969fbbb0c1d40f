"""Renders evidence for people. Pure.

Matches and reviews store codes (`compare.Feature` and its levels), so the words here can change at any time.
"""

from collections.abc import Iterable, Sequence
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
)
from counterfoil.documents.matching.rules import MatchMethod, ProposedMatch

# Codes without an entry are rendered as spelled. `{}` is replaced by the second of two values.
_WORDS: dict[str, str] = {
    Feature.PRIOR: "document types",
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
    Flag.DOCUMENT_TYPES: "how often such documents match",
}
MIN_BITS, MAX_SENTENCES = 1.0, 4
"""Minimum weight of a supporting feature, and maximum number of features in a reasoning."""
_RULES: dict[MatchMethod, str] = {
    "copy": "Duplicate",
    "reference": "Referenced by its number",
    "content": "Clearly the best candidate",
    "through": "Follows from a shared order or delivery note",
}


@dataclass(frozen=True)
class Step:
    """One feature of the evidence in bits, with the sum so far."""

    feature: str
    """Code."""
    level: str
    """Code."""
    label: str
    """Feature in words."""
    text: str
    """Level in words."""
    bits: float
    total: float


def evidence_steps(features: Iterable[Sequence[str | float]]) -> list[Step]:
    """Return the steps of stored evidence: feature, level and bits, in the order of the score."""
    parsed = [(str(feature), str(level), float(bits)) for feature, level, bits in features]
    totals = accumulate(bits for _, _, bits in parsed)
    return [
        Step(feature, level, words(feature), words(level), bits, round(total, 2))
        for (feature, level, bits), total in zip(parsed, totals, strict=True)
    ]


def words(code: str) -> str:
    """Return the words for the code of a feature or a level."""
    first, *second = (_WORDS.get(value) or value.replace("_", " ") for value in code.split("+"))
    return first.format(*second) if "{}" in first else ", ".join([first, *second])


def reasoning(link: ProposedMatch) -> str:
    """Return why rules made a match: the rule, and the strongest supporting features as sentences."""
    supporting = sorted((step for step in evidence_steps(link.score.evidence) if step.bits >= MIN_BITS), key=_weakness)
    return " ".join((f"{_RULES[link.by]}.", *map(_sentence, supporting[:MAX_SENTENCES])))


def _weakness(step: Step) -> float:
    return -step.bits


def _sentence(step: Step) -> str:
    # The length of an equal number only affects the weight, so people do not need it.
    text = step.text.partition(",")[0] if step.feature == Feature.NUMBER else step.text
    return f"{step.label.capitalize()}: {text}."
