"""`/api/users`: people who may be offered to one another, whom they block, and what they are offered.

Programs of a tenant ask for its users. Looking takes the role viewer for the tenant, changing takes operator; users of
other tenants are answered as users who do not exist. Who puts a profile in the place of another one may name its
version in If-Match; without it, and when deleting and blocking, whatever there is by then is meant.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Annotated, Literal, TypeVar
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Query
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from counterfoil.db import Connection, Database, retry_conflicts
from counterfoil.errors import RejectedRequestError
from counterfoil.offers import profiles
from counterfoil.offers.profiles import MOST_TRAITS, Gender, JobState
from functions.admin_api import http
from functions.admin_api.auth import Caller, Request, viewed
from functions.admin_api.endpoint import (
    PAGE,
    VERSIONED,
    Cursor,
    Id,
    IfNoneMatch,
    Limit,
    OneTenant,
    Routes,
    answer,
    caller,
    database,
    request,
)
from functions.admin_api.http import NotFoundError, etag, is_current, required_version, responses

T = TypeVar("T")

NO_USER = "There is no such user."
LONGEST_ZONE = 64
LONGEST_REACH = 20_100
"""Kilometres: all the way around."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _written_out(value: object) -> object:
    if not isinstance(value, date) and not (isinstance(value, str) and _DAY.fullmatch(value)):
        raise ValueError("should be a date, such as 2026-01-31")
    return value


Day = Annotated[date, BeforeValidator(_written_out)]
"""A date, and no bare number or time."""
Exact = Field(strict=True, allow_inf_nan=False)
"""Of a number in a body: no text, and none that is none."""
Age = Annotated[int, Field(ge=18, le=120), http.whole]


class ProfileForm(BaseModel):
    """A person who may be offered to others, and who is sought."""

    model_config = ConfigDict(extra="forbid")

    timezone: str = Field(
        min_length=1, max_length=LONGEST_ZONE, description="Of IANA, such as Europe/Berlin: offers come at 9:00 there."
    )
    is_active: bool = Field(
        default=True, strict=True, description="Whether this person is offered, and offered others."
    )
    born: Day
    gender: Gender
    seeks: list[Gender] = Field(min_length=1, max_length=3, json_schema_extra={"uniqueItems": True})
    min_age: Age
    max_age: Age
    latitude: Annotated[float, Exact, Field(ge=-90, le=90)] = Field(description="Degrees north.")
    longitude: Annotated[float, Exact, Field(ge=-180, le=180)] = Field(description="Degrees east.")
    reach_km: Annotated[int, Field(ge=1, le=LONGEST_REACH), http.whole] = Field(
        description="How far away others may be."
    )
    traits: list[Annotated[float, Exact, Field(ge=-1, le=1)] | None] = Field(
        default_factory=list,
        max_length=MOST_TRAITS,
        description="Answers of the person, in an order that is the same for all; null: not answered.",
    )


class UserProfile(BaseModel):
    """Show a stored profile."""

    model_config = ConfigDict(from_attributes=True)

    user_id: UUID
    tenant: str
    timezone: str
    is_active: bool
    born: date
    gender: Gender
    seeks: list[Gender]
    min_age: int
    max_age: int
    latitude: float
    longitude: float
    reach_km: int
    traits: list[float | None]
    changed_at: datetime
    version: int = Field(description="Grows with each change; who puts another in its place may name it in If-Match.")


class Offer(BaseModel):
    """Somebody who was offered to a user: as it was stored, but for `isWithdrawn`."""

    model_config = ConfigDict(extra="allow")

    id: str
    userId: str = Field(description="The person who is offered.")  # noqa: N815  # offers are stored under these names
    compatibilityScore: int | float  # noqa: N815
    offeredAt: str  # noqa: N815
    expiresAt: str  # noqa: N815
    isWithdrawn: bool = Field(  # noqa: N815
        description="Whether it is not to be shown any more: the person has gone, is inactive, blocks or is blocked."
    )


class UserOffers(BaseModel):
    """What a user is offered on a date."""

    user_id: UUID
    tenant: str
    date: date
    timezone: str = Field(description="In which the offers were or are to be made: of the profile where none are yet.")
    status: Literal["none"] | JobState = Field(
        description="none: nothing was begun for this date, as before 9:00 of it; failed: it waits for a person."
    )
    offers: list[Offer] = Field(description="The best first. They never change once the status is completed.")
    completed_at: datetime | None
    error: str | None = Field(description="Why it failed, or is to be tried again.")


class BlockedUser(BaseModel):
    """Somebody whom a user has blocked."""

    model_config = ConfigDict(from_attributes=True)

    user_id: UUID
    since: datetime


class BlockedUsers(BaseModel):
    """A page of those whom a user has blocked."""

    users: list[BlockedUser]
    next: str | None = Field(description="Give it as `cursor` for the page that follows; null: this is the last one.")


