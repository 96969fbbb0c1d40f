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
from counterfoil.documents.matching import matcher, reviews, store
from counterfoil.documents.matching.decide import decide
from counterfoil.documents.matching.keys import PARENTS
from counterfoil.documents.matching.neighbourhood import Neighbourhood
from counterfoil.documents.matching.profile import Document
from counterfoil.documents.matching.rules import ends, is_parent
from counterfoil.documents.matching.score import Score, score
from counterfoil.documents.matching.store import Pair
from counterfoil.documents.matching.weights import current


@dataclass(frozen=True, slots=True)
class Settled:
    """What a decision changed."""

    clusters: frozenset[UUID]
    """The clusters that documents left or came into."""
    documents: frozenset[UUID]
    """The two, and those whose edges changed."""
    unasked: frozenset[UUID]
    """Documents that are in doubt in another way now, which a language model may be asked about."""


def settle(
    connection: Connection,
    tenant_id: UUID,
    pair: Pair,
    verdict: reviews.Verdict,
    now: datetime,
    *,
    by: str,
    reason: str | None = None,
) -> Settled:
    """Confirm or reject a pair of documents that are both there and of a kind that is matched.

    In the caller's transaction, which is the tenant's and READ COMMITTED; the tenant's matching lock is held until it
    ends, and has to be taken before the pair is looked at.

    Raises:
        KeyError: one of them is not there, or is of no kind that is matched.
    """
    store.wait_for_lock(connection, tenant_id)
    documents = matcher.CACHE.load(connection, pair)
    one, other = documents[pair.a], documents[pair.b]
    reviews.record(connection, tenant_id, pair, verdict, now, by=by, reason=reason)
    if verdict == "confirmed":
        _link(connection, tenant_id, one, other, now, by=by, reason=reason)
    else:
        reviews.release(connection, pair)
    stored = store.stored_keys(connection, pair)
    found = [_again(connection, tenant_id, end, pair, now) for end in (one, other) if end.id in stored]
    clusters = {cluster for part in found for cluster in part.clusters}
    if verdict == "rejected":
        reviews.unlink(connection, pair)
    clusters |= _rename(connection, pair)
    reviews.leave_alone(connection, [end for end in pair if end not in stored])
    documents_ = frozenset(pair).union(*(part.documents for part in found))
    return Settled(frozenset(clusters), documents_, frozenset().union(*(part.unasked for part in found)))


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


def _again(connection: Connection, tenant_id: UUID, document: Document, pair: Pair, now: datetime) -> Settled:
    """Make the decisions again that a decision about a document touches."""
    outcome = decide(Neighbourhood(connection, tenant_id, matcher.CACHE), document, ())
    applied = matcher.apply(connection, tenant_id, document.id, outcome, now, decided=pair)
    store.tell_reasons(connection, {id_: choice.reason for id_, choice in outcome.choices.items()})
    return Settled(
        frozenset(cluster for move in applied.moves for cluster in move if cluster is not None),
        frozenset().union(*outcome.made, *outcome.gone),
        frozenset(case.child for case in outcome.unasked),
    )


def _rename(connection: Connection, ids: Collection[UUID]) -> set[UUID]:
    moves = store.rename_clusters(connection, ids)()
    return {cluster for move in moves for cluster in move if cluster is not None}


def is_matched_kind(kind: str | None) -> bool:
    """Whether documents of a kind can belong to others."""
    return kind in PARENTS
