"""Only expired rows are deleted, in batches of limited size."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from counterfoil.db import Connection, Database
from counterfoil.tasks import chat
from counterfoil.tasks.chat import SessionNotFoundError
from functions.watchdog.retention import (
    ATTEMPT_RETENTION,
    CALL_RETENTION,
    OUTBOX_RETENTION,
    SESSION_RETENTION,
    TASK_RETENTION,
    DeletedRows,
    purge,
)
from tests.delivery.harness import rows
from tests.factories import make_tenant

NOW = datetime.now(UTC)
"""The real current time, because PostgreSQL's clock determines ages."""
A_DAY = timedelta(days=1)


def add_messages(admin: Connection, at: datetime | None, number: int = 1) -> None:
    """Store messages that were sent at `at`, or unsent messages if `at` is None."""
    admin.execute(
        "INSERT INTO outbox (worker, work_id, revision, send_number, scheduled_at, created_at, sent_at) "
        "SELECT 'matching', gen_random_uuid(), 1, 0, %s, %s, %s FROM generate_series(1, %s)",
        [NOW - 2 * OUTBOX_RETENTION, NOW - 2 * OUTBOX_RETENTION, at, number],
    )


def send_times(admin: Connection) -> set[datetime | None]:
    """Return the send times of the remaining messages."""
    return {at for (at,) in admin.execute("SELECT sent_at FROM outbox")}


def add_llm_calls(admin: Connection, at: datetime, *tenants: object) -> None:
    """Store an LLM call for each tenant, or a single call without a tenant."""
    for tenant in tenants or (None,):
        admin.execute(
            "INSERT INTO llm_call (id, tenant_id, purpose, provider, model, outcome, latency_ms, created_at) "
            "VALUES (%s, %s, 'matching', 'openai', 'm', 'answered', 1, %s)",
            [uuid4(), tenant, at],
        )


NOTHING = DeletedRows(*[0] * len(fields(DeletedRows)))


def add_attempt(admin: Connection, at: datetime, tenant: UUID | None) -> None:
    """Store an attempt that ended at `at`."""
    admin.execute(
        "INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome) "
        "VALUES (%s, 'tasks', gen_random_uuid(), 1, 1, %s, %s, 'retry')",
        [tenant, at, at],
    )


def test_recent_and_unsent_messages_are_retained(maintenance_database: Database, admin: Connection) -> None:
    for at in (NOW - OUTBOX_RETENTION - A_DAY, NOW - OUTBOX_RETENTION + A_DAY, None):
        add_messages(admin, at)

    assert purge(maintenance_database, lambda: NOW) == replace(NOTHING, outbox=1)

    assert send_times(admin) == {NOW - OUTBOX_RETENTION + A_DAY, None}


def test_llm_calls_are_retained_for_thirteen_months(maintenance_database: Database, admin: Connection) -> None:
    tenants = [make_tenant(admin, slug) for slug in ("acme", "globex")]
    add_llm_calls(admin, NOW - CALL_RETENTION - A_DAY, *tenants)
    add_llm_calls(admin, NOW - CALL_RETENTION - A_DAY)
    add_llm_calls(admin, NOW - CALL_RETENTION + A_DAY, *tenants)

    assert purge(maintenance_database, lambda: NOW) == replace(NOTHING, llm_call=3)

    assert len(rows(admin, "llm_call")) == 2


def test_attempts_are_retained_for_three_months(maintenance_database: Database, admin: Connection) -> None:
    for tenant_id in (make_tenant(admin, "acme"), make_tenant(admin, "globex"), None):
        for at in (NOW - ATTEMPT_RETENTION - A_DAY, NOW - ATTEMPT_RETENTION + A_DAY):
            add_attempt(admin, at, tenant_id)

    assert purge(maintenance_database, lambda: NOW + 30 * A_DAY) == replace(
        NOTHING, work_attempt=3
    )  # the watchdog's clock is 30 days ahead

    assert {at for (at,) in admin.execute("SELECT ended_at FROM work_attempt")} == {NOW - ATTEMPT_RETENTION + A_DAY}


def test_wrong_watchdog_clock_deletes_no_recent_call(maintenance_database: Database, admin: Connection) -> None:
    add_llm_calls(admin, NOW - CALL_RETENTION + A_DAY)

    assert purge(maintenance_database, lambda: NOW + 10 * CALL_RETENTION).llm_call == 0


