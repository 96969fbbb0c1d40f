"""`/api/admin/documents`: documents, timelines, page images and LLM calls.

Reading requires the viewer role for the tenant.
"""

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Path, Query
from pydantic import BaseModel, Field, JsonValue, StringConstraints

from counterfoil.documents import document_detail, document_list, files, page_images, review
from counterfoil.documents.document_detail import (
    Document,
    DocumentEvent,
)
from counterfoil.documents.document_list import STAGES, STATES, DocumentFilter, DocumentSummary
from counterfoil.documents.files import File
from counterfoil.documents.matching import judge
from counterfoil.documents.structured import DocumentType
from counterfoil.errors import InvalidDocumentError, RejectedRequestError
from counterfoil.validation import UTC_DESCRIPTION, Moment, PrintableText
from functions.admin_api import http
from functions.admin_api.auth import Owned, Request
from functions.admin_api.endpoint import (
    PAGE,
    VERSIONED,
    Cursor,
    Id,
    IfNoneMatch,
    Limit,
    OneTenant,
    Routes,
    json_response_if_changed,
    private_headers,
)
from functions.admin_api.http import NotFoundError, responses

MAX_TEXT_CHARS = 200
MAX_PAGE_NUMBER = 10_000
NO_DOCUMENT = "There is no such document."

routes = Routes()
StageAndState = Annotated[str, StringConstraints(pattern=f"^({'|'.join(STAGES)}):({'|'.join(STATES)})$")]
"""A stage and its state, such as `matching:failed`."""


class DocumentPage(BaseModel):
    """Documents, newest first, and the cursor of the next page.

    If filters are used, a page may be short or empty even if it is not the last page.
    """

    documents: list[DocumentSummary]
    next_cursor: str | None


class DocumentTimeline(BaseModel):
    """Events of a document, oldest first.

    Attempts are stored for 90 days. A successful attempt is stored only if it follows a failed attempt.
    """

    id: UUID
    tenant: str
    events: list[DocumentEvent] = Field(description=f"At most the last {document_detail.MAX_EVENTS} of each kind.")


@routes.get(
    "/api/admin/documents",
    summary="List documents",
    tags=["documents"],
    responses=responses({200: (DocumentPage, "A page of documents, newest first.")}, 404, 422),
)
def list_documents(  # noqa: PLR0913, PLR0917  # a query has this many parameters
    request: Request,
    tenant: OneTenant = None,
    type_: Annotated[DocumentType | None, Query(alias="type")] = None,
    state: Annotated[StageAndState | None, Query(description="A stage and its state, such as matching:failed.")] = None,
    search: Annotated[
        PrintableText | None,
        Query(
            min_length=1,
            max_length=MAX_TEXT_CHARS,
            description="Document number, words from the names of the parties or the file, or an id.",
        ),
    ] = None,
    received_from: Annotated[
        Moment | None, Query(description=f"Received at or after this time. {UTC_DESCRIPTION}")
    ] = None,
    received_before: Annotated[
        Moment | None, Query(description=f"Received before this time. {UTC_DESCRIPTION}")
    ] = None,
    limit: Limit = PAGE,
    cursor: Cursor = None,
) -> DocumentPage:
    """Return a page of a tenant's documents."""
    after = http.decode_cursor(cursor)
    stage_and_state = {} if state is None else dict(zip(("stage", "state"), state.split(":"), strict=True))
    filters = DocumentFilter(
        type=type_ and type_.value,
        received_from=received_from,
        received_before=received_before,
        **stage_and_state,  # type: ignore[arg-type]
    )
    tenant_id, _ = request.tenant(tenant)
    with request.database.tenant(tenant_id) as connection:
        page = document_list.page(connection, tenant_id, filters, search=search, limit=limit, after=after)
    return DocumentPage(
        documents=list(page.documents),
        next_cursor=http.encode_cursor(page.next_cursor),
    )


@routes.get(
    "/api/admin/documents/<document_id>",
    summary="Show a document",
    tags=["documents"],
    responses=responses({200: (Document, "The document.")}, 404, 422),
)
def show_document(request: Request, document_id: Id) -> Document:
    """Return a document with its fields, processing progress and matches."""
    tenant_id, _, id_ = owned_document(request, document_id)
    with request.database.tenant(tenant_id) as connection:
        document = document_detail.show(connection, tenant_id, id_)
    if document is None:  # removed concurrently
        raise NotFoundError(NO_DOCUMENT)
    return document


@routes.get(
    "/api/admin/documents/<document_id>/timeline",
    summary="Show a document's history",
    tags=["documents"],
    responses=responses({200: (DocumentTimeline, "The stored events in chronological order.")}, 404, 422),
)
def show_document_timeline(request: Request, document_id: Id) -> DocumentTimeline:
    """Return a document's processing attempts and decisions, with their results."""
    tenant_id, slug, id_ = owned_document(request, document_id)
    with request.database.tenant(tenant_id) as connection:
        events = document_detail.history(connection, tenant_id, id_)
    return DocumentTimeline(id=id_, tenant=slug, events=events)


