"""The SQL of matching: search and write. Each runs in a transaction that sees one tenant alone (`Database.tenant`)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from psycopg import Cursor
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from counterfoil.db import BY_INDEX, Connection
from counterfoil.documents.matching import key_rows
from counterfoil.documents.matching.keys import PARENTS, SEEKS, Key
from counterfoil.documents.matching.meaning import Embedding
from counterfoil.documents.matching.profile import CONTRACT
from counterfoil.documents.matching.rules import NO_PARTNER, By


class Pair(NamedTuple):
    """The two ends of an edge, a < b."""

    a: UUID
    b: UUID

    @classmethod
    def of(cls, one: UUID, other: UUID) -> "Pair":
        """Put two ids in order."""
        return cls(one, other) if one < other else cls(other, one)


@dataclass(frozen=True, slots=True)
class Edge:
    """A stored edge, seen from the child whose decision it is."""

    child: UUID
    parent: UUID
    kind: str
    """The parent's kind."""
    by: By
    by_person: bool
    score: float
    question: str | None
    """The question that a language model answered with this edge; None where none was asked."""

    @property
    def pair(self) -> Pair:
        """Its two ends in order."""
        return Pair.of(self.child, self.parent)


# -- reading --------------------------------------------------------------------------------------------------------

# Among the keys is not what the documents seek. Most documents are new, and have no rows that `_EDGES` would find. With
# OFFSET 0 PostgreSQL asks for each document, where it might put a whole table into a hash, or walk through a whole
# index, `BY_INDEX` or not.
_BEGIN = """
SELECT pg_current_snapshot()::text, d.id, d.type, d.received_at, d.structured_data, stated.types, stated.keys,
       EXISTS (SELECT FROM document_match m WHERE m.a = d.id OFFSET 0)
       OR EXISTS (SELECT FROM document_match m WHERE m.b = d.id OFFSET 0)
       OR EXISTS (SELECT FROM match_decision s WHERE s.a = d.id OFFSET 0)
       OR EXISTS (SELECT FROM match_decision s WHERE s.b = d.id OFFSET 0),
       e.text_hash, e.model, e.signature
FROM document d
LEFT JOIN LATERAL (SELECT * FROM document_embedding WHERE document_id = d.id OFFSET 0) AS e ON true
CROSS JOIN LATERAL (
    SELECT array_agg(k.type) AS types, array_agg(k.key) AS keys FROM document_key k
    WHERE k.document_id = d.id AND NOT starts_with(k.type, %(seeks)s)
) AS stated
WHERE d.id = ANY(%(ids)s)
"""

# Both ends' kinds come along: they say which end is the child. So do pairs of which a person said last that they do not
# belong together.
_EDGES = """
SELECT m.a, m.b, a.type, b.type, m.evidence ->> 'by', m.evidence ->> 'child', m.decided_by, m.score,
       m.evidence ->> 'question'
FROM (
    SELECT * FROM document_match WHERE a = ANY(%(ids)s)
    UNION
    SELECT * FROM document_match WHERE b = ANY(%(ids)s)
) AS m
CROSS JOIN LATERAL (SELECT type FROM document WHERE id = m.a OFFSET 0) AS a
CROSS JOIN LATERAL (SELECT type FROM document WHERE id = m.b OFFSET 0) AS b
UNION ALL
SELECT said.a, said.b, NULL, NULL, NULL, NULL, said.verdict, NULL, NULL
FROM (
    SELECT DISTINCT ON (a, b) a, b, verdict
    FROM (
        SELECT a, b, verdict, id FROM match_decision WHERE a = ANY(%(ids)s)
        UNION ALL
        SELECT a, b, verdict, id FROM match_decision WHERE b = ANY(%(ids)s)
    ) AS d
    ORDER BY a, b, id DESC
) AS said
WHERE said.verdict = 'rejected'
"""


class Content(NamedTuple):
    """What a document says."""

    kind: str | None
    received_at: datetime
    data: Mapping[str, Any] | None
    embedding: Embedding | None
    """What is kept of the vector of its words."""


class Begun(NamedTuple):
    """What a search begins with."""

    seen: str
    """A snapshot from before anything else was read: what is committed now, to be asked later what has been since.
    Empty where none of the documents is there."""
    contents: Mapping[UUID, Content]
    keys: Mapping[UUID, set[Key]]
    """By which documents are found. What they seek is not among them."""
    edges: "Edges"
    """Of the documents."""


