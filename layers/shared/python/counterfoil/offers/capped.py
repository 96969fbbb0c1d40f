"""Nobody is offered to too many: who gets whom if all want the best.

Users ask for their candidates from the best on; a candidate keeps those of the highest scores, and of equal scores the
first id, and turns the others down, who ask for their next best. In the end nobody would rather have a candidate who
would rather be offered to them, too, and each user has the best offers that can be had so. The outcome is the same in
whatever order they ask: D. Gale, L. S. Shapley, College admissions and the stability of marriage, 1962.

Users of a pool that is too large for one transaction compete in parts, each with its own places of every candidate.
"""

from collections.abc import Callable
from datetime import date

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
NOBODY = -1
TAKEN = 1 << 62
"""Better than any key: the place of a user who was offered somebody before, and is not turned down any more."""
LAST = (1 << 32) - 1
"""Keys are `score << 32 | LAST - number`: the higher, the better, and of equal scores the lower number is better."""


def places(people: int, part: int, parts: int, most: int, day: date) -> Ints:
    """To how many users of one part each candidate is offered at most, by the candidate's number.

    The parts' places of a candidate are `most` together and differ by one at most; who has the odd ones changes from
    candidate to candidate and from day to day.
    """
    turn = (part - np.arange(people) - day.toordinal()) % parts
    return most // parts + (turn < most % parts).astype(np.int64)


def capped(more: Callable[[Ints, Ints], Ints], users: int, already: Ints, offers: int, most: int) -> Ints:
    """The offers of each user, best first, shape (users, offers), -1 after the last: keys of candidates.

    Args:
        more: the next best candidates of some users, as keys, falling, shape (some, any), -1 after the last. It is
            given the users and the last key that each of them had; all candidates come after TAKEN.
        users: how many there are. They are numbered in the order of their ids, and so are candidates.
        already: by candidate, to how many others each is offered, for good.
        offers: how many are offered to each user, at most.
        most: to how many users each candidate is offered, at most.
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
    """Users, as keys, ask for candidates: who is accepted, and who is dropped for it. `kept` is changed."""
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
