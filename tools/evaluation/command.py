"""`counterfoil evaluate`: match a labeled set and measure the result.

Matching uses a temporary database.
"""

import random
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from csv import writer as csv_writer
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID, uuid5

import psycopg
import typer
from psycopg.types.json import Jsonb
from rich.table import Table

from cli.local import processes
from cli.local.postgres import Server, temporary_server
from cli.output import Checklist, print_json, stderr
from counterfoil.db import Database, retry_on_conflict
from counterfoil.documents import matching
from counterfoil.documents.matching.score import using
from functions.migrate.runner import apply
from tools.evaluation import variances
from tools.evaluation.agreement import (
    Agreement,
    Edge,
    edges_agreement,
    invoice_groups,
    invoice_level_agreement,
    pairs_agreement,
)
from tools.evaluation.labeled_set import LabeledDocument, LabeledSet, read_set
from tools.training.weights_file import read_weights

MIGRATIONS = Path(__file__).parents[2] / "migrations"
NAMESPACE = UUID("0d1f5c0a-52a7-5f0e-8f0c-6f6b1f4b9c5e")
"""Namespace for tenant ids, which gives a tenant the same id in every run."""
DATABASE = "evaluation"

Findings = Mapping[variances.Finding, str]


@dataclass(frozen=True)
class MatchingResult:
    """Result of matching a labeled set."""

    clusters: Mapping[str, str]
    """Cluster name by document."""
    edges: Mapping[Edge, Mapping[str, Any]]
    """Links with their stored evidence."""
    reasons: Mapping[str, str]
    """Reason for a missing or ambiguous match, by document."""
    skipped: int
    redecided: int
    seconds: float


def evaluate(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", exists=True, file_okay=False, help="Folder with documents.jsonl, and labels if available."
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--output-dir", file_okay=False, help="Folder for the results as CSV files. Created if missing."),
    ],
    *,
    shuffle: Annotated[
        int | None, typer.Option(metavar="SEED", help="Match in a random order instead of the order of receipt.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Number of documents to match concurrently.")] = 1,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", exists=True, dir_okay=False, help="Match weights from `train` instead of the shipped ones."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Match a labeled set of documents and write the results.

    Writes predicted.csv (a cluster per document) and edges.csv. If the set has variances.csv, also writes the variances
    found in the predicted clusters, and whether each is right, wrong or missed. If clusters and edges are labeled, does
    the same for the true clusters.

    The set is loaded into a temporary database, in memory if possible, so that disks do not affect the duration.
    """
    labeled = read_set(directory)
    order = sorted(labeled.documents, key=lambda document: (document.received_at, document.id))
    if shuffle is not None:
        random.Random(shuffle).shuffle(order)  # noqa: S311  # repeatable on purpose, nothing is secret
    steps = Checklist()
    out.mkdir(parents=True, exist_ok=True)
    with processes.interruptible(), steps.live(), using(read_weights(weights)) if weights else nullcontext():
        matched = match(order, steps, concurrency)
    _write(out, order, matched)
    findings_by_figure = _variances(labeled, document_ids(order), matched)
    for name, findings in findings_by_figure.items():
        suffix = "" if name == "variance_agreement" else "_in_true_clusters"
        _write_variances(out / f"variances{suffix}.csv", labeled.variances or (), findings)
    figures = _figures(labeled, matched) | _agreements(labeled, findings_by_figure)
    figures |= {"concurrency": concurrency, "shuffle": shuffle}
    if as_json:
        print_json(figures)
    else:
        _show(figures)


def match(order: Collection[LabeledDocument], steps: Checklist, concurrency: int = 1) -> MatchingResult:
    """Match documents in this order, in a temporary database."""
    ids = document_ids(order)
    steps.begin("Start PostgreSQL")
    with temporary_server() as server:
        steps.begin(f"Load {len(order)} documents")
        tenants = _load(server, order, ids)
        steps.begin("Match documents")
        with closing(Database(server.url(DATABASE, "counterfoil_worker"), max_connections=concurrency)) as database:
            outcomes, seconds = _match(database, tenants, ids, order, concurrency, steps)
        return _read(server, ids, outcomes, seconds)


# -- loading --------------------------------------------------------------------------------------------------------


_DOCUMENTS = """
COPY document (id, tenant_id, source_id, bucket, key, file_name, size, content_hash, received_at, last_duplicate_at,
               type, structured_data, matching_status, matching_revision)
