"""Deleting a conversation erases its content and stops running attempts."""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database, retry_on_conflict
from counterfoil.delivery import sql as delivery
from counterfoil.delivery.sql import Claim, ClaimStatus
from counterfoil.delivery.work import Message
from counterfoil.errors import PermanentError, StaleClaimError
from counterfoil.kinds import WORK_KINDS
from counterfoil.tasks import store
from counterfoil.tasks.chat import CHAT_COMPLETION, SessionNotFoundError, delete_session
from tests.factories import NOW
from tests.tasks.chat.conftest import USER, Chat
from tests.tasks.conftest import BUCKET, FakeS3, rows

SECRET = "My secret"


def delete(chat: Chat, session: UUID, user: str | None = USER, tenant: UUID | None = None) -> None:
    def attempt() -> None:
        with chat.database.tenant(tenant or chat.tenant) as connection:
            delete_session(connection, session, user, NOW, by="ada")

    retry_on_conflict(attempt)


def database_content(admin: Connection) -> str:
    """Return the content of all tables."""
    tables = [name for (name,) in admin.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")]
    return str([rows(admin, table) for table in tables])


def test_deletion_erases_all_message_content(chat: Chat, admin: Connection) -> None:
    session = chat.submit(SECRET)
    second, third = (chat.submit(f"{SECRET}, again", session) for _ in range(2))
    result = chat.run(session)
    with chat.database.tenant(chat.tenant) as connection:
        result.effects(connection)
        store.write_result(connection, session, b'{"message": "My secret, too"}', NOW)
        connection.execute("UPDATE task SET status = 'succeeded' WHERE id = %s", [session])
    admin.execute("UPDATE task SET status = 'failed', failed_at = %s WHERE id = %s", [NOW, second])
    assert SECRET in database_content(admin)

    delete(chat, session)

    assert SECRET not in database_content(admin)
    assert {row["id"]: (row["status"], row["skip_reason"], row["result"]) for row in rows(admin, "task")} == {
        session: ("succeeded", None, None),
        second: ("failed", None, None),
        third: (None, "Its session was deleted.", None),
    }
    with pytest.raises(SessionNotFoundError):
        chat.transcript(session)


def test_deletion_schedules_removal_of_s3_payload(chat: Chat, admin: Connection, s3: FakeS3) -> None:
    kind = CHAT_COMPLETION
    assert kind is not None
    order = store.build_request(kind, {"message": "\u00e9" * 90_000}, user_id=USER)
    session = store.submit(chat.database, chat.tenant, order, NOW, bucket=BUCKET).task.job_id
    (key,) = s3.objects

    delete(chat, session)

    assert admin.execute("SELECT key, due_at <= now() FROM payload_deletion").fetchall() == [(key, True)]
    (task,) = rows(admin, "task")
    assert (task["payload"], task["payload_s3_key"]) == ({"message": "(deleted)"}, None)


def test_running_attempt_cannot_settle_after_deletion(chat: Chat, admin: Connection) -> None:
    session = chat.submit("Hello")
    admin.execute("UPDATE task SET status = 'in-progress', attempts = 1, claim_token = 9 WHERE id = %s", [session])
    claim = Claim(ClaimStatus.CLAIMED, Message(work_id=session, revision=1, send_number=0), chat.tenant, 1, 9)
    result = chat.run(session)

    delete(chat, session)

    with pytest.raises(StaleClaimError, match=r"session of the job .* has been deleted"):
        chat.settle(session, result)
    with pytest.raises(StaleClaimError), chat.database.tenant(chat.tenant) as connection:
        delivery.succeed(connection, WORK_KINDS["tasks"], [(claim, None)])
    assert (rows(admin, "chat_message"), rows(admin, "task")[0]["status"]) == ([], None)


def test_deletion_wakes_no_message(chat: Chat, admin: Connection) -> None:
    session = chat.submit("One")
    for text in ("Two", "Three"):
        chat.submit(text, session)
    before = len(rows(admin, "outbox"))

    delete(chat, session)

    assert len(rows(admin, "outbox")) == before


def test_retry_after_deletion_fails_permanently(chat: Chat) -> None:
    session = chat.submit("Hello")
    delete(chat, session)
    kind = CHAT_COMPLETION
    assert kind is not None

    with chat.database.tenant(chat.tenant) as connection:
        task_input = store.load_input(connection, session)
    assert task_input is not None
    assert task_input.payload is not None
    kind.read(task_input.payload)
    with pytest.raises(PermanentError, match="no longer exists"):
        chat.run(session)


def test_repeated_request_does_not_recreate_the_session(chat: Chat, admin: Connection) -> None:
    kind = CHAT_COMPLETION
    assert kind is not None
    order = store.build_request(kind, {"message": "Hello"}, idempotency_key="k", user_id=USER)
    first = store.submit(chat.database, chat.tenant, order, NOW, bucket=None)

    delete(chat, first.task.job_id)
    repeated = store.submit(chat.database, chat.tenant, order, NOW, bucket=None)

    assert (repeated.is_new, repeated.task.job_id, repeated.task.status) == (False, first.task.job_id, "canceled")
    assert rows(admin, "chat_session") == []


@pytest.mark.parametrize("other_user", ["eve", None, ""])
def test_only_the_owner_can_delete_a_session(chat: Chat, other_user: str | None) -> None:
    session = chat.submit("Mine")

    with pytest.raises(SessionNotFoundError):
        delete(chat, session, other_user)
    with pytest.raises(SessionNotFoundError):
        delete(chat, session, USER, uuid4())
    with pytest.raises(SessionNotFoundError):
        delete(chat, uuid4())
    assert chat.entries(session) == [(1, "user", "Mine")]


def test_deletion_keeps_other_sessions(chat: Chat, admin: Connection) -> None:
    session, other = chat.submit("One"), chat.submit("Other")

    delete(chat, session)

    assert chat.entries(other) == [(1, "user", "Other")]
    assert {row["id"]: row["status"] for row in rows(admin, "task")} == {session: None, other: "pending"}


def test_concurrent_messages_are_canceled_or_rejected(chat: Chat, admin: Connection, database: Database) -> None:
    for _ in range(5):
        session = chat.submit("Hello")

        def say(number: int, session: UUID = session) -> bool:
            try:
                chat.submit(str(number), session)
            except SessionNotFoundError:
                return False
            return True

        with ThreadPoolExecutor(4) as pool:
            submissions = [pool.submit(say, number) for number in range(6)]
            deletion = pool.submit(delete, chat, session)
        deletion.result()

        accepted = sum(submission.result() for submission in submissions)
        jobs = admin.execute("SELECT status, payload FROM task").fetchall()
        assert jobs == [(None, {"message": "(deleted)"})] * (1 + accepted)
        assert (rows(admin, "chat_session"), rows(admin, "chat_message")) == ([], [])
        admin.execute("DELETE FROM task")