def begin(connection: Connection, ids: Collection[UUID]) -> Begun:
    """Begin a search for documents: for new ones in one round trip."""
    rows = connection.execute(_BEGIN, {"ids": list(ids), "seeks": SEEKS}).fetchall()
    linked = [row[1] for row in rows if row[7]]
    return Begun(
        rows[0][0] if rows else "",
        {id_: Content(kind, at, data, embedding(kept)) for _, id_, kind, at, data, _, _, _, *kept in rows},
        {row[1]: set(map(Key, row[5], row[6])) for row in rows if row[5]},
        edges(connection, linked) if linked else ({}, set()),
    )


_IS_THERE = "SELECT FROM document WHERE id = %s"


def is_there(connection: Connection, id_: UUID) -> bool:
    """Whether the tenant has such a document."""
    return connection.execute(_IS_THERE, [id_]).fetchone() is not None


def embedding(columns: Sequence[Any]) -> Embedding | None:
    """What is kept of a vector, by the columns of its row."""
    return None if columns[0] is None else Embedding(*columns)


def edges(connection: Connection, ids: Collection[UUID]) -> "Edges":
    """The edges of documents, and the pairs of which a person said that they do not belong together."""
    return edges_from(select_edges(connection, ids).fetchall())


def select_edges(connection: Connection, ids: Collection[UUID]) -> Cursor[TupleRow]:
    """Ask for the rows of `edges`."""
    return connection.execute(_EDGES, {"ids": list(ids)})


Edges = tuple[dict[Pair, Edge], set[Pair]]


def edges_from(rows: Iterable[tuple[Any, ...]]) -> Edges:
    """The edges and pairs of such rows."""
    found: dict[Pair, Edge] = {}
    rejected: set[Pair] = set()
    for row in rows:
        if row[6] == "rejected":
            rejected.add(Pair(*row[:2]))
        else:
            edge = _edge(row)
            found[edge.pair] = edge
    return found, rejected


def _edge(row: tuple[Any, ...]) -> Edge:
    a, b, kind_a, kind_b, by, child, decided_by, score, question = row
    backwards = child == str(b) if kind_a == kind_b else kind_a in PARENTS.get(kind_b, ())
    if backwards:
        a, b, kind_b = b, a, kind_a
    return Edge(a, b, kind_b, by or "reference", decided_by == "person", score, question)


_SAYS = "SELECT id, type, structured_data FROM document WHERE id = ANY(%(ids)s) AND structured_data IS NOT NULL"


def contents(connection: Connection, ids: Collection[UUID]) -> dict[UUID, tuple[str, Mapping[str, Any]]]:
    """Type and structured data of documents, as they were extracted."""
    return {id_: (kind, data) for id_, kind, data in connection.execute(_SAYS, {"ids": list(ids)})}


# -- writing --------------------------------------------------------------------------------------------------------

_LOCK = f"SELECT pg_advisory_xact_lock(hashtextextended('matching/' || %s::text, 0)), {BY_INDEX}"

# Nothing was committed since the snapshot if no transaction that it saw running, or that came later, has ended.
_QUIET = """
SELECT pg_snapshot_xmax(seen) = pg_snapshot_xmax(now)
   AND ARRAY(SELECT pg_snapshot_xip(seen)) = ARRAY(SELECT pg_snapshot_xip(now))
FROM (SELECT %(seen)s::pg_snapshot AS seen, pg_current_snapshot() AS now) AS snapshots
"""

# Transactions older than a snapshot's xmin have ended before it. A row without a number: anything may be different now.
_CHANGED = """
SELECT followed.n, count(*)
FROM unnest(%(types)s::text[], %(keys)s::text[]) WITH ORDINALITY AS followed (type, key, n)
JOIN document_key k ON k.tenant_id = %(tenant)s AND k.type = followed.type AND k.key = followed.key
WHERE NOT pg_visible_in_snapshot(k.written_by, %(seen)s::pg_snapshot)
GROUP BY followed.n
UNION ALL
SELECT NULL, 0 WHERE EXISTS (
    SELECT FROM document_removal r
    WHERE r.tenant_id = %(tenant)s AND r.written_by >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
      AND NOT pg_visible_in_snapshot(r.written_by, %(seen)s::pg_snapshot)
) OR EXISTS (
    SELECT FROM key_loss l
    WHERE l.tenant_id = %(tenant)s AND NOT pg_visible_in_snapshot(l.written_by, %(seen)s::pg_snapshot)
) OR EXISTS (
    SELECT FROM match_decision d
    WHERE d.tenant_id = %(tenant)s AND d.written_by >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
      AND NOT pg_visible_in_snapshot(d.written_by, %(seen)s::pg_snapshot)
)
"""

