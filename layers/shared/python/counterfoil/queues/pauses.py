"""Queues that a person has paused: what is wished, and the event source mappings (below: the mappings) that follow.

A mapping is AWS's switch: while it is disabled, nobody reads the queue, and no message loses a receive. The wish is a
row of `queue_pause`, and it comes first: who, why and when are committed, with an entry of the audit trail, before a
mapping is touched. Whoever switches a mapping holds the row meanwhile and goes by what it says then, so that the last
switch is that of the last wish.

The mapping may differ from the wish: a process ended between the two, Lambda refused, a deployment enabled what was
disabled. The watchdog puts it right each minute (`put_right`): what is paused is disabled whoever enabled it, for the
way to resume it is to say so; what was resumed is enabled until that has succeeded, and then left alone, so that a
mapping which somebody disabled past us stays as it is. Where the watchdog itself would enable one, since a service is
back that all of its work needs, it holds the row as well (`held`), and leaves a queue alone that a person has paused.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Any
from uuid import UUID

from aws_lambda_powertools import Logger
from botocore.exceptions import ClientError

from counterfoil import audit, aws
from counterfoil.audit import Operation
from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.errors import CounterfoilError, RejectedRequestError

UNDER_WAY = timedelta(minutes=2)
"""A call to Lambda of somebody who has lost the row meanwhile has taken effect by then; until then it is looked at."""
MAPPING_SECONDS = 15.0
"""Time that must be left to look after one mapping: two calls, each of which ends in 7 s."""

logger = Logger()


class ChangedError(RejectedRequestError):
    """Somebody else has paused or resumed the queue since the caller saw it."""


@dataclass(frozen=True)
class Pause:
    """What was last wished of a worker's queue, and by whom."""

    worker: str
    is_paused: bool
    reason: str
    changed_by: str
    changed_at: datetime
    is_in_effect: bool
    """Whether its mappings were switched since."""
    version: int


@dataclass(frozen=True)
class Wish:
    """What somebody wishes of a worker's queue."""

    worker: str
    is_paused: bool
    reason: str
    by: str
    at: datetime
    seen: int
    """The version that he saw; 0 of a queue that never was paused."""


_COLUMNS = ", ".join(Pause.__dataclass_fields__)
_OF = f"SELECT {_COLUMNS} FROM queue_pause WHERE worker = %s FOR UPDATE"  # noqa: S608  # names alone
_ALL = f"SELECT {_COLUMNS} FROM queue_pause ORDER BY worker"  # noqa: S608  # names alone

_PUT = f"""
INSERT INTO queue_pause (worker, is_paused, reason, changed_by, changed_at)
VALUES (%(worker)s, %(is_paused)s, %(reason)s, %(by)s, %(at)s)
ON CONFLICT (worker) DO UPDATE
SET is_paused = excluded.is_paused, reason = excluded.reason, changed_by = excluded.changed_by,
    changed_at = excluded.changed_at, is_in_effect = false, version = queue_pause.version + 1
WHERE queue_pause.version = %(seen)s
RETURNING {_COLUMNS}
"""  # noqa: S608  # names alone

_DONE = "UPDATE queue_pause SET is_in_effect = true WHERE worker = %s AND version = %s AND NOT is_in_effect"


def every(connection: Connection) -> dict[str, Pause]:
    """What is on record, by worker, in a transaction of the delivery role. Of the others nothing was ever wished."""
    return {row[0]: Pause(*row) for row in connection.execute(_ALL.encode())}


