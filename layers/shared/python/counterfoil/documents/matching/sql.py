"""SQL for blocking keys, edges, clusters, reviews and reviewers' decisions.

Each statement runs in a transaction of one tenant (`Database.tenant`). A review lists a document's ambiguous matches
with their candidates. It is written with the edges, and opens, changes and closes with the ambiguous matches.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from psycopg import Cursor
from psycopg.rows import TupleRow
from psycopg.types.json import Jsonb

from counterfoil.db import BY_INDEX, Connection
from counterfoil.documents.matching.keys import PARENT_KINDS, SEARCH_PREFIX, Key
from counterfoil.documents.matching.normalize import CONTRACT, Embedding
from counterfoil.documents.matching.rules import (
    NO_PARTNER,
    AmbiguousMatch,
    MatchMethod,
    ProposedMatch,
    RuleDecision,
    unresolved_matches,
)
from counterfoil.documents.matching.score import current

MAX_DOCUMENTS_PER_KEY = 200
"""Maximum number of a key's holders. A key with more holders is crowded: it is ignored, because it is too common."""
MAX_WAITING_DOCUMENTS = 1000
"""Maximum number of a key's holders that are decided again when a document arrives for which they may wait."""
FUZZY_MAX_DOCUMENTS_PER_KEY = 16
"""Number of holders above MAX_DOCUMENTS_PER_KEY up to which a key counts as newly crowded.

All its holders are decided again, so that no link by the key remains. The number exceeds the number of concurrent
matches.
"""

HOLDERS = """
SELECT holder.document_id, lookup.n, lookup.counted
FROM unnest(%(types)s::text[], %(keys)s::text[], %(limits)s::int[], %(counted)s::bool[])
     WITH ORDINALITY AS lookup (type, value, most, counted, n)
CROSS JOIN LATERAL (
    SELECT k.document_id FROM document_key k
    WHERE k.tenant_id = %(tenant)s AND k.type = lookup.type AND k.value = lookup.value
      AND (%(kind)s::text IS NULL OR %(kind)s = (SELECT d.type FROM document d WHERE d.id = k.document_id))
    LIMIT lookup.most
) AS holder
"""
"""Selects the holders of a `KeyLookup`: document, number of the key, and whether the key is only counted."""


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """A tenant's keys, each with the maximum number of holders to read."""

    tenant_id: UUID
    limits: Mapping[Key, int]
    kind: str | None = None
    """Kind of the holders; None for any."""
    count_only: Collection[Key] = ()
    """Keys whose holders are only counted."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of HOLDERS."""
        return {
            "tenant": self.tenant_id,
            "limits": list(self.limits.values()),
            "counted": [key in self.count_only for key in self.limits],
            "kind": self.kind,
            **columns(self.limits),
        }

    def by_key(self, rows: Iterable[tuple[UUID, Iterable[int]]]) -> dict[Key, list[UUID]]:
        """Return the holders by key from rows of document and key numbers.

        Keys without holders are missing.
        """
        keys = list(self.limits)
        holders: dict[Key, list[UUID]] = {}
        for id_, numbers in rows:
            for number in numbers:
                holders.setdefault(keys[number - 1], []).append(id_)
        return holders


def documents_with_keys(connection: Connection, lookup: KeyLookup) -> dict[Key, list[UUID]]:
    """Return the holders by key. Keys without holders are missing."""
    rows = connection.execute(HOLDERS, lookup.parameters).fetchall()
    return lookup.by_key((id_, (number,)) for id_, number, _ in rows)


_WRITE = """
INSERT INTO document_key (tenant_id, document_id, type, value)
SELECT %(tenant)s, document_id, type, value
FROM unnest(%(documents)s::uuid[], %(types)s::text[], %(keys)s::text[]) AS k (document_id, type, value)
ON CONFLICT (document_id, type, value) DO UPDATE SET written_by_xid = pg_current_xact_id()
"""

_DELETE = """
DELETE FROM document_key stored
USING unnest(%(documents)s::uuid[], %(types)s::text[], %(keys)s::text[]) AS k (document_id, type, value)
WHERE (stored.document_id, stored.type, stored.value) = (k.document_id, k.type, k.value)
"""

_RECORD_DELETION = """
INSERT INTO key_deletion (tenant_id) VALUES (%s)
ON CONFLICT (tenant_id) DO UPDATE SET written_by_xid = pg_current_xact_id()
"""


