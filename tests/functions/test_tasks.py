"""Tasks on the real engine: results, failures and dropped messages."""

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


class TaskHarness:
    """Harness that submits and processes a tenant's tasks."""

    def __init__(self, database: Database, admin: Connection, clock: Clock, tenant_id: UUID) -> None:
        self.database, self.admin, self.clock, self.tenant_id = database, admin, clock, tenant_id
        self.services = Services(bucket=BUCKET)

    def submit(self, payload: dict[str, Any], type_: str = "echo", **options: Any) -> UUID:
        task_type = TYPES.get(type_)
        assert task_type is not None
        request = store.build_request(task_type, payload, **options)
        return store.submit(self.database, self.tenant_id, request, NOW, bucket=BUCKET).task.job_id

    def bodies(self) -> list[str]:
        """Return the bodies of all outbox messages, as the outbox sends them."""
        outbox_rows = self.admin.execute(
            """SELECT m.body || jsonb_build_object('revision', o.revision, 'send_number', o.send_number)
               FROM outbox o, task_messages(ARRAY[o.work_id]) m ORDER BY o.created_at, o.id"""
        )
        return [json.dumps(body) for (body,) in outbox_rows]

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
def tasks(
    database: Database,
    admin: Connection,
    clock: Clock,
    tenant: UUID,
    sqs: FakeSqs,
    monkeypatch: pytest.MonkeyPatch,
) -> TaskHarness:
    s3 = FakeS3()
    monkeypatch.setattr(aws, "client", lambda service: {"sqs": sqs, "s3": s3}[service])
    return TaskHarness(database, admin, clock, tenant)


