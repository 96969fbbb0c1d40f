"""Closed dead letters are purged after confirmation, and restored."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
import typer
from typer.testing import CliRunner

from cli.commands.operations import app as operations
from cli.failures import UsageError
from counterfoil.db import Connection, Database
from counterfoil.operations import engine
from tests.cli.test_dlq_changes import run
from tests.dead_letters.dead_letter_factory import dead_letter_factory
from tests.delivery.harness import rows

FILTER = ("--before", "2026-03-03", "--status", "resolved", "--status", "ignored", "--by", "kim")


@pytest.fixture
def dead_letters(
    make_tenant: Callable[..., UUID],
    api: None,
    database: Database,
    admin: Connection,
) -> None:
    """A resolved, an ignored, a retried and a pending dead letter of the only tenant."""
    make_dead_letter = dead_letter_factory(database, make_tenant("acme"))
    for minute, status in enumerate(("resolved", "ignored", "retried", "pending")):
        admin.execute("UPDATE dead_letter SET status = %s WHERE job_id = %s", [status, make_dead_letter(minute=minute)])


def run_operations(*words: str) -> str:
    result = CliRunner().invoke(operations, words)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def visible_statuses(admin: Connection) -> list[str]:
    return sorted(row["status"] for row in rows(admin, "dead_letter") if row["purged_at"] is None)


ALL_STATUSES = ["ignored", "pending", "resolved", "retried"]


@pytest.mark.usefixtures("dead_letters")
def test_typed_slug_purges_closed_dead_letters(admin: Connection) -> None:
    output = run("purge", *FILTER, stdin="acme\n")

    assert "2 dead letters in acme would be hidden" in output
    assert "2 dead letters hidden" in output
    assert visible_statuses(admin) == ["pending", "retried"]
    assert [entry["actor"] for entry in rows(admin, "audit_entry")] == ["kim"]


@pytest.mark.usefixtures("dead_letters")
@pytest.mark.parametrize("confirmation", [{"stdin": "Acme\n"}, {"words": ("--confirm", "other")}])
def test_incorrect_confirmation_purges_nothing(confirmation: dict[str, Any], admin: Connection) -> None:
    with pytest.raises(UsageError, match="Nothing was purged"):
        run("purge", *FILTER, *confirmation.get("words", ()), stdin=confirmation.get("stdin"))
    assert visible_statuses(admin) == ALL_STATUSES
    assert rows(admin, "operation") == []


@pytest.mark.usefixtures("dead_letters")
def test_purge_is_refused_when_the_count_changed(monkeypatch: pytest.MonkeyPatch, admin: Connection) -> None:
    def slowly(*_: object, **__: object) -> str:
        admin.execute("UPDATE dead_letter SET status = 'resolved' WHERE status = 'pending'")
        return "acme"

    monkeypatch.setattr(typer, "prompt", slowly)

    with pytest.raises(
        UsageError, match="Nothing was purged: the number of dead letters has changed since the preview, from 2 to 3"
    ):
        run("purge", *FILTER)
    assert rows(admin, "operation") == []


@pytest.mark.usefixtures("dead_letters")
def test_confirm_option_purges_without_a_prompt(admin: Connection) -> None:
    output = json.loads(run("purge", *FILTER, "--confirm", "acme", "--json"))

    assert (output["tenant"], output["succeeded"], output["state"]) == ("acme", 2, "done")
    (listed,) = json.loads(run_operations("--json"))
    assert listed == output


@pytest.mark.usefixtures("dead_letters")
def test_dry_run_counts_without_a_prompt(admin: Connection) -> None:
    assert run("purge", *FILTER, "--dry-run") == "2 dead letters in acme would be hidden.\n"
    assert json.loads(run("purge", *FILTER, "--dry-run", "--json"))["count"] == 2
    assert visible_statuses(admin) == ALL_STATUSES


@pytest.mark.usefixtures("dead_letters")
@pytest.mark.parametrize("status", ["pending", "gone"])
def test_only_closed_dead_letters_are_purged(status: str) -> None:
    with pytest.raises(UsageError, match=r"cannot be purged\. Valid states:"):
        run("purge", "--before", "2026-03-03", "--status", status)


@pytest.mark.usefixtures("dead_letters")
def test_purge_is_undone_only_once(admin: Connection) -> None:
    purge_id = json.loads(run("purge", *FILTER, "--confirm", "acme", "--json"))["operation_id"]

    output = run_operations("restore", purge_id[-8:], "--by", "ann")

    assert "is done: 2 dead letters restored." in output
    assert visible_statuses(admin) == ALL_STATUSES
    assert [operation["action"] for operation in json.loads(run_operations("--json"))] == ["restore", "purge"]
    with pytest.raises(UsageError, match="already undone"):
        run_operations("restore", purge_id)


@pytest.mark.usefixtures("dead_letters")
def test_purge_cannot_be_undone_after_a_week(admin: Connection) -> None:
    purge_id = json.loads(run("purge", *FILTER, "--confirm", "acme", "--json"))["operation_id"]
    admin.execute("UPDATE operation SET requested_at = requested_at - interval '7 days'")
    with pytest.raises(UsageError, match="7 days"):
        run_operations("restore", purge_id)


@pytest.mark.usefixtures("dead_letters")
@pytest.mark.parametrize("id_suffix", ["", "abc", "no such id", "00000000"])
def test_unknown_purge_is_refused(id_suffix: str) -> None:
    with pytest.raises(UsageError, match="No operation id ends with"):
        run_operations("restore", id_suffix)


@pytest.mark.usefixtures("dead_letters")
def test_unfinished_purge_is_reported_as_running(monkeypatch: pytest.MonkeyPatch, admin: Connection) -> None:
    monkeypatch.setattr(engine, "run_step", lambda *_: None)
    assert "is running: 0 dead letters hidden" in run("purge", *FILTER, "--confirm", "acme")
    assert visible_statuses(admin) == ALL_STATUSES
