"""The assignment is the best there is: compared with all that there are, and with itself in another order."""

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from counterfoil.documents.three_way_match.alignment import Pairs, assign

weights = st.dictionaries(st.tuples(st.integers(0, 4), st.integers(0, 4)), st.integers(-3, 9).map(float), max_size=25)


def worth(pairs: Pairs, chosen: dict[int, int]) -> float:
    return sum(pairs[pair] for pair in chosen.items())


def best(pairs: Pairs) -> float:
    """The largest sum of all assignments, by trying them."""
    return max(
        sum(max(0.0, pairs.get((row, column), 0.0)) for row, column in enumerate(columns))
        for columns in permutations(range(5))
    )


@given(weights)
def test_no_assignment_is_worth_more(pairs: Pairs):
    chosen = assign(pairs)
    assert len(set(chosen.values())) == len(chosen)
    assert worth(pairs, chosen) == best(pairs)


@given(weights)
def test_pairs_that_are_worth_nothing_are_not_made(pairs: Pairs):
    assert all(pairs[pair] > 0 for pair in assign(pairs).items())


@given(weights, st.randoms(use_true_random=False))
def test_the_order_of_the_pairs_makes_no_difference(pairs: Pairs, random: object):
    items = list(pairs.items())
    random.shuffle(items)  # type: ignore[attr-defined]  # a Random of hypothesis
    assert assign(dict(items)) == assign(pairs)


def test_a_row_gives_its_best_column_up_where_that_helps_another_more():
    assert assign({(0, 0): 5.0, (0, 1): 4.0, (1, 0): 5.0}) == {0: 1, 1: 0}


def test_thousands_of_rows_that_all_want_the_same_columns_come_to_an_end():
    pairs = {(row, column): float(1 + (row * column) % 7) for row in range(400) for column in range(20)}
    chosen = assign(pairs)
    assert (len(chosen), worth(pairs, chosen)) == (20, 7.0 * 17 + 1.0 * 3)  # three columns are multiples of seven
