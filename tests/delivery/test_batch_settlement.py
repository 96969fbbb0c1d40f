"""Batches: one tenant's attempts run together, and settle together or alone."""

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
WORKER_SETTINGS = {"name": "matching", "timeout": 120, "permits": 4, "start_margin": 30}


class RecordingWorker:
    """Batch worker that records which attempts ran together and which ran alone."""

    def __init__(self, omitted: Sequence[UUID] = (), effects: Callable[[Connection], None] | None = None) -> None:
        self.together: list[set[UUID]] = []
        self.alone: list[UUID] = []
        self.transactions: list[Any] = []
        self._omitted = omitted
        self._effects = effects

    def run_alone(self, attempt: TenantAttempt) -> Succeeded:
        self.alone.append(attempt.work_id)
        return DONE

    def run_together(self, connection: Connection, attempts: Sequence[TenantAttempt]) -> dict[UUID, Effects]:
        work_ids = {attempt.work_id for attempt in attempts}
        self.together.append(work_ids)  # concurrently with other tenants' threads
        self.transactions.append(connection.execute("SELECT pg_current_xact_id()::text").fetchall()[0][0])
        if self._effects is not None:
            self._effects(connection)
        ids = work_ids.difference(self._omitted)
        return {id_: Effects(note=f"with {len(ids) - 1} others") for id_ in ids}


def handle(
    database: Database, clock: Clock, worker: Any, messages: Sequence[Message], **changes: Any
) -> tuple[list[Any], Any]:
    consumer = make_consumer(
        database, BatchWorker(worker.run_alone, worker.run_together), clock, worker=WORKER_SETTINGS, **changes
    )
    response = consumer.handle(event(*(record(message) for message in messages)), Context())
    return [failure["itemIdentifier"] for failure in response["batchItemFailures"]], consumer


def states(admin: Connection, messages: Sequence[Message]) -> list[tuple[Any, Any, Any]]:
    rows = [life_cycle(admin, message.work_id) for message in messages]
    return [(row["status"], row["attempts"], row["skip_reason"]) for row in rows]