def write(connection: Connection, tenant_id: UUID, keys: Mapping[UUID, Collection[Key]]) -> None:
    """Write the keys of documents.

    An existing key is marked as written again, because an earlier search may have read older data about its holder.
    """
    connection.execute(_WRITE, {"tenant": tenant_id, **_rows(keys)})


# Replaces the search keys of documents.
_WRITE_SEEKING = """
WITH lookup AS (
    SELECT * FROM unnest(%(documents)s::uuid[], %(types)s::text[], %(keys)s::text[]) AS w (document_id, type, value)
), deleted AS (
    DELETE FROM document_key k
    WHERE k.document_id = ANY(%(ids)s) AND starts_with(k.type, %(seeks)s)
      AND NOT EXISTS (SELECT FROM lookup w WHERE (w.document_id, w.type, w.value) = (k.document_id, k.type, k.value))
)
INSERT INTO document_key (tenant_id, document_id, type, value)
SELECT %(tenant)s, document_id, type, value FROM lookup ORDER BY document_id, type, value
ON CONFLICT (document_id, type, value) DO NOTHING
"""


def write_search_keys(
    connection: Connection, tenant_id: UUID, search_keys: Mapping[UUID, Collection[Key]], known: Collection[UUID]
) -> None:
    """Replace the search keys of documents.

    Only `known` documents may already have search keys.
    """
    if not known and not any(search_keys.values()):
        return
    connection.execute(
        _WRITE_SEEKING, {"tenant": tenant_id, "ids": list(known), "seeks": SEARCH_PREFIX, **_rows(search_keys)}
    )


_STORED = "SELECT document_id, type, value FROM document_key WHERE document_id = ANY(%(ids)s)"


def stored(connection: Connection, ids: Collection[UUID]) -> dict[UUID, set[Key]]:
    """Return the stored keys by document. Documents without keys are missing."""
    keys: dict[UUID, set[Key]] = {}
    for id_, *key in connection.execute(_STORED, {"ids": list(ids)}).fetchall():
        keys.setdefault(id_, set()).add(Key(*key))
    return keys


def delete(connection: Connection, tenant_id: UUID, obsolete: Mapping[UUID, Collection[Key]]) -> None:
    """Delete keys of documents. Concurrent searches detect the deletion."""
    if any(obsolete.values()):
        connection.execute(_DELETE, _rows(obsolete))
        record_key_deletion(connection, tenant_id)


def record_key_deletion(connection: Connection, tenant_id: UUID) -> None:
    """Record that a document lost keys, under the tenant's matching lock."""
    connection.execute(_RECORD_DELETION, [tenant_id])


def columns(keys: Iterable[Key]) -> dict[str, list[str]]:
    """Return keys as two arrays of the same length, for `unnest`."""
    ordered = list(keys)
    return {"types": [key.type for key in ordered], "keys": [key.value for key in ordered]}


def _rows(keys: Mapping[UUID, Collection[Key]]) -> dict[str, list[Any]]:
    """Return document keys as three arrays for `unnest`, in the common lock order."""
    rows = [(id_, *key) for id_ in sorted(keys) for key in sorted(keys[id_])]
    documents, types, values = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    return {"documents": documents, "types": types, "keys": values}


class Pair(NamedTuple):
    """The two ends of an edge, a < b."""

    a: UUID
    b: UUID

    @classmethod
    def of(cls, first: UUID, second: UUID) -> "Pair":
        """Return the pair of two ids, in any order."""
        return cls(first, second) if first < second else cls(second, first)


@dataclass(frozen=True, slots=True)
class Edge:
    """A stored edge between child and parent. The child's decision makes it."""

    child: UUID
    parent: UUID
    kind: str
    """The parent's kind."""
    by: MatchMethod
    is_manual: bool
    score: float
    question: str | None
    """Hash, in hexadecimal, of the question that the LLM judge answered with this edge, if any."""

    @property
    def pair(self) -> Pair:
        """Both ends in order."""
        return Pair.of(self.child, self.parent)


# -- reading --------------------------------------------------------------------------------------------------------