@pytest.fixture
def register_type(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`register_type(run)` registers the task type `test` until the test ends."""

    def make(run: Callable[[TenantAttempt, Payload, Services], Any]) -> None:
        monkeypatch.setitem(TYPES, "test", TaskType("test", Payload, run))

    return make


def test_task_runs_and_stores_its_result(tasks: TaskHarness) -> None:
    tasks.submit({"text": "hello"})

    assert tasks.run() == {"batchItemFailures": []}
    task = tasks.task()
    assert (task["status"], task["result"], task["ended_at"]) == ("succeeded", {"text": "hello"}, tasks.clock())


def test_large_payload_is_loaded_from_s3(tasks: TaskHarness) -> None:
    large = {"text": "x" * 200_000}
    tasks.submit(large)
    (body,) = tasks.bodies()

    tasks.run(body)

    assert len(body) < 1000
    assert tasks.task()["result"] == large


def test_duplicate_message_runs_task_once(tasks: TaskHarness, register_type: Callable[..., None]) -> None:
    runs: list[int] = []
    register_type(lambda _attempt, payload, _services: runs.append(payload.number))
    tasks.submit({"number": 7}, "test")
    (body,) = tasks.bodies()

    tasks.run(body)
    tasks.run(body, body)

    assert runs == [7]


def test_task_function_receives_the_attempt(tasks: TaskHarness, register_type: Callable[..., None]) -> None:
    attempts: list[TenantAttempt] = []
    register_type(lambda attempt, _payload, _services: attempts.append(attempt))
    job_id = tasks.submit({"number": 1}, "test", user_id="ada")

    tasks.run()

    (attempt,) = attempts
    assert (attempt.work_id, attempt.tenant_id, attempt.number) == (job_id, tasks.tenant_id, 1)
    assert attempt.now() == tasks.clock()


def test_invalid_payload_fails_without_a_retry(tasks: TaskHarness, register_type: Callable[..., None]) -> None:
    run = Mock()
    register_type(run)
    tasks.submit({"number": 1}, "test")
    tasks.admin.execute("""UPDATE task SET payload = '{"number": "hunter2"}'""")

    tasks.run()

    task = tasks.task()
    assert (task["status"], task["attempts"]) == ("failed", 1)
    assert "payload.number" in task["error"]
    assert "hunter2" not in task["error"]
    assert not run.called


def test_unknown_task_type_fails_without_a_retry(tasks: TaskHarness) -> None:
    tasks.submit({})
    tasks.admin.execute("UPDATE task SET task_type = 'gone'")

    tasks.run()

    assert (tasks.task()["status"], tasks.task()["error"]) == ("failed", "The task_type gone no longer exists.")


@pytest.mark.parametrize("result", ["x" * 300_000, object(), float("nan"), "\x00"])
def test_unstorable_result_fails_the_task(
    tasks: TaskHarness, register_type: Callable[..., None], result: object
) -> None:
    register_type(lambda _attempt, _payload, _services: result)
    tasks.submit({"number": 1}, "test")

    tasks.run()

    assert (tasks.task()["status"], tasks.task()["result"]) == ("failed", None)
    assert tasks.task()["error"].startswith("The result ")


@pytest.mark.parametrize(
    "body", [b"\x01" * 65_536, b"\x00" * 65_536, b"\xed\xa0\x80", b"\xff" * 65_536, gzip.compress(b"x" * 10_000_000)]
)
def test_answered_http_request_succeeds_after_one_call(tasks: TaskHarness, body: bytes) -> None:
    tasks.services = Services(egress=Egress(("127.0.0.0/8",)))
    encoding = {"Content-Encoding": "gzip"} if body[:2] == b"\x1f\x8b" else {}
    with Server(Raw(200, body, encoding)) as server:
        tasks.submit({"url": server.url}, "http_request", settings=OPEN)
        tasks.run()

    task = tasks.task()
    assert (task["status"], task["attempts"], task["error"]) == ("succeeded", 1, None)
    assert task["result"]["truncated"] == (body[:1] in {b"\x01", b"\x1f"})


@pytest.mark.parametrize("raw", ["reset", "well"])
def test_truncated_response_is_not_requested_again(tasks: TaskHarness, raw: Any) -> None:
    tasks.services = Services(egress=Egress(("127.0.0.0/8",)))
    with Server(Raw(201, b"Order 4711 is placed", {"Content-Length": "1000"}, behavior=raw)) as server:
        tasks.submit({"url": server.url, "method": "POST"}, "http_request", settings=OPEN)
        tasks.run()
        assert len(server.requests) == 1

    task = tasks.task()
    assert (task["status"], task["attempts"]) == ("succeeded", 1)
    assert (task["result"]["status"], task["result"]["truncated"]) == (201, True)


@pytest.mark.parametrize("encoding", ["gzip", "br", "gzip, gzip"])
def test_response_with_invalid_encoding_succeeds_without_body(tasks: TaskHarness, encoding: str) -> None:
    tasks.services = Services(egress=Egress(("127.0.0.0/8",)))
    with Server(Raw(201, b"neither", {"Content-Encoding": encoding})) as server:
        tasks.submit({"url": server.url}, "http_request", settings=OPEN)
        tasks.run()

    task = tasks.task()
    assert (task["status"], task["attempts"]) == ("succeeded", 1)
    assert (task["result"]["status"], task["result"]["body"], task["result"]["truncated"]) == (201, "", True)


def test_webhook_allowlist_does_not_apply_to_tasks(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**environment: str) -> bool:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        egress = handler.services.__wrapped__(database).egress
        return egress is None or egress.rejection_reason("http://10.0.0.1/") is not None

    monkeypatch.setattr(handler, "settings", settings.__wrapped__)
    assert refuse(WEBHOOKS_ENABLED="true", WEBHOOK_ALLOWLIST='["10.0.0.0/8"]')
    assert not refuse(HTTP_REQUEST_ALLOWLIST='["10.0.0.0/8"]')
    assert refuse(WEBHOOKS_ENABLED="false")


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
def test_retry_after_delays_next_attempt_within_limits(
    tasks: TaskHarness, status: int, header: dict[str, str], seconds: int
) -> None:
    tasks.services = Services(egress=Egress(("127.0.0.0/8",)))
    with Server(Raw(status, b"busy", header)) as server:
        tasks.submit({"url": server.url}, "http_request", settings=OPEN)
        tasks.run()

    task = tasks.task()
    assert task["status"] == "pending"
    # The policy waits 2 seconds plus up to one random second.
    assert 0 <= (task["next_attempt_at"] - tasks.clock()).total_seconds() - seconds < 1
    ((scheduled_at,),) = tasks.admin.execute("SELECT max(scheduled_at) FROM outbox").fetchall()
    assert scheduled_at == task["next_attempt_at"]


def test_failed_effects_and_result_are_rolled_back(tasks: TaskHarness, register_type: Callable[..., None]) -> None:
    def effects(connection: Connection) -> Effects:
        connection.execute("UPDATE task SET canceled_at = now()")
        raise ServiceUnavailableError("Unavailable.")

    register_type(lambda _attempt, _payload, _services: TaskResult("done", effects))
    tasks.submit({"number": 1}, "test")

    tasks.run()

    task = tasks.task()
    assert (task["status"], task["result"], task["canceled_at"]) == ("pending", None, None)


def test_message_of_canceled_task_is_dropped(tasks: TaskHarness, register_type: Callable[..., None]) -> None:
    run = Mock()
    register_type(run)
    job_id = tasks.submit({"number": 1}, "test")
    with tasks.database.tenant(tasks.tenant_id) as connection:
        store.cancel(connection, job_id, NOW, "ada")

    assert tasks.run() == {"batchItemFailures": []}
    assert not run.called
    assert (tasks.task()["status"], tasks.task()["skip_reason"]) == (None, "Canceled by ada.")


def test_task_canceled_while_running_stores_no_result(tasks: TaskHarness, register_type: Callable[..., None]) -> None:
    def run(attempt: TenantAttempt, _payload: Payload, _services: Services) -> str:
        with attempt.database.tenant(attempt.tenant_id) as connection:
            store.cancel(connection, attempt.work_id, NOW, "ada")
        return "too late"

    register_type(run)
    tasks.submit({"number": 1}, "test")

    tasks.run()

    task = tasks.task()
    assert (task["status"], task["result"], task["skip_reason"]) == (None, None, "Canceled by ada.")


def test_retry_of_purged_task_is_dropped_and_audited(
    tasks: TaskHarness,
    register_type: Callable[..., None],
    sqs: FakeSqs,
    maintenance_database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(_attempt: TenantAttempt, _payload: Payload, _services: Services) -> None:
        raise ServiceUnavailableError("Unavailable.")

    register_type(run)
    job_id = tasks.submit({"number": 1}, "test")
    tasks.run()
    (retry,) = sqs.sent["tasks-retry"]
    assert json.loads(retry["MessageBody"])["metadata"]["retry_count"] == 1
    with tasks.database.tenant(tasks.tenant_id) as connection:
        store.cancel(connection, job_id, NOW, "ada")
    tasks.admin.execute("UPDATE task SET ended_at = now() - interval '91 days'")
    assert purge(maintenance_database, lambda: datetime.now(UTC)).task == 1
    lines: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(logger, "info", lambda outcome, **options: lines.append((outcome, options)))

    assert tasks.run(retry["MessageBody"]) == {"batchItemFailures": []}

    (audit_row,) = rows(tasks.admin, "dead_letter_audit")
    assert (audit_row["action"], audit_row["actor"], audit_row["tenant_id"]) == ("unknown-work", "tasks", None)
    named = {"work_id": str(job_id), "revision": 1, "send_number": 1}
    assert audit_row["detail"].items() >= named.items()
    assert rows(tasks.admin, "task") == rows(tasks.admin, "dead_letter") == []
    assert len(sqs.sent["tasks-retry"]) == 1
    ((outcome, options),) = lines
    assert outcome == "unknown"
    assert options.items() >= named.items()


@pytest.mark.parametrize("has_failed", [False, True])
def test_message_metadata_is_not_trusted(
    tasks: TaskHarness, register_type: Callable[..., None], sqs: FakeSqs, has_failed: bool
) -> None:
    def run(_attempt: TenantAttempt, _payload: Payload, _services: Services) -> str:
        if has_failed:
            raise ServiceUnavailableError("Unavailable.")
        return "done"

    register_type(run)
    tasks.submit({"number": 1}, "test", max_retry=2)
    (body,) = map(json.loads, tasks.bodies())
    wrong_metadata = {
        "created_at": "2126-02-11T10:00:00Z",
        "last_retry_at": "1926-02-11T10:00:00+14:00",
        "retry_count": 2,
        "max_retry": 20,
        "last_error": {"timestamp": "2126-02-11T10:00:00Z"},
    }
    assert tasks.run(json.dumps(body | {"metadata": body["metadata"] | wrong_metadata})) == {"batchItemFailures": []}

    task, (attempt,) = tasks.task(), rows(tasks.admin, "work_attempt")
    assert (task["status"], task["attempts"], task["max_retry"]) == ("pending" if has_failed else "succeeded", 1, 2)
    assert (task["created_at"], attempt["started_at"], attempt["ended_at"]) == (NOW, tasks.clock(), tasks.clock())
    for message in sqs.sent["tasks-retry"]:
        metadata = json.loads(message["MessageBody"])["metadata"]
        assert (metadata["retry_count"], metadata["max_retry"]) == (1, 2)
        assert datetime.fromisoformat(metadata["created_at"]) == NOW
        assert datetime.fromisoformat(metadata["last_retry_at"]) == tasks.clock()
    assert len(sqs.sent["tasks-retry"]) == has_failed


def test_unreadable_message_becomes_a_dead_letter(tasks: TaskHarness) -> None:
    assert tasks.run('{"job_id": 7}') == {"batchItemFailures": []}
    ((worker, reason),) = tasks.admin.execute("SELECT worker, dlq_reason FROM dead_letter").fetchall()
    assert (worker, reason) == ("tasks", "non_retriable_error")
