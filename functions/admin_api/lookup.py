"""`/api/admin/tenants`, `/api/admin/dlq/named`: what there is to look at, for programs in which people name things.

People name dead letters, operations and purges by the ends of their ids, and groups by the beginnings of their
fingerprints, as tables show them. Nothing is found of a tenant that the caller may not look at.
"""

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field, StringConstraints

from counterfoil.db import Database
from counterfoil.dead_letters import named
from counterfoil.dead_letters.named import Kind
from functions.admin_api.auth import EVERY_TENANT, UNASSIGNED, Caller, Role
from functions.admin_api.http import ForbiddenError

Part = Annotated[str, StringConstraints(pattern=f"^[0-9a-f-]{{{named.LEAST},36}}$")]


class TenantPage(BaseModel):
    """Tenants ordered by slug."""

    tenants: list[str]
    unassigned: bool = Field(description="Whether the caller may also see unassigned dead letters, as tenant `-`.")
    next: str | None = Field(description="Cursor of the next page.")


class NamedThing(BaseModel):
    """Something that was named by a part of its id."""

    id: UUID | str = Field(description="Of a group, its fingerprint.")
    tenant: str = Field(description="Whose it is; `-`: nobody's. A group may be of others, too.")


class NamedThings(BaseModel):
    """What a part of an id names."""

    found: list[NamedThing] = Field(description="Two at most: then it names more than one.")


def tenants(cursor: str | None, limit: int, caller: Caller, database: Database) -> TenantPage:
    """A page of the tenants that the caller may look at.

    Raises:
        ForbiddenError: the caller may look at none.
        DatabaseUnavailableError: this cannot be known just now.
    """
    visible = _visible(caller)
    with database.delivery() as connection:
        found = connection.execute(
            "SELECT slug FROM tenant WHERE (%(slugs)s::text[] IS NULL OR slug = ANY(%(slugs)s)) AND slug > %(after)s"
            " ORDER BY slug LIMIT %(limit)s",
            {"slugs": visible, "after": cursor or "", "limit": limit + 1},
        ).fetchall()
    slugs = [slug for (slug,) in found[:limit]]
    return TenantPage(tenants=slugs, unassigned=visible is None, next=slugs[-1] if len(found) > limit else None)


def find(kind: Kind, part: str, caller: Caller, database: Database) -> NamedThings:
    """What of a kind the caller may look at, and a part of its id names. Raises as `tenants`."""
    slugs = _visible(caller)
    with database.delivery() as connection:
        found = named.find(connection, kind, part, slugs)
    return NamedThings(found=[NamedThing(id=id_, tenant=slug or UNASSIGNED) for id_, slug in found])


def _visible(caller: Caller) -> list[str] | None:
    """The tenants that the caller may look at, by slug; None: all of them, and what is nobody's."""
    if caller.role < Role.VIEWER or not caller.tenants:
        raise ForbiddenError("Looking takes the role viewer for a tenant: ask an admin for it.")
    return None if EVERY_TENANT in caller.tenants else sorted(caller.tenants)
