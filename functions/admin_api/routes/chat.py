"""`/api/chat`: the caller's own conversations."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from counterfoil.delivery.work import LARGEST
from functions.admin_api import chat
from functions.admin_api.problems import responses
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


@routes.get(
    "/api/chat/sessions",
    summary="List conversations",
    tags=["chat"],
    responses=responses({200: (chat.ChatSessionPage, "A page, those that were begun last first.")}, 422),
)
def list_chat_sessions(
    tenant: OneTenant = None, cursor: Cursor = None, limit: Limit = PAGE
) -> Response[chat.ChatSessionPage]:
    """A page of the caller's own conversations. A message to one, or that begins one, is a task: POST /api/tasks."""
    return answer(200, chat.listed(chat.Filter(tenant, cursor, limit), caller(), database()))


@routes.get(
    "/api/chat/sessions/<session_id>",
    summary="Show a conversation",
    tags=["chat"],
    responses=responses({200: (chat.ChatTranscript, "What was said, in its order.")}, 404, 422),
)
def show_chat_session(
    session_id: Id,
    behind: Annotated[int, Query(alias="after", ge=0, le=LARGEST, description="Messages behind this place.")] = 0,
    limit: Annotated[int, Query(ge=1, le=chat.LONGEST_PAGE, description="How many, at most.")] = chat.PAGE,
) -> Response[chat.ChatTranscript]:
    """What was said in one of the caller's own conversations; with `after`, what is new."""
    return answer(200, chat.transcript(session_id, behind, limit, caller(), database()))


@routes.delete(
    "/api/chat/sessions/<session_id>",
    summary="Delete a conversation",
    description="One of the caller's own conversations is deleted at once, with all that was said in it. A message "
    "that waits for its answer is cancelled, and gets none. The tasks of its messages stay as they ended, without "
    "payload and result: the same request under the `idempotency_key` of one of them begins nothing anew.",
    tags=["chat"],
    responses=responses({204: (None, "It is gone.")}, 400, 404, 413, 415, 422, 429),
)
def delete_chat_session(session_id: Id) -> Response[None]:
    """One of the caller's own conversations is deleted, with all that was said in it."""
    chat.delete(session_id, change())
    return Response(204)
