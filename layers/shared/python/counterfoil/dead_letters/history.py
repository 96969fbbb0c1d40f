"""History of a dead letter: the attempts of its work item, its failures and the changes by operators."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.dead_letters.search import DeadLetterDetails

EventKind = Literal["attempt", "dead_lettered", "change"]
_ORDER: tuple[EventKind, ...] = ("attempt", "dead_lettered", "change")
"""Order of events at the same time."""
_DIED = "dead"
"""Action of a dead letter in the audit trail."""


@dataclass(frozen=True)
class Event:
    """Event of a dead letter or its work item."""

    at: datetime
    """End of an attempt, or time of the event."""
    kind: EventKind
    outcome: str
    """Outcome of an attempt, reason of the failure, or action of an operator."""
    actor: str
    """Worker or operator."""
    error: Mapping[str, str | None] | None = None
    """`type` and `message`."""
    revision: int | None = None
    attempt: int | None = None
    """Number of the attempt, or of attempts before the failure."""
    started_at: datetime | None = None
    next_attempt_at: datetime | None = None
    trace_id: str | None = None
    """X-Ray trace of a sampled attempt."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Detail of the audit entry: ids and short words."""


_ATTEMPT = "revision, number, started_at, ended_at, outcome, error_type, error, next_attempt_at, trace_id"
_ATTEMPTS = f"""
SELECT {_ATTEMPT} FROM work_attempt
WHERE work_id = %(work)s AND worker = %(worker)s ORDER BY ended_at DESC, id DESC LIMIT %(limit)s
"""  # noqa: S608  # names alone
_UNASSIGNED_ATTEMPTS = f"SELECT {_ATTEMPT} FROM unassigned_attempts(%(worker)s, %(work)s, %(limit)s)"  # noqa: S608
_TRAIL = """
SELECT action, actor, detail, recorded_at FROM dead_letter_audit
WHERE job_id = %s ORDER BY recorded_at DESC, id DESC LIMIT %s
"""


def events(
    connection: Connection, tenant_id: UUID | None, dead_letter: DeadLetterDetails, *, limit: int
) -> list[Event]:
    """Return the events of a dead letter, oldest first.

    It returns at most the newest `limit` attempts, failures and audit entries each.
    """
    found = [
        *_attempts(connection, tenant_id, dead_letter, limit),
        *_deaths_and_changes(connection, dead_letter, limit),
    ]
    return sorted(found, key=lambda event: (event.at, _ORDER.index(event.kind)))


def _attempts(
    connection: Connection, tenant_id: UUID | None, dead_letter: DeadLetterDetails, limit: int
) -> Iterator[Event]:
    if dead_letter.work_id is None:
        return
    statement = _UNASSIGNED_ATTEMPTS if tenant_id is None else _ATTEMPTS
    values = {"work": dead_letter.work_id, "worker": dead_letter.worker, "limit": limit}
    rows = connection.execute(statement.encode(), values).fetchall()
    for revision, number, started_at, ended_at, outcome, error_type, error, again_at, trace in reversed(rows):
        said = None if error is None and error_type is None else {"type": error_type, "message": error}
        yield Event(
            ended_at, "attempt", outcome, dead_letter.worker, said, revision, number, started_at, again_at, trace
        )


def _deaths_and_changes(connection: Connection, dead_letter: DeadLetterDetails, limit: int) -> Iterator[Event]:
    deaths = {death.at: death for death in _deaths(dead_letter)[-limit:]}
    for action, actor, detail, at in reversed(connection.execute(_TRAIL, [dead_letter.job_id, limit]).fetchall()):
        death = deaths.pop(at, None) if action == _DIED else None
        if death is None:
            yield Event(at, "change", action, actor, detail=detail)
        else:  # the audit trail has the actor, and the dead letter the error
            yield Event(at, "dead_lettered", death.outcome, actor, death.error, death.revision, death.attempt)
    yield from deaths.values()


def _deaths(dead_letter: DeadLetterDetails) -> list[Event]:
    before = [
        Event(
            datetime.fromisoformat(death["dlq_timestamp"]),
            "dead_lettered",
            death["dlq_reason"],
            dead_letter.worker,
            _error(death.get("last_error")),
            death.get("revision"),
            death.get("attempts"),
        )
        for death in dead_letter.previous_failures
    ]
    error = _error(dead_letter.metadata.get("last_error"))
    last = Event(
        dead_letter.dlq_timestamp,
        "dead_lettered",
        dead_letter.dlq_reason,
        dead_letter.worker,
        error,
        dead_letter.revision,
        dead_letter.attempts,
    )
    return [*before, last]


def _error(kept: Mapping[str, Any] | None) -> Mapping[str, str | None] | None:
    return None if kept is None else {"type": kept.get("type"), "message": kept.get("message")}
