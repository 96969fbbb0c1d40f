"""Where a tenant's results go is said on the command line, and a secret is shown once."""

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
from tests.dead_letters.trail import recorded
from tests.delivery.harness import rows

URL = "https://hooks.example.com/results"


@pytest.fixture
def cloud(api: None, make_tenant: Callable[..., UUID], monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tenants, and receivers on this machine."""
    make_tenant("acme")
    make_tenant("zenith")
    monkeypatch.setenv("WEBHOOK_ALLOWLIST", '["127.0.0.0/8"]')
    settings.cache_clear()


def call(*words: str) -> Any:
    """What a call with --json prints."""
    result = CliRunner().invoke(app, ["destinations", *words, "--json"])
    if result.exception is not None:
        raise result.exception
    return json.loads(result.output)


@pytest.mark.usefixtures("cloud")
def test_a_webhook_is_added_and_its_secret_shown_this_once(admin: Connection):
    added = call("acme", "--add-webhook", "office", URL)
    assert (added["name"], added["kind"], added["address"]) == ("office", "webhook", URL)
    assert added["events"] == ["cluster", "document"]
    assert added["secret"].startswith("whsec_")
    assert len(added["secret"]) >= 40
    assert [row["secret"] for row in rows(admin, "destination_secret")] == [added["secret"]]
    assert "secret" not in json.dumps(call("acme"))
    assert call("zenith") == []


def test_changes_of_destinations_reach_the_audit_trail(cloud: None, admin: Connection):
    call("acme", "--add-webhook", "office", URL, "--by", "ann")
    call("acme", "--rotate", "office", "--by", "ann")
    call("acme", "--remove", "office", "--by", "bob")
    ((tenant_id, id_),) = admin.execute("SELECT tenant_id, id FROM destination").fetchall()

    assert recorded(admin, tenant_id) == [
        ("ann", "destination added", [str(id_)]),
        ("ann", "webhook secret rotated", [str(id_)]),
        ("bob", "destination removed", [str(id_)]),
    ]


@pytest.mark.usefixtures("cloud")
def test_people_are_shown_the_secret_whole_however_narrow_their_terminal():
    said = CliRunner().invoke(app, ["destinations", "acme", "--add-webhook", "office", URL], env={"COLUMNS": "20"})
    (secret,) = [line for line in said.output.splitlines() if line.startswith("whsec_")]
    assert len(secret) == len("whsec_") + 43
    listed = CliRunner().invoke(app, ["destinations", "acme"], env={"COLUMNS": "120"}).output
    assert URL in listed
    assert secret not in listed


@pytest.mark.usefixtures("cloud")
def test_an_export_is_added_without_a_secret():
    assert call("acme", "--add-s3", "erp", "erp/in", "--event", "cluster") == {
        "name": "erp",
        "kind": "s3",
        "address": "erp/in",
        "events": ["cluster"],
        "secret": None,
    }


@pytest.mark.usefixtures("cloud")
def test_of_offers_those_are_told_who_ask():
    assert call("acme", "--add-s3", "erp", "erp/in")["events"] == ["cluster", "document"]
    assert call("acme", "--add-s3", "app", "app/in", "--event", "offers")["events"] == ["offers"]


@pytest.mark.usefixtures("cloud")
def test_a_secret_is_rotated_and_both_are_active(admin: Connection):
    first = call("acme", "--add-webhook", "office", URL)["secret"]
    second = call("acme", "--rotate", "office")["secret"]
    found = {row["secret"]: row["expires_at"] is None for row in rows(admin, "destination_secret")}
    assert found == {first: False, second: True}


@pytest.mark.usefixtures("cloud")
def test_a_destination_is_removed_and_its_name_is_free_again(admin: Connection):
    call("acme", "--add-webhook", "office", URL)
    assert call("acme", "--remove", "office") == []
    assert rows(admin, "destination_secret") == []
    call("acme", "--add-s3", "office", "out")
    assert [one["kind"] for one in call("acme")] == ["s3"]
    assert len(rows(admin, "destination")) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--add-webhook", "office", "http://hooks.example.com/"), "only https is"),
        (("--add-webhook", "office", "https://169.254.169.254/"), "no public address"),
        (("--add-webhook", "office", "nonsense"), "must begin with https"),
        (("--add-webhook", "Office 1", URL), "body is wrong at name"),
        (("--add-s3", "erp", "../other"), "cannot be a prefix"),
        (("--add-s3", "erp", "/erp"), "cannot be a prefix"),
        (("--add-s3", "erp", "erp/"), "cannot be a prefix"),
        (("--add-s3", "erp", ""), "cannot be a prefix"),
        (("--add-s3", "erp", "a" * 201), "cannot be a prefix"),
        (
            ("--add-s3", "erp", "in", "--event", "invoice"),
            "events",
        ),
        (("--remove", "office"), "There is no destination 'office'"),
        (("--rotate", "office"), "There is no webhook 'office'"),
        (("--remove", "office", "--rotate", "office"), "One change at a time"),
    ],
)
def test_invalid_destination_is_refused(words: tuple[str, ...], says: str, cloud: None, admin: Connection):
    with pytest.raises(UsageError, match=says):
        call("acme", *words)
    assert rows(admin, "destination") == []


@pytest.mark.usefixtures("cloud")
def test_a_name_is_taken_once():
    call("acme", "--add-webhook", "office", URL)
    with pytest.raises(UsageError, match="'office' exists"):
        call("acme", "--add-s3", "office", "out")


@pytest.mark.usefixtures("cloud")
def test_two_destinations_do_not_export_to_the_same_files():
    call("acme", "--add-s3", "erp", "out")
    with pytest.raises(UsageError, match="'erp' exports to 'out'"):
        call("acme", "--add-s3", "archive", "out")
    call("acme", "--remove", "erp")
    call("acme", "--add-s3", "archive", "out")


@pytest.mark.usefixtures("cloud")
def test_an_export_has_no_secret_to_rotate():
    call("acme", "--add-s3", "erp", "in")
    with pytest.raises(UsageError, match="There is no webhook 'erp'"):
        call("acme", "--rotate", "erp")


@pytest.mark.usefixtures("cloud")
def test_an_unknown_tenant_is_said_to_be_unknown():
    with pytest.raises(UsageError, match="There is no such tenant"):
        call("nobody", "--add-webhook", "office", URL)


@pytest.mark.usefixtures("cloud")
def test_a_receiver_of_this_machine_may_be_added():
    call("acme", "--add-webhook", "here", "http://127.0.0.1:8099/")
    assert [one["address"] for one in call("acme")] == ["http://127.0.0.1:8099/"]
