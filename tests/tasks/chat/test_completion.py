"""A message is answered in its turn, once, by a model that sees what fits of what was said before."""

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
from counterfoil.delivery.sql import Answer, Claim
from counterfoil.delivery.work import Message
from counterfoil.errors import (
    ContextWindowError,
    DeferredError,
    InvalidSettingsError,
    PermanentError,
    ServiceUnavailableError,
    StaleClaimError,
)
from counterfoil.kinds import KINDS
from counterfoil.llm import BudgetSpentError, Question, Turn
from counterfoil.settings import Settings
from counterfoil.tasks import store
from counterfoil.tasks.chat import CHAT_COMPLETION, RECHECK_DELAY, estimate_tokens
from counterfoil.tasks.task_type import Services, UnknownTypeError
from counterfoil.tasks.types import enabled_type
from tests.factories import NOW
from tests.tasks.chat.conftest import Chat
from tests.tasks.conftest import rows

END = Callable[[UUID, str | None], None]


def test_an_answer_follows_in_the_order_of_the_session_and_is_the_result(chat: Chat) -> None:
    session = chat.say("Hello")
    second = chat.say("Are you there?", session)

    done = chat.run(session)
    chat.settle(session, done)
    chat.answer(second)

    assert done.result == {"session_id": str(session), "message": "Re: Hello"}
    assert chat.said(session) == [
        (1, "user", "Hello"),
        (2, "user", "Are you there?"),
        (3, "assistant", "Re: Hello"),
        (4, "assistant", "Re: Are you there?"),
    ]


def test_the_model_sees_the_instructions_the_turns_before_and_the_message(chat: Chat, ended: END) -> None:
    chat.settings = Settings(chat_system_prompt="Be brief.")
    session = chat.say("One")
    lost, last = chat.say("Two", session), chat.say("Three", session)
    chat.say("Four", session)
    chat.answer(session)
    ended(lost, "failed")

    chat.run(last)

    asked = chat.model.asked[-1]
    assert (asked.system, list(asked.history), asked.user) == ("Be brief.", [Turn("One", "Re: One")], "Three")
    assert (asked.purpose, asked.tenant_id, asked.work_id) == ("chat", chat.tenant, last)
    assert not any(text in repr(asked) for text in ("One", "Three", "brief"))  # nor in a log, then


def test_the_window_holds_the_newest_whole_turns_that_fit(chat: Chat) -> None:
    session = last = chat.say("turn 0")
    for number in range(1, 6):
        chat.answer(last)
        last = chat.say(f"turn {number}", session)
    turn = estimate_tokens("turn 0") + estimate_tokens("Re: turn 0")

    def seen(room: int) -> list[str]:
        fixed = estimate_tokens("Be brief.") + estimate_tokens("turn 5")
        chat.settings = Settings(chat_system_prompt="Be brief.", chat_history_tokens=fixed + room)
        chat.run(last)
        return [one.user for one in chat.model.asked[-1].history]

    assert seen(2 * turn) == ["turn 3", "turn 4"]
    assert seen(2 * turn - 1) == ["turn 4"]
    assert seen(turn - 1) == []
    assert seen(1 - estimate_tokens("Be brief.")) == []  # the instructions and the message are always in
    assert seen(9 * turn) == [f"turn {number}" for number in range(5)]


def test_a_turn_that_does_not_fit_ends_the_window(chat: Chat) -> None:
    session = chat.say("small")
    chat.answer(session)
    chat.answer(chat.say("long " * 200, session))
    chat.answer(chat.say("small, too", session))
    last = chat.say("And now?", session)

    chat.settings = Settings(chat_history_tokens=200)
    chat.run(last)

    assert [turn.user for turn in chat.model.asked[-1].history] == ["small, too"]


@pytest.mark.parametrize("state", ["pending", "in-progress"])
def test_a_message_waits_for_every_earlier_one_that_may_still_be_answered(
    state: str, chat: Chat, ended: END, database: Database
) -> None:
    session = chat.say("One")
    second = chat.say("Two", session)
    ended(session, state)

    with pytest.raises(DeferredError, match="earlier message") as put_off:
        chat.run(second)

    assert chat.model.asked == []
    assert put_off.value.until == NOW + RECHECK_DELAY > NOW + MAX_DELAY  # so no message of it lies in the queue
    assert put_off.value.is_over is not None
    with database.tenant(chat.tenant) as connection:
        assert not put_off.value.is_over(connection)
    chat.answer(session)
    with database.tenant(chat.tenant) as connection:
        assert put_off.value.is_over(connection)
    chat.answer(second)
    assert [one.content for one in chat.transcript(session)][2:] == ["Re: One", "Re: Two"]


