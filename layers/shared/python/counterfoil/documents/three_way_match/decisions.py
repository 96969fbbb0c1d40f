"""Reviewers' decisions about variances, and suggested tolerances. Pure.

A decision accepts or disputes a variance with specific figures. If the figures change later, the decision no longer
applies.

A tolerance is suggested for one key and one direction, because high prices say nothing about low prices. A user must
accept each suggestion, because tolerances affect payments. The limit is the 95th percentile (nearest rank) of the
accepted differences below the smallest disputed difference, so that a single large difference has no effect. For n
documents, reviewers then accept at least 0.05^(1/n) of the differences within the limit, at 95% confidence (Clopper and
Pearson, The Use of Confidence or Fiducial Limits, 1934, for n of n). This is about 1 - 3/n (Hanley and Lippman-Hand, If
Nothing Goes Wrong, Is Everything All Right?, 1983).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from hashlib import sha256
from json import dumps
from typing import Any, Literal
from uuid import UUID

from counterfoil.documents.three_way_match.model import DecisionKind, Variance, VarianceCode
from counterfoil.documents.three_way_match.tolerances import Key, Limits, Tolerance, Tolerances, as_json

VarianceKey = tuple[UUID, VarianceCode, str | None, Decimal, Decimal]
"""Identifies a variance: document, code, line item, expected and actual value."""


@dataclass(frozen=True, slots=True)
class VarianceDecision:
    """A reviewer's decision about a variance."""

    id: int
    variance_key: VarianceKey
    measure: str | None
    """Currency or unit of the figures."""
    is_accepted: bool
    by: str
    at: datetime
    reason: str | None

    @property
    def sentence(self) -> str:
        """Sentence with the decision, the user, the date and the reason."""
        suffix = f": {self.reason}" if self.reason else ""
        text = f"{'Accepted' if self.is_accepted else 'Disputed'} by {self.by} on {self.at.date().isoformat()}{suffix}"
        return text if text.endswith((".", "!", "?")) else f"{text}."


def is_difference(variance: Variance) -> bool:
    """Return True if a tolerance applies to the variance."""
    return (
        variance.limits is not None and isinstance(variance.expected, Decimal) and isinstance(variance.actual, Decimal)
    )


def variance_key(variance: Variance) -> VarianceKey:
    """Return the key that identifies a difference in decisions."""
    assert isinstance(variance.expected, Decimal)
    assert isinstance(variance.actual, Decimal)
    return variance.document.id, variance.code, variance.line, variance.expected, variance.actual


def apply_decisions(variances: Iterable[Variance], decisions: Collection[VarianceDecision]) -> Iterator[Variance]:
    """Apply decisions to variances.

    `decisions` has at most one decision about each variance.
    """
    by_key = {decision.variance_key: decision for decision in decisions}
    for variance in variances:
        decision = by_key.get(variance_key(variance)) if by_key and is_difference(variance) else None
        if decision is None:
            yield variance
            continue
        kind: DecisionKind = "accepted" if decision.is_accepted else "disputed"
        decided = replace(variance, decision=kind, decision_by=decision.by)
        if decision.is_accepted:
            yield replace(decided, decided_by=variance.decided_by or decision.sentence)
        else:
            yield replace(decided, is_tolerated=False, message=f"{variance.message} {decision.sentence}")


MIN_DECISIONS = 20
"""Minimum number of accepted documents for a suggestion.

With 20, the acceptance rate is at least 86% at 95% confidence.
"""
QUANTILE = Decimal("0.95")
_SIGNIFICANCE = 0.05
_STEP, _MIN_STEP = Decimal("0.01"), Decimal("0.000001")
_EXACT = Context(prec=200)
"""Precision for rounding. The default of 28 digits fails for very large numbers."""

Direction = Literal["more", "less"]
LimitKind = Literal["percent", "absolute"]

