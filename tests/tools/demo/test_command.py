"""The demo removes its webhook and prints the next steps."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from typer.testing import CliRunner

from cli.app import app
from cli.failures import CloudError, CommandError
from cli.local.cloud import Cloud
from cli.local.postgres import Server
from cli.local.tenants import add_tenant
from counterfoil.db import Connection, Database
from counterfoil.webhooks.destinations import NewDestination
from tests.cli.fake_cloud import FakeCloud
from tests.delivery.harness import rows
from tools.demo import command, demo_cases
from tools.demo.demo_cases import DemoCases
from tools.demo.sample_run import Run


def test_ended_run_removes_only_its_own_destination(
    postgres: Server, migrated_database: str, database: Database, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("acme")
    cloud: Any = FakeCloud(postgres, migrated_database, database)
    ours, theirs = (
        [NewDestination("receiver", "webhook", url)]
        for url in ("http://127.0.0.1:9/results", "https://erp.example.com/hook")
    )
    tenant, _ = add_tenant(cloud, "cases", new_destinations=ours)
    add_tenant(cloud, "acme", new_destinations=theirs)
    receiver: Any = SimpleNamespace()

    DemoCases(cloud, SimpleNamespace(), tenant, receiver, set()).end()  # type: ignore[arg-type]  # not read

    assert [row["url"] for row in rows(admin, "destination") if row["disabled_at"] is None] == [
        "https://erp.example.com/hook"
    ]


class FakeRun:
    """A fake run of the sample or the cases, which finishes or fails immediately."""

    tenant = SimpleNamespace(slug="cases-1")
    cases = None

    def __init__(self, failure: CommandError | None = None) -> None:
        self.ended = 0
        self._failure = failure

    def watch(self, *_: Any) -> Any:
        if self._failure is not None:
            raise self._failure
        return {}

    def clusters(self) -> list[Any]:
        return []

    def end(self) -> None:
        self.ended += 1


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., str]:
    """`demo(cases, stays_up)` runs the demo.

    `stays_up` decides whether its cloud keeps running afterward.
    """

    @contextmanager
    def nothing(*_: Any, **__: Any) -> Iterator[Any]:
        yield SimpleNamespace()

    def run(cases: FakeRun, *, stays_up: bool = True) -> str:
        def at(_place: Any) -> None:
            if not stays_up:
                raise CloudError("There is no local cloud.")

        monkeypatch.setattr(Cloud, "at", at)
        monkeypatch.setattr(DemoCases, "start", lambda *_: cases)
        result = CliRunner().invoke(app, ["demo"])
        if isinstance(result.exception, CommandError):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result.output

    for name in ("running_cloud", "running_receiver"):
        monkeypatch.setattr(command, name, nothing)
    for name in ("_show", "_show_cases"):
        monkeypatch.setattr(command, name, lambda *_: None)
    for name in ("_report", "_cases_record"):
        monkeypatch.setattr(command, name, lambda *_: {})
    monkeypatch.setattr(command, "OUTPUT", tmp_path)
    monkeypatch.setattr(command, "generate", lambda _seed: SimpleNamespace(files=[]))
    monkeypatch.setattr(command, "mismatches", lambda *_: [])
    monkeypatch.setattr(demo_cases, "mismatches", lambda *_: [])
    monkeypatch.setattr(Run, "prepare", lambda *_: FakeRun())
    return run


def test_destination_is_removed_even_after_failed_run(demo: Callable[..., str]) -> None:
    for cases in (FakeRun(), FakeRun(CommandError("not done in time"))):
        try:
            demo(cases)
        except CommandError:
            assert cases.ended == 1
        assert cases.ended == 1


@pytest.mark.parametrize("stays_up", [True, False])
def test_demo_ends_with_next_steps(demo: Callable[..., str], stays_up: bool) -> None:
    lines = demo(FakeRun(), stays_up=stays_up).splitlines()

    steps = lines[lines.index("Next steps (the command is .venv/bin/counterfoil):") + 1 :]
    named = [line.split()[1] for line in steps]
    assert named == (["console", "clusters", "review", "dlq", "down"] if stays_up else ["demo", "up", "--help"])
    assert stays_up is any("--tenant cases-1" in line for line in steps)
    known = CliRunner().invoke(app, ["--help"]).output
    assert all(name in known for name in named)