_DELETE_EDGES = """
DELETE FROM document_match m USING unnest(%(a)s::uuid[], %(b)s::uuid[]) AS gone (a, b)
WHERE m.a = gone.a AND m.b = gone.b AND m.decided_by <> 'person'
"""

_INSERT_EDGES = """
INSERT INTO document_match (tenant_id, a, b, score, confidence, evidence, decided_by, reasoning, decided_at)
SELECT %(tenant)s, a, b, score, confidence, evidence, decided_by, reasoning, %(now)s
FROM unnest(%(a)s::uuid[], %(b)s::uuid[], %(scores)s::float8[], %(confidences)s::text[], %(evidence)s::jsonb[],
            %(deciders)s::text[], %(reasonings)s::text[])
     AS made (a, b, score, confidence, evidence, decided_by, reasoning)
ON CONFLICT (a, b) DO UPDATE
SET score = excluded.score, confidence = excluded.confidence, evidence = excluded.evidence,
    reasoning = excluded.reasoning, decided_at = excluded.decided_at, decided_by = excluded.decided_by
WHERE document_match.decided_by <> 'person'
"""

# The components that the seeds are in, edges to contracts left out; a component's name is its smallest document.
# Rows are locked in the order of their ids before they change, as every statement that locks several documents does.
_CLUSTERS = """
WITH RECURSIVE reached (seed, id) AS (
    SELECT id, id FROM document WHERE id = ANY(%(seeds)s) AND type <> %(contract)s
    UNION
    SELECT reached.seed, next.id
    FROM reached
    CROSS JOIN LATERAL (
        SELECT b AS id FROM document_match WHERE a = reached.id
        UNION ALL
        SELECT a AS id FROM document_match WHERE b = reached.id
    ) AS next
    JOIN document ON document.id = next.id AND document.type <> %(contract)s
),
named AS (
    SELECT DISTINCT id, first_value(id) OVER (PARTITION BY seed ORDER BY id) AS cluster_id FROM reached
    UNION
    SELECT id, id FROM document WHERE id = ANY(%(seeds)s) AND type = %(contract)s
),
moved AS (
    SELECT document.id, named.cluster_id FROM document JOIN named USING (id)
    WHERE document.cluster_id IS DISTINCT FROM named.cluster_id
    ORDER BY document.id FOR NO KEY UPDATE OF document
)
UPDATE document SET cluster_id = moved.cluster_id FROM moved WHERE document.id = moved.id
RETURNING old.cluster_id, new.cluster_id
"""

_OWN_CLUSTERS = """
WITH moved AS (
    SELECT id FROM document WHERE id = ANY(%(ids)s) AND cluster_id IS DISTINCT FROM id ORDER BY id FOR NO KEY UPDATE
)
UPDATE document SET cluster_id = document.id FROM moved WHERE document.id = moved.id
RETURNING old.cluster_id, new.cluster_id
"""

_CLUSTERS_OF = "SELECT DISTINCT cluster_id FROM document WHERE id = ANY(%(ids)s) AND cluster_id IS NOT NULL"

_REASONS = """
UPDATE document SET matching_reason = told.reason
FROM unnest(%(ids)s::uuid[], %(reasons)s::text[]) AS told (id, reason)
WHERE document.id = told.id AND document.matching_status IS NOT DISTINCT FROM 'succeeded'  -- not by the index of states
  AND document.matching_reason IS DISTINCT FROM told.reason
"""


_ALONE = """
UPDATE document SET matching_reason = %(reason)s
WHERE id = ANY(%(ids)s) AND matching_status IS NOT DISTINCT FROM 'succeeded' AND matching_reason IS NULL
  AND NOT EXISTS (SELECT FROM document_match m WHERE m.a = document.id OFFSET 0)
  AND NOT EXISTS (SELECT FROM document_match m WHERE m.b = document.id OFFSET 0)
"""


class NewEdge(NamedTuple):
    """An edge to write. `score` is in bits."""

    pair: Pair
    score: float
    confidence: str
    evidence: Mapping[str, Any]
    decided_by: Literal["rules", "llm"]
    reasoning: str


