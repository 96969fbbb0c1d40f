"""The two steps of matching a document: search and decide, and write."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.documents.matching import judgements, key_rows, reviews, store
from counterfoil.documents.matching.decide import Outcome, decide
from counterfoil.documents.matching.embeddings import Embedder
from counterfoil.documents.matching.judge import Judge, unasked
from counterfoil.documents.matching.judgements import Said
from counterfoil.documents.matching.keys import PARENTS, Key, keys
from counterfoil.documents.matching.neighbourhood import Neighbourhood
from counterfoil.documents.matching.profile import CONTRACT, Document, document
from counterfoil.documents.matching.rules import Link
from counterfoil.documents.matching.store import Documents, NewEdge, Pair
from counterfoil.documents.matching.weights import current
from counterfoil.errors import CancelledError, DeferredError, PermanentError, StaleClaimError
from counterfoil.llm import BudgetSpentError

CACHE = Documents()
"""Documents that were read before, of all tenants."""
_ROUNDS = 3
"""How often documents that arrive meanwhile may put new questions, before the try begins again."""
_PAUSE = timedelta(seconds=5)
"""Made before it begins again, so that a document does not go round and round while others keep coming."""
_CONFIDENCES = {"copy": "high", "reference": "high", "content": "medium", "through": "high"}


@dataclass(frozen=True, slots=True)
class Skip:
    """A document that is not matched. `reason` says why, in a sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class Decided:
    """What was decided, and what it was decided from."""

    tenant_id: UUID
    document: Document
    """The one that is matched."""
    stated: frozenset[Key]
    """The keys of what it says."""
    obsolete: frozenset[Key]
    """Keys that it was found by before, and has no more."""
    is_new: bool
    """Whether it had no keys before."""
    outcome: Outcome
    followed: frozenset[Key]
    edges: Mapping[Pair, store.Edge]
    edges_of: frozenset[UUID]
    seen: str
    """The database's snapshot before the first read."""
    is_judged: bool = False
    """Whether a judge answers what rules leave in doubt."""
    unasked: str | None = None
    """Why a judge answers no more of it, in a sentence for people: what has no answer stays in doubt."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a write changed."""

    linked: int
    """Edges inserted or renewed."""
    unlinked: int
    moved: int
    """Documents that are in another cluster now."""
    decided_again: bool
    """Whether something came in between, so that the search was made again under the lock."""
    reason: str | None
    """Why the document is alone, or what is in doubt, in a sentence for people; None where there is nothing to say."""
    clusters: frozenset[UUID]
    """The clusters that documents left or came into."""
    documents: frozenset[UUID]
    """The document, and those whose edges changed: the clusters that they are in now have changed, too."""


def search_and_decide(
    database: Database,
    tenant_id: UUID,
    document_id: UUID,
    judge: Callable[[], Judge] | None = None,
    embedder: Embedder | None = None,
) -> Decided | Skip:
    """Decide without a lock. What it read may change before the write, which looks and decides again where it did.

    What rules leave in doubt is asked of `judge`, which is made when it is needed, between transactions; without one it
    stays in doubt, and so does what the budget of questions does not last for. With an `embedder` the document is also
    found by what it is about, if the model does not fail.

    Raises:
        PermanentError: the tenant has no such document.
        DeferredError: the time is over, and answers were kept that the next try needs not ask for.
        CounterfoilError: mapped from psycopg's errors, or the judge's own.
    """
    if embedder is not None:
        embedder.embed(database, tenant_id, document_id)
    decided, kept = _search(database, tenant_id, document_id), 0
    for turn in range(_ROUNDS):
        if judge is None or isinstance(decided, Skip):
            return decided
        if not decided.outcome.unasked:
            break
        if turn == 0:
            _announce(database, decided)
        asked = judge()
        for case in decided.outcome.unasked:
            try:
                said = asked.decide(case, tenant_id, document_id)
            except BudgetSpentError as error:
                found = _search(database, tenant_id, document_id) if kept else decided
                return found if isinstance(found, Skip) else replace(found, unasked=str(error))
            except CancelledError as error:
                if not kept:
                    raise
                # No failure: each such try leaves fewer questions, so that they come to an end.
                message = f"The time was over after {kept} answers of the language model, and there is more to ask"
                raise DeferredError(message, until=asked.now()) from error
            retry_conflicts(partial(_keep, database, tenant_id, said))
            kept += 1
        decided = _search(database, tenant_id, document_id)
    return decided if isinstance(decided, Skip) else replace(decided, is_judged=True)


