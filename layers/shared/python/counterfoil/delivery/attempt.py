"""Types for workers: attempts, and the outcomes that a worker can return."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from counterfoil.db import Connection, Database
from counterfoil.deadline import Deadline
from counterfoil.delivery.work import OutboxMessage


@dataclass(frozen=True)
class Effects:
    """Result of a `Write`."""

    messages: Sequence[OutboxMessage] = ()
    """Messages to send after the commit."""
    note: str | None = None
    """Note for users about a work item that succeeded."""


Write = Callable[[Connection], Effects]
"""Function that writes all of an attempt's changes, in the transaction that settles it. It must have no other side
effects, because it runs again if the transaction is lost."""


@dataclass(frozen=True)
class Succeeded:
    """The attempt succeeded. Its effects are written when it is settled."""

    effects: Write


@dataclass(frozen=True)
class Skipped:
    """The work item needs no action, and a retry would not change that."""

    reason: str
    effects: Write = field(default=lambda _connection: Effects())


Outcome = Succeeded | Skipped


@dataclass(frozen=True)
class Attempt:
    """One attempt at a work item."""

    work_id: UUID
    tenant_id: UUID | None
    revision: int
    number: int
    """Number of attempts in this revision, including this one."""
    token: int
    database: Database
    now: Callable[[], datetime]
    deadline: Deadline = field(default_factory=Deadline)


@dataclass(frozen=True)
class TenantAttempt(Attempt):
    """An attempt at a tenant's work item."""

    tenant_id: UUID


Worker = Callable[[TenantAttempt], Outcome]
"""Function that runs one attempt."""


@dataclass(frozen=True)
class RoutingWorker:
    """A worker whose work items may not have a tenant yet."""

    run: Worker
    route: Callable[[Attempt], Outcome]
    """Runs an attempt at a work item without a tenant, and finds its tenants."""


@dataclass(frozen=True)
class BatchWorker:
    """A worker that can run several attempts in one transaction.

    `run_together` receives all of a tenant's attempts in a batch, even if there is only one. It writes their changes in
    the transaction that settles them, and returns effects by work id. Its statements must use indexes (`db.BY_INDEX`),
    and it must not wrap psycopg errors. It never fails an attempt: attempts without effects are passed to `run`. After
    an error or a lost transaction, all attempts are passed to `run`.
    """

    run: Worker
    run_together: Callable[[Connection, Sequence[TenantAttempt]], Mapping[UUID, Effects]]
