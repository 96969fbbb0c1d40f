"""A failed step of a watchdog run does not block other steps.

The run fails at the end.
"""

import importlib
import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from threading import Event
from types import ModuleType
from typing import Any
from unittest.mock import Mock
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from counterfoil import aws
from counterfoil.db import Connection
from counterfoil.delivery import outbox
from counterfoil.notifications import notifier
from counterfoil.notifications.notifier import DeliveryStats
from counterfoil.settings import settings
from functions.watchdog import breakers, recovery
from infra.worker_table import WORKERS
from tests.delivery.harness import Context, FakeSqs
from tests.functions.fake_lambda import MAPPING, FakeLambda

QUEUES = {"acquisition": "http://q/a", "ingestion": "http://q/i", "matching": "http://q/m"}


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch, maintenance_database_url: str, sqs: FakeSqs) -> Iterator[ModuleType]:
    """Import the handler with the test's environment variables."""
    monkeypatch.setenv("DATABASE_URL", maintenance_database_url)
    monkeypatch.setenv("QUEUE_URLS", json.dumps(QUEUES))
    module = importlib.import_module("functions.watchdog.handler")
    settings.cache_clear()
    module.watchdog.cache_clear()
    yield module
    settings.cache_clear()
    module.watchdog.cache_clear()


def metric_lines(output: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, output.splitlines()) if "_aws" in line]


