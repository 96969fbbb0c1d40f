"""The two steps of matching documents: search and decide, and write."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.documents.matching import judge, sql
from counterfoil.documents.matching.decide import Outcome, decide
from counterfoil.documents.matching.evidence import reasoning
from counterfoil.documents.matching.judge import Embedder, Judge, Said, unasked
from counterfoil.documents.matching.keys import PARENTS, Key, keys
from counterfoil.documents.matching.normalise import CONTRACT, Document, document
from counterfoil.documents.matching.reading import Context, Documents, Plan, Reading
from counterfoil.documents.matching.rules import Link
from counterfoil.documents.matching.score import current
from counterfoil.documents.matching.sql import NewEdge, Pair
from counterfoil.errors import CancelledError, DeferredError, PermanentError, StaleClaimError
from counterfoil.llm import BudgetSpentError

CACHE = Documents()
"""Documents that were read before, of all tenants."""
NO_COUNTERPARTY = "No counterparty: the document names neither its supplier nor its buyer."
_ROUNDS = 3
"""How often documents that arrive meanwhile may put new questions, before the try begins again."""
_PAUSE = timedelta(seconds=5)
"""Made before it begins again, so that a document does not go round and round while others keep coming."""
_CONFIDENCES = {"copy": "high", "reference": "high", "content": "medium", "through": "high"}


@dataclass(frozen=True, slots=True)
class Skip:
    """A document that is not matched. `reason` says why, in a sentence."""

    reason: str
    needs_review: bool = False
    """Whether a person has to name its partner."""


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
    """Keys of which it mattered who holds them."""
    room: Mapping[Key, int]
    """Keys of which it only mattered that they do not lead to nobody: how many more documents may hold each."""
    edges: Mapping[UUID, Mapping[Pair, sql.Edge]]
    """Of each document whose edges were looked at."""
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
    """The document, and those whose edges or reviews changed: the clusters that they are in now have changed, too."""


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
    decided, kept = _search_for(database, tenant_id, document_id), 0
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
                found = _search_for(database, tenant_id, document_id) if kept else decided
                return found if isinstance(found, Skip) else replace(found, unasked=str(error))
            except CancelledError as error:
                if not kept:
                    raise
                # No failure: each such try leaves fewer questions, so that they come to an end.
                message = f"The time was over after {kept} answers of the language model, and there is more to ask"
                raise DeferredError(message, until=asked.now()) from error
            retry_conflicts(partial(_keep, database, tenant_id, said))
            kept += 1
        decided = _search_for(database, tenant_id, document_id)
    return decided if isinstance(decided, Skip) else replace(decided, is_judged=True)


def _announce(database: Database, decided: Decided) -> None:
    """Let others find a document by what it says, however long the answers about it may take."""
    with database.tenant(decided.tenant_id) as connection:
        sql.write(connection, decided.tenant_id, {decided.document.id: decided.stated})


def _keep(database: Database, tenant_id: UUID, said: Said) -> None:
    with database.tenant(tenant_id) as connection:
        judge.keep(connection, tenant_id, said)


def _search_for(database: Database, tenant_id: UUID, document_id: UUID) -> Decided | Skip:
    with database.tenant(tenant_id, by_index=True) as connection:
        return search(connection, tenant_id, [document_id])[document_id]


def search(connection: Connection, tenant_id: UUID, ids: Sequence[UUID]) -> dict[UUID, Decided | Skip]:
    """Decide several documents, each as if it were alone, without a judge. It takes no lock.

    The transaction may be that of the write: it must be READ COMMITTED, and plan `by_index`.

    Raises:
        PermanentError: the tenant has no such document.
        psycopg.Error: unmapped; `Database.tenant` maps it.
    """
    seen, contents, stored, edges = sql.begin(connection, ids)
    if not contents.keys() >= set(ids):
        message = "The document is not there any more."
        raise PermanentError(message)
    skipped: dict[UUID, Decided | Skip] = {}
    arriving: list[Document] = []
    for id_ in ids:
        kind, received_at, data, embedding = contents[id_]
        if not data or kind not in PARENTS:
            skipped[id_] = Skip("No structured data: a document of an unknown kind is kept and not matched.")
            continue
        found = document(id_, received_at, kind, data, embedding)
        if found.has_counterparty:
            arriving.append(found)
        else:
            skipped[id_] = Skip(NO_COUNTERPARTY, needs_review=True)
    reading = Reading(connection, tenant_id, CACHE)
    reading.know(set(ids), edges)
    plans = [_deciding(reading, tenant_id, one, frozenset(stored.get(one.id, ())), seen) for one in arriving]
    return skipped | {one.document.id: one for one in reading.run_all(plans)}


def _deciding(reading: Reading, tenant_id: UUID, found: Document, stored: frozenset[Key], seen: str) -> Plan[Decided]:
    stated = keys(found)
    context = Context(reading)
    outcome = yield from decide(context, found, stored - stated, is_new=not stored)
    return Decided(
        tenant_id,
        found,
        stated,
        stored - stated,
        not stored,
        outcome,
        frozenset(context.followed),
        context.room,
        context.edges_read,
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
    standing, _ = _standing(connection, [decided])
    again = not standing
    if again:
        if not sql.is_there(connection, id_):
            message = f"The document {id_} was removed"
            raise StaleClaimError(message)
        found = search(connection, tenant_id, [id_])[id_]
        if isinstance(found, Skip):
            message = f"The document {id_} was read anew"
            raise StaleClaimError(message)
        decided = found
    if is_judged and decided.outcome.unasked:
        message = "Another document came in between, and the language model must be asked again"
        raise DeferredError(message, until=now + _PAUSE)
    outcome = decided.outcome if why is None else _left_open(decided.outcome, why)
    applied = apply(connection, tenant_id, [Change(id_, outcome, decided)], now)
    return Written(
        applied.linked,
        applied.unlinked,
        len(applied.moves),
        again,
        outcome.note(id_),
        applied.clusters,
        frozenset({id_}.union(*outcome.made, *outcome.gone, *applied.reviews)),
    )


@dataclass(frozen=True, slots=True)
class WrittenTogether:
    """What a write of several documents changed."""

    reasons: Mapping[UUID, str | None]
    """By document that was written, as `Written.reason`."""
    clusters: frozenset[UUID]
    documents: frozenset[UUID]


def write_together(connection: Connection, decided: Sequence[Decided], now: datetime) -> WrittenTogether:
    """Write what still holds of several documents of one `search`, as `write` would one after another.

    Left out are those for which something came in between, another one of these among it: they have to be searched
    anew, each by itself.
    """
    written: list[Decided] = []
    standing, more = _standing(connection, decided)
    for one in standing:
        if _has_room(one, more) and not any(_disturbs(other, one) for other in written):
            written.append(one)
            more.update(one.stated)
    if not written:
        return WrittenTogether({}, frozenset(), frozenset())
    applied = apply(
        connection, written[0].tenant_id, [Change(one.document.id, one.outcome, one) for one in written], now
    )
    ends = (end for one in written for pair in (*one.outcome.made, *one.outcome.gone) for end in pair)
    return WrittenTogether(
        {one.document.id: one.outcome.note(one.document.id) for one in written},
        applied.clusters,
        frozenset(one.document.id for one in written).union(ends, *applied.reviews),
    )


def _disturbs(one: Decided, other: Decided) -> bool:
    """Whether writing one document changes what the search for another one has read, as `_standing` would see it."""
    if one.obsolete or not other.followed.isdisjoint(one.stated):
        return True
    if not all(other.followed.isdisjoint(sought) for sought in one.outcome.sought.values()):
        return True
    return any(end in other.edges for pair in (*one.outcome.made, *one.outcome.gone) for end in pair)


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
    reviews: sql.Changed

    @property
    def clusters(self) -> frozenset[UUID]:
        """The clusters that documents left or came into."""
        return frozenset(cluster for move in self.moves for cluster in move if cluster is not None)


@dataclass(frozen=True, slots=True)
class Change:
    """What was decided about a document and all that it touches."""

    document_id: UUID
    outcome: Outcome
    matched: Decided | None = None
    """What the document says, where it was matched."""

    @property
    def known(self) -> set[UUID]:
        """Of the documents decided, those that were decided before."""
        ids = set(self.outcome.choices)
        return ids - {self.document_id} if self.matched is not None and self.matched.is_new else ids

    @property
    def is_alone(self) -> bool:
        """Whether the document has no edge and had none."""
        return self.document_id in self.outcome.alone and not self.outcome.made and not self.outcome.gone


def apply(
    connection: Connection,
    tenant_id: UUID,
    changes: Sequence[Change],
    now: datetime,
    decided: Collection[UUID] = (),
) -> Applied:
    """Put changes down, none of which disturbs a later one, under the tenant's matching lock.

    Edges, clusters, reviews, what each document seeks, and what the others say about why they are alone; and the keys
    of what documents say that were matched. `decided` are those whose review a person has just closed, if it is closed
    by this.
    """
    made = {pair: link for change in changes for pair, link in change.outcome.made.items()}
    matched = [change.matched for change in changes if change.matched is not None]
    choices = {id_: choice for change in changes for id_, choice in change.outcome.choices.items()}
    known = {id_ for change in changes for id_ in change.known}
    told = {id_: reason for change in changes for id_, reason in _reasons_of_others(change).items()}
    with connection.pipeline():
        if matched:
            sql.write(connection, tenant_id, {one.document.id: one.stated for one in matched})
            sql.delete(connection, tenant_id, {one.document.id: one.obsolete for one in matched})
        sought = {id_: found for change in changes for id_, found in change.outcome.sought.items()}
        sql.write_seeking(connection, tenant_id, sought, known)
        unlinked = sql.delete_edges(connection, [pair for change in changes for pair in change.outcome.gone])
        linked = sql.insert_edges(connection, tenant_id, [_edge(pair, made[pair]) for pair in sorted(made)], now)
        became_alone = sql.own_clusters(connection, [change.document_id for change in changes if change.is_alone])
        seeds = {seed for change in changes if not change.is_alone for seed in _seeds(change)}
        renamed = sql.rename_clusters(connection, seeds)
        sql.tell_reasons(connection, told)
        unlinked_ends = {end for change in changes for pair in change.outcome.gone for end in pair}
        sql.note_alone(connection, unlinked_ends - choices.keys())
        reviewed = sql.keep(connection, choices, now, decided)
    return Applied(linked(), unlinked(), became_alone() + renamed(), reviewed())


def _standing(connection: Connection, decided: Sequence[Decided]) -> tuple[list[Decided], Counter[Key]]:
    """Take the lock. Of decisions of one search, those for which a search now would decide what that one did.

    And by how many documents each key that they looked at was written since.
    """
    if not decided or sql.lock(connection, decided[0].tenant_id, decided[0].seen):
        return list(decided), Counter()
    looked_at = {key for one in decided for key in (*one.followed, *one.room)}
    of = {id_ for one in decided for id_ in one.edges}
    changes = sql.changes_since(connection, decided[0].tenant_id, looked_at, of, decided[0].seen)
    if changes.everything:
        return [], Counter()
    edges: dict[UUID, dict[Pair, sql.Edge]] = {}
    for pair, edge in changes.edges.items():
        for end in pair:
            edges.setdefault(end, {})[pair] = edge
    more = Counter(changes.keys)

    def stands(one: Decided) -> bool:
        # Of each document by itself: where an edge came while it was being read, its ends say two things.
        return (
            one.followed.isdisjoint(more)
            and _has_room(one, more)
            and all(edges.get(id_, {}) == read for id_, read in one.edges.items())
        )

    return [one for one in decided if stands(one)], more


def _has_room(one: Decided, more: Counter[Key]) -> bool:
    """Whether no key that a search counted the holders of leads to nobody by so many more of them."""
    return all(more[key] <= room for key, room in one.room.items())


def _seeds(change: Change) -> set[UUID]:
    """Documents from which every component is reached that changed.

    A component that only grew is reached from one of its documents; one that lost an edge may be two now, and is walked
    from both ends.
    """
    outcome = change.outcome
    seeds = {change.document_id} | {end for pair in outcome.gone for end in pair}
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
    return NewEdge(pair, link.score.total, _CONFIDENCES[link.by], evidence, "rules", reasoning(link))


def _reasons_of_others(change: Change) -> dict[UUID, str | None]:
    """What the other documents decided again say now; and those that found a partner, nothing."""
    told: dict[UUID, str | None] = {end: None for pair in change.outcome.made for end in pair}
    told |= {id_: change.outcome.note(id_) for id_ in change.outcome.choices}
    told.pop(change.document_id, None)
    return told
