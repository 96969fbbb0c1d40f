"""Unfinished operations continue in the next run.

A failing operation does not block others.
"""

import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import chain, repeat
from typing import Any
from uuid import UUID

import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.dead_letters.bulk import BulkSteps
from counterfoil.delivery.outbox import Outbox
from counterfoil.errors import ConflictError, DatabaseUnavailableError
from counterfoil.operations import engine, store
from counterfoil.operations.engine import MIN_SECONDS_LEFT, Engine
from counterfoil.operations.store import Operation
from functions.bulk.handler import definitions
from tests.dead_letters.bulk_harness import BulkHarness
from tests.dead_letters.dead_letter_factory import dead_letter_factory
from tests.delivery.harness import FakeSqs

QUEUE = "counterfoil-tasks"


@pytest.fixture
def harness(database: Database, admin: Connection, make_tenant: Callable[..., UUID]) -> BulkHarness:
    tenant = make_tenant("acme")
    return BulkHarness(database, admin, tenant, dead_letter_factory(database, tenant))


@pytest.fixture
def sqs(monkeypatch: pytest.MonkeyPatch) -> FakeSqs:
    fake, lock = FakeSqs(), threading.Lock()
    send = fake.send_message_batch

    def send_locked(**call: Any) -> Any:
        with lock:
            return send(**call)

    fake.send_message_batch = send_locked  # type: ignore[method-assign]
    monkeypatch.setattr(aws, "client", lambda service: {"sqs": fake}[service])
    return fake


@pytest.fixture
def bulk_engine(harness: BulkHarness, database_url: str) -> Any:
    single_connection = Database(database_url, max_connections=1)  # one connection, as on Lambda
    outbox = Outbox(
        single_connection, {"tasks": QUEUE}, {"tasks": f"{QUEUE}-retry"}, clock=lambda: harness.now, random=lambda: 0.0
    )
    yield Engine(single_connection, outbox, [BulkSteps(None)], lambda: harness.now)
    single_connection.close()


def run(bulk_engine: Engine, seconds_left: Callable[[], float] = lambda: 50.0) -> dict[str, int]:
    return bulk_engine.run(seconds_left)


def test_every_action_has_one_definition():
    actions = [action for definition in definitions(None) for action in definition.actions]
    assert sorted(actions) == sorted(store.ACTIONS)


def test_bulk_messages_are_spread_at_requested_rate(bulk_engine: Engine, harness: BulkHarness, sqs: FakeSqs):
    harness.fail(100, interval=0.1)
    harness.request(rate=4)
    assert run(bulk_engine) == {"operations": 1, "items": 100}
    assert sorted(entry["DelaySeconds"] for entry in sqs.sent[QUEUE]) == sorted([*range(25)] * 4)
    assert all(row["sent_at"] for row in harness.outbox_rows())


def test_steps_without_time_left_run_next_time(
    bulk_engine: Engine, harness: BulkHarness, sqs: FakeSqs, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine.run_step, "__kwdefaults__", {"batch_size": 5})
    harness.fail(20)
    operation = harness.request()
    seconds = chain(repeat(50.0, 4), repeat(MIN_SECONDS_LEFT - 1))
    assert 0 < run(bulk_engine, lambda: next(seconds))["items"] < 20
    assert harness.load(operation).state == "running"
    run(bulk_engine)
    assert (harness.load(operation).state, harness.load(operation).succeeded) == ("done", 20)
    assert run(bulk_engine) == {"operations": 0, "items": 0}


def test_concurrent_operations_take_turns(
    bulk_engine: Engine, harness: BulkHarness, sqs: FakeSqs, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine.run_step, "__kwdefaults__", {"batch_size": 2})
    dead_letters = harness.fail(20)
    large = harness.request()
    small = harness.request(job_ids=dead_letters[:2])
    turn = iter(range(1000))
    bulk_engine.run(lambda: 50.0 if next(turn) < 9 else 0.0)
    assert harness.load(small).succeeded == 2
    assert (harness.load(large).state, harness.load(large).succeeded) == ("running", 4)


@pytest.mark.parametrize(
    ("error", "is_failure"), [(ConflictError("the row is locked"), False), (ValueError("the value 4711"), True)]
)
def test_failing_operation_does_not_block_others(
    bulk_engine: Engine,
    harness: BulkHarness,
    sqs: FakeSqs,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    is_failure: bool,
):
    harness.fail(2)
    failing_operation = harness.request()
    harness.now += timedelta(seconds=1)
    other = harness.request("resolve")
    step = engine.run_step

    def fail_broken(database: Database, definition: Any, operation_id: UUID, *arguments: Any, **options: Any) -> Any:
        if operation_id == failing_operation.id:
            raise error
        return step(database, definition, operation_id, *arguments, **options)

    monkeypatch.setattr(engine, "run_step", fail_broken)
    if is_failure:
        with pytest.raises(RuntimeError, match=r"^1 operations failed$"):
            run(bulk_engine)
    else:
        run(bulk_engine)
    assert harness.load(other).succeeded == 2
    assert "4711" not in capsys.readouterr().out


def test_database_outage_fails_the_run(bulk_engine: Engine, harness: BulkHarness, monkeypatch: pytest.MonkeyPatch):
    harness.request()

    def raise_unavailable(*_: Any, **__: Any) -> Any:
        raise DatabaseUnavailableError("unavailable")

    monkeypatch.setattr(engine, "run_step", raise_unavailable)
    with pytest.raises(DatabaseUnavailableError):
        run(bulk_engine)


def test_unsent_messages_stay_in_the_outbox(bulk_engine: Engine, harness: BulkHarness, sqs: FakeSqs):
    def fail(**call: Any) -> Any:
        return {"Failed": [{"Id": entry["Id"], "Code": "InternalError"} for entry in call["Entries"]]}

    sqs.send_message_batch = fail  # type: ignore[method-assign]
    harness.fail(3)
    operation: Operation = harness.request()
    run(bulk_engine)
    assert harness.load(operation).succeeded == 3
    assert [row["sent_at"] for row in harness.outbox_rows()] == [None] * 3
