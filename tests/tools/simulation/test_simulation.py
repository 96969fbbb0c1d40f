"""Delivery keeps its promise in simulated worlds, and a delivery without one of its rules does not."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom

import pytest
from typer.testing import CliRunner

from cli.app import app
from tools.simulation import history, invariants, run
from tools.simulation.database import Store
from tools.simulation.faults import Fault
from tools.simulation.history import History
from tools.simulation.scheduler import ViolationError
from tools.simulation.twins import TWINS, Twin

CORPUS = json.loads((Path(__file__).parent / "corpus" / "seeds.json").read_text())
FRESH = int(os.environ.get("COUNTERFOIL_HISTORIES", "200"))
"""Histories of new seeds; `make soak` sets more."""
EVERY_FAULT = 5_000
"""Histories within which every kind of fault strikes: the rarest strikes once in 300."""
ENOUGH = 1000
"""Histories within which every twin is caught."""


def told(found: History) -> str:
    """A broken history, for whoever has to find out why."""
    again = f"counterfoil simulate --histories 1 --seed {found.seed}"
    return "\n".join([*found.story, f"seed {found.seed}: {found.violation}", f"Again: {again}"])


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """`wrong()` makes every history break an invariant."""

    def break_it() -> None:
        def check(_world: object) -> None:
            raise ViolationError("everything is wrong")

        monkeypatch.setattr(invariants, "check", check)

    return break_it


def test_no_fresh_history_breaks_an_invariant() -> None:
    first = SystemRandom().randrange(2**31)

    summary = run.in_processes(range(first, first + FRESH), os.cpu_count() or 1)

    assert summary.histories == FRESH
    assert not summary.violations, "\n\n".join(told(found) for found in summary.violations[:2])
    if FRESH >= EVERY_FAULT:
        assert set(summary.faults) == {str(fault) for fault in Fault}, "a kind of fault never struck"


@pytest.mark.parametrize("kept", CORPUS, ids=lambda kept: str(kept["seed"]))
def test_what_once_went_wrong_does_not_go_wrong_again(store: Store, kept: dict[str, object]) -> None:
    found = history.run(int(str(kept["seed"])), store)

    assert found.violation is None, f"{kept['found']}\n{told(found)}"


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: twin.name)
def test_a_broken_twin_is_caught(store: Store, twin: Twin) -> None:
    with twin.broken():
        seeds = (twin.caught_at, *range(1, ENOUGH + 1))
        violations = (history.run(seed, store, prepare=twin.prepare).violation for seed in seeds)
        caught = next((violation for violation in violations if violation is not None), None)

    assert caught is not None
    assert re.search(twin.caught_by, caught)


@pytest.mark.parametrize("seed", range(40, 46))
def test_a_seed_tells_the_same_history_each_time(store: Store, seed: int) -> None:
    once = history.run(seed, store, tell=True)
    history.run(seed + 1, store)
    again = history.run(seed, store, tell=True)

    assert once.story == again.story
    assert once.steps > 0


def test_a_broken_history_is_told_with_the_virtual_time_of_every_step(store: Store, wrong: Callable[[], None]) -> None:
    wrong()

    found = history.run(3, store)

    assert found.violation == "everything is wrong"
    assert any("ledger" in line and "pending -> in-progress" in line for line in found.story)
    assert all(line.startswith(("02 ", "03 ", "    ")) for line in found.story)


def test_the_command_says_what_it_found_and_ends_accordingly() -> None:
    fine = CliRunner().invoke(app, ["simulate", "--histories", "2", "--seed", "7", "--processes", "1", "--json"])
    broken = CliRunner().invoke(
        app,
        ["simulate", "--histories", "2", "--seed", "4", "--processes", "1", "--twin", "delete in finally", "--json"],
    )

    assert fine.exit_code == 0
    assert json.loads(fine.stdout)["histories"] == 2
    assert broken.exit_code == 1
    assert "lost" in json.loads(broken.stdout)["violations"][0]["violation"]
    assert "is deleted from" in broken.stderr
