"""`/api/admin/offers`: pools of offers, their shards, and users whose offers failed."""

from datetime import UTC, datetime
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query

from counterfoil.offers.pool_list import PoolState
from counterfoil.validation import PrintableText
from functions.admin_api import offers
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
    database,
)
from functions.admin_api.users import LONGEST_ZONE, Day

routes = Routes()


@routes.get(
    "/api/admin/offers",
    summary="List pools of offers",
    tags=["offers"],
    responses=responses({200: (offers.OfferPoolPage, "A page, the latest first.")}, 404, 422),
)
def list_pools(  # a query is this many parameters
    tenant: OneTenant = None,
    since: Annotated[Day | None, Query(alias="from", description="Of this date or a later one.")] = None,
    until: Annotated[Day | None, Query(alias="to", description="Of this date or an earlier one.")] = None,
    timezone: Annotated[PrintableText | None, Query(min_length=1, max_length=LONGEST_ZONE)] = None,
    state: Annotated[PoolState | None, Query()] = None,
    cursor: Cursor = None,
    limit: Limit = PAGE,
) -> Response[offers.OfferPoolPage]:
    """A page of a tenant's pools: a date of a time zone each, and how far it has come."""
    wanted = offers.Filter(tenant, since, until, timezone, state, cursor, limit)
    return answer(200, offers.page(wanted, caller(), database(), datetime.now(UTC)))


@routes.get(
    "/api/admin/offers/<pool_id>",
    summary="Show a pool of offers",
    tags=["offers"],
    responses=responses({200: (offers.OfferPoolDetail, "The pool.")}, 404, 422),
)
def show_pool(pool_id: Id) -> Response[offers.OfferPoolDetail]:
    """One date of one time zone, with the shards that its users are served in."""
    return answer(200, offers.show(pool_id, caller(), database(), datetime.now(UTC)))


@routes.get(
    "/api/admin/offers/<pool_id>/failed",
    summary="List users without their offers",
    tags=["offers"],
    responses=responses({200: (offers.FailedUsers, "A page, by user id.")}, 404, 422),
)
def list_failed(pool_id: Id, cursor: Cursor = None, limit: Limit = PAGE) -> Response[offers.FailedUsers]:
    """A page of the users of a pool whose offers failed, and why."""
    return answer(200, offers.failed(pool_id, cursor, limit, caller(), database(), datetime.now(UTC)))


@routes.get(
    "/api/admin/offers/<pool_id>/users/<user_id>",
    summary="Show how a user's offers came about",
    tags=["offers"],
    responses=responses({200: (offers.OfferJob, "The job.")}, 404, 422),
)
def show_job(pool_id: Id, user_id: Id) -> Response[offers.OfferJob]:
    """One user's job of a date: its shard, its tries, what it was computed from, and the offers."""
    return answer(200, offers.job(pool_id, user_id, caller(), database(), datetime.now(UTC)))
