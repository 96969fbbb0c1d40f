"""Chat completion: turn order, one reply per message, and the history window."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from uuid import UUID

import psycopg
import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import TenantAttempt
from counterfoil.delivery.outbox import MAX_DELAY
from counterfoil.delivery.settlement import fail_exhausted
from counterfoil.delivery.sql import Claim, ClaimStatus
from counterfoil.delivery.work import Message
from counterfoil.errors import (
    ContextWindowError,
    DeferredError,
    InvalidSettingsError,
    PermanentError,
    ServiceUnavailableError,
    StaleClaimError,
)
from counterfoil.kinds import WORK_KINDS
from counterfoil.llm import BudgetExceededError, ChatTurn, LlmRequest
from counterfoil.settings import Settings
from counterfoil.tasks import store
from counterfoil.tasks.chat import CHAT_COMPLETION, RECHECK_DELAY, estimate_tokens
from counterfoil.tasks.task_type import Services, UnknownTypeError
from counterfoil.tasks.types import enabled_type
from tests.factories import NOW
from tests.tasks.chat.conftest import Chat
from tests.tasks.conftest import rows

SetStatus = Callable[[UUID, str | None], None]


def test_reply_is_appended_and_returned_as_result(chat: Chat) -> None:
    session = chat.submit("Hello")
    second = chat.submit("Are you there?", session)

    result = chat.run(session)
    chat.settle(session, result)
    chat.answer(second)

    assert result.result == {"session_id": str(session), "message": "Re: Hello"}
    assert chat.entries(session) == [
        (1, "user", "Hello"),
        (2, "user", "Are you there?"),
        (3, "assistant", "Re: Hello"),
        (4, "assistant", "Re: Are you there?"),
    ]


def test_model_sees_system_prompt_history_and_message(chat: Chat, set_status: SetStatus) -> None:
    chat.settings = Settings(chat_system_prompt="Be brief.")
    session = chat.submit("One")
    lost, last = chat.submit("Two", session), chat.submit("Three", session)
    chat.submit("Four", session)
    chat.answer(session)
    set_status(lost, "failed")

    chat.run(last)

    question = chat.model.questions[-1]
    assert (question.system, list(question.history), question.user) == (
        "Be brief.",
        [ChatTurn("One", "Re: One")],
        "Three",
    )
    assert (question.purpose, question.tenant_id, question.work_id) == ("chat", chat.tenant, last)
    assert not any(text in repr(question) for text in ("One", "Three", "brief"))  # logs use repr()


def test_window_contains_the_newest_complete_turns(chat: Chat) -> None:
    session = last = chat.submit("turn 0")
    for number in range(1, 6):
        chat.answer(last)
        last = chat.submit(f"turn {number}", session)
    turn = estimate_tokens("turn 0") + estimate_tokens("Re: turn 0")

    def history_of(room: int) -> list[str]:
        fixed = estimate_tokens("Be brief.") + estimate_tokens("turn 5")
        chat.settings = Settings(chat_system_prompt="Be brief.", chat_history_tokens=fixed + room)
        chat.run(last)
        return [turn_.user for turn_ in chat.model.questions[-1].history]

    assert history_of(2 * turn) == ["turn 3", "turn 4"]
    assert history_of(2 * turn - 1) == ["turn 4"]
    assert history_of(turn - 1) == []
    assert history_of(1 - estimate_tokens("Be brief.")) == []  # the system prompt and the message are always included
    assert history_of(9 * turn) == [f"turn {number}" for number in range(5)]


def test_oversized_turn_ends_the_history_window(chat: Chat) -> None:
    session = chat.submit("small")
    chat.answer(session)
    chat.answer(chat.submit("long " * 200, session))
    chat.answer(chat.submit("small, too", session))
    last = chat.submit("And now?", session)

    chat.settings = Settings(chat_history_tokens=200)
    chat.run(last)

    assert [turn.user for turn in chat.model.questions[-1].history] == ["small, too"]


@pytest.mark.parametrize("state", ["pending", "in-progress"])
def test_message_waits_for_earlier_unfinished_messages(
    state: str, chat: Chat, set_status: SetStatus, database: Database
) -> None:
    session = chat.submit("One")
    second = chat.submit("Two", session)
    set_status(session, state)

    with pytest.raises(DeferredError, match="earlier message") as deferred:
        chat.run(second)

    assert chat.model.questions == []
    assert deferred.value.until == NOW + RECHECK_DELAY > NOW + MAX_DELAY  # so the SQS message stays in the outbox
    assert deferred.value.is_over is not None
    with database.tenant(chat.tenant) as connection:
        assert not deferred.value.is_over(connection)
    chat.answer(session)
    with database.tenant(chat.tenant) as connection:
        assert deferred.value.is_over(connection)
    chat.answer(second)
    assert [entry.content for entry in chat.transcript(session)][2:] == ["Re: One", "Re: Two"]


@pytest.mark.parametrize("state", ["failed", None, "gone"])
def test_ended_or_deleted_task_does_not_block_next(
    state: str | None, chat: Chat, set_status: SetStatus, admin: Connection
) -> None:
    session = chat.submit("One")
    second = chat.submit("Two", session)
    if state == "gone":
        admin.execute("DELETE FROM task WHERE id = %s", [session])
    else:
        set_status(session, state)

    chat.answer(second)

    assert chat.entries(session)[2:] == [(3, "assistant", "Re: Two")]


def test_sessions_do_not_block_each_other(chat: Chat) -> None:
    chat.submit("Here")
    other_session = chat.submit("There")

    chat.answer(other_session)

    assert chat.entries(other_session)[1:] == [(2, "assistant", "Re: There")]


def test_second_reply_to_a_message_is_rejected(chat: Chat) -> None:
    session = chat.submit("Hello")
    first, second = chat.run(session), chat.run(session)
    chat.settle(session, first)

    with pytest.raises(StaleClaimError, match="Another attempt has answered"):
        chat.settle(session, second)

    assert chat.entries(session) == [(1, "user", "Hello"), (2, "assistant", "Re: Hello")]
    assert chat.entries(session)[-1][0] == 2
    chat.answer(chat.submit("Again", session))
    assert [number for number, _, _ in chat.entries(session)] == [1, 2, 3, 4]  # the rejected reply used no number


def test_reply_is_deferred_if_earlier_message_is_retried(chat: Chat, set_status: SetStatus) -> None:
    session = chat.submit("One")
    second = chat.submit("Two", session)
    set_status(session, "failed")
    result = chat.run(second)
    set_status(session, "pending")  # as if an operator retried its dead letter

    with pytest.raises(DeferredError):
        chat.settle(second, result)

    assert chat.entries(session) == [(1, "user", "One"), (2, "user", "Two")]


def test_attempt_raises_the_model_error(chat: Chat) -> None:
    job = chat.submit("Hello")
    for error in (ServiceUnavailableError("away"), ContextWindowError("too long")):

        def fail(_: LlmRequest, error: Exception = error) -> str:
            raise error

        chat.model.respond = fail
        with pytest.raises(type(error)):
            chat.run(job)


def test_message_over_budget_fails_without_blocking_the_next(chat: Chat, admin: Connection) -> None:
    job = chat.submit("Hello")
    second = chat.submit("Are you there?", job)

    def exceed_budget(_: LlmRequest) -> str:
        raise BudgetExceededError("The budget is used up.", until=NOW + timedelta(hours=9))

    chat.model.respond = exceed_budget
    with pytest.raises(PermanentError, match=r"The budget is used up. Send the message again after midnight UTC\."):
        chat.run(job)
    admin.execute("UPDATE task SET status = 'failed' WHERE id = %s", [job])
    chat.model.respond = lambda question: f"Re: {question.user}"
    chat.answer(second)
    assert chat.entries(job)[2:] == [(3, "assistant", "Re: Are you there?")]


def test_missing_message_or_model_fails_permanently(chat: Chat, admin: Connection) -> None:
    job = chat.submit("Hello")
    with pytest.raises(UnknownTypeError, match="LLM_PROVIDER is not set"):
        enabled_type("chat_completion", Settings())
    chat.model = None  # type: ignore[assignment]
    with pytest.raises(InvalidSettingsError, match="LLM_PROVIDER"):
        CHAT_COMPLETION.run(TenantAttempt(job, chat.tenant, 1, 1, 1, chat.database, lambda: NOW), None, Services())
    admin.execute("DELETE FROM chat_message")
    with pytest.raises(PermanentError, match="no longer exists"):
        chat.run(job)


# Wake-ups


def record_attempt(admin: Connection, job: UUID, outcome: str, due_at: datetime) -> None:
    """Record an attempt and make the task due at `due_at`."""
    admin.execute("UPDATE task SET next_attempt_at = %s, send_number = send_number + 1 WHERE id = %s", [due_at, job])
    admin.execute(
        """
        INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome)
        SELECT tenant_id, 'tasks', id, 1, 1, %s, %s, %s FROM task WHERE id = %s
        """,
        [NOW, NOW, outcome, job],
    )


def defer(admin: Connection, *jobs: UUID) -> None:
    for job in jobs:
        record_attempt(admin, job, "deferred", NOW + RECHECK_DELAY)


def test_reply_wakes_only_the_next_message(chat: Chat, admin: Connection) -> None:
    session = chat.submit("One")
    second, third = chat.submit("Two", session), chat.submit("Three", session)
    defer(admin, second, third)

    messages = chat.answer(session)

    assert [(message.message.work_id, message.message.send_number, message.scheduled_at) for message in messages] == [
        (second, 2, NOW)
    ]
    assert {row["id"]: row["next_attempt_at"] for row in rows(admin, "task")}[third] == NOW + RECHECK_DELAY


def test_canceled_message_wakes_next_active_message(chat: Chat, admin: Connection, set_status: SetStatus):
    session = chat.submit("One")
    second, third = chat.submit("Two", session), chat.submit("Three", session)
    defer(admin, second, third)
    set_status(second, None)

    with chat.database.tenant(chat.tenant) as connection:
        canceled = store.cancel(connection, session, NOW, "ada")

    assert canceled is not None
    assert [message.message.work_id for message in canceled[1]] == [third]


def test_lost_worker_failure_wakes_the_next_message(chat: Chat, admin: Connection) -> None:
    session = chat.submit("One")
    second = chat.submit("Two", session)
    defer(admin, second)
    admin.execute("UPDATE task SET status = 'in-progress', attempts = 6, claim_token = 9 WHERE id = %s", [session])
    admin.execute("UPDATE task SET lease_expires_at = %s, claimed_at = %s WHERE id = %s", [NOW, NOW, session])
    exhausted_claim = Claim(
        ClaimStatus.EXHAUSTED, Message(work_id=session, revision=1, send_number=0), chat.tenant, 6, 9
    )

    with chat.database.delivery() as connection:  # the archiver uses this role, which cannot read message content
        messages = fail_exhausted(connection, WORK_KINDS["tasks"], exhausted_claim, 6, "dead_letters", NOW)

    assert [message.message.work_id for message in messages] == [second]


def test_canceled_message_behind_pending_message_wakes_nothing(chat: Chat, admin: Connection) -> None:
    session = chat.submit("One")
    second, third = chat.submit("Two", session), chat.submit("Three", session)
    defer(admin, session, second, third)

    with chat.database.tenant(chat.tenant) as connection:
        canceled = store.cancel(connection, second, NOW, "ada")

    assert canceled is not None
    assert canceled[1] == []


def test_failed_attempt_keeps_its_retry_delay(chat: Chat, admin: Connection) -> None:
    session = chat.submit("One")  # as if retried while the next message was attempted
    second = chat.submit("Two", session)
    due_at = NOW + timedelta(seconds=16)
    record_attempt(admin, second, "retry", due_at)
    admin.execute("UPDATE task SET attempts = 4, error = 'The model is unavailable' WHERE id = %s", [second])

    assert chat.answer(session) == []

    assert {row["id"]: row["next_attempt_at"] for row in rows(admin, "task")}[second] == due_at


def test_deferred_message_is_woken_despite_earlier_failure(chat: Chat, admin: Connection) -> None:
    session = chat.submit("One")
    second = chat.submit("Two", session)
    record_attempt(admin, second, "retry", NOW + timedelta(seconds=16))
    defer(admin, second)
    admin.execute("UPDATE task SET attempts = 4, error = 'The model is unavailable' WHERE id = %s", [second])

    assert [message.message.work_id for message in chat.answer(session)] == [second]


def test_wake_up_waits_for_a_concurrent_deferral(chat: Chat, admin: Connection, admin_database_url: str) -> None:
    session = chat.submit("One")
    second = chat.submit("Two", session)
    result = chat.run(session)
    with ThreadPoolExecutor(1) as pool, psycopg.connect(admin_database_url) as deferring:
        defer(deferring, second)
        messages = pool.submit(chat.settle, session, result)
        while admin.execute("SELECT FROM pg_locks WHERE NOT granted").fetchone() is None:
            assert not messages.done()
        deferring.commit()

        assert [message.message.work_id for message in messages.result()] == [second]


def test_queued_message_is_not_sent_twice(chat: Chat, set_status: SetStatus) -> None:
    session = chat.submit("One")
    chat.submit("Two", session)  # its first SQS message is still queued
    running = chat.submit("Three", session)
    set_status(running, "in-progress")

    assert chat.answer(session) == []