def _announce(database: Database, decided: Decided) -> None:
    """Let others find a document by what it says, however long the answers about it may take."""
    with database.tenant(decided.tenant_id) as connection:
        key_rows.write(connection, decided.tenant_id, decided.document.id, decided.stated)


def _keep(database: Database, tenant_id: UUID, said: Said) -> None:
    with database.tenant(tenant_id) as connection:
        judgements.keep(connection, tenant_id, said)


def _search(database: Database, tenant_id: UUID, document_id: UUID) -> Decided | Skip:
    with database.tenant(tenant_id) as connection:
        return _decide(connection, tenant_id, document_id)


def _decide(connection: Connection, tenant_id: UUID, document_id: UUID) -> Decided | Skip:
    seen, content, stored = store.begin(connection, document_id)
    if content is None:
        message = "The document is not there any more."
        raise PermanentError(message)
    kind, received_at, data, embedding = content
    if not data or kind not in PARENTS:
        return Skip("No structured data: a document of an unknown kind is kept and not matched.")
    found = document(document_id, received_at, kind, data, embedding)
    if not found.has_counterparty:
        return Skip("No counterparty: the document names neither its sender nor its recipient.")
    stated = keys(found)
    obsolete = stored - stated
    near = Neighbourhood(connection, tenant_id, CACHE, seen)
    outcome = decide(near, found, obsolete, is_new=not stored)
    return Decided(
        tenant_id,
        found,
        stated,
        obsolete,
        not stored,
        outcome,
        frozenset(near.followed),
        near.edges_read,
        frozenset(near.read_edges_of),
        seen,
    )


def write(connection: Connection, decided: Decided, now: datetime) -> Written:
    """Write edges and clusters in the caller's transaction, under the tenant's matching lock.

    The transaction must be READ COMMITTED, as `Database.tenant` opens it: what was committed while it waited for the
    lock has to be seen. Readers see all of it or nothing.

    Raises:
        DeferredError: something came in between, and put a question that the judge has not answered yet.
        StaleClaimError: the document was removed meanwhile, or read anew and has a newer revision.
        psycopg.Error: unmapped; `Database.tenant` maps it.
    """
    tenant_id, id_, is_judged, why = decided.tenant_id, decided.document.id, decided.is_judged, decided.unasked
    again = not _still_holds(connection, decided)
    if again:
        if store.read(connection, id_) is None:
            message = f"The document {id_} was removed"
            raise StaleClaimError(message)
        found = _decide(connection, tenant_id, id_)
        if isinstance(found, Skip):
            message = f"The document {id_} was read anew"
            raise StaleClaimError(message)
        decided = found
    if is_judged and decided.outcome.unasked:
        message = "Another document came in between, and the language model must be asked again"
        raise DeferredError(message, until=now + _PAUSE)
    outcome = decided.outcome if why is None else _left_open(decided.outcome, why)
    applied = apply(connection, tenant_id, id_, outcome, now, matched=decided)
    return Written(
        applied.linked,
        applied.unlinked,
        len(applied.moves),
        again,
        outcome.choices[id_].reason,
        frozenset(cluster for move in applied.moves for cluster in move if cluster is not None),
        frozenset({id_}.union(*outcome.made, *outcome.gone)),
    )


def _left_open(outcome: Outcome, why: str) -> Outcome:
    """An outcome whose questions were not asked, which its doubts say."""
    told = {case.child: unasked(outcome.choices[case.child], why) for case in outcome.unasked}
    return replace(outcome, choices={**outcome.choices, **told})


@dataclass(frozen=True, slots=True)
class Applied:
    """What putting an outcome down changed."""

    linked: int
    unlinked: int
    moves: Sequence[tuple[UUID | None, UUID]]
    """For each document that changed its cluster, which one it was in and is in."""
    doubtful: frozenset[UUID]
    """Documents that are in doubt otherwise than before."""


