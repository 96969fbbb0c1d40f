"""Delivery satisfies its invariants in simulation, and every mutant violates one."""

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
from tools.simulation.mutants import MUTANTS, Mutant
from tools.simulation.scheduler import ViolationError

CORPUS = json.loads((Path(__file__).parent / "corpus" / "seeds.json").read_text())
FRESH = int(os.environ.get("COUNTERFOIL_HISTORIES", "200"))
"""Number of new histories. `make soak` runs more."""
EVERY_FAULT = 5_000
"""Number of histories after which every kind of fault must have occurred. The rarest occurs once in 300 histories."""
ENOUGH = 1000
"""Number of histories within which every mutant must be detected."""


def describe(result: History) -> str:
    """Format a failed history with the command that repeats it."""
    command = f"counterfoil simulate --histories 1 --seed {result.seed}"
    return "\n".join([*result.log, f"seed {result.seed}: {result.violation}", f"Repeat with: {command}"])


@pytest.fixture
def break_histories(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that makes every later history violate an invariant."""

    def break_it() -> None:
        def check(_world: object) -> None:
            raise ViolationError("everything is wrong")

        monkeypatch.setattr(invariants, "check", check)

    return break_it


def test_new_histories_violate_no_invariant() -> None:
    first = SystemRandom().randrange(2**31)

    summary = run.run_parallel(range(first, first + FRESH), os.cpu_count() or 1)

    assert summary.histories == FRESH
    assert not summary.violations, "\n\n".join(describe(found) for found in summary.violations[:2])
    if FRESH >= EVERY_FAULT:
        assert set(summary.faults) == {str(fault) for fault in Fault}, "a kind of fault never occurred"


@pytest.mark.parametrize("kept", CORPUS, ids=lambda kept: str(kept["seed"]))
def test_earlier_failures_do_not_recur(store: Store, kept: dict[str, object]) -> None:
    found = history.run(int(str(kept["seed"])), store)

    assert found.violation is None, f"{kept['found']}\n{describe(found)}"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_is_detected(store: Store, mutant: Mutant) -> None:
    with mutant.patch():
        seeds = (mutant.seed, *range(1, ENOUGH + 1))
        violations = (history.run(seed, store, prepare=mutant.prepare).violation for seed in seeds)
        caught = next((violation for violation in violations if violation is not None), None)

    assert caught is not None
    assert re.search(mutant.expected_violation, caught)


@pytest.mark.parametrize("seed", range(40, 46))
def test_same_seed_gives_the_same_history(store: Store, seed: int) -> None:
    once = history.run(seed, store, with_log=True)
    history.run(seed + 1, store)
    again = history.run(seed, store, with_log=True)

    assert once.log == again.log
    assert once.steps > 0


def test_failed_history_has_log_with_virtual_times(store: Store, break_histories: Callable[[], None]) -> None:
    break_histories()

    found = history.run(3, store)

    assert found.violation == "everything is wrong"
    assert any("ledger" in line and "pending -> in-progress" in line for line in found.log)
    assert all(line.startswith(("02 ", "03 ", "    ")) for line in found.log)


def test_command_reports_violations_in_output_and_exit_code() -> None:
    fine = CliRunner().invoke(app, ["simulate", "--histories", "2", "--seed", "7", "--workers", "1", "--json"])
    broken = CliRunner().invoke(
        app,
        ["simulate", "--histories", "2", "--seed", "4", "--workers", "1", "--mutant", "delete in finally", "--json"],
    )

    assert fine.exit_code == 0
    assert json.loads(fine.stdout)["histories"] == 2
    assert broken.exit_code == 1
    assert "lost" in json.loads(broken.stdout)["violations"][0]["violation"]
    assert "is deleted from" in broken.stderr
