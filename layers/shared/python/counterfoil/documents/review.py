"""Review of matching: reviewers decide about ambiguous documents, and correct automatic decisions.

Each decision is one transaction under the tenant's matching lock. It writes user and reason to the audit trail, and
updates the edge and all matching decisions that it affects. It also gives clusters new ids, requests their computation,
and re-matches documents whose question to a language model changes. It is refused if the documents have changed since
the reviewer read them. A pair with a newer decision requires its number in `overrides`.

The queue lists ambiguous documents with their candidates. The evidence of a candidate lists the bits of each feature,
and their running sum.
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
from counterfoil.delivery.dead_letter import renew
from counterfoil.delivery.work import OutboxMessage
from counterfoil.documents import diagnostics, matching
from counterfoil.documents.document_list import missing
from counterfoil.documents.matching import Decision, ManualDecisionResult, Pair, Verdict, sql
from counterfoil.documents.matching.evidence import evidence_steps
from counterfoil.documents.matching.sql import Review, State, decisions, reviews
from counterfoil.documents.structured import ROLES, DocumentType

REASON = "A reviewer decided about a match."


@dataclass(frozen=True)
class DecisionApplied:
    """Result of a reviewer's decision."""

    decided: tuple[Pair, ...]
    verdict: Verdict
    clusters: frozenset[UUID]
    """Old and new ids of the changed clusters."""
    rematched: int
    """Number of documents that are matched again."""
    sends: Sequence[OutboxMessage]
    """Outbox messages to send after the commit."""

    @property
    def record(self) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "verdict": self.verdict,
            "decided": [list(pair) for pair in self.decided],
            "clusters": sorted(self.clusters),
            "rematched_documents": self.rematched,
        }


@dataclass(frozen=True)
class DecisionContext:
    """Author and reason of a decision."""

    by: str
    reason: str | None
    overrides: Collection[int] | None = ()
    """Numbers of the decisions that this one may replace. None means any decision."""

    def may_replace(self, decision: int) -> bool:
        """Return whether this decision may replace the one with this number."""
        return self.overrides is None or decision in self.overrides


@dataclass(frozen=True)
class DecisionRejected:
    """Reason why a decision was refused, in a sentence."""

    why: Literal["gone", "changed"]
    """`gone`: the document does not exist. `changed`: it has changed since the reviewer read it."""
    message: str


Answer = DecisionApplied | DecisionRejected
_GONE = DecisionRejected("gone", "The document does not exist, or documents of its type are not matched.")


def confirm(
    connection: Connection, tenant_id: UUID, document_id: UUID, other_id: UUID, now: datetime, who: DecisionContext
) -> Answer:
    """Link two documents that are linked already or need review as a pair.

    Runs in the caller's tenant transaction, like the following functions.
    """
    answer = _decide(connection, tenant_id, [(document_id, other_id)], "confirmed", now, who)
    return _recorded(connection, tenant_id, answer, now, who)


def reject(
    connection: Connection,
    tenant_id: UUID,
    document_id: UUID,
    others: Collection[UUID],
    now: datetime,
    who: DecisionContext,
) -> Answer:
    """Reject all links and candidates between a document and the others, or none of them."""
    answer = _decide(connection, tenant_id, [(document_id, other) for other in others], "rejected", now, who)
    return _recorded(connection, tenant_id, answer, now, who)


def merge(  # both documents
    connection: Connection,
    tenant_id: UUID,
    one: UUID,
    other: UUID,
    now: datetime,
    who: DecisionContext,
    *,
    exact: bool = False,
) -> Answer:
    """Link two documents and their clusters, whatever automatic matching has decided.

    The edge connects the best matching pair of the two clusters or, if `exact`, the two documents themselves.
    """
    matching.lock_tenant_blocking(connection, tenant_id)
    clusters = matching.clusters(connection, {one, other})
    if not exact and clusters.get(one) is not None and clusters.get(one) == clusters.get(other):
        return DecisionRejected("changed", "The two documents are already in the same cluster.")
    pair = Pair.of(one, other) if exact else matching.best_pair(connection, one, other)
    answer = _decide(connection, tenant_id, [pair], "confirmed", now, who, in_question=False)
    return _recorded(connection, tenant_id, answer, now, who)


