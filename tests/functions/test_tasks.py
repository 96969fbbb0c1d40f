"""Tasks on the real engine: results, dropped messages and failures."""

import gzip
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Effects, Outcome, TenantAttempt
from counterfoil.delivery.batch import logger
from counterfoil.egress import Egress
from counterfoil.errors import ServiceUnavailableError
from counterfoil.settings import Settings, settings
from counterfoil.tasks import store
from counterfoil.tasks.store import read_task_message
from counterfoil.tasks.task_type import Services, TaskResult, TaskType
from counterfoil.tasks.types import TYPES
from functions.tasks import handler
from functions.tasks.work import run_task
from functions.watchdog.retention import purge
from tests.delivery.harness import Clock, Context, FakeSqs, event, make_consumer, record
from tests.factories import NOW
from tests.llm.server import Raw, Server
from tests.tasks.conftest import BUCKET, FakeS3, rows

OPEN = Settings(http_request_tasks_enabled=True, http_request_allowlist=("127.0.0.0/8",))
WORKER = {"name": "tasks", "timeout": 120, "permits": 2, "start_margin": 30, "retries": "requeue"}


class Payload(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int


class World:
    """Submits and processes tasks of a tenant."""

    def __init__(self, database: Database, admin: Connection, clock: Clock, tenant_id: UUID) -> None:
        self.database, self.admin, self.clock, self.tenant_id = database, admin, clock, tenant_id
        self.services = Services(bucket=BUCKET)

    def submit(self, payload: dict[str, Any], type_: str = "echo", **how: Any) -> UUID:
        found = TYPES.get(type_)
        assert found is not None
        wanted = store.build_request(found, payload, **how)
        return store.submit(self.database, self.tenant_id, wanted, NOW, bucket=BUCKET).task.job_id

    def bodies(self) -> list[str]:
        """Return the due messages, as the outbox sends them."""
        found = self.admin.execute(
            """SELECT m.body || jsonb_build_object('revision', o.revision, 'send_number', o.send_number)
               FROM outbox o, task_messages(ARRAY[o.work_id]) m ORDER BY o.created_at, o.id"""
        )
        return [json.dumps(body) for (body,) in found]

    def run(self, *bodies: str) -> Any:
        def work(attempt: TenantAttempt) -> Outcome:
            return run_task(attempt, self.services)

        consumer = make_consumer(
            self.database,
            work,
            self.clock,
            read=read_task_message,
            worker=WORKER,
            queue_urls={"tasks": "tasks"},
            retry_queue_urls={"tasks": "tasks-retry"},
        )
        return consumer.handle(event(*map(record, bodies or self.bodies())), Context())

    def task(self) -> dict[str, Any]:
        (only,) = rows(self.admin, "task")
        return only


@pytest.fixture
def world(
    database: Database,
    admin: Connection,
    clock: Clock,
    tenant: UUID,
    sqs: FakeSqs,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    s3 = FakeS3()
    monkeypatch.setattr(aws, "client", lambda service: {"sqs": sqs, "s3": s3}[service])
    return World(database, admin, clock, tenant)


@pytest.fixture
def register_type(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`register_type(run)` registers a task type `test` for the duration of the test."""

    def make(run: Callable[[TenantAttempt, Payload, Services], Any]) -> None:
        monkeypatch.setitem(TYPES, "test", TaskType("test", Payload, run))

    return make


def test_task_runs_and_stores_its_result(world: World) -> None:
    world.submit({"text": "hello"})

    assert world.run() == {"batchItemFailures": []}
    task = world.task()
    assert (task["status"], task["result"], task["ended_at"]) == ("succeeded", {"text": "hello"}, world.clock())


def test_large_payload_is_loaded_from_s3(world: World) -> None:
    large = {"text": "x" * 200_000}
    world.submit(large)
    (body,) = world.bodies()

    world.run(body)

    assert len(body) < 1000
    assert world.task()["result"] == large


def test_duplicate_message_runs_task_once(world: World, register_type: Callable[..., None]) -> None:
    runs: list[int] = []
    register_type(lambda _attempt, payload, _services: runs.append(payload.number))
    world.submit({"number": 7}, "test")
    (body,) = world.bodies()

    world.run(body)
    world.run(body, body)

    assert runs == [7]


def test_task_type_receives_the_attempt(world: World, register_type: Callable[..., None]) -> None:
    attempts: list[TenantAttempt] = []
    register_type(lambda attempt, _payload, _services: attempts.append(attempt))
    job_id = world.submit({"number": 1}, "test", user_id="ada")

    world.run()

    (attempt,) = attempts
    assert (attempt.work_id, attempt.tenant_id, attempt.number) == (job_id, world.tenant_id, 1)
    assert attempt.now() == world.clock()


def test_invalid_payload_fails_without_a_retry(world: World, register_type: Callable[..., None]) -> None:
    run = Mock()
    register_type(run)
    world.submit({"number": 1}, "test")
    world.admin.execute("""UPDATE task SET payload = '{"number": "hunter2"}'""")

    world.run()

    task = world.task()
    assert (task["status"], task["attempts"]) == ("failed", 1)
    assert "payload.number" in task["error"]
    assert "hunter2" not in task["error"]
    assert not run.called


def test_unknown_task_type_fails_without_a_retry(world: World) -> None:
    world.submit({})
    world.admin.execute("UPDATE task SET task_type = 'gone'")

    world.run()

    assert (world.task()["status"], world.task()["error"]) == ("failed", "The task_type gone no longer exists.")


@pytest.mark.parametrize("result", ["x" * 300_000, object(), float("nan"), "\x00"])
def test_unstorable_result_fails_the_task(world: World, register_type: Callable[..., None], result: object) -> None:
    register_type(lambda _attempt, _payload, _services: result)
    world.submit({"number": 1}, "test")

    world.run()

    assert (world.task()["status"], world.task()["result"]) == ("failed", None)
    assert world.task()["error"].startswith("The result has ")


@pytest.mark.parametrize(
    "body", [b"\x01" * 65_536, b"\x00" * 65_536, b"\xed\xa0\x80", b"\xff" * 65_536, gzip.compress(b"x" * 10_000_000)]
)
def test_answered_http_request_succeeds_after_one_call(world: World, body: bytes) -> None:
    world.services = Services(egress=Egress(("127.0.0.0/8",)))
    encoding = {"Content-Encoding": "gzip"} if body[:2] == b"\x1f\x8b" else {}
    with Server(Raw(200, body, encoding)) as server:
        world.submit({"url": server.url}, "http_request", settings=OPEN)
        world.run()

    task = world.task()
    assert (task["status"], task["attempts"], task["error"]) == ("succeeded", 1, None)
    assert task["result"]["truncated"] == (body[:1] in {b"\x01", b"\x1f"})


@pytest.mark.parametrize("how", ["reset", "well"])
def test_truncated_response_is_not_requested_again(world: World, how: Any) -> None:
    world.services = Services(egress=Egress(("127.0.0.0/8",)))
    with Server(Raw(201, b"Order 4711 is placed", {"Content-Length": "1000"}, how=how)) as server:
        world.submit({"url": server.url, "method": "POST"}, "http_request", settings=OPEN)
        world.run()
        assert len(server.requests) == 1

    task = world.task()
    assert (task["status"], task["attempts"]) == ("succeeded", 1)
    assert (task["result"]["status"], task["result"]["truncated"]) == (201, True)


@pytest.mark.parametrize("encoding", ["gzip", "br", "gzip, gzip"])
def test_response_with_wrong_encoding_is_accepted(world: World, encoding: str) -> None:
    world.services = Services(egress=Egress(("127.0.0.0/8",)))
    with Server(Raw(201, b"neither", {"Content-Encoding": encoding})) as server:
        world.submit({"url": server.url}, "http_request", settings=OPEN)
        world.run()

    task = world.task()
    assert (task["status"], task["attempts"]) == ("succeeded", 1)
    assert (task["result"]["status"], task["result"]["body"], task["result"]["truncated"]) == (201, "", True)


def test_webhook_allowlist_does_not_apply_to_tasks(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(**environment: str) -> bool:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        egress = handler.services.__wrapped__(database).egress
        return egress is None or egress.rejection_reason("http://10.0.0.1/") is not None

    monkeypatch.setattr(handler, "settings", settings.__wrapped__)
    assert refused(WEBHOOKS_ENABLED="true", WEBHOOK_ALLOWLIST='["10.0.0.0/8"]')
    assert not refused(HTTP_REQUEST_ALLOWLIST='["10.0.0.0/8"]')
    assert refused(WEBHOOKS_ENABLED="false")


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ({"Retry-After": "120"}, 120),
        ({"RETRY-AFTER": " 120"}, 120),
        ({"retry-after": "Fri, 02 Jan 2026 03:06:00 GMT", "Date": "Fri, 02 Jan 2026 03:04:00 GMT"}, 120),
        ({"Retry-After": "7200"}, 3600),
        ({"Retry-After": "1"}, 2),
        ({"Retry-After": "soon"}, 2),
        ({}, 2),
    ],
)
def test_requested_retry_delay_is_honored(world: World, status: int, header: dict[str, str], seconds: int) -> None:
    world.services = Services(egress=Egress(("127.0.0.0/8",)))
    with Server(Raw(status, b"busy", header)) as server:
        world.submit({"url": server.url}, "http_request", settings=OPEN)
        world.run()

    task = world.task()
    assert task["status"] == "pending"
    # The policy waits 2 seconds plus up to one random second.
    assert 0 <= (task["next_attempt_at"] - world.clock()).total_seconds() - seconds < 1
    ((due,),) = world.admin.execute("SELECT max(scheduled_at) FROM outbox").fetchall()
    assert due == task["next_attempt_at"]


def test_effects_and_result_are_one_transaction(world: World, register_type: Callable[..., None]) -> None:
    def effects(connection: Connection) -> Effects:
        connection.execute("UPDATE task SET canceled_at = now()")
        raise ServiceUnavailableError("Unavailable.")

    register_type(lambda _attempt, _payload, _services: TaskResult("done", effects))
    world.submit({"number": 1}, "test")

    world.run()

    task = world.task()
    assert (task["status"], task["result"], task["canceled_at"]) == ("pending", None, None)


def test_task_canceled_before_its_message_is_dropped(world: World, register_type: Callable[..., None]) -> None:
    run = Mock()
    register_type(run)
    job_id = world.submit({"number": 1}, "test")
    with world.database.tenant(world.tenant_id) as connection:
        store.cancel(connection, job_id, NOW, "ada")

    assert world.run() == {"batchItemFailures": []}
    assert not run.called
    assert (world.task()["status"], world.task()["skip_reason"]) == (None, "Canceled by ada.")


def test_task_canceled_while_running_stores_no_result(world: World, register_type: Callable[..., None]) -> None:
    def run(attempt: TenantAttempt, _payload: Payload, _services: Services) -> str:
        with attempt.database.tenant(attempt.tenant_id) as connection:
            store.cancel(connection, attempt.work_id, NOW, "ada")
        return "too late"

    register_type(run)
    world.submit({"number": 1}, "test")

    world.run()

    task = world.task()
    assert (task["status"], task["result"], task["skip_reason"]) == (None, None, "Canceled by ada.")


def test_retry_of_purged_task_is_dropped_and_audited(
    world: World,
    register_type: Callable[..., None],
    sqs: FakeSqs,
    maintenance_database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(_attempt: TenantAttempt, _payload: Payload, _services: Services) -> None:
        raise ServiceUnavailableError("Unavailable.")

    register_type(run)
    job_id = world.submit({"number": 1}, "test")
    world.run()
    (retry,) = sqs.sent["tasks-retry"]
    assert json.loads(retry["MessageBody"])["metadata"]["retry_count"] == 1
    with world.database.tenant(world.tenant_id) as connection:
        store.cancel(connection, job_id, NOW, "ada")
    world.admin.execute("UPDATE task SET ended_at = now() - interval '91 days'")
    assert purge(maintenance_database, lambda: datetime.now(UTC)).task == 1
    lines: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(logger, "info", lambda outcome, **about: lines.append((outcome, about)))

    assert world.run(retry["MessageBody"]) == {"batchItemFailures": []}

    (audit_row,) = rows(world.admin, "dead_letter_audit")
    assert (audit_row["action"], audit_row["actor"], audit_row["tenant_id"]) == ("unknown-work", "tasks", None)
    named = {"work_id": str(job_id), "revision": 1, "send_number": 1}
    assert audit_row["detail"].items() >= named.items()
    assert rows(world.admin, "task") == rows(world.admin, "dead_letter") == []
    assert len(sqs.sent["tasks-retry"]) == 1
    ((outcome, about),) = lines
    assert outcome == "unknown"
    assert about.items() >= named.items()


@pytest.mark.parametrize("fails", [False, True])
def test_wrong_metadata_in_message_is_ignored(
    world: World, register_type: Callable[..., None], sqs: FakeSqs, fails: bool
) -> None:
    def run(_attempt: TenantAttempt, _payload: Payload, _services: Services) -> str:
        if fails:
            raise ServiceUnavailableError("Unavailable.")
        return "done"

    register_type(run)
    world.submit({"number": 1}, "test", max_retry=2)
    (body,) = map(json.loads, world.bodies())
    wrong = {
        "created_at": "2126-02-11T10:00:00Z",
        "last_retry_at": "1926-02-11T10:00:00+14:00",
        "retry_count": 2,
        "max_retry": 20,
        "last_error": {"timestamp": "2126-02-11T10:00:00Z"},
    }
    assert world.run(json.dumps(body | {"metadata": body["metadata"] | wrong})) == {"batchItemFailures": []}

    task, (tried,) = world.task(), rows(world.admin, "work_attempt")
    assert (task["status"], task["attempts"], task["max_retry"]) == ("pending" if fails else "succeeded", 1, 2)
    assert (task["created_at"], tried["started_at"], tried["ended_at"]) == (NOW, world.clock(), world.clock())
    for sent in sqs.sent["tasks-retry"]:
        metadata = json.loads(sent["MessageBody"])["metadata"]
        assert (metadata["retry_count"], metadata["max_retry"]) == (1, 2)
        assert datetime.fromisoformat(metadata["created_at"]) == NOW
        assert datetime.fromisoformat(metadata["last_retry_at"]) == world.clock()
    assert len(sqs.sent["tasks-retry"]) == fails


def test_unreadable_message_becomes_a_dead_letter(world: World) -> None:
    assert world.run('{"job_id": 7}') == {"batchItemFailures": []}
    ((worker, reason),) = world.admin.execute("SELECT worker, dlq_reason FROM dead_letter").fetchall()
    assert (worker, reason) == ("tasks", "non_retriable_error")
