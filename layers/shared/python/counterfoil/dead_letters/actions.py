"""Actions on one dead letter: retry, resolve, ignore, and edit a task's payload.

Each action is one transaction: a compare-and-set on the version and the pending status, the effects, the dead letter's
own history, and one audit entry. Bulk operations use `enqueue_retry`, and write one audit entry for all dead letters.
Locks are taken in the same order as in delivery: work item, dead letter, audit trail. Tenant None means
unassigned dead letters, which are changed as the delivery role.

An edit stores the changed fields in the dead letter, with the values before and after. The audit trail contains only
hashes of these values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import Field, JsonValue

from counterfoil import audit
from counterfoil.audit import AuditRecord
from counterfoil.db import Connection, Database, retry_on_conflict
from counterfoil.dead_letters.search import Status, transaction
from counterfoil.delivery.dead_letter import ClosedStatus, close_pending
from counterfoil.delivery.dead_letter import audit as add_audit_entry
from counterfoil.delivery.work import OutboxMessage, enqueue_raw_body, start_revision
from counterfoil.errors import ConflictError, InvalidSettingsError, RejectedRequestError, VersionConflictError
from counterfoil.kinds import WORK_KINDS
from counterfoil.settings import Settings
from counterfoil.tasks import payloads
from counterfoil.tasks import store as tasks
from counterfoil.tasks.payloads import Payload
from counterfoil.tasks.store import TaskInput
from counterfoil.tasks.task_type import TaskType
from counterfoil.tasks.types import TYPES

MAX_NOTE_CHARS = 2000


class DeadLetterNotFoundError(RejectedRequestError):
    """The tenant has no such dead letter."""


class NotPendingError(RejectedRequestError):
    """The dead letter is closed."""


class NotRetryableError(RejectedRequestError):
    """The dead letter cannot be retried.

    For example, its work item was deleted or restarted.
    """


@dataclass(frozen=True)
class ChangeRequest:
    """A change to a dead letter, with the version that the caller read."""

    job_id: UUID
    version: int | None
    """Version that the caller read, or None to change any version."""
    actor: str
    now: datetime
    note: str | None = None

    def to_audit_record(self, action: str, version: int, detail: Mapping[str, Any]) -> AuditRecord:
        """Return the audit entry for this change.

        `version` is the dead letter's new version.
        """
        targets = [str(self.job_id)]
        return AuditRecord(self.actor, action, targets, self.now, self.note, version - 1, version, detail)


@dataclass(frozen=True)
class ChangeResult:
    """Result of a change."""

    version: int
    messages: Sequence[OutboxMessage] = ()
    """Outbox messages to send after the commit."""


@dataclass(frozen=True)
class LockedDeadLetter:
    """Fields of a dead letter that are required to change it."""

    worker: str
    work_id: UUID | None
    revision: int | None
    status: Status
    version: int
    payload: Mapping[str, Any]
    edited_payload: dict[str, Any] | None


_SELECT_DEAD_LETTER = """
SELECT worker, work_id, revision, status, version, payload,
    CASE WHEN NOT edit_metadata ? 'closed_as' THEN edited_payload END
