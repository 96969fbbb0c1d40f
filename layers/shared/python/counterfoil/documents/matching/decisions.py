"""What a person decides about two documents: that they belong together, or that they do not.

A decision is written like a match, under the tenant's matching lock: with the edge, it makes the decisions again that
it touches, which are those that the arrival of either of the two would touch. So the edges are at once what they have
to be, and whoever reads them sees the old or the new state. A match that is under way beside it looks again
(`store.changed_since`).

A document that has no keys, since it was not matched yet or cannot be, decides nothing: only the edge is written, and
the match still to come finds the decision.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.documents.matching import key_rows, matcher, reviews, store
from counterfoil.documents.matching.decide import decide
from counterfoil.documents.matching.neighbourhood import Neighbourhood
from counterfoil.documents.matching.profile import Document
from counterfoil.documents.matching.reading import Reading, finish
from counterfoil.documents.matching.rules import ends, is_parent
from counterfoil.documents.matching.score import Score, score
from counterfoil.documents.matching.store import Pair
from counterfoil.documents.matching.weights import current

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
    verdict: reviews.Verdict,
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
    store.wait_for_lock(connection, tenant_id)
    decided = sorted({end for pair in pairs for end in pair})
    documents = matcher.CACHE.load(connection, decided)
    for pair in pairs:
        one, other = documents[pair.a], documents[pair.b]
        reviews.record(connection, tenant_id, pair, verdict, now, by=by, reason=reason)
        if verdict == "confirmed":
            _link(connection, tenant_id, one, other, now, by=by, reason=reason)
        else:
            reviews.release(connection, pair)
    stored = key_rows.stored(connection, decided)
    found = [_again(connection, tenant_id, documents[end], decided, now) for end in decided if end in stored]
    if verdict == "rejected":
        for pair in pairs:
            reviews.unlink(connection, pair)
    clusters = _rename(connection, decided).union(*(part.clusters for part in found))
    skipped = [end for end in decided if end not in stored]
    reviews.leave_alone(connection, skipped)
    if verdict == "confirmed":
        reviews.close(connection, skipped, now, skipped)
    else:
        for end in skipped:
            if not documents[end].has_counterparty:
                reviews.open_unmatched(connection, end, matcher.NO_COUNTERPARTY, now)
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
    reviews.link(connection, tenant_id, Pair.of(one.id, other.id), found.total, evidence, told, now)


def _again(
    connection: Connection, tenant_id: UUID, document: Document, decided: Collection[UUID], now: datetime
) -> Settled:
    """Make the decisions again that a decision about a document touches."""
    outcome = finish(decide(Neighbourhood(Reading(connection, tenant_id, matcher.CACHE)), document))
    applied = matcher.apply(connection, tenant_id, [matcher.Change(document.id, outcome)], now, decided)
    store.tell_reasons(connection, {id_: outcome.note(id_) for id_ in outcome.choices})
    return Settled(
        applied.clusters,
        frozenset().union(*outcome.made, *outcome.gone, *applied.reviews),
        applied.reviews.open.intersection(case.child for case in outcome.unasked),
    )


def _rename(connection: Connection, ids: Collection[UUID]) -> set[UUID]:
    moves = store.rename_clusters(connection, ids)()
    return {cluster for move in moves for cluster in move if cluster is not None}


# -- what a decision is about ---------------------------------------------------------------------------------------

_CLUSTERS = "SELECT id, cluster_id FROM document WHERE id = ANY(%(ids)s)"
_MEMBERS = """
SELECT id FROM document
WHERE (tenant_id, cluster_id) = (SELECT tenant_id, cluster_id FROM document WHERE id = %(id)s)
"""
_PAIRS = "SELECT a, b FROM document_match WHERE a = %(id)s OR b = %(id)s ORDER BY a, b"


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
    rejected = store.edges(connection, here)[1]
    found = [
        (score(child, parent).total, Pair.of(child.id, parent.id))
        for a in sorted(here & documents.keys())
        for b in sorted(there & documents.keys())
        for child, parent in [ends(documents[a], documents[b])]
        if is_parent(child, parent) and Pair.of(a, b) not in rejected
    ]
    return max(found, default=(0.0, Pair.of(one, other)))[1]
