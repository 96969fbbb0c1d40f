"""Tries of one tenant that are worked on in one go, and settled in one transaction or each by itself."""

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import CommitUnknownError, Connection, Database
from counterfoil.delivery.attempt import BatchWorker, Effects, Succeeded, TenantAttempt
from counterfoil.delivery.work import Message, begin
from counterfoil.errors import ServiceUnavailableError
from tests import factories
from tests.delivery.harness import DONE, Clock, Context, FakeSqs, event, life_cycle, make_consumer, record

Pending = Callable[..., Message]
GATE = {"name": "matching", "timeout": 120, "permits": 4, "start_margin": 30}


class Worker:
    """Works on everything together, and remembers who came how."""

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
        came = {attempt.work_id for attempt in attempts}
        self.together.append(came)  # beside other tenants' threads
        self.transactions.append(connection.execute("SELECT pg_current_xact_id()::text").fetchall()[0][0])
        if self._effects is not None:
            self._effects(connection)
        ids = came.difference(self._left_out)
        return {id_: Effects(remark=f"with {len(ids) - 1} others") for id_ in ids}


def handle(
    database: Database, clock: Clock, worker: Any, messages: Sequence[Message], **changes: Any
) -> tuple[list[Any], Any]:
    consumer = make_consumer(database, BatchWorker(worker.one, worker.several), clock, worker=GATE, **changes)
    response = consumer.handle(event(*(record(message) for message in messages)), Context())
    return [failure["itemIdentifier"] for failure in response["batchItemFailures"]], consumer


def states(admin: Connection, messages: Sequence[Message]) -> list[tuple[Any, Any, Any]]:
    rows = [life_cycle(admin, message.work_id) for message in messages]
    return [(row["status"], row["attempts"], row["reason"]) for row in rows]


def test_what_comes_together_is_settled_in_one_transaction(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    worker, messages = Worker(), [pending() for _ in range(3)]

    failed, _ = handle(database, clock, worker, messages)

    assert failed == []
    assert (worker.together, worker.alone) == ([{message.work_id for message in messages}], [])
    assert states(admin, messages) == [("succeeded", 1, "with 2 others")] * 3
    settled_by = admin.execute("SELECT DISTINCT xmin::text FROM document WHERE matching_status = 'succeeded'")
    assert [xmin for (xmin,) in settled_by] == worker.transactions


def test_one_that_comes_by_itself_is_worked_on_in_the_transaction_that_settles_it(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    worker, message = Worker(), pending()

    failed, _ = handle(database, clock, worker, [message])

    assert (failed, worker.together, worker.alone) == ([], [{message.work_id}], [])
    assert states(admin, [message]) == [("succeeded", 1, "with 0 others")]
    settled_by = admin.execute("SELECT xmin::text FROM document WHERE id = %s", [message.work_id]).fetchall()
    assert [xmin for (xmin,) in settled_by] == worker.transactions


def test_all_that_is_done_together_is_planned_by_index(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    planned: list[Any] = []

    def look(connection: Connection) -> None:
        planned.extend(connection.execute("SELECT current_setting('enable_seqscan')").fetchall())

    handle(database, clock, Worker(effects=look), [pending(), pending()])

    assert planned == [("off",)]


def test_a_conflict_has_all_of_it_done_again(
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


def test_tenants_are_never_worked_on_together(
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


def test_what_is_left_out_is_tried_by_itself_at_no_further_attempt(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending() for _ in range(4)]
    worker = Worker(left_out=[message.work_id for message in messages[1:3]])

    failed, _ = handle(database, clock, worker, messages)

    assert failed == []
    assert sorted(worker.alone) == sorted(message.work_id for message in messages[1:3])
    assert [(state, attempts) for state, attempts, _ in states(admin, messages)] == [("succeeded", 1)] * 4


@pytest.mark.parametrize("error", [ServiceUnavailableError("away"), SystemExit(1), ZeroDivisionError()])
def test_a_failure_of_all_is_no_failure_of_any(
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


def test_a_try_that_has_lost_its_claim_takes_the_others_effects_back_and_theirs_are_done_again(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending(), pending()]
    lost, kept = messages

    def redrive(connection: Connection) -> None:
        connection.execute("UPDATE document SET method = 'xml' WHERE id = %s", [kept.work_id])
        if not redriven:
            redriven.append(begin(admin, "matching", [lost.work_id], clock()))

    redriven: list[Any] = []
    worker = Worker(effects=redrive)

    failed, _ = handle(database, clock, worker, messages)

    assert len(failed) == 1
    assert states(admin, messages) == [("pending", 0, None), ("succeeded", 1, None)]
    assert admin.execute("SELECT DISTINCT method FROM document").fetchall() == [(None,)]


@pytest.mark.parametrize("committed", [True, False])
def test_where_nobody_knows_whether_the_commit_happened_it_is_looked_up(
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


def test_where_the_time_is_over_nothing_that_was_left_is_begun(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages, alone = [pending(), pending()], []

    def several(connection: Connection, attempts: Sequence[TenantAttempt]) -> dict[UUID, Effects]:
        for attempt in attempts:
            attempt.deadline.cancelled.set()
        return {}

    def one(attempt: TenantAttempt) -> Succeeded:
        alone.append(attempt.work_id)
        return DONE

    consumer = make_consumer(database, BatchWorker(one, several), clock, worker=GATE)
    response = consumer.handle(event(*(record(message) for message in messages)), Context())

    assert (len(response["batchItemFailures"]), alone) == (2, [])
    assert [(state, attempts) for state, attempts, _ in states(admin, messages)] == [("pending", 1)] * 2
    assert consumer.gate.take(10) == GATE["permits"]


def test_where_no_thread_is_left_for_one_it_was_no_try(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending() for _ in range(3)]
    worker = Worker(left_out=[message.work_id for message in messages])
    consumer = make_consumer(database, BatchWorker(worker.one, worker.several), clock, worker=GATE)
    real, begun = consumer.concurrency.begin, []

    def begin_(name: str, function: Callable[[], None]) -> None:
        begun.append(name)
        if begun.count("matching") > 1:
            raise RuntimeError("can't start new thread")
        real(name, function)

    consumer.concurrency.begin = begin_  # type: ignore[method-assign]
    response = consumer.handle(event(*(record(message) for message in messages)), Context())

    assert response["batchItemFailures"] == []
    assert sorted(states(admin, messages), key=str) == [("pending", 0, None)] * 2 + [("succeeded", 1, None)]
    assert consumer.gate.take(10) == GATE["permits"]
