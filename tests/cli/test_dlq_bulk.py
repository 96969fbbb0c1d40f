"""Bulk operations on the command line: dry runs, progress and control."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.commands.dlq import app
from cli.commands.operations import app as operations_app
from cli.failures import UsageError
from counterfoil.db import Connection, Database
from counterfoil.operations import store
from tests.dead_letters.bulk_harness import BulkHarness
from tests.dead_letters.dead_letter_factory import dead_letter_factory
from tests.delivery.harness import rows

CONFIRMED = ("--yes", "--by", "kim")


@pytest.fixture
def harness(
    make_tenant: Callable[..., UUID],
    api: None,
    database: Database,
    admin: Connection,
) -> BulkHarness:
    tenant = make_tenant("acme")
    return BulkHarness(
        database, admin, tenant, dead_letter_factory(database, tenant), now=datetime.now(UTC) + timedelta(hours=1)
    )


@pytest.fixture
def bulk_worker(harness: BulkHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a bulk worker step for each operation whenever a command sleeps."""

    def wait(_: float) -> None:
        for row in rows(harness.admin, "operation"):
            with harness.database.tenant(harness.tenant_id) as connection:
                operation = store.show(connection, UUID(row["id"]))
            harness.step(operation, batch_size=2)

    monkeypatch.setattr("cli.commands.dead_letter_changes.time.sleep", wait)


