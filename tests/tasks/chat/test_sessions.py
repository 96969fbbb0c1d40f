"""A conversation is its user's alone; its messages have places without a gap, whoever adds them at the same time."""

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

END = Callable[[UUID, str | None], None]


def test_a_message_without_a_session_begins_one_with_the_id_of_its_job(chat: Chat) -> None:
    job = chat.say("Hello")

    assert chat.said(job) == [(1, "user", "Hello")]


def test_a_message_that_is_handed_in_twice_under_a_key_is_said_once(chat: Chat, database: Database) -> None:
    kind = CHAT_COMPLETION
    assert kind is not None
    order = store.order(kind, {"message": "Hello"}, idempotency_key="k", user_id="ada")
    first, again = (store.submit(database, chat.tenant, order, NOW, bucket=None) for _ in range(2))

    assert (first.task.job_id, again.is_new) == (again.task.job_id, False)
    assert chat.said(first.task.job_id) == [(1, "user", "Hello")]


def test_a_conversation_was_used_last_when_it_was_asked_or_answered_last(chat: Chat, admin: Connection) -> None:
    def used_at() -> timedelta:
        ((at,),) = admin.execute("SELECT used_at FROM chat_session").fetchall()
        return timedelta(seconds=(at - NOW).total_seconds())

    session = chat.say("Hello")
    assert used_at() == timedelta(0)
    with chat.database.tenant(chat.tenant) as connection:
        append_reply(connection, session, session, "Hello, too", NOW + timedelta(days=1))
    assert used_at() == timedelta(days=1)
    with chat.database.tenant(chat.tenant) as connection:
        append_user_message(connection, session, "ada", uuid4(), "Are you there?", NOW + timedelta(days=2))
    assert used_at() == timedelta(days=2)
    chat.say("A clock that is behind says that this was before.", session)
    assert used_at() == timedelta(days=2)


def test_a_message_that_comes_while_an_earlier_one_is_ending_finds_it_ended(
    chat: Chat, database: Database, admin: Connection
) -> None:
    session = chat.say("Hello")
    with ThreadPoolExecutor(1) as pool:
        with database.tenant(chat.tenant) as ending:
            store.cancel(ending, session, NOW, "ada")
            coming = pool.submit(chat.say, "Are you there?", session)
            waiting = "SELECT FROM pg_locks WHERE NOT granted"
            assert any(coming.done() or admin.execute(waiting).fetchall() for _ in range(50_000))
            assert not coming.done()
        job = coming.result()

    with database.tenant(chat.tenant) as connection:
        assert not is_blocked(connection, job)


def test_places_have_no_gap_whoever_takes_them_at_the_same_time(chat: Chat) -> None:
    session = chat.say("0")
    with ThreadPoolExecutor(8) as pool:
        jobs = list(pool.map(lambda number: chat.say(str(number), session), range(1, 40)))

    said = chat.transcript(session)
    assert [one.number for one in said] == list(range(1, 41))
    assert {one.job_id for one in said} == {session, *jobs}


def test_a_task_that_is_not_accepted_takes_no_place(chat: Chat, database: Database) -> None:
    session = chat.say("Hello")
    with pytest.raises(RejectedStatementError), database.tenant(chat.tenant) as connection:
        append_user_message(connection, session, "ada", uuid4(), "", NOW)  # the table takes no empty message

    chat.say("Still there?", session)

    assert [one.number for one in chat.transcript(session)] == [1, 2]


@pytest.mark.parametrize("stranger", ["eve", None, "", "ADA"])
def test_for_another_user_of_the_tenant_a_session_is_not_there(chat: Chat, admin: Connection, stranger: str | None):
    session = chat.say("My secret")

    unknown = pytest.raises(SessionNotFoundError, match=r"^There is no such session\.$")
    with unknown:
        chat.say("Let me in", uuid4(), user="eve")
    with unknown:
        chat.say("Let me in", session, user=stranger or None)
    with unknown:
        chat.transcript(session, stranger)

    assert len(rows(admin, "task")) == len(rows(admin, "outbox")) == 1  # nothing of it was accepted
    assert chat.said(session) == [(1, "user", "My secret")]


