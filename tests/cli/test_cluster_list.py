"""`counterfoil clusters` lists clusters that need a decision."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from cli.commands.clusters import app
from counterfoil.db import Connection, Database
from tests.delivery.harness import FakeSqs
from tests.documents.matching.samples import order
from tests.documents.matching.tenant_harness import TenantHarness
from tests.documents.test_differences import compute
from tests.functions.admin_api.samples import ORDER, OTHER_ORDER, acme


@pytest.fixture
def harness(api: None, database: Database, admin: Connection) -> TenantHarness:
    harness = acme(database, admin)
    compute(harness, OTHER_ORDER)
    return harness


def run(*words: object, width: int = 220) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": str(width)})
    if result.exception is not None:
        raise result.exception
    return result.output


def rows(*words: object) -> list[dict[str, Any]]:
    cluster_rows: list[dict[str, Any]] = json.loads(run(*words, "--json"))
    return cluster_rows


def listed_positions(harness: TenantHarness, *words: object) -> list[int]:
    return [[str(id_) for id_ in harness.ids].index(row["id"]) for row in rows(*words)]


def test_list_shows_status_order_and_amount_affected(harness: TenantHarness):
    (row,) = [row for row in run().splitlines() if "PO-2026-00397" in row]

    assert "exception" in row
    assert "12.50 EUR affected" in row


def test_list_shows_reason_and_id_at_any_width(harness: TenantHarness):
    (listed, _) = rows()
    shown = run(width=80)

    assert max(map(len, shown.splitlines())) <= 100  # the minimum width of output that is not a terminal
    assert shown.startswith(listed["id"][-8:])
    assert listed["reason"] in " ".join(shown.split())


def test_list_is_filtered_and_sorted(harness: TenantHarness):
    assert listed_positions(harness) == [ORDER, OTHER_ORDER]
    assert listed_positions(harness, "--status", "exception") == [ORDER]
    assert listed_positions(harness, "--status", "matched") == []
    assert listed_positions(harness, "--supplier", "Vossberg") == [OTHER_ORDER]
    assert listed_positions(harness, "--number", "R-81", "--status", "all") == [ORDER]
    assert listed_positions(harness, "--sort", "newest") == [OTHER_ORDER, ORDER]
    assert run("--status", "matched").startswith("No clusters found.")


@pytest.fixture
def other_harness(harness: TenantHarness, database: Database, admin: Connection) -> TenantHarness:
    """Another tenant, with clusters older and newer than the first tenant's."""
    other = TenantHarness(database, admin, [order("4800", when=20), order("4801", when=60)])
    other.match_all()
    compute(other, 0)
    compute(other, 1)
    admin.execute("UPDATE cluster_diagnostics SET amount_affected = documents WHERE tenant_id = %s", [other.tenant_id])
    admin.execute("UPDATE cluster_diagnostics SET amount_affected = 9 WHERE id = %s", [other.ids[1]])
    return other


@pytest.mark.parametrize("sort", ["oldest", "newest", "amount"])
def test_sorting_and_limit_apply_across_tenants(harness: TenantHarness, other_harness: TenantHarness, sort: str):
    whole = rows("--sort", sort)
    keys = [float(row["affected"]) if sort == "amount" else row["waiting_since"] for row in whole]
    assert keys == sorted(keys, reverse=sort != "oldest")
    assert len({row["tenant"] for row in whole[:2]}) == len({row["tenant"] for row in whole[2:]}) == 2

    assert rows("--sort", sort, "--limit", 3) == whole[:3]


def test_truncated_list_has_a_note(harness: TenantHarness, other_harness: TenantHarness):
    assert "There are more clusters" in run("--limit", 3)
    assert "There are more clusters" not in run("--limit", 4)


@pytest.mark.parametrize("wrong", [("--status", "lost"), ("--sort", "size")])
def test_unknown_status_or_sort_is_rejected(wrong: tuple[str, str]):
    result = CliRunner().invoke(app, wrong)
    assert result.exit_code == 2
    assert f"'{wrong[1]}' is not one of" in result.output


def test_accepting_restarts_comparison_and_hides_the_hint(harness: TenantHarness, queue: FakeSqs):
    assert "To decide: counterfoil clusters accept" in run("show", harness.ids[ORDER])

    run("accept", harness.ids[ORDER], "--by", "ann")

    assert list(queue.sent) == ["counterfoil-diagnostics"]
    shown = run("show", harness.ids[ORDER])
    assert "Accepted by ann" in shown
    assert "The comparison is being updated." in shown
    assert "To decide:" not in shown
