"""The HTTP API: requests in, JSON out, and the console. The gateway has checked the token of whoever asks the API."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache, partial
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response, content_types
from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Path, Query
from aws_lambda_powertools.utilities.typing import LambdaContext

from counterfoil.db import Database
from counterfoil.dead_letters import entries
from counterfoil.documents.matching.reviews import State
from counterfoil.documents.review_queue import Wanted
from counterfoil.documents.structured import DocumentType
from counterfoil.messages import LARGEST
from counterfoil.outbox import Outbox
from counterfoil.settings import settings
from counterfoil.tasks.store import Status
from functions.admin_api import chat, dead_letters, letter_changes, refusals, reviews, tasks, uploads
from functions.admin_api.allowance import Allowance, Change
from functions.admin_api.caller import Caller
from functions.admin_api.console import ROUTES, console
from functions.admin_api.description import described, methods
from functions.admin_api.etags import etag, names
from functions.admin_api.problems import responses
from functions.admin_api.request import Moment, UnreadableError, after, only, read_json, readable
from functions.admin_api.uploads import Slug

api = APIGatewayHttpResolver(
    enable_validation=True,
    response_validation_error_http_code=500,
    json_body_deserializer=read_json,
    serializer=partial(json.dumps, separators=(",", ":"), ensure_ascii=False),  # Lambda bounds the bytes of an answer
)

Id = Annotated[str, Path(json_schema_extra={"format": "uuid"})]
Limit = Annotated[int, Query(ge=1, le=reviews.LONGEST_PAGE, description="How many, at most.")]
Cursor = Annotated[str | None, Query(description="`next` of the page before.")]
OneTenant = Annotated[Slug | None, Query(description="A tenant's slug.")]


@cache
def database() -> Database:
    """The process's connections: one request at a time needs one."""
    return Database.from_settings(settings(), max_connections=1)


@api.get(
    "/api/openapi.json",
    summary="This document",
    tags=["about"],
    responses=responses({200: (dict[str, Any], "OpenAPI 3.1.")}),
)
def openapi() -> Response[dict[str, Any]]:
    """What can be asked, and what is answered."""
    return Response(200, content_types.APPLICATION_JSON, document())


@api.post(
    "/api/uploads",
    summary="Ask for leave to upload a file",
    tags=["uploads"],
    responses=responses({201: (uploads.UploadForm, "A form to be posted to S3.")}, 400, 404, 413, 415, 422, 429),
)
def create_upload(wanted: Annotated[uploads.Upload, Body()]) -> Response[uploads.UploadForm]:
    """Leave to upload a file: a form to be posted to S3."""
    bucket = settings().uploads_bucket
    assert bucket is not None  # the row lets files be uploaded, and the stack tells where
    return _json(201, uploads.admit(wanted, _change(), bucket))


# -- tasks ----------------------------------------------------------------------------------------------------------


@api.post(
    "/api/tasks",
    summary="Hand in a task",
    tags=["tasks"],
    responses=responses(
        {
            202: (tasks.TaskDetail, "It is accepted."),
            200: (tasks.TaskDetail, "The same was asked for under this key before: the first task, as it is now."),
        },
        *(400, 404, 409, 413, 415, 422, 429),
    ),
)
def submit_task(order: Annotated[tasks.TaskOrder, Body()]) -> Response[tasks.TaskDetail]:
    """A task is accepted, once for each `idempotency_key`."""
    status, task = _desk().submit(order, _change())
    return _json(status, task)


@api.get(
    "/api/tasks",
    summary="List tasks",
    tags=["tasks"],
    responses=responses({200: (tasks.TaskPage, "A page, the newest first.")}, 404, 422),
)
def list_tasks(  # a query is this many parameters
    tenant: OneTenant = None,
    status: Annotated[Status | None, Query()] = None,
    task_type: Annotated[tasks.PrintableText | None, Query(max_length=tasks.LONGEST_TYPE)] = None,
    created_from: Annotated[Moment | None, Query(alias="from", description="Handed in then or later.")] = None,
    created_until: Annotated[Moment | None, Query(alias="to", description="Handed in before.")] = None,
    cursor: Cursor = None,
    limit: Limit = tasks.PAGE,
) -> Response[tasks.TaskPage]:
    """A page of a tenant's tasks: the caller's own, and for an admin everybody's."""
    _only("tenant", "status", "task_type", "from", "to", "cursor", "limit")
    wanted = tasks.Filter(tenant, status, task_type, created_from, created_until, cursor, limit)
    return _json(200, _desk().page(wanted, _caller()))