def run(*words: object, code: int = 0) -> str:
    command, *rest = map(str, words)
    called = (operations_app, rest) if command == "operations" else (app, [command, *rest])
    result = CliRunner().invoke(*called, env={"COLUMNS": "120"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


def operation_of(harness: BulkHarness) -> dict[str, Any]:
    (operation,) = rows(harness.admin, "operation")
    return operation


@pytest.mark.parametrize(
    ("command", "done"),
    [("bulk-retry", "retried"), ("bulk-resolve", "resolved"), ("bulk-ignore", "ignored")],
)
def test_dry_run_counts_the_selected_dead_letters(harness: BulkHarness, command: str, done: str):
    job_ids = harness.fail(12)
    output = run(command)
    assert output.splitlines()[0] == f"12 dead letters in acme would be {done}."
    assert str(job_ids[-1])[-8:] in output
    assert str(job_ids[0])[-8:] not in output
    assert rows(harness.admin, "operation") == []
    as_json = json.loads(run(command, "--json"))
    assert (as_json["count"], len(as_json["sample"])) == (12, 10)


def test_dry_run_reports_an_empty_selection(harness: BulkHarness):
    assert run("bulk-retry", "--type", "mail") == "0 dead letters in acme would be retried.\n"


@pytest.mark.usefixtures("bulk_worker")
def test_yes_option_runs_operation_to_completion(harness: BulkHarness):
    job_ids = harness.fail(5)
    output = run("bulk-retry", *CONFIRMED, "--reason", "It is back", "--rate", 500)
    assert "is done: 5 of 5 dead letters succeeded, 0 failed, 0 skipped." in output
    assert set(harness.statuses().values()) == {"retried"}
    assert len(harness.outbox_rows()) == len(job_ids)
    assert (operation_of(harness)["requested_by"], operation_of(harness)["note"]) == ("kim", "It is back")


@pytest.mark.usefixtures("bulk_worker")
def test_dead_letters_are_selected_by_id_suffix(harness: BulkHarness):
    first, _, third = harness.fail(3)
    run("bulk-resolve", str(first)[-8:], third, *CONFIRMED, "--reason", "By hand")
    assert harness.statuses()[first] == harness.statuses()[third] == "resolved"
    assert sorted(harness.statuses().values()) == ["pending", "resolved", "resolved"]


@pytest.mark.usefixtures("bulk_worker")
def test_ignoring_a_group_ignores_its_dead_letters(harness: BulkHarness):
    harness.fail(2)
    (group,) = json.loads(run("groups", "--json"))
    assert group["state"] == "open"
    run("bulk-ignore", "--group", group["fingerprint"][:8], *CONFIRMED, "--reason", "A trial")
    (group,) = json.loads(run("groups", "--json"))
    assert (group["state"], group["ignored"]) == ("ignored", 2)


@pytest.mark.usefixtures("bulk_worker")
def test_failed_items_fail_the_command(harness: BulkHarness):
    harness.fail(2)
    harness.admin.execute("UPDATE task SET status = 'succeeded'")
    output = run("bulk-retry", *CONFIRMED, code=1)
    assert "0 of 2 dead letters succeeded, 2 failed" in output
    shown = run("operations", "show", operation_of(harness)["id"][-8:])
    assert shown.count("The work item has succeeded. Resolve the dead letter.") == 2


def test_unsuccessful_canary_fails_the_command(harness: BulkHarness, monkeypatch: pytest.MonkeyPatch):
    harness.fail(3)

    def wait(_: float) -> None:
        with harness.database.tenant(harness.tenant_id) as connection:
            (operation,) = store.page(connection, harness.tenant_id, limit=1)
        harness.run(operation)
        harness.admin.execute("UPDATE task SET attempts = 1 WHERE status = 'pending'")
        harness.now += timedelta(minutes=30)

    monkeypatch.setattr("cli.commands.dead_letter_changes.time.sleep", wait)
    output = run("bulk-retry", *CONFIRMED, "--canary", 1, code=1)
    assert "is paused: 1 of 3 dead letters succeeded" in output
    message = "The first retry did not succeed within 45 minutes of attempts. Check the cause. Resume the operation"
    assert message in " ".join(output.split())


def test_no_wait_option_returns_immediately(harness: BulkHarness):
    harness.fail(2)
    output = run("bulk-retry", *CONFIRMED, "--no-wait", "--canary", 1)
    assert "is canary: 0 of 2 dead letters succeeded" in output
    assert operation_of(harness)["canary"] == 1


def test_operation_is_listed_paused_resumed_and_canceled(harness: BulkHarness):
    harness.fail(3)
    run("bulk-retry", *CONFIRMED, "--no-wait", "--reason", "It is back", "--type", "echo")
    id_ = operation_of(harness)["id"]
    for listed in (run("operations"), run("operations", "list")):
        assert [id_[-8:], "retry", "running", "3", "0", "0", "kim"] == [
            word for word in listed.splitlines()[1].split() if "-" not in word and ":" not in word
        ]
    shown = run("operations", "show", id_)
    assert "It is back" in shown
    assert "task_type echo" in shown
    assert "is paused" in run("operations", "pause", id_, "--by", "ann")
    with pytest.raises(UsageError, match="The operation is paused"):
        run("operations", "pause", id_)
    assert json.loads(run("operations", "resume", id_, "--json"))["state"] == "running"
    assert json.loads(run("operations", "rate", id_, "7", "--json"))["rate"] == 7
    canceled = json.loads(run("operations", "cancel", id_, "--json"))
    assert (canceled["state"], canceled["remaining"], canceled["ended_at"] is not None) == ("canceled", 3, True)
    output = json.loads(run("operations", "show", id_, "--json"))
    assert [item["result"] for item in output["items"]] == [None] * 3
    audit = json.loads(run("audit", "--json"))
    assert [(entry["action"], entry["actor"]) for entry in audit][::-1][:2] == [
        ("bulk-retry", "kim"),
        ("bulk-pause", "ann"),
    ]


def test_operations_table_fits_eighty_columns(harness: BulkHarness):
    run("bulk-retry", *CONFIRMED, "--no-wait")
    harness.admin.execute(
        "UPDATE operation SET selected = 1000000, processed = 999999, succeeded = 999990, failed = 4, skipped = 5"
    )
    result = CliRunner().invoke(operations_app, [], env={"COLUMNS": "80"})
    assert max(map(len, map(str.rstrip, result.stdout.splitlines()))) <= 80
    assert "1,000,000" in result.stdout
    assert "…" not in result.stdout


def test_empty_list_prints_a_sentence(harness: BulkHarness):
    assert run("operations") == "There are no operations.\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("bulk-resolve", *CONFIRMED), "--reason is required"),
        (("bulk-retry", "0000ffff"), "No dead letter id ends with"),
        (("bulk-retry", "0000ffff", "--type", "echo"), "either dead letter ids or filter options"),
        (("bulk-retry", "--group", "0000ffff"), "No group fingerprint"),
        (("bulk-retry", "--tenant", "missing"), "There is no such tenant"),
        (("bulk-retry", "--tenant", "-"), "one at a time"),
        (("purge", "--before", "2026-03-03", "--status", "ignored", "--tenant", "-"), "unassigned"),
        (("export", "dead-letters.csv", "--tenant", "-"), "unassigned"),
        (("operations", "pause", "0000ffff"), "No operation id ends with '0000ffff'"),
        (("operations", "--limit", "3", "show", "0000ffff"), "--limit"),
    ],
)
def test_invalid_command_starts_no_operation(harness: BulkHarness, words: tuple[str, ...], message: str):
    with pytest.raises(UsageError, match=message):
        run(*words)
    assert rows(harness.admin, "operation") == []
