"""Retried chat messages are answered late and once, and do not block their session."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from counterfoil import aws
from counterfoil.db import Connection
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import start_revision
from counterfoil.errors import ContextWindowError, ServiceUnavailableError
from counterfoil.llm import LlmRequest
from counterfoil.tasks.store import read_task_message
from counterfoil.tasks.task_type import Services
from functions.tasks.work import run_task
from tests.delivery.harness import Clock, Context, FakeSqs, event, make_consumer, record
from tests.factories import NOW
from tests.tasks.chat.conftest import Chat

WORKER = {"name": "tasks", "timeout": 120, "permits": 2, "start_margin": 30, "retries": "requeue"}
URL = "tasks"


@dataclass
class Talk:
    """A conversation on the real engine, with manual delivery from the queue."""

    chat: Chat
    clock: Clock = field(default_factory=lambda: Clock(NOW))
    sqs: FakeSqs = field(default_factory=FakeSqs)
    failing: dict[str, Exception] = field(default_factory=dict)
    """Model errors by message text."""

    def __post_init__(self) -> None:
        self.chat.model.respond = self.reply
        self.outbox = Outbox(self.chat.database, {"tasks": URL}, clock=self.clock, random=lambda: 0.0)
        services = Services(llm=lambda: self.chat.model)  # type: ignore[arg-type, return-value]  # a partial stub

        def work(attempt: TenantAttempt) -> Outcome:
            return run_task(attempt, services)

        self.consumer: Consumer = make_consumer(
            self.chat.database,
            work,
            self.clock,
            read=read_task_message,
            worker=WORKER,
            queue_urls={"tasks": URL},
        )

    def reply(self, question: LlmRequest) -> str:
        if question.user in self.failing:
            raise self.failing[question.user]
        return f"Re: {question.user}"

    def say(self, text: str, session: UUID | None = None) -> UUID:
        job = self.chat.say(text, session)
        self.outbox.send_unsent(created_before=self.clock.now)
        return job

    def retry(self, *jobs: UUID) -> None:
        for job in jobs:
            with self.chat.database.tenant(self.chat.tenant) as connection:
                sends = start_revision(connection, "tasks", [job], self.clock.now)
            self.outbox.send(sends)

    def deliver(self, *jobs: UUID) -> None:
        """Deliver the latest message of each job, in this order."""
        for job in jobs:
            bodies = [one["MessageBody"] for one in self.sqs.sent[URL]]
            own = [body for body in bodies if read_task_message(body).messages[0].work_id == job]
            assert self.consumer.handle(event(record(own[-1])), Context())["batchItemFailures"] == []

    def texts(self, session: UUID) -> list[str]:
        return [text for _, _, text in self.chat.entries(session)]

    def history(self, text: str) -> list[str]:
        """Return the history that the model last saw with this message."""
        question = next(question for question in reversed(self.chat.model.questions) if question.user == text)
        return [turn.user for turn in question.history]


@pytest.fixture
def talk(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> Talk:
    talk = Talk(chat)
    monkeypatch.setattr(aws, "client", lambda _service: talk.sqs)
    return talk


@pytest.fixture
def failed(talk: Talk) -> UUID:
    """A conversation with a failed first and an answered second message."""
    talk.failing["One"] = ContextWindowError("The prompt is longer than the model reads")
    session = talk.say("One")
    second = talk.say("Two", session)
    talk.deliver(session, second)
    assert talk.texts(session) == ["One", "Two", "Re: Two"]
    return session


def states(talk: Talk) -> list[tuple[str, int]]:
    with talk.chat.database.tenant(talk.chat.tenant) as connection:
        return connection.execute("SELECT status, attempts FROM task ORDER BY id").fetchall()


def test_retried_message_is_answered_last_without_later_history(talk: Talk, failed: UUID) -> None:
    talk.failing.clear()

    talk.retry(failed)
    talk.deliver(failed)

    entries = talk.chat.transcript(failed)
    assert [one.content for one in entries] == ["One", "Two", "Re: Two", "Re: One"]
    assert entries[-1].job_id == entries[0].job_id  # identifies the answered message
    assert talk.history("One") == []


def test_new_message_waits_for_the_retried_one(talk: Talk, failed: UUID) -> None:
    talk.failing.clear()
    talk.retry(failed)
    third = talk.say("Three", failed)
    talk.deliver(third)
    assert talk.texts(failed)[-1] == "Three"

    talk.deliver(failed)
    talk.deliver(third)  # woken when the other one ended

    assert talk.texts(failed) == ["One", "Two", "Re: Two", "Three", "Re: One", "Re: Three"]
    assert talk.history("Three") == ["One", "Two"]
    assert {status for status, _ in states(talk)} == {"succeeded"}
    assert {attempts for _, attempts in states(talk)} == {1}


def test_second_failure_unblocks_later_messages(talk: Talk, failed: UUID) -> None:
    talk.retry(failed)
    third = talk.say("Three", failed)
    talk.deliver(third, failed, third)

    assert talk.texts(failed) == ["One", "Two", "Re: Two", "Three", "Re: Three"]
    assert sorted(status for status, _ in states(talk)) == ["failed", "succeeded", "succeeded"]


def test_retry_of_earlier_message_repeats_a_running_reply(talk: Talk, failed: UUID) -> None:
    talk.failing.clear()
    third = talk.say("Three", failed)
    respond = talk.chat.model.respond

    def retry_during_reply(question: LlmRequest) -> str:
        talk.chat.model.respond = respond
        talk.retry(failed)
        return "Re: Three, discarded"

    talk.chat.model.respond = retry_during_reply
    talk.deliver(third)
    assert talk.texts(failed)[-1] == "Three"
    talk.deliver(failed, third)

    assert talk.texts(failed)[4:] == ["Re: One", "Re: Three"]
    assert talk.history("Three") == ["One", "Two"]
    assert {attempts for _, attempts in states(talk)} == {1}


def test_messages_retried_together_are_answered_in_order(talk: Talk) -> None:
    texts = ["One", "Two", "Three"]
    talk.failing = dict.fromkeys(texts, ContextWindowError("The prompt is longer than the model reads"))
    session = talk.say("One")
    jobs = [session, *(talk.say(text, session) for text in texts[1:])]
    talk.deliver(*jobs)
    talk.failing.clear()

    talk.retry(*reversed(jobs))
    talk.deliver(*reversed(jobs))  # in reverse order: later messages have to wait
    talk.deliver(*jobs[1:])

    assert talk.texts(session) == [*texts, "Re: One", "Re: Two", "Re: Three"]
    assert talk.history("Three") == ["One", "Two"]


def due_at(admin: Connection, job: UUID) -> datetime:
    (row,) = admin.execute("SELECT next_attempt_at FROM task WHERE id = %s", [job])
    assert isinstance(row[0], datetime)
    return row[0]


def test_later_failed_message_keeps_its_retry_delay(talk: Talk, failed: UUID, admin: Connection) -> None:
    talk.failing = {"Three": ServiceUnavailableError("The model is unavailable")}
    third = talk.say("Three", failed)
    talk.deliver(third)
    due = due_at(admin, third)
    assert due >= talk.clock.now + timedelta(seconds=2)
    talk.retry(failed)
    sent = len(talk.sqs.sent[URL])

    talk.failing = {}
    talk.deliver(failed)

    assert (due_at(admin, third), len(talk.sqs.sent[URL])) == (due, sent)
    talk.clock.now = due
    talk.deliver(third)
    assert talk.texts(failed)[-2:] == ["Re: One", "Re: Three"]
