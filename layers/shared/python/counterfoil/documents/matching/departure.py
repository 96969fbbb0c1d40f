"""Documents that leave: whose decisions they were part of, and what becomes of the clusters that they were in.

A decision depends on what its child's keys lead to (see the package). A document that leaves is like one that has lost
all its keys: whoever its keys led to, or was led to it, decides again, and so does whoever is linked to it. That is
done by matching each of them anew; here they are found.

A document leaves when it is removed, and when it is read anew and states nothing any more that it could be matched by.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.documents.matching import key_rows, matcher, reviews, store
from counterfoil.documents.matching.decide import touched
from counterfoil.documents.matching.keys import Key, keys
from counterfoil.documents.matching.neighbourhood import Neighbourhood
from counterfoil.documents.matching.profile import CONTRACT, Document, document
from counterfoil.documents.matching.reading import Reading, finish


@dataclass(frozen=True, slots=True)
class Leaving:
    """What documents that leave are part of."""

    neighbours: frozenset[UUID]
    """Linked to one of them, by whomever."""
    touched: frozenset[UUID]
    """Those, and whoever else has to decide again. None of those that leave."""
    clusters: frozenset[UUID]
    """The clusters that those who leave and their neighbours are in."""


def leaving(connection: Connection, tenant_id: UUID, ids: Collection[UUID]) -> Leaving:
    """Take the tenant's matching lock, and find what `ids` are part of before they are deleted.

    A match that is under way beside this has to look again, under the lock, once they are gone (`changed_since`).
    """
    store.wait_for_lock(connection, tenant_id)
    near = Neighbourhood(Reading(connection, tenant_id, matcher.CACHE))
    finish(near.read(ids, ids))
    found = {end for id_ in ids for edge in near.edges(id_) for end in edge.pair}
    neighbours = frozenset(found.difference(ids))
    stored = key_rows.stored(connection, ids)
    stating = {one.id: one for one in near.documents(ids)}
    for id_ in ids:
        one = stating.get(id_) or _stating_nothing(id_)
        obsolete: set[Key] = stored.get(id_, set()) | keys(one)
        found |= {other.id for other in finish(touched(near, one, obsolete))}
    clusters = store.clusters_of(connection, neighbours.union(ids))
    return Leaving(neighbours, frozenset(found.difference(ids)), clusters)


def _stating_nothing(id_: UUID) -> Document:
    """A document of which only the keys are left that it had: whatever it is, it is found by nothing else."""
    return document(id_, datetime.min.replace(tzinfo=UTC), CONTRACT, {})


_IS_MATCHED = """
SELECT EXISTS (SELECT FROM document_key WHERE document_id = %(id)s)
    OR EXISTS (SELECT FROM document WHERE id = %(id)s AND cluster_id IS NOT NULL)
"""
_FORGET_KEYS = "DELETE FROM document_key WHERE document_id = %(id)s"
_FORGET_EDGES = "DELETE FROM document_match WHERE (a = %(id)s OR b = %(id)s) AND decided_by <> 'person'"
_FORGET_CLUSTER = """
UPDATE document SET cluster_id = NULL
WHERE id = %(id)s AND NOT EXISTS (SELECT FROM document_match WHERE a = %(id)s OR b = %(id)s)
"""


def _is_matched(connection: Connection, id_: UUID) -> bool:
    """Whether a document is found by keys, or is in a cluster."""
    return bool(connection.execute(_IS_MATCHED, {"id": id_}).fetchall()[0][0])


def _forget(connection: Connection, id_: UUID) -> None:
    """Delete a document's keys and edges, but none of a person's, and without any take it out of its cluster."""
    for statement in (_FORGET_KEYS, _FORGET_EDGES, _FORGET_CLUSTER):
        connection.execute(statement, {"id": id_})


def withdraw(connection: Connection, tenant_id: UUID, id_: UUID, now: datetime) -> Leaving | None:
    """Take a document that is there, but cannot be matched any more, out of its cluster; None where it is in none.

    What it states now must have been committed before. Its keys go, and its edges but for a person's: as long as it has
    one, it stays with whom the person put it to. Returns what it was part of, `clusters` by their names then and now.
    """
    if not _is_matched(connection, id_):
        return None
    parts = leaving(connection, tenant_id, [id_])
    _forget(connection, id_)
    key_rows.note_loss(connection, tenant_id)
    reviews.close(connection, [id_], now)
    return replace(parts, clusters=left(connection, parts))


def left(connection: Connection, leaving_: Leaving) -> frozenset[UUID]:
    """Name anew the clusters that are left. Returns those that changed: what they were called, and are."""
    moves = store.rename_clusters(connection, leaving_.neighbours)() if leaving_.neighbours else []
    return leaving_.clusters.union(cluster for move in moves for cluster in move if cluster is not None)
