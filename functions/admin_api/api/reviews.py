"""`/api/admin/reviews`: the queue of documents in doubt, what people decide about them, and about differences.

A review has the id of the document that is in doubt. Reading takes the role viewer for its tenant, deciding the role
operator.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal, TypeVar
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.documents import acceptance, review, review_queue
from counterfoil.documents.acceptance import Said, Which, Word
from counterfoil.documents.matching.evidence import Step
from counterfoil.documents.matching.sql import State
from counterfoil.documents.review import Answer, Done, Refused, Who
from counterfoil.documents.review_queue import Wanted
from counterfoil.documents.structured import DocumentType
from counterfoil.documents.three_way_match import Code
from functions.admin_api import http
from functions.admin_api.auth import EVERY_TENANT, Caller, Request, Role, item_id
from functions.admin_api.endpoint import PAGE, Cursor, Id, Limit, OneTenant, Routes, answer, caller, database, request
from functions.admin_api.http import ConflictError, ForbiddenError, NotFoundError, after, responses

NO_REVIEW = "There is no such review."
MOST_AT_ONCE = 50
"""Candidates that one request may reject."""


LONGEST_NAME = 254
"""Characters of a caller's name that the trail keeps."""
Reason = Annotated[
    str, StringConstraints(min_length=1, max_length=2000, strip_whitespace=True, pattern=r"^[^\x00-\x1f\x7f]*$")
]


class Deciding(BaseModel):
    """What every decision may say."""

    model_config = ConfigDict(extra="forbid")

    reason: Reason | None = None
    supersedes: list[Annotated[int, Field(ge=1, le=2**53), http.whole]] = Field(
        default=[], max_length=MOST_AT_ONCE, description="Numbers of the decisions that this one takes the place of."
    )


class Confirm(Deciding):
    """A document that another one belongs to."""

    document: UUID


class Reject(Deciding):
    """Documents that another one does not belong to."""

    documents: list[UUID] = Field(min_length=1, max_length=MOST_AT_ONCE)


class Merge(Deciding):
    """Two documents whose clusters are one; with `exact`, by an edge between the two."""

    documents: list[UUID] = Field(min_length=2, max_length=2)
    exact: bool = Field(default=False, strict=True)


class Split(Deciding):
    """A document that does not belong to its cluster."""

    document: UUID


_Figure = Annotated[str, StringConstraints(pattern=r"^-?[0-9]{1,40}(\.[0-9]{1,20})?$")]
"""A decimal number as text, as results have it: a number of JSON may be rounded on its way."""


class Difference(Deciding):
    """A difference of a cluster, with the figures that the caller saw."""

    cluster: UUID
    document: UUID
    code: Code
    line: str | None = Field(default=None, max_length=1000)
    expected: _Figure
    actual: _Figure


# What is answered.


class Paper(BaseModel):
    """What people know a document by; of one that is gone, its id."""

    id: UUID
    type: str | None = None
    file: str | None = None
    number: str | None = None
    date: str | None = None
    seller: str | None = None
    buyer: str | None = None
    total: str | None = None
    missing: list[str] = Field(
        default=[], description="Expected facts that were not read: number, date, supplier, buyer, total."
    )


class Candidate(BaseModel):
    """What a document may belong to."""

    document: Paper
    chance: float
    bits: float
    evidence: list[Step]


class Doubt(BaseModel):
    """A question that matching left open, and whatever else is known of it."""

    model_config = ConfigDict(extra="allow")

    candidates: list[Candidate]


class Decision(BaseModel):
    """What a person decided about two documents."""

    id: int
    documents: list[UUID]
    verdict: str
    by: str
    reason: str | None
    at: datetime


class Review(BaseModel):
    """A document in doubt."""

    id: UUID
    tenant: str
    state: State
    type: str
    chance: float
    weights: str
    opened_at: datetime
    changed_at: datetime
    closed_at: datetime | None
    document: Paper
    doubts: list[Doubt]
    decisions: list[Decision]


class ReviewPage(BaseModel):
    """Documents in doubt, those that have waited longest first, and the cursor of the page after them."""

    reviews: list[Review]
    next: str | None


class Decided(BaseModel):
    """What came of a decision."""

    tenant: str
    verdict: str
    decided: list[list[UUID]]
    clusters: list[UUID]
    matched_anew: int


class DifferenceSettled(BaseModel):
    """What came of a word about a difference: the differences that it settled, and what is open otherwise."""

    tenant: str
    cluster: UUID
    verdict: Literal["accepted", "disputed"]
    differences: list[str]
    open: list[str]