FROM dead_letter WHERE job_id = %s AND tenant_id IS NOT DISTINCT FROM %s::uuid AND purged_at IS NULL
"""


def find(connection: Connection, tenant_id: UUID | None, job_id: UUID, *, lock: bool = False) -> LockedDeadLetter:
    """Return a dead letter. With `lock`, it cannot change until the transaction ends.

    Raises:
        DeadLetterNotFoundError: the tenant has no dead letter with this id.
    """
    statement = f"{_SELECT_DEAD_LETTER} FOR NO KEY UPDATE" if lock else _SELECT_DEAD_LETTER
    row = connection.execute(statement.encode(), [job_id, tenant_id]).fetchone()
    if row is None:
        raise DeadLetterNotFoundError("There is no such dead letter.")
    return LockedDeadLetter(*row)


def lock_for_change(
    connection: Connection, tenant_id: UUID | None, request: ChangeRequest, *, lock: bool = False
) -> LockedDeadLetter:
    """Return a dead letter that can be changed.

    With `lock`, it cannot change until the transaction ends.

    Raises:
        DeadLetterNotFoundError, VersionConflictError, NotPendingError: the dead letter cannot be changed.
    """
    dead_letter = find(connection, tenant_id, request.job_id, lock=lock)
    if request.version not in {None, dead_letter.version}:
        raise VersionConflictError(f"Someone else changed the dead letter: it is at version {dead_letter.version}.")
    if dead_letter.status != "pending":
        raise NotPendingError(f"The dead letter is already {dead_letter.status}.")
    return dead_letter


# -- retry ------------------------------------------------------------------------------------------------------------


def retry(database: Database, tenant_id: UUID | None, request: ChangeRequest, *, bucket: str | None) -> ChangeResult:
    """Retry a dead letter in a separate transaction.

    The caller sends the returned messages afterwards.

    `bucket` is the S3 bucket for an edited payload that is too large for a message.

    Raises:
        DeadLetterNotFoundError, VersionConflictError, NotPendingError, NotRetryableError: nothing was changed.
        RejectedRequestError: the note is empty or too long.
        InvalidPayloadError: the edited payload is no longer valid for its task type.
        InvalidSettingsError: a bucket is required, but not configured.
        ConflictError, DatabaseUnavailableError, ServiceUnavailableError: the failure is temporary; call again.
    """

    def run_once() -> ChangeResult:
        with transaction(database, tenant_id) as connection:
            dead_letter = lock_for_change(connection, tenant_id, request)
        payload_s3_key = _store_edited_payload(database, tenant_id, dead_letter, bucket)
        expected = replace(request, version=dead_letter.version)
        try:
            with transaction(database, tenant_id) as connection:
                result = enqueue_retry(connection, tenant_id, expected, dead_letter, payload_s3_key=payload_s3_key)
                revisions = {"revision": result.messages[0].message.revision}
                audit.record(connection, tenant_id, expected.to_audit_record("retried", result.version, revisions))
                return result
        except VersionConflictError as error:
            if request.version is not None:
                raise
            raise ConflictError("The dead letter changed at the same time") from error

    return retry_on_conflict(run_once)


def store_large_payload(
    database: Database, tenant_id: UUID | None, request: ChangeRequest, bucket: str | None
) -> str | None:
    """Upload a dead letter's edited payload if it is large, and return its key.

    Returns None if the payload is small or was not edited. Raises the same errors as `retry`.
    """
    with transaction(database, tenant_id) as connection:
        dead_letter = lock_for_change(connection, tenant_id, request)
    return _store_edited_payload(database, tenant_id, dead_letter, bucket)


def _store_edited_payload(
    database: Database, tenant_id: UUID | None, dead_letter: LockedDeadLetter, bucket: str | None
) -> str | None:
    if dead_letter.edited_payload is None or dead_letter.work_id is None or tenant_id is None:
        return None
    return tasks.store_large_payload(database, tenant_id, dead_letter.work_id, dead_letter.edited_payload, bucket)


def enqueue_retry(
    connection: Connection,
    tenant_id: UUID | None,
    request: ChangeRequest,
    dead_letter: LockedDeadLetter | None = None,
    *,
    payload_s3_key: str | None = None,
    scheduled_at: datetime | None = None,
) -> ChangeResult:
    """Close a dead letter as retried, and start a new revision of its work item.

    If the dead letter has no work item, its message is sent again instead. Runs in the caller's transaction. The caller
    writes the audit entry. If `dead_letter` is None, the function reads it. `payload_s3_key` is the result of
    `store_large_payload`. `scheduled_at` is the message's due time, by default now. Raises the same errors as `retry`.
    """
    if dead_letter is None:
        dead_letter = lock_for_change(connection, tenant_id, request)
    if dead_letter.work_id is None:
        body = _message_body(dead_letter)
        version = close(connection, tenant_id, request, "retried")
        destination = (dead_letter.worker, tenant_id, request.job_id, version)
        return ChangeResult(
            version, [enqueue_raw_body(connection, *destination, body, request.now, scheduled_at=scheduled_at)]
        )
    work_id = dead_letter.work_id
    state, revision = _lock_work_item(connection, dead_letter.worker, work_id)
    dead_letter = lock_for_change(connection, tenant_id, request, lock=True)
    if (state, revision) != ("failed", dead_letter.revision):
        raise NotRetryableError(not_failed_reason(state))
    if dead_letter.edited_payload is not None:
        _check_payload(connection, work_id, dead_letter.edited_payload)
    version = close(connection, tenant_id, request, "retried")
    if dead_letter.edited_payload is not None:
        tasks.replace_payload(connection, work_id, dead_letter.edited_payload, payload_s3_key)
    return ChangeResult(
        version, start_revision(connection, dead_letter.worker, [work_id], request.now, scheduled_at=scheduled_at)
    )


DELETED_REASON = "gone"
"""State of a work item that no longer exists."""
_NOT_FAILED_REASONS = {
    DELETED_REASON: "Its work item no longer exists. Resolve or ignore the dead letter.",
    None: "The work item was canceled or skipped. Resolve or ignore the dead letter.",
    "pending": "The work item was restarted and is pending.",
    "in-progress": "The work item was restarted and is in progress.",
    "succeeded": "The work item has succeeded. Resolve the dead letter.",
}


def not_failed_reason(state: str | None) -> str:
    """Return the user-facing reason why a work item in this state cannot be retried."""
    return _NOT_FAILED_REASONS.get(state, "The work item was restarted.")


_LOCK_WORK_ITEM = "SELECT {status}, {revision} FROM {table} WHERE id = %(id)s FOR NO KEY UPDATE"


def _lock_work_item(connection: Connection, worker: str, work_id: UUID) -> tuple[str | None, int]:
    """Lock a work item until the transaction ends, and return its state and revision."""
    kind = WORK_KINDS.get(worker)
    row = None if kind is None else connection.execute(kind.sql(_LOCK_WORK_ITEM), {"id": work_id}).fetchone()
    return (DELETED_REASON, 0) if row is None else (row[0], row[1])


def _check_payload(connection: Connection, task_id: UUID, payload: dict[str, Any]) -> None:
    """Validate the payload against its task type's current schema."""
    task_input = tasks.load_input(connection, task_id)
    type_ = None if task_input is None else TYPES.get(task_input.task_type)
    if type_ is None:
        raise NotRetryableError("The task type no longer exists. Resolve or ignore the dead letter.")
    type_.read(payload)