_KEYS = {
    VarianceCode.PRICE_MISMATCH: Key.PRICE,
    VarianceCode.PRICE_BASIS_MISMATCH: Key.PRICE,
    VarianceCode.OVER_BILLED_QUANTITY: Key.BILLED_QUANTITY,
    VarianceCode.OVER_ORDERED_AMOUNT: Key.BILLED_QUANTITY,
    VarianceCode.REJECTED_GOODS_BILLED: Key.BILLED_QUANTITY,
    VarianceCode.UNDER_DELIVERED: Key.DELIVERED_QUANTITY,
    VarianceCode.OVER_DELIVERED: Key.DELIVERED_QUANTITY,
    VarianceCode.TOTAL_MISMATCH: Key.TOTAL,
}
_AMOUNTS = {VarianceCode.OVER_ORDERED_AMOUNT, VarianceCode.TAX_MISMATCH}
_ONE_TIME_CODES = {VarianceCode.PRICE_BASIS_MISMATCH, VarianceCode.REJECTED_GOODS_BILLED}
"""Variance codes of one-time mistakes.

Accepting such a variance does not count toward a tolerance, but disputing it counts against the tolerance.
"""


@dataclass(frozen=True, slots=True)
class DecisionLabel:
    """Decision about a difference in a supplier's document."""

    sellers: tuple[str, ...]
    """VAT id and name of the supplier, if stated."""
    decision: VarianceDecision

    @property
    def key(self) -> Key | None:
        """Key of the tolerance for the difference, or None if none is suggested.

        No tolerance is suggested for tax rates, for example. Differences in amounts that belong to no line item concern
        the whole document.
        """
        _, code, line, _, _ = self.decision.variance_key
        return Key.TOTAL if line is None and code in _AMOUNTS else _KEYS.get(code)

    @property
    def expected(self) -> Decimal:
        """Expected value."""
        return self.decision.variance_key[3]

    @property
    def actual(self) -> Decimal:
        """Actual value."""
        return self.decision.variance_key[4]

    @property
    def direction(self) -> Direction:
        """Direction of the difference."""
        return "more" if self.actual > self.expected else "less"

    def size(self, limit_kind: LimitKind) -> Decimal | None:
        """Return the size of the difference, absolute or in percent.

        Returns None for a percentage of zero.
        """
        difference = abs(self.actual - self.expected)
        if limit_kind == "absolute":
            return difference
        return difference * 100 / abs(self.expected) if self.expected else None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Basis of a suggestion.

    Sizes are in percent or absolute, like the suggested limit.
    """

    accepted: int
    """Number of documents with accepted differences below the smallest disputed difference."""
    largest_accepted: Decimal
    smallest_disputed: Decimal | None
    newly_tolerated: int
    """Number of these documents with a difference that the suggested tolerance permits and the current one does not."""
    min_acceptance_rate: float
    """Lower bound of the acceptance rate for differences within the suggested limit, at 95% confidence."""
    people: tuple[str, ...]
    since: date
    until: date


@dataclass(frozen=True, slots=True)
class ToleranceSuggestion:
    """A suggested tolerance for a supplier."""

    supplier: str
    """VAT id, or else the name."""
    supplier_name: str
    key: Key
    direction: Direction
    limit_kind: LimitKind
    current_limits: Limits
    """Current limits of the supplier."""
    limits: Limits
    """Suggested limits: the current limits, with one limit of this direction raised."""
    evidence: Evidence

    @property
    def limit(self) -> Decimal:
        """The suggested limit."""
        value = getattr(self.limits, f"{'upper' if self.direction == 'more' else 'lower'}_{self.limit_kind}")
        assert isinstance(value, Decimal)
        return value

    @property
    def id(self) -> str:
        """Hash of the content: 8 hexadecimal digits."""
        return sha256(dumps(self._content, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def record(self) -> dict[str, Any]:
        """JSON form."""
        return {"id": self.id, **self._content}

    @property
    def tolerance(self) -> Tolerance:
        """The tolerance that is set when the suggestion is accepted."""
        return Tolerance(self.key, self.limits, self.supplier)

    @property
    def _content(self) -> dict[str, Any]:
        evidence = self.evidence
        return {
            "supplier": self.supplier,
            "supplier_name": self.supplier_name,
            "key": self.key.value,
            "direction": self.direction,
            "before": as_json(self.current_limits),
            "limits": as_json(self.limits),
            "measured_in": self.limit_kind,
            "quantile": str(QUANTILE),
            "accepted": evidence.accepted,
            "largest_accepted": format(evidence.largest_accepted, "f"),
            "smallest_disputed": None
            if evidence.smallest_disputed is None
            else format(evidence.smallest_disputed, "f"),
            "newly_tolerated": evidence.newly_tolerated,
            "accepted_at_least": round(evidence.min_acceptance_rate, 3),
            "people": list(evidence.people),
            "since": evidence.since.isoformat(),
            "until": evidence.until.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class SkippedSuggestion:
    """Reason why no tolerance is suggested despite decisions.

    The reason applies to one supplier, key and direction.
    """

    supplier: str
    supplier_name: str
    key: Key
    direction: Direction
    reason: str


SuggestionResult = ToleranceSuggestion | SkippedSuggestion


def suggest_tolerances(labels: Iterable[DecisionLabel], tolerances: Tolerances) -> list[SuggestionResult]:
    """Return suggested and skipped tolerances, sorted by supplier, key and direction."""
    groups: dict[tuple[str, Key, Direction], list[DecisionLabel]] = defaultdict(list)
    for label in labels:
        if label.key is not None and label.actual != label.expected:
            supplier, _ = Tolerance(label.key, Limits(), label.sellers[0]).scope
            if supplier:
                groups[supplier, label.key, label.direction].append(label)
    return [
        suggestion
        for (_, key, direction), group in sorted(groups.items(), key=lambda item: item[0])
        for suggestion in [_suggest(key, direction, group, tolerances)]
        if suggestion is not None
    ]


def _suggest(
    key: Key, direction: Direction, group: Sequence[DecisionLabel], tolerances: Tolerances
) -> SuggestionResult | None:
    """Return the suggestion for one supplier, key and direction.

    Returns None if no limit is set or no difference was accepted.
    """
    newest = max(group, key=lambda label: label.decision.id)
    current = tolerances.limits(key, suppliers=newest.sellers)
    limit_kind = _limit_kind(current, direction)
    if limit_kind is None or not any(label.decision.is_accepted for label in group):
        return None
    disputed = [
        size for label in group if not label.decision.is_accepted and (size := label.size(limit_kind)) is not None
    ]
    cutoff = min(disputed, default=None)
    relevant = [label for label in group if _is_relevant(label, limit_kind, cutoff)]
    sizes = _by_document(relevant, limit_kind)
    limit = _limit(sorted(sizes.values()), cutoff) if len(sizes) >= MIN_DECISIONS else Decimal(0)
    limits = _raise_limit(current, direction, limit_kind, limit)
    newly_tolerated = {
        label.decision.variance_key[0]
        for label in relevant
        if _is_tolerated(limits, label) and not _is_tolerated(current, label)
    }
    rejection = _reject_reason(group, limit_kind, cutoff, sizes, current, newly_tolerated)
    if rejection is not None:
        return SkippedSuggestion(newest.sellers[0], newest.sellers[-1], key, direction, rejection)
    dates = [label.decision.at.date() for label in relevant]
    evidence = Evidence(
        accepted=len(sizes),
        largest_accepted=max(sizes.values()),
        smallest_disputed=cutoff,
        newly_tolerated=len(newly_tolerated),
        min_acceptance_rate=_SIGNIFICANCE ** (1 / sum(size <= limit for size in sizes.values())),
        people=tuple(sorted({label.decision.by for label in relevant})),
        since=min(dates),
        until=max(dates),
    )
    return ToleranceSuggestion(
        newest.sellers[0], newest.sellers[-1], key, direction, limit_kind, current, limits, evidence
    )


def _is_tolerated(limits: Limits, label: DecisionLabel) -> bool:
    return limits.contains(label.expected, label.actual)


def _reject_reason(
    group: Sequence[DecisionLabel],
    limit_kind: LimitKind,
    cutoff: Decimal | None,
    sizes: Mapping[UUID, Decimal],
    current: Limits,
    newly_tolerated: Collection[UUID],
) -> str | None:
    """Return the reason why no tolerance is suggested, or None."""
    if any(_is_tolerated(current, label) for label in group if not label.decision.is_accepted):
        return "The current tolerance covers a disputed difference: check whether it is too large."
    measures = sorted({label.decision.measure or "no unit" for label in group})
    if limit_kind == "absolute" and len(measures) > 1:
        return f"The tolerance is an amount, but the differences are in {' and '.join(measures)}."
    if len(sizes) < MIN_DECISIONS:
        bound = f" below the disputed {format_size(cutoff, limit_kind)}" if cutoff is not None else ""
        documents = "document" if len(sizes) == 1 else "documents"
        return f"{len(sizes)} {documents} accepted{bound}; {MIN_DECISIONS} are required."
    return None if newly_tolerated else "The current tolerance covers the accepted differences."


def _limit_kind(limits: Limits, direction: Direction) -> LimitKind | None:
    """Return the kind of limit to raise, or None if no limit is set."""
    absolute, percent = _limits_of(limits, direction)
    if absolute is None and percent is None:
        return None
    return "absolute" if percent is None and absolute else "percent"


def _limits_of(limits: Limits, direction: Direction) -> tuple[Decimal | None, Decimal | None]:
    if direction == "more":
        return limits.upper_absolute, limits.upper_percent
    return limits.lower_absolute, limits.lower_percent


def _is_relevant(label: DecisionLabel, limit_kind: LimitKind, cutoff: Decimal | None) -> bool:
    size = label.size(limit_kind)
    is_below = size is not None and (cutoff is None or size < cutoff)
    return is_below and label.decision.is_accepted and label.decision.variance_key[1] not in _ONE_TIME_CODES


def _by_document(labels: Collection[DecisionLabel], limit_kind: LimitKind) -> Mapping[UUID, Decimal]:
    """Return the largest difference by document.

    Each document counts once, although several of its line items may be accepted.
    """
    largest: dict[UUID, Decimal] = {}
    for label in labels:
        size = label.size(limit_kind)
        assert size is not None  # see `_is_relevant`
        largest[label.decision.variance_key[0]] = max(size, largest.get(label.decision.variance_key[0], size))
    return largest


def _limit(sizes: Sequence[Decimal], cutoff: Decimal | None) -> Decimal:
    """Return the 95th percentile by nearest rank, rounded up to 0.01.

    If that reaches the smallest disputed difference (`cutoff`), the percentile is rounded down to six decimals.
    """
    rank = int((QUANTILE * len(sizes)).to_integral_value(ROUND_CEILING))
    percentile = sizes[rank - 1]
    rounded = percentile.quantize(_STEP, ROUND_CEILING, _EXACT)
    return rounded if cutoff is None or rounded < cutoff else percentile.quantize(_MIN_STEP, ROUND_FLOOR, _EXACT)


def _raise_limit(limits: Limits, direction: Direction, limit_kind: LimitKind, limit: Decimal) -> Limits:
    """Raise one limit.

    If the other limit is zero, remove it, because it would prevent any tolerance.
    """
    absolute, percent = _limits_of(limits, direction)
    if limit_kind == "absolute":
        absolute = limit if absolute is None else max(limit, absolute)
    else:
        percent = limit if percent is None or not absolute else max(limit, percent)
        absolute = absolute or None
    if direction == "more":
        return replace(limits, upper_absolute=absolute, upper_percent=percent)
    return replace(limits, lower_absolute=absolute, lower_percent=percent)


def format_size(size: Decimal, limit_kind: LimitKind) -> str:
    """Return the text of a size: `0.84%`, `0.05`."""
    rounded = (
        size.quantize(_MIN_STEP, ROUND_FLOOR, _EXACT) if size < _STEP else size.quantize(_STEP, ROUND_FLOOR, _EXACT)
    )
    return f"{format(rounded.normalize(_EXACT), 'f')}{'%' if limit_kind == 'percent' else ''}"
