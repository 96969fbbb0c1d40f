"""`/api/users`: profiles of people, whom they block, and what they are offered."""

from datetime import UTC, datetime
from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query

from functions.admin_api import users
from functions.admin_api.problems import responses
from functions.admin_api.routes.common import (
    PAGE,
    Cursor,
    Id,
    Limit,
    OneTenant,
    answer,
    caller,
    change,
    database,
    only,
    routes_of,
)

routes = routes_of()
FORMS = (users.ProfileForm,)
"""Of bodies."""
_BLOCK = "/api/users/<user_id>/blocks/<blocked_id>"


@routes.put(
    "/api/users/<user_id>/profile",
    summary="Keep a user's profile",
    tags=["users"],
    responses=responses(
        {201: (users.UserProfile, "It is new."), 200: (users.UserProfile, "It is in the place of the one before.")},
        *(400, 404, 409, 413, 415, 422, 429),
    ),
)
def put_profile(
    user_id: Id, profile: Annotated[users.ProfileForm, Body()], tenant: OneTenant = None
) -> Response[users.UserProfile]:
    """A person who may be offered to others from the next 9:00 where he is; the whole profile, whatever there was."""
    only("tenant")
    status, kept = users.put(user_id, tenant, profile, change())
    return answer(status, kept)


@routes.get(
    "/api/users/<user_id>/profile",
    summary="Show a user's profile",
    tags=["users"],
    responses=responses({200: (users.UserProfile, "The profile.")}, 404, 422),
)
def show_profile(user_id: Id, tenant: OneTenant = None) -> Response[users.UserProfile]:
    """A profile as it is kept."""
    only("tenant")
    return answer(200, users.show(user_id, tenant, caller(), database()))


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
    only("tenant")
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
    only("tenant", "cursor", "limit")
    return answer(200, users.blocks(user_id, tenant, cursor, limit, caller(), database()))


@routes.put(
    _BLOCK,
    summary="Block a user",
    tags=["users"],
    responses=responses({204: (None, "They are not offered to one another again.")}, 400, 404, 413, 415, 422, 429),
)
def block_user(user_id: Id, blocked_id: Id, tenant: OneTenant = None) -> Response[None]:
    """Two are never offered to one another again; what they were offered of each other is withdrawn."""
    only("tenant")
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
    only("tenant")
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
    only("tenant", "date")
    return answer(200, users.offered(user_id, tenant, date, caller(), database(), datetime.now(UTC)))
