"""`/api/admin/reviews`: documents in doubt, and what people decide of them."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query

from counterfoil.documents.matching.sql import State
from counterfoil.documents.review_queue import Wanted
from counterfoil.documents.structured import DocumentType
from functions.admin_api import reviews
from functions.admin_api.problems import responses
from functions.admin_api.request import after
from functions.admin_api.routes.common import (
    PAGE,
    Cursor,
    Id,
    Limit,
    OneTenant,
    Routes,
    answer,
    caller,
    change,
    database,
)

routes = Routes()
FORMS = (reviews.Difference, reviews.Confirm, reviews.Reject, reviews.Merge, reviews.Split)
"""Of bodies."""


_DECISION = responses({200: (reviews.Decided, "It is decided.")}, 400, 404, 409, 413, 415, 422, 429)
_WORD = responses({200: (reviews.DifferenceSettled, "It is settled.")}, 400, 404, 409, 413, 415, 422, 429)


@routes.get(
    "/api/admin/reviews",
    summary="List documents in doubt",
    tags=["reviews"],
    responses=responses({200: (reviews.ReviewPage, "A page.")}, 422),
)
def list_reviews(  # a query is this many parameters
    tenant: OneTenant = None,
    kind: Annotated[DocumentType | None, Query()] = None,
    min_chance: Annotated[float | None, Query(ge=0, le=1, description="Of the likeliest candidate.")] = None,
    max_chance: Annotated[float | None, Query(ge=0, le=1, description="Of the likeliest candidate.")] = None,
    state: Annotated[State, Query()] = "open",
    cursor: Cursor = None,
    limit: Limit = PAGE,
) -> Response[reviews.ReviewPage]:
    """A page of the documents that are in doubt."""
    wanted = Wanted(
        state=state,
        kind=None if kind is None else kind.value,
        min_chance=min_chance,
        max_chance=max_chance,
        after=None if cursor is None else after(cursor),
    )
    return answer(200, reviews.listed(wanted, limit, tenant, caller(), database()))


@routes.get(
    "/api/admin/reviews/<document_id>",
    summary="Show a document in doubt",
    tags=["reviews"],
    responses=responses({200: (reviews.Review, "The document, its candidates and their evidence.")}, 404, 422),
)
def show_review(document_id: Id) -> Response[reviews.Review]:
    """One document in doubt, with its candidates and their evidence."""
    return answer(200, reviews.shown(document_id, caller(), database()))


@routes.post("/api/admin/reviews/merge", summary="Merge two clusters", tags=["reviews"], responses=_DECISION)
def merge(asked: Annotated[reviews.Merge, Body()]) -> Response[reviews.Decided]:
    """Two clusters are one."""
    return answer(200, reviews.merge(asked, change()))


@routes.post("/api/admin/reviews/split", summary="Split a cluster", tags=["reviews"], responses=_DECISION)
def split(asked: Annotated[reviews.Split, Body()]) -> Response[reviews.Decided]:
    """A document does not belong to its cluster."""
    return answer(200, reviews.split(asked, change()))


@routes.post("/api/admin/reviews/accept", summary="Accept a difference", tags=["reviews"], responses=_WORD)
def accept(asked: Annotated[reviews.Difference, Body()]) -> Response[reviews.DifferenceSettled]:
    """A difference may be."""
    return answer(200, reviews.say("accepted", asked, change()))


@routes.post("/api/admin/reviews/dispute", summary="Dispute a difference", tags=["reviews"], responses=_WORD)
def dispute(asked: Annotated[reviews.Difference, Body()]) -> Response[reviews.DifferenceSettled]:
    """A difference may not be."""
    return answer(200, reviews.say("disputed", asked, change()))


@routes.post(
    "/api/admin/reviews/<document_id>/confirm", summary="Confirm a candidate", tags=["reviews"], responses=_DECISION
)
def confirm(document_id: Id, asked: Annotated[reviews.Confirm, Body()]) -> Response[reviews.Decided]:
    """A document belongs to another one."""
    return answer(200, reviews.confirm(document_id, asked, change()))


@routes.post(
    "/api/admin/reviews/<document_id>/reject", summary="Reject candidates", tags=["reviews"], responses=_DECISION
)
def reject(document_id: Id, asked: Annotated[reviews.Reject, Body()]) -> Response[reviews.Decided]:
    """A document does not belong to others."""
    return answer(200, reviews.reject(document_id, asked, change()))
