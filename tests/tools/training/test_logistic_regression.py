"""Coefficients combine the observations with their priors."""

from collections.abc import Hashable
from math import log2

import pytest

from tools.training.logistic_regression import Coefficient, Observation, fit

LOOSE = Coefficient(penalty=1e-6)


def test_much_evidence_converges_to_observed_log_odds() -> None:
    found = fit(
        [Observation({"always": 1.0}, 1000, 200), Observation({"always": 1.0, "level": 1.0}, 1000, 800)],
        {"always": LOOSE, "level": LOOSE},
    )
    assert found["always"] == pytest.approx(log2(0.2 / 0.8), abs=1e-3)
    assert found["level"] == pytest.approx(log2(0.8 / 0.2) - log2(0.2 / 0.8), abs=1e-3)


def test_unobserved_coefficient_keeps_its_prior() -> None:
    found = fit([Observation({"seen": 1.0}, 10, 5)], {"unseen": Coefficient(expected=7.5)})
    assert found["unseen"] == pytest.approx(7.5)


def test_little_evidence_stays_close_to_prior() -> None:
    little, much = (
        fit([Observation({"level": 1.0}, count, count)], {"level": Coefficient(expected=-2.0, penalty=3.0)})["level"]
        for count in (1, 100)
    )
    assert -2.0 < little < 0.0 < much


def test_other_coefficients_compensate_for_a_bound() -> None:
    observations = [Observation({"always": 1.0, "bad": 1.0}, 100, 90), Observation({"always": 1.0}, 10, 5)]
    bounded = fit(observations, {"always": LOOSE, "bad": Coefficient(-6.0, 1e-6, upper_bound=-1.0)})
    free = fit(observations, {"always": LOOSE, "bad": Coefficient(-6.0, 1e-6)})
    assert bounded["bad"] == pytest.approx(-1.0)
    assert bounded["always"] > free["always"]


def test_correlated_features_share_their_weight() -> None:
    apart = fit([Observation({"one": 1.0}, 100, 90)], {"one": LOOSE})
    together = fit([Observation({"one": 1.0, "other": 1.0}, 100, 90)], {"one": LOOSE, "other": LOOSE})
    assert together["one"] + together["other"] == pytest.approx(apart["one"], abs=1e-3)


def test_feature_values_scale_coefficients() -> None:
    """Calibrate scores that are twice their correct value, as in Platt scaling."""
    observations = [
        Observation({"added": 1.0, "times": 2.0 * bits}, 1000, 1000 / (1 + 2.0**-bits))
        for bits in (-4.0, -1.0, 2.0, 5.0)
    ]
    found = fit(observations, {"added": LOOSE, "times": LOOSE})
    assert found == {"added": pytest.approx(0.0, abs=1e-3), "times": pytest.approx(0.5 / 1.0, abs=1e-3)}


def test_priors_without_data_respect_bounds() -> None:
    known_priors: dict[Hashable, Coefficient] = {
        "a": Coefficient(2.0),
        "b": Coefficient(2.0, upper_bound=0.0),
        "c": Coefficient(-3.0, upper_bound=-1.0),
    }
    assert fit([], known_priors) == {"a": 2.0, "b": 0.0, "c": -3.0}
