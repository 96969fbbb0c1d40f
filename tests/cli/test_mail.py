"""Mail on hold is listed, released and rejected on the command line."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from typer import Typer
from typer.testing import CliRunner

from cli.commands import tenants
from cli.commands.mail import app
from cli.failures import UsageError
from counterfoil.db import Connection
from tests.factories import make_held_mail


@pytest.fixture
def held_mail(make_tenant: Callable[..., UUID], api: None, admin: Connection) -> UUID:
    return make_held_mail(admin, make_tenant("acme"))


def run(*words: object, of: Typer = app) -> str:
    result = CliRunner().invoke(of, [str(word) for word in words], env={"COLUMNS": "220"})
    if result.exception is not None:
        raise result.exception
    return result.output


def call(*words: object, of: Typer = app) -> Any:
    return json.loads(run(*words, "--json", of=of))


def test_list_shows_sender_and_authentication_results(held_mail: UUID) -> None:
    heading, row = run("list").splitlines()

    assert heading.split() == ["id", "received", "sender", "SPF", "DKIM", "DMARC", "subject"]
    assert all(text in row for text in (str(held_mail), "buchhaltung@nordwind.example", "Ihre Rechnung 2026-17"))
    assert "fail  none  fail" in row
    assert [entry["id"] for entry in call("list")] == [str(held_mail)]


@pytest.mark.parametrize(("word", "hold"), [("release", "released"), ("reject", "rejected")])
def test_decision_ends_the_hold(held_mail: UUID, word: str, hold: str) -> None:
    done = call(word, held_mail, "--reason", "We called them.", "--by", "ann")

    assert done == {"id": str(held_mail), "tenant": "acme", "hold": hold}
    assert run("list") == "There is no held mail.\n"
    assert [entry["id"] for entry in call("list", "--hold", hold)] == [str(held_mail)]
    with pytest.raises(UsageError, match="no longer on hold"):
        run(word, held_mail, "--by", "ann")


def test_dmarc_policy_is_hold_by_default(make_tenant: Callable[..., UUID], api: None, admin: Connection) -> None:
    make_tenant("acme")
    make_tenant("zenith")

    assert call("dmarc", "acme", of=tenants.app) == {"tenant": "acme", "dmarc_policy": "hold"}
    changed = run("dmarc", "acme", "--policy", "reject", "--by", "ann", of=tenants.app)

    assert changed == "DMARC policy of tenant 'acme': reject\n"
    assert call("dmarc", "acme", of=tenants.app)["dmarc_policy"] == "reject"
    assert call("dmarc", "zenith", of=tenants.app)["dmarc_policy"] == "hold"
    assert admin.execute("SELECT action FROM audit_entry").fetchall() == [("dmarc policy changed",)]