def lock(connection: Connection, tenant_id: UUID, seen: str) -> bool:
    """Wait for the tenant's matching lock; it is held until the transaction ends.

    Returns whether nothing at all, of any tenant, has been committed since a snapshot.
    """
    with connection.pipeline():
        connection.execute(_LOCK, [tenant_id])
        quiet = connection.execute(_QUIET, {"seen": seen})
    return bool(_one(quiet.fetchone())[0])


def wait_for_lock(connection: Connection, tenant_id: UUID) -> None:
    """Wait for the tenant's matching lock; it is held until the transaction ends."""
    connection.execute(_LOCK, [tenant_id])


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different from what searches have read."""

    everything: bool
    """Whether a document was removed or lost keys, or a person decided about a pair: whoever searched before looks
    again."""
    keys: Mapping[Key, int]
    """Of the keys that were followed, those that documents were written with, and how many."""
    edges: Mapping[Pair, Edge]
    """All edges of the documents whose edges were read, as they are now."""


def changes_since(
    connection: Connection, tenant_id: UUID, followed: Collection[Key], of: Collection[UUID], seen: str
) -> Changes:
    """What has been committed since a snapshot, or written in this transaction, of what searches read after it."""
    keys = list(followed)
    with connection.pipeline():
        changed = connection.execute(_CHANGED, {"tenant": tenant_id, "seen": seen, **key_rows.columns(keys)})
        rows = select_edges(connection, of)
    numbers: dict[int | None, int] = dict(changed.fetchall())
    found = {keys[number - 1]: count for number, count in numbers.items() if number is not None}
    return Changes(None in numbers, found, edges_from(rows.fetchall())[0])


Count = Callable[[], int]
"""How many rows a statement changed: to be asked after the pipeline that it was sent in."""


def _counted(connection: Connection, statement: str, parameters: Mapping[str, Any]) -> Count:
    cursor = connection.execute(statement.encode(), parameters)
    return lambda: cursor.rowcount


def delete_edges(connection: Connection, pairs: Collection[Pair]) -> Count:
    """Delete edges, but none of a person's."""
    if not pairs:
        return int
    return _counted(connection, _DELETE_EDGES, {"a": [pair.a for pair in pairs], "b": [pair.b for pair in pairs]})


def insert_edges(connection: Connection, tenant_id: UUID, made: Collection[NewEdge], now: datetime) -> Count:
    """Insert edges, or renew those that are there; a person's stay as they are."""
    if not made:
        return int
    return _counted(
        connection,
        _INSERT_EDGES,
        {
            "tenant": tenant_id,
            "now": now,
            "a": [edge.pair.a for edge in made],
            "b": [edge.pair.b for edge in made],
            "scores": [edge.score for edge in made],
            "confidences": [edge.confidence for edge in made],
            "evidence": [Jsonb(edge.evidence) for edge in made],
            "deciders": [edge.decided_by for edge in made],
            "reasonings": [edge.reasoning for edge in made],
        },
    )


Moves = Callable[[], list[tuple[UUID | None, UUID]]]
"""For each document that changed its cluster, which one it was in and is in: to be asked as `Count`."""


def own_clusters(connection: Connection, ids: Collection[UUID]) -> Moves:
    """Make each of these documents its own cluster."""
    return connection.execute(_OWN_CLUSTERS, {"ids": list(ids)}).fetchall if ids else list


def rename_clusters(connection: Connection, seeds: Collection[UUID]) -> Moves:
    """Name the components anew that the seeds are in."""
    if not seeds:
        return list
    return connection.execute(_CLUSTERS, {"seeds": list(seeds), "contract": CONTRACT}).fetchall


def clusters_of(connection: Connection, ids: Collection[UUID]) -> frozenset[UUID]:
    """The clusters that documents are in."""
    return frozenset(id_ for (id_,) in connection.execute(_CLUSTERS_OF, {"ids": list(ids)}))


def tell_reasons(connection: Connection, reasons: Mapping[UUID, str | None]) -> None:
    """Renew what documents that are done say about why they are alone."""
    if reasons:
        connection.execute(_REASONS, {"ids": list(reasons), "reasons": list(reasons.values())})


def note_alone(connection: Connection, ids: Collection[UUID]) -> None:
    """Note on settled documents without any match that they have no partner."""
    if ids:
        connection.execute(_ALONE, {"ids": list(ids), "reason": NO_PARTNER})


def _one(row: tuple[Any, ...] | None) -> tuple[Any, ...]:
    if row is None:
        message = "a statement that always has one row had none"
        raise AssertionError(message)
    return row