# Search keys are not read. The last condition avoids running `_EDGES` for new documents, which have no edges. OFFSET 0
# forces a lookup per document. Otherwise PostgreSQL may hash a whole table or scan a whole index, even with `BY_INDEX`.
_BEGIN = """
SELECT pg_current_snapshot()::text, d.id, d.type, d.received_at, d.structured_data, stated.types, stated.keys,
       EXISTS (SELECT FROM document_match m WHERE m.document_a_id = d.id OFFSET 0)
       OR EXISTS (SELECT FROM document_match m WHERE m.document_b_id = d.id OFFSET 0)
       OR EXISTS (SELECT FROM match_decision s WHERE s.document_a_id = d.id OFFSET 0)
       OR EXISTS (SELECT FROM match_decision s WHERE s.document_b_id = d.id OFFSET 0),
       e.text_hash, e.model, e.signature
FROM document d
LEFT JOIN LATERAL (SELECT * FROM document_embedding WHERE document_id = d.id OFFSET 0) AS e ON true
CROSS JOIN LATERAL (
    SELECT array_agg(k.type) AS types, array_agg(k.value) AS keys FROM document_key k
    WHERE k.document_id = d.id AND NOT starts_with(k.type, %(seeks)s)
) AS stated
WHERE d.id = ANY(%(ids)s)
"""

# The kinds of both ends determine which end is the child. Pairs whose latest decision is a rejection are also selected.
_EDGES = """
SELECT m.document_a_id, m.document_b_id, a.type, b.type, m.evidence ->> 'by', m.evidence ->> 'child',
       m.decided_by, m.score, m.evidence ->> 'question'
FROM (
    SELECT * FROM document_match WHERE document_a_id = ANY(%(ids)s)
    UNION
    SELECT * FROM document_match WHERE document_b_id = ANY(%(ids)s)
) AS m
CROSS JOIN LATERAL (SELECT type FROM document WHERE id = m.document_a_id OFFSET 0) AS a
CROSS JOIN LATERAL (SELECT type FROM document WHERE id = m.document_b_id OFFSET 0) AS b
UNION ALL
SELECT latest.document_a_id, latest.document_b_id, NULL, NULL, NULL, NULL, latest.decision, NULL, NULL
FROM (
    SELECT DISTINCT ON (document_a_id, document_b_id) document_a_id, document_b_id, decision
    FROM (
        SELECT document_a_id, document_b_id, decision, id FROM match_decision WHERE document_a_id = ANY(%(ids)s)
        UNION ALL
        SELECT document_a_id, document_b_id, decision, id FROM match_decision WHERE document_b_id = ANY(%(ids)s)
    ) AS d
    ORDER BY document_a_id, document_b_id, id DESC
) AS latest
WHERE latest.decision = 'rejected'
"""


class DocumentContent(NamedTuple):
    """Content of a document."""

    kind: str | None
    received_at: datetime
    data: Mapping[str, Any] | None
    embedding: Embedding | None
    """Stored embedding of its text."""


class MatchingSnapshot(NamedTuple):
    """Input for a search."""

    snapshot: str
    """Database snapshot before any other read, to find later commits. Empty if no document exists."""
    contents: Mapping[UUID, DocumentContent]
    keys: Mapping[UUID, set[Key]]
    """Stored keys by document, without search keys."""
    edges: "Edges"
    """Edges of the documents."""


def begin(connection: Connection, ids: Collection[UUID]) -> MatchingSnapshot:
    """Begin a search: read the documents, their keys and edges.

    New documents need one round trip.
    """
    rows = connection.execute(_BEGIN, {"ids": list(ids), "seeks": SEARCH_PREFIX}).fetchall()
    linked = [row[1] for row in rows if row[7]]
    return MatchingSnapshot(
        rows[0][0] if rows else "",
        {
            id_: DocumentContent(kind, received_at, data, embedding(embedding_columns))
            for _, id_, kind, received_at, data, _, _, _, *embedding_columns in rows
        },
        {row[1]: set(map(Key, row[5], row[6])) for row in rows if row[5]},
        edges(connection, linked) if linked else ({}, set()),
    )


_EXISTS = "SELECT FROM document WHERE id = %s"


def document_exists(connection: Connection, id_: UUID) -> bool:
    """Return True if the tenant has this document."""
    return connection.execute(_EXISTS, [id_]).fetchone() is not None


def embedding(columns: Sequence[Any]) -> Embedding | None:
    """Return the embedding stored in these columns, or None if it is absent."""
    return None if columns[0] is None else Embedding(*columns)


def edges(connection: Connection, ids: Collection[UUID]) -> "Edges":
    """Return the edges of documents, and their rejected pairs."""
    return parse_edges(select_edges(connection, ids).fetchall())


def select_edges(connection: Connection, ids: Collection[UUID]) -> Cursor[TupleRow]:
    """Execute the query of `edges`."""
    return connection.execute(_EDGES, {"ids": list(ids)})


