"""Retried chat messages are answered once, after later replies.

They do not block their session.
"""

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
class RetryHarness:
    """A conversation with a real consumer, and manual delivery from the queue."""

    chat: Chat
    clock: Clock = field(default_factory=lambda: Clock(NOW))
    sqs: FakeSqs = field(default_factory=FakeSqs)
    failing: dict[str, Exception] = field(default_factory=dict)
    """Errors that the model raises, by message text."""

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

    def submit(self, text: str, session: UUID | None = None) -> UUID:
        job = self.chat.submit(text, session)
        self.outbox.send_unsent(created_before=self.clock.now)
        return job

    def retry(self, *jobs: UUID) -> None:
        for job in jobs:
            with self.chat.database.tenant(self.chat.tenant) as connection:
                messages = start_revision(connection, "tasks", [job], self.clock.now)
            self.outbox.send(messages)

    def deliver(self, *jobs: UUID) -> None:
        """Deliver each job's latest message, in the given order."""
        for job in jobs:
            bodies = [item["MessageBody"] for item in self.sqs.sent[URL]]
            own = [body for body in bodies if read_task_message(body).messages[0].work_id == job]
            assert self.consumer.handle(event(record(own[-1])), Context())["batchItemFailures"] == []

    def texts(self, session: UUID) -> list[str]:
        return [text for _, _, text in self.chat.entries(session)]

    def history(self, text: str) -> list[str]:
        """Return the history that the model last saw with this message."""
        question = next(question for question in reversed(self.chat.model.questions) if question.user == text)
        return [turn.user for turn in question.history]


@pytest.fixture
def harness(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> RetryHarness:
    harness = RetryHarness(chat)
    monkeypatch.setattr(aws, "client", lambda _service: harness.sqs)
    return harness


@pytest.fixture
def failed_message(harness: RetryHarness) -> UUID:
    """Return the id of a session's first message, which failed.

    It is also the session's id. The second message was answered.
    """
    harness.failing["One"] = ContextWindowError("The prompt exceeds the context window")
    session = harness.submit("One")
    second = harness.submit("Two", session)
    harness.deliver(session, second)
    assert harness.texts(session) == ["One", "Two", "Re: Two"]
    return session


def states(harness: RetryHarness) -> list[tuple[str, int]]:
    with harness.chat.database.tenant(harness.chat.tenant) as connection:
        return connection.execute("SELECT status, attempts FROM task ORDER BY id").fetchall()


def test_retried_message_is_answered_last_without_later_history(harness: RetryHarness, failed_message: UUID) -> None:
    harness.failing.clear()

    harness.retry(failed_message)
    harness.deliver(failed_message)

    entries = harness.chat.transcript(failed_message)
    assert [entry.content for entry in entries] == ["One", "Two", "Re: Two", "Re: One"]
    assert entries[-1].job_id == entries[0].job_id  # the job id identifies the answered message
    assert harness.history("One") == []


def test_new_message_waits_for_retried_message(harness: RetryHarness, failed_message: UUID) -> None:
    harness.failing.clear()
    harness.retry(failed_message)
    third = harness.submit("Three", failed_message)
    harness.deliver(third)
    assert harness.texts(failed_message)[-1] == "Three"

    harness.deliver(failed_message)
    harness.deliver(third)  # woken when the retried message ended

    assert harness.texts(failed_message) == ["One", "Two", "Re: Two", "Three", "Re: One", "Re: Three"]
    assert harness.history("Three") == ["One", "Two"]
    assert {status for status, _ in states(harness)} == {"succeeded"}
    assert {attempts for _, attempts in states(harness)} == {1}


def test_second_failure_unblocks_later_messages(harness: RetryHarness, failed_message: UUID) -> None:
    harness.retry(failed_message)
    third = harness.submit("Three", failed_message)
    harness.deliver(third, failed_message, third)

    assert harness.texts(failed_message) == ["One", "Two", "Re: Two", "Three", "Re: Three"]
    assert sorted(status for status, _ in states(harness)) == ["failed", "succeeded", "succeeded"]


def test_retry_of_earlier_message_discards_a_running_reply(harness: RetryHarness, failed_message: UUID) -> None:
    harness.failing.clear()
    third = harness.submit("Three", failed_message)
    respond = harness.chat.model.respond

    def retry_during_reply(question: LlmRequest) -> str:
        harness.chat.model.respond = respond
        harness.retry(failed_message)
        return "Re: Three, discarded"

    harness.chat.model.respond = retry_during_reply
    harness.deliver(third)
    assert harness.texts(failed_message)[-1] == "Three"
    harness.deliver(failed_message, third)

    assert harness.texts(failed_message)[4:] == ["Re: One", "Re: Three"]
    assert harness.history("Three") == ["One", "Two"]
    assert {attempts for _, attempts in states(harness)} == {1}


def test_messages_retried_together_are_answered_in_order(harness: RetryHarness) -> None:
    texts = ["One", "Two", "Three"]
    harness.failing = dict.fromkeys(texts, ContextWindowError("The prompt exceeds the context window"))
    session = harness.submit("One")
    jobs = [session, *(harness.submit(text, session) for text in texts[1:])]
    harness.deliver(*jobs)
    harness.failing.clear()

    harness.retry(*reversed(jobs))
    harness.deliver(*reversed(jobs))  # in reverse order: later messages have to wait
    harness.deliver(*jobs[1:])

    assert harness.texts(session) == [*texts, "Re: One", "Re: Two", "Re: Three"]
    assert harness.history("Three") == ["One", "Two"]


def due_at(admin: Connection, job: UUID) -> datetime:
    (row,) = admin.execute("SELECT next_attempt_at FROM task WHERE id = %s", [job])
    assert isinstance(row[0], datetime)
    return row[0]


def test_later_failed_message_keeps_its_retry_delay(
    harness: RetryHarness, failed_message: UUID, admin: Connection
) -> None:
    harness.failing = {"Three": ServiceUnavailableError("The model is unavailable")}
    third = harness.submit("Three", failed_message)
    harness.deliver(third)
    due = due_at(admin, third)
    assert due >= harness.clock.now + timedelta(seconds=2)
    harness.retry(failed_message)
    sent_count = len(harness.sqs.sent[URL])

    harness.failing = {}
    harness.deliver(failed_message)

    assert (due_at(admin, third), len(harness.sqs.sent[URL])) == (due, sent_count)
    harness.clock.now = due
    harness.deliver(third)
    assert harness.texts(failed_message)[-2:] == ["Re: One", "Re: Three"]
