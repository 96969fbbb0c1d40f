"""`/api/users`: profiles of a tenant's users, their blocks and their offers.

Reading requires the viewer role for the tenant, and changes require the operator role. Users of other tenants are not
found. A new profile replaces any version, unless `If-Match` names the version to replace.
"""

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Annotated, Literal
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from counterfoil.db import retry_on_conflict
from counterfoil.errors import RejectedRequestError
from counterfoil.offers import profiles
from counterfoil.offers.profiles import MAX_TRAITS, BlockedUser, Gender, JobState
from functions.admin_api import http
from functions.admin_api.auth import Request
from functions.admin_api.endpoint import (
    PAGE,
    VERSIONED,
    Cursor,
    Id,
    IfNoneMatch,
    Limit,
    OneTenant,
    Routes,
    json_response,
)
from functions.admin_api.http import NotFoundError, etag, is_current, required_version, responses

NO_USER = "There is no such user."
MAX_TIMEZONE_CHARS = 64
MAX_DISTANCE_KM = 20_100
"""About half of the earth's circumference."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _require_date(value: object) -> object:
    if not isinstance(value, date) and not (isinstance(value, str) and _DAY.fullmatch(value)):
        raise ValueError("should be a date, such as 2026-01-31")
    return value


Day = Annotated[date, BeforeValidator(_require_date)]
"""A date. Numbers and times are rejected."""
Exact = Field(strict=True, allow_inf_nan=False)
"""A number in a body. Text, NaN and infinities are rejected."""
Age = Annotated[int, Field(ge=18, le=120), http.WholeNumber]


class ProfileBody(BaseModel):
    """A user's profile, with criteria for the users who are offered to them."""

    model_config = ConfigDict(extra="forbid")

    timezone: str = Field(
        min_length=1,
        max_length=MAX_TIMEZONE_CHARS,
        description="IANA time zone, such as Europe/Berlin. Offers are made at 9:00 in this time zone.",
    )
    is_active: bool = Field(
        default=True, strict=True, description="Whether this user receives offers and is offered to others."
    )
    birth_date: Day
    gender: Gender
    seeks_genders: list[Gender] = Field(min_length=1, max_length=3, json_schema_extra={"uniqueItems": True})
    min_age: Age
    max_age: Age
    latitude: Annotated[float, Exact, Field(ge=-90, le=90)] = Field(description="Degrees north.")
    longitude: Annotated[float, Exact, Field(ge=-180, le=180)] = Field(description="Degrees east.")
    max_distance_km: Annotated[int, Field(ge=1, le=MAX_DISTANCE_KM), http.WholeNumber] = Field(
        description="Maximum distance to offered users, in kilometers."
    )
    traits: list[Annotated[float, Exact, Field(ge=-1, le=1)] | None] = Field(
        default_factory=list,
        max_length=MAX_TRAITS,
        description="The user's answers, in the same order for all users; null for an unanswered question.",
    )


class UserProfile(BaseModel):
    """A stored profile."""

    model_config = ConfigDict(from_attributes=True)

    user_id: UUID
    tenant: str
    timezone: str
    is_active: bool
    birth_date: date
    gender: Gender
    seeks_genders: list[Gender]
    min_age: int
    max_age: int
    latitude: float
    longitude: float
    max_distance_km: int
    traits: list[float | None]
    updated_at: datetime
    version: int = Field(description="Version, for `If-Match`.")


class Offer(BaseModel):
    """A stored offer to a user, with `isWithdrawn`."""

    model_config = ConfigDict(extra="allow")

    id: str
    userId: str = Field(description="The offered user.")  # noqa: N815  # offers are stored under these names
    compatibilityScore: int | float  # noqa: N815
    offeredAt: str  # noqa: N815
    expiresAt: str  # noqa: N815
    isWithdrawn: bool = Field(  # noqa: N815
        description="Whether the offer is withdrawn, because the offered user was deleted or is inactive, or one user "
        "blocked the other."
    )


