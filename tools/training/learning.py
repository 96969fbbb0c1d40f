"""Learn match weights from labelled tenants, and say how well they hold where nothing was learned."""

import random
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from json import dumps
from math import log2
from typing import Any, NamedTuple
from uuid import UUID

from counterfoil.documents.matching.compare import Feature, Length, Level, Number, compare
from counterfoil.documents.matching.score import FOUND, PRIOR, Weights, chances, parse, probability, score, using
from tools.training import start
from tools.training.candidates import Group, Pair, Tenant
from tools.training.regression import Case, Coefficient, fit

_GENERAL, _FOUND, _KINDS = 1.0, 1.0, 3.0
"""Penalties: how much must be seen before a weight leaves what was thought of it; before one by how a pair was found
leaves the general one; before one by kinds of documents leaves both."""
_CONTRADICTION, _LEAST = -4.0, -1.0
"""What was thought to contradict so much stays a contradiction of so much, whatever a small set shows."""
_COLLISIONS = {Length.SHORT: 1.0, Length.MEDIUM: 0.5, Length.LONG: 0.2}
"""How often a number that a child names is borne by a stranger, too, in a large archive: weights of made-up pairs."""
_BINS = 10
_LEAST_SAID = 0.05
"""Bits: what a kind of pair adds less than is not worth a line of the file."""
_MOST = 30.0
"""Bits: beyond, a sum says no more for the calibration."""

_PLAIN = dict.fromkeys(FOUND, (0.0, 1.0))
"""A calibration that changes nothing."""
LEAST, LEAST_OF_AN_ANSWER = 50, 10
"""Questions that a calibration is learned anew from, and of those with one answer: fewer teach chance."""
_FOLDS = 5

_Seen = tuple[bool, str, str, tuple[Level, ...]]


@dataclass(frozen=True)
class Held:
    """How weights did on tenants that they were not learned from."""

    decisions: int
    calibration_error: float
    """Expected calibration error (Naeini, Cooper, Hauskrecht 2015) of the chance of the best candidate, in 10 bins."""
    surprise: float
    """Mean bits of surprise at the truth about a pair (cross-entropy)."""


class Question(NamedTuple):
    """What is asked about the candidates of one document: is it any of them?"""

    child: UUID
    named: bool
    """Whether the document names the number of the best candidate: which calibration answers."""
    bits: float
    """Of the best candidate."""
    true: bool


@dataclass(frozen=True)
class Recalibration:
    """How a calibration did on questions that it was not learned from, beside the one before it.

    The errors are expected calibration errors in 10 bins, of the chance that any candidate is a partner. The questions
    are in 5 parts, all of one document in one, and each part is answered with what was learned from the others.
    """

    decisions: int
    calibration_error_before: float
    calibration_error: float


def learn(tenants: Sequence[Tenant]) -> dict[str, Any]:
    """The contents of a file of weights. Deterministic.

    Where there are several tenants, the calibration is learned from each with weights learned from the others.
    """
    found = _weights(tenants, _PLAIN)
    calibration = _calibrate(_apart(tenants) if len(tenants) > 1 else [(parse(_finished(found)), tenants)])
    return _finished({name: {**found[name], "calibration": list(calibration[named])} for named, name in FOUND.items()})


def recalibrated(known: Mapping[str, Any], tenants: Sequence[Tenant]) -> dict[str, Any]:
    """A file of weights with the bits that are known, and calibrations learned anew, beginning from what they were.

    One that there are too few questions for (`taught`) stays as it is.
    """
    weights = parse(known)
    calibration = _fitted(taught(asked(weights, tenants)), weights.calibration)
    return _finished({name: {**known[name], "calibration": list(calibration[named])} for named, name in FOUND.items()})


def taught(questions: Iterable[Question]) -> list[Question]:
    """The questions of those calibrations that there are enough questions for, with either answer."""
    found: dict[bool, list[Question]] = {named: [] for named in FOUND}
    for one in questions:
        found[one.named].append(one)
    return [
        one
        for several in found.values()
        if len(several) >= LEAST and min(counted(several)) >= LEAST_OF_AN_ANSWER
        for one in several
    ]


