"""Review of ambiguous documents, and correction of automatic decisions.

Each decision is one transaction under the tenant's matching lock. It records the user and the reason in the audit
trail, and updates the edge and all matching decisions that it affects. It also gives clusters new ids, requests their
computation, and matches documents again whose question to a language model changes. A decision is rejected if the
documents have changed since the reviewer read them. To replace an earlier decision about the pair, `overrides` must
contain that decision's id.

The queue lists ambiguous documents with their candidates. A candidate's evidence lists the bits of each feature, and
their running sum.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from counterfoil import audit
from counterfoil.audit import AuditRecord
from counterfoil.db import Connection, Database
from counterfoil.delivery.dead_letter import restart
from counterfoil.delivery.work import OutboxMessage
from counterfoil.documents import diagnostics, matching
from counterfoil.documents.document_list import missing
from counterfoil.documents.matching import Decision, ManualDecisionResult, Pair, Verdict, sql
from counterfoil.documents.matching.evidence import evidence_steps
from counterfoil.documents.matching.sql import Review, ReviewState, decisions, reviews
from counterfoil.documents.structured import ROLES, DocumentType

REASON = "A reviewer decided about a match."


@dataclass(frozen=True)
class DecisionApplied:
    """Result of a reviewer's decision."""

    pairs: tuple[Pair, ...]
    verdict: Verdict
    clusters: frozenset[UUID]
    """Old and new ids of the changed clusters."""
    rematched: int
    """Number of documents that are matched again."""
    messages: Sequence[OutboxMessage]
    """Outbox messages to send after the commit."""

    @property
    def record(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "verdict": self.verdict,
            "decided": [list(pair) for pair in self.pairs],
            "clusters": sorted(self.clusters),
            "rematched_documents": self.rematched,
        }


@dataclass(frozen=True)
class DecisionContext:
    """Author and reason of a decision."""

    by: str
    reason: str | None
    overrides: Collection[int] | None = ()
    """Ids of the earlier decisions that may be replaced. None permits replacing any decision."""

    def may_replace(self, decision: int) -> bool:
        """Return whether an earlier decision, by its id, may be replaced."""
        return self.overrides is None or decision in self.overrides


@dataclass(frozen=True)
class EarlierDecision:
    """A reviewer's earlier decision about a match or a difference."""

    id: int
    verdict: Literal["confirmed", "rejected", "accepted", "disputed"]
    by: str
    at: datetime

    @property
    def replacement(self) -> str:
        """Sentence that explains how to replace the decision."""
        return f"To replace that decision, add its id {self.id} to overrides, or use --override on the command line."


@dataclass(frozen=True)
class DecisionRejected:
    """Reason why a decision was rejected, in a sentence."""

    reason: Literal["gone", "changed"]
    """`gone`: the document or cluster does not exist. `changed`: its state does not permit the decision."""
    message: str
    decision: EarlierDecision | None = None
    """Earlier decision with the same verdict, or that the new decision may not replace."""


Answer = DecisionApplied | DecisionRejected
_GONE = DecisionRejected("gone", "The document does not exist, or documents of its type are not matched.")


def confirm(
    connection: Connection, tenant_id: UUID, document_id: UUID, other_id: UUID, now: datetime, context: DecisionContext
) -> Answer:
    """Confirm the match of two documents that are linked or a candidate pair.

    Runs in the caller's tenant transaction, as do `reject`, `merge` and `split`.
    """
    answer = _decide(connection, tenant_id, [(document_id, other_id)], "confirmed", now, context)
    return _record_decision(connection, tenant_id, answer, now, context)


def reject(
    connection: Connection,
    tenant_id: UUID,
    document_id: UUID,
    other_ids: Collection[UUID],
    now: datetime,
    context: DecisionContext,
) -> Answer:
    """Reject the links or candidate pairs between a document and `other_ids`.

    Either all pairs are rejected, or none.
    """
    answer = _decide(connection, tenant_id, [(document_id, other) for other in other_ids], "rejected", now, context)
    return _record_decision(connection, tenant_id, answer, now, context)