@api.get(
    "/api/tasks/<job_id>",
    summary="Show a task",
    tags=["tasks"],
    responses=responses({200: (tasks.TaskHistory, "The task, with its result and its tries.")}, 404),
)
def show_task(job_id: Id) -> Response[tasks.TaskHistory]:
    """One task: status, result, attempts, and what became of each try."""
    return _json(200, _desk().show(job_id, _caller()))


@api.post(
    "/api/tasks/<job_id>/cancel",
    summary="Cancel a task",
    tags=["tasks"],
    responses=responses({200: (tasks.TaskDetail, "It is cancelled.")}, 400, 404, 409, 413, 415, 429),
)
def cancel_task(job_id: Id) -> Response[tasks.TaskDetail]:
    """A task that is not over is cancelled: it is not begun any more, and a try under way changes nothing."""
    return _json(200, _desk().cancel(job_id, _change()))


# -- chat -----------------------------------------------------------------------------------------------------------


@api.get(
    "/api/chat/sessions",
    summary="List conversations",
    tags=["chat"],
    responses=responses({200: (chat.ChatSessionPage, "A page, those that were begun last first.")}, 422),
)
def list_chat_sessions(
    tenant: OneTenant = None, cursor: Cursor = None, limit: Limit = tasks.PAGE
) -> Response[chat.ChatSessionPage]:
    """A page of the caller's own conversations. A message to one, or that begins one, is a task: POST /api/tasks."""
    _only("tenant", "cursor", "limit")
    return _json(200, chat.listed(chat.Filter(tenant, cursor, limit), _caller(), database()))


