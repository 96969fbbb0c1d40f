"""People's decisions about variances, and tolerances that follow from them. Pure.

A verdict accepts or disputes a variance with its figures. After a document is read again or another one arrives, a
variance with other figures has no verdict.

Suggestions follow from verdicts, for one key and one direction at a time: high prices say nothing about low prices. A
person puts them in force, because they decide what is paid. With n documents whose difference was accepted, and none
disputed that is as small, the limit is the 95th percentile (nearest rank) of the accepted differences, so that a single
large one does not stretch it. Those from the smallest disputed one on do not count. At a confidence of 95 percent
people then accept at least 0.05^(1/n) of such differences (Clopper and Pearson, The Use of Confidence or Fiducial
Limits, 1934, for n of n; about 1 - 3/n: Hanley and Lippman-Hand, If Nothing Goes Wrong, Is Everything All Right?,
1983).
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

from counterfoil.documents.three_way_match.model import Code, Variance
from counterfoil.documents.three_way_match.tolerances import Key, Limits, Tolerance, Tolerances, as_json

About = tuple[UUID, Code, str | None, Decimal, Decimal]
"""A variance by its document, code and line, and what was expected and found."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a person said of a variance."""

    id: int
    about: About
    measure: str | None
    """What its figures are in: a currency, or a unit."""
    is_accepted: bool
    by: str
    at: datetime
    reason: str | None

    @property
    def sentence(self) -> str:
        """Who said it, when and why."""
        why = f": {self.reason}" if self.reason else ""
        said = f"{'Accepted' if self.is_accepted else 'Disputed'} by {self.by} on {self.at.date().isoformat()}{why}"
        return said if said.endswith((".", "!", "?")) else f"{said}."


def is_difference(variance: Variance) -> bool:
    """Whether a variance is a difference between two figures that a tolerance is about."""
    return (
        variance.limits is not None and isinstance(variance.expected, Decimal) and isinstance(variance.actual, Decimal)
    )


def about(variance: Variance) -> About:
    """What a verdict about this difference is about."""
    assert isinstance(variance.expected, Decimal)
    assert isinstance(variance.actual, Decimal)
    return variance.document.id, variance.code, variance.line, variance.expected, variance.actual


def hear(found: Iterable[Variance], verdicts: Collection[Verdict]) -> Iterator[Variance]:
    """Variances with what people said of them; `verdicts` has one at most about each."""
    said = {verdict.about: verdict for verdict in verdicts}
    for variance in found:
        verdict = said.get(about(variance)) if said and is_difference(variance) else None
        if verdict is None:
            yield variance
        elif verdict.is_accepted:
            yield replace(variance, settled_by=variance.settled_by or verdict.sentence, decision="accepted")
        else:
            sentence = f"{variance.sentence} {verdict.sentence}"
            yield replace(variance, is_tolerated=False, sentence=sentence, decision="disputed")


LEAST = 20
"""Documents whose differences were accepted, for a proposal: fewer say little (20: at least 86 of 100 such)."""
QUANTILE = Decimal("0.95")
_DOUBT = 0.05
_STEP, _FINEST = Decimal("0.01"), Decimal("0.000001")
_EXACT = Context(prec=200)
"""For what is rounded to a place: with the default's 28 digits a larger number, however senseless, cannot be."""

Direction = Literal["more", "less"]
Sort = Literal["percent", "absolute"]

_KEYS = {
    Code.PRICE_MISMATCH: Key.PRICE,
    Code.PRICE_BASIS_MISMATCH: Key.PRICE,
    Code.OVER_BILLED_QUANTITY: Key.BILLED_QUANTITY,
    Code.BILLED_BEYOND_ORDER: Key.BILLED_QUANTITY,
    Code.REJECTED_GOODS_BILLED: Key.BILLED_QUANTITY,
    Code.UNDER_DELIVERED: Key.DELIVERED_QUANTITY,
    Code.OVER_DELIVERED: Key.DELIVERED_QUANTITY,
    Code.TOTAL_MISMATCH: Key.TOTAL,
}
_AMOUNTS = {Code.BILLED_BEYOND_ORDER, Code.TAX_MISMATCH}
_ONCE_ONLY = {Code.PRICE_BASIS_MISMATCH, Code.REJECTED_GOODS_BILLED}
"""Mistakes. To accept one says nothing of the next; to dispute one does."""


