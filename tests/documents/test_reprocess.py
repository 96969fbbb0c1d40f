"""Reprocessing begins every document once, at its rate, whatever fails in between."""

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
from counterfoil.kinds import KINDS
from counterfoil.operations import engine, store
from counterfoil.operations.engine import Engine, Step
from counterfoil.operations.store import NoOperationError, Operation, OperationStateError, Steer
from tests.dead_letters.bulking import KilledError
from tests.dead_letters.trail import recorded
from tests.delivery.conftest import sqs
from tests.delivery.harness import Clock, FakeSqs, rows
from tests.factories import NOW

__all__ = ["sqs"]

A_MINUTE = timedelta(minutes=1)
PATIENCE = SQL(
    "BEGIN; SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, set_config({setting}, {value}, true),"
    " set_config('lock_timeout', '50ms', true)"
)
"""The opening of a transaction that waits for a lock for a moment only."""


@pytest.fixture
def tenant_id(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW + timedelta(days=30))


@pytest.fixture
def ask(database: Database, tenant_id: UUID, clock: Clock) -> Callable[..., Operation]:
    """`ask(kind="match", rate=60, **more)` stores an operation."""

    def ask(kind: Any = "match", rate: int = 60, **more: Any) -> Operation:
        about = {"received_from": None, "received_until": None, "by": "ann", "now": clock(), **more}
        with database.tenant(tenant_id) as connection:
            return reprocess.request(connection, tenant_id, kind, rate=rate, **about)

    return ask


@pytest.fixture
def received(make_document: Callable[..., UUID], tenant_id: UUID, admin: Connection) -> Callable[..., list[UUID]]:
    """`received(number, day=0)`: documents that were read and matched, one received each minute."""

    def received(number: int, day: int = 0, **columns: Any) -> list[UUID]:
        about = {"matching_status": "succeeded", "matching_revision": 1, "tenant_id": tenant_id, **columns}
        owner = about.pop("tenant_id")
        found = [
            make_document(owner, received_at=NOW + timedelta(days=day, minutes=minute), **about)
            for minute in range(number)
        ]
        admin.execute(
            "INSERT INTO ingestion_job (id, tenant_id, created_at, status, revision) "
            "SELECT id, %s, now(), 'succeeded', 1 FROM unnest(%s::uuid[]) AS d (id)",
            [owner, found],
        )
        return found

    return received


def step(database: Database, operation: Operation, clock: Clock) -> Step | None:
    return engine.step(database, Reprocessing(), operation.id, operation.tenant_id, clock())


def _killed(_: Any) -> None:
    raise KilledError


def begun(admin: Connection, worker: str = "matching") -> list[UUID]:
    """In the order in which their messages are owed."""
    found = admin.execute("SELECT work_id FROM outbox WHERE worker = %s ORDER BY created_at, id", [worker]).fetchall()
    return [work for (work,) in found]


def row(admin: Connection) -> dict[str, Any]:
    (found,) = rows(admin, "operation")
    return found


def test_documents_are_begun_at_the_rate_in_order_of_receipt(
    ask: Callable[..., Operation], received: Any, database: Database, clock: Clock, admin: Connection
):
    documents, operation = received(7), ask(rate=3)
    counts = []
    for _ in range(3):
        taken = step(database, operation, clock)
        assert taken is not None
        counts.append((taken.handled, taken.is_busy))
        assert step(database, operation, clock) in {None, Step(0, (), is_busy=False)}
        clock.pass_(minutes=1)
    assert counts == [(3, True), (3, True), (1, False)]
    stored = row(admin)
    assert (stored["state"], stored["done"], stored["selected"], stored["is_selected"]) == ("done", 7, 7, True)
    owed = begun(admin)
    assert (set(owed), len(owed)) == (set(documents), 7)
    assert set(owed[:3]) == set(documents[:3])
    states = admin.execute("SELECT DISTINCT matching_status, matching_revision FROM document").fetchall()
    assert states == [("pending", 2)]


def test_messages_are_due_at_an_even_rate(
    ask: Callable[..., Operation], received: Any, database: Database, clock: Clock, admin: Connection
):
    received(3)
    step(database, ask(rate=3), clock)
    due = sorted(message["not_before"] for message in rows(admin, "outbox"))
    first, *rest = map(datetime.fromisoformat, due)
    assert [(moment - first).total_seconds() for moment in rest] == [20, 40]


