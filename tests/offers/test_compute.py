"""Offers depend on preferences, distance, age and traits.

They are ordered by score.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.offers.compute import EARTH_KM, UNLIMITED_REACH, Pool, compute, squared_line, top_k
from counterfoil.offers.pool import PACKED_EXCLUSION, UNIT
from counterfoil.offers.schedule import Rules
from tests.offers import reference_offers
from tests.offers.people import MAN, NONBINARY, WOMAN, Person, people

DAY = date(2026, 11, 23)
ANYWHERE = 20_100
RULES = Rules(max_offers=5, max_candidates=1000, max_exposure=None, repeat_interval_days=30)


def compute_offers(
    pool: Sequence[Person],
    users: Sequence[Person] | None = None,
    excluded: Sequence[tuple[int, UUID]] = (),
    rules: Rules = RULES,
    day: date = DAY,
) -> list[list[tuple[UUID, int]]]:
    """Return the ids offered to each user, with scores."""
    pool_ = Pool(people(*pool), day)
    rows = np.array([(user, candidate.bytes) for user, candidate in excluded], PACKED_EXCLUSION)
    users = pool if users is None else users
    offers_ = compute(pool_, people(*users), rows, rules)
    ids = sorted(person.id for person in pool)
    pairs = [
        (ids[index], score) for index, score in zip(offers_.candidates.tolist(), offers_.scores.tolist(), strict=True)
    ]
    offsets = np.cumsum(offers_.counts).tolist()
    return [pairs[start:end] for start, end in zip([0, *offsets], offsets, strict=False)]


def offered_ids(*pool: Person, **fields: Any) -> list[list[int]]:
    """Return the ids offered to each user, as numbers."""
    return [[candidate.int for candidate, _ in user_offers] for user_offers in compute_offers(pool, **fields)]


_cities = [(52.5, 13.4), (52.6, 13.5), (48.1, 11.6), (-17.8, 179.9), (-17.8, -179.9), (89.9, 0.0), (89.9, 180.0)]
_persons = st.builds(
    lambda number, city, **more: Person(UUID(int=number), *city, **more),
    number=st.integers(1, 60) | st.integers(1 << 127, (1 << 127) + 5),
    city=st.sampled_from(_cities),
    birth_date=st.dates(date(1960, 1, 1), date(2009, 1, 1)).map(lambda day: int(day.strftime("%Y%m%d"))),
    gender=st.sampled_from([WOMAN, MAN, NONBINARY]),
    seeks_genders=st.integers(1, 7),
    min_age=st.integers(18, 40),
    max_age=st.integers(40, 80),
    max_distance_km=st.sampled_from([1, 10, 25, 300, 1000, ANYWHERE]),
    traits=st.tuples(*[st.integers(-127, 127)] * 16) | st.sampled_from([(0,) * 16, (127,) * 16, (0,) * 15 + (-128,)]),
)


@settings(deadline=None)
@given(
    pool=st.lists(_persons, min_size=1, max_size=25, unique_by=lambda person: person.id),
    late=st.lists(_persons, max_size=3, unique_by=lambda person: person.id),
    candidates=st.integers(1, 40),
    offers=st.integers(1, 40),
    data=st.data(),
)
def test_offers_equal_the_reference_implementation(
    pool: list[Person], late: list[Person], candidates: int, offers: int, data: st.DataObject
):
    users = [*pool, *(person for person in late if person.id not in {p.id for p in pool})]
    ids = st.sampled_from([person.id for person in users])
    excluded = data.draw(st.lists(st.tuples(st.integers(0, len(users) - 1), ids), max_size=10).map(sorted))
    rules = replace(RULES, max_offers=offers, max_candidates=candidates)

    result = compute_offers(pool, users, excluded, rules)

    for number, user in enumerate(users):
        not_to = {candidate for to, candidate in excluded if to == number}
        assert result[number] == reference_offers.offers(pool, user, not_to, rules, DAY)


def test_equal_scores_are_ordered_by_id():
    persons = [Person(UUID(int=number)) for number in (7, 3, 5, 1, 6, 2, 4)]

    assert offered_ids(*persons)[0] == [1, 2, 3, 4, 5]
    assert offered_ids(*persons)[3] == [2, 3, 4, 5, 6]


def test_only_user_in_a_pool_gets_no_offers():
    assert offered_ids(Person(UUID(int=1))) == [[]]


def test_user_preferences_exclude_candidates():
    woman, user = Person(UUID(int=1)), Person(UUID(int=2))
    man = Person(UUID(int=3), gender=MAN, seeks_genders=WOMAN)

    assert offered_ids(woman, user, man) == [[2], [1], []]


def test_preferences_must_match_both_ways():
    man, woman = (
        Person(UUID(int=1), gender=MAN, seeks_genders=WOMAN),
        Person(UUID(int=2), gender=WOMAN, seeks_genders=WOMAN | MAN),
    )
    nonbinary = Person(UUID(int=3), gender=NONBINARY, seeks_genders=MAN)

    assert offered_ids(man, woman, nonbinary) == [[2], [1], []]


def test_user_with_invalid_trait_is_excluded():
    invalid_person = Person(UUID(int=2), traits=(-128,) + (0,) * 15)
    pool = people(Person(UUID(int=1)), invalid_person, Person(UUID(int=3)))

    offers_ = compute(Pool(pool, DAY), pool, np.empty(0, PACKED_EXCLUSION), RULES)

    assert offers_.faults == {1: "A trait of the profile is not a number"}
    assert offers_.counts.tolist() == [1, 0, 1]
    assert offers_.candidates.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("birth_date", "day", "combined"),
    [
        (2000_11_24, DAY, False),
        (2000_11_23, DAY, True),
        (2000_02_29, date(2026, 2, 28), False),
        (2000_02_29, date(2026, 3, 1), True),
    ],
)
def test_minimum_age_is_reached_on_the_birthday(birth_date: int, day: date, combined: bool):
    older = Person(UUID(int=1), min_age=26)
    young = Person(UUID(int=2), birth_date=birth_date)

    assert offered_ids(older, young, day=day) == ([[2], [1]] if combined else [[], []])


def test_neighbors_across_the_antimeridian_are_near():
    east = Person(UUID(int=1), -17.8, 179.99, max_distance_km=3)
    west = Person(UUID(int=2), -17.8, -179.99, max_distance_km=3)

    assert offered_ids(east, west) == [[2], [1]]


@pytest.mark.parametrize(("max_distance_km", "combined"), [(111, False), (112, True)])
def test_smaller_maximum_distance_of_two_users_applies(max_distance_km: int, combined: bool):
    # One degree of latitude is 111.195 km.
    near = Person(UUID(int=1), 50, 8, max_distance_km=max_distance_km)
    far = Person(UUID(int=2), 51, 8, max_distance_km=ANYWHERE)

    assert offered_ids(near, far) == ([[2], [1]] if combined else [[], []])


def test_unlimited_distance_spans_the_globe():
    near = Person(UUID(int=1), 40.4, -3.7, max_distance_km=ANYWHERE)
    far = Person(UUID(int=2), -40.4, 176.3, max_distance_km=ANYWHERE)

    assert compute_offers([near, far]) == [[(UUID(int=2), 4500)], [(UUID(int=1), 4500)]]


def test_equal_traits_score_highest_and_opposites_lowest():
    item = Person(UUID(int=1), traits=(90, -20) * 8)
    same = Person(UUID(int=2), traits=(45, -10) * 8)
    opposite = Person(UUID(int=3), birth_date=1960_01_01, traits=(-90, 20) * 8)

    assert compute_offers([item, same, opposite])[0] == [(same.id, 10_000), (opposite.id, 2_500)]


def test_user_outside_the_pool_gets_offers():
    assert compute_offers([Person(UUID(int=1))], [Person(UUID(int=9))]) == [[(UUID(int=1), 7_000)]]


def test_duplicate_user_in_pool_is_rejected():
    with pytest.raises(ValueError, match="twice"):
        Pool(people(Person(UUID(int=1)), Person(UUID(int=1))), DAY)


@pytest.mark.parametrize("km", [1, 7, 50, 111, 1000, 5000, 10_000, 19_000, 20_010])
def test_chord_lengths_agree_with_trigonometry(km: int):
    assert squared_line(km) == pytest.approx((2 * UNIT * math.sin(km / EARTH_KM / 2)) ** 2, rel=1e-9, abs=1)


def test_longer_distance_has_a_longer_chord():
    lines = [squared_line(km) for km in range(1, ANYWHERE + 1)]

    assert all(first < second or second == UNLIMITED_REACH for first, second in pairwise(lines))
    assert lines[-1] == UNLIMITED_REACH


@given(st.lists(st.integers(-1, 9), min_size=1, max_size=80), st.integers(1, 80))
def test_highest_scores_equal_sorted_scores(numbers: list[int], depth: int):
    result = np.array([numbers, numbers[::-1]])

    assert top_k(result, depth).tolist() == [sorted(numbers, reverse=True)[:depth]] * 2
