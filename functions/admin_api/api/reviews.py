"""`/api/admin/reviews`: the queue of documents that need review, and decisions.

A review has the id of its document. Reading requires the viewer role for the tenant, and decisions require the operator
role.
"""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal, TypeVar
from uuid import UUID

from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from counterfoil.db import Connection
from counterfoil.documents import differences, review
from counterfoil.documents.differences import DecisionResult, VarianceSelector
from counterfoil.documents.matching.evidence import Step
from counterfoil.documents.matching.sql import ReviewState
from counterfoil.documents.review import (
    Answer,
    DecisionApplied,
    DecisionContext,
    DecisionRejected,
    ReviewDocument,
    ReviewFilter,
)
from counterfoil.documents.structured import DocumentType
from counterfoil.documents.three_way_match import VarianceCode
from counterfoil.documents.three_way_match.model import DecisionKind
from counterfoil.errors import RejectedRequestError
from functions.admin_api import http
from functions.admin_api.api.documents import NO_DOCUMENT
from functions.admin_api.auth import MAX_ACTOR_CHARS, Request, Role, item_id
from functions.admin_api.endpoint import PAGE, Cursor, Id, Limit, Note, OneTenant, Routes
from functions.admin_api.http import ConflictError, NotFoundError, responses

routes = Routes()
NO_REVIEW = "There is no such review."
MAX_ITEMS = 50
"""Maximum number of candidates to reject, or of decisions to override, in one request."""


class DecisionBody(BaseModel):
    """Fields of every decision."""

    model_config = ConfigDict(extra="forbid")

    reason: Note | None = None
    overrides: list[Annotated[int, Field(ge=1, le=2**53), http.WholeNumber]] | None = Field(
        default=[],
        max_length=MAX_ITEMS,
        description="Ids of earlier decisions that this decision may replace; null for any.",
    )


class Confirm(DecisionBody):
    """A document to link to the document under review."""

    document: UUID


class Reject(DecisionBody):
    """Candidates or matches to reject for the document under review."""

    documents: list[UUID] = Field(min_length=1, max_length=MAX_ITEMS)


class Merge(DecisionBody):
    """Two documents whose clusters are merged.

    If `exact` is true, these two documents are linked. Otherwise, the best pair of documents from the two clusters is
    linked.
    """

    documents: list[UUID] = Field(min_length=2, max_length=2)
    exact: bool = Field(default=False, strict=True)


class Split(DecisionBody):
    """A document to remove from its cluster."""

    document: UUID


_DecimalText = Annotated[str, StringConstraints(pattern=r"^-?[0-9]{1,40}(\.[0-9]{1,20})?$")]
"""Decimal number as a string, because clients may round JSON numbers."""


class VarianceDecisionBody(DecisionBody):
    """Differences in a cluster to accept or dispute.

    `expected` and `actual` select differences with these values. If they are given, a null `line` selects only
    differences that concern no line item.
    """

    cluster: UUID
    document: UUID | None = Field(default=None, description="Document; null for all documents in the cluster.")
    code: VarianceCode | None = Field(default=None, description="Kind of difference; null for all kinds.")
    line: str | None = Field(
        default=None,
        max_length=1000,
        description="Line item; null for all line items, unless `expected` and `actual` are given.",
    )
    expected: _DecimalText | None = None
    actual: _DecimalText | None = None


class Candidate(BaseModel):
    """A possible match of the document under review."""

    document: ReviewDocument
    probability: float
    weight_bits: float
    evidence: list[Step]


class AmbiguousMatch(BaseModel):
    """An ambiguous match with its candidates. Other fields may follow."""

    model_config = ConfigDict(extra="allow")

    candidates: list[Candidate]


class Decision(BaseModel):
    """A reviewer's decision about two documents."""

    id: int
    documents: list[UUID]
    document: ReviewDocument = Field(description="The other document; only its id if it was deleted.")
    verdict: str
    by: str
    reason: str | None
    at: datetime


class Review(BaseModel):
    """A document that needs review."""

    id: UUID
    tenant: str
    state: ReviewState
    type: str
    probability: float
    weights: str
    opened_at: datetime
    changed_at: datetime
    closed_at: datetime | None
    document: ReviewDocument
    ambiguous_matches: list[AmbiguousMatch]
    decisions: list[Decision]


