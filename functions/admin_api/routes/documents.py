"""Routes of `/api/admin/documents` and `/api/admin/clusters`."""

import base64
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Header, Path, Query

from counterfoil.documents.cluster_list import Sort
from counterfoil.documents.structured import DocumentType
from counterfoil.validation import IN_UTC, Moment, PrintableText
from functions.admin_api import clusters, documents
from functions.admin_api.endpoint import PAGE, VERSIONED, Cursor, Id, Limit, OneTenant, Routes, answer, caller, database
from functions.admin_api.http import etag, is_current, responses

routes = Routes()

Known = Annotated[str | None, Header(alias="If-None-Match", description="The ETag of before.")]
_PRIVATE = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}
_SAME = (None, "It is still the one that If-None-Match names.")
_PICTURE: dict[int, Any] = {**responses({304: _SAME}, 404, 422)}
_PICTURE[200] = {
    "description": "The page.",
    "content": {form: {"schema": {"type": "string", "contentMediaType": form}} for form in ("image/png", "image/jpeg")},
    "headers": {**VERSIONED, "X-Pages": {"description": "How many the file has.", "schema": {"type": "integer"}}},
}


@routes.get(
    "/api/admin/documents",
    summary="List documents",
    tags=["documents"],
    responses=responses({200: (documents.DocumentPage, "A page, the newest first.")}, 404, 422),
)
def list_documents(  # a query is this many parameters
    tenant: OneTenant = None,
    type_: Annotated[DocumentType | None, Query(alias="type")] = None,
    state: Annotated[
        documents.AtStage | None, Query(description="A stage and its state, such as matching:failed.")
    ] = None,
    text: Annotated[
        PrintableText | None,
        Query(
            min_length=1,
            max_length=documents.LONGEST_TEXT,
            description="A document's number; words of its parties' and its file's names, all of which it has; an id.",
        ),
    ] = None,
    since: Annotated[Moment | None, Query(alias="from", description=f"Received then or later. {IN_UTC}")] = None,
    until: Annotated[Moment | None, Query(alias="to", description=f"Received before. {IN_UTC}")] = None,
    limit: Limit = PAGE,
    cursor: Cursor = None,
) -> Response[documents.DocumentPage]:
    """A page of a tenant's documents."""
    asked = documents.Filter(tenant, None if type_ is None else type_.value, state, since, until, text, limit, cursor)
    return answer(200, documents.listed(asked, caller(), database()))


@routes.get(
    "/api/admin/documents/<document_id>",
    summary="Show a document",
    tags=["documents"],
    responses=responses({200: (documents.Document, "The document.")}, 404, 422),
)
def show_document(document_id: Id) -> Response[documents.Document]:
    """One document with what it states, how far its work is and what it belongs together with."""
    return answer(200, documents.shown(document_id, caller(), database()))


@routes.get(
    "/api/admin/documents/<document_id>/timeline",
    summary="Show what happened to a document",
    tags=["documents"],
    responses=responses({200: (documents.DocumentTimeline, "What is kept, in its order.")}, 404, 422),
)
def show_document_timeline(document_id: Id) -> Response[documents.DocumentTimeline]:
    """The tries of a document's work, what people decided about it, and what came of it."""
    return answer(200, documents.told(document_id, caller(), database()))


@routes.get(
    "/api/admin/documents/<document_id>/pages/<number>",
    summary="Show a page of a document",
    tags=["documents"],
    responses=_PICTURE,
)
def show_page(
    document_id: Id,
    number: Annotated[int, Path(ge=1, le=documents.HIGHEST_PAGE, description="From 1.")],
    known: Known = None,
) -> Response[str | None]:
    """An image of a page of the document's file."""
    page = documents.page(document_id, number, caller(), database())
    headers = {**_PRIVATE, "ETag": etag(page.tag)}
    if is_current(known, page.tag):
        return Response(304, headers=headers)
    picture = page.picture()
    headers["X-Pages"] = str(picture.pages)
    found = Response[str | None](200, picture.media_type, base64.b64encode(picture.content).decode(), headers)
    found.base64_encoded = (
        True  # said so, and not left to Powertools, which takes bytes for text when it checks answers
    )
    return found


@routes.get(
    "/api/admin/clusters",
    summary="List clusters",
    tags=["documents"],
    responses=responses({200: (clusters.ClusterPage, "A page.")}, 404, 422),
)
def list_clusters(  # a query is this many parameters
    tenant: OneTenant = None,
    status: Annotated[
        clusters.Status | None, Query(description="A status; `open` for all that are not finished.")
    ] = None,
    supplier: Annotated[
        PrintableText | None,
        Query(min_length=1, max_length=clusters.LONGEST_TEXT, description="The beginning of the supplier's name."),
    ] = None,
    number: Annotated[
        PrintableText | None,
        Query(min_length=1, max_length=clusters.LONGEST_TEXT, description="The number of one of its documents."),
    ] = None,
    sort: Annotated[
        Sort, Query(description="By age, or by amount at stake: the largest first, whatever the currency.")
    ] = "oldest",
    limit: Limit = PAGE,
    cursor: Cursor = None,
) -> Response[clusters.ClusterPage]:
    """A page of a tenant's clusters, and the number of clusters of each status."""
    asked = clusters.Filter(tenant, status, supplier, number, sort, limit, cursor)
    return answer(200, clusters.listed(asked, caller(), database()))


@routes.get(
    "/api/admin/clusters/<cluster_id>",
    summary="Show a cluster",
    tags=["documents"],
    responses=responses({200: (clusters.Cluster, "The cluster.")}, 404, 422),
)
def show_cluster(cluster_id: Id, limit: Limit = PAGE, cursor: Cursor = None) -> Response[clusters.Cluster]:
    """Documents that belong together, why, and how they compare; by the cluster's id or that of any document in it."""
    return answer(200, clusters.shown(cluster_id, limit, cursor, caller(), database()))
