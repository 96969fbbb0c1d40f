"""What is kept of computed offers: ids, the documents that apps are given, and a hash of all that they came from."""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from counterfoil.offers.cap import Ints
from counterfoil.offers.people import People
from counterfoil.offers.rules import VERSION, Rules

MATCHMAKING_NAMESPACE = UUID("7f3c1e52-9d0b-5a4e-8c66-1b2f0d9e4a77")
"""Of the ids of offers: never changed, or offers that were made already would have other ids."""


def offer_id(day: date, user_id: UUID, candidate_id: UUID) -> UUID:
    """The id of an offer: a UUIDv5 of the day and of both people."""
    return UUID(bytes=_id(f"{day}:", str(user_id), str(candidate_id)))


def documents(
    day: date,
    users: NDArray[np.bytes_],
    candidates: NDArray[np.bytes_],
    counts: Ints,
    scores: Ints,
    offered_at: datetime,
    expires_at: datetime,
) -> tuple[NDArray[np.bytes_], Sequence[bytes]]:
    """The ids of offers, and the JSON of each user's.

    Args:
        day: the date of the offers.
        users: ids of the users, 16 bytes each.
        candidates: ids of those who are offered, user by user, best first.
        counts: how many are offered to each user.
        scores: of those who are offered.
        offered_at: when the offers are made.
        expires_at: when those of the next day are.
    """
    tail = f'"offeredAt":"{_instant(offered_at)}","expiresAt":"{_instant(expires_at)}"}}'
    whose = (text for text, count in zip(_texts(users), counts.tolist(), strict=True) for _ in range(count))
    ids, parts, prefix = [], [], f"{day}:"
    for user, candidate, score in zip(whose, _texts(candidates), scores.tolist(), strict=True):
        made = _id(prefix, user, candidate)
        ids.append(made)
        parts.append(f'{{"id":"{_text(made.hex())}","userId":"{candidate}","compatibilityScore":{score},{tail}')
    ends = np.cumsum(counts).tolist()
    texts = [
        f"[{','.join(parts[end - count : end])}]".encode() for end, count in zip(ends, counts.tolist(), strict=True)
    ]
    return np.frombuffer(b"".join(ids), "S16"), texts


def inputs_hashes(
    pool: bytes, rules: Rules, users: People, excluded: NDArray[np.void], already: NDArray[np.int64] | None = None
) -> list[bytes]:
    """By user: a hash (SHA-256) of all that the user's offers come from.

    Args:
        pool: the digest of the pool.
        rules: how offers are made.
        users: as their records were.
        excluded: who may not be offered to whom (`people.EXCLUSION`), by user.
        already: by position in the people of the pool, to how many others each is offered, where that counts: there
            the offers of each user come from what the others want, too.
    """
    common = hashlib.sha256(f"{VERSION}:".encode() + pool + _rules(rules))
    if already is not None:
        common.update(users.rows.tobytes() + excluded.tobytes() + already.astype("<i8").tobytes())
    rows, banned = users.rows.tobytes(), np.ascontiguousarray(excluded["candidate"]).tobytes()
    ends = (np.searchsorted(excluded["user"], np.arange(len(users)), "right") * 16).tolist()
    hashes, start, width = [], 0, users.rows.itemsize
    for number, end in enumerate(ends):
        one = common.copy()
        one.update(rows[number * width : (number + 1) * width])
        one.update(banned[start:end])
        hashes.append(one.digest())
        start = end
    return hashes


def _rules(rules: Rules) -> bytes:
    return repr(sorted(rules.as_json().items())).encode()


def _id(prefix: str, user: str, candidate: str) -> bytes:
    """A UUIDv5 (RFC 9562), several times as fast as the library's."""
    digest = bytearray(hashlib.sha1(MATCHMAKING_NAMESPACE.bytes + f"{prefix}{user}:{candidate}".encode()).digest()[:16])  # noqa: S324
    digest[6] = digest[6] & 0x0F | 0x50
    digest[8] = digest[8] & 0x3F | 0x80
    return bytes(digest)


def _texts(ids: NDArray[np.bytes_]) -> Iterator[str]:
    digits = ids.tobytes().hex()
    return (_text(digits[start : start + 32]) for start in range(0, len(digits), 32))


def _text(digits: str) -> str:
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _instant(of: datetime) -> str:
    return of.astimezone(UTC).isoformat().replace("+00:00", "Z")
