"""Reviewers' decisions about two documents, and documents that leave matching.

A decision is written like a match, under the tenant's matching lock. The same transaction repeats the decisions that
the arrival of either document would affect. The edges are therefore correct immediately, and readers see either the old
or the new state. A concurrent match repeats its search (`sql.changes_since`). For a document without keys, only the
edge is written. A later match of the document applies the decision.

A document leaves when it is removed, or when its new content cannot be matched. This is like losing all keys: the
decisions of all documents that share a key or are linked must be repeated. This module finds these documents, and they
are matched again one by one.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.documents.matching import matcher, sql
from counterfoil.documents.matching.decide import affected_documents, decide
from counterfoil.documents.matching.keys import Key, keys
from counterfoil.documents.matching.normalize import CONTRACT, Document, document
from counterfoil.documents.matching.reading import BatchReader, Context, run
from counterfoil.documents.matching.rules import is_parent, order_pair
from counterfoil.documents.matching.score import Score, current, score
from counterfoil.documents.matching.sql import Pair

MAX_PAIRS = 2_500
"""Maximum number of pairs between two clusters that are scored to find the best pair."""


@dataclass(frozen=True, slots=True)
class ManualDecisionResult:
    """Changes made by a decision."""

    clusters: frozenset[UUID]
    """The clusters that documents left or joined."""
    documents: frozenset[UUID]
    """Documents decided about, and documents with changed edges or reviews."""
    awaiting_judgment: frozenset[UUID]
    """Documents with a new ambiguous match, about which the LLM judge can decide."""


def decide_pairs(
    connection: Connection,
    tenant_id: UUID,
    pairs: Collection[Pair],
    verdict: sql.Verdict,
    now: datetime,
    *,
    by: str,
    reason: str | None = None,
) -> ManualDecisionResult:
    """Confirm or reject pairs of documents that can be matched.

    Runs in the caller's tenant transaction, which must be READ COMMITTED. The caller must take the tenant's matching
    lock before it reads the pairs. The lock lasts until the end of the transaction.

    Raises:
        KeyError: a document does not exist, or its kind is not matched.
    """
    sql.lock_tenant_blocking(connection, tenant_id)
    document_ids = sorted({end for pair in pairs for end in pair})
    documents = matcher.CACHE.load(connection, document_ids)
    for pair in pairs:
        first, second = documents[pair.a], documents[pair.b]
        sql.record(connection, tenant_id, pair, verdict, now, by=by, reason=reason)
        if verdict == "confirmed":
            _link(connection, tenant_id, first, second, now, by=by, reason=reason)
        else:
            sql.release(connection, pair)
    stored = sql.stored(connection, document_ids)
    results = [
        _repeat_decisions(connection, tenant_id, documents[end], document_ids, now)
        for end in document_ids
        if end in stored
    ]
    if verdict == "rejected":
        for pair in pairs:
            sql.unlink(connection, pair)
    clusters = _rename(connection, document_ids).union(*(result.clusters for result in results))
    skipped = [end for end in document_ids if end not in stored]
    sql.clear_clusters(connection, skipped)
    if verdict == "confirmed":
        sql.close(connection, skipped, now, skipped)
    else:
        for end in skipped:
            if not documents[end].has_counterparty:
                sql.open_unmatched(connection, end, matcher.NO_COUNTERPARTY, now)
    return ManualDecisionResult(
        frozenset(clusters),
        frozenset(document_ids).union(*(result.documents for result in results)),
        frozenset().union(*(result.awaiting_judgment for result in results)),
    )


def _link(
    connection: Connection,
    tenant_id: UUID,
    first: Document,
    second: Document,
    now: datetime,
    *,
    by: str,
    reason: str | None,
) -> None:
    child, parent = order_pair(first, second)
    match_score = score(child, parent) if is_parent(child, parent) else Score((), is_referenced=False)
    evidence = {
        "by": "reviewer",
        "child": str(child.id),
        "model": current().version,
        "features": [list(item) for item in match_score.evidence],
    }
    reasoning = f"Confirmed by {by}{f': {reason}' if reason else ''}"
    sql.link(connection, tenant_id, Pair.of(first.id, second.id), match_score.total, evidence, reasoning, now)


def _repeat_decisions(
    connection: Connection, tenant_id: UUID, document: Document, decided_ids: Collection[UUID], now: datetime
) -> ManualDecisionResult:
    """Repeat the decisions that a reviewer's decision about a document affects."""
    outcome = run(decide(Context(BatchReader(connection, tenant_id, matcher.CACHE)), document))
    applied = matcher.apply_changes(connection, tenant_id, [matcher.Change(document.id, outcome)], now, decided_ids)
    sql.write_reasons(connection, {id_: outcome.reason(id_) for id_ in outcome.choices})
    return ManualDecisionResult(
        applied.clusters,
        frozenset().union(*outcome.added, *outcome.removed, *applied.reviews),
        applied.reviews.open.intersection(case.child for case in outcome.pending_prompts),
    )


