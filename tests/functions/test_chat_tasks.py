"""Conversations on the real engine: budget, deletion and dead letters.

The model is scripted.
"""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from io import StringIO
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from pydantic import SecretStr

from counterfoil import aws
from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Connection, Database
from counterfoil.delivery import sql as delivery
from counterfoil.delivery.batch import logger
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import RedeliverPolicy, RequeuePolicy
from counterfoil.errors import RejectedStatementError
from counterfoil.llm import Llm
from counterfoil.settings import Settings
from counterfoil.tasks.chat import CHAT_COMPLETION, delete_session, transcript
from counterfoil.tasks.store import read_task_message
from counterfoil.tasks.task_type import Services
from functions.dead_letters.archiver import Archiver
from tests.delivery.harness import Clock, FakeSqs, record
from tests.factories import NOW
from tests.functions.test_tasks import TaskHarness
from tests.llm.server import Answer, Raw, Request, Server
from tests.tasks.chat.test_deletion import database_content
from tests.tasks.conftest import rows

USER = "ada"
SECRET = "My secret is 4711"
DLQ_ARN = "arn:aws:sqs:eu-central-1:000000000000:counterfoil-tasks-dlq"


@pytest.fixture
def model_server() -> Iterator[Server]:
    with Server() as model_api:
        model_api._otherwise = lambda request: f"Re: {request.user}"
        yield model_api


@pytest.fixture
def chat(
    database: Database,
    admin: Connection,
    clock: Clock,
    tenant: UUID,
    sqs: FakeSqs,
    model_server: Server,
    monkeypatch: pytest.MonkeyPatch,
) -> TaskHarness:
    """A tenant's conversations, with two LLM calls per day for chat.

    There are no LLM calls for documents.
    """
    settings = Settings(
        llm_provider="openai",
        llm_model="m",
        llm_url=model_server.url_for("openai"),
        llm_api_key=SecretStr("sk"),
        chat_calls_per_day=2,
        llm_calls_per_day=0,
        llm_calls_per_document=0,
    )

    def model() -> Llm:
        llm = Llm.from_settings(settings, database, Breakers.from_settings(settings, database))
        assert llm is not None
        llm._clock = clock
        return llm

    monkeypatch.setattr(aws, "client", lambda service: {"sqs": sqs}[service])
    harness = TaskHarness(database, admin, clock, tenant)
    harness.services = Services(model, settings=settings)
    return harness


def send_message(chat: TaskHarness, text: str, session: UUID | None = None) -> UUID:
    payload: dict[str, Any] = {"message": text} | ({} if session is None else {"session_id": str(session)})
    return chat.submit(payload, CHAT_COMPLETION.name, user_id=USER)


def test_exceeded_budget_fails_messages_permanently(chat: TaskHarness, model_server: Server, admin: Connection) -> None:
    session = send_message(chat, "0")
    jobs = [session, *(send_message(chat, str(number), session) for number in range(1, 4))]

    for body in chat.bodies():
        chat.run(body)

    by_id = {row["id"]: row for row in rows(admin, "task")}
    assert [by_id[job]["status"] for job in jobs] == ["succeeded", "succeeded", "failed", "failed"]
    assert len(model_server.requests) == 2
    assert by_id[jobs[-1]]["error"] == (
        "The language model was not called: today's call budget of 2 in conversations is used up "
        f"({NOW:%Y-%m-%d}, UTC). Send the message again after midnight UTC."
    )
    assert {(row["dlq_reason"], row["attempts"]) for row in rows(admin, "dead_letter")} == {("non_retriable_error", 1)}


def test_conversation_deleted_during_completion_gets_no_reply(
    chat: TaskHarness, model_server: Server, admin: Connection
) -> None:
    session = send_message(chat, "Hello")

    def response(request: Request) -> str:
        with chat.database.tenant(chat.tenant_id) as connection:
            delete_session(connection, session, USER, NOW, by=USER)
        return f"Re: {request.user}"

    model_server._otherwise = response
    bodies = chat.bodies()
    chat.run(*bodies)
    chat.run(*bodies)  # redelivered

    assert (chat.task()["status"], chat.task()["result"]) == (None, None)
    assert [rows(admin, name) for name in ("chat_session", "chat_message", "dead_letter")] == [[], [], []]
    assert len(model_server.requests) == 1


# -- dead letters of conversations ------------------------------------------------------------------------------------


