"""Queues are shown, paused and resumed on the command line."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.client import ForbiddenError
from cli.commands.queues import app
from cli.failures import UsageError
from cli.local import commands
from counterfoil import aws
from counterfoil.db import Connection, Database, maintenance_connection
from counterfoil.queues import record_depths, roll_up_minutes
from counterfoil.settings import settings
from functions.admin_api.api import queues as routes
from tests.cli.api_connection import connect_commands
from tests.dead_letters.dead_letter_factory import dead_letter_factory
from tests.delivery.harness import FakeSqs
from tests.factories import make_task
from tests.functions.fake_lambda import MAPPING, FakeLambda

QUEUES = {"tasks": {"urls": ["q/tasks"], "mappings": [str(MAPPING)], "limit": 24}}
REASON = ("--reason", "The model is being exchanged", "--by", "kim")


@pytest.fixture
def lambda_() -> FakeLambda:
    return FakeLambda()


@pytest.fixture(autouse=True)
def cloud(api: None, lambda_: FakeLambda, queue: FakeSqs, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API of a deployment with one queue."""
    alarms = SimpleNamespace(describe_alarms=lambda **_: {"MetricAlarms": [{"AlarmName": "counterfoil-breaker-open"}]})
    clients: dict[str, Any] = {"lambda": lambda_, "sqs": queue, "cloudwatch": alarms}
    monkeypatch.setattr(aws, "client", lambda service: clients[service])
    monkeypatch.setenv("QUEUES", json.dumps(QUEUES))
    settings.cache_clear()
    for cached in (routes._cached_depths, routes._cached_alarms):
        cached.cache_clear()


