"""The two steps of matching a document: search and decide, then write."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from counterfoil.db import Connection, Database, retry_on_conflict
from counterfoil.documents.matching import judge, sql
from counterfoil.documents.matching.decide import MatchDecision, decide
from counterfoil.documents.matching.judge import Embedder, Judge, JudgeExchange, mark_llm_skipped
from counterfoil.documents.matching.keys import PARENT_KINDS, Key, keys
from counterfoil.documents.matching.normalize import CONTRACT, Document, document
from counterfoil.documents.matching.reading import BatchReader, Context, DocumentCache, Plan
from counterfoil.documents.matching.rules import ProposedMatch
from counterfoil.documents.matching.score import current
from counterfoil.documents.matching.sql import NewMatch, Pair
from counterfoil.errors import CancelledError, DeferredError, PermanentError, StaleClaimError
from counterfoil.llm import BudgetExceededError

CACHE = DocumentCache()
"""Document cache for all tenants."""
NO_COUNTERPARTY = "No counterparty: the document names neither its supplier nor its buyer."
_MAX_ROUNDS = 3
"""Maximum number of rounds of questions per attempt, because concurrent arrivals cause new questions."""
_PAUSE = timedelta(seconds=5)
"""Delay before the next attempt, which prevents a busy loop while other documents arrive."""
_CONFIDENCES = {"copy": "high", "reference": "high", "content": "medium", "through": "high"}


@dataclass(frozen=True, slots=True)
class SkipMatching:
    """Result for a document that is not matched. `reason` is a sentence."""

    reason: str
    needs_review: bool = False
    """Whether a reviewer must choose the match."""


@dataclass(frozen=True, slots=True)
class PendingMatch:
    """A decision, and the data on which it depends."""

    tenant_id: UUID
    document: Document
    """The document to match."""
    keys: frozenset[Key]
    """Blocking keys of its content."""
    obsolete: frozenset[Key]
    """Stored blocking keys that it no longer has."""
    is_new: bool
    """Whether it had no stored keys."""
    outcome: MatchDecision
    tracked_keys: frozenset[Key]
    """Keys whose holders the decision depends on."""
    remaining_capacity: Mapping[Key, int]
    """Keys that matter only if they become crowded, each with the number of documents that can be added before that."""
    edges: Mapping[UUID, Mapping[Pair, sql.Edge]]
    """Edges of every document whose edges were read, by document."""
    snapshot: str
    """Database snapshot before the first read."""
    is_judged: bool = False
    """Whether the LLM judge decides about ambiguous matches."""
    llm_skip_reason: str | None = None
    """Sentence for reviewers: why the judge did not decide about all ambiguous matches."""


@dataclass(frozen=True, slots=True)
class MatchResult:
    """Changes made by a write."""

    linked: int
    """Number of edges inserted or updated."""
    unlinked: int
    moved: int
    """Number of documents whose cluster changed."""
    was_repeated: bool
    """Whether the search was repeated under the lock because of a concurrent change."""
    reason: str | None
    """Sentence for reviewers: why the document has no match, or why it is ambiguous."""
    clusters: frozenset[UUID]
    """The clusters that documents left or joined."""
    documents: frozenset[UUID]
    """The document, and documents with changed edges or reviews. Their current clusters have also changed."""


def search_and_decide(
    database: Database,
    tenant_id: UUID,
    document_id: UUID,
    judge: Callable[[], Judge] | None = None,
    embedder: Embedder | None = None,
) -> PendingMatch | SkipMatching:
    """Decide without a lock.

    If the data changes before the write, `write` decides again.

    The judge decides about ambiguous matches between transactions; `judge` creates it if necessary. If `judge` is None
    or the budget is spent, these matches stay ambiguous. If `embedder` is given, the document is also found by its
    embedding, unless the model fails.

    Raises:
        PermanentError: the tenant has no such document.
        DeferredError: time ran out after at least one answer. The next attempt uses the stored answers.
        CancelledError: time ran out before any answer, or the attempt was canceled.
        CounterfoilError: mapped from psycopg, or raised by the judge.
    """
    if embedder is not None:
        embedder.embed(database, tenant_id, document_id)
    pending, answer_count = _search_for(database, tenant_id, document_id), 0
    for iteration in range(_MAX_ROUNDS):
        if judge is None or isinstance(pending, SkipMatching):
            return pending
        if not pending.outcome.pending_prompts:
            break
        if iteration == 0:
            _announce(database, pending)
        active_judge = judge()
        for case in pending.outcome.pending_prompts:
            try:
                exchange = active_judge.decide(case, tenant_id, document_id)
            except BudgetExceededError as error:
                latest = _search_for(database, tenant_id, document_id) if answer_count else pending
                return latest if isinstance(latest, SkipMatching) else replace(latest, llm_skip_reason=str(error))
            except CancelledError as error:
                if not answer_count:
                    raise
                # Not a failure: the next attempt uses the stored answers and asks fewer questions.
                message = f"Time ran out; more answers from the language model are needed ({answer_count} received)"
                raise DeferredError(message, until=active_judge.now()) from error
            retry_on_conflict(partial(_store_answer, database, tenant_id, exchange))
            answer_count += 1
        pending = _search_for(database, tenant_id, document_id)
    return pending if isinstance(pending, SkipMatching) else replace(pending, is_judged=True)


def _announce(database: Database, pending: PendingMatch) -> None:
    """Store a document's keys, so that others find it while the judge is working."""
    with database.tenant(pending.tenant_id) as connection:
        sql.write(connection, pending.tenant_id, {pending.document.id: pending.keys})


