"""Verify the audit trail of a test in its database."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from cli.commands.audit import Broken, Entry, verify
from counterfoil import audit
from counterfoil.db import Connection
from functions.admin_api.api.dead_letters import AuditRecord


def recorded(connection: Connection, tenant_id: UUID | None) -> list[tuple[str, str, list[str]]]:
    """Return actor, action and targets of each audit entry, oldest first, of a chain that verifies."""
    assert broken(connection, tenant_id) is None
    entries = reversed(audit.page(connection, tenant_id, limit=1000))
    return [(entry.actor, entry.action, list(entry.targets)) for entry in entries]


def broken(connection: Connection, tenant_id: UUID | None) -> Broken | None:
    """Return the first broken place of the trail of a tenant, or of no tenant; None: it is unbroken."""

    def head() -> dict[str, Any] | None:
        found = audit.head(connection, tenant_id)
        return None if found is None else {"number": found[0], "hash": found[1].hex()}

    def entries() -> Iterator[Entry]:
        for entry in reversed(audit.page(connection, tenant_id, limit=1000)):
            yield AuditRecord.model_validate(entry).model_dump(mode="json")

    return verify(None if tenant_id is None else str(tenant_id), entries(), head)
