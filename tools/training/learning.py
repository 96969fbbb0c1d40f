"""Learns match weights from labeled tenants and measures them on held-out data."""

import random
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from json import dumps
from math import log2
from typing import Any, NamedTuple
from uuid import UUID

from counterfoil.documents.matching.compare import Feature, FeatureLevel, Length, Number, compare
from counterfoil.documents.matching.score import (
    PRIOR,
    SECTIONS,
    Weights,
    match_probabilities,
    parse,
    probability,
    score,
    using,
)
from tools.training import priors
from tools.training.candidate_pairs import Group, Pair, Tenant
from tools.training.logistic_regression import Coefficient, Observation, fit

_GENERAL_PENALTY, _NAMED_PENALTY, _TYPES_PENALTY = 1.0, 1.0, 3.0
"""Penalties for a weight's deviation from its prior, and for its adjustments by section and by document types."""
_CONTRADICTION_PRIOR, _CONTRADICTION_BOUND = -4.0, -1.0
"""A level whose prior is at most -4 bits is a contradiction. Its weight stays at most -1, even if a small set
disagrees."""
_COLLISIONS = {Length.SHORT: 1.0, Length.MEDIUM: 0.5, Length.LONG: 0.2}
"""Weights of drawn pairs: probability that an unrelated document in a large archive has the same number, by length."""
_BINS = 10
_MIN_BITS = 0.05
"""Minimum adjustment by document types, in bits. Smaller adjustments are omitted from the file."""
_MAX_BITS = 30.0
"""Maximum absolute score in bits for the calibration. Larger scores are clipped."""

_IDENTITY = dict.fromkeys(SECTIONS, (0.0, 1.0))
"""The identity calibration."""
MIN_CASES, MIN_CASES_PER_ANSWER = 50, 10
"""Minimum number of cases to learn a calibration from, in total and per label."""
_FOLDS = 5

_LevelKey = tuple[bool, str, str, tuple[FeatureLevel, ...]]


@dataclass(frozen=True)
class HoldOutMetrics:
    """Quality of weights, measured on tenants that they were not learned from."""

    decisions: int
    calibration_error: float
    """Expected calibration error (Naeini, Cooper, Hauskrecht 2015) of the best candidate's probability, in 10 bins."""
    log_loss: float
    """Mean cross-entropy of the pairs, in bits."""


class CalibrationCase(NamedTuple):
    """A document's best candidate score, and whether any candidate is a match."""

    child: UUID
    names_parent: bool
    """Whether the document refers to the best candidate's number. Selects the calibration."""
    bits: float
    """Score of the best candidate."""
    is_match: bool


@dataclass(frozen=True)
class Recalibration:
    """Quality of a calibration on held-out cases, compared with the previous one.

    The errors are expected calibration errors in 10 bins, for the probability that any candidate matches. The cases are
    split into 5 folds by document. Each fold is predicted with a calibration that was learned from the other folds.
    """

    decisions: int
    calibration_error_before: float
    calibration_error: float


def fit_weights(tenants: Sequence[Tenant]) -> dict[str, Any]:
    """Return the contents of a weights file. Equal tenants give equal weights.

    With several tenants, the calibration is learned on each tenant with weights learned from the other tenants.
    """
    contents = _weights(tenants, _IDENTITY)
    calibration = _calibrate(
        _leave_one_out(tenants) if len(tenants) > 1 else [(parse(_with_version(contents)), tenants)]
    )
    return _with_version(
        {name: {**contents[name], "calibration": list(calibration[named])} for named, name in SECTIONS.items()}
    )


def recalibrate(known: Mapping[str, Any], tenants: Sequence[Tenant]) -> dict[str, Any]:
    """Return a weights file with the same weights and new calibrations.

    A calibration with too few cases (`sufficient_cases`) stays the same.
    """
    weights = parse(known)
    calibration = _fit_calibration(sufficient_cases(calibration_cases(weights, tenants)), weights.calibration)
    return _with_version(
        {name: {**known[name], "calibration": list(calibration[named])} for named, name in SECTIONS.items()}
    )


def sufficient_cases(cases: Iterable[CalibrationCase]) -> list[CalibrationCase]:
    """Return the cases of calibrations that have enough cases with each label."""
    by_calibration: dict[bool, list[CalibrationCase]] = {named: [] for named in SECTIONS}
    for case in cases:
        by_calibration[case.names_parent].append(case)
    return [
        case
        for group in by_calibration.values()
        if len(group) >= MIN_CASES and min(count_answers(group)) >= MIN_CASES_PER_ANSWER
        for case in group
    ]


