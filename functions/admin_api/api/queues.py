"""`/api/admin/queues`: depths, work items and pauses of the workers' queues.

A queue serves all tenants. Callers with access to all tenants (`tenant:*`) see totals and the authors of pauses. Other
viewers see their tenant's work items, and the time and reason of each pause. Pausing and resuming require the admin
role for all tenants. Depths are cached for 3 seconds, and alarms for 30 seconds.
"""

import time
from collections.abc import Callable
from datetime import datetime
from functools import cache
from threading import Lock
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Path
from pydantic import BaseModel, ConfigDict, Field

from counterfoil.circuit_breaker import DESTINATION
from counterfoil.db import Connection, Database
from counterfoil.queues import (
    AlarmState,
    Depth,
    PauseRequest,
    QueueHistory,
    QueuePause,
    apply_pause,
    firing_alarms,
    first_minute,
    last_hour,
    last_recorded_at,
    list_pauses,
    queue_depths,
    request_pause,
    running_counts,
)
from counterfoil.settings import QueueSettings, settings
from functions.admin_api.auth import ALL_TENANTS, Request, Role
from functions.admin_api.endpoint import VERSIONED, IfMatch, Note, OneTenant, Routes, versioned_response
from functions.admin_api.http import NotFoundError, required_version, responses

DEPTHS_SECONDS = 3.0
"""Cache TTL of queue depths."""
ALARMS_SECONDS = 30.0
"""Cache TTL of alarm states."""
T = TypeVar("T")


class PauseBody(BaseModel):
    """A request to pause or resume a queue."""

    model_config = ConfigDict(extra="forbid")

    reason: Note


class PauseInfo(BaseModel):
    """Author, time and reason of a queue's pause."""

    by: str
    reason: str
    at: datetime


class QueueState(BaseModel):
    """State of a worker's queue: whether it is paused."""

    worker: str
    is_paused: bool
    paused: PauseInfo | None = Field(description="Author, time and reason, for callers with access to all tenants.")
    is_applied: bool = Field(
        description="Whether the event source mappings have this state. If not, the change is retried within a minute."
    )
    version: int = Field(description="Version, for `If-Match`; 0 if the queue was never paused.")


class PausedQueue(BaseModel):
    """A paused queue."""

    worker: str
    since: datetime
    reason: str = Field(description="Reason for the pause, visible to all callers.")
    paused: PauseInfo | None = Field(description="Author, time and reason, for callers with access to all tenants.")


class PausedQueues(BaseModel):
    """Paused queues."""

    queues: list[PausedQueue]


class QueueMinutes(BaseModel):
    """Counts for each of the last 60 full minutes, oldest first."""

    begins_at: datetime = Field(description="Start of the first minute.")
    succeeded: list[int]
    skipped: list[int]
    failed: list[int]
    depth: list[int | None] = Field(
        description="Approximate number of messages; null if it was not measured, or for a single tenant."
    )


class QueueOverview(BaseModel):
    """A worker's queue, including its retry queue.

    Values that cover all tenants are null for viewers of a single tenant.
    """

    worker: str
    is_paused: bool
    paused: PauseInfo | None
    is_applied: bool | None
    version: int | None
    running: int = Field(description="Work items in progress.")
    concurrency_limit: int | None = Field(description="Maximum number of work items in progress.")
    pending: int | None = Field(description="Pending work items at `measured_at`; null if not measured.")
    oldest_seconds: int | None = Field(
        description="Age of the oldest due work item at `measured_at`; null if not measured or no work item was due."
    )
    dead_letters: int | None = Field(description="Pending dead letters at `measured_at`; null if not measured.")
    approximate_visible: int | None = Field(description="Visible messages, as estimated by SQS.")
    approximate_delayed: int | None
    approximate_in_flight: int | None
    minutes: QueueMinutes


class BreakerState(BaseModel):
    """An open or half-open circuit breaker."""

    name: str
    since: datetime
    until: datetime = Field(description="No calls are made before this time. Then, one call probes the service.")


