"""`counterfoil evaluate`: matches a labelled set with the real code on a database of its own; says how well it did."""

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
from cli.output import Checklist, aside, print_json
from counterfoil.db import Database, retry_conflicts
from counterfoil.documents import matching
from counterfoil.documents.matching.score import using
from functions.migrate.runner import apply
from tools.evaluation import variances
from tools.evaluation.agreement import (
    Agreement,
    Edge,
    bills,
    edges_agreement,
    edges_agreement_of_bills,
    pairs_agreement,
)
from tools.evaluation.labeled_set import LabelledDocument, LabelledSet, read_set
from tools.training.file import read_weights

MIGRATIONS = Path(__file__).parents[2] / "migrations"
NAMESPACE = UUID("0d1f5c0a-52a7-5f0e-8f0c-6f6b1f4b9c5e")
"""Tenants of a set get the same ids in every run."""
DATABASE = "evaluation"

Findings = Mapping[variances.Finding, str]


@dataclass(frozen=True)
class Matched:
    """What matching a set came to."""

    clusters: Mapping[str, str]
    """By document, the name of its cluster."""
    edges: Mapping[Edge, Mapping[str, Any]]
    """Links, each with its evidence as it is kept."""
    reasons: Mapping[str, str]
    """By document, why it found no partner, or why it is in doubt."""
    skipped: int
    decided_again: int
    seconds: float


def evaluate(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", exists=True, file_okay=False, help="Folder with documents.jsonl and, for figures, labels."
        ),
    ],
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder for what is found, as CSV files; made if it is not there.")
    ],
    *,
    shuffle: Annotated[
        int | None, typer.Option(metavar="SEED", help="Match in a random order instead of the order of receipt.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Documents matched at the same time.")] = 1,
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="Match weights by `train`, not those shipped."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Match a labeled set of documents and write the results.

    Written are predicted.csv (a cluster for each document), edges.csv and, where the set has variances.csv, the
    variances that were found in these clusters and in the true ones, each with its verdict.

    The set is loaded into an empty database that is gone afterwards (in memory, not durable: the speed is that of the
    code).
    """
    labelled = read_set(directory)
    order = sorted(labelled.documents, key=lambda document: (document.received_at, document.id))
    if shuffle is not None:
        random.Random(shuffle).shuffle(order)  # noqa: S311  # an order that can be repeated, no secret
    steps = Checklist()
    out.mkdir(parents=True, exist_ok=True)
    with processes.interruptible(), steps.shown(), using(read_weights(weights)) if weights else nullcontext():
        matched = match(order, steps, concurrency)
    _write(out, order, matched)
    found = _variances(labelled, ids_of(order), matched)
    for name, findings in found.items():
        place = "" if name == "variance_agreement" else "_in_true_clusters"
        _write_variances(out / f"variances{place}.csv", labelled.variances or (), findings)
    figures = _figures(labelled, matched) | _agreements(labelled, found)
    figures |= {"concurrency": concurrency, "shuffle": shuffle}
    if as_json:
        print_json(figures)
    else:
        _show(figures)


def match(order: Collection[LabelledDocument], steps: Checklist, concurrency: int = 1) -> Matched:
    """Match documents in this order, with the real code on a database of its own."""
    ids = ids_of(order)
    steps.begin("Start PostgreSQL")
    with temporary_server() as server:
        steps.begin(f"Load {len(order)} documents")
        tenants = _load(server, order, ids)
        steps.begin("Match them")
        with closing(Database(server.url(DATABASE, "counterfoil_worker"), max_connections=concurrency)) as database:
            outcomes, seconds = _match(database, tenants, ids, order, concurrency, steps)
        return _read(server, ids, outcomes, seconds)


# -- loading --------------------------------------------------------------------------------------------------------


_DOCUMENTS = """
COPY document (id, tenant_id, source_id, bucket, key, file_name, size, content_hash, received_at, last_seen_at,
               type, structured_data, matching_status, matching_revision)
FROM STDIN
"""


def _load(server: Server, documents: Collection[LabelledDocument], ids: Mapping[str, UUID]) -> dict[str, UUID]:
    """Make the database, a tenant for each of the set's, and the documents. Returns the tenants' ids by name."""
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
                place = ("evaluation", document.id, document.id, 0, hash_, document.received_at, document.received_at)
                copy.write_row(
                    (ids[document.id], tenant, tenant, *place, document.type, Jsonb(document.data), "pending", 1)
                )
        cursor.execute("ANALYZE")
    return tenants


def ids_of(documents: Iterable[LabelledDocument]) -> dict[str, UUID]:
    """Ids in the order of the set's own, which settle ties between documents received at the same moment."""
    return {id_: UUID(int=rank) for rank, id_ in enumerate(sorted(document.id for document in documents), start=1)}


# -- matching -------------------------------------------------------------------------------------------------------


def _match(
    database: Database,
    tenants: Mapping[str, UUID],
    ids: Mapping[str, UUID],
    order: Collection[LabelledDocument],
    concurrency: int,
    steps: Checklist,
) -> tuple[Counter[str], float]:
    """Match every document. Returns how it went, counted, and the seconds that it took."""
    outcomes: Counter[str] = Counter()
    began = time.perf_counter()
    with ThreadPoolExecutor(concurrency) as pool:
        went = pool.map(lambda document: _match_one(database, tenants[document.tenant], ids[document.id]), order)
        for done, outcome in enumerate(went, start=1):
            outcomes[outcome] += 1
            steps.progress(done, len(order))
    return outcomes, time.perf_counter() - began