class UserOffers(BaseModel):
    """Offers to a user on a date."""

    user_id: UUID
    tenant: str
    date: date
    timezone: str = Field(description="Time zone of the offers, or of the profile if there are no offers yet.")
    status: Literal["none"] | JobState = Field(
        description="none: not started, for example before 9:00. failed: an operator must retry the computation."
    )
    offers: list[Offer] = Field(description="Offers, best first. They do not change after the status is `completed`.")
    completed_at: datetime | None
    error: str | None = Field(description="Error from the last attempt; null if it did not fail.")


class BlockedUsers(BaseModel):
    """A page of blocked users."""

    users: list[BlockedUser]
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page.")


routes = Routes()
_PUT_RESPONSES = responses(
    {201: (UserProfile, "The profile was created."), 200: (UserProfile, "The profile was replaced.")},
    *(400, 404, 412, 413, 415, 422, 428, 429),
)
_PUT_RESPONSES[200]["headers"] = _PUT_RESPONSES[201]["headers"] = VERSIONED
_GET_RESPONSES = responses(
    {200: (UserProfile, "The profile."), 304: (None, "Unchanged: `If-None-Match` contains the current ETag.")}, 404, 422
)
_GET_RESPONSES[200]["headers"] = VERSIONED
_BLOCK_PATH = "/api/users/<user_id>/blocks/<blocked_id>"


@routes.put("/api/users/<user_id>/profile", summary="Store a user's profile", tags=["users"], responses=_PUT_RESPONSES)
def put_profile(
    request: Request,
    user_id: Id,
    body: Annotated[ProfileBody, Body()],
    tenant: OneTenant = None,
    if_match: Annotated[
        str | None,
        Header(alias="If-Match", description="ETag of the profile to replace. Default: any version."),
    ] = None,
) -> Response[UserProfile]:
    """Create or replace a profile.

    The user is offered to others from the next 9:00 in their time zone.
    """
    slug = request.slug(tenant)
    tenant_id = request.admit("Changing a profile", slug)
    id_ = _parse_user_id(user_id)
    profile = profiles.Profile(
        **{name: getattr(body, name) for name in ProfileBody.model_fields}, updated_at=request.now
    )
    profiles.check(profile, request.now)
    version = None if if_match is None else required_version(if_match)

    def put() -> tuple[bool, profiles.Profile | None]:
        with request.database.tenant(tenant_id) as connection:
            is_new = profiles.put(
                connection, tenant_id, id_, profile, by=request.caller.require_subject(), expected_version=version
            )
            return is_new, profiles.show(connection, tenant_id, id_)

    is_new, stored = retry_on_conflict(put)
    assert stored is not None  # `put` has just stored the profile
    return json_response(201 if is_new else 200, _profile(id_, slug, stored), {"ETag": etag(stored.version)})


@routes.get("/api/users/<user_id>/profile", summary="Show a user's profile", tags=["users"], responses=_GET_RESPONSES)
def show_profile(
    request: Request, user_id: Id, tenant: OneTenant = None, if_none_match: IfNoneMatch = None
) -> Response[UserProfile | None]:
    """Return a stored profile."""
    tenant_id, slug = request.tenant(tenant)
    id_ = _parse_user_id(user_id)
    with request.database.tenant(tenant_id) as connection:
        profile = profiles.show(connection, tenant_id, id_)
    if profile is None:
        raise NotFoundError(NO_USER)
    headers = {"ETag": etag(profile.version)}
    if is_current(if_none_match, profile.version):
        return Response(304, headers=headers)
    return json_response(200, _profile(id_, slug, profile), headers)


@routes.delete(
    "/api/users/<user_id>/profile",
    summary="Delete a user's profile",
    tags=["users"],
    responses=responses(
        {204: (None, "The profile was deleted, with the user's blocks and offers.")}, *(400, 404, 413, 415, 422, 429)
    ),
)
def delete_profile(request: Request, user_id: Id, tenant: OneTenant = None) -> Response[None]:
    """Delete a user.

    The user is no longer offered, and earlier offers of this user are withdrawn.
    """
    return _change(request, tenant, "Deleting a profile", profiles.remove, user_id)


