"""Computes a day's offers: a pure function of a pool's people, users, exclusions, rules and date.

Two people suit each other if each has a gender and an age that the other seeks, and neither lives farther away than the
other would go. A user's candidates are `Rules.candidates` neighbors along a Hilbert curve (`along`), half of them on
either side, among those of the pool whose gender suits both ways and who seek somebody of about the user's age. People
who suit and are not excluded are offered by score, then by id. Of 20,000 people around 60 cities, offers among 1,000
neighbors have 99.75 % of the scores of those among everybody, and 95.5 % of them are the same; around 8 cities 99.46 %
and 88.2 % (`make bench-offers`).

The score of two people is the same from both sides, rounded to a whole number from 0 to 10,000:

    7,000 + 3,000 * t - 2,500 * d / r - 75 * a

t is the cosine of the angle between their traits, 0 if one has given none; d their distance, and r the shorter of the
distances that the two would go, as straight lines through the earth; a the years between their ages, 20 at most. The
same people get the same offers on any machine: dot products are those of small integers, which floats hold exactly in
whatever order they are added, and all else is one IEEE operation after another (+, -, *, / and roots).

The curve runs through the cube around the globe, not over a map: it has no seam, no pole and nothing but integers.
D. Hilbert, Ueber die stetige Abbildung einer Linie auf ein Flaechenstueck, 1891; in three dimensions as J. Skilling,
Programming the Hilbert curve, 2004, computes it: the turns of each finer cube undone, then a Gray code.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from counterfoil.offers.capped import LAST, NOBODY, Ints, capped
from counterfoil.offers.pool import UNIT, People
from counterfoil.offers.schedule import Rules

BITS = 16
"""Halvings of each side of the cube: its smallest cubes are 194 m wide."""
_COARSER = 7
"""What a place's coordinates, of 23 bits, lose in them."""


def along(places: NDArray[np.int32]) -> NDArray[np.int64]:
    """Where places of people, shape (n, 3), lie on the curve, shape (n,)."""
    cells = (places.astype(np.int64) + UNIT) >> _COARSER
    return position(np.minimum(cells, (1 << BITS) - 1).T, BITS)


def position(cell: ArrayLike, bits: int) -> NDArray[np.int64]:
    """Where cells, shape (3, ...), each coordinate below `1 << bits`, come on the curve, shape (...)."""
    x, y, z = np.array(cell, np.int64)
    for level in range(bits - 1, 0, -1):
        half, lower = 1 << level, (1 << level) - 1
        x ^= np.where(x & half, lower, 0)
        for other in (y, z):
            swapped = np.where(other & half, 0, (x ^ other) & lower)
            x ^= np.where(other & half, lower, swapped)
            other ^= swapped  # noqa: PLW2901 - in place
    y ^= x
    z ^= y
    turned = np.zeros_like(z)
    for level in range(bits - 1, 0, -1):
        turned ^= np.where(z & (1 << level), (1 << level) - 1, 0)
    order: NDArray[np.int64] = np.zeros_like(z)
    for level in range(bits - 1, -1, -1):
        for axis in (x, y, z):
            order = order << 1 | ((axis ^ turned) >> level & 1)
    return order


ALIKE, FAR, YEAR = 3000.0, 2500.0, 75.0
"""What traits, distance and a year count."""
YEARS = 20
"""Whose ages differ by more are no less alike for it."""
AGES_TOGETHER = 5
"""Users choose among the same people if their ages begin with the same multiple of so many years."""

EARTH_KM = 6371.0088
EVERYWHERE = float((2 * UNIT + 2) ** 2)
"""The square of a line that is longer than any through the earth, between places that are rounded."""

_AT_ONCE = 64
"""How many users are computed at once: what lies between stays near the processor."""
_ONE_BY_ONE = 32
"""Up to so many, the highest are found faster one by one than by sorting. Where most are equal, partitions are slow."""
_WANTED = 4
"""Where offers are capped: for how many times as many candidates as offers users look at once."""

Indices = NDArray[np.intp]


