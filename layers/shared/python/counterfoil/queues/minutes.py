"""Minutes of the queues: how much ended in each of them, and what waited at its end.

A trigger adds a row to `work_ended` in the transaction that settles a work item (migrations/0015.queues.sql).
The watchdog takes these rows away each minute and adds them up, of each tenant and of all together, and writes beside
them what it sees waiting. Who looks reads sixty rows of each worker by an index, however much there is.

The times are the database's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.sql import SQL, Composed, Literal

from counterfoil.db import Connection
from counterfoil.work import KINDS, Kind

SHOWN = timedelta(hours=1)
KEPT = timedelta(hours=2)
MINUTE = timedelta(minutes=1)
AT_ONCE = 100_000
"""Ends that are added up in a round, at most."""
_MINUTES = SHOWN // MINUTE

# Those of a tenant that is no more are of the sum alone. Work of nobody has a row of its own nowhere else.
_ADD_UP = """
WITH taken AS (
    DELETE FROM work_ended WHERE ctid = ANY (ARRAY(SELECT ctid FROM work_ended LIMIT %(at_once)s))
    RETURNING worker, tenant_id, outcome, date_trunc('minute', ended_at) AS minute
), counted AS (
    SELECT tenant_id, worker, minute, count(*) FILTER (WHERE outcome = 'succeeded') AS succeeded,
           count(*) FILTER (WHERE outcome = 'skipped') AS skipped, count(*) FILTER (WHERE outcome = 'failed') AS failed
    FROM taken GROUP BY GROUPING SETS ((worker, minute), (tenant_id, worker, minute))
    HAVING grouping(tenant_id) = 1 OR EXISTS (SELECT FROM tenant t WHERE t.id = taken.tenant_id)
)
INSERT INTO queue_minute AS m (tenant_id, worker, minute, succeeded, skipped, failed)
SELECT tenant_id, worker, minute, succeeded, skipped, failed FROM counted
ON CONFLICT (tenant_id, worker, minute) DO UPDATE
SET succeeded = m.succeeded + excluded.succeeded, skipped = m.skipped + excluded.skipped,
    failed = m.failed + excluded.failed
"""

# Work is due when its wait is over, or else since its message was owed. LIMIT has PostgreSQL look each message up.
_WAITING = """
SELECT {worker} AS worker, t.tenant_id, count(*) AS pending,
       extract(epoch FROM %(now)s - min(due.since) FILTER (WHERE due.since <= %(now)s))::int AS oldest
FROM {table} t
LEFT JOIN LATERAL (
    SELECT greatest(t.{next_attempt_at}, o.created_at) AS since FROM outbox o
    WHERE o.worker = {worker} AND o.work_id = t.id AND o.revision = t.{revision} AND o.send_number = t.{send_number}
    LIMIT 1
) due ON true
WHERE t.{status} = 'pending' GROUP BY t.tenant_id
"""

_LOOK = """
WITH waiting AS ({waiting}), dying AS (
    SELECT g.worker, c.tenant_id, sum(c.number) AS dead FROM dead_letter_count c
    JOIN dead_letter_group g ON g.tenant_id IS NOT DISTINCT FROM c.tenant_id AND g.fingerprint = c.fingerprint
    WHERE c.status = 'pending' AND c.hour IS NULL GROUP BY g.worker, c.tenant_id HAVING sum(c.number) > 0
), seen AS (
    SELECT worker, tenant_id, pending, oldest, 0 AS dead FROM waiting
    UNION ALL SELECT worker, tenant_id, 0, NULL, dead FROM dying
    UNION ALL SELECT worker, NULL, 0, NULL, 0 FROM unnest(%(workers)s::text[]) AS w (worker)
), summed AS (
    SELECT tenant_id, worker, sum(pending) AS pending, max(oldest) AS oldest, sum(dead) AS dead
    FROM seen WHERE worker = ANY(%(workers)s)
    GROUP BY GROUPING SETS ((worker), (tenant_id, worker))
    HAVING grouping(tenant_id) = 1 OR EXISTS (SELECT FROM tenant t WHERE t.id = seen.tenant_id)
)
INSERT INTO queue_minute (tenant_id, worker, minute, pending, oldest, dead, depth)
SELECT s.tenant_id, s.worker, date_trunc('minute', %(now)s::timestamptz), s.pending, s.oldest, s.dead,
       CASE WHEN s.tenant_id IS NULL THEN d.depth END