def _store_answer(database: Database, tenant_id: UUID, exchange: JudgeExchange) -> None:
    with database.tenant(tenant_id) as connection:
        judge.store_answer(connection, tenant_id, exchange)


def _search_for(database: Database, tenant_id: UUID, document_id: UUID) -> PendingMatch | SkipMatching:
    with database.tenant(tenant_id, by_index=True) as connection:
        return search(connection, tenant_id, [document_id])[document_id]


def search(connection: Connection, tenant_id: UUID, ids: Sequence[UUID]) -> dict[UUID, PendingMatch | SkipMatching]:
    """Decide about several documents, each separately, without a judge or a lock.

    The transaction must be READ COMMITTED with `by_index`. The write can use the same transaction.

    Raises:
        PermanentError: the tenant has no such document.
        psycopg.Error: unmapped; `Database.tenant` maps it.
    """
    snapshot, contents, stored, edges = sql.begin(connection, ids)
    if not contents.keys() >= set(ids):
        message = "The document no longer exists."
        raise PermanentError(message)
    skipped: dict[UUID, PendingMatch | SkipMatching] = {}
    arriving: list[Document] = []
    for id_ in ids:
        kind, received_at, data, embedding = contents[id_]
        if not data or kind not in PARENT_KINDS:
            skipped[id_] = SkipMatching("No structured data: documents of an unknown type are stored but not matched.")
            continue
        parsed = document(id_, received_at, kind, data, embedding)
        if parsed.has_counterparty:
            arriving.append(parsed)
        else:
            skipped[id_] = SkipMatching(NO_COUNTERPARTY, needs_review=True)
    reading = BatchReader(connection, tenant_id, CACHE)
    reading.add_edges(set(ids), edges)
    plans = [
        _plan_of(reading, tenant_id, parsed, frozenset(stored.get(parsed.id, ())), snapshot) for parsed in arriving
    ]
    return skipped | {pending.document.id: pending for pending in reading.run_all(plans)}


def _plan_of(
    reading: BatchReader, tenant_id: UUID, arriving: Document, stored: frozenset[Key], snapshot: str
) -> Plan[PendingMatch]:
    stated_keys = keys(arriving)
    context = Context(reading)
    outcome = yield from decide(context, arriving, stored - stated_keys, is_new=not stored)
    return PendingMatch(
        tenant_id,
        arriving,
        stated_keys,
        stored - stated_keys,
        not stored,
        outcome,
        frozenset(context.tracked_keys),
        context.remaining_capacity,
        context.edges_read,
        snapshot,
    )


def write(connection: Connection, pending: PendingMatch, now: datetime) -> MatchResult:
    """Write edges and clusters under the tenant's matching lock.

    The caller's transaction must be READ COMMITTED, as from `Database.tenant`, to see changes committed while it waits
    for the lock.

    Raises:
        DeferredError: a concurrent change requires another answer from the judge.
        StaleClaimError: the document was removed, or extracted again with a newer revision.
        psycopg.Error: unmapped; `Database.tenant` maps it.
    """
    tenant_id, id_, is_judged, skip_reason = (
        pending.tenant_id,
        pending.document.id,
        pending.is_judged,
        pending.llm_skip_reason,
    )
    valid, _ = _still_valid(connection, [pending])
    is_stale = not valid
    if is_stale:
        if not sql.document_exists(connection, id_):
            message = f"The document {id_} was removed"
            raise StaleClaimError(message)
        latest = search(connection, tenant_id, [id_])[id_]
        if isinstance(latest, SkipMatching):
            message = f"The document {id_} was extracted again"
            raise StaleClaimError(message)
        pending = latest
    if is_judged and pending.outcome.pending_prompts:
        message = "Another document was matched first, and the language model must decide again"
        raise DeferredError(message, until=now + _PAUSE)
    outcome = pending.outcome if skip_reason is None else _mark_skipped(pending.outcome, skip_reason)
    applied = apply_changes(connection, tenant_id, [Change(id_, outcome, pending)], now)
    return MatchResult(
        applied.linked,
        applied.unlinked,
        len(applied.moves),
        is_stale,
        outcome.reason(id_),
        applied.clusters,
        frozenset({id_}.union(*outcome.added, *outcome.removed, *applied.reviews)),
    )