Edges = tuple[dict[Pair, Edge], set[Pair]]


def parse_edges(rows: Iterable[tuple[Any, ...]]) -> Edges:
    """Return the edges and rejected pairs in rows."""
    by_pair: dict[Pair, Edge] = {}
    rejected: set[Pair] = set()
    for row in rows:
        if row[6] == "rejected":
            rejected.add(Pair(*row[:2]))
        else:
            edge = _edge(row)
            by_pair[edge.pair] = edge
    return by_pair, rejected


def _edge(row: tuple[Any, ...]) -> Edge:
    a, b, kind_a, kind_b, by, child, decided_by, score, question = row
    backwards = child == str(b) if kind_a == kind_b else kind_a in PARENT_KINDS.get(kind_b, ())
    if backwards:
        a, b, kind_b = b, a, kind_a
    return Edge(a, b, kind_b, by or "reference", decided_by == "reviewer", score, question)


_CONTENTS = "SELECT id, type, structured_data FROM document WHERE id = ANY(%(ids)s) AND structured_data IS NOT NULL"


def contents(connection: Connection, ids: Collection[UUID]) -> dict[UUID, tuple[str, Mapping[str, Any]]]:
    """Return type and structured data of documents."""
    return {id_: (kind, data) for id_, kind, data in connection.execute(_CONTENTS, {"ids": list(ids)})}


# -- writing --------------------------------------------------------------------------------------------------------

_LOCK = f"SELECT pg_advisory_xact_lock(hashtextextended('matching/' || %s::text, 0)), {BY_INDEX}"

# Nothing was committed since the snapshot if no transaction that was running then, or started later, has ended.
_QUIET = """
SELECT pg_snapshot_xmax(seen) = pg_snapshot_xmax(now)
   AND ARRAY(SELECT pg_snapshot_xip(seen)) = ARRAY(SELECT pg_snapshot_xip(now))
FROM (SELECT %(seen)s::pg_snapshot AS seen, pg_current_snapshot() AS now) AS snapshots
"""

# Transactions older than a snapshot's xmin ended before it. A row with a NULL number invalidates all searches.
_CHANGED = """
SELECT tracked.n, count(*)
FROM unnest(%(types)s::text[], %(keys)s::text[]) WITH ORDINALITY AS tracked (type, value, n)
JOIN document_key k ON k.tenant_id = %(tenant)s AND k.type = tracked.type AND k.value = tracked.value
WHERE NOT pg_visible_in_snapshot(k.written_by_xid, %(seen)s::pg_snapshot)
GROUP BY tracked.n
UNION ALL
SELECT NULL, 0 WHERE EXISTS (
    SELECT FROM document_deletion r
    WHERE r.tenant_id = %(tenant)s AND r.written_by_xid >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
      AND NOT pg_visible_in_snapshot(r.written_by_xid, %(seen)s::pg_snapshot)
) OR EXISTS (
    SELECT FROM key_deletion l
    WHERE l.tenant_id = %(tenant)s AND NOT pg_visible_in_snapshot(l.written_by_xid, %(seen)s::pg_snapshot)
) OR EXISTS (
    SELECT FROM match_decision d
    WHERE d.tenant_id = %(tenant)s AND d.written_by_xid >= pg_snapshot_xmin(%(seen)s::pg_snapshot)
      AND NOT pg_visible_in_snapshot(d.written_by_xid, %(seen)s::pg_snapshot)
)
"""

_DELETE_EDGES = """
DELETE FROM document_match m USING unnest(%(a)s::uuid[], %(b)s::uuid[]) AS removed (a, b)
WHERE m.document_a_id = removed.a AND m.document_b_id = removed.b AND m.decided_by <> 'reviewer'
"""

_INSERT_EDGES = """
INSERT INTO document_match (tenant_id, document_a_id, document_b_id, score, confidence, evidence, decided_by, reasoning,
                            decided_at)
SELECT %(tenant)s, a, b, score, confidence, evidence, decided_by, reasoning, %(now)s
FROM unnest(%(a)s::uuid[], %(b)s::uuid[], %(scores)s::float8[], %(confidences)s::text[], %(evidence)s::jsonb[],
            %(deciders)s::text[], %(reasonings)s::text[])
     AS made (a, b, score, confidence, evidence, decided_by, reasoning)
ON CONFLICT (document_a_id, document_b_id) DO UPDATE
SET score = excluded.score, confidence = excluded.confidence, evidence = excluded.evidence,
    reasoning = excluded.reasoning, decided_at = excluded.decided_at, decided_by = excluded.decided_by
WHERE document_match.decided_by <> 'reviewer'
"""

