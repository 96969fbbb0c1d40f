"""Load an archive in bulk, with documents, keys, matches and clusters."""

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
from counterfoil.documents.matching.keys import Key, keys, search_keys
from counterfoil.documents.matching.normalize import DELIVERY, Document, document
from counterfoil.documents.matching.rules import MatchMethod
from counterfoil.documents.matching.score import score
from functions.migrate.runner import apply
from tests.benchmarks.scale.archive import ArchiveDocument, Tenant

MIGRATIONS = Path(__file__).parents[3] / "migrations"
NAMESPACE = UUID("6a0f1f2b-4b0d-5f42-8a51-6f2b7a3d9c10")
_CHUNK = 5_000
_DOCUMENTS = """
COPY document (id, tenant_id, source_id, bucket, key, file_name, size, content_hash, received_at, last_duplicate_at,
               type, structured_data, matching_status, matching_revision, cluster_id)
FROM STDIN
"""
_KEYS = "COPY document_key (tenant_id, document_id, type, value) FROM STDIN"
_EDGES = """
COPY document_match (tenant_id, document_a_id, document_b_id, score, confidence, evidence, decided_by, reasoning,
                     decided_at) FROM STDIN
"""


def tenant_id(number: int) -> UUID:
    """Return the id of the tenant with this number."""
    return uuid5(NAMESPACE, f"tenant/{number}")


def prepare(server: Server, name: str, tenants: int) -> str:
    """Create a database with this number of tenants.

    Return its URL for the superuser.
    """
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


def load(url: str, tenants: Sequence[Tenant], unmatched: frozenset[UUID], processes: int = 2) -> float:
    """Load all documents of the tenants. Return the duration in seconds.

    Documents whose id is in `unmatched` are pending and have no keys, matches or cluster.
    """
    began = perf_counter()
    with ProcessPoolExecutor(processes) as pool:
        for done in [pool.submit(_load, url, tenant, unmatched) for tenant in tenants]:
            done.result()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")  # otherwise autovacuum would run during the measurement
        connection.execute("CHECKPOINT")
    return perf_counter() - began


def _load(url: str, tenant: Tenant, unmatched: frozenset[UUID]) -> None:
    chunk: list[ArchiveDocument] = []
    with psycopg.connect(url) as connection:
        for doc in tenant.documents():
            if doc.order is None and len(chunk) >= _CHUNK:  # an order starts a new deal
                _copy(connection, chunk, unmatched)
                chunk = []
            chunk.append(doc)
        _copy(connection, chunk, unmatched)


def _copy(connection: psycopg.Connection, docs: Iterable[ArchiveDocument], unmatched: frozenset[UUID]) -> None:
    docs = list(docs)
    matched = {doc.id: document(doc.id, doc.received_at, doc.kind, doc.data) for doc in docs if doc.id not in unmatched}
    clusters: dict[UUID, list[UUID]] = {}
    for doc in docs:
        if doc.id in matched:
            deal = doc.order if doc.order in matched else doc.id
            clusters.setdefault(deal, []).append(doc.id)
    cluster = {id_: min(ids) for ids in clusters.values() for id_ in ids}
    with connection.cursor() as cursor:
        with cursor.copy(_DOCUMENTS) as copy:
            for doc in docs:
                tenant, waits = tenant_id(doc.tenant), doc.id in unmatched
                name, hash_ = str(doc.id), sha256(doc.id.bytes).digest()
                copy.write_row(
                    (doc.id, tenant, tenant, "scale", name, name, 0, hash_, doc.received_at, doc.received_at,
                     doc.kind, Jsonb(doc.data), "pending" if waits else "succeeded", 1, cluster.get(doc.id))
                )  # fmt: skip
        with cursor.copy(_KEYS) as copy:
            for doc in docs:
                if doc.id in matched:
                    for key in _keys(matched[doc.id], matched.get(doc.order) if doc.order else None):
                        copy.write_row((tenant_id(doc.tenant), doc.id, *key))
        with cursor.copy(_EDGES) as copy:
            tenant = tenant_id(docs[0].tenant)
            for id_, ids in clusters.items():
                for child, parent, by in _edges(matched[id_], [matched[other] for other in ids if other != id_]):
                    bits = score(child, parent)
                    evidence = {"by": by, "child": str(child.id), "features": [list(item) for item in bits.evidence]}
                    ends = sorted((child.id, parent.id))
                    copy.write_row((tenant, *ends, bits.total, "high", Jsonb(evidence), "rules", "", child.received_at))
    connection.commit()


def _keys(child: Document, order: Document | None) -> frozenset[Key]:
    """Return a document's own keys, and search keys for unreferenced parent types."""
    named = [order] if order is not None and rules.references(child, order) else []
    return keys(child) | search_keys(child, rules.open_candidates(child, named, lambda _: False))


def _edges(order: Document, children: Sequence[Document]) -> Iterator[tuple[Document, Document, MatchMethod]]:
    """Yield a deal's links from each child to the purchase order.

    Through the order, some children are also linked to delivery notes.
    """
    for child in children:
        yield child, order, "reference" if rules.references(child, order) else "content"
        if rules.has_transitive_matches(child):
            deliveries = [other for other in children if other.kind == DELIVERY]
            for delivery in rules.matching_deliveries(child, deliveries):
                yield child, delivery, "through"
