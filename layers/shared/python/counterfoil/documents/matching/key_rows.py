"""The SQL of keys: who holds them, and by which ones a document is found.

Each statement runs in a transaction that sees one tenant alone (`Database.tenant`).
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.documents.matching.keys import SEEKS, Key

MAX_HOLDERS = 200
"""Documents that may share a key. What more documents have alike says nothing about which two belong together: the key
is not followed, by any of them."""
MAX_WAITING = 1000
"""Documents that may have waited for one number and are decided again when its bearer arrives."""
NEAR_MAX_HOLDERS = 16
"""How far beyond MAX_HOLDERS the holders of a key are decided again, so that none keeps a link that only the key found.
More than documents being matched at the same time."""

HOLDERS = """
SELECT held.document_id, wanted.n, wanted.counted
FROM unnest(%(types)s::text[], %(keys)s::text[], %(limits)s::int[], %(counted)s::bool[])
     WITH ORDINALITY AS wanted (type, key, most, counted, n)
CROSS JOIN LATERAL (
    SELECT k.document_id FROM document_key k
    WHERE k.tenant_id = %(tenant)s AND k.type = wanted.type AND k.key = wanted.key
      AND (%(kind)s::text IS NULL OR %(kind)s = (SELECT d.type FROM document d WHERE d.id = k.document_id))
    LIMIT wanted.most
) AS held
"""
"""Documents, each with the number of a key that it holds and whether that is only counted, by the parameters of a
`Lookup`."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Keys of a tenant, each with how many of its holders are wanted at most."""

    tenant_id: UUID
    limits: Mapping[Key, int]
    kind: str | None = None
    """Of the holders, where only those of one kind are wanted."""
    counted: Collection[Key] = ()
    """Of the keys, those of which only the number of their holders matters."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Those of HOLDERS."""
        return {
            "tenant": self.tenant_id,
            "limits": list(self.limits.values()),
            "counted": [key in self.counted for key in self.limits],
            "kind": self.kind,
            **columns(self.limits),
        }

    def by_key(self, held: Iterable[tuple[UUID, Iterable[int]]]) -> dict[Key, list[UUID]]:
        """Who holds each key, by the numbers of the keys that each document holds; keys of nobody are left out."""
        keys = list(self.limits)
        found: dict[Key, list[UUID]] = {}
        for id_, numbers in held:
            for number in numbers:
                found.setdefault(keys[number - 1], []).append(id_)
        return found


def holders(connection: Connection, lookup: Lookup) -> dict[Key, list[UUID]]:
    """The documents that hold each key; keys that nobody holds are left out."""
    rows = connection.execute(HOLDERS, lookup.parameters).fetchall()
    return lookup.by_key((id_, (number,)) for id_, number, _ in rows)


_WRITE = """
INSERT INTO document_key (tenant_id, document_id, type, key)
SELECT %(tenant)s, document_id, type, key
FROM unnest(%(documents)s::uuid[], %(types)s::text[], %(keys)s::text[]) AS k (document_id, type, key)
ON CONFLICT (document_id, type, key) DO UPDATE SET written_by = pg_current_xact_id()
"""

_DELETE = """
DELETE FROM document_key stored
USING unnest(%(documents)s::uuid[], %(types)s::text[], %(keys)s::text[]) AS k (document_id, type, key)
WHERE (stored.document_id, stored.type, stored.key) = (k.document_id, k.type, k.key)
"""

_LOSS = """
INSERT INTO key_loss (tenant_id) VALUES (%s)
ON CONFLICT (tenant_id) DO UPDATE SET written_by = pg_current_xact_id()
"""


def write(connection: Connection, tenant_id: UUID, stated: Mapping[UUID, Collection[Key]]) -> None:
    """Write the keys of what documents say.

    A key that was there is marked as written anew: who searched before may have read other data behind it.
    """
    connection.execute(_WRITE, {"tenant": tenant_id, **_rows(stated)})


# What the documents seek, and nothing else that they sought before.
_WRITE_SEEKING = """
WITH wanted AS (
    SELECT * FROM unnest(%(documents)s::uuid[], %(types)s::text[], %(keys)s::text[]) AS w (document_id, type, key)
), settled AS (
    DELETE FROM document_key k
    WHERE k.document_id = ANY(%(ids)s) AND starts_with(k.type, %(seeks)s)
      AND NOT EXISTS (SELECT FROM wanted w WHERE (w.document_id, w.type, w.key) = (k.document_id, k.type, k.key))
)
INSERT INTO document_key (tenant_id, document_id, type, key)
SELECT %(tenant)s, document_id, type, key FROM wanted ORDER BY document_id, type, key
ON CONFLICT (document_id, type, key) DO NOTHING
"""


def write_seeking(
    connection: Connection, tenant_id: UUID, sought: Mapping[UUID, Collection[Key]], known: Collection[UUID]
) -> None:
    """Write by which keys documents are found that no number led to a partner; `known` may have sought before."""
    if not known and not any(sought.values()):
        return
    connection.execute(_WRITE_SEEKING, {"tenant": tenant_id, "ids": list(known), "seeks": SEEKS, **_rows(sought)})


_STORED = "SELECT document_id, type, key FROM document_key WHERE document_id = ANY(%(ids)s)"


def stored(connection: Connection, ids: Collection[UUID]) -> dict[UUID, set[Key]]:
    """The keys that documents are found by now; documents that have none are left out."""
    found: dict[UUID, set[Key]] = {}
    for id_, *key in connection.execute(_STORED, {"ids": list(ids)}).fetchall():
        found.setdefault(id_, set()).add(Key(*key))
    return found


def delete(connection: Connection, tenant_id: UUID, obsolete: Mapping[UUID, Collection[Key]]) -> None:
    """Delete keys of documents, which a search that is under way notices."""
    if any(obsolete.values()):
        connection.execute(_DELETE, _rows(obsolete))
        note_loss(connection, tenant_id)


def note_loss(connection: Connection, tenant_id: UUID) -> None:
    """Leave a trace of a document's having lost keys, under the tenant's matching lock."""
    connection.execute(_LOSS, [tenant_id])


def columns(keys: Iterable[Key]) -> dict[str, list[str]]:
    """Keys as two arrays of one length, for `unnest`."""
    listed = list(keys)
    return {"types": [key.type for key in listed], "keys": [key.value for key in listed]}


def _rows(keys: Mapping[UUID, Collection[Key]]) -> dict[str, list[Any]]:
    """The keys of documents as three arrays of one length, for `unnest`, in an order that all writers lock rows in."""
    rows = [(id_, *key) for id_ in sorted(keys) for key in sorted(keys[id_])]
    documents, types, values = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    return {"documents": documents, "types": types, "keys": values}