@dataclass(frozen=True, slots=True)
class Label:
    """What a person said of a difference in a document of this seller."""

    sellers: tuple[str, ...]
    """Its VAT id and name, as far as they are stated."""
    verdict: Verdict

    @property
    def key(self) -> Key | None:
        """The tolerance that it is about; None for tax rates, which nobody may be lenient about.

        What no line is at fault for is an amount of the whole document.
        """
        _, code, line, _, _ = self.verdict.about
        return Key.TOTAL if line is None and code in _AMOUNTS else _KEYS.get(code)

    @property
    def expected(self) -> Decimal:
        """What it should have been."""
        return self.verdict.about[3]

    @property
    def actual(self) -> Decimal:
        """What it was."""
        return self.verdict.about[4]

    @property
    def direction(self) -> Direction:
        """Whether it was more or less than expected."""
        return "more" if self.actual > self.expected else "less"

    def size(self, sort: Sort) -> Decimal | None:
        """How large the difference is; None where it is no share of what was expected, which is nothing."""
        difference = abs(self.actual - self.expected)
        if sort == "absolute":
            return difference
        return difference * 100 / abs(self.expected) if self.expected else None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a proposal rests on. Sizes are percent or absolute, as its limit is."""

    accepted: int
    """Documents whose differences were accepted, below the smallest disputed one."""
    largest_accepted: Decimal
    smallest_disputed: Decimal | None
    newly_tolerated: int
    """Of the documents, those that would not have needed anybody."""
    at_least: float
    """The share of such differences that people accept, at a confidence of 95 percent."""
    people: tuple[str, ...]
    since: date
    until: date


@dataclass(frozen=True, slots=True)
class Proposal:
    """A tolerance for a supplier, to be accepted by a person."""

    supplier: str
    """By VAT id where it is stated, else by name."""
    supplier_name: str
    key: Key
    direction: Direction
    sort: Sort
    before: Limits
    """What applies to the supplier now."""
    limits: Limits
    """What is proposed: as before, but for one limit of this direction."""
    evidence: Evidence

    @property
    def limit(self) -> Decimal:
        """The one that is proposed."""
        found = getattr(self.limits, f"{'upper' if self.direction == 'more' else 'lower'}_{self.sort}")
        assert isinstance(found, Decimal)
        return found

    @property
    def id(self) -> str:
        """What names it: another one where anything of it is otherwise."""
        return sha256(dumps(self._content, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"id": self.id, **self._content}

    @property
    def tolerance(self) -> Tolerance:
        """The entry of the tenant's table that it comes to."""
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
class Withheld:
    """Why nothing is proposed for a supplier, a key and a direction about which people said something."""

    supplier: str
    supplier_name: str
    key: Key
    direction: Direction
    why: str


Found = Proposal | Withheld


def propose(labels: Iterable[Label], tolerances: Tolerances) -> list[Found]:
    """What follows from labels, beside the tolerances that apply now: by supplier, key and direction, in this order."""
    groups: dict[tuple[str, Key, Direction], list[Label]] = defaultdict(list)
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


def _of(key: Key, direction: Direction, group: Sequence[Label], tolerances: Tolerances) -> Found | None:
    """What follows for one supplier, key and direction; None where nothing has to."""
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
    why = _why_not(group, sort, cut, sizes, before, new)
    if why is not None:
        return Withheld(newest.sellers[0], newest.sellers[-1], key, direction, why)
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
    return Proposal(newest.sellers[0], newest.sellers[-1], key, direction, sort, before, limits, evidence)