@api.get(
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
    _only("after", "limit")
    return _json(200, chat.transcript(session_id, behind, limit, _caller(), database()))


@api.delete(
    "/api/chat/sessions/<session_id>",
    summary="Delete a conversation",
    description="One of the caller's own conversations is deleted at once, with all that was said in it. A message "
    "that waits for its answer is cancelled, and gets none. The tasks of its messages stay as they ended, without "
    "payload and result: the same request under the `idempotency_key` of one of them begins nothing anew.",
    tags=["chat"],
    responses=responses({204: (None, "It is gone.")}, 400, 404, 413, 415, 429),
)
def delete_chat_session(session_id: Id) -> Response[None]:
    """One of the caller's own conversations is deleted, with all that was said in it."""
    chat.delete(session_id, _change())
    return Response(204)


# -- reviews --------------------------------------------------------------------------------------------------------

_DECISION = responses({200: (reviews.Decided, "It is decided.")}, 400, 404, 409, 413, 415, 422, 429)
_WORD = responses({200: (reviews.DifferenceSettled, "It is settled.")}, 400, 404, 409, 413, 415, 422, 429)


@api.get(
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
    limit: Limit = reviews.PAGE,
) -> Response[reviews.ReviewPage]:
    """A page of the documents that are in doubt."""
    _only("tenant", "kind", "min_chance", "max_chance", "state", "cursor", "limit")
    wanted = Wanted(
        state=state,
        kind=None if kind is None else kind.value,
        min_chance=min_chance,
        max_chance=max_chance,
        after=None if cursor is None else after(cursor),
    )
    return _json(200, reviews.listed(wanted, limit, tenant, _caller(), database()))


@api.get(
    "/api/admin/reviews/<document_id>",
    summary="Show a document in doubt",
    tags=["reviews"],
    responses=responses({200: (reviews.Review, "The document, its candidates and their evidence.")}, 404),
)
def show_review(document_id: Id) -> Response[reviews.Review]:
    """One document in doubt, with its candidates and their evidence."""
    return _json(200, reviews.shown(document_id, _caller(), database()))


@api.post("/api/admin/reviews/merge", summary="Merge two clusters", tags=["reviews"], responses=_DECISION)
def merge(asked: Annotated[reviews.Merge, Body()]) -> Response[reviews.Decided]:
    """Two clusters are one."""
    return _json(200, reviews.merge(asked, _change()))


@api.post("/api/admin/reviews/split", summary="Split a cluster", tags=["reviews"], responses=_DECISION)
def split(asked: Annotated[reviews.Split, Body()]) -> Response[reviews.Decided]:
    """A document does not belong to its cluster."""
    return _json(200, reviews.split(asked, _change()))


@api.post("/api/admin/reviews/accept", summary="Accept a difference", tags=["reviews"], responses=_WORD)
def accept(asked: Annotated[reviews.Difference, Body()]) -> Response[reviews.DifferenceSettled]:
    """A difference may be."""
    return _json(200, reviews.say("accepted", asked, _change()))


@api.post("/api/admin/reviews/dispute", summary="Dispute a difference", tags=["reviews"], responses=_WORD)
def dispute(asked: Annotated[reviews.Difference, Body()]) -> Response[reviews.DifferenceSettled]:
    """A difference may not be."""
    return _json(200, reviews.say("disputed", asked, _change()))


@api.post(
    "/api/admin/reviews/<document_id>/confirm", summary="Confirm a candidate", tags=["reviews"], responses=_DECISION
)
def confirm(document_id: Id, asked: Annotated[reviews.Confirm, Body()]) -> Response[reviews.Decided]:
    """A document belongs to another one."""
    return _json(200, reviews.confirm(document_id, asked, _change()))


@api.post("/api/admin/reviews/<document_id>/reject", summary="Reject candidates", tags=["reviews"], responses=_DECISION)
def reject(document_id: Id, asked: Annotated[reviews.Reject, Body()]) -> Response[reviews.Decided]:
    """A document does not belong to others."""
    return _json(200, reviews.reject(document_id, asked, _change()))


# -- dead letters ---------------------------------------------------------------------------------------------------

States = Annotated[
    list[entries.Status] | None,
    Query(description="Repeated, or several with commas. Of all states where it is not said."),
]
_LETTER = responses(
    {200: (dead_letters.Letter, "The letter."), 304: (None, "It is still the one that If-None-Match names.")}, 404
)
_LETTER[200]["headers"] = {"ETag": {"description": "Its version.", "schema": {"type": "string"}}}


@api.get(
    "/api/admin/dlq",
    summary="List dead letters",
    tags=["dead letters"],
    responses=responses({200: (dead_letters.LetterPage, "A page, the newest first.")}, 404, 422),
)
def list_dead_letters(  # noqa: PLR0913, PLR0917  # a query is this many parameters
    tenant: OneTenant = None,
    status: States = None,
    task_type: Annotated[tasks.PrintableText | None, Query(max_length=tasks.LONGEST_TYPE)] = None,
    from_date: Annotated[Moment | None, Query(description="Died then or later.")] = None,
    to_date: Annotated[Moment | None, Query(description="Died before.")] = None,
    text: Annotated[
        tasks.PrintableText | None,
        Query(
            min_length=1,
            max_length=dead_letters.LONGEST_TEXT,
            description="Words of the error and of the file's name, all of which a letter has; or an id.",
        ),
    ] = None,
    fingerprint: Annotated[dead_letters.Fingerprint | None, Query(description="Of a group.")] = None,
    page: Annotated[
        int,
        Query(ge=1, le=dead_letters.DEEPEST, description=f"{dead_letters.DEEPEST} letters deep; further with cursor."),
    ] = 1,
    limit: Limit = dead_letters.PAGE,
    cursor: Cursor = None,
) -> Response[dead_letters.LetterPage]:
    """A page of a tenant's dead letters."""
    _only(*("tenant", "status", "task_type", "from_date", "to_date", "text", "fingerprint", "page", "limit", "cursor"))
    wanted = entries.Wanted(_states(status), task_type, fingerprint, from_date, to_date)
    asked = dead_letters.Filter(tenant, wanted, text, page, limit, cursor)
    return _json(200, dead_letters.listed(asked, _caller(), database()))


@api.get(
    "/api/admin/dlq/stats",
    summary="Count dead letters",
    tags=["dead letters"],
    responses=responses({200: (dead_letters.LetterStats, "How many there are.")}, 404, 422),
)
def count_dead_letters(tenant: OneTenant = None) -> Response[dead_letters.LetterStats]:
    """How many dead letters a tenant has, by type of task and state."""
    _only("tenant")
    return _json(200, dead_letters.stats(tenant, _caller(), database()))


@api.get(
    "/api/admin/dlq/groups",
    summary="List groups of dead letters",
    tags=["dead letters"],
    responses=responses({200: (dead_letters.LetterGroupPage, "A page, those that died last first.")}, 404, 422),
)
def list_groups(
    tenant: OneTenant = None, status: States = None, cursor: Cursor = None, limit: Limit = dead_letters.PAGE
) -> Response[dead_letters.LetterGroupPage]:
    """A page of the errors that a tenant's letters died of, with those that have letters in one of the states."""
    _only("tenant", "status", "cursor", "limit")
    asked = dead_letters.Grouping(tenant, _states(status), cursor, limit)
    return _json(200, dead_letters.grouped(asked, _caller(), database(), datetime.now(UTC)))


@api.get(
    "/api/admin/dlq/audit",
    summary="List who changed what",
    tags=["dead letters"],
    responses=responses({200: (letter_changes.AuditPage, "A page, the newest first.")}, 404, 422),
)
def list_audit(
    tenant: OneTenant = None,
    cursor: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="`next` of the page before.")] = None,
    limit: Limit = dead_letters.PAGE,
) -> Response[letter_changes.AuditPage]:
    """A page of a tenant's audit trail."""
    _only("tenant", "cursor", "limit")
    return _json(200, letter_changes.trail(tenant, cursor, limit, _caller(), database()))


