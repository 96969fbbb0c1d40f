"""A worker's view of delivery: the attempt, and the outcomes that the worker may return."""

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
    remark: str | None = None
    """A note for people on work that succeeded."""


Write = Callable[[Connection], Effects]
"""Writes all changes of an attempt, in the transaction that settles it. It must change nothing else, because it runs
again after a lost transaction."""


@dataclass(frozen=True)
class Succeeded:
    """The work is complete except for its effects in PostgreSQL."""

    effects: Write


@dataclass(frozen=True)
class Skipped:
    """The work needs no action, and a later attempt would find the same."""

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

    `run_together` gets all attempts of one tenant in a batch, even a single one. It writes their changes in the
    transaction that settles them, and returns effects by work id. Each of its statements must walk along indexes
    (`db.BY_INDEX`), and psycopg's errors must pass through unchanged. No attempt fails by it: attempts without effects
    `run` alone, as all do after an error or a lost transaction.
    """

    run: Worker
    run_together: Callable[[Connection, Sequence[TenantAttempt]], Mapping[UUID, Effects]]
