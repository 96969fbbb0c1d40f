"""A pool's profiles as numpy arrays, and the stored form of computed offers.

Without I/O.

Profiles are packed in rows of equal length. Offers get ids, JSON for apps, and a hash of their inputs.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cached_property
from itertools import pairwise
from typing import Any, Self
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from counterfoil.offers.exposure_cap import Ints
from counterfoil.offers.schedule import VERSION, Rules

UNIT = 1 << 22
"""Radius of the earth in the units of `place` coordinates."""
TRAITS = 16
NAN = -128
"""Encoded value of a trait that is NaN. All other values are between -127 and 127."""

PACKED_ROW = np.dtype(
    [
        ("id", "S16"),
        ("external_id", "S16"),
        ("place", ">i4", 3),
        ("birth_date", ">i4"),
        ("gender", ">i2"),
        ("seeks_genders", ">i2"),
        ("min_age", ">i2"),
        ("max_age", ">i2"),
        ("max_distance_km", ">i4"),
        ("traits", "i1", TRAITS),
    ]
)
"""Row format of the SQL function `pack_profile`, which documents each field."""

PACKED_EXCLUSION = np.dtype([("user", ">i4"), ("candidate", "S16")])
"""An excluded candidate (blocked, or offered recently): the user's index in a shard, and the candidate's id."""


@dataclass(frozen=True, eq=False)
class ProfileArrays:
    """Profiles as immutable arrays of the same length, in the order of their rows."""

    rows: NDArray[Any]
    """Rows of dtype `PACKED_ROW`."""

    @classmethod
    def read(cls, packed: bytes) -> Self:
        """Parse consecutive rows.

        Raises:
            ValueError: the last row is incomplete.
        """
        return cls(np.frombuffer(packed, PACKED_ROW))

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def ids(self) -> NDArray[np.bytes_]:
        """User ids, 16 bytes each. They sort as in the database.

        numpy does not display trailing zero bytes.
        """
        return np.ascontiguousarray(self.rows["id"])

    @cached_property
    def external_ids(self) -> NDArray[np.bytes_]:
        """External ids, 16 bytes each."""
        return np.ascontiguousarray(self.rows["external_id"])

    @cached_property
    def faults(self) -> Mapping[int, str]:
        """Error messages for invalid profiles, by row."""
        is_broken = (self.rows["traits"] == NAN).any(axis=1)
        return {int(row): "A trait of the profile is not a number" for row in np.flatnonzero(is_broken)}

    def ages(self, day: date) -> NDArray[np.int16]:
        """Return ages in years on a day.

        In common years, the birthday of users born on February 29 is March 1.
        """
        today = day.year * 10_000 + day.month * 100 + day.day
        ages: NDArray[np.int16] = ((today - self.rows["birth_date"].astype(np.int32)) // 10_000).astype(np.int16)
        return ages

    def find(self, ids: NDArray[np.bytes_]) -> NDArray[np.intp]:
        """Return the row index of each id, or -1 if it is absent.

        The rows must be sorted by id.
        """
        if not len(self):
            return np.full(len(ids), -1)
        last = len(self) - 1
        rows = np.searchsorted(self._halves, _halves(ids)).clip(max=last)
        is_missing = self.ids[rows] != ids
        rows[is_missing] = np.searchsorted(self.ids, ids[is_missing]).clip(max=last)
        rows[self.ids[rows] != ids] = -1
        return rows

    @cached_property
    def _halves(self) -> NDArray[np.uint64]:
        return _halves(self.ids)


def _halves(ids: NDArray[np.bytes_]) -> NDArray[np.uint64]:
    """Return the first half of each id as a number.

    Searching for numbers is several times faster. Different ids rarely have the same first half.
    """
    return np.ascontiguousarray(ids).view(">u8")[::2].astype(np.uint64)


MATCHMAKING_NAMESPACE = UUID("7f3c1e52-9d0b-5a4e-8c66-1b2f0d9e4a77")
"""Namespace for offer ids. It must never change, because existing offers would get different ids."""
_BATCH_SIZE = 1_000
"""Maximum users per batch, to limit memory."""
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)
_DASHES = (8, 12, 16, 20)
"""Positions of an id's 32 hexadecimal digits before which a dash is inserted."""