def _read(server: Server, ids: Mapping[str, UUID], outcomes: Counter[str], seconds: float) -> Matched:
    """What the database holds in the end, under the set's own names."""
    names = {id_: name for name, id_ in ids.items()}
    with psycopg.connect(server.url(DATABASE)) as connection:
        rows = connection.execute("SELECT id, coalesce(cluster_id, id), matching_reason FROM document").fetchall()
        clusters = {names[id_]: names[cluster_id] for id_, cluster_id, _ in rows}
        reasons = {names[id_]: reason for id_, _, reason in rows if reason}
        pairs = connection.execute("SELECT document_a_id, document_b_id, evidence FROM document_match").fetchall()
    edges = {frozenset((names[a], names[b])): evidence for a, b, evidence in pairs}
    return Matched(clusters, edges, reasons, outcomes["skipped"], outcomes["decided again"], seconds)


def _match_one(database: Database, tenant_id: UUID, document_id: UUID) -> str:
    """What the worker does with one message, but for the delivery around it. Returns how it went."""
    decided = retry_conflicts(lambda: matching.search_and_decide(database, tenant_id, document_id))
    if isinstance(decided, matching.Skip):
        return "skipped"

    def write() -> matching.Written:
        with database.tenant(tenant_id) as connection:
            written = matching.write(connection, decided, datetime.now(UTC))
            connection.execute(
                "UPDATE document SET matching_status = 'succeeded', matching_reason = %s WHERE id = %s",
                [written.reason, document_id],
            )
            return written

    return "decided again" if retry_conflicts(write).decided_again else "matched"


# -- figures --------------------------------------------------------------------------------------------------------


def _write(out: Path, order: Iterable[LabelledDocument], matched: Matched) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / "predicted.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv_writer(file, lineterminator="\n")
        rows.writerow(("document", "cluster"))
        rows.writerows(sorted((document.id, matched.clusters[document.id]) for document in order))
    with (out / "edges.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv_writer(file, lineterminator="\n")
        rows.writerow(("a", "b"))
        rows.writerows(sorted(sorted(edge) for edge in matched.edges))


def _figures(labelled: LabelledSet, matched: Matched) -> dict[str, Any]:
    count = len(labelled.documents)
    figures: dict[str, Any] = {
        "set": labelled.name,
        "documents": count,
        "skipped": matched.skipped,
        "edges": len(matched.edges),
        "clusters": len(set(matched.clusters.values())),
        "decided_again": matched.decided_again,
        "seconds": round(matched.seconds, 3),
        "documents_per_second": round(count / matched.seconds, 1) if matched.seconds else None,
    }
    if labelled.edges is not None:
        figures["edge_agreement"] = asdict(edges_agreement(matched.edges.keys(), labelled.edges))
        bill = bills(labelled.documents, labelled.edges)
        figures["edge_agreement_copies_as_one"] = asdict(
            edges_agreement_of_bills(matched.edges.keys(), labelled.edges, bill)
        )
    if labelled.clusters is not None:
        figures["cluster_pair_agreement"] = asdict(pairs_agreement(matched.clusters, labelled.clusters))
    return figures


def _variances(labelled: LabelledSet, ids: Mapping[str, UUID], matched: Matched) -> dict[str, Findings]:
    """What is found wrong, by where it was looked for: in the clusters found, and in the true ones."""
    if labelled.variances is None:
        return {}
    looked_in: dict[str, tuple[Mapping[str, str], Collection[Edge]]] = {
        "variance_agreement": (matched.clusters, matched.edges)
    }
    if labelled.clusters is not None and labelled.edges is not None:
        looked_in["variance_agreement_in_true_clusters"] = (labelled.clusters, labelled.edges)
    return {
        name: variances.find(labelled.documents, ids, clusters, edges) for name, (clusters, edges) in looked_in.items()
    }


def _agreements(labelled: LabelledSet, found: Mapping[str, Findings]) -> dict[str, Any]:
    def compared(findings: Iterable[variances.Finding]) -> set[tuple[str, str, int]]:
        return variances.counted(findings, labelled.documents, labelled.edges or ())

    true = compared(labelled.variances or ())
    agreements = {}
    for name, findings in found.items():
        both = compared(findings)
        agreements[name] = asdict(Agreement.of(len(both), len(true), len(true & both)))
    return agreements


def _write_variances(path: Path, true: Collection[variances.Finding], found: Findings) -> None:
    """Each variance that is true or found, whether it is both, and its sentence."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv_writer(file, lineterminator="\n")
        rows.writerow(("document", "code", "verdict", "sentence"))
        for finding in sorted(found.keys() | set(true)):
            verdict = "missed" if finding not in found else "right" if finding in true else "wrong"
            rows.writerow((*finding, verdict, found.get(finding, "")))


def _show(figures: Mapping[str, Any]) -> None:
    table = Table("", "", show_header=False, box=None)
    for name, value in figures.items():
        if isinstance(value, Mapping):
            text = ", ".join(f"{key} {value[key]:.4f}" for key in ("precision", "recall", "f1"))
            table.add_row(
                name.replace("_", " "), f"{text} ({value['found']} found, {value['true']} true, {value['both']} both)"
            )
        elif value is not None:
            table.add_row(name.replace("_", " "), str(value))
    aside().print(table)
