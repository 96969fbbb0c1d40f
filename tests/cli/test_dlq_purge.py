"""Settled dead letters are purged on the command line by who types the tenant's slug, and had back."""

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
from tests.dead_letters.letters import dying
from tests.delivery.harness import rows

WANTED = ("--before", "2026-03-03", "--status", "resolved", "--status", "ignored", "--by", "kim")


@pytest.fixture
def letters(
    make_tenant: Callable[..., UUID],
    api: None,  # what commands ask
    database: Database,
    admin: Connection,
) -> None:
    """Three settled letters of its only tenant, of which one was tried again, and one that waits."""
    die = dying(database, make_tenant("acme"))
    for minute, status in enumerate(("resolved", "ignored", "retried", "pending")):
        admin.execute("UPDATE dead_letter SET status = %s WHERE job_id = %s", [status, die(minute=minute)])


def of_operations(*words: str) -> str:
    result = CliRunner().invoke(operations, words)
    if result.exception is not None:
        raise result.exception
    return result.stdout


def in_sight(admin: Connection) -> list[str]:
    return sorted(letter["status"] for letter in rows(admin, "dead_letter") if letter["purged_at"] is None)


EVERYTHING = ["ignored", "pending", "resolved", "retried"]


@pytest.mark.usefixtures("letters")
def test_what_is_settled_goes_once_the_slug_is_typed(admin: Connection) -> None:
    told = run("purge", *WANTED, given="acme\n")

    assert "2 dead letters of acme would be hidden" in told
    assert "2 dead letters hidden" in told
    assert in_sight(admin) == ["pending", "retried"]
    assert [entry["actor"] for entry in rows(admin, "audit_entry")] == ["kim"]


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("how", [{"given": "Acme\n"}, {"words": ("--confirm", "other")}])
def test_another_word_purges_nothing(how: dict[str, Any], admin: Connection) -> None:
    with pytest.raises(UsageError, match="Nothing is purged"):
        run("purge", *WANTED, *how.get("words", ()), given=how.get("given"))
    assert in_sight(admin) == EVERYTHING
    assert rows(admin, "operation") == []


@pytest.mark.usefixtures("letters")
def test_what_is_settled_while_the_slug_is_typed_does_not_go(
    monkeypatch: pytest.MonkeyPatch, admin: Connection
) -> None:
    def slowly(*_: object, **__: object) -> str:
        admin.execute("UPDATE dead_letter SET status = 'resolved' WHERE status = 'pending'")
        return "acme"

    monkeypatch.setattr(typer, "prompt", slowly)

    with pytest.raises(
        UsageError, match="Nothing is purged: the number of letters that would go is 3 by now, and was 2"
    ):
        run("purge", *WANTED)
    assert rows(admin, "operation") == []


@pytest.mark.usefixtures("letters")
def test_a_script_confirms_and_reads_what_was_done(admin: Connection) -> None:
    told = json.loads(run("purge", *WANTED, "--confirm", "acme", "--json"))

    assert (told["tenant"], told["done"], told["state"]) == ("acme", 2, "done")
    (listed,) = json.loads(of_operations("--json"))
    assert listed == told


@pytest.mark.usefixtures("letters")
def test_a_dry_run_says_how_many_and_asks_nobody(admin: Connection) -> None:
    assert run("purge", *WANTED, "--dry-run") == "2 dead letters of acme would be hidden.\n"
    assert json.loads(run("purge", *WANTED, "--dry-run", "--json"))["count"] == 2
    assert in_sight(admin) == EVERYTHING


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("status", ["pending", "gone"])
def test_only_what_is_settled_is_purged(status: str) -> None:
    with pytest.raises(UsageError, match="cannot be purged: use one of"):
        run("purge", "--before", "2026-03-03", "--status", status)


@pytest.mark.usefixtures("letters")
def test_a_purge_is_undone_once(admin: Connection) -> None:
    purge_id = json.loads(run("purge", *WANTED, "--confirm", "acme", "--json"))["operation_id"]

    told = of_operations("restore", purge_id[-8:], "--by", "ann")

    assert "is done: 2 dead letters restored." in told
    assert in_sight(admin) == EVERYTHING
    assert [one["action"] for one in json.loads(of_operations("--json"))] == ["restore", "purge"]
    with pytest.raises(UsageError, match="undone already"):
        of_operations("restore", purge_id)


@pytest.mark.usefixtures("letters")
def test_after_a_week_a_purge_is_not_undone(admin: Connection) -> None:
    purge_id = json.loads(run("purge", *WANTED, "--confirm", "acme", "--json"))["operation_id"]
    admin.execute("UPDATE operation SET requested_at = requested_at - interval '7 days'")
    with pytest.raises(UsageError, match="7 days"):
        of_operations("restore", purge_id)


@pytest.mark.usefixtures("letters")
@pytest.mark.parametrize("end", ["", "abc", "no such id", "00000000"])
def test_a_purge_that_is_not_there_is_told(end: str) -> None:
    with pytest.raises(UsageError, match="no operation"):
        of_operations("restore", end)


@pytest.mark.usefixtures("letters")
def test_what_the_watchdog_is_at_is_left_to_it(monkeypatch: pytest.MonkeyPatch, admin: Connection) -> None:
    monkeypatch.setattr(engine, "step", lambda *_: None)
    assert "is running: 0 dead letters hidden" in run("purge", *WANTED, "--confirm", "acme")
    assert in_sight(admin) == EVERYTHING