def documents(
    day: date,
    users: NDArray[np.bytes_],
    candidates: NDArray[np.bytes_],
    external_ids: NDArray[np.bytes_],
    counts: Ints,
    scores: Ints,
    offered_at: datetime,
    expires_at: datetime,
) -> tuple[NDArray[np.bytes_], Sequence[bytes]]:
    """Return the ids of offers, and the JSON of each user's offers.

    An offer's id is the UUIDv5 (RFC 9562) of "day:user:candidate".

    Args:
        day: the date of the offers.
        users: user ids, 16 bytes each.
        candidates: ids of the offered users, user by user, best first.
        external_ids: the candidates' external ids, for the `userId` of each offer.
        counts: number of offers of each user.
        scores: score of each offer.
        offered_at: time when the offers become valid.
        expires_at: time of the next date's offers.
    """
    tail = f',"offeredAt":"{_instant(offered_at)}","expiresAt":"{_instant(expires_at)}"}}'.encode()
    ends = np.append(0, np.cumsum(counts))
    id_batches, texts = [], list[bytes]()
    for start in range(0, len(users), _BATCH_SIZE):
        batch = slice(start, start + _BATCH_SIZE)
        batch_offers = slice(ends[start], ends[min(start + _BATCH_SIZE, len(users))])
        user_texts, candidate_texts = (
            np.repeat(_to_texts(users[batch]), counts[batch], axis=0),
            _to_texts(candidates[batch_offers]),
        )
        ids = _hash_rows(
            _concatenate(MATCHMAKING_NAMESPACE.bytes + f"{day}:".encode(), user_texts, b":", candidate_texts)
        )
        id_batches.append(ids)
        texts += _documents(counts[batch], ids, _to_texts(external_ids[batch_offers]), scores[batch_offers], tail)
    return np.concatenate([np.empty(0, "S16"), *id_batches]), texts


def _documents(
    counts: Ints, ids: NDArray[np.bytes_], candidate_texts: NDArray[np.uint8], scores: Ints, tail: bytes
) -> Iterator[bytes]:
    """Yield the JSON of each user's offers.

    The JSON is assembled in a matrix of bytes with one row per offer, and unused bytes are then removed.
    """
    ends = np.cumsum(counts)
    opening, closing = np.full(len(ids), ord(","), np.uint8), np.zeros(len(ids), np.uint8)
    opening[(ends - counts)[counts > 0]] = ord("[")
    closing[ends[counts > 0] - 1] = ord("]")
    digits = scores.astype("S")
    rows = _concatenate(
        opening[:, np.newaxis],
        b'{"id":"',
        _to_texts(ids),
        b'","userId":"',
        candidate_texts,
        b'","compatibilityScore":',
        digits.view(np.uint8).reshape(len(ids), digits.itemsize),
        tail,
        closing[:, np.newaxis],
    )
    is_used = rows != 0
    packed = rows[is_used].tobytes()
    stops = np.append(0, is_used.sum(axis=1).cumsum())[np.append(0, ends)].tolist()
    return (packed[start:stop] or b"[]" for start, stop in pairwise(stops))


def inputs_hashes(
    pool: bytes,
    rules: Rules,
    users: ProfileArrays,
    excluded: NDArray[np.void],
    existing_offers: NDArray[np.int64] | None = None,
) -> list[bytes]:
    """Return a SHA-256 hash of all inputs of each user's offers.

    Args:
        pool: the pool's digest.
        rules: parameters of the computation.
        users: the users' profiles.
        excluded: excluded candidates by user (`PACKED_EXCLUSION`).
        existing_offers: if there is an exposure cap, the number of existing offers by the candidate's index in the
            pool. With a cap, a user's offers also depend on other users.
    """
    common = hashlib.sha256(f"{VERSION}:".encode() + pool + _encode_rules(rules))
    if existing_offers is not None:
        common.update(users.rows.tobytes() + excluded.tobytes() + existing_offers.astype("<i8").tobytes())
    rows, exclusions = users.rows.tobytes(), np.ascontiguousarray(excluded["candidate"]).tobytes()
    ends = (np.searchsorted(excluded["user"], np.arange(len(users)), "right") * 16).tolist()
    hashes, start, width = [], 0, users.rows.itemsize
    for index, end in enumerate(ends):
        hash_ = common.copy()
        hash_.update(rows[index * width : (index + 1) * width])
        hash_.update(exclusions[start:end])
        hashes.append(hash_.digest())
        start = end
    return hashes


def _encode_rules(rules: Rules) -> bytes:
    return repr(sorted(rules.as_json().items())).encode()


def _hash_rows(names: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """Return a UUIDv5 for each row, which consists of the namespace and the name.

    This is several times faster than the standard library.
    """
    packed, width = names.tobytes(), names.shape[1]
    digests = b"".join(hashlib.sha1(packed[start : start + width]).digest() for start in range(0, len(packed), width))  # noqa: S324
    ids = np.frombuffer(digests, np.uint8).reshape(-1, hashlib.sha1().digest_size)[:, :16].copy()  # noqa: S324
    ids[:, 6] = ids[:, 6] & 0x0F | 0x50
    ids[:, 8] = ids[:, 8] & 0x3F | 0x80
    return ids.view("S16").ravel()


def _to_texts(ids: NDArray[np.bytes_]) -> NDArray[np.uint8]:
    """Return ids as text, in rows of 36 characters."""
    digits = _HEX[np.ascontiguousarray(ids).view(np.uint8)].view(np.uint8).reshape(-1, 32)
    return np.insert(digits, _DASHES, ord("-"), axis=1)


def _concatenate(*parts: bytes | NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Concatenate matrices horizontally.

    Parts of type bytes are repeated in each row.
    """
    row_count = max(len(part) for part in parts if not isinstance(part, bytes))
    return np.concatenate(
        [
            np.broadcast_to(np.frombuffer(part, np.uint8), (row_count, len(part))) if isinstance(part, bytes) else part
            for part in parts
        ],
        axis=1,
    )


def _instant(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
