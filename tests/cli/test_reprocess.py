"""Operations are asked for, watched, paused and ended on the command line."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.reprocess import app
from counterfoil.db import Connection, Database
from tests.cli.test_outcomes import CloudOf
from tests.delivery.harness import rows


@pytest.fixture
def call(database: Database, make_tenant: Callable[..., UUID], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    make_tenant("acme")
    make_tenant("zenith")
    monkeypatch.setattr(Cloud, "at", lambda _: CloudOf(database))

    def call(*words: str) -> Any:
        result = CliRunner().invoke(app, words)
        if result.exception is not None:
            raise result.exception
        return json.loads(result.output) if "--json" in words else result.output

    return call


def test_an_operation_is_stored_with_what_was_asked_for(call: Callable[..., Any], admin: Connection):
    asked = call(
        *("start", "acme", "--what", "match", "--from", "2026-01-01", "--to", "2026-02-01"),
        *("--rate", "30", "--by", "ann", "--json"),
    )
    (stored,) = rows(admin, "operation")
    assert asked["id"] == stored["id"]
    assert (asked["from"], asked["to"]) == ("2026-01-01T00:00:00+00:00", "2026-02-01T00:00:00+00:00")
    assert (stored["kind"], stored["rate"], stored["requested_by"], stored["state"]) == ("match", 30, "ann", "running")


def test_people_see_how_far_each_one_is(call: Callable[..., Any], admin: Connection):
    call("start", "zenith", "--what", "extract", "--by", "ann")
    call("start", "acme", "--what", "match", "--by", "bob", "--from", "2026-01-01")
    admin.execute("UPDATE operation SET begun = 1234 WHERE kind = 'match'")
    first, *lines = call("list").splitlines()
    assert first.split() == ["id", "tenant", "what", "received", "rate", "begun", "state", "by"]
    assert [(line.split()[1], line.split()[2], line.split()[-3:]) for line in lines] == [
        ("acme", "match", ["1234", "running", "bob"]),
        ("zenith", "extract", ["0", "running", "ann"]),
    ]
    assert max(map(len, [first, *lines])) <= 80
    assert [one["begun"] for one in call("list", "--tenant", "zenith", "--json")] == [0]


def test_one_is_paused_resumed_and_ended_by_the_end_of_its_id(call: Callable[..., Any]):
    end = call("start", "acme", "--what", "match", "--json")["id"][-8:]
    assert "is paused; 0 documents were begun" in call("pause", end)
    assert call("resume", end, "--json")["state"] == "running"
    assert call("abort", end, "--json")["state"] == "aborted"
    with pytest.raises(UsageError, match="is aborted, and cannot become running"):
        call("resume", end)


def test_what_does_not_exist_is_refused(call: Callable[..., Any]):
    assert call("list") == "There are no operations.\n"
    with pytest.raises(UsageError, match="There is no operation 'abcd'"):
        call("pause", "abcd")
    with pytest.raises(UsageError, match="There is no time between"):
        call("start", "acme", "--what", "match", "--from", "2026-02-01", "--to", "2026-02-01")
    with pytest.raises(UsageError, match="There is no tenant 'nobody'"):
        call("start", "nobody", "--what", "match")
