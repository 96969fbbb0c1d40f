"""The most probable bits: what was seen, drawn towards what was thought before."""

from collections.abc import Hashable
from math import log2

import pytest

from tools.training.regression import Case, Coefficient, fit

LOOSE = Coefficient(penalty=1e-6)


def test_much_evidence_comes_to_the_log_of_the_odds_that_were_seen() -> None:
    found = fit(
        [Case({"always": 1.0}, 1000, 200), Case({"always": 1.0, "level": 1.0}, 1000, 800)],
        {"always": LOOSE, "level": LOOSE},
    )
    assert found["always"] == pytest.approx(log2(0.2 / 0.8), abs=1e-3)
    assert found["level"] == pytest.approx(log2(0.8 / 0.2) - log2(0.2 / 0.8), abs=1e-3)


def test_what_was_never_seen_stays_what_was_thought() -> None:
    found = fit([Case({"seen": 1.0}, 10, 5)], {"unseen": Coefficient(expected=7.5)})
    assert found["unseen"] == pytest.approx(7.5)


def test_little_evidence_moves_little() -> None:
    little, much = (
        fit([Case({"level": 1.0}, count, count)], {"level": Coefficient(expected=-2.0, penalty=3.0)})["level"]
        for count in (1, 100)
    )
    assert -2.0 < little < 0.0 < much


def test_nothing_is_let_above_its_bound_and_the_rest_makes_up_for_it() -> None:
    cases = [Case({"always": 1.0, "bad": 1.0}, 100, 90), Case({"always": 1.0}, 10, 5)]
    held = fit(cases, {"always": LOOSE, "bad": Coefficient(-6.0, 1e-6, highest=-1.0)})
    free = fit(cases, {"always": LOOSE, "bad": Coefficient(-6.0, 1e-6)})
    assert held["bad"] == pytest.approx(-1.0)
    assert held["always"] > free["always"]


def test_features_that_come_together_are_not_counted_twice() -> None:
    apart = fit([Case({"one": 1.0}, 100, 90)], {"one": LOOSE})
    together = fit([Case({"one": 1.0, "other": 1.0}, 100, 90)], {"one": LOOSE, "other": LOOSE})
    assert together["one"] + together["other"] == pytest.approx(apart["one"], abs=1e-3)


def test_a_value_counts_as_often_as_it_says() -> None:
    """Platt's two numbers, from sums that were twice too large."""
    cases = [
        Case({"added": 1.0, "times": 2.0 * bits}, 1000, 1000 / (1 + 2.0**-bits)) for bits in (-4.0, -1.0, 2.0, 5.0)
    ]
    found = fit(cases, {"added": LOOSE, "times": LOOSE})
    assert found == {"added": pytest.approx(0.0, abs=1e-3), "times": pytest.approx(0.5 / 1.0, abs=1e-3)}


def test_where_nothing_was_seen_what_was_thought_stays_within_its_bound() -> None:
    thought: dict[Hashable, Coefficient] = {
        "a": Coefficient(2.0),
        "b": Coefficient(2.0, highest=0.0),
        "c": Coefficient(-3.0, highest=-1.0),
    }
    assert fit([], thought) == {"a": 2.0, "b": 0.0, "c": -3.0}
