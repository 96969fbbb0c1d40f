"""Work items: their kinds, revisions and messages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from typing import Any, LiteralString
from uuid import UUID, uuid5

from psycopg.sql import SQL, Composable, Identifier
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from counterfoil.db import Connection
from counterfoil.errors import InvalidMessageError, UnsupportedSchemaError
from counterfoil.validation import ValidationProblem, validate

CURRENT_SCHEMA_VERSION = 1
MAX_INT = 2**31 - 1
"""Largest PostgreSQL integer."""


class Message(BaseModel):
    """Body of a queue message. It only identifies a work item."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    schema_version: int = Field(default=CURRENT_SCHEMA_VERSION, ge=1, le=CURRENT_SCHEMA_VERSION)
    work_id: UUID = Field(strict=False)
    revision: int = Field(ge=1, le=MAX_INT)
    send_number: int = Field(ge=0, le=MAX_INT)

    @property
    def sort_key(self) -> tuple[int, int]:
        """Sort key for messages of one work item. A newer message has a greater key."""
        return self.revision, self.send_number

    @property
    def log_fields(self) -> dict[str, str | int]:
        """The work item's fields for log entries."""
        return {"work_id": str(self.work_id), "revision": self.revision, "send_number": self.send_number}


@dataclass(frozen=True)
class ParsedMessage:
    """Parsed body of a queue message, with the work items that it names."""

    messages: Sequence[Message]
    """One entry per work item, usually a single one. If empty, the message needs no action. If there are several, a
    separate message is enqueued for each."""
    register: Callable[[Connection, datetime], None] | None = None
    """Inserts the work items of an external message. It runs before each claim."""


def read_message(body: str) -> ParsedMessage:
    """Parse the body of a message that the outbox sent.

    Raises:
        InvalidMessageError: the body is invalid.
        UnsupportedSchemaError: the message has a newer schema version, for example during a deployment.
    """
    return ParsedMessage([validate(Message, parse_json_body(body), _invalid_message)])


_JSON_TYPES: Mapping[type, str] = {
    list: "a JSON array",
    str: "a JSON string",
    int: "a JSON number",
    float: "a JSON number",
    bool: "a JSON boolean",
    type(None): "JSON null",
}


def parse_json_body(body: str) -> dict[str, Any]:
    """Parse a message's JSON object and check its schema version.

    Raises the same errors as `read_message`.
    """
    try:
        parsed = from_json(body)
    except (ValueError, TypeError):  # TypeError: a lone surrogate
        raise InvalidMessageError(f"The message is not JSON ({len(body)} characters)") from None
    if not isinstance(parsed, dict):
        raise InvalidMessageError(f"The message is {_JSON_TYPES[type(parsed)]}, not an object")
    version = parsed.get("schema_version")
    if isinstance(version, int) and not isinstance(version, bool) and version > CURRENT_SCHEMA_VERSION:
        raise UnsupportedSchemaError(
            f"The message has a schema version newer than {CURRENT_SCHEMA_VERSION}, the newest that this code supports"
        )
    return parsed


def _invalid_message(problem: ValidationProblem) -> InvalidMessageError:
    # Other field names come from the sender and must not be quoted.
    fields = [str(part) for part in problem.location if part in Message.model_fields]
    return InvalidMessageError(f"The message is invalid at {'.'.join(fields) or 'a field'}: {problem.message}")


JOB_NAMESPACE = UUID("6f1c1c0e-3c52-5d0e-9b5f-0b6a4c8f7a11")
LIFECYCLE_COLUMNS = (
    "status",
    "error",
    "attempts",
    "failed_at",
    "revision",
    "claim_token",
    "claimed_at",
    "lease_expires_at",
    "next_attempt_at",
    "send_number",
    "dlq_returns",
    "skip_reason",
)
"""Columns for the state of a work item, which the table of every kind has."""