def _rename(connection: Connection, ids: Collection[UUID]) -> set[UUID]:
    moves = sql.rename_clusters(connection, ids)()
    return {cluster for move in moves for cluster in move if cluster is not None}


# -- documents of a decision ----------------------------------------------------------------------------------------

_CLUSTERS = "SELECT id, cluster_id FROM document WHERE id = ANY(%(ids)s)"
_MEMBERS = """
SELECT id FROM document
WHERE (tenant_id, cluster_id) = (SELECT tenant_id, cluster_id FROM document WHERE id = %(id)s)
"""
_PAIRS = """
SELECT document_a_id, document_b_id FROM document_match
WHERE document_a_id = %(id)s OR document_b_id = %(id)s ORDER BY document_a_id, document_b_id
"""


def are_matchable(connection: Connection, ids: Collection[UUID]) -> bool:
    """Return True if all documents exist with structured data and a matched kind."""
    return matcher.CACHE.load(connection, ids).keys() == set(ids)


def cluster_ids_by_document(connection: Connection, ids: Collection[UUID]) -> dict[UUID, UUID | None]:
    """Return each existing document's cluster, or None if it has no cluster."""
    return dict(connection.execute(_CLUSTERS, {"ids": list(ids)}).fetchall())


def cluster_members(connection: Connection, id_: UUID) -> frozenset[UUID]:
    """Return the documents in a document's cluster, including itself.

    The result is empty if the document has no cluster.
    """
    return frozenset(member for (member,) in connection.execute(_MEMBERS, {"id": id_}))


def list_pairs(connection: Connection, id_: UUID) -> list[Pair]:
    """Return the edges of a document."""
    return [Pair(*row) for row in connection.execute(_PAIRS, {"id": id_})]


def best_pair(connection: Connection, first: UUID, second: UUID) -> Pair:
    """Return the best pair between the clusters of two documents.

    Without such a pair, the two documents themselves are returned. Rejected pairs are skipped, and large clusters
    (MAX_PAIRS) are not searched.
    """
    own_cluster = cluster_members(connection, first) | {first}
    other_cluster = (cluster_members(connection, second) | {second}) - own_cluster
    if len(own_cluster) * len(other_cluster) > MAX_PAIRS:
        return Pair.of(first, second)
    documents = matcher.CACHE.load(connection, own_cluster | other_cluster)
    rejected = sql.edges(connection, own_cluster)[1]
    scored = [
        (score(child, parent).total, Pair.of(child.id, parent.id))
        for a in sorted(own_cluster & documents.keys())
        for b in sorted(other_cluster & documents.keys())
        for child, parent in [order_pair(documents[a], documents[b])]
        if is_parent(child, parent) and Pair.of(a, b) not in rejected
    ]
    return max(scored, default=(0.0, Pair.of(first, second)))[1]


