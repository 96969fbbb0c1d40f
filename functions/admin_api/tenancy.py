"""Which tenant a request is about."""

from uuid import UUID

from counterfoil.db import Database
from counterfoil.errors import RejectedRequestError
from functions.admin_api.caller import EVERY_TENANT, Caller, Role
from functions.admin_api.problems import ForbiddenError, NotFoundError


def slug_of(named: str | None, caller: Caller) -> str:
    """The tenant that a request names, or that its token is for.

    Raises:
        RejectedRequestError: it names none, and the token is not for just one.
    """
    if named is not None:
        return named
    if len(caller.tenants) != 1 or EVERY_TENANT in caller.tenants:
        raise RejectedRequestError("tenant is needed, for the token is not for just one.")
    (slug,) = caller.tenants
    return slug


def viewed(database: Database, named: str | None, caller: Caller) -> tuple[UUID, str]:
    """The tenant whose things are looked at, by id and slug.

    Raises:
        RejectedRequestError: see `slug_of`.
        ForbiddenError: the caller is no viewer of it. It is not told whether there is such a tenant.
        NotFoundError: there is no such tenant.
        DatabaseUnavailableError: this cannot be known just now.
    """
    slug = slug_of(named, caller)
    if not caller.may(Role.VIEWER, slug):
        raise ForbiddenError("Looking takes the role viewer for this tenant: ask an admin for it.")
    with database.delivery() as connection:
        row = connection.execute("SELECT id FROM tenant WHERE slug = %s", [slug]).fetchone()
    if row is None:
        raise NotFoundError("There is no such tenant.")
    return row[0], slug
