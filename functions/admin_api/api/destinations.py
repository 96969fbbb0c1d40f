"""`/api/admin/tenants/{tenant}/destinations`: webhooks and exports for results.

All routes require the admin role for the tenant, because webhook URLs can contain credentials. Only admins for all
tenants can add webhooks that call allowlisted internal addresses.
"""

from typing import Annotated

from aws_lambda_powertools.event_handler import Response
from aws_lambda_powertools.event_handler.openapi.params import Body, Path
from pydantic import BaseModel, ConfigDict, Field

from counterfoil.audit import Change
from counterfoil.db import Connection
from counterfoil.settings import settings
from counterfoil.webhooks import destinations
from counterfoil.webhooks.destinations import Kind, NewDestination, Subject
from functions.admin_api.auth import ALL_TENANTS, Request, Role, Slug
from functions.admin_api.endpoint import Routes, TenantPath, json_response
from functions.admin_api.http import NotFoundError, responses


class DestinationForm(BaseModel):
    """A destination to add."""

    model_config = ConfigDict(extra="forbid")

    name: Slug
    kind: Kind
    address: str = Field(max_length=2048, description="URL of a webhook, or key prefix of an export to S3.")
    events: list[Subject] = Field(default=["cluster", "document"], min_length=1, max_length=3)


class Destination(BaseModel):
    """An active destination."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    kind: Kind
    address: str
    events: list[Subject]


class DestinationList(BaseModel):
    """A tenant's active destinations, sorted by name."""

    tenant: str
    destinations: list[Destination]


class AddedDestination(Destination):
    """A new destination."""

    secret: str | None = Field(description="Signing secret of a webhook, shown only once; null for an export.")


class RotatedSecret(BaseModel):
    """A webhook's new secret."""

    name: str
    secret: str = Field(
        description="New signing secret, shown only once. The previous secret stays valid for 24 hours."
    )


def add(connection: Connection, change: Change, form: DestinationForm, request: Request) -> AddedDestination:
    """Add a destination in its tenant's transaction.

    Raises:
        RejectedRequestError: see `destinations.add`.
    """
    allowlist = settings().webhook_allowlist if request.caller.has_role(Role.ADMIN, ALL_TENANTS) else ()
    new = NewDestination(form.name, form.kind, form.address, form.events)
    secret = destinations.add(connection, change, new, allowlist)
    return AddedDestination(**form.model_dump(), secret=secret)


routes = Routes()
_PATH = "/api/admin/tenants/<tenant>/destinations"
_FAILURES = (400, 404, 413, 415, 422, 429)
DestinationName = Annotated[Slug, Path(description="Name of the destination.")]


@routes.get(
    _PATH,
    summary="List destinations",
    tags=["destinations"],
    responses=responses({200: (DestinationList, "The active destinations.")}, 404, 422),
)
def list_destinations(request: Request, tenant: TenantPath) -> Response[DestinationList]:
    """List a tenant's active destinations, without secrets."""
    tenant_id, slug = request.tenant(tenant, Role.ADMIN)
    with request.database.tenant(tenant_id) as connection:
        active = destinations.list_active(connection, tenant_id)
    summaries = [Destination.model_validate(destination) for destination in active]
    return json_response(200, DestinationList(tenant=slug, destinations=summaries))


@routes.post(
    _PATH,
    summary="Add a destination",
    tags=["destinations"],
    responses=responses({201: (AddedDestination, "The destination was added.")}, *_FAILURES),
)
def add_destination(
    request: Request, tenant: TenantPath, body: Annotated[DestinationForm, Body()]
) -> Response[AddedDestination]:
    """Add a webhook or an export. New results are delivered to it."""
    change = request.setup("Adding a destination", tenant)
    return json_response(
        201, request.commit(change.tenant_id, lambda connection: add(connection, change, body, request))
    )


@routes.delete(
    f"{_PATH}/<name>",
    summary="Remove a destination",
    tags=["destinations"],
    responses=responses({204: (None, "The destination was removed.")}, *_FAILURES),
)
def remove_destination(request: Request, tenant: TenantPath, name: DestinationName) -> Response[None]:
    """Remove a destination.

    Pending deliveries are skipped. The name can be used again.
    """
    change = request.setup("Removing a destination", tenant)
    if not request.commit(change.tenant_id, lambda connection: destinations.remove(connection, change, name)):
        raise NotFoundError(f"There is no destination '{name}'.")
    return Response(204)


@routes.post(
    f"{_PATH}/<name>/rotate",
    summary="Rotate a webhook's secret",
    tags=["destinations"],
    responses=responses({200: (RotatedSecret, "The new secret.")}, *_FAILURES),
)
def rotate_secret(request: Request, tenant: TenantPath, name: DestinationName) -> Response[RotatedSecret]:
    """Create a new secret for a webhook.

    For 24 hours, calls are signed with both secrets.
    """
    change = request.setup("Rotating a secret", tenant)
    secret = request.commit(change.tenant_id, lambda connection: destinations.rotate_secret(connection, change, name))
    if secret is None:
        raise NotFoundError(f"There is no webhook '{name}'.")
    return json_response(200, RotatedSecret(name=name, secret=secret))
