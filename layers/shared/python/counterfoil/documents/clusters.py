"""Cluster lists, one cluster with its comparison, and cluster data for webhooks.

Lists come from the results that diagnostics stored, and use an index for each status. A cluster may have thousands of
documents. It is therefore returned in pages, each with the matches of its documents and a bounded part of the
comparison. Each function runs in a transaction of one tenant (`Database.tenant`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple, get_args
from uuid import UUID

from psycopg.types.json import Jsonb
from pydantic import Field

from counterfoil.db import Connection, PageCursor
from counterfoil.documents import differences, document_list
from counterfoil.documents.document_list import DocumentSummary
from counterfoil.documents.matching.evidence import Step, evidence_steps
from counterfoil.documents.matching.normalize import words
from counterfoil.documents.three_way_match import ClusterStatus

MAX_MATCHES = 300
MAX_LINE_ITEMS = 300
MAX_PARTS = 50
"""Maximum number of documents shown per line item."""
MAX_VARIANCES = 300
MAX_JSON_CHARS = 1_000_000
"""Maximum number of JSON characters for all line items, and for all variances."""


@dataclass(frozen=True)
class ClusterMatch:
    """A match between two documents, with its evidence."""

    document_a_id: UUID
    document_b_id: UUID
    score: Annotated[float, Field(description="Match score in bits (log2 of the odds).")]
    confidence: str
    decided_by: str
    reasoning: str
    decided_at: datetime
    evidence: Annotated[Sequence[Step], Field(description="Result of each feature, in the order of scoring.")]
    judged_document_id: Annotated[
        UUID | None, Field(description="Document about which a language model decided; null if none did.")
    ]


@dataclass(frozen=True)
class Comparison:
    """The returned part of a cluster's comparison (`three_way_match.Result.record`)."""

    outcome: str
    reasons: Sequence[str]
    warnings: Sequence[str]
    lines: Sequence[Mapping[str, Any]]
    """Each has at most MAX_PARTS `parts`, and their total number as `parts_total`."""
    lines_total: int
    variances: Sequence[Mapping[str, Any]]
    variances_total: int
    can_be_accepted: bool
    """Whether the cluster has an open difference between two figures."""


class ClusterDetail(NamedTuple):
    """A cluster with a page of its documents."""

    id: UUID
    status: ClusterStatus | None
    """None until the cluster is compared."""
    order_numbers: Sequence[str]
    """See `ClusterSummary`. Empty until the cluster is compared."""
    documents: Sequence[DocumentSummary]
    """In order of receipt."""
    documents_total: int
    next_cursor: PageCursor | None
    """Cursor of the next page; None on the last page."""
    matches: Sequence[ClusterMatch]
    """Strongest matches of the documents on this page."""
    matches_total: int
    """Total number of matches of the documents on this page."""
    contracts: Sequence[DocumentSummary]
    """Contracts linked to the documents on this page. Contracts do not join clusters."""
    comparison: Comparison | None
    """None if no result is stored, or if there are no documents to compare."""
    computed_at: datetime | None
    is_computing: bool
    """Whether the cluster has changed since the comparison."""
    error: str | None
    """Error from the last computation."""


_CLUSTER = "SELECT cluster_id FROM document WHERE tenant_id = %(tenant)s AND id = %(id)s"
_MEMBERS = """
SELECT id, received_at FROM document WHERE tenant_id = %(tenant)s AND cluster_id = %(cluster)s
  AND (%(after_at)s::timestamptz IS NULL OR (received_at, id) > (%(after_at)s, %(after_id)s::uuid))
ORDER BY received_at, id LIMIT %(most)s
"""
_TOTAL = "SELECT count(*) FROM document WHERE tenant_id = %(tenant)s AND cluster_id = %(cluster)s"
_MEMBER_EDGES = """
SELECT * FROM document_match WHERE document_a_id = ANY(%(ids)s)
UNION ALL
SELECT * FROM document_match WHERE document_b_id = ANY(%(ids)s) AND document_a_id <> ALL(%(ids)s)
"""
_EDGES = f"""
SELECT document_a_id, document_b_id, score, confidence, decided_by, reasoning, decided_at, evidence -> 'features',
       CASE WHEN decided_by = 'llm' THEN (evidence ->> 'child')::uuid END
FROM ({_MEMBER_EDGES}) AS edge
ORDER BY score DESC, document_a_id, document_b_id LIMIT %(most)s
"""  # noqa: S608  # built from the constants above
_EDGES_TOTAL = f"SELECT count(*) FROM ({_MEMBER_EDGES}) AS edge"  # noqa: S608
_RESULT = """
SELECT result, computed_at, coalesce(status IN ('pending', 'in-progress'), false), error, cluster_status,
       coalesce(order_numbers, '{}')
FROM cluster_diagnostics WHERE tenant_id = %(tenant)s AND id = %(cluster)s
"""


