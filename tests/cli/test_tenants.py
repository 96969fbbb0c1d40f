"""Who hears of a tenant's failures is said on the command line."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli import tenants
from cli.cloud.cloud import Cloud
from cli.failures import UsageError
from cli.postgres import Server
from counterfoil.db import Connection, Database


class CloudOf:
    """As much of a cloud as tenants need."""

    def __init__(self, server: Server, name: str, database: Database) -> None:
        self.database = database
        self.database_url = lambda user: server.url(name, user)


@pytest.fixture
def cloud(postgres: Server, migrated_database: str, database: Database, make_tenant: Callable[..., UUID]) -> Any:
    make_tenant("acme")
    make_tenant("zenith")
    return CloudOf(postgres, migrated_database, database)


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
