"""Fill a database with an archive in bulk: documents, keys, edges and clusters, as matching leaves them."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from uuid import UUID, uuid5

import psycopg
from psycopg.types.json import Jsonb

from cli.local.postgres import Server
from counterfoil.documents.matching import rules
from counterfoil.documents.matching.keys import Key, keys, seeks
from counterfoil.documents.matching.normalise import DELIVERY, Document, document
from counterfoil.documents.matching.rules import By
from counterfoil.documents.matching.score import score
from functions.migrate.runner import apply
from tests.benchmarks.scale.archive import Paper, Tenant

MIGRATIONS = Path(__file__).parents[3] / "migrations"
NAMESPACE = UUID("6a0f1f2b-4b0d-5f42-8a51-6f2b7a3d9c10")
_CHUNK = 5_000
_DOCUMENTS = """
COPY document (id, tenant_id, source_id, bucket, key, file_name, size, content_hash, received_at, last_seen_at, type,
               structured_data, matching_status, matching_revision, cluster_id)
FROM STDIN
"""
_KEYS = "COPY document_key (tenant_id, document_id, type, key) FROM STDIN"
_EDGES = """
COPY document_match (tenant_id, document_a_id, document_b_id, score, confidence, evidence, decided_by, reasoning,
                     decided_at) FROM STDIN
"""


def tenant_id(number: int) -> UUID:
    """A tenant's id."""
    return uuid5(NAMESPACE, f"tenant/{number}")


def prepare(server: Server, name: str, tenants: int) -> str:
    """Make the database and its tenants. Returns its URL for the superuser."""
    url = server.create_database(name)
    apply(url, MIGRATIONS)
    now = datetime.now(UTC)
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO organization (id, name) VALUES (%s, 'scale')", [NAMESPACE])
        for number in range(tenants):
            id_ = tenant_id(number)
            connection.execute(
                "INSERT INTO tenant (id, organization_id, slug, name) VALUES (%s, %s, %s, %s)",
                [id_, NAMESPACE, f"tenant-{number}", f"Tenant {number}"],
            )
            connection.execute(
                "INSERT INTO acquisition_job (id, tenant_id, bucket, key, sequencer, size, created_at, status)"
                " VALUES (%s, %s, 'scale', %s, '', 0, %s, 'succeeded')",
                [id_, id_, str(number), now],
            )
            connection.execute(
                "INSERT INTO source (id, tenant_id, job_id, kind, bucket, key, received_at)"
                " VALUES (%s, %s, %s, 'upload', 'scale', %s, %s)",
                [id_, id_, id_, str(number), now],
            )
    return url


def load(url: str, tenants: Sequence[Tenant], left: frozenset[UUID], processes: int = 2) -> float:
    """Load all papers; those of `left` wait to be matched, and have no keys yet. Returns seconds."""
    began = perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        for done in [pool.submit(_load, url, tenant, left) for tenant in tenants]:
            done.result()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")  # else autovacuum does so while something is measured
        connection.execute("CHECKPOINT")
    return perf_counter() - began


def _load(url: str, tenant: Tenant, left: frozenset[UUID]) -> None:
    chunk: list[Paper] = []
    with psycopg.connect(url) as connection:
        for paper in tenant.papers():
            if paper.order is None and len(chunk) >= _CHUNK:  # a deal begins
                _copy(connection, chunk, left)
                chunk = []
            chunk.append(paper)
        _copy(connection, chunk, left)


def _copy(connection: psycopg.Connection, papers: Iterable[Paper], left: frozenset[UUID]) -> None:
    papers = list(papers)
    matched = {
        paper.id: document(paper.id, paper.received_at, paper.kind, paper.data)
        for paper in papers
        if paper.id not in left
    }
    clusters: dict[UUID, list[UUID]] = {}
    for paper in papers:
        if paper.id in matched:
            deal = paper.order if paper.order in matched else paper.id
            clusters.setdefault(deal, []).append(paper.id)
    cluster = {id_: min(ids) for ids in clusters.values() for id_ in ids}
    with connection.cursor() as cursor:
        with cursor.copy(_DOCUMENTS) as copy:
            for paper in papers:
                tenant, waits = tenant_id(paper.tenant), paper.id in left
                name, hash_ = str(paper.id), sha256(paper.id.bytes).digest()
                copy.write_row(
                    (paper.id, tenant, tenant, "scale", name, name, 0, hash_, paper.received_at, paper.received_at,
                     paper.kind, Jsonb(paper.data), "pending" if waits else "succeeded", 1, cluster.get(paper.id))
                )  # fmt: skip
        with cursor.copy(_KEYS) as copy:
            for paper in papers:
                if paper.id in matched:
                    for key in _keys(matched[paper.id], matched.get(paper.order) if paper.order else None):
                        copy.write_row((tenant_id(paper.tenant), paper.id, *key))
        with cursor.copy(_EDGES) as copy:
            tenant = tenant_id(papers[0].tenant)
            for id_, ids in clusters.items():
                for child, parent, by in _edges(matched[id_], [matched[other] for other in ids if other != id_]):
                    bits = score(child, parent)
                    evidence = {"by": by, "child": str(child.id), "features": [list(item) for item in bits.evidence]}
                    ends = sorted((child.id, parent.id))
                    copy.write_row((tenant, *ends, bits.total, "high", Jsonb(evidence), "rules", "", child.received_at))
    connection.commit()


def _keys(child: Document, order: Document | None) -> frozenset[Key]:
    """By which it is found: what it says, and what it seeks where its number did not settle the order."""
    named = [order] if order is not None and rules.names(child, order) else []
    return keys(child) | seeks(child, rules.undecided(child, named, lambda _: False))


def _edges(order: Document, children: Sequence[Document]) -> Iterator[tuple[Document, Document, By]]:
    """The links of a deal: of what follows from the order to it, and of what follows through it to its deliveries."""
    for child in children:
        yield child, order, "reference" if rules.names(child, order) else "content"
        if rules.follows_through(child):
            deliveries = [other for other in children if other.kind == DELIVERY]
            for delivery in rules.belonging(child, deliveries):
                yield child, delivery, "through"
