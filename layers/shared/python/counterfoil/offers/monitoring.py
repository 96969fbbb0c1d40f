"""How the offers that stand now have come along, for all tenants: numbers for alarms, and nobody's offers.

Everything runs as the delivery role, which sees how many people a shard has and not who they are.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from counterfoil.db import Connection
from counterfoil.offers.browsing import PUNCTUAL

LOOKED_BACK = timedelta(hours=2)
"""Over shards that have ended: twice as long as it is until they are looked at again."""
_WIDEST = timedelta(days=2)
"""Dates that stand somewhere begin no longer ago than this, in UTC."""

# Whoever was put aside is of another shard, and counts there.
_STANDING = """
SELECT coalesce(sum(s.completed) FILTER (WHERE s.status = 'succeeded'), 0)::bigint,
       coalesce(sum(s.size) FILTER (WHERE s.status IN ('pending', 'in-progress')), 0)::bigint,
       coalesce(sum(s.size) FILTER (WHERE s.status = 'failed'), 0)::bigint,
       coalesce(sum(s.size) FILTER (
           WHERE s.status IN ('pending', 'in-progress')
             AND %(now)s > CASE WHEN s.name LIKE 'late/%%' THEN s.created_at ELSE p.offered_at END + %(punctual)s
       ), 0)::bigint
FROM offer_pool p JOIN offer_shard s ON s.pool_id = p.id
WHERE p.date >= %(since)s AND p.expires_at > %(now)s
"""


# People who were put aside belong to another shard. A late user's time is when they arrived.
_INCOMPLETE = """
SELECT coalesce(max(100 - 100.0 * completed / people), 0)::double precision FROM (
    SELECT coalesce(sum(s.completed) FILTER (WHERE s.status = 'succeeded'), 0) AS completed,
           sum(CASE WHEN s.status = 'succeeded' THEN s.completed ELSE s.size END) AS people
    FROM offer_pool p JOIN offer_shard s ON s.pool_id = p.id
    WHERE p.date >= %(since)s AND p.expires_at > %(now)s AND s.status IS NOT NULL
      AND %(now)s > CASE WHEN s.name LIKE 'late/%%' THEN s.created_at ELSE p.offered_at END + %(punctual)s
    GROUP BY p.date, p.timezone
) AS of_date WHERE people > 0
"""
# Every user of a shard waits for the whole shard, so a shard's duration counts once for each of them.
_USER_SECONDS = """
SELECT min(seconds) FROM (
    SELECT seconds, sum(size) OVER (ORDER BY seconds) AS up_to, sum(size) OVER () AS users FROM offer_shard
    WHERE status = 'succeeded' AND ended_at > %(recently)s AND seconds IS NOT NULL
) AS ended WHERE up_to >= %(share)s * users
"""
USER_SECONDS_OVER = timedelta(minutes=15)
"""Window of the percentile of durations."""
USER_SECONDS_SHARE = 0.95


@dataclass(frozen=True)
class Standing:
    """Users by how their offers of the date that stands where they are have come along."""

    completed: int
    pending: int
    """Whose offers are to come, those under way among them."""
    failed: int
    late: int
    """Of the pending ones: whose offers were to be there by 10:00, or within an hour after they came."""


def standing(connection: Connection, now: datetime) -> Standing:
    """How the offers of all tenants stand."""
    values = {"now": now, "punctual": PUNCTUAL, "since": (now - _WIDEST).date()}
    ((completed, pending, failed, late),) = connection.execute(_STANDING, values).fetchall()
    return Standing(completed, pending, failed, late)


def incomplete_percent(connection: Connection, now: datetime) -> float:
    """Share of people whose offers are missing an hour after their time, failed ones included, in percent.

    The largest share of any date and time zone; 0 if no date was due for an hour.
    """
    values = {"now": now, "punctual": PUNCTUAL, "since": (now - _WIDEST).date()}
    ((percent,),) = connection.execute(_INCOMPLETE, values).fetchall()
    return float(percent)


def user_seconds(connection: Connection, now: datetime) -> float | None:
    """95th percentile of the time that a user's offers took in the last 15 minutes.

    None if no offers were computed.
    """
    values = {"recently": now - USER_SECONDS_OVER, "share": USER_SECONDS_SHARE}
    ((seconds,),) = connection.execute(_USER_SECONDS, values).fetchall()
    return None if seconds is None else float(seconds)


def duplicates(connection: Connection, now: datetime, seconds: float) -> int:
    """How many offers of late somebody has twice on a date, or beside other offers of that date. It is always 0.

    A million people take some ten seconds.

    Raises:
        psycopg.errors.QueryCanceled: it took longer than `seconds`.
    """
    connection.execute("SELECT set_config('statement_timeout', %s, true)", [f"{max(1, int(seconds * 1000))}ms"])
    ((number,),) = connection.execute("SELECT duplicate_offers(%s)", [now - LOOKED_BACK]).fetchall()
    return int(number)