def test_batch_settles_in_one_transaction(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    worker, messages = RecordingWorker(), [pending() for _ in range(3)]

    failed, _ = handle(database, clock, worker, messages)

    assert failed == []
    assert (worker.together, worker.alone) == ([{message.work_id for message in messages}], [])
    assert states(admin, messages) == [("succeeded", 1, "with 2 others")] * 3
    transaction_ids = admin.execute("SELECT DISTINCT xmin::text FROM document WHERE matching_status = 'succeeded'")
    assert [xmin for (xmin,) in transaction_ids] == worker.transactions


def test_single_attempt_runs_in_its_settling_transaction(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    worker, message = RecordingWorker(), pending()

    failed, _ = handle(database, clock, worker, [message])

    assert (failed, worker.together, worker.alone) == ([], [{message.work_id}], [])
    assert states(admin, [message]) == [("succeeded", 1, "with 0 others")]
    transaction_ids = admin.execute("SELECT xmin::text FROM document WHERE id = %s", [message.work_id]).fetchall()
    assert [xmin for (xmin,) in transaction_ids] == worker.transactions


def test_batch_transaction_disables_sequential_scans(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    settings: list[Any] = []

    def read_setting(connection: Connection) -> None:
        settings.extend(connection.execute("SELECT current_setting('enable_seqscan')").fetchall())

    handle(database, clock, RecordingWorker(effects=read_setting), [pending(), pending()])

    assert settings == [("off",)]


def test_conflict_repeats_whole_batch(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    def conflict_once(connection: Connection) -> None:
        connection.execute("UPDATE document SET method = 'xml'")
        if len(worker.together) == 1:
            connection.execute("DO $$ BEGIN RAISE deadlock_detected; END $$")

    worker, messages = RecordingWorker(effects=conflict_once), [pending(), pending()]

    failed, _ = handle(database, clock, worker, messages)

    assert (failed, worker.alone) == ([], [])
    assert worker.together == [{message.work_id for message in messages}] * 2
    assert states(admin, messages) == [("succeeded", 1, "with 1 others")] * 2


def test_attempts_of_different_tenants_run_separately(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    own_messages = [pending(), pending()]
    foreign_document = factories.make_document(
        admin, factories.make_tenant(admin, "stranger"), matching_status="pending", matching_revision=1
    )
    worker, foreign_message = RecordingWorker(), Message(work_id=foreign_document, revision=1, send_number=0)

    handle(database, clock, worker, [own_messages[0], foreign_message, own_messages[1]])

    assert sorted(worker.together, key=len) == [{foreign_document}, {message.work_id for message in own_messages}]
    assert worker.alone == []
    assert [state for state, _, _ in states(admin, [*own_messages, foreign_message])] == ["succeeded"] * 3


def test_attempt_omitted_from_batch_runs_alone(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending() for _ in range(4)]
    worker = RecordingWorker(omitted=[message.work_id for message in messages[1:3]])

    failed, _ = handle(database, clock, worker, messages)

    assert failed == []
    assert sorted(worker.alone) == sorted(message.work_id for message in messages[1:3])
    assert [(state, attempts) for state, attempts, _ in states(admin, messages)] == [("succeeded", 1)] * 4


@pytest.mark.parametrize("error", [ServiceUnavailableError("away"), SystemExit(1), ZeroDivisionError()])
def test_batch_failure_runs_each_attempt_alone(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, error: BaseException
) -> None:
    def fail(connection: Connection) -> None:
        connection.execute("UPDATE document SET method = 'xml'")
        raise error

    worker, messages = RecordingWorker(effects=fail), [pending(), pending()]

    failed, _ = handle(database, clock, worker, messages)

    assert failed == []
    assert sorted(worker.alone) == sorted(message.work_id for message in messages)
    assert states(admin, messages) == [("succeeded", 1, None)] * 2
    assert admin.execute("SELECT DISTINCT method FROM document").fetchall() == [(None,)]


def test_stale_claim_does_not_fail_other_attempts(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending(), pending()]
    stale, current = messages

    def supersede(connection: Connection) -> None:
        connection.execute("UPDATE document SET method = 'xml' WHERE id = %s", [current.work_id])
        if not superseded:
            superseded.append(start_revision(admin, "matching", [stale.work_id], clock()))

    superseded: list[Any] = []
    worker = RecordingWorker(effects=supersede)

    failed, _ = handle(database, clock, worker, messages)

    assert len(failed) == 1
    assert states(admin, messages) == [("pending", 0, None), ("succeeded", 1, None)]
    assert admin.execute("SELECT DISTINCT method FROM document").fetchall() == [(None,)]


@pytest.mark.parametrize("committed", [True, False])
def test_unknown_commit_outcome_is_checked(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    monkeypatch: pytest.MonkeyPatch,
    committed: bool,
) -> None:
    worker, messages = RecordingWorker(), [pending(), pending()]
    original_tenant = Database.tenant
    lost_tenants: list[UUID] = []

    def lose_first_commit(self: Database, tenant_id: UUID, **options: Any) -> Any:
        @contextmanager
        def transaction() -> Any:
            if lost_tenants:
                with original_tenant(self, tenant_id, **options) as connection:
                    yield connection
                return
            lost_tenants.append(tenant_id)
            with original_tenant(self, tenant_id, **options) as connection:
                yield connection
                if not committed:
                    connection.rollback()
            raise CommitUnknownError("The connection was lost")

        return transaction()

    monkeypatch.setattr(Database, "tenant", lose_first_commit)

    failed, _ = handle(database, clock, worker, messages)

    assert failed == []
    assert len(worker.alone) == (0 if committed else 2)
    assert [(state, attempts) for state, attempts, _ in states(admin, messages)] == [("succeeded", 1)] * 2


def test_canceled_attempts_do_not_run_alone(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages, run_ids = [pending(), pending()], []

    def cancel_all(connection: Connection, attempts: Sequence[TenantAttempt]) -> dict[UUID, Effects]:
        for attempt in attempts:
            attempt.deadline.canceled.set()
        return {}

    def run_alone(attempt: TenantAttempt) -> Succeeded:
        run_ids.append(attempt.work_id)
        return DONE

    consumer = make_consumer(database, BatchWorker(run_alone, cancel_all), clock, worker=WORKER_SETTINGS)
    response = consumer.handle(event(*(record(message) for message in messages)), Context())

    assert (len(response["batchItemFailures"]), run_ids) == (2, [])
    assert [(state, attempts) for state, attempts, _ in states(admin, messages)] == [("pending", 1)] * 2
    assert consumer.permits.acquire(10) == WORKER_SETTINGS["permits"]


def test_failed_thread_start_spends_no_attempt(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending() for _ in range(3)]
    worker = RecordingWorker(omitted=[message.work_id for message in messages])
    consumer = make_consumer(
        database, BatchWorker(worker.run_alone, worker.run_together), clock, worker=WORKER_SETTINGS
    )
    start_thread, started = consumer.concurrency.start, []

    def fail_second_thread(name: str, function: Callable[[], None]) -> None:
        started.append(name)
        if started.count("matching") > 1:
            raise RuntimeError("can't start new thread")
        start_thread(name, function)

    consumer.concurrency.start = fail_second_thread  # type: ignore[method-assign]
    response = consumer.handle(event(*(record(message) for message in messages)), Context())

    assert response["batchItemFailures"] == []
    assert sorted(states(admin, messages), key=str) == [("pending", 0, None)] * 2 + [("succeeded", 1, None)]
    assert consumer.permits.acquire(10) == WORKER_SETTINGS["permits"]
