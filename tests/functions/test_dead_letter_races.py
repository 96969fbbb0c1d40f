"""Races between the archiver and a worker, an operator or another archiver.

They compete for one work item. Each order is forced on a real server. Between the archiver's read and its write, a
trigger waits for a lock that the test holds.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from counterfoil.db import CommitUnknownError, Connection, Database
from counterfoil.delivery import sql
from counterfoil.delivery.attempt import Effects, Outcome, Succeeded, TenantAttempt
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import RedeliverPolicy
from counterfoil.delivery.work import Message, start_revision
from counterfoil.errors import DatabaseUnavailableError, InvalidDocumentError, ServiceUnavailableError
from counterfoil.kinds import WORK_KINDS
from functions.dead_letters.archiver import Archiver, RetryAfter
from tests.delivery.harness import QUEUE_URL, Clock, Context, FakeSqs, event, life_cycle, make_consumer, record, rows
from tests.functions.test_dead_letters import actions, archiver, dlq_record

__all__ = ["archiver"]

Pending = Callable[..., Message]
LEASE = timedelta(seconds=120)
STOP_LOCK = 4711
"""Advisory lock that the archiver waits for."""

STOP = """
CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF session_user = 'counterfoil_maintenance' THEN
        PERFORM pg_advisory_xact_lock(4711);
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stop BEFORE UPDATE ON document FOR EACH ROW EXECUTE FUNCTION stop();
CREATE TRIGGER stop BEFORE INSERT ON dead_letter FOR EACH ROW EXECUTE FUNCTION stop();
"""


class ConcurrentSessions:
    """Runs actions in other sessions, and waits until locks block them."""

    def __init__(self, admin: Connection, admin_database_url: str) -> None:
        self._admin = admin
        self._url = admin_database_url
        self._pool = ThreadPoolExecutor(max_workers=4)

    def begin(self, action: Callable[[], Any], *, waits: int) -> "Future[Any]":
        """Start `action` and return once at least `waits` sessions wait for a lock."""
        future = self._pool.submit(action)
        deadline = monotonic() + 30
        waiting_sessions = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted"
        # PostgreSQL sends no event for a new wait, so poll.
        while self._admin.execute(waiting_sessions).fetchall()[0][0] < waits:
            assert monotonic() < deadline, "the sessions are not waiting"
        return future

    @contextmanager
    def paused(self, action: Callable[[], Any]) -> Iterator["Future[Any]"]:
        """Pause the archiver's `action` before its first write until the block ends."""
        with psycopg.connect(self._url) as holder:
            holder.execute("SELECT pg_advisory_lock(%s)", [STOP_LOCK])
            yield self.begin(action, waits=1)
            holder.execute("SELECT pg_advisory_unlock(%s)", [STOP_LOCK])


@pytest.fixture
def sessions(admin: Connection, admin_database_url: str) -> ConcurrentSessions:
    admin.execute(STOP)
    return ConcurrentSessions(admin, admin_database_url)


def expired_lease(clock: Clock, **columns: Any) -> dict[str, Any]:
    """Return column values of a work item with an expired lease."""
    return {"status": "in-progress", "attempts": 1, "claim_token": 5, "lease_expires_at": clock.now} | columns


def result_of(result: "Future[Any]") -> Any:
    return result.result(timeout=30)


# -- a late worker ----------------------------------------------------------------------------------------------------


def succeed() -> Outcome:
    return Succeeded(lambda connection: Effects())


def fail_permanently() -> Outcome:
    raise InvalidDocumentError("The file is damaged.", code="damaged_pdf")


def fail_transiently() -> Outcome:
    raise ServiceUnavailableError("S3 is slow")


