"""Work items: their kinds, revisions and messages."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from typing import Any, LiteralString
from uuid import UUID, uuid5

from psycopg.sql import SQL, Composable, Identifier
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import from_json

from counterfoil.db import Connection
from counterfoil.errors import InvalidMessageError, NewerSchemaError
from counterfoil.validation import Problem, validate

NEWEST_SCHEMA = 1
LARGEST = 2**31 - 1
"""The largest number that a column of type integer holds."""


class Message(BaseModel):
    """The body of a queue message. It names a work item and holds nothing else."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    schema_version: int = Field(default=NEWEST_SCHEMA, ge=1, le=NEWEST_SCHEMA)
    work_id: UUID = Field(strict=False)
    revision: int = Field(ge=1, le=LARGEST)
    send_number: int = Field(ge=0, le=LARGEST)

    @property
    def order(self) -> tuple[int, int]:
        """Sort key: the newer of two messages of one work item is greater."""
        return self.revision, self.send_number

    @property
    def named(self) -> dict[str, str | int]:
        """The work item, for log entries."""
        return {"work_id": str(self.work_id), "revision": self.revision, "send_number": self.send_number}


@dataclass(frozen=True)
class Intake:
    """Work items that a message names."""

    messages: Sequence[Message]
    """Usually one. None: the message needs no action. Several: each gets its own message."""
    register: Callable[[Connection, datetime], None] | None = None
    """Inserts the work items of a message from outside. It runs before each claim."""


def read_message(body: str) -> Intake:
    """Read a message from the outbox.

    Raises:
        InvalidMessageError: it can never be read.
        NewerSchemaError: a deployment in progress writes this version, and this process cannot read it.
    """
    return Intake([validate(Message, opened(body), _wrong)])


def opened(body: str) -> dict[str, Any]:
    """Parse the JSON object of a message and check its version. Raises as `read_message`."""
    try:
        parsed = from_json(body)
    except (ValueError, TypeError):  # TypeError: half a surrogate
        raise InvalidMessageError(f"The message is not JSON ({len(body)} characters)") from None
    if not isinstance(parsed, dict):
        raise InvalidMessageError(f"The message is a JSON {type(parsed).__name__}, not an object")
    version = parsed.get("schema_version")
    if isinstance(version, int) and not isinstance(version, bool) and version > NEWEST_SCHEMA:
        raise NewerSchemaError(f"The message has a schema version newer than {NEWEST_SCHEMA}, the newest known here")
    return parsed


def _wrong(problem: Problem) -> InvalidMessageError:
    # Only a field that we know may be quoted: any other is the sender's text.
    known = [str(part) for part in problem.place if part in Message.model_fields]
    return InvalidMessageError(f"The message is wrong at {'.'.join(known) or 'a field'}: {problem.message}")


JOB_NAMESPACE = UUID("6f1c1c0e-3c52-5d0e-9b5f-0b6a4c8f7a11")
LIFE_CYCLE = (
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
    "returns",
    "reason",
)
"""The columns of the life cycle, in every kind of work."""


@dataclass(frozen=True)
class WorkKind:
    """Work items of one worker, and the table of their life cycle."""

    worker: str
    table: str
    about: LiteralString
    """Selects the description and the creation time of the work item `id`, for its dead letter."""
    prefix: str = ""
    created: str = "created_at"
    """The column that says when a work came."""
    max_attempts: LiteralString = "%(max_attempts)s"
    """How often a work `t` is tried, in SQL: as the policy says, unless each row says so for itself."""
    envelope: LiteralString | None = None
    """Finds the bodies of messages of works `ids`: id and JSON object, NULL where none is owed. None: a message names
    its work and carries nothing. What is in their `payload` is kept in the work's row alone."""
    waiting: LiteralString | None = None
    """Finds and locks the works whose turn it is when the work `id` ends: id, and whether it was put off till later.
    None: no work waits for another one."""
    keeps_successes: bool = False
    """Whether every try that succeeds is written down: their history is shown to people. Of other kinds it is the
    first one after a failure."""

    @cached_property
    def names(self) -> dict[str, Composable]:
        """The table and the columns of the life cycle, to be put into SQL by their plain names."""
        columns = {name: Identifier(self.prefix + name) for name in LIFE_CYCLE}
        return {
            "table": Identifier(self.table),
            "max_attempts": SQL(self.max_attempts),
            "created": Identifier(self.created),
            **columns,
        }

    @cache  # noqa: B019  # of the few kinds there are, each with the few statements of this package
    def sql(self, template: LiteralString) -> bytes:
        """A statement with `{table}`, `{status}`, `{attempts}`, ... put in for this kind."""
        return SQL(template).format(**self.names).as_bytes()

    def job_id(self, work_id: UUID) -> UUID:
        """The id of this worker's job in dead letters: the same for ever, UUIDv5 of worker and work."""
        return uuid5(JOB_NAMESPACE, f"{self.worker}/{work_id}")


KINDS: dict[str, WorkKind] = {}
"""Registered kinds by worker. `counterfoil.kinds` has all; a function has those of the domains that it imports."""


def register(kind: WorkKind) -> WorkKind:
    """Register the kind of a domain's worker."""
    KINDS[kind.worker] = kind
    return kind


@dataclass(frozen=True)
class Send:
    """A row of the outbox: a message owed to a worker."""

    id: UUID
    worker: str
    tenant_id: UUID | None
    message: Message
    not_before: datetime
    body: str | None = None
    """What is sent, where it is not about work but a message that could not be read; `message` then only names it."""


