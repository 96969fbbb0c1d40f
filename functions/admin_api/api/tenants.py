"""`/api/admin/tenants`: tenants, their mail addresses and their admins.

Adding, renaming and disabling a tenant require the admin role for all tenants. A tenant's own admins can view its
setup, and change its mail addresses and admins.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from counterfoil import tenants
from counterfoil.audit import Change
from counterfoil.db import Connection, all_tenants, retry_on_conflict
from counterfoil.webhooks.destinations import list_active
from functions.admin_api.api import destinations
from functions.admin_api.api.destinations import AddedDestination, DestinationForm
from functions.admin_api.auth import ALL_TENANTS, MAX_ACTOR_CHARS, Request, Role, Slug, TenantSlug
from functions.admin_api.endpoint import PAGE, Limit, Routes, TenantPath, json_response
from functions.admin_api.http import ForbiddenError, responses

MAX_ADDRESSES = 100
"""Maximum number of addresses in one list of a request."""
Name = Annotated[
    str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True, pattern=r"^[^\x00-\x1f\x7f]*$")
]
Addresses = Annotated[list[Annotated[str, Field(max_length=tenants.MAX_EMAIL_CHARS)]], Field(max_length=MAX_ADDRESSES)]
FAILURES = (400, 404, 413, 415, 422, 429)


class TenantSummary(BaseModel):
    """A tenant in a list."""

    model_config = ConfigDict(from_attributes=True)

    slug: str
    name: str
    disabled_at: datetime | None = Field(description="Time at which the tenant was disabled; null if it is enabled.")


class TenantPage(BaseModel):
    """Tenants, ordered by slug."""

    tenants: list[TenantSummary]
    unassigned: bool = Field(description="Whether the caller may also view unassigned dead letters (tenant `-`).")
    next_cursor: str | None = Field(description="Cursor of the next page; null on the last page.")


class TenantDetail(BaseModel):
    """A tenant with its setup."""

    id: UUID
    slug: str
    name: str
    organization: str
    created_at: datetime
    disabled_at: datetime | None = Field(description="Time at which the tenant was disabled; null if it is enabled.")
    addresses: list[str] = Field(description="Mail addresses whose mail belongs to the tenant.")
    admins: list[str] = Field(description="Email addresses that are notified of the tenant's failures.")


class NewTenant(BaseModel):
    """A tenant to add."""

    model_config = ConfigDict(extra="forbid")

    slug: Slug = Field(description="Slug of the tenant. It cannot be changed, because upload keys contain it.")
    name: Name | None = Field(default=None, description="Default: the slug.")
    organization: Name = tenants.DEFAULT_ORGANIZATION
    addresses: Addresses = Field(default=[], description="Mail addresses whose mail belongs to the tenant.")
    admins: Addresses = Field(default=[], description="Email addresses that are notified of the tenant's failures.")
    destinations: list[DestinationForm] = Field(default=[], max_length=20)


class AddedTenant(TenantDetail):
    """A tenant that was added, or that already existed."""

    is_new: bool
    destinations: list[AddedDestination] = Field(description="The new destinations, with their secrets.")


class TenantChange(BaseModel):
    """Changes to a tenant. Omitted fields remain unchanged."""

    model_config = ConfigDict(extra="forbid")

    name: Name | None = None
    is_disabled: bool | None = Field(
        default=None, description="A disabled tenant accepts no uploads, mail or changes. Its data stays readable."
    )


class AddressChange(BaseModel):
    """Addresses to add and remove. Either all changes are made or none."""

    model_config = ConfigDict(extra="forbid")

    added: Addresses = []
    removed: Addresses = []


class AddressList(BaseModel):
    """A tenant's addresses after a change."""

    tenant: str
    addresses: list[str]


routes = Routes()


@routes.get(
    "/api/admin/tenants",
    summary="List tenants",
    tags=["tenants"],
    responses=responses({200: (TenantPage, "A page of tenants, sorted by slug.")}, 422),
)
def list_tenants(
    request: Request,
    cursor: Annotated[TenantSlug | None, Query(description="`next_cursor` of the previous page.")] = None,
    limit: Limit = PAGE,
) -> Response[TenantPage]:
    """List the tenants that the caller may view."""
    caller = request.caller
    if caller.role < Role.VIEWER or not caller.tenants:
        raise ForbiddenError("Listing tenants requires the viewer role for a tenant. Ask an admin.")
    visible = None if ALL_TENANTS in caller.tenants else sorted(caller.tenants)
    with all_tenants(request.database) as connection:
        rows = tenants.page(connection, visible, cursor or "", limit + 1)
    page = [TenantSummary.model_validate(tenant) for tenant in rows[:limit]]
    next_cursor = page[-1].slug if len(rows) > limit else None
    return json_response(200, TenantPage(tenants=page, unassigned=visible is None, next_cursor=next_cursor))


