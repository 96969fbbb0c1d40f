"""The assignment is optimal, and does not depend on the order of pairs."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from counterfoil.documents.three_way_match.alignment import Pairs, assign

weights = st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.integers(-3, 9).map(float), max_size=25)


def worth(pairs: Pairs, chosen: dict[int, int]) -> float:
    return sum(pairs[pair] for pair in chosen.items())


def best(pairs: Pairs) -> float:
    """Return the largest total weight of any assignment, found by brute force."""
    return max(
        sum(max(0.0, pairs.get((row, column), 0.0)) for row, column in enumerate(columns))
        for columns in permutations(range(5))
    )


@given(weights)
def test_assignment_is_optimal(pairs: Pairs):
    chosen = assign(pairs)
    assert len(set(chosen.values())) == len(chosen)
    assert worth(pairs, chosen) == best(pairs)


@given(weights)
def test_pairs_without_positive_weight_are_not_assigned(pairs: Pairs):
    assert all(pairs[pair] > 0 for pair in assign(pairs).items())


@given(weights, st.randoms(use_true_random=False))
def test_assignment_does_not_depend_on_pair_order(pairs: Pairs, random: object):
    items = list(pairs.items())
    random.shuffle(items)  # type: ignore[attr-defined]  # a `Random` from Hypothesis
    assert assign(dict(items)) == assign(pairs)


def test_better_total_overrides_the_best_pair():
    assert assign({(0, 0): 5.0, (0, 1): 4.0, (1, 0): 5.0}) == {0: 1, 1: 0}


def test_assignment_of_hundreds_of_competing_rows_is_optimal():
    pairs = {(row, column): float(1 + (row * column) % 7) for row in range(400) for column in range(20)}
    chosen = assign(pairs)
    assert (len(chosen), worth(pairs, chosen)) == (20, 7.0 * 17 + 1.0 * 3)  # columns 0, 7 and 14 only have weight 1
