"""Lists of pools for operators, and metrics for alarms.

Lists aggregate shards, one per ten thousand people, and read no jobs. Except for `owner`, the functions for lists run
in a transaction of one tenant (`Database.tenant`). Metrics cover all tenants: they run as the delivery role, which can
read how many people a shard has, but not who they are.
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
"""Deadline for offers after 9:00, or after a late user joined."""
MAX_SHARDS = 200
"""Maximum number of shards shown per pool: failed ones first, then those in progress."""


@dataclass(frozen=True)
class OfferPool:
    """Offers of one date in one zone."""

    id: UUID
    tenant: str
    date: date
    timezone: str
    pool_size: Annotated[int, Field(description="People who were pinned, and are offered to each other.")]
    offered_at: Annotated[datetime, Field(description="9:00 of the date in the zone.")]
    expires_at: datetime
    pinned_at: datetime
    algorithm_version: int
    rules: Annotated[
        Mapping[str, JsonValue], Field(description="Offers and candidates per user, exposure cap, repeat interval.")
    ]
    state: Annotated[
        PoolState, Field(description="failed: some offers need an operator; running: some offers are pending.")
    ]
    user_count: Annotated[int, Field(description="Served users: pinned ones and latecomers.")]
    shards: int
    pending: Annotated[int, Field(description="Users whose offers wait for an attempt or a retry.")]
    running: int
    completed: int
    failed: Annotated[int, Field(description="Users whose offers failed and need an operator.")]
    ended_at: Annotated[datetime | None, Field(description="End of the last shard; null while one is unfinished.")]
    late_users: Annotated[
        int, Field(description="Users whose offers were missing at 10:00; for latecomers, an hour after arrival.")
    ]


@dataclass(frozen=True)
class PoolFilter:
    """Filters of a list of pools; None permits every value."""

    since: date | None = None
    until: date | None = None
    """Inclusive, because it is a date."""
    timezone: str | None = None
    state: PoolState | None = None
    after: PageCursor | None = None


# Quarantined users belong to another shard and count there. A shard of late users is on time within an hour.
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
    """Return the next pools of a tenant, latest first."""
    after_at, after_id = filter_.after or (None, None)
    return _pools(connection, tenant_id, now, limit, {**vars(filter_), "after_at": after_at, "after_id": after_id})


def show(connection: Connection, tenant_id: UUID, pool_id: UUID, now: datetime) -> OfferPool | None:
    """Return one pool."""
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
    """A work item that serves some users of a pool."""

    id: UUID
    name: Annotated[
        str, Field(description="N: a range of the pool; late/...: late users; .../failed: quarantined users.")
    ]
    status: Literal["pending", "in-progress", "succeeded", "failed", "skipped"]
    users: int
    completed: int | None
    quarantined: Annotated[
        int | None, Field(description="Users with broken data, who get another attempt in a separate shard.")
    ]
    attempts: int
    error: str | None
    created_at: datetime
    claimed_at: datetime | None
    ended_at: datetime | None
    next_attempt_at: datetime | None
    dead_letter: Annotated[UUID | None, Field(description="Id of its dead letter.")] = None


_SHARDS = """
SELECT id, name, coalesce(status, 'skipped'), size, completed, failed, attempts, coalesce(error, skip_reason),
       created_at, claimed_at, completed_at, next_attempt_at
FROM offer_shard WHERE pool_id = %s
ORDER BY CASE status WHEN 'failed' THEN 0 WHEN 'in-progress' THEN 1 WHEN 'pending' THEN 2 ELSE 3 END,
         created_at, length(name), name
LIMIT %s
"""


def shards(connection: Connection, pool_id: UUID) -> list[OfferShard]:
    """Return the shards of a pool, at most MAX_SHARDS."""
    rows = [OfferShard(*row) for row in connection.execute(_SHARDS, [pool_id, MAX_SHARDS])]
    dead_letters = _find_dead_letters(connection, [shard.id for shard in rows])
    return [replace(shard, dead_letter=dead_letters.get(shard.id)) for shard in rows]


def _find_dead_letters(connection: Connection, shard_ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """Return the dead letters of these shards, by shard id."""
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
    """Return the next users of a pool whose offers failed, by internal id; `after` is an external one."""
    after_id = None if after is None else internal_id(tenant_id, after)
    values = {"date": pool.date, "timezone": pool.timezone, "after": after_id, "limit": limit}
    return [FailedUser(*row) for row in connection.execute(_FAILED, values)]


@dataclass(frozen=True)
class UserJob:
    """A user's offers of a date, with their inputs."""

    user_id: UUID
    """External."""
    status: JobState
    shard_id: UUID
    shard: str
    attempts: int
    started_at: datetime | None
    completed_at: datetime | None
    error: str | None
    algorithm_version: int | None
    inputs_hash: str | None
    """Hash of all inputs of the computation, hexadecimal."""
    offers: Sequence[Mapping[str, Any]]
    withdrawn: frozenset[str] = frozenset()
    """External ids of candidates that must no longer be shown."""
    dead_letter: UUID | None = None
    """Dead letter of the shard."""