class Columns(NamedTuple):
    """What a score is computed from, of some people or, in two dimensions, of the candidates of some users."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    z: NDArray[np.float64]
    reach: NDArray[np.float64]
    """The square of the longest line to somebody, in the units of places."""
    age: NDArray[np.int16]
    youngest: NDArray[np.int16]
    oldest: NDArray[np.int16]
    traits: NDArray[np.int8]
    length: NDArray[np.float64]
    """Of the traits; without end where all are 0, since then they say nothing."""

    @classmethod
    def of(cls, people: People, day: date) -> "Columns":
        """The columns of people, in their order."""
        rows = people.rows
        reaches, which = np.unique(rows["reach_km"], return_inverse=True)
        squares = np.square(rows["traits"], dtype=np.float64).sum(axis=1)
        x, y, z = rows["place"].T.astype(np.float64)
        return cls(
            x=x,
            y=y,
            z=z,
            reach=np.array([squared_line(reach) for reach in reaches.tolist()])[which],
            age=people.ages(day),
            youngest=rows["min_age"].astype(np.int16),
            oldest=rows["max_age"].astype(np.int16),
            traits=np.ascontiguousarray(rows["traits"]),
            length=np.sqrt(np.where(squares > 0, squares, np.inf)),
        )

    def take(self, rows: Indices) -> "Columns":
        """The columns of those in some rows, in the shape of `rows`."""
        return Columns._make(column.take(rows, axis=0) for column in self)


@cache
def squared_line(km: int) -> float:
    """The square of the straight line between places that are so far apart on the ground, in the units of places.

    The sine is summed up here (Taylor's series), since those of libraries differ in their last digit.
    """
    half = km / (2 * EARTH_KM)
    if half > 1.5707:
        return EVERYWHERE
    term = sine = half
    for power in range(3, 31, 2):
        term = -term * half * half / (power * (power - 1))
        sine += term
    return float(int(4.0 * UNIT * UNIT * sine * sine))


class Pool:
    """The people who are offered to one another on a day, ordered for finding neighbours. Made once for many shards.

    Raises:
        ValueError: somebody is in it twice.
    """

    def __init__(self, people: People, day: date) -> None:
        self.people = People(people.rows[np.argsort(people.ids)])
        """By id, in whatever order they were given."""
        if (self.people.ids[1:] == self.people.ids[:-1]).any():
            raise ValueError("somebody is in the pool twice")
        self.day = day
        places = along(self.people.rows["place"])
        order = np.argsort(places, kind="stable")
        self.columns = Columns.of(self.people, day).take(order)
        """Along the curve, then by id."""
        self.backwards = LAST - order
        """Of those in `columns`: the lower, the later comes an id."""
        self._stands = np.empty_like(order)
        self._stands[order] = np.arange(len(order))
        self._places, place = np.unique(places[order], return_inverse=True)
        self._order = place << 32 | order
        rows, sound = self.people.rows[order], np.ones(len(order), bool)
        sound[self._stands[list(self.people.faults)]] = False
        self._gender, self._seeks = rows["gender"] * sound, rows["seeks"].astype(np.int16)
        self._suited: dict[int, NDArray[np.int32]] = {}

    def suited(self, kind: int) -> NDArray[np.int32]:
        """Where those stand along the curve who may suit users of a kind (`kinds`)."""
        if kind not in self._suited:
            gender, seeks, age = kind >> 10, kind >> 7 & 7, kind & 127
            those = (self._gender & seeks != 0) & (self._seeks & gender != 0)
            those &= (self.columns.youngest < age + AGES_TOGETHER) & (self.columns.oldest >= age)
            self._suited[kind] = np.flatnonzero(those).astype(np.int32)
        return self._suited[kind]

    def stands(self, ids: NDArray[np.bytes_]) -> Indices:
        """Where people stand along the curve, -1 for those who are not of the pool."""
        stands: Indices = np.append(self._stands, -1)[self.people.find(ids)]
        return stands

    def before(self, users: People) -> Indices:
        """How many of the pool stand before each user along the curve, be the user of the pool or not."""
        places = along(users.rows["place"])
        place = np.searchsorted(self._places, places)
        same = np.append(self._places, -1)[place] == places
        before: Indices = np.searchsorted(self._order, place << 32 | np.searchsorted(self.people.ids, users.ids) * same)
        return before


def kinds(users: People, ages: NDArray[np.int16]) -> NDArray[np.int32]:
    """What users have in common who choose among the same people, as a number; 0 for those whose records are broken."""
    ages = (ages // AGES_TOGETHER * AGES_TOGETHER).clip(0, 127)
    numbers = users.rows["gender"].astype(np.int32) << 10 | users.rows["seeks"].astype(np.int32) << 7 | ages
    numbers[list(users.faults)] = 0
    return numbers


@dataclass(frozen=True)
class Computed:
    """The offers of some users, user by user, each user's best first."""

    counts: Ints
    """By user."""
    candidates: Ints
    """Positions in the people of the pool."""
    scores: Ints
    faults: Mapping[int, str]
    """By user: what is wrong with a record from which no offers can be computed."""


class Banned(NamedTuple):
    """Who may not be offered to whom."""

    first: Indices
    """By user: where in `stands` those begin whom the user may not be offered."""
    stands: Indices
    """Where somebody stands along the curve, -1 for those who are not of the pool."""

    @classmethod
    def of(cls, pool: Pool, users: People, excluded: NDArray[Any]) -> "Banned":
        """Those who are excluded, and each user for the user's own."""
        number = np.concatenate([excluded["user"], np.arange(len(users))])
        order = np.argsort(number, kind="stable")
        stands = pool.stands(np.concatenate([excluded["candidate"], users.ids]))
        return cls(np.searchsorted(number[order], np.arange(len(users) + 1)), stands[order])

    def cells(self, users: Indices, near: NDArray[np.int32], starts: Indices, width: int) -> tuple[Indices, Indices]:
        """Where they are in windows of some users, which start somewhere in `near`: lines, rising, and columns."""
        sizes = self.first[users + 1] - self.first[users]
        lines = np.repeat(np.arange(len(users)), sizes)
        stands = self.stands[np.arange(len(lines)) + np.repeat(self.first[users] - sizes.cumsum() + sizes, sizes)]
        at = np.searchsorted(near, stands)
        columns = at - starts[lines]
        inside = (columns >= 0) & (columns < width)
        inside[inside] = near[at[inside]] == stands[inside]
        return lines[inside], columns[inside]


def compute(pool: Pool, users: People, excluded: NDArray[Any], rules: Rules, already: Ints | None = None) -> Computed:
    """Compute the offers of users, who may be of the pool or not.

    Args:
        pool: who is offered.
        users: whom they are offered to.
        excluded: who may not be offered to whom (`people.EXCLUSION`).
        rules: how offers are made.
        already: by position in the people of the pool, to how many others each is offered on the day. It counts where
            the rules say to how many somebody is offered; None: to nobody.
    """
    if rules.most_offered is None:
        best = ranked(pool, users, excluded, rules.candidates, rules.offers)
    else:
        none = np.zeros(len(pool.people), np.int64)
        best = _capped(pool, users, excluded, rules, none if already is None else already)
    offered = best[best != NOBODY]
    return Computed((best != NOBODY).sum(axis=1), LAST - (offered & LAST), offered >> 32, users.faults)


def _capped(pool: Pool, users: People, excluded: NDArray[Any], rules: Rules, already: Ints) -> Ints:
    """The offers of users if nobody is offered to more than the rules say, as `ranked` gives them."""
    assert rules.most_offered is not None  # else nothing is capped
    order = np.argsort(users.ids)
    number = np.empty_like(order)
    depth = min(rules.candidates, _WANTED * rules.offers)

    def more(some: Indices, after: Ints) -> Ints:
        number.fill(NOBODY)
        number[order[some]] = np.arange(len(some))
        theirs = excluded[number[excluded["user"]] != NOBODY].copy()
        theirs["user"] = number[theirs["user"]]
        return ranked(pool, People(users.rows[order[some]]), theirs, rules.candidates, depth, after)

    best = np.empty((len(users), rules.offers), np.int64)
    best[order] = capped(more, len(users), already, rules.offers, rules.most_offered)
    return best


def ranked(
    pool: Pool, users: People, excluded: NDArray[Any], width: int, depth: int, after: Ints | None = None
) -> Ints:
    """The best `depth` candidates of each user, the best first, shape (users, depth); -1 after the last.

    A candidate is one number, `score << 32 | 2**32 - 1 - position`, so that whoever comes first has the highest. With
    `after`, only those that come after a number are asked for.
    """
    best = np.full((len(users), depth), NOBODY, np.int64)
    columns, before = Columns.of(users, pool.day), pool.before(users)
    banned = Banned.of(pool, users, excluded)
    kind_of = kinds(users, columns.age)
    for kind in np.unique(kind_of[kind_of > 0]).tolist():
        members, near = np.flatnonzero(kind_of == kind), pool.suited(kind)
        size = min(width, len(near))
        starts = (np.searchsorted(near, before[members]) - width // 2).clip(0, len(near) - size)
        lines, cells = banned.cells(members, near, starts, size)
        gathered = _gathering(pool, near, size, len(members))
        for first in range(0, len(members), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            found = keys(columns.take(members[some, None]), *gathered(starts[some]))
            of_some = slice(*np.searchsorted(lines, [some.start, some.stop]))
            found[lines[of_some] - first, cells[of_some]] = NOBODY
            if after is not None:
                found[found >= after[members[some], None]] = NOBODY
            highest = highest_of(found, depth)
            best[members[some], : highest.shape[1]] = highest
    return best


def _gathering(pool: Pool, near: NDArray[np.int32], size: int, users: int) -> Callable[[Indices], tuple[Columns, Ints]]:
    """How the columns of `size` candidates from some starts on are gathered, and `Pool.backwards` of them.

    For many users it pays to put all who may suit beside one another first: what follows is copied in stretches.
    """
    if len(near) > users * size:
        windows = sliding_window_view(near, size)

        def one_by_one(starts: Indices) -> tuple[Columns, Ints]:
            candidates = windows[starts].astype(np.intp)
            return pool.columns.take(candidates), pool.backwards.take(candidates)

        return one_by_one
    copied: list[NDArray[Any]] = [*pool.columns.take(near.astype(np.intp)), pool.backwards.take(near)]
    stretches = [np.moveaxis(sliding_window_view(column, size, axis=0), -1, 1) for column in copied]

    def in_stretches(starts: Indices) -> tuple[Columns, Ints]:
        *columns, backwards = (stretch[starts] for stretch in stretches)
        return Columns._make(columns), backwards

    return in_stretches


def keys(users: Columns, candidates: Columns, backwards: Ints) -> Ints:
    """What candidates are ordered by, shape (users, candidates); -1 for those who do not suit the user."""
    apart = np.square(candidates.x - users.x)
    apart += np.square(candidates.y - users.y)
    apart += np.square(candidates.z - users.z)
    reach = np.minimum(candidates.reach, users.reach)
    suits = apart <= reach
    suits &= candidates.age >= users.youngest
    suits &= candidates.age <= users.oldest
    suits &= candidates.youngest <= users.age
    suits &= candidates.oldest >= users.age
    products = np.matmul(users.traits.astype(np.float32), candidates.traits.astype(np.float32).transpose(0, 2, 1))
    score: NDArray[np.float64] = products[:, 0] / (candidates.length * users.length)
    score *= ALIKE
    apart /= reach
    score -= FAR * np.sqrt(apart, out=apart)
    score += 7000.5 - YEAR * np.minimum(np.abs(candidates.age - users.age), YEARS)
    found = score.astype(np.int64)
    found <<= 32
    found |= backwards
    return np.where(suits, found, NOBODY)


def highest_of(found: Ints, depth: int) -> Ints:
    """The `depth` highest numbers of each row, or all of them, falling. `found` is used up."""
    if depth > _ONE_BY_ONE:
        return np.sort(found, axis=1)[:, : -depth - 1 : -1]
    best = np.empty((len(found), min(depth, found.shape[1])), np.int64)
    rows = np.arange(len(found))
    for rank in range(best.shape[1]):
        cells = found.argmax(axis=1)
        best[:, rank] = found[rows, cells]
        found[rows, cells] = NOBODY
    return best
