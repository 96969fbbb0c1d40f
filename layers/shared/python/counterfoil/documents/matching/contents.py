"""What documents say, read in one round trip with the keys that lead to them and their edges, and kept between calls.

Each statement runs in a transaction that sees one tenant alone (`Database.tenant`).
"""

import json
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from threading import Lock
from typing import Any, NamedTuple
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.documents.matching import store
from counterfoil.documents.matching.key_rows import HOLDERS, Lookup
from counterfoil.documents.matching.keys import PARENTS, Key
from counterfoil.documents.matching.profile import Document, document
from counterfoil.documents.matching.store import Edges

_KEPT = 12_000_000
"""Characters of structured data, each of which takes some 4 bytes in canonical forms: 20,000 orders of three lines."""
MOST_WITH_CONTENTS = 50
"""Documents that a look at keys may find and still bring what they say: of more, few are looked at. Those that are only
counted bring nothing."""
LONGEST_WITH_CONTENTS = 4_000
"""Bytes, as stored, of what comes along so. What is longer is asked for, and does not come where it is known."""

# With a hash of all that a document in canonical forms is made from.
_CONTENT = """
SELECT document.id, type, received_at, structured_data, text_hash, model, signature,
       hashtextextended(
           type || extract(epoch FROM received_at) || coalesce(model || signature::text || text_hash::text, ''),
           jsonb_hash_extended(structured_data, 0)) AS version
FROM document LEFT JOIN document_embedding ON document_id = document.id
WHERE type = ANY(%(kinds)s) AND structured_data IS NOT NULL
"""

# Of a version that is known, what it says does not come again.
_CONTENTS = f"""
SELECT d.id, d.version, d.type, d.received_at,
       CASE WHEN d.version IS DISTINCT FROM known.version THEN d.structured_data::text END,
       d.text_hash, d.model, d.signature
FROM unnest(%(ids)s::uuid[], %(versions)s::bigint[]) AS known (id, version)
CROSS JOIN LATERAL ({_CONTENT} AND document.id = known.id OFFSET 0) AS d  -- so that the hash is computed once
"""  # noqa: S608  # of constants

_HOLDERS = f"""
SELECT held.id, held.numbers, d.version, d.type, d.received_at, d.structured_data::text,
       d.text_hash, d.model, d.signature
FROM (
    SELECT document_id AS id, array_agg(n) AS numbers, NOT bool_and(counted) AS is_wanted,
           sum(CASE WHEN bool_and(counted) THEN 0 ELSE 1 END) OVER () AS count
    FROM ({HOLDERS}) AS held GROUP BY document_id
) AS held
LEFT JOIN LATERAL (
    {_CONTENT} AND document.id = held.id AND held.is_wanted AND held.count <= %(most)s
        AND pg_column_size(structured_data) <= %(longest)s
    OFFSET 0
) AS d ON true
ORDER BY held.id
"""  # noqa: S608  # of constants
_KINDS = list(PARENTS)


class Found(NamedTuple):
    """What was read at once."""

    holders: Sequence[Mapping[Key, list[UUID]]]
    """Of each lookup, by key. Keys that nobody holds are left out."""
    documents: Mapping[UUID, Document]
    """Those asked for that are there and of a kind that is matched, and most of the holders."""
    edges: Edges


class _Kept(NamedTuple):
    """A document, and the hash of all that it is made from."""

    version: int
    document: Document
    size: int
    """Characters of its structured data."""


class Documents:
    """Documents in canonical forms, kept between calls: a document's neighbours are much the same as the next one's.

    Each is kept with a hash of all that it is made from, so that new data are read anew.
    """

    def __init__(self, size: int = _KEPT) -> None:
        """Keep documents of so many characters at most."""
        self._room = size
        self._kept: OrderedDict[UUID, _Kept] = OrderedDict()
        self._lock = Lock()

    def load(self, connection: Connection, ids: Collection[UUID]) -> Mapping[UUID, Document]:
        """The documents of these ids that are there and of a kind that is matched."""
        return self.read(connection, (), ids, ()).documents

    def read(
        self,
        connection: Connection,
        lookups: Sequence[Lookup],
        ids: Collection[UUID],
        edges_of: Collection[UUID],
    ) -> Found:
        """Read who holds keys, documents by their ids, and the edges of documents."""
        known = self._known(ids)
        bounds = {"kinds": _KINDS, "most": MOST_WITH_CONTENTS, "longest": LONGEST_WITH_CONTENTS}
        asked = {"ids": list(known), "versions": [kept and kept.version for kept in known.values()], "kinds": _KINDS}
        with connection.pipeline() if len(lookups) + bool(ids) + bool(edges_of) > 1 else nullcontext():
            held = [connection.execute(_HOLDERS, bounds | lookup.parameters) for lookup in lookups]
            contents = connection.execute(_CONTENTS, asked) if ids else None
            linked = store.select_edges(connection, edges_of) if edges_of else None
        found = self._taken(contents.fetchall() if contents else (), known)
        holders = []
        for lookup, cursor in zip(lookups, held, strict=True):
            rows = cursor.fetchall()
            holders.append(lookup.by_key((id_, numbers) for id_, numbers, *_ in rows))
            told = [(id_, *content) for id_, _, *content in rows if content[0] is not None]
            found |= self._taken(told, self._known([row[0] for row in told]))
        return Found(holders, found, store.edges_from(linked.fetchall() if linked else ()))

    def _known(self, ids: Iterable[UUID]) -> dict[UUID, _Kept | None]:
        with self._lock:
            return {id_: self._kept.get(id_) for id_ in ids}

    def _taken(self, rows: Iterable[tuple[Any, ...]], known: Mapping[UUID, _Kept | None]) -> dict[UUID, Document]:
        """The documents of rows: as they are known, where they are the same version; else read. They are kept."""
        taken: dict[UUID, _Kept] = {}
        for id_, version, kind, received_at, data, *embedding in rows:
            kept = known[id_]
            if kept is None or kept.version != version:
                found = document(id_, received_at, kind, json.loads(data), store.embedding(embedding))
                kept = _Kept(version, found, len(data))
            taken[id_] = kept
        self._keep(taken)
        return {id_: kept.document for id_, kept in taken.items()}

    def _keep(self, read: Mapping[UUID, _Kept]) -> None:
        """Keep documents, and let go of those that were read longest ago."""
        with self._lock:
            for id_, kept in read.items():
                if before := self._kept.pop(id_, None):
                    self._room += before.size
                self._kept[id_] = kept
                self._room -= kept.size
            while self._room < 0:
                _, oldest = self._kept.popitem(last=False)
                self._room += oldest.size
