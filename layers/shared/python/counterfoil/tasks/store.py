"""Submits, reads, lists and cancels tasks in PostgreSQL.

An idempotency key creates at most one task.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID, uuid4

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from counterfoil import audit
from counterfoil.audit import AuditRecord
from counterfoil.db import Connection, Database, retry_on_conflict
from counterfoil.delivery.work import (
    CURRENT_SCHEMA_VERSION,
    MAX_INT,
    Message,
    OutboxMessage,
    ParsedMessage,
    enqueue,
    parse_json_body,
    wake_dependents,
)
from counterfoil.errors import InvalidMessageError, InvalidSettingsError, RejectedRequestError, ServiceUnavailableError
from counterfoil.settings import Settings
from counterfoil.tasks import payloads
from counterfoil.tasks.kinds import TASKS
from counterfoil.tasks.task_type import AcceptedTask, TaskType
from counterfoil.validation import ValidationProblem, validate


class LastError(BaseModel):
    """Error from the last attempt."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    type: str | None = None
    message: str | None = None
    timestamp: datetime | None = None
    context: dict[str, JsonValue] | None = None


class Metadata(BaseModel):
    """Metadata of a task in a message."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    created_at: datetime
    retry_count: int = Field(ge=0, le=MAX_INT)
    max_retry: int = Field(ge=0, le=MAX_INT)
    last_error: LastError | None = None
    last_retry_at: datetime | None = None
    idempotency_key: str | None = None


class TaskMessage(BaseModel):
    """Body of a message for a task."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schema_version: int = Field(default=CURRENT_SCHEMA_VERSION, ge=1, le=CURRENT_SCHEMA_VERSION)
    job_id: UUID
    task_type: str
    payload: dict[str, JsonValue]
    metadata: Metadata
    revision: int = Field(ge=1, le=MAX_INT)
    send_number: int = Field(ge=0, le=MAX_INT)


def read_task_message(body: str) -> ParsedMessage:
    """Parse the body of a message for a task.

    Raises:
        InvalidMessageError: the message is permanently invalid.
        UnsupportedSchemaError: the message has a newer schema version than this code.
    """
    message = validate(TaskMessage, parse_json_body(body), _invalid_message)
    return ParsedMessage([Message(work_id=message.job_id, revision=message.revision, send_number=message.send_number)])


_FIELDS = {name for form in (TaskMessage, Metadata, LastError) for name in form.model_fields}


def _invalid_message(problem: ValidationProblem) -> InvalidMessageError:
    # Only known field names may be quoted, because all other names come from the sender.
    fields = [str(part) for part in problem.location if part in _FIELDS]
    return InvalidMessageError(f"The message is invalid at {'.'.join(fields) or 'a field'}: {problem.message}")


WORKER = "tasks"
MAX_RETRY_LIMIT = 20
MAX_KEY_CHARS = 255
"""Maximum length of an idempotency key or a user id."""

Status = Literal["pending", "in-progress", "succeeded", "failed", "canceled"]


class IdempotencyKeyConflictError(RejectedRequestError):
    """The idempotency key belongs to another request."""


class TaskFinishedError(RejectedRequestError):
    """The task has ended and cannot be canceled."""


@dataclass(frozen=True)
class TaskRequest:
    """A validated request from `build_request`."""

    type: TaskType
    form: BaseModel
    payload: payloads.Payload
    content: bytes
    """Canonical JSON of the payload."""
    max_retry: int
    idempotency_key: str
    user_id: str | None
    settings: Settings
    digest: bytes
    """Hash that distinguishes requests with the same idempotency key."""


@dataclass(frozen=True)
class TaskSummary:
    """A task in a list."""

    job_id: UUID
    tenant: str
    task_type: str
    status: Status
    max_retry: int
    idempotency_key: str
    user_id: str | None
    created_at: datetime
    attempts: int
    error: Annotated[str | None, Field(description="Error from the last failed attempt.")]
    next_attempt_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True)
