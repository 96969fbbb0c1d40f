"""`/api/users`: profiles of people, whom they block, and what they are offered."""

from datetime import UTC, datetime
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Header, Query

from functions.admin_api import users
from functions.admin_api.etags import etag, names
from functions.admin_api.problems import responses
from functions.admin_api.routes.common import (
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
    change,
    database,
)

routes = Routes()
FORMS = (users.ProfileForm,)
"""Of bodies."""
_KEPT = responses(
    {201: (users.UserProfile, "It is new."), 200: (users.UserProfile, "It is in the place of the one before.")},
    *(400, 404, 412, 413, 415, 422, 428, 429),
)
_KEPT[200]["headers"] = _KEPT[201]["headers"] = VERSIONED
_SHOWN = responses(
    {200: (users.UserProfile, "The profile."), 304: (None, "It is still the one that If-None-Match names.")}, 404, 422
)
_SHOWN[200]["headers"] = VERSIONED
_BLOCK = "/api/users/<user_id>/blocks/<blocked_id>"


@routes.put("/api/users/<user_id>/profile", summary="Keep a user's profile", tags=["users"], responses=_KEPT)
def put_profile(
    user_id: Id,
    profile: Annotated[users.ProfileForm, Body()],
    tenant: OneTenant = None,
    condition: Annotated[
        str | None,
        Header(
            alias="If-Match",
            description="The ETag of the profile that is replaced; without it, whichever there is.",
        ),
    ] = None,
) -> Response[users.UserProfile]:
    """A person who may be offered to others from the next 9:00 where he is; the whole profile, in the place of any."""
    status, kept = users.put(user_id, tenant, profile, condition, change())
    return answer(status, kept, {"ETag": etag(kept.version)})


@routes.get("/api/users/<user_id>/profile", summary="Show a user's profile", tags=["users"], responses=_SHOWN)
def show_profile(
    user_id: Id, tenant: OneTenant = None, known: IfNoneMatch = None
) -> Response[users.UserProfile | None]:
    """A profile as it is kept."""
    found = users.show(user_id, tenant, caller(), database())
    headers = {"ETag": etag(found.version)}
    return Response(304, headers=headers) if names(known, found.version) else answer(200, found, headers)


@routes.delete(
    "/api/users/<user_id>/profile",
    summary="Delete a user's profile",
    tags=["users"],
    responses=responses(
        {204: (None, "It is gone, with the user's blocks and offers.")}, *(400, 404, 413, 415, 422, 429)
    ),
)
def delete_profile(user_id: Id, tenant: OneTenant = None) -> Response[None]:
    """A person who is offered to nobody any more. What others were offered of him is withdrawn."""
    users.remove(user_id, tenant, change())
    return Response(204)


@routes.get(
    "/api/users/<user_id>/blocks",
    summary="List whom a user has blocked",
    tags=["users"],
    responses=responses({200: (users.BlockedUsers, "A page, the latest first.")}, 404, 422),
)
def list_blocks(
    user_id: Id, tenant: OneTenant = None, cursor: Cursor = None, limit: Limit = PAGE
) -> Response[users.BlockedUsers]:
    """A page of those whom this user has blocked; who has blocked this user is told to nobody."""
    return answer(200, users.blocks(user_id, tenant, cursor, limit, caller(), database()))


@routes.put(
    _BLOCK,
    summary="Block a user",
    tags=["users"],
    responses=responses({204: (None, "They are not offered to one another again.")}, 400, 404, 413, 415, 422, 429),
)
def block_user(user_id: Id, blocked_id: Id, tenant: OneTenant = None) -> Response[None]:
    """Two are never offered to one another again; what they were offered of each other is withdrawn."""
    users.block(user_id, blocked_id, tenant, change())
    return Response(204)


@routes.delete(
    _BLOCK,
    summary="Unblock a user",
    tags=["users"],
    responses=responses({204: (None, "There is no such block, any more or at all.")}, *(400, 404, 413, 415, 422, 429)),
)
def unblock_user(user_id: Id, blocked_id: Id, tenant: OneTenant = None) -> Response[None]:
    """A block is taken back. One of the other person's stands."""
    users.unblock(user_id, blocked_id, tenant, change())
    return Response(204)


@routes.get(
    "/api/users/<user_id>/offers",
    summary="Show a user's offers",
    tags=["users"],
    responses=responses({200: (users.UserOffers, "The offers, or how far they are.")}, 404, 422),
)
def show_offers(
    user_id: Id,
    tenant: OneTenant = None,
    date: Annotated[
        users.Day | None, Query(description="Of the user's own calendar; by default today where he is.")
    ] = None,
) -> Response[users.UserOffers]:
    """Who is offered to a user on a date. Users without a profile have none."""
    return answer(200, users.offered(user_id, tenant, date, caller(), database(), datetime.now(UTC)))