def split(connection: Connection, tenant_id: UUID, document_id: UUID, now: datetime, who: DecisionContext) -> Answer:
    """Remove a document from its cluster: reject all its edges, and those that would replace them.

    Edges to contracts stay, because they do not join clusters.
    """
    matching.lock_tenant_blocking(connection, tenant_id)
    members = matching.members(connection, document_id) - {document_id}
    done: DecisionApplied | None = None
    while pairs := [pair for pair in matching.pairs_of(connection, document_id) if members.intersection(pair)]:
        answer = _decide(connection, tenant_id, pairs, "rejected", now, who)
        if isinstance(answer, DecisionRejected):
            return answer
        done = answer if done is None else _together(done, answer)
    if done is not None:
        return _recorded(connection, tenant_id, done, now, who)
    if not matching.members(connection, document_id):
        return _GONE
    return DecisionRejected("changed", "The document is already alone in its cluster.")


def _recorded(connection: Connection, tenant_id: UUID, answer: Answer, now: datetime, who: DecisionContext) -> Answer:
    """Record a decision in the audit trail. Call it last, because its lock blocks the tenant."""
    if isinstance(answer, DecisionApplied):
        targets = sorted({str(end) for pair in answer.decided for end in pair})
        audit.record(connection, tenant_id, AuditRecord(who.by, f"match {answer.verdict}", targets, now, who.reason))
    return answer


def _together(one: DecisionApplied, other: DecisionApplied) -> DecisionApplied:
    return DecisionApplied(
        (*one.decided, *other.decided),
        one.verdict,
        one.clusters | other.clusters,
        one.rematched + other.rematched,
        (*one.sends, *other.sends),
    )


def _decide(
    connection: Connection,
    tenant_id: UUID,
    wanted: Collection[tuple[UUID, UUID]],
    verdict: Verdict,
    now: datetime,
    who: DecisionContext,
    *,
    in_question: bool = True,
) -> Answer:
    """Decide about pairs after validating each under the lock."""
    matching.lock_tenant_blocking(connection, tenant_id)
    pairs = sorted({Pair.of(*pair) for pair in wanted})
    if not matching.matchable(connection, {end for pair in pairs for end in pair}):
        return _GONE
    for pair in pairs:
        refused = _refused(connection, pair, verdict, who, in_question=in_question)
        if refused is not None:
            return refused
    settled = matching.decide_pairs(connection, tenant_id, pairs, verdict, now, by=who.by, reason=who.reason)
    return _follow_up(connection, tenant_id, pairs, verdict, settled, now, who)


def _refused(
    connection: Connection, pair: Pair, verdict: Verdict, who: DecisionContext, *, in_question: bool
) -> DecisionRejected | None:
    """Return the reason why a decision about a pair is refused; None if it is valid."""
    if pair.a == pair.b:
        return DecisionRejected("changed", "A document cannot match itself. Name two different documents.")
    last = next((one for one in reversed(sql.decisions(connection, pair)) if one.pair == pair), None)
    if last is not None and last.verdict == verdict:
        return DecisionRejected("changed", f"{_describe_decision(last)}. No change is needed.")
    if last is not None and not who.may_replace(last.id):
        return DecisionRejected(
            "changed", f"{_describe_decision(last)} (decision {last.id}). Supersede that decision explicitly."
        )
    if not in_question or last is not None or pair in matching.pairs_of(connection, pair.a):
        return None
    ambiguous_matches = sql.reviews(connection, pair)
    if any(review.state == "open" and review.candidates.intersection(pair) for review in ambiguous_matches.values()):
        return None
    return DecisionRejected(
        "changed", "The two documents are not linked, and neither needs review because of the other."
    )


def _describe_decision(last: Decision) -> str:
    return f"{last.by} {last.verdict} this pair on {last.at:%Y-%m-%d at %H:%M} UTC"


