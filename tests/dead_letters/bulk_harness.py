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
from counterfoil.operations.engine import StepResult
from counterfoil.operations.store import DeadLetterAction, NewOperation, Operation, OperationCommand, OperationItem
from tests.dead_letters.audit_trail import first_broken_entry
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter
from tests.delivery.harness import rows
from tests.factories import make_task

LATER = NOON + timedelta(hours=1)
"""Time of bulk requests. Dead letters are created in the minutes after noon."""


@dataclass
class BulkHarness:
    """Harness that creates dead letters and runs bulk operations at time `now`.

    The dead letters belong to failed tasks of one tenant.
    """

    database: Database
    admin: Connection
    tenant_id: UUID
    make_dead_letter: MakeDeadLetter
    now: datetime = LATER

    def fail(self, number: int = 1, *, first: float = 0, interval: float = 1, **dead_letter: Any) -> list[UUID]:
        """Create tasks that fail every `interval` minutes, with dead letters.

        Return their job ids.
        """
        return [self._failed(first + index * interval, **dead_letter) for index in range(number)]

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
        return self.make_dead_letter(worker="tasks", task_type="echo", work_id=task, minute=minute, **dead_letter)

    def request(
        self,
        action: DeadLetterAction = "retry",
        *,
        job_ids: Sequence[UUID] | None = None,
        rate: int = 500,
        canary: int | None = None,
        note: str | None = "The service is back",
        **selection: Any,
    ) -> Operation:
        """Request a bulk operation on `job_ids` or on selected dead letters.

        If `job_ids` is None, dead letters that match `selection` are included.
        """
        filter_ = DeadLetterFilter(**selection).stored_fields if job_ids is None else None
        new = NewOperation(action, filter_, "kim", self.now, note=note, rate=rate, canary=canary)
        with self.database.tenant(self.tenant_id) as connection:
            return bulk.request(connection, self.tenant_id, new, job_ids or ())

    def step(self, operation: Operation, *, bucket: str | None = None, **options: Any) -> StepResult | None:
        """Run the next step of a bulk operation, if it is due."""
        definition = BulkSteps(bucket)
        return engine.run_step(self.database, definition, operation.id, operation.tenant_id, self.now, **options)

    def run(self, operation: Operation, **options: Any) -> list[OutboxMessage]:
        """Run steps until nothing is due, and return the enqueued messages."""
        messages: list[OutboxMessage] = []
        while (step := self.step(operation, **options)) is not None and step.is_busy:
            messages += step.messages
        return messages

    def load(self, operation: Operation) -> Operation:
        """Return the stored operation."""
        with self.database.tenant(self.tenant_id) as connection:
            return store.show(connection, operation.id)

    def items(self, operation: Operation) -> list[OperationItem]:
        """Return all bulk items of an operation."""
        with self.database.tenant(self.tenant_id) as connection:
            return store.items(connection, operation.id, limit=1_000_000)

    def results(self, operation: Operation) -> Mapping[UUID, str | None]:
        """Return the result of each bulk item, by job id."""
        items = self.items(operation)
        results = {item.job_id: item.result for item in items}
        assert len(results) == len(items)
        return results

    def work_ids(self, operation: Operation) -> list[UUID]:
        """Return the work ids of dead letters that the operation retried."""
        rows = self.admin.execute(
            "SELECT d.work_id FROM operation_item i JOIN dead_letter d USING (job_id) "
            "WHERE i.operation_id = %s AND i.result = 'succeeded' ORDER BY i.number",
            [operation.id],
        ).fetchall()
        return [work_id for (work_id,) in rows]

    def work_id_of(self, job_id: UUID) -> UUID:
        """Return the work id of a dead letter."""
        [(work_id,)] = self.admin.execute("SELECT work_id FROM dead_letter WHERE job_id = %s", [job_id]).fetchall()
        return UUID(str(work_id))

    def set_status(self, work_ids: list[UUID], status: str) -> None:
        """Set the status of tasks."""
        self.admin.execute("UPDATE task SET status = %s WHERE id = ANY(%s)", [status, work_ids])

    def audit_entries(self) -> list[AuditEntry]:
        """Return the verified audit trail, oldest first."""
        with self.database.tenant(self.tenant_id) as connection:
            assert first_broken_entry(connection, self.tenant_id) is None
            return audit.page(connection, self.tenant_id, limit=100)[::-1]

    def statuses(self) -> dict[UUID, str]:
        """Return the status of every dead letter, by job id."""
        return dict(self.admin.execute("SELECT job_id, status FROM dead_letter").fetchall())

    def outbox_rows(self) -> list[dict[str, Any]]:
        """Return all outbox rows."""
        return rows(self.admin, "outbox")


def control(
    harness: BulkHarness, operation: Operation, command: OperationCommand, version: int | None = None
) -> Operation:
    """Pause, resume or cancel an operation, by default at its current version."""
    current = harness.load(operation).version if version is None else version
    with harness.database.tenant(harness.tenant_id) as connection:
        return store.change_state(connection, operation.id, command, version=current, actor="ann", now=harness.now)


@contextmanager
def kill_at(number: int, monkeypatch: Any) -> Iterator[Callable[[], int]]:
    """Simulate the end of the process at its `number`-th statement or commit.

    Yields a function that returns the number of statements and commits so far. Statements in the database `postgres`
    are not counted, because a thread may run them concurrently.
    """
    count = 0
    execute, commit = Connection.execute, Connection.commit

    def count_call(connection: Any) -> None:
        nonlocal count
        if connection.info.dbname == "postgres":
            return
        count += 1
        if count == number:
            raise KilledError

    def counted_execute(self: Any, *arguments: Any, **options: Any) -> Any:
        count_call(self)
        return execute(self, *arguments, **options)

    def counted_commit(self: Any) -> None:
        count_call(self)
        commit(self)

    with monkeypatch.context() as patch:
        patch.setattr("psycopg.Connection.execute", counted_execute)
        patch.setattr("psycopg.Connection.commit", counted_commit)
        yield lambda: count


class KilledError(BaseException):
    """Simulated end of a process."""
