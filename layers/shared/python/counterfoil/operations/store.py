"""Operations: requests that run in steps, such as bulk retries or reprocessing.

An operation is a row in `operation`. If it lists its items (`LISTED_ACTIONS`), each item is a row in `operation_item`,
whose result is written once. `engine` runs operations. All functions except `unfinished` and `delete_expired` require a
transaction of `Database.tenant`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal, get_args
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import Field

from counterfoil import audit
from counterfoil.db import Connection
from counterfoil.errors import RejectedRequestError, VersionConflictError

DeadLetterAction = Literal["retry", "resolve", "ignore"]
"""Actions whose operations list their dead letters."""
Action = Literal[DeadLetterAction, "purge", "restore", "export", "extract", "match"]
ACTIONS: tuple[Action, ...] = get_args(Action)
LISTED_ACTIONS: tuple[Action, ...] = get_args(DeadLetterAction)
"""Actions whose operations list their items. Operations with other actions iterate over a cursor."""
REPROCESSING: Mapping[str, str] = {"extract": "ingestion", "match": "matching"}
"""Workers of the actions on documents. All other actions are on dead letters."""
MAX_RATES: Mapping[str, int] = {**dict.fromkeys(LISTED_ACTIONS, 500), **dict.fromkeys(REPROCESSING, 1000)}
"""Maximum rate by action, for actions with a rate: dead letters per second, or documents per minute."""
State = Literal["selecting", "canary", "running", "paused", "done", "canceled", "halted"]
Result = Literal["succeeded", "failed", "skipped"]
RESULTS: tuple[Result, ...] = ("succeeded", "failed", "skipped")
RETENTION = timedelta(days=90)
"""Retention of an operation after its end. The database prevents earlier deletion."""
DELETE_BATCH_SIZE = 20_000
"""Maximum number of items deleted in one transaction."""


class OperationNotFoundError(RejectedRequestError):
    """The tenant has no such operation."""


class OperationStateError(RejectedRequestError):
    """The operation's state does not allow the change."""


@dataclass(frozen=True)
class Operation:
    """A row of `operation`."""

    id: UUID
    tenant_id: UUID
    action: Action
    filter: Mapping[str, Any] | None
    """Filter for the dead letters or documents, or None if the caller listed dead letters by id."""
    note: str | None
    rate: int | None
    """Dead letters per second, or documents per minute. None if unlimited."""
    canary: int | None
    """Number of items to retry before the operation waits for their outcome. None if there is no canary."""
    requested_by: str
    requested_at: datetime
    state: State
    version: int
    """Increases with each change of state or rate, but not with progress."""
    reason: str | None
    """Reason why the operation was halted or paused automatically."""
    ended_at: datetime | None
    cursor_at: datetime | None
    cursor_id: UUID | None
    selection_complete: bool
    """Whether `selected` is the final number of items."""
    selected: int
    processed: int
    succeeded: int
    failed: int
    skipped: int
    canary_started_at: datetime | None
    """Time when the wait for the canary started."""
    canary_passed_at: datetime | None
    last_step_at: datetime
    """Due time of the next item at the operation's rate. For an export, the end of the writing process's lease."""
    restored_at: datetime | None
    """Time when the restore was requested, for a purge."""
    file: Mapping[str, Any] | None
    """Fields of an export's file (`dead_letters.export.ExportFile`)."""

    @property
    def active_state(self) -> State:
        """State that the operation has while it is neither paused nor ended."""
        if self.action not in LISTED_ACTIONS:
            return "running"
        if not self.selection_complete:
            return "selecting"
        return "canary" if self.canary is not None and self.canary_passed_at is None else "running"

    def to_audit_record(self, event: str, by: str, at: datetime, detail: Mapping[str, Any]) -> audit.AuditRecord | None:
        """Return the audit entry for an event, or None if the event is not recorded."""
        if self.action in LISTED_ACTIONS:
            before = None if event == "request" else self.version - 1
            note = self.note if event == "request" else None
            name = f"bulk-{self.action if event == 'request' else event}"
            return audit.AuditRecord(by, name, [str(self.id)], at, note, before, self.version, detail)
        if self.action in REPROCESSING:
            detail = {"what": self.action, "rate": self.rate, **detail}
        event_name = _EVENTS[self.action].get(event)
        return None if event_name is None else audit.AuditRecord(by, event_name, [self.audit_target], at, detail=detail)

    @property
    def audit_target(self) -> str:
        """Target id in audit entries. For a restore, this is the id of the purge."""
        return str((self.filter or {})["purge"]) if self.action == "restore" else str(self.id)