# Computes the connected components of the seeds, ignoring edges to contracts. A component's id is its smallest document
# id. Rows are locked in id order before they change, as in every statement that locks several documents.
_CLUSTERS = """
WITH RECURSIVE reached (seed, id) AS (
    SELECT id, id FROM document WHERE id = ANY(%(seeds)s) AND type <> %(contract)s
    UNION
    SELECT reached.seed, next.id
    FROM reached
    CROSS JOIN LATERAL (
        SELECT document_b_id AS id FROM document_match WHERE document_a_id = reached.id
        UNION ALL
        SELECT document_a_id AS id FROM document_match WHERE document_b_id = reached.id
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
UPDATE document SET matching_skip_reason = updated.reason
FROM unnest(%(ids)s::uuid[], %(reasons)s::text[]) AS updated (id, reason)
WHERE document.id = updated.id
  AND document.matching_status IS NOT DISTINCT FROM 'succeeded'  -- avoids the index on states
  AND document.matching_skip_reason IS DISTINCT FROM updated.reason
"""


_MARK_UNMATCHED = """
UPDATE document SET matching_skip_reason = %(reason)s
WHERE id = ANY(%(ids)s) AND matching_status IS NOT DISTINCT FROM 'succeeded' AND matching_skip_reason IS NULL
  AND NOT EXISTS (SELECT FROM document_match m WHERE m.document_a_id = document.id OFFSET 0)
  AND NOT EXISTS (SELECT FROM document_match m WHERE m.document_b_id = document.id OFFSET 0)
"""


class NewMatch(NamedTuple):
    """An edge to write. `score` is in bits."""

    pair: Pair
    score: float
    confidence: str
    evidence: Mapping[str, Any]
    decided_by: Literal["rules", "llm"]
    reasoning: str


def lock(connection: Connection, tenant_id: UUID, snapshot: str) -> bool:
    """Take the tenant's matching lock until the end of the transaction.

    Returns True if no transaction of any tenant was committed since the snapshot.
    """
    with connection.pipeline():
        connection.execute(_LOCK, [tenant_id])
        quiet = connection.execute(_QUIET, {"seen": snapshot})
    return bool(_require_row(quiet.fetchone())[0])


def lock_tenant_blocking(connection: Connection, tenant_id: UUID) -> None:
    """Take the tenant's matching lock until the end of the transaction."""
    connection.execute(_LOCK, [tenant_id])


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes to the data that searches have read."""

    invalidates_all: bool
    """Whether a document was removed or lost keys, or a reviewer made a decision. If so, every search is repeated."""
    keys: Mapping[Key, int]
    """Tracked keys that were written since the snapshot, each with the number of documents that wrote it."""
    edges: Mapping[Pair, Edge]
    """Current edges of the documents whose edges were read."""


def changes_since(
    connection: Connection,
    tenant_id: UUID,
    tracked_keys: Collection[Key],
    document_ids: Collection[UUID],
    snapshot: str,
) -> Changes:
    """Return changes to the data that searches read since a snapshot.

    Includes committed changes and changes in this transaction.
    """
    keys = list(tracked_keys)
    with connection.pipeline():
        changed = connection.execute(_CHANGED, {"tenant": tenant_id, "seen": snapshot, **columns(keys)})
        rows = select_edges(connection, document_ids)
    numbers: dict[int | None, int] = dict(changed.fetchall())
    changed_keys = {keys[number - 1]: count for number, count in numbers.items() if number is not None}
    return Changes(None in numbers, changed_keys, parse_edges(rows.fetchall())[0])


Count = Callable[[], int]
"""Returns the number of changed rows. Call it only after the statement's pipeline has ended."""


def _row_counter(connection: Connection, statement: str, parameters: Mapping[str, Any]) -> Count:
    cursor = connection.execute(statement.encode(), parameters)
    return lambda: cursor.rowcount


def delete_edges(connection: Connection, pairs: Collection[Pair]) -> Count:
    """Delete edges, except for reviewers' edges."""
    if not pairs:
        return int
    return _row_counter(connection, _DELETE_EDGES, {"a": [pair.a for pair in pairs], "b": [pair.b for pair in pairs]})


