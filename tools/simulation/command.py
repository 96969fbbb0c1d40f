"""`counterfoil simulate`: run thousands of seeded delivery histories with faults."""

import os
import sys
import time
from random import SystemRandom
from typing import Annotated

import typer

from cli.failures import ExitCode
from cli.output import Counters, print_json, stderr
from tools.simulation.history import History
from tools.simulation.mutants import MUTANTS
from tools.simulation.run import Summary, run_parallel


def simulate(
    *,
    histories: Annotated[int, typer.Option(min=1, help="Number of histories.")] = 1000,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the first history. Default: random.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Number of processes. Default: one per CPU.")] = None,
    mutant: Annotated[
        str | None,
        typer.Option(help=f"Remove an engine rule first: {'; '.join(candidate.name for candidate in MUTANTS)}."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print every history.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Simulate delivery with duplicate messages, crashes and outages.

    The same seed always gives the same history. A history that violates an invariant is printed line by line, with the
    command that repeats it.
    """
    if mutant is not None and mutant not in {candidate.name for candidate in MUTANTS}:
        raise typer.BadParameter(f"Unknown mutant: {mutant!r}.", param_hint="--mutant")
    first = SystemRandom().randrange(2**31) if seed is None else seed
    started = time.monotonic()
    finished = 0
    with Counters(["histories"], histories) as counters:

        def on_result(result: History) -> None:
            nonlocal finished
            finished += 1
            counters.show([finished])
            if result.log:
                _print_history(result, mutant)

        seeds = range(first, first + histories)
        summary = run_parallel(
            seeds, workers or os.cpu_count() or 1, with_log=verbose, mutant=mutant, on_result=on_result
        )
    seconds = time.monotonic() - started
    if as_json:
        print_json(_figures(summary, first, seconds))
    else:
        _show(summary, first, seconds)
    if summary.violations:
        sys.exit(ExitCode.FAILED_CHECK)


def _print_history(result: History, mutant: str | None) -> None:
    console = stderr()
    console.print(f"History of seed {result.seed}:", style="bold")
    for line in result.log:
        console.print(line, soft_wrap=True)
    if result.violation is not None:
        console.print(f"Seed {result.seed}: {result.violation}", style="red", soft_wrap=True)
        option = f' --mutant "{mutant}"' if mutant else ""
        console.print(f"Repeat with: counterfoil simulate --histories 1 --seed {result.seed}{option}", soft_wrap=True)


def _figures(summary: Summary, first: int, seconds: float) -> dict[str, object]:
    return {
        "seed": first,
        "histories": summary.histories,
        "violations": [{"seed": history.seed, "violation": history.violation} for history in summary.violations],
        "attempts": summary.attempts,
        "steps": summary.steps,
        "virtual_hours": round(summary.virtual_seconds / 3600, 1),
        "seconds": round(seconds, 1),
        "faults": dict(summary.faults.most_common()),
    }


def _show(summary: Summary, first: int, seconds: float) -> None:
    console = stderr()
    violations = len(summary.violations)
    console.print(
        f"{summary.histories} histories from seed {first}: {summary.attempts} attempts and "
        f"{summary.faults.total()} faults in {summary.virtual_seconds / 3600:.1f} virtual hours ({seconds:.0f} s); "
        f"{violations or 'no'} violations."
    )
    for history in summary.violations:
        console.print(f"  seed {history.seed}: {history.violation}", style="red", soft_wrap=True)