def test_long_backlog_is_purged_in_batches(maintenance_database: Database, admin: Connection) -> None:
    long_ago = NOW - 10 * CALL_RETENTION
    add_messages(admin, NOW - OUTBOX_RETENTION - A_DAY, 3)
    add_messages(admin, long_ago, 4)
    for _ in range(7):
        add_llm_calls(admin, long_ago)

    assert purge(maintenance_database, lambda: NOW, batch_size=5) == replace(NOTHING, outbox=5, llm_call=5)
    assert send_times(admin) == {NOW - OUTBOX_RETENTION - A_DAY}
    assert purge(maintenance_database, lambda: NOW, batch_size=5) == replace(NOTHING, outbox=2, llm_call=2)


@pytest.mark.parametrize(
    ("table", "index", "condition"),
    [
        ("outbox", "outbox_sent", "sent_at < '2020-01-01' ORDER BY sent_at"),
        ("work_attempt", "work_attempt_by_age", "ended_at < '2020-01-01' ORDER BY ended_at"),
        ("llm_call", "llm_call_by_age", "created_at < '2020-01-01' ORDER BY created_at"),
        ("chat_session", "chat_session_by_use", "last_used_at < '2020-01-01' ORDER BY last_used_at"),
    ],
)
def test_old_rows_are_found_by_index(table: str, index: str, condition: str, admin: Connection) -> None:
    admin.execute("SET enable_seqscan = off")
    plan = admin.execute(f"EXPLAIN SELECT 1 FROM {table} WHERE {condition} LIMIT 10".encode()).fetchall()

    assert index in str(plan)


def task(admin: Connection, tenant: UUID, status: str | None, ended_at: datetime | None) -> UUID:
    """Store a task with a status and an end time."""
    id_ = uuid4()
    admin.execute(
        """
        INSERT INTO task (id, tenant_id, task_type, payload, payload_hash, max_retry, idempotency_key, created_at,
                          status, ended_at)
        VALUES (%s, %s, 'echo', '{}', sha256('{}'), 5, %s, now(), %s, %s)
        """,
        [id_, tenant, str(id_), status, ended_at],
    )
    return id_


def test_unfinished_failed_and_recent_tasks_are_retained(maintenance_database: Database, admin: Connection) -> None:
    tenant = make_tenant(admin)
    old, recent = NOW - TASK_RETENTION - A_DAY, NOW - TASK_RETENTION + A_DAY
    expired = {task(admin, tenant, "succeeded", old), task(admin, tenant, None, old)}
    retained_ids = {task(admin, tenant, "succeeded", recent), task(admin, tenant, None, recent)}
    retained_ids |= {
        task(admin, tenant, status, at) for status in ("pending", "in-progress", "failed") for at in (old, None)
    }

    assert purge(maintenance_database, lambda: NOW, batch_size=1) == replace(NOTHING, task=1)
    assert purge(maintenance_database, lambda: NOW) == replace(NOTHING, task=1)
    assert {id_ for (id_,) in admin.execute("SELECT id FROM task")} == retained_ids
    assert expired.isdisjoint(retained_ids)


def session(
    admin: Connection, tenant: UUID, last_used_at: datetime, status: str | None = None, *, job: UUID | None = None
) -> UUID:
    """Store a conversation that was last used at `last_used_at`.

    Its only message belongs to the task `job` or to a new task with `status`. If both are None, its task does not
    exist, as after a purge.
    """
    id_ = uuid4()
    admin.execute(
        "INSERT INTO chat_session (id, tenant_id, user_id, created_at, last_used_at, last_number) "
        "VALUES (%s, %s, 'ada', %s, %s, 1)",
        [id_, tenant, last_used_at, last_used_at],
    )
    if job is None:
        job = uuid4() if status is None else task(admin, tenant, status, None)
    admin.execute(
        "INSERT INTO chat_message (tenant_id, session_id, number, role, content, job_id, tokens, created_at) "
        "VALUES (%s, %s, 1, 'user', 'Hello', %s, 1, %s)",
        [tenant, id_, job, last_used_at],
    )
    return id_