class QueuesOverview(BaseModel):
    """All queues.

    Circuit breakers and alarms are included for callers with access to all tenants.
    """

    tenant: str | None = Field(description="Tenant of the counted work items; null for all tenants.")
    measured_at: datetime | None = Field(description="Time of the last measurement; null if it is over an hour ago.")
    queues: list[QueueOverview]
    breakers: list[BreakerState] | None
    alarms: list[AlarmState] | None = Field(
        description="Alarms that are firing; null if CloudWatch does not respond, or for a single tenant."
    )


class CachedValue(Generic[T]):
    """Cached value. Only one thread at a time refreshes it."""

    def __init__(self, load: Callable[[], T], seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._load = load
        self._seconds = seconds
        self._clock = clock
        self._lock = Lock()
        self._cached: tuple[float, T] | None = None

    def get(self) -> T:
        """Return the cached value. Refresh it when its TTL has expired."""
        with self._lock:
            if self._cached is None or self._clock() - self._cached[0] >= self._seconds:
                self._cached = (self._clock(), self._load())
            return self._cached[1]


def _overview_of_all(database: Database, now: datetime) -> QueuesOverview:
    workers = list(settings().queues)
    with database.delivery() as connection:
        last = last_recorded_at(connection, workers, now)
        histories = last_hour(connection, workers, now, last_recorded=last, tenant_id=None)
        running = running_counts(connection, workers)
        pauses = list_pauses(connection)
        breakers = _open_breakers(connection)
    depths, alarms = _cached_depths().get(), _cached_alarms().get()
    return QueuesOverview(
        tenant=None,
        measured_at=last,
        queues=[
            _queue_overview(worker, histories[worker], running.get(worker, 0), now).model_copy(
                update=_global_values(pauses.get(worker), queue, depths.get(worker))
            )
            for worker, queue in settings().queues.items()
        ],
        breakers=breakers,
        alarms=alarms,
    )


def _overview_of_tenant(database: Database, tenant_id: UUID, slug: str, now: datetime) -> QueuesOverview:
    workers = list(settings().queues)
    with database.delivery() as connection:
        last = last_recorded_at(connection, workers, now)
        pauses = list_pauses(connection)
    with database.tenant(tenant_id) as connection:
        histories = last_hour(connection, workers, now, last_recorded=last, tenant_id=tenant_id)
        running = running_counts(connection, workers)
    return QueuesOverview(
        tenant=slug,
        measured_at=last,
        queues=[
            _queue_overview(worker, histories[worker], running.get(worker, 0), now).model_copy(
                update={"is_paused": worker in pauses and pauses[worker].is_paused}
            )
            for worker in workers
        ],
        breakers=None,
        alarms=None,
    )


def _pause_info(pause: QueuePause) -> PauseInfo | None:
    return PauseInfo(by=pause.changed_by, reason=pause.reason, at=pause.changed_at) if pause.is_paused else None


def _global_values(pause: QueuePause | None, queue: QueueSettings, depth: Depth | None) -> dict[str, object]:
    """Return the values for callers with access to all tenants."""
    return {
        "is_paused": pause is not None and pause.is_paused,
        "paused": None if pause is None else _pause_info(pause),
        "is_applied": True if pause is None else pause.is_applied,
        "version": 0 if pause is None else pause.version,
        "concurrency_limit": queue.limit,
        "approximate_visible": depth and depth.visible,
        "approximate_delayed": depth and depth.delayed,
        "approximate_in_flight": depth and depth.in_flight,
    }


def _queue_overview(worker: str, history: QueueHistory, running: int, now: datetime) -> QueueOverview:
    """Return a queue's overview without values that require access to all tenants."""
    return QueueOverview(
        worker=worker,
        is_paused=False,
        paused=None,
        is_applied=None,
        version=None,
        running=running,
        concurrency_limit=None,
        pending=history.backlog and history.backlog.pending,
        oldest_seconds=history.backlog and history.backlog.oldest_seconds,
        dead_letters=history.backlog and history.backlog.dead_letters,
        approximate_visible=None,
        approximate_delayed=None,
        approximate_in_flight=None,
        minutes=QueueMinutes(
            begins_at=first_minute(now), **{name: list(values) for name, values in vars(history.series).items()}
        ),
    )


def _open_breakers(connection: Connection) -> list[BreakerState]:
    """Return open and half-open circuit breakers, except those of destinations."""
    rows = connection.execute(
        "SELECT name, opened_at, open_until FROM breaker WHERE opened_at IS NOT NULL AND NOT starts_with(name, %s)"
        " ORDER BY name",
        [DESTINATION],
    )
    return [BreakerState(name=name, since=since, until=until) for name, since, until in rows]


@cache
def _cached_depths() -> CachedValue[Any]:
    urls = {worker: queue.urls for worker, queue in settings().queues.items()}
    return CachedValue(lambda: queue_depths(urls), DEPTHS_SECONDS)


@cache
def _cached_alarms() -> CachedValue[Any]:
    return CachedValue(firing_alarms, ALARMS_SECONDS)


routes = Routes()

Worker = Annotated[str, Path(description="Name of the worker.")]
_SWITCH_RESPONSES = responses({200: (QueueState, "The new state.")}, 400, 404, 412, 413, 415, 422, 428, 429)
_SWITCH_RESPONSES[200]["headers"] = VERSIONED


@routes.get(
    "/api/admin/queues",
    summary="Show all queues",
    tags=["queues"],
    responses=responses({200: (QueuesOverview, "The queues.")}, 404, 422),
)
def show_queues(request: Request, tenant: OneTenant = None) -> QueuesOverview:
    """Return the depths and work items of all queues.

    If `tenant` is omitted, callers with access to all tenants get totals.
    """
    if tenant is None and request.caller.has_role(Role.VIEWER, ALL_TENANTS):
        return _overview_of_all(request.database, request.now)
    return _overview_of_tenant(request.database, *request.tenant(tenant), request.now)


@routes.get(
    "/api/admin/queues/paused",
    summary="List paused queues",
    tags=["queues"],
    responses=responses({200: (PausedQueues, "The paused queues.")}, 422),
)
def list_paused_queues(request: Request) -> PausedQueues:
    """List the queues that people have paused.

    Requires the viewer role for any tenant.
    """
    sees_all = request.visible_tenants() is None
    with request.database.delivery() as connection:
        pauses = list_pauses(connection)
    return PausedQueues(
        queues=[
            PausedQueue(
                worker=worker,
                since=pause.changed_at,
                reason=pause.reason,
                paused=_pause_info(pause) if sees_all else None,
            )
            for worker, pause in pauses.items()
            if pause.is_paused and worker in settings().queues
        ]
    )


@routes.post("/api/admin/queues/<worker>/pause", summary="Pause a queue", tags=["queues"], responses=_SWITCH_RESPONSES)
def pause_queue(
    request: Request, worker: Worker, body: Annotated[PauseBody, Body()], if_match: IfMatch = None
) -> Response[QueueState]:
    """Stop receiving messages from a worker's queue.

    Pending work items keep their attempts.
    """
    return _switch(request, worker, body, if_match, is_paused=True)


@routes.post(
    "/api/admin/queues/<worker>/resume", summary="Resume a queue", tags=["queues"], responses=_SWITCH_RESPONSES
)
def resume_queue(
    request: Request, worker: Worker, body: Annotated[PauseBody, Body()], if_match: IfMatch = None
) -> Response[QueueState]:
    """Resume receiving messages from a worker's queue."""
    return _switch(request, worker, body, if_match, is_paused=False)


def _switch(
    request: Request, worker: str, body: PauseBody, if_match: str | None, *, is_paused: bool
) -> Response[QueueState]:
    """Pause or resume a worker's queue.

    The state is applied to Lambda even if it has not changed.
    """
    actor = request.admit_for_all("Pausing" if is_paused else "Resuming")
    queue = settings().queues.get(worker)
    if queue is None:
        raise NotFoundError("There is no such queue.")
    version = required_version(if_match)
    pause = request_pause(request.database, PauseRequest(worker, is_paused, body.reason, actor, request.now, version))
    if pause is None:
        return versioned_response(QueueState(worker=worker, is_paused=False, paused=None, is_applied=True, version=0))
    is_applied = apply_pause(request.database, worker, queue.mappings)
    return versioned_response(
        QueueState(
            worker=worker,
            is_paused=pause.is_paused,
            paused=_pause_info(pause),
            is_applied=is_applied,
            version=pause.version,
        )
    )