def run(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "140"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code
    return result.output


def test_list_shows_queue_depths_and_results(
    queue: FakeSqs, admin: Connection, maintenance_database: Database, make_tenant: Callable[..., UUID]
) -> None:
    acme = make_tenant("acme")
    make_task(admin, acme)
    make_task(admin, acme, status="in-progress")
    queue.depths["q/tasks"] = 4
    admin.execute(
        """INSERT INTO finished_work
           SELECT 'tasks', %s, 'succeeded', now() - interval '2 minutes' FROM generate_series(1, 3)""",
        [acme],
    )
    with maintenance_connection(maintenance_database) as connection:
        roll_up_minutes(connection, datetime.now(UTC))
        record_depths(connection, ["tasks"], {}, datetime.now(UTC))

    lines = run().splitlines()

    assert lines[0].split() == [
        "worker",
        "messages",
        "running",
        "pending",
        "oldest",
        "dead",
        "letters",
        "last",
        "hour",
        "done",
        "failed",
    ]
    assert lines[1].split() == ["tasks", "12", "1", "of", "24", "1", "0", "█", "3", "0"]
    assert lines[2] == "The alarm breaker-open is firing"
    assert run("list") == run()


def test_status_and_queues_show_equal_dead_letter_counts(
    queue: FakeSqs,
    admin: Connection,
    database: Database,
    maintenance_database: Database,
    make_tenant: Callable[..., UUID],
) -> None:
    tenants = [make_tenant(slug) for slug in ("acme", "beta")]
    for tenant in tenants:
        for status in ("pending", "pending", "ignored", "resolved"):
            job_id = dead_letter_factory(database, tenant)(worker="tasks")
            admin.execute("UPDATE dead_letter SET status = %s WHERE job_id = %s", [status, job_id])
    admin.execute("UPDATE dead_letter SET purged_at = now() WHERE status = 'ignored'")
    dead_letter_factory(database, tenants[0])(worker="ingestion")
    with maintenance_connection(maintenance_database) as connection:
        record_depths(connection, ["tasks"], {}, datetime.now(UTC))
    outputs = {"TasksQueueUrl": "q/counterfoil-tasks", "TasksDeadLetterQueueUrl": "q/counterfoil-tasks-dlq"}
    queue.depths["q/counterfoil-tasks-dlq"] = 7
    cloud: Any = SimpleNamespace(client=lambda _service: queue, database=database, outputs=outputs)

    (shown,) = json.loads(run("--json"))["queues"]
    counted = commands._queue_counts(cloud)["counterfoil-tasks"]

    assert (shown["dead_letters"], counted["dead_letters"], counted["in_dlq"]) == (4, 4, 7)


def test_queue_counts_are_limited_to_visible_tenants(
    admin: Connection, make_tenant: Callable[..., UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    acme, beta = make_tenant("acme"), make_tenant("beta")
    make_task(admin, acme, status="in-progress")
    for _ in range(2):
        make_task(admin, beta, status="in-progress")

    def working(*words: object) -> str:
        return " ".join(run(*words).splitlines()[1].split()[2:4])

    assert working() == "3 of"
    assert working("--tenant", "beta") == "2 ?"
    connect_commands(monkeypatch, "[viewer tenant:acme]")
    assert working() == "1 ?"
    connect_commands(monkeypatch, "[viewer tenant:acme tenant:beta]")
    with pytest.raises(UsageError, match="tenant is required"):
        run()
    assert working("list", "--tenant", "beta") == "2 ?"
    assert json.loads(run("--tenant", "acme", "--json"))["tenant"] == "acme"


def test_list_and_default_print_the_same_json() -> None:
    output = json.loads(run("--json"))
    assert output == json.loads(run("list", "--json"))
    assert (output["tenant"], [queue["worker"] for queue in output["queues"]]) == (None, ["tasks"])


def test_missing_watchdog_run_is_reported() -> None:
    output = run()
    assert "The watchdog has not run in the last hour" in output
    assert output.splitlines()[1].split()[5:7] == ["?", "?"]


def test_queue_is_paused_and_resumed_with_reason(lambda_: FakeLambda, admin: Connection) -> None:
    assert run("pause", "tasks", *REASON) == "The tasks queue was paused.\n"
    lambda_.settle()
    assert lambda_.states[MAPPING] == "Disabled"
    shown = run()
    assert "tasks (paused)" in shown
    assert "by kim: The model is being exchanged" in shown
    assert run("pause", "tasks", *REASON) == "The tasks queue was already paused.\n"
    output = json.loads(run("resume", "tasks", *REASON, "--json"))
    assert output == {"worker": "tasks", "is_paused": False, "paused": None, "is_applied": True, "version": 2}
    lambda_.settle()
    assert lambda_.states[MAPPING] == "Enabled"
    assert admin.execute("SELECT actor, action FROM audit_entry ORDER BY number").fetchall() == [
        ("kim", "queue-paused"),
        ("kim", "queue-resumed"),
    ]


def test_unapplied_pause_is_reported(lambda_: FakeLambda) -> None:
    lambda_.states[MAPPING] = "Updating"
    assert "retries it within a minute" in run("pause", "tasks", *REASON)
    assert "The change has not been applied to Lambda yet." in run()


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_invalid_pause_or_resume_changes_nothing(command: str, lambda_: FakeLambda, admin: Connection) -> None:
    with pytest.raises(UsageError, match="--reason"):
        run(command, "tasks", "--by", "kim")
    with pytest.raises(UsageError, match=r"There is no queue 'task'\. Valid names: tasks"):
        run(command, "task", *REASON)
    assert lambda_.calls == []
    assert admin.execute("SELECT count(*) FROM queue_pause").fetchone() == (0,)


@pytest.mark.parametrize("tenants", ["tenant:acme", "tenant:acme tenant:beta"])
@pytest.mark.parametrize("command", ["pause", "resume"])
def test_pause_and_resume_require_admin_of_all_tenants(
    command: str, tenants: str, lambda_: FakeLambda, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_commands(monkeypatch, f"[admin {tenants}]")
    with pytest.raises(ForbiddenError, match=r"requires the admin role for all tenants \(tenant:\*\)"):
        run(command, "tasks", "--reason", "It is broken")
    assert lambda_.calls == []


def test_outdated_version_is_refused(lambda_: FakeLambda) -> None:
    with pytest.raises(UsageError, match="after you read its state"):
        run("pause", "tasks", *REASON, "--if-version", 3)
    assert lambda_.calls == []