def put(
    user_id: str, named: str | None, form: ProfileForm, condition: str | None, request: Request
) -> tuple[int, UserProfile]:
    """Keep a profile: a new one (201), or in the place of the one that there is (200), which If-Match may name.

    Raises:
        RejectedRequestError: it makes no sense.
        NoConditionError: If-Match is there, and names nothing.
        VersionError, ProfileChangedError: it names another version, or there is none.
        ForbiddenError, NotFoundError, TooManyError: see `Request.admit`.
        DatabaseUnavailableError: this cannot be done just now.
    """
    slug = request.slug(named)
    tenant_id = request.admit("Changing a profile", slug)
    id_ = _user(user_id)
    profile = profiles.Profile(
        **{name: getattr(form, name) for name in ProfileForm.model_fields}, changed_at=request.now
    )
    profiles.check(profile, request.now)
    version = None if condition is None else required_version(condition)

    def write(connection: Connection) -> tuple[bool, profiles.Profile | None]:
        is_new = profiles.put(connection, tenant_id, id_, profile, by=request.caller.named(), seen=version)
        return is_new, profiles.show(connection, tenant_id, id_)

    is_new, kept = _in_transaction(request, tenant_id, write)
    assert kept is not None  # it was written in this transaction
    return (201 if is_new else 200), _told(id_, slug, kept)


def show(user_id: str, named: str | None, caller: Caller, database: Database) -> UserProfile:
    """A profile.

    Raises:
        NotFoundError: there is none, or none of this tenant.
        RejectedRequestError, ForbiddenError, DatabaseUnavailableError: see `viewed`.
    """
    tenant_id, slug = viewed(database, named, caller)
    id_ = _user(user_id)
    with database.tenant(tenant_id) as connection:
        found = profiles.show(connection, tenant_id, id_)
    if found is None:
        raise NotFoundError(NO_USER)
    return _told(id_, slug, found)


def remove(user_id: str, named: str | None, request: Request) -> None:
    """Delete a profile, with what the user was ever offered. Raises as `put`; NotFoundError where there is none."""
    tenant_id = request.admit("Deleting a profile", request.slug(named))
    id_ = _user(user_id)
    by = request.caller.named()
    _must(_in_transaction(request, tenant_id, lambda c: profiles.remove(c, tenant_id, id_, request.now, by=by)))


def block(user_id: str, blocked_id: str, named: str | None, request: Request) -> None:
    """Let two never be offered to one another again. Raises as `put`; NotFoundError where the first has no profile."""
    tenant_id = request.admit("Blocking", request.slug(named))
    ids = _user(user_id), _user(blocked_id)
    by = request.caller.named()
    _must(_in_transaction(request, tenant_id, lambda c: profiles.block(c, tenant_id, *ids, request.now, by=by)))


def unblock(user_id: str, blocked_id: str, named: str | None, request: Request) -> None:
    """Take a block back, where there is one. Raises as `block`."""
    tenant_id = request.admit("Unblocking", request.slug(named))
    ids = _user(user_id), _user(blocked_id)
    by = request.caller.named()
    _must(_in_transaction(request, tenant_id, lambda c: profiles.unblock(c, tenant_id, *ids, request.now, by=by)))


def blocks(
    user_id: str, named: str | None, cursor: str | None, limit: int, caller: Caller, database: Database
) -> BlockedUsers:
    """A page of those whom a user has blocked, the latest first.

    Raises:
        NotFoundError: the user has no profile, or none of this tenant.
        RejectedRequestError, ForbiddenError, DatabaseUnavailableError: see `viewed`.
    """
    tenant_id, _ = viewed(database, named, caller)
    id_, after = _user(user_id), None if cursor is None else http.after(cursor)
    with database.tenant(tenant_id) as connection:
        found = profiles.blocks(connection, tenant_id, id_, after, limit + 1)
    if found is None:
        raise NotFoundError(NO_USER)
    shown, following = http.cut(found, limit, lambda one: (one.since, one.user_id))
    return BlockedUsers(users=[BlockedUser.model_validate(one) for one in shown], next=following)


def offered(
    user_id: str, named: str | None, day: date | None, caller: Caller, database: Database, now: datetime
) -> UserOffers:
    """A user's offers of a date, by default of today where he is.

    Raises:
        NotFoundError: the user has no profile, or none of this tenant.
        RejectedRequestError, ForbiddenError, DatabaseUnavailableError: see `viewed`.
    """
    tenant_id, slug = viewed(database, named, caller)
    id_ = _user(user_id)
    with database.tenant(tenant_id) as connection:
        found = profiles.offered(connection, tenant_id, id_, day, now)
    if found is None:
        raise NotFoundError(NO_USER)
    return UserOffers(
        user_id=id_,
        tenant=slug,
        date=found.date,
        timezone=found.timezone,
        status=found.state or "none",
        offers=[Offer(**one, isWithdrawn=one["userId"] in found.withdrawn) for one in found.offers],
        completed_at=found.completed_at,
        error=found.error,
    )


