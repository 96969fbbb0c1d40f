"""`/api/chat/sessions`: a user's conversations.

A user message is a task of type `chat_completion`, submitted with `POST /api/tasks`. A conversation is visible only
to its user, not to admins. Reading requires the viewer role for the tenant, and deleting requires the operator role.
"""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import BaseModel, Field

from counterfoil.delivery.work import MAX_INT
from counterfoil.tasks import chat
from counterfoil.tasks.chat import ChatMessage, SessionNotFoundError
from functions.admin_api import http
from functions.admin_api.auth import Request, Role
from functions.admin_api.endpoint import PAGE, Cursor, Id, Limit, OneTenant, Routes
from functions.admin_api.http import ForbiddenError, responses

MESSAGES_PAGE, MAX_MESSAGES_PAGE = 100, 1000
"""Default and maximum number of messages in a transcript."""

_SESSION = "(SELECT session_id AS id, tenant_id FROM chat_message WHERE number = 1)"

routes = Routes()


class ChatSession(BaseModel):
    """A conversation in a list."""

    session_id: UUID
    tenant: str
    created_at: datetime
    messages: int = Field(description="Number of user messages and replies.")
    preview: str = Field(description="Beginning of the first user message.")


class ChatSessionPage(BaseModel):
    """Conversations, newest first, and the cursor of the next page."""

    sessions: list[ChatSession]
    next_cursor: str | None


class ChatTranscript(BaseModel):
    """Messages of a conversation, oldest first.

    A page has up to about 2 MB, and at least one message.
    """

    session_id: UUID
    tenant: str
    messages: list[ChatMessage]
    next_cursor: int | None = Field(description="Value of `after` for the next page; null on the last page.")


@routes.get(
    "/api/chat/sessions",
    summary="List conversations",
    tags=["chat"],
    responses=responses({200: (ChatSessionPage, "A page of conversations, newest first.")}, 422),
)
def list_chat_sessions(
    request: Request, tenant: OneTenant = None, cursor: Cursor = None, limit: Limit = PAGE
) -> ChatSessionPage:
    """List the caller's own conversations.

    `POST /api/tasks` starts or continues a conversation.
    """
    after = http.decode_cursor(cursor)
    slug = request.slug(tenant)
    request.check(Role.VIEWER, slug)
    if not request.caller.subject:
        raise ForbiddenError("The token has no sub, which conversations require.")
    with request.database.delivery() as connection:
        row = connection.execute("SELECT id FROM tenant WHERE slug = %s", [slug]).fetchone()
    if row is None:
        return ChatSessionPage(sessions=[], next_cursor=None)
    with request.database.tenant(row[0]) as connection:
        rows = chat.list_sessions(connection, request.caller.subject, after=after, limit=limit + 1)
    page, next_cursor = http.split_page(rows, limit, lambda session: (session.created_at, session.id))
    return ChatSessionPage(
        sessions=[
            ChatSession.model_validate({**vars(session), "session_id": session.id, "tenant": slug}) for session in page
        ],
        next_cursor=next_cursor,
    )


@routes.get(
    "/api/chat/sessions/<session_id>",
    summary="Show a conversation",
    tags=["chat"],
    responses=responses({200: (ChatTranscript, "The messages, oldest first.")}, 404, 422),
)
def show_chat_session(
    request: Request,
    session_id: Id,
    after: Annotated[
        int, Query(alias="after", ge=0, le=MAX_INT, description="Number of the last message of the previous page.")
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_MESSAGES_PAGE, description="Maximum number of messages.")] = MESSAGES_PAGE,
) -> ChatTranscript:
    """Return messages from one of the caller's conversations, after message `after`."""
    id_, tenant_id, slug = _find_owned_session(request, session_id)
    with request.database.tenant(tenant_id) as connection:
        transcript = chat.transcript(connection, id_, request.caller.subject, after=after, limit=limit)
    return ChatTranscript(
        session_id=id_,
        tenant=slug,
        messages=list(transcript.entries),
        next_cursor=transcript.entries[-1].number if transcript.is_truncated else None,
    )


@routes.delete(
    "/api/chat/sessions/<session_id>",
    summary="Delete a conversation",
    description="Deletes one of the caller's conversations immediately, with all its messages. A message without a "
    "reply is canceled. The messages' tasks keep their status, but their payloads and results are deleted. Repeating a "
    "request with the `idempotency_key` of one of these tasks does not start a new task.",
    tags=["chat"],
    responses=responses({204: (None, "The conversation was deleted.")}, 400, 404, 413, 415, 422, 429),
)
def delete_chat_session(request: Request, session_id: Id) -> Response[None]:
    """Delete one of the caller's own conversations with its messages."""
    id_, tenant_id, slug = _find_owned_session(request, session_id)
    user = request.caller.subject
    with request.database.tenant(tenant_id) as connection:
        chat.lock_session(connection, id_, user)  # do not reveal that another user's session exists
    request.admit("Deleting", slug, tenant_id)
    # a reply may be written at the same time
    request.commit(tenant_id, lambda connection: chat.delete_session(connection, id_, user, request.now, by=user))
    return Response(204)


def _find_owned_session(request: Request, session_id: str) -> tuple[UUID, UUID, str]:
    """Return the id of a conversation, and the id and slug of its tenant."""
    tenant_id, slug, id_ = request.owned(session_id, _SESSION, str(SessionNotFoundError()))
    if not request.caller.subject:
        raise SessionNotFoundError
    return id_, tenant_id, slug
