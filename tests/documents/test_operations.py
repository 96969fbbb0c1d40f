"""An operation begins every document once, no faster than it may, whatever ends in between."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.sql import SQL

from counterfoil import db
from counterfoil.db import Connection, Database
from counterfoil.documents import operations
from counterfoil.documents.operations import Operation, Step
from counterfoil.errors import RejectedStatementError
from counterfoil.outbox import Outbox
from counterfoil.work import KINDS
from functions.watchdog.operations import Operations, Stepped
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
            return operations.request(connection, tenant_id, kind, rate=rate, **about)

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


def step(keeper: Database, operation: Operation, clock: Clock) -> Step | None:
    with keeper.delivery() as connection:
        return operations.step(connection, operation.id, clock())


def begun(admin: Connection, worker: str = "matching") -> list[UUID]:
    """In the order in which their messages are owed."""
    found = admin.execute("SELECT work_id FROM outbox WHERE worker = %s ORDER BY created_at, id", [worker]).fetchall()
    return [work for (work,) in found]


def row(admin: Connection) -> dict[str, Any]:
    (found,) = rows(admin, "operation")
    return found


def test_so_many_documents_a_minute_are_begun_in_the_order_of_their_receipt(
    ask: Callable[..., Operation], received: Any, keeper_database: Database, clock: Clock, admin: Connection
):
    documents, operation = received(7), ask(rate=3)
    counts = []
    for _ in range(3):
        taken = step(keeper_database, operation, clock)
        assert taken is not None
        counts.append((taken.begun, taken.is_done))
        assert step(keeper_database, operation, clock) in {None, Step(0, (), is_done=False)}
        clock.pass_(minutes=1)
    assert counts == [(3, False), (3, False), (1, True)]
    assert (row(admin)["state"], row(admin)["begun"]) == ("done", 7)
    owed = begun(admin)
    assert (set(owed), len(owed)) == (set(documents), 7)
    assert set(owed[:3]) == set(documents[:3])
    states = admin.execute("SELECT DISTINCT matching_status, matching_revision FROM document").fetchall()
    assert states == [("pending", 2)]


@pytest.mark.parametrize(
    ("rate", "seconds", "expected"),
    [
        pytest.param(60, 59.2, 59, id="a round that comes early has less"),
        pytest.param(60, 600, 60, id="what was missed is not made up for"),
        pytest.param(1, 59, 0, id="a slow rate waits for its next one"),
        pytest.param(1, 60, 1, id="and then has it"),
        pytest.param(1000, 60, 1000, id="the highest rate"),
        pytest.param(7, 0, 0, id="at once"),
        pytest.param(7, -30, 0, id="a clock that goes back"),
    ],
)
def test_the_rate_allows(rate: int, seconds: float, expected: int):
    now = NOW + timedelta(seconds=seconds)
    count, stepped = operations.allowance(rate, NOW, now)
    assert count == expected
    assert stepped <= max(now, NOW)


@pytest.mark.parametrize("rate", [1, 7, 60, 450, 1000])
def test_over_many_uneven_rounds_the_rate_is_kept_and_used_up(rate: int):
    stepped, now, total = NOW, NOW, 0
    for place in range(600):
        now += timedelta(seconds=55 + place % 11)
        count, stepped = operations.allowance(rate, stepped, now)
        total += count
    minutes = (now - NOW) / A_MINUTE
    assert 0.9 * rate * minutes <= total <= rate * minutes


def test_only_documents_of_the_tenant_and_the_time_that_were_done_before_are_begun(
    ask: Callable[..., Operation],
    received: Any,
    keeper_database: Database,
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
    taken = step(keeper_database, operation, clock)
    assert taken is not None
    assert taken.is_done
    assert set(begun(admin)) == set(meant)


def test_what_comes_after_the_request_is_left(
    ask: Callable[..., Operation], received: Any, keeper_database: Database, clock: Clock, admin: Connection
):
    meant, operation = received(1), ask()
    received(1, day=31)
    clock.pass_(days=3)
    step(keeper_database, operation, clock)
    assert begun(admin) == meant


def test_an_extraction_begins_ingestion_and_leaves_what_nobody_reads(
    ask: Callable[..., Operation], received: Any, keeper_database: Database, clock: Clock, admin: Connection
):
    read, cover = received(1), received(1, day=1)
    admin.execute("UPDATE ingestion_job SET status = NULL, revision = 0 WHERE id = %s", cover)
    step(keeper_database, ask("extract"), clock)
    assert (begun(admin, "ingestion"), begun(admin)) == (read, [])


def test_only_what_is_begun_anew_has_its_dead_letter_settled(
    ask: Callable[..., Operation],
    received: Any,
    keeper_database: Database,
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
    step(keeper_database, ask("extract"), clock)
    assert {(letter["worker"], letter["status"], letter["resolved_by"]) for letter in rows(admin, "dead_letter")} == {
        ("ingestion", "retried", "ann"),
        ("matching", "pending", None),  # reading begins it, or fails
    }
    assert len(rows(admin, "dead_letter_audit")) == 1


def test_a_step_that_is_not_committed_has_not_been_taken(
    ask: Callable[..., Operation], received: Any, keeper_database: Database, clock: Clock, admin: Connection
):
    documents, operation = received(5), ask(rate=2)
    while row(admin)["state"] == "running":
        before = rows(admin, "document"), rows(admin, "operation"), rows(admin, "outbox")

        with keeper_database.delivery() as connection:
            assert operations.step(connection, operation.id, clock()) is not None
            connection.rollback()  # as the server does when its client is gone
        assert (rows(admin, "document"), rows(admin, "operation"), rows(admin, "outbox")) == before
        step(keeper_database, operation, clock)
        clock.pass_(minutes=1)
    assert sorted(begun(admin)) == sorted(documents)


def test_two_watchdogs_do_not_take_the_same_step(
    ask: Callable[..., Operation], received: Any, keeper_database: Database, clock: Clock, admin: Connection
):
    received(3)
    operation = ask()
    with keeper_database.delivery() as connection:
        assert operations.step(connection, operation.id, clock()) is not None
        assert step(keeper_database, operation, clock) is None
    assert len(begun(admin)) == 3


def test_documents_of_one_moment_are_told_apart_by_their_ids(
    ask: Callable[..., Operation], received: Any, keeper_database: Database, clock: Clock, admin: Connection
):
    documents = [id_ for _ in range(5) for id_ in received(1)]
    operation = ask(rate=2)
    for _ in range(3):
        step(keeper_database, operation, clock)
        clock.pass_(minutes=1)
    assert sorted(begun(admin)) == sorted(documents)


def change(database: Database, operation: Operation, state: Any, clock: Clock) -> Operation | None:
    with database.tenant(operation.tenant_id) as connection:
        return operations.change(connection, operation.id, state, clock(), by="ann")


def test_changes_of_reprocessing_reach_the_audit_trail(
    ask: Callable[..., Operation], database: Database, clock: Clock, admin: Connection
):
    operation = ask(rate=2)
    for state in ("paused", "running", "aborted", "paused"):  # the last one is refused
        change(database, operation, state, clock)

    entries = recorded(admin, operation.tenant_id)
    assert [action for _, action, _ in entries] == [
        f"reprocessing {action}" for action in ("started", "paused", "resumed", "aborted")
    ]
    assert {tuple(targets) for _, _, targets in entries} == {(str(operation.id),)}


def test_a_paused_operation_waits_and_goes_on_where_it_was(
    ask: Callable[..., Operation],
    received: Any,
    database: Database,
    keeper_database: Database,
    clock: Clock,
    admin: Any,
):
    documents, operation = received(4), ask(rate=2)
    step(keeper_database, operation, clock)
    assert change(database, operation, "paused", clock) is not None
    clock.pass_(hours=1)
    assert step(keeper_database, operation, clock) is None
    assert change(database, operation, "running", clock) is not None
    assert step(keeper_database, operation, clock) == Step(0, (), is_done=False)
    clock.pass_(minutes=1)
    step(keeper_database, operation, clock)
    assert sorted(begun(admin)) == sorted(documents)


def test_what_has_ended_changes_no_more(
    ask: Callable[..., Operation],
    received: Any,
    database: Database,
    keeper_database: Database,
    clock: Clock,
    admin: Any,
):
    received(1)
    operation = ask()
    aborted = change(database, operation, "aborted", clock)
    assert aborted is not None
    assert (aborted.state, aborted.ended_at) == ("aborted", clock())
    for state in ("running", "paused", "aborted"):
        assert change(database, operation, state, clock) is None
    assert step(keeper_database, operation, clock) is None
    assert begun(admin) == []


def test_an_operation_belongs_to_its_tenant(
    ask: Callable[..., Operation], database: Database, make_tenant: Callable[..., UUID], clock: Clock
):
    operation, other = ask(), make_tenant("zenith")
    with database.tenant(other) as connection:
        assert operations.of_tenant(connection, operation.tenant_id) == []
        assert operations.change(connection, operation.id, "aborted", clock(), by="ann") is None


@pytest.mark.parametrize("rate", [0, -1, 1001])
def test_a_rate_that_is_none_is_refused(ask: Callable[..., Operation], rate: int):
    with pytest.raises(RejectedStatementError, match="operation_rate_check"):
        ask(rate=rate)


def test_a_round_takes_a_step_of_each_operation_and_sends_what_it_owes(
    ask: Callable[..., Operation],
    received: Any,
    keeper_database: Database,
    clock: Clock,
    sqs: FakeSqs,
    admin: Connection,
):
    received(3)
    ask(rate=2)
    ask("extract", rate=5)
    queues = {"matching": "m", "ingestion": "i"}
    step_of_watchdog = Operations(keeper_database, Outbox(keeper_database, queues, clock=clock), clock)
    assert step_of_watchdog.run(lambda: 10) == Stepped(running=2, begun=5, done=1)
    assert {queue: len(entries) for queue, entries in sqs.sent.items()} == {"m": 2, "i": 3}
    clock.pass_(minutes=1)
    assert step_of_watchdog.run(lambda: 1) == Stepped(running=1, begun=0, done=0)
    assert step_of_watchdog.run(lambda: 10) == Stepped(running=1, begun=1, done=1)


def test_one_whose_documents_are_in_use_holds_up_no_other(
    ask: Callable[..., Operation],
    received: Any,
    keeper_database: Database,
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
    taking = Operations(keeper_database, Outbox(keeper_database, {}, clock=clock), clock)
    with psycopg.connect(admin_database_url) as other:
        other.execute("SELECT FROM document WHERE id = %s FOR UPDATE", [busy])
        assert taking.run(lambda: 10) == Stepped(running=2, begun=1, done=1)
    assert taking.run(lambda: 10) == Stepped(running=1, begun=1, done=1)
