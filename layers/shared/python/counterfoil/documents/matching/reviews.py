"""What matching leaves for people to decide, and what they decided: the SQL of `document_review` and `match_decision`.

A review is a document that is in doubt, with the candidates of each doubt. It is written with the edges, by whatever
decides about the document: it opens when there is a doubt, changes with it, and closes when there is none any more.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil.db import Connection
from counterfoil.documents.matching.rules import Choice, Doubt, Link, open_doubts
from counterfoil.documents.matching.store import Pair
from counterfoil.documents.matching.weights import current

Verdict = Literal["confirmed", "rejected"]
State = Literal["open", "decided", "gone"]
MAX_CANDIDATES = 20
"""Candidates of a doubt that are kept with their evidence, the likeliest first: nobody looks at more."""


# -- the queue ------------------------------------------------------------------------------------------------------

_OPEN = """
INSERT INTO document_review AS review
    (document_id, tenant_id, type, state, doubts, chance, weights, opened_at, changed_at)
SELECT d.id, d.tenant_id, coalesce(d.type, 'other'), 'open', found.doubts, found.chance, %(weights)s, %(now)s, %(now)s
FROM unnest(%(ids)s::uuid[], %(doubts)s::jsonb[], %(chances)s::float8[]) AS found (id, doubts, chance)
JOIN document d ON d.id = found.id
ON CONFLICT (document_id) DO UPDATE
SET type = excluded.type, state = 'open', doubts = excluded.doubts, chance = excluded.chance,
    weights = excluded.weights, changed_at = excluded.changed_at, closed_at = NULL,
    opened_at = CASE WHEN review.state = 'open' THEN review.opened_at ELSE excluded.opened_at END
WHERE (review.state, review.type, review.doubts, review.weights)
    IS DISTINCT FROM ('open', excluded.type, excluded.doubts, excluded.weights)
RETURNING document_id
"""

_CLOSE = """
UPDATE document_review
SET state = CASE WHEN document_id = ANY(%(decided)s) THEN 'decided' ELSE 'gone' END, changed_at = %(now)s,
    closed_at = %(now)s