def merge(
    connection: Connection,
    tenant_id: UUID,
    first: UUID,
    second: UUID,
    now: datetime,
    context: DecisionContext,
    *,
    exact: bool = False,
) -> Answer:
    """Link two documents and their clusters, overriding automatic matching.

    The edge connects the best matching pair of the two clusters or, if `exact`, the two documents themselves.
    """
    matching.lock_tenant_blocking(connection, tenant_id)
    clusters = matching.cluster_ids_by_document(connection, {first, second})
    if not exact and clusters.get(first) is not None and clusters.get(first) == clusters.get(second):
        return DecisionRejected("changed", "The two documents are already in the same cluster.")
    pair = Pair.of(first, second) if exact else matching.best_pair(connection, first, second)
    answer = _decide(connection, tenant_id, [pair], "confirmed", now, context, requires_match=False)
    return _record_decision(connection, tenant_id, answer, now, context)


def split(
    connection: Connection, tenant_id: UUID, document_id: UUID, now: datetime, context: DecisionContext
) -> Answer:
    """Remove a document from its cluster by rejecting all its edges.

    Edges that would replace them are rejected as well. Edges to contracts stay, because they do not join clusters.
    """
    matching.lock_tenant_blocking(connection, tenant_id)
    members = matching.cluster_members(connection, document_id) - {document_id}
    result: DecisionApplied | None = None
    while pairs := [pair for pair in matching.list_pairs(connection, document_id) if members.intersection(pair)]:
        answer = _decide(connection, tenant_id, pairs, "rejected", now, context)
        if isinstance(answer, DecisionRejected):
            return answer
        result = answer if result is None else _combine(result, answer)
    if result is not None:
        return _record_decision(connection, tenant_id, result, now, context)
    if not matching.cluster_members(connection, document_id):
        return _GONE
    return DecisionRejected("changed", "The document is already alone in its cluster.")


def _record_decision(
    connection: Connection, tenant_id: UUID, answer: Answer, now: datetime, context: DecisionContext
) -> Answer:
    """Record a decision in the audit trail.

    Call it last, because it takes a lock that blocks the tenant.
    """
    if isinstance(answer, DecisionApplied):
        targets = sorted({str(end) for pair in answer.pairs for end in pair})
        audit.record(
            connection, tenant_id, AuditRecord(context.by, f"match {answer.verdict}", targets, now, context.reason)
        )
    return answer


def _combine(first: DecisionApplied, second: DecisionApplied) -> DecisionApplied:
    return DecisionApplied(
        (*first.pairs, *second.pairs),
        first.verdict,
        first.clusters | second.clusters,
        first.rematched + second.rematched,
        (*first.messages, *second.messages),
    )


def _decide(
    connection: Connection,
    tenant_id: UUID,
    id_pairs: Collection[tuple[UUID, UUID]],
    verdict: Verdict,
    now: datetime,
    context: DecisionContext,
    *,
    requires_match: bool = True,
) -> Answer:
    """Decide about pairs after validating each under the lock."""
    matching.lock_tenant_blocking(connection, tenant_id)
    pairs = sorted({Pair.of(*pair) for pair in id_pairs})
    if not matching.are_matchable(connection, {end for pair in pairs for end in pair}):
        return _GONE
    for pair in pairs:
        rejection = _rejection_of(connection, pair, verdict, context, requires_match=requires_match)
        if rejection is not None:
            return rejection
    result = matching.decide_pairs(connection, tenant_id, pairs, verdict, now, by=context.by, reason=context.reason)
    return _follow_up(connection, tenant_id, pairs, verdict, result, now, context)


def _rejection_of(
    connection: Connection, pair: Pair, verdict: Verdict, context: DecisionContext, *, requires_match: bool
) -> DecisionRejected | None:
    """Return the reason why a decision about a pair is rejected; None if it is valid."""
    if pair.a == pair.b:
        return DecisionRejected("changed", "A document cannot match itself. Name two different documents.")
    latest = next((decision for decision in reversed(sql.decisions(connection, pair)) if decision.pair == pair), None)
    if latest is not None and (latest.verdict == verdict or not context.may_replace(latest.id)):
        earlier = EarlierDecision(latest.id, latest.verdict, latest.by, latest.at)
        advice = "No change is needed." if latest.verdict == verdict else earlier.replacement
        return DecisionRejected("changed", f"{_describe_decision(latest)}. {advice}", earlier)
    if not requires_match or latest is not None or pair in matching.list_pairs(connection, pair.a):
        return None
    ambiguous_matches = sql.reviews(connection, pair)
    if any(review.state == "open" and review.candidates.intersection(pair) for review in ambiguous_matches.values()):
        return None
    return DecisionRejected(
        "changed", "The two documents are not linked, and neither is a candidate in the other's review."
    )


