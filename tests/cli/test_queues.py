"""Queues are shown, paused and resumed on the command line."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.client import NotAllowedError
from cli.commands.queues import app
from cli.failures import UsageError
from cli.local import commands
from counterfoil import aws
from counterfoil.db import Connection, Database, keeper
from counterfoil.queues import add_up_minutes, record_depths
from counterfoil.settings import settings
from functions.admin_api.api import queues as routes
from tests.cli.reaching import let_them_ask
from tests.dead_letters.letters import dying
from tests.delivery.harness import FakeSqs
from tests.factories import make_task
from tests.functions.mappings import MAPPING, FakeLambda

QUEUES = {"tasks": {"urls": ["q/tasks"], "mappings": [str(MAPPING)], "gate": 24}}
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
    for known in (routes._depths, routes._alarms):
        known.cache_clear()


def run(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "140"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code
    return result.output


def test_every_queue_is_a_line_with_what_is_in_it_and_what_was_done(
    queue: FakeSqs, admin: Connection, keeper_database: Database, make_tenant: Callable[..., UUID]
) -> None:
    acme = make_tenant("acme")
    make_task(admin, acme)
    make_task(admin, acme, status="in-progress")
    queue.depths["q/tasks"] = 4
    admin.execute(
        """INSERT INTO work_ended
           SELECT 'tasks', %s, 'succeeded', now() - interval '2 minutes' FROM generate_series(1, 3)""",
        [acme],
    )
    with keeper(keeper_database) as connection:
        add_up_minutes(connection, datetime.now(UTC))
        record_depths(connection, ["tasks"], {}, datetime.now(UTC))

    lines = run().splitlines()

    assert lines[0].split() == [
        "worker",
        "messages",
        "working",
        "waiting",
        "oldest",
        "dead",
        "last",
        "hour",
        "done",
        "failed",
    ]
    assert lines[1].split() == ["tasks", "12", "1", "of", "24", "1", "0", "█", "3", "0"]
    assert lines[2] == "The alarm breaker-open is firing"
    assert run("list") == run()


def test_status_counts_dead_letters_as_queues_does(
    queue: FakeSqs, admin: Connection, database: Database, keeper_database: Database, make_tenant: Callable[..., UUID]
) -> None:
    tenants = [make_tenant(slug) for slug in ("acme", "beta")]
    for tenant in tenants:
        for status in ("pending", "pending", "ignored", "resolved"):
            job_id = dying(database, tenant)(worker="tasks")
            admin.execute("UPDATE dead_letter SET status = %s WHERE job_id = %s", [status, job_id])
    admin.execute("UPDATE dead_letter SET purged_at = now() WHERE status = 'ignored'")
    dying(database, tenants[0])(worker="ingestion")
    with keeper(keeper_database) as connection:
        record_depths(connection, ["tasks"], {}, datetime.now(UTC))
    outputs = {"TasksQueueUrl": "q/counterfoil-tasks", "TasksDeadLetterQueueUrl": "q/counterfoil-tasks-dlq"}
    queue.depths["q/counterfoil-tasks-dlq"] = 7
    cloud: Any = SimpleNamespace(client=lambda _service: queue, database=database, outputs=outputs)

    (shown,) = json.loads(run("--json"))["queues"]
    counted = commands._queues(cloud)["counterfoil-tasks"]

    assert (shown["dead"], counted["dead_letters"], counted["in_dlq"]) == (4, 4, 7)


def test_a_tenants_own_work_is_shown_to_who_may_look_at_it(
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
    let_them_ask(monkeypatch, "[viewer tenant:acme]")
    assert working() == "1 ?"
    let_them_ask(monkeypatch, "[viewer tenant:acme tenant:beta]")
    with pytest.raises(UsageError, match="tenant is required"):
        run()
    assert working("list", "--tenant", "beta") == "2 ?"
    assert json.loads(run("--tenant", "acme", "--json"))["tenant"] == "acme"


def test_the_json_is_that_of_the_api() -> None:
    told = json.loads(run("--json"))
    assert told == json.loads(run("list", "--json"))
    assert (told["tenant"], [queue["worker"] for queue in told["queues"]]) == (None, ["tasks"])


def test_who_has_no_watchdog_is_told_so() -> None:
    told = run()
    assert "The watchdog has not run in the last hour" in told
    assert told.splitlines()[1].split()[5:7] == ["?", "?"]


def test_a_queue_is_paused_and_resumed_with_a_reason(lambda_: FakeLambda, admin: Connection) -> None:
    assert run("pause", "tasks", *REASON) == "The queue of tasks is paused.\n"
    lambda_.settle()
    assert lambda_.states[MAPPING] == "Disabled"
    shown = run()
    assert "tasks (paused)" in shown
    assert "by kim: The model is being exchanged" in shown
    assert run("pause", "tasks", *REASON) == "The queue of tasks is paused already.\n"
    told = json.loads(run("resume", "tasks", *REASON, "--json"))
    assert told == {"worker": "tasks", "is_paused": False, "paused": None, "in_effect": True, "version": 2}
    lambda_.settle()
    assert lambda_.states[MAPPING] == "Enabled"
    assert admin.execute("SELECT actor, action FROM audit_entry ORDER BY number").fetchall() == [
        ("kim", "queue-paused"),
        ("kim", "queue-resumed"),
    ]


def test_what_lambda_does_not_take_is_told(lambda_: FakeLambda) -> None:
    lambda_.states[MAPPING] = "Updating"
    assert "retried within a minute" in run("pause", "tasks", *REASON)
    assert "Lambda has not accepted it yet." in run()


@pytest.mark.parametrize("what", ["pause", "resume"])
def test_a_mistake_is_said_and_changes_nothing(what: str, lambda_: FakeLambda, admin: Connection) -> None:
    with pytest.raises(UsageError, match="--reason"):
        run(what, "tasks", "--by", "kim")
    with pytest.raises(UsageError, match=r"There is no queue 'task'\. The queues are tasks"):
        run(what, "task", *REASON)
    assert lambda_.calls == []
    assert admin.execute("SELECT count(*) FROM queue_pause").fetchone() == (0,)


@pytest.mark.parametrize("tenants", ["tenant:acme", "tenant:acme tenant:beta"])
@pytest.mark.parametrize("what", ["pause", "resume"])
def test_who_is_not_of_all_tenants_is_told_that_it_takes_that(
    what: str, tenants: str, lambda_: FakeLambda, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_them_ask(monkeypatch, f"[admin {tenants}]")
    with pytest.raises(NotAllowedError, match=r"requires the admin role for all tenants \(tenant:\*\)"):
        run(what, "tasks", "--reason", "It is broken")
    assert lambda_.calls == []


def test_a_queue_that_was_changed_since_it_was_seen_is_left_alone(lambda_: FakeLambda) -> None:
    with pytest.raises(UsageError, match="after you read its state"):
        run("pause", "tasks", *REASON, "--seen", 3)
    assert lambda_.calls == []
