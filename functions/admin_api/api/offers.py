"""`/api/admin/offers`: how far the offers of each date and zone have come, and what became of whose.

Looking takes the role viewer for the tenant.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, Literal
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Query
from pydantic import BaseModel, Field, JsonValue

from counterfoil.db import Connection, Database
from counterfoil.offers import pool_list
from counterfoil.offers.pool_list import MOST_SHARDS, Place, Pool, PoolState, Wanted
from counterfoil.offers.profiles import JobState
from counterfoil.validation import PrintableText
from functions.admin_api import http
from functions.admin_api.api.users import LONGEST_ZONE, NO_USER, Day, Offer
from functions.admin_api.auth import Caller, item_id, owned, viewed
from functions.admin_api.endpoint import PAGE, Cursor, Id, Limit, OneTenant, Routes, answer, caller, database
from functions.admin_api.http import NotFoundError, responses

NO_POOL = "There is no such pool."


class OfferPool(BaseModel):
    """The offers of one date in one zone."""

    id: UUID
    tenant: str
    date: date
    timezone: str
    state: PoolState = Field(description="failed: somebody's offers wait for a person; running: some are to come.")
    people: int = Field(description="Who were pinned, and are offered to one another.")
    users: int = Field(description="Who are served: those, and whoever came late.")
    pending: int
    running: int
    completed: int
    failed: int
    shards: int
    offered_at: datetime = Field(description="9:00 of the date in the zone.")
    expires_at: datetime
    pinned_at: datetime
    ended_at: datetime | None = Field(description="When all had come to an end; null while some have not.")
    late: int = Field(
        description="Users whose offers were not there by 10:00, or are not; of late-comers, within an hour."
    )


class OfferPoolPage(BaseModel):
    """Pools, the latest first, and the cursor of the page after them."""

    pools: list[OfferPool]
    next: str | None


class OfferShard(BaseModel):
    """The work of serving some users of a pool."""

    id: UUID
    name: str = Field(
        description="A number: a range of the pool; late/..: who came late; ../failed: who was put aside."
    )
    status: Literal["pending", "in-progress", "succeeded", "failed", "skipped"]
    users: int
    completed: int | None
    put_aside: int | None = Field(
        description="Users with broken data, who are tried once more in a shard of their own."
    )
    attempts: int
    error: str | None
    created_at: datetime
    claimed_at: datetime | None
    ended_at: datetime | None
    next_attempt_at: datetime | None
    dead_letter: UUID | None = Field(description="The job_id of its dead letter.")


class OfferPoolDetail(OfferPool):
    """A pool with its shards."""

    algorithm_version: int
    rules: dict[str, JsonValue] = Field(description="How many are offered, among how many, how often, how soon again.")
    parts: list[OfferShard] = Field(
        description=f"Its shards, {MOST_SHARDS} at most: those that failed, those under way, the others."
    )


class FailedUser(BaseModel):
    """A user whose offers failed."""

    user_id: UUID
    shard_id: UUID
    shard: str
    error: str | None
    attempts: int


class FailedUsers(BaseModel):
    """Users of a pool whose offers failed, by id, and the cursor of the page after them."""

    users: list[FailedUser]
    next: str | None


class OfferJob(BaseModel):
    """How a user's offers of a date came about."""

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
    inputs_hash: str | None = Field(description="Of all that the offers were computed from: 64 hexadecimal digits.")
    offers: list[Offer]
    dead_letter: UUID | None = Field(description="The job_id of its shard's dead letter.")


@dataclass(frozen=True)
class Filter:
    """What a list is asked for."""

    tenant: str | None
    since: date | None
    until: date | None
    timezone: str | None
    state: PoolState | None
    cursor: str | None
    limit: int


def page(wanted: Filter, caller: Caller, database: Database, now: datetime) -> OfferPoolPage:
    """A page of a tenant's pools.

    Raises:
        RejectedRequestError: a parameter cannot be read.
        ForbiddenError, NotFoundError: the caller is no viewer of the tenant, or there is none.
        DatabaseUnavailableError: this cannot be known just now.
    """
    after = None if wanted.cursor is None else Place(*http.after(wanted.cursor))
    tenant_id, slug = viewed(database, wanted.tenant, caller)
    asked = Wanted(wanted.since, wanted.until, wanted.timezone, wanted.state, after)
    with database.tenant(tenant_id) as connection:
        found = pool_list.page(connection, tenant_id, asked, now, wanted.limit + 1)
    shown, following = http.cut(found, wanted.limit, lambda pool: (pool.offered_at, pool.id))
    return OfferPoolPage(pools=[OfferPool(**_facts(pool, slug)) for pool in shown], next=following)


def show(pool_id: str, caller: Caller, database: Database, now: datetime) -> OfferPoolDetail:
    """One pool with its shards.

    Raises:
        NotFoundError: there is none, or none that the caller may see.
        DatabaseUnavailableError: this cannot be known just now.
    """
    with _pool(pool_id, caller, database, now) as (connection, _, pool, slug):
        parts = pool_list.shards(connection, pool.id)
    return OfferPoolDetail(
        **_facts(pool, slug),
        algorithm_version=pool.algorithm_version,
        rules=dict(pool.rules),
        parts=[_shard(part) for part in parts],
    )


