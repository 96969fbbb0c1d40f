"""Pins the pool for a date in a time zone.

Pinning takes a snapshot of users in shards, and creates a job per user. A pool is pinned once and never changes. Late
shards serve users who join afterwards on the same date, and offer them candidates from the pinned pool. Statements
about thousands of users must use hash joins, because table statistics are older than today's jobs. With nested loops,
twenty thousand users took more than a minute instead of a second.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from typing import NamedTuple
from uuid import UUID, uuid5

from psycopg.types.json import Jsonb

from counterfoil.db import Connection
from counterfoil.delivery.work import OutboxMessage, enqueue
from counterfoil.offers.kinds import OFFERS
from counterfoil.offers.schedule import VERSION, Due, Rules

_HASH_PLANS = "SELECT set_config('enable_nestloop', 'off', true), set_config('work_mem', '64MB', true)"
_DEFAULT_PLANS = "SET LOCAL enable_nestloop TO DEFAULT"


@contextmanager
def force_hash_plans(connection: Connection) -> Iterator[None]:
    """Disable nested loops, and allow enough memory for ten thousand users' offers.

    Nested loops are enabled again afterwards. Without them, later statements in the transaction, which process few
    rows, would read whole tables.
    """
    connection.execute(_HASH_PLANS)
    yield
    connection.execute(_DEFAULT_PLANS)


NAMESPACE = UUID("5b0c6e0e-0f5f-5c5e-8a53-6d3f1f6f2c55")
"""Namespace for pool ids."""
WORKER = "offers"
CAPPED_POOL_SHARD_SIZE = 50_000
"""Maximum users per shard if there is an exposure cap, regardless of the settings. Larger shards result in better
offers, but each shard is written in one transaction."""

# Skips from zone to zone in the index. Reading the zone of every profile takes a thousand times longer.
_ZONES = """
WITH RECURSIVE zone (name) AS (
    SELECT min(timezone) FROM profile WHERE tenant_id = %(tenant)s AND is_active
    UNION ALL
    SELECT (SELECT min(timezone) FROM profile WHERE tenant_id = %(tenant)s AND is_active AND timezone > zone.name)
    FROM zone WHERE zone.name IS NOT NULL
)
SELECT name FROM zone WHERE name IS NOT NULL
"""
_PINNED_POOLS = (
    "SELECT timezone, date FROM offer_pool WHERE tenant_id = %(tenant)s AND date BETWEEN %(first)s AND %(last)s"
)
# The additional condition on `dates` is necessary for PostgreSQL to use an index.
_COUNT_PENDING = """
SELECT due.zone, count(*) FROM unnest(%(zones)s::text[], %(dates)s::date[]) AS due (zone, date)
JOIN profile p ON p.tenant_id = %(tenant)s AND p.timezone = due.zone AND p.is_active
WHERE NOT EXISTS (
    SELECT FROM matchmaking_jobs j
    WHERE j.date = ANY (%(dates)s::date[]) AND j.date = due.date AND j.user_id = p.user_id
)
GROUP BY due.zone
"""
_COUNT_PENDING_IN_ZONE = """
SELECT count(*) FROM profile p
WHERE tenant_id = %(tenant)s AND timezone = %(zone)s AND is_active
  AND NOT EXISTS (SELECT FROM matchmaking_jobs j WHERE j.date = %(date)s AND j.user_id = p.user_id)
"""
# A separate statement, because a statement that waits for the lock itself does not see pools that were pinned during
# the wait. The lock covers a tenant's date in all zones, because users can move between zones.
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('offers/' || %(tenant)s::text || %(date)s::date, 0))"
_IS_PINNED = "SELECT EXISTS (SELECT FROM offer_pool WHERE id = %(pool)s)"
# A single statement, because all parts must see the same snapshot. FOR KEY SHARE, the lock of the jobs' foreign key,
# skips users who are deleted concurrently. Users in another pool for the date already have a job and are skipped too.
# Job ids share the first digits of one UUIDv7 and end with consecutive numbers. Inserting them in order takes a third
# less time than inserting random ids.
_SPLIT_INTO_SHARDS = """
WITH people AS MATERIALIZED (
    SELECT user_id, packed_row FROM profile p
    WHERE tenant_id = %(tenant)s AND timezone = %(zone)s AND is_active
      AND NOT EXISTS (SELECT FROM matchmaking_jobs j WHERE j.date = %(date)s AND j.user_id = p.user_id)
    ORDER BY user_id LIMIT %(most)s FOR KEY SHARE OF p
), waiting AS MATERIALIZED (
    SELECT user_id, packed_row, ((row_number() OVER in_order - 1) / %(shard_size)s)::integer AS number,
           ((SELECT left(uuidv7()::text, 28)) || lpad(to_hex(row_number() OVER in_order), 8, '0'))::uuid AS job_id
    FROM people WINDOW in_order AS (ORDER BY user_id)
), queued AS (
    INSERT INTO matchmaking_jobs (id, date, timezone, user_id, status, tenant_id, shard_id)
    SELECT job_id, %(date)s, %(zone)s, user_id, 'pending', %(tenant)s, (%(ids)s::uuid[])[number + 1] FROM waiting
), part AS MATERIALIZED (
    SELECT number, array_agg(user_id ORDER BY user_id) AS users, string_agg(packed_row, '' ORDER BY user_id) AS profiles
    FROM waiting GROUP BY number
)"""
_PIN = f"""{_SPLIT_INTO_SHARDS}, pool AS (
    INSERT INTO offer_pool (id, tenant_id, date, timezone, offered_at, expires_at, algorithm_version, rules, user_count,
                            profiles_hash, pinned_at)
    SELECT %(pool)s, %(tenant)s, %(date)s, %(zone)s, %(offered_at)s, %(expires_at)s, %(version)s, %(rules)s,
           sum(cardinality(users)), sha256(string_agg(profiles, '' ORDER BY number)), %(now)s
    FROM part HAVING count(*) > 0
)
INSERT INTO offer_shard (id, tenant_id, pool_id, name, date, timezone, created_at, users, profiles, revision)
SELECT (%(ids)s::uuid[])[number + 1], %(tenant)s, %(pool)s, (%(names)s::text[])[number + 1], %(date)s, %(zone)s,
       %(now)s, users, profiles, 1 FROM part
