"""Lists of pools of daily offers for operators, and metrics for alarms.

Lists add up the counts of shards, and do not read the jobs of individual users. The functions for lists require a
transaction of one tenant (`Database.tenant`). Metrics cover all tenants. Their functions run as the delivery role,
which can read how many users a shard has, but not who they are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field, JsonValue

from counterfoil.db import Connection, PageCursor
from counterfoil.offers.kinds import OFFERS
from counterfoil.offers.profiles import JobState, internal_id, withdrawn_offers

PoolState = Literal["running", "completed", "failed"]

ON_TIME_WINDOW = timedelta(hours=1)
"""Time after 9:00, or after a late user joined, within which offers must be completed."""
MAX_SHARDS = 200
"""Maximum number of shards shown per pool: failed ones first, then those in progress, then pending ones."""


@dataclass(frozen=True)
class OfferPool:
    """A pool: the offers for one date in one time zone."""

    id: UUID
    tenant: str
    date: date
    timezone: str
    pool_size: Annotated[int, Field(description="Number of pinned users, who are offered to each other.")]
    offered_at: Annotated[datetime, Field(description="9:00 on the date in the time zone.")]
    expires_at: datetime
    pinned_at: datetime
    algorithm_version: int
    rules: Annotated[
        Mapping[str, JsonValue], Field(description="Offers and candidates per user, exposure cap, repeat interval.")
    ]
    state: Annotated[
        PoolState, Field(description="failed: some offers need an operator; running: some offers are pending.")
    ]
    user_count: Annotated[int, Field(description="Number of users who receive offers: pinned and late users.")]
    shards: int
    pending: Annotated[int, Field(description="Number of users whose offers wait for an attempt or a retry.")]
    running: int
    completed: int
    failed: Annotated[int, Field(description="Number of users whose offers failed and need an operator.")]
    ended_at: Annotated[
        datetime | None, Field(description="Time when the last shard ended; null while a shard is unfinished.")
    ]
    late_users: Annotated[
        int,
        Field(description="Number of users whose offers were missing at 10:00, or an hour after late users joined."),
    ]


@dataclass(frozen=True)
class PoolFilter:
    """Filters for a list of pools. None matches every value."""

    since: date | None = None
    until: date | None = None
    """Last date, inclusive."""
    timezone: str | None = None
    state: PoolState | None = None
    after: PageCursor | None = None


# Quarantined users belong to a separate shard and are counted there. A shard of late users is on time if it ends within
# an hour of its creation.
_STATE = "CASE WHEN stats.failed > 0 THEN 'failed' WHEN stats.ended_at IS NULL THEN 'running' ELSE 'completed' END"
_POOLS = """
SELECT p.id, (SELECT slug FROM tenant WHERE id = p.tenant_id), p.date, p.timezone, p.user_count, p.offered_at,
       p.expires_at, p.pinned_at, p.algorithm_version, p.rules, {state},
       stats.pending + stats.running + stats.completed + stats.failed,
       stats.*
FROM offer_pool p CROSS JOIN LATERAL (
    SELECT count(*), coalesce(sum(s.size) FILTER (WHERE s.status = 'pending'), 0) AS pending,
           coalesce(sum(s.size) FILTER (WHERE s.status = 'in-progress'), 0) AS running,
           coalesce(sum(s.completed) FILTER (WHERE s.status = 'succeeded'), 0) AS completed,
           coalesce(sum(s.size) FILTER (WHERE s.status = 'failed'), 0) AS failed,
           CASE WHEN count(*) = count(s.completed_at) THEN max(s.completed_at) END AS ended_at,
           coalesce(sum(s.size) FILTER (
               WHERE coalesce(s.completed_at, %(now)s)
                     > CASE WHEN s.name LIKE 'late/%%' THEN s.created_at ELSE p.offered_at END + %(on_time_window)s
           ), 0) AS late
    FROM offer_shard s WHERE s.pool_id = p.id
) AS stats
WHERE {conditions} ORDER BY p.offered_at DESC, p.id DESC LIMIT %(limit)s
"""
_CONDITIONS = {
    "id": "p.id = %(id)s",
    "since": "p.date >= %(since)s",
    "until": "p.date <= %(until)s",
    "timezone": "p.timezone = %(timezone)s",
    "after_at": "(p.offered_at, p.id) < (%(after_at)s, %(after_id)s)",
    "state": f"%(state)s = {_STATE}",
}


def page(connection: Connection, tenant_id: UUID, filter_: PoolFilter, now: datetime, limit: int) -> list[OfferPool]:
    """Return the next page of a tenant's pools, latest first."""
    after_at, after_id = filter_.after or (None, None)
    return _pools(connection, tenant_id, now, limit, {**vars(filter_), "after_at": after_at, "after_id": after_id})


