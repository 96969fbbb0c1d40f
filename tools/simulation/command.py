"""`counterfoil simulate`: delivery in a world where everything goes wrong, thousands of times, each by its seed."""

import os
import sys
import time
from random import SystemRandom
from typing import Annotated

import typer

from cli.failures import ExitCode
from cli.output import Counters, aside, print_json
from tools.simulation.history import History
from tools.simulation.run import Summary, in_processes
from tools.simulation.twins import TWINS


def simulate(
    *,
    histories: Annotated[int, typer.Option(min=1, help="How many histories.")] = 1000,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the first history; the next ones follow. Any, unless given.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes at once: one for each processor, unless given.")
    ] = None,
    twin: Annotated[
        str | None, typer.Option(help=f"Break a rule of the engine first: {'; '.join(one.name for one in TWINS)}.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Tell every history, line by line.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Figures as JSON on standard output.")] = False,
) -> None:
    """Try delivery in simulated worlds, where messages come twice and processes die.

    The same seed gives the same history. One that breaks an invariant is told line by line, with the command that
    tells it again.
    """
    if twin is not None and twin not in {one.name for one in TWINS}:
        raise typer.BadParameter(f"There is no twin {twin!r}.", param_hint="--twin")
    first = SystemRandom().randrange(2**31) if seed is None else seed
    began = time.monotonic()
    done = 0
    with Counters(["histories"], histories) as counters:

        def each(one: History) -> None:
            nonlocal done
            done += 1
            counters.show([done])
            if one.story:
                _tell(one, twin)

        seeds = range(first, first + histories)
        summary = in_processes(seeds, processes or os.cpu_count() or 1, tell=verbose, twin=twin, each=each)
    seconds = time.monotonic() - began
    if as_json:
        print_json(_figures(summary, first, seconds))
    else:
        _show(summary, first, seconds)
    if summary.violations:
        sys.exit(ExitCode.UNWANTED)


def _tell(one: History, twin: str | None) -> None:
    console = aside()
    console.print(f"History of seed {one.seed}:", style="bold")
    for line in one.story:
        console.print(line, soft_wrap=True)
    if one.violation is not None:
        console.print(f"Seed {one.seed}: {one.violation}", style="red", soft_wrap=True)
        broken = f' --twin "{twin}"' if twin else ""
        console.print(f"Again: counterfoil simulate --histories 1 --seed {one.seed}{broken}", soft_wrap=True)


def _figures(summary: Summary, first: int, seconds: float) -> dict[str, object]:
    return {
        "seed": first,
        "histories": summary.histories,
        "violations": [{"seed": one.seed, "violation": one.violation} for one in summary.violations],
        "tries": summary.tries,
        "steps": summary.steps,
        "virtual_hours": round(summary.virtual_seconds / 3600, 1),
        "seconds": round(seconds, 1),
        "faults": dict(summary.faults.most_common()),
    }


def _show(summary: Summary, first: int, seconds: float) -> None:
    console = aside()
    broken = len(summary.violations)
    console.print(
        f"{summary.histories} histories from seed {first}: {summary.tries} tries and {summary.faults.total()} faults "
        f"in {summary.virtual_seconds / 3600:.1f} virtual hours ({seconds:.0f} s); "
        f"{'no invariant is broken' if not broken else f'{broken} broke an invariant'}."
    )
    for one in summary.violations:
        console.print(f"  seed {one.seed}: {one.violation}", style="red", soft_wrap=True)