def test_only_unused_finished_conversations_are_purged(maintenance_database: Database, admin: Connection) -> None:
    old, recent = NOW - SESSION_RETENTION - A_DAY, NOW - SESSION_RETENTION + A_DAY
    expired, retained = set(), set()
    for tenant in (make_tenant(admin, "acme"), make_tenant(admin, "globex")):
        expired |= {session(admin, tenant, old), session(admin, tenant, old, "failed")}
        retained |= {session(admin, tenant, recent), session(admin, tenant, old, "pending")}

    assert purge(maintenance_database, lambda: NOW + 9 * A_DAY, batch_size=3) == replace(NOTHING, chat_session=3)
    assert purge(maintenance_database, lambda: NOW, batch_size=3) == replace(NOTHING, chat_session=1)

    for column in ("id FROM chat_session", "session_id FROM chat_message"):
        assert {id_ for (id_,) in admin.execute(f"SELECT {column}".encode())} == retained


@pytest.mark.parametrize("status", ["failed", "succeeded", None])
def test_conversation_purge_clears_only_its_own_tasks(
    maintenance_database: Database, admin: Connection, status: str | None
) -> None:
    tenant = make_tenant(admin)
    old, recent = NOW - SESSION_RETENTION - A_DAY, NOW - SESSION_RETENTION + A_DAY
    for last_used_at in (old, recent):
        job = task(admin, tenant, status, NOW)
        session(admin, tenant, last_used_at, job=job)
        texts = {"payload": '{"message": "My secret"}', "result": '{"message": "My secret, too"}'}
        admin.execute(
            "UPDATE task SET payload = %(payload)s, result = %(result)s WHERE id = %(id)s", {**texts, "id": job}
        )

    assert purge(maintenance_database, lambda: NOW) == replace(NOTHING, chat_session=1)

    assert admin.execute("SELECT status, payload, result FROM task ORDER BY result NULLS FIRST").fetchall() == [
        (status, {"message": "(deleted)"}, None),
        (status, {"message": "My secret"}, {"message": "My secret, too"}),
    ]


def test_old_conversation_with_recent_use_is_retained(
    maintenance_database: Database, database: Database, admin: Connection
) -> None:
    tenant = make_tenant(admin)
    long_ago = NOW - timedelta(days=100)
    unused, unanswered, answered = uuid4(), uuid4(), uuid4()
    with database.tenant(tenant) as connection:
        for id_ in (unused, unanswered, answered):
            chat.begin_session(connection, id_, tenant, "ada", long_ago)
            chat.append_user_message(connection, id_, "ada", id_, "Hello", long_ago)
        chat.append_user_message(connection, unanswered, "ada", uuid4(), "Are you there?", NOW)
        chat.append_reply(connection, answered, answered, "Hello, too", NOW)

    assert purge(maintenance_database, lambda: NOW).chat_session == 1

    with database.tenant(tenant) as connection:
        transcripts = [chat.transcript(connection, id_, "ada").entries for id_ in (unanswered, answered)]
        contents = [[item.content for item in entries] for entries in transcripts]
        assert contents == [["Hello", "Are you there?"], ["Hello", "Hello, too"]]
        with pytest.raises(SessionNotFoundError):
            chat.transcript(connection, unused, "ada")


def test_conversation_used_during_the_purge_is_retained(
    maintenance_database: Database, admin: Connection, admin_database_url: str
) -> None:
    id_ = session(admin, make_tenant(admin), NOW - SESSION_RETENTION - A_DAY)
    with psycopg.connect(admin_database_url) as user, ThreadPoolExecutor(1) as pool:
        user.execute("UPDATE chat_session SET last_used_at = %s WHERE id = %s", [NOW, id_])  # not committed yet
        purged = pool.submit(purge, maintenance_database, lambda: NOW)
        while not admin.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall():
            assert not purged.done()
        user.commit()

        assert purged.result() == NOTHING


def test_purge_role_cannot_read_conversation_content(maintenance_database_url: str, admin: Connection) -> None:
    session(admin, make_tenant(admin), NOW)
    with psycopg.connect(maintenance_database_url, autocommit=True) as maintenance:
        assert maintenance.execute("SELECT id FROM chat_session").fetchall() == []
        for statement in ("SELECT user_id FROM chat_session", "SELECT content FROM chat_message"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                maintenance.execute(statement.encode())


def test_wrong_watchdog_clock_deletes_no_recent_task(maintenance_database: Database, admin: Connection) -> None:
    tenant = make_tenant(admin)
    task(admin, tenant, "succeeded", NOW)
    add_attempt(admin, NOW, tenant)

    assert purge(maintenance_database, lambda: NOW + 2 * TASK_RETENTION) == NOTHING
    assert admin.execute("SELECT count(*) FROM work_attempt").fetchone() == (1,)