def failed(
    pool_id: str, cursor: str | None, limit: int, caller: Caller, database: Database, now: datetime
) -> FailedUsers:
    """A page of the users whose offers failed. Raises as `show`; RejectedRequestError where the cursor is none."""
    _, after = (None, None) if cursor is None else http.after(cursor)
    with _pool(pool_id, caller, database, now) as (connection, tenant_id, pool, _):
        found = pool_list.failed(connection, tenant_id, pool, after, limit + 1)
    shown, following = http.cut(found, limit, lambda one: (pool.offered_at, one.user_id))
    return FailedUsers(users=[FailedUser(**vars(one)) for one in shown], next=following)


def job(pool_id: str, user_id: str, caller: Caller, database: Database, now: datetime) -> OfferJob:
    """How a user's offers came about. Raises as `show`."""
    with _pool(pool_id, caller, database, now) as (connection, tenant_id, pool, slug):
        found = pool_list.job(connection, tenant_id, pool, item_id(user_id, NO_USER))
    if found is None:
        raise NotFoundError(NO_USER)
    facts = {name: value for name, value in vars(found).items() if name not in {"offers", "withdrawn", "letter"}}
    return OfferJob(
        **facts,
        tenant=slug,
        pool_id=pool.id,
        date=pool.date,
        timezone=pool.timezone,
        offers=[Offer(**one, isWithdrawn=one["userId"] in found.withdrawn) for one in found.offers],
        dead_letter=found.letter,
    )


@contextmanager
def _pool(
    pool_id: str, caller: Caller, database: Database, now: datetime
) -> Iterator[tuple[Connection, UUID, Pool, str]]:
    tenant_id, slug, id_ = owned(pool_id, pool_list.owner, caller, database, NO_POOL)
    with database.tenant(tenant_id) as connection:
        pool = pool_list.show(connection, tenant_id, id_, now)
        if pool is None:
            raise NotFoundError(NO_POOL)
        yield connection, tenant_id, pool, slug


def _facts(pool: Pool, slug: str) -> dict[str, object]:
    """What lists say of a pool."""
    names = OfferPool.model_fields.keys() - {"tenant"}
    return {"tenant": slug, **{name: getattr(pool, name) for name in names}}


def _shard(shard: pool_list.Shard) -> OfferShard:
    facts = {name: value for name, value in vars(shard).items() if name not in {"size", "letter"}}
    return OfferShard(**facts, users=shard.size, dead_letter=shard.letter)


routes = Routes()


@routes.get(
    "/api/admin/offers",
    summary="List pools of offers",
    tags=["offers"],
    responses=responses({200: (OfferPoolPage, "A page, the latest first.")}, 404, 422),
)
def list_pools(  # a query is this many parameters
    tenant: OneTenant = None,
    since: Annotated[Day | None, Query(alias="from", description="Of this date or a later one.")] = None,
    until: Annotated[Day | None, Query(alias="to", description="Of this date or an earlier one.")] = None,
    timezone: Annotated[PrintableText | None, Query(min_length=1, max_length=LONGEST_ZONE)] = None,
    state: Annotated[PoolState | None, Query()] = None,
    cursor: Cursor = None,
    limit: Limit = PAGE,
) -> Response[OfferPoolPage]:
    """A page of a tenant's pools: a date of a time zone each, and its progress."""
    wanted = Filter(tenant, since, until, timezone, state, cursor, limit)
    return answer(200, page(wanted, caller(), database(), datetime.now(UTC)))


@routes.get(
    "/api/admin/offers/<pool_id>",
    summary="Show a pool of offers",
    tags=["offers"],
    responses=responses({200: (OfferPoolDetail, "The pool.")}, 404, 422),
)
def show_pool(pool_id: Id) -> Response[OfferPoolDetail]:
    """One date of one time zone, with the shards that its users are served in."""
    return answer(200, show(pool_id, caller(), database(), datetime.now(UTC)))


@routes.get(
    "/api/admin/offers/<pool_id>/failed",
    summary="List users without their offers",
    tags=["offers"],
    responses=responses({200: (FailedUsers, "A page, by user id.")}, 404, 422),
)
def list_failed(pool_id: Id, cursor: Cursor = None, limit: Limit = PAGE) -> Response[FailedUsers]:
    """A page of the users of a pool whose offers failed, and why."""
    return answer(200, failed(pool_id, cursor, limit, caller(), database(), datetime.now(UTC)))


@routes.get(
    "/api/admin/offers/<pool_id>/users/<user_id>",
    summary="Show how a user's offers came about",
    tags=["offers"],
    responses=responses({200: (OfferJob, "The job.")}, 404, 422),
)
def show_job(pool_id: Id, user_id: Id) -> Response[OfferJob]:
    """One user's job of a date: its shard, its attempts, its inputs and the offers."""
    return answer(200, job(pool_id, user_id, caller(), database(), datetime.now(UTC)))
