"""Every message is answered once and in its order, whatever happens to queue, model, and workers."""

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
from tests.tasks.chat.bustle import NEVER, Bustle, Chances, Queue

Make = Callable[..., Bustle]
WAITS = chat._EARLIER_PENDING


@pytest.fixture
def bustle(
    database_url: str,
    keeper_database_url: str,
    admin: Connection,
    tenant: UUID,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Make]:
    """`bustle(seed, chances)`: users, a queue and workers that have not begun yet."""
    made: list[Bustle] = []

    def make(seed: int, chances: Chances = Chances()) -> Bustle:  # noqa: B008  # a value
        queue = Queue(Clock(), Random(seed), chances.not_sent)
        monkeypatch.setattr(aws, "client", lambda _service: queue)
        made.append(Bustle(database_url, keeper_database_url, admin, tenant, queue, chances, seed))
        return made[-1]

    yield make
    for one in made:
        one.keeper.close()


@pytest.mark.parametrize("seed", range(2))
def test_every_message_is_answered_once_and_in_order_or_not_at_all(
    seed: int, bustle: Make, admin: Connection, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    world = bustle(seed)
    world.run(sessions=12, messages=8, workers=5)

    assert world.faults() == set()
    logged = f"{capsys.readouterr()} {[vars(one) for one in caplog.records]}"
    assert "The prompt is longer than the model reads" in logged
    assert not any(f"message {number}" in logged for number in range(1, 9))  # nothing that was said
    states: dict[str, int] = dict(
        admin.execute("SELECT coalesce(status, 'cancelled'), count(*) FROM task GROUP BY 1").fetchall()
    )
    assert set(states) == {"succeeded", "failed", "cancelled"}
    assert min(world.seen[f"killed_{when}"] for when in ("after_claim", "before_settling", "before_acknowledging")) >= 3


def test_where_nothing_goes_wrong_each_turn_follows_at_once(bustle: Make, admin: Connection) -> None:
    world = bustle(1, NEVER)
    world.run(sessions=6, messages=12, workers=5)

    assert world.faults() == set()
    # Nobody had to wait for the time at which it would have looked again.
    ended = admin.execute("SELECT DISTINCT status, attempts, ended_at FROM task").fetchall()
    assert ended == [("succeeded", 1, world.began)]
    assert len(world.saw) == 72


def test_the_end_of_a_turn_lets_the_next_one_have_it_at_once_whatever_it_is(bustle: Make, admin: Connection) -> None:
    world = bustle(1, replace(NEVER, model_refuses=0.3, cancelled=0.2))
    world.run(sessions=6, messages=12, workers=5)

    assert world.faults() == set()
    ended = admin.execute("SELECT DISTINCT coalesce(failed_at, ended_at) FROM task").fetchall()
    assert ended == [(world.began,)]
    states = admin.execute("SELECT DISTINCT coalesce(status, 'cancelled') FROM task").fetchall()
    assert {state for (state,) in states} == {"succeeded", "failed", "cancelled"}


# And what would not do


def test_without_a_look_at_the_messages_before_answers_come_out_of_order(
    bustle: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "_PENDING", chat._PENDING.replace(WAITS, "false"))
    monkeypatch.setattr(chat, "_BLOCKED", chat._BLOCKED.replace(WAITS, "false"))
    world = bustle(1)
    world.run(sessions=6, messages=12, workers=5)

    assert "Answers are not in the order of their messages" in world.faults()


def test_without_the_unique_key_and_the_settling_transaction_a_message_has_two_answers(
    bustle: Make, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.execute("ALTER TABLE chat_message DROP CONSTRAINT chat_message_job_id_role_key")
    monkeypatch.setattr(chat, "_ADD", chat._ADD.replace("ON CONFLICT (job_id, role) DO NOTHING", ""))

    def answer_first(attempt: TenantAttempt, payload: Any, services: Services) -> TaskResult:
        done = chat.complete(attempt, payload, services)
        assert isinstance(done, TaskResult)
        with attempt.database.tenant(attempt.tenant_id) as connection:
            done.effects(connection)
        return TaskResult(done.result, lambda _connection: Effects())

    monkeypatch.setitem(TYPES, chat.CHAT_COMPLETION.name, replace(chat.CHAT_COMPLETION, run=answer_first))
    world = bustle(1)
    world.run(sessions=6, messages=12, workers=5)

    assert "A message has two answers" in world.faults()


def test_without_a_wake_a_session_stands_still_until_it_looks_again(
    bustle: Make, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (chat, store):
        monkeypatch.setattr(module, "wake_waiting", lambda *_: [])
    world = bustle(1, NEVER)
    world.run(sessions=6, messages=12, workers=5)

    assert world.faults() == set()  # late, but right
    (last,) = admin.execute("SELECT max(ended_at) FROM task").fetchall()[0]
    assert last - world.began >= chat.RECHECK_DELAY