@pytest.mark.parametrize("state", ["failed", None, "gone"])
def test_a_message_waits_for_none_that_failed_or_was_cancelled(
    state: str | None, chat: Chat, ended: END, admin: Connection
) -> None:
    session = chat.say("One")
    second = chat.say("Two", session)
    if state == "gone":
        admin.execute("DELETE FROM task WHERE id = %s", [session])
    else:
        ended(session, state)

    chat.answer(second)

    assert chat.said(session)[2:] == [(3, "assistant", "Re: Two")]


def test_sessions_do_not_wait_for_one_another(chat: Chat) -> None:
    chat.say("Here")
    there = chat.say("There")

    chat.answer(there)

    assert chat.said(there)[1:] == [(2, "assistant", "Re: There")]


def test_a_second_answer_of_a_job_changes_nothing(chat: Chat) -> None:
    session = chat.say("Hello")
    one, other = chat.run(session), chat.run(session)
    chat.settle(session, one)

    with pytest.raises(StaleClaimError, match="Another attempt has answered"):
        chat.settle(session, other)

    assert chat.said(session) == [(1, "user", "Hello"), (2, "assistant", "Re: Hello")]
    assert chat.said(session)[-1][0] == 2
    chat.answer(chat.say("Again", session))
    assert [number for number, _, _ in chat.said(session)] == [1, 2, 3, 4]  # it took no place


def test_an_answer_whose_turn_was_taken_back_meanwhile_is_not_written(chat: Chat, ended: END) -> None:
    session = chat.say("One")
    second = chat.say("Two", session)
    ended(session, "failed")
    done = chat.run(second)
    ended(session, "pending")  # a person sends its dead letter again

    with pytest.raises(DeferredError):
        chat.settle(second, done)

    assert chat.said(session) == [(1, "user", "One"), (2, "user", "Two")]


def test_what_the_model_fails_with_is_what_the_try_fails_with(chat: Chat) -> None:
    job = chat.say("Hello")
    for error in (ServiceUnavailableError("away"), ContextWindowError("too long")):

        def fail(_: Question, error: Exception = error) -> str:
            raise error

        chat.model.says = fail
        with pytest.raises(type(error)):
            chat.run(job)


def test_a_message_beyond_the_budget_fails_today_and_the_next_one_has_its_turn(chat: Chat, admin: Connection) -> None:
    job = chat.say("Hello")
    second = chat.say("Are you there?", job)

    def spent(_: Question) -> str:
        raise BudgetSpentError("The budget is used up.", until=NOW + timedelta(hours=9))

    chat.model.says = spent
    with pytest.raises(PermanentError, match=r"The budget is used up. Send the message again after midnight UTC\."):
        chat.run(job)
    admin.execute("UPDATE task SET status = 'failed' WHERE id = %s", [job])
    chat.model.says = lambda question: f"Re: {question.user}"
    chat.answer(second)
    assert chat.said(job)[2:] == [(3, "assistant", "Re: Are you there?")]


def test_a_message_that_is_gone_or_a_model_that_is_not_there_is_final(chat: Chat, admin: Connection) -> None:
    job = chat.say("Hello")
    with pytest.raises(UnknownTypeError, match="LLM_PROVIDER is not set"):
        enabled_type("chat_completion", Settings())
    chat.model = None  # type: ignore[assignment]
    with pytest.raises(InvalidSettingsError, match="LLM_PROVIDER"):
        CHAT_COMPLETION.run(TenantAttempt(job, chat.tenant, 1, 1, 1, chat.database, lambda: NOW), None, Services())
    admin.execute("DELETE FROM chat_message")
    with pytest.raises(PermanentError, match="no longer exists"):
        chat.run(job)


# Whose turn is next


def tried(admin: Connection, job: UUID, outcome: str, due: datetime) -> None:
    """The task of a message was tried, and waits until then."""
    admin.execute("UPDATE task SET next_attempt_at = %s, send_number = send_number + 1 WHERE id = %s", [due, job])
    admin.execute(
        """
        INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, began_at, ended_at, outcome)
        SELECT tenant_id, 'tasks', id, 1, 1, %s, %s, %s FROM task WHERE id = %s
        """,
        [NOW, NOW, outcome, job],
    )


