"""The history of a dead letter: the tries of its work, its deaths and what was done about it, in one order of time.

Each function runs in a transaction of `entries.transaction`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.dead_letters.entries import Details

Kind = Literal["try", "death", "change"]
_ORDER: tuple[Kind, ...] = ("try", "death", "change")
"""Of what happened at the same time: a try ends, its work dies of it, and somebody does something about that."""
_DIED = "dead"
"""The action by which the audit trail knows a death."""


@dataclass(frozen=True)
class Event:
    """Something that happened to a dead letter or to its work."""

    at: datetime
    """When it was over."""
    kind: Kind
    what: str
    """How the try ended, why the work died, or what was done about it."""
    who: str
    """The worker, or the person."""
    error: Mapping[str, str | None] | None = None
    """`type` and `message`."""
    revision: int | None = None
    number: int | None = None
    """Of the try, or of the tries before the death."""
    began_at: datetime | None = None
    next_attempt_at: datetime | None = None
    trace_id: str | None = None
    """Of X-Ray, where the try was chosen as a sample."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """What the audit trail says of it: ids and short words."""


_ATTEMPT = "revision, number, began_at, ended_at, outcome, error_type, error, next_attempt_at, trace_id"
_ATTEMPTS = f"""
SELECT {_ATTEMPT} FROM work_attempt
WHERE work_id = %(work)s AND worker = %(worker)s ORDER BY ended_at DESC, id DESC LIMIT %(limit)s
"""  # noqa: S608  # names alone
_UNASSIGNED_ATTEMPTS = f"SELECT {_ATTEMPT} FROM unassigned_attempts(%(worker)s, %(work)s, %(limit)s)"  # noqa: S608
_TRAIL = """
SELECT action, actor, detail, recorded_at FROM dead_letter_audit
WHERE job_id = %s ORDER BY recorded_at DESC, id DESC LIMIT %s
"""


def of(connection: Connection, tenant_id: UUID | None, letter: Details, *, limit: int) -> list[Event]:
    """Return the events of a dead letter, oldest first.

    Of attempts, failures and audit entries, it returns the newest `limit` each.
    """
    found = [*_attempts(connection, tenant_id, letter, limit), *_deaths_and_changes(connection, letter, limit)]
    return sorted(found, key=lambda event: (event.at, _ORDER.index(event.kind)))


def _attempts(connection: Connection, tenant_id: UUID | None, letter: Details, limit: int) -> Iterator[Event]:
    if letter.work_id is None:
        return
    statement = _UNASSIGNED_ATTEMPTS if tenant_id is None else _ATTEMPTS
    values = {"work": letter.work_id, "worker": letter.worker, "limit": limit}
    rows = connection.execute(statement.encode(), values).fetchall()
    for revision, number, began_at, ended_at, outcome, error_type, error, again_at, trace in reversed(rows):
        said = None if error is None and error_type is None else {"type": error_type, "message": error}
        yield Event(ended_at, "try", outcome, letter.worker, said, revision, number, began_at, again_at, trace)


def _deaths_and_changes(connection: Connection, letter: Details, limit: int) -> Iterator[Event]:
    deaths = {death.at: death for death in _deaths(letter)[-limit:]}
    for action, actor, detail, at in reversed(connection.execute(_TRAIL, [letter.job_id, limit]).fetchall()):
        death = deaths.pop(at, None) if action == _DIED else None
        if death is None:
            yield Event(at, "change", action, actor, detail=detail)
        else:  # the trail knows who wrote it down, the letter what it died of
            yield Event(at, "death", death.what, actor, death.error, death.revision, death.number)
    yield from deaths.values()


def _deaths(letter: Details) -> list[Event]:
    before = [
        Event(
            datetime.fromisoformat(death["dlq_timestamp"]),
            "death",
            death["dlq_reason"],
            letter.worker,
            _error(death.get("last_error")),
            death.get("revision"),
            death.get("attempts"),
        )
        for death in letter.lineage
    ]
    error = _error(letter.metadata.get("last_error"))
    last = Event(
        letter.dlq_timestamp, "death", letter.dlq_reason, letter.worker, error, letter.revision, letter.attempts
    )
    return [*before, last]


def _error(kept: Mapping[str, Any] | None) -> Mapping[str, str | None] | None:
    return None if kept is None else {"type": kept.get("type"), "message": kept.get("message")}
