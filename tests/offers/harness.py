"""Create users, jobs and shards for a day as pinning stores them."""

import hashlib
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import numpy as np

from counterfoil.db import Connection
from counterfoil.offers import store
from counterfoil.offers.store import ShardResults
from tests.factories import NOW, make_pool, make_profile, make_shard

DAY = NOW.date()
ZONE = "Europe/Berlin"


def user(number: int) -> UUID:
    """Return the id of a test user."""
    return UUID(int=(number << 64) + 1)


def make_people(admin: Connection, tenant_id: UUID, numbers: Sequence[int], **columns: Any) -> list[UUID]:
    """Create profiles for the users with these numbers. Return their ids."""
    return [make_profile(admin, tenant_id, user_id=user(number), **columns) for number in numbers]


def pin(
    admin: Connection,
    tenant_id: UUID,
    users: Sequence[UUID],
    *,
    shards: int = 1,
    day: date = DAY,
    zone: str = ZONE,
    **columns: Any,
) -> list[UUID]:
    """Pin a pool of these users for `day`. Return the ids of the pool's shards."""
    shard_size = -(-len(users) // shards)
    parts = [sorted(users)[first : first + shard_size] for first in range(0, len(users), shard_size)]
    packed = [_packed_rows(admin, part) for part in parts]
    pool_id = make_pool(
        admin,
        tenant_id,
        date=day,
        timezone=zone,
        offered_at=NOW + (day - DAY),
        expires_at=NOW + (day - DAY) + timedelta(days=1),
        user_count=len(users),
        profiles_hash=hashlib.sha256(b"".join(packed)).digest(),
        **columns,
    )
    ids = []
    for number, (part, people) in enumerate(zip(parts, packed, strict=True)):
        ids.append(make_shard(admin, tenant_id, part, pool_id=pool_id, name=str(number), profiles=people))
        queue(admin, tenant_id, part, ids[-1], day=day, zone=zone)
    return ids


def queue(
    admin: Connection, tenant_id: UUID, users: Sequence[UUID], shard_id: UUID, *, day: date = DAY, zone: str = ZONE
) -> None:
    """Create pending jobs for these users in a shard."""
    admin.execute(
        "INSERT INTO matchmaking_jobs (date, timezone, user_id, status, tenant_id, shard_id) "
        "SELECT %s, %s, u, 'pending', %s, %s FROM unnest(%s::uuid[]) AS u",
        [day, zone, tenant_id, shard_id, list(users)],
    )


def _packed_rows(admin: Connection, users: Sequence[UUID]) -> bytes:
    with admin.cursor(binary=True) as cursor:
        cursor.execute("SELECT packed_row FROM profile WHERE user_id = ANY(%s) ORDER BY user_id", [list(users)])
        return b"".join(packed for (packed,) in cursor)


def results(
    offered: Sequence[tuple[UUID, Sequence[UUID]]] = (), faults: Sequence[tuple[UUID, str]] = ()
) -> ShardResults:
    """Return results with these offers, in this order, and these faults.

    Scores and ids are arbitrary.
    """
    offer_rows = [
        (user_id, candidate, rank) for user_id, user_ids in offered for rank, candidate in enumerate(user_ids, 1)
    ]
    return ShardResults(
        version=1,
        users=store.uuids(_ids([user_id for user_id, _ in offered])),
        documents=store.jsonbs([f'["{user_id}", {len(user_ids)}]'.encode() for user_id, user_ids in offered]),
        hashes=store.byteas([hashlib.sha256(user_id.bytes).digest() for user_id, _ in offered]),
        offer_users=store.uuids(_ids([user_id for user_id, _, _ in offer_rows])),
        candidates=store.uuids(_ids([candidate for _, candidate, _ in offer_rows])),
        ids=store.uuids(_ids([UUID(int=user_id.int ^ candidate.int) for user_id, candidate, _ in offer_rows])),
        ranks=store.smallints(np.array([rank for _, _, rank in offer_rows], int)),
        scores=store.integers(np.array([10_000 - rank for _, _, rank in offer_rows], int)),
        faults=dict(faults),
    )


def _ids(ids: Sequence[UUID]) -> Any:
    return np.array([id_.bytes for id_ in ids], "S16")


def jobs(admin: Connection, day: date = DAY) -> dict[UUID, tuple[str, Any, str | None]]:
    """Return the status, offers and error message of each user's job for `day`."""
    records = admin.execute(
        "SELECT user_id, status, offers, error_message FROM matchmaking_jobs WHERE date = %s", [day]
    ).fetchall()
    return {user_id: (status, offers, error) for user_id, status, offers, error in records}


def offered_candidates(admin: Connection, day: date = DAY) -> dict[UUID, list[UUID]]:
    """Return each user's offered candidates for `day`, best first."""
    candidates_by_user: dict[UUID, list[UUID]] = {}
    rows = admin.execute("SELECT user_id, candidate_id FROM offers WHERE date = %s ORDER BY user_id, rank", [day])
    for user_id, candidate in rows:
        candidates_by_user.setdefault(user_id, []).append(candidate)
    return candidates_by_user
