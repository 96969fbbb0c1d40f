"""Audit trail: one hash chain per tenant that records who changed what and when.

Each entry is numbered, and contains the previous entry's SHA-256 hash and its own: `hash = sha256(previous_hash ||
canonical JSON of all other fields)`. An entry that was changed, removed, inserted or moved breaks the chain. The chain
head, which is stored in a separate table, shows whether the newest entries are missing. A rewrite of the whole chain
can be detected only with an earlier copy of the chain head.

Entries contain ids and hashes, but no text from users. Hashes of guessable values are keyed (`hmac_digest`). The chain
for tenant None covers unassigned objects and requires a transaction of the delivery role. A tenant's chain requires a
transaction of `Database.tenant`.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil.db import Connection


@dataclass(frozen=True)
class AuditRecord:
    """An action to record."""

    actor: str
    action: str
    targets: Sequence[str]
    """Ids of the changed objects."""
    at: datetime
    note: str | None = None
    """The audit trail stores only the note's keyed hash."""
    version_before: int | None = None
    version_after: int | None = None
    detail: Mapping[str, Any] | None = None
    """Ids, hashes and short constants. Fractions are not allowed, because PostgreSQL formats them differently."""


@dataclass(frozen=True)
class AuditEntry:
    """A recorded action."""

    number: int
    recorded_at: datetime
    actor: str
    action: str
    targets: Sequence[str]
    version_before: int | None
    version_after: int | None
    note_hash: bytes | None
    detail: Mapping[str, Any]
    previous_hash: bytes | None
    """None for the first entry."""
    hash: bytes

    def expected_hash(self, tenant_id: UUID | None) -> bytes:
        """Compute the hash of the entry's content and the previous hash."""
        content = {
            "tenant_id": None if tenant_id is None else str(tenant_id),
            "number": self.number,
            "recorded_at": self.recorded_at.astimezone(UTC).isoformat(timespec="microseconds"),
            "actor": self.actor,
            "action": self.action,
            "targets": list(self.targets),
            "version_before": self.version_before,
            "version_after": self.version_after,
            "note_hash": None if self.note_hash is None else self.note_hash.hex(),
            "detail": self.detail,
        }
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256((self.previous_hash or b"") + canonical.encode()).digest()


# A separate statement: the next one must see entries that were recorded while this one waited for the lock.
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('audit/' || coalesce(%s::uuid::text, '-'), 0))"
_HEAD = "SELECT number, hash FROM audit_head WHERE tenant_id {}"
_COLUMNS = ", ".join(AuditEntry.__dataclass_fields__)
_RECORD = f"""
INSERT INTO audit_entry (tenant_id, {_COLUMNS})
VALUES (%(tenant_id)s, {", ".join(f"%({name})s" for name in AuditEntry.__dataclass_fields__)})
"""  # noqa: S608  # only column names


def record(connection: Connection, tenant_id: UUID | None, entry: AuditRecord) -> int:
    """Add an entry in the caller's transaction, and return its number.

    Other writers for the same tenant wait until this transaction ends, so call it last.

    Raises:
        ConflictError: another writer held the lock for too long.
    """
    connection.execute(_LOCK, [tenant_id])
    number, previous = chain_head(connection, tenant_id) or (0, None)
    chained = AuditEntry(
        number=number + 1,
        recorded_at=entry.at,
        actor=entry.actor,
        action=entry.action,
        targets=list(entry.targets),
        version_before=entry.version_before,
        version_after=entry.version_after,
        note_hash=None if entry.note is None else hmac_digest(connection, tenant_id, entry.note.encode()),
        detail=dict(entry.detail or {}),
        previous_hash=previous,
        hash=b"",
    )
    values = {**vars(chained), "detail": Jsonb(chained.detail), "hash": chained.expected_hash(tenant_id)}
    connection.execute(_RECORD.encode(), {"tenant_id": tenant_id, **values})
    return chained.number


class Change(NamedTuple):
    """Author and time of a change to a tenant's setup."""

    tenant_id: UUID
    by: str
    at: datetime

    def record(
        self,
        connection: Connection,
        action: str,
        *,
        target: object = None,
        reason: str | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Add an audit entry. Call it last, because it locks the tenant's audit trail."""
        entry = AuditRecord(self.by, action, [str(target or self.tenant_id)], self.at, reason, detail=detail)
        record(connection, self.tenant_id, entry)


_SALT = "SELECT audit_salt FROM tenant WHERE id = %s"
_UNASSIGNED_SALT = "SELECT salt FROM audit_salt_global"


def hmac_digest(connection: Connection, tenant_id: UUID | None, value: bytes) -> bytes:
    """Return the HMAC-SHA-256 of a value, keyed with the tenant's secret.

    For unassigned objects (tenant None), the key is a secret for the whole database. Hashes can outlive a tenant, but
    the tenant's secret is deleted with it. After that, the value behind a hash cannot be found by guessing.
    """
    cursor = connection.execute(_UNASSIGNED_SALT) if tenant_id is None else connection.execute(_SALT, [tenant_id])
    ((salt,),) = cursor.fetchall()
    return hmac.digest(salt, value, "sha256")


def page(
    connection: Connection,
    tenant_id: UUID | None,
    *,
    limit: int,
    before: int | None = None,
    target: str | None = None,
) -> list[AuditEntry]:
    """Return at most `limit` entries, newest first.

    If `before` is given, return only entries with a lower number. If `target` is given, return only entries about it.
    The filter by target scans the whole audit trail, which is short.
    """
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM audit_entry WHERE tenant_id {_tenant_condition(tenant_id)}"  # noqa: S608  # only column names
        " AND (%(before)s::bigint IS NULL OR number < %(before)s)"
        " AND (%(target)s::text IS NULL OR %(target)s = ANY(targets)) ORDER BY number DESC LIMIT %(limit)s".encode(),
        {"tenant": tenant_id, "before": before, "target": target, "limit": limit},
    )
    return [AuditEntry(*row) for row in rows]


def chain_head(connection: Connection, tenant_id: UUID | None) -> tuple[int, bytes] | None:
    """Return the number and hash of the last written entry, even if it is missing.

    Returns None if no entry was ever written.
    """
    return connection.execute(_HEAD.format(_tenant_condition(tenant_id)).encode(), {"tenant": tenant_id}).fetchone()


def _tenant_condition(tenant_id: UUID | None) -> str:
    """Return a condition on tenant_id that can use an index."""
    return "IS NULL" if tenant_id is None else "= %(tenant)s"
