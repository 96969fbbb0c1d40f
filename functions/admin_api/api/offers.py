"""`/api/admin/offers`: progress and results of offers, by date and time zone.

Reading requires the viewer role for the tenant, and queueing requires the operator role.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from pydantic import BaseModel, ConfigDict, Field

from counterfoil import aws
from counterfoil.db import Connection
from counterfoil.errors import RejectedRequestError
from counterfoil.offers import pool_list
from counterfoil.offers.pool_list import MAX_SHARDS, FailedUser, OfferPool, OfferShard, PoolFilter, PoolState
from counterfoil.offers.profiles import JobState
from counterfoil.offers.schedule import NoSuchDateError, NotDueError, UnknownZoneError, due_by_request
from counterfoil.settings import settings
from counterfoil.validation import PrintableText
from functions.admin_api import http
from functions.admin_api.api.users import MAX_TIMEZONE_CHARS, NO_USER, Day, Offer
from functions.admin_api.auth import ALL_TENANTS, Request, TenantSlug, item_id
from functions.admin_api.endpoint import PAGE, Cursor, Id, Limit, OneTenant, Routes, json_response
from functions.admin_api.http import NotFoundError, responses

NO_POOL = "There is no such pool."


class OfferPoolPage(BaseModel):
    """A page of pools, newest first, and the cursor of the next page."""

    pools: list[OfferPool]
    next_cursor: str | None


@dataclass(frozen=True)
class OfferPoolDetail(OfferPool):
    """A pool with its shards."""

    parts: Annotated[
        list[OfferShard],
        Field(
            description=f"At most {MAX_SHARDS} shards: first failed shards, then shards in progress, then all others."
        ),
    ]


class FailedUsers(BaseModel):
    """The pool's failed users, sorted by id, and the cursor of the next page."""

    users: list[FailedUser]
    next_cursor: str | None


class OfferJob(BaseModel):
    """The job that computed a user's offers for a date."""

    tenant: str
    pool_id: UUID
    date: date
    timezone: str
    user_id: UUID
    status: JobState
    shard_id: UUID
    shard: str
    attempts: int
    started_at: datetime | None
    completed_at: datetime | None
    error: str | None
    algorithm_version: int | None
    inputs_hash: str | None = Field(description="Hash of all inputs to the offers, as 64 hexadecimal digits.")
    offers: list[Offer]
    dead_letter: UUID | None = Field(description="`job_id` of the shard's dead letter, if the shard failed.")


class OffersRequest(BaseModel):
    """A request to queue the offers for one date in one time zone."""

    model_config = ConfigDict(extra="forbid")

    date: Day | None = Field(
        default=None, description="At most 7 days ago. Default: today, or yesterday before 9:00 in the time zone."
    )
    timezone: Annotated[PrintableText, Field(min_length=1, max_length=MAX_TIMEZONE_CHARS)]
    tenant: TenantSlug | None = Field(
        default=None, description="Default: the token's only tenant, or all tenants if the token is for all tenants."
    )


class OffersQueued(BaseModel):
    """An accepted request to queue offers."""

    date: date
    timezone: str
    tenant: str | None = Field(description="null for all tenants.")


routes = Routes()


@routes.get(
    "/api/admin/offers",
    summary="List offer pools",
    tags=["offers"],
    responses=responses({200: (OfferPoolPage, "A page of pools, latest first.")}, 404, 422),
)
def list_pools(
    request: Request,
    tenant: OneTenant = None,
    since: Annotated[Day | None, Query(alias="from", description="On or after this date.")] = None,
    until: Annotated[Day | None, Query(alias="to", description="On or before this date.")] = None,
    timezone: Annotated[PrintableText | None, Query(min_length=1, max_length=MAX_TIMEZONE_CHARS)] = None,
    state: Annotated[PoolState | None, Query()] = None,
    cursor: Cursor = None,
    limit: Limit = PAGE,
) -> OfferPoolPage:
    """Return a page of a tenant's pools and their progress.

    A pool is for one date in one time zone.
    """
    filters = PoolFilter(since, until, timezone, state, http.decode_cursor(cursor))
    tenant_id, _ = request.tenant(tenant)
    with request.database.tenant(tenant_id) as connection:
        rows = pool_list.page(connection, tenant_id, filters, request.now, limit + 1)
    page, next_cursor = http.split_page(rows, limit, lambda pool: (pool.offered_at, pool.id))
    return OfferPoolPage(pools=list(page), next_cursor=next_cursor)