@dataclass(frozen=True, slots=True)
class DepartingDocument:
    """Neighbors and clusters of documents that are being removed from their clusters."""

    neighbors: frozenset[UUID]
    """Documents with an edge to a departing document."""
    affected: frozenset[UUID]
    """Neighbors and other documents whose decisions must be repeated."""
    clusters: frozenset[UUID]
    """Clusters of the departing documents and their neighbors."""


def load_departing(connection: Connection, tenant_id: UUID, ids: Collection[UUID]) -> DepartingDocument:
    """Take the tenant's matching lock and return the neighborhood of `ids`.

    Call this before the documents are deleted. A concurrent match repeats its search under the lock afterwards
    (`sql.changes_since`).
    """
    sql.lock_tenant_blocking(connection, tenant_id)
    context = Context(BatchReader(connection, tenant_id, matcher.CACHE))
    run(context.read(ids, ids))
    affected = {end for id_ in ids for edge in context.edges(id_) for end in edge.pair}
    neighbors = frozenset(affected.difference(ids))
    stored = sql.stored(connection, ids)
    documents = {document.id: document for document in context.documents(ids)}
    for id_ in ids:
        document = documents.get(id_) or _empty_document(id_)
        obsolete: set[Key] = stored.get(id_, set()) | keys(document)
        affected |= {other.id for other in run(affected_documents(context, document, obsolete))}
    clusters = sql.cluster_ids(connection, neighbors.union(ids))
    return DepartingDocument(neighbors, frozenset(affected.difference(ids)), clusters)


def _empty_document(id_: UUID) -> Document:
    """Return a document without content, which is found only by its stored keys."""
    return document(id_, datetime.min.replace(tzinfo=UTC), CONTRACT, {})


_IS_MATCHED = """
SELECT EXISTS (SELECT FROM document_key WHERE document_id = %(id)s)
    OR EXISTS (SELECT FROM document WHERE id = %(id)s AND cluster_id IS NOT NULL)
"""
_DELETE_KEYS = "DELETE FROM document_key WHERE document_id = %(id)s"
_DELETE_EDGES = """
DELETE FROM document_match WHERE (document_a_id = %(id)s OR document_b_id = %(id)s) AND decided_by <> 'reviewer'
"""
_CLEAR_CLUSTER = """
UPDATE document SET cluster_id = NULL
WHERE id = %(id)s AND NOT EXISTS (SELECT FROM document_match WHERE document_a_id = %(id)s OR document_b_id = %(id)s)
"""


def _is_matched(connection: Connection, id_: UUID) -> bool:
    """Return True if a document has keys or a cluster."""
    return bool(connection.execute(_IS_MATCHED, {"id": id_}).fetchall()[0][0])


def _delete_matches(connection: Connection, id_: UUID) -> None:
    """Delete a document's keys, and its edges except reviewers'.

    If no edge remains, clear its cluster.
    """
    for statement in (_DELETE_KEYS, _DELETE_EDGES, _CLEAR_CLUSTER):
        connection.execute(statement, {"id": id_})


def withdraw(connection: Connection, tenant_id: UUID, id_: UUID, now: datetime) -> DepartingDocument | None:
    """Remove a document that can no longer be matched from its cluster.

    Its new content must already be committed. Its keys and edges are deleted, except for edges by reviewers, which keep
    it in its cluster. Returns its neighborhood with the old and new ids of clusters, or None if it had neither keys nor
    a cluster.
    """
    if not _is_matched(connection, id_):
        return None
    parts = load_departing(connection, tenant_id, [id_])
    _delete_matches(connection, id_)
    sql.record_key_deletion(connection, tenant_id)
    sql.close(connection, [id_], now)
    return replace(parts, clusters=finish_departure(connection, parts))


def finish_departure(connection: Connection, departing: DepartingDocument) -> frozenset[UUID]:
    """Rename the clusters of the remaining documents.

    Returns the old and new ids of changed clusters.
    """
    moves = sql.rename_clusters(connection, departing.neighbors)() if departing.neighbors else []
    return departing.clusters.union(cluster for move in moves for cluster in move if cluster is not None)
