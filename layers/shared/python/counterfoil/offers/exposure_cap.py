"""Exposure cap: a stable assignment of candidates to users.

Each candidate has a limited number of places. Users propose to candidates, best candidate first. A candidate keeps the
proposals with the highest scores (if scores are equal, the lowest id) and rejects all others. Rejected users propose to
their next best candidate. The result is stable: no user and candidate prefer each other to their assignments. Each user
gets the best offers of any stable assignment, regardless of the order of proposals (D. Gale, L. S. Shapley, College
admissions and the stability of marriage, 1962).

If a pool is too large for one transaction, it is split into parts. Users compete only within their part, which has a
share of every candidate's places.
"""

from collections.abc import Callable
from datetime import date

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
NO_CANDIDATE = -1
TAKEN = 1 << 62
"""Marks a place taken by an existing offer. It is higher than any key, so no proposal can displace that offer."""
MAX_INDEX = (1 << 32) - 1
"""Highest number of a user or candidate. Keys are `score << 32 | MAX_INDEX - number`: a higher key is better. If scores
are equal, the lower number is better."""


def assign_slots(people: int, part: int, parts: int, max_users: int, day: date) -> Ints:
    """Return how many places each candidate has in one part of the pool.

    The index is the candidate's number. A candidate's places in all parts add up to `max_users`, and any two parts
    differ by at most one place. Which parts get an extra place rotates by candidate and day.
    """
    rotation = (part - np.arange(people) - day.toordinal()) % parts
    return max_users // parts + (rotation < max_users % parts).astype(np.int64)


def apply_exposure_cap(
    fetch_next: Callable[[Ints, Ints], Ints], users: int, existing_offers: Ints, offers: int, max_users: int
) -> Ints:
    """Return the keys of the candidates offered to each user, best first.

    The shape is (users, offers). Unused entries at the end of a row are -1.

    Args:
        fetch_next: returns the next best candidates of some users as rows of descending keys, with -1 after the last.
            It receives the users' numbers and the last key that each of them received. TAKEN requests the first
            candidates.
        users: number of users. Users and candidates are numbered in the order of their ids.
        existing_offers: number of existing offers to other users, by candidate. They are permanent.
        offers: maximum offers per user.
        max_users: maximum users per candidate.
    """
    fetched = fetch_next(np.arange(users), np.full(users, TAKEN))
    next_index, offer_counts = np.zeros(users, np.int64), np.zeros(users, np.int64)
    assignments = np.where(np.arange(max_users) < existing_offers[:, None], TAKEN, NO_CANDIDATE)
    is_active = np.ones(users, bool)
    while True:
        proposers = np.flatnonzero(is_active & (offer_counts < offers))
        exhausted = proposers[next_index[proposers] == fetched.shape[1]]
        if len(exhausted):
            fetched[exhausted] = fetch_next(exhausted, fetched[exhausted, -1])
            next_index[exhausted] = 0
        keys = fetched[proposers, next_index[proposers]]
        is_active[proposers[keys == NO_CANDIDATE]] = False
        proposing, keys = proposers[keys != NO_CANDIDATE], keys[keys != NO_CANDIDATE]
        if not len(proposing):
            return _to_offers(assignments, users, offers)
        next_index[proposing] += 1
        accepted, displaced = _propose(
            assignments, MAX_INDEX - (keys & MAX_INDEX), keys >> 32 << 32 | MAX_INDEX - proposing
        )
        np.add.at(offer_counts, MAX_INDEX - (accepted & MAX_INDEX), 1)
        np.subtract.at(offer_counts, MAX_INDEX - (displaced & MAX_INDEX), 1)


def _propose(assignments: Ints, candidates: Ints, users: Ints) -> tuple[Ints, Ints]:
    """Process one round of proposals to `candidates`.

    `users` contains the proposing users' keys.

    Returns the keys of accepted and of displaced users. Modifies `assignments`.
    """
    order = np.lexsort([-users, candidates])
    candidates, users = candidates[order], users[order]
    starts = np.flatnonzero(np.append(True, candidates[1:] != candidates[:-1]))
    rank = np.arange(len(users)) - np.repeat(starts, np.diff(np.append(starts, len(users))))
    accepted, displaced = [], []
    for round_ in range(min(assignments.shape[1], rank.max() + 1)):
        targets, proposals = candidates[rank == round_], users[rank == round_]
        worst = assignments[targets].argmin(axis=1)
        current = assignments[targets, worst]
        better = proposals > current
        assignments[targets[better], worst[better]] = proposals[better]
        accepted.append(proposals[better])
        displaced.append(current[better & (current != NO_CANDIDATE)])
    return np.concatenate(accepted), np.concatenate(displaced)


def _to_offers(assignments: Ints, users: int, offers: int) -> Ints:
    candidates, slots = np.nonzero((assignments != NO_CANDIDATE) & (assignments != TAKEN))
    assigned = assignments[candidates, slots]
    owners, keys = MAX_INDEX - (assigned & MAX_INDEX), assigned >> 32 << 32 | MAX_INDEX - candidates
    order = np.lexsort([-keys, owners])
    owners, keys = owners[order], keys[order]
    result = np.full((users, offers), NO_CANDIDATE)
    result[owners, np.arange(len(owners)) - np.searchsorted(owners, owners)] = keys
    return result
