"""Tenants of the local cloud, for tools and tests without the API."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

import psycopg

from cli.failures import UsageError
from cli.local.cloud import Cloud
from counterfoil import tenants
from counterfoil.audit import Change
from counterfoil.db import Connection, translate_error
from counterfoil.validation import UNASSIGNED
from counterfoil.webhooks import destinations
from counterfoil.webhooks.destinations import NewDestination

OWNER = "counterfoil_owner"
"""Role that owns the tables."""
TOOL = "counterfoil"
"""Actor of changes made by tools, such as adding the demo's tenants."""
ORGANIZATION = "Local"
LOCAL_ALLOWLIST = ("127.0.0.0/8", "::1/128")
"""Internal addresses that functions of the local cloud may call."""


@dataclass(frozen=True)
class Tenant:
    """Id and slug of a tenant."""

    id: UUID
    slug: str


def list_tenants(cloud: Cloud) -> list[Tenant]:
    """Return all tenants, sorted by slug."""
    with cloud.database.delivery() as connection:
        rows = connection.execute("SELECT id, slug FROM tenant ORDER BY slug").fetchall()
    return [Tenant(*row) for row in rows]


def select_tenants(cloud: Cloud, slug: str | None) -> list[Tenant]:
    """Return the tenant with this slug, or all tenants if `slug` is None.

    Raises:
        UsageError: the tenant does not exist.
    """
    if slug == UNASSIGNED:
        raise UsageError("'-' is not a tenant. To list unassigned dead letters: counterfoil dlq list --tenant -")
    known = list_tenants(cloud)
    if slug is None:
        return known
    matches = [tenant for tenant in known if tenant.slug == slug]
    if not matches:
        names = ", ".join(tenant.slug for tenant in known[:10]) + (", ..." if len(known) > 10 else "")
        hint = f"Existing tenants: {names}." if known else "No tenant exists."
        raise UsageError(f"Unknown tenant '{slug}'. {hint} To add it: counterfoil tenants add {slug}")
    return matches


@contextmanager
def as_owner(cloud: Cloud) -> Iterator[Connection]:
    """Open a transaction as the role that owns the tables."""
    try:
        with psycopg.connect(cloud.database_url(OWNER)) as connection:
            yield connection
    except psycopg.Error as error:
        raise translate_error(error) from error


def add_tenant(
    cloud: Cloud,
    slug: str,
    name: str | None = None,
    *,
    addresses: Sequence[str] = (),
    new_destinations: Sequence[NewDestination] = (),
) -> tuple[Tenant, list[str | None]]:
    """Add a tenant with addresses and destinations.

    An existing tenant gets only the missing ones.

    Returns the tenant, and the secret of each new destination (None for an export).
    """
    with as_owner(cloud) as connection:
        now = connection.execute("SELECT clock_timestamp()").fetchall()[0][0]
        change, _ = tenants.add(connection, slug, name, ORGANIZATION, TOOL, now)
        tenants.change_addresses(connection, change, addresses)
        known = {
            (destination.name, destination.address)
            for destination in destinations.list_active(connection, change.tenant_id)
        }
        secrets = [
            destinations.add(connection, change, new_destination, LOCAL_ALLOWLIST)
            for new_destination in new_destinations
            if (new_destination.name, new_destination.address) not in known
        ]
    return Tenant(change.tenant_id, slug), secrets


def remove_destination(cloud: Cloud, tenant: Tenant, name: str) -> None:
    """Remove a tenant's destination."""
    with as_owner(cloud) as connection:
        destinations.remove(connection, Change(tenant.id, TOOL, cloud.database.now()), name)