@api.get("/api/admin/dlq/<job_id>", summary="Show a dead letter", tags=["dead letters"], responses=_LETTER)
def show_dead_letter(
    job_id: Id, known: Annotated[str | None, Header(alias="If-None-Match", description="The ETag of before.")] = None
) -> Response[dead_letters.Letter | None]:
    """One dead letter with its payload and its earlier deaths."""
    letter = dead_letters.shown(job_id, _caller(), database())
    headers = {"ETag": etag(letter.version), "Cache-Control": "private, no-cache", "Vary": "Authorization"}
    if names(known, letter.version):
        return Response(304, headers=headers)
    return Response(200, content_types.APPLICATION_JSON, letter, headers)


@api.get(
    "/api/admin/dlq/<job_id>/timeline",
    summary="Show what happened to a dead letter",
    tags=["dead letters"],
    responses=responses({200: (dead_letters.LetterTimeline, "Tries, deaths and changes in their order.")}, 404),
)
def show_timeline(job_id: Id) -> Response[dead_letters.LetterTimeline]:
    """The tries of a dead letter's work, its deaths, and what was done about it."""
    return _json(200, dead_letters.told(job_id, _caller(), database()))


_CHANGED = responses({200: (letter_changes.LetterChanged, "It is done.")}, 400, 404, 409, 412, 413, 415, 422, 428, 429)
_CHANGED[200]["headers"] = _LETTER[200]["headers"]
IfMatch = Annotated[str | None, Header(alias="If-Match", description="The ETag of the letter as it was seen; needed.")]


@api.post("/api/admin/dlq/<job_id>/retry", summary="Try again", tags=["dead letters"], responses=_CHANGED)
def retry_dead_letter(
    job_id: Id, asked: Annotated[letter_changes.LetterRetry | None, Body()] = None, condition: IfMatch = None
) -> Response[letter_changes.LetterChanged]:
    """A dead letter's work, which has failed, is begun anew."""
    return _versioned(_bench().retry(job_id, asked, condition, _change()))