class BlockedWorker:
    """A consumer on its own thread. Its only attempt waits for a signal."""

    def __init__(self, database: Database, clock: Clock, finish: Callable[[], Outcome]) -> None:
        self.started, self.release = threading.Event(), threading.Event()
        self._end = finish
        self.consumer = make_consumer(database, self._work, clock)

    def _work(self, attempt: TenantAttempt) -> Outcome:
        self.started.set()
        assert self.release.wait(30)
        return self._end()

    def begin(self, message: dict[str, Any]) -> "Future[Any]":
        result = ThreadPoolExecutor(max_workers=1).submit(self.consumer.handle, event(message), Context())
        assert self.started.wait(30)
        return result


@pytest.mark.parametrize("finish", [succeed, fail_permanently, fail_transiently])
@pytest.mark.parametrize("returns", [0, 2])
def test_settlement_after_archiver_locks_row_is_stale(
    archiver: Archiver,
    database: Database,
    admin: Connection,
    clock: Clock,
    pending: Pending,
    sessions: ConcurrentSessions,
    finish: Callable[[], Outcome],
    returns: int,
) -> None:
    message = pending(dlq_returns=returns)
    worker = BlockedWorker(database, clock, finish)
    batch_result = worker.begin(record(message))
    clock.advance(seconds=121)

    with sessions.paused(lambda: archiver.process("matching", dlq_record(message))) as archived:
        sessions.begin(worker.release.set, waits=2)  # the settlement waits for the row that the archiver locked
    assert result_of(archived) is None

    assert len(result_of(batch_result)["batchItemFailures"]) == 1  # stale
    row = life_cycle(admin, message.work_id)
    if returns == 0:
        assert (row["status"], row["attempts"], row["dlq_returns"], row["send_number"]) == ("pending", 1, 1, 1)
        assert actions(admin) == ["returned"]
    else:
        assert (row["status"], row["attempts"]) == ("failed", 1)
        assert actions(admin) == ["dead-lettered", "message-attached"]
    assert len(rows(admin, "dead_letter")) == len(rows(admin, "failure_event")) == (returns == 2)


@pytest.mark.parametrize(
    ("finish", "status", "happened"),
    [
        (succeed, "succeeded", ["dropped"]),
        (fail_permanently, "failed", ["dead-lettered", "message-attached"]),
        (fail_transiently, "pending", ["returned"]),
    ],
)
def test_settlement_before_archiver_locks_row_is_valid(
    archiver: Archiver,
    database: Database,
    admin: Connection,
    admin_database_url: str,
    clock: Clock,
    pending: Pending,
    sessions: ConcurrentSessions,
    finish: Callable[[], Outcome],
    status: str,
    happened: list[str],
) -> None:
    message = pending()
    worker = BlockedWorker(database, clock, finish)
    batch_result = worker.begin(record(message))
    clock.advance(seconds=121)

    with psycopg.connect(admin_database_url) as first:  # both wait for the row; the worker gets it first
        first.execute("SELECT FROM document WHERE id = %s FOR UPDATE", [message.work_id])
        sessions.begin(worker.release.set, waits=1)
        archived = sessions.begin(lambda: archiver.process("matching", dlq_record(message)), waits=2)
        first.commit()
    assert result_of(archived) is None

    assert result_of(batch_result)["batchItemFailures"] == [] or finish is fail_transiently
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"]) == (status, 1)
    assert actions(admin) == happened
    assert len(rows(admin, "failure_event")) == (finish is fail_permanently)


def test_valid_lease_retains_message_until_attempt_ends(
    archiver: Archiver, database: Database, admin: Connection, clock: Clock, pending: Pending
) -> None:
    message = pending()
    worker = BlockedWorker(database, clock, succeed)
    batch_result = worker.begin(record(message))
    clock.advance(seconds=119)

    assert archiver.process("matching", dlq_record(message)) == RetryAfter(2)
    worker.release.set()
    assert result_of(batch_result) == {"batchItemFailures": []}
    assert archiver.process("matching", dlq_record(message)) is None

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["dlq_returns"]) == ("succeeded", 1, 0)
    assert actions(admin) == ["dropped"]


