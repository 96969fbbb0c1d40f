"""Removal of documents, and replacement of a document with another file.

A removal is one transaction. It deletes the document with its keys, matches, jobs and parts, and records who removed it
and why (`document_deletion`). If another of the tenant's files contains the same part (`document_duplicate_file`), the
part stays and then belongs to that file. Documents that matched a removed document, or waited for it, are matched
again. Their clusters get new ids and are computed again, and destinations are notified. An attempt in progress loses
its claim with the row and changes nothing. The file stays in S3, because other documents may come from it and
accounting must keep it. `erasure` deletes the document and the file.

A replacement creates a new document for a new file, because matches, cached answers and deliveries belong to the old
content. It has three steps. The request is stored before the file is uploaded. The transaction that acquires the file
sets its document as the successor. The transaction that stores the successor's extraction removes the old document, so
that no reader sees both. If the new file cannot be extracted, the old document stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from counterfoil import audit
from counterfoil.audit import AuditRecord
from counterfoil.db import Connection
from counterfoil.delivery.dead_letter import close_pending, restart
from counterfoil.delivery.work import OutboxMessage
from counterfoil.documents import diagnostics, matching
from counterfoil.documents.files import File
from counterfoil.documents.kinds import BY_WORKER
from counterfoil.webhooks.destinations import enqueue

_JOBS = ("ingestion", "matching")
"""Workers whose work items are deleted with a document."""
REASON = "A document that this one matched, or could have matched, was removed."


@dataclass(frozen=True)
class DeletionResult:
    """Result of a deletion."""

    documents: tuple[UUID, ...]
    """The document and the parts that were split from it, except for reassigned parts."""
    reassigned: tuple[UUID, ...]
    """Parts that now belong to another file with the same content."""
    rematched: int
    """Number of documents that are matched again."""
    messages: Sequence[OutboxMessage]
    """Outbox messages to send after the commit."""


# The locks wait for writers of the rows. Parts are locked after their document, because its lock prevents new parts.
_LOCK = "SELECT id FROM document WHERE id = %s AND tenant_id = %s FOR UPDATE"
_LOCK_PARTS = "SELECT id FROM document WHERE parent_id = %s ORDER BY id FOR UPDATE"
_PROMOTE_DUPLICATES = "SELECT promote_duplicate_file(%s)"
_ERASE_JUDGMENTS = "SELECT erase_llm_judgments(%s)"
_REMOVE = "SELECT delete_documents(%(ids)s, %(by)s, %(reason)s, %(replaced_by)s, %(now)s)"


def delete_document(
    connection: Connection,
    tenant_id: UUID,
    document_id: UUID,
    now: datetime,
    *,
    by: str,
    reason: str | None = None,
    replaced_by: UUID | None = None,
    erase: bool = False,
) -> DeletionResult | None:
    """Remove a document in the caller's tenant transaction.

    Returns None if the tenant has no such document. `by` names the author, and `reason` is a note for users. The
    transaction holds the tenant's matching lock until it ends. With `erase`, the language model's answers about other
    documents that quote this one are deleted as well.
    """
    matching.lock_tenant_blocking(connection, tenant_id)
    if connection.execute(_LOCK, [document_id, tenant_id]).fetchone() is None:
        return None
    parts = [id_ for (id_,) in connection.execute(_LOCK_PARTS, [document_id])]
    retained = sorted(id_ for (id_,) in connection.execute(_PROMOTE_DUPLICATES, [document_id]))
    ids = [document_id, *(id_ for id_ in parts if id_ not in retained)]
    departing = matching.load_departing(connection, tenant_id, ids)
    for worker in _JOBS:
        note = "The document was removed." if reason is None else f"The document was removed: {reason}"
        close_pending(connection, [BY_WORKER[worker].job_id(id_) for id_ in ids], "resolved", now, actor=by, note=note)
    if erase:
        connection.execute(_ERASE_JUDGMENTS, [ids])
    connection.execute(_REMOVE, {"ids": ids, "by": by, "reason": reason, "replaced_by": replaced_by, "now": now})
    clusters = matching.finish_departure(connection, departing)
    messages = restart(connection, "matching", departing.affected, now, actor=by, reason=REASON)
    messages += diagnostics.enqueue_diagnostics(
        connection, tenant_id, clusters, now, document_ids=departing.neighbors.union(retained)
    )
    for id_ in ids:
        messages += enqueue(connection, tenant_id, "document", id_, lambda: None, now)
    return DeletionResult(tuple(ids), tuple(retained), len(departing.affected), messages)


KEEP_ORIGINAL_REASON = "The document to be replaced stays until this one has been extracted."
_REQUEST_REASON = "The same file was uploaded again to replace another document."

_INSERT_REPLACEMENT = """
INSERT INTO document_replacement (tenant_id, bucket, key, document_id, requested_by, reason, requested_at)
SELECT tenant_id, %(bucket)s, %(key)s, id, %(by)s, %(reason)s, %(now)s FROM document
WHERE id = %(document)s AND tenant_id = %(tenant)s
"""


def request_replacement(
    connection: Connection,
    tenant_id: UUID,
    document_id: UUID,
    file: File,
    now: datetime,
    *,
    by: str,
    reason: str | None = None,
) -> bool:
    """Store a request to replace a document with a file that will be uploaded next.

    Returns False if the document does not exist. No other upload may use the bucket and key of `file`.
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
    if connection.execute(_INSERT_REPLACEMENT, values).rowcount == 0:
        return False
    operation = AuditRecord(by, "document replacement requested", [str(document_id)], now, reason)
    audit.record(connection, tenant_id, operation)
    return True


