"""Write offers to the test cloud: pools, shards, jobs and candidates."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from cli.local.tenants import Tenant
from counterfoil.db import Connection
from counterfoil.kinds import WORK_KINDS
from tests.factories import make_jobs, make_pool, make_profile, make_shard

SHARD_ERROR = "A trait of this person is not a number."
_COMPLETE = """
UPDATE matchmaking_jobs SET status = 'completed', started_at = %(at)s, completed_at = %(at)s, attempt = 1,
    algorithm_version = 1, inputs_hash = sha256('inputs'), offers = %(offers)s::jsonb
WHERE user_id = %(user)s
"""
_END = """
UPDATE offer_shard SET status = %(status)s, attempts = 1, completed = %(completed)s, failed = %(failed)s,
    error = %(error)s, claimed_at = %(claimed)s WHERE id = %(id)s
"""
_FINISH = "UPDATE offer_shard SET status = 'succeeded', completed = size, failed = 0 WHERE pool_id = %s"
_DEAD_LETTER = """
INSERT INTO dead_letter (job_id, task_type, payload, metadata, attempts, fingerprint, dlq_reason, dlq_timestamp,
                         tenant_id, worker, work_id, revision)
VALUES (%(job)s, 'offers', '{}', %(metadata)s, 1, 'offers-of-a-trait', 'non_retriable_error', %(at)s, %(tenant)s,
        'offers', %(work)s, 1)
"""


@dataclass(frozen=True)
class OfferDay:
    """A pool with completed offers and one failed user.

    Users are identified by external ids.
    """

    pool: UUID
    served: UUID
    inactive: UUID
    """A user who was offered to `served` and has become inactive."""
    failed: UUID


def make_offer_day(admin: Connection, tenant: Tenant, day: date, zone: str = "Europe/Berlin") -> OfferDay:
    """Create a pool with completed offers, and inactive, failed and late users."""
    offered_at = datetime.combine(day, datetime.min.time(), UTC) + timedelta(hours=8)
    ids = [uuid4() for _ in range(4)]
    external_ids = {make_profile(admin, tenant.id, external_id=id_, timezone=zone): id_ for id_ in ids}
    users = sorted(external_ids)
    pool = _pool(admin, tenant, offered_at, zone, user_count=4)
    first_shard = make_shard(admin, tenant.id, users, pool_id=pool, created_at=offered_at)
    make_jobs(admin, first_shard)
    *served, failed = users
    for user in served:
        offers = json.dumps([_offer(external_ids[other], offered_at) for other in served if other != user])
        admin.execute(_COMPLETE, {"at": offered_at + timedelta(seconds=9), "offers": offers, "user": user})
    _end(admin, first_shard, offered_at, completed=3, failed=1)
    quarantined_shard = make_shard(
        admin, tenant.id, [failed], pool_id=pool, name="0/failed", created_at=offered_at, status="in-progress"
    )
    admin.execute("UPDATE matchmaking_jobs SET shard_id = %s WHERE user_id = %s", [quarantined_shard, failed])
    _end(admin, quarantined_shard, offered_at, status="failed", error=SHARD_ERROR)
    _dead_letter(admin, tenant, quarantined_shard, offered_at)
    late_shard = make_shard(
        *(admin, tenant.id, [make_profile(admin, tenant.id, timezone=zone)]),
        pool_id=pool,
        name=f"late/{(offered_at + timedelta(hours=3)).isoformat()}/0",
        created_at=offered_at + timedelta(hours=3),
    )
    make_jobs(admin, late_shard)
    admin.execute("UPDATE profile SET is_active = false WHERE user_id = %s", [served[1]])
    return OfferDay(pool, *(external_ids[user] for user in (*served[:2], failed)))


def make_running_pool(admin: Connection, tenant: Tenant, day: date, zone: str, shard_sizes: Sequence[int]) -> UUID:
    """Create a pool with one succeeded, one running and further pending shards.

    `shard_sizes` contains the number of users in each shard.
    """
    offered_at = datetime.combine(day, datetime.min.time(), UTC) + timedelta(hours=3)
    pool = _pool(admin, tenant, offered_at, zone, user_count=sum(shard_sizes))
    for number, size in enumerate(shard_sizes):
        users = [uuid4() for _ in range(size)]
        shard = make_shard(admin, tenant.id, users, pool_id=pool, name=str(number), created_at=offered_at)
        if number == 0:
            _end(admin, shard, offered_at, completed=size, failed=0)
        elif number == 1:
            _end(admin, shard, offered_at, status="in-progress")
    return pool


def complete_pool(admin: Connection, pool: UUID) -> None:
    """Complete all of a pool's shards."""
    admin.execute(_FINISH, [pool])


def _pool(admin: Connection, tenant: Tenant, offered_at: datetime, zone: str, **columns: Any) -> UUID:
    times = {
        "offered_at": offered_at,
        "expires_at": offered_at + timedelta(days=1),
        "pinned_at": offered_at + timedelta(seconds=4),
    }
    return make_pool(admin, tenant.id, date=offered_at.date(), timezone=zone, **times, **columns)


def _offer(candidate: UUID, offered_at: datetime) -> Mapping[str, object]:
    return {
        "id": str(uuid4()),
        "userId": str(candidate),
        "compatibilityScore": 8731,
        "offeredAt": offered_at.isoformat(),
        "expiresAt": (offered_at + timedelta(days=1)).isoformat(),
    }


def _end(admin: Connection, shard: UUID, offered_at: datetime, **columns: Any) -> None:
    values = {"status": "succeeded", "completed": None, "failed": None, "error": None, **columns}
    admin.execute(_END, {**values, "id": shard, "claimed": offered_at + timedelta(seconds=5)})
    admin.execute(
        "UPDATE offer_shard SET completed_at = %s WHERE id = %s AND completed_at IS NOT NULL",
        [offered_at + timedelta(minutes=1), shard],
    )


def _dead_letter(admin: Connection, tenant: Tenant, shard: UUID, offered_at: datetime) -> None:
    last_error = {"type": "DataError", "message": SHARD_ERROR, "timestamp": offered_at.isoformat(), "context": {}}
    metadata = {"created_at": offered_at.isoformat(), "retry_count": 0, "max_retry": 3, "last_error": last_error}
    admin.execute(
        _DEAD_LETTER,
        {
            "job": WORK_KINDS["offers"].job_id(shard),
            "metadata": json.dumps(metadata),
            "at": offered_at + timedelta(minutes=1),
            "tenant": tenant.id,
            "work": shard,
        },
    )
