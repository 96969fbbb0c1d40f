"""`counterfoil console` creates a console user in the local cloud."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cli.local import console
from cli.local.cloud import Cloud
from cli.local.tenants import Tenant

URL = "http://127.0.0.1:4566/_aws/execute-api/abc/$default/console"


class UserExistsError(Exception):
    """The Cognito client's `UsernameExistsException`."""


@dataclass
class People:
    """A fake local cloud with a user pool."""

    outputs: dict[str, str] = field(default_factory=lambda: {"UserPoolId": "pool"})
    console_url: str = URL
    passwords: dict[str, str | None] = field(default_factory=dict)
    groups: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set, {"admin": set(), "viewer": set()}))
    exceptions: Any = field(default_factory=lambda: SimpleNamespace(UsernameExistsException=UserExistsError))

    def client(self, _service: str) -> "People":
        return self

    def admin_create_user(self, *, Username: str, MessageAction: str, **_rest: Any) -> None:  # noqa: N803
        assert MessageAction == "SUPPRESS"
        if Username in self.passwords:
            raise UserExistsError
        self.passwords[Username] = None

    def admin_set_user_password(self, *, Username: str, Password: str, **_rest: Any) -> None:  # noqa: N803
        assert Username in self.passwords
        self.passwords[Username] = Password

    def list_groups(self, **_rest: Any) -> dict[str, Any]:
        return {"Groups": [{"GroupName": name} for name in self.groups]}

    def create_group(self, *, GroupName: str, **_rest: Any) -> None:  # noqa: N803
        assert GroupName not in self.groups
        self.groups[GroupName] = set()

    def admin_add_user_to_group(self, *, Username: str, GroupName: str, **_rest: Any) -> None:  # noqa: N803
        assert GroupName in self.groups
        self.groups[GroupName].add(Username)


@pytest.fixture
def people(monkeypatch: pytest.MonkeyPatch) -> People:
    made = People()
    monkeypatch.setattr(Cloud, "at", lambda _: made)
    monkeypatch.setattr(console, "select_tenants", lambda _cloud, slug: [Tenant(None, slug)])  # type: ignore[arg-type]
    return made


def call(*arguments: str) -> str:
    app = typer.Typer()
    app.command()(console.console)
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


def test_default_user_is_admin_of_every_tenant(people: People):
    user = json.loads(call("--json"))

    assert user == {"url": URL, "email": "admin@counterfoil.example", "password": people.passwords[user["email"]]}
    assert people.groups["admin"] == people.groups["tenant:*"] == {user["email"]}


def test_viewer_of_one_tenant_is_a_separate_user(people: People):
    call()
    user = json.loads(call("--role", "viewer", "--tenant", "acme", "--json"))

    assert {name for name, members in people.groups.items() if user["email"] in members} == {"viewer", "tenant:acme"}


def test_second_call_resets_the_users_password(people: People):
    first, second = (json.loads(call("--json")) for _ in range(2))

    assert first["email"] == second["email"]
    assert first["password"] != second["password"] == people.passwords[second["email"]]


def test_output_shows_url_and_email(people: People):
    shown = call()

    assert URL in shown
    assert "admin@counterfoil.example" in shown


def test_browser_opens_only_with_the_open_option(people: People, monkeypatch: pytest.MonkeyPatch):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)

    call()
    assert opened == []
    call("--open")
    assert opened == [URL]
