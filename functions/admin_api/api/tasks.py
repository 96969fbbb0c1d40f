"""`/api/tasks`: submit, view and cancel tasks.

Submitting and canceling require the operator role for the tenant, and viewing requires the viewer role. Users see their
own tasks. Admins see all tasks of the tenant.
"""

from dataclasses import dataclass, replace
from typing import Annotated
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from counterfoil.settings import settings
from counterfoil.tasks import store
from counterfoil.tasks.store import MAX_KEY_CHARS, MAX_RETRY_LIMIT, Status, Task, TaskAttempt, TaskFilter, TaskSummary
from counterfoil.tasks.types import TYPES, enabled_type
from counterfoil.validation import UTC_DESCRIPTION, Moment, PrintableText
from functions.admin_api import http
from functions.admin_api.auth import Caller, Request, Role, Slug
from functions.admin_api.endpoint import PAGE, Cursor, Id, Limit, OneTenant, Routes, json_response
from functions.admin_api.http import NotFoundError, responses

MAX_TYPE_CHARS = 100
MAX_ATTEMPTS_SHOWN = 200
"""Maximum number of attempts in a response. Even with the longest errors and result, they fit into Lambda's 6 MB."""
NO_TASK = "There is no such task."

routes = Routes()


class TaskBody(BaseModel):
    """A task to submit."""

    model_config = ConfigDict(extra="forbid")

    task_type: str = Field(min_length=1, max_length=MAX_TYPE_CHARS)
    payload: dict[str, JsonValue] = Field(description="Input for the task type, at most 256 KiB of JSON.")
    idempotency_key: PrintableText | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_KEY_CHARS,
        description="Requests with the same key create only one task. Default: a new UUID, which is returned.",
    )
    max_retry: Annotated[int, Field(ge=0, le=MAX_RETRY_LIMIT), http.WholeNumber] | None = Field(
        default=None,
        description="Maximum retries after the first attempt. Default: the setting RETRY_MAX_ATTEMPTS.",
    )
    tenant: Slug | None = Field(
        default=None, description="Slug of a tenant. Required unless the token is for exactly one tenant."
    )


@dataclass(frozen=True)
class TaskHistory(Task):
    """A task with its attempts and its dead letter."""

    dead_letter: Annotated[UUID | None, Field(description="`job_id` of the dead letter, if the task failed.")]
    timeline: Annotated[
        list[TaskAttempt], Field(description=f"At most the last {MAX_ATTEMPTS_SHOWN} attempts, oldest first.")
    ]


class TaskPage(BaseModel):
    """Tasks, newest first, and the cursor of the next page."""

    tasks: list[TaskSummary]
    next_cursor: str | None


@routes.post(
    "/api/tasks",
    summary="Submit a task",
    tags=["tasks"],
    responses=responses(
        {
            202: (Task, "The task was accepted."),
            200: (Task, "The existing task, if the same request was already sent with this `idempotency_key`."),
        },
        *(400, 404, 409, 413, 415, 422, 429),
    ),
)
def submit_task(request: Request, body: Annotated[TaskBody, Body()]) -> Response[Task]:
    """Submit a task. Requests with the same `idempotency_key` create only one task."""
    slug = request.slug(body.tenant)
    tenant_id = request.admit("Submitting", slug)
    new_task = store.build_request(
        enabled_type(body.task_type, settings()),
        body.payload,
        max_retry=body.max_retry,
        idempotency_key=body.idempotency_key,
        user_id=request.caller.require_subject(),
        settings=settings(),
    )
    submission = store.submit(request.database, tenant_id, new_task, request.now, bucket=settings().uploads_bucket)
    request.send(submission.messages)
    return json_response(202 if submission.is_new else 200, submission.task)


@routes.get(
    "/api/tasks",
    summary="List tasks",
    tags=["tasks"],
    responses=responses({200: (TaskPage, "A page of tasks, newest first.")}, 404, 422),
)
def list_tasks(
    request: Request,
    tenant: OneTenant = None,
    status: Annotated[Status | None, Query()] = None,
    task_type: Annotated[PrintableText | None, Query(max_length=MAX_TYPE_CHARS)] = None,
    created_from: Annotated[
        Moment | None, Query(alias="from", description=f"Submitted at or after this time. {UTC_DESCRIPTION}")
    ] = None,
    created_until: Annotated[
        Moment | None, Query(alias="to", description=f"Submitted before this time. {UTC_DESCRIPTION}")
    ] = None,
    cursor: Cursor = None,
    limit: Limit = PAGE,
) -> TaskPage:
    """Return a page of the caller's tasks, or of all tenant tasks for an admin."""
    after = http.decode_cursor(cursor)
    tenant_id, _ = request.tenant(tenant)
    user = None if request.caller.role >= Role.ADMIN else request.caller.subject
    with request.database.tenant(tenant_id) as connection:
        filters = TaskFilter(status, task_type, created_from, created_until, user, after)
        rows = store.page(connection, filters, limit + 1)
    page, next_cursor = http.split_page(rows, limit, lambda task: (task.created_at, task.job_id))
    return TaskPage(tasks=list(page), next_cursor=next_cursor)


@routes.get(
    "/api/tasks/<job_id>",
    summary="Show a task",
    tags=["tasks"],
    responses=responses({200: (TaskHistory, "The task with its result and attempts.")}, 404, 422),
)
def show_task(request: Request, job_id: Id) -> TaskHistory:
    """Return one task: its status, result and attempts."""
    tenant_id, _, id_ = request.owned(job_id, "task", NO_TASK)
    with request.database.tenant(tenant_id) as connection:
        task = _visible_task(store.show(connection, id_), request.caller)
        attempts = store.list_attempts(connection, id_, limit=MAX_ATTEMPTS_SHOWN)
        dead_letter = store.find_dead_letter(connection, id_)
    return TaskHistory(**vars(task), dead_letter=dead_letter, timeline=attempts)


@routes.post(
    "/api/tasks/<job_id>/cancel",
    summary="Cancel a task",
    tags=["tasks"],
    responses=responses({200: (Task, "The task was canceled.")}, 400, 404, 409, 413, 415, 422, 429),
)
def cancel_task(request: Request, job_id: Id) -> Task:
    """Cancel an unfinished task.

    No further attempt starts, and a running attempt's result is discarded.
    """
    tenant_id, slug, id_ = request.owned(job_id, "task", NO_TASK)
    with request.database.tenant(tenant_id) as connection:
        _visible_task(store.show(connection, id_), request.caller)
    request.admit("Canceling", slug, tenant_id)
    # enqueues the next message of a conversation, which may be claimed concurrently
    canceled = request.commit(
        tenant_id, lambda connection: store.cancel(connection, id_, request.now, request.caller.subject or "unknown")
    )
    if canceled is None:
        raise NotFoundError(NO_TASK)
    task, messages = canceled
    request.send(messages)
    return task


def _visible_task(task: Task | None, caller: Caller) -> Task:
    """Return a task that the caller may view: their own, or any task for an admin.

    If a task type is private, other users' results are omitted.

    Raises:
        NotFoundError: the task does not exist, or the caller may not view it.
    """
    if task is None or (caller.role < Role.ADMIN and task.user_id != caller.subject):
        raise NotFoundError(NO_TASK)
    type_ = TYPES.get(task.task_type)
    is_private = type_ is None or type_.is_private
    return replace(task, result=None) if is_private and task.user_id != caller.subject else task