def test_run_returns_counts_of_each_step(handler: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    response = handler.handle({}, Context())

    assert list(response) == ["notifications", "recovery", "metrics", "breakers", "purge"]
    assert response["recovery"] == {"sent": 0, "resent": dict.fromkeys(QUEUES, 0)}
    assert response["purge"] == {
        **dict.fromkeys(
            ("offers_completed", "offers_pending", "offers_failed", "offers_late_users", "offers_twice"), 0
        ),
        **dict.fromkeys(("matchmaking_jobs", "offer_pool", "offer_shard"), 0),
        "queue_pause": 0,
        "queue_ends": 0,
        "queue_minute_stats": 0,
        "outbox": 0,
        "llm_call": 0,
        "work_attempt": 0,
        "task": 0,
        "chat_session": 0,
        "payload": 0,
        "dead_letter": 0,
        "operation": 0,
        "dead_letter_count": 0,
        "uploads": 0,
    }
    assert response["breakers"] == {"open": 0, "paused": 0, "resumed": 0}
    assert response["notifications"]["sent"] == 0
    lines = [line for line in metric_lines(capsys.readouterr().out) if "StuckInProgress" in line]
    assert {line["worker"] for line in lines} == set(QUEUES)


@pytest.mark.parametrize("failing_step", ["notifications", "recovery", "metrics", "breakers", "purge"])
def test_failing_step_fails_run_after_all_other_steps(
    handler: ModuleType, failing_step: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = handler.watchdog()
    executed: list[str] = []

    def fail(_: object) -> dict[str, Any]:
        raise ValueError("the value 4711 of some column")

    def recorded(name: str, step: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def run(time_left: object) -> Any:
            executed.append(name)
            return step(time_left)

        return run

    for name, step in list(steps.items()):
        monkeypatch.setitem(steps, name, fail if name == failing_step else recorded(name, step))

    with pytest.raises(RuntimeError, match=f"run failed: {failing_step}$") as raised:
        handler.handle({}, Context())

    assert executed == [name for name in steps if name != failing_step]
    assert raised.value.__context__ is None  # Lambda logs the context, which could quote data
    assert "4711" not in capsys.readouterr().out


def test_database_outage_fails_the_run(handler: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nowhere")
    monkeypatch.setattr("counterfoil.db.CONNECT_SECONDS", 0.2)
    settings.cache_clear()

    with pytest.raises(RuntimeError, match="run failed: notifications, recovery, metrics, breakers, purge"):
        handler.handle({}, Context())


def test_notifications_leave_time_for_later_steps(handler: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds_left: list[float] = []

    def run(_: object, time_left: Callable[[], float]) -> DeliveryStats:
        seconds_left.append(time_left())
        return DeliveryStats(0, 0, 0, 0, 0, 0)

    monkeypatch.setattr(handler.Notifier, "run", run)

    handler.handle({}, Context(seconds_left=50))

    assert seconds_left == [17]


def test_each_step_leaves_time_for_later_steps(handler: ModuleType) -> None:
    steps = list(handler.watchdog())
    (row,) = (row for row in WORKERS if row.name == "watchdog")

    assert list(handler.RESERVED_SECONDS) == steps
    assert row.timeout - handler.RESERVED_SECONDS["notifications"] >= notifier.MARGIN_SECONDS + handler.MIN_SECONDS_LEFT
    for step, next_step in pairwise(steps[:-1]):  # the last step can wait for the next run
        assert handler.RESERVED_SECONDS[step] - handler.RESERVED_SECONDS[next_step] >= handler.MIN_SECONDS_LEFT
    needed = max(breakers.PROBE_SECONDS, breakers.MAPPING_TIMEOUT_SECONDS)
    assert handler.RESERVED_SECONDS["metrics"] - handler.RESERVED_SECONDS["breakers"] >= needed
    assert handler.KEY_SECONDS + handler.PROBE_SECONDS < breakers.PROBE_SECONDS


def test_step_without_time_left_is_reported(handler: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handler.Notifier, "run", lambda *_: pytest.fail("it has no time"))

    with pytest.raises(RuntimeError, match=r"run failed: notifications$"):
        handler.handle(
            {}, Context(seconds_left=handler.RESERVED_SECONDS["notifications"] + handler.MIN_SECONDS_LEFT - 1)
        )


def test_unresponsive_queues_block_only_sending(
    handler: ModuleType,
    admin: Connection,
    sqs: FakeSqs,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    may_answer = Event()
    for name in ("send_message_batch", "get_queue_attributes"):
        monkeypatch.setattr(sqs, name, lambda **_: may_answer.wait(30), raising=False)
    monkeypatch.setattr(recovery, "REQUEST_TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(outbox, "CALL_TIMEOUT_SECONDS", 0.05)
    admin.execute(
        """
        INSERT INTO outbox (worker, work_id, revision, send_number, scheduled_at, created_at)
        VALUES ('matching', gen_random_uuid(), 1, 0, '2026-01-01', '2026-01-01')
        """
    )

    response = handler.handle({}, Context(seconds_left=55))
    may_answer.set()

    assert list(response) == ["notifications", "recovery", "metrics", "breakers", "purge"]
    assert response["recovery"]["sent"] == 0
    lines = [line for line in metric_lines(capsys.readouterr().out) if "OutboxOverdue" in line]
    assert {line["worker"]: line["OutboxOverdue"] for line in lines}["matching"] == [1.0]


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure an unreachable language model, on which matching depends."""
    values = {
        "LLM_PROVIDER": "openai",
        "LLM_MODEL": "m",
        "LLM_URL": "http://127.0.0.1:1",
        "LLM_API_KEY": "k",
        "MAPPINGS": json.dumps({"matching": str(MAPPING)}),
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("model")
def test_queue_with_an_unavailable_model_is_paused(
    handler: ModuleType, admin: Connection, sqs: FakeSqs, monkeypatch: pytest.MonkeyPatch
) -> None:
    mappings = FakeLambda()
    monkeypatch.setattr(aws, "client", lambda service: {"sqs": sqs, "lambda": mappings}[service])
    admin.execute(
        """
        INSERT INTO breaker (name, generation, open_count, opened_at, open_until)
        VALUES ('llm:openai', 1, 1, now() - interval '2 minutes', now() + interval '2 minutes')
        """
    )

    response = handler.handle({}, Context())

    assert response["breakers"] == {"open": 1, "paused": 1, "resumed": 0}
    assert mappings.calls == [(MAPPING, False)]


@pytest.mark.usefixtures("model")
def test_inaccessible_api_key_does_not_block_breaker_step(
    handler: ModuleType,
    admin: Connection,
    sqs: FakeSqs,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    deleted_mapping, mappings = uuid4(), FakeLambda()
    mappings.states[deleted_mapping] = "Disabled"
    error = ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetSecretValue")
    secrets = Mock(get_secret_value=Mock(side_effect=error))
    monkeypatch.delenv("LLM_API_KEY")
    monkeypatch.setenv("SECRETS_ARN", "arn:aws:secretsmanager:eu-central-1:000000000000:secret:counterfoil-AbCdEf")
    clients = {"sqs": sqs, "lambda": mappings, "secretsmanager": secrets}
    monkeypatch.setattr(aws, "client", clients.__getitem__)
    admin.execute(
        """
        INSERT INTO breaker (name, generation, open_count, opened_at, open_until)
        VALUES ('llm:openai', 1, 1, now() - interval '2 minutes', now() - interval '1 second'),
               ('ses', 1, 1, now() - interval '2 minutes', now() + interval '1 hour')
        """
    )
    admin.execute(
        "INSERT INTO breaker_mapping_pause VALUES (%s, 'paused', now(), now() - interval '1 hour')", [deleted_mapping]
    )

    response = handler.handle({}, Context())

    assert secrets.get_secret_value.called
    assert response["breakers"] == {"open": 2, "paused": 1, "resumed": 1}
    assert mappings.calls == [(MAPPING, False), (deleted_mapping, True)]
    open_breakers = {line["breaker"] for line in metric_lines(capsys.readouterr().out) if "BreakerOpen" in line}
    assert open_breakers == {"llm:openai", "ses"}