def insert_edges(connection: Connection, tenant_id: UUID, matches: Collection[NewMatch], now: datetime) -> Count:
    """Insert or update edges, except for reviewers' edges."""
    if not matches:
        return int
    return _row_counter(
        connection,
        _INSERT_EDGES,
        {
            "tenant": tenant_id,
            "now": now,
            "a": [edge.pair.a for edge in matches],
            "b": [edge.pair.b for edge in matches],
            "scores": [edge.score for edge in matches],
            "confidences": [edge.confidence for edge in matches],
            "evidence": [Jsonb(edge.evidence) for edge in matches],
            "deciders": [edge.decided_by for edge in matches],
            "reasonings": [edge.reasoning for edge in matches],
        },
    )


Moves = Callable[[], list[tuple[UUID | None, UUID]]]
"""Returns the old and new cluster of each document whose cluster changed. Call it only after the statement's pipeline
has ended."""


def singleton_clusters(connection: Connection, ids: Collection[UUID]) -> Moves:
    """Make each of these documents its own cluster."""
    return connection.execute(_OWN_CLUSTERS, {"ids": list(ids)}).fetchall if ids else list


def rename_clusters(connection: Connection, seeds: Collection[UUID]) -> Moves:
    """Compute the seeds' connected components, and set the documents' cluster ids."""
    if not seeds:
        return list
    return connection.execute(_CLUSTERS, {"seeds": list(seeds), "contract": CONTRACT}).fetchall


def cluster_ids(connection: Connection, ids: Collection[UUID]) -> frozenset[UUID]:
    """Return the clusters of documents."""
    return frozenset(id_ for (id_,) in connection.execute(_CLUSTERS_OF, {"ids": list(ids)}))


def write_reasons(connection: Connection, reasons: Mapping[UUID, str | None]) -> None:
    """Update the reasons of documents whose matching has succeeded."""
    if reasons:
        connection.execute(_REASONS, {"ids": list(reasons), "reasons": list(reasons.values())})


def mark_unmatched(connection: Connection, ids: Collection[UUID]) -> None:
    """Set missing reasons to NO_PARTNER for documents without an edge.

    Documents whose matching has not succeeded are skipped.
    """
    if ids:
        connection.execute(_MARK_UNMATCHED, {"ids": list(ids), "reason": NO_PARTNER})


def _require_row(row: tuple[Any, ...] | None) -> tuple[Any, ...]:
    if row is None:
        message = "a statement that always returns one row returned none"
        raise AssertionError(message)
    return row


Verdict = Literal["confirmed", "rejected"]
ReviewState = Literal["open", "decided", "resolved"]
MAX_CANDIDATES = 20
"""Maximum number of candidates per ambiguous match that are stored with evidence, most probable first."""


# -- the queue ------------------------------------------------------------------------------------------------------

_OPEN = """
INSERT INTO document_review AS review
    (document_id, tenant_id, type, state, ambiguous_matches, probability, weights_version, opened_at, changed_at)
SELECT d.id, d.tenant_id, coalesce(d.type, 'other'), 'open', opened.ambiguous_matches, opened.probability,
       %(weights)s, %(now)s, %(now)s
FROM unnest(%(ids)s::uuid[], %(ambiguous_matches)s::jsonb[], %(probabilities)s::float8[]) AS opened (id,
    ambiguous_matches, probability)
JOIN document d ON d.id = opened.id
ON CONFLICT (document_id) DO UPDATE
SET type = excluded.type, state = 'open', ambiguous_matches = excluded.ambiguous_matches,
    probability = excluded.probability,
    weights_version = excluded.weights_version, changed_at = excluded.changed_at, closed_at = NULL,
    opened_at = CASE WHEN review.state = 'open' THEN review.opened_at ELSE excluded.opened_at END
WHERE (review.state, review.type, review.ambiguous_matches, review.weights_version)
    IS DISTINCT FROM ('open', excluded.type, excluded.ambiguous_matches, excluded.weights_version)
RETURNING document_id
"""

_CLOSE = """
UPDATE document_review
SET state = CASE WHEN document_id = ANY(%(decided)s) THEN 'decided' ELSE 'resolved' END, changed_at = %(now)s,
    closed_at = %(now)s
WHERE document_id = ANY(%(ids)s) AND state = 'open'
RETURNING document_id
"""


class ReviewChanges(NamedTuple):
    """Documents whose reviews changed."""

    open: frozenset[UUID]
    """Documents with a new or changed ambiguous match."""
    closed: frozenset[UUID]


