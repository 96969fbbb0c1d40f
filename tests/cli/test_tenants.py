"""Tenants are added, disabled and set up on the command line."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.commands.tenants import app
from cli.failures import UsageError
from counterfoil.db import Connection
from tests.dead_letters.audit_trail import verified_changes
from tests.delivery.harness import rows

pytestmark = pytest.mark.usefixtures("api")


def run(*words: str) -> str:
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    if result.exception is not None:
        raise result.exception
    return result.output


def call(*words: str) -> Any:
    return json.loads(run(*words, "--json"))


@pytest.fixture
def acme(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


def test_tenant_is_added_with_its_setup(admin: Connection) -> None:
    words = ("--name", "Acme GmbH", "--address", "in@acme.example", "--notify-email", "ann@acme.example")
    shown = run(
        *("add", "acme", *words, "--by", "kim"),
        *("--webhook", "erp=https://erp.example.com/hook?a=b", "--s3", "files=monthly/in"),
    )

    assert "Tenant 'acme' was added." in shown
    assert "Mail arrives at in@acme.example." in shown
    assert "Failures are reported to ann@acme.example." in shown
    assert "Results go to erp: https://erp.example.com/hook?a=b" in shown
    assert "Signing secret (shown only once): whsec_" in shown
    ((tenant, name, organization),) = admin.execute(
        "SELECT t.id, t.name, o.name FROM tenant t JOIN organization o ON o.id = organization_id"
    ).fetchall()
    assert (name, organization) == ("Acme GmbH", "Local")
    assert {actor for actor, _, _ in verified_changes(admin, tenant)} == {"kim"}
    again = call("add", "acme", *words, "--webhook", "erp=https://erp.example.com/hook?a=b")
    assert (again["is_new"], again["destinations"]) == (False, [])


@pytest.mark.parametrize("words", [("--webhook", "https://erp.example.com"), ("--s3", "files"), ("--s3", "=in")])
def test_destination_without_name_is_refused(words: tuple[str, ...], admin: Connection) -> None:
    with pytest.raises(UsageError, match="must be a name and a destination"):
        run("add", "acme", *words)
    assert rows(admin, "tenant") == []


def test_invalid_setup_adds_nothing(admin: Connection) -> None:
    with pytest.raises(UsageError, match="'nowhere' is not an email address"):
        run("add", "acme", "--address", "in@acme.example", "--notify-email", "nowhere")
    assert rows(admin, "tenant") == []


def test_list_shows_names_and_states(acme: UUID, make_tenant: Callable[..., UUID]) -> None:
    make_tenant("zenith")
    run("rename", "acme", "Acme AG")
    assert run("disable", "zenith") == "Tenant 'zenith' was disabled.\n"
    assert [line.split() for line in run("list").splitlines()] == [
        ["tenant", "name", "state"],
        ["acme", "Acme", "AG"],
        ["zenith", "zenith", "disabled"],
    ]
    run("enable", "zenith")
    assert [(tenant["slug"], tenant["disabled_at"]) for tenant in call("list")] == [("acme", None), ("zenith", None)]


def test_empty_list_shows_how_to_add_a_tenant() -> None:
    assert "To add one: counterfoil tenants add SLUG" in run("list")


@pytest.mark.parametrize("what", ["admins", "addresses"])
def test_addresses_are_added_and_removed(acme: UUID, what: str) -> None:
    assert f"counterfoil tenants {what} acme --add" in run(what, "acme")
    both = ("--add", "bob@acme.example", "--add", "Ann@acme.example")
    assert run(what, "acme", *both).split() == ["ann@acme.example", "bob@acme.example"]
    assert call(what, "acme", "--remove", "bob@acme.example") == call(what, "acme") == ["ann@acme.example"]
    with pytest.raises(UsageError, match="There is no such tenant"):
        run(what, "globex")


def test_tenant_erasure_requires_the_slug_as_confirmation(acme: UUID, admin: Connection) -> None:
    with pytest.raises(UsageError, match="Nothing was erased"):
        run("delete", "acme", "--confirm", "globex")
    assert "was requested. It starts within a minute." in run("delete", "acme", "--confirm", "acme")
    assert call("list") == []
