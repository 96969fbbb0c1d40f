"""Verifies the audit trail that a test has written, in the database."""

from collections.abc import Iterator
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.dead_letters import audit


def broken(connection: Connection, tenant_id: UUID | None) -> audit.Broken | None:
    """The first place where a tenant's trail, or nobody's, is broken; None: it is whole."""

    def entries() -> Iterator[audit.AuditEntry]:
        yield from reversed(audit.page(connection, tenant_id, limit=1000))

    return audit.verify(tenant_id, entries(), lambda: audit.head(connection, tenant_id))
