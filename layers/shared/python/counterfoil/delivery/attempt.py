"""Delivery types for workers: attempts, and the outcomes that a worker may return."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from counterfoil.db import Connection, Database
from counterfoil.deadline import Deadline
from counterfoil.delivery.work import OutboxMessage


@dataclass(frozen=True)
class Effects:
    """Result of writing an attempt's changes."""

    messages: Sequence[OutboxMessage] = ()
    """Messages to send after the commit."""
    note: str | None = None
    """Note for users on a work item that succeeded."""


Write = Callable[[Connection], Effects]
"""Writes all changes of an attempt, in the transaction that settles it. It must have no other side effects, because it
runs again if the transaction is lost."""


@dataclass(frozen=True)
class Succeeded:
    """The work is complete except for its effects in PostgreSQL."""

    effects: Write


@dataclass(frozen=True)
class Skipped:
    """The work item needs no action, and a retry would not change that."""

    reason: str
    effects: Write = field(default=lambda _connection: Effects())


Outcome = Succeeded | Skipped


@dataclass(frozen=True)
class Attempt:
    """One attempt at one work item."""

    work_id: UUID
    tenant_id: UUID | None
    revision: int
    number: int
    """Attempts in this revision, including this one."""
    token: int
    database: Database
    now: Callable[[], datetime]
    deadline: Deadline = field(default_factory=Deadline)


@dataclass(frozen=True)
class TenantAttempt(Attempt):
    """An attempt at work of a tenant."""

    tenant_id: UUID


Worker = Callable[[TenantAttempt], Outcome]
"""Runs one attempt."""


@dataclass(frozen=True)
class RoutingWorker:
    """A worker whose work may have no tenant yet."""

    run: Worker
    route: Callable[[Attempt], Outcome]
    """Runs an attempt at work without a tenant: finds its tenants."""


@dataclass(frozen=True)
class BatchWorker:
    """A worker that can run several attempts in one transaction.

    `run_together` gets all attempts of one tenant in a batch, even if there is only one. It writes their changes in the
    transaction that settles them, and returns effects by work id. Its statements must use indexes (`db.BY_INDEX`), and
    it must not wrap psycopg errors. It never fails an attempt: an attempt without effects is passed to `run`. After an
    error or a lost transaction, all attempts are.
    """

    run: Worker
    run_together: Callable[[Connection, Sequence[TenantAttempt]], Mapping[UUID, Effects]]
