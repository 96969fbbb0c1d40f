"""`counterfoil reprocess` stores an operation through the API."""

import json
from collections.abc import Callable
from datetime import datetime
from uuid import UUID

import pytest
import typer
from typer.testing import CliRunner

from cli.commands.operations import app as operations
from cli.commands.reprocess import reprocess
from cli.failures import UsageError
from counterfoil.db import Connection
from tests.delivery.harness import rows


@pytest.fixture
def call(make_tenant: Callable[..., UUID], api: None) -> Callable[..., str]:
    make_tenant("acme")
    app = typer.Typer()
    app.command()(reprocess)

    def call(*words: str, of: typer.Typer = app) -> str:
        result = CliRunner().invoke(of, words)
        if result.exception is not None:
            raise result.exception
        return result.output

    return call


def test_reprocessing_is_stored_as_requested(call: Callable[..., str], admin: Connection):
    words = ("--stage", "match", "--since", "2026-01-01", "--until", "2026-02-01", "--rate", "30", "--by", "ann")
    shown = json.loads(call("acme", *words, "--json"))
    (stored,) = rows(admin, "operation")
    assert shown["operation_id"] == stored["id"]
    assert {name: datetime.fromisoformat(at).date().isoformat() for name, at in shown["filter"].items()} == {
        "received_from": "2026-01-01",
        "received_before": "2026-02-01",
    }
    assert (stored["action"], stored["rate"], stored["requested_by"], stored["state"]) == (
        "match",
        30,
        "ann",
        "running",
    )


def test_operations_lists_and_controls_reprocessing(call: Callable[..., str], admin: Connection):
    end = json.loads(call("acme", "--stage", "extract", "--json"))["operation_id"][-8:]
    admin.execute("UPDATE operation SET selected = 1234, processed = 1234, succeeded = 1234")
    assert "1,234+" in call(of=operations)
    assert "60/min" in call("show", end, of=operations)
    assert "is paused: 1,234 documents started" in call("pause", end, of=operations)
    assert "is running" in call("resume", end, of=operations)
    assert "is canceled" in call("cancel", end, of=operations)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("acme", "--stage", "match", "--since", "2026-02-01", "--until", "2026-02-01"),
            "in the past and before its end",
        ),
        (("missing", "--stage", "match"), "There is no such tenant"),
    ],
)
def test_invalid_request_is_rejected(call: Callable[..., str], words: tuple[str, ...], message: str):
    with pytest.raises(UsageError, match=message):
        call(*words)
