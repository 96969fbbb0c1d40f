"""Exposure cap: a stable assignment of candidates with a limited number of places to users.

Users propose to candidates, the best first. A candidate keeps the proposals with the highest scores (the lowest id if
scores are equal), and rejects the others. Rejected users propose to their next best candidate. The result is stable: no
user and candidate prefer each other to their assignment, and each user has the best offers possible under this
condition. It does not depend on the order of proposals: D. Gale, L. S. Shapley, College admissions and the stability of
marriage, 1962.

Users of a pool that is too large for one transaction compete in parts. Each part has a share of every candidate's
places.
"""

from collections.abc import Callable
from datetime import date

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
NOBODY = -1
TAKEN = 1 << 62
"""Higher than any key: a place taken by an earlier offer, which can no longer be rejected."""
LAST = (1 << 32) - 1
"""Keys are `score << 32 | LAST - number`: higher is better, and of equal scores the lower number is."""


def assign_slots(people: int, part: int, parts: int, most: int, day: date) -> Ints:
    """Return the maximum number of users in one part per candidate, by the candidate's number.

    The shares of all parts add up to `most` and differ by at most one. The extra places rotate by candidate and day.
    """
    turn = (part - np.arange(people) - day.toordinal()) % parts
    return most // parts + (turn < most % parts).astype(np.int64)


def apply_exposure_cap(more: Callable[[Ints, Ints], Ints], users: int, already: Ints, offers: int, most: int) -> Ints:
    """Return the keys of each user's candidates, best first, shape (users, offers), -1 after the last.

    Args:
        more: the next best candidates of some users, as descending keys, shape (some, any), -1 after the last. It
            receives the users and the last key that each of them had; all candidates come after TAKEN.
        users: number of users, who are numbered in the order of their ids, like candidates.
        already: number of permanent offers to other users, by candidate.
        offers: maximum offers per user.
        most: maximum users per candidate.
    """
    wanted = more(np.arange(users), np.full(users, TAKEN))
    asked, has = np.zeros(users, np.int64), np.zeros(users, np.int64)
    kept = np.where(np.arange(most) < already[:, None], TAKEN, NOBODY)
    hopeful = np.ones(users, bool)
    while True:
        short = np.flatnonzero(hopeful & (has < offers))
        through = short[asked[short] == wanted.shape[1]]
        if len(through):
            wanted[through] = more(through, wanted[through, -1])
            asked[through] = 0
        keys = wanted[short, asked[short]]
        hopeful[short[keys == NOBODY]] = False
        asking, keys = short[keys != NOBODY], keys[keys != NOBODY]
        if not len(asking):
            return _by_user(kept, users, offers)
        asked[asking] += 1
        accepted, dropped = _ask(kept, LAST - (keys & LAST), keys >> 32 << 32 | LAST - asking)
        np.add.at(has, LAST - (accepted & LAST), 1)
        np.subtract.at(has, LAST - (dropped & LAST), 1)


def _ask(kept: Ints, candidates: Ints, users: Ints) -> tuple[Ints, Ints]:
    """Process proposals of users, as keys.

    Return the accepted and the displaced users. Modifies `kept`.
    """
    order = np.lexsort([-users, candidates])
    candidates, users = candidates[order], users[order]
    first = np.flatnonzero(np.append(True, candidates[1:] != candidates[:-1]))
    turn = np.arange(len(users)) - np.repeat(first, np.diff(np.append(first, len(users))))
    accepted, dropped = [], []
    for number in range(min(kept.shape[1], turn.max() + 1)):
        asked, asking = candidates[turn == number], users[turn == number]
        worst = kept[asked].argmin(axis=1)
        before = kept[asked, worst]
        better = asking > before
        kept[asked[better], worst[better]] = asking[better]
        accepted.append(asking[better])
        dropped.append(before[better & (before != NOBODY)])
    return np.concatenate(accepted), np.concatenate(dropped)


def _by_user(kept: Ints, users: int, offers: int) -> Ints:
    candidates, slots = np.nonzero((kept != NOBODY) & (kept != TAKEN))
    found = kept[candidates, slots]
    whose, keys = LAST - (found & LAST), found >> 32 << 32 | LAST - candidates
    order = np.lexsort([-keys, whose])
    whose, keys = whose[order], keys[order]
    made = np.full((users, offers), NOBODY)
    made[whose, np.arange(len(whose)) - np.searchsorted(whose, whose)] = keys
    return made
