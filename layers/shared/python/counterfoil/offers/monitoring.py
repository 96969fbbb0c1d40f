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


def duplicates(connection: Connection, now: datetime, seconds: float) -> int:
    """How many offers of late somebody has twice on a date, or beside other offers of that date. It is always 0.

    A million people take some ten seconds.

    Raises:
        psycopg.errors.QueryCanceled: it took longer than `seconds`.
    """
    connection.execute("SELECT set_config('statement_timeout', %s, true)", [f"{max(1, int(seconds * 1000))}ms"])
    ((number,),) = connection.execute("SELECT duplicate_offers(%s)", [now - LOOKED_BACK]).fetchall()
    return int(number)
