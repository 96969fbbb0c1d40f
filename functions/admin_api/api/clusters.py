"""`/api/admin/clusters`: clusters with their matches and comparisons.

Reading requires the viewer role for the tenant.
"""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue, computed_field

from counterfoil.documents import clusters
from counterfoil.documents.clusters import MAX_COUNT, ClusterFilter, ClusterMatch, ClusterSummary, Sort
from counterfoil.documents.document_list import DocumentSummary
from counterfoil.documents.three_way_match import ClusterStatus
from counterfoil.documents.three_way_match.model import VARIANCE_LABELS, unit_name
from counterfoil.validation import PrintableText
from functions.admin_api import http
from functions.admin_api.api.documents import MAX_TEXT_CHARS, owned_document
from functions.admin_api.auth import Request
from functions.admin_api.endpoint import PAGE, Cursor, Id, Limit, OneTenant, Routes
from functions.admin_api.http import NotFoundError, responses

routes = Routes()
Status = Literal["open", "exception", "needs-review", "disputed", "incomplete", "accepted", "matched"]
"""Status of a cluster, or `open` for all unfinished clusters."""


class ClusterPage(BaseModel):
    """Clusters, the cursor of the next page, and the number of clusters by status."""

    clusters: list[ClusterSummary]
    next_cursor: str | None
    counts: dict[ClusterStatus, int] = Field(
        description=f"Number of clusters by status, without filters. {MAX_COUNT + 1} means more than {MAX_COUNT}."
    )


@routes.get(
    "/api/admin/clusters",
    summary="List clusters",
    tags=["documents"],
    responses=responses({200: (ClusterPage, "A page of clusters.")}, 404, 422),
)
def list_clusters(
    request: Request,
    tenant: OneTenant = None,
    status: Annotated[
        Status | None, Query(description="Status of the cluster, or `open` for all unfinished clusters.")
    ] = None,
    supplier: Annotated[
        PrintableText | None,
        Query(min_length=1, max_length=MAX_TEXT_CHARS, description="Beginning of the supplier's name."),
    ] = None,
    number: Annotated[
        PrintableText | None,
        Query(min_length=1, max_length=MAX_TEXT_CHARS, description="Number of a document in the cluster."),
    ] = None,
    sort: Annotated[
        Sort,
        Query(description="Order: oldest first, or largest amount affected first. Currencies are not converted."),
    ] = "oldest",
    limit: Limit = PAGE,
    cursor: Cursor = None,
) -> ClusterPage:
    """Return a page of a tenant's clusters, and the number of clusters by status."""
    after = (http.decode_number_cursor if sort == "amount" else http.decode_cursor)(cursor)
    if status is None:
        statuses = tuple(ClusterStatus)
    else:
        statuses = clusters.OPEN_STATUSES if status == "open" else (ClusterStatus(status),)
    filters = ClusterFilter(statuses, supplier, number, sort)
    tenant_id, _ = request.tenant(tenant)
    with request.database.tenant(tenant_id) as connection:
        page = clusters.page(connection, tenant_id, filters, limit=limit, after=after)
        counts = clusters.counts(connection, tenant_id)
    return ClusterPage(
        clusters=list(page.clusters),
        next_cursor=http.encode_cursor(page.next_cursor),
        counts=counts,
    )


class LinePart(BaseModel):
    """A line item of one document."""

    model_config = ConfigDict(extra="allow")

    document: UUID
    line: str
    role: str
    quantity: str | None
    unit_price: str | None


class ClusterLine(BaseModel):
    """An article or service, compared across documents. Numbers are decimal strings."""

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
    parts: list[LinePart] = Field(description=f"Line items of documents, at most the first {clusters.MAX_PARTS}.")
    parts_total: int

    @computed_field(description="Name of the unit, such as `piece`, or the unit's code if it has no name.")  # type: ignore[prop-decorator]
    @property
    def unit_name(self) -> str | None:
        """Return the name of the unit."""
        return None if self.unit is None else unit_name(self.unit, Decimal(1))


class ClusterVariance(BaseModel):
    """A variance between documents."""

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
    message: str
    decided_by: str | None
    awaited_deliveries: str | None = None
    decision: Literal["accepted", "disputed"] | None = Field(
        default=None, description="A reviewer's decision; null if undecided."
    )
    decision_by: str | None = Field(
        default=None, description="The reviewer, as named in `decided_by` (accepted) or `message` (disputed)."
    )

    @computed_field(description="Name of the variance, such as `Short delivery`.")  # type: ignore[prop-decorator]
    @property
    def label(self) -> str:
        """Return the name of the variance."""
        return VARIANCE_LABELS.get(self.code, self.code)


class ClusterComparison(BaseModel):
    """Comparison of a cluster's documents."""

    model_config = ConfigDict(from_attributes=True)

    outcome: str
    reasons: list[str]
    warnings: list[str]
    lines: list[ClusterLine] = Field(description=f"At most the first {clusters.MAX_LINE_ITEMS} compared line items.")
    lines_total: int
    variances: list[ClusterVariance] = Field(description=f"At most the first {clusters.MAX_VARIANCES} variances.")
    variances_total: int
    can_be_accepted: bool = Field(description="Whether there is an open difference that a reviewer can accept.")


class Cluster(BaseModel):
    """Documents that are linked directly or through other documents."""

    id: UUID
    tenant: str
    status: ClusterStatus | None = Field(description="Status; null until the cluster has been compared.")
    order_numbers: list[str] = Field(
        description="Numbers of its purchase orders. If it has none, the order numbers that its documents name. Empty "
        "until the cluster has been compared."
    )
    documents: list[DocumentSummary] = Field(description="A page of the cluster's documents, in order of receipt.")
    documents_total: int
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page.")
    matches: list[ClusterMatch] = Field(
        description=f"At most the {clusters.MAX_MATCHES} strongest matches of documents on this page."
    )
    matches_total: int = Field(description="Number of matches of documents on this page.")
    contracts: list[DocumentSummary] = Field(
        description="Contracts linked to documents on this page. Contracts do not join clusters."
    )
    comparison: ClusterComparison | None = Field(
        description="Last comparison; null if the cluster has not been compared."
    )
    computed_at: datetime | None
    is_computing: bool = Field(description="Whether the cluster has changed since the last comparison.")
    error: str | None = Field(description="Error from the last comparison; null if it succeeded.")


@routes.get(
    "/api/admin/clusters/<cluster_id>",
    summary="Show a cluster",
    tags=["documents"],
    responses=responses({200: (Cluster, "The cluster.")}, 404, 422),
)
def show_cluster(request: Request, cluster_id: Id, limit: Limit = PAGE, cursor: Cursor = None) -> Cluster:
    """Return a cluster and its comparison, by its id or the id of a document in it."""
    after = http.decode_cursor(cursor)
    tenant_id, slug, id_ = owned_document(request, cluster_id)
    with request.database.tenant(tenant_id) as connection:
        cluster = clusters.show(connection, tenant_id, id_, limit=limit, after=after)
    if cluster is None:
        raise NotFoundError("This document has no cluster, because it has not been matched.")
    fields: dict[str, Any] = {
        **cluster._asdict(),
        "tenant": slug,
        "next_cursor": http.encode_cursor(cluster.next_cursor),
    }
    return Cluster.model_validate(fields)