def _event_names(noun: str, request: str) -> Mapping[str, str]:
    verbs = {"pause": "paused", "resume": "resumed", "cancel": "canceled", "rate": "rate changed"}
    return {"request": request, **{event: f"{noun} {verb}" for event, verb in verbs.items()}}


_EVENTS: Mapping[str, Mapping[str, str]] = {
    "extract": _event_names("reprocessing", "reprocessing started"),
    "match": _event_names("reprocessing", "reprocessing started"),
    "purge": _event_names("purge", "purged"),
    "restore": _event_names("restoration", "purge undone"),
    "export": _event_names("export", "export requested"),
}
COLUMNS = ", ".join(Operation.__dataclass_fields__)


@dataclass(frozen=True)
class OperationItem:
    """A dead letter in an operation, with its result."""

    number: int
    job_id: UUID
    result: Annotated[Result | None, Field(description="Null until the item is processed.")]
    reason: Annotated[str | None, Field(description="Reason why the dead letter failed or was skipped.")]
    version: Annotated[int | None, Field(description="Version of the dead letter after the action.")]
    revision: Annotated[int | None, Field(description="New revision of the work item.")]


@dataclass(frozen=True)
class NewOperation:
    """Fields of an operation to store."""

    action: Action
    filter: Mapping[str, Any] | None
    requested_by: str
    requested_at: datetime
    note: str | None = None
    rate: int | None = None
    canary: int | None = None
    file: Mapping[str, Any] | None = None


_INSERT = f"""
INSERT INTO operation (tenant_id, action, filter, note, rate, canary, file, requested_by, requested_at, last_step_at,
                       state)
VALUES (%(tenant)s, %(action)s, %(filter)s, %(note)s, %(rate)s, %(canary)s, %(file)s, %(requested_by)s,
        %(requested_at)s, %(requested_at)s, %(state)s)
RETURNING {COLUMNS}
"""  # noqa: S608  # the columns of the dataclass


def insert(connection: Connection, tenant_id: UUID, new: NewOperation) -> Operation:
    """Store an operation. The caller writes the audit entry.

    Raises:
        RejectedRequestError: the rate is out of bounds.
    """
    _check_rate(new.action, new.rate)
    state = "selecting" if new.action in LISTED_ACTIONS else "running"
    columns = {"filter": new.filter, "file": new.file}
    json = {name: None if value is None else Jsonb(dict(value)) for name, value in columns.items()}
    values = {**vars(new), **json, "tenant": tenant_id, "state": state}
    (row,) = connection.execute(_INSERT.encode(), values).fetchall()
    return Operation(*row)


def _check_rate(action: Action, rate: int | None) -> None:
    max_rate = MAX_RATES.get(action)
    if max_rate is None and rate is not None:
        raise RejectedRequestError(f"The action '{action}' has no rate.")
    if max_rate is not None and (rate is None or not 1 <= rate <= max_rate):
        unit = "documents per minute" if action in REPROCESSING else "dead letters per second"
        raise RejectedRequestError(f"The rate must be between 1 and {max_rate} {unit}.")