class Task(TaskSummary):
    """A task with its result."""

    result: JsonValue


@dataclass(frozen=True)
class TaskAttempt:
    """An attempt that has ended."""

    revision: int
    attempt: int
    started_at: datetime
    ended_at: datetime
    outcome: Literal["succeeded", "skipped", "retry", "deferred", "failed", "worker_lost"]
    error: str | None
    next_attempt_at: datetime | None


@dataclass(frozen=True)
class SubmittedTask:
    """Result of `submit`."""

    task: Task
    is_new: bool
    """Whether this request created the task. False if an earlier request with the same key created it."""
    messages: Sequence[OutboxMessage]
    """Outbox messages to send after the commit."""


def build_request(
    type_: TaskType,
    payload: payloads.Payload,
    *,
    max_retry: int | None = None,
    idempotency_key: str | None = None,
    user_id: str | None = None,
    settings: Settings | None = None,
) -> TaskRequest:
    """Validate a request to submit a task.

    By default, `max_retry` is the configured limit, `idempotency_key` is a new UUID, and `settings` are read from the
    environment.

    Raises:
        InvalidPayloadError: the payload does not match its type's schema.
        TooLargeError: the payload exceeds the size limit.
        RejectedRequestError: the payload cannot be stored or cannot run in this deployment, or another value is out of
            range.
    """
    if max_retry is not None and not 0 <= max_retry <= MAX_RETRY_LIMIT:
        raise RejectedRequestError(f"max_retry must be between 0 and {MAX_RETRY_LIMIT}.")
    for name, value in (("idempotency_key", idempotency_key), ("The subject of the token", user_id)):
        if value is not None and not (1 <= len(value) <= MAX_KEY_CHARS and value.isprintable()):
            raise RejectedRequestError(f"{name} must have 1 to {MAX_KEY_CHARS} printable characters.")
    content = payloads.validate_size(payload)
    form = type_.read(payload)
    settings = settings or Settings()
    if type_.check is not None:
        type_.check(form, settings)
    return TaskRequest(
        type_,
        form,
        payload,
        content,
        settings.retry_max_attempts if max_retry is None else max_retry,
        idempotency_key or str(uuid4()),
        user_id,
        settings,
        payloads.digest(type_.name, payload, max_retry),
    )


# -- submit -----------------------------------------------------------------------------------------------------------

_COLUMNS = """id, (SELECT slug FROM tenant WHERE id = tenant_id), task_type,
    CASE WHEN status IS NULL THEN 'canceled' ELSE status END, max_retry, idempotency_key, user_id, created_at,
    attempts, error, next_attempt_at, CASE WHEN status = 'failed' THEN failed_at ELSE ended_at END"""
_BY_KEY = f"SELECT payload_hash, {_COLUMNS}, result FROM task WHERE idempotency_key = %s"  # noqa: S608  # only column names
_BY_ID = f"SELECT {_COLUMNS}, result FROM task WHERE id = %s"  # noqa: S608  # only column names
_INSERT = """
INSERT INTO task (id, tenant_id, task_type, payload, payload_s3_key, payload_hash, max_retry, idempotency_key, user_id,
                  created_at, revision, claim_token)
VALUES (%(id)s, %(tenant)s, %(type)s, %(payload)s::jsonb, %(payload_s3_key)s, %(hash)s, %(max_retry)s, %(key)s,
        %(user)s, %(now)s, 1, nextval('claim_token'))
ON CONFLICT (tenant_id, idempotency_key) DO NOTHING
RETURNING revision, send_number
"""
# A payload is scheduled for deletion before it is written, and its entry is removed when the task is accepted. The
# entry becomes due after a day. No transaction takes that long, so a due entry cannot belong to a submission in
# progress.
_SCHEDULE_DELETION = "INSERT INTO payload_deletion (key, tenant_id, due_at) VALUES (%s, %s, now() + interval '1 day')"
_CANCEL_DELETION = "DELETE FROM payload_deletion WHERE key = %s AND due_at > now() + interval '1 hour'"