class ReviewPage(BaseModel):
    """Documents that need review, oldest first, and the cursor of the next page."""

    reviews: list[Review]
    next_cursor: str | None


class DecisionOutcome(BaseModel):
    """Result of a decision."""

    tenant: str
    verdict: str
    decided: list[list[UUID]]
    clusters: list[UUID]
    rematched_documents: int


class VarianceDecisionResult(BaseModel):
    """Result of a decision: decided and still open differences, each as a sentence."""

    tenant: str
    cluster: UUID
    verdict: Literal["accepted", "disputed"]
    differences: list[str]
    open: list[str]


# -- reading ----------------------------------------------------------------------------------------------------------


@routes.get(
    "/api/admin/reviews",
    summary="List reviews",
    tags=["reviews"],
    responses=responses({200: (ReviewPage, "A page of reviews.")}, 422),
)
def list_reviews(
    request: Request,
    tenant: OneTenant = None,
    document_type: Annotated[DocumentType | None, Query()] = None,
    min_probability: Annotated[
        float | None, Query(ge=0, le=1, description="Minimum match probability of the most likely candidate.")
    ] = None,
    max_probability: Annotated[
        float | None, Query(ge=0, le=1, description="Maximum match probability of the most likely candidate.")
    ] = None,
    state: Annotated[ReviewState, Query()] = "open",
    cursor: Cursor = None,
    limit: Limit = PAGE,
) -> ReviewPage:
    """Return a page of the documents that need review."""
    after = http.decode_cursor(cursor)
    if tenant is not None:
        request.check(Role.VIEWER, tenant, "Reading")
    slugs = request.visible_tenants() if tenant is None else [tenant]
    filters = ReviewFilter(
        state=state,
        kind=None if document_type is None else document_type.value,
        min_probability=min_probability,
        max_probability=max_probability,
        after=after,
        tenants=None if slugs is None else frozenset(slugs),
    )
    with request.database.delivery() as connection:
        positions = review.list_cursors(connection, filters, limit + 1)
    page, next_cursor = http.split_page(positions, limit, lambda position: (position.opened_at, position.document_id))
    reviews = review.items(request.database, page)
    return ReviewPage(
        reviews=[Review.model_validate(item.record) for item in reviews],
        next_cursor=next_cursor,
    )


@routes.get(
    "/api/admin/reviews/<document_id>",
    summary="Show a review",
    tags=["reviews"],
    responses=responses({200: (Review, "The document, its candidates and their evidence.")}, 404, 422),
)
def show_review(request: Request, document_id: Id) -> Review:
    """Return one document that needs review, with its candidates and their evidence."""
    tenant_id, slug, id_ = request.owned(document_id, "document", NO_REVIEW)
    item = review.item(request.database, tenant_id, slug, id_)
    if item is None:
        raise NotFoundError(NO_REVIEW)
    return Review.model_validate(item.record)


# -- deciding ---------------------------------------------------------------------------------------------------------

_DECISION_RESPONSES = responses({200: (DecisionOutcome, "The decision was stored.")}, 400, 404, 409, 413, 415, 422, 429)
_VARIANCE_RESPONSES = responses(
    {200: (VarianceDecisionResult, "The decision was stored.")}, 400, 404, 409, 413, 415, 422, 429
)


@routes.post("/api/admin/reviews/merge", summary="Merge two clusters", tags=["reviews"], responses=_DECISION_RESPONSES)
def merge(request: Request, body: Annotated[Merge, Body()]) -> DecisionOutcome:
    """Merge the clusters of two documents."""
    first, second = body.documents
    return _decide_match(
        request,
        first,
        body,
        lambda connection, tenant_id, context: review.merge(
            connection, tenant_id, first, second, request.now, context, exact=body.exact
        ),
    )


@routes.post("/api/admin/reviews/split", summary="Split a cluster", tags=["reviews"], responses=_DECISION_RESPONSES)
def split(request: Request, body: Annotated[Split, Body()]) -> DecisionOutcome:
    """Remove a document from its cluster."""
    id_ = body.document
    return _decide_match(
        request,
        id_,
        body,
        lambda connection, tenant_id, context: review.split(connection, tenant_id, id_, request.now, context),
    )


