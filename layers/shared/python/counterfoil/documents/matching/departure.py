"""Documents that leave: whose decisions they were part of, and what becomes of the clusters that they were in.

A decision depends on what its child's keys lead to (see the package). A document that leaves is like one that has lost
all its keys: whoever its keys led to, or was led to it, decides again, and so does whoever is linked to it. That is
done by matching each of them anew; here they are found.
"""

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.documents.matching import matcher, store
from counterfoil.documents.matching.decide import touched
from counterfoil.documents.matching.keys import Key, keys
from counterfoil.documents.matching.neighbourhood import Neighbourhood


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
    near = Neighbourhood(connection, tenant_id, matcher.CACHE)
    near.load(ids)
    near.read_edges(ids)
    found = {end for id_ in ids for edge in near.edges(id_) for end in edge.pair}
    neighbours = frozenset(found.difference(ids))
    stored = store.stored_keys(connection, ids)
    for document in near.documents(ids):
        obsolete: set[Key] = stored.get(document.id, set()) | keys(document)
        found |= {other.id for other in touched(near, document, obsolete)}
    clusters = store.clusters_of(connection, neighbours.union(ids))
    return Leaving(neighbours, frozenset(found.difference(ids)), clusters)


def left(connection: Connection, leaving_: Leaving) -> frozenset[UUID]:
    """Name anew the clusters that are left. Returns those that changed: what they were called, and are."""
    moves = store.rename_clusters(connection, leaving_.neighbours)() if leaving_.neighbours else []
    return leaving_.clusters.union(cluster for move in moves for cluster in move if cluster is not None)
