"""`counterfoil clusters` lists what needs a person."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.clusters import app
from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.local.postgres import Server
from counterfoil.db import Connection, Database
from tests.cli.clouds import CloudOf
from tests.documents.matching.office import Office
from tests.documents.matching.papers import order
from tests.documents.test_acceptance import compute
from tests.functions.admin_api.papers import ORDER, OTHER_ORDER, acme


@pytest.fixture
def cloud(postgres: Server, migrated_database: str, database: Database, monkeypatch: pytest.MonkeyPatch) -> CloudOf:
    cloud = CloudOf(postgres, migrated_database, database)
    monkeypatch.setattr(Cloud, "at", lambda _: cloud)
    return cloud


@pytest.fixture
def office(cloud: CloudOf, database: Database, admin: Connection) -> Office:
    office = acme(database, admin)
    compute(office, OTHER_ORDER)
    return office


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "220"})
    if result.exception is not None:
        raise result.exception
    return result.output


def rows(*words: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(*words, "--json"))
    return found


def listed(office: Office, *words: object) -> list[int]:
    return [[str(id_) for id_ in office.ids].index(one["id"]) for one in rows(*words)]


def test_list_shows_status_order_and_amount_at_stake(office: Office):
    (row,) = [row for row in run().splitlines() if "PO-2026-00397" in row]

    assert "exception" in row
    assert "1062.50" in row


def test_list_is_filtered_and_sorted(office: Office):
    assert listed(office) == [ORDER, OTHER_ORDER]
    assert listed(office, "--status", "exception") == [ORDER]
    assert listed(office, "--status", "matched") == []
    assert listed(office, "--supplier", "Vossberg") == [OTHER_ORDER]
    assert listed(office, "--number", "R-81", "--status", "all") == [ORDER]
    assert listed(office, "--sort", "newest") == [OTHER_ORDER, ORDER]
    assert run("--status", "matched").startswith("No cluster matches.")


@pytest.mark.parametrize("sort", ["oldest", "newest", "amount"])
def test_after_leads_to_the_next_page(office: Office, sort: str):
    first, second = listed(office, "--sort", sort)

    assert listed(office, "--sort", sort, "--after", office.ids[first]) == [second]


@pytest.fixture
def other(office: Office, database: Database, admin: Connection) -> Office:
    """Another tenant, whose clusters are older and newer than those of the first."""
    other = Office(database, admin, [order("4800", when=20), order("4801", when=60)])
    other.match_all()
    compute(other, 0)
    compute(other, 1)
    admin.execute("UPDATE cluster_diagnostics SET amount_at_stake = documents WHERE tenant_id = %s", [other.tenant_id])
    admin.execute("UPDATE cluster_diagnostics SET amount_at_stake = 9 WHERE id = %s", [other.ids[1]])
    return other


@pytest.mark.parametrize("sort", ["oldest", "newest", "amount"])
def test_tenants_share_one_order_and_limit(office: Office, other: Office, sort: str):
    whole = rows("--sort", sort)
    keys = [float(row["at_stake"]) if sort == "amount" else row["waiting_since"] for row in whole]
    assert keys == sorted(keys, reverse=sort != "oldest")
    assert len({row["tenant"] for row in whole[:2]}) == len({row["tenant"] for row in whole[2:]}) == 2

    first = rows("--sort", sort, "--limit", 3)

    assert first == whole[:3]
    assert rows("--sort", sort, "--after", first[-1]["id"]) == whole[3:]


def test_cut_list_names_one_next_page(office: Office, other: Office):
    (hint,) = [line for line in run("--limit", 3).splitlines() if line.startswith("There are more")]

    assert hint.endswith(f"counterfoil clusters --after {rows()[2]['id']}")


@pytest.mark.parametrize("wrong", [("--status", "lost"), ("--sort", "size")])
def test_unknown_value_is_rejected(office: Office, wrong: tuple[str, str]):
    with pytest.raises(UsageError, match=f"{wrong[0]} must be one of"):
        run(*wrong)


def test_accepting_wakes_diagnostics_and_leaves_nothing_to_decide(office: Office, cloud: CloudOf):
    assert "Decide: counterfoil clusters accept" in run("show", office.ids[ORDER])

    run("accept", office.ids[ORDER], "--by", "ann")

    assert [send.worker for send in cloud.sent] == ["diagnostics"]
    shown = run("show", office.ids[ORDER])
    assert "Accepted by ann" in shown
    assert "It is being recomputed." in shown
    assert "Decide:" not in shown