def test_heartbeat_during_archiving_neither_waits_nor_renews_lease(
    archiver: Archiver,
    database: Database,
    admin: Connection,
    clock: Clock,
    pending: Pending,
    sessions: ConcurrentSessions,
) -> None:
    message = pending(**expired_lease(clock))

    def renew() -> set[UUID]:
        with database.delivery() as connection:
            return sql.renew(connection, WORK_KINDS["matching"], {message.work_id: 5}, clock.now + LEASE)

    with sessions.paused(lambda: archiver.process("matching", dlq_record(message))) as archived:
        assert renew() == set()
    assert result_of(archived) is None

    assert renew() == {message.work_id}
    assert life_cycle(admin, message.work_id)["lease_expires_at"] is None


def test_heartbeat_before_archiving_retains_the_message(
    archiver: Archiver, database: Database, clock: Clock, pending: Pending
) -> None:
    message = pending(**expired_lease(clock))
    with database.delivery() as connection:
        sql.renew(connection, WORK_KINDS["matching"], {message.work_id: 5}, clock.now + LEASE)

    assert archiver.process("matching", dlq_record(message)) == RetryAfter(121)


# -- the same message, received again ---------------------------------------------------------------------------------


def test_message_received_during_dlq_return_is_not_executed(
    archiver: Archiver,
    database: Database,
    admin: Connection,
    clock: Clock,
    pending: Pending,
    sessions: ConcurrentSessions,
) -> None:
    message = pending()
    executed: list[TenantAttempt] = []

    def work(attempt: TenantAttempt) -> Outcome:
        executed.append(attempt)
        return succeed()

    consumer = make_consumer(database, work, clock)

    with sessions.paused(lambda: archiver.process("matching", dlq_record(message))) as archived:
        batch_result = sessions.begin(lambda: consumer.handle(event(record(message)), Context()), waits=2)
    assert result_of(archived) is None

    assert result_of(batch_result) == {"batchItemFailures": []}
    assert executed == []
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 0, 1)


def test_concurrent_claim_retains_the_message(
    archiver: Archiver,
    database: Database,
    admin: Connection,
    clock: Clock,
    pending: Pending,
    sessions: ConcurrentSessions,
) -> None:
    message = pending()
    with database.delivery() as connection:
        lease = clock.now + LEASE
        sql.claim(connection, WORK_KINDS["matching"], [message], now=clock.now, lease=lease, max_attempts=3)
        archived = sessions.begin(lambda: archiver.process("matching", dlq_record(message)), waits=1)

    assert result_of(archived) == RetryAfter(121)
    assert life_cycle(admin, message.work_id)["status"] == "in-progress"


# -- an operator ------------------------------------------------------------------------------------------------------


def retry_by_operator(database_url: str, message: Message, clock: Clock) -> None:
    """Commit an operator's retry, which starts a new revision."""
    with psycopg.connect(database_url) as connection:
        start_revision(connection, "matching", [message.work_id], clock.now)


@pytest.mark.parametrize("columns", [{}, {"dlq_returns": 2, "attempts": 1}, {"attempts": 3}])
def test_operator_retry_during_archiving_starts_new_revision(
    archiver: Archiver,
    database: Database,
    admin: Connection,
    admin_database_url: str,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    sessions: ConcurrentSessions,
    columns: dict[str, int],
) -> None:
    message = pending(**columns)

    with sessions.paused(lambda: archiver.process("matching", dlq_record(message))) as archived:
        retried = sessions.begin(lambda: retry_by_operator(admin_database_url, message, clock), waits=2)
    assert result_of(archived) is result_of(retried) is None

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["revision"], row["send_number"], row["attempts"]) == ("pending", 2, 0, 0)
    assert (row["dlq_returns"], row["failed_at"], row["error"]) == (0, None, None)
    # Both messages are due. The archiver's message belongs to an older revision and is dropped.
    consumer = make_consumer(database, lambda attempt: succeed(), clock)
    for due in (message.model_copy(update={"send_number": 1}), message.model_copy(update={"revision": 2})):
        assert consumer.handle(event(record(due)), Context()) == {"batchItemFailures": []}
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"]) == ("succeeded", 1)
    assert len(rows(admin, "dead_letter")) == len(rows(admin, "failure_event")) == bool(columns)


