"""Dead letters are retried, resolved, ignored and edited on the command line."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.commands import audit as trail
from cli.commands.dlq import app
from cli.failures import UsageError
from counterfoil.db import Connection, Database
from tests.cli.api_connection import connect_commands
from tests.dead_letters.dead_letter_factory import NOON, dead_letter_factory
from tests.delivery.harness import FakeSqs, rows
from tests.factories import make_task

REASON = ("--reason", "The cause is fixed", "--by", "kim")


@pytest.fixture
def job_id(
    make_tenant: Callable[..., UUID],
    api: None,
    database: Database,
    admin: Connection,
) -> UUID:
    """Id of the dead letter for the only tenant's failed task."""
    acme = make_tenant("acme")
    task = make_task(admin, acme, status="failed", attempts=6, failed_at=NOON, error="It failed")
    return dead_letter_factory(database, acme)(worker="tasks", task_type="echo", work_id=task)


def run(*words: object, application: Any = app, stdin: str | None = None, code: int = 0) -> str:
    result = CliRunner().invoke(application, [str(word) for word in words], input=stdin, env={"COLUMNS": "120"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code
    return result.output


def test_retry_closes_the_dead_letter_and_sends_message(job_id: UUID, queue: FakeSqs, admin: Connection) -> None:
    output = run("retry", str(job_id)[-8:], *REASON)

    assert output == f"Dead letter {str(job_id)[-8:]} was retried.\n"
    assert [json.loads(sent["MessageBody"])["revision"] for sent in queue.sent["counterfoil-tasks"]] == [2]
    assert [(row["status"], row["resolved_by"]) for row in rows(admin, "dead_letter")] == [("retried", "kim")]


def test_deleted_work_item_cannot_be_retried(job_id: UUID, queue: FakeSqs, admin: Connection) -> None:
    admin.execute("DELETE FROM task")
    with pytest.raises(UsageError, match="no longer exists"):
        run("retry", job_id, *REASON)
    assert not queue.sent


@pytest.mark.parametrize(("command", "status"), [("resolve", "resolved"), ("ignore", "ignored")])
def test_closing_requires_a_reason(command: str, status: str, job_id: UUID, admin: Connection) -> None:
    with pytest.raises(UsageError, match="--reason"):
        run(command, job_id, "--by", "kim")
    output = json.loads(run(command, job_id, *REASON, "--json"))
    assert output == {"tenant": "acme", "job_id": str(job_id), "status": status, "version": 2}
    assert [row["status"] for row in rows(admin, "dead_letter")] == [status]
    with pytest.raises(UsageError, match=f"already {status}"):
        run(command, job_id, *REASON)


def test_outdated_version_is_refused(job_id: UUID) -> None:
    with pytest.raises(UsageError, match="version 1"):
        run("resolve", job_id, *REASON, "--if-version", 2)
    run("resolve", job_id, *REASON, "--if-version", 1)


def test_payload_is_printed_edited_and_retried(job_id: UUID, admin: Connection) -> None:
    assert json.loads(run("edit", job_id)) == {"say": "hello"}
    assert "was edited" in run("edit", job_id, "-", *REASON, stdin='{"say": "bye"}')
    assert json.loads(run("edit", job_id)) == {"say": "bye"}
    run("retry", job_id, *REASON)
    assert [task["payload"] for task in rows(admin, "task")] == [{"say": "bye"}]
    with pytest.raises(UsageError, match="JSON object"):
        run("edit", job_id, "[]", *REASON)


def test_audit_trail_is_listed_and_verified(job_id: UUID) -> None:
    assert run("audit") == "There are no changes.\n"
    run("edit", job_id, '{"say": "bye"}', *REASON)
    run("ignore", job_id, *REASON)

    lines = [line.split() for line in run("audit").splitlines()]
    assert lines[0] == ["number", "time", "action", "dead", "letters", "user"]
    assert [(line[0], line[3], line[4], line[5]) for line in lines[1:]] == [
        ("2", "ignored", str(job_id)[-8:], "kim"),
        ("1", "edited", str(job_id)[-8:], "kim"),
    ]
    output = json.loads(run("audit", "--json"))
    assert [entry["number"] for entry in output] == [2, 1]
    assert [entry["actor"] for entry in output] == ["kim", "kim"]
    assert run("verify", application=trail.app) == "acme: intact, 2 entries\n-: intact, 0 entries\n"
    assert run("verify", "--tenant", "-", application=trail.app) == "-: intact, 0 entries\n"


def test_audit_lists_changes_to_one_dead_letter(job_id: UUID, database: Database, admin: Connection) -> None:
    (acme,) = (row["tenant_id"] for row in rows(admin, "dead_letter"))
    other = dead_letter_factory(database, acme)()
    run("ignore", job_id, *REASON)
    assert run("audit", other) == "There are no changes to this dead letter.\n"
    run("resolve", other, *REASON)

    for words in ((str(job_id)[-8:],), (job_id,), (job_id, "--tenant", "acme")):
        assert [entry["action"] for entry in json.loads(run("audit", *words, "--json"))] == ["ignored"]
    admin.execute("DELETE FROM dead_letter")
    with pytest.raises(UsageError, match="no such dead letter"):
        run("audit", job_id)
    assert "ignored" in run("audit", job_id, "--tenant", "acme")


def test_verify_detects_a_changed_entry(job_id: UUID, admin: Connection) -> None:
    run("ignore", job_id, *REASON)
    with admin.transaction():
        admin.execute("SET LOCAL session_replication_role = replica")
        admin.execute("UPDATE audit_entry SET actor = 'mallory'")
    assert "acme: broken at entry 1. The entry was changed." in run("verify", application=trail.app, code=1)
    output = json.loads(run("verify", "--json", "--tenant", "acme", application=trail.app, code=1))
    assert output == [{"tenant": "acme", "entries": 1, "broken": {"number": 1, "reason": "The entry was changed."}}]


def test_verify_reads_all_pages(job_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        run("edit", job_id, json.dumps({"say": str(number)}), *REASON)
    monkeypatch.setattr("cli.client.PAGE_SIZE", 2)
    assert run("verify", "--tenant", "acme", application=trail.app) == "acme: intact, 5 entries\n"


def test_verify_detects_missing_latest_entries(job_id: UUID, admin: Connection) -> None:
    run("edit", job_id, '{"say": "bye"}', *REASON)
    run("ignore", job_id, *REASON)
    with admin.transaction():
        admin.execute("SET LOCAL session_replication_role = replica")
        admin.execute("DELETE FROM audit_entry WHERE number = 2")
    output = run("verify", "--tenant", "acme", application=trail.app, code=1)
    assert output == "acme: broken at entry 2. The latest entries are missing.\n"


def test_tenant_viewer_verifies_only_own_audit_trail(job_id: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    run("ignore", job_id, *REASON)
    connect_commands(monkeypatch, "[viewer tenant:acme]")
    assert run("verify", application=trail.app) == "acme: intact, 1 entry\n"
    with pytest.raises(UsageError, match="viewer"):
        run("verify", "--tenant", "-", application=trail.app)
    connect_commands(monkeypatch, "[viewer tenant:gone]")
    with pytest.raises(UsageError, match="no audit trail to verify"):
        run("verify", application=trail.app)
