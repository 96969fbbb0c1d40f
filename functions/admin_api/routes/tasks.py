"""`/api/tasks`: tasks are handed in, listed, looked at and cancelled."""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query

from counterfoil.delivery.outbox import Outbox
from counterfoil.settings import settings
from counterfoil.tasks.store import Status
from counterfoil.validation import IN_UTC, Moment, PrintableText
from functions.admin_api import tasks
from functions.admin_api.endpoint import PAGE, Cursor, Id, Limit, OneTenant, Routes, answer, caller, database, request
from functions.admin_api.http import responses

routes = Routes()


@routes.post(
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
    status, task = _desk().submit(order, request())
    return answer(status, task)


@routes.get(
    "/api/tasks",
    summary="List tasks",
    tags=["tasks"],
    responses=responses({200: (tasks.TaskPage, "A page, the newest first.")}, 404, 422),
)
def list_tasks(  # a query is this many parameters
    tenant: OneTenant = None,
    status: Annotated[Status | None, Query()] = None,
    task_type: Annotated[PrintableText | None, Query(max_length=tasks.LONGEST_TYPE)] = None,
    created_from: Annotated[
        Moment | None, Query(alias="from", description=f"Handed in then or later. {IN_UTC}")
    ] = None,
    created_until: Annotated[Moment | None, Query(alias="to", description=f"Handed in before. {IN_UTC}")] = None,
    cursor: Cursor = None,
    limit: Limit = PAGE,
) -> Response[tasks.TaskPage]:
    """A page of a tenant's tasks: the caller's own, and for an admin everybody's."""
    wanted = tasks.Filter(tenant, status, task_type, created_from, created_until, cursor, limit)
    return answer(200, _desk().page(wanted, caller()))


@routes.get(
    "/api/tasks/<job_id>",
    summary="Show a task",
    tags=["tasks"],
    responses=responses({200: (tasks.TaskHistory, "The task, with its result and its tries.")}, 404, 422),
)
def show_task(job_id: Id) -> Response[tasks.TaskHistory]:
    """One task: status, result, attempts, and what became of each try."""
    return answer(200, _desk().show(job_id, caller()))


@routes.post(
    "/api/tasks/<job_id>/cancel",
    summary="Cancel a task",
    tags=["tasks"],
    responses=responses({200: (tasks.TaskDetail, "It is cancelled.")}, 400, 404, 409, 413, 415, 422, 429),
)
def cancel_task(job_id: Id) -> Response[tasks.TaskDetail]:
    """A task that is not over is cancelled: it is not begun any more, and a try under way changes nothing."""
    return answer(200, _desk().cancel(job_id, request()))


def _desk() -> tasks.Desk:
    outbox = Outbox(database(), settings().queue_urls, settings().retry_queue_urls)
    return tasks.Desk(database(), outbox, settings(), request().time_left)