@routes.post(
    "/api/admin/variances/accept", summary="Accept differences", tags=["reviews"], responses=_VARIANCE_RESPONSES
)
def accept(request: Request, body: Annotated[VarianceDecisionBody, Body()]) -> VarianceDecisionResult:
    """Accept the selected or, by default, all open differences in the cluster."""
    return _decide_variances(request, "accepted", body)


@routes.post(
    "/api/admin/variances/dispute", summary="Dispute differences", tags=["reviews"], responses=_VARIANCE_RESPONSES
)
def dispute(request: Request, body: Annotated[VarianceDecisionBody, Body()]) -> VarianceDecisionResult:
    """Dispute the selected or, by default, all differences in the cluster."""
    return _decide_variances(request, "disputed", body)


@routes.post(
    "/api/admin/reviews/<document_id>/confirm",
    summary="Confirm a candidate",
    tags=["reviews"],
    responses=_DECISION_RESPONSES,
)
def confirm(request: Request, document_id: Id, body: Annotated[Confirm, Body()]) -> DecisionOutcome:
    """Confirm the link between a document and a candidate."""
    id_ = item_id(document_id, NO_REVIEW)
    return _decide_match(
        request,
        id_,
        body,
        lambda connection, tenant_id, context: review.confirm(
            connection, tenant_id, id_, body.document, request.now, context
        ),
    )


@routes.post(
    "/api/admin/reviews/<document_id>/reject",
    summary="Reject candidates",
    tags=["reviews"],
    responses=_DECISION_RESPONSES,
)
def reject(request: Request, document_id: Id, body: Annotated[Reject, Body()]) -> DecisionOutcome:
    """Reject links between a document and other documents."""
    id_ = item_id(document_id, NO_REVIEW)
    return _decide_match(
        request,
        id_,
        body,
        lambda connection, tenant_id, context: review.reject(
            connection, tenant_id, id_, body.documents, request.now, context
        ),
    )


def _decide_match(
    request: Request, id_: UUID, body: DecisionBody, decide: Callable[[Connection, UUID, DecisionContext], Answer]
) -> DecisionOutcome:
    slug, result = _decide(request, id_, body, decide)
    return DecisionOutcome.model_validate({"tenant": slug, **result.record})


def _decide_variances(request: Request, decision: DecisionKind, body: VarianceDecisionBody) -> VarianceDecisionResult:
    if (body.expected is None) is not (body.actual is None):
        raise RejectedRequestError("expected and actual must be given together.")
    values = None if body.expected is None or body.actual is None else (Decimal(body.expected), Decimal(body.actual))
    selector = VarianceSelector(body.document, body.code, body.line, values)
    slug, result = _decide(
        request,
        body.cluster,
        body,
        lambda connection, tenant_id, context: differences.decide(
            connection, tenant_id, body.cluster, selector, decision, request.now, context
        ),
    )
    return VarianceDecisionResult(
        tenant=slug,
        cluster=body.cluster,
        verdict=result.decision,
        differences=list(result.differences),
        open=list(result.remaining),
    )


_Result = TypeVar("_Result", DecisionApplied, DecisionResult)


def _decide(
    request: Request,
    id_: UUID,
    body: DecisionBody,
    decide: Callable[[Connection, UUID, DecisionContext], _Result | DecisionRejected],
) -> tuple[str, _Result]:
    """Apply a decision in a transaction, and return the tenant's slug and the result.

    Raises:
        NotFoundError: the document does not exist, or the caller may not view it.
        ConflictError: the document no longer needs review, or the difference no longer exists.
    """
    tenant_id, slug, _ = request.owned(id_, "document", NO_DOCUMENT)
    request.admit("Deciding", slug, tenant_id)
    context = DecisionContext(request.caller.subject[:MAX_ACTOR_CHARS] or "unknown", body.reason, body.overrides)
    result = request.commit(tenant_id, lambda connection: decide(connection, tenant_id, context))
    if isinstance(result, DecisionRejected):
        raise (
            NotFoundError(result.message) if result.reason == "gone" else ConflictError(result.message, result.decision)
        )
    request.send(result.messages)
    return slug, result
