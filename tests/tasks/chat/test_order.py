"""Messages are answered in order and at most once, despite faults."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import pytest

from counterfoil import aws
from counterfoil.db import Connection
from counterfoil.delivery.attempt import Effects, TenantAttempt
from counterfoil.tasks import chat, store
from counterfoil.tasks.task_type import Services, TaskResult
from counterfoil.tasks.types import TYPES
from tests.delivery.harness import Clock
from tests.tasks.chat.simulation import NO_FAULTS, FaultRates, Queue, Simulation

Make = Callable[..., Simulation]
WAITS = chat._EARLIER_PENDING


@pytest.fixture
def simulation(
    database_url: str,
    maintenance_database_url: str,
    admin: Connection,
    tenant: UUID,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Make]:
    """`simulation(seed, rates)` returns a simulation that has not started."""
    created: list[Simulation] = []

    def make(seed: int, rates: FaultRates = FaultRates()) -> Simulation:  # noqa: B008  # a value
        queue = Queue(Clock(), Random(seed), rates.send_fails)
        monkeypatch.setattr(aws, "client", lambda _service: queue)
        created.append(Simulation(database_url, maintenance_database_url, admin, tenant, queue, rates, seed))
        return created[-1]

    yield make
    for item in created:
        item.maintenance.close()


@pytest.mark.parametrize("seed", range(2))
def test_messages_are_answered_in_order_at_most_once(
    seed: int, simulation: Make, admin: Connection, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    run_ = simulation(seed)
    run_.run(sessions=12, messages=8, workers=5)

    assert run_.faults() == set()
    logged = f"{capsys.readouterr()} {[vars(item) for item in caplog.records]}"
    assert "The prompt exceeds the context window" in logged
    assert not any(f"message {number}" in logged for number in range(1, 9))  # logs omit message content
    states: dict[str, int] = dict(
        admin.execute("SELECT coalesce(status, 'canceled'), count(*) FROM task GROUP BY 1").fetchall()
    )
    assert set(states) == {"succeeded", "failed", "canceled"}
    assert (
        min(run_.fault_counts[f"killed_{when}"] for when in ("after_claim", "before_settling", "before_acknowledging"))
        >= 3
    )


def test_turns_follow_each_other_immediately_without_faults(simulation: Make, admin: Connection) -> None:
    run_ = simulation(1, NO_FAULTS)
    run_.run(sessions=6, messages=12, workers=5)

    assert run_.faults() == set()
    # No message had to wait for its recheck.
    ended = admin.execute("SELECT DISTINCT status, attempts, ended_at FROM task").fetchall()
    assert ended == [("succeeded", 1, run_.started_at)]
    assert len(run_.model_calls) == 72


def test_failed_and_canceled_turns_wake_the_next_immediately(simulation: Make, admin: Connection) -> None:
    run_ = simulation(1, replace(NO_FAULTS, model_refuses=0.3, canceled=0.2))
    run_.run(sessions=6, messages=12, workers=5)

    assert run_.faults() == set()
    ended = admin.execute("SELECT DISTINCT coalesce(failed_at, ended_at) FROM task").fetchall()
    assert ended == [(run_.started_at,)]
    states = admin.execute("SELECT DISTINCT coalesce(status, 'canceled') FROM task").fetchall()
    assert {state for (state,) in states} == {"succeeded", "failed", "canceled"}


# Mutants


def test_mutant_without_blocking_check_reorders_replies(simulation: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "_PENDING", chat._PENDING.replace(WAITS, "false"))
    monkeypatch.setattr(chat, "_IS_BLOCKED", chat._IS_BLOCKED.replace(WAITS, "false"))
    run_ = simulation(1)
    run_.run(sessions=6, messages=12, workers=5)

    assert "Replies are not in the order of their messages" in run_.faults()


def test_mutant_without_unique_key_duplicates_replies(
    simulation: Make, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.execute("ALTER TABLE chat_message DROP CONSTRAINT chat_message_job_id_role_key")
    monkeypatch.setattr(
        chat, "_INSERT_MESSAGE", chat._INSERT_MESSAGE.replace("ON CONFLICT (job_id, role) DO NOTHING", "")
    )

    def answer_first(attempt: TenantAttempt, payload: Any, services: Services) -> TaskResult:
        reply = chat.complete(attempt, payload, services)
        assert isinstance(reply, TaskResult)
        with attempt.database.tenant(attempt.tenant_id) as connection:
            reply.effects(connection)
        return TaskResult(reply.result, lambda _connection: Effects())

    monkeypatch.setitem(TYPES, chat.CHAT_COMPLETION.name, replace(chat.CHAT_COMPLETION, run=answer_first))
    run_ = simulation(1)
    run_.run(sessions=6, messages=12, workers=5)

    assert "A message has two replies" in run_.faults()


def test_mutant_without_wake_ups_waits_for_recheck(
    simulation: Make, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (chat, store):
        monkeypatch.setattr(module, "wake_dependents", lambda *_: [])
    run_ = simulation(1, NO_FAULTS)
    run_.run(sessions=6, messages=12, workers=5)

    assert run_.faults() == set()  # replies are late but correct
    (last,) = admin.execute("SELECT max(ended_at) FROM task").fetchall()[0]
    assert last - run_.started_at >= chat.RECHECK_DELAY