def update_reviews(
    connection: Connection,
    choices: Mapping[UUID, RuleDecision],
    now: datetime,
    decided: Collection[UUID],
) -> Callable[[], ReviewChanges]:
    """Open, change or close the reviews of the documents in `choices`.

    Closed reviews of `decided` documents are recorded as decided by a reviewer. The result is a function that returns
    the changes. Call it only after the pipeline has ended.
    """
    ambiguous = {id_: matches for id_, choice in choices.items() if (matches := unresolved_matches(choice))}
    resolved = choices.keys() - ambiguous.keys()
    closed = close(connection, resolved, now, decided) if resolved else frozenset
    if not ambiguous:
        return lambda: ReviewChanges(frozenset(), closed())
    cursor = connection.execute(
        _OPEN,
        {
            "ids": list(ambiguous),
            "ambiguous_matches": [
                Jsonb([_ambiguous_match_record(match) for match in matches]) for matches in ambiguous.values()
            ],
            "probabilities": [
                round(max(link.probability for match in matches for link in match.candidates), 4)
                for matches in ambiguous.values()
            ],
            "weights": current().version,
            "now": now,
        },
    )
    return lambda: ReviewChanges(frozenset(id_ for (id_,) in cursor.fetchall()), closed())


_HAS_MATCH = "SELECT FROM document_match WHERE document_a_id = %(id)s OR document_b_id = %(id)s LIMIT 1"


def open_unmatched(connection: Connection, id_: UUID, reason: str, now: datetime) -> None:
    """Open a review without candidates for a skipped document.

    A reviewer must choose its match. A document with a match needs no review, because a reviewer confirmed the match.
    """
    if connection.execute(_HAS_MATCH, {"id": id_}).fetchone() is not None:
        return
    ambiguous_match: dict[str, Any] = {
        "kinds": [],
        "number": None,
        "reason": reason,
        "count": 0,
        "candidates": [],
        "other_candidates": [],
    }
    values = {
        "ids": [id_],
        "ambiguous_matches": [Jsonb([ambiguous_match])],
        "probabilities": [0.0],
        "weights": current().version,
        "now": now,
    }
    connection.execute(_OPEN, values)


def close(
    connection: Connection, ids: Collection[UUID], now: datetime, decided_ids: Collection[UUID] = ()
) -> Callable[[], frozenset[UUID]]:
    """Close the open reviews of documents.

    The result is a function that returns the ids of these documents. Call it only after the pipeline has ended.
    """
    cursor = connection.execute(_CLOSE, {"ids": list(ids), "decided": list(decided_ids), "now": now})
    return lambda: frozenset(id_ for (id_,) in cursor.fetchall())


def _ambiguous_match_record(ambiguous_match: AmbiguousMatch) -> dict[str, Any]:
    return {
        "kinds": list(ambiguous_match.kinds),
        "number": ambiguous_match.number,
        "reason": ambiguous_match.reason,
        "count": len(ambiguous_match.candidates),
        "candidates": [_candidate(link) for link in ambiguous_match.candidates[:MAX_CANDIDATES]],
        "other_candidates": [str(link.parent) for link in ambiguous_match.candidates[MAX_CANDIDATES:]],
        **({} if ambiguous_match.llm_skip_reason is None else {"llm_skip_reason": ambiguous_match.llm_skip_reason}),
    }


def _candidate(link: ProposedMatch) -> dict[str, Any]:
    return {
        "document": str(link.parent),
        "type": link.kind,
        "probability": round(link.probability, 4),
        "bits": round(link.score.total, 2),
        "evidence": [list(item) for item in link.score.evidence],
    }


@dataclass(frozen=True)
class Review:
    """A review in the queue."""

    document_id: UUID
    type: str
    state: ReviewState
    ambiguous_matches: Sequence[dict[str, Any]]
    """Each has `kinds`, `number`, `reason`, `count` and `candidates`. A candidate has `document`, `type`,
    `probability`, `bits` and `evidence` (feature, level, bits). `other_candidates` are the ids of further candidates.
    `llm_skip_reason` is the reason why the LLM judge was not used."""
    probability: float
    weights: str
    opened_at: datetime
    changed_at: datetime
    closed_at: datetime | None

    @property
    def candidates(self) -> frozenset[UUID]:
        """The candidates of all ambiguous matches."""
        ids = {
            candidate["document"]
            for ambiguous_match in self.ambiguous_matches
            for candidate in ambiguous_match["candidates"]
        }
        return frozenset(
            map(UUID, ids.union(*(ambiguous_match["other_candidates"] for ambiguous_match in self.ambiguous_matches)))
        )