# -- reading --------------------------------------------------------------------------------------------------------


def listed(wanted: Wanted, limit: int, tenant: str | None, caller: Caller, database: Database) -> ReviewPage:
    """A page of the queue.

    Raises:
        ForbiddenError: the caller is no viewer of the tenant, or of any.
        DatabaseUnavailableError: this cannot be known just now.
    """
    wanted = replace(wanted, tenants=_tenants(tenant, caller))
    with database.delivery() as connection:
        places = review_queue.places(connection, wanted, limit + 1)
    found = review_queue.items(database, places[:limit])
    last = places[limit - 1] if len(places) > limit else None
    return ReviewPage(
        reviews=[Review.model_validate(item.record) for item in found],
        next=None if last is None else http.cursor(last.opened_at, last.document_id),
    )


def shown(document_id: str, caller: Caller, database: Database) -> Review:
    """One review.

    Raises:
        NotFoundError: there is none, or none that the caller may see.
        DatabaseUnavailableError: this cannot be known just now.
    """
    id_ = item_id(document_id, NO_REVIEW)
    tenant_id, slug = _owner(id_, caller, database)
    found = review_queue.item(database, tenant_id, slug, id_)
    if found is None:
        raise NotFoundError(NO_REVIEW)
    return Review.model_validate(found.record)


def _tenants(slug: str | None, caller: Caller) -> frozenset[str] | None:
    if slug is not None and not caller.may(Role.VIEWER, slug):
        raise ForbiddenError("Reading takes the role viewer for this tenant: ask an admin for it.")
    if caller.role < Role.VIEWER or not caller.tenants:
        raise ForbiddenError("Reading takes the role viewer for a tenant: ask an admin for it.")
    if slug is not None:
        return frozenset({slug})
    return None if EVERY_TENANT in caller.tenants else caller.tenants


def _owner(id_: UUID, caller: Caller, database: Database) -> tuple[UUID, str]:
    with database.delivery() as connection:
        found = review_queue.owner(connection, id_)
    if found is None or not caller.may(Role.VIEWER, found[1]):
        raise NotFoundError("There is no such document.")
    return found


# -- deciding -------------------------------------------------------------------------------------------------------


def _confirm(document_id: str, asked: Confirm, request: Request) -> Decided:
    """The document belongs to another one. All that decide raise alike.

    Raises:
        ForbiddenError: the caller is no operator of the tenant.
        NotFoundError: there is no such document, or none that the caller may see.
        ConflictError: it is not in question any more, or was decided meanwhile.
        TooManyError: see `Request.admit`.
        DatabaseUnavailableError: this cannot be done just now.
    """
    id_ = item_id(document_id, NO_REVIEW)
    return _carried_out(
        id_, asked, request, lambda c, tenant, who: review.confirm(c, tenant, id_, asked.document, request.now, who)
    )


def _reject(document_id: str, asked: Reject, request: Request) -> Decided:
    """The document belongs to none of others. Raises as `confirm`."""
    id_ = item_id(document_id, NO_REVIEW)
    return _carried_out(
        id_, asked, request, lambda c, tenant, who: review.reject(c, tenant, id_, asked.documents, request.now, who)
    )


def _merge(asked: Merge, request: Request) -> Decided:
    """The clusters of two documents are one. Raises as `confirm`."""
    one, other = asked.documents
    return _carried_out(
        one,
        asked,
        request,
        lambda c, tenant, who: review.merge(c, tenant, one, other, request.now, who, exact=asked.exact),
    )


def _split(asked: Split, request: Request) -> Decided:
    """A document does not belong to its cluster. Raises as `confirm`."""
    return _carried_out(
        asked.document,
        asked,
        request,
        lambda c, tenant, who: review.split(c, tenant, asked.document, request.now, who),
    )


def _carried_out(
    id_: UUID, asked: Deciding, request: Request, decide: Callable[[Connection, UUID, Who], Answer]
) -> Decided:
    """Decide, and return the changes."""
    slug, answer = _decided(id_, asked, request, decide)
    return Decided.model_validate({"tenant": slug, **answer.record})


def say(word: Word, asked: Difference, request: Request) -> DifferenceSettled:
    """A difference of a cluster is accepted or disputed.

    As `confirm`; ConflictError where the cluster has no such difference any more.
    """
    which = Which(asked.document, asked.code, asked.line, (Decimal(asked.expected), Decimal(asked.actual)))
    slug, said = _decided(
        asked.cluster,
        asked,
        request,
        lambda c, tenant, who: acceptance.say(c, tenant, asked.cluster, which, word, request.now, who),
    )
    return DifferenceSettled(
        tenant=slug,
        cluster=asked.cluster,
        verdict=said.word,
        differences=list(said.sentences),
        open=list(said.left),
    )


