"""Removes documents: in one transaction, with a trail of who did it and why.

A removed document leaves nothing but its trail (`document_removal`): its keys, its edges, a person's among them, its
jobs and its children go with it. Those children stay whose content another file of the tenant holds too
(`document_copy`): as the documents that they are, they become that file's. Whoever was linked to what went or waited
for it is matched anew, the clusters that it was in get new names and are computed again, and destinations that were
told of it are told that it is no more. A try that is under way loses its claim with the row: whatever it does changes
nothing.

Its file stays in S3. It is the original that came in, which others may be cut from or share and which books have to
keep; the trail says where it is, in which version. `erasure` deletes both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.delivery.dead_letter import renew, settle
from counterfoil.delivery.work import Send
from counterfoil.documents import diagnostics, matching
from counterfoil.documents.kinds import BY_WORKER
from counterfoil.webhooks.destinations import enqueue

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
_ERASE_JUDGMENTS = "SELECT erase_judgements(%s)"
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
    erase: bool = False,
) -> Removal | None:
    """Remove a document in the caller's transaction, which is the tenant's. None where the tenant has no such one.

    `by` is who does it, `reason` why, both for people. The tenant's matching lock is held until the transaction ends.
    With `erase`, the answers of the language model about its neighbors that quote it are deleted as well.
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
        settle(connection, [BY_WORKER[worker].job_id(id_) for id_ in ids], "resolved", now, actor=by, note=notes)
    if erase:
        connection.execute(_ERASE_JUDGMENTS, [ids])
    connection.execute(_REMOVE, {"ids": ids, "by": by, "reason": reason, "replaced_by": replaced_by, "now": now})
    clusters = matching.left(connection, leaving)
    sends = renew(connection, "matching", leaving.touched, now, actor=by, why=WHY)
    sends += diagnostics.request(connection, tenant_id, clusters, now, document_ids=leaving.neighbours.union(kept))
    for id_ in ids:
        sends += enqueue(connection, tenant_id, "document", id_, lambda: None, now)
    return Removal(tuple(ids), tuple(kept), len(leaving.touched), sends)
