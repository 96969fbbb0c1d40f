"""History of a dead letter: attempts, failures, and changes by operators."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.dead_letters.search import DeadLetterDetails

EventKind = Literal["attempt", "dead_lettered", "change"]
_ORDER: tuple[EventKind, ...] = ("attempt", "dead_lettered", "change")
"""Order of events that have the same time."""
_DEAD_LETTERED_ACTION = "dead-lettered"
"""Action of the audit entry that `write_dead_letter` adds."""


@dataclass(frozen=True)
class Event:
    """Event in the history of a dead letter or its work item."""

    at: datetime
    """Time of the event. For an attempt, its end."""
    kind: EventKind
    outcome: str
    """Outcome of the attempt, reason for the failure, or action by an operator."""
    actor: str
    """Worker or operator."""
    error: Mapping[str, str | None] | None = None
    """`type` and `message`."""
    revision: int | None = None
    attempt: int | None = None
    """Number of the attempt. For a failure, the number of attempts before it."""
    started_at: datetime | None = None
    next_attempt_at: datetime | None = None
    trace_id: str | None = None
    """X-Ray trace id, if the attempt's trace was sampled."""
    detail: Mapping[str, Any] = field(default_factory=dict)
    """Details of the audit entry: ids and short words."""


_ATTEMPT_COLUMNS = "revision, number, started_at, ended_at, outcome, error_type, error, next_attempt_at, trace_id"
_ATTEMPTS = f"""
SELECT {_ATTEMPT_COLUMNS} FROM work_attempt
WHERE work_id = %(work)s AND worker = %(worker)s ORDER BY ended_at DESC, id DESC LIMIT %(limit)s
"""  # noqa: S608  # only column names
_UNASSIGNED_ATTEMPTS = f"SELECT {_ATTEMPT_COLUMNS} FROM unassigned_attempts(%(worker)s, %(work)s, %(limit)s)"  # noqa: S608
_AUDIT_ENTRIES = """
SELECT action, actor, detail, recorded_at FROM dead_letter_audit
WHERE job_id = %s ORDER BY recorded_at DESC, id DESC LIMIT %s
"""


def events(
    connection: Connection, tenant_id: UUID | None, dead_letter: DeadLetterDetails, *, limit: int
) -> list[Event]:
    """Return a dead letter's events, oldest first.

    Includes at most the newest `limit` attempts, the newest `limit` failures and the newest `limit` audit entries.
    """
    merged = [
        *_attempts(connection, tenant_id, dead_letter, limit),
        *_failures_and_changes(connection, dead_letter, limit),
    ]
    return sorted(merged, key=lambda event: (event.at, _ORDER.index(event.kind)))


def _attempts(
    connection: Connection, tenant_id: UUID | None, dead_letter: DeadLetterDetails, limit: int
) -> Iterator[Event]:
    if dead_letter.work_id is None:
        return
    statement = _UNASSIGNED_ATTEMPTS if tenant_id is None else _ATTEMPTS
    values = {"work": dead_letter.work_id, "worker": dead_letter.worker, "limit": limit}
    rows = connection.execute(statement.encode(), values).fetchall()
    for revision, number, started_at, ended_at, outcome, error_type, error, next_attempt_at, trace_id in reversed(rows):
        details = None if error is None and error_type is None else {"type": error_type, "message": error}
        yield Event(
            ended_at,
            "attempt",
            outcome,
            dead_letter.worker,
            details,
            revision,
            number,
            started_at,
            next_attempt_at,
            trace_id,
        )


def _failures_and_changes(connection: Connection, dead_letter: DeadLetterDetails, limit: int) -> Iterator[Event]:
    failures = {failure.at: failure for failure in _failures(dead_letter)[-limit:]}
    for action, actor, detail, at in reversed(
        connection.execute(_AUDIT_ENTRIES, [dead_letter.job_id, limit]).fetchall()
    ):
        failure = failures.pop(at, None) if action == _DEAD_LETTERED_ACTION else None
        if failure is None:
            yield Event(at, "change", action, actor, detail=detail)
        else:  # the actor is in the audit entry, and the error is in the dead letter
            yield Event(at, "dead_lettered", failure.outcome, actor, failure.error, failure.revision, failure.attempt)
    yield from failures.values()


def _failures(dead_letter: DeadLetterDetails) -> list[Event]:
    earlier = [
        Event(
            datetime.fromisoformat(failure["dlq_timestamp"]),
            "dead_lettered",
            failure["dlq_reason"],
            dead_letter.worker,
            _error(failure.get("last_error")),
            failure.get("revision"),
            failure.get("attempts"),
        )
        for failure in dead_letter.previous_failures
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
    return [*earlier, last]


def _error(last_error: Mapping[str, Any] | None) -> Mapping[str, str | None] | None:
    return None if last_error is None else {"type": last_error.get("type"), "message": last_error.get("message")}
