"""Logistic regression with a normal prior and coefficients in bits.

The coefficients are the maximum a posteriori estimates.

Let x be the levels of a pair (and 1), w the bits, and s the standard deviation of the prior around w0. `fit` minimizes
    -sum(log p(y | x, w)) + sum((w - w0)^2 / (2 s^2))
by Newton's method (Hastie, Tibshirani, Friedman, The Elements of Statistical Learning, 4.4.1, with 3.4.1's penalty).
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from math import log

import numpy as np
from scipy.sparse import csr_array

_MAX_ITERATIONS = 100
_MAX_STEP = 3.0
_TOLERANCE = 1e-7


@dataclass(frozen=True)
class Coefficient:
    """Prior of a coefficient, in bits."""

    expected: float = 0.0
    penalty: float = 1.0
    """1 / s^2, in nats."""
    upper_bound: float | None = None
    """Maximum fitted value, or None."""


@dataclass(frozen=True)
class Observation:
    """Feature values, how often they occur, and how many occurrences are positive."""

    values: Mapping[Hashable, float]
    count: float
    true: float


def fit(observations: Iterable[Observation], known_priors: Mapping[Hashable, Coefficient]) -> dict[Hashable, float]:
    """Return the most probable coefficients within their bounds, in bits.

    The default prior mean is 0.
    """
    observations = list(observations)
    if not observations:  # without data, the priors are the most probable values
        return {
            name: prior.expected if prior.upper_bound is None else min(prior.expected, prior.upper_bound)
            for name, prior in known_priors.items()
        }
    names = list(dict.fromkeys([*known_priors, *(name for case in observations for name in case.values)]))
    index = {name: position for position, name in enumerate(names)}
    entries = [
        (row, index[name], value) for row, case in enumerate(observations) for name, value in case.values.items()
    ]
    rows, columns, values = zip(*entries, strict=True)
    features = csr_array((values, (rows, columns)), shape=(len(observations), len(names)))
    count = np.array([case.count for case in observations])
    true = np.array([case.true for case in observations])
    priors = [known_priors.get(name, Coefficient()) for name in names]
    expected = np.array([item.expected for item in priors]) * log(2)
    penalty = np.array([item.penalty for item in priors])
    upper_bound = np.array([np.inf if item.upper_bound is None else item.upper_bound * log(2) for item in priors])
    coefficients = _newton(features, count, true, expected, penalty)
    while (
        above := coefficients > upper_bound + _TOLERANCE
    ).any():  # fix these coefficients at their bounds, and fit the other coefficients again
        expected = np.where(above, upper_bound, expected)
        penalty = np.where(above, 1e9, penalty)
        coefficients = _newton(features, count, true, expected, penalty)
    return {name: float(value) / log(2) for name, value in zip(names, coefficients, strict=True)}


_Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def _newton(features: csr_array, count: _Array, true: _Array, expected: _Array, penalty: _Array) -> _Array:
    coefficients = expected.copy()
    for _ in range(_MAX_ITERATIONS):
        probability = 1.0 / (1.0 + np.exp(-np.clip(features @ coefficients, -40, 40)))
        gradient = features.T @ (count * probability - true) + penalty * (coefficients - expected)
        weighted = features.multiply((count * probability * (1.0 - probability))[:, None])
        curvature = (weighted.T @ features).toarray() + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        longest = float(np.abs(step).max())
        coefficients = coefficients - step * min(1.0, _MAX_STEP / max(longest, _TOLERANCE))
        if longest < _TOLERANCE:
            break
    return coefficients
