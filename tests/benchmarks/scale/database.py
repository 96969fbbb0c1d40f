"""Fill a database with an archive: documents and their keys, as matching would have left them, in bulk."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from uuid import UUID, uuid5

import psycopg
from psycopg.types.json import Jsonb

from cli.postgres import Server
from counterfoil.documents.matching.keys import keys
from counterfoil.documents.matching.profile import document
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
        connection.execute("ANALYZE document")
        connection.execute("ANALYZE document_key")
    return perf_counter() - began


def _load(url: str, tenant: Tenant, left: frozenset[UUID]) -> None:
    chunk: list[Paper] = []
    with psycopg.connect(url) as connection:
        for paper in tenant.papers():
            chunk.append(paper)
            if len(chunk) == _CHUNK:
                _copy(connection, chunk, left)
                chunk = []
        _copy(connection, chunk, left)


def _copy(connection: psycopg.Connection, papers: Iterable[Paper], left: frozenset[UUID]) -> None:
    papers = list(papers)
    with connection.cursor() as cursor:
        with cursor.copy(_DOCUMENTS) as copy:
            for paper in papers:
                tenant, waits = tenant_id(paper.tenant), paper.id in left
                name, hash_ = str(paper.id), sha256(paper.id.bytes).digest()
                copy.write_row(
                    (paper.id, tenant, tenant, "scale", name, name, 0, hash_, paper.received_at, paper.received_at,
                     paper.kind, Jsonb(paper.data), "pending" if waits else "succeeded", 1, None if waits else paper.id)
                )  # fmt: skip
        with cursor.copy(_KEYS) as copy:
            for paper in papers:
                if paper.id not in left:
                    for key in keys(document(paper.id, paper.received_at, paper.kind, paper.data)):
                        copy.write_row((tenant_id(paper.tenant), paper.id, *key))
    connection.commit()
