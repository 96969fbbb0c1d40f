"""Expected matches, from matching the same documents one by one without faults."""

import hashlib
from collections.abc import Iterator
from functools import cache
from uuid import UUID

from counterfoil.documents import matching
from tools.simulation import scenario
from tools.simulation.database import SimulatedDatabase
from tools.simulation.scheduler import Process
from tools.simulation.world import World

DocumentRef = tuple[str, int]
"""Name of a document's content, and the document's rank by id, which breaks ties between simultaneous arrivals."""
Edges = frozenset[tuple[DocumentRef, DocumentRef]]

_expected: dict[tuple[DocumentRef, ...], Edges] = {}

_DOCUMENTS = """
SELECT d.id, d.content_hash, d.matching_status, EXISTS (SELECT FROM document_key k WHERE k.document_id = d.id)
FROM document d ORDER BY d.received_at, d.id
"""
_DELETE_MATCHES = """
DELETE FROM document_match; DELETE FROM document_key; UPDATE document SET cluster_id = NULL
"""


@cache
def _names() -> dict[bytes, str]:
    return {hashlib.sha256(content).digest(): name for name, content in scenario.document_files().items()}


def check(world: World) -> Iterator[str]:
    """Compare a finished history's edges with the edges from sequential matching.

    Yields a sentence for each difference. May replace the matches. Skips a world in which matching a document failed
    permanently, because the other documents may have been matched before or after the failure.
    """
    rows = world.store.admin.execute(_DOCUMENTS).fetchall()
    matched = [(id_, bytes(hash_)) for id_, hash_, _, has_keys in rows if has_keys]
    if len(matched) < 2 or any(has_keys and status != "succeeded" for _, _, status, has_keys in rows):
        return
    ranks = {id_: rank for rank, id_ in enumerate(sorted(id_ for id_, _ in matched))}
    documents = {id_: (_names()[hash_], ranks[id_]) for id_, hash_ in matched}
    actual = _edges(world, documents)
    order = tuple(documents.values())
    if order not in _expected:
        _expected[order] = _match_sequentially(world, documents)
    for first, second in sorted(actual ^ _expected[order]):
        yield f"{first[0]} and {second[0]} {'are' if (first, second) in actual else 'should be'} linked, but " + (
            "should not be" if (first, second) in actual else "are not"
        )


def _edges(world: World, documents: dict[UUID, DocumentRef]) -> Edges:
    rows = world.store.admin.execute("SELECT document_a_id, document_b_id FROM document_match").fetchall()
    return frozenset((documents[a], documents[b]) for a, b in rows)


def _match_sequentially(world: World, documents: dict[UUID, DocumentRef]) -> Edges:
    world.store.admin.execute(_DELETE_MATCHES, prepare=False)
    database = SimulatedDatabase(world.transactions, Process("expected matches", mortal=False))
    for id_ in documents:
        pending = matching.search_and_decide(database, scenario.TENANT, id_)
        assert isinstance(pending, matching.PendingMatch)
        with database.tenant(scenario.TENANT) as connection:
            matching.write(connection, pending, world.scheduler.clock())
    return _edges(world, documents)