@dataclass(frozen=True)
class WorkKind:
    """Kind of work item of one worker, with the table that stores its state."""

    worker: str
    table: str
    description_query: LiteralString
    """Selects the description and the creation time of the work item `id`, for its dead letter."""
    prefix: str = ""
    """Prefix of the columns in LIFECYCLE_COLUMNS."""
    created_column: str = "created_at"
    """Column with the creation time."""
    max_attempts: LiteralString = "%(max_attempts)s"
    """SQL expression for the maximum number of attempts at a work item `t`. Default: the policy's limit."""
    body_query: LiteralString | None = None
    """Selects id and message body (a JSON object) of the work items `ids`. The body is NULL if the outbox has no unsent
    message. If the query is None, a message only identifies its work item. The `payload` in a body is stored only in
    the work item's row."""
    dependents_query: LiteralString | None = None
    """Selects and locks the work items that can start when the work item `id` ends. The columns are their id, and
    whether they may be deferred. None if work items of this kind do not wait for each other."""
    records_successes: bool = False
    """Whether every successful attempt is recorded, because users see the history. For other kinds, only the first
    success after a failure is recorded."""

    @cached_property
    def names(self) -> dict[str, Composable]:
        """SQL identifiers for the table and its state columns, by their unprefixed names."""
        columns = {name: Identifier(self.prefix + name) for name in LIFECYCLE_COLUMNS}
        return {
            "table": Identifier(self.table),
            "max_attempts": SQL(self.max_attempts),
            "created": Identifier(self.created_column),
            **columns,
        }

    @cache  # noqa: B019  # there are few kinds and few statements
    def sql(self, template: LiteralString) -> bytes:
        """Fill in a statement's placeholders, such as `{table}` and `{status}`."""
        return SQL(template).format(**self.names).as_bytes()

    def job_id(self, work_id: UUID) -> UUID:
        """Return the stable id of a work item in dead letters.

        It is the UUIDv5 of the worker and the work id.
        """
        return uuid5(JOB_NAMESPACE, f"{self.worker}/{work_id}")


WORK_KINDS: dict[str, WorkKind] = {}
"""Registered kinds by worker. A process has only the kinds whose modules it imports. `counterfoil.kinds` imports them
all."""


def register(kind: WorkKind) -> WorkKind:
    """Register a kind in WORK_KINDS, and return it."""
    WORK_KINDS[kind.worker] = kind
    return kind


@dataclass(frozen=True)
class OutboxMessage:
    """A row of the outbox: a message to send to a worker."""

    id: UUID
    worker: str
    tenant_id: UUID | None
    message: Message
    scheduled_at: datetime
    body: str | None = None
    """Body of an unreadable message that is sent again. In this case, `message` only identifies the row."""


_ENQUEUE = """
INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, scheduled_at, created_at)
SELECT * FROM unnest(%(tenants)s::uuid[], %(workers)s::text[], %(ids)s::uuid[], %(revisions)s::int[],
                     %(send_numbers)s::int[], %(scheduled_at)s::timestamptz[], %(now)s::timestamptz[])
ON CONFLICT (worker, work_id, revision, send_number) DO NOTHING
RETURNING id, worker, tenant_id, work_id, revision, send_number, scheduled_at
"""


def enqueue(
    connection: Connection, kind: WorkKind, rows: Sequence[tuple[Any, ...]], scheduled_at: datetime, now: datetime
) -> list[OutboxMessage]:
    """Enqueue a message for each of `rows`.

    A row contains the work id, tenant id, revision and send number. Runs in the caller's transaction. Returns the newly
    enqueued messages. Existing messages are unchanged.
    """
    inserted = connection.execute(
        _ENQUEUE,
        {
            "ids": [row[0] for row in rows],
            "tenants": [row[1] for row in rows],
            "revisions": [row[2] for row in rows],
            "send_numbers": [row[3] for row in rows],
            "workers": [kind.worker] * len(rows),
            "scheduled_at": [scheduled_at] * len(rows),
            "now": [now] * len(rows),
        },
    ).fetchall()
    return [
        OutboxMessage(id_, worker, tenant_id, Message(work_id=work_id, revision=revision, send_number=send_number), due)
        for id_, worker, tenant_id, work_id, revision, send_number, due in inserted
    ]


_ENQUEUE_RAW_BODY = """
INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, scheduled_at, created_at, raw_body)
VALUES (%(tenant)s, %(worker)s, %(id)s, %(number)s, 0, %(due)s, %(now)s, %(body)s)
RETURNING id
"""