def show(connection: Connection, tenant_id: UUID, pool_id: UUID, now: datetime) -> OfferPool | None:
    """Return a pool, or None if it does not exist."""
    pools = _pools(connection, tenant_id, now, 1, {"id": pool_id})
    return pools[0] if pools else None


def _pools(
    connection: Connection, tenant_id: UUID, now: datetime, limit: int, filters: Mapping[str, Any]
) -> list[OfferPool]:
    conditions = [text for name, text in _CONDITIONS.items() if filters.get(name) is not None]
    statement = _POOLS.format(state=_STATE, conditions=" AND ".join(["p.tenant_id = %(tenant)s", *conditions]))
    values = {**filters, "tenant": tenant_id, "now": now, "on_time_window": ON_TIME_WINDOW, "limit": limit}
    return [OfferPool(*row) for row in connection.execute(statement.encode(), values)]


@dataclass(frozen=True)
class OfferShard:
    """A work item that computes the offers of some of a pool's users."""

    id: UUID
    name: Annotated[
        str, Field(description="N: part of the pinned pool; late/...: late users; .../failed: quarantined users.")
    ]
    status: Literal["pending", "in-progress", "succeeded", "failed", "skipped"]
    users: int
    completed: int | None
    quarantined: Annotated[
        int | None,
        Field(description="Number of users with invalid profiles, who get another attempt in a separate shard."),
    ]
    attempts: int
    error: str | None
    created_at: datetime
    claimed_at: datetime | None
    ended_at: datetime | None
    next_attempt_at: datetime | None
    dead_letter: Annotated[UUID | None, Field(description="Id of the shard's dead letter.")] = None


_SHARDS = """
SELECT id, name, coalesce(status, 'skipped'), size, completed, failed, attempts, coalesce(error, skip_reason),
       created_at, claimed_at, completed_at, next_attempt_at
FROM offer_shard WHERE pool_id = %s
ORDER BY CASE status WHEN 'failed' THEN 0 WHEN 'in-progress' THEN 1 WHEN 'pending' THEN 2 ELSE 3 END,
         created_at, length(name), name
LIMIT %s
"""


def shards(connection: Connection, pool_id: UUID) -> list[OfferShard]:
    """Return up to MAX_SHARDS shards of a pool."""
    rows = [OfferShard(*row) for row in connection.execute(_SHARDS, [pool_id, MAX_SHARDS])]
    dead_letters = _find_dead_letters(connection, [shard.id for shard in rows])
    return [replace(shard, dead_letter=dead_letters.get(shard.id)) for shard in rows]


