"""`/api/admin/clusters`: the list of clusters, and one cluster with its links and its comparison.

Reading requires the role viewer for the tenant.
"""

from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from counterfoil.db import Database
from counterfoil.documents import cluster_list, clusters
from counterfoil.documents.browsing import Place
from counterfoil.documents.cluster_list import ClusterSummary, Sort
from counterfoil.documents.matching.evidence import Step
from counterfoil.documents.three_way_match import ClusterStatus
from functions.admin_api import http
from functions.admin_api.auth import Caller, viewed
from functions.admin_api.documents import DocumentSummary, owner, summary
from functions.admin_api.http import NotFoundError

LONGEST_TEXT = 200
Status = Literal["open", "exception", "needs-review", "disputed", "incomplete", "accepted", "matched"]
"""A status of a cluster; `open` stands for all that are not finished."""


class ClusterRow(BaseModel):
    """A cluster in a list. Amounts are net decimal numbers, as text, in `currency`."""

    id: UUID
    tenant: str
    status: ClusterStatus
    supplier: str | None
    order_numbers: list[str] = Field(description="Of its purchase orders, or else those that its documents name.")
    currency: str | None = Field(description="Documents in other currencies do not count.")
    ordered: str | None = Field(description="null without a purchase order.")
    delivered: str | None = Field(description="Quantities at ordered prices; null without a delivery.")
    billed: str | None = Field(description="Less credit notes; null without an invoice.")
    at_stake: str = Field(
        description="Amount of the open variances; the whole invoice without an order or delivery, or if a duplicate."
    )
    waiting_since: datetime = Field(description="Receipt of the first invoice, or else of the first document.")
    documents: int
    reason: str = Field(description="The most important reason for the status.")
    is_being_computed: bool = Field(description="Whether the cluster has changed since it was computed.")


class ClusterPage(BaseModel):
    """A page of clusters, the cursor of the next page, and the number of clusters of each status."""

    clusters: list[ClusterRow]
    next: str | None
    counts: dict[ClusterStatus, int] = Field(
        description=f"Of all the tenant's clusters, whatever the filter. {cluster_list.COUNTED + 1} means more than "
        f"{cluster_list.COUNTED}."
    )


@dataclass(frozen=True)
class Filter:
    """Query of a list."""

    tenant: str | None
    status: Status | None
    supplier: str | None
    number: str | None
    sort: Sort
    limit: int
    cursor: str | None

    @property
    def wanted(self) -> cluster_list.ClusterFilter:
        """The same for `cluster_list`."""
        if self.status is None:
            statuses = tuple(ClusterStatus)
        else:
            statuses = cluster_list.OPEN if self.status == "open" else (ClusterStatus(self.status),)
        return cluster_list.ClusterFilter(statuses, self.supplier, self.number, self.sort)


class ClusterEdge(BaseModel):
    """Two documents that belong together, and why."""

    document_a_id: UUID
    document_b_id: UUID
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
    decision: Literal["accepted", "disputed"] | None = Field(default=None, description="Of a person.")


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
    status: ClusterStatus | None = Field(description="null until the cluster is compared.")
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


def listed(asked: Filter, caller: Caller, database: Database) -> ClusterPage:
    """Return a page of a tenant's clusters.

    Raises:
        RejectedRequestError: no tenant is named and the token is not for just one; or the cursor is not of this sort.
        ForbiddenError: the caller is not a viewer of the tenant.
        NotFoundError: there is no such tenant.
        DatabaseUnavailableError: the database is unavailable.
    """
    after: cluster_list.Cursor | None = None
    if asked.cursor is not None:
        read = http.after_number if asked.sort == "amount" else http.after
        after = cluster_list.Cursor(*read(asked.cursor))
    tenant_id, slug = viewed(database, asked.tenant, caller)
    with database.tenant(tenant_id) as connection:
        found = cluster_list.page(connection, tenant_id, asked.wanted, limit=asked.limit, after=after)
        counts = cluster_list.counts(connection, tenant_id)
    return ClusterPage(
        clusters=[row(one, slug) for one in found.clusters],
        next=None if found.next is None else http.cursor(found.next.key, found.next.id),
        counts=counts,
    )


def row(found: ClusterSummary, tenant: str) -> ClusterRow:
    """Return a cluster as lists of the API show it."""
    record = {name: str(value) if isinstance(value, Decimal) else value for name, value in vars(found).items()}
    return ClusterRow.model_validate({**record, "tenant": tenant})


def shown(cluster_id: str, limit: int, cursor: str | None, caller: Caller, database: Database) -> Cluster:
    """One cluster, by its id or that of any of its documents.

    Raises:
        RejectedRequestError: the cursor is none of ours.
        NotFoundError: there is no such document that the caller may see, or it is in no cluster.
        DatabaseUnavailableError: this cannot be known just now.
    """
    after = None if cursor is None else Place(*http.after(cursor))
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
        "next": None if found.next is None else http.cursor(found.next.received_at, found.next.id),
    }
    return Cluster.model_validate(record)
