"""The exposure cap limits how often one user is offered to others."""

from dataclasses import replace
from datetime import date, timedelta
from random import Random
from uuid import UUID

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from counterfoil.offers.compute import Pool, compute
from counterfoil.offers.exposure_cap import MAX_INDEX, NO_CANDIDATE, apply_exposure_cap, assign_slots
from counterfoil.offers.pool import PACKED_EXCLUSION
from counterfoil.offers.schedule import Rules
from tests.offers.people import MAN, Person, people

Scores = list[list[int]]
"""Score of each candidate for each user. Negative if the two are incompatible."""


def propose_sequentially(
    scores: Scores, previous_counts: list[int], offers: int, most: int, random: Random
) -> list[list[int]]:
    """Return each user's offers if users propose one at a time, in random order.

    `previous_counts` contains each candidate's number of existing offers. `most` is the exposure cap.
    """
    preferences = [sorted((c for c in range(len(row)) if row[c] >= 0), key=lambda c: (-row[c], c)) for row in scores]
    accepted: list[list[int]] = [[] for _ in scores[0]]
    while True:
        proposing = [u for u, left in enumerate(preferences) if left and sum(u in users for users in accepted) < offers]
        if not proposing:
            return [
                sorted((c for c, users in enumerate(accepted) if u in users), key=lambda c: (-scores[u][c], c))
                for u in range(len(scores))
            ]
        user = random.choice(proposing)
        candidate = preferences[user].pop(0)
        accepted[candidate] = sorted([*accepted[candidate], user], key=lambda u: (-scores[u][candidate], u))
        del accepted[candidate][max(0, most - previous_counts[candidate]) :]


def capped_offers(scores: Scores, previous_counts: list[int], offers: int, most: int, depth: int) -> list[list[int]]:
    keys = np.array(
        [[score << 32 | MAX_INDEX - c if score >= 0 else NO_CANDIDATE for c, score in enumerate(row)] for row in scores]
    )

    def next_candidates(user_ids: np.ndarray, after: np.ndarray) -> np.ndarray:
        left = np.where(keys[user_ids] < after[:, None], keys[user_ids], NO_CANDIDATE)
        return np.pad(-np.sort(-left, axis=1), [(0, 0), (0, depth)], constant_values=NO_CANDIDATE)[:, :depth]

    created = apply_exposure_cap(next_candidates, len(scores), np.array(previous_counts), offers, most)
    return [[MAX_INDEX - (key & MAX_INDEX) for key in row if key != NO_CANDIDATE] for row in created.tolist()]


@settings(deadline=None)
@given(
    scores=st.integers(1, 6).flatmap(
        lambda width: st.lists(st.lists(st.integers(-2, 4), min_size=width, max_size=width), min_size=1, max_size=8)
    ),
    offers=st.integers(1, 3),
    most=st.integers(1, 3),
    depth=st.integers(1, 6),
    random=st.randoms(use_true_random=False),
)
def test_capped_offers_equal_sequential_proposals(scores: Scores, offers: int, most: int, depth: int, random: Random):
    previous_counts = [random.randint(0, most + 1) for _ in scores[0]]

    assert capped_offers(scores, previous_counts, offers, most, depth) == propose_sequentially(
        scores, previous_counts, offers, most, random
    )


def test_capped_candidate_is_offered_to_highest_scoring_users():
    rules = Rules(max_offers=5, max_candidates=1000, max_exposure=2, repeat_interval_days=30)
    women = [
        Person(UUID(int=number), 50 + far, 13.0, seeks_genders=MAN)
        for number, far in enumerate([0.3, 0.1, 0.4, 0.2, 0.5])
    ]
    pool = people(*women, Person(UUID(int=9), 50.0, 13.0, gender=MAN))

    offers_ = compute(Pool(pool, date(2026, 11, 23)), pool, np.empty(0, PACKED_EXCLUSION), rules)

    assert offers_.counts.tolist() == [0, 1, 0, 1, 0, 5]


def test_unreached_exposure_cap_does_not_change_offers():
    rules = Rules(max_offers=3, max_candidates=1000, max_exposure=None, repeat_interval_days=30)
    persons = [Person(UUID(int=number), 50 + number % 9 / 10, 13.0) for number in range(1, 40)]
    pool, users = Pool(people(*persons), date(2026, 11, 23)), people(*reversed(persons))
    excluded = np.array([(0, UUID(int=38).bytes), (7, UUID(int=3).bytes)], PACKED_EXCLUSION)

    uncapped, capped_ = (compute(pool, users, excluded, replace(rules, max_exposure=most)) for most in (None, 39))

    assert uncapped.candidates.tolist() == capped_.candidates.tolist()
    assert uncapped.scores.tolist() == capped_.scores.tolist()
    assert uncapped.counts.tolist() == capped_.counts.tolist()


@given(parts=st.integers(1, 7), most=st.integers(1, 9), after=st.integers(0, 6))
def test_shards_share_capped_slots_evenly_in_rotation(parts: int, most: int, after: int):
    day = date(2026, 11, 23)

    shared = np.array([assign_slots(7, part, parts, most, day) for part in range(parts)])

    assert shared.sum(axis=0).tolist() == [most] * 7
    assert (shared.max(axis=0) - shared.min(axis=0) <= 1).all()
    tomorrow = day + timedelta(days=after)
    for part in range(parts):
        assert assign_slots(7, (part + after) % parts, parts, most, tomorrow).tolist() == shared[part].tolist()