def enqueue_raw_body(
    connection: Connection,
    worker: str,
    tenant_id: UUID | None,
    id_: UUID,
    number: int,
    body: str,
    now: datetime,
    *,
    scheduled_at: datetime | None = None,
) -> OutboxMessage:
    """Enqueue the original message of the dead letter `id_` for the `number`-th time.

    Runs in the caller's transaction. `scheduled_at` is the time to send it, by default now.
    """
    due = scheduled_at or now
    values = {"tenant": tenant_id, "worker": worker, "id": id_, "number": number, "due": due, "now": now, "body": body}
    ((outbox_id,),) = connection.execute(_ENQUEUE_RAW_BODY, values).fetchall()
    return OutboxMessage(outbox_id, worker, tenant_id, Message(work_id=id_, revision=number, send_number=0), due, body)


_START_REVISION = """
UPDATE {table} SET {status} = 'pending', {revision} = {revision} + 1, {send_number} = 0,
    {claim_token} = nextval('claim_token'), {error} = NULL, {skip_reason} = NULL, {failed_at} = NULL, {attempts} = 0,
    {dlq_returns} = 0, {claimed_at} = NULL, {lease_expires_at} = NULL, {next_attempt_at} = NULL
WHERE id = ANY(%(ids)s)
RETURNING id, tenant_id, {revision}, {send_number}
"""


def start_revision(
    connection: Connection, worker: str, ids: Sequence[UUID], now: datetime, *, scheduled_at: datetime | None = None
) -> list[OutboxMessage]:
    """Start a new revision of each work item in `ids` and enqueue its message.

    Runs in the caller's transaction. Attempts, lease, delay and returns are reset. A new claim token makes attempts at
    the older revision stale. `scheduled_at` is the time to send the messages, by default now.
    """
    kind = WORK_KINDS[worker]
    rows = connection.execute(kind.sql(_START_REVISION), {"ids": list(ids)}).fetchall()
    return enqueue(connection, kind, rows, scheduled_at or now, now)


_WAKE = """
UPDATE {table} SET {claim_token} = nextval('claim_token'), {next_attempt_at} = NULL,
    {send_number} = {send_number} + 1
WHERE id IN (SELECT id FROM {table} WHERE id = ANY(%(ids)s) AND {status} = 'pending' ORDER BY id FOR NO KEY UPDATE)
RETURNING id, tenant_id, {revision}, {send_number}
"""


def wake(connection: Connection, worker: str, ids: Sequence[UUID], now: datetime) -> list[OutboxMessage]:
    """Make the pending work items in `ids` due now, and enqueue their messages.

    Runs in the caller's transaction. Earlier messages have a lower send number, so consumers drop them.
    """
    kind = WORK_KINDS[worker]
    rows = connection.execute(kind.sql(_WAKE), {"ids": list(ids)}).fetchall()
    return enqueue(connection, kind, rows, now, now)


# Runs as a separate statement after the rows are locked, because a statement that waited for a lock does not see rows
# that the lock's previous owner inserted.
_DEFERRED = """
SELECT w.id FROM unnest(%(ids)s::uuid[]) AS w (id)
WHERE 'deferred' = (
    SELECT outcome FROM work_attempt a WHERE a.worker = %(worker)s AND a.work_id = w.id ORDER BY a.id DESC LIMIT 1
)
"""


def wake_dependents(connection: Connection, kind: WorkKind, work_id: UUID, now: datetime) -> list[OutboxMessage]:
    """Wake the work items that wait for the end of `work_id`.

    Runs in the transaction that ends `work_id`. The row locks serialize this with a concurrent deferral, so one of the
    two transactions sees the other's changes. A work item that waits for a retry after a failure keeps its delay.
    """
    if kind.dependents_query is None:
        return []
    dependents = connection.execute(kind.dependents_query.encode(), {"id": work_id}).fetchall()
    values = {"worker": kind.worker, "ids": [id_ for id_, is_deferred in dependents if is_deferred]}
    waiting = connection.execute(_DEFERRED, values).fetchall() if values["ids"] else []
    return wake(connection, kind.worker, [id_ for (id_,) in waiting], now)