def counted(questions: Iterable[Question]) -> tuple[int, int]:
    """How many questions have the answer yes, and how many no."""
    answers = [one.true for one in questions]
    return sum(answers), len(answers) - sum(answers)


def left_out(known: Mapping[str, Any], tenants: Sequence[Tenant]) -> Recalibration:
    """How well calibrations hold that are learned as `recalibrated` learns them, on questions that were left out."""
    weights = parse(known)
    questions = taught(asked(weights, tenants))
    before = [(_chance(weights.calibration, one), one.true) for one in questions]
    after = []
    for fold in range(_FOLDS):
        calibration = _fitted([one for one in questions if _fold(one) != fold], weights.calibration)
        after += [(_chance(calibration, one), one.true) for one in questions if _fold(one) == fold]
    return Recalibration(len(questions), calibration_error(before), calibration_error(after))


def _fold(question: Question) -> int:
    return int(sha256(question.child.bytes).hexdigest(), 16) % _FOLDS


def _chance(calibration: Mapping[bool, tuple[float, float]], question: Question) -> float:
    added, times = calibration[question.named]
    return probability(added + times * question.bits)


def held_out(tenants: Sequence[Tenant]) -> Held:
    """How weights do on each tenant that were learned from all others."""
    seen: list[tuple[float, bool]] = []
    surprise: list[float] = []
    for number, left in enumerate(tenants):
        with using(parse(learn([*tenants[:number], *tenants[number + 1 :]]))):
            seen += [_best(group) for group in left.groups()]
            surprise += [_surprise(pair) for pair in left.pairs()]
    return Held(len(seen), calibration_error(seen), sum(surprise) / len(surprise))


def calibration_error(seen: Collection[tuple[float, bool]]) -> float:
    """The mean distance between chance and truth, by tenths of chance; 0 where nothing was seen."""
    if not seen:
        return 0.0
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for chance, true in seen:
        bins[min(int(chance * _BINS), _BINS - 1)].append((chance, true))
    return sum(
        abs(sum(chance for chance, _ in found) - sum(true for _, true in found)) for found in bins.values()
    ) / len(seen)


def _best(group: Group) -> tuple[float, bool]:
    """The chance of the best of a group's candidates, and whether it is a partner."""
    found = chances([score(group.child, other, group.claims.get(other.id, ())) for other in group.candidates])
    first = max(range(len(found)), key=lambda index: found[index])
    return found[first], group.candidates[first].id in group.true


def _surprise(pair: Pair) -> float:
    chance = probability(score(pair.child, pair.parent, pair.claims).total)
    return -log2(chance if pair.true else 1.0 - chance)


# -- weights --------------------------------------------------------------------------------------------------------


def _weights(tenants: Sequence[Tenant], calibration: Mapping[bool, tuple[float, float]]) -> dict[str, Any]:
    thought = start.bits()
    seen = _seen(tenants)
    beforehand: dict[Hashable, Coefficient] = {
        level: Coefficient(bits, _GENERAL, _LEAST if bits <= _CONTRADICTION and level != PRIOR else None)
        for level, bits in thought.items()
    }
    for named, child, parent, levels in seen:
        for level in (PRIOR, *levels):
            highest = 0.0 if beforehand[level].highest is not None else None
            beforehand.setdefault((named, level), Coefficient(0.0, _FOUND, highest))
            beforehand.setdefault((named, child, parent, level), Coefficient(0.0, _KINDS, highest))
    cases = [
        Case(
            {
                name: 1.0
                for level in (PRIOR, *levels)
                for name in (level, (named, level), (named, child, parent, level))
            },
            count,
            true,
        )
        for (named, child, parent, levels), (count, true) in seen.items()
    ]
    found = fit(cases, beforehand)
    kinds = sorted({(named, child, parent) for named, child, parent, _ in seen})
    return {
        name: {
            "calibration": list(calibration[named]),
            "general": _nested({level: found[level] + found.get((named, level), 0.0) for level in thought}),
            "particular": {
                f"{child}>{parent}": _nested(
                    {
                        level: bits
                        for level in thought
                        if abs(bits := found.get((named, child, parent, level), 0.0)) >= _LEAST_SAID
                    }
                )
                for found_so, child, parent in kinds
                if found_so == named
            },
        }
        for named, name in FOUND.items()
    }


