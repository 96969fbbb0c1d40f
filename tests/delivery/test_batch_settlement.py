"""Batches: attempts of one tenant run together and settle together or alone."""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import CommitUnknownError, Connection, Database
from counterfoil.delivery.attempt import BatchWorker, Effects, Succeeded, TenantAttempt
from counterfoil.delivery.work import Message, start_revision
from counterfoil.errors import ServiceUnavailableError
from tests import factories
from tests.delivery.harness import DONE, Clock, Context, FakeSqs, event, life_cycle, make_consumer, record

Pending = Callable[..., Message]
GATE = {"name": "matching", "timeout": 120, "permits": 4, "start_margin": 30}


class Worker:
    """Batch worker that records which attempts ran together and which alone."""

    def __init__(self, left_out: Sequence[UUID] = (), effects: Callable[[Connection], None] | None = None) -> None:
        self.together: list[set[UUID]] = []
        self.alone: list[UUID] = []
        self.transactions: list[Any] = []
        self._left_out = left_out
        self._effects = effects

    def one(self, attempt: TenantAttempt) -> Succeeded:
        self.alone.append(attempt.work_id)
        return DONE

    def several(self, connection: Connection, attempts: Sequence[TenantAttempt]) -> dict[UUID, Effects]:
        work_ids = {attempt.work_id for attempt in attempts}
        self.together.append(work_ids)  # concurrently with other tenants' threads
        self.transactions.append(connection.execute("SELECT pg_current_xact_id()::text").fetchall()[0][0])
        if self._effects is not None:
            self._effects(connection)
        ids = work_ids.difference(self._left_out)
        return {id_: Effects(remark=f"with {len(ids) - 1} others") for id_ in ids}


def handle(
    database: Database, clock: Clock, worker: Any, messages: Sequence[Message], **changes: Any
) -> tuple[list[Any], Any]:
    consumer = make_consumer(database, BatchWorker(worker.one, worker.several), clock, worker=GATE, **changes)
    response = consumer.handle(event(*(record(message) for message in messages)), Context())
    return [failure["itemIdentifier"] for failure in response["batchItemFailures"]], consumer


def states(admin: Connection, messages: Sequence[Message]) -> list[tuple[Any, Any, Any]]:
    rows = [life_cycle(admin, message.work_id) for message in messages]
    return [(row["status"], row["attempts"], row["skip_reason"]) for row in rows]


