"""Helpers that verify a tenant's audit trail."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from cli.commands.audit import ChainError, Entry, verify
from counterfoil import audit
from counterfoil.db import Connection
from functions.admin_api.api.dead_letters import AuditRecord


def verified_changes(connection: Connection, tenant_id: UUID | None) -> list[tuple[str, str, list[str]]]:
    """Verify the hash chain.

    Return the actor, action and targets of each entry, oldest first.
    """
    assert first_broken_entry(connection, tenant_id) is None
    entries = reversed(audit.page(connection, tenant_id, limit=1000))
    return [(entry.actor, entry.action, list(entry.targets)) for entry in entries]


def first_broken_entry(connection: Connection, tenant_id: UUID | None) -> ChainError | None:
    """Return the first broken entry in an audit trail, or None if the chain is valid."""

    def head() -> dict[str, Any] | None:
        chain_head = audit.chain_head(connection, tenant_id)
        return None if chain_head is None else {"number": chain_head[0], "hash": chain_head[1].hex()}

    def entries() -> Iterator[Entry]:
        for entry in reversed(audit.page(connection, tenant_id, limit=1000)):
            yield AuditRecord.model_validate(entry).model_dump(mode="json")

    return verify(None if tenant_id is None else str(tenant_id), entries(), head)
