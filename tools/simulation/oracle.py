"""What the edges of a set of documents must be: those of matching them one after another, with nobody else about."""

import hashlib
from collections.abc import Iterator
from functools import cache
from uuid import UUID

from counterfoil.documents import matching
from tools.simulation import scenario
from tools.simulation.database import SimulatedDatabase
from tools.simulation.scheduler import Process
from tools.simulation.world import World

Paper = tuple[str, int]
"""A document by the name of its content, and its place among all by id, which decides where two came at once."""
Edges = frozenset[tuple[Paper, Paper]]

_known: dict[tuple[Paper, ...], Edges] = {}

_DOCUMENTS = """
SELECT d.id, d.content_hash, d.matching_status, EXISTS (SELECT FROM document_key k WHERE k.document_id = d.id)
FROM document d ORDER BY d.received_at, d.id
"""
_FORGET = """
DELETE FROM document_match; DELETE FROM document_key; UPDATE document SET cluster_id = NULL
"""


@cache
def _names() -> dict[bytes, str]:
    return {hashlib.sha256(content).digest(): name for name, content in scenario.papers().items()}


def check(world: World) -> Iterator[str]:
    """Compare the edges of a world at rest with those of matching its documents one by one, which it then forgets.

    Where matching a document has failed for good, others may have seen it or not: such a world is not compared.
    """
    rows = world.store.admin.execute(_DOCUMENTS).fetchall()
    searched = [(id_, bytes(hash_)) for id_, hash_, _, has_keys in rows if has_keys]
    if len(searched) < 2 or any(has_keys and status != "succeeded" for _, _, status, has_keys in rows):
        return
    places = {id_: place for place, id_ in enumerate(sorted(id_ for id_, _ in searched))}
    papers = {id_: (_names()[hash_], places[id_]) for id_, hash_ in searched}
    found = _edges(world, papers)
    order = tuple(papers.values())
    if order not in _known:
        _known[order] = _one_by_one(world, papers)
    for one, other in sorted(found ^ _known[order]):
        yield f"{one[0]} and {other[0]} {'are' if (one, other) in found else 'should be'} linked, and " + (
            "should not be" if (one, other) in found else "are not"
        )


def _edges(world: World, papers: dict[UUID, Paper]) -> Edges:
    rows = world.store.admin.execute("SELECT document_a_id, document_b_id FROM document_match").fetchall()
    return frozenset((papers[a], papers[b]) for a, b in rows)


def _one_by_one(world: World, papers: dict[UUID, Paper]) -> Edges:
    world.store.admin.execute(_FORGET, prepare=False)
    database = SimulatedDatabase(world.transactions, Process("oracle", mortal=False))
    for id_ in papers:
        decided = matching.search_and_decide(database, scenario.TENANT, id_)
        assert isinstance(decided, matching.Decided)
        with database.tenant(scenario.TENANT) as connection:
            matching.write(connection, decided, world.scheduler.clock())
    return _edges(world, papers)
