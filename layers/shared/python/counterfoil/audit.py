"""The audit trail: who changed what, when, as a chain of hashes, one for each tenant.

Each entry is numbered and holds the SHA-256 of the entry before it and of itself: `hash = sha256(previous_hash ||
canonical JSON of all else)`. An entry that was changed, taken out, put in or moved breaks the chain at its place; the
head of the chain, which the database keeps, shows whether the newest ones are missing. Who could write all of it anew
can be found out only with a copy of the head from before.

It holds ids and hashes, no text of anybody's; hashes of what could be guessed are keyed (`keyed`). A chain whose tenant
is None is about what is nobody's; its functions run in a transaction of the delivery role, all others in one of
`Database.tenant`.
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
class Operation:
    """What somebody does."""

    actor: str
    action: str
    targets: Sequence[str]
    """Ids of what it is done to."""
    at: datetime
    note: str | None = None
    """Its words are not kept here, but their hash."""
    version_before: int | None = None
    version_after: int | None = None
    detail: Mapping[str, Any] | None = None
    """Ids, hashes and short words of ours; JSON, without fractions, which PostgreSQL writes in another way."""


@dataclass(frozen=True)
class AuditEntry:
    """An operation as the trail has it."""

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
    """None: it is the first one."""
    hash: bytes

    def rightful_hash(self, tenant_id: UUID | None) -> bytes:
        """What `hash` must be, if the entry says what it said when it was written."""
        said = {
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
        canonical = json.dumps(said, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256((self.previous_hash or b"") + canonical.encode()).digest()


# A statement of its own: what was recorded while it waited is seen by the next one.
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('audit/' || coalesce(%s::uuid::text, '-'), 0))"
_HEAD = "SELECT number, hash FROM audit_head WHERE tenant_id {}"
_COLUMNS = ", ".join(AuditEntry.__dataclass_fields__)
_RECORD = f"""
INSERT INTO audit_entry (tenant_id, {_COLUMNS})
VALUES (%(tenant_id)s, {", ".join(f"%({name})s" for name in AuditEntry.__dataclass_fields__)})
"""  # noqa: S608  # names alone


def record(connection: Connection, tenant_id: UUID | None, operation: Operation) -> int:
    """Add an entry in the caller's transaction, and return its number.

    Whoever records for the same tenant waits until this transaction has ended: record last, so that it is not long.

    Raises:
        ConflictError: another one took too long.
    """
    connection.execute(_LOCK, [tenant_id])
    number, previous = head(connection, tenant_id) or (0, None)
    entry = AuditEntry(
        number=number + 1,
        recorded_at=operation.at,
        actor=operation.actor,
        action=operation.action,
        targets=list(operation.targets),
        version_before=operation.version_before,
        version_after=operation.version_after,
        note_hash=None if operation.note is None else keyed(connection, tenant_id, operation.note.encode()),
        detail=dict(operation.detail or {}),
        previous_hash=previous,
        hash=b"",
    )
    values = {**vars(entry), "detail": Jsonb(entry.detail), "hash": entry.rightful_hash(tenant_id)}
    connection.execute(_RECORD.encode(), {"tenant_id": tenant_id, **values})
    return entry.number


class Change(NamedTuple):
    """Author and time of a change of a tenant's setup."""

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
        operation = Operation(self.by, action, [str(target or self.tenant_id)], self.at, reason, detail=detail)
        record(connection, self.tenant_id, operation)


_SALT = "SELECT audit_salt FROM tenant WHERE id = %s"
_SALT_OF_NOBODY = "SELECT salt FROM audit_salt_of_nobody"


def keyed(connection: Connection, tenant_id: UUID | None, said: bytes) -> bytes:
    """The HMAC-SHA-256 of something, by the tenant's secret; of what is nobody's, by one that the database has for it.

    The trail can outlive its tenant, and the secret does not: then nobody finds out by guessing what was hashed.
    """
    asked = connection.execute(_SALT_OF_NOBODY) if tenant_id is None else connection.execute(_SALT, [tenant_id])
    ((salt,),) = asked.fetchall()
    return hmac.digest(salt, said, "sha256")


def page(
    connection: Connection,
    tenant_id: UUID | None,
    *,
    limit: int,
    before: int | None = None,
    target: str | None = None,
) -> list[AuditEntry]:
    """At most `limit` entries, the newest first; those before the number `before`, and those of one `target`.

    Entries of a target are looked for one after the other: people write the trail, and it is no longer for that.
    """
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM audit_entry WHERE tenant_id {_of(tenant_id)}"  # noqa: S608  # names alone
        " AND (%(before)s::bigint IS NULL OR number < %(before)s)"
        " AND (%(target)s::text IS NULL OR %(target)s = ANY(targets)) ORDER BY number DESC LIMIT %(limit)s".encode(),
        {"tenant": tenant_id, "before": before, "target": target, "limit": limit},
    )
    return [AuditEntry(*row) for row in rows]


def head(connection: Connection, tenant_id: UUID | None) -> tuple[int, bytes] | None:
    """Number and hash of the entry that was written last, whether it is there or not."""
    return connection.execute(_HEAD.format(_of(tenant_id)).encode(), {"tenant": tenant_id}).fetchone()


def _of(tenant_id: UUID | None) -> str:
    """A condition that an index can be read by."""
    return "IS NULL" if tenant_id is None else "= %(tenant)s"
