"""What the watchdog measures in PostgreSQL each minute: work that stands still, and work that nobody looks after.

Ages and numbers of waiting work come from here: SQS's own age leaves out messages that were received three times, and
knows nothing of work whose message is gone.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from psycopg.sql import SQL, Composed, Literal

from counterfoil.db import Database
from counterfoil.metrics import Metric, record
from counterfoil.work import KINDS, Kind

STUCK_AFTER = timedelta(minutes=10)
"""Work in progress for longer than this is stuck, unless its lease says that somebody is at it."""
RECENTLY = timedelta(minutes=1)
"""As long as a round: what was written since is counted once."""

# Work is due when its wait is over, or else since its message was owed; sending it again changes nothing. LIMIT has
# PostgreSQL look each message up: a join of its own choice could read the whole outbox, weeks of sent messages.
_WORK = """
SELECT {worker},
       count(*) FILTER (WHERE {status} = 'in-progress' AND {claimed_at} <= %(stuck_before)s
                        AND {lease_expires_at} <= %(now)s),
       count(*) FILTER (WHERE {status} = 'pending' AND {attempts} > 0),
       min(due.since) FILTER (WHERE {status} = 'pending' AND due.since <= %(now)s)
FROM {table} t
LEFT JOIN LATERAL (
    SELECT greatest(t.{next_attempt_at}, o.created_at) AS since FROM outbox o
    WHERE t.{status} = 'pending' AND o.worker = {worker} AND o.work_id = t.id AND o.revision = t.{revision}
      AND o.send_number = t.{send_number}
    LIMIT 1
) due ON true
WHERE {status} IN ('pending', 'in-progress')
"""

_OUTBOX = """
SELECT worker, count(*) FROM outbox
WHERE worker = ANY(%(workers)s) AND sent_at IS NULL AND not_before <= %(unsent_before)s GROUP BY worker
"""

# A dead letter is pending when it is written, and stays so until a person decides.
_DEAD_LETTERS = """
SELECT worker, count(*), count(*) FILTER (WHERE dlq_timestamp > %(recently)s)
FROM dead_letter WHERE status = 'pending' AND worker = ANY(%(workers)s) GROUP BY worker
"""

Measured = Mapping[str, Mapping[Metric, float]]


def measure(database: Database, workers: Sequence[str], *, now: datetime, unsent_after: timedelta) -> Measured:
    """Measure and record, for each of `workers`. Returns what was recorded.

    Raises:
        DatabaseUnavailableError: nothing was measured.
    """
    kinds = [kind for kind in KINDS.values() if kind.worker in workers]
    values = {
        "workers": [kind.worker for kind in kinds],
        "now": now,
        "stuck_before": now - STUCK_AFTER,
        "unsent_before": now - unsent_after,
        "recently": now - RECENTLY,
    }
    if not kinds:
        return {}
    with database.delivery() as connection:
        work = connection.execute(SQL(" UNION ALL ").join(map(_of, kinds)), values).fetchall()
        unsent = dict(connection.execute(_OUTBOX, values).fetchall())
        letters = {row[0]: row[1:] for row in connection.execute(_DEAD_LETTERS, values)}
    measured: dict[str, dict[Metric, float]] = {}
    for worker, stuck, waiting, oldest in work:
        unsettled, written = letters.get(worker, (0, 0))
        measured[worker] = {
            Metric.STUCK_IN_PROGRESS: stuck,
            Metric.WAITING_FOR_RETRY: waiting,
            Metric.OLDEST_PENDING_SECONDS: 0 if oldest is None else (now - oldest).total_seconds(),
            Metric.UNSENT_OUTBOX: unsent.get(worker, 0),
            Metric.UNSETTLED_DEAD_LETTERS: unsettled,
            Metric.DEAD_LETTERS_WRITTEN: written,
        }
        record(measured[worker], worker=worker)
    return measured


def _of(kind: Kind) -> Composed:
    return SQL(_WORK).format(worker=Literal(kind.worker), **kind.names)
