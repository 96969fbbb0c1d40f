"""Weights from labeled sets: candidate pairs, calibration and determinism."""

from pathlib import Path
from random import Random

import pytest

from counterfoil.documents.matching.compare import Feature, FeatureLevel, compare
from counterfoil.documents.matching.score import PRIOR, SECTIONS, parse
from tests.tools.training.labeled_sets import orders_and_invoices
from tools.training import priors
from tools.training.candidate_pairs import Tenant, tenants
from tools.training.learning import calibration_error, fit_weights, hold_out_metrics


@pytest.fixture(scope="module")
def two_tenants(tmp_path_factory: pytest.TempPathFactory) -> list[Tenant]:
    folder: Path = tmp_path_factory.mktemp("sets")
    return [one for name in "AB" for one in tenants(orders_and_invoices(folder / name, 24, name))]


def test_blocking_keys_find_true_and_false_pairs(two_tenants: list[Tenant]) -> None:
    pairs = list(two_tenants[0].pairs())
    assert sum(pair.is_match for pair in pairs) == 24  # each order with its own invoice, excluding duplicates
    assert all(pair.child.kind == "invoice" and pair.parent.kind == "purchase_order" for pair in pairs)
    assert len(pairs) > 24  # orders from the same supplier are candidates as well


def test_group_contains_candidates_for_one_decision(two_tenants: list[Tenant]) -> None:
    groups = list(two_tenants[0].groups())
    assert len(groups) == 24
    assert {len(group.candidates) for group in groups if group.child.references} == {1}
    assert min(len(group.candidates) for group in groups if not group.child.references) > 1


def test_unrelated_pairs_are_deterministic_and_never_match(two_tenants: list[Tenant]) -> None:
    drawn = list(two_tenants[0].unrelated_pairs(Random(1)))
    assert drawn == list(two_tenants[0].unrelated_pairs(Random(1)))
    assert drawn
    assert not any(pair.is_match for pair in drawn)


def test_every_level_has_a_prior(two_tenants: list[Tenant]) -> None:
    seen = {
        level for tenant in two_tenants for pair in tenant.pairs() for level in compare(pair.child, pair.parent).levels
    }
    assert seen <= priors.bits().keys()


def test_learned_weights_are_valid_and_deterministic(two_tenants: list[Tenant]) -> None:
    found = fit_weights(two_tenants)
    assert found == fit_weights(two_tenants)
    weights = parse(found)
    assert weights.version.startswith("weights-")
    for named in SECTIONS:
        assert weights.bits[named].keys() == priors.bits().keys()


def test_labels_lower_weights_below_their_priors(two_tenants: list[Tenant]) -> None:
    """A common article and few suppliers make evidence weaker than its prior.

    All documents share the article.
    """
    found = parse(fit_weights(two_tenants)).bits[False]
    known = priors.bits()
    for level in (
        PRIOR,
        FeatureLevel(Feature.ARTICLES, "some_same+one"),
        FeatureLevel(Feature.SELLER, "same_vat_id+same_name"),
    ):
        assert found[level] < known[level]


def test_contradiction_stays_negative_despite_small_set(two_tenants: list[Tenant]) -> None:
    found = parse(fit_weights(two_tenants))
    for level, bits in priors.bits().items():
        if bits <= -4.0 and level != PRIOR:
            assert all(found.bits[named][level] < 0 for named in SECTIONS), level


def test_held_out_tenants_are_measured(two_tenants: list[Tenant]) -> None:
    metrics = hold_out_metrics(two_tenants)
    assert metrics.decisions == 48
    assert metrics.calibration_error < 0.2
    assert metrics.log_loss < 0.5


def test_calibration_error_compares_probability_with_labels() -> None:
    assert calibration_error([(0.75, True), (0.75, True), (0.75, True), (0.75, False)]) == pytest.approx(0.0)
    assert calibration_error([(0.95, False), (0.05, False)]) == pytest.approx(0.5)