FROM summed s LEFT JOIN unnest(%(measured)s::text[], %(depths)s::int[]) AS d (worker, depth) ON d.worker = s.worker
ON CONFLICT (tenant_id, worker, minute) DO UPDATE
SET pending = excluded.pending, oldest = excluded.oldest, dead = excluded.dead, depth = excluded.depth
"""

_FORGET = "DELETE FROM queue_minute WHERE minute < %s"

_LAST = """
SELECT max(minute) FROM queue_minute
WHERE tenant_id IS NULL AND worker = ANY(%(workers)s) AND pending IS NOT NULL AND minute >= %(from)s
"""
_READ = """
SELECT worker, minute, succeeded, skipped, failed, pending, oldest, dead, depth FROM queue_minute
WHERE tenant_id {} AND worker = ANY(%(workers)s) AND minute >= %(from)s ORDER BY worker, minute
"""
_RUNNING = "SELECT {worker}, count(*) FROM {table} WHERE {status} = 'in-progress'"


@dataclass(frozen=True)
class Series:
    """An hour in whole minutes, the oldest first; the minute that is not over is not among them."""

    succeeded: Sequence[int]
    skipped: Sequence[int]
    failed: Sequence[int]
    depth: Sequence[int | None]
    """Messages at the end of each minute; None: nobody looked."""


@dataclass(frozen=True)
class Waiting:
    """What waits, as the watchdog saw it last."""

    pending: int = 0
    oldest_seconds: int | None = None
    """For how long the oldest work was due; None: none was."""
    dead: int = 0
    """Dead letters that nobody has decided about."""


@dataclass(frozen=True)
class Seen:
    """The last hour of one worker."""

    series: Series
    waiting: Waiting | None
    """None: nobody has looked within the hour."""


def add_up(connection: Connection, now: datetime) -> int:
    """Add up what ended, and forget what is old, as counterfoil_keeper. Returns the minutes that were added to."""
    added = connection.execute(_ADD_UP, {"at_once": AT_ONCE}).rowcount
    connection.execute(_FORGET, [now - KEPT])
    return added


def look(connection: Connection, workers: Sequence[str], depths: Mapping[str, int], now: datetime) -> int:
    """Write down what waits, as counterfoil_keeper; `depths` are the messages of each worker. Returns the rows."""
    kinds = [kind for kind in KINDS.values() if kind.worker in workers]
    if not kinds:
        return 0
    statement = SQL(_LOOK).format(waiting=SQL(" UNION ALL ").join(_of(_WAITING, kind) for kind in kinds))
    values = {
        "now": now,
        "workers": [kind.worker for kind in kinds],
        "measured": list(depths),
        "depths": list(depths.values()),
    }
    return connection.execute(statement, values).rowcount


def looked_at(connection: Connection, workers: Sequence[str], now: datetime) -> datetime | None:
    """The minute in which the watchdog wrote down last what waits; None: not within the hour. As the delivery role."""
    values = {"workers": list(workers), "from": first(now)}
    ((found,),) = connection.execute(_LAST, values).fetchall()
    return found  # type: ignore[no-any-return]  # a timestamp


def hour(
    connection: Connection, workers: Sequence[str], now: datetime, *, last: datetime | None, tenant_id: UUID | None
) -> dict[str, Seen]:
    """The last hour by worker: a tenant's in its own transaction, or (None) all together as the delivery role.

    `last` is when what waits was written down (`looked_at`): who has no row of then had nothing waiting.
    """
    values = {"workers": list(workers), "from": first(now), "tenant": tenant_id}
    rows = connection.execute(read_statement(tenant_id), values).fetchall()
    of: dict[str, dict[datetime, tuple[int, ...]]] = {worker: {} for worker in workers}
    for worker, minute, *numbers in rows:
        of[worker][minute] = tuple(numbers)
    return {worker: _seen(minutes, first(now), last) for worker, minutes in of.items()}


def read_statement(tenant_id: UUID | None) -> Composed:
    """Reads the minutes of a tenant, or of all together: a condition that the index can be read by."""
    return SQL(_READ).format(SQL("IS NULL" if tenant_id is None else "= %(tenant)s"))


def running(connection: Connection, workers: Sequence[str]) -> dict[str, int]:
    """How much is worked on by each worker just now, of all that the transaction sees."""
    kinds = [kind for kind in KINDS.values() if kind.worker in workers]
    if not kinds:
        return {}
    return dict(connection.execute(SQL(" UNION ALL ").join(_of(_RUNNING, kind) for kind in kinds)).fetchall())


def first(now: datetime) -> datetime:
    """The first minute of the hour before `now`."""
    return now.replace(second=0, microsecond=0) - SHOWN


def _seen(minutes: Mapping[datetime, tuple[int, ...]], begins: datetime, last: datetime | None) -> Seen:
    empty = (0, 0, 0, None, None, 0, None)
    rows = [minutes.get(begins + MINUTE * number, empty) for number in range(_MINUTES)]
    succeeded, skipped, failed, _, _, _, depth = (list(column) for column in zip(*rows, strict=True))
    series = Series(succeeded, skipped, failed, depth)
    if last is None:
        return Seen(series, None)
    row = minutes.get(last)
    if row is None or row[3] is None:
        return Seen(series, Waiting())
    return Seen(series, Waiting(row[3], row[4], row[5] or 0))


def _of(template: str, kind: Kind) -> Composed:
    return SQL(template).format(worker=Literal(kind.worker), **kind.names)
