"""A canary: what became of the letters that an operation tried first, and what follows for the others.

They follow once these have succeeded, and never before: work that has failed and waits to be tried again is no success.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.dead_letters.bulk import BulkOperation
from counterfoil.work import KINDS

PATIENCE = timedelta(minutes=45)
"""As long a canary that was tried is waited for: longer than the waits between all tries of a document, 5 and 30
minutes. What nobody tries, since its queue is paused or a service is away, tells nothing: it is waited for."""


@dataclass(frozen=True)
class Outlook:
    """What follows from a canary."""

    becomes: Literal["canary", "running", "paused", "stopped"]
    """The state of the operation. canary: it is waited for."""
    since: datetime
    """Patience is counted from then."""
    reason: str | None = None
    """Why the operation does not go on, and what to do, for people."""


# A message that names no work is not known to have succeeded: it has not failed as long as its letter is not back.
_BEGUN = """
SELECT d.worker, d.work_id, coalesce(d.dlq_timestamp > %(requested_at)s, false)
FROM dead_letter_operation_item i LEFT JOIN dead_letter d ON d.job_id = i.job_id
WHERE i.operation_id = %(id)s AND i.result = 'done'
"""


def look(connection: Connection, operation: BulkOperation, now: datetime) -> Outlook:
    """See what became of an operation's canary, all of which was begun. Nothing is changed."""
    asked = {"id": operation.id, "requested_at": operation.requested_at}
    begun = connection.execute(_BEGUN, asked).fetchall()
    works = [(worker, id_) for worker, id_, _ in begun if id_ is not None and worker in KINDS]
    are = _states(connection, works)
    ends = Counter("failed" if is_dead else are.get((worker, id_)) for worker, id_, is_dead in begun)
    since = operation.canary_begun_at or now
    tried = sum(ends[end] for end in _TRIED)
    if ends["failed"]:
        return Outlook("stopped", since, f"{_some(ends['failed'], tried, 'tried')} died again.")
    if ends["untried"]:
        return Outlook("canary", max(since, now))
    if ends["tried"]:
        if now < since + PATIENCE:
            return Outlook("canary", since)
        which, minutes = _some(ends["tried"], tried, "tried"), PATIENCE // timedelta(minutes=1)
        told = f"{which} did not succeed within {minutes} minutes of tries."
        return Outlook("paused", since, f"{told} See why; resume the operation to wait as long again, or abort it.")
    if works and not ends["succeeded"]:
        which, is_one = _some("none", len(begun), "begun"), len(begun) == 1
        told = f"{which} did not succeed: it was" if is_one else f"{which} succeeded: they were"
        told += " cancelled, or there was nothing to do. Abort the operation, and try others."
        return Outlook("paused", since, told)
    return Outlook("running", since)


_TRIED = ("failed", "tried", "succeeded", "ended")
"""Of letters that were begun, those that were tried, too."""


def _some(number: int | Literal["none"], of: int, how: str) -> str:
    """So many of the letters that were tried, or begun, first: the subject of a sentence."""
    return f"The letter that was {how} first" if of == 1 else f"Of {of} letters that were {how} first, {number}"


_STATES = """
SELECT id, CASE WHEN {status} = 'pending' AND {attempts} = 0 THEN 'untried'
                WHEN {status} IN ('pending', 'in-progress') THEN 'tried'
                WHEN {status} IS NULL AND {attempts} > 0 THEN 'ended' ELSE {status} END
FROM {table} WHERE id = ANY(%(ids)s)
"""


def _states(connection: Connection, works: Iterable[tuple[str, UUID]]) -> dict[tuple[str, UUID], str | None]:
    """Of each work whether it is untried, tried, succeeded, failed or ended otherwise, and what is gone left out.

    None: it was cancelled before any try. It makes no difference whether the work was begun once more since.
    """
    ids: dict[str, list[UUID]] = defaultdict(list)
    for worker, id_ in works:
        ids[worker].append(id_)
    return {
        (worker, id_): state
        for worker, of_worker in ids.items()
        for id_, state in connection.execute(KINDS[worker].sql(_STATES), {"ids": of_worker})
    }