def count_answers(cases: Iterable[CalibrationCase]) -> tuple[int, int]:
    """Return the number of positive and negative cases."""
    labels = [case.is_match for case in cases]
    return sum(labels), len(labels) - sum(labels)


def cross_validate(known: Mapping[str, Any], tenants: Sequence[Tenant]) -> Recalibration:
    """Measure calibrations on held-out cases. They are learned as in `recalibrate`."""
    weights = parse(known)
    cases = sufficient_cases(calibration_cases(weights, tenants))
    before = [(_probability(weights.calibration, case), case.is_match) for case in cases]
    after = []
    for fold in range(_FOLDS):
        calibration = _fit_calibration([case for case in cases if _fold(case) != fold], weights.calibration)
        after += [(_probability(calibration, case), case.is_match) for case in cases if _fold(case) == fold]
    return Recalibration(len(cases), calibration_error(before), calibration_error(after))


def _fold(case: CalibrationCase) -> int:
    return int(sha256(case.child.bytes).hexdigest(), 16) % _FOLDS


def _probability(calibration: Mapping[bool, tuple[float, float]], case: CalibrationCase) -> float:
    offset, scale = calibration[case.names_parent]
    return probability(offset + scale * case.bits)


def hold_out_metrics(tenants: Sequence[Tenant]) -> HoldOutMetrics:
    """Measure weights on each tenant after learning them from the other tenants."""
    predictions: list[tuple[float, bool]] = []
    losses: list[float] = []
    for number, held_out in enumerate(tenants):
        with using(parse(fit_weights([*tenants[:number], *tenants[number + 1 :]]))):
            predictions += [_best(group) for group in held_out.groups()]
            losses += [_log_loss(pair) for pair in held_out.pairs()]
    return HoldOutMetrics(len(predictions), calibration_error(predictions), sum(losses) / len(losses))


def calibration_error(predictions: Collection[tuple[float, bool]]) -> float:
    """Return the expected calibration error in 10 bins.

    The error is 0 if there are no predictions.
    """
    if not predictions:
        return 0.0
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for value, true in predictions:
        bins[min(int(value * _BINS), _BINS - 1)].append((value, true))
    return sum(
        abs(sum(value for value, _ in members) - sum(true for _, true in members)) for members in bins.values()
    ) / len(predictions)


def _best(group: Group) -> tuple[float, bool]:
    """Return the probability of a group's best candidate, and whether it is a match."""
    probabilities = match_probabilities(
        [score(group.child, other, group.claims.get(other.id, ())) for other in group.candidates]
    )
    best = max(range(len(probabilities)), key=lambda index: probabilities[index])
    return probabilities[best], group.candidates[best].id in group.matches


def _log_loss(pair: Pair) -> float:
    value = probability(score(pair.child, pair.parent, pair.claims).total)
    return -log2(value if pair.is_match else 1.0 - value)


# -- weights --------------------------------------------------------------------------------------------------------


def _weights(tenants: Sequence[Tenant], calibration: Mapping[bool, tuple[float, float]]) -> dict[str, Any]:
    prior_bits = priors.bits()
    counts = _count_levels(tenants)
    known_priors: dict[Hashable, Coefficient] = {
        level: Coefficient(
            bits, _GENERAL_PENALTY, _CONTRADICTION_BOUND if bits <= _CONTRADICTION_PRIOR and level != PRIOR else None
        )
        for level, bits in prior_bits.items()
    }
    for named, child, parent, levels in counts:
        for level in (PRIOR, *levels):
            upper_bound = 0.0 if known_priors[level].upper_bound is not None else None
            known_priors.setdefault((named, level), Coefficient(0.0, _NAMED_PENALTY, upper_bound))
            known_priors.setdefault((named, child, parent, level), Coefficient(0.0, _TYPES_PENALTY, upper_bound))
    observations = [
        Observation(
            {
                name: 1.0
                for level in (PRIOR, *levels)
                for name in (level, (named, level), (named, child, parent, level))
            },
            count,
            true,
        )
        for (named, child, parent, levels), (count, true) in counts.items()
    ]
    fitted = fit(observations, known_priors)
    kinds = sorted({(named, child, parent) for named, child, parent, _ in counts})
    return {
        name: {
            "calibration": list(calibration[named]),
            "general": _by_feature({level: fitted[level] + fitted.get((named, level), 0.0) for level in prior_bits}),
            "particular": {
                f"{child}>{parent}": _by_feature(
                    {
                        level: bits
                        for level in prior_bits
                        if abs(bits := fitted.get((named, child, parent, level), 0.0)) >= _MIN_BITS
                    }
                )
                for is_named, child, parent in kinds
                if is_named == named
            },
        }
        for named, name in SECTIONS.items()
    }


