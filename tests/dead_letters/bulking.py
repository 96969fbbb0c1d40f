"""Many dead letters of work that has failed, and operations on them, as tests of these need them."""

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
from counterfoil.delivery.work import Send
from counterfoil.operations import engine, store
from counterfoil.operations.engine import Step
from counterfoil.operations.store import LetterAction, NewOperation, Operation, OperationItem, Steer
from tests.dead_letters.letters import NOON, Die
from tests.dead_letters.trail import broken
from tests.delivery.harness import rows
from tests.factories import make_task

LATER = NOON + timedelta(hours=1)
"""When operations are asked for; letters die in the minutes after noon."""


@dataclass
class Yard:
    """A tenant's failed tasks with their letters, and operations on them. `now` is what time it is."""

    database: Database
    admin: Connection
    tenant_id: UUID
    die: Die
    now: datetime = LATER

    def fail(self, number: int = 1, *, first: float = 0, every: float = 1, **letter: Any) -> list[UUID]:
        """Tasks that have failed, one each so many minutes; the job_ids of their letters."""
        return [self._failed(first + place * every, **letter) for place in range(number)]

    def _failed(self, minute: float, **letter: Any) -> UUID:
        task = make_task(
            self.admin,
            self.tenant_id,
            status="failed",
            error="It failed",
            attempts=6,
            failed_at=NOON,
            revision=1,
        )
        return self.die(worker="tasks", task_type="echo", work_id=task, minute=minute, **letter)

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
        """An operation, of the letters that are named or else of all that are pending."""
        filter_ = DeadLetterFilter(**selection).stored if job_ids is None else None
        new = NewOperation(action, filter_, "kim", self.now, note=note, rate=rate, canary=canary)
        with self.database.tenant(self.tenant_id) as connection:
            return bulk.request(connection, self.tenant_id, new, job_ids or ())

    def step(self, operation: Operation, *, bucket: str | None = None, **how: Any) -> Step | None:
        """One step."""
        definition = BulkSteps(bucket)
        return engine.step(self.database, definition, operation.id, operation.tenant_id, self.now, **how)

    def run(self, operation: Operation, **how: Any) -> list[Send]:
        """Steps until there is no more to do just now. What is owed by them."""
        sends: list[Send] = []
        while (taken := self.step(operation, **how)) is not None and taken.is_busy:
            sends += taken.sends
        return sends

    def shown(self, operation: Operation) -> Operation:
        """The operation as it is."""
        with self.database.tenant(self.tenant_id) as connection:
            return store.show(connection, operation.id)

    def items(self, operation: Operation) -> list[OperationItem]:
        """All of its letters."""
        with self.database.tenant(self.tenant_id) as connection:
            return store.items(connection, operation.id, limit=1_000_000)

    def results(self, operation: Operation) -> Mapping[UUID, str | None]:
        """Result by letter."""
        items = self.items(operation)
        found = {item.job_id: item.result for item in items}
        assert len(found) == len(items)
        return found

    def works(self, operation: Operation) -> list[UUID]:
        """The works of the letters that were tried again."""
        found = self.admin.execute(
            "SELECT d.work_id FROM operation_item i JOIN dead_letter d USING (job_id) "
            "WHERE i.operation_id = %s AND i.result = 'done' ORDER BY i.number",
            [operation.id],
        ).fetchall()
        return [work for (work,) in found]

    def work_of(self, job_id: UUID) -> UUID:
        """The work of a letter."""
        [(work,)] = self.admin.execute("SELECT work_id FROM dead_letter WHERE job_id = %s", [job_id]).fetchall()
        return UUID(str(work))

    def end(self, works: list[UUID], status: str) -> None:
        """Have tasks end."""
        self.admin.execute("UPDATE task SET status = %s WHERE id = ANY(%s)", [status, works])

    def trail(self) -> list[AuditEntry]:
        """The audit trail, which is whole, in its order."""
        with self.database.tenant(self.tenant_id) as connection:
            assert broken(connection, self.tenant_id) is None
            return audit.page(connection, self.tenant_id, limit=100)[::-1]

    def statuses(self) -> dict[UUID, str]:
        """State by letter."""
        return dict(self.admin.execute("SELECT job_id, status FROM dead_letter").fetchall())

    def owed(self) -> list[dict[str, Any]]:
        """Rows of the outbox."""
        return rows(self.admin, "outbox")


def steer(yard: Yard, operation: Operation, how: Steer, version: int | None = None) -> Operation:
    """Pause, resume or cancel an operation, as it was seen at `version` or is."""
    seen = yard.shown(operation).version if version is None else version
    with yard.database.tenant(yard.tenant_id) as connection:
        return store.steer(connection, operation.id, how, version=seen, actor="ann", now=yard.now)


@contextmanager
def breaking(at: int, monkeypatch: Any) -> Iterator[Callable[[], int]]:
    """Kill the process at its `at`-th statement or commit. Yields their number.

    Statements of the tests' own maintenance connection, which a thread may run at the same time, are not counted.
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

    def broken_execute(self: Any, *given: Any, **how: Any) -> Any:
        counted(self)
        return execute(self, *given, **how)

    def broken_commit(self: Any) -> None:
        counted(self)
        commit(self)

    with monkeypatch.context() as patched:
        patched.setattr("psycopg.Connection.execute", broken_execute)
        patched.setattr("psycopg.Connection.commit", broken_commit)
        yield lambda: seen


class KilledError(BaseException):
    """In the place of the end of a process."""
