"""Chat sessions: ownership, gapless numbers under concurrency, and listing."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID, uuid4

import psycopg
import pytest

from counterfoil.db import Connection, Database
from counterfoil.errors import RejectedStatementError
from counterfoil.tasks import store
from counterfoil.tasks.chat import (
    CHAT_COMPLETION,
    SessionNotFoundError,
    append_reply,
    append_user_message,
    is_blocked,
    list_sessions,
)
from counterfoil.tasks.task_type import InvalidPayloadError
from tests.factories import NOW
from tests.tasks.chat.conftest import Chat
from tests.tasks.conftest import rows

SetStatus = Callable[[UUID, str | None], None]


def test_first_job_id_becomes_the_session_id(chat: Chat) -> None:
    job = chat.submit("Hello")

    assert chat.entries(job) == [(1, "user", "Hello")]


def test_repeated_request_adds_the_message_once(chat: Chat, database: Database) -> None:
    kind = CHAT_COMPLETION
    assert kind is not None
    order = store.build_request(kind, {"message": "Hello"}, idempotency_key="k", user_id="ada")
    first, repeated = (store.submit(database, chat.tenant, order, NOW, bucket=None) for _ in range(2))

    assert (first.task.job_id, repeated.is_new) == (repeated.task.job_id, False)
    assert chat.entries(first.task.job_id) == [(1, "user", "Hello")]


def test_messages_and_replies_update_last_used_at(chat: Chat, admin: Connection) -> None:
    def last_used_at() -> timedelta:
        ((at,),) = admin.execute("SELECT last_used_at FROM chat_session").fetchall()
        return timedelta(seconds=(at - NOW).total_seconds())

    session = chat.submit("Hello")
    assert last_used_at() == timedelta(0)
    with chat.database.tenant(chat.tenant) as connection:
        append_reply(connection, session, session, "Hello, too", NOW + timedelta(days=1))
    assert last_used_at() == timedelta(days=1)
    with chat.database.tenant(chat.tenant) as connection:
        append_user_message(connection, session, "ada", uuid4(), "Are you there?", NOW + timedelta(days=2))
    assert last_used_at() == timedelta(days=2)
    chat.submit("A clock that is behind says that this was before.", session)
    assert last_used_at() == timedelta(days=2)


def test_submission_sees_a_concurrent_cancellation(chat: Chat, database: Database, admin: Connection) -> None:
    session = chat.submit("Hello")
    with ThreadPoolExecutor(1) as pool:
        with database.tenant(chat.tenant) as canceling:
            store.cancel(canceling, session, NOW, "ada")
            submission = pool.submit(chat.submit, "Are you there?", session)
            lock_query = "SELECT FROM pg_locks WHERE NOT granted"
            assert any(submission.done() or admin.execute(lock_query).fetchall() for _ in range(50_000))
            assert not submission.done()
        job = submission.result()

    with database.tenant(chat.tenant) as connection:
        assert not is_blocked(connection, job)


def test_concurrent_messages_are_numbered_without_gaps(chat: Chat) -> None:
    session = chat.submit("0")
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda number: chat.submit(str(number), session), range(1, 40)))

    entries = chat.transcript(session)
    assert [entry.number for entry in entries] == list(range(1, 41))
    assert {entry.job_id for entry in entries} == {session, *jobs}


def test_rejected_message_uses_no_number(chat: Chat, database: Database) -> None:
    session = chat.submit("Hello")
    with pytest.raises(RejectedStatementError), database.tenant(chat.tenant) as connection:
        append_user_message(connection, session, "ada", uuid4(), "", NOW)  # the table rejects empty messages

    chat.submit("Still there?", session)

    assert [entry.number for entry in chat.transcript(session)] == [1, 2]


@pytest.mark.parametrize("other_user", ["eve", None, "", "ADA"])
def test_session_is_hidden_from_other_users(chat: Chat, admin: Connection, other_user: str | None):
    session = chat.submit("My secret")

    unknown = pytest.raises(SessionNotFoundError, match=r"^There is no such conversation\.$")
    with unknown:
        chat.submit("Let me in", uuid4(), user="eve")
    with unknown:
        chat.submit("Let me in", session, user=other_user or None)
    with unknown:
        chat.transcript(session, other_user)

    assert len(rows(admin, "task")) == len(rows(admin, "outbox")) == 1  # no other task was accepted
    assert chat.entries(session) == [(1, "user", "My secret")]


def test_session_without_user_is_hidden_from_users(chat: Chat) -> None:
    session = chat.submit("From a shell", user=None)

    assert [entry.content for entry in chat.transcript(session, None)] == ["From a shell"]
    with pytest.raises(SessionNotFoundError):
        chat.transcript(session, "ada")


def test_session_is_hidden_from_other_tenants(chat: Chat, make_tenant: Callable[..., UUID]) -> None:
    session, other = chat.submit("Ours"), make_tenant("other")

    with pytest.raises(SessionNotFoundError):
        chat.submit("Theirs", session, tenant=other)
    chat.tenant = other
    with pytest.raises(SessionNotFoundError):
        chat.transcript(session)


def test_message_cannot_move_to_another_tenant(chat: Chat, admin: Connection, make_tenant: Callable[..., UUID]) -> None:
    session, other = chat.submit("Ours"), make_tenant("other")

    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        admin.execute("UPDATE chat_message SET tenant_id = %s WHERE session_id = %s", [other, session])


def test_delivery_role_cannot_read_message_content(chat: Chat, database: Database) -> None:
    chat.submit("My secret")
    with database.delivery() as connection:
        assert connection.execute("SELECT number, role FROM chat_message").fetchall() == [(1, "user")]
    for statement in (b"SELECT content FROM chat_message", b"SELECT 1 FROM chat_session"):
        with pytest.raises(RejectedStatementError), database.delivery() as connection:
            connection.execute(statement)


def test_sessions_are_paged_newest_first(chat: Chat, admin: Connection, database: Database) -> None:
    session_ids = [chat.submit(f"{number} " + "x" * 200) for number in range(3)]
    chat.submit("A stranger's", user="eve")
    for number, session in enumerate(session_ids):
        at = NOW + timedelta(minutes=number)
        admin.execute("UPDATE chat_session SET created_at = %s WHERE id = %s", [at, session])
    chat.answer(session_ids[2])

    with database.tenant(chat.tenant) as connection:
        first = list_sessions(connection, "ada", limit=2)
        second_page = list_sessions(connection, "ada", after=(first[-1].created_at, first[-1].id), limit=2)

    assert [(message.id, message.messages) for message in first] == [(session_ids[2], 2), (session_ids[1], 1)]
    assert [message.id for message in second_page] == [session_ids[0]]
    assert first[0].preview == "2 " + "x" * 98


def test_transcript_shows_message_statuses(chat: Chat, set_status: SetStatus, admin: Connection) -> None:
    session = chat.submit("One")
    jobs = [session, *(chat.submit(text, session) for text in ("Two", "Three", "Four"))]
    chat.answer(session)
    set_status(jobs[1], "failed")
    set_status(jobs[2], None)
    admin.execute("DELETE FROM task WHERE id = %s", [session])  # as if deleted after its retention period

    assert [(entry.content, entry.status) for entry in chat.transcript(session)] == [
        *(("One", None), ("Two", "failed"), ("Three", "canceled"), ("Four", "pending"), ("Re: One", None)),
    ]


@pytest.mark.parametrize(
    ("payload", "location"),
    [
        ({}, "payload.message"),
        ({"message": ""}, "payload.message"),
        ({"message": " \n"}, "payload.message"),
        ({"message": "x" * 100_001}, "payload.message"),
        ({"message": "x", "session_id": "7"}, "payload.session_id"),
        ({"message": "x", "role": "system"}, "payload"),
    ],
)
def test_invalid_payload_is_rejected(payload: dict[str, str], location: str) -> None:
    kind = CHAT_COMPLETION
    assert kind is not None
    with pytest.raises(InvalidPayloadError, match=f"at {location}:"):
        kind.read(payload)
