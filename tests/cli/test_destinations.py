"""Commands add and remove destinations, and rotate their secrets."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.commands.tenants import app
from cli.failures import UsageError
from counterfoil.db import Connection
from counterfoil.settings import settings
from tests.dead_letters.audit_trail import verified_changes
from tests.delivery.harness import rows

URL = "https://hooks.example.com/results"


@pytest.fixture
def cloud(api: None, make_tenant: Callable[..., UUID], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tenants. The webhook allowlist contains receivers on this machine."""
    make_tenant("acme")
    make_tenant("zenith")
    monkeypatch.setenv("WEBHOOK_ALLOWLIST", '["127.0.0.0/8"]')
    settings.cache_clear()


def run(*words: str) -> str:
    """Run a command, and return its output."""
    result = CliRunner().invoke(app, ["destinations", *words])
    if result.exception is not None:
        raise result.exception
    return result.output


def call(*words: str) -> Any:
    """Run a command with --json, and return its output."""
    return json.loads(run(*words, "--json"))


@pytest.mark.usefixtures("cloud")
def test_webhook_secret_is_shown_only_when_added(admin: Connection):
    added = call("add-webhook", "acme", "office", URL)
    assert (added["name"], added["kind"], added["address"]) == ("office", "webhook", URL)
    assert added["events"] == ["cluster", "document"]
    assert added["secret"].startswith("whsec_")
    assert len(added["secret"]) >= 40
    assert [row["secret"] for row in rows(admin, "destination_secret")] == [added["secret"]]
    assert "secret" not in json.dumps(call("list", "acme"))
    assert call("list", "zenith") == []


def test_destination_changes_are_audited(cloud: None, admin: Connection):
    call("add-webhook", "acme", "office", URL, "--by", "ann")
    call("rotate-secret", "acme", "office", "--by", "ann")
    run("remove", "acme", "office", "--by", "bob")
    ((tenant_id, id_),) = admin.execute("SELECT tenant_id, id FROM destination").fetchall()

    assert verified_changes(admin, tenant_id) == [
        ("ann", "destination added", [str(id_)]),
        ("ann", "webhook secret rotated", [str(id_)]),
        ("bob", "destination removed", [str(id_)]),
    ]


@pytest.mark.usefixtures("cloud")
def test_narrow_terminal_shows_the_whole_secret():
    result = CliRunner().invoke(app, ["destinations", "add-webhook", "acme", "office", URL], env={"COLUMNS": "20"})
    (secret,) = [line for line in result.output.splitlines() if line.startswith("whsec_")]
    assert len(secret) == len("whsec_") + 43
    listed = CliRunner().invoke(app, ["destinations", "list", "acme"], env={"COLUMNS": "120"}).output
    assert URL in listed
    assert secret not in listed


@pytest.mark.usefixtures("cloud")
def test_an_export_is_added_without_a_secret():
    assert call("add-s3", "acme", "erp", "erp/in", "--event", "cluster") == {
        "name": "erp",
        "kind": "s3",
        "address": "erp/in",
        "events": ["cluster"],
        "secret": None,
    }


@pytest.mark.usefixtures("cloud")
def test_offers_event_requires_explicit_subscription():
    assert call("add-s3", "acme", "erp", "erp/in")["events"] == ["cluster", "document"]
    assert call("add-s3", "acme", "app", "app/in", "--event", "offers")["events"] == ["offers"]


@pytest.mark.usefixtures("cloud")
def test_rotation_sets_expiry_of_the_previous_secret(admin: Connection):
    first = call("add-webhook", "acme", "office", URL)["secret"]
    second = call("rotate-secret", "acme", "office")["secret"]
    without_expiry = {row["secret"]: row["expires_at"] is None for row in rows(admin, "destination_secret")}
    assert without_expiry == {first: False, second: True}


@pytest.mark.usefixtures("cloud")
def test_removed_destinations_name_is_reusable(admin: Connection):
    call("add-webhook", "acme", "office", URL)
    assert run("remove", "acme", "office") == "Destination 'office' was removed.\n"
    assert call("list", "acme") == []
    assert rows(admin, "destination_secret") == []
    call("add-s3", "acme", "office", "out")
    assert [destination["kind"] for destination in call("list", "acme")] == ["s3"]
    assert len(rows(admin, "destination")) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("add-webhook", "acme", "office", "http://hooks.example.com/"), "only https is"),
        (("add-webhook", "acme", "office", "https://169.254.169.254/"), "no public address"),
        (("add-webhook", "acme", "office", "nonsense"), "must begin with https"),
        (("add-webhook", "acme", "Office 1", URL), "body is invalid at name"),
        (("add-s3", "acme", "erp", "../other"), "cannot be a prefix"),
        (("add-s3", "acme", "erp", "/erp"), "cannot be a prefix"),
        (("add-s3", "acme", "erp", "erp/"), "cannot be a prefix"),
        (("add-s3", "acme", "erp", ""), "cannot be a prefix"),
        (("add-s3", "acme", "erp", "a" * 201), "cannot be a prefix"),
        (
            ("add-s3", "acme", "erp", "in", "--event", "invoice"),
            "events",
        ),
        (("remove", "acme", "office"), "There is no destination 'office'"),
        (("rotate-secret", "acme", "office"), "There is no webhook 'office'"),
    ],
)
def test_invalid_destination_is_refused(words: tuple[str, ...], message: str, cloud: None, admin: Connection):
    with pytest.raises(UsageError, match=message):
        run(*words)
    assert rows(admin, "destination") == []


@pytest.mark.usefixtures("cloud")
def test_destination_name_must_be_unique():
    call("add-webhook", "acme", "office", URL)
    with pytest.raises(UsageError, match="'office' exists"):
        call("add-s3", "acme", "office", "out")


@pytest.mark.usefixtures("cloud")
def test_export_prefix_must_be_unique():
    call("add-s3", "acme", "erp", "out")
    with pytest.raises(UsageError, match="'erp' exports to 'out'"):
        call("add-s3", "acme", "archive", "out")
    run("remove", "acme", "erp")
    call("add-s3", "acme", "archive", "out")


@pytest.mark.usefixtures("cloud")
def test_rotating_an_export_is_refused():
    call("add-s3", "acme", "erp", "in")
    with pytest.raises(UsageError, match="There is no webhook 'erp'"):
        call("rotate-secret", "acme", "erp")


@pytest.mark.usefixtures("cloud")
def test_unknown_tenant_is_refused():
    with pytest.raises(UsageError, match="There is no such tenant"):
        call("add-webhook", "missing", "office", URL)


@pytest.mark.usefixtures("cloud")
def test_allowlisted_receiver_can_be_added():
    call("add-webhook", "acme", "here", "http://127.0.0.1:8099/")
    assert [destination["address"] for destination in call("list", "acme")] == ["http://127.0.0.1:8099/"]