@pytest.mark.parametrize("rate", [1, 7, 60, 450, 1000])
def test_uneven_runs_keep_the_rate(rate: int):
    stepped, now, total = NOW, NOW, 0
    for place in range(600):
        now += timedelta(seconds=55 + place % 11)
        count, start = engine.allowance(rate, A_MINUTE, stepped, now)
        stepped = start + count * A_MINUTE / rate
        total += count
    minutes = (now + engine.AHEAD - NOW) / A_MINUTE
    assert 0.9 * rate * minutes <= total <= rate * minutes


def test_only_documents_of_the_tenant_and_the_time_that_were_done_before_are_begun(
    ask: Callable[..., Operation],
    received: Any,
    database: Database,
    clock: Clock,
    make_tenant: Callable[..., UUID],
    admin: Connection,
):
    received(2, day=1)
    meant = received(2, day=2)
    received(2, day=3)
    received(1, day=2, tenant_id=make_tenant("zenith"))
    received(1, day=2, matching_status=None, matching_revision=0)
    operation = ask(received_from=NOW + timedelta(days=2), received_until=NOW + timedelta(days=3))
    taken = step(database, operation, clock)
    assert taken is not None
    assert not taken.is_busy
    assert set(begun(admin)) == set(meant)


def test_what_comes_after_the_request_is_left(
    ask: Callable[..., Operation], received: Any, database: Database, clock: Clock, admin: Connection
):
    meant, operation = received(1), ask()
    received(1, day=31)
    clock.pass_(days=3)
    step(database, operation, clock)
    assert begun(admin) == meant


def test_an_extraction_begins_ingestion_and_leaves_what_nobody_reads(
    ask: Callable[..., Operation], received: Any, database: Database, clock: Clock, admin: Connection
):
    read, cover = received(1), received(1, day=1)
    admin.execute("UPDATE ingestion_job SET status = NULL, revision = 0 WHERE id = %s", cover)
    step(database, ask("extract"), clock)
    assert (begun(admin, "ingestion"), begun(admin)) == (read, [])


def test_only_what_is_begun_anew_has_its_dead_letter_settled(
    ask: Callable[..., Operation],
    received: Any,
    database: Database,
    clock: Clock,
    admin: Connection,
    tenant_id: UUID,
):
    (document,) = received(1, matching_status="failed")
    for worker in ("ingestion", "matching"):
        admin.execute(
            """
            INSERT INTO dead_letter (job_id, tenant_id, worker, work_id, revision, task_type, payload, metadata,
                                     attempts, fingerprint, dlq_reason, dlq_timestamp)
            VALUES (%s, %s, %s, %s, 1, %s, '{}', '{}', 3, 'f', 'max_retries_exceeded', now())
            """,
            [KINDS[worker].job_id(document), tenant_id, worker, document, worker],
        )
    step(database, ask("extract"), clock)
    assert {(letter["worker"], letter["status"], letter["resolved_by"]) for letter in rows(admin, "dead_letter")} == {
        ("ingestion", "retried", "ann"),
        ("matching", "pending", None),  # reading begins it, or fails
    }
    assert len(rows(admin, "dead_letter_audit")) == 1


def test_a_step_that_is_not_committed_has_not_been_taken(
    ask: Callable[..., Operation],
    received: Any,
    database: Database,
    clock: Clock,
    admin: Connection,
    monkeypatch: pytest.MonkeyPatch,
):
    documents, operation = received(5), ask(rate=2)
    while row(admin)["state"] == "running":
        before = rows(admin, "document"), rows(admin, "operation"), rows(admin, "outbox")

        with monkeypatch.context() as patched:
            patched.setattr("psycopg.Connection.commit", _killed)
            with pytest.raises(KilledError):
                step(database, operation, clock)
        assert (rows(admin, "document"), rows(admin, "operation"), rows(admin, "outbox")) == before
        step(database, operation, clock)
        clock.pass_(minutes=1)
    assert sorted(begun(admin)) == sorted(documents)


def test_locked_operation_is_skipped(
    ask: Callable[..., Operation], received: Any, database: Database, clock: Clock, admin: Connection
):
    received(3)
    operation = ask()
    with database.tenant(operation.tenant_id) as connection:
        store.show(connection, operation.id, lock=True)
        assert step(database, operation, clock) is None
    assert begun(admin) == []


def test_documents_of_one_moment_are_told_apart_by_their_ids(
    ask: Callable[..., Operation], received: Any, database: Database, clock: Clock, admin: Connection
):
    documents = [id_ for _ in range(5) for id_ in received(1)]
    operation = ask(rate=2)
    for _ in range(3):
        step(database, operation, clock)
        clock.pass_(minutes=1)
    assert sorted(begun(admin)) == sorted(documents)