FROM STDIN
"""


def _load(server: Server, documents: Collection[LabeledDocument], ids: Mapping[str, UUID]) -> dict[str, UUID]:
    """Create the database, its tenants and the documents.

    Returns the tenant ids by name.
    """
    url = server.create_database(DATABASE)
    apply(url, MIGRATIONS)
    names = sorted({document.tenant for document in documents})
    tenants = {name: uuid5(NAMESPACE, f"tenant/{name}") for name in names}
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO organization (id, name) VALUES (%s, 'evaluation')", [NAMESPACE])
        cursor.executemany(
            "INSERT INTO tenant (id, organization_id, slug, name) VALUES (%s, %s, %s, %s)",
            [(tenants[name], NAMESPACE, f"tenant-{number}", name) for number, name in enumerate(names)],
        )
        now = datetime.now(UTC)
        for name, id_ in tenants.items():
            cursor.execute(
                "INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at, status)"
                " VALUES (%s, %s, 'evaluation', %s, '', 0, %s, 'succeeded')",
                [id_, id_, name, now],
            )
            cursor.execute(
                "INSERT INTO source (id, tenant_id, job_id, kind, bucket, key, received_at)"
                " VALUES (%s, %s, %s, 'upload', 'evaluation', %s, %s)",
                [id_, id_, id_, name, now],
            )
        with cursor.copy(_DOCUMENTS) as copy:
            for document in documents:
                tenant = tenants[document.tenant]
                hash_ = sha256(document.id.encode()).digest()
                columns = ("evaluation", document.id, document.id, 0, hash_, document.received_at, document.received_at)
                copy.write_row(
                    (ids[document.id], tenant, tenant, *columns, document.type, Jsonb(document.data), "pending", 1)
                )
        cursor.execute("ANALYZE")
    return tenants


def document_ids(documents: Iterable[LabeledDocument]) -> dict[str, UUID]:
    """Return ids that sort like the set's ids.

    Ids break ties between equal times of receipt.
    """
    return {id_: UUID(int=rank) for rank, id_ in enumerate(sorted(document.id for document in documents), start=1)}


# -- matching -------------------------------------------------------------------------------------------------------


def _match(
    database: Database,
    tenants: Mapping[str, UUID],
    ids: Mapping[str, UUID],
    order: Collection[LabeledDocument],
    concurrency: int,
    steps: Checklist,
) -> tuple[Counter[str], float]:
    """Match every document.

    Returns the number of documents per outcome, and the duration in seconds.
    """
    outcomes: Counter[str] = Counter()
    started = time.perf_counter()
    with ThreadPoolExecutor(concurrency) as pool:
        results = pool.map(lambda document: _match_one(database, tenants[document.tenant], ids[document.id]), order)
        for finished, outcome in enumerate(results, start=1):
            outcomes[outcome] += 1
            steps.progress(finished, len(order))
    return outcomes, time.perf_counter() - started


def _read(server: Server, ids: Mapping[str, UUID], outcomes: Counter[str], seconds: float) -> MatchingResult:
    """Read the results from the database, by the set's document names."""
    names = {id_: name for name, id_ in ids.items()}
    with psycopg.connect(server.url(DATABASE)) as connection:
        rows = connection.execute("SELECT id, coalesce(cluster_id, id), matching_skip_reason FROM document").fetchall()
        clusters = {names[id_]: names[cluster_id] for id_, cluster_id, _ in rows}
        reasons = {names[id_]: reason for id_, _, reason in rows if reason}
        pairs = connection.execute("SELECT document_a_id, document_b_id, evidence FROM document_match").fetchall()
    edges = {frozenset((names[a], names[b])): evidence for a, b, evidence in pairs}
    return MatchingResult(clusters, edges, reasons, outcomes["skipped"], outcomes["decided again"], seconds)