@api.post("/api/admin/dlq/<job_id>/resolve", summary="Resolve", tags=["dead letters"], responses=_CHANGED)
def resolve_dead_letter(
    job_id: Id, asked: Annotated[letter_changes.LetterResolution, Body()], condition: IfMatch = None
) -> Response[letter_changes.LetterChanged]:
    """A dead letter's failure was dealt with in another way."""
    return _versioned(_bench().resolve(job_id, asked, condition, _change()))


@api.post("/api/admin/dlq/<job_id>/ignore", summary="Ignore", tags=["dead letters"], responses=_CHANGED)
def ignore_dead_letter(
    job_id: Id, asked: Annotated[letter_changes.LetterIgnoring, Body()], condition: IfMatch = None
) -> Response[letter_changes.LetterChanged]:
    """Nothing is done about a dead letter."""
    return _versioned(_bench().ignore(job_id, asked, condition, _change()))


@api.get(
    "/api/admin/dlq/<job_id>/payload",
    summary="Show the payload of a task that has failed",
    tags=["dead letters"],
    responses=responses({200: (letter_changes.LetterPayload, "The payload, for who may edit it.")}, 404, 409),
)
def show_payload(job_id: Id) -> Response[letter_changes.LetterPayload]:
    """The payload of a dead letter's task, as it was tried and as it will be."""
    return _versioned(_bench().payload(job_id, _caller()))


@api.patch("/api/admin/dlq/<job_id>/payload", summary="Edit a payload", tags=["dead letters"], responses=_CHANGED)
def edit_payload(
    job_id: Id, asked: Annotated[letter_changes.LetterEdit, Body()], condition: IfMatch = None
) -> Response[letter_changes.LetterChanged]:
    """A dead letter's task is tried with another payload when it is tried again."""
    return _versioned(_bench().edit(job_id, asked, condition, _change()))


# -- answering ------------------------------------------------------------------------------------------------------


def handle(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request. By its route, not its path: what comes without a token never comes to the API."""
    if event["routeKey"] in ROUTES:
        return console().answer(event, settings().sign_in)
    try:
        answer = api.resolve(readable(event), context)
        return {**answer, "body": answer["body"] or ""}  # the local gateway fails over none, as of 204 and 304
    except UnreadableError as error:
        refused = refusals.refused(error.status, error)
        return {"statusCode": refused.status_code, "headers": refused.headers, "body": refused.body}


def _json(status: int, body: Any) -> Response[Any]:
    return Response(status, content_types.APPLICATION_JSON, body)


def _versioned(body: letter_changes.LetterChanged | letter_changes.LetterPayload) -> Response[Any]:
    return Response(
        200, content_types.APPLICATION_JSON, body, {"ETag": etag(body.version), "Cache-Control": "no-store"}
    )


def _caller() -> Caller:
    authorizer = api.current_event.request_context.authorizer
    return Caller.of((authorizer.jwt_claim if authorizer else None) or {})


def _change() -> Change:
    allowance = Allowance(settings().changes_per_second, settings().changes_at_once)
    return Change(_caller(), datetime.now(UTC), database(), allowance)


def _states(named: list[entries.Status] | None) -> Sequence[entries.Status]:
    return [status for status in entries.STATUSES if status in named] if named else entries.STATUSES


def _desk() -> tasks.Desk:
    outbox = Outbox(database(), settings().queue_urls, settings().retry_queue_urls)
    return tasks.Desk(database(), outbox, settings(), lambda: api.lambda_context.get_remaining_time_in_millis() / 1000)


def _bench() -> letter_changes.Bench:
    desk = _desk()
    return letter_changes.Bench(desk.database, desk.outbox, desk.settings, desk.time_left)


def _only(*known: str) -> None:
    only(api.current_event.query_string_parameters, *known)


@cache
def document() -> dict[str, Any]:
    """The description of the API, OpenAPI 3.1."""
    return described(api)


FORMS = (
    *(uploads.Upload, tasks.TaskOrder, reviews.Difference),
    *(reviews.Confirm, reviews.Reject, reviews.Merge, reviews.Split),
    *(letter_changes.LetterRetry, letter_changes.LetterResolution, letter_changes.LetterIgnoring),
    letter_changes.LetterEdit,
)
"""Of bodies."""
refusals.register(api, FORMS, lambda: methods(document(), api.current_event))
