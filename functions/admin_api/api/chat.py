"""`/api/chat/sessions`: a user's conversations. A message is a task of the type `chat_completion`: POST /api/tasks.

They are their user's alone: nobody else sees them, whatever his role. Reading takes the role viewer for the tenant,
deleting operator.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import BaseModel, ConfigDict, Field

from counterfoil.db import Database, retry_conflicts
from counterfoil.delivery.work import LARGEST
from counterfoil.tasks import chat
from counterfoil.tasks.chat import SessionNotFoundError
from functions.admin_api import http
from functions.admin_api.auth import Caller, Request, Role, Slug
from functions.admin_api.endpoint import PAGE, Cursor, Id, Limit, OneTenant, Routes, answer, caller, database, request
from functions.admin_api.http import ForbiddenError, responses

MESSAGES_PAGE, LONGEST_MESSAGES_PAGE = 100, 1000
"""Messages of a transcript."""
_NO_SESSION = "There is no such session."


class ChatSession(BaseModel):
    """A conversation, as lists have it."""

    session_id: UUID
    tenant: str
    created_at: datetime
    messages: int = Field(description="Answers among them.")
    begins: str = Field(description="The beginning of the first message.")


class ChatSessionPage(BaseModel):
    """Conversations, those that were begun last first, and the cursor of the page after them."""

    sessions: list[ChatSession]
    next: str | None


class ChatMessage(BaseModel):
    """A message."""

    model_config = ConfigDict(from_attributes=True)

    number: int = Field(description="Its place in the session.")
    role: Literal["user", "assistant"]
    content: str
    job_id: UUID = Field(description="Of the task that it began, or that answered it.")
    created_at: datetime
    status: str | None = Field(description="Of that task; null where it is past keeping.")


class ChatTranscript(BaseModel):
    """What was said in a conversation, in its order; about 2 MB of it at most, and one message at least."""

    session_id: UUID
    tenant: str
    messages: list[ChatMessage]
    next: int | None = Field(description="The place to go on behind; null where this is all there is yet.")


@dataclass(frozen=True)
class Filter:
    """What a list is asked for."""

    tenant: Slug | None
    cursor: str | None
    limit: int


def listed(wanted: Filter, caller: Caller, database: Database) -> ChatSessionPage:
    """A page of the caller's conversations.

    Raises:
        RejectedRequestError: a parameter cannot be read.
        ForbiddenError: the caller is no viewer of the tenant, or nobody.
        DatabaseUnavailableError: this cannot be known just now.
    """
    after = None if wanted.cursor is None else http.after(wanted.cursor)
    slug = _tenant(wanted.tenant, caller)
    with database.delivery() as connection:
        row = connection.execute("SELECT id FROM tenant WHERE slug = %s", [slug]).fetchone()
    if row is None:
        return ChatSessionPage(sessions=[], next=None)
    with database.tenant(row[0]) as connection:
        found = chat.list_sessions(connection, caller.subject, after=after, limit=wanted.limit + 1)
    shown, following = http.cut(found, wanted.limit, lambda one: (one.created_at, one.id))
    return ChatSessionPage(
        sessions=[ChatSession.model_validate({**vars(one), "session_id": one.id, "tenant": slug}) for one in shown],
        next=following,
    )


def transcript(session_id: str, after: int, limit: int, caller: Caller, database: Database) -> ChatTranscript:
    """The messages of a conversation behind a place.

    Raises:
        SessionNotFoundError: there is no such conversation of the caller.
        DatabaseUnavailableError: this cannot be known just now.
    """
    id_, tenant_id, slug = _found(session_id, caller, database)
    with database.tenant(tenant_id) as connection:
        said = chat.transcript(connection, id_, caller.subject, after=after, limit=limit)
    return ChatTranscript(
        session_id=id_,
        tenant=slug,
        messages=[ChatMessage.model_validate(one) for one in said.entries],
        next=said.entries[-1].number if said.is_cut else None,
    )


def delete(session_id: str, request: Request) -> None:
    """Delete a conversation, and all that was said in it.

    Raises:
        SessionNotFoundError: there is no such conversation of the caller.
        ForbiddenError, TooManyError: see `Request.admit`.
        DatabaseUnavailableError: this cannot be done just now.
    """
    id_, tenant_id, slug = _found(session_id, request.caller, request.database)
    user = request.caller.subject
    with request.database.tenant(tenant_id) as connection:
        chat.lock_session(connection, id_, user)  # another user's session must look like a missing one
    request.admit("Deleting", slug, tenant_id)

    def once() -> None:
        with request.database.tenant(tenant_id) as connection:
            chat.delete_session(connection, id_, user, request.now, by=user)

    retry_conflicts(once)  # one of its messages may just be answered


def _found(session_id: str, caller: Caller, database: Database) -> tuple[UUID, UUID, str]:
    """A conversation of a tenant of the caller's: its id, and the tenant's id and slug."""
    try:
        id_ = UUID(session_id)
    except ValueError:
        raise SessionNotFoundError from None
    with database.delivery() as connection:
        found = chat.session_owner(connection, id_)
    if found is None or not caller.may(Role.VIEWER, found[1]) or not caller.subject:
        raise SessionNotFoundError
    return id_, *found


def _tenant(named: str | None, caller: Caller) -> str:
    slug = request().slug(named)
    if not caller.may(Role.VIEWER, slug):
        raise ForbiddenError("This takes the role viewer for this tenant: ask an admin for it.")
    if not caller.subject:
        raise ForbiddenError("The token names nobody, and conversations are somebody's: it has no sub.")
    return slug


routes = Routes()


@routes.get(
    "/api/chat/sessions",
    summary="List conversations",
    tags=["chat"],
    responses=responses({200: (ChatSessionPage, "A page, the newest first.")}, 422),
)
def list_chat_sessions(
    tenant: OneTenant = None, cursor: Cursor = None, limit: Limit = PAGE
) -> Response[ChatSessionPage]:
    """List the caller's own conversations. `POST /api/tasks` sends a message to one or begins one."""
    return answer(200, listed(Filter(tenant, cursor, limit), caller(), database()))


@routes.get(
    "/api/chat/sessions/<session_id>",
    summary="Show a conversation",
    tags=["chat"],
    responses=responses({200: (ChatTranscript, "Its messages, in their order.")}, 404, 422),
)
def show_chat_session(
    session_id: Id,
    behind: Annotated[int, Query(alias="after", ge=0, le=LARGEST, description="Messages behind this place.")] = 0,
    limit: Annotated[int, Query(ge=1, le=LONGEST_MESSAGES_PAGE, description="How many, at most.")] = MESSAGES_PAGE,
) -> Response[ChatTranscript]:
    """Show the messages of one of the caller's own conversations; with `after`, only new ones."""
    return answer(200, transcript(session_id, behind, limit, caller(), database()))


@routes.delete(
    "/api/chat/sessions/<session_id>",
    summary="Delete a conversation",
    description="One of the caller's own conversations is deleted at once, with all of its messages. A message that "
    "waits for its reply is cancelled, and gets none. The tasks of its messages stay as they ended, without payload "
    "and result: the same request under the `idempotency_key` of one of them begins nothing new.",
    tags=["chat"],
    responses=responses({204: (None, "It is gone.")}, 400, 404, 413, 415, 422, 429),
)
def delete_chat_session(session_id: Id) -> Response[None]:
    """Delete one of the caller's own conversations, with all of its messages."""
    delete(session_id, request())
    return Response(204)