def test_the_command_line_has_sessions_of_its_own(chat: Chat) -> None:
    session = chat.say("From a shell", user=None)

    assert [one.content for one in chat.transcript(session, None)] == ["From a shell"]
    with pytest.raises(SessionNotFoundError):
        chat.transcript(session, "ada")


def test_for_another_tenant_a_session_is_not_there(chat: Chat, make_tenant: Callable[..., UUID]) -> None:
    session, other = chat.say("Ours"), make_tenant("other")

    with pytest.raises(SessionNotFoundError):
        chat.say("Theirs", session, tenant=other)
    chat.tenant = other
    with pytest.raises(SessionNotFoundError):
        chat.transcript(session)


def test_a_message_never_joins_two_tenants(chat: Chat, admin: Connection, make_tenant: Callable[..., UUID]) -> None:
    session, other = chat.say("Ours"), make_tenant("other")

    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        admin.execute("UPDATE chat_message SET tenant_id = %s WHERE session_id = %s", [other, session])


def test_delivery_sees_whose_turn_it_is_and_nothing_that_was_said(chat: Chat, database: Database) -> None:
    chat.say("My secret")
    with database.delivery() as connection:
        assert connection.execute("SELECT number, role FROM chat_message").fetchall() == [(1, "user")]
    for statement in (b"SELECT content FROM chat_message", b"SELECT 1 FROM chat_session"):
        with pytest.raises(RejectedStatementError), database.delivery() as connection:
            connection.execute(statement)


def test_a_user_s_sessions_are_listed_newest_first_by_pages(chat: Chat, admin: Connection, database: Database) -> None:
    begun = [chat.say(f"{number} " + "x" * 200) for number in range(3)]
    chat.say("A stranger's", user="eve")
    for number, session in enumerate(begun):
        at = NOW + timedelta(minutes=number)
        admin.execute("UPDATE chat_session SET created_at = %s WHERE id = %s", [at, session])
    chat.answer(begun[2])

    with database.tenant(chat.tenant) as connection:
        first = list_sessions(connection, "ada", limit=2)
        rest = list_sessions(connection, "ada", after=(first[-1].created_at, first[-1].id), limit=2)

    assert [(one.id, one.messages) for one in first] == [(begun[2], 2), (begun[1], 1)]
    assert [one.id for one in rest] == [begun[0]]
    assert first[0].begins == "2 " + "x" * 98


def test_a_transcript_tells_what_became_of_each_message(chat: Chat, ended: END, admin: Connection) -> None:
    session = chat.say("One")
    jobs = [session, *(chat.say(text, session) for text in ("Two", "Three", "Four"))]
    chat.answer(session)
    ended(jobs[1], "failed")
    ended(jobs[2], None)
    admin.execute("DELETE FROM task WHERE id = %s", [session])  # past keeping

    assert [(one.content, one.status) for one in chat.transcript(session)] == [
        *(("One", None), ("Two", "failed"), ("Three", "cancelled"), ("Four", "pending"), ("Re: One", None)),
    ]


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ({}, "payload.message"),
        ({"message": ""}, "payload.message"),
        ({"message": " \n"}, "payload.message"),
        ({"message": "x" * 100_001}, "payload.message"),
        ({"message": "x", "session_id": "7"}, "payload.session_id"),
        ({"message": "x", "role": "system"}, "payload"),
    ],
)
def test_a_payload_of_another_form_is_refused(payload: dict[str, str], says: str) -> None:
    kind = CHAT_COMPLETION
    assert kind is not None
    with pytest.raises(InvalidPayloadError, match=f"at {says}:"):
        kind.read(payload)