def show(
    connection: Connection, tenant_id: UUID, document_id: UUID, *, limit: int, after: PageCursor | None = None
) -> ClusterDetail | None:
    """Return a document's cluster with one page of its documents.

    The page contains at most `limit` documents after the cursor `after`. Returns None if the document has no cluster. A
    cluster id is also the id of a document, so an old cluster id still finds the current cluster.
    """
    row = connection.execute(_CLUSTER, {"tenant": tenant_id, "id": document_id}).fetchone()
    if row is None or row[0] is None:
        return None
    parameters: dict[str, Any] = {
        "tenant": tenant_id,
        "cluster": row[0],
        "after_at": after and after.at,
        "after_id": after and after.id,
        "most": limit + 1,
    }
    cursors = [PageCursor(at, id_) for id_, at in connection.execute(_MEMBERS, parameters)]
    shown_ids = [cursor.id for cursor in cursors[:limit]]
    edges, edges_total = _edges(connection, shown_ids)
    neighbor_ids = {end for edge in edges for end in (edge.document_a_id, edge.document_b_id)} - set(shown_ids)
    summaries = document_list.page_of_ids(connection, tenant_id, [*shown_ids, *neighbor_ids])
    result_row = connection.execute(_RESULT, parameters).fetchone() or (None, None, False, None, None, ())
    result, computed_at, is_computing, error, status, order_numbers = result_row
    return ClusterDetail(
        id=row[0],
        status=None if status is None else ClusterStatus(status),
        order_numbers=order_numbers,
        documents=[summary for summary in reversed(summaries) if summary.id in set(shown_ids)],
        documents_total=_number(connection, _TOTAL, parameters),
        next_cursor=cursors[limit - 1] if len(cursors) > limit else None,
        matches=edges,
        matches_total=edges_total,
        contracts=[summary for summary in summaries if summary.type == "contract" and summary.cluster_id != row[0]],
        comparison=None if result is None else _comparison(result),
        computed_at=computed_at,
        is_computing=is_computing,
        error=error,
    )


def _edges(connection: Connection, ids: Sequence[UUID]) -> tuple[list[ClusterMatch], int]:
    parameters = {"ids": list(ids), "most": MAX_MATCHES}
    matches = [
        ClusterMatch(*(*row[:-2], evidence_steps(row[-2] or ()), row[-1]))
        for row in connection.execute(_EDGES.encode(), parameters)
    ]
    return matches, len(matches) if len(matches) < MAX_MATCHES else _number(connection, _EDGES_TOTAL, parameters)


def _number(connection: Connection, statement: str, values: Mapping[str, Any]) -> int:
    row = connection.execute(statement.encode(), values).fetchone()
    return int(row[0]) if row else 0


def _comparison(result: Mapping[str, Any]) -> Comparison:
    lines = [
        {**line, "parts": line["parts"][:MAX_PARTS], "parts_total": len(line["parts"])}
        for line in result["lines"][:MAX_LINE_ITEMS]
    ]
    return Comparison(
        outcome=result["outcome"],
        reasons=result["reasons"][:MAX_VARIANCES],
        warnings=result["warnings"][:MAX_VARIANCES],
        lines=_truncate(lines),
        lines_total=len(result["lines"]),
        variances=_truncate(result["variances"][:MAX_VARIANCES]),
        variances_total=len(result["variances"]),
        can_be_accepted=differences.needs_decision(result),
    )


