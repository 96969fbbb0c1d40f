"""Reprocessing starts each document once, at the requested rate.

This also holds if a step is killed.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.sql import SQL

from counterfoil import db
from counterfoil.db import Connection, Database
from counterfoil.delivery.outbox import Outbox
from counterfoil.documents import reprocess
from counterfoil.documents.reprocess import Reprocessing
from counterfoil.errors import RejectedRequestError
from counterfoil.kinds import WORK_KINDS
from counterfoil.operations import engine, store
from counterfoil.operations.engine import Engine, StepResult
from counterfoil.operations.store import Operation, OperationCommand, OperationNotFoundError, OperationStateError
from tests.dead_letters.audit_trail import verified_changes
from tests.dead_letters.bulk_harness import KilledError
from tests.delivery.conftest import sqs
from tests.delivery.harness import Clock, FakeSqs, rows
from tests.factories import NOW

__all__ = ["sqs"]

A_MINUTE = timedelta(minutes=1)
SHORT_LOCK_TIMEOUT = SQL(
    "BEGIN; SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, set_config({setting}, {value}, true),"
    " set_config('lock_timeout', '50ms', true)"
)
"""SQL that starts a transaction with a lock timeout of 50 ms."""


@pytest.fixture
def tenant_id(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW + timedelta(days=30))


@pytest.fixture
def make_operation(database: Database, tenant_id: UUID, clock: Clock) -> Callable[..., Operation]:
    """`make_operation(kind="match", rate=60, **fields)` stores a running operation."""

    def make_operation(kind: Any = "match", rate: int = 60, **fields: Any) -> Operation:
        options = {"received_from": None, "received_before": None, "by": "ann", "now": clock(), **fields}
        with database.tenant(tenant_id) as connection:
            return reprocess.request_reprocessing(connection, tenant_id, kind, rate=rate, **options)

    return make_operation


@pytest.fixture
def make_received(make_document: Callable[..., UUID], tenant_id: UUID, admin: Connection) -> Callable[..., list[UUID]]:
    """`make_received(number, day=0)` creates processed documents.

    They are received one minute apart.
    """

    def make(number: int, day: int = 0, **columns: Any) -> list[UUID]:
        values = {"matching_status": "succeeded", "matching_revision": 1, "tenant_id": tenant_id, **columns}
        owner = values.pop("tenant_id")
        ids = [
            make_document(owner, received_at=NOW + timedelta(days=day, minutes=minute), **values)
            for minute in range(number)
        ]
        admin.execute(
            "INSERT INTO ingestion_job (id, tenant_id, created_at, status, revision) "
            "SELECT id, %s, now(), 'succeeded', 1 FROM unnest(%s::uuid[]) AS d (id)",
            [owner, ids],
        )
        return ids

    return make


def step(database: Database, operation: Operation, clock: Clock) -> StepResult | None:
    return engine.run_step(database, Reprocessing(), operation.id, operation.tenant_id, clock())


def _kill(_: Any) -> None:
    raise KilledError


def started_ids(admin: Connection, worker: str = "matching") -> list[UUID]:
    """Return the ids of started documents, in the order of their outbox messages."""
    records = admin.execute("SELECT work_id FROM outbox WHERE worker = %s ORDER BY created_at, id", [worker]).fetchall()
    return [work for (work,) in records]


def row(admin: Connection) -> dict[str, Any]:
    (operation_row,) = rows(admin, "operation")
    return operation_row


def test_documents_start_at_rate_in_receipt_order(
    make_operation: Callable[..., Operation], make_received: Any, database: Database, clock: Clock, admin: Connection
):
    documents, operation = make_received(7), make_operation(rate=3)
    counts = []
    for _ in range(3):
        step_result = step(database, operation, clock)
        assert step_result is not None
        counts.append((step_result.processed, step_result.is_busy))
        assert step(database, operation, clock) in {None, StepResult(0, (), is_busy=False)}
        clock.advance(minutes=1)
    assert counts == [(3, True), (3, True), (1, False)]
    stored = row(admin)
    assert (stored["state"], stored["succeeded"], stored["selected"], stored["selection_complete"]) == (
        "done",
        7,
        7,
        True,
    )
    ids = started_ids(admin)
    assert (set(ids), len(ids)) == (set(documents), 7)
    assert set(ids[:3]) == set(documents[:3])
    states = admin.execute("SELECT DISTINCT matching_status, matching_revision FROM document").fetchall()
    assert states == [("pending", 2)]


def test_messages_are_scheduled_at_an_even_rate(
    make_operation: Callable[..., Operation], make_received: Any, database: Database, clock: Clock, admin: Connection
):
    make_received(3)
    step(database, make_operation(rate=3), clock)
    due = sorted(message["scheduled_at"] for message in rows(admin, "outbox"))
    first, *rest = map(datetime.fromisoformat, due)
    assert [(moment - first).total_seconds() for moment in rest] == [20, 40]


@pytest.mark.parametrize("rate", [1, 7, 60, 450, 1000])
def test_irregular_runs_nearly_reach_but_never_exceed_rate(rate: int):
    last_step_at, now, total = NOW, NOW, 0
    for run in range(600):
        now += timedelta(seconds=55 + run % 11)
        count, start = engine.permitted_items(rate, A_MINUTE, last_step_at, now)
        last_step_at = start + count * A_MINUTE / rate
        total += count
    minutes = (now + engine.LOOKAHEAD - NOW) / A_MINUTE
    assert 0.9 * rate * minutes <= total <= rate * minutes


def test_only_processed_documents_in_range_are_started(
    make_operation: Callable[..., Operation],
    make_received: Any,
    database: Database,
    clock: Clock,
    make_tenant: Callable[..., UUID],
    admin: Connection,
):
    make_received(2, day=1)
    expected = make_received(2, day=2)
    make_received(2, day=3)
    make_received(1, day=2, tenant_id=make_tenant("zenith"))
    make_received(1, day=2, matching_status=None, matching_revision=0)
    operation = make_operation(received_from=NOW + timedelta(days=2), received_before=NOW + timedelta(days=3))
    step_result = step(database, operation, clock)
    assert step_result is not None
    assert not step_result.is_busy
    assert set(started_ids(admin)) == set(expected)


def test_documents_received_after_request_are_skipped(
    make_operation: Callable[..., Operation], make_received: Any, database: Database, clock: Clock, admin: Connection
):
    expected, operation = make_received(1), make_operation()
    make_received(1, day=31)
    clock.advance(days=3)
    step(database, operation, clock)
    assert started_ids(admin) == expected


def test_extract_operation_starts_ingestion_except_for_covers(
    make_operation: Callable[..., Operation], make_received: Any, database: Database, clock: Clock, admin: Connection
):
    read, cover = make_received(1), make_received(1, day=1)
    admin.execute("UPDATE ingestion_job SET status = NULL, revision = 0 WHERE id = %s", cover)
    step(database, make_operation("extract"), clock)
    assert (started_ids(admin, "ingestion"), started_ids(admin)) == (read, [])


def test_only_restarted_work_items_close_dead_letters(
    make_operation: Callable[..., Operation],
    make_received: Any,
    database: Database,
    clock: Clock,
    admin: Connection,
    tenant_id: UUID,
):
    (document,) = make_received(1, matching_status="failed")
    for worker in ("ingestion", "matching"):
        admin.execute(
            """
            INSERT INTO dead_letter (job_id, tenant_id, worker, work_id, revision, task_type, payload, metadata,
                                     attempts, fingerprint, dlq_reason, dlq_timestamp)
            VALUES (%s, %s, %s, %s, 1, %s, '{}', '{}', 3, 'f', 'max_retries_exceeded', now())
            """,
            [WORK_KINDS[worker].job_id(document), tenant_id, worker, document, worker],
        )
    step(database, make_operation("extract"), clock)
    assert {(row["worker"], row["status"], row["resolved_by"]) for row in rows(admin, "dead_letter")} == {
        ("ingestion", "retried", "ann"),
        ("matching", "pending", None),  # matching restarts when the extraction succeeds
    }
    assert len(rows(admin, "dead_letter_audit")) == 1


def test_step_killed_before_commit_changes_nothing(
    make_operation: Callable[..., Operation],
    make_received: Any,
    database: Database,
    clock: Clock,
    admin: Connection,
    monkeypatch: pytest.MonkeyPatch,
):
    documents, operation = make_received(5), make_operation(rate=2)
    while row(admin)["state"] == "running":
        before = rows(admin, "document"), rows(admin, "operation"), rows(admin, "outbox")

        with monkeypatch.context() as patched:
            patched.setattr("psycopg.Connection.commit", _kill)
            with pytest.raises(KilledError):
                step(database, operation, clock)
        assert (rows(admin, "document"), rows(admin, "operation"), rows(admin, "outbox")) == before
        step(database, operation, clock)
        clock.advance(minutes=1)
    assert sorted(started_ids(admin)) == sorted(documents)


def test_locked_operation_is_skipped(
    make_operation: Callable[..., Operation], make_received: Any, database: Database, clock: Clock, admin: Connection
):
    make_received(3)
    operation = make_operation()
    with database.tenant(operation.tenant_id) as connection:
        store.show(connection, operation.id, lock=True)
        assert step(database, operation, clock) is None
    assert started_ids(admin) == []


def test_documents_received_together_are_started_once(
    make_operation: Callable[..., Operation], make_received: Any, database: Database, clock: Clock, admin: Connection
):
    documents = [id_ for _ in range(5) for id_ in make_received(1)]
    operation = make_operation(rate=2)
    for _ in range(3):
        step(database, operation, clock)
        clock.advance(minutes=1)
    assert sorted(started_ids(admin)) == sorted(documents)


def change(database: Database, operation: Operation, command: OperationCommand, clock: Clock) -> Operation:
    with database.tenant(operation.tenant_id) as connection:
        version = store.show(connection, operation.id).version
        return store.change_state(connection, operation.id, command, version=version, actor="ann", now=clock())


def test_reprocessing_changes_reach_the_audit_trail(
    make_operation: Callable[..., Operation], database: Database, clock: Clock, admin: Connection
):
    operation = make_operation(rate=2)
    for command in ("pause", "resume", "cancel"):
        change(database, operation, command, clock)
    with pytest.raises(OperationStateError):
        change(database, operation, "pause", clock)

    entries = verified_changes(admin, operation.tenant_id)
    assert [action for _, action, _ in entries] == [
        f"reprocessing {action}" for action in ("started", "paused", "resumed", "canceled")
    ]
    assert {tuple(targets) for _, _, targets in entries} == {(str(operation.id),)}
    details = admin.execute("SELECT DISTINCT detail FROM audit_entry").fetchall()
    assert details == [({"what": "match", "rate": 2},)]


def test_paused_operation_resumes_where_it_stopped(
    make_operation: Callable[..., Operation],
    make_received: Any,
    database: Database,
    clock: Clock,
    admin: Any,
):
    documents, operation = make_received(4), make_operation(rate=2)
    step(database, operation, clock)
    assert change(database, operation, "pause", clock).state == "paused"
    clock.advance(hours=1)
    assert step(database, operation, clock) is None
    assert change(database, operation, "resume", clock).state == "running"
    step(database, operation, clock)
    assert sorted(started_ids(admin)) == sorted(documents)


def test_ended_operation_does_not_change(
    make_operation: Callable[..., Operation], make_received: Any, database: Database, clock: Clock, admin: Any
):
    make_received(1)
    operation = make_operation()
    canceled = change(database, operation, "cancel", clock)
    assert (canceled.state, canceled.ended_at) == ("canceled", clock())
    for command in ("resume", "pause", "cancel"):
        with pytest.raises(OperationStateError):
            change(database, operation, command, clock)
    assert step(database, operation, clock) is None
    assert started_ids(admin) == []


def test_other_tenants_operation_is_not_found(
    make_operation: Callable[..., Operation], database: Database, make_tenant: Callable[..., UUID], clock: Clock
):
    operation, other = make_operation(), make_tenant("zenith")
    with database.tenant(other) as connection:
        assert store.page(connection, operation.tenant_id, limit=10) == []
        with pytest.raises(OperationNotFoundError):
            store.change_state(connection, operation.id, "cancel", version=1, actor="ann", now=clock())


@pytest.mark.parametrize("rate", [0, -1, 1001])
def test_invalid_rate_is_rejected(make_operation: Callable[..., Operation], rate: int):
    with pytest.raises(RejectedRequestError, match="must be between 1 and 1000"):
        make_operation(rate=rate)


def test_run_steps_each_operation_and_sends_messages(
    make_operation: Callable[..., Operation],
    make_received: Any,
    database: Database,
    clock: Clock,
    sqs: FakeSqs,
    admin: Connection,
):
    make_received(3)
    make_operation(rate=2)
    make_operation("extract", rate=5)
    queues = {"matching": "m", "ingestion": "i"}
    running = Engine(database, Outbox(database, queues, clock=clock), [Reprocessing()], clock)
    assert running.run(lambda: 50) == {"operations": 2, "items": 5}
    assert {queue: len(entries) for queue, entries in sqs.sent.items()} == {"m": 2, "i": 3}
    clock.advance(minutes=1)
    assert running.run(lambda: 1) == {"operations": 1, "items": 0}
    assert running.run(lambda: 50) == {"operations": 1, "items": 1}


def test_locked_document_does_not_block_other_operations(
    make_operation: Callable[..., Operation],
    make_received: Any,
    database: Database,
    clock: Clock,
    sqs: FakeSqs,
    admin_database_url: str,
    monkeypatch: pytest.MonkeyPatch,
):
    (locked,) = make_received(1)
    make_received(1, day=2)
    make_operation(received_before=NOW + timedelta(days=1))
    make_operation(received_from=NOW + timedelta(days=1))
    monkeypatch.setattr(db, "_OPEN", SHORT_LOCK_TIMEOUT)
    monkeypatch.setattr(db, "_statements", db._statements.__wrapped__)  # bypass the cache, because `_OPEN` has changed
    running = Engine(database, Outbox(database, {}, clock=clock), [Reprocessing()], clock)
    with psycopg.connect(admin_database_url) as other:
        other.execute("SELECT FROM document WHERE id = %s FOR UPDATE", [locked])
        assert running.run(lambda: 50) == {"operations": 2, "items": 1}
    assert running.run(lambda: 50) == {"operations": 1, "items": 1}