_OWE = """
INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, not_before, created_at)
SELECT * FROM unnest(%(tenants)s::uuid[], %(workers)s::text[], %(ids)s::uuid[], %(revisions)s::int[], %(sends)s::int[],
                     %(not_before)s::timestamptz[], %(now)s::timestamptz[])
ON CONFLICT (worker, work_id, revision, send_number) DO NOTHING
RETURNING id, worker, tenant_id, work_id, revision, send_number, not_before
"""


def owe(
    connection: Connection, kind: WorkKind, rows: Sequence[tuple[Any, ...]], not_before: datetime, now: datetime
) -> list[Send]:
    """Owe the messages of `rows` of (work id, tenant id, revision, send number), in the caller's transaction.

    Returns those that were not owed already.
    """
    found = connection.execute(
        _OWE,
        {
            "ids": [row[0] for row in rows],
            "tenants": [row[1] for row in rows],
            "revisions": [row[2] for row in rows],
            "sends": [row[3] for row in rows],
            "workers": [kind.worker] * len(rows),
            "not_before": [not_before] * len(rows),
            "now": [now] * len(rows),
        },
    ).fetchall()
    return [
        Send(id_, worker, tenant, Message(work_id=work, revision=revision, send_number=send), due)
        for id_, worker, tenant, work, revision, send, due in found
    ]


_OWE_BODY = """
INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, not_before, created_at, body)
VALUES (%(tenant)s, %(worker)s, %(id)s, %(number)s, 0, %(due)s, %(now)s, %(body)s)
RETURNING id
"""


def owe_body(  # a message is this many facts
    connection: Connection,
    worker: str,
    tenant_id: UUID | None,
    id_: UUID,
    number: int,
    body: str,
    now: datetime,
    *,
    not_before: datetime | None = None,
) -> Send:
    """Owe a message as it was received, in the caller's transaction: the `number`-th time for the dead letter `id_`.

    `not_before`: when it is due, where that is not at once.
    """
    due = not_before or now
    values = {"tenant": tenant_id, "worker": worker, "id": id_, "number": number, "due": due, "now": now, "body": body}
    ((row,),) = connection.execute(_OWE_BODY, values).fetchall()
    return Send(row, worker, tenant_id, Message(work_id=id_, revision=number, send_number=0), due, body)


_BEGIN = """
UPDATE {table} SET {status} = 'pending', {revision} = {revision} + 1, {send_number} = 0,
    {claim_token} = nextval('claim_token'), {error} = NULL, {reason} = NULL, {failed_at} = NULL, {attempts} = 0,
    {returns} = 0, {claimed_at} = NULL, {lease_expires_at} = NULL, {next_attempt_at} = NULL
WHERE id = ANY(%(ids)s)
RETURNING id, tenant_id, {revision}, {send_number}
"""


def begin(
    connection: Connection, worker: str, ids: Sequence[UUID], now: datetime, *, not_before: datetime | None = None
) -> list[Send]:
    """Begin a new revision of each work in `ids` and owe its message, in the caller's transaction.

    Attempts, lease, waits and returns start afresh; a new claim token makes any try of the older revision stale.
    `not_before`: when the messages are due, where that is not at once.
    """
    kind = KINDS[worker]
    rows = connection.execute(kind.sql(_BEGIN), {"ids": list(ids)}).fetchall()
    return owe(connection, kind, rows, not_before or now, now)


_WAKE = """
UPDATE {table} SET {claim_token} = nextval('claim_token'), {next_attempt_at} = NULL,
    {send_number} = {send_number} + 1
WHERE id IN (SELECT id FROM {table} WHERE id = ANY(%(ids)s) AND {status} = 'pending' ORDER BY id FOR NO KEY UPDATE)
RETURNING id, tenant_id, {revision}, {send_number}
"""


def wake(connection: Connection, worker: str, ids: Sequence[UUID], now: datetime) -> list[Send]:
    """Have those of `ids` that wait be tried at once, by new messages, in the caller's transaction.

    What was owed before names an older send number, and is dropped when it comes.
    """
    kind = KINDS[worker]
    rows = connection.execute(kind.sql(_WAKE), {"ids": list(ids)}).fetchall()
    return owe(connection, kind, rows, now, now)


# A statement of its own, once the rows are locked: the one that waited for a lock does not see what was inserted by the
# try that held it.
_WAITING = """
SELECT w.id FROM unnest(%(ids)s::uuid[]) AS w (id)
WHERE 'deferred' = (
    SELECT outcome FROM work_attempt a WHERE a.worker = %(worker)s AND a.work_id = w.id ORDER BY a.id DESC LIMIT 1
)
"""


def wake_waiting(connection: Connection, kind: WorkKind, work_id: UUID, now: datetime) -> list[Send]:
    """Wake what waits for the end of this work, in the transaction that ends it.

    Work that is just finding out that it has to wait is waited for: whoever comes second, it or this, sees the other.
    Work that waits since its last try has failed goes on waiting, as its policy says.
    """
    if kind.waiting is None:
        return []
    found = connection.execute(kind.waiting.encode(), {"id": work_id}).fetchall()
    put_off = {"worker": kind.worker, "ids": [id_ for id_, is_put_off in found if is_put_off]}
    waiting = connection.execute(_WAITING, put_off).fetchall() if put_off["ids"] else []
    return wake(connection, kind.worker, [id_ for (id_,) in waiting], now)