def _truncate(items: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return as many leading items as fit into MAX_JSON_CHARS of JSON. Pure."""
    truncated, length = [], 0
    for item in items:
        length += len(json.dumps(item))
        if length > MAX_JSON_CHARS:
            break
        truncated.append(item)
    return truncated


Sort = Literal["oldest", "newest", "amount"]
"""`oldest` and `newest` sort by `waiting_since`. `amount` sorts by `affected`, largest first, regardless of the
currency."""
SORTS: tuple[Sort, ...] = get_args(Sort)
OPEN_STATUSES = (ClusterStatus.EXCEPTION, ClusterStatus.NEEDS_REVIEW, ClusterStatus.DISPUTED, ClusterStatus.INCOMPLETE)
"""Statuses of unfinished clusters."""
MAX_COUNT = 1_000
"""Highest count per status that is exact. Higher counts are returned as MAX_COUNT + 1."""
_LAST_CHARACTER = "\U0010ffff"


@dataclass(frozen=True)
class ClusterSummary:
    """A cluster in a list. Amounts are net, as decimal strings in `currency`."""

    id: UUID
    tenant: str
    status: ClusterStatus
    supplier: str | None
    order_numbers: Annotated[
        Sequence[str],
        Field(description="Numbers of its purchase orders. If it has none, the order numbers that its documents name."),
    ]
    currency: Annotated[
        str | None, Field(description="Currency of the amounts. Documents in other currencies are not counted.")
    ]
    ordered: Annotated[str | None, Field(description="Total of the purchase orders; null if unknown.")]
    delivered: Annotated[
        str | None, Field(description="Delivered minus rejected quantities, at ordered prices; null if unknown.")
    ]
    billed: Annotated[str | None, Field(description="Invoices minus credit notes; null if no invoice was received.")]
    affected: Annotated[
        str,
        Field(
            description="Amount of the open variances. An invoice counts in full if it is a duplicate, has no "
            "purchase order or delivery, or is in a different currency than its purchase order."
        ),
    ]
    waiting_since: Annotated[
        datetime,
        Field(description="When the first invoice or credit note was received, or else the first document."),
    ]
    documents: int
    reason: Annotated[str, Field(description="The most important reason for the status.")]
    is_computing: Annotated[bool, Field(description="Whether the cluster has changed since its comparison.")]


Cursor = PageCursor | tuple[float, UUID]
"""Position in a list: the time or the amount affected, and the cluster id."""


@dataclass(frozen=True)
class ClusterFilter:
    """Filters for a cluster list."""

    statuses: Sequence[ClusterStatus] = tuple(ClusterStatus)
    supplier: str | None = None
    """Prefix of the supplier's name."""
    number: str | None = None
    """Number of a document in the cluster."""
    sort: Sort = "oldest"


class Page(NamedTuple):
    """One page of clusters."""

    clusters: Sequence[ClusterSummary]
    next_cursor: Cursor | None
    """None on the last page."""


class _Order(NamedTuple):
    key: str
    direction: str
    after: str
    type: str


_ORDERS: Mapping[Sort, _Order] = {
    "oldest": _Order("waiting_since", "ASC", ">", "timestamptz"),
    "newest": _Order("waiting_since", "DESC", "<", "timestamptz"),
    "amount": _Order("amount_affected_order", "DESC", "<", "float8"),
}
_AFTER = "AND (c.{key}, c.id) {after} (%(key)s::{type}, %(id)s::uuid)"
_SUPPLIER = "AND c.supplier_key >= %(supplier)s AND c.supplier_key < %(supplier_end)s"
_NUMBER = "AND c.id IN (SELECT d.cluster_id FROM document d WHERE d.id = ANY(%(numbered)s))"
_PAGE = """
SELECT c.id, (SELECT slug FROM tenant WHERE id = c.tenant_id), c.cluster_status, c.supplier, c.order_numbers,
       c.currency, c.amount_ordered::text, c.amount_delivered::text, c.amount_billed::text, c.amount_affected::text,
       c.waiting_since, c.documents, c.result -> 'reasons' ->> 0,
       coalesce(c.status IN ('pending', 'in-progress'), false), c.{key}
FROM (
    SELECT page.* FROM unnest(%(statuses)s::text[]) AS requested (status)
    CROSS JOIN LATERAL (
        SELECT * FROM cluster_diagnostics c
        WHERE c.tenant_id = %(tenant)s AND c.cluster_status = requested.status {conditions}
        ORDER BY c.{key} {direction}, c.id {direction} LIMIT %(most)s
    ) AS page
    ORDER BY page.{key} {direction}, page.id {direction} LIMIT %(most)s
) AS c
ORDER BY c.{key} {direction}, c.id {direction}
"""


def page(
    connection: Connection, tenant_id: UUID, filters: ClusterFilter, *, limit: int, after: Cursor | None = None
) -> Page:
    """Return at most `limit` matching clusters after the cursor `after`."""
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "statuses": [status.value for status in filters.statuses],
        "most": limit + 1,
    }
    rows = connection.execute(_statement(connection, tenant_id, filters, after, values).encode(), values).fetchall()
    summaries = [
        ClusterSummary(id_, slug, ClusterStatus(status), *columns) for id_, slug, status, *columns, _ in rows[:limit]
    ]
    return Page(summaries, (rows[limit - 1][-1], summaries[-1].id) if len(rows) > limit else None)