def _match_one(database: Database, tenant_id: UUID, document_id: UUID) -> str:
    """Match one document as the worker does, but without delivery.

    Returns the outcome.
    """
    pending = retry_on_conflict(lambda: matching.search_and_decide(database, tenant_id, document_id))
    if isinstance(pending, matching.SkipMatching):
        return "skipped"

    def write() -> matching.MatchResult:
        with database.tenant(tenant_id) as connection:
            result = matching.write(connection, pending, datetime.now(UTC))
            connection.execute(
                "UPDATE document SET matching_status = 'succeeded', matching_skip_reason = %s WHERE id = %s",
                [result.reason, document_id],
            )
            return result

    return "decided again" if retry_on_conflict(write).was_repeated else "matched"


# -- figures --------------------------------------------------------------------------------------------------------


def _write(out: Path, order: Iterable[LabeledDocument], matched: MatchingResult) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / "predicted.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv_writer(file, lineterminator="\n")
        rows.writerow(("document", "cluster"))
        rows.writerows(sorted((document.id, matched.clusters[document.id]) for document in order))
    with (out / "edges.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv_writer(file, lineterminator="\n")
        rows.writerow(("a", "b"))
        rows.writerows(sorted(sorted(edge) for edge in matched.edges))


def _figures(labeled: LabeledSet, matched: MatchingResult) -> dict[str, Any]:
    count = len(labeled.documents)
    figures: dict[str, Any] = {
        "set": labeled.name,
        "documents": count,
        "skipped": matched.skipped,
        "edges": len(matched.edges),
        "clusters": len(set(matched.clusters.values())),
        "redecided": matched.redecided,
        "seconds": round(matched.seconds, 3),
        "documents_per_second": round(count / matched.seconds, 1) if matched.seconds else None,
    }
    if labeled.edges is not None:
        figures["edge_agreement"] = asdict(edges_agreement(matched.edges.keys(), labeled.edges))
        group_of = invoice_groups(labeled.documents, labeled.edges)
        figures["edge_agreement_copies_as_one"] = asdict(
            invoice_level_agreement(matched.edges.keys(), labeled.edges, group_of)
        )
    if labeled.clusters is not None:
        figures["cluster_pair_agreement"] = asdict(pairs_agreement(matched.clusters, labeled.clusters))
    return figures


def _variances(labeled: LabeledSet, ids: Mapping[str, UUID], matched: MatchingResult) -> dict[str, Findings]:
    """Return the variances in the predicted and the true clusters, by figure name."""
    if labeled.variances is None:
        return {}
    clusterings: dict[str, tuple[Mapping[str, str], Collection[Edge]]] = {
        "variance_agreement": (matched.clusters, matched.edges)
    }
    if labeled.clusters is not None and labeled.edges is not None:
        clusterings["variance_agreement_in_true_clusters"] = (labeled.clusters, labeled.edges)
    return {
        name: variances.find(labeled.documents, ids, clusters, edges) for name, (clusters, edges) in clusterings.items()
    }


def _agreements(labeled: LabeledSet, findings_by_figure: Mapping[str, Findings]) -> dict[str, Any]:
    def comparable(findings: Iterable[variances.Finding]) -> set[tuple[str, str, int]]:
        return variances.countable(findings, labeled.documents, labeled.edges or ())

    true = comparable(labeled.variances or ())
    agreements = {}
    for name, findings in findings_by_figure.items():
        found = comparable(findings)
        agreements[name] = asdict(Agreement.from_counts(len(found), len(true), len(true & found)))
    return agreements


def _write_variances(path: Path, true: Collection[variances.Finding], found: Findings) -> None:
    """Write each true or found variance with its verdict and message.

    The verdict is right, wrong or missed.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv_writer(file, lineterminator="\n")
        rows.writerow(("document", "code", "verdict", "message"))
        for finding in sorted(found.keys() | set(true)):
            verdict = "missed" if finding not in found else "right" if finding in true else "wrong"
            rows.writerow((*finding, verdict, found.get(finding, "")))


def _show(figures: Mapping[str, Any]) -> None:
    table = Table("", "", show_header=False, box=None)
    for name, value in figures.items():
        if isinstance(value, Mapping):
            text = ", ".join(f"{key} {value[key]:.4f}" for key in ("precision", "recall", "f1"))
            table.add_row(
                name.replace("_", " "),
                f"{text} ({value['predicted']} predicted, {value['expected']} expected, {value['correct']} correct)",
            )
        elif value is not None:
            table.add_row(name.replace("_", " "), str(value))
    stderr().print(table)
