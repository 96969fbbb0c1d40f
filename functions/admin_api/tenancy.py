"""Which tenant a request is about."""

from collections.abc import Callable
from typing import Annotated, LiteralString
from uuid import UUID

from pydantic import BeforeValidator

from counterfoil.db import Connection, Database
from counterfoil.errors import RejectedRequestError
from functions.admin_api.caller import EVERY_TENANT, NOBODY, Caller, Role
from functions.admin_api.problems import ForbiddenError, NotFoundError
from functions.admin_api.uploads import Slug

ONE_BY_ONE = "these are looked at, and settled one by one"


def _somebody(value: object) -> object:
    if value == NOBODY:
        raise ValueError(f"'-' means dead letters that are nobody's, and {ONE_BY_ONE}")
    return value


Somebody = Annotated[Slug, BeforeValidator(_somebody)]
"""A tenant's slug, where what is nobody's cannot be meant."""


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
    _check(caller, slug)
    with database.delivery() as connection:
        row = connection.execute("SELECT id FROM tenant WHERE slug = %s", [slug]).fetchone()
    if row is None:
        raise NotFoundError("There is no such tenant.")
    return row[0], slug


def viewed_or_nobodys(database: Database, named: str | None, caller: Caller) -> tuple[UUID | None, str]:
    """As `viewed`; NOBODY names what is nobody's, which has no id.

    Raises as `viewed`.
    """
    if named != NOBODY:
        return viewed(database, named, caller)
    _check(caller, NOBODY)
    return None, NOBODY


def id_of(text: str, absent: str) -> UUID:
    """The id that a path names.

    Raises:
        NotFoundError: it is none; says `absent`.
    """
    try:
        return UUID(text)
    except ValueError:
        raise NotFoundError(absent) from None


def owner_of(connection: Connection, table: LiteralString, id_: UUID) -> tuple[UUID, str] | None:
    """The tenant of a row, by id and slug; as the delivery role."""
    statement = f"SELECT t.id, t.slug FROM {table} o JOIN tenant t ON t.id = o.tenant_id WHERE o.id = %s"  # noqa: S608  # a literal
    return connection.execute(statement, [id_]).fetchone()


def owned(
    text: str,
    owner: Callable[[Connection, UUID], tuple[UUID, str] | None],
    caller: Caller,
    database: Database,
    absent: str,
) -> tuple[UUID, str, UUID]:
    """The tenant, by id and slug, of what a path names and the caller may see; and the id of that.

    Raises:
        NotFoundError: `owner` knows none, or none that the caller may see; says `absent`, so that it is not told which.
        DatabaseUnavailableError: this cannot be known just now.
    """
    id_ = id_of(text, absent)
    with database.delivery() as connection:
        found = owner(connection, id_)
    if found is None or not caller.may(Role.VIEWER, found[1]):
        raise NotFoundError(absent)
    return *found, id_


def _check(caller: Caller, slug: str) -> None:
    if not caller.may(Role.VIEWER, slug):
        raise ForbiddenError("Looking takes the role viewer for this tenant: ask an admin for it.")
