"""A message that has failed and is sent again by a person is answered late, once, and holds up nobody for good."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from counterfoil import aws
from counterfoil.db import Connection
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import begin
from counterfoil.errors import ContextWindowError, ServiceUnavailableError
from counterfoil.llm import Question
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
    """A conversation on the real engine, with a queue from which messages are taken by hand."""

    chat: Chat
    clock: Clock = field(default_factory=lambda: Clock(NOW))
    sqs: FakeSqs = field(default_factory=FakeSqs)
    failing: dict[str, Exception] = field(default_factory=dict)
    """With what the model fails when it is asked this."""

    def __post_init__(self) -> None:
        self.chat.model.says = self.reply
        self.outbox = Outbox(self.chat.database, {"tasks": URL}, clock=self.clock, random=lambda: 0.0)
        services = Services(llm=lambda: self.chat.model)  # type: ignore[arg-type, return-value]  # as much of it as is needed

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

    def reply(self, question: Question) -> str:
        if question.user in self.failing:
            raise self.failing[question.user]
        return f"Re: {question.user}"

    def say(self, text: str, session: UUID | None = None) -> UUID:
        job = self.chat.say(text, session)
        self.outbox.send_unsent(created_before=self.clock.now)
        return job

    def redrive(self, *jobs: UUID) -> None:
        for job in jobs:
            with self.chat.database.tenant(self.chat.tenant) as connection:
                sends = begin(connection, "tasks", [job], self.clock.now)
            self.outbox.send(sends)

    def deliver(self, *jobs: UUID) -> None:
        """The latest message of each job is taken from the queue, one after another."""
        for job in jobs:
            bodies = [one["MessageBody"] for one in self.sqs.sent[URL]]
            own = [body for body in bodies if read_task_message(body).messages[0].work_id == job]
            assert self.consumer.handle(event(record(own[-1])), Context())["batchItemFailures"] == []

    def said(self, session: UUID) -> list[str]:
        return [text for _, _, text in self.chat.said(session)]

    def shown(self, text: str) -> list[str]:
        """What the model was shown of the conversation when it was last asked this."""
        question = next(one for one in reversed(self.chat.model.asked) if one.user == text)
        return [turn.user for turn in question.history]


@pytest.fixture
def talk(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> Talk:
    talk = Talk(chat)
    monkeypatch.setattr(aws, "client", lambda _service: talk.sqs)
    return talk


@pytest.fixture
def failed(talk: Talk) -> UUID:
    """A conversation whose first message has failed, and whose second one was answered all the same."""
    talk.failing["One"] = ContextWindowError("The prompt is longer than the model reads")
    session = talk.say("One")
    second = talk.say("Two", session)
    talk.deliver(session, second)
    assert talk.said(session) == ["One", "Two", "Re: Two"]
    return session


def states(talk: Talk) -> list[tuple[str, int]]:
    with talk.chat.database.tenant(talk.chat.tenant) as connection:
        return connection.execute("SELECT status, attempts FROM task ORDER BY id").fetchall()


def test_it_is_answered_behind_what_was_said_meanwhile_and_as_if_it_had_been_answered_then(
    talk: Talk, failed: UUID
) -> None:
    talk.failing.clear()

    talk.redrive(failed)
    talk.deliver(failed)

    entries = talk.chat.transcript(failed)
    assert [one.content for one in entries] == ["One", "Two", "Re: Two", "Re: One"]
    assert entries[-1].job_id == entries[0].job_id  # which tells what it answers
    assert talk.shown("One") == []


def test_what_is_said_while_it_is_tried_again_waits_for_it_and_knows_of_it_in_its_place(
    talk: Talk, failed: UUID
) -> None:
    talk.failing.clear()
    talk.redrive(failed)
    third = talk.say("Three", failed)
    talk.deliver(third)
    assert talk.said(failed)[-1] == "Three"

    talk.deliver(failed)
    talk.deliver(third)  # by the message that the end of the other one has sent, at once

    assert talk.said(failed) == ["One", "Two", "Re: Two", "Three", "Re: One", "Re: Three"]
    assert talk.shown("Three") == ["One", "Two"]
    assert {status for status, _ in states(talk)} == {"succeeded"}
    assert {attempts for _, attempts in states(talk)} == {1}


def test_one_that_fails_again_lets_those_behind_it_have_their_turn_at_once(talk: Talk, failed: UUID) -> None:
    talk.redrive(failed)
    third = talk.say("Three", failed)
    talk.deliver(third, failed, third)

    assert talk.said(failed) == ["One", "Two", "Re: Two", "Three", "Re: Three"]
    assert sorted(status for status, _ in states(talk)) == ["failed", "succeeded", "succeeded"]


def test_an_answer_that_is_being_made_when_an_earlier_message_is_sent_again_is_made_anew_behind_it(
    talk: Talk, failed: UUID
) -> None:
    talk.failing.clear()
    third = talk.say("Three", failed)
    says = talk.chat.model.says

    def sent_again_meanwhile(question: Question) -> str:
        talk.chat.model.says = says
        talk.redrive(failed)
        return "Re: Three, which nobody will read"

    talk.chat.model.says = sent_again_meanwhile
    talk.deliver(third)
    assert talk.said(failed)[-1] == "Three"
    talk.deliver(failed, third)

    assert talk.said(failed)[4:] == ["Re: One", "Re: Three"]
    assert talk.shown("Three") == ["One", "Two"]
    assert {attempts for _, attempts in states(talk)} == {1}


def test_several_that_are_sent_again_together_are_answered_in_their_order(talk: Talk) -> None:
    texts = ["One", "Two", "Three"]
    talk.failing = dict.fromkeys(texts, ContextWindowError("The prompt is longer than the model reads"))
    session = talk.say("One")
    jobs = [session, *(talk.say(text, session) for text in texts[1:])]
    talk.deliver(*jobs)
    talk.failing.clear()

    talk.redrive(*reversed(jobs))
    talk.deliver(*reversed(jobs))  # the last one first: it has to wait
    talk.deliver(*jobs[1:])

    assert talk.said(session) == [*texts, "Re: One", "Re: Two", "Re: Three"]
    assert talk.shown("Three") == ["One", "Two"]


def waits_until(admin: Connection, job: UUID) -> datetime:
    (row,) = admin.execute("SELECT next_attempt_at FROM task WHERE id = %s", [job])
    assert isinstance(row[0], datetime)
    return row[0]


def test_one_behind_it_whose_own_try_has_failed_waits_as_its_policy_says(
    talk: Talk, failed: UUID, admin: Connection
) -> None:
    talk.failing = {"Three": ServiceUnavailableError("The model is away")}
    third = talk.say("Three", failed)
    talk.deliver(third)
    due = waits_until(admin, third)
    assert due >= talk.clock.now + timedelta(seconds=2)
    talk.redrive(failed)
    sent = len(talk.sqs.sent[URL])

    talk.failing = {}
    talk.deliver(failed)

    assert (waits_until(admin, third), len(talk.sqs.sent[URL])) == (due, sent)
    talk.clock.now = due
    talk.deliver(third)
    assert talk.said(failed)[-2:] == ["Re: One", "Re: Three"]
