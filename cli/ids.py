"""Documents by their ids, whole or as tables show them: the last letters, which are drawn at random."""

import re
from uuid import UUID

from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.tenants import Tenant

SHOWN = 8
"""Letters of an id that tables show."""
LEAST = 4
PART = re.compile(rf"[0-9a-f-]{{{LEAST},36}}")
WHOLE = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DOCUMENTS = """
SELECT d.id, t.id, t.slug FROM (
    SELECT id, tenant_id FROM document
    UNION ALL SELECT document_id, tenant_id FROM document_removal WHERE %(removed)s
) AS d JOIN tenant t ON t.id = d.tenant_id
WHERE right(d.id::text, length(%(end)s)) = %(end)s ORDER BY d.id LIMIT 2
"""


def short(id_: UUID | None) -> str:
    """An id as tables show it."""
    return "" if id_ is None else str(id_)[-SHOWN:]


def document(cloud: Cloud, text: str, *, removed: bool = False) -> tuple[Tenant, UUID]:
    """Return the document with this id or end of an id, and its tenant.

    With `removed`, documents that were replaced or deleted are found, too.

    Raises:
        UsageError: no document or several documents have it.
    """
    end = text.strip().lower()
    if not PART.fullmatch(end):
        raise UsageError(f"'{text}' is no id of a document: take one from 'counterfoil documents'.")
    with cloud.database.delivery() as connection:
        found = connection.execute(_DOCUMENTS, {"end": end, "removed": removed}).fetchall()
    if not found:
        raise UsageError(f"There is no document '{text}': 'counterfoil documents' shows those that there are.")
    if len(found) > 1:
        raise UsageError(f"More than one document's id ends with '{text}': write more of it.")
    ((id_, tenant_id, slug),) = found
    return Tenant(tenant_id, slug), id_
