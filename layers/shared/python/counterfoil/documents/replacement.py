"""Puts a new file in the place of a document: asked for before the file is there, done when the file has been read.

A new file is a new document, and takes the place of an old one that goes. The same id would not do: what is known by
it (edges, answers of a language model, what destinations were told) is about the old content.

It goes in three steps, each in a transaction with what it belongs to. The intention is stored before the file is
uploaded. The acquisition of the file appoints the document that it becomes. The ingestion that reads this one removes
the old one, so that whoever sees the one does not see the other. What cannot be read costs nothing: the old document
stays, and goes if the new one is read after all.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from counterfoil import audit
from counterfoil.audit import Operation
from counterfoil.db import Connection
from counterfoil.delivery.dead_letter import renew
from counterfoil.delivery.work import Send
from counterfoil.documents import matching
from counterfoil.documents.files import File
from counterfoil.documents.removal import remove

STAYS = "The document that it is to replace stays until it has been read."
_WHY = "The same file was uploaded again, to replace another document."

_INTEND = """
INSERT INTO document_replacement (tenant_id, bucket, key, document_id, requested_by, reason, requested_at)
SELECT tenant_id, %(bucket)s, %(key)s, id, %(by)s, %(reason)s, %(now)s FROM document
WHERE id = %(document)s AND tenant_id = %(tenant)s
"""


def intend(
    connection: Connection,
    tenant_id: UUID,
    document_id: UUID,
    file: File,
    now: datetime,
    *,
    by: str,
    reason: str | None = None,
) -> bool:
    """Store that a file which is uploaded next takes the place of a document. False where there is no such document.

    `file` is known by its bucket and key, which nothing else is uploaded to.
    """
    values = {
        "tenant": tenant_id,
        "document": document_id,
        "bucket": file.bucket,
        "key": file.key,
        "by": by,
        "reason": reason,
        "now": now,
    }
    if connection.execute(_INTEND, values).rowcount == 0:
        return False
    operation = Operation(by, "document replacement requested", [str(document_id)], now, reason)
    audit.record(connection, tenant_id, operation)
    return True


@dataclass(frozen=True)
class Replacement:
    """The intention to put a file in the place of a document."""

    id: UUID
    document_id: UUID
    requested_by: str
    reason: str | None


_INTENDED = """
SELECT id, document_id, requested_by, reason FROM document_replacement
WHERE tenant_id = %s AND bucket = %s AND key = %s AND settled_at IS NULL
"""


def intended(connection: Connection, tenant_id: UUID, file: File) -> Replacement | None:
    """The replacement that a file was uploaded for; the tenant's matching lock is taken where there is one.

    So it has to be asked for before the transaction locks a document.
    """
    row = connection.execute(_INTENDED, [tenant_id, file.bucket, file.key]).fetchone()
    if row is None:
        return None
    matching.wait_for_lock(connection, tenant_id)
    return Replacement(*row)


_APPOINT = "UPDATE document_replacement SET successor = %s WHERE id = %s"
_IS_READ = """
SELECT FROM document d WHERE id = %s AND (
    structured_data IS NOT NULL OR EXISTS (SELECT FROM document part WHERE part.parent_id = d.id)
    OR EXISTS (SELECT FROM document_copy part WHERE part.parent_id = d.id)
)
"""
_WAS_BEGUN = "SELECT id FROM ingestion_job WHERE id = %s AND revision > 0"


def appoint(
    connection: Connection, replacement: Replacement, new_id: UUID | None, now: datetime, *, is_new: bool
) -> tuple[list[Send], str]:
    """Say which document takes the place: the one that the file became. At once where that one was read before.

    None, where the file became several documents or none, leaves the old one for good. One that the tenant had before
    (not `is_new`), but that was not read, is read anew. Returns the messages owed, and a sentence on what was done.
    """
    if new_id is None:
        _settle(connection, replacement.id, now)
        return [], "The earlier document stays: what was to replace it is not one document."
    if new_id == replacement.document_id:
        _settle(connection, replacement.id, now)
        return [], "The earlier document stays: this is the same file."
    connection.execute(_APPOINT, [new_id, replacement.id])
    if connection.execute(_IS_READ, [new_id]).fetchone() is not None:
        sends, told = carry_out(connection, new_id, now)
        return sends, told or ""
    sends = []
    if not is_new:
        # A try of it that is under way began before the appointment, and would not carry it out.
        begun = [id_ for (id_,) in connection.execute(_WAS_BEGUN, [new_id])]
        sends = renew(connection, "ingestion", begun, now, actor=replacement.requested_by, why=_WHY)
    return sends, "It takes the place of an earlier document, which stays until this one has been read."


_AWAITED = "SELECT tenant_id FROM document_replacement WHERE successor = %s AND settled_at IS NULL LIMIT 1"
_NEXT = """
SELECT tenant_id, id, document_id, requested_by, reason FROM document_replacement
WHERE successor = %s AND settled_at IS NULL ORDER BY requested_at, id LIMIT 1
"""
# Whose place a document was to take that is replaced itself: the newer one takes it.
_HAND_ON = "UPDATE document_replacement SET successor = %s WHERE successor = %s AND settled_at IS NULL"


def lock_awaited(connection: Connection, new_id: UUID) -> None:
    """Take the tenant's matching lock if a document is to take another one's place, before the caller locks any."""
    for (tenant_id,) in connection.execute(_AWAITED, [new_id]):
        matching.wait_for_lock(connection, tenant_id)


def carry_out(connection: Connection, new_id: UUID, now: datetime) -> tuple[list[Send], str | None]:
    """Remove what a document takes the place of, in the transaction that writes what was read of it.

    Returns the messages owed, and a sentence on what was done; None where it replaces nothing.
    """
    sends: list[Send] = []
    told = None
    while (row := connection.execute(_NEXT, [new_id]).fetchone()) is not None:
        tenant_id, replacement = row[0], Replacement(*row[1:])
        _settle(connection, replacement.id, now)
        if replacement.document_id == new_id:  # it was to be replaced by what it replaces itself
            continue
        removal = remove(
            connection,
            tenant_id,
            replacement.document_id,
            now,
            by=replacement.requested_by,
            reason=replacement.reason,
            replaced_by=new_id,
        )
        if removal is None:
            told = told or "The document that this file replaces had been removed before."
            continue
        connection.execute(_HAND_ON, [new_id, replacement.document_id])
        sends += removal.sends
        told = "It replaces an earlier document, which was removed."
    return sends, told


def _settle(connection: Connection, id_: UUID, now: datetime) -> None:
    connection.execute("UPDATE document_replacement SET settled_at = %s WHERE id = %s", [now, id_])