def submit(
    database: Database, tenant_id: UUID, request: TaskRequest, now: datetime, *, bucket: str | None
) -> SubmittedTask:
    """Accept a task, or return the task that was accepted with the same key.

    Concurrent requests with the same key create only one row and one message, because the key is unique. `bucket` is
    the S3 bucket for payloads that are too large for a message.

    Raises:
        IdempotencyKeyConflictError: a different request, or another user, has used this key.
        RejectedRequestError: the task type rejects the task.
        InvalidSettingsError: the payload is large, and no bucket is configured.
        ServiceUnavailableError, DatabaseUnavailableError: the task was probably not accepted; submit it again.
    """
    job_id = uuid4()
    payload_s3_key = None
    if not payloads.fits_inline(request.payload):
        if bucket is None:
            raise InvalidSettingsError("UPLOADS_BUCKET is not set. Large payloads require a bucket.")
        payload_s3_key = payloads.payload_key(tenant_id, job_id)
        # A repeated request must not write a second object. If requests are concurrent, only one is inserted.
        submitted = _find_or_schedule_deletion(database, tenant_id, request, payload_s3_key)
        if submitted is not None:
            return submitted
        payloads.write(bucket, payload_s3_key, request.content)

    def run_once() -> SubmittedTask:
        with database.tenant(tenant_id) as connection:
            return _submit(connection, tenant_id, job_id, request, now, payload_s3_key)

    return retry_on_conflict(run_once)


def _submit(
    connection: Connection,
    tenant_id: UUID,
    job_id: UUID,
    request: TaskRequest,
    now: datetime,
    payload_s3_key: str | None,
) -> SubmittedTask:
    values = {
        "id": job_id,
        "tenant": tenant_id,
        "type": request.type.name,
        "payload": None if payload_s3_key else request.content.decode(),
        "payload_s3_key": payload_s3_key,
        "hash": request.digest,
        "max_retry": request.max_retry,
        "key": request.idempotency_key,
        "user": request.user_id,
        "now": now,
    }
    inserted = connection.execute(_INSERT, values).fetchone()
    if inserted is None:
        submitted = _find_by_key(connection, request)
        if submitted is None:  # the task was deleted concurrently
            raise IdempotencyKeyConflictError("The task with this idempotency_key was just deleted. Submit it again.")
        return submitted
    if payload_s3_key is not None and connection.execute(_CANCEL_DELETION, [payload_s3_key]).rowcount == 0:
        raise ServiceUnavailableError("The uploaded payload has expired. Submit the task again.")
    if request.type.on_accept is not None:
        accepted = AcceptedTask(job_id, tenant_id, request.user_id, now, request.settings)
        request.type.on_accept(connection, accepted, request.form)
    messages = enqueue(connection, TASKS, [(job_id, tenant_id, *inserted)], now, now)
    task = show(connection, job_id)
    assert task is not None  # this transaction inserted it
    return SubmittedTask(task, is_new=True, messages=messages)


def _find_or_schedule_deletion(
    database: Database, tenant_id: UUID, request: TaskRequest, payload_s3_key: str
) -> SubmittedTask | None:
    """Return the task that was accepted with the same key, if any.

    Otherwise schedule the deletion of the payload that the caller will write.
    """
    with database.tenant(tenant_id) as connection:
        submitted = _find_by_key(connection, request)
        if submitted is None:
            connection.execute(_SCHEDULE_DELETION, [payload_s3_key, tenant_id])
        return submitted