@pytest.fixture
def archive(maintenance_database: Database, clock: Clock) -> Callable[[str], dict[str, Any]]:
    """`archive(body)` archives a message and returns its dead letter's payload.

    There must be no other dead letter.
    """
    outbox = Outbox(maintenance_database, {"tasks": "tasks"}, {"tasks": "tasks-retry"}, clock=clock)
    archiver = Archiver(maintenance_database, outbox, RedeliverPolicy(), clock, {"tasks": RequeuePolicy()})

    def settle(body: str) -> dict[str, Any]:
        archiver.process("tasks", SQSRecord(record(body, receives=1, arn=DLQ_ARN)))
        with maintenance_database.delivery() as connection:
            ((payload,),) = connection.execute("SELECT payload FROM dead_letter").fetchall()
        return dict(payload)

    return settle


def delete_conversation(chat: TaskHarness, session: UUID) -> None:
    with chat.database.tenant(chat.tenant_id) as connection:
        delete_session(connection, session, USER, NOW, by=USER)


def lose_worker(chat: TaskHarness) -> None:
    """Start a message's last permitted attempt, with an expired lease."""
    expired = chat.clock.now - timedelta(minutes=5)
    chat.admin.execute(
        "UPDATE task SET status = 'in-progress', attempts = 6, claim_token = 5, claimed_at = %(at)s, "
        "lease_expires_at = %(at)s",
        {"at": expired},
    )


@pytest.mark.parametrize("archived", ["before deletion", "after deletion"])
def test_dead_letter_of_conversation_stores_no_content(
    chat: TaskHarness, admin: Connection, archive: Callable[[str], dict[str, Any]], archived: str
) -> None:
    session = send_message(chat, SECRET)
    (body,) = chat.bodies()
    lose_worker(chat)
    assert SECRET in body

    if archived == "before deletion":
        joined = archive(body)
        delete_conversation(chat, session)
    else:
        chat.run(body)  # records that the worker was lost
        delete_conversation(chat, session)
        joined = archive(body)

    assert SECRET not in database_content(admin)
    assert joined["dead_letter_queue_message"]
    stored_body = joined["dead_letter_queue_body"]
    assert read_task_message(stored_body) == read_task_message(body)
    assert json.loads(stored_body) == json.loads(body) | {"payload": {"$omitted": "The task contains the payload."}}


def test_deleted_conversation_leaves_no_content_anywhere(
    chat: TaskHarness, model_server: Server, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged = StringIO()
    monkeypatch.setattr(logger.registered_handler, "stream", logged)
    session = send_message(chat, f"{SECRET} 0")
    for number in range(1, 3):
        send_message(chat, f"{SECRET} {number}", session)
    model_server.add_steps(Answer(f"Re: {SECRET}"), Raw(400, f'{{"error": {{"message": "{SECRET}"}}}}'.encode()))

    for body in chat.bodies()[:2]:
        chat.run(body)  # the first is answered, the second fails permanently
    assert sorted(row["status"] for row in rows(admin, "task")) == ["failed", "pending", "succeeded"]
    assert len(model_server.requests) == 2
    with chat.database.tenant(chat.tenant_id) as connection:
        assert len(transcript(connection, session, USER).entries) == 4
    assert SECRET not in str(
        [rows(admin, table) for table in ("dead_letter", "failure_event", "work_attempt", "llm_call")]
    )
    delete_conversation(chat, session)

    assert SECRET not in database_content(admin)
    assert "answered with HTTP 400" in logged.getvalue()
    assert SECRET not in logged.getvalue()


@pytest.mark.parametrize("reason", ["never settled", "newer schema"])
def test_message_is_archived_without_its_content(
    chat: TaskHarness, archive: Callable[[str], dict[str, Any]], monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    send_message(chat, SECRET)
    body: dict[str, Any] = json.loads(chat.bodies()[0])
    if reason == "newer schema":
        body["schema_version"] = 2
    monkeypatch.setattr(delivery, "claim", Mock(side_effect=KeyError("unknown")))
    chat.clock.advance(days=14)

    dead_letter = archive(json.dumps(body))

    assert json.loads(dead_letter["body"]) == body | {"payload": {"$omitted": "The task contains the payload."}}


def test_rejected_claim_stores_no_message_content(
    chat: TaskHarness, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_message(chat, SECRET)
    bodies = chat.bodies()
    monkeypatch.setattr(delivery, "claim", Mock(side_effect=RejectedStatementError("A privilege is missing")))

    chat.run(*bodies)

    (dead_letter,) = rows(admin, "dead_letter")
    assert read_task_message(dead_letter["payload"]["body"]) == read_task_message(bodies[0])
    assert SECRET not in str(dead_letter)


def test_unreadable_message_is_archived_unchanged(
    archive: Callable[[str], dict[str, Any]],
) -> None:
    body = '{"task_type": "echo", "payload": {"text": "Hello"}}'

    assert archive(body) == {"body": body, "encoding": "text"}
