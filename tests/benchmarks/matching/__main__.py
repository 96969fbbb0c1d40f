"""Measure matching on labeled sets, compare other libraries, and time LLM calls.

Run `make bench-matching`. DATA=... selects a folder other than the sibling `../shared/data`. To pass options, run
`.venv/bin/python -m tests.benchmarks.matching`: `--only` selects parts; `--errors` and
`--json` write files.

A labeled set is a folder with documents.jsonl, edges.csv and clusters.csv. Weights are never scored on their training
data. The comparison uses the candidate pairs from linked-office and linked-hostile. Text similarity uses er/abt-buy
and er/dblp-acm. The other libraries require `.venv/bin/uv sync --frozen --group benchmark`.
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

from tests.benchmarks.matching import comparison, llm_latency, quality, text
from tests.benchmarks.matching.comparison import Absent, Result
from tests.benchmarks.matching.errors import write_mistakes
from tests.benchmarks.matching.labeled_sets import read_samples
from tests.benchmarks.matching.quality import Figures, Scored
from tools.evaluation.agreement import Agreement
from tools.evaluation.labeled_set import DOCUMENTS

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
HALVES = ("linked-office", "linked-hostile")
PARTS = ("quality", "peers", "text", "waiting")
Report = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the report. Return 1 if no part could be measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.matching", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=DATA, help="folder with labeled sets")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="run only these parts")
    parser.add_argument("--errors", type=Path, metavar="FILE", help="write all false and missed links as CSV")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    options = parser.parse_args(arguments)
    parts: dict[str, Callable[[], Report]] = {
        "quality": lambda: _quality(options.folder, options.errors),
        "peers": lambda: _peers(options.folder),
        "text": lambda: _text(options.folder / "er"),
        "waiting": _llm_latency,
    }
    report = {name: found for name in PARTS if name in options.only and (found := parts[name]())}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0 if report else 1


# -- links and clusters ---------------------------------------------------------------------------------------------


def _quality(folder: Path, errors: Path | None) -> Report:
    samples = read_samples(folder) if folder.is_dir() else []
    if not samples:
        typer.echo(f"No labeled set in {folder}. Name a folder whose subfolders contain documents.jsonl and labels.")
        return {}
    typer.echo(f"Links and clusters\n{_HEADER}")
    other_sets = []
    for scored in quality.across(samples):
        other_sets.append(scored)
        _print_figures(f"{scored.name} ({scored.origin}), from {scored.learned_from}", scored.figures)
    report: Report = {"weights from other sets": {scored.name: _facts(scored) for scored in other_sets}}
    generated = [scored for scored in other_sets if scored.name in HALVES]
    if len(generated) > 1:
        report["mean of both directions"] = asdict(found := quality.average(generated))
        _print_figures(f"mean of {' and '.join(scored.name for scored in generated)}", found)
    other_tenants: list[Scored] = []
    for sample in samples:
        if sample.can_train:
            other_tenants += (found_here := list(quality.within(sample)))
            for scored in found_here:
                _print_figures(f"{scored.name} ({scored.origin}), from {scored.learned_from}", scored.figures)
            _print_figures(f"mean of the tenants of {sample.name}", mean := quality.average(found_here))
            report[f"weights from other tenants of {sample.name}"] = {
                "mean": asdict(mean),
                **{scored.name: _facts(scored) for scored in found_here},
            }
    if errors:
        rows = (
            (scored.name, scored.learned_from, mistake)
            for scored in chain(other_sets, other_tenants)
            for mistake in scored.mistakes
        )
        count = write_mistakes(errors, rows)
        typer.echo(f"{count} false and missed links were written to {errors}, with their evidence.")
    typer.echo("")
    return report


_AGREEMENTS = ("edges", "duplicates as one", "cluster pairs")
_HEADER = (
    f"{'':60}{''.join(f'{name:>27}' for name in _AGREEMENTS)}{'ECE':>8}{'docs/s':>8}\n"
    f"{'':60}{''.join(f'{name:>9}' for name in ('prec.', 'recall', 'F1')) * len(_AGREEMENTS)}"
)


def _print_figures(title: str, figures: Figures) -> None:
    agreements = (figures.edges, figures.edges_copies_as_one, figures.clusters)
    speed = figures.documents / figures.seconds
    typer.echo(f"{title:60}{''.join(map(_ratios, agreements))}{figures.calibration_error:8.3f}{speed:8.0f}")


def _ratios(agreement: Agreement) -> str:
    return f"{agreement.precision:9.4f}{agreement.recall:9.4f}{agreement.f1:9.4f}"


def _facts(scored: Scored) -> Report:
    return {"origin": scored.origin, "learned_from": scored.learned_from, **asdict(scored.figures)}


# -- comparison -----------------------------------------------------------------------------------------------------


def _peers(folder: Path) -> Report:
    halves = [folder / name for name in HALVES]
    if not all((half / DOCUMENTS).is_file() for half in halves):
        typer.echo(f"{folder} lacks {' or '.join(HALVES)}: skipping the comparison with other libraries.\n")
        return {}
    report: Report = {}
    for training, test in (halves, halves[::-1]):
        pairs = comparison.reach(test)
        typer.echo(
            f"Comparison: trained on {training.name}, tested on the {pairs.pairs} candidate pairs of {test.name}"
            f" (generated), {pairs.true_pairs} of them true\n({pairs.true_links} true links without duplicates; the"
            " others follow from other links or have no common key)\n"
            f"{'':22}{'prec.':>9}{'recall':>9}{'F1':>9}{'train s':>10}{'score s':>10}{'peak MB':>10}"
        )
        found: Report = {"pairs": asdict(pairs)}
        for result in comparison.compare(training, test):
            found[result.peer] = asdict(result)
            typer.echo(_line(result))
        report[f"trained on {training.name}, tested on {test.name}"] = found
        typer.echo("")
    return report


def _line(result: Result | Absent) -> str:
    if isinstance(result, Absent):
        return f"{result.peer:22} {result.reason}"
    return (
        f"{result.peer:22}{_ratios(result.agreement)}"
        f"{result.seconds_to_learn:10.1f}{result.seconds_to_score:10.2f}{result.peak_megabytes:10.0f}"
    )


# -- text similarity, LLM latency -------------------------------------------------------------------------------------


def _text(folder: Path) -> Report:
    report: Report = {}
    for task in text.TASKS:
        if not (folder / task.name).is_dir():
            typer.echo(f"{folder} lacks {task.name}: skipping its text similarity.")
            continue
        found = text.measure(folder, task)
        report[task.name] = asdict(found)
        typer.echo(
            f"Text similarity alone on {task.name} (public, real): F1 {found.agreement.f1:.4f}, goal {task.goal};"
            f" precision {found.agreement.precision:.4f}, recall {found.agreement.recall:.4f};"
            f" every row paired: F1 {found.forced.f1:.4f}; {found.seconds:.1f} s"
        )
    typer.echo("")
    return report


def _llm_latency() -> Report:
    found = llm_latency.measure()
    typer.echo(
        f"{llm_latency.DOCUMENTS} ambiguous documents in one invocation,"
        f" model latency {llm_latency.ANSWER_SECONDS:.0f} s, {found.permits} permits:"
        f" {found.seconds:.1f} s (goal: under {llm_latency.GOAL_SECONDS:.0f});"
        f" {found.questions} model calls, {found.concurrent} concurrent, {found.matched} matches"
    )
    return asdict(found)


if __name__ == "__main__":
    sys.exit(main())
