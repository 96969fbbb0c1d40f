"""Who hears of a tenant's failures, and which addresses are its, is said on the command line."""

import json
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli import tenants
from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.local.postgres import Server
from counterfoil.db import Connection, Database
from counterfoil.delivery.work import Send
from tests.dead_letters.trail import recorded


class CloudOf:
    """As much of a cloud as tenants need."""

    def __init__(self, server: Server, name: str, database: Database) -> None:
        self.database = database
        self.database_url = lambda user: server.url(name, user)
        self.sent: list[Send] = []

    def send(self, sends: Sequence[Send]) -> None:
        self.sent += sends


@pytest.fixture
def cloud(postgres: Server, migrated_database: str, database: Database, make_tenant: Callable[..., UUID]) -> Any:
    make_tenant("acme")
    make_tenant("zenith")
    return CloudOf(postgres, migrated_database, database)


def test_changes_of_a_tenant_reach_its_audit_trail(cloud: Any, admin: Connection):
    tenant, _ = tenants.add_tenant(cloud, "globex", by="ann")
    tenants.add_tenant(cloud, "globex", by="bob")  # it exists
    tenants.change_admins(cloud, "globex", added=["kim@globex.example"], by="ann")
    tenants.change_addresses(cloud, "globex", added=["in@globex.example"], by="bob")
    tenants.change_addresses(cloud, "globex", by="bob")  # only lists them

    assert recorded(admin, tenant.id) == [
        ("ann", "tenant added", [str(tenant.id)]),
        ("ann", "admins changed", [str(tenant.id)]),
        ("bob", "mail addresses changed", [str(tenant.id)]),
    ]
    assert admin.execute("SELECT count(*) FROM audit_entry WHERE detail::text LIKE '%globex%'").fetchone() == (0,)


def test_an_admin_is_added_once_and_removed_again(cloud: Any, admin: Connection):
    assert tenants.change_admins(cloud, "acme", added=["Ann@Acme.example", "bob@acme.example"]) == [
        "ann@acme.example",
        "bob@acme.example",
    ]
    tenants.change_admins(cloud, "acme", added=["ann@acme.example"])
    assert tenants.change_admins(cloud, "acme", removed=["BOB@acme.example"]) == ["ann@acme.example"]
    assert admin.execute("SELECT t.slug, email FROM tenant_admin JOIN tenant t ON t.id = tenant_id").fetchall() == [
        ("acme", "ann@acme.example")
    ]


def test_tenants_have_admins_of_their_own(cloud: Any):
    tenants.change_admins(cloud, "acme", added=["ann@acme.example"])
    assert tenants.change_admins(cloud, "zenith") == []
    with pytest.raises(UsageError, match="is no admin of 'zenith'"):
        tenants.change_admins(cloud, "zenith", removed=["ann@acme.example"])


@pytest.mark.parametrize(
    "address",
    [
        *(
            "",
            "ann",
            "ann@",
            "@example.com",
            "ann@localhost",
            "a n@example.com",
            "ann@b@example.com",
            "ann@exämple.com",
        ),
        *("ann@example.com\nBcc: all@example.com", "a" * 250 + "@example.com"),
    ],
)
def test_what_is_no_address_is_refused_and_nothing_changed(address: str, cloud: Any):
    with pytest.raises(UsageError, match="no e-mail address"):
        tenants.change_admins(cloud, "acme", added=["good@example.com", address])
    assert tenants.change_admins(cloud, "acme") == []


def test_an_unknown_tenant_is_said_to_be_unknown(cloud: Any):
    with pytest.raises(UsageError, match="There is no tenant 'nobody'"):
        tenants.change_admins(cloud, "nobody", added=["ann@example.com"])


def test_the_command_prints_who_hears_of_failures(cloud: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Cloud, "at", lambda _: cloud)
    call = CliRunner().invoke
    assert "has no admins. To add one: counterfoil tenants admins acme --add" in call(
        tenants.app, ["admins", "acme"]
    ).output.replace("\n", " ")
    both = ["--add", "bob@acme.example", "--add", "ann@acme.example"]
    assert call(tenants.app, ["admins", "acme", *both]).output.split() == ["ann@acme.example", "bob@acme.example"]
    left = call(tenants.app, ["admins", "acme", "--remove", "bob@acme.example", "--json"])
    assert json.loads(left.output) == ["ann@acme.example"]


def test_an_address_is_one_tenant_s_alone(cloud: Any, admin: Connection):
    assert tenants.change_addresses(cloud, "acme", added=["Rechnung@Acme.example", "in@acme.example"]) == [
        "in@acme.example",
        "rechnung@acme.example",
    ]
    with pytest.raises(UsageError, match=r"'IN@acme\.example' is an address of 'acme': remove it there first"):
        tenants.change_addresses(cloud, "zenith", added=["z@zenith.example", "IN@acme.example"])
    assert tenants.change_addresses(cloud, "zenith") == []
    tenants.change_addresses(cloud, "acme", removed=["IN@acme.example"])
    assert tenants.change_addresses(cloud, "zenith", added=["in@acme.example"]) == ["in@acme.example"]
    assert admin.execute("SELECT address FROM tenant_address ORDER BY 1").fetchall() == [
        ("in@acme.example",),
        ("rechnung@acme.example",),
    ]


@pytest.mark.parametrize(
    "address", ["<in@acme.example>", "in@acme.example,", "a,b@acme.example", '"in"@acme.example', "in@acme_1.example"]
)
def test_an_address_that_no_mail_could_be_found_by_is_refused(address: str, cloud: Any):
    with pytest.raises(UsageError, match="would be found in no mail"):
        tenants.change_addresses(cloud, "acme", added=[address])
    assert tenants.change_addresses(cloud, "acme") == []


def test_what_is_no_address_of_a_tenant_cannot_be_removed(cloud: Any):
    with pytest.raises(UsageError, match="is no address of 'acme'"):
        tenants.change_addresses(cloud, "acme", removed=["in@acme.example"])
    with pytest.raises(UsageError, match="no e-mail address"):
        tenants.change_addresses(cloud, "acme", added=["in@"])


def test_the_command_prints_the_addresses_by_which_mail_finds_a_tenant(cloud: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Cloud, "at", lambda _: cloud)
    call = CliRunner().invoke
    assert "To add an address: counterfoil tenants addresses acme --add" in call(
        tenants.app, ["addresses", "acme"]
    ).output.replace("\n", " ")
    assert call(tenants.app, ["addresses", "acme", "--add", "in@acme.example"]).output.split() == ["in@acme.example"]
    left = call(tenants.app, ["addresses", "acme", "--remove", "in@acme.example", "--json"])
    assert json.loads(left.output) == []
