"""Tolerances are set on the command line, and clusters are compared again."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.commands import tolerances
from cli.commands.tenants import app
from cli.failures import UsageError
from counterfoil import audit
from counterfoil.db import Connection, Database
from counterfoil.documents import diagnostics
from tests.dead_letters.audit_trail import verified_changes
from tests.delivery.harness import rows

CLUSTER = UUID(int=7)


@pytest.fixture
def acme(api: None, make_tenant: Callable[..., UUID]) -> UUID:
    make_tenant("zenith")
    return make_tenant("acme")


def run(*words: str) -> Any:
    result = CliRunner().invoke(app, ["tolerances", *words])
    if result.exception is not None:
        raise result.exception
    return result


def call(*words: str) -> Any:
    """Run a command with --json, and return its output."""
    return json.loads(run(*words, "--json").output)


def test_tolerance_changes_are_audited(acme: UUID, admin: Connection):
    call("acme", "--set", "price", "--within", "2%", "--supplier", "Globex", "--by", "ann")
    call("acme", "--remove", "price", "--supplier", "Globex", "--by", "bob")

    assert verified_changes(admin, acme) == [
        ("ann", "tolerance set", ["price"]),
        ("bob", "tolerance removed", ["price"]),
    ]
    ((detail,),) = admin.execute("SELECT detail FROM audit_entry WHERE number = 1").fetchall()
    assert detail == {
        "supplier": audit.hmac_digest(admin, acme, b"Globex").hex(),
        "article": None,
        "lower_absolute": None,
        "lower_percent": "2",
        "upper_absolute": None,
        "upper_percent": "2",
    }


@pytest.mark.usefixtures("acme")
def test_tolerance_is_set_for_one_tenant():
    call("acme", "--set", "price", "--within", "2%", "--within", "0.50", "--by", "ann", "--reason", "A frame contract")
    (tolerance,) = call("acme")
    assert tolerance == {
        "key": "price",
        "text": "2% and 0.5 more or less",
        "supplier": None,
        "article": None,
        "lower_absolute": "0.50",
        "lower_percent": "2",
        "upper_absolute": "0.50",
        "upper_percent": "2",
        "set_by": "ann",
        "reason": "A frame contract",
        "evidence": None,
    }
    assert call("zenith") == []


@pytest.mark.usefixtures("acme")
def test_normalized_scope_replaces_the_previous_tolerance():
    call("acme", "--set", "price", "--within", "2%", "--article", "A-100", "--supplier", "Tarnow Schrauben AG")
    listed = call("acme", "--set", "price", "--within", "3%", "--article", "a 100", "--supplier", "TARNOW SCHRAUBEN")
    assert [(tolerance["article"], tolerance["upper_percent"]) for tolerance in listed] == [("a 100", "3")]


@pytest.mark.usefixtures("acme")
def test_a_tolerance_is_removed_by_its_scope():
    call("acme", "--set", "price", "--within", "2%")
    call("acme", "--set", "price", "--within", "5%", "--article", "A1")
    assert [tolerance["article"] for tolerance in call("acme", "--remove", "price")] == ["A1"]
    with pytest.raises(UsageError, match="There is no tolerance for price"):
        run("acme", "--remove", "price")


def test_change_recomputes_only_clusters_with_a_result(acme: UUID, database: Database, admin: Connection):
    with database.tenant(acme) as connection:
        diagnostics.enqueue_diagnostics(connection, acme, [CLUSTER, UUID(int=8)], datetime.now(UTC))
    admin.execute("UPDATE cluster_diagnostics SET status = 'succeeded'")
    admin.execute(
        "UPDATE cluster_diagnostics SET match_status = 'matched', result = '{}', cluster_status = 'matched',"
        " amount_affected = 0, waiting_since = now(), documents = 1 WHERE id = %s",
        [CLUSTER],
    )
    assert "1 cluster will be compared again." in run("acme", "--set", "total", "--within", "any").output
    assert {row["id"]: row["status"] for row in rows(admin, "cluster_diagnostics")} == {
        str(CLUSTER): "pending",
        str(UUID(int=8)): "succeeded",
    }


def test_change_restarts_a_comparison_in_progress(acme: UUID, database: Database, admin: Connection):
    with database.tenant(acme) as connection:
        diagnostics.enqueue_diagnostics(connection, acme, [CLUSTER], datetime.now(UTC))
    admin.execute("UPDATE cluster_diagnostics SET status = 'in-progress', attempts = 1")
    run("acme", "--set", "total", "--within", "any")
    (row,) = rows(admin, "cluster_diagnostics")
    assert (row["status"], row["revision"]) == ("pending", 2)


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ((["1%"], [], []), (None, "1", None, "1")),
        ((["0.05"], [], ["2 %"]), ("0.05", None, None, "2")),
        (([], ["any"], ["0"]), (None, None, "0", None)),
        (([], ["3", "1%"], ["any"]), ("3", "1", None, None)),
    ],
)
def test_limits_are_parsed(options: tuple[list[str], list[str], list[str]], limits: tuple[str | None, ...]):
    assert tuple(tolerances.limits_of(*options).values()) == limits


@pytest.mark.parametrize("within", [["2%", "3%"], ["0.05", "1"], ["any", "2%"]])
def test_two_limits_of_one_kind_are_refused(within: list[str]):
    with pytest.raises(UsageError, match=f"Too many limits: '{within[1]}'"):
        tolerances.limits_of(within, [], [])


@pytest.mark.parametrize("text", ["-1", "two", "1,5", "%", "1e3", "", "NaN", "5 EUR"])
def test_invalid_limit_is_refused(text: str):
    with pytest.raises(UsageError, match="is not a limit"):
        tolerances.limits_of([text], [], [])


@pytest.mark.usefixtures("acme")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "price"], "A limit is required"),
        (["--set", "price", "--over", "1%"], "--under 2% for one"),
        (["--set", "price", "--remove", "tax"], "One change at a time"),
        (["--within", "1%"], "A key is required"),
        (["--set", "price", "--within", "1%", "--article", "x" * 201], "at most 200 characters"),
    ],
)
def test_invalid_command_changes_nothing(words: list[str], message: str, admin: Connection):
    with pytest.raises(UsageError, match=message):
        run("acme", *words)
    assert rows(admin, "tolerance") == []


@pytest.mark.usefixtures("acme")
def test_output_lists_default_and_specific_tolerances():
    shown = run(
        "acme", "--set", "billed_quantity", "--under", "any", "--over", "5%", "--supplier", "DE811907980"
    ).output
    assert re.search("price +everything else +1% more or less", shown)
    assert "supplier DE811907980" in shown
    assert "any amount less, 5% more" in shown