def _in_transaction(request: Request, tenant_id: UUID, act: Callable[[Connection], T]) -> T:
    """Run `act` in a transaction of the tenant, again after a conflict with another change of the tenant."""

    def once() -> T:
        with request.database.tenant(tenant_id) as connection:
            return act(connection)

    return retry_conflicts(once)


def _user(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise RejectedRequestError("A user's id is a UUID.") from None


def _must(found: bool) -> None:
    if not found:
        raise NotFoundError(NO_USER)


def _told(user_id: UUID, slug: str, profile: profiles.Profile) -> UserProfile:
    return UserProfile(user_id=user_id, tenant=slug, version=profile.version, **vars(profile))


routes = Routes()
_KEPT = responses(
    {201: (UserProfile, "It is new."), 200: (UserProfile, "It replaces the one before.")},
    *(400, 404, 412, 413, 415, 422, 428, 429),
)
_KEPT[200]["headers"] = _KEPT[201]["headers"] = VERSIONED
_SHOWN = responses(
    {200: (UserProfile, "The profile."), 304: (None, "It is still the one that If-None-Match names.")}, 404, 422
)
_SHOWN[200]["headers"] = VERSIONED
_BLOCK = "/api/users/<user_id>/blocks/<blocked_id>"


@routes.put("/api/users/<user_id>/profile", summary="Keep a user's profile", tags=["users"], responses=_KEPT)
def put_profile(
    user_id: Id,
    profile: Annotated[ProfileForm, Body()],
    tenant: OneTenant = None,
    condition: Annotated[
        str | None,
        Header(
            alias="If-Match",
            description="The ETag of the profile that is replaced; without it, whichever there is.",
        ),
    ] = None,
) -> Response[UserProfile]:
    """Store a whole profile. The user is offered to others from the next 9:00 in their time zone."""
    status, kept = put(user_id, tenant, profile, condition, request())
    return answer(status, kept, {"ETag": etag(kept.version)})


@routes.get("/api/users/<user_id>/profile", summary="Show a user's profile", tags=["users"], responses=_SHOWN)
def show_profile(user_id: Id, tenant: OneTenant = None, known: IfNoneMatch = None) -> Response[UserProfile | None]:
    """Show a stored profile."""
    found = show(user_id, tenant, caller(), database())
    headers = {"ETag": etag(found.version)}
    return Response(304, headers=headers) if is_current(known, found.version) else answer(200, found, headers)


@routes.delete(
    "/api/users/<user_id>/profile",
    summary="Delete a user's profile",
    tags=["users"],
    responses=responses(
        {204: (None, "It is removed, with the user's blocks and offers.")}, *(400, 404, 413, 415, 422, 429)
    ),
)
def delete_profile(user_id: Id, tenant: OneTenant = None) -> Response[None]:
    """Remove a user, who is no longer offered to others. Earlier offers of the user are withdrawn."""
    remove(user_id, tenant, request())
    return Response(204)


@routes.get(
    "/api/users/<user_id>/blocks",
    summary="List blocked users",
    tags=["users"],
    responses=responses({200: (BlockedUsers, "A page, the latest first.")}, 404, 422),
)
def list_blocks(
    user_id: Id, tenant: OneTenant = None, cursor: Cursor = None, limit: Limit = PAGE
) -> Response[BlockedUsers]:
    """List the users that this user has blocked. Nothing shows the users that have blocked this one."""
    return answer(200, blocks(user_id, tenant, cursor, limit, caller(), database()))


@routes.put(
    _BLOCK,
    summary="Block a user",
    tags=["users"],
    responses=responses({204: (None, "They are not offered to each other again.")}, 400, 404, 413, 415, 422, 429),
)
def block_user(user_id: Id, blocked_id: Id, tenant: OneTenant = None) -> Response[None]:
    """Never offer two users to each other again. Earlier offers of each other are withdrawn."""
    block(user_id, blocked_id, tenant, request())
    return Response(204)


@routes.delete(
    _BLOCK,
    summary="Unblock a user",
    tags=["users"],
    responses=responses({204: (None, "There is no such block, any more or at all.")}, *(400, 404, 413, 415, 422, 429)),
)
def unblock_user(user_id: Id, blocked_id: Id, tenant: OneTenant = None) -> Response[None]:
    """A block is taken back. One of the other person's stands."""
    unblock(user_id, blocked_id, tenant, request())
    return Response(204)


@routes.get(
    "/api/users/<user_id>/offers",
    summary="Show a user's offers",
    tags=["users"],
    responses=responses({200: (UserOffers, "The offers, or their progress.")}, 404, 422),
)
def show_offers(
    user_id: Id,
    tenant: OneTenant = None,
    date: Annotated[Day | None, Query(description="In the user's own calendar. Default: today there.")] = None,
) -> Response[UserOffers]:
    """Show the offers of a user for a date. Users without a profile have none."""
    return answer(200, offered(user_id, tenant, date, caller(), database(), datetime.now(UTC)))
