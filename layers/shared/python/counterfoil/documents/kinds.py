"""Kinds of work items for documents."""

from typing import LiteralString

from counterfoil.delivery.work import WorkKind, register

_DOCUMENT: LiteralString = """
SELECT jsonb_build_object('bucket', bucket, 'key', key, 'file_name', file_name), received_at FROM document
WHERE id = %(id)s
"""
ACQUISITION = register(
    WorkKind(
        "acquisition",
        "acquisition_job",
        description_query="""
        SELECT jsonb_build_object('bucket', bucket, 'key', key), created_at FROM acquisition_job
        WHERE id = %(id)s
    """,
    )
)
INGESTION = register(WorkKind("ingestion", "ingestion_job", description_query=_DOCUMENT))
MATCHING = register(
    WorkKind("matching", "document", description_query=_DOCUMENT, prefix="matching_", created_column="received_at")
)
DIAGNOSTICS = register(
    WorkKind(
        "diagnostics",
        "cluster_diagnostics",
        description_query="""
        SELECT jsonb_build_object('cluster', id), created_at FROM cluster_diagnostics WHERE id = %(id)s
    """,
    )
)
BY_WORKER = {kind.worker: kind for kind in (ACQUISITION, INGESTION, MATCHING, DIAGNOSTICS)}