def _message_body(dead_letter: LockedDeadLetter) -> str:
    """Return the stored body of an unreadable message, to send it again.

    Raises:
        NotRetryableError: SQS cannot accept the body, or the worker no longer exists.
    """
    body = dead_letter.payload.get("body")
    if (
        dead_letter.worker not in WORK_KINDS
        or not isinstance(body, str)
        or dead_letter.payload.get("encoding") != "text"
    ):
        raise NotRetryableError("The message cannot be sent to SQS. Resolve or ignore the dead letter.")
    return body


# -- closing ----------------------------------------------------------------------------------------------------------


def resolve(database: Database, tenant_id: UUID | None, request: ChangeRequest) -> ChangeResult:
    """Close a dead letter whose failure was handled without a retry. Requires a note.

    Raises:
        DeadLetterNotFoundError, VersionConflictError, NotPendingError: nothing was changed.
        RejectedRequestError: the note is missing or too long.
        ConflictError, DatabaseUnavailableError: the failure is temporary; call again.
    """
    return _close(database, tenant_id, request, "resolved")


def ignore(database: Database, tenant_id: UUID | None, request: ChangeRequest) -> ChangeResult:
    """Close a dead letter without action.

    Requires a note. Raises the same errors as `resolve`.
    """
    return _close(database, tenant_id, request, "ignored")


def _close(
    database: Database, tenant_id: UUID | None, request: ChangeRequest, status: Literal["resolved", "ignored"]
) -> ChangeResult:
    def run_once() -> ChangeResult:
        with transaction(database, tenant_id) as connection:
            version = close(connection, tenant_id, request, status)
            audit.record(connection, tenant_id, request.to_audit_record(status, version, {}))
            return ChangeResult(version)

    return retry_on_conflict(run_once)


def close(connection: Connection, tenant_id: UUID | None, request: ChangeRequest, status: ClosedStatus) -> int:
    """Close a dead letter, add an entry to its history, and return its new version.

    Runs in the caller's transaction. The caller writes the audit entry. Raises the same errors as `resolve`.
    """
    _check_note(request.note, is_required=status != "retried")
    lock_for_change(connection, tenant_id, request, lock=True)
    versions = close_pending(connection, [request.job_id], status, request.now, actor=request.actor, note=request.note)
    return versions[request.job_id]


