"""Somebody who may sign in to the console of the local cloud: made once, in the right groups."""

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


class TakenError(Exception):
    """As Cognito's client raises it."""


@dataclass
class People:
    """As much of a cloud, and of its user pool, as making people needs."""

    outputs: dict[str, str] = field(default_factory=lambda: {"UserPoolId": "pool"})
    console_url: str = URL
    passwords: dict[str, str | None] = field(default_factory=dict)
    groups: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set, {"admin": set(), "viewer": set()}))
    exceptions: Any = field(default_factory=lambda: SimpleNamespace(UsernameExistsException=TakenError))

    def client(self, _service: str) -> "People":
        return self

    def admin_create_user(self, *, Username: str, MessageAction: str, **_rest: Any) -> None:  # noqa: N803
        assert MessageAction == "SUPPRESS"
        if Username in self.passwords:
            raise TakenError
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
    monkeypatch.setattr(console, "chosen", lambda _cloud, slug: [Tenant(None, slug)])  # type: ignore[arg-type]
    return made


def call(*arguments: str) -> str:
    app = typer.Typer()
    app.command()(console.console)
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.output


def test_an_admin_of_every_tenant_may_sign_in_unless_somebody_else_is_asked_for(people: People):
    told = json.loads(call("--json"))

    assert told == {"url": URL, "email": "admin@counterfoil.example", "password": people.passwords[told["email"]]}
    assert people.groups["admin"] == people.groups["tenant:*"] == {told["email"]}


def test_a_viewer_of_one_tenant_is_another_person_and_sees_no_other(people: People):
    call()
    told = json.loads(call("--role", "viewer", "--tenant", "acme", "--json"))

    assert {name for name, members in people.groups.items() if told["email"] in members} == {"viewer", "tenant:acme"}


def test_whoever_is_asked_for_again_is_the_same_with_a_new_password(people: People):
    first, second = (json.loads(call("--json")) for _ in range(2))

    assert first["email"] == second["email"]
    assert first["password"] != second["password"] == people.passwords[second["email"]]


def test_people_are_shown_where_to_go_and_as_whom(people: People):
    shown = call()

    assert URL in shown
    assert "admin@counterfoil.example" in shown


def test_a_browser_is_opened_only_when_asked_for(people: People, monkeypatch: pytest.MonkeyPatch):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)

    call()
    assert opened == []
    call("--open")
    assert opened == [URL]