def wish(database: Database, wanted: Wish) -> Pause | None:
    """Write a wish down, with its entry of the audit trail. What is so already is left as it is, whoever wished it.

    Returns what is on record now; None: nothing, for to resume what never was paused is to change nothing.

    Raises:
        ChangedError: it is not as the caller saw it, and not as he wishes it.
        DatabaseUnavailableError: nothing is known of it.
    """

    def once() -> Pause | None:
        with database.delivery() as connection:
            row = connection.execute(_OF.encode(), [wanted.worker]).fetchone()
            found = None if row is None else Pause(*row)
            if wanted.is_paused == (found is not None and found.is_paused):
                return found
            if wanted.seen != (0 if found is None else found.version):
                raise ChangedError("Somebody has paused or resumed this queue since you saw it.")
            put = connection.execute(_PUT.encode(), vars(wanted)).fetchone()
            if put is None:  # somebody else was the first to pause it, in this moment
                raise ChangedError("Somebody has paused or resumed this queue since you saw it.")
            now = Pause(*put)
            # A queue is no tenant's: the trail of what is of no tenant has it.
            operation = Operation(
                wanted.by,
                "queue-paused" if wanted.is_paused else "queue-resumed",
                [wanted.worker],
                wanted.at,
                note=wanted.reason,
                version_before=wanted.seen,
                version_after=now.version,
            )
            audit.record(connection, None, operation)
            return now

    return retry_conflicts(once)


def bring_about(database: Database, worker: str, mappings: Sequence[UUID]) -> bool:
    """Switch a worker's mappings as is wished now. Returns whether all of them are so; the others are tried again.

    Raises:
        DatabaseUnavailableError: it is not known what is wished.
    """
    versions, are_so = set(), True
    for mapping in mappings:
        with database.delivery() as connection:
            row = connection.execute(_OF.encode(), [worker]).fetchone()
            if row is None:
                return True
            pause = Pause(*row)
            versions.add(pause.version)
            are_so = _switch(worker, mapping, on=not pause.is_paused) and are_so
    if not are_so or len(versions) != 1:  # who wished something else in between brings that about
        return False
    with database.delivery() as connection:
        connection.execute(_DONE, [worker, *versions])
    return True


@contextmanager
def held(database: Database, worker: str) -> Iterator[bool]:
    """Whether a person has paused the worker's queue; it stays so until the end, and nobody else switches a mapping.

    Raises:
        ConflictError, DatabaseUnavailableError: it is not known what is wished.
    """
    with database.delivery() as connection:
        row = connection.execute(_OF.encode(), [worker]).fetchone()
        yield row is not None and Pause(*row).is_paused


def put_right(
    database: Database,
    mappings: Mapping[str, Sequence[UUID]],
    now: datetime,
    time_left: Callable[[], float] = lambda: inf,
) -> list[str]:
    """Have the mappings of every worker be as is wished, where somebody wished something and they are not.

    Returns the workers whose mappings were found otherwise. What there is no time for is left to the next round.

    Raises:
        DatabaseUnavailableError: it is not known what is wished.
    """
    with database.delivery() as connection:
        known = every(connection)
    found = []
    for worker, pause in known.items():
        of_worker = mappings.get(worker, ())
        if pause.is_in_effect and not pause.is_paused and pause.changed_at < now - UNDER_WAY:
            continue
        if time_left() < MAPPING_SECONDS * len(of_worker):
            logger.warning("A queue is not looked after: no time is left", worker=worker)
            continue
        states = [_state(mapping) for mapping in of_worker]
        is_wrong = ("Enabled" if pause.is_paused else "Disabled") in states
        if is_wrong:
            logger.warning("A queue is not as is wished", worker=worker, paused=pause.is_paused, mappings=states)
            found.append(worker)
        if is_wrong or not pause.is_in_effect:
            bring_about(database, worker, of_worker)
    return found


def _state(mapping: UUID) -> str | None:
    """Lambda's word for it; None where Lambda does not say."""
    try:
        with aws.errors_mapped():
            answer: dict[str, Any] = aws.client("lambda").get_event_source_mapping(UUID=str(mapping))
    except CounterfoilError as error:
        logger.warning("A mapping could not be looked at", mapping=str(mapping), error=str(error))
        return None
    return str(answer["State"])


def _switch(worker: str, mapping: UUID, *, on: bool) -> bool:
    """Enable or disable a mapping. False: it could not be done, or somebody else is changing it just now."""
    try:
        with aws.errors_mapped():
            aws.client("lambda").update_event_source_mapping(UUID=str(mapping), Enabled=on)
    except CounterfoilError as error:
        cause = error.__cause__
        code = cause.response["Error"]["Code"] if isinstance(cause, ClientError) else None
        logger.warning("A mapping could not be switched", worker=worker, on=on, code=code, error=str(error))
        return False
    return True
