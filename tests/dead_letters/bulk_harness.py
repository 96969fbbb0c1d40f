"""Failed tasks with dead letters, and bulk operations on them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from counterfoil import audit
from counterfoil.audit import AuditEntry
from counterfoil.db import Connection, Database
from counterfoil.dead_letters import bulk
from counterfoil.dead_letters.bulk import BulkSteps
from counterfoil.dead_letters.search import DeadLetterFilter
from counterfoil.delivery.work import OutboxMessage
from counterfoil.operations import engine, store
from counterfoil.operations.engine import Step
from counterfoil.operations.store import LetterAction, NewOperation, Operation, OperationCommand, OperationItem
from tests.dead_letters.audit_trail import broken
from tests.dead_letters.dead_letter_factory import NOON, Die
from tests.delivery.harness import rows
from tests.factories import make_task

LATER = NOON + timedelta(hours=1)
"""Time of bulk requests. Dead letters are created in the minutes after noon."""


@dataclass
class Yard:
    """A tenant's failed tasks with dead letters, and bulk operations at time `now`."""

    database: Database
    admin: Connection
    tenant_id: UUID
    die: Die
    now: datetime = LATER

    def fail(self, number: int = 1, *, first: float = 0, every: float = 1, **dead_letter: Any) -> list[UUID]:
        """Create failed tasks, one every `every` minutes; return their job ids."""
        return [self._failed(first + index * every, **dead_letter) for index in range(number)]

    def _failed(self, minute: float, **dead_letter: Any) -> UUID:
        task = make_task(
            self.admin,
            self.tenant_id,
            status="failed",
            error="It failed",
            attempts=6,
            failed_at=NOON,
            revision=1,
        )
        return self.die(worker="tasks", task_type="echo", work_id=task, minute=minute, **dead_letter)

    def request(
        self,
        action: LetterAction = "retry",
        *,
        job_ids: Sequence[UUID] | None = None,
        rate: int = 500,
        canary: int | None = None,
        note: str | None = "The service is back",
        **selection: Any,
    ) -> Operation:
        """Request a bulk operation on the given or on all pending dead letters."""
        filter_ = DeadLetterFilter(**selection).stored if job_ids is None else None
        new = NewOperation(action, filter_, "kim", self.now, note=note, rate=rate, canary=canary)
        with self.database.tenant(self.tenant_id) as connection:
            return bulk.request(connection, self.tenant_id, new, job_ids or ())

    def step(self, operation: Operation, *, bucket: str | None = None, **how: Any) -> Step | None:
        """Run one step."""
        definition = BulkSteps(bucket)
        return engine.step(self.database, definition, operation.id, operation.tenant_id, self.now, **how)

    def run(self, operation: Operation, **how: Any) -> list[OutboxMessage]:
        """Run steps until nothing is due, and return the enqueued messages."""
        sends: list[OutboxMessage] = []
        while (taken := self.step(operation, **how)) is not None and taken.is_busy:
            sends += taken.sends
        return sends

    def shown(self, operation: Operation) -> Operation:
        """Return the stored operation."""
        with self.database.tenant(self.tenant_id) as connection:
            return store.show(connection, operation.id)

    def items(self, operation: Operation) -> list[OperationItem]:
        """Return all bulk items of an operation."""
        with self.database.tenant(self.tenant_id) as connection:
            return store.items(connection, operation.id, limit=1_000_000)

    def results(self, operation: Operation) -> Mapping[UUID, str | None]:
        """Return the results by job id."""
        items = self.items(operation)
        fetched = {item.job_id: item.result for item in items}
        assert len(fetched) == len(items)
        return fetched

    def works(self, operation: Operation) -> list[UUID]:
        """Return the work ids of dead letters that the operation retried."""
        fetched = self.admin.execute(
            "SELECT d.work_id FROM operation_item i JOIN dead_letter d USING (job_id) "
            "WHERE i.operation_id = %s AND i.result = 'succeeded' ORDER BY i.number",
            [operation.id],
        ).fetchall()
        return [work for (work,) in fetched]

    def work_of(self, job_id: UUID) -> UUID:
        """Return the work id of a dead letter."""
        [(work,)] = self.admin.execute("SELECT work_id FROM dead_letter WHERE job_id = %s", [job_id]).fetchall()
        return UUID(str(work))

    def end(self, works: list[UUID], status: str) -> None:
        """Set the status of tasks."""
        self.admin.execute("UPDATE task SET status = %s WHERE id = ANY(%s)", [status, works])

    def trail(self) -> list[AuditEntry]:
        """Return the verified audit trail, oldest first."""
        with self.database.tenant(self.tenant_id) as connection:
            assert broken(connection, self.tenant_id) is None
            return audit.page(connection, self.tenant_id, limit=100)[::-1]

    def statuses(self) -> dict[UUID, str]:
        """Return the status of dead letters by job id."""
        return dict(self.admin.execute("SELECT job_id, status FROM dead_letter").fetchall())

    def owed(self) -> list[dict[str, Any]]:
        """Return the rows of the outbox."""
        return rows(self.admin, "outbox")


def steer(yard: Yard, operation: Operation, how: OperationCommand, version: int | None = None) -> Operation:
    """Pause, resume or cancel an operation at `version` (default: the current one)."""
    seen = yard.shown(operation).version if version is None else version
    with yard.database.tenant(yard.tenant_id) as connection:
        return store.change_state(connection, operation.id, how, version=seen, actor="ann", now=yard.now)


@contextmanager
def breaking(at: int, monkeypatch: Any) -> Iterator[Callable[[], int]]:
    """Simulate the end of the process at its `at`-th statement or commit.

    Yields a function that returns their count. Statements on the maintenance connection are not counted, because a
    thread may run them concurrently.
    """
    seen = 0
    execute, commit = Connection.execute, Connection.commit

    def counted(connection: Any) -> None:
        nonlocal seen
        if connection.info.dbname == "postgres":
            return
        seen += 1
        if seen == at:
            raise KilledError

    def broken_execute(self: Any, *arguments: Any, **how: Any) -> Any:
        counted(self)
        return execute(self, *arguments, **how)

    def broken_commit(self: Any) -> None:
        counted(self)
        commit(self)

    with monkeypatch.context() as patched:
        patched.setattr("psycopg.Connection.execute", broken_execute)
        patched.setattr("psycopg.Connection.commit", broken_commit)
        yield lambda: seen


class KilledError(BaseException):
    """Simulated end of a process."""
