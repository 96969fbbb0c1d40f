"""`/api/admin/queues`: queues are looked at, paused and resumed."""

from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Path

from counterfoil.queues import firing_alarms, queue_depths
from counterfoil.settings import settings
from functions.admin_api import queues
from functions.admin_api.etags import etag
from functions.admin_api.problems import responses
from functions.admin_api.routes.common import (
    VERSIONED,
    IfMatch,
    OneTenant,
    Routes,
    answer,
    caller,
    change,
    database,
)

routes = Routes()
FORMS = (queues.QueueSwitch,)
"""Of bodies."""


Worker = Annotated[str, Path(description="The worker's name.")]
_SWITCHED = responses({200: (queues.QueueState, "It is so now.")}, 400, 404, 412, 413, 415, 422, 428, 429)
_SWITCHED[200]["headers"] = VERSIONED


@routes.get(
    "/api/admin/queues",
    summary="Show all queues",
    tags=["queues"],
    responses=responses({200: (queues.QueuesOverview, "All queues.")}, 404, 422),
)
def show_queues(tenant: OneTenant = None) -> Response[queues.QueuesOverview]:
    """How full queues are and what is done: everybody's work for who may look for all tenants, else a tenant's own."""
    return answer(200, hall().overview(tenant, caller(), datetime.now(UTC)))


@routes.get(
    "/api/admin/queues/paused",
    summary="List paused queues",
    tags=["queues"],
    responses=responses({200: (queues.PausedQueues, "Those that are.")}, 422),
)
def list_paused_queues() -> Response[queues.PausedQueues]:
    """The queues that a person has paused, in one quick look: for everybody who may look at anything."""
    return answer(200, hall().paused(caller()))


@routes.post("/api/admin/queues/<worker>/pause", summary="Pause a queue", tags=["queues"], responses=_SWITCHED)
def pause_queue(
    worker: Worker, asked: Annotated[queues.QueueSwitch, Body()], condition: IfMatch = None
) -> Response[queues.QueueState]:
    """A worker's queue is not read until it is resumed. What waits there loses no attempt."""
    return _switched(hall().switch(worker, asked, condition, change(), is_paused=True))


@routes.post("/api/admin/queues/<worker>/resume", summary="Resume a queue", tags=["queues"], responses=_SWITCHED)
def resume_queue(
    worker: Worker, asked: Annotated[queues.QueueSwitch, Body()], condition: IfMatch = None
) -> Response[queues.QueueState]:
    """A worker's queue is read again."""
    return _switched(hall().switch(worker, asked, condition, change(), is_paused=False))


@cache
def _depths() -> queues.Kept[Any]:
    urls = {worker: queue.urls for worker, queue in settings().queues.items()}
    return queues.Kept(lambda: queue_depths(urls), queues.DEPTHS_SECONDS)


@cache
def _alarms() -> queues.Kept[Any]:
    return queues.Kept(firing_alarms, queues.ALARMS_SECONDS)


def hall() -> queues.Hall:
    """Where queues are looked at."""
    return queues.Hall(database(), settings().queues, _depths().get, _alarms().get)


def _switched(state: queues.QueueState) -> Response[queues.QueueState]:
    return answer(200, state, {"ETag": etag(state.version), "Cache-Control": "no-store"})
