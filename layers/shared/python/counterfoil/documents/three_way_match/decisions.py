"""Decisions of reviewers about variances, and suggested tolerances. Pure.

A decision accepts or disputes a variance with its figures. If later data changes the figures, the variance has no
decision.

Tolerances are suggested for one key and one direction, because high prices say nothing about low prices. A person must
accept a suggestion, because it decides about payments. The limit is the 95th percentile (nearest rank) of the accepted
differences below the smallest disputed one, so that a single large difference has no effect. For n documents, reviewers
then accept at least 0.05^(1/n) of such differences at a confidence of 95 percent (Clopper and Pearson, The Use of
Confidence or Fiducial Limits, 1934, for n of n; about 1 - 3/n: Hanley and Lippman-Hand, If Nothing Goes Wrong, Is
Everything All Right?, 1983).
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

from counterfoil.documents.three_way_match.model import Variance, VarianceCode
from counterfoil.documents.three_way_match.tolerances import Key, Limits, Tolerance, Tolerances, as_json

About = tuple[UUID, VarianceCode, str | None, Decimal, Decimal]
"""Identifies a variance: document, code, line item, expected and actual value."""


@dataclass(frozen=True, slots=True)
class VarianceDecision:
    """Decision of a reviewer about a variance."""

    id: int
    about: About
    measure: str | None
    """Currency or unit of the figures."""
    is_accepted: bool
    by: str
    at: datetime
    reason: str | None

    @property
    def sentence(self) -> str:
        """Sentence with person, date and reason."""
        why = f": {self.reason}" if self.reason else ""
        said = f"{'Accepted' if self.is_accepted else 'Disputed'} by {self.by} on {self.at.date().isoformat()}{why}"
        return said if said.endswith((".", "!", "?")) else f"{said}."


def is_difference(variance: Variance) -> bool:
    """Return True if a tolerance applies to the variance."""
    return (
        variance.limits is not None and isinstance(variance.expected, Decimal) and isinstance(variance.actual, Decimal)
    )


def variance_key(variance: Variance) -> About:
    """Return the identity of a difference for decisions."""
    assert isinstance(variance.expected, Decimal)
    assert isinstance(variance.actual, Decimal)
    return variance.document.id, variance.code, variance.line, variance.expected, variance.actual


def apply_decisions(found: Iterable[Variance], verdicts: Collection[VarianceDecision]) -> Iterator[Variance]:
    """Apply decisions to variances. `verdicts` has at most one about each."""
    said = {verdict.about: verdict for verdict in verdicts}
    for variance in found:
        verdict = said.get(variance_key(variance)) if said and is_difference(variance) else None
        if verdict is None:
            yield variance
        elif verdict.is_accepted:
            yield replace(variance, decided_by=variance.decided_by or verdict.sentence, decision="accepted")
        else:
            sentence = f"{variance.message} {verdict.sentence}"
            yield replace(variance, is_tolerated=False, message=sentence, decision="disputed")


LEAST = 20
"""Minimum accepted documents for a suggestion: with 20, at least 86 % of such differences are accepted."""
QUANTILE = Decimal("0.95")
_DOUBT = 0.05
_STEP, _FINEST = Decimal("0.01"), Decimal("0.000001")
_EXACT = Context(prec=200)
"""Precision for rounding. The default of 28 digits fails for very large numbers."""

Direction = Literal["more", "less"]
Sort = Literal["percent", "absolute"]

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
_ONCE_ONLY = {VarianceCode.PRICE_BASIS_MISMATCH, VarianceCode.REJECTED_GOODS_BILLED}
"""Codes of one-time mistakes. An accepted one does not support a tolerance, but a disputed one contradicts it."""


@dataclass(frozen=True, slots=True)
class DecisionLabel:
    """Decision about a difference in a document of a supplier."""

    sellers: tuple[str, ...]
    """VAT id and name of the supplier, if stated."""
    verdict: VarianceDecision

    @property
    def key(self) -> Key | None:
        """Key of the tolerance for the difference. None for tax rates, for which no tolerance is suggested.

        Amounts without a line item are about the whole document.
        """
        _, code, line, _, _ = self.verdict.about
        return Key.TOTAL if line is None and code in _AMOUNTS else _KEYS.get(code)

    @property
    def expected(self) -> Decimal:
        """Expected value."""
        return self.verdict.about[3]

    @property
    def actual(self) -> Decimal:
        """Actual value."""
        return self.verdict.about[4]

    @property
    def direction(self) -> Direction:
        """Direction of the difference."""
        return "more" if self.actual > self.expected else "less"

    def size(self, sort: Sort) -> Decimal | None:
        """Return the absolute or relative size of the difference. None for a percentage of zero."""
        difference = abs(self.actual - self.expected)
        if sort == "absolute":
            return difference
        return difference * 100 / abs(self.expected) if self.expected else None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Basis of a suggestion. Sizes are percent or absolute, like its limit."""

    accepted: int
    """Documents with accepted differences below the smallest disputed one."""
    largest_accepted: Decimal
    smallest_disputed: Decimal | None
    newly_tolerated: int
    """Documents that would have been within the suggested tolerance."""
    at_least: float
    """Share of such differences that reviewers accept, at a confidence of 95 percent."""
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
    sort: Sort
    before: Limits
    """Current limits of the supplier."""
    limits: Limits
    """Suggested limits, which differ in one limit of this direction."""
    evidence: Evidence

    @property
    def limit(self) -> Decimal:
        """The suggested limit."""
        found = getattr(self.limits, f"{'upper' if self.direction == 'more' else 'lower'}_{self.sort}")
        assert isinstance(found, Decimal)
        return found

    @property
    def id(self) -> str:
        """Hash of the content."""
        return sha256(dumps(self._content, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def record(self) -> dict[str, Any]:
        """JSON form."""
        return {"id": self.id, **self._content}

    @property
    def tolerance(self) -> Tolerance:
        """The tolerance that accepting it adds."""
        return Tolerance(self.key, self.limits, self.supplier)

    @property
    def _content(self) -> dict[str, Any]:
        found = self.evidence
        return {
            "supplier": self.supplier,
            "supplier_name": self.supplier_name,
            "key": self.key.value,
            "direction": self.direction,
            "before": as_json(self.before),
            "limits": as_json(self.limits),
            "measured_in": self.sort,
            "quantile": str(QUANTILE),
            "accepted": found.accepted,
            "largest_accepted": format(found.largest_accepted, "f"),
            "smallest_disputed": None if found.smallest_disputed is None else format(found.smallest_disputed, "f"),
            "newly_tolerated": found.newly_tolerated,
            "accepted_at_least": round(found.at_least, 3),
            "people": list(found.people),
            "since": found.since.isoformat(),
            "until": found.until.isoformat(),
        }


@dataclass(frozen=True, slots=True)
class SkippedSuggestion:
    """Reason why there is no suggestion for a supplier, key and direction with decisions."""

    supplier: str
    supplier_name: str
    key: Key
    direction: Direction
    why: str


SuggestionResult = ToleranceSuggestion | SkippedSuggestion


def suggest_tolerances(labels: Iterable[DecisionLabel], tolerances: Tolerances) -> list[SuggestionResult]:
    """Return suggestions by supplier, key and direction, in this order."""
    groups: dict[tuple[str, Key, Direction], list[DecisionLabel]] = defaultdict(list)
    for label in labels:
        if label.key is not None and label.actual != label.expected:
            supplier, _ = Tolerance(label.key, Limits(), label.sellers[0]).scope
            if supplier:
                groups[supplier, label.key, label.direction].append(label)
    return [
        found
        for (_, key, direction), group in sorted(groups.items(), key=lambda item: item[0])
        for found in [_of(key, direction, group, tolerances)]
        if found is not None
    ]


def _of(
    key: Key, direction: Direction, group: Sequence[DecisionLabel], tolerances: Tolerances
) -> SuggestionResult | None:
    """Return the suggestion for one supplier, key and direction, or None without a basis."""
    newest = max(group, key=lambda label: label.verdict.id)
    before = tolerances.limits(key, suppliers=newest.sellers)
    sort = _sort(before, direction)
    if sort is None or not any(one.verdict.is_accepted for one in group):
        return None
    disputed = [size for one in group if not one.verdict.is_accepted and (size := one.size(sort)) is not None]
    cut = min(disputed, default=None)
    counting = [one for one in group if _teaches(one, sort, cut)]
    sizes = _by_document(counting, sort)
    limit = _limit(sorted(sizes.values()), cut) if len(sizes) >= LEAST else Decimal(0)
    limits = _raised(before, direction, sort, limit)
    new = {one.verdict.about[0] for one in counting if _allow(limits, one) and not _allow(before, one)}
    why = _reject_reason(group, sort, cut, sizes, before, new)
    if why is not None:
        return SkippedSuggestion(newest.sellers[0], newest.sellers[-1], key, direction, why)
    days = [one.verdict.at.date() for one in counting]
    evidence = Evidence(
        accepted=len(sizes),
        largest_accepted=max(sizes.values()),
        smallest_disputed=cut,
        newly_tolerated=len(new),
        at_least=_DOUBT ** (1 / sum(size <= limit for size in sizes.values())),
        people=tuple(sorted({one.verdict.by for one in counting})),
        since=min(days),
        until=max(days),
    )
    return ToleranceSuggestion(newest.sellers[0], newest.sellers[-1], key, direction, sort, before, limits, evidence)


def _allow(limits: Limits, label: DecisionLabel) -> bool:
    return limits.contain(label.expected, label.actual)


def _reject_reason(
    group: Sequence[DecisionLabel],
    sort: Sort,
    cut: Decimal | None,
    sizes: Mapping[UUID, Decimal],
    before: Limits,
    new: Collection[UUID],
) -> str | None:
    """Return the reason for no suggestion, or None."""
    if any(_allow(before, one) for one in group if not one.verdict.is_accepted):
        return "The current tolerance covers a disputed difference: check whether it is too large."
    measures = sorted({label.verdict.measure or "no unit" for label in group})
    if sort == "absolute" and len(measures) > 1:
        return f"The tolerance is an amount, but the differences are in {' and '.join(measures)}."
    if len(sizes) < LEAST:
        bound = f" below the disputed {format_size(cut, sort)}" if cut is not None else ""
        return f"{len(sizes)} {'document' if len(sizes) == 1 else 'documents'} accepted{bound}; {LEAST} are required."
    return None if new else "The current tolerance covers the accepted differences."


def _sort(limits: Limits, direction: Direction) -> Sort | None:
    """Return the kind of limit to raise, or None without a limit."""
    absolute, percent = _limits_of(limits, direction)
    if absolute is None and percent is None:
        return None
    return "absolute" if percent is None and absolute else "percent"


def _limits_of(limits: Limits, direction: Direction) -> tuple[Decimal | None, Decimal | None]:
    if direction == "more":
        return limits.upper_absolute, limits.upper_percent
    return limits.lower_absolute, limits.lower_percent


def _teaches(label: DecisionLabel, sort: Sort, cut: Decimal | None) -> bool:
    size = label.size(sort)
    is_below = size is not None and (cut is None or size < cut)
    return is_below and label.verdict.is_accepted and label.verdict.about[1] not in _ONCE_ONLY


def _by_document(labels: Collection[DecisionLabel], sort: Sort) -> Mapping[UUID, Decimal]:
    """Return the largest difference of each document, because several line items were accepted at once."""
    found: dict[UUID, Decimal] = {}
    for label in labels:
        size = label.size(sort)
        assert size is not None  # see `_teaches`
        found[label.verdict.about[0]] = max(size, found.get(label.verdict.about[0], size))
    return found


def _limit(sizes: Sequence[Decimal], cut: Decimal | None) -> Decimal:
    """Return the 95th percentile by nearest rank, rounded up to 0.01 if that stays below the disputed one."""
    rank = int((QUANTILE * len(sizes)).to_integral_value(ROUND_CEILING))
    found = sizes[rank - 1]
    rounded = found.quantize(_STEP, ROUND_CEILING, _EXACT)
    return rounded if cut is None or rounded < cut else found.quantize(_FINEST, ROUND_FLOOR, _EXACT)


def _raised(limits: Limits, direction: Direction, sort: Sort, limit: Decimal) -> Limits:
    """Raise one limit. A second limit of zero is removed, because it would prevent any tolerance."""
    absolute, percent = _limits_of(limits, direction)
    if sort == "absolute":
        absolute = limit if absolute is None else max(limit, absolute)
    else:
        percent = limit if percent is None or not absolute else max(limit, percent)
        absolute = absolute or None
    if direction == "more":
        return replace(limits, upper_absolute=absolute, upper_percent=percent)
    return replace(limits, lower_absolute=absolute, lower_percent=percent)


def format_size(size: Decimal, sort: Sort) -> str:
    """Return the text of a size: `0.84 %`, `0.05`."""
    rounded = size.quantize(_FINEST, ROUND_FLOOR, _EXACT) if size < _STEP else size.quantize(_STEP, ROUND_FLOOR, _EXACT)
    return f"{format(rounded.normalize(_EXACT), 'f')}{' %' if sort == 'percent' else ''}"