def change(database: Database, operation: Operation, how: Steer, clock: Clock) -> Operation:
    with database.tenant(operation.tenant_id) as connection:
        version = store.show(connection, operation.id).version
        return store.steer(connection, operation.id, how, version=version, actor="ann", now=clock())


def test_changes_of_reprocessing_reach_the_audit_trail(
    ask: Callable[..., Operation], database: Database, clock: Clock, admin: Connection
):
    operation = ask(rate=2)
    for how in ("pause", "resume", "cancel"):
        change(database, operation, how, clock)
    with pytest.raises(OperationStateError):
        change(database, operation, "pause", clock)

    entries = recorded(admin, operation.tenant_id)
    assert [action for _, action, _ in entries] == [
        f"reprocessing {action}" for action in ("started", "paused", "resumed", "cancelled")
    ]
    assert {tuple(targets) for _, _, targets in entries} == {(str(operation.id),)}
    details = admin.execute("SELECT DISTINCT detail FROM audit_entry").fetchall()
    assert details == [({"what": "match", "rate": 2},)]


def test_a_paused_operation_waits_and_goes_on_where_it_was(
    ask: Callable[..., Operation],
    received: Any,
    database: Database,
    clock: Clock,
    admin: Any,
):
    documents, operation = received(4), ask(rate=2)
    step(database, operation, clock)
    assert change(database, operation, "pause", clock).state == "paused"
    clock.pass_(hours=1)
    assert step(database, operation, clock) is None
    assert change(database, operation, "resume", clock).state == "running"
    step(database, operation, clock)
    assert sorted(begun(admin)) == sorted(documents)


def test_ended_operation_does_not_change(
    ask: Callable[..., Operation], received: Any, database: Database, clock: Clock, admin: Any
):
    received(1)
    operation = ask()
    cancelled = change(database, operation, "cancel", clock)
    assert (cancelled.state, cancelled.ended_at) == ("cancelled", clock())
    for how in ("resume", "pause", "cancel"):
        with pytest.raises(OperationStateError):
            change(database, operation, how, clock)
    assert step(database, operation, clock) is None
    assert begun(admin) == []


def test_operation_belongs_to_its_tenant(
    ask: Callable[..., Operation], database: Database, make_tenant: Callable[..., UUID], clock: Clock
):
    operation, other = ask(), make_tenant("zenith")
    with database.tenant(other) as connection:
        assert store.page(connection, operation.tenant_id, limit=10) == []
        with pytest.raises(NoOperationError):
            store.steer(connection, operation.id, "cancel", version=1, actor="ann", now=clock())


@pytest.mark.parametrize("rate", [0, -1, 1001])
def test_a_rate_that_is_none_is_refused(ask: Callable[..., Operation], rate: int):
    with pytest.raises(RejectedRequestError, match="must be between 1 and 1000"):
        ask(rate=rate)


def test_a_round_takes_a_step_of_each_operation_and_sends_what_it_owes(
    ask: Callable[..., Operation],
    received: Any,
    database: Database,
    clock: Clock,
    sqs: FakeSqs,
    admin: Connection,
):
    received(3)
    ask(rate=2)
    ask("extract", rate=5)
    queues = {"matching": "m", "ingestion": "i"}
    running = Engine(database, Outbox(database, queues, clock=clock), [Reprocessing()], clock)
    assert running.run(lambda: 50) == {"operations": 2, "items": 5}
    assert {queue: len(entries) for queue, entries in sqs.sent.items()} == {"m": 2, "i": 3}
    clock.pass_(minutes=1)
    assert running.run(lambda: 1) == {"operations": 1, "items": 0}
    assert running.run(lambda: 50) == {"operations": 1, "items": 1}


def test_one_whose_documents_are_in_use_holds_up_no_other(
    ask: Callable[..., Operation],
    received: Any,
    database: Database,
    clock: Clock,
    sqs: FakeSqs,
    admin_database_url: str,
    monkeypatch: pytest.MonkeyPatch,
):
    (busy,) = received(1)
    received(1, day=2)
    ask(received_until=NOW + timedelta(days=1))
    ask(received_from=NOW + timedelta(days=1))
    monkeypatch.setattr(db, "_OPEN", PATIENCE)
    monkeypatch.setattr(db, "_statements", db._statements.__wrapped__)  # none is kept from before, and none for later
    running = Engine(database, Outbox(database, {}, clock=clock), [Reprocessing()], clock)
    with psycopg.connect(admin_database_url) as other:
        other.execute("SELECT FROM document WHERE id = %s FOR UPDATE", [busy])
        assert running.run(lambda: 50) == {"operations": 2, "items": 1}
    assert running.run(lambda: 50) == {"operations": 1, "items": 1}