WHERE document_id = ANY(%(ids)s) AND state = 'open'
RETURNING document_id
"""


class Changed(NamedTuple):
    """Documents whose reviews changed."""

    open: frozenset[UUID]
    """In doubt otherwise than before."""
    closed: frozenset[UUID]


def keep(
    connection: Connection,
    choices: Mapping[UUID, Choice],
    now: datetime,
    decided: Collection[UUID],
) -> Callable[[], Changed]:
    """Open, renew or close the reviews of documents that were decided again; `decided`: those that a person was at.

    Call the result after the pipeline of the statement: it returns the changes.
    """
    doubtful = {id_: found for id_, choice in choices.items() if (found := open_doubts(choice))}
    settled = choices.keys() - doubtful.keys()
    closed = close(connection, settled, now, decided) if settled else frozenset
    if not doubtful:
        return lambda: Changed(frozenset(), closed())
    cursor = connection.execute(
        _OPEN,
        {
            "ids": list(doubtful),
            "doubts": [Jsonb([_doubt(doubt) for doubt in found]) for found in doubtful.values()],
            "chances": [
                round(max(link.chance for one in found for link in one.candidates), 4) for found in doubtful.values()
            ],
            "weights": current().version,
            "now": now,
        },
    )
    return lambda: Changed(frozenset(id_ for (id_,) in cursor.fetchall()), closed())


_HAS_MATCH = "SELECT FROM document_match WHERE a = %(id)s OR b = %(id)s LIMIT 1"


def open_unmatched(connection: Connection, id_: UUID, reason: str, now: datetime) -> None:
    """Open a review without candidates of a skipped document: a reviewer names its partner.

    A document with a match needs none, because a reviewer confirmed that match.
    """
    if connection.execute(_HAS_MATCH, {"id": id_}).fetchone() is not None:
        return
    doubt: dict[str, Any] = {"kinds": [], "number": None, "reason": reason, "count": 0, "candidates": [], "others": []}
    values = {"ids": [id_], "doubts": [Jsonb([doubt])], "chances": [0.0], "weights": current().version, "now": now}
    connection.execute(_OPEN, values)


def close(
    connection: Connection, ids: Collection[UUID], now: datetime, decided: Collection[UUID] = ()
) -> Callable[[], frozenset[UUID]]:
    """Close the open reviews of documents. The result, called after the pipeline, returns which were open."""
    cursor = connection.execute(_CLOSE, {"ids": list(ids), "decided": list(decided), "now": now})
    return lambda: frozenset(id_ for (id_,) in cursor.fetchall())


def _doubt(doubt: Doubt) -> dict[str, Any]:
    return {
        "kinds": list(doubt.kinds),
        "number": doubt.number,
        "reason": doubt.reason,
        "count": len(doubt.candidates),
        "candidates": [_candidate(link) for link in doubt.candidates[:MAX_CANDIDATES]],
        "others": [str(link.parent) for link in doubt.candidates[MAX_CANDIDATES:]],
        **({} if doubt.unasked is None else {"unasked": doubt.unasked}),
    }


def _candidate(link: Link) -> dict[str, Any]:
    return {
        "document": str(link.parent),
        "type": link.kind,
        "chance": round(link.chance, 4),
        "bits": round(link.score.total, 2),
        "evidence": [list(item) for item in link.score.evidence],
    }


@dataclass(frozen=True)
class Review:
    """A row of the queue."""

    document_id: UUID
    type: str
    state: State
    doubts: Sequence[dict[str, Any]]
    """Each with `kinds`, `number`, `reason`, `count` and `candidates`, which have `document`, `type`, `chance`, `bits`
    and `evidence` (feature, level, bits); `others` are candidates beyond those, and `unasked` says why a language
    model was not asked that could have been."""
    chance: float
    weights: str
    opened_at: datetime
    changed_at: datetime
    closed_at: datetime | None

    @property
    def candidates(self) -> frozenset[UUID]:
        """The documents that are in question."""
        shown = {one["document"] for doubt in self.doubts for one in doubt["candidates"]}
        return frozenset(map(UUID, shown.union(*(doubt["others"] for doubt in self.doubts))))


_REVIEWS = """
SELECT document_id, type, state, doubts, chance, weights, opened_at, changed_at, closed_at
FROM document_review WHERE document_id = ANY(%(ids)s)
"""


def reviews(connection: Connection, ids: Collection[UUID]) -> dict[UUID, Review]:
    """The reviews of documents that have one."""
    return {row[0]: Review(*row) for row in connection.execute(_REVIEWS, {"ids": list(ids)})}


# -- decisions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Decision:
    """A row of the trail."""

    id: int
    pair: Pair
    verdict: Verdict
    by: str
    reason: str | None
    at: datetime


_DECISIONS = """
SELECT id, a, b, verdict, decided_by, reason, decided_at FROM match_decision
WHERE a = ANY(%(ids)s) OR b = ANY(%(ids)s) ORDER BY id
"""
_DECIDE = """
INSERT INTO match_decision (tenant_id, a, b, verdict, decided_by, reason, decided_at)
VALUES (%(tenant)s, %(a)s, %(b)s, %(verdict)s, %(by)s, %(reason)s, %(now)s)
RETURNING id
"""


def decisions(connection: Connection, ids: Collection[UUID]) -> list[Decision]:
    """All that people decided about documents, in the order in which they did; the last one about a pair stands."""
    rows = connection.execute(_DECISIONS, {"ids": list(ids)})
    return [Decision(id_, Pair(a, b), verdict, by, reason, at) for id_, a, b, verdict, by, reason, at in rows]


def record(
    connection: Connection, tenant_id: UUID, pair: Pair, verdict: Verdict, now: datetime, *, by: str, reason: str | None
) -> int:
    """Add a decision to the trail. Returns its number."""
    values = {"tenant": tenant_id, "a": pair.a, "b": pair.b, "verdict": verdict, "by": by, "reason": reason, "now": now}
    ((id_,),) = connection.execute(_DECIDE, values).fetchall()
    return int(id_)


_CONFIRM = """
INSERT INTO document_match (tenant_id, a, b, score, confidence, evidence, decided_by, reasoning, decided_at)
VALUES (%(tenant)s, %(a)s, %(b)s, %(score)s, 'high', %(evidence)s, 'person', %(reasoning)s, %(now)s)
ON CONFLICT (a, b) DO UPDATE
SET score = excluded.score, confidence = excluded.confidence, evidence = excluded.evidence,
    decided_by = excluded.decided_by, reasoning = excluded.reasoning, decided_at = excluded.decided_at
"""

# What is left is decided by rules again, which see it as an edge that was there.
_RELEASE = "UPDATE document_match SET decided_by = 'rules' WHERE a = %(a)s AND b = %(b)s AND decided_by = 'person'"
_UNLINK = "DELETE FROM document_match WHERE a = %(a)s AND b = %(b)s"

# Nobody's partner, and not matched: in no cluster. Its keys are its own match's to write and to delete.
_LEAVE_ALONE = """
UPDATE document d SET cluster_id = NULL
WHERE id = ANY(%(ids)s) AND NOT EXISTS (SELECT FROM document_match WHERE a = d.id OR b = d.id)
"""


def link(  # one for each column
    connection: Connection,
    tenant_id: UUID,
    pair: Pair,
    score: float,
    evidence: Mapping[str, Any],
    reasoning: str,
    now: datetime,
) -> None:
    """Write a person's edge, in the place of what there is."""
    values = {"tenant": tenant_id, "a": pair.a, "b": pair.b, "now": now}
    values |= {"score": score, "evidence": Jsonb(evidence), "reasoning": reasoning}
    connection.execute(_CONFIRM, values)


def release(connection: Connection, pair: Pair) -> None:
    """Leave a person's edge to rules."""
    connection.execute(_RELEASE, {"a": pair.a, "b": pair.b})


def unlink(connection: Connection, pair: Pair) -> bool:
    """Delete an edge, whoever decided it. Returns whether there was one."""
    return connection.execute(_UNLINK, {"a": pair.a, "b": pair.b}).rowcount > 0


def leave_alone(connection: Connection, ids: Collection[UUID]) -> None:
    """Take documents that are not matched out of their cluster, where they have no edge."""
    if ids:
        connection.execute(_LEAVE_ALONE, {"ids": list(ids)})
