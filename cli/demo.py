"""`counterfoil demo`: sample documents go through the deployed app; what comes of each is compared with its truth."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from cli.cloud.place import ROOT, place_of
from cli.cloud.visit import visited
from cli.clusters import Cluster, show_clusters_in_short
from cli.failures import ExitCode
from cli.outcomes import Outcome, State
from cli.sample import Sample, generate
from cli.sample_run import Run
from cli.tables import STYLES, label, summary
from cli.terminal import DONE, FAILED, Counters, page, print_json, write_json
from cli.verdict import STATE_OF_TRUTH, Deviation, deviations

OUTPUT = ROOT / "build"


def demo(
    context: typer.Context,
    *,
    seed: Annotated[int, typer.Option(help="Which sample: every number makes another one, with its own truth.")] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the cloud up, even if the demo has started it.")] = False,
    timeout: Annotated[int, typer.Option(min=1, help="Seconds until every document must be done.")] = 300,
    as_json: Annotated[bool, typer.Option("--json", help="Print what build/demo.json says, and no tables.")] = False,
) -> None:
    """Feed sample documents to the app and show what came of each.

    Brings the local cloud up if it is not, and takes it down again then. The documents of two tenants are made from the
    seed and uploaded to S3; what comes of them is compared with what the sample says must come of them, shown, and
    written to build/demo.json. Exits with 1 when anything deviates.
    """
    with visited(place_of(context.obj), OUTPUT / "demo-logs", keep=keep) as cloud:
        sample = generate(seed)
        run = Run.prepared(cloud, sample, OUTPUT / "demo")
        began = time.monotonic()
        with Counters(["uploaded", "acquired", "ingested", "matched"], len(sample.files)) as shown:
            found = run.watch(timeout, shown.show)
        seconds = time.monotonic() - began
        grouped = run.clusters()
    wrong = deviations(sample, found)
    report = _report(run, found, grouped, wrong, seconds)
    write_json(OUTPUT / "demo.json", report)
    if as_json:
        print_json(report)
    else:
        _show(sample, found, grouped, wrong, seconds)
    if wrong:
        raise typer.Exit(ExitCode.UNWANTED)


def _report(
    run: Run,
    found: Mapping[tuple[str, str], Outcome],
    grouped: Sequence[Cluster],
    wrong: Sequence[Deviation],
    seconds: float,
) -> dict[str, Any]:
    expected = {(file.tenant, file.name): STATE_OF_TRUTH[file.truth.state] for file in run.sample.files}
    reason = {(file.tenant, file.name): file.truth.reason for file in run.sample.files}
    return {
        "seed": run.sample.seed,
        "as_expected": not wrong,
        "seconds": round(seconds, 3),
        "tenants": {slug: tenant.slug for slug, tenant in run.tenants.items()},
        "counts": dict(Counter(outcome.state for outcome in found.values())),
        "documents": [
            {**outcome.record, "expected": expected[place], "because": reason[place]}
            for place, outcome in found.items()
        ],
        "clusters": [cluster.record for cluster in grouped],
        "deviations": [deviation.record for deviation in wrong],
    }


def _show(
    sample: Sample,
    found: Mapping[tuple[str, str], Outcome],
    grouped: Sequence[Cluster],
    wrong: Sequence[Deviation],
    seconds: float,
) -> None:
    screen = page()
    screen.rule("Clusters", align="left")
    show_clusters_in_short(grouped)
    screen.rule("Not matched, and why", align="left")
    _show_notes(found, (State.KEPT, State.SEEN_AGAIN))
    screen.rule("Failed, and why", align="left")
    _show_notes(found, (State.FAILED,))
    screen.rule("Documents by state", align="left")
    _show_counts(found)
    screen.print(f"{len(found)} documents in {seconds:.1f} s. All of it as JSON: {OUTPUT / 'demo.json'}")
    if not wrong:
        screen.print(DONE, f"Every document became what sample {sample.seed} says it must.")
        return
    screen.print(FAILED, f"{len(wrong)} things are not what sample {sample.seed} says:")
    for one in wrong:
        screen.print(Text(f"  {one.tenant}: {', '.join(one.files)}", "bold"))
        screen.print(Text(f"    expected: {one.expected}"))
        screen.print(Text(f"    found:    {one.found}", "red"))


def _show_notes(found: Mapping[tuple[str, str], Outcome], states: Sequence[State]) -> None:
    columns = (Column("tenant", no_wrap=True), Column("file", overflow="fold"), "state", "why")
    table = Table(*columns, box=None, pad_edge=False)
    for (tenant, file), outcome in found.items():
        if outcome.state in states:
            table.add_row(tenant, Text(file), Text(outcome.state, STYLES[outcome.state]), Text(outcome.note))
    page().print(table)


def _show_counts(found: Mapping[tuple[str, str], Outcome]) -> None:
    final = [state for state in State if state.is_final]
    table = Table("type", *(Column(Text(state, STYLES[state]), justify="right") for state in final), box=None)
    counts = Counter((outcome.type, outcome.state) for outcome in found.values())
    for type_ in sorted({type_ for type_, _ in counts}, key=lambda one: one or "~"):
        cells = [counts[type_, state] for state in final]
        table.add_row(label(type_) or "not a document", *(str(cell or "") for cell in cells))
    page().print(table)
    page().print(summary(list(found.values())))
