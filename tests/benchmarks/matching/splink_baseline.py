"""Score candidate pairs with Splink 5.

Children and parents are tables, joined by pair number.
"""

# The libraries that this benchmark imports are optional.
# mypy: disable-error-code="import-not-found, import-untyped"
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import splink.comparison_level_library as levels
import splink.comparison_library as comparisons
from splink import DuckDBAPI, Linker, SettingsCreator, block_on

from counterfoil.documents.matching.keys import PARENT_KINDS
from tests.benchmarks.matching.pairs import Half, records

_SAMPLE = 1_000_000
_ROUNDS = 3
_OVERLAPS = (0.99, 0.5, 0.01)
_LIST = "len(list_intersect({0}_l, {0}_r)) >= {1} * len({0}_l)"
Estimates = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""m and u probabilities of the agreement levels, by comparison name."""


def train_unlabeled(half: Half) -> list[float]:
    """Return match weights estimated by expectation maximization, without labels.

    u is estimated on the candidate pairs, which share a blocking key. Estimating u from random pairs, as Splink usually
    does, lowers F1 by 0.1 to 0.2 (measured). With more than `_ROUNDS` iterations, some u would become 0, which Splink
    rejects.
    """
    linker = _linker(half, {})
    linker.training.estimate_u_using_random_sampling(max_pairs=_SAMPLE, seed=1)
    linker.training.estimate_parameters_using_expectation_maximisation(block_on("pair"), fix_u_probabilities=False)
    return _match_weights(linker, half)


def scores(half: Half, estimates: Estimates) -> list[float]:
    """Return each pair's match weight, computed from these m and u probabilities."""
    return _match_weights(_linker(half, estimates), half)


def estimate_from_labels(half: Half) -> Estimates:
    """Count m and u from labels.

    Add half a pair to each level to avoid a probability of 0.
    """
    truth = half.truth
    rows = _linker(half, {}, retain=True).inference.predict().as_record_list()
    found = {}
    for name, sorts in _agreement_levels().items():
        seen = {True: Counter[int](), False: Counter[int]()}
        for row in rows:
            seen[truth[row["unique_id_l"]]][row[f"gamma_{name}"]] += 1
        shares = []
        for true in (True, False):
            counts = [seen[true][level] + 0.5 for level in range(len(sorts), -1, -1)]
            shares.append([count / sum(counts) for count in counts])
        found[name] = (shares[0], shares[1])
    return found


def _match_weights(linker: Any, half: Half) -> list[float]:
    found = {row["unique_id_l"]: row["match_weight"] for row in linker.inference.predict().as_record_list()}
    return [found[position] for position in range(len(half.pairs))]


def _linker(half: Half, estimates: Estimates, *, retain: bool = False) -> Any:
    both_sides = [records(pair) for pair in half.pairs]
    database = DuckDBAPI()
    tables = [
        database.register(
            [{"unique_id": position, "pair": position, **sides[side]} for position, sides in enumerate(both_sides)],
            dataset_display_name=name,
        )
        for side, name in enumerate(("a_children", "b_parents"))
    ]
    settings = SettingsCreator(
        link_type="link_only",
        comparisons=[_comparison(name, sorts, estimates.get(name)) for name, sorts in _agreement_levels().items()],
        blocking_rules_to_generate_predictions=[block_on("pair")],
        retain_matching_columns=retain,
        max_iterations=_ROUNDS,
    )
    return Linker(tables, settings, log_level=logging.ERROR)


def _comparison(name: str, sorts: Sequence[Any], estimate: tuple[Sequence[float], Sequence[float]] | None) -> Any:
    sides = {"kind": [], "seller": ["seller_name"], "buyer": ["buyer_name"]}
    null = [levels.NullLevel(column) for column in sides.get(name, [name])]
    found = comparisons.CustomComparison(output_column_name=name, comparison_levels=[*null, *sorts, levels.ElseLevel()])
    if estimate is not None:
        found.configure(m_probabilities=list(estimate[0]), u_probabilities=list(estimate[1]))
    return found


def _agreement_levels() -> dict[str, list[Any]]:
    """Return the agreement levels above `else` by feature, best first."""
    found: dict[str, list[Any]] = {
        "kind": [
            levels.CustomLevel(f"kind_l = '{child}' AND kind_r = '{parent}'")
            for child, parents in PARENT_KINDS.items()
            for parent in parents
        ],
        "number": [
            levels.ExactMatchLevel("number", term_frequency_adjustments=True),
            levels.LevenshteinLevel("number", 1),
            levels.CustomLevel("tail_l = tail_r"),
        ],
        "day": [
            levels.CustomLevel(f"day_l - day_r BETWEEN {first} AND {last}")
            for first, last in ((0, 21), (22, 45), (46, 100), (101, 400), (-3, -1), (-14, -4), (-31, -15))
        ],
        "currency": [levels.ExactMatchLevel("currency")],
        "net": [
            levels.AbsoluteDifferenceLevel("net", 1),
            levels.PercentageDifferenceLevel("net", 0.05),
            levels.CustomLevel("net_l < net_r"),
        ],
    }
    # Each party and the line items have one comparison each, because dependent comparisons would count evidence twice.
    for side in ("seller", "buyer"):
        found[side] = [
            levels.CustomLevel(f"{side}_vat_l = {side}_vat_r"),
            levels.CustomLevel(f"levenshtein({side}_vat_l, {side}_vat_r) = 1"),
            levels.ExactMatchLevel(f"{side}_name", term_frequency_adjustments=True),
            levels.JaroWinklerLevel(f"{side}_name", 0.92),
            levels.JaroWinklerLevel(f"{side}_name", 0.8),
        ]
    for name in ("others", "lines"):
        found[name] = [levels.CustomLevel(_LIST.format(name, share)) for share in _OVERLAPS]
    return found
