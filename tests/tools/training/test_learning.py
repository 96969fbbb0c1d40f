"""What is learned from labelled sets: from which pairs, how well it is calibrated, and that it is the same again."""

from pathlib import Path
from random import Random

import pytest

from counterfoil.documents.matching.compare import Feature, Level, compare
from counterfoil.documents.matching.score import FOUND, PRIOR, parse
from tests.tools.training.sets import orders_and_invoices
from tools.training import start
from tools.training.candidates import Tenant, tenants
from tools.training.learning import calibration_error, held_out, learn


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> list[Tenant]:
    folder: Path = tmp_path_factory.mktemp("sets")
    return [one for name in "AB" for one in tenants(orders_and_invoices(folder / name, 24, name))]


def test_pairs_are_those_that_keys_lead_to_and_copies_are_none(two: list[Tenant]) -> None:
    pairs = list(two[0].pairs())
    assert sum(pair.true for pair in pairs) == 24  # each order's own invoice, and no invoice that came twice
    assert all(pair.child.kind == "invoice" and pair.parent.kind == "purchase_order" for pair in pairs)
    assert len(pairs) > 24  # orders of the same seller are candidates, too


def test_a_group_holds_the_candidates_of_one_decision(two: list[Tenant]) -> None:
    groups = list(two[0].groups())
    assert len(groups) == 24
    assert {len(group.candidates) for group in groups if group.child.named} == {1}
    assert min(len(group.candidates) for group in groups if not group.child.named) > 1


def test_strangers_are_drawn_again_in_the_same_way_and_are_never_true(two: list[Tenant]) -> None:
    drawn = list(two[0].strangers(Random(1)))
    assert drawn == list(two[0].strangers(Random(1)))
    assert drawn
    assert not any(pair.true for pair in drawn)


def test_every_level_of_every_pair_has_been_thought_of(two: list[Tenant]) -> None:
    seen = {level for tenant in two for pair in tenant.pairs() for level in compare(pair.child, pair.parent).levels}
    assert seen <= start.bits().keys()


def test_what_is_learned_is_a_file_of_weights_and_the_same_again(two: list[Tenant]) -> None:
    found = learn(two)
    assert found == learn(two)
    weights = parse(found)
    assert weights.version.startswith("weights-")
    for named in FOUND:
        assert weights.general[named].keys() == start.bits().keys()


def test_labels_change_what_is_thought(two: list[Tenant]) -> None:
    """In these sets all documents have one article in common, and their few sellers tell nothing apart."""
    found = parse(learn(two)).general[False]
    thought = start.bits()
    for level in (PRIOR, Level(Feature.ARTICLES, "some_same+one"), Level(Feature.SELLER, "same_vat_id+same_name")):
        assert found[level] < thought[level]


def test_a_contradiction_stays_one_whatever_a_small_set_shows(two: list[Tenant]) -> None:
    found = parse(learn(two))
    for level, bits in start.bits().items():
        if bits <= -4.0 and level != PRIOR:
            assert all(found.general[named][level] < 0 for named in FOUND), level


def test_tenants_that_were_left_out_are_judged(two: list[Tenant]) -> None:
    held = held_out(two)
    assert held.decisions == 48
    assert held.calibration_error < 0.2
    assert held.surprise < 0.5


def test_the_calibration_error_is_the_distance_of_chance_and_truth() -> None:
    assert calibration_error([(0.75, True), (0.75, True), (0.75, True), (0.75, False)]) == pytest.approx(0.0)
    assert calibration_error([(0.95, False), (0.05, False)]) == pytest.approx(0.5)
