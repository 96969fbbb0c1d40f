"""What decisions are made from, read from PostgreSQL: each thing once, and for several decisions together.

A decision is a generator that says what it wants before it looks at it (`Steps`). Run by `finish`, each want is read
when it is looked at. Run by `Reading.together`, several decisions go step by step, and what all of them want in a step
is one query.
"""

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.documents.matching.contents import Documents
from counterfoil.documents.matching.key_rows import Lookup
from counterfoil.documents.matching.keys import Key
from counterfoil.documents.matching.profile import Document
from counterfoil.documents.matching.store import Edge, Edges, Pair

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Want:
    """What a decision looks at next."""

    limits: Mapping[Key, int] = field(default_factory=dict)
    """Keys whose holders it looks at, at most so many of each."""
    kind: str | None = None
    """The kind of these holders, where only one kind is meant."""
    counted: Collection[Key] = ()
    """Of the keys, those whose holders it only counts."""
    ids: Collection[UUID] = ()
    """Documents."""
    edges_of: Collection[UUID] = ()
    """Documents whose edges it looks at, and what people decided about them."""


Steps = Generator[Want, None, T]
"""A decision in the making: yields what it wants, returns what it comes to."""


def finish(steps: Steps[T]) -> T:
    """Take a decision to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class Reading:
    """Rows of one tenant, each read once after a snapshot and kept."""

    def __init__(self, connection: Connection, tenant_id: UUID, cache: Documents) -> None:
        """Begin with nothing."""
        self.connection = connection
        self._tenant_id = tenant_id
        self._cache = cache
        self._holders: dict[str | None, dict[Key, tuple[int, list[UUID]]]] = {}
        self._asked: set[UUID] = set()
        self._documents: dict[UUID, Document] = {}
        self._edges: dict[Pair, Edge] = {}
        self._rejected: set[Pair] = set()
        self._pairs: dict[UUID, set[Pair]] = {}

    def know(self, ids: Collection[UUID], edges: Edges) -> None:
        """Take in the edges of documents, which have been read already."""
        found, rejected = edges
        self._edges |= found
        self._rejected |= rejected
        self._pairs |= {id_: set() for id_ in ids}
        for pair in found.keys() | rejected:
            for end in pair:
                if end in ids:
                    self._pairs[end].add(pair)

    def together(self, running: Sequence[Steps[T]]) -> list[T]:
        """Take decisions to their ends side by side."""
        ended: dict[int, T] = {}
        while len(ended) < len(running):
            wants = []
            for number, steps in enumerate(running):
                if number not in ended:
                    try:
                        wants.append(next(steps))
                    except StopIteration as end:
                        ended[number] = end.value
            self._fetch(wants)
        return [ended[number] for number in range(len(running))]

    def holders(self, limits: Mapping[Key, int], kind: str | None = None) -> dict[Key, list[UUID]]:
        """The documents that hold each key, at most as many as its limit; keys that nobody holds are left out."""
        self._fetch([Want(limits, kind)])
        known = self._holders.get(kind, {})
        return {key: ids[:limit] for key, limit in limits.items() if (ids := known[key][1])}

    def read(self, ids: Collection[UUID], edges_of: Collection[UUID]) -> tuple[dict[UUID, Document], Edges]:
        """Those of these documents that are there and of a kind that is matched, and the edges of some."""
        self._fetch([Want(ids=ids, edges_of=edges_of)])
        pairs = {pair for id_ in edges_of for pair in self._pairs[id_]}
        documents = {id_: found for id_ in ids if (found := self._documents.get(id_))}
        edges = {pair: edge for pair in pairs if (edge := self._edges.get(pair))}
        return documents, (edges, pairs & self._rejected)

    def _fetch(self, wants: Iterable[Want]) -> None:
        """Read what is not known yet of all that is wanted, in one round trip."""
        limits: dict[str | None, dict[Key, int]] = {}
        looked_at: set[Key] = set()
        ids: set[UUID] = set()
        edges_of: set[UUID] = set()
        for want in wants:
            known = self._holders.setdefault(want.kind, {})
            for key, limit in want.limits.items():
                if key not in known or known[key][0] < limit:
                    merged = limits.setdefault(want.kind, {})
                    merged[key] = max(limit, merged.get(key, 0))
                    if key not in want.counted:
                        looked_at.add(key)
            ids.update(want.ids)
            edges_of.update(want.edges_of)
        ids -= self._asked
        edges_of -= self._pairs.keys()
        if limits or ids or edges_of:
            lookups = [
                Lookup(self._tenant_id, wanted, kind, wanted.keys() - looked_at) for kind, wanted in limits.items()
            ]
            found = self._cache.read(self.connection, lookups, ids, edges_of)
            for lookup, held in zip(lookups, found.holders, strict=True):
                read = {key: (limit, held.get(key, [])) for key, limit in lookup.limits.items()}
                self._holders[lookup.kind].update(read)
            self._asked |= ids | found.documents.keys()
            self._documents |= found.documents
            self.know(edges_of, found.edges)