@routes.post(
    "/api/admin/offers",
    summary="Queue the offers for a date",
    tags=["offers"],
    responses=responses({202: (OffersQueued, "The offers are being queued.")}, 400, 404, 413, 415, 422, 429),
)
def queue_offers(request: Request, body: Annotated[OffersRequest, Body()]) -> Response[OffersQueued]:
    """Queue the missing offers for a date. Repeating the request has no effect."""
    tenant = None
    if body.tenant is None and ALL_TENANTS in request.caller.tenants:
        request.admit_for_all("Queueing offers for all tenants")
    else:
        tenant = request.slug(body.tenant)
        request.admit("Queueing offers", tenant)
    actor = request.caller.require_subject()
    try:
        due = due_by_request(body.timezone, body.date, request.now)
    except (UnknownZoneError, NoSuchDateError, NotDueError) as error:
        raise RejectedRequestError(f"{error}.") from error
    event = {"date": f"{due.date}", "timezone": due.zone, "by": actor} | ({"tenant": tenant} if tenant else {})
    with aws.translate_errors():
        # Lambda queues the event, and repeats the invocation if the scheduler fails or is busy.
        aws.client("lambda").invoke(
            FunctionName=settings().invoked_functions["offers_scheduler"],
            InvocationType="Event",
            Payload=json.dumps(event).encode(),
        )
    return json_response(202, OffersQueued(date=due.date, timezone=due.zone, tenant=tenant))


@routes.get(
    "/api/admin/offers/<pool_id>",
    summary="Show an offer pool",
    tags=["offers"],
    responses=responses({200: (OfferPoolDetail, "The pool.")}, 404, 422),
)
def show_pool(request: Request, pool_id: Id) -> OfferPoolDetail:
    """Return a pool with its shards."""
    with _pool(request, pool_id) as (connection, _, pool):
        return OfferPoolDetail(**vars(pool), parts=pool_list.shards(connection, pool.id))


@routes.get(
    "/api/admin/offers/<pool_id>/failed",
    summary="List users whose offers failed",
    tags=["offers"],
    responses=responses({200: (FailedUsers, "A page of failed users, sorted by id.")}, 404, 422),
)
def list_failed(request: Request, pool_id: Id, cursor: Cursor = None, limit: Limit = PAGE) -> FailedUsers:
    """Return a page of a pool's failed users, with the reasons."""
    after = http.decode_cursor(cursor)
    with _pool(request, pool_id) as (connection, tenant_id, pool):
        rows = pool_list.failed_users(connection, tenant_id, pool, after and after.id, limit + 1)
    page, next_cursor = http.split_page(rows, limit, lambda user: (pool.offered_at, user.user_id))
    return FailedUsers(users=list(page), next_cursor=next_cursor)


@routes.get(
    "/api/admin/offers/<pool_id>/users/<user_id>",
    summary="Show the computation of a user's offers",
    tags=["offers"],
    responses=responses({200: (OfferJob, "The job.")}, 404, 422),
)
def show_job(request: Request, pool_id: Id, user_id: Id) -> OfferJob:
    """Return a user's job for a date: its shard, attempts, inputs hash and offers."""
    with _pool(request, pool_id) as (connection, tenant_id, pool):
        job = pool_list.job(connection, tenant_id, pool, item_id(user_id, NO_USER))
    if job is None:
        raise NotFoundError(NO_USER)
    fields = {name: value for name, value in vars(job).items() if name not in {"offers", "withdrawn", "dead_letter"}}
    return OfferJob(
        **fields,
        tenant=pool.tenant,
        pool_id=pool.id,
        date=pool.date,
        timezone=pool.timezone,
        offers=[Offer(**offer, isWithdrawn=offer["userId"] in job.withdrawn) for offer in job.offers],
        dead_letter=job.dead_letter,
    )


@contextmanager
def _pool(request: Request, pool_id: str) -> Iterator[tuple[Connection, UUID, OfferPool]]:
    tenant_id, _, id_ = request.owned(pool_id, "offer_pool", NO_POOL)
    with request.database.tenant(tenant_id) as connection:
        pool = pool_list.show(connection, tenant_id, id_, request.now)
        if pool is None:
            raise NotFoundError(NO_POOL)
        yield connection, tenant_id, pool
