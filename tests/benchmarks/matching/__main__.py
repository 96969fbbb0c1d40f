"""Measures matching on labelled sets, beside other ways to link records, and what it waits for.

Run as `make bench-matching`, with DATA=... for another folder than the sibling `../shared/data`; with options as
`.venv/bin/python -m tests.benchmarks.matching`: `--only` names parts, `--errors` and `--json` name files to write.
Sets are the folders with documents.jsonl, edges.csv and clusters.csv, weights are never scored on what they were
learned from. With linked-office and linked-hostile there, ours and the peers are compared on their candidate pairs;
with er/abt-buy and er/dblp-acm, text similarity is measured. The peers want
`.venv/bin/uv sync --frozen --group benchmark`.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import typer

from tests.benchmarks.matching import quality, side_by_side, text, waiting
from tests.benchmarks.matching.errors import write_mistakes
from tests.benchmarks.matching.quality import Figures, Scored
from tests.benchmarks.matching.sets import read_samples
from tests.benchmarks.matching.side_by_side import Absent, Result
from tools.evaluation.agreement import Agreement
from tools.evaluation.labeled_set import DOCUMENTS

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
HALVES = ("linked-office", "linked-hostile")
PARTS = ("quality", "peers", "text", "waiting")
Report = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report; returns 1 where there is nothing to measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.matching", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=DATA, help="folder with labelled sets")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="leave other parts out")
    parser.add_argument("--errors", type=Path, metavar="FILE", help="write every false and missed link as CSV")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    options = parser.parse_args(arguments)
    parts: dict[str, Callable[[], Report]] = {
        "quality": lambda: _quality(options.folder, options.errors),
        "peers": lambda: _peers(options.folder),
        "text": lambda: _text(options.folder / "er"),
        "waiting": _waiting,
    }
    report = {name: found for name in PARTS if name in options.only and (found := parts[name]())}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if report else 1


# -- links and clusters ---------------------------------------------------------------------------------------------


def _quality(folder: Path, errors: Path | None) -> Report:
    samples = read_samples(folder) if folder.is_dir() else []
    if not samples:
        typer.echo(f"No labelled set in {folder}: name a folder whose folders hold documents.jsonl and labels.")
        return {}
    typer.echo(f"Links and clusters\n{_HEADER}")
    other_sets = []
    for scored in quality.across(samples):
        other_sets.append(scored)
        _tell(f"{scored.name} ({scored.origin}), from {scored.learned_from}", scored.figures)
    report: Report = {"weights from other sets": {scored.name: _facts(scored) for scored in other_sets}}
    generated = [scored for scored in other_sets if scored.name in HALVES]
    if len(generated) > 1:
        report["mean of both directions"] = asdict(found := quality.average(generated))
        _tell(f"mean of {' and '.join(scored.name for scored in generated)}", found)
    other_tenants: list[Scored] = []
    for sample in samples:
        if sample.teaches:
            other_tenants += (found_here := list(quality.within(sample)))
            for scored in found_here:
                _tell(f"{scored.name} ({scored.origin}), from {scored.learned_from}", scored.figures)
            _tell(f"mean of the tenants of {sample.name}", mean := quality.average(found_here))
            report[f"weights from other tenants of {sample.name}"] = {
                "mean": asdict(mean),
                **{scored.name: _facts(scored) for scored in found_here},
            }
    if errors:
        told = chain(other_sets, other_tenants)
        count = write_mistakes(errors, ((one.name, one.learned_from, found) for one in told for found in one.mistakes))
        typer.echo(f"{count} false and missed links are in {errors}, each with what was said for and against it.")
    typer.echo("")
    return report


_AGREEMENTS = ("edges", "copies as one", "cluster pairs")
_HEADER = (
    f"{'':60}{''.join(f'{name:>27}' for name in _AGREEMENTS)}{'ECE':>8}{'docs/s':>8}\n"
    f"{'':60}{''.join(f'{name:>9}' for name in ('prec.', 'recall', 'F1')) * len(_AGREEMENTS)}"
)


def _tell(title: str, figures: Figures) -> None:
    agreements = (figures.edges, figures.edges_copies_as_one, figures.clusters)
    speed = figures.documents / figures.seconds
    typer.echo(f"{title:60}{''.join(map(_ratios, agreements))}{figures.calibration_error:8.3f}{speed:8.0f}")


def _ratios(agreement: Agreement) -> str:
    return f"{agreement.precision:9.4f}{agreement.recall:9.4f}{agreement.f1:9.4f}"


def _facts(scored: Scored) -> Report:
    return {"origin": scored.origin, "learned_from": scored.learned_from, **asdict(scored.figures)}


# -- side by side ---------------------------------------------------------------------------------------------------


def _peers(folder: Path) -> Report:
    halves = [folder / name for name in HALVES]
    if not all((half / DOCUMENTS).is_file() for half in halves):
        typer.echo(f"{folder} lacks {' or '.join(HALVES)}: ours and its peers are not compared.\n")
        return {}
    report: Report = {}
    for taught, asked in (halves, halves[::-1]):
        pairs = side_by_side.reach(asked)
        typer.echo(
            f"Side by side: learned from {taught.name}, asked about the {pairs.pairs} candidate pairs of {asked.name}"
            f" (generated), {pairs.true_pairs} of them true\n({pairs.true_links} true links in all, copies aside; the"
            " rest follow from links of others, or no key leads to them)\n"
            f"{'':22}{'prec.':>9}{'recall':>9}{'F1':>9}{'learn s':>10}{'score s':>10}{'peak MB':>10}"
        )
        found: Report = {"pairs": asdict(pairs)}
        for result in side_by_side.compare(taught, asked):
            found[result.peer] = asdict(result)
            typer.echo(_line(result))
        report[f"learned from {taught.name}, asked about {asked.name}"] = found
        typer.echo("")
    return report


def _line(result: Result | Absent) -> str:
    if isinstance(result, Absent):
        return f"{result.peer:22} {result.reason}"
    return (
        f"{result.peer:22}{_ratios(result.agreement)}"
        f"{result.seconds_to_learn:10.1f}{result.seconds_to_score:10.2f}{result.peak_megabytes:10.0f}"
    )


# -- text, waiting --------------------------------------------------------------------------------------------------


def _text(folder: Path) -> Report:
    report: Report = {}
    for task in text.TASKS:
        if not (folder / task.name).is_dir():
            typer.echo(f"{folder} lacks {task.name}: text similarity is not measured on it.")
            continue
        found = text.measure(folder, task)
        report[task.name] = asdict(found)
        typer.echo(
            f"Text similarity alone on {task.name} (public, real): F1 {found.agreement.f1:.4f}, wanted {task.goal};"
            f" precision {found.agreement.precision:.4f}, recall {found.agreement.recall:.4f};"
            f" every row paired: F1 {found.forced.f1:.4f}; {found.seconds:.1f} s"
        )
    typer.echo("")
    return report


def _waiting() -> Report:
    found = waiting.measure()
    typer.echo(
        f"{waiting.DOCUMENTS} doubtful documents of one invocation, a model that answers after"
        f" {waiting.ANSWER_SECONDS:.0f} s, {found.permits} permits: {found.seconds:.1f} s (wanted: under"
        f" {waiting.GOAL_SECONDS:.0f}); {found.asked} questions, {found.at_once} at once, {found.matched} links"
    )
    return asdict(found)


if __name__ == "__main__":
    sys.exit(main())