@routes.put(
    _BLOCK_PATH,
    summary="Block a user",
    tags=["users"],
    responses=responses({204: (None, "The users are no longer offered to each other.")}, 400, 404, 413, 415, 422, 429),
)
def block_user(request: Request, user_id: Id, blocked_id: Id, tenant: OneTenant = None) -> Response[None]:
    """Block a user.

    The two users are no longer offered to each other, and earlier offers are withdrawn.
    """
    return _change(request, tenant, "Blocking", profiles.block, user_id, blocked_id)


@routes.delete(
    _BLOCK_PATH,
    summary="Unblock a user",
    tags=["users"],
    responses=responses({204: (None, "The block no longer exists.")}, *(400, 404, 413, 415, 422, 429)),
)
def unblock_user(request: Request, user_id: Id, blocked_id: Id, tenant: OneTenant = None) -> Response[None]:
    """Remove a block. A block by the other user remains."""
    return _change(request, tenant, "Unblocking", profiles.unblock, user_id, blocked_id)


def _change(
    request: Request, tenant: str | None, action: str, apply: Callable[..., bool], *users: str
) -> Response[None]:
    """Change a user in a transaction, and retry after a conflict."""
    tenant_id = request.admit(action, request.slug(tenant))
    ids = [_parse_user_id(user) for user in users]
    actor = request.caller.require_subject()
    if not request.commit(tenant_id, lambda connection: apply(connection, tenant_id, *ids, request.now, by=actor)):
        raise NotFoundError(NO_USER)
    return Response(204)


@routes.get(
    "/api/users/<user_id>/blocks",
    summary="List blocked users",
    tags=["users"],
    responses=responses({200: (BlockedUsers, "A page of blocked users, latest first.")}, 404, 422),
)
def list_blocks(
    request: Request, user_id: Id, tenant: OneTenant = None, cursor: Cursor = None, limit: Limit = PAGE
) -> BlockedUsers:
    """List the users that this user has blocked.

    Users who have blocked this user are not shown.
    """
    tenant_id, _ = request.tenant(tenant)
    id_, after = _parse_user_id(user_id), http.decode_cursor(cursor)
    with request.database.tenant(tenant_id) as connection:
        rows = profiles.blocks(connection, tenant_id, id_, after, limit + 1)
    if rows is None:
        raise NotFoundError(NO_USER)
    page, next_cursor = http.split_page(rows, limit, lambda block: (block.since, block.user_id))
    return BlockedUsers(users=list(page), next_cursor=next_cursor)


@routes.get(
    "/api/users/<user_id>/offers",
    summary="Show a user's offers",
    tags=["users"],
    responses=responses({200: (UserOffers, "The offers and their status.")}, 404, 422),
)
def show_offers(
    request: Request,
    user_id: Id,
    tenant: OneTenant = None,
    date: Annotated[Day | None, Query(description="Date in the user's time zone. Default: today.")] = None,
) -> UserOffers:
    """Return a user's offers for a date."""
    tenant_id, slug = request.tenant(tenant)
    id_ = _parse_user_id(user_id)
    with request.database.tenant(tenant_id) as connection:
        result = profiles.get_offers(connection, tenant_id, id_, date, request.now)
    if result is None:
        raise NotFoundError(NO_USER)
    return UserOffers(
        user_id=id_,
        tenant=slug,
        date=result.date,
        timezone=result.timezone,
        status=result.state or "none",
        offers=[Offer(**offer, isWithdrawn=offer["userId"] in result.withdrawn) for offer in result.offers],
        completed_at=result.completed_at,
        error=result.error,
    )


def _parse_user_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise RejectedRequestError("A user's id must be a UUID.") from None


def _profile(user_id: UUID, slug: str, profile: profiles.Profile) -> UserProfile:
    return UserProfile(user_id=user_id, tenant=slug, version=profile.version, **vars(profile))
