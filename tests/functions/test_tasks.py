"""Tasks on the real engine: a message in, a result in the row; what is over is dropped, what is unsound fails once."""

import json
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import Mock
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.delivery import Attempt, Outcome
from counterfoil.errors import ServiceUnavailableError
from counterfoil.tasks import store
from counterfoil.tasks.message import read_task_message
from counterfoil.tasks.registry import TYPES, Done, TaskContext, TaskType
from counterfoil.work import Send
from functions.tasks.work import Means, carry_out
from tests.delivery.harness import Clock, Context, FakeSqs, event, make_consumer, record
from tests.factories import NOW
from tests.tasks.conftest import BUCKET, FakeS3, rows

WORKER = {"name": "tasks", "timeout": 120, "permits": 2, "start_margin": 30}


class Payload(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int


class World:
    """A tenant's tasks, handed in and carried out."""

    def __init__(self, database: Database, admin: Connection, clock: Clock, tenant_id: UUID) -> None:
        self.database, self.admin, self.clock, self.tenant_id = database, admin, clock, tenant_id
        self.means = Means(bucket=BUCKET)

    def submit(self, payload: dict[str, Any], type_: str = "echo", **how: Any) -> UUID:
        found = TYPES.get(type_)
        assert found is not None
        wanted = store.order(found, payload, **how)
        return store.submit(self.database, self.tenant_id, wanted, NOW, bucket=BUCKET).task.job_id

    def bodies(self) -> list[str]:
        """The messages that are owed, as the outbox sends them."""
        found = self.admin.execute(
            """SELECT m.body || jsonb_build_object('revision', o.revision, 'send_number', o.send_number)
               FROM outbox o, task_messages(ARRAY[o.work_id]) m ORDER BY o.created_at, o.id"""
        )
        return [json.dumps(body) for (body,) in found]

    def run(self, *bodies: str) -> Any:
        def work(attempt: Attempt) -> Outcome:
            return carry_out(attempt, self.means)

        consumer = make_consumer(
            self.database,
            work,
            self.clock,
            read=read_task_message,
            worker=WORKER,
            queue_urls={"tasks": "tasks"},
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
def a_type(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`a_type(run)` makes a type of task called `test`, for as long as the test lasts."""

    def make(run: Callable[[TaskContext, Payload], Any]) -> None:
        monkeypatch.setitem(TYPES._types, "test", TaskType("test", Payload, run))

    return make


def test_a_task_is_run_and_its_result_kept(world: World) -> None:
    world.submit({"text": "hello"})

    assert world.run() == {"batchItemFailures": []}
    task = world.task()
    assert (task["status"], task["result"], task["ended_at"]) == ("succeeded", {"text": "hello"}, world.clock())


def test_a_large_payload_is_fetched_where_its_claim_check_leads(world: World) -> None:
    large = {"text": "x" * 200_000}
    world.submit(large)
    (body,) = world.bodies()

    world.run(body)

    assert len(body) < 1000
    assert world.task()["result"] == large


def test_a_message_that_comes_twice_runs_a_task_once(world: World, a_type: Callable[..., None]) -> None:
    runs: list[int] = []
    a_type(lambda _context, payload: runs.append(payload.number))
    world.submit({"number": 7}, "test")
    (body,) = world.bodies()

    world.run(body)
    world.run(body, body)

    assert runs == [7]


def test_what_a_type_is_told(world: World, a_type: Callable[..., None]) -> None:
    told: list[TaskContext] = []
    a_type(lambda context, _payload: told.append(context))
    job_id = world.submit({"number": 1}, "test", user_id="ada")

    world.run()

    (context,) = told
    assert (context.job_id, context.tenant_id, context.user_id, context.number) == (job_id, world.tenant_id, "ada", 1)
    assert context.now() == world.clock()


def test_a_payload_that_is_not_in_the_form_of_its_type_any_more_fails_at_once(
    world: World, a_type: Callable[..., None]
) -> None:
    run = Mock()
    a_type(run)
    world.submit({"number": 1}, "test")
    world.admin.execute("""UPDATE task SET payload = '{"number": "hunter2"}'""")

    world.run()

    task = world.task()
    assert (task["status"], task["attempts"]) == ("failed", 1)
    assert "payload.number" in task["error"]
    assert "hunter2" not in task["error"]
    assert not run.called


def test_a_type_that_is_no_more_fails_its_tasks_at_once(world: World) -> None:
    world.submit({})
    world.admin.execute("UPDATE task SET task_type = 'gone'")

    world.run()

    assert (world.task()["status"], world.task()["error"]) == ("failed", "There is no task_type gone any more.")


@pytest.mark.parametrize("result", ["x" * 300_000, object(), float("nan"), "\x00"])
def test_a_result_that_cannot_be_kept_fails_its_task(world: World, a_type: Callable[..., None], result: object) -> None:
    a_type(lambda _context, _payload: result)
    world.submit({"number": 1}, "test")

    world.run()

    assert (world.task()["status"], world.task()["result"]) == ("failed", None)
    assert world.task()["error"].startswith("The result has ")


def test_effects_and_result_are_one_transaction(world: World, a_type: Callable[..., None]) -> None:
    def effects(connection: Connection) -> Sequence[Send]:
        connection.execute("UPDATE task SET cancelled_at = now()")
        raise ServiceUnavailableError("Away.")

    a_type(lambda _context, _payload: Done("done", effects))
    world.submit({"number": 1}, "test")

    world.run()

    task = world.task()
    assert (task["status"], task["result"], task["cancelled_at"]) == ("pending", None, None)


def test_a_task_that_is_cancelled_before_its_message_comes_is_dropped(
    world: World, a_type: Callable[..., None]
) -> None:
    run = Mock()
    a_type(run)
    job_id = world.submit({"number": 1}, "test")
    with world.database.tenant(world.tenant_id) as connection:
        store.cancel(connection, job_id, NOW, "ada")

    assert world.run() == {"batchItemFailures": []}
    assert not run.called
    assert (world.task()["status"], world.task()["reason"]) == (None, "Cancelled by ada.")


def test_a_task_that_is_cancelled_while_it_runs_keeps_no_result(world: World, a_type: Callable[..., None]) -> None:
    def run(context: TaskContext, _payload: Payload) -> str:
        with context.database.tenant(context.tenant_id) as connection:
            store.cancel(connection, context.job_id, NOW, "ada")
        return "too late"

    a_type(run)
    world.submit({"number": 1}, "test")

    world.run()

    task = world.task()
    assert (task["status"], task["result"], task["reason"]) == (None, None, "Cancelled by ada.")


def test_a_message_whose_task_is_no_more_is_dropped(world: World) -> None:
    world.submit({})
    (body,) = world.bodies()
    world.admin.execute("DELETE FROM task")

    assert world.run(body) == {"batchItemFailures": []}
    ((said,),) = world.admin.execute("SELECT action FROM dead_letter_audit").fetchall()
    assert said


def test_a_message_that_cannot_be_read_becomes_a_dead_letter(world: World) -> None:
    assert world.run('{"job_id": 7}') == {"batchItemFailures": []}
    ((worker, reason),) = world.admin.execute("SELECT worker, dlq_reason FROM dead_letter").fetchall()
    assert (worker, reason) == ("tasks", "non_retriable_error")