def test_batch_settles_in_one_transaction(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    worker, messages = Worker(), [pending() for _ in range(3)]

    failed, _ = handle(database, clock, worker, messages)

    assert failed == []
    assert (worker.together, worker.alone) == ([{message.work_id for message in messages}], [])
    assert states(admin, messages) == [("succeeded", 1, "with 2 others")] * 3
    decided_by = admin.execute("SELECT DISTINCT xmin::text FROM document WHERE matching_status = 'succeeded'")
    assert [xmin for (xmin,) in decided_by] == worker.transactions


def test_single_attempt_runs_in_its_settling_transaction(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    worker, message = Worker(), pending()

    failed, _ = handle(database, clock, worker, [message])

    assert (failed, worker.together, worker.alone) == ([], [{message.work_id}], [])
    assert states(admin, [message]) == [("succeeded", 1, "with 0 others")]
    decided_by = admin.execute("SELECT xmin::text FROM document WHERE id = %s", [message.work_id]).fetchall()
    assert [xmin for (xmin,) in decided_by] == worker.transactions


def test_batch_transaction_disables_sequential_scans(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    planned: list[Any] = []

    def look(connection: Connection) -> None:
        planned.extend(connection.execute("SELECT current_setting('enable_seqscan')").fetchall())

    handle(database, clock, Worker(effects=look), [pending(), pending()])

    assert planned == [("off",)]


def test_conflict_repeats_whole_batch(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    def lose(connection: Connection) -> None:
        connection.execute("UPDATE document SET method = 'xml'")
        if len(worker.together) == 1:
            connection.execute("DO $$ BEGIN RAISE deadlock_detected; END $$")

    worker, messages = Worker(effects=lose), [pending(), pending()]

    failed, _ = handle(database, clock, worker, messages)

    assert (failed, worker.alone) == ([], [])
    assert worker.together == [{message.work_id for message in messages}] * 2
    assert states(admin, messages) == [("succeeded", 1, "with 1 others")] * 2


def test_batches_never_mix_tenants(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    ours = [pending(), pending()]
    stranger = factories.make_document(
        admin, factories.make_tenant(admin, "stranger"), matching_status="pending", matching_revision=1
    )
    worker, theirs = Worker(), Message(work_id=stranger, revision=1, send_number=0)

    handle(database, clock, worker, [ours[0], theirs, ours[1]])

    assert sorted(worker.together, key=len) == [{stranger}, {message.work_id for message in ours}]
    assert worker.alone == []
    assert [state for state, _, _ in states(admin, [*ours, theirs])] == ["succeeded"] * 3


def test_omitted_attempt_runs_alone_without_spending_another(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending() for _ in range(4)]
    worker = Worker(left_out=[message.work_id for message in messages[1:3]])

    failed, _ = handle(database, clock, worker, messages)

    assert failed == []
    assert sorted(worker.alone) == sorted(message.work_id for message in messages[1:3])
    assert [(state, attempts) for state, attempts, _ in states(admin, messages)] == [("succeeded", 1)] * 4


@pytest.mark.parametrize("error", [ServiceUnavailableError("away"), SystemExit(1), ZeroDivisionError()])
def test_batch_failure_runs_each_attempt_alone(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, error: BaseException
) -> None:
    def spoil(connection: Connection) -> None:
        connection.execute("UPDATE document SET method = 'xml'")
        raise error

    worker, messages = Worker(effects=spoil), [pending(), pending()]

    failed, _ = handle(database, clock, worker, messages)

    assert failed == []
    assert sorted(worker.alone) == sorted(message.work_id for message in messages)
    assert states(admin, messages) == [("succeeded", 1, None)] * 2
    assert admin.execute("SELECT DISTINCT method FROM document").fetchall() == [(None,)]


def test_stale_claim_rolls_back_and_repeats_others(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending(), pending()]
    lost, kept = messages

    def supersede(connection: Connection) -> None:
        connection.execute("UPDATE document SET method = 'xml' WHERE id = %s", [kept.work_id])
        if not superseded:
            superseded.append(start_revision(admin, "matching", [lost.work_id], clock()))

    superseded: list[Any] = []
    worker = Worker(effects=supersede)

    failed, _ = handle(database, clock, worker, messages)

    assert len(failed) == 1
    assert states(admin, messages) == [("pending", 0, None), ("succeeded", 1, None)]
    assert admin.execute("SELECT DISTINCT method FROM document").fetchall() == [(None,)]


@pytest.mark.parametrize("committed", [True, False])
def test_unknown_commit_outcome_is_looked_up(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    monkeypatch: pytest.MonkeyPatch,
    committed: bool,
) -> None:
    worker, messages = Worker(), [pending(), pending()]
    real = Database.tenant
    lost: list[UUID] = []

    def lose(self: Database, tenant_id: UUID, **how: Any) -> Any:
        @contextmanager
        def transaction() -> Any:
            if lost:
                with real(self, tenant_id, **how) as connection:
                    yield connection
                return
            lost.append(tenant_id)
            with real(self, tenant_id, **how) as connection:
                yield connection
                if not committed:
                    connection.rollback()
            raise CommitUnknownError("The connection was lost")

        return transaction()

    monkeypatch.setattr(Database, "tenant", lose)

    failed, _ = handle(database, clock, worker, messages)

    assert failed == []
    assert len(worker.alone) == (0 if committed else 2)
    assert [(state, attempts) for state, attempts, _ in states(admin, messages)] == [("succeeded", 1)] * 2


def test_no_omitted_attempt_starts_after_cancellation(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages, alone = [pending(), pending()], []

    def several(connection: Connection, attempts: Sequence[TenantAttempt]) -> dict[UUID, Effects]:
        for attempt in attempts:
            attempt.deadline.canceled.set()
        return {}

    def one(attempt: TenantAttempt) -> Succeeded:
        alone.append(attempt.work_id)
        return DONE

    consumer = make_consumer(database, BatchWorker(one, several), clock, worker=GATE)
    response = consumer.handle(event(*(record(message) for message in messages)), Context())

    assert (len(response["batchItemFailures"]), alone) == (2, [])
    assert [(state, attempts) for state, attempts, _ in states(admin, messages)] == [("pending", 1)] * 2
    assert consumer.gate.acquire(10) == GATE["permits"]


def test_missing_thread_spends_no_attempt(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending() for _ in range(3)]
    worker = Worker(left_out=[message.work_id for message in messages])
    consumer = make_consumer(database, BatchWorker(worker.one, worker.several), clock, worker=GATE)
    real, begun = consumer.concurrency.start, []

    def begin_(name: str, function: Callable[[], None]) -> None:
        begun.append(name)
        if begun.count("matching") > 1:
            raise RuntimeError("can't start new thread")
        real(name, function)

    consumer.concurrency.start = begin_  # type: ignore[method-assign]
    response = consumer.handle(event(*(record(message) for message in messages)), Context())

    assert response["batchItemFailures"] == []
    assert sorted(states(admin, messages), key=str) == [("pending", 0, None)] * 2 + [("succeeded", 1, None)]
    assert consumer.gate.acquire(10) == GATE["permits"]