@routes.post(
    "/api/admin/tenants",
    summary="Add a tenant",
    tags=["tenants"],
    responses=responses(
        {201: (AddedTenant, "The tenant was added."), 200: (AddedTenant, "The tenant already existed.")}, *FAILURES
    ),
)
def add_tenant(request: Request, body: Annotated[NewTenant, Body()]) -> Response[AddedTenant]:
    """Add a tenant with its setup, in one transaction.

    An existing tenant gets only the missing settings.
    """
    actor = request.admit_for_all("Adding a tenant")[:MAX_ACTOR_CHARS]

    def add() -> AddedTenant:
        with all_tenants(request.database) as connection:
            change, is_new = tenants.add(connection, body.slug, body.name, body.organization, actor, request.now)
            addresses = tenants.change_addresses(connection, change, body.addresses)
            admins = tenants.change_admins(connection, change, body.admins)
            existing = {
                (destination.name, destination.kind, destination.address)
                for destination in list_active(connection, change.tenant_id)
            }
            added_destinations = [
                destinations.add(connection, change, form, request)
                for form in body.destinations
                if (form.name, form.kind, form.address) not in existing
            ]
            tenant = tenants.find(connection, change.tenant_id)
        return AddedTenant(
            **vars(tenant), addresses=addresses, admins=admins, is_new=is_new, destinations=added_destinations
        )

    result = retry_on_conflict(add)
    return json_response(201 if result.is_new else 200, result)


@routes.get(
    "/api/admin/tenants/<tenant>",
    summary="Show a tenant",
    tags=["tenants"],
    responses=responses({200: (TenantDetail, "The tenant's setup.")}, 404, 422),
)
def show_tenant(request: Request, tenant: TenantPath) -> Response[TenantDetail]:
    """Show a tenant's names, addresses and admins."""
    return json_response(200, _detail(request, request.tenant(tenant, Role.ADMIN).id))


@routes.patch(
    "/api/admin/tenants/<tenant>",
    summary="Rename, disable or enable a tenant",
    tags=["tenants"],
    responses=responses({200: (TenantDetail, "The change was stored.")}, *FAILURES),
)
def change_tenant(
    request: Request, tenant: TenantPath, body: Annotated[TenantChange, Body()]
) -> Response[TenantDetail]:
    """Change a tenant's full name, and disable or enable it."""
    actor = request.admit_for_all("Changing a tenant")[:MAX_ACTOR_CHARS]
    tenant_id = request.tenant(tenant, Role.ADMIN).id

    def apply() -> None:
        with request.database.tenant(tenant_id) as connection:
            change = Change(tenant_id, actor, request.now)
            if body.name is not None:
                tenants.rename(connection, change, body.name)
            if body.is_disabled is not None:
                tenants.set_disabled(connection, change, is_disabled=body.is_disabled)

    retry_on_conflict(apply)
    return json_response(200, _detail(request, tenant_id))


def _detail(request: Request, tenant_id: UUID) -> TenantDetail:
    with request.database.tenant(tenant_id) as connection:
        tenant = tenants.find(connection, tenant_id)
        addresses, admins = tenants.list_addresses(connection, tenant_id), tenants.list_admins(connection, tenant_id)
    return TenantDetail(**vars(tenant), addresses=addresses, admins=admins)


_ADDRESS_RESPONSES = responses({200: (AddressList, "The addresses after the change.")}, *FAILURES)


@routes.patch(
    "/api/admin/tenants/<tenant>/addresses",
    summary="Change a tenant's mail addresses",
    tags=["tenants"],
    responses=_ADDRESS_RESPONSES,
)
def change_addresses(
    request: Request, tenant: TenantPath, body: Annotated[AddressChange, Body()]
) -> Response[AddressList]:
    """Add and remove addresses that receive a tenant's mail.

    Mail that arrived before its address was added is an unassigned dead letter. Retry it to assign it to the tenant.
    """
    return _change_list(request, tenant, body, "Changing mail addresses", tenants.change_addresses)


@routes.patch(
    "/api/admin/tenants/<tenant>/admins",
    summary="Change a tenant's admins",
    tags=["tenants"],
    responses=_ADDRESS_RESPONSES,
)
def change_admins(
    request: Request, tenant: TenantPath, body: Annotated[AddressChange, Body()]
) -> Response[AddressList]:
    """Add and remove email addresses that are notified of a tenant's failures.

    They grant no access.
    """
    return _change_list(request, tenant, body, "Changing admins", tenants.change_admins)


def _change_list(
    request: Request,
    tenant: str,
    body: AddressChange,
    action: str,
    apply: Callable[[Connection, Change, Sequence[str], Sequence[str]], list[str]],
) -> Response[AddressList]:
    change = request.setup(action, tenant)
    addresses = request.commit(change.tenant_id, lambda connection: apply(connection, change, body.added, body.removed))
    return json_response(200, AddressList(tenant=tenant, addresses=addresses))