_REVIEWS = """
SELECT document_id, type, state, ambiguous_matches, probability, weights_version, opened_at, changed_at, closed_at
FROM document_review WHERE document_id = ANY(%(ids)s)
"""


def reviews(connection: Connection, ids: Collection[UUID]) -> dict[UUID, Review]:
    """Return the reviews by document."""
    return {row[0]: Review(*row) for row in connection.execute(_REVIEWS, {"ids": list(ids)})}


# -- decisions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decision:
    """A reviewer's decision about a pair."""

    id: int
    pair: Pair
    verdict: Verdict
    by: str
    reason: str | None
    at: datetime


_DECISIONS = """
SELECT id, document_a_id, document_b_id, decision, decided_by, reason, decided_at FROM match_decision
WHERE document_a_id = ANY(%(ids)s) OR document_b_id = ANY(%(ids)s) ORDER BY id
"""
_DECIDE = """
INSERT INTO match_decision (tenant_id, document_a_id, document_b_id, decision, decided_by, reason, decided_at)
VALUES (%(tenant)s, %(a)s, %(b)s, %(verdict)s, %(by)s, %(reason)s, %(now)s)
RETURNING id
"""


def decisions(connection: Connection, ids: Collection[UUID]) -> list[Decision]:
    """Return the decisions about documents, oldest first.

    The latest decision about a pair applies.
    """
    rows = connection.execute(_DECISIONS, {"ids": list(ids)})
    return [Decision(id_, Pair(a, b), verdict, by, reason, at) for id_, a, b, verdict, by, reason, at in rows]


def record(
    connection: Connection, tenant_id: UUID, pair: Pair, verdict: Verdict, now: datetime, *, by: str, reason: str | None
) -> int:
    """Store a decision and return its id."""
    values = {"tenant": tenant_id, "a": pair.a, "b": pair.b, "verdict": verdict, "by": by, "reason": reason, "now": now}
    ((id_,),) = connection.execute(_DECIDE, values).fetchall()
    return int(id_)


_CONFIRM = """
INSERT INTO document_match (tenant_id, document_a_id, document_b_id, score, confidence, evidence, decided_by, reasoning,
                            decided_at)
VALUES (%(tenant)s, %(a)s, %(b)s, %(score)s, 'high', %(evidence)s, 'reviewer', %(reasoning)s, %(now)s)
ON CONFLICT (document_a_id, document_b_id) DO UPDATE
SET score = excluded.score, confidence = excluded.confidence, evidence = excluded.evidence,
    decided_by = excluded.decided_by, reasoning = excluded.reasoning, decided_at = excluded.decided_at
"""

# The rules decide again and treat the edge as their own.
_RELEASE = """
UPDATE document_match SET decided_by = 'rules'
WHERE document_a_id = %(a)s AND document_b_id = %(b)s AND decided_by = 'reviewer'
"""
_UNLINK = "DELETE FROM document_match WHERE document_a_id = %(a)s AND document_b_id = %(b)s"

# A document that cannot be matched and has no edge has no cluster. Its keys change only when it is matched itself.
_CLEAR_CLUSTER = """
UPDATE document d SET cluster_id = NULL
WHERE id = ANY(%(ids)s) AND NOT EXISTS (SELECT FROM document_match WHERE document_a_id = d.id OR document_b_id = d.id)
"""


def link(
    connection: Connection,
    tenant_id: UUID,
    pair: Pair,
    score: float,
    evidence: Mapping[str, Any],
    reasoning: str,
    now: datetime,
) -> None:
    """Write a reviewer's edge. It replaces an existing edge."""
    values = {"tenant": tenant_id, "a": pair.a, "b": pair.b, "now": now}
    values |= {"score": score, "evidence": Jsonb(evidence), "reasoning": reasoning}
    connection.execute(_CONFIRM, values)


def release(connection: Connection, pair: Pair) -> None:
    """Turn a reviewer's edge into an edge by rules."""
    connection.execute(_RELEASE, {"a": pair.a, "b": pair.b})


def unlink(connection: Connection, pair: Pair) -> bool:
    """Delete an edge. Returns True if it existed."""
    return connection.execute(_UNLINK, {"a": pair.a, "b": pair.b}).rowcount > 0


def clear_clusters(connection: Connection, ids: Collection[UUID]) -> None:
    """Remove unmatched documents without an edge from their cluster."""
    if ids:
        connection.execute(_CLEAR_CLUSTER, {"ids": list(ids)})
