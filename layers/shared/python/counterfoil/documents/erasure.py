"""Erases documents: rows and names immediately, files within a minute.

A file is erased with the last document that needs it. An email or archive is erased with its last document, a split
file with the document that represents the whole file. The transaction stores the objects to erase, and the watchdog
erases all their versions (`objects`). The audit trail keeps an entry with the document's id.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from counterfoil import audit
from counterfoil.audit import AuditRecord
from counterfoil.db import Connection
from counterfoil.documents import matching
from counterfoil.documents.kinds import ACQUISITION, BY_WORKER
from counterfoil.documents.removal import DeletionResult, delete_document

MAX_ATTEMPT_DURATION = timedelta(minutes=20)
"""Upper bound on an attempt's duration. For this long, a stale attempt may still write objects, but no rows."""
_JOBS = ("ingestion", "matching")
"""Workers whose dead letters are erased together with the document."""


@dataclass(frozen=True)
class Erasure:
    """Result of an erasure."""

    removal: DeletionResult
    files: int
    """Number of uploads and emails that are erased."""
    retained_files: int
    """Number of uploads and emails that other documents still need."""


_DELETED_BEFORE = """
SELECT document_id FROM document_deletion WHERE (document_id = %(id)s OR parent_id = %(id)s) AND file_name <> '(erased)'
ORDER BY document_id <> %(id)s, document_id
"""
_ERASE = "SELECT jobs, retained FROM erase_documents(%s, %s, %s)"
_ERASE_DEAD_LETTERS = "SELECT erase_dead_letters(%s)"


def erase(
    connection: Connection, tenant_id: UUID, document_id: UUID, now: datetime, *, by: str, reason: str | None = None
) -> Erasure | None:
    """Erase a document in the caller's tenant transaction.

    Return None if it does not exist.

    A document that was already deleted or replaced is erased as well. The audit entry stores `by` and the hash of
    `reason`. The transaction holds the tenant's matching lock until it ends.
    """
    removal = delete_document(connection, tenant_id, document_id, now, by=by, erase=True)
    if removal is None:
        earlier_ids = tuple(id_ for (id_,) in connection.execute(_DELETED_BEFORE, {"id": document_id}))
        if not earlier_ids:
            return None
        removal = DeletionResult(earlier_ids, (), 0, ())
    ids = list(removal.documents)
    ((job_ids, retained),) = connection.execute(_ERASE, [ids, now, now + MAX_ATTEMPT_DURATION]).fetchall()
    dead_letters = [BY_WORKER[worker].job_id(id_) for worker in _JOBS for id_ in ids]
    dead_letters += [ACQUISITION.job_id(id_) for id_ in job_ids]
    connection.execute(_ERASE_DEAD_LETTERS, [dead_letters])
    matching.record_key_deletion(connection, tenant_id)
    detail = {"documents": len(ids), "files": len(job_ids), "retained_files": retained}
    targets = [str(id_) for id_ in ids]
    audit.record(connection, tenant_id, AuditRecord(by, "document erased", targets, now, note=reason, detail=detail))
    return Erasure(removal, len(job_ids), retained)