def _find_by_key(connection: Connection, request: TaskRequest) -> SubmittedTask | None:
    """Return the task that was accepted with the request's key, if any.

    Raises:
        IdempotencyKeyConflictError: the accepted task has a different request or user.
    """
    row = connection.execute(_BY_KEY, [request.idempotency_key]).fetchone()
    if row is None:
        return None
    submitted = SubmittedTask(Task(*row[1:]), is_new=False, messages=())
    if (bytes(row[0]), submitted.task.user_id) != (request.digest, request.user_id):
        raise IdempotencyKeyConflictError(
            "This idempotency_key belongs to another request. Use a new one for each task."
        )
    return submitted


# -- read -------------------------------------------------------------------------------------------------------------


def show(connection: Connection, job_id: UUID) -> Task | None:
    """Return a task with its result, in a transaction of its tenant."""
    row = connection.execute(_BY_ID, [job_id]).fetchone()
    return None if row is None else Task(*row)


def list_attempts(connection: Connection, job_id: UUID, *, limit: int | None = None) -> list[TaskAttempt]:
    """Return the last `limit` attempts at a task (default: all), oldest first.

    Runs in a transaction of the task's tenant.
    """
    rows = connection.execute(
        """
        SELECT revision, number, started_at, ended_at, outcome, error, next_attempt_at FROM work_attempt
        WHERE work_id = %s AND worker = %s ORDER BY ended_at DESC, id DESC LIMIT %s
        """,
        [job_id, WORKER, limit],
    ).fetchall()
    return [TaskAttempt(*row) for row in reversed(rows)]


def find_dead_letter(connection: Connection, job_id: UUID) -> UUID | None:
    """Return the id of the task's dead letter, or None if it is purged or missing.

    Runs in a transaction of the task's tenant.
    """
    row = connection.execute(
        "SELECT job_id FROM dead_letter WHERE job_id = %s AND purged_at IS NULL", [TASKS.job_id(job_id)]
    ).fetchone()
    return None if row is None else UUID(str(row[0]))


@dataclass(frozen=True)
class TaskFilter:
    """Filters for a list of tasks. None permits every value."""

    status: Status | None = None
    task_type: str | None = None
    created_from: datetime | None = None
    created_until: datetime | None = None
    """Exclusive upper bound."""
    user_id: str | None = None
    after: tuple[datetime, UUID] | None = None
    """Creation time and id of the last task on the previous page."""


_LIST = f"""
SELECT {_COLUMNS} FROM task
WHERE (%(all_states)s OR status IS NOT DISTINCT FROM %(status)s)
  AND (%(type)s::text IS NULL OR task_type = %(type)s)
  AND (%(from)s::timestamptz IS NULL OR created_at >= %(from)s)
  AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s)
  AND (%(user)s::text IS NULL OR user_id = %(user)s)
  AND (%(after_at)s::timestamptz IS NULL OR (created_at, id) < (%(after_at)s, %(after_id)s::uuid))
ORDER BY created_at DESC, id DESC LIMIT %(limit)s
"""  # noqa: S608  # only column names


def page(connection: Connection, filter_: TaskFilter, limit: int) -> list[TaskSummary]:
    """Return the next page of tasks, newest first, in a transaction of their tenant."""
    after_at, after_id = filter_.after or (None, None)
    values = {
        "all_states": filter_.status is None,
        "status": None if filter_.status == "canceled" else filter_.status,
        "type": filter_.task_type,
        "from": filter_.created_from,
        "until": filter_.created_until,
        "user": filter_.user_id,
        "after_at": after_at,
        "after_id": after_id,
        "limit": limit,
    }
    return [TaskSummary(*row) for row in connection.execute(_LIST, values)]


# -- cancel -----------------------------------------------------------------------------------------------------------

# The new claim token makes an attempt in progress stale, so the attempt cannot write its effects.
_CANCEL_ALL = """
UPDATE task SET status = NULL, skip_reason = %(reason)s, canceled_at = %(now)s, ended_at = %(now)s,
    claim_token = nextval('claim_token'), claimed_at = NULL, lease_expires_at = NULL, next_attempt_at = NULL
WHERE id = ANY(%(ids)s) AND status IN ('pending', 'in-progress')
"""
_CANCEL = _CANCEL_ALL + "RETURNING tenant_id"


