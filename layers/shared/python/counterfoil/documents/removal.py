"""Removes documents, and puts a new file in the place of one: in one transaction, with a trail of who did it and why.

A removed document leaves nothing but its trail (`document_removal`): its keys, its edges, a person's among them, its
jobs and its children go with it. Those children stay whose content another file of the tenant holds too
(`document_copy`): as the documents that they are, they become that file's. Whoever was linked to what went or waited
for it is matched anew, the clusters that it was in get new names and are computed again, and destinations that were
told of it are told that it is no more. A try that is under way loses its claim with the row: whatever it does changes
nothing.

Its file stays in S3. It is the original that came in, which others may be cut from or share and which books have to
keep, and no transaction reaches S3; the trail says where it is, in which version, for whoever has to erase it.

A new file is a new document, and takes the place of an old one that goes. The same id would not do: what is known by
it (edges, answers of a language model, what destinations were told) is about the old content. The intention is stored
before the file is uploaded, and carried out in the transaction that makes the new document, so that neither is there
without the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.documents import diagnostics, matching, output
from counterfoil.documents.files import File
from counterfoil.documents.renewal import renew, settle_letters
from counterfoil.work import Send

_JOBS = ("ingestion", "matching")
"""Whose work about a document goes with it."""
WHY = "A document that it was matched with, or could have been, was removed."


@dataclass(frozen=True)
class Removal:
    """What a removal did."""

    documents: tuple[UUID, ...]
    """The document and the parts that were cut from it."""
    kept: tuple[UUID, ...]
    """Parts that another file holds as well, and which are now that one's."""
    rematched: int
    """Others that are matched anew."""
    sends: Sequence[Send]
    """Messages owed, to be sent after the commit."""


# Whoever is at work on a row is waited for. Parts come after their whole: no new ones while that is locked.
_LOCK = "SELECT id FROM document WHERE id = %s AND tenant_id = %s FOR UPDATE"
_LOCK_PARTS = "SELECT id FROM document WHERE parent_id = %s ORDER BY id FOR UPDATE"
_HAND_OVER = "SELECT hand_over_parts(%s)"
_REMOVE = "SELECT remove_documents(%(ids)s, %(by)s, %(reason)s, %(replaced_by)s, %(now)s)"


def remove(
    connection: Connection,
    tenant_id: UUID,
    document_id: UUID,
    now: datetime,
    *,
    by: str,
    reason: str | None = None,
    replaced_by: UUID | None = None,
) -> Removal | None:
    """Remove a document in the caller's transaction, which is the tenant's. None where the tenant has no such one.

    `by` is who does it, `reason` why, both for people. The tenant's matching lock is held until the transaction ends.
    """
    matching.wait_for_lock(connection, tenant_id)
    if connection.execute(_LOCK, [document_id, tenant_id]).fetchone() is None:
        return None
    parts = [id_ for (id_,) in connection.execute(_LOCK_PARTS, [document_id])]
    kept = sorted(id_ for (id_,) in connection.execute(_HAND_OVER, [document_id]))
    ids = [document_id, *(id_ for id_ in parts if id_ not in kept)]
    leaving = matching.leaving(connection, tenant_id, ids)
    for worker in _JOBS:
        notes = "The document was removed." if reason is None else f"The document was removed: {reason}"
        settle_letters(connection, worker, ids, "resolved", now, actor=by, notes=notes)
    connection.execute(_REMOVE, {"ids": ids, "by": by, "reason": reason, "replaced_by": replaced_by, "now": now})
    clusters = matching.left(connection, leaving)
    sends = renew(connection, "matching", leaving.touched, now, actor=by, why=WHY)
    sends += diagnostics.request(connection, tenant_id, clusters, now, document_ids=leaving.neighbours.union(kept))
    for id_ in ids:
        sends += output.request(connection, tenant_id, "document", id_, None, now)
    return Removal(tuple(ids), tuple(kept), len(leaving.touched), sends)


# -- replacement ----------------------------------------------------------------------------------------------------

_INTEND = """
INSERT INTO document_replacement (tenant_id, bucket, key, document_id, requested_by, reason, requested_at)
SELECT tenant_id, %(bucket)s, %(key)s, id, %(by)s, %(reason)s, %(now)s FROM document
WHERE id = %(document)s AND tenant_id = %(tenant)s
"""


def intend_replacement(
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
    return connection.execute(_INTEND, values).rowcount == 1


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


def intended_replacement(connection: Connection, tenant_id: UUID, file: File) -> Replacement | None:
    """The replacement that a file was uploaded for; the tenant's matching lock is taken where there is one.

    So it has to be asked for before the transaction locks a document.
    """
    row = connection.execute(_INTENDED, [tenant_id, file.bucket, file.key]).fetchone()
    if row is None:
        return None
    matching.wait_for_lock(connection, tenant_id)
    return Replacement(*row)


def replace(
    connection: Connection, tenant_id: UUID, replacement: Replacement, new_id: UUID | None, now: datetime
) -> tuple[list[Send], str]:
    """Carry a replacement out: the old document goes, `new_id` is the one that its file became.

    None, where the file became several or none, leaves the old one. Returns the messages owed, and a sentence on what
    was done.
    """
    connection.execute("UPDATE document_replacement SET settled_at = %s WHERE id = %s", [now, replacement.id])
    if new_id is None:
        return [], "The earlier document stays: what was to replace it is not one document."
    if new_id == replacement.document_id:
        return [], "The earlier document stays: this is the same file."
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
        return [], "The document that this file replaces had been removed before."
    return list(removal.sends), "It replaces an earlier document, which was removed."
