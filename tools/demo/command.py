"""`counterfoil demo`: process sample documents and check the results.

The results are compared with the documents' ground truth.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from secrets import token_hex
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.table import Column, Table
from rich.text import Text

from cli.commands.clusters import OUTCOMES, show_cluster, type_order
from cli.commands.uploads import STATES, summary
from cli.failures import CloudError, ExitCode
from cli.local.cloud import Cloud, running_cloud
from cli.local.paths import ROOT, CloudPaths, cloud_paths
from cli.output import DONE, FAILED, Counters, print_json, stdout, type_label, write_json
from counterfoil.documents.three_way_match.model import VARIANCE_LABELS
from counterfoil.documents.upload_list import State, Upload
from tools.demo import demo_cases
from tools.demo.demo_cases import CaseResults, DemoCases, open_codes, running_receiver
from tools.demo.sample_check import EXPECTED_STATES, Mismatch, mismatches
from tools.demo.sample_run import Run
from tools.sample_generator import Sample, generate
from tools.sample_generator.cases import IN_ONE_FILE

OUTPUT = ROOT / "build"
Members = Sequence[Upload]
"""A cluster's documents."""


def demo(
    context: typer.Context,
    *,
    seed: Annotated[int, typer.Option(help="Seed of the sample documents.")] = 1,
    keep: Annotated[bool, typer.Option("--keep-running", help="Keep the cloud running after the demo.")] = False,
    timeout: Annotated[int, typer.Option(min=1, help="Maximum seconds to wait for all documents.")] = 300,
    as_json: Annotated[bool, typer.Option("--json", help="Print build/demo.json instead of tables.")] = False,
) -> None:
    """Process sample documents and show the results.

    Starts the local cloud if necessary, and stops it afterward. The seed determines the documents of three tenants. The
    documents are uploaded to S3 or sent by mail, and their results are posted to a webhook receiver. The results are
    compared with the expected results, shown, and written to build/demo.json. Exits with 1 if there is a mismatch.
    """
    with (
        running_cloud(cloud_paths(context.obj), OUTPUT / "demo-logs", keep=keep) as cloud,
        running_receiver() as receiver,
    ):
        sample = generate(seed)
        run = Run.prepare(cloud, sample, OUTPUT / "demo")
        started = time.monotonic()
        cases = DemoCases.start(cloud, seed, f"cases-{token_hex(3)}", OUTPUT / "demo" / "cases", receiver)
        try:
            with Counters(["uploaded", "acquired", "ingested", "matched"], len(sample.files)) as counters:
                uploads = run.watch(timeout, counters.show)
            results = cases.watch(timeout)
        finally:
            cases.end()
        seconds = time.monotonic() - started
        clusters = _clusters(uploads)
    unexpected = [*mismatches(sample, uploads), *demo_cases.mismatches(cases.cases, results)]
    report = _report(run, uploads, clusters, unexpected, seconds) | {"cases": _cases_record(cases, results)}
    write_json(OUTPUT / "demo.json", report)
    if as_json:
        print_json(report)
    else:
        _show_cases(cases, results)
        _show(sample, uploads, clusters, unexpected, seconds)
        _show_next_steps(cloud_paths(context.obj), cases.tenant.slug)
    if unexpected:
        raise typer.Exit(ExitCode.FAILED_CHECK)


def _show_next_steps(paths: CloudPaths, slug: str) -> None:
    """Print the next commands, which depend on whether the cloud is still running."""
    try:
        Cloud.at(paths)
    except CloudError:
        steps = {
            "demo --keep-running": "run the demo again and keep the cloud running",
            "up": "start an empty cloud for your own files",
            "--help": "list all commands",
        }
    else:
        steps = {
            "console --open": "open the console in a browser",
            f"clusters --tenant {slug}": "clusters with their price differences and short deliveries",
            "review": "matches that need review",
            "dlq list": "files that failed",
            "down": "stop the cloud and delete its data",
        }
    stdout().print(Text("\nNext steps (the command is .venv/bin/counterfoil):", "bold"))
    table = Table.grid(padding=(0, 2))
    for command, purpose in steps.items():
        table.add_row(f"  counterfoil {command}", Text(purpose, "dim"))
    stdout().print(table)


def _report(
    run: Run,
    uploads: Mapping[tuple[str, str], Upload],
    clusters: Sequence[Members],
    unexpected: Sequence[Mismatch],
    seconds: float,
) -> dict[str, Any]:
    expected = {(file.tenant, file.name): EXPECTED_STATES[file.truth.state] for file in run.sample.files}
    reason = {(file.tenant, file.name): file.truth.reason for file in run.sample.files}
    return {
        "seed": run.sample.seed,
        "as_expected": not unexpected,
        "seconds": round(seconds, 3),
        "tenants": {slug: tenant.slug for slug, tenant in run.tenants.items()},
        "counts": dict(Counter(upload.state for upload in uploads.values())),
        "documents": [
            {**asdict(upload), "expected": expected[key], "because": reason[key]} for key, upload in uploads.items()
        ],
        "clusters": [
            {"cluster": members[0].cluster_id, "members": [asdict(member) for member in members]}
            for members in clusters
        ],
        "mismatches": [mismatch.record for mismatch in unexpected],
    }


def _cases_record(run: DemoCases, results: CaseResults) -> dict[str, Any]:
    return {
        "tenant": run.tenant.slug,
        "cases": [
            {"case": case.title, "by_mail": case.by_mail, "cluster": cluster}
            for case in run.cases.cases
            for cluster in [results.cluster_of(case)]
        ],
        "documents_of_one_file": results.parts,
        "results_received": len(results.received),
        "states_received": results.document_states,
    }