@dataclass(frozen=True, slots=True)
class BatchMatchResult:
    """Changes made by a write of several documents."""

    reasons: Mapping[UUID, str | None]
    """`MatchResult.reason` by written document."""
    clusters: frozenset[UUID]
    documents: frozenset[UUID]


def write_batch(connection: Connection, pending_matches: Sequence[PendingMatch], now: datetime) -> BatchMatchResult:
    """Write the decisions of one `search` that are still valid.

    The result is the same as with separate writes. A document with a concurrent change, including a change by another
    of these documents, is skipped. It must be searched again separately.
    """
    written: list[PendingMatch] = []
    valid, new_holders = _still_valid(connection, pending_matches)
    for pending in valid:
        if _has_room(pending, new_holders) and not any(_invalidates(other, pending) for other in written):
            written.append(pending)
            new_holders.update(pending.keys)
    if not written:
        return BatchMatchResult({}, frozenset(), frozenset())
    applied = apply_changes(
        connection,
        written[0].tenant_id,
        [Change(pending.document.id, pending.outcome, pending) for pending in written],
        now,
    )
    ends = (end for pending in written for pair in (*pending.outcome.added, *pending.outcome.removed) for end in pair)
    return BatchMatchResult(
        {pending.document.id: pending.outcome.reason(pending.document.id) for pending in written},
        applied.clusters,
        frozenset(pending.document.id for pending in written).union(ends, *applied.reviews),
    )


def _invalidates(written: PendingMatch, other: PendingMatch) -> bool:
    """Return True if writing one document invalidates the search for another.

    The criteria are the same as in `_still_valid`.
    """
    if written.obsolete or not other.tracked_keys.isdisjoint(written.keys):
        return True
    if not all(other.tracked_keys.isdisjoint(sought) for sought in written.outcome.search_keys.values()):
        return True
    return any(end in other.edges for pair in (*written.outcome.added, *written.outcome.removed) for end in pair)


def _mark_skipped(outcome: MatchDecision, reason: str) -> MatchDecision:
    """Return the outcome with `reason` added to ambiguous matches.

    Only documents with a pending question for the judge change.
    """
    marked = {case.child: mark_llm_skipped(outcome.choices[case.child], reason) for case in outcome.pending_prompts}
    return replace(outcome, choices={**outcome.choices, **marked})


@dataclass(frozen=True, slots=True)
class AppliedChanges:
    """Changes made by `apply_changes`."""

    linked: int
    unlinked: int
    moves: Sequence[tuple[UUID | None, UUID]]
    """Old and new cluster of each document whose cluster changed."""
    reviews: sql.ReviewChanges

    @property
    def clusters(self) -> frozenset[UUID]:
        """The clusters that documents left or joined."""
        return frozenset(cluster for move in self.moves for cluster in move if cluster is not None)


@dataclass(frozen=True, slots=True)
class Change:
    """Decision about a document and the documents that it affects."""

    document_id: UUID
    outcome: MatchDecision
    matched: PendingMatch | None = None
    """Set if the document was matched."""

    @property
    def previous_matches(self) -> set[UUID]:
        """The decided documents that had an earlier decision."""
        ids = set(self.outcome.choices)
        return ids - {self.document_id} if self.matched is not None and self.matched.is_new else ids

    @property
    def is_unmatched(self) -> bool:
        """True if the document has no edge and had none."""
        return self.document_id in self.outcome.unmatched and not self.outcome.added and not self.outcome.removed