def _check_note(note: str | None, *, is_required: bool) -> None:
    if note is None and not is_required:
        return
    if note is None or not note.strip():
        raise RejectedRequestError("A note is required: give a reason.")
    if len(note) > MAX_NOTE_CHARS:
        raise RejectedRequestError(f"The note is longer than {MAX_NOTE_CHARS} characters.")


MAX_EDITS = 20
"""Maximum number of edits stored per dead letter."""


class PayloadNotEditableError(RejectedRequestError):
    """The dead letter has no editable payload."""


@dataclass(frozen=True)
class PayloadEdit:
    """One edit of a payload."""

    by: str
    at: datetime
    note: str | None
    before: Annotated[Mapping[str, JsonValue], Field(description="Original values of the changed fields.")]
    after: Annotated[
        Mapping[str, JsonValue],
        Field(description="Edited values of the changed fields. If both are empty, the edit undid all earlier edits."),
    ]


@dataclass(frozen=True)
class EditablePayload:
    """A failed task's payload, with its edits."""

    type: TaskType
    original: Payload
    """Payload of the failed attempt."""
    edited: Payload | None
    """Payload for the next attempt, or None if it is the original payload."""
    version: int
    """Version of the dead letter."""
    edits: Sequence[PayloadEdit]
    """Edits, newest first. They remain stored after the dead letter is closed."""


def changed_fields(before: Payload, after: Payload) -> list[str]:
    """Return the names of fields that were added, removed or changed."""
    return [
        name
        for name in sorted({*before, *after})
        if name not in before
        or name not in after
        or payloads.to_canonical_json(before[name]) != payloads.to_canonical_json(after[name])  # True == 1 in Python
    ]


def show_payload(database: Database, tenant_id: UUID, job_id: UUID, *, bucket: str | None) -> EditablePayload:
    """Return the payload of a dead letter's task with its edits.

    Raises:
        DeadLetterNotFoundError: the tenant has no such dead letter.
        PayloadNotEditableError: the dead letter has no editable payload.
        ServiceUnavailableError, DatabaseUnavailableError: the failure is temporary; call again.
    """
    with database.tenant(tenant_id) as connection:
        dead_letter = find(connection, tenant_id, job_id)
        task_input = _load_task_input(connection, dead_letter)
        edits = _load_edits(connection, job_id)
    return _to_editable(dead_letter, task_input, edits, bucket)


def _to_editable(
    dead_letter: LockedDeadLetter, task_input: TaskInput | None, edits: Sequence[JsonValue], bucket: str | None
) -> EditablePayload:
    type_ = None if task_input is None else TYPES.get(task_input.task_type)
    if task_input is None or type_ is None:
        raise PayloadNotEditableError("The dead letter is not for a task. Only payloads of tasks can be edited.")
    if type_.is_private or type_.on_accept is not None:
        raise PayloadNotEditableError(f"The payload of a {type_.name} belongs to its user and cannot be edited.")
    original, edited = _load_payload(task_input, bucket), dead_letter.edited_payload
    if edited is not None and not changed_fields(original, edited):
        edited = None  # the edit was undone
    return EditablePayload(type_, original, edited, dead_letter.version, [_to_edit(edit) for edit in edits])


_SELECT_EDITS = "SELECT edit_metadata FROM dead_letter WHERE job_id = %s AND edit_metadata IS NOT NULL"


def _load_edits(connection: Connection, job_id: UUID) -> list[JsonValue]:
    """Return a dead letter's stored edits, newest first.

    Each edit can be as large as a payload.
    """
    row = connection.execute(_SELECT_EDITS, [job_id]).fetchone()
    if row is None:
        return []
    latest = {name: value for name, value in row[0].items() if name not in {"earlier", "closed_as"}}
    return [latest, *row[0].get("earlier", ())]


def _to_edit(stored: Any) -> PayloadEdit:
    return PayloadEdit(**{**stored, "at": datetime.fromisoformat(stored["at"])})


