"""Many dead letters are tried again or settled on the command line, dry unless it is said; operations are steered."""

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
from tests.dead_letters.bulking import Yard
from tests.dead_letters.letters import dying
from tests.delivery.harness import rows

DO_IT = ("--yes", "--by", "kim")


@pytest.fixture
def yard(
    make_tenant: Callable[..., UUID],
    api: None,  # what commands ask
    database: Database,
    admin: Connection,
) -> Yard:
    tenant = make_tenant("acme")
    return Yard(database, admin, tenant, dying(database, tenant), now=datetime.now(UTC) + timedelta(hours=1))


@pytest.fixture
def working(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker takes a step whenever somebody waits."""

    def wait(_: float) -> None:
        for row in rows(yard.admin, "operation"):
            with yard.database.tenant(yard.tenant_id) as connection:
                operation = store.show(connection, UUID(row["id"]))
            yard.step(operation, at_once=2)

    monkeypatch.setattr("cli.commands.dead_letter_changes.time.sleep", wait)


def run(*words: object, code: int = 0) -> str:
    command, *rest = map(str, words)
    called = (operations_app, rest) if command == "operations" else (app, [command, *rest])
    result = CliRunner().invoke(*called, env={"COLUMNS": "120"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.stdout


def operation_of(yard: Yard) -> dict[str, Any]:
    (found,) = rows(yard.admin, "operation")
    return found


@pytest.mark.parametrize(
    ("command", "done"),
    [("bulk-retry", "retried"), ("bulk-resolve", "resolved"), ("bulk-ignore", "ignored")],
)
def test_without_yes_it_is_only_said_how_many_letters_are_meant(yard: Yard, command: str, done: str):
    letters = yard.fail(12)
    told = run(command)
    assert told.splitlines()[0] == f"12 dead letters of acme would be {done}."
    assert str(letters[-1])[-8:] in told
    assert str(letters[0])[-8:] not in told
    assert rows(yard.admin, "operation") == []
    as_json = json.loads(run(command, "--json"))
    assert (as_json["count"], len(as_json["sample"])) == (12, 10)


def test_nothing_that_is_meant_is_said_too(yard: Yard):
    assert run("bulk-retry", "--type", "mail") == "0 dead letters of acme would be retried.\n"


@pytest.mark.usefixtures("working")
def test_with_yes_it_is_done_and_waited_for(yard: Yard):
    letters = yard.fail(5)
    told = run("bulk-retry", *DO_IT, "--reason", "It is back", "--rate", 500)
    assert "is done: 5 of 5 letters done, 0 failed, 0 skipped." in told
    assert set(yard.statuses().values()) == {"retried"}
    assert len(yard.owed()) == len(letters)
    assert (operation_of(yard)["requested_by"], operation_of(yard)["note"]) == ("kim", "It is back")


@pytest.mark.usefixtures("working")
def test_letters_are_named_by_the_ends_of_their_ids(yard: Yard):
    first, _, third = yard.fail(3)
    run("bulk-resolve", str(first)[-8:], third, *DO_IT, "--reason", "By hand")
    assert yard.statuses()[first] == yard.statuses()[third] == "resolved"
    assert sorted(yard.statuses().values()) == ["pending", "resolved", "resolved"]


@pytest.mark.usefixtures("working")
def test_letters_of_a_group_are_ignored_with_it(yard: Yard):
    yard.fail(2)
    (group,) = json.loads(run("groups", "--json"))
    assert group["state"] == "open"
    run("bulk-ignore", "--group", group["fingerprint"][:8], *DO_IT, "--reason", "A trial")
    (group,) = json.loads(run("groups", "--json"))
    assert (group["state"], group["ignored"]) == ("ignored", 2)


@pytest.mark.usefixtures("working")
def test_what_could_not_be_done_is_told_and_fails_the_command(yard: Yard):
    yard.fail(2)
    yard.admin.execute("UPDATE task SET status = 'succeeded'")
    told = run("bulk-retry", *DO_IT, code=1)
    assert "0 of 2 letters done, 2 failed" in told
    shown = run("operations", "show", operation_of(yard)["id"][-8:])
    assert shown.count("The work has succeeded meanwhile: resolve the dead letter.") == 2


def test_a_canary_that_does_not_succeed_is_told_and_fails_the_command(yard: Yard, monkeypatch: pytest.MonkeyPatch):
    yard.fail(3)

    def wait(_: float) -> None:
        with yard.database.tenant(yard.tenant_id) as connection:
            (operation,) = store.page(connection, yard.tenant_id, limit=1)
        yard.run(operation)
        yard.admin.execute("UPDATE task SET attempts = 1 WHERE status = 'pending'")
        yard.now += timedelta(minutes=30)

    monkeypatch.setattr("cli.commands.dead_letter_changes.time.sleep", wait)
    told = run("bulk-retry", *DO_IT, "--canary", 1, code=1)
    assert "is paused: 1 of 3 letters done" in told
    said = (
        "The letter that was tried first did not succeed within 45 minutes of attempts. See why; resume the operation"
    )
    assert said in " ".join(told.split())


def test_nobody_need_wait(yard: Yard):
    yard.fail(2)
    told = run("bulk-retry", *DO_IT, "--no-wait", "--canary", 1)
    assert "is canary: 0 of 2 letters done" in told
    assert operation_of(yard)["canary"] == 1


def test_an_operation_is_listed_shown_paused_resumed_and_cancelled(yard: Yard):
    yard.fail(3)
    run("bulk-retry", *DO_IT, "--no-wait", "--reason", "It is back", "--type", "echo")
    id_ = operation_of(yard)["id"]
    for listed in (run("operations"), run("operations", "list")):
        assert [id_[-8:], "retry", "running", "3", "0", "0", "0", "50/s", "kim"] == [
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
    cancelled = json.loads(run("operations", "cancel", id_, "--json"))
    assert (cancelled["state"], cancelled["left"], cancelled["ended_at"] is not None) == ("cancelled", 3, True)
    told = json.loads(run("operations", "show", id_, "--json"))
    assert [item["result"] for item in told["items"]] == [None] * 3
    audit = json.loads(run("audit", "--json"))
    assert [(one["action"], one["actor"]) for one in audit][::-1][:2] == [("bulk-retry", "kim"), ("bulk-pause", "ann")]


def test_the_table_of_operations_fits_eighty_columns(yard: Yard):
    run("bulk-retry", *DO_IT, "--no-wait")
    yard.admin.execute(
        "UPDATE operation SET selected = 1000000, handled = 999999, done = 999990, failed = 4, skipped = 5"
    )
    result = CliRunner().invoke(operations_app, [], env={"COLUMNS": "80"})
    assert max(map(len, map(str.rstrip, result.stdout.splitlines()))) <= 100
    assert "1,000,000" in result.stdout


def test_there_may_be_none(yard: Yard):
    assert run("operations") == "There are no operations.\n"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("bulk-resolve", *DO_IT), "Give the reason with --reason"),
        (("bulk-retry", "0000ffff"), "There is no dead letter whose"),
        (("bulk-retry", "0000ffff", "--type", "echo"), "both at once"),
        (("bulk-retry", "--group", "0000ffff"), "no group"),
        (("bulk-retry", "--tenant", "nobody"), "There is no such tenant"),
        (("bulk-retry", "--tenant", "-"), "settled one by one"),
        (("purge", "--before", "2026-03-03", "--status", "ignored", "--tenant", "-"), "unassigned"),
        (("export", "letters.csv", "--tenant", "-"), "unassigned"),
        (("operations", "pause", "0000ffff"), "There is no operation whose id ends with '0000ffff'"),
        (("operations", "--limit", "3", "show", "0000ffff"), "--limit"),
    ],
)
def test_what_cannot_be_is_said(yard: Yard, words: tuple[str, ...], says: str):
    with pytest.raises(UsageError, match=says):
        run(*words)
    assert rows(yard.admin, "operation") == []