def apply_changes(
    connection: Connection,
    tenant_id: UUID,
    changes: Sequence[Change],
    now: datetime,
    decided_ids: Collection[UUID] = (),
) -> AppliedChanges:
    """Write changes under the tenant's matching lock.

    No change may invalidate a later change.

    Writes edges, clusters, reviews, the keys of matched documents, and search keys. Also updates the reasons of the
    other decided documents. `decided_ids` are the documents whose review a reviewer's decision closes.
    """
    new_links = {pair: link for change in changes for pair, link in change.outcome.added.items()}
    reasonings = {pair: text for change in changes for pair, text in change.outcome.reasonings.items()}
    pending_matches = [change.matched for change in changes if change.matched is not None]
    choices = {id_: choice for change in changes for id_, choice in change.outcome.choices.items()}
    known = {id_ for change in changes for id_ in change.previous_matches}
    reasons = {id_: reason for change in changes for id_, reason in _reasons_of_other_documents(change).items()}
    with connection.pipeline():
        if pending_matches:
            sql.write(connection, tenant_id, {pending.document.id: pending.keys for pending in pending_matches})
            sql.delete(connection, tenant_id, {pending.document.id: pending.obsolete for pending in pending_matches})
        sought = {id_: search_keys for change in changes for id_, search_keys in change.outcome.search_keys.items()}
        sql.write_search_keys(connection, tenant_id, sought, known)
        unlinked = sql.delete_edges(connection, [pair for change in changes for pair in change.outcome.removed])
        edges = [_edge(pair, new_links[pair], reasonings.get(pair, "")) for pair in sorted(new_links)]
        linked = sql.insert_edges(connection, tenant_id, edges, now)
        singletons = sql.singleton_clusters(
            connection, [change.document_id for change in changes if change.is_unmatched]
        )
        seeds = {seed for change in changes if not change.is_unmatched for seed in _seeds(change)}
        renamed = sql.rename_clusters(connection, seeds)
        sql.write_reasons(connection, reasons)
        unlinked_ends = {end for change in changes for pair in change.outcome.removed for end in pair}
        sql.mark_unmatched(connection, unlinked_ends - choices.keys())
        reviewed = sql.update_reviews(connection, choices, now, decided_ids)
    return AppliedChanges(linked(), unlinked(), singletons() + renamed(), reviewed())


def _still_valid(
    connection: Connection, pending_matches: Sequence[PendingMatch]
) -> tuple[list[PendingMatch], Counter[Key]]:
    """Take the lock and return the decisions of one search that are still valid.

    Also returns the number of documents that have written each tracked key since the search's snapshot.
    """
    if not pending_matches or sql.lock(connection, pending_matches[0].tenant_id, pending_matches[0].snapshot):
        return list(pending_matches), Counter()
    tracked_keys = {key for pending in pending_matches for key in (*pending.tracked_keys, *pending.remaining_capacity)}
    document_ids = {id_ for pending in pending_matches for id_ in pending.edges}
    changes = sql.changes_since(
        connection, pending_matches[0].tenant_id, tracked_keys, document_ids, pending_matches[0].snapshot
    )
    if changes.invalidates_all:
        return [], Counter()
    edges: dict[UUID, dict[Pair, sql.Edge]] = {}
    for pair, edge in changes.edges.items():
        for end in pair:
            edges.setdefault(end, {})[pair] = edge
    new_holders = Counter(changes.keys)

    def is_valid(pending: PendingMatch) -> bool:
        # Compare per document, because an edge written during the search may have been read from one end only.
        return (
            pending.tracked_keys.isdisjoint(new_holders)
            and _has_room(pending, new_holders)
            and all(edges.get(id_, {}) == known_edges for id_, known_edges in pending.edges.items())
        )

    return [pending for pending in pending_matches if is_valid(pending)], new_holders


def _has_room(pending: PendingMatch, new_holders: Counter[Key]) -> bool:
    """Return True if the new holders do not make any counted key crowded."""
    return all(new_holders[key] <= room for key, room in pending.remaining_capacity.items())


def _seeds(change: Change) -> set[UUID]:
    """Return documents from which every changed component can be reached.

    One document suffices for a component that has only grown. A component that lost an edge may have been split, so
    both ends are needed.
    """
    outcome = change.outcome
    seeds = {change.document_id} | {end for pair in outcome.removed for end in pair}
    leaders: dict[UUID, UUID] = {}

    def leader(id_: UUID) -> UUID:
        while leaders.setdefault(id_, id_) != id_:
            id_ = leaders[id_]
        return id_

    joined = [pair for pair, link in outcome.added.items() if link.kind != CONTRACT]
    for pair in joined:
        first, second = sorted((leader(pair.a), leader(pair.b)))
        leaders[second] = first
    reached_roots = {leader(seed) for seed in seeds}
    return seeds | {root for pair in joined if (root := leader(pair.a)) not in reached_roots}


def _edge(pair: Pair, link: ProposedMatch, reasoning: str) -> NewMatch:
    evidence: dict[str, Any] = {
        "by": link.by,
        "child": str(link.child),
        "model": current().version,
        "probability": round(link.probability, 6),
        "features": [list(item) for item in link.score.evidence],
    }
    if link.judgment is not None:
        evidence["question"] = link.judgment.question
        return NewMatch(pair, link.score.total, link.judgment.confidence, evidence, "llm", link.judgment.reasoning)
    return NewMatch(pair, link.score.total, _CONFIDENCES[link.by], evidence, "rules", reasoning)


def _reasons_of_other_documents(change: Change) -> dict[UUID, str | None]:
    """Return the new reasons of other decided or newly linked documents.

    None clears a reason.
    """
    reasons: dict[UUID, str | None] = {end: None for pair in change.outcome.added for end in pair}
    reasons |= {id_: change.outcome.reason(id_) for id_ in change.outcome.choices}
    reasons.pop(change.document_id, None)
    return reasons
