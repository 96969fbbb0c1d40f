"""Computes a day's offers from pool, users, exclusions and rules. Pure.

Two users are compatible if each has a gender and an age that the other seeks, and their distance is within both users'
limits. A user's candidates are the `Rules.max_candidates` nearest neighbors along a Hilbert curve (`curve_positions`),
half of them in each direction. They are chosen from users in the pool whose gender is compatible in both directions and
who seek about the user's age. Compatible candidates that are not excluded are offered in order of score, then id.

Limiting candidates to neighbors costs little quality. For 20,000 users around 60 cities, offers among 1,000 neighbors
reach 99.75% of the scores of offers among all users, and 95.5% of the offers are the same. Around 8 cities, the shares
are 99.46% and 88.2% (`make bench-offers`).

The score of two users is symmetric, and rounded to a whole number from 0 to 10,000:

    7,000 + 3,000 * t - 2,500 * d / r - 75 * a

t is the cosine of the angle between their traits, or 0 if one of them has no traits. d is their distance, and r is the
shorter of their maximum distances, as straight lines through the earth. a is the difference of their ages in years, at
most 20. The same users get the same offers on any machine: dot products are sums of small integers, which floats
represent exactly in any order, and everything else is a sequence of IEEE operations (+, -, *, / and roots).

The curve fills the cube around the globe instead of a map, so it has no seam and no pole, and needs only integers. See
D. Hilbert, Ueber die stetige Abbildung einer Linie auf ein Flaechenstueck, 1891, and for three dimensions J. Skilling,
Programming the Hilbert curve, 2004: undo the rotation of each finer cube, then apply a Gray code.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray

from counterfoil.offers.exposure_cap import MAX_INDEX, NO_CANDIDATE, Ints, apply_exposure_cap
from counterfoil.offers.pool import UNIT, ProfileArrays
from counterfoil.offers.schedule import Rules

BITS = 16
"""Bits per coordinate of the curve, whose smallest cubes are 194 m wide."""
_DROPPED_BITS = 7
"""Number of low-order bits dropped from a place's 23-bit coordinates."""


