"""A tenant is added with all that it needs, or nothing of it."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.local.postgres import Server
from cli.tenancy import app
from counterfoil.db import Connection, Database
from tests.cli.test_tenants import CloudOf
from tests.delivery.harness import rows

TABLES = ("tenant", "tenant_address", "tenant_admin", "destination", "destination_secret", "organization")
ALL = (
    *("--address", "Invoices@acme.example", "--address", "rechnung@acme.example", "--admin", "ann@acme.example"),
    *("--webhook", "erp=https://erp.example.com/hook?a=b", "--s3", "files=monthly/in"),
)


@pytest.fixture
def call(
    postgres: Server,
    migrated_database: str,
    database: Database,
    make_tenant: Callable[..., UUID],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Any]:
    make_tenant("zenith")
    cloud = CloudOf(postgres, migrated_database, database)
    monkeypatch.setattr(Cloud, "at", lambda _: cloud)

    def call(*words: str) -> Any:
        result = CliRunner().invoke(app, ["add", *words])
        if result.exception is not None:
            raise result.exception
        return json.loads(result.output) if "--json" in words else result.output

    return call


def test_one_command_adds_all_of_it(call: Callable[..., Any], admin: Connection):
    done = call("acme", "--name", "Acme Ltd", *ALL, "--json")
    assert (done["slug"], done["new"]) == ("acme", True)
    assert done["addresses"] == ["invoices@acme.example", "rechnung@acme.example"]
    assert done["admins"] == ["ann@acme.example"]
    webhook, export = done["destinations"]
    assert (webhook["name"], webhook["address"]) == ("erp", "https://erp.example.com/hook?a=b")
    assert (export["name"], export["kind"], "secret" in export) == ("files", "s3", False)
    assert [row["secret"] for row in rows(admin, "destination_secret")] == [webhook["secret"]]
    assert {row["tenant_id"] for row in rows(admin, "destination")} == {done["id"]}


def test_people_read_what_was_added(call: Callable[..., Any]):
    said = call("acme", *ALL)
    assert "Tenant 'acme' is added." in said
    assert "Mail finds it at invoices@acme.example, rechnung@acme.example." in said
    assert "Results go to files: monthly/in" in said
    assert said.count("whsec_") == 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (("--address", "nobody"), "is no e-mail address"),
        (("--address", "box@zenith.example"), "is an address of 'zenith'"),
        (("--admin", "nobody"), "is no e-mail address"),
        (("--webhook", "erp"), "says no name and place"),
        (("--webhook", "other=http://169.254.169.254/"), "cannot be a webhook"),
        (("--webhook", "erp=https://erp.example.com/twice"), "has a destination 'erp' already"),
        (("--s3", "more=../up"), "cannot be a prefix of exports"),
    ],
)
def test_where_something_is_wrong_nothing_is_added(
    wrong: tuple[str, str], told: str, call: Callable[..., Any], admin: Connection
):
    call("zenith", "--address", "box@zenith.example")
    before = {table: rows(admin, table) for table in TABLES}
    with pytest.raises(UsageError, match=told):
        call("acme", *ALL, *wrong)
    assert {table: rows(admin, table) for table in TABLES} == before


def test_a_tenant_that_exists_gets_what_it_has_not_got(call: Callable[..., Any]):
    call("acme", "--address", "one@acme.example")
    done = call("acme", "--address", "one@acme.example", "--address", "two@acme.example", "--json")
    assert (done["new"], done["addresses"]) == (False, ["one@acme.example", "two@acme.example"])


def test_the_same_command_again_changes_nothing_and_shows_no_secret(call: Callable[..., Any], admin: Connection):
    call("acme", *ALL)
    before = {table: rows(admin, table) for table in TABLES}
    done = call("acme", *ALL, "--json")
    assert (done["new"], done["destinations"]) == (False, [])
    assert {table: rows(admin, table) for table in TABLES} == before
