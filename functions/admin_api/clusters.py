"""`/api/admin/clusters`: which documents belong together, why, and how they compare line by line.

Looking takes the role viewer for the tenant.
"""

from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from counterfoil.db import Database
from counterfoil.documents import clusters
from counterfoil.documents.browsing import Place
from functions.admin_api import request
from functions.admin_api.caller import Caller
from functions.admin_api.documents import DocumentSummary, owner, summary
from functions.admin_api.problems import NotFoundError
from functions.admin_api.reviews import Step


class ClusterEdge(BaseModel):
    """Two documents that belong together, and why."""

    a: UUID
    b: UUID
    score: float = Field(description="In bits: log2 of the odds for it.")
    confidence: str
    decided_by: str
    reasoning: str
    decided_at: datetime
    evidence: list[Step] = Field(description="What each feature says, in the order in which they are scored.")


class LinePart(BaseModel):
    """What one line of one document adds."""

    model_config = ConfigDict(extra="allow")

    document: UUID
    line: str
    role: str
    quantity: str | None
    unit_price: str | None


class ClusterLine(BaseModel):
    """One article or service, side by side over all documents; numbers are decimal, in text."""

    model_config = ConfigDict(extra="allow")

    order: UUID | None
    line: str
    article: str | None
    description: str | None
    unit: str | None
    currency: str | None
    ordered: str | None
    delivered: str | None
    received: str | None
    rejected: str | None
    billed: str | None
    credited: str | None
    price: str | None
    parts: list[LinePart] = Field(description=f"The first {clusters.MOST_PARTS} at most.")
    parts_total: int


class ClusterVariance(BaseModel):
    """A difference between documents."""

    model_config = ConfigDict(extra="allow")

    code: str
    document: UUID
    document_type: str
    number: str | None
    line: str | None
    expected: str | None
    actual: str | None
    difference: str | None
    unit: str | None
    currency: str | None
    tolerance: dict[str, JsonValue] | None
    within_tolerance: bool
    sentence: str
    settled_by: str | None
    awaits: str | None = None


class ClusterComparison(BaseModel):
    """What its documents come to."""

    outcome: str
    reasons: list[str]
    remarks: list[str]
    lines: list[ClusterLine] = Field(description=f"The first {clusters.MOST_LINES} at most.")
    lines_total: int
    variances: list[ClusterVariance] = Field(description=f"The first {clusters.MOST_VARIANCES} at most.")
    variances_total: int


class Cluster(BaseModel):
    """Documents that belong together, directly or through others."""

    id: UUID
    tenant: str
    documents: list[DocumentSummary] = Field(description="A page of them, those received first, first.")
    documents_total: int
    next: str | None = Field(description="The cursor of the page after it.")
    edges: list[ClusterEdge] = Field(
        description=f"Of the documents of this page; the strongest {clusters.MOST_EDGES} at most."
    )
    edges_total: int = Field(description="Of the documents of this page.")
    contracts: list[DocumentSummary] = Field(
        description="That documents of this page are linked to. A contract glues no clusters together."
    )
    comparison: ClusterComparison | None = Field(description="null where there is nothing to compare, or not yet.")
    computed_at: datetime | None
    is_being_computed: bool = Field(description="Whether the cluster has changed since it was computed.")
    error: str | None = Field(description="Why it could not be computed.")


def shown(cluster_id: str, limit: int, cursor: str | None, caller: Caller, database: Database) -> Cluster:
    """One cluster, by its id or that of any of its documents.

    Raises:
        RejectedRequestError: the cursor is none of ours.
        NotFoundError: there is no such document that the caller may see, or it is in no cluster.
        DatabaseUnavailableError: this cannot be known just now.
    """
    after = None if cursor is None else Place(*request.after(cursor))
    tenant_id, slug, id_ = owner(cluster_id, caller, database)
    with database.tenant(tenant_id) as connection:
        found = clusters.show(connection, tenant_id, id_, limit=limit, after=after)
    if found is None:
        raise NotFoundError("This document is in no cluster: it has not been matched.")
    record: dict[str, Any] = {
        **found._asdict(),
        "tenant": slug,
        "documents": [summary(one, slug) for one in found.documents],
        "contracts": [summary(one, slug) for one in found.contracts],
        "edges": [asdict(edge) for edge in found.edges],
        "comparison": found.comparison and asdict(found.comparison),
        "next": None if found.next is None else request.cursor(found.next.received_at, found.next.id),
    }
    return Cluster.model_validate(record)