def _follow_up(
    connection: Connection,
    tenant_id: UUID,
    pairs: Sequence[Pair],
    verdict: Verdict,
    settled: ManualDecisionResult,
    now: datetime,
    who: DecisionContext,
) -> DecisionApplied:
    """Request the comparison of changed clusters, and match documents again whose model questions changed."""
    sends = renew(connection, "matching", settled.unasked, now, actor=who.by, why=REASON)
    sends += diagnostics.enqueue_diagnostics(
        connection, tenant_id, settled.clusters, now, document_ids=settled.documents
    )
    return DecisionApplied(tuple(pairs), verdict, settled.clusters, len(settled.unasked), sends)


@dataclass(frozen=True)
class ReviewCursor:
    """Position of a document in the queue."""

    document_id: UUID
    tenant_id: UUID
    tenant: str
    opened_at: datetime


@dataclass(frozen=True)
class ReviewFilter:
    """Filters of the queue; None permits every value."""

    state: State = "open"
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


def places(connection: Connection, wanted: ReviewFilter, limit: int) -> list[ReviewCursor]:
    """Return a page of the queue in order of opening, as the delivery role."""
    at, id_ = wanted.after or (None, None)
    values = {
        "state": wanted.state,
        "tenants": None if wanted.tenants is None else list(wanted.tenants),
        "kind": wanted.kind,
        "min": wanted.min_probability,
        "max": wanted.max_probability,
        "after_at": at,
        "after_id": id_,
        "limit": limit,
    }
    return [ReviewCursor(*row) for row in connection.execute(_PLACES, values)]


@dataclass(frozen=True)
class ReviewDocument:
    """Summary of a document for reviewers; only the id of a deleted one."""

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
    """A review with all facts for a decision."""

    tenant: str
    review: Review
    documents: Mapping[UUID, ReviewDocument]
    """The document and its candidates."""
    decisions: Sequence[Decision]
    """All decisions of people about the document."""

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
                {**doubt, "candidates": [self._candidate(one) for one in doubt["candidates"]]}
                for doubt in review.ambiguous_matches
            ],
            "decisions": [
                {
                    "id": one.id,
                    "documents": list(one.pair),
                    "verdict": one.verdict,
                    "by": one.by,
                    "reason": one.reason,
                    "at": one.at.isoformat(),
                }
                for one in self.decisions
            ],
        }

    def _candidate(self, candidate: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "document": self._document(UUID(candidate["document"])),
            "probability": candidate["probability"],
            "weight_bits": candidate["bits"],
            "evidence": [asdict(step) for step in evidence_steps(candidate["evidence"])],
        }

    def _document(self, id_: UUID) -> ReviewDocument:
        return self.documents.get(id_, ReviewDocument(id_))


def items(database: Database, found: Iterable[ReviewCursor]) -> list[ReviewItem]:
    """Return the reviews at these positions, in order of opening; each is read as its tenant."""
    of: dict[tuple[UUID, str], list[UUID]] = defaultdict(list)
    for place in found:
        of[place.tenant_id, place.tenant].append(place.document_id)
    read: dict[UUID, ReviewItem] = {}
    for (tenant_id, slug), ids in of.items():
        with database.tenant(tenant_id) as connection:
            read |= _read(connection, slug, ids)
    return sorted(read.values(), key=lambda item: (item.review.opened_at, item.review.document_id))


def item(database: Database, tenant_id: UUID, slug: str, document_id: UUID) -> ReviewItem | None:
    """Return the review of a document in any state; None if it was never ambiguous."""
    with database.tenant(tenant_id) as connection:
        return _read(connection, slug, [document_id]).get(document_id)


def _read(connection: Connection, slug: str, ids: Collection[UUID]) -> dict[UUID, ReviewItem]:
    found = reviews(connection, ids)
    decided = decisions(connection, found)
    shown = {id_ for review in found.values() for id_ in (review.document_id, *review.candidates)}
    known = summaries(connection, shown)
    return {
        id_: ReviewItem(slug, review, known, [one for one in decided if id_ in one.pair])
        for id_, review in found.items()
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