@pytest.mark.parametrize("columns", [{}, {"dlq_returns": 2, "attempts": 1}, {"attempts": 3}])
def test_archiver_drops_message_superseded_by_operator_retry(
    archiver: Archiver,
    admin: Connection,
    admin_database_url: str,
    clock: Clock,
    pending: Pending,
    sessions: ConcurrentSessions,
    columns: dict[str, int],
) -> None:
    message = pending(**columns)
    with psycopg.connect(admin_database_url) as operator:
        start_revision(operator, "matching", [message.work_id], clock.now)
        archived = sessions.begin(lambda: archiver.process("matching", dlq_record(message)), waits=1)
        operator.commit()

    assert result_of(archived) is None
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["revision"], row["dlq_returns"]) == ("pending", 2, 0)
    assert actions(admin) == ["dropped"]
    assert rows(admin, "dead_letter") == []


def test_tenant_deletion_during_archiving_leaves_no_dead_letter(
    archiver: Archiver, admin: Connection, admin_database_url: str, pending: Pending, sessions: ConcurrentSessions
) -> None:
    message = pending(dlq_returns=2, attempts=1)

    def delete() -> None:
        with psycopg.connect(admin_database_url) as connection:
            connection.execute("SET deadlock_timeout = '1min'")  # the archiver must detect the deadlock first and retry
            connection.execute("DELETE FROM tenant")

    with sessions.paused(lambda: archiver.process("matching", dlq_record(message))) as archived:
        deleted = sessions.begin(delete, waits=2)
    assert result_of(archived) is result_of(deleted) is None

    assert rows(admin, "document") == rows(admin, "dead_letter") == rows(admin, "failure_event") == []
    assert actions(admin)[-1] == "dropped-unknown"


# -- two archivers, redeliveries, outages ------------------------------------------------------------------------------

SITUATIONS: dict[str, Callable[[Clock], dict[str, Any]]] = {
    "never attempted": lambda clock: {},
    "abandoned": expired_lease,
    "abandoned at its last attempt": lambda clock: expired_lease(clock, attempts=3),
    "returned twice": lambda clock: {"dlq_returns": 2, "attempts": 1},
    "waiting": lambda clock: {"attempts": 1, "next_attempt_at": clock.now + LEASE},
    "succeeded": lambda clock: {"status": "succeeded"},
    "failed": lambda clock: {"status": "failed"},
    "skipped": lambda clock: {"status": None},
}


def effects(admin: Connection) -> list[Any]:
    """Return a settlement's effects, without the audit trail and the message id."""
    dead_letters = rows(admin, "dead_letter")
    for dead_letter in dead_letters:
        dead_letter["payload"].pop("dead_letter_queue_message", None)
    return [rows(admin, "document"), dead_letters, rows(admin, "failure_event"), rows(admin, "outbox")]


@pytest.fixture
def other_archiver(maintenance_database_url: str, clock: Clock, sqs: FakeSqs) -> Iterator[Archiver]:
    database = Database(maintenance_database_url)
    yield Archiver(database, Outbox(database, {"matching": QUEUE_URL}, clock=clock), RedeliverPolicy(), clock)
    database.close()


@pytest.mark.parametrize(
    "situation", ["never attempted", "abandoned", "abandoned at its last attempt", "returned twice"]
)
def test_two_archivers_settle_a_message_once(
    archiver: Archiver,
    other_archiver: Archiver,
    admin: Connection,
    clock: Clock,
    pending: Pending,
    sessions: ConcurrentSessions,
    situation: str,
) -> None:
    message = dlq_record(pending(**SITUATIONS[situation](clock)))

    with sessions.paused(lambda: archiver.process("matching", message)) as archived:
        repeated = sessions.begin(lambda: other_archiver.process("matching", message), waits=2)
    assert result_of(archived) is result_of(repeated) is None

    assert [action for action in actions(admin) if action in {"returned", "dead-lettered"}] in (
        ["returned"],
        ["dead-lettered"],
    )
    assert len(rows(admin, "outbox")) + len(rows(admin, "dead_letter")) == 1
    assert len(rows(admin, "dead_letter")) == len(rows(admin, "failure_event"))


