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

FAULT = "A trait of this person is not a number."
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
class Morning:
    """A pool with completed offers and one failed user. Users are external ids."""

    pool: UUID
    served: UUID
    inactive: UUID
    """A candidate of `served` who is no longer active."""
    failed: UUID


def morning(admin: Connection, tenant: Tenant, day: date, zone: str = "Europe/Berlin") -> Morning:
    """Create the offers of a day."""
    nine = datetime.combine(day, datetime.min.time(), UTC) + timedelta(hours=8)
    ids = [uuid4() for _ in range(4)]
    external_ids = {make_profile(admin, tenant.id, external_id=id_, timezone=zone): id_ for id_ in ids}
    users = sorted(external_ids)
    pool = _pool(admin, tenant, nine, zone, user_count=4)
    first = make_shard(admin, tenant.id, users, pool_id=pool, created_at=nine)
    make_jobs(admin, first)
    *served, failed = users
    for user in served:
        offers = json.dumps([_offer(external_ids[other], nine) for other in served if other != user])
        admin.execute(_COMPLETE, {"at": nine + timedelta(seconds=9), "offers": offers, "user": user})
    _end(admin, first, nine, completed=3, failed=1)
    quarantined = make_shard(
        admin, tenant.id, [failed], pool_id=pool, name="0/failed", created_at=nine, status="in-progress"
    )
    admin.execute("UPDATE matchmaking_jobs SET shard_id = %s WHERE user_id = %s", [quarantined, failed])
    _end(admin, quarantined, nine, status="failed", error=FAULT)
    _dead_letter(admin, tenant, quarantined, nine)
    late = make_shard(
        *(admin, tenant.id, [make_profile(admin, tenant.id, timezone=zone)]),
        pool_id=pool,
        name=f"late/{(nine + timedelta(hours=3)).isoformat()}/0",
        created_at=nine + timedelta(hours=3),
    )
    make_jobs(admin, late)
    admin.execute("UPDATE profile SET is_active = false WHERE user_id = %s", [served[1]])
    return Morning(pool, *(external_ids[user] for user in (*served[:2], failed)))


def running_pool(admin: Connection, tenant: Tenant, day: date, zone: str, people: Sequence[int]) -> UUID:
    """Create a pool with one succeeded, one running and further pending shards.

    `people` are the sizes of the shards.
    """
    nine = datetime.combine(day, datetime.min.time(), UTC) + timedelta(hours=3)
    pool = _pool(admin, tenant, nine, zone, user_count=sum(people))
    for number, size in enumerate(people):
        users = [uuid4() for _ in range(size)]
        shard = make_shard(admin, tenant.id, users, pool_id=pool, name=str(number), created_at=nine)
        if number == 0:
            _end(admin, shard, nine, completed=size, failed=0)
        elif number == 1:
            _end(admin, shard, nine, status="in-progress")
    return pool


def finish(admin: Connection, pool: UUID) -> None:
    """Complete all shards of a pool."""
    admin.execute(_FINISH, [pool])


def _pool(admin: Connection, tenant: Tenant, nine: datetime, zone: str, **columns: Any) -> UUID:
    times = {"offered_at": nine, "expires_at": nine + timedelta(days=1), "pinned_at": nine + timedelta(seconds=4)}
    return make_pool(admin, tenant.id, date=nine.date(), timezone=zone, **times, **columns)


def _offer(candidate: UUID, nine: datetime) -> Mapping[str, object]:
    return {
        "id": str(uuid4()),
        "userId": str(candidate),
        "compatibilityScore": 8731,
        "offeredAt": nine.isoformat(),
        "expiresAt": (nine + timedelta(days=1)).isoformat(),
    }


def _end(admin: Connection, shard: UUID, nine: datetime, **columns: Any) -> None:
    values = {"status": "succeeded", "completed": None, "failed": None, "error": None, **columns}
    admin.execute(_END, {**values, "id": shard, "claimed": nine + timedelta(seconds=5)})
    admin.execute(
        "UPDATE offer_shard SET completed_at = %s WHERE id = %s AND completed_at IS NOT NULL",
        [nine + timedelta(minutes=1), shard],
    )


def _dead_letter(admin: Connection, tenant: Tenant, shard: UUID, nine: datetime) -> None:
    last = {"type": "DataError", "message": FAULT, "timestamp": nine.isoformat(), "context": {}}
    metadata = {"created_at": nine.isoformat(), "retry_count": 0, "max_retry": 3, "last_error": last}
    admin.execute(
        _DEAD_LETTER,
        {
            "job": WORK_KINDS["offers"].job_id(shard),
            "metadata": json.dumps(metadata),
            "at": nine + timedelta(minutes=1),
            "tenant": tenant.id,
            "work": shard,
        },
    )
