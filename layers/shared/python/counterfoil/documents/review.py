"""Review: people decide what matching left in doubt, and correct what it decided.

Each decision is one transaction under the tenant's matching lock, with who and why: the trail, the edge, all decisions
of matching that it touches, the clusters' new names, the computation of those clusters, and the re-match of documents
that a language model may be asked about anew. It is refused where what it is about has changed since the person looked:
a pair that somebody decided meanwhile is decided again only by whoever says that they know (`supersedes`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from counterfoil import audit
from counterfoil.audit import Operation
from counterfoil.db import Connection
from counterfoil.delivery.dead_letter import renew
from counterfoil.delivery.work import Send
from counterfoil.documents import diagnostics, matching
from counterfoil.documents.matching import Decision, Pair, Settled, Verdict, sql

WHY = "A person decided what a document belongs to."


@dataclass(frozen=True)
class Done:
    """What a person decided, and what came of it."""

    decided: tuple[Pair, ...]
    verdict: Verdict
    clusters: frozenset[UUID]
    """Those that changed: what they were called, and are."""
    rematched: int
    """Documents that are matched anew."""
    sends: Sequence[Send]
    """Messages owed, to be sent after the commit."""

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "verdict": self.verdict,
            "decided": [list(pair) for pair in self.decided],
            "clusters": sorted(self.clusters),
            "matched_anew": self.rematched,
        }


@dataclass(frozen=True)
class Who:
    """Who decides, and why."""

    by: str
    reason: str | None
    supersedes: Collection[int] | None = ()
    """Numbers of the decisions that this one may replace. None means any decision."""

    def may_replace(self, decision: int) -> bool:
        """Return whether this decision may replace the one with this number."""
        return self.supersedes is None or decision in self.supersedes


@dataclass(frozen=True)
class Refused:
    """Why nothing was done, in a sentence."""

    why: Literal["gone", "changed"]
    """`gone`: there is no such document. `changed`: it is there, but not as the person saw it."""
    sentence: str


Answer = Done | Refused
_GONE = Refused("gone", "There is no such document, or it is of a kind that is not matched.")


def confirm(
    connection: Connection, tenant_id: UUID, document_id: UUID, other_id: UUID, now: datetime, who: Who
) -> Answer:
    """Two documents belong together, which are linked, or of which one is in doubt about the other.

    In the caller's transaction, which is the tenant's, as all that follow.
    """
    answer = _decide(connection, tenant_id, [(document_id, other_id)], "confirmed", now, who)
    return _recorded(connection, tenant_id, answer, now, who)


def reject(
    connection: Connection, tenant_id: UUID, document_id: UUID, others: Collection[UUID], now: datetime, who: Who
) -> Answer:
    """A document does not belong together with others that it is linked to, or in doubt about. All of them or none."""
    answer = _decide(connection, tenant_id, [(document_id, other) for other in others], "rejected", now, who)
    return _recorded(connection, tenant_id, answer, now, who)


def merge(  # one and the other
    connection: Connection, tenant_id: UUID, one: UUID, other: UUID, now: datetime, who: Who, *, exact: bool = False
) -> Answer:
    """Two documents belong together with all that belongs to them, whatever matching thinks of it.

    The edge is between those of the two clusters that fit best, or, if `exact`, between the two themselves.
    """
    matching.wait_for_lock(connection, tenant_id)
    clusters = matching.clusters(connection, {one, other})
    if not exact and clusters.get(one) is not None and clusters.get(one) == clusters.get(other):
        return Refused("changed", "The two are in one cluster already.")
    pair = Pair.of(one, other) if exact else matching.best_pair(connection, one, other)
    answer = _decide(connection, tenant_id, [pair], "confirmed", now, who, in_question=False)
    return _recorded(connection, tenant_id, answer, now, who)


def split(connection: Connection, tenant_id: UUID, document_id: UUID, now: datetime, who: Who) -> Answer:
    """A document does not belong to its cluster: all edges to it are rejected, and those that would take their place.

    Its edges to contracts, which glue no clusters together, stay.
    """
    matching.wait_for_lock(connection, tenant_id)
    members = matching.members(connection, document_id) - {document_id}
    done: Done | None = None
    while pairs := [pair for pair in matching.pairs_of(connection, document_id) if members.intersection(pair)]:
        answer = _decide(connection, tenant_id, pairs, "rejected", now, who)
        if isinstance(answer, Refused):
            return answer
        done = answer if done is None else _together(done, answer)
    if done is not None:
        return _recorded(connection, tenant_id, done, now, who)
    if not matching.members(connection, document_id):
        return _GONE
    return Refused("changed", "It is in a cluster of its own already.")


def _recorded(connection: Connection, tenant_id: UUID, answer: Answer, now: datetime, who: Who) -> Answer:
    """Record a decision in the audit trail. Call it last, because its lock blocks the tenant."""
    if isinstance(answer, Done):
        targets = sorted({str(end) for pair in answer.decided for end in pair})
        audit.record(connection, tenant_id, Operation(who.by, f"match {answer.verdict}", targets, now, who.reason))
    return answer


def _together(one: Done, other: Done) -> Done:
    return Done(
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
    who: Who,
    *,
    in_question: bool = True,
) -> Answer:
    """Decide about pairs, after a look at each under the lock."""
    matching.wait_for_lock(connection, tenant_id)
    pairs = sorted({Pair.of(*pair) for pair in wanted})
    if not matching.matchable(connection, {end for pair in pairs for end in pair}):
        return _GONE
    for pair in pairs:
        refused = _refused(connection, pair, verdict, who, in_question=in_question)
        if refused is not None:
            return refused
    settled = matching.settle(connection, tenant_id, pairs, verdict, now, by=who.by, reason=who.reason)
    return _follow_up(connection, tenant_id, pairs, verdict, settled, now, who)


def _refused(connection: Connection, pair: Pair, verdict: Verdict, who: Who, *, in_question: bool) -> Refused | None:
    """Why a pair cannot be decided as a person wants it; None where it can."""
    if pair.a == pair.b:
        return Refused("changed", "A document cannot be decided against itself: name two.")
    last = next((one for one in reversed(sql.decisions(connection, pair)) if one.pair == pair), None)
    if last is not None and last.verdict == verdict:
        return Refused("changed", f"{_told(last)}: there is nothing to be done.")
    if last is not None and not who.may_replace(last.id):
        return Refused("changed", f"{_told(last)} (decision {last.id}): say that you supersede it, or leave it.")
    if not in_question or last is not None or pair in matching.pairs_of(connection, pair.a):
        return None
    doubts = sql.reviews(connection, pair)
    if any(review.state == "open" and review.candidates.intersection(pair) for review in doubts.values()):
        return None
    return Refused("changed", "The two are not linked, and neither is in doubt about the other any more.")


def _told(last: Decision) -> str:
    return f"{last.by} {last.verdict} this pair on {last.at:%Y-%m-%d at %H:%M} UTC"


def _follow_up(
    connection: Connection,
    tenant_id: UUID,
    pairs: Sequence[Pair],
    verdict: Verdict,
    settled: Settled,
    now: datetime,
    who: Who,
) -> Done:
    """Have computed what changed, and matched anew what a language model may be asked about."""
    sends = renew(connection, "matching", settled.unasked, now, actor=who.by, why=WHY)
    sends += diagnostics.request(connection, tenant_id, settled.clusters, now, document_ids=settled.documents)
    return Done(tuple(pairs), verdict, settled.clusters, len(settled.unasked), sends)