def _allow(limits: Limits, label: Label) -> bool:
    return limits.allow(label.expected, label.actual)


def _why_not(
    group: Sequence[Label],
    sort: Sort,
    cut: Decimal | None,
    sizes: Mapping[UUID, Decimal],
    before: Limits,
    new: Collection[UUID],
) -> str | None:
    """Why nothing is proposed, in a sentence; None where something is."""
    if any(_allow(before, one) for one in group if not one.verdict.is_accepted):
        return "What is tolerated already covers a difference that was disputed: look whether it is too much."
    measures = sorted({label.verdict.measure or "no unit" for label in group})
    if sort == "absolute" and len(measures) > 1:
        return f"What is tolerated is an amount, and these are in {' and '.join(measures)}."
    if len(sizes) < LEAST:
        bound = f", below {told(cut, sort)}, which was disputed" if cut is not None else ""
        return f"{len(sizes)} {'document' if len(sizes) == 1 else 'documents'} accepted{bound}; it takes {LEAST}."
    return None if new else "What is tolerated already covers what people accept."


def _sort(limits: Limits, direction: Direction) -> Sort | None:
    """The sort of limit that has to be raised; None where there is no limit."""
    absolute, percent = _limits_of(limits, direction)
    if absolute is None and percent is None:
        return None
    return "absolute" if percent is None and absolute else "percent"


def _limits_of(limits: Limits, direction: Direction) -> tuple[Decimal | None, Decimal | None]:
    if direction == "more":
        return limits.upper_absolute, limits.upper_percent
    return limits.lower_absolute, limits.lower_percent


def _teaches(label: Label, sort: Sort, cut: Decimal | None) -> bool:
    size = label.size(sort)
    is_below = size is not None and (cut is None or size < cut)
    return is_below and label.verdict.is_accepted and label.verdict.about[1] not in _ONCE_ONLY


def _by_document(labels: Collection[Label], sort: Sort) -> Mapping[UUID, Decimal]:
    """The largest difference of each document: many lines of one bill were accepted once."""
    found: dict[UUID, Decimal] = {}
    for label in labels:
        size = label.size(sort)
        assert size is not None  # it teaches
        found[label.verdict.about[0]] = max(size, found.get(label.verdict.about[0], size))
    return found


def _limit(sizes: Sequence[Decimal], cut: Decimal | None) -> Decimal:
    """The 95th percentile by nearest rank, rounded up to a hundredth where that stays below what was disputed."""
    rank = int((QUANTILE * len(sizes)).to_integral_value(ROUND_CEILING))
    found = sizes[rank - 1]
    rounded = found.quantize(_STEP, ROUND_CEILING, _EXACT)
    return rounded if cut is None or rounded < cut else found.quantize(_FINEST, ROUND_FLOOR, _EXACT)


def _raised(limits: Limits, direction: Direction, sort: Sort, limit: Decimal) -> Limits:
    """Limits with one raised. One of nothing at all beside it, which would hold everything up, is lifted."""
    absolute, percent = _limits_of(limits, direction)
    if sort == "absolute":
        absolute = limit if absolute is None else max(limit, absolute)
    else:
        percent = limit if percent is None or not absolute else max(limit, percent)
        absolute = absolute or None
    if direction == "more":
        return replace(limits, upper_absolute=absolute, upper_percent=percent)
    return replace(limits, lower_absolute=absolute, lower_percent=percent)


def told(size: Decimal, sort: Sort) -> str:
    """A size for people: `0.84 %`, `0.05`."""
    rounded = size.quantize(_FINEST, ROUND_FLOOR, _EXACT) if size < _STEP else size.quantize(_STEP, ROUND_FLOOR, _EXACT)
    return f"{format(rounded.normalize(_EXACT), 'f')}{' %' if sort == 'percent' else ''}"