def cancel(connection: Connection, job_id: UUID, now: datetime, by: str) -> tuple[Task, Sequence[OutboxMessage]] | None:
    """Cancel a task permanently, in a transaction of its tenant.

    Returns the task and the messages to send, or None if the task does not exist.

    Raises:
        TaskFinishedError: the task has succeeded or failed.
    """
    row = connection.execute(_CANCEL, {"ids": [job_id], "now": now, "reason": f"Canceled by {by}."}).fetchone()
    messages = [] if row is None else wake_dependents(connection, TASKS, job_id, now)
    task = show(connection, job_id)
    if task is None:
        return None
    if task.status != "canceled":
        raise TaskFinishedError(f"The task has already {task.status}.")
    if row is not None:
        audit.record(connection, row[0], AuditRecord(by, "task canceled", [str(job_id)], now))
    return task, messages


def cancel_all(connection: Connection, job_ids: Sequence[UUID], now: datetime, reason: str) -> None:
    """Cancel the unfinished tasks in `job_ids`, without waking their dependents."""
    connection.execute(_CANCEL_ALL, {"ids": list(job_ids), "now": now, "reason": reason})


# -- replace the payload ----------------------------------------------------------------------------------------------


_REPLACE = "UPDATE task SET payload = %s::jsonb, payload_s3_key = %s WHERE id = %s"


def store_large_payload(
    database: Database, tenant_id: UUID, job_id: UUID, payload: payloads.Payload, bucket: str | None
) -> str | None:
    """Upload a large replacement payload, and return its S3 key.

    Returns None if the payload fits into a message. The object is deleted after a day, unless `replace_payload` is
    committed. Raises the same errors as `submit`.
    """
    if payloads.fits_inline(payload):
        return None
    if bucket is None:
        raise InvalidSettingsError("UPLOADS_BUCKET is not set. Large payloads require a bucket.")
    key = payloads.new_payload_key(tenant_id, job_id)
    with database.tenant(tenant_id) as connection:
        connection.execute(_SCHEDULE_DELETION, [key, tenant_id])
    payloads.write(bucket, key, payloads.validate_size(payload))
    return key


def replace_payload(
    connection: Connection, job_id: UUID, payload: payloads.Payload, payload_s3_key: str | None
) -> None:
    """Replace a task's payload, in the transaction that starts its new revision.

    `payload_s3_key` is the result of `store_large_payload`. The watchdog deletes the previous object.

    Raises:
        ServiceUnavailableError: the uploaded object is too old, and may have been deleted.
    """
    if payload_s3_key is not None and connection.execute(_CANCEL_DELETION, [payload_s3_key]).rowcount == 0:
        raise ServiceUnavailableError("The uploaded payload has expired. Retry.")
    inline = None if payload_s3_key else payloads.to_canonical_json(payload).decode()
    connection.execute(_REPLACE, [inline, payload_s3_key, job_id])


# -- run --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaskInput:
    """Input for an attempt at a task."""

    task_type: str
    payload: payloads.Payload | None
    payload_s3_key: str | None
    """S3 key of a large payload."""
    user_id: str | None


def load_input(connection: Connection, job_id: UUID) -> TaskInput | None:
    """Return a task's input, in a transaction of its tenant."""
    row = connection.execute(
        "SELECT task_type, payload, payload_s3_key, user_id FROM task WHERE id = %s", [job_id]
    ).fetchone()
    return None if row is None else TaskInput(*row)


def write_result(connection: Connection, job_id: UUID, result: bytes, now: datetime) -> None:
    """Store a task's result, in the transaction that marks the task as succeeded.

    `result` is JSON text.
    """
    connection.execute(
        "UPDATE task SET result = %s::jsonb, ended_at = %s WHERE id = %s", [result.decode(), now, job_id]
    )