def _show_cases(run: DemoCases, results: CaseResults) -> None:
    screen = stdout()
    screen.rule("Three-way match of each case", align="left")
    table = Table(Column("case"), Column("variances"), Column("outcome", no_wrap=True), box=None, pad_edge=False)
    single = [case for case in run.cases.cases if case.title != IN_ONE_FILE]
    for case in single:
        cluster = results.cluster_of(case)
        result = cluster["comparison"] if cluster is not None else None
        names = sorted({VARIANCE_LABELS[code] for _, code in open_codes(cluster)}) if cluster is not None else []
        outcome = result["outcome"] if result is not None else "not computed"
        title = Text(case.title).append("  by mail" if case.by_mail else "", "dim")
        table.add_row(title, Text(", ".join(names)), Text(outcome, OUTCOMES.get(outcome, "")))
    screen.print(table)
    example = next(
        (cluster for case in single if case.by_mail and (cluster := results.cluster_of(case)) and open_codes(cluster)),
        None,
    )
    if example is not None:
        screen.print(Text("\nExample, as shown by 'counterfoil clusters show':\n", "bold"))
        show_cluster(screen, example)
    mails, bundled = len(run.cases.mails()), len(run.cases.bundle.documents)
    screen.print(
        f"\n{mails} cases arrived by email, and {results.parts} of {bundled} invoices from one file. The receiver has "
        f"results for {len(results.received)} clusters and {results.document_states} documents so far."
    )


def _show(
    sample: Sample,
    uploads: Mapping[tuple[str, str], Upload],
    clusters: Sequence[Members],
    unexpected: Sequence[Mismatch],
    seconds: float,
) -> None:
    screen = stdout()
    screen.rule("Clusters", align="left")
    _show_clusters(clusters)
    screen.rule("Not matched", align="left")
    _show_notes(uploads, (State.IGNORED, State.DUPLICATE))
    screen.rule("Failed", align="left")
    _show_notes(uploads, (State.FAILED,))
    screen.rule("Documents by state", align="left")
    _show_counts(uploads)
    screen.print(f"{len(uploads)} documents in {seconds:.1f} s. Full report: {OUTPUT / 'demo.json'}")
    if not unexpected:
        screen.print(DONE, f"All results of sample {sample.seed} are as expected.")
        return
    screen.print(FAILED, f"{len(unexpected)} results of sample {sample.seed} are unexpected:")
    for mismatch in unexpected:
        screen.print(Text(f"  {mismatch.tenant}: {', '.join(mismatch.files)}", "bold"))
        screen.print(Text(f"    expected: {mismatch.expected}"))
        screen.print(Text(f"    found:    {mismatch.found}", "red"))


def _clusters(uploads: Mapping[tuple[str, str], Upload]) -> list[Members]:
    """Return the documents of each cluster, largest cluster first."""
    members: dict[UUID, list[Upload]] = defaultdict(list)
    for upload in uploads.values():
        if upload.state is State.SUCCEEDED and upload.cluster_id is not None:
            members[upload.cluster_id].append(upload)
    return sorted(members.values(), key=lambda documents: (-len(documents), documents[0].received_at, documents[0].key))


def _show_clusters(clusters: Sequence[Members]) -> None:
    """Print a table of clusters, then the unmatched documents with their reasons.

    The table contains only clusters with several documents.
    """
    several = [members for members in clusters if len(members) > 1]
    single = [members for members in clusters if len(members) == 1]
    table = Table("tenant", Column("matched documents", overflow="fold"), box=None, pad_edge=False)
    for members in several:
        in_order = sorted(members, key=lambda document: (type_order(document.type), document.number or ""))
        names = (Text(f"{type_label(document.type)} {document.number}") for document in in_order)
        table.add_row(members[0].tenant, Text(" · ").join(names))
    stdout().print(table)
    if single:
        stdout().print(Text("\nWithout a match", "bold"))
    for (document,) in single:
        line = Text(f"  {type_label(document.type)} {document.number or ''}").append(f"  {document.file}", "cyan")
        stdout().print(line.append(f"  {document.tenant}", "dim").append(f"  {document.note or ''}", "yellow"))
    stdout().print(f"{len(several)} clusters with several documents, {len(single)} documents without a match.")


def _show_notes(uploads: Mapping[tuple[str, str], Upload], states: Sequence[State]) -> None:
    columns = (Column("tenant", no_wrap=True), Column("file", overflow="fold"), "state", "reason")
    table = Table(*columns, box=None, pad_edge=False)
    for (tenant, file), upload in uploads.items():
        if upload.state in states:
            table.add_row(tenant, Text(file), Text(upload.state, STATES[upload.state]), Text(upload.note or ""))
    stdout().print(table)


def _show_counts(uploads: Mapping[tuple[str, str], Upload]) -> None:
    final = [state for state in State if state.is_final]
    table = Table("type", *(Column(Text(state, STATES[state]), justify="right") for state in final), box=None)
    counts = Counter((upload.type, upload.state) for upload in uploads.values())
    for type_ in sorted({type_ for type_, _ in counts}, key=lambda name: name or "~"):
        cells = [counts[type_, state] for state in final]
        table.add_row(type_label(type_) or "not a document", *(str(cell or "") for cell in cells))
    stdout().print(table)
    stdout().print(summary(upload.state for upload in uploads.values()))