_JOB = """
SELECT %(external)s::uuid, j.status, j.shard_id, s.name, j.attempt, j.started_at, j.completed_at, j.error_message,
       j.algorithm_version, encode(j.inputs_hash, 'hex'), coalesce(j.offers, '[]')
FROM matchmaking_jobs j JOIN offer_shard s ON s.id = j.shard_id
WHERE j.date = %(date)s AND j.timezone = %(timezone)s AND j.user_id = %(user)s
"""


def job(connection: Connection, tenant_id: UUID, pool: OfferPool, external_id: UUID) -> UserJob | None:
    """Return the job of a user in a pool; None if the pool does not include the user."""
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
"""Period in which ended shards are read: twice the interval between reads."""
_MAX_DATE_AGE = timedelta(days=2)
"""Maximum age of a date that is current in any zone, in UTC."""

# Quarantined users belong to another shard and count there.
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


# Quarantined users belong to another shard. A late user's time is when they joined.
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
# Every user of a shard waits for the whole shard, so its duration counts once per user.
_USER_SECONDS = """
SELECT min(seconds) FROM (
    SELECT seconds, sum(size) OVER (ORDER BY seconds) AS up_to, sum(size) OVER () AS users FROM offer_shard
    WHERE status = 'succeeded' AND completed_at > %(recently)s AND seconds IS NOT NULL
) AS ended WHERE up_to >= %(share)s * users
"""
USER_SECONDS_OVER = timedelta(minutes=15)
"""Window of the percentile of durations."""
USER_SECONDS_SHARE = 0.95


@dataclass(frozen=True)
class OfferStats:
    """Number of users by progress of their current offers."""

    completed: int
    pending: int
    """Users whose offers are pending or in progress."""
    failed: int
    late_users: int
    """Pending users whose offers are overdue: since 10:00, or for an hour after they joined."""


def current_stats(connection: Connection, now: datetime) -> OfferStats:
    """Return the progress of the current offers of all tenants."""
    values = {"now": now, "on_time_window": ON_TIME_WINDOW, "since": (now - _MAX_DATE_AGE).date()}
    ((completed, pending, failed, late),) = connection.execute(_CURRENT_STATS, values).fetchall()
    return OfferStats(completed, pending, failed, late)


def incomplete_percent(connection: Connection, now: datetime) -> float:
    """Return the share of people in percent without offers an hour after their time.

    Failed offers count as missing. It is the largest share of any date and time zone; 0 if no date has been due for an
    hour.
    """
    values = {"now": now, "on_time_window": ON_TIME_WINDOW, "since": (now - _MAX_DATE_AGE).date()}
    ((percent,),) = connection.execute(_INCOMPLETE, values).fetchall()
    return float(percent)


def user_seconds(connection: Connection, now: datetime) -> float | None:
    """Return the 95th percentile of the time that a user's offers took in the last 15 minutes.

    None if no offers were computed.
    """
    values = {"recently": now - USER_SECONDS_OVER, "share": USER_SECONDS_SHARE}
    ((seconds,),) = connection.execute(_USER_SECONDS, values).fetchall()
    return None if seconds is None else float(seconds)


def duplicates(connection: Connection, now: datetime, seconds: float) -> int:
    """Return the number of recent duplicate offers, or offers of a user outside the stored result.

    It must be 0.

    A million people take about ten seconds.

    Raises:
        psycopg.errors.QueryCanceled: it took longer than `seconds`.
    """
    connection.execute("SELECT set_config('statement_timeout', %s, true)", [f"{max(1, int(seconds * 1000))}ms"])
    ((count,),) = connection.execute("SELECT count_duplicate_offers(%s)", [now - LOOKBACK]).fetchall()
    return int(count)