class Question(BaseModel):
    """A call to the LLM judge: its prompts and its answer."""

    question: str = Field(description="Hash of the call's inputs, in hexadecimal.")
    asked_at: datetime
    prompt: str | None = Field(description="Version of the prompt; null if the prompts were not stored.")
    model: str
    temperature: float | None = Field(description="Sampling temperature; null for the model's default.")
    input_tokens: int | None
    output_tokens: int | None
    candidates: dict[str, review.ReviewDocument] = Field(
        description="Candidates by their label in the prompt. Removed documents are omitted."
    )
    answer: JsonValue
    system: str | None
    user: str | None = Field(
        description="User prompt; null if it was not stored, or if it contained a removed document."
    )


class QuestionList(BaseModel):
    """Stored LLM judge calls about a document, oldest first."""

    id: UUID
    tenant: str
    questions: list[Question]


@routes.get(
    "/api/admin/documents/<document_id>/questions",
    summary="Show language model calls about a document",
    tags=["documents"],
    responses=responses({200: (QuestionList, "The stored calls with their answers.")}, 404, 422),
)
def list_questions(request: Request, document_id: Id) -> QuestionList:
    """Return the LLM judge calls about a document's matches.

    They include all inputs required to repeat them.
    """
    tenant_id, slug, id_ = owned_document(request, document_id)
    with request.database.tenant(tenant_id) as connection:
        exchanges = judge.stored_answers(connection, id_)
        summaries = review.summaries(connection, judge.candidates(exchanges))
    return QuestionList(id=id_, tenant=slug, questions=[_question(exchange, summaries) for exchange in exchanges])


def _question(exchange: judge.JudgeExchange, summaries: Mapping[UUID, review.ReviewDocument]) -> Question:
    return Question(
        question=exchange.question.hex(),
        asked_at=exchange.answered_at,
        prompt=exchange.prompt,
        model=exchange.model,
        temperature=exchange.temperature,
        input_tokens=exchange.input_tokens,
        output_tokens=exchange.output_tokens,
        candidates={label: summaries[id_] for label, (id_, _) in exchange.candidates.items() if id_ in summaries},
        answer=exchange.answer,
        system=exchange.system,
        user=exchange.user,
    )


def owned_document(request: Request, document_id: str) -> Owned:
    """Return the tenant and id of a document that the caller may view."""
    return request.owned(document_id, "document", NO_DOCUMENT)


_FILE = "SELECT bucket, key, version, encode(content_hash, 'hex') FROM document WHERE id = %s"
_PAGE_IMAGE_RESPONSES: dict[int, Any] = {
    **responses({304: (None, "Unchanged: `If-None-Match` contains the current ETag.")}, 404, 422),
    200: {
        "description": "Image of the page.",
        "content": {
            media_type: {"schema": {"type": "string", "contentMediaType": media_type}}
            for media_type in ("image/png", "image/jpeg")
        },
        "headers": {
            **VERSIONED,
            "X-Pages": {"description": "Number of pages in the file.", "schema": {"type": "integer"}},
        },
    },
}


@routes.get(
    "/api/admin/documents/<document_id>/pages/<number>",
    summary="Show a page of a document",
    tags=["documents"],
    responses=_PAGE_IMAGE_RESPONSES,
)
def show_page(
    request: Request,
    document_id: Id,
    number: Annotated[int, Path(ge=1, le=MAX_PAGE_NUMBER, description="Page number, from 1.")],
    if_none_match: IfNoneMatch = None,
) -> Response[str | None]:
    """Return an image of one page of the document's file."""
    tenant_id, _, id_ = owned_document(request, document_id)
    with request.database.tenant(tenant_id) as connection:
        row = connection.execute(_FILE, [id_]).fetchone()
    if row is None:  # removed concurrently
        raise NotFoundError(NO_DOCUMENT)
    *file, content_hash = row
    tag = f"{content_hash}-{number}-{page_images.VERSION}"
    not_modified: Response[str | None] = json_response_if_changed(if_none_match, None, tag)
    if not_modified.status_code == 304:
        return not_modified
    try:
        content = files.read(File(*file))
    except (InvalidDocumentError, RejectedRequestError):
        raise NotFoundError("The document's file no longer exists.") from None
    try:
        image = page_images.render_page(content, number)
    except page_images.PageNotFoundError as error:
        raise NotFoundError(str(error)) from None
    headers = {**private_headers(tag), "X-Pages": str(image.pages)}
    response = Response[str | None](200, image.media_type, base64.b64encode(image.content).decode(), headers)
    response.base64_encoded = True  # otherwise, Powertools validates the bytes as text
    return response