def put_off(admin: Connection, *jobs: UUID) -> None:
    for job in jobs:
        tried(admin, job, "deferred", NOW + RECHECK_DELAY)


def test_an_answer_wakes_the_next_message_alone(chat: Chat, admin: Connection) -> None:
    session = chat.say("One")
    second, third = chat.say("Two", session), chat.say("Three", session)
    put_off(admin, second, third)

    sends = chat.answer(session)

    assert [(send.message.work_id, send.message.send_number, send.not_before) for send in sends] == [(second, 2, NOW)]
    assert {row["id"]: row["next_attempt_at"] for row in rows(admin, "task")}[third] == NOW + RECHECK_DELAY


def test_a_cancelled_message_gives_its_turn_to_the_next_one_that_is_not(chat: Chat, admin: Connection, ended: END):
    session = chat.say("One")
    second, third = chat.say("Two", session), chat.say("Three", session)
    put_off(admin, second, third)
    ended(second, None)

    with chat.database.tenant(chat.tenant) as connection:
        cancelled = store.cancel(connection, session, NOW, "ada")

    assert cancelled is not None
    assert [send.message.work_id for send in cancelled[1]] == [third]


def test_a_message_that_is_failed_for_its_lost_worker_gives_its_turn_on(chat: Chat, admin: Connection) -> None:
    session = chat.say("One")
    second = chat.say("Two", session)
    put_off(admin, second)
    admin.execute("UPDATE task SET status = 'in-progress', attempts = 6, claim_token = 9 WHERE id = %s", [session])
    admin.execute("UPDATE task SET lease_expires_at = %s, claimed_at = %s WHERE id = %s", [NOW, NOW, session])
    lost = Claim(Answer.EXHAUSTED, Message(work_id=session, revision=1, send_number=0), chat.tenant, 6, 9)

    with chat.database.delivery() as connection:  # as the archiver, which sees nothing that was said
        sends = fail_exhausted(connection, KINDS["tasks"], lost, 6, "dead_letters", NOW)

    assert [send.message.work_id for send in sends] == [second]


def test_the_end_of_a_message_behind_one_that_waits_wakes_nothing(chat: Chat, admin: Connection) -> None:
    session = chat.say("One")
    second, third = chat.say("Two", session), chat.say("Three", session)
    put_off(admin, session, second, third)

    with chat.database.tenant(chat.tenant) as connection:
        cancelled = store.cancel(connection, second, NOW, "ada")

    assert cancelled is not None
    assert cancelled[1] == []


def test_a_message_whose_try_has_failed_waits_as_long_as_its_policy_says(chat: Chat, admin: Connection) -> None:
    session = chat.say("One")  # sent again after it had failed, while the next one had its turn
    second = chat.say("Two", session)
    due = NOW + timedelta(seconds=16)
    tried(admin, second, "retry", due)
    admin.execute("UPDATE task SET attempts = 4, error = 'The model is away' WHERE id = %s", [second])

    assert chat.answer(session) == []

    assert {row["id"]: row["next_attempt_at"] for row in rows(admin, "task")}[second] == due


def test_a_message_that_had_failed_before_it_was_put_off_is_woken_all_the_same(chat: Chat, admin: Connection) -> None:
    session = chat.say("One")
    second = chat.say("Two", session)
    tried(admin, second, "retry", NOW + timedelta(seconds=16))
    put_off(admin, second)
    admin.execute("UPDATE task SET attempts = 4, error = 'The model is away' WHERE id = %s", [second])

    assert [send.message.work_id for send in chat.answer(session)] == [second]


def test_a_message_that_is_just_being_put_off_is_waited_for_and_woken(
    chat: Chat, admin: Connection, admin_database_url: str
) -> None:
    session = chat.say("One")
    second = chat.say("Two", session)
    done = chat.run(session)
    with ThreadPoolExecutor(1) as pool, psycopg.connect(admin_database_url) as putting_off:
        put_off(putting_off, second)
        sends = pool.submit(chat.settle, session, done)
        while admin.execute("SELECT FROM pg_locks WHERE NOT granted").fetchone() is None:
            assert not sends.done()
        putting_off.commit()

        assert [send.message.work_id for send in sends.result()] == [second]


def test_a_message_on_its_way_needs_no_second_one(chat: Chat, ended: END) -> None:
    session = chat.say("One")
    chat.say("Two", session)  # its first message is in the queue
    running = chat.say("Three", session)
    ended(running, "in-progress")

    assert chat.answer(session) == []