def _statement(
    connection: Connection, tenant_id: UUID, filters: ClusterFilter, after: Cursor | None, values: dict[str, Any]
) -> str:
    """Build the statement, and add its parameters to `values`."""
    order = _ORDERS[filters.sort]
    conditions = []
    if after is not None:
        conditions.append(_AFTER.format(**order._asdict()))
        values["key"], values["id"] = after
    if filters.supplier is not None:
        conditions.append(_SUPPLIER)
        prefix = words(filters.supplier)
        values |= {"supplier": prefix, "supplier_end": prefix + _LAST_CHARACTER}
    if filters.number is not None:
        conditions.append(_NUMBER)
        values["numbered"] = document_list.find_by_number(connection, tenant_id, filters.number)
    return _PAGE.format(conditions=" ".join(conditions), **order._asdict())


_COUNTS = """
SELECT requested.status, (SELECT count(*) FROM (
    SELECT FROM cluster_diagnostics c WHERE c.tenant_id = %(tenant)s AND c.cluster_status = requested.status
    LIMIT %(most)s
) AS page) FROM unnest(%(statuses)s::text[]) AS requested (status)
"""


def counts(connection: Connection, tenant_id: UUID) -> dict[ClusterStatus, int]:
    """Return the number of clusters per status.

    Numbers above MAX_COUNT are returned as MAX_COUNT + 1.
    """
    values = {"tenant": tenant_id, "statuses": [status.value for status in ClusterStatus], "most": MAX_COUNT + 1}
    return {ClusterStatus(status): count for status, count in connection.execute(_COUNTS, values)}


# Built in PostgreSQL, so that numbers in structured data are not parsed and formatted again.
_CLUSTER_DATA = """
WITH member AS (SELECT * FROM document WHERE tenant_id = %(tenant)s AND cluster_id = %(cluster)s)
SELECT (%(findings)s::jsonb || jsonb_build_object(
    'documents', (SELECT jsonb_agg(jsonb_build_object(
        'id', id, 'type', type, 'file_name', file_name, 'structured_data', structured_data,
        'received_at', to_char(received_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
    ) ORDER BY id) FROM member),
    'matches', (SELECT coalesce(jsonb_agg(jsonb_build_object(
        'document_a_id', document_a_id, 'document_b_id', document_b_id, 'confidence', confidence,
        'decided_by', decided_by
    ) ORDER BY document_a_id, document_b_id), '[]') FROM document_match
                WHERE document_a_id IN (SELECT id FROM member) AND document_b_id IN (SELECT id FROM member))
))::text
WHERE EXISTS (SELECT FROM member)
"""


def cluster_data(connection: Connection, tenant_id: UUID, cluster_id: UUID, findings: Mapping[str, Any]) -> str | None:
    """Return a cluster as JSON, or None if it has no documents.

    The JSON contains the `findings`, `documents` and `matches`.
    """
    row = connection.execute(
        _CLUSTER_DATA, {"tenant": tenant_id, "cluster": cluster_id, "findings": Jsonb(dict(findings))}
    ).fetchone()
    return None if row is None else str(row[0])