def test_two_archivers_archive_an_unreadable_message_once(
    archiver: Archiver, other_archiver: Archiver, admin: Connection, sessions: ConcurrentSessions
) -> None:
    message = dlq_record("not JSON")

    with sessions.paused(lambda: archiver.process("matching", message)) as archived:
        repeated = sessions.begin(lambda: other_archiver.process("matching", message), waits=2)
    assert result_of(archived) is result_of(repeated) is None

    (dead_letter,) = rows(admin, "dead_letter")
    assert dead_letter["previous_failures"] == []
    assert actions(admin) == ["dead-lettered"]
    assert len(rows(admin, "failure_event")) == 1


@pytest.mark.parametrize("situation", SITUATIONS)
def test_redelivery_after_commit_changes_nothing(
    archiver: Archiver, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, situation: str
) -> None:
    message = dlq_record(pending(**SITUATIONS[situation](clock)))
    archiver.process("matching", message)
    before, sent_message = effects(admin), len(sqs.sent[QUEUE_URL])
    clock.advance(minutes=10)

    assert archiver.process("matching", message) is None

    assert effects(admin) == before
    assert len(sqs.sent[QUEUE_URL]) == sent_message


class UnavailableDatabase(Database):
    """A database that becomes unavailable before or after its next commit."""

    lost_at: str | None = None

    @contextmanager
    def delivery(self, **options: Any) -> Iterator[Connection]:
        lost_at, self.lost_at = self.lost_at, None
        with super().delivery(**options) as connection:
            yield connection
            if lost_at == "before":
                raise DatabaseUnavailableError("unavailable")
        if lost_at == "after":
            raise CommitUnknownError("lost")


@pytest.fixture
def unavailable_database(maintenance_database_url: str) -> Iterator[UnavailableDatabase]:
    database = UnavailableDatabase(maintenance_database_url)
    yield database
    database.close()


@pytest.mark.parametrize("lost_at", ["before", "after"])
@pytest.mark.parametrize("situation", [*SITUATIONS, "unreadable", "unknown"])
def test_database_outage_retains_message_until_settled_once(
    unavailable_database: UnavailableDatabase,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    situation: str,
    lost_at: str,
) -> None:
    outbox = Outbox(unavailable_database, {"matching": QUEUE_URL}, clock=clock)
    archiver = Archiver(unavailable_database, outbox, RedeliverPolicy(), clock)
    if situation in SITUATIONS:
        message = dlq_record(pending(**SITUATIONS[situation](clock)))
    else:
        message = dlq_record(
            "not JSON" if situation == "unreadable" else Message(work_id=uuid4(), revision=1, send_number=0)
        )
    before = effects(admin)
    unavailable_database.lost_at = lost_at

    with pytest.raises(DatabaseUnavailableError):
        archiver.process("matching", message)
    assert (effects(admin) == before) or lost_at == "after"
    assert archiver.process("matching", message) is None

    returned = [action for action in actions(admin) if action in {"returned", "dead-lettered"}]
    expected = 0 if situation in {"succeeded", "failed", "skipped", "unknown"} else 1
    assert len(returned) == expected
    assert len(rows(admin, "dead_letter")) == len(rows(admin, "failure_event")) == returned.count("dead-lettered")
    # If the commit succeeded before the outage, the message stays in the outbox, and the watchdog sends it.
    unsent = [row for row in rows(admin, "outbox") if row["sent_at"] is None]
    assert len(unsent) == returned.count("returned") * (lost_at == "after")
