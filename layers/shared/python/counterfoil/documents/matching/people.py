"""Decisions of people about two documents, and documents that leave matching.

A decision is written like a match, under the tenant's matching lock. With the edge, it repeats the decisions that it
touches, which are those that the arrival of either document would touch. So the edges are right at once, and every
reader sees the old or the new state. A match in progress beside it looks again (`sql.changed_since`). For a document
without keys, because it was not matched yet or cannot be, only the edge is written, and its later match finds the
decision.

A document leaves when it is removed, or is read again and no longer states anything to be matched by. It is then like
a document that lost all its keys: every document that its keys led to, or that was led to it, decides again, and so
does every document linked to it. They are found here, and matched again one by one.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.documents.matching import matcher, sql
from counterfoil.documents.matching.decide import decide, touched
from counterfoil.documents.matching.keys import Key, keys
from counterfoil.documents.matching.normalise import CONTRACT, Document, document
from counterfoil.documents.matching.reading import Context, Reading, run
from counterfoil.documents.matching.rules import ends, is_parent
from counterfoil.documents.matching.score import Score, current, score
from counterfoil.documents.matching.sql import Pair

MAX_PAIRS = 2_500
"""Pairs of two clusters that are weighed to find the best."""


@dataclass(frozen=True, slots=True)
class Settled:
    """What a decision changed."""

    clusters: frozenset[UUID]
    """The clusters that documents left or came into."""
    documents: frozenset[UUID]
    """Documents decided about, and documents with changed edges or reviews."""
    unasked: frozenset[UUID]
    """Documents that are in doubt otherwise than before, which a language model may be asked about."""


def settle(
    connection: Connection,
    tenant_id: UUID,
    pairs: Collection[Pair],
    verdict: sql.Verdict,
    now: datetime,
    *,
    by: str,
    reason: str | None = None,
) -> Settled:
    """Confirm or reject pairs of documents that are all there and of kinds that are matched.

    In the caller's transaction, which is the tenant's and READ COMMITTED; the tenant's matching lock is held until it
    ends, and has to be taken before the pairs are looked at.

    Raises:
        KeyError: a document is not there, or is of no kind that is matched.
    """
    sql.wait_for_lock(connection, tenant_id)
    decided = sorted({end for pair in pairs for end in pair})
    documents = matcher.CACHE.load(connection, decided)
    for pair in pairs:
        one, other = documents[pair.a], documents[pair.b]
        sql.record(connection, tenant_id, pair, verdict, now, by=by, reason=reason)
        if verdict == "confirmed":
            _link(connection, tenant_id, one, other, now, by=by, reason=reason)
        else:
            sql.release(connection, pair)
    stored = sql.stored(connection, decided)
    found = [_again(connection, tenant_id, documents[end], decided, now) for end in decided if end in stored]
    if verdict == "rejected":
        for pair in pairs:
            sql.unlink(connection, pair)
    clusters = _rename(connection, decided).union(*(part.clusters for part in found))
    skipped = [end for end in decided if end not in stored]
    sql.leave_alone(connection, skipped)
    if verdict == "confirmed":
        sql.close(connection, skipped, now, skipped)
    else:
        for end in skipped:
            if not documents[end].has_counterparty:
                sql.open_unmatched(connection, end, matcher.NO_COUNTERPARTY, now)
    return Settled(
        frozenset(clusters),
        frozenset(decided).union(*(part.documents for part in found)),
        frozenset().union(*(part.unasked for part in found)),
    )


def _link(
    connection: Connection,
    tenant_id: UUID,
    one: Document,
    other: Document,
    now: datetime,
    *,
    by: str,
    reason: str | None,
) -> None:
    child, parent = ends(one, other)
    found = score(child, parent) if is_parent(child, parent) else Score((), named=False)
    evidence = {
        "by": "person",
        "child": str(child.id),
        "model": current().version,
        "features": [list(item) for item in found.evidence],
    }
    told = f"Confirmed by {by}{f': {reason}' if reason else ''}"
    sql.link(connection, tenant_id, Pair.of(one.id, other.id), found.total, evidence, told, now)


def _again(
    connection: Connection, tenant_id: UUID, document: Document, decided: Collection[UUID], now: datetime
) -> Settled:
    """Make the decisions again that a decision about a document touches."""
    outcome = run(decide(Context(Reading(connection, tenant_id, matcher.CACHE)), document))
    applied = matcher.apply(connection, tenant_id, [matcher.Change(document.id, outcome)], now, decided)
    sql.tell_reasons(connection, {id_: outcome.note(id_) for id_ in outcome.choices})
    return Settled(
        applied.clusters,
        frozenset().union(*outcome.made, *outcome.gone, *applied.reviews),
        applied.reviews.open.intersection(case.child for case in outcome.unasked),
    )


def _rename(connection: Connection, ids: Collection[UUID]) -> set[UUID]:
    moves = sql.rename_clusters(connection, ids)()
    return {cluster for move in moves for cluster in move if cluster is not None}


# -- what a decision is about ---------------------------------------------------------------------------------------

_CLUSTERS = "SELECT id, cluster_id FROM document WHERE id = ANY(%(ids)s)"
_MEMBERS = """
SELECT id FROM document
WHERE (tenant_id, cluster_id) = (SELECT tenant_id, cluster_id FROM document WHERE id = %(id)s)
"""
_PAIRS = """
SELECT document_a_id, document_b_id FROM document_match
WHERE document_a_id = %(id)s OR document_b_id = %(id)s ORDER BY document_a_id, document_b_id
"""


def matchable(connection: Connection, ids: Collection[UUID]) -> bool:
    """Whether these documents are all there, state something, and are of kinds that are matched."""
    return matcher.CACHE.load(connection, ids).keys() == set(ids)


def clusters(connection: Connection, ids: Collection[UUID]) -> dict[UUID, UUID | None]:
    """The cluster of each of these documents that is there; None where it is in none yet."""
    return dict(connection.execute(_CLUSTERS, {"ids": list(ids)}).fetchall())


def members(connection: Connection, id_: UUID) -> frozenset[UUID]:
    """The documents of the cluster that a document is in, itself among them; none where it is in none."""
    return frozenset(found for (found,) in connection.execute(_MEMBERS, {"id": id_}))


def pairs_of(connection: Connection, id_: UUID) -> list[Pair]:
    """The edges of a document."""
    return [Pair(*row) for row in connection.execute(_PAIRS, {"id": id_})]


def best_pair(connection: Connection, one: UUID, other: UUID) -> Pair:
    """Of the clusters of two documents, the one of each that fit best; the two themselves where none can belong.

    What people rejected is left out. So are clusters of so many documents that all pairs would take long to weigh.
    """
    here = members(connection, one) | {one}
    there = (members(connection, other) | {other}) - here
    if len(here) * len(there) > MAX_PAIRS:
        return Pair.of(one, other)
    documents = matcher.CACHE.load(connection, here | there)
    rejected = sql.edges(connection, here)[1]
    found = [
        (score(child, parent).total, Pair.of(child.id, parent.id))
        for a in sorted(here & documents.keys())
        for b in sorted(there & documents.keys())
        for child, parent in [ends(documents[a], documents[b])]
        if is_parent(child, parent) and Pair.of(a, b) not in rejected
    ]
    return max(found, default=(0.0, Pair.of(one, other)))[1]


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
    sql.wait_for_lock(connection, tenant_id)
    context = Context(Reading(connection, tenant_id, matcher.CACHE))
    run(context.read(ids, ids))
    found = {end for id_ in ids for edge in context.edges(id_) for end in edge.pair}
    neighbours = frozenset(found.difference(ids))
    stored = sql.stored(connection, ids)
    stating = {one.id: one for one in context.documents(ids)}
    for id_ in ids:
        one = stating.get(id_) or _stating_nothing(id_)
        obsolete: set[Key] = stored.get(id_, set()) | keys(one)
        found |= {other.id for other in run(touched(context, one, obsolete))}
    clusters = sql.clusters_of(connection, neighbours.union(ids))
    return Leaving(neighbours, frozenset(found.difference(ids)), clusters)


def _stating_nothing(id_: UUID) -> Document:
    """A document of which only the keys are left that it had: whatever it is, it is found by nothing else."""
    return document(id_, datetime.min.replace(tzinfo=UTC), CONTRACT, {})


_IS_MATCHED = """
SELECT EXISTS (SELECT FROM document_key WHERE document_id = %(id)s)
    OR EXISTS (SELECT FROM document WHERE id = %(id)s AND cluster_id IS NOT NULL)
"""
_FORGET_KEYS = "DELETE FROM document_key WHERE document_id = %(id)s"
_FORGET_EDGES = """
DELETE FROM document_match WHERE (document_a_id = %(id)s OR document_b_id = %(id)s) AND decided_by <> 'person'
"""
_FORGET_CLUSTER = """
UPDATE document SET cluster_id = NULL
WHERE id = %(id)s AND NOT EXISTS (SELECT FROM document_match WHERE document_a_id = %(id)s OR document_b_id = %(id)s)
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
    sql.note_loss(connection, tenant_id)
    sql.close(connection, [id_], now)
    return replace(parts, clusters=left(connection, parts))


def left(connection: Connection, leaving_: Leaving) -> frozenset[UUID]:
    """Name anew the clusters that are left. Returns those that changed: what they were called, and are."""
    moves = sql.rename_clusters(connection, leaving_.neighbours)() if leaving_.neighbours else []
    return leaving_.clusters.union(cluster for move in moves for cluster in move if cluster is not None)