def _seen(tenants: Iterable[Tenant]) -> dict[_Seen, tuple[float, float]]:
    """How often each combination of levels was seen, and how often it was true."""
    count: dict[_Seen, float] = defaultdict(float)
    true: dict[_Seen, float] = defaultdict(float)
    for tenant in tenants:
        for pair in tenant.pairs():
            compared = compare(pair.child, pair.parent, pair.claims)
            key = (compared.named, pair.child.kind, pair.parent.kind, compared.levels)
            count[key] += 1
            true[key] += pair.true
        for pair in tenant.strangers(random.Random(tenant.name)):  # noqa: S311  # a sample that can be repeated
            levels = compare(pair.child, pair.parent).levels
            length = Length.of(pair.child.named[pair.parent.kind][0].length)
            collided = Level.of(Feature.NUMBER, Number.SAME, length)
            levels = tuple(collided if level.feature == Feature.NUMBER else level for level in levels)
            count[True, pair.child.kind, pair.parent.kind, levels] += _COLLISIONS[length]
    return {key: (count[key], true[key]) for key in count}


def _nested(bits: Mapping[Level, float]) -> dict[str, dict[str, float]]:
    nested: dict[str, dict[str, float]] = {}
    for level in sorted(bits):
        nested.setdefault(level.feature, {})[level.code] = round(bits[level], 2)
    return nested


def _finished(found: Mapping[str, Any]) -> dict[str, Any]:
    """With a version: two files of the same weights have the same."""
    digest = sha256(dumps(found, sort_keys=True).encode()).hexdigest()
    return {"version": f"weights-{digest[:12]}", **found}


# -- calibration ----------------------------------------------------------------------------------------------------


def _apart(tenants: Sequence[Tenant]) -> list[tuple[Weights, list[Tenant]]]:
    """Each tenant, with weights learned from all others."""
    return [
        (parse(_finished(_weights([*tenants[:number], *tenants[number + 1 :]], _PLAIN))), [left])
        for number, left in enumerate(tenants)
    ]


def asked(weights: Weights, tenants: Iterable[Tenant]) -> list[Question]:
    """The questions that the groups of these tenants answer, with the bits that these weights give."""
    found = []
    with using(weights):
        for group in (group for tenant in tenants for group in tenant.groups()):
            best = max(
                (score(group.child, other, group.claims.get(other.id, ())) for other in group.candidates),
                key=lambda item: item.total,
            )
            any_true = any(other.id in group.true for other in group.candidates)
            found.append(Question(group.child.id, best.named, max(-_MOST, min(_MOST, best.total)), any_true))
    return found


def _calibrate(parts: Iterable[tuple[Weights, Sequence[Tenant]]]) -> dict[bool, tuple[float, float]]:
    return _fitted([one for weights, tenants in parts for one in asked(weights, tenants)], _PLAIN)


def _fitted(
    questions: Iterable[Question], expected: Mapping[bool, tuple[float, float]]
) -> dict[bool, tuple[float, float]]:
    cases: dict[bool, list[Case]] = {named: [] for named in FOUND}
    for one in questions:
        cases[one.named].append(Case({"added": 1.0, "times": one.bits}, 1.0, float(one.true)))
    return {named: _platt(found, *expected[named]) for named, found in cases.items()}


def _platt(cases: Sequence[Case], added: float, times: float) -> tuple[float, float]:
    if not cases:
        return added, times
    found = fit(cases, {"added": Coefficient(added, 0.1), "times": Coefficient(times, 10.0)})
    return round(found["added"], 3), round(found["times"], 3)