RETURNING id, tenant_id, revision, send_number
"""  # noqa: S608  # only constant statements
_PIN_LATE = f"""{_SPLIT_INTO_SHARDS}
INSERT INTO offer_shard (id, tenant_id, pool_id, name, date, timezone, created_at, users, revision)
SELECT (%(ids)s::uuid[])[number + 1], %(tenant)s, %(pool)s, (%(names)s::text[])[number + 1], %(date)s, %(zone)s,
       %(now)s, users, 1 FROM part
RETURNING id, tenant_id, revision, send_number
"""  # noqa: S608  # only constant statements


class PendingPool(NamedTuple):
    """Offers that are due, with the number of active users who have no job for them."""

    due: Due
    people: int
    """Number of users."""


def pool_id(tenant_id: UUID, due: Due) -> UUID:
    """Return a pool's id, the UUIDv5 of tenant, date and zone."""
    return uuid5(NAMESPACE, f"{tenant_id}/{due.date}/{due.zone}")


def zones(connection: Connection, tenant_id: UUID) -> list[str]:
    """Return the time zones of a tenant's active users. Their names can be invalid."""
    return [zone for (zone,) in connection.execute(_ZONES, {"tenant": tenant_id})]


def pinned_pools(connection: Connection, tenant_id: UUID, dues: Sequence[Due]) -> set[tuple[str, date]]:
    """Return the zones and dates of pinned pools in the date range of `dues`."""
    if not dues:
        return set()
    dates = [due.date for due in dues]
    values = {"tenant": tenant_id, "first": min(dates), "last": max(dates)}
    return {(zone, day) for zone, day in connection.execute(_PINNED_POOLS, values)}


def pending_pools(connection: Connection, tenant_id: UUID, dues: Sequence[Due]) -> list[PendingPool]:
    """Return a `PendingPool` for each entry of `dues` with users who have no job yet.

    All zones in `dues` must be different.
    """
    values = {"tenant": tenant_id, "zones": [due.zone for due in dues], "dates": [due.date for due in dues]}
    with force_hash_plans(connection):
        counts: dict[str, int] = dict(connection.execute(_COUNT_PENDING, values).fetchall())
    return [PendingPool(due, counts[due.zone]) for due in dues if due.zone in counts]


def pin(
    connection: Connection, tenant_id: UUID, due: Due, rules: Rules, shard_users: int, now: datetime
) -> list[OutboxMessage]:
    """Pin the pool for a date and zone, and create a job for each user.

    Runs in the caller's transaction. The pool contains the tenant's active users in the zone who have no job for the
    date. They are sorted by id and split into shards of up to `shard_users`, or of up to CAPPED_POOL_SHARD_SIZE if
    there is an exposure cap.

    Returns the messages to send. The list is empty if the pool is already pinned or would be empty.
    """
    return _pin_shards(connection, _PIN, tenant_id, due, rules, shard_users, now)


def pin_late(
    connection: Connection, tenant_id: UUID, due: Due, rules: Rules, shard_users: int, now: datetime
) -> list[OutboxMessage]:
    """Create jobs for late users of a pinned pool.

    Late users have no job for the date, because they are new or have moved to the zone. They are not part of the pool,
    and their profiles are read when their shard runs. Returns the messages to send. The list is empty if there are no
    late users or the pool is not pinned.
    """
    return _pin_shards(connection, _PIN_LATE, tenant_id, due, rules, shard_users, now)


def _pin_shards(
    connection: Connection, statement: str, tenant_id: UUID, due: Due, rules: Rules, shard_users: int, now: datetime
) -> list[OutboxMessage]:
    is_late = statement is _PIN_LATE
    pool = pool_id(tenant_id, due)
    parameters = {"pool": pool, "tenant": tenant_id, "zone": due.zone, "date": due.date}
    connection.execute(_LOCK, parameters)
    is_pinned = connection.execute(_IS_PINNED, parameters).fetchone() == (True,)
    if is_pinned is not is_late:
        return []
    with force_hash_plans(connection):
        ((people,),) = connection.execute(_COUNT_PENDING_IN_ZONE, parameters).fetchall()
    if not people:
        return []
    shard_size = shard_users if rules.max_exposure is None else CAPPED_POOL_SHARD_SIZE
    shards = people // shard_size + 2  # users may have joined since the count
    prefix = f"late/{now.isoformat()}/" if is_late else ""
    names = [f"{prefix}{number}" for number in range(shards)]
    values = parameters | {
        "offered_at": due.offered_at,
        "expires_at": due.expires_at,
        "version": VERSION,
        "rules": Jsonb(rules.as_json()),
        "now": now,
        "shard_size": shard_size,
        "most": shard_size * shards,
        "ids": [uuid5(pool, name) for name in names],
        "names": names,
    }
    with force_hash_plans(connection):
        rows = connection.execute(statement, values).fetchall()
    return enqueue(connection, OFFERS, rows, now, now)
