"""Verifies the audit trail that a test has written, in the database."""

from collections.abc import Iterator
from uuid import UUID

from counterfoil import audit
from counterfoil.db import Connection


def recorded(connection: Connection, tenant_id: UUID | None) -> list[tuple[str, str, list[str]]]:
    """Return actor, action and targets of each audit entry, oldest first, of a chain that verifies."""
    assert broken(connection, tenant_id) is None
    entries = reversed(audit.page(connection, tenant_id, limit=1000))
    return [(entry.actor, entry.action, list(entry.targets)) for entry in entries]


def broken(connection: Connection, tenant_id: UUID | None) -> audit.Broken | None:
    """The first place where a tenant's trail, or nobody's, is broken; None: it is whole."""

    def entries() -> Iterator[audit.AuditEntry]:
        yield from reversed(audit.page(connection, tenant_id, limit=1000))

    return audit.verify(tenant_id, entries(), lambda: audit.head(connection, tenant_id))