def apply(
    connection: Connection,
    tenant_id: UUID,
    document_id: UUID,
    outcome: Outcome,
    now: datetime,
    *,
    matched: Decided | None = None,
    decided: Collection[UUID] = (),
) -> Applied:
    """Put down what was decided about a document and all that it touches, under the tenant's matching lock.

    Edges, clusters, reviews, what each seeks, and what the others say about why they are alone; and the keys of what
    the document says, where it was `matched`. `decided` are those whose review a person has just closed, if it is
    closed by this.
    """
    made = [_edge(pair, outcome.made[pair]) for pair in sorted(outcome.made)]
    known = set(outcome.choices)
    with connection.pipeline():
        if matched is not None:
            key_rows.write(connection, tenant_id, document_id, matched.stated)
            key_rows.delete(connection, tenant_id, document_id, matched.obsolete)
            known -= {document_id} if matched.is_new else set()
        key_rows.write_seeking(connection, tenant_id, outcome.sought, known)
        unlinked = store.delete_edges(connection, outcome.gone)
        linked = store.insert_edges(connection, tenant_id, made, now)
        if document_id in outcome.alone and not outcome.made and not outcome.gone:
            moved = store.own_cluster(connection, document_id)
        else:
            moved = store.rename_clusters(connection, _seeds(document_id, outcome))
        store.tell_reasons(connection, _reasons_of_others(document_id, outcome))
        doubtful = reviews.keep(connection, outcome.choices, now, decided, known)
    return Applied(linked(), unlinked(), moved(), doubtful())


def _still_holds(connection: Connection, decided: Decided) -> bool:
    """Take the lock. Whether a search now would read what the search before it read."""
    if store.lock(connection, decided.tenant_id, decided.seen):
        return True
    return not store.changed_since(
        connection, decided.tenant_id, decided.followed, decided.edges, decided.edges_of, decided.seen
    )


def _seeds(document_id: UUID, outcome: Outcome) -> set[UUID]:
    """Documents from which every component is reached that changed.

    A component that only grew is reached from one of its documents; one that lost an edge may be two now, and is walked
    from both ends.
    """
    seeds = {document_id} | {end for pair in outcome.gone for end in pair}
    leaders: dict[UUID, UUID] = {}

    def leader(id_: UUID) -> UUID:
        while leaders.setdefault(id_, id_) != id_:
            id_ = leaders[id_]
        return id_

    joined = [pair for pair, link in outcome.made.items() if link.kind != CONTRACT]
    for pair in joined:
        one, other = sorted((leader(pair.a), leader(pair.b)))
        leaders[other] = one
    reached = {leader(seed) for seed in seeds}
    return seeds | {found for pair in joined if (found := leader(pair.a)) not in reached}


def _edge(pair: Pair, link: Link) -> NewEdge:
    evidence: dict[str, Any] = {
        "by": link.by,
        "child": str(link.child),
        "model": current().version,
        "probability": round(link.chance, 6),
        "features": [list(item) for item in link.score.evidence],
    }
    if link.judged is not None:
        evidence["question"] = link.judged.question
        return NewEdge(pair, link.score.total, link.judged.confidence, evidence, "llm", link.judged.reasoning)
    return NewEdge(pair, link.score.total, _CONFIDENCES[link.by], evidence, "rules", _reasoning(link))


_BY = {
    "copy": "The same document again",
    "reference": "Named by its number",
    "content": "The only one that fits",
    "through": "Follows from the order or delivery note of both",
}


def _reasoning(link: Link) -> str:
    features = "; ".join(f"{item.feature}: {item.level}" for item in link.score.evidence)
    return f"{_BY[link.by]}. {features} ({link.score.total:.1f} bits)."


def _reasons_of_others(document_id: UUID, outcome: Outcome) -> dict[UUID, str | None]:
    """What the other documents decided again say now; and those that found a partner, nothing."""
    told: dict[UUID, str | None] = {end: None for pair in outcome.made for end in pair}
    told |= {id_: choice.reason for id_, choice in outcome.choices.items()}
    told.pop(document_id, None)
    return told