def curve_positions(points: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return each place's position on the curve.

    `points` has the shape (n, 3), the result (n,).
    """
    cells = (points.astype(np.int64) + UNIT) >> _DROPPED_BITS
    return position(np.minimum(cells, (1 << BITS) - 1).T, BITS)


def position(cell: ArrayLike, bits: int) -> NDArray[np.int64]:
    """Return each cell's position on the curve.

    `cell` has the shape (3, ...), the result (...).

    Coordinates must be less than `1 << bits`.
    """
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


TRAIT_WEIGHT, DISTANCE_WEIGHT, YEAR_WEIGHT = 3000.0, 2500.0, 75.0
"""Weights of traits, distance, and each year of age difference in the score."""
MAX_AGE_DIFFERENCE = 20
"""Age difference in years above which the score does not decrease further."""
AGE_BUCKET_WIDTH = 5
"""Width of an age bucket in years. Users with the same genders and age bucket share a candidate list."""

EARTH_KM = 6371.0088
UNLIMITED_REACH = float((2 * UNIT + 2) ** 2)
"""Squared length that exceeds every straight line through the earth between two rounded places."""

_BATCH_SIZE = 64
"""Maximum users per batch, to keep intermediate results in the processor's cache."""
_MAX_ARGMAX_DEPTH = 32
"""Maximum depth for which repeated argmax is faster than sorting. Partitioning is slow if most values are equal."""
_FETCH_FACTOR = 4
"""Number of candidates fetched at once under an exposure cap, as a multiple of the maximum offers per user."""

Indices = NDArray[np.intp]


class Columns(NamedTuple):
    """Inputs of the score, with one row per user.

    The columns of candidates have two dimensions: users, and the candidates of each user.
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    z: NDArray[np.float64]
    reach: NDArray[np.float64]
    """Square of the maximum distance, in the units of `place` coordinates."""
    age: NDArray[np.int16]
    youngest: NDArray[np.int16]
    oldest: NDArray[np.int16]
    traits: NDArray[np.int8]
    length: NDArray[np.float64]
    """Length of the traits vector, or infinity if all traits are 0, which makes the cosine 0."""

    @classmethod
    def of(cls, people: ProfileArrays, day: date) -> "Columns":
        """Return the columns for `people`, in the same order."""
        rows = people.rows
        reaches, indexes = np.unique(rows["max_distance_km"], return_inverse=True)
        squares = np.square(rows["traits"], dtype=np.float64).sum(axis=1)
        x, y, z = rows["place"].T.astype(np.float64)
        return cls(
            x=x,
            y=y,
            z=z,
            reach=np.array([squared_line(reach) for reach in reaches.tolist()])[indexes],
            age=people.ages(day),
            youngest=rows["min_age"].astype(np.int16),
            oldest=rows["max_age"].astype(np.int16),
            traits=np.ascontiguousarray(rows["traits"]),
            length=np.sqrt(np.where(squares > 0, squares, np.inf)),
        )

    def take(self, rows: Indices) -> "Columns":
        """Return the columns at the row indexes `rows`, in the shape of `rows`."""
        return Columns._make(column.take(rows, axis=0) for column in self)


@cache
def squared_line(km: int) -> float:
    """Return the squared length of a straight line through the earth.

    The line connects two places that are `km` apart on the ground. The unit is that of `place` coordinates. The sine is
    computed as a Taylor series, because libraries' results differ in the last digit.
    """
    half = km / (2 * EARTH_KM)
    if half > 1.5707:
        return UNLIMITED_REACH
    term = sine = half
    for power in range(3, 31, 2):
        term = -term * half * half / (power * (power - 1))
        sine += term
    return float(int(4.0 * UNIT * UNIT * sine * sine))


class Pool:
    """A pool's users on a day, sorted for neighbor search.

    One instance serves many shards.

    Raises:
        ValueError: a user occurs twice.
    """

    def __init__(self, people: ProfileArrays, day: date) -> None:
        self.people = ProfileArrays(people.rows[np.argsort(people.ids)])
        """Sorted by id."""
        if (self.people.ids[1:] == self.people.ids[:-1]).any():
            raise ValueError("a user is in the pool twice")
        self.day = day
        positions = curve_positions(self.people.rows["place"])
        order = np.argsort(positions, kind="stable")
        self.columns = Columns.of(self.people, day).take(order)
        """Sorted along the curve, then by id."""
        self.reverse_order = MAX_INDEX - order
        """MAX_INDEX minus each user's index by id, in the order of `columns`."""
        self._positions = np.empty_like(order)
        self._positions[order] = np.arange(len(order))
        self._curve_positions, rank = np.unique(positions[order], return_inverse=True)
        self._order = rank << 32 | order
        rows, is_valid = self.people.rows[order], np.ones(len(order), bool)
        is_valid[self._positions[list(self.people.faults)]] = False
        self._gender, self._seeks = rows["gender"] * is_valid, rows["seeks_genders"].astype(np.int16)
        self._eligible: dict[int, NDArray[np.int32]] = {}

    def eligible(self, kind: int) -> NDArray[np.int32]:
        """Return the indexes in `columns` of a preference group's candidates.

        `preference_groups` returns the numbers of the groups.
        """
        if kind not in self._eligible:
            gender, seeks_genders, age = kind >> 10, kind >> 7 & 7, kind & 127
            is_match = (self._gender & seeks_genders != 0) & (self._seeks & gender != 0)
            is_match &= (self.columns.youngest < age + AGE_BUCKET_WIDTH) & (self.columns.oldest >= age)
            self._eligible[kind] = np.flatnonzero(is_match).astype(np.int32)
        return self._eligible[kind]

    def find_positions(self, ids: NDArray[np.bytes_]) -> Indices:
        """Return the index in `columns` of each id, or -1 if it is not in the pool."""
        positions: Indices = np.append(self._positions, -1)[self.people.find(ids)]
        return positions

    def preceding_counts(self, users: ProfileArrays) -> Indices:
        """Return the number of pool users that precede each of `users` on the curve.

        `users` do not have to be in the pool.
        """
        positions = curve_positions(users.rows["place"])
        rank = np.searchsorted(self._curve_positions, positions)
        is_same = np.append(self._curve_positions, -1)[rank] == positions
        counts: Indices = np.searchsorted(
            self._order, rank << 32 | np.searchsorted(self.people.ids, users.ids) * is_same
        )
        return counts


def preference_groups(users: ProfileArrays, ages: NDArray[np.int16]) -> NDArray[np.int32]:
    """Return each user's preference group, as a number.

    Users in the same group share a candidate list.

    The number is 0 for users with invalid profiles.
    """
    ages = (ages // AGE_BUCKET_WIDTH * AGE_BUCKET_WIDTH).clip(0, 127)
    numbers = users.rows["gender"].astype(np.int32) << 10 | users.rows["seeks_genders"].astype(np.int32) << 7 | ages
    numbers[list(users.faults)] = 0
    return numbers


@dataclass(frozen=True)
class OfferResults:
    """Computed offers, user by user, best first."""

    counts: Ints
    """Number of offers by user."""
    candidates: Ints
    """Index of the candidate in the pool, by offer."""
    scores: Ints
    """Score by offer."""
    faults: Mapping[int, str]
    """Error messages for users with invalid profiles, by user index."""


class ExclusionSet(NamedTuple):
    """Excluded candidates of each user."""

    first: Indices
    """Index of each user's first exclusion in `positions`."""
    positions: Indices
    """Index in `Pool.columns` of each excluded candidate, or -1 if the candidate is not in the pool."""

    @classmethod
    def of(cls, pool: Pool, users: ProfileArrays, excluded: NDArray[Any]) -> "ExclusionSet":
        """Return the exclusions in `excluded`.

        Each user is also excluded from their own offers.
        """
        user_index = np.concatenate([excluded["user"], np.arange(len(users))])
        order = np.argsort(user_index, kind="stable")
        positions = pool.find_positions(np.concatenate([excluded["candidate"], users.ids]))
        return cls(np.searchsorted(user_index[order], np.arange(len(users) + 1)), positions[order])

    def cells(
        self, users: Indices, eligible_rows: NDArray[np.int32], starts: Indices, width: int
    ) -> tuple[Indices, Indices]:
        """Return the rows and columns of excluded candidates in the windows of `users`.

        `starts` contains the start of each user's window in `eligible_rows`.
        """
        sizes = self.first[users + 1] - self.first[users]
        rows = np.repeat(np.arange(len(users)), sizes)
        positions = self.positions[np.arange(len(rows)) + np.repeat(self.first[users] - sizes.cumsum() + sizes, sizes)]
        indexes = np.searchsorted(eligible_rows, positions)
        columns = indexes - starts[rows]
        is_inside = (columns >= 0) & (columns < width)
        is_inside[is_inside] = eligible_rows[indexes[is_inside]] == positions[is_inside]
        return rows[is_inside], columns[is_inside]


def compute(
    pool: Pool, users: ProfileArrays, excluded: NDArray[Any], rules: Rules, existing_offers: Ints | None = None
) -> OfferResults:
    """Compute offers for users, who do not have to be in the pool.

    Args:
        pool: candidates.
        users: users who receive the offers.
        excluded: excluded candidates by user (`pool.PACKED_EXCLUSION`).
        rules: parameters of the computation.
        existing_offers: number of existing offers for the day, by the candidate's index in the pool. Used only with an
            exposure cap. None means zero.
    """
    if rules.max_exposure is None:
        best = rank_candidates(pool, users, excluded, rules.max_candidates, rules.max_offers)
    else:
        none = np.zeros(len(pool.people), np.int64)
        best = _compute_capped(pool, users, excluded, rules, none if existing_offers is None else existing_offers)
    offered = best[best != NO_CANDIDATE]
    return OfferResults(
        (best != NO_CANDIDATE).sum(axis=1), MAX_INDEX - (offered & MAX_INDEX), offered >> 32, users.faults
    )


def _compute_capped(
    pool: Pool, users: ProfileArrays, excluded: NDArray[Any], rules: Rules, existing_offers: Ints
) -> Ints:
    """Return the users' offers under the exposure cap.

    The format is that of `rank_candidates`.
    """
    assert rules.max_exposure is not None  # the caller checks this
    order = np.argsort(users.ids)
    indexes = np.empty_like(order)
    depth = min(rules.max_candidates, _FETCH_FACTOR * rules.max_offers)

    def fetch_next(batch: Indices, after: Ints) -> Ints:
        indexes.fill(NO_CANDIDATE)
        indexes[order[batch]] = np.arange(len(batch))
        exclusions = excluded[indexes[excluded["user"]] != NO_CANDIDATE].copy()
        exclusions["user"] = indexes[exclusions["user"]]
        return rank_candidates(
            pool, ProfileArrays(users.rows[order[batch]]), exclusions, rules.max_candidates, depth, after
        )

    best = np.empty((len(users), rules.max_offers), np.int64)
    best[order] = apply_exposure_cap(fetch_next, len(users), existing_offers, rules.max_offers, rules.max_exposure)
    return best


def rank_candidates(
    pool: Pool, users: ProfileArrays, excluded: NDArray[Any], width: int, depth: int, after: Ints | None = None
) -> Ints:
    """Return the best `depth` of each user's `width` candidates, best first.

    The shape is (users, depth). Unused entries at the end of a row are -1.

    A candidate is represented by a key, `score << 32 | MAX_INDEX - index`, so that the best candidate has the highest
    key. The index is that of the candidate in the order of ids. If `after` is given, it contains a key for each user,
    and only candidates with lower keys are returned.
    """
    best = np.full((len(users), depth), NO_CANDIDATE, np.int64)
    columns, preceding = Columns.of(users, pool.day), pool.preceding_counts(users)
    exclusions = ExclusionSet.of(pool, users, excluded)
    kinds = preference_groups(users, columns.age)
    for kind in np.unique(kinds[kinds > 0]).tolist():
        members, eligible_rows = np.flatnonzero(kinds == kind), pool.eligible(kind)
        size = min(width, len(eligible_rows))
        starts = (np.searchsorted(eligible_rows, preceding[members]) - width // 2).clip(0, len(eligible_rows) - size)
        rows, cells = exclusions.cells(members, eligible_rows, starts, size)
        gather = _make_gather(pool, eligible_rows, size, len(members))
        for start in range(0, len(members), _BATCH_SIZE):
            batch = slice(start, start + _BATCH_SIZE)
            sort_keys = keys(columns.take(members[batch, None]), *gather(starts[batch]))
            batch_rows = slice(*np.searchsorted(rows, [batch.start, batch.stop]))
            sort_keys[rows[batch_rows] - start, cells[batch_rows]] = NO_CANDIDATE
            if after is not None:
                sort_keys[sort_keys >= after[members[batch], None]] = NO_CANDIDATE
            top = top_k(sort_keys, depth)
            best[members[batch], : top.shape[1]] = top
    return best


def _make_gather(
    pool: Pool, eligible_rows: NDArray[np.int32], size: int, users: int
) -> Callable[[Indices], tuple[Columns, Ints]]:
    """Return a function that gathers `size` candidates from each start.

    The function returns the candidates' columns and their entries of `Pool.reverse_order`. For many users, eligible
    candidates are first copied to contiguous memory.
    """
    if len(eligible_rows) > users * size:
        windows = sliding_window_view(eligible_rows, size)

        def gather_rows(starts: Indices) -> tuple[Columns, Ints]:
            candidates = windows[starts].astype(np.intp)
            return pool.columns.take(candidates), pool.reverse_order.take(candidates)

        return gather_rows
    copies: list[NDArray[Any]] = [
        *pool.columns.take(eligible_rows.astype(np.intp)),
        pool.reverse_order.take(eligible_rows),
    ]
    column_windows = [np.moveaxis(sliding_window_view(column, size, axis=0), -1, 1) for column in copies]

    def gather_windows(starts: Indices) -> tuple[Columns, Ints]:
        *columns, reverse_order = (window[starts] for window in column_windows)
        return Columns._make(columns), reverse_order

    return gather_windows


def keys(users: Columns, candidates: Columns, reverse_order: Ints) -> Ints:
    """Return the key of each candidate, or -1 if incompatible.

    The shape is (users, candidates).
    """
    distance = np.square(candidates.x - users.x)
    distance += np.square(candidates.y - users.y)
    distance += np.square(candidates.z - users.z)
    reach = np.minimum(candidates.reach, users.reach)
    is_compatible = distance <= reach
    is_compatible &= candidates.age >= users.youngest
    is_compatible &= candidates.age <= users.oldest
    is_compatible &= candidates.youngest <= users.age
    is_compatible &= candidates.oldest >= users.age
    products = np.matmul(users.traits.astype(np.float32), candidates.traits.astype(np.float32).transpose(0, 2, 1))
    score: NDArray[np.float64] = products[:, 0] / (candidates.length * users.length)
    score *= TRAIT_WEIGHT
    distance /= reach
    score -= DISTANCE_WEIGHT * np.sqrt(distance, out=distance)
    score += 7000.5 - YEAR_WEIGHT * np.minimum(np.abs(candidates.age - users.age), MAX_AGE_DIFFERENCE)
    sort_keys = score.astype(np.int64)
    sort_keys <<= 32
    sort_keys |= reverse_order
    return np.where(is_compatible, sort_keys, NO_CANDIDATE)


def top_k(values: Ints, depth: int) -> Ints:
    """Return up to `depth` of the highest values of each row, in descending order.

    Modifies `values`.
    """
    if depth > _MAX_ARGMAX_DEPTH:
        return np.sort(values, axis=1)[:, : -depth - 1 : -1]
    best = np.empty((len(values), min(depth, values.shape[1])), np.int64)
    rows = np.arange(len(values))
    for rank in range(best.shape[1]):
        cells = values.argmax(axis=1)
        best[:, rank] = values[rows, cells]
        values[rows, cells] = NO_CANDIDATE
    return best