def _describe_decision(last: Decision) -> str:
    return f"{last.by} {last.verdict} this pair on {last.at:%Y-%m-%d at %H:%M} UTC"


def _follow_up(
    connection: Connection,
    tenant_id: UUID,
    pairs: Sequence[Pair],
    verdict: Verdict,
    result: ManualDecisionResult,
    now: datetime,
    context: DecisionContext,
) -> DecisionApplied:
    """Request comparisons of changed clusters, and rematch affected documents.

    A document is affected if its question for the LLM judge has changed.
    """
    messages = restart(connection, "matching", result.awaiting_judgment, now, actor=context.by, reason=REASON)
    messages += diagnostics.enqueue_diagnostics(
        connection, tenant_id, result.clusters, now, document_ids=result.documents
    )
    return DecisionApplied(tuple(pairs), verdict, result.clusters, len(result.awaiting_judgment), messages)


@dataclass(frozen=True)
class ReviewCursor:
    """Position of a document in the queue."""

    document_id: UUID
    tenant_id: UUID
    tenant: str
    opened_at: datetime


@dataclass(frozen=True)
class ReviewFilter:
    """Filters for the queue; None matches every value."""

    state: ReviewState = "open"
    tenants: Collection[str] | None = None
    """Tenant slugs."""
    kind: str | None = None
    """Type of the ambiguous document."""
    min_probability: float | None = None
    max_probability: float | None = None
    """Match probability of the most likely candidate."""
    after: tuple[datetime, UUID] | None = None
    """Opening time and id of the last review on the previous page."""


_PLACES = """
SELECT r.document_id, r.tenant_id, t.slug, r.opened_at
FROM document_review r JOIN tenant t ON t.id = r.tenant_id
WHERE r.state = %(state)s
  AND (%(tenants)s::text[] IS NULL OR t.slug = ANY(%(tenants)s))
  AND (%(kind)s::text IS NULL OR r.type = %(kind)s)
  AND r.probability >= coalesce(%(min)s::float8, 0) AND r.probability <= coalesce(%(max)s::float8, 1)
  AND (%(after_at)s::timestamptz IS NULL OR (r.opened_at, r.document_id) > (%(after_at)s, %(after_id)s::uuid))
ORDER BY r.opened_at, r.document_id LIMIT %(limit)s
"""


def list_cursors(connection: Connection, filters: ReviewFilter, limit: int) -> list[ReviewCursor]:
    """Return a page of the queue, sorted by opening time, as the delivery role."""
    after_at, after_id = filters.after or (None, None)
    values = {
        "state": filters.state,
        "tenants": None if filters.tenants is None else list(filters.tenants),
        "kind": filters.kind,
        "min": filters.min_probability,
        "max": filters.max_probability,
        "after_at": after_at,
        "after_id": after_id,
        "limit": limit,
    }
    return [ReviewCursor(*row) for row in connection.execute(_PLACES, values)]


@dataclass(frozen=True)
class ReviewDocument:
    """Summary of a document for reviewers. For a deleted document, only its id."""

    id: UUID
    type: str | None = None
    file: str | None = None
    number: str | None = None
    date: str | None = None
    seller: str | None = None
    buyer: str | None = None
    total: Annotated[str | None, Field(description="Gross if stated, otherwise net, with the currency.")] = None
    missing: Annotated[
        tuple[str, ...],
        Field(description="Expected fields that were not found: number, date, supplier, buyer, total."),
    ] = ()


