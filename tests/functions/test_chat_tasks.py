"""Conversations on the real engine, with a scripted model behind the real client: beyond the budget, and deleted."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from pydantic import SecretStr

from counterfoil import aws
from counterfoil.breaker import Breakers
from counterfoil.db import Connection, Database
from counterfoil.llm import Llm
from counterfoil.settings import Settings
from counterfoil.tasks.chat.completion import NAME
from counterfoil.tasks.chat.deletion import delete
from functions.tasks.work import Means
from tests.delivery.harness import Clock, FakeSqs
from tests.factories import NOW
from tests.functions.test_tasks import World
from tests.llm.server import Request, Server
from tests.tasks.conftest import rows

USER = "ada"


@pytest.fixture
def scripted() -> Iterator[Server]:
    with Server() as server:
        server._otherwise = lambda request: f"Re: {request.user}"
        yield server


@pytest.fixture
def talk(
    database: Database,
    admin: Connection,
    clock: Clock,
    tenant: UUID,
    sqs: FakeSqs,
    scripted: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    """A tenant's conversations, with a budget of two questions a day, and none for documents."""
    settings = Settings(
        llm_provider="openai",
        llm_model="m",
        llm_url=scripted.url_for("openai"),
        llm_api_key=SecretStr("sk"),
        chat_questions_per_day=2,
        llm_questions_per_day=0,
        llm_questions_per_document=0,
    )

    def model() -> Llm:
        found = Llm.from_settings(settings, database, Breakers.from_settings(settings, database))
        assert found is not None
        found._clock = clock
        return found

    monkeypatch.setattr(aws, "client", lambda service: {"sqs": sqs}[service])
    world = World(database, admin, clock, tenant)
    world.means = Means(model, settings=settings)
    return world


def say(talk: World, text: str, session: UUID | None = None) -> UUID:
    payload: dict[str, Any] = {"message": text} | ({} if session is None else {"session_id": str(session)})
    return talk.submit(payload, NAME, user_id=USER)


def test_beyond_the_budget_each_message_fails_at_once_with_a_sentence_and_none_waits_till_midnight(
    talk: World, scripted: Server, admin: Connection
) -> None:
    session = say(talk, "0")
    jobs = [session, *(say(talk, str(number), session) for number in range(1, 4))]

    for body in talk.bodies():
        talk.run(body)

    by_id = {row["id"]: row for row in rows(admin, "task")}
    assert [by_id[job]["status"] for job in jobs] == ["succeeded", "succeeded", "failed", "failed"]
    assert len(scripted.requests) == 2
    assert by_id[jobs[-1]]["error"] == (
        "The language model was not asked: today's budget of 2 questions in conversations is used up "
        f"({NOW:%Y-%m-%d}, UTC). Send the message again after midnight UTC."
    )
    assert {(row["dlq_reason"], row["attempts"]) for row in rows(admin, "dead_letter")} == {("non_retriable_error", 1)}


def test_a_message_whose_conversation_is_deleted_while_the_model_thinks_has_no_answer(
    talk: World, scripted: Server, admin: Connection
) -> None:
    session = say(talk, "Hello")

    def answer(request: Request) -> str:
        with talk.database.tenant(talk.tenant_id) as connection:
            delete(connection, session, USER, NOW)
        return f"Re: {request.user}"

    scripted._otherwise = answer
    bodies = talk.bodies()
    talk.run(*bodies)
    talk.run(*bodies)  # it comes again

    assert (talk.task()["status"], talk.task()["result"]) == (None, None)
    assert [rows(admin, name) for name in ("chat_session", "chat_message", "dead_letter")] == [[], [], []]
    assert len(scripted.requests) == 1
