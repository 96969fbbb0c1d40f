"""One cluster as people look at it: its documents, why they belong together, and what their comparison came to.

A cluster may have thousands of documents. They are shown a page at a time, with the edges of those that are shown, and
of the comparison as much as is good for one look. Each function runs in a transaction that sees one tenant alone
(`Database.tenant`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.documents import acceptance, document_list
from counterfoil.documents.document_list import Place, Summary
from counterfoil.documents.matching.evidence import Step, waterfall
from counterfoil.documents.three_way_match import ClusterStatus

MOST_EDGES = 300
MOST_LINES = 300
MOST_PARTS = 50
"""Of a line: what its documents add to it."""
MOST_VARIANCES = 300
MOST_CHARACTERS = 1_000_000
"""Of all lines, and of all variances, as JSON: a line may be long, and an answer has its bounds."""


@dataclass(frozen=True)
class Edge:
    """Two documents that belong together, and why."""

    document_a_id: UUID
    document_b_id: UUID
    score: float
    """In bits: log2 of the odds for it."""
    confidence: str
    decided_by: str
    reasoning: str
    decided_at: datetime
    evidence: Sequence[Step]
    """What each feature says, in the order in which they are scored."""
    question_about: UUID | None
    """The document in the question to a language model; None if none decided."""


@dataclass(frozen=True)
class Comparison:
    """What the documents of a cluster come to (`variances.Result.record`), each list cut to what is shown."""

    outcome: str
    reasons: Sequence[str]
    remarks: Sequence[str]
    lines: Sequence[Mapping[str, Any]]
    """Each with the first MOST_PARTS of its `parts`, and `parts_total`."""
    lines_total: int
    variances: Sequence[Mapping[str, Any]]
    variances_total: int
    can_be_accepted: bool
    """Whether a difference between figures is open."""


class Found(NamedTuple):
    """A cluster, with a page of its documents."""

    id: UUID
    status: ClusterStatus | None
    """None until the cluster is compared."""
    documents: Sequence[Summary]
    """Those received first, first."""
    documents_total: int
    next: Place | None
    """Where the next page begins; None where there is nothing more."""
    edges: Sequence[Edge]
    """Of these documents, the strongest."""
    edges_total: int
    """Of these documents."""
    contracts: Sequence[Summary]
    """That these documents are linked to: they glue no clusters together."""
    comparison: Comparison | None
    """None where nothing was computed, or there is nothing to compare."""
    computed_at: datetime | None
    is_being_computed: bool
    """Whether the cluster has changed since."""
    error: str | None
    """Why it could not be computed."""


_CLUSTER = "SELECT cluster_id FROM document WHERE tenant_id = %(tenant)s AND id = %(id)s"
_MEMBERS = """
SELECT id, received_at FROM document WHERE tenant_id = %(tenant)s AND cluster_id = %(cluster)s
  AND (%(after_at)s::timestamptz IS NULL OR (received_at, id) > (%(after_at)s, %(after_id)s::uuid))
ORDER BY received_at, id LIMIT %(most)s
"""
_TOTAL = "SELECT count(*) FROM document WHERE tenant_id = %(tenant)s AND cluster_id = %(cluster)s"
_OF_MEMBERS = """
SELECT * FROM document_match WHERE document_a_id = ANY(%(ids)s)
UNION ALL
SELECT * FROM document_match WHERE document_b_id = ANY(%(ids)s) AND document_a_id <> ALL(%(ids)s)
"""
_EDGES = f"""
SELECT document_a_id, document_b_id, score, confidence, decided_by, reasoning, decided_at, evidence -> 'features',
       CASE WHEN decided_by = 'llm' THEN (evidence ->> 'child')::uuid END
FROM ({_OF_MEMBERS}) AS edge
ORDER BY score DESC, document_a_id, document_b_id LIMIT %(most)s
"""  # noqa: S608  # put together from the constants above
_EDGES_TOTAL = f"SELECT count(*) FROM ({_OF_MEMBERS}) AS edge"  # noqa: S608
_RESULT = """
SELECT result, computed_at, coalesce(status IN ('pending', 'in-progress'), false), error, cluster_status
FROM cluster_diagnostics WHERE tenant_id = %(tenant)s AND id = %(cluster)s
"""


def show(
    connection: Connection, tenant_id: UUID, document_id: UUID, *, limit: int, after: Place | None = None
) -> Found | None:
    """The cluster of a document, with at most `limit` of its documents behind `after`; None where it is in none.

    A cluster's own id is one of its documents: an old one still leads to what the cluster has become.
    """
    row = connection.execute(_CLUSTER, {"tenant": tenant_id, "id": document_id}).fetchone()
    if row is None or row[0] is None:
        return None
    about: dict[str, Any] = {
        "tenant": tenant_id,
        "cluster": row[0],
        "after_at": after and after.received_at,
        "after_id": after and after.id,
        "most": limit + 1,
    }
    places = [Place(at, id_) for id_, at in connection.execute(_MEMBERS, about)]
    shown = [place.id for place in places[:limit]]
    edges, edges_total = _edges(connection, shown)
    others = {end for edge in edges for end in (edge.document_a_id, edge.document_b_id)} - set(shown)
    near = document_list.of_ids(connection, tenant_id, [*shown, *others])
    computed = connection.execute(_RESULT, about).fetchone() or (None, None, False, None, None)
    result, computed_at, is_being_computed, error, status = computed
    return Found(
        id=row[0],
        status=None if status is None else ClusterStatus(status),
        documents=[one for one in reversed(near) if one.id in set(shown)],
        documents_total=_number(connection, _TOTAL, about),
        next=places[limit - 1] if len(places) > limit else None,
        edges=edges,
        edges_total=edges_total,
        contracts=[one for one in near if one.type == "contract" and one.cluster_id != row[0]],
        comparison=None if result is None else _comparison(result),
        computed_at=computed_at,
        is_being_computed=is_being_computed,
        error=error,
    )


def _edges(connection: Connection, ids: Sequence[UUID]) -> tuple[list[Edge], int]:
    about = {"ids": list(ids), "most": MOST_EDGES}
    found = [
        Edge(*(*row[:-2], waterfall(row[-2] or ()), row[-1])) for row in connection.execute(_EDGES.encode(), about)
    ]
    return found, len(found) if len(found) < MOST_EDGES else _number(connection, _EDGES_TOTAL, about)


def _number(connection: Connection, statement: str, values: Mapping[str, Any]) -> int:
    row = connection.execute(statement.encode(), values).fetchone()
    return int(row[0]) if row else 0


def _comparison(result: Mapping[str, Any]) -> Comparison:
    lines = [
        {**line, "parts": line["parts"][:MOST_PARTS], "parts_total": len(line["parts"])}
        for line in result["lines"][:MOST_LINES]
    ]
    return Comparison(
        outcome=result["outcome"],
        reasons=result["reasons"][:MOST_VARIANCES],
        remarks=result["remarks"][:MOST_VARIANCES],
        lines=_that_fit(lines),
        lines_total=len(result["lines"]),
        variances=_that_fit(result["variances"][:MOST_VARIANCES]),
        variances_total=len(result["variances"]),
        can_be_accepted=acceptance.is_to_be_accepted(result),
    )


def _that_fit(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The first of them, as many as MOST_CHARACTERS of JSON have room for. Pure."""
    kept, length = [], 0
    for one in found:
        length += len(json.dumps(one))
        if length > MOST_CHARACTERS:
            break
        kept.append(one)
    return kept