@dataclass(frozen=True)
class ReviewItem:
    """A review with all facts that a decision requires."""

    tenant: str
    review: Review
    documents: Mapping[UUID, ReviewDocument]
    """The document, its candidates and the documents that reviewers decided about."""
    decisions: Sequence[Decision]
    """All reviewers' decisions about the document."""

    @property
    def record(self) -> dict[str, Any]:
        """The item as JSON."""
        review = self.review
        return {
            "id": review.document_id,
            "tenant": self.tenant,
            "state": review.state,
            "type": review.type,
            "probability": review.probability,
            "weights": review.weights,
            "opened_at": review.opened_at.isoformat(),
            "changed_at": review.changed_at.isoformat(),
            "closed_at": review.closed_at and review.closed_at.isoformat(),
            "document": self._document(review.document_id),
            "ambiguous_matches": [
                {
                    **ambiguous_match,
                    "candidates": [self._candidate(candidate) for candidate in ambiguous_match["candidates"]],
                }
                for ambiguous_match in review.ambiguous_matches
            ],
            "decisions": [
                {
                    "id": decision.id,
                    "documents": list(decision.pair),
                    "document": self._document(
                        decision.pair.b if decision.pair.a == review.document_id else decision.pair.a
                    ),
                    "verdict": decision.verdict,
                    "by": decision.by,
                    "reason": decision.reason,
                    "at": decision.at.isoformat(),
                }
                for decision in self.decisions
            ],
        }

    def _candidate(self, candidate: Mapping[str, Any]) -> dict[str, Any]:
        document = self._document(UUID(candidate["document"]))
        child = self.review.type.replace("_", " ")
        parent = "other document" if document.type is None else document.type.replace("_", " ")
        steps = evidence_steps(candidate["evidence"], child, parent, document.number)
        return {
            "document": document,
            "probability": candidate["probability"],
            "weight_bits": candidate["bits"],
            "evidence": [asdict(step) for step in steps],
        }

    def _document(self, id_: UUID) -> ReviewDocument:
        return self.documents.get(id_, ReviewDocument(id_))


def items(database: Database, cursors: Iterable[ReviewCursor]) -> list[ReviewItem]:
    """Return the reviews at these cursors, sorted by opening time.

    Each review is read in its tenant's transaction.
    """
    ids_by_tenant: dict[tuple[UUID, str], list[UUID]] = defaultdict(list)
    for cursor in cursors:
        ids_by_tenant[cursor.tenant_id, cursor.tenant].append(cursor.document_id)
    items_by_id: dict[UUID, ReviewItem] = {}
    for (tenant_id, slug), ids in ids_by_tenant.items():
        with database.tenant(tenant_id) as connection:
            items_by_id |= _read_items(connection, slug, ids)
    return sorted(items_by_id.values(), key=lambda item: (item.review.opened_at, item.review.document_id))


def item(database: Database, tenant_id: UUID, slug: str, document_id: UUID) -> ReviewItem | None:
    """Return a document's review in any state; None if it never had one."""
    with database.tenant(tenant_id) as connection:
        return _read_items(connection, slug, [document_id]).get(document_id)


def _read_items(connection: Connection, slug: str, ids: Collection[UUID]) -> dict[UUID, ReviewItem]:
    reviews_by_id = reviews(connection, ids)
    all_decisions = decisions(connection, reviews_by_id)
    document_ids = {id_ for review in reviews_by_id.values() for id_ in (review.document_id, *review.candidates)}
    document_ids |= {id_ for decision in all_decisions for id_ in decision.pair}
    summaries_by_id = summaries(connection, document_ids)
    return {
        id_: ReviewItem(slug, review, summaries_by_id, [decision for decision in all_decisions if id_ in decision.pair])
        for id_, review in reviews_by_id.items()
    }


_DOCUMENTS = "SELECT id, coalesce(type, 'other'), file_name, structured_data FROM document WHERE id = ANY(%(ids)s)"


def summaries(connection: Connection, ids: Collection[UUID]) -> dict[UUID, ReviewDocument]:
    """Return summaries of documents by id."""
    rows = connection.execute(_DOCUMENTS, {"ids": list(ids)})
    return {id_: _summary(id_, kind, file, data or {}) for id_, kind, file, data in rows}


def _summary(id_: UUID, kind: str, file: str, data: Mapping[str, Any]) -> ReviewDocument:
    roles = ROLES.get(DocumentType(kind))
    total = data.get("total_gross") or data.get("total_net")
    return ReviewDocument(
        id_,
        kind,
        file,
        data.get(roles.number) if roles else None,
        data.get(roles.date) if roles else None,
        (data.get(roles.seller) or {}).get("name") if roles else None,
        (data.get(roles.buyer) or {}).get("name") if roles else None,
        " ".join(filter(None, (total, data.get("currency")))) if total else None,
        missing(kind, data),
    )