_Told = TypeVar("_Told", Done, Said)


def _decided(
    id_: UUID,
    asked: Deciding,
    request: Request,
    decide: Callable[[Connection, UUID, Who], _Told | Refused],
) -> tuple[str, _Told]:
    """Decide, if the caller may: the tenant's slug, and what came of it."""
    tenant_id, slug = _owner(id_, request.caller, request.database)
    request.admit("Deciding", slug, tenant_id)
    who = Who(request.caller.subject[:LONGEST_NAME] or "unknown", asked.reason, tuple(asked.supersedes))

    def once() -> _Told | Refused:
        with request.database.tenant(tenant_id) as connection:
            return decide(connection, tenant_id, who)

    answer = retry_conflicts(once)
    if isinstance(answer, Refused):
        raise (NotFoundError if answer.why == "gone" else ConflictError)(answer.sentence)
    request.send(answer.sends)
    return slug, answer


routes = Routes()

_DECISION = responses({200: (Decided, "It is decided.")}, 400, 404, 409, 413, 415, 422, 429)
_WORD = responses({200: (DifferenceSettled, "It is settled.")}, 400, 404, 409, 413, 415, 422, 429)


@routes.get(
    "/api/admin/reviews",
    summary="List documents in doubt",
    tags=["reviews"],
    responses=responses({200: (ReviewPage, "A page.")}, 422),
)
def list_reviews(  # a query is this many parameters
    tenant: OneTenant = None,
    kind: Annotated[DocumentType | None, Query()] = None,
    min_chance: Annotated[float | None, Query(ge=0, le=1, description="Of the likeliest candidate.")] = None,
    max_chance: Annotated[float | None, Query(ge=0, le=1, description="Of the likeliest candidate.")] = None,
    state: Annotated[State, Query()] = "open",
    cursor: Cursor = None,
    limit: Limit = PAGE,
) -> Response[ReviewPage]:
    """A page of the documents that are in doubt."""
    wanted = Wanted(
        state=state,
        kind=None if kind is None else kind.value,
        min_chance=min_chance,
        max_chance=max_chance,
        after=None if cursor is None else after(cursor),
    )
    return answer(200, listed(wanted, limit, tenant, caller(), database()))


@routes.get(
    "/api/admin/reviews/<document_id>",
    summary="Show a document in doubt",
    tags=["reviews"],
    responses=responses({200: (Review, "The document, its candidates and their evidence.")}, 404, 422),
)
def show_review(document_id: Id) -> Response[Review]:
    """One document in doubt, with its candidates and their evidence."""
    return answer(200, shown(document_id, caller(), database()))


@routes.post("/api/admin/reviews/merge", summary="Merge two clusters", tags=["reviews"], responses=_DECISION)
def merge(asked: Annotated[Merge, Body()]) -> Response[Decided]:
    """Two clusters are one."""
    return answer(200, _merge(asked, request()))


@routes.post("/api/admin/reviews/split", summary="Split a cluster", tags=["reviews"], responses=_DECISION)
def split(asked: Annotated[Split, Body()]) -> Response[Decided]:
    """A document does not belong to its cluster."""
    return answer(200, _split(asked, request()))


@routes.post("/api/admin/reviews/accept", summary="Accept a difference", tags=["reviews"], responses=_WORD)
def accept(asked: Annotated[Difference, Body()]) -> Response[DifferenceSettled]:
    """A difference may be."""
    return answer(200, say("accepted", asked, request()))


@routes.post("/api/admin/reviews/dispute", summary="Dispute a difference", tags=["reviews"], responses=_WORD)
def dispute(asked: Annotated[Difference, Body()]) -> Response[DifferenceSettled]:
    """A difference may not be."""
    return answer(200, say("disputed", asked, request()))


@routes.post(
    "/api/admin/reviews/<document_id>/confirm", summary="Confirm a candidate", tags=["reviews"], responses=_DECISION
)
def confirm(document_id: Id, asked: Annotated[Confirm, Body()]) -> Response[Decided]:
    """A document belongs to another one."""
    return answer(200, _confirm(document_id, asked, request()))


@routes.post(
    "/api/admin/reviews/<document_id>/reject", summary="Reject candidates", tags=["reviews"], responses=_DECISION
)
def reject(document_id: Id, asked: Annotated[Reject, Body()]) -> Response[Decided]:
    """A document does not belong to others."""
    return answer(200, _reject(document_id, asked, request()))