def edit_payload(
    database: Database,
    tenant_id: UUID,
    request: ChangeRequest,
    payload: Payload,
    *,
    bucket: str | None,
    settings: Settings,
) -> ChangeResult:
    """Replace the payload for a task's next attempt.

    Pass the original payload to undo all edits.

    Raises:
        DeadLetterNotFoundError, VersionConflictError, NotPendingError: the dead letter cannot be changed.
        InvalidPayloadError, TooLargeError: the payload is invalid or too large.
        RejectedRequestError: the payload is unchanged, or the task type rejects it.
        PayloadNotEditableError: see `show_payload`.
    """
    with database.tenant(tenant_id) as connection:
        dead_letter = lock_for_change(connection, tenant_id, request)
        task_input = _load_task_input(connection, dead_letter)
        edits = _load_edits(connection, request.job_id)
    editable = _to_editable(dead_letter, task_input, edits, bucket)
    payloads.validate_size(payload)
    form = editable.type.read(payload)
    if editable.type.check is not None:
        editable.type.check(form, settings)
    fields = changed_fields(editable.original, payload)
    if not fields and editable.edited is None:
        raise RejectedRequestError("The payload has no changes.")
    edit: dict[str, JsonValue] = {
        "by": request.actor,
        "at": request.now.isoformat(),
        "note": request.note,
        "before": {name: editable.original[name] for name in fields if name in editable.original},
        "after": {name: payload[name] for name in fields if name in payload},
        "earlier": edits[: MAX_EDITS - 1],
    }

    def run_once() -> ChangeResult:
        with database.tenant(tenant_id) as connection:
            version = _save_edit(connection, tenant_id, request, payload, edit)
            hash_field = partial(_hash_field, partial(audit.hmac_digest, connection, tenant_id), editable, payload)
            detail = {"changes": [hash_field(name) for name in fields]}
            audit.record(connection, tenant_id, request.to_audit_record("edited", version, detail))
            return ChangeResult(version)

    return retry_on_conflict(run_once)


_SAVE_EDIT = """
UPDATE dead_letter SET edited_payload = %(payload)s, edit_metadata = %(edit)s, version = version + 1
WHERE job_id = %(job_id)s AND version = %(version)s AND status = 'pending' AND purged_at IS NULL
RETURNING version
"""


def _save_edit(
    connection: Connection, tenant_id: UUID, request: ChangeRequest, payload: Payload, edit: Mapping[str, JsonValue]
) -> int:
    values = {
        "job_id": request.job_id,
        "version": request.version,
        "payload": Jsonb(payload),
        "edit": Jsonb(edit),
    }
    row = connection.execute(_SAVE_EDIT, values).fetchone()
    if row is None:
        lock_for_change(connection, tenant_id, request)
        raise VersionConflictError("The dead letter has changed since it was read.")
    add_audit_entry(connection, request.job_id, tenant_id, "edited", request.actor, {"version": row[0]}, request.now)
    return int(row[0])


def _hash_field(
    hmac: Callable[[bytes], bytes], editable: EditablePayload, after: Payload, name: str
) -> dict[str, str | None]:
    """Return a changed field's name and the hashes of its values before and after.

    The result is for the audit trail. The names of unknown fields are hashed too.
    """

    def digest(value: JsonValue) -> str:
        return hmac(payloads.to_canonical_json(value)).hex()

    before = editable.original
    return {
        "path": f"/{name}" if name in editable.type.payload.model_fields else f"hmac:{digest(name)}",
        "before_hash": digest(before[name]) if name in before else None,
        "after_hash": digest(after[name]) if name in after else None,
    }


def _load_task_input(connection: Connection, dead_letter: LockedDeadLetter) -> TaskInput | None:
    if dead_letter.worker != tasks.WORKER or dead_letter.work_id is None:
        return None
    return tasks.load_input(connection, dead_letter.work_id)


def _load_payload(task_input: TaskInput, bucket: str | None) -> Payload:
    if task_input.payload is not None:
        return task_input.payload
    if bucket is None:
        raise InvalidSettingsError("UPLOADS_BUCKET is not set. Large payloads require a bucket.")
    assert task_input.payload_s3_key is not None  # the row has either a payload or its key
    return payloads.read(bucket, task_input.payload_s3_key)