def _find_dead_letters(connection: Connection, shard_ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """Return the ids of these shards' dead letters, by shard id."""
    ids = {OFFERS.job_id(shard_id): shard_id for shard_id in shard_ids}
    rows = connection.execute(
        "SELECT job_id FROM dead_letter WHERE job_id = ANY(%s) AND purged_at IS NULL", [list(ids)]
    ).fetchall()
    return {ids[id_]: id_ for (id_,) in rows}


@dataclass(frozen=True)
class FailedUser:
    """A user whose offers failed."""

    user_id: UUID
    shard_id: UUID
    shard: str
    error: str | None
    attempts: int


_FAILED = """
SELECT p.external_id, j.shard_id, s.name, j.error_message, j.attempt FROM matchmaking_jobs j
JOIN offer_shard s ON s.id = j.shard_id JOIN profile p ON p.user_id = j.user_id
WHERE j.date = %(date)s AND j.timezone = %(timezone)s AND j.status = 'failed'
  AND (%(after)s::uuid IS NULL OR j.user_id > %(after)s)
ORDER BY j.user_id LIMIT %(limit)s
"""


def failed_users(
    connection: Connection, tenant_id: UUID, pool: OfferPool, after: UUID | None, limit: int
) -> list[FailedUser]:
    """Return the next users in a pool whose offers failed, sorted by internal id.

    `after` is the external id of the previous page's last user.
    """
    after_id = None if after is None else internal_id(tenant_id, after)
    values = {"date": pool.date, "timezone": pool.timezone, "after": after_id, "limit": limit}
    return [FailedUser(*row) for row in connection.execute(_FAILED, values)]


@dataclass(frozen=True)
class UserJob:
    """A user's offers for a date, with details of their computation."""

    user_id: UUID
    """External id."""
    status: JobState
    shard_id: UUID
    shard: str
    attempts: int
    started_at: datetime | None
    completed_at: datetime | None
    error: str | None
    algorithm_version: int | None
    inputs_hash: str | None
    """Hash of all inputs of the computation, in hexadecimal."""
    offers: Sequence[Mapping[str, Any]]
    withdrawn: frozenset[str] = frozenset()
    """External ids of candidates who must no longer be shown."""
    dead_letter: UUID | None = None
    """Id of the shard's dead letter."""


_JOB = """
SELECT %(external)s::uuid, j.status, j.shard_id, s.name, j.attempt, j.started_at, j.completed_at, j.error_message,
       j.algorithm_version, encode(j.inputs_hash, 'hex'), coalesce(j.offers, '[]')
FROM matchmaking_jobs j JOIN offer_shard s ON s.id = j.shard_id
WHERE j.date = %(date)s AND j.timezone = %(timezone)s AND j.user_id = %(user)s
"""


def job(connection: Connection, tenant_id: UUID, pool: OfferPool, external_id: UUID) -> UserJob | None:
    """Return a user's job in a pool, or None if the pool does not serve this user."""
    user_id = internal_id(tenant_id, external_id)
    values = {"date": pool.date, "timezone": pool.timezone, "user": user_id, "external": external_id}
    row = connection.execute(_JOB, values).fetchone()
    if row is None:
        return None
    result = UserJob(*row)
    dead_letter = _find_dead_letters(connection, [result.shard_id]).get(result.shard_id)
    return replace(
        result, withdrawn=withdrawn_offers(connection, tenant_id, external_id, result.offers), dead_letter=dead_letter
    )


LOOKBACK = timedelta(hours=2)
"""How far back shards are checked for duplicates. It is twice the interval between checks."""
_MAX_DATE_AGE = timedelta(days=2)
"""Maximum age, by the UTC date, of a date that is still current in some time zone."""

# Quarantined users belong to a separate shard and are counted there.
_CURRENT_STATS = """
SELECT coalesce(sum(s.completed) FILTER (WHERE s.status = 'succeeded'), 0)::bigint,
       coalesce(sum(s.size) FILTER (WHERE s.status IN ('pending', 'in-progress')), 0)::bigint,
       coalesce(sum(s.size) FILTER (WHERE s.status = 'failed'), 0)::bigint,
       coalesce(sum(s.size) FILTER (
           WHERE s.status IN ('pending', 'in-progress')
             AND %(now)s > CASE WHEN s.name LIKE 'late/%%' THEN s.created_at ELSE p.offered_at END + %(on_time_window)s
       ), 0)::bigint
FROM offer_pool p JOIN offer_shard s ON s.pool_id = p.id
WHERE p.date >= %(since)s AND p.expires_at > %(now)s
"""


# Quarantined users belong to a separate shard. For late users, the hour starts when they joined.
_INCOMPLETE = """
SELECT coalesce(max(100 - 100.0 * completed / user_count), 0)::double precision FROM (
    SELECT coalesce(sum(s.completed) FILTER (WHERE s.status = 'succeeded'), 0) AS completed,
           sum(CASE WHEN s.status = 'succeeded' THEN s.completed ELSE s.size END) AS user_count
    FROM offer_pool p JOIN offer_shard s ON s.pool_id = p.id
    WHERE p.date >= %(since)s AND p.expires_at > %(now)s AND s.status IS NOT NULL
      AND %(now)s > CASE WHEN s.name LIKE 'late/%%' THEN s.created_at ELSE p.offered_at END + %(on_time_window)s
    GROUP BY p.date, p.timezone
) AS dates WHERE user_count > 0
"""
# Each user in a shard waits for the whole shard, so its duration is weighted by its users.
_USER_SECONDS = """
SELECT min(seconds) FROM (
    SELECT seconds, sum(size) OVER (ORDER BY seconds) AS up_to, sum(size) OVER () AS users FROM offer_shard
    WHERE status = 'succeeded' AND completed_at > %(recently)s AND seconds IS NOT NULL
) AS ended WHERE up_to >= %(share)s * users
"""
USER_SECONDS_OVER = timedelta(minutes=15)
"""Window for the percentile of shard durations."""
USER_SECONDS_SHARE = 0.95
"""The percentile of shard durations, as a fraction."""


@dataclass(frozen=True)
class OfferStats:
    """Numbers of users by the state of their current offers."""

    completed: int
    pending: int
    """Number of users whose offers are pending or in progress."""
    failed: int
    late_users: int
    """Number of users whose offers are overdue: pending after 10:00, or for late users an hour after they joined."""


def current_stats(connection: Connection, now: datetime) -> OfferStats:
    """Return the numbers of all tenants' users by the state of their current offers."""
    values = {"now": now, "on_time_window": ON_TIME_WINDOW, "since": (now - _MAX_DATE_AGE).date()}
    ((completed, pending, failed, late),) = connection.execute(_CURRENT_STATS, values).fetchall()
    return OfferStats(completed, pending, failed, late)


def incomplete_percent(connection: Connection, now: datetime) -> float:
    """Return the percentage of users without offers an hour after they were due.

    Failed offers count as missing. The result is the largest percentage of any date and time zone, or 0 if no date has
    been due for an hour.
    """
    values = {"now": now, "on_time_window": ON_TIME_WINDOW, "since": (now - _MAX_DATE_AGE).date()}
    ((percent,),) = connection.execute(_INCOMPLETE, values).fetchall()
    return float(percent)


def user_seconds(connection: Connection, now: datetime) -> float | None:
    """Return the 95th percentile of recent shard durations, weighted by users.

    The durations are those of the last 15 minutes. Returns None if no shard succeeded.
    """
    values = {"recently": now - USER_SECONDS_OVER, "share": USER_SECONDS_SHARE}
    ((seconds,),) = connection.execute(_USER_SECONDS, values).fetchall()
    return None if seconds is None else float(seconds)


def duplicates(connection: Connection, now: datetime, seconds: float) -> int:
    """Return the number of inconsistent recent offers, which must be 0.

    An offer is inconsistent if it is a duplicate, or missing from the user's stored result. For a million users, the
    query takes about ten seconds.

    Raises:
        psycopg.errors.QueryCanceled: the query took longer than `seconds`.
    """
    connection.execute("SELECT set_config('statement_timeout', %s, true)", [f"{max(1, int(seconds * 1000))}ms"])
    ((count,),) = connection.execute("SELECT count_duplicate_offers(%s)", [now - LOOKBACK]).fetchall()
    return int(count)