def _count_levels(tenants: Iterable[Tenant]) -> dict[_LevelKey, tuple[float, float]]:
    """Count the occurrences and the matches of each combination of levels."""
    counts: dict[_LevelKey, float] = defaultdict(float)
    matches: dict[_LevelKey, float] = defaultdict(float)
    for tenant in tenants:
        for pair in tenant.pairs():
            comparison = compare(pair.child, pair.parent, pair.claims)
            key = (comparison.is_referenced, pair.child.kind, pair.parent.kind, comparison.levels)
            counts[key] += 1
            matches[key] += pair.is_match
        for pair in tenant.unrelated_pairs(random.Random(tenant.name)):  # noqa: S311  # repeatable on purpose
            levels = compare(pair.child, pair.parent).levels
            length = Length.of(pair.child.references[pair.parent.kind][0].length)
            collision = FeatureLevel.of(Feature.NUMBER, Number.SAME, length)
            levels = tuple(collision if level.feature == Feature.NUMBER else level for level in levels)
            counts[True, pair.child.kind, pair.parent.kind, levels] += _COLLISIONS[length]
    return {key: (counts[key], matches[key]) for key in counts}


def _by_feature(bits: Mapping[FeatureLevel, float]) -> dict[str, dict[str, float]]:
    nested: dict[str, dict[str, float]] = {}
    for level in sorted(bits):
        nested.setdefault(level.feature, {})[level.code] = round(bits[level], 2)
    return nested


def _with_version(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Add a version, which is a hash of the weights."""
    digest = sha256(dumps(weights, sort_keys=True).encode()).hexdigest()
    return {"version": f"weights-{digest[:12]}", **weights}


# -- calibration ----------------------------------------------------------------------------------------------------


def _leave_one_out(tenants: Sequence[Tenant]) -> list[tuple[Weights, list[Tenant]]]:
    """Return each tenant with weights learned from the other tenants."""
    return [
        (parse(_with_version(_weights([*tenants[:number], *tenants[number + 1 :]], _IDENTITY))), [held_out])
        for number, held_out in enumerate(tenants)
    ]


def calibration_cases(weights: Weights, tenants: Iterable[Tenant]) -> list[CalibrationCase]:
    """Return the calibration cases of these tenants, scored with these weights."""
    cases = []
    with using(weights):
        for group in (group for tenant in tenants for group in tenant.groups()):
            best = max(
                (score(group.child, other, group.claims.get(other.id, ())) for other in group.candidates),
                key=lambda item: item.total,
            )
            is_match = any(other.id in group.matches for other in group.candidates)
            cases.append(
                CalibrationCase(
                    group.child.id, best.is_referenced, max(-_MAX_BITS, min(_MAX_BITS, best.total)), is_match
                )
            )
    return cases


def _calibrate(parts: Iterable[tuple[Weights, Sequence[Tenant]]]) -> dict[bool, tuple[float, float]]:
    return _fit_calibration(
        [case for weights, tenants in parts for case in calibration_cases(weights, tenants)], _IDENTITY
    )


def _fit_calibration(
    cases: Iterable[CalibrationCase], prior: Mapping[bool, tuple[float, float]]
) -> dict[bool, tuple[float, float]]:
    observations: dict[bool, list[Observation]] = {named: [] for named in SECTIONS}
    for case in cases:
        observations[case.names_parent].append(
            Observation({"offset": 1.0, "scale": case.bits}, 1.0, float(case.is_match))
        )
    return {named: _platt(group, *prior[named]) for named, group in observations.items()}


def _platt(observations: Sequence[Observation], offset: float, scale: float) -> tuple[float, float]:
    if not observations:
        return offset, scale
    fitted = fit(observations, {"offset": Coefficient(offset, 0.1), "scale": Coefficient(scale, 10.0)})
    return round(fitted["offset"], 3), round(fitted["scale"], 3)
