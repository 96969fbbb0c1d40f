"""People are invited, changed and removed on the command line."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.commands.people import app
from cli.failures import UsageError
from tests.functions.admin_api.user_pool import PEOPLE


@pytest.fixture(autouse=True)
def acme(api: None, make_tenant: Callable[..., UUID]) -> UUID:
    PEOPLE.users.clear()
    return make_tenant("acme")


def run(*words: str) -> str:
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    if result.exception is not None:
        raise result.exception
    return result.output


def call(*words: str) -> Any:
    return json.loads(run(*words, "--json"))


def test_person_is_invited_changed_and_removed() -> None:
    assert run("add", "ann@acme.example", "--tenant", "acme") == "ann@acme.example was invited as viewer.\n"
    changed = call("change", "ann@acme.example", "--role", "operator", "--edit-payloads")
    assert (changed["role"], changed["edits_payloads"], changed["tenants"]) == ("operator", True, ["acme"])
    assert run("disable", "ann@acme.example") == "ann@acme.example was disabled.\n"
    assert run("list", "--tenant", "acme").splitlines()[1].split() == [
        *("ann@acme.example", "operator", "(edits", "payloads)", "acme", "disabled"),
    ]
    assert not call("enable", "ann@acme.example")["is_disabled"]
    assert run("remove", "ann@acme.example") == "ann@acme.example was removed.\n"
    assert "To invite one: counterfoil people add" in run("list")


def test_invalid_person_command_is_refused() -> None:
    with pytest.raises(UsageError, match="No person has the address 'bob@"):
        run("remove", "bob@acme.example")
    with pytest.raises(UsageError, match="A tenant is required"):
        run("add", "bob@acme.example")
