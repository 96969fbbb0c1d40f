"""The data that webhooks and exports deliver about a cluster: findings, documents and matches."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil.db import Connection

# Put together by PostgreSQL, so that no number of a document is read and written on the way.
_CLUSTER = """
WITH member AS (SELECT * FROM document WHERE tenant_id = %(tenant)s AND cluster_id = %(cluster)s)
SELECT (%(findings)s::jsonb || jsonb_build_object(
    'documents', (SELECT jsonb_agg(jsonb_build_object(
        'id', id, 'type', type, 'file_name', file_name, 'structured_data', structured_data,
        'received_at', to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
    ) ORDER BY id) FROM member),
    'matches', (SELECT coalesce(jsonb_agg(jsonb_build_object(
        'document_a_id', document_a_id, 'document_b_id', document_b_id, 'confidence', confidence,
        'decided_by', decided_by
    ) ORDER BY document_a_id, document_b_id), '[]') FROM document_match
                WHERE document_a_id IN (SELECT id FROM member) AND document_b_id IN (SELECT id FROM member))
))::text
WHERE EXISTS (SELECT FROM member)
"""


def cluster_data(connection: Connection, tenant_id: UUID, cluster_id: UUID, findings: Mapping[str, Any]) -> str | None:
    """Return a cluster as JSON: `findings` with `documents` and `matches`. None if it has no documents."""
    row = connection.execute(
        _CLUSTER, {"tenant": tenant_id, "cluster": cluster_id, "findings": Jsonb(dict(findings))}
    ).fetchone()
    return None if row is None else str(row[0])
