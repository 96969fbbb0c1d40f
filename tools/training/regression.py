"""Logistic regression with a normal prior around given coefficients: the most probable bits, given what was seen.

With x the levels of a pair (and 1), w the bits, s the standard deviation of the prior around w0, it minimises
    -sum(log p(y | x, w)) + sum((w - w0)^2 / (2 s^2))
by Newton's method (Hastie, Tibshirani, Friedman, The Elements of Statistical Learning, 4.4.1, with 3.4.1's penalty).
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import log

import numpy as np
from scipy.sparse import csr_array

_STEPS = 100
_LONGEST_STEP = 3.0
_NEAR_ENOUGH = 1e-7


@dataclass(frozen=True)
class Coefficient:
    """What is thought of a coefficient beforehand. Bits."""

    expected: float = 0.0
    penalty: float = 1.0
    """1 / s^2, in nats."""
    highest: float | None = None
    """It is not let above this, whatever is seen."""


@dataclass(frozen=True)
class Case:
    """What was seen: by coefficient what it is multiplied by, how often that came, and how often it was true."""

    values: Mapping[Hashable, float]
    count: float
    true: float


def fit(cases: Iterable[Case], beforehand: Mapping[Hashable, Coefficient]) -> dict[Hashable, float]:
    """The most probable coefficients, in bits. Coefficients that are not in `beforehand` are expected to be 0."""
    cases = list(cases)
    if not cases:  # what was thought beforehand is the most probable
        return {
            name: one.expected if one.highest is None else min(one.expected, one.highest)
            for name, one in beforehand.items()
        }
    names = list(dict.fromkeys([*beforehand, *(name for case in cases for name in case.values)]))
    index = {name: position for position, name in enumerate(names)}
    entries = [(row, index[name], value) for row, case in enumerate(cases) for name, value in case.values.items()]
    rows, columns, values = zip(*entries, strict=True)
    seen = csr_array((values, (rows, columns)), shape=(len(cases), len(names)))
    count = np.array([case.count for case in cases])
    true = np.array([case.true for case in cases])
    thought = [beforehand.get(name, Coefficient()) for name in names]
    expected = np.array([item.expected for item in thought]) * log(2)
    penalty = np.array([item.penalty for item in thought])
    highest = np.array([np.inf if item.highest is None else item.highest * log(2) for item in thought])
    found = _newton(seen, count, true, expected, penalty)
    while (above := found > highest + _NEAR_ENOUGH).any():  # held at their bound, and the rest fitted around them
        expected = np.where(above, highest, expected)
        penalty = np.where(above, 1e9, penalty)
        found = _newton(seen, count, true, expected, penalty)
    return {name: float(value) / log(2) for name, value in zip(names, found, strict=True)}


_Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def _newton(seen: csr_array, count: _Array, true: _Array, expected: _Array, penalty: _Array) -> _Array:
    found = expected.copy()
    for _ in range(_STEPS):
        chance = 1.0 / (1.0 + np.exp(-np.clip(seen @ found, -40, 40)))
        gradient = seen.T @ (count * chance - true) + penalty * (found - expected)
        weighted = seen.multiply((count * chance * (1.0 - chance))[:, None])
        curvature = (weighted.T @ seen).toarray() + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        longest = float(np.abs(step).max())
        found = found - step * min(1.0, _LONGEST_STEP / max(longest, _NEAR_ENOUGH))
        if longest < _NEAR_ENOUGH:
            break
    return found