def record(
    connection: Connection,
    operation: Operation,
    event: str,
    by: str,
    at: datetime,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Add one audit entry for an operation's event, not one per item.

    Does nothing for events that are not recorded.
    """
    entry = operation.to_audit_record(event, by, at, dict(detail or {}))
    if entry is not None:
        audit.record(connection, operation.tenant_id, entry)


# -- progress ---------------------------------------------------------------------------------------------------------

_ADD_SELECTED = f"""
UPDATE operation SET selected = selected + %(number)s, selection_complete = %(is_complete)s,
    cursor_at = coalesce(%(at)s, cursor_at), cursor_id = coalesce(%(last)s, cursor_id),
    state = CASE WHEN NOT %(is_complete)s THEN state WHEN canary IS NULL THEN 'running' ELSE 'canary' END,
    version = version + %(is_complete)s::int
WHERE id = %(id)s RETURNING {COLUMNS}
"""  # noqa: S608  # the columns of the dataclass


def add_selected(
    connection: Connection, operation: Operation, count: int, cursor: tuple[datetime, UUID] | None, *, is_complete: bool
) -> Operation:
    """Record that `count` more items were selected, up to `cursor`.

    If `is_complete` is True, the operation starts.
    """
    cursor_at, cursor_id = cursor or (None, None)
    values = {"id": operation.id, "number": count, "is_complete": is_complete, "at": cursor_at, "last": cursor_id}
    (row,) = connection.execute(_ADD_SELECTED.encode(), values).fetchall()
    return Operation(*row)


_WRITE = """
UPDATE operation_item i SET result = v.result, reason = v.reason, version = v.version, revision = v.revision
FROM unnest(%(numbers)s::int[], %(results)s::text[], %(reasons)s::text[], %(versions)s::int[], %(revisions)s::int[])
    AS v (number, result, reason, version, revision)
WHERE i.operation_id = %(id)s AND i.number = v.number
"""


def write_results(connection: Connection, operation_id: UUID, items: Sequence[OperationItem]) -> None:
    """Store the results of items."""
    values = {
        "id": operation_id,
        "numbers": [item.number for item in items],
        "results": [item.result for item in items],
        "reasons": [item.reason for item in items],
        "versions": [item.version for item in items],
        "revisions": [item.revision for item in items],
    }
    connection.execute(_WRITE, values)


_MARK_FAILED = """
WITH failed AS (
    UPDATE operation_item SET result = 'failed', reason = %(reason)s
    WHERE operation_id = %(id)s AND number = ANY(%(numbers)s) AND result = 'succeeded'
    RETURNING number
)
UPDATE operation SET succeeded = succeeded - (SELECT count(*) FROM failed),
    failed = failed + (SELECT count(*) FROM failed)
WHERE id = %(id)s
"""


def mark_failed(connection: Connection, operation_id: UUID, numbers: Sequence[int], reason: str) -> None:
    """Change the result of succeeded items to failed.

    The caller must have locked the operation's row.
    """
    connection.execute(_MARK_FAILED, {"id": operation_id, "numbers": list(numbers), "reason": reason})


# -- reading ----------------------------------------------------------------------------------------------------------

_PAGE = f"""
SELECT {COLUMNS} FROM operation WHERE tenant_id = %(tenant)s AND action = ANY(%(actions)s)
  AND (%(at)s::timestamptz IS NULL OR (requested_at, id) < (%(at)s::timestamptz, %(id)s::uuid))
ORDER BY requested_at DESC, id DESC LIMIT %(limit)s
"""  # noqa: S608


def page(
    connection: Connection,
    tenant_id: UUID,
    *,
    limit: int,
    actions: Sequence[Action] = ACTIONS,
    after: tuple[datetime, UUID] | None = None,
) -> list[Operation]:
    """Return at most `limit` operations after the cursor `after`, newest first."""
    after_at, after_id = after or (None, None)
    values = {"tenant": tenant_id, "actions": list(actions), "at": after_at, "id": after_id, "limit": limit}
    return [Operation(*row) for row in connection.execute(_PAGE.encode(), values)]


_SHOW = f"SELECT {COLUMNS} FROM operation WHERE id = %s"  # noqa: S608


def show(connection: Connection, operation_id: UUID, *, lock: bool = False) -> Operation:
    """Return an operation. With `lock`, it cannot change until the transaction ends.

    Raises:
        OperationNotFoundError: the tenant has no such operation.
    """
    row = connection.execute((f"{_SHOW} FOR UPDATE" if lock else _SHOW).encode(), [operation_id]).fetchone()
    if row is None:
        raise OperationNotFoundError("There is no such operation.")
    return Operation(*row)


_ITEMS = """
SELECT number, job_id, result, reason, version, revision FROM operation_item
WHERE operation_id = %(id)s AND number > %(after)s AND (%(result)s::text IS NULL OR result = %(result)s)
ORDER BY number LIMIT %(limit)s
"""


def items(
    connection: Connection, operation_id: UUID, *, limit: int, after: int = 0, result: Result | None = None
) -> list[OperationItem]:
    """Return at most `limit` items numbered above `after`.

    If `result` is set, only items with this result are returned.
    """
    values = {"id": operation_id, "after": after, "result": result, "limit": limit}
    return [OperationItem(*row) for row in connection.execute(_ITEMS, values)]


# -- commands ---------------------------------------------------------------------------------------------------------

OperationCommand = Literal["pause", "resume", "cancel"]
_CHANGE = f"""
UPDATE operation SET state = %(state)s, version = version + 1, ended_at = %(ended)s, reason = NULL,
    canary_started_at = CASE WHEN %(resumed)s THEN greatest(canary_started_at, %(now)s) ELSE canary_started_at END
WHERE id = %(id)s RETURNING {COLUMNS}
"""  # noqa: S608


def change_state(
    connection: Connection, operation_id: UUID, command: OperationCommand, *, version: int, actor: str, now: datetime
) -> Operation:
    """Pause, resume or cancel an operation, and add an audit entry.

    Items that were already started are still processed. The last of them is due within 75 seconds. After a resume, the
    wait for a canary starts over.

    Raises:
        OperationNotFoundError: the tenant has no such operation.
        VersionConflictError: the operation is not at `version`.
        OperationStateError: the operation has ended, is already paused, or cannot be resumed because it is not paused.
    """
    operation = _lock(connection, operation_id, version)
    states: dict[OperationCommand, State] = {
        "pause": "paused",
        "resume": operation.active_state,
        "cancel": "canceled",
    }
    is_allowed = command == "cancel" or (operation.state == "paused") == (command == "resume")
    if not is_allowed:
        raise OperationStateError(f"The operation is {operation.state}.")
    values = {
        "id": operation_id,
        "state": states[command],
        "ended": now if command == "cancel" else None,
        "resumed": command == "resume" and operation.canary_started_at is not None,
        "now": now,
    }
    (row,) = connection.execute(_CHANGE.encode(), values).fetchall()
    changed = Operation(*row)
    record(connection, changed, command, actor, now)
    return changed


_CHANGE_RATE = f"""
UPDATE operation SET rate = %s, version = version + 1 WHERE id = %s RETURNING {COLUMNS}
"""  # noqa: S608  # the columns of the dataclass


def change_rate(
    connection: Connection, operation_id: UUID, rate: int, *, version: int, actor: str, now: datetime
) -> Operation:
    """Change an operation's rate, and add an audit entry.

    Items that were already started keep their due times, so the previous rate applies for up to 75 seconds.

    Raises:
        OperationNotFoundError: the tenant has no such operation.
        VersionConflictError: the operation is not at `version`.
        OperationStateError: the operation has ended.
        RejectedRequestError: the action has no rate, or the rate is out of bounds.
    """
    operation = _lock(connection, operation_id, version)
    _check_rate(operation.action, rate)
    (row,) = connection.execute(_CHANGE_RATE.encode(), [rate, operation_id]).fetchall()
    changed = Operation(*row)
    record(connection, changed, "rate", actor, now, {"rate": rate, "rate_before": operation.rate})
    return changed


def _lock(connection: Connection, operation_id: UUID, version: int) -> Operation:
    """Lock and return an operation that has not ended.

    Raises the same errors as `change_state`.
    """
    operation = show(connection, operation_id, lock=True)
    if operation.version != version:
        raise VersionConflictError(f"The operation has changed: it is at version {operation.version}.")
    if operation.ended_at is not None:
        raise OperationStateError(f"The operation is {operation.state}.")
    return operation


# -- retention --------------------------------------------------------------------------------------------------------

_UNFINISHED = """
SELECT id, tenant_id, action FROM operation WHERE state IN ('selecting', 'canary', 'running') ORDER BY requested_at, id
"""


def unfinished(connection: Connection) -> list[tuple[UUID, UUID, Action]]:
    """Return the ids, tenants and actions of all active operations, oldest first.

    Runs as the delivery role.
    """
    return connection.execute(_UNFINISHED).fetchall()


_EXPIRED = "SELECT id FROM operation WHERE ended_at < %s ORDER BY ended_at LIMIT 1"
_DELETE_ITEMS = """
DELETE FROM operation_item WHERE operation_id = %(id)s AND number = ANY (ARRAY(
    SELECT number FROM operation_item WHERE operation_id = %(id)s ORDER BY number LIMIT %(limit)s))
"""
_DELETE = "DELETE FROM operation WHERE id = %s"


def delete_expired(connection: Connection, now: datetime, *, batch_size: int = DELETE_BATCH_SIZE) -> int:
    """Delete the operation that ended earliest, if its retention has expired.

    Runs as counterfoil_maintenance. Each call deletes at most `batch_size` of its items. The last of these calls also
    deletes the operation. Returns the number of deleted operations, 0 or 1.
    """
    row = connection.execute(_EXPIRED, [now - RETENTION]).fetchone()
    if row is None:
        return 0
    deleted = connection.execute(_DELETE_ITEMS, {"id": row[0], "limit": batch_size}).rowcount
    return connection.execute(_DELETE, row).rowcount if deleted < batch_size else 0