@dataclass(frozen=True)
class Replacement:
    """A requested replacement of a document."""

    id: UUID
    document_id: UUID
    requested_by: str
    reason: str | None


_FIND_REPLACEMENT = """
SELECT id, document_id, requested_by, reason FROM document_replacement
WHERE tenant_id = %s AND bucket = %s AND key = %s AND closed_at IS NULL
"""


def find_replacement(connection: Connection, tenant_id: UUID, file: File) -> Replacement | None:
    """Return the open replacement for which a file was uploaded, or None.

    If it exists, the tenant's matching lock is taken. Call this function before the transaction locks a document.
    """
    row = connection.execute(_FIND_REPLACEMENT, [tenant_id, file.bucket, file.key]).fetchone()
    if row is None:
        return None
    matching.lock_tenant_blocking(connection, tenant_id)
    return Replacement(*row)


_SET_SUCCESSOR = "UPDATE document_replacement SET replacement_id = %s WHERE id = %s"
_IS_READ = """
SELECT FROM document d WHERE id = %s AND (
    structured_data IS NOT NULL OR EXISTS (SELECT FROM document part WHERE part.parent_id = d.id)
    OR EXISTS (SELECT FROM document_duplicate_file part WHERE part.parent_id = d.id)
)
"""
_IS_STARTED = "SELECT id FROM ingestion_job WHERE id = %s AND revision > 0"


def link_successor(
    connection: Connection, replacement: Replacement, new_id: UUID | None, now: datetime, *, is_new: bool
) -> tuple[list[OutboxMessage], str]:
    """Set the file's document as the successor.

    If it was already extracted, remove the old document.

    `new_id` is None if the file became several documents or none. The old document then stays. An existing successor
    (not `is_new`) without data is extracted again. Returns the messages to send, and a sentence for users.
    """
    if new_id is None:
        _complete_replacement(connection, replacement.id, now)
        return [], "The earlier document stays, because its replacement is not one document."
    if new_id == replacement.document_id:
        _complete_replacement(connection, replacement.id, now)
        return [], "The earlier document stays: this is the same file."
    connection.execute(_SET_SUCCESSOR, [new_id, replacement.id])
    if connection.execute(_IS_READ, [new_id]).fetchone() is not None:
        messages, sentence = complete_replacements(connection, new_id, now)
        return messages, sentence or ""
    messages = []
    if not is_new:
        # An attempt in progress started before the successor was set and does not see it.
        started = [id_ for (id_,) in connection.execute(_IS_STARTED, [new_id])]
        messages = restart(
            connection, "ingestion", started, now, actor=replacement.requested_by, reason=_REQUEST_REASON
        )
    return messages, "It replaces an earlier document, which stays until this one has been extracted."


_PENDING_TENANT = "SELECT tenant_id FROM document_replacement WHERE replacement_id = %s AND closed_at IS NULL LIMIT 1"
_NEXT = """
SELECT tenant_id, id, document_id, requested_by, reason FROM document_replacement
WHERE replacement_id = %s AND closed_at IS NULL ORDER BY requested_at, id LIMIT 1
"""
# If a successor is itself replaced, its open replacements pass to the newer document.
_REASSIGN = "UPDATE document_replacement SET replacement_id = %s WHERE replacement_id = %s AND closed_at IS NULL"


def lock_pending_replacement(connection: Connection, new_id: UUID) -> None:
    """Take the tenant's matching lock if a document replaces another.

    Call this before locking documents.
    """
    for (tenant_id,) in connection.execute(_PENDING_TENANT, [new_id]):
        matching.lock_tenant_blocking(connection, tenant_id)


def complete_replacements(
    connection: Connection, new_id: UUID, now: datetime
) -> tuple[list[OutboxMessage], str | None]:
    """Remove the documents that a new document replaces.

    Runs in the transaction that stores the new document's extraction. Returns the messages to send, and a sentence for
    users, or None if the document replaces nothing.
    """
    messages: list[OutboxMessage] = []
    sentence = None
    while (row := connection.execute(_NEXT, [new_id]).fetchone()) is not None:
        tenant_id, replacement = row[0], Replacement(*row[1:])
        _complete_replacement(connection, replacement.id, now)
        if replacement.document_id == new_id:  # the two documents replace each other
            continue
        removal = delete_document(
            connection,
            tenant_id,
            replacement.document_id,
            now,
            by=replacement.requested_by,
            reason=replacement.reason,
            replaced_by=new_id,
        )
        if removal is None:
            sentence = sentence or "The document that this file replaces was already removed."
            continue
        connection.execute(_REASSIGN, [new_id, replacement.document_id])
        messages += removal.messages
        sentence = "It replaces an earlier document, which was removed."
    return messages, sentence


def _complete_replacement(connection: Connection, id_: UUID, now: datetime) -> None:
    connection.execute("UPDATE document_replacement SET closed_at = %s WHERE id = %s", [now, id_])
