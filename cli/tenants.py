"""`counterfoil tenants`: add tenants to the local cloud, list them, say who hears of failures and where mail goes."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeVar
from uuid import UUID

import psycopg
import typer
from rich.table import Table

from cli.failures import UsageError
from cli.local.cloud import Cloud
from cli.local.place import place_of
from cli.terminal import page, print_json
from cli.trail import By
from counterfoil import audit
from counterfoil.db import Connection, mapped
from counterfoil.documents.mail.message import recipients
from counterfoil.tenant_erasure import SLUG_RETENTION

OWNER = "counterfoil_owner"
"""Tenants are added by the role that owns the tables: no worker may."""
TOOL = "counterfoil"
"""Actor of changes that the tools make automatically, such as the tenants of the demo."""
ORGANIZATION = "Local"
NOBODY = "-"
"""In the place of a tenant's slug: what is nobody's, such as a message that could not be read."""
Found = TypeVar("Found")
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_EMAIL = re.compile(r"[!-~]+@[!-~]+\.[!-~]+")
LONGEST_EMAIL = 254

app = typer.Typer(
    help="Add and list tenants, and say who hears of failures and where mail goes.",
    no_args_is_help=True,
    add_completion=False,
)


@dataclass(frozen=True)
class Tenant:
    """A tenant by its id and by the slug that keys of uploads begin with."""

    id: UUID
    slug: str


def list_tenants(cloud: Cloud) -> list[Tenant]:
    """Every tenant, by slug."""
    with cloud.database.delivery() as connection:
        rows = connection.execute("SELECT id, slug FROM tenant ORDER BY slug").fetchall()
    return [Tenant(*row) for row in rows]


def chosen(cloud: Cloud, slug: str | None) -> list[Tenant]:
    """The tenant of this slug, or all where none is named.

    Raises:
        UsageError: there is none of this slug; the sentence names those that there are, or says where what is nobody's
            is to be found.
    """
    if slug == NOBODY:
        raise UsageError(
            "'-' is no tenant. Messages that could not be read are nobody's dead letters: they are looked at, and "
            "settled one by one: counterfoil dlq list --tenant -"
        )
    tenants = list_tenants(cloud)
    if slug is None:
        return tenants
    found = [tenant for tenant in tenants if tenant.slug == slug]
    if not found:
        shown = ", ".join(tenant.slug for tenant in tenants[:10]) + (", ..." if len(tenants) > 10 else "")
        others = f"There are: {shown}." if tenants else "There are none yet."
        raise UsageError(f"There is no tenant '{slug}'. {others} To add it: counterfoil tenants add {slug}")
    return found


def newest_of_each(
    cloud: Cloud,
    slug: str | None,
    read: Callable[[Connection, UUID], Iterable[Found]],
    when: Callable[[Found], datetime],
) -> list[tuple[Tenant, Found]]:
    """What `read` finds of the tenant of this slug, or of each where none is named; the newest by `when` first."""
    found: list[tuple[Tenant, Found]] = []
    for whose in chosen(cloud, slug):
        with cloud.database.tenant(whose.id) as connection:
            found += [(whose, one) for one in read(connection, whose.id)]
    return sorted(found, key=lambda one: when(one[1]), reverse=True)


def add_tenant(
    cloud: Cloud, slug: str, name: str | None = None, organization: str = ORGANIZATION, *, by: str = TOOL
) -> tuple[Tenant, bool]:
    """Add a tenant, and its organization where that is new. Returns it, and whether it is new.

    One that exists stays as it is.

    Raises:
        UsageError: the slug is invalid, or belonged to a tenant that was deleted recently.
    """
    with as_owner(cloud) as connection:
        return insert_tenant(connection, slug, name, organization, by=by)


def insert_tenant(
    connection: Connection, slug: str, name: str | None = None, organization: str = ORGANIZATION, *, by: str = TOOL
) -> tuple[Tenant, bool]:
    """As `add_tenant`, in a transaction of the owner."""
    if not _SLUG.fullmatch(slug):
        raise UsageError(f"'{slug}' cannot name a tenant: use up to 63 lower-case letters a-z, digits and hyphens.")
    erased = connection.execute("SELECT requested_at FROM find_tenant_erasure(%s)", [slug]).fetchone()
    if erased is not None:
        again = f"{erased[0] + SLUG_RETENTION + timedelta(days=1):%Y-%m-%d}"
        raise UsageError(
            f"The tenant '{slug}' was deleted, and messages about its files may still arrive. Use another slug, or "
            f"this one from {again}."
        )
    connection.execute("INSERT INTO organization (name) VALUES (%s) ON CONFLICT DO NOTHING", [organization])
    added = connection.execute(
        """
        INSERT INTO tenant (organization_id, slug, name) SELECT id, %s, %s FROM organization WHERE name = %s
        ON CONFLICT (slug) DO NOTHING
        """,
        [slug, name or slug, organization],
    ).rowcount
    row: Any = connection.execute("SELECT id, slug FROM tenant WHERE slug = %s", [slug]).fetchone()
    tenant = Tenant(*row)
    if added == 1:
        record(connection, tenant, by, "tenant added")
    return tenant, added == 1


def time_of(connection: Connection) -> datetime:
    """Return the server's time."""
    ((now,),) = connection.execute("SELECT clock_timestamp()").fetchall()
    return now  # type: ignore[no-any-return]  # the only column


def record(
    connection: Connection,
    tenant: Tenant,
    by: str,
    action: str,
    *,
    target: object = None,
    reason: str | None = None,
    detail: Mapping[str, Any] | None = None,
) -> None:
    """Record a change of a tenant's setup in its audit trail, in the caller's transaction. Call it last."""
    operation = audit.Operation(by, action, [str(target or tenant.id)], time_of(connection), reason, detail=detail)
    audit.record(connection, tenant.id, operation)


def _record_addresses(
    connection: Connection, tenant: Tenant, by: str, action: str, added: Sequence[str], removed: Sequence[str]
) -> None:
    """Record added and removed addresses, keyed, because the audit trail holds no personal data."""
    if not added and not removed:
        return
    detail = {
        name: [audit.keyed(connection, tenant.id, address.lower().encode()).hex() for address in addresses]
        for name, addresses in (("added", added), ("removed", removed))
    }
    record(connection, tenant, by, action, detail=detail)


def change_admins(
    cloud: Cloud, slug: str, *, added: Sequence[str] = (), removed: Sequence[str] = (), by: str = TOOL
) -> list[str]:
    """Add and remove admins of a tenant, all or none. Returns the addresses of those that there are then.

    Addresses are kept in lower case: no mail server that people use tells them apart.

    Raises:
        UsageError: there is no such tenant, one of `added` is no address, or one of `removed` is no admin.
    """
    (tenant,) = chosen(cloud, slug)
    with as_owner(cloud) as connection:
        for address in removed:
            gone = connection.execute(
                "DELETE FROM tenant_admin WHERE tenant_id = %s AND email = %s", [tenant.id, address.lower()]
            )
            if gone.rowcount == 0:
                raise UsageError(f"'{address}' is no admin of '{slug}'.")
        return insert_admins(connection, tenant, added, removed, by=by)


def insert_admins(
    connection: Connection, tenant: Tenant, added: Sequence[str], removed: Sequence[str] = (), *, by: str = TOOL
) -> list[str]:
    """Add admins and record the change with those removed before, in a transaction of the owner."""
    _check_addresses(added)
    new = []
    for address in added:
        done = connection.execute(
            "INSERT INTO tenant_admin (tenant_id, email) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            [tenant.id, address.lower()],
        )
        new += [address] if done.rowcount else []
    _record_addresses(connection, tenant, by, "admins changed", new, removed)
    rows = connection.execute("SELECT email FROM tenant_admin WHERE tenant_id = %s ORDER BY email", [tenant.id])
    return [email for (email,) in rows]


def change_addresses(
    cloud: Cloud, slug: str, *, added: Sequence[str] = (), removed: Sequence[str] = (), by: str = TOOL
) -> list[str]:
    """Add and remove addresses by which mail finds a tenant, all or none. Returns those that there are then.

    Addresses are kept in lower case, as those of a mail are looked up.

    Raises:
        UsageError: there is no such tenant, one of `added` is no address or another tenant's, or one of `removed` is
            none of this tenant's.
    """
    (tenant,) = chosen(cloud, slug)
    with as_owner(cloud) as connection:
        for address in removed:
            gone = connection.execute(
                "DELETE FROM tenant_address WHERE tenant_id = %s AND address = %s", [tenant.id, address.lower()]
            )
            if gone.rowcount == 0:
                raise UsageError(f"'{address}' is no address of '{slug}'.")
        return insert_addresses(connection, tenant, added, removed, by=by)


def insert_addresses(
    connection: Connection, tenant: Tenant, added: Sequence[str], removed: Sequence[str] = (), *, by: str = TOOL
) -> list[str]:
    """Add mail addresses and record the change with those removed before, in a transaction of the owner."""
    _check_addresses(added)
    new: list[str] = []
    for address in added:
        if recipients(f"To: <{address}>\r\n\r\n".encode()) != (address.lower(),):
            raise UsageError(f"'{address}' would be found in no mail: use one like invoices@in.example.com.")
        done = connection.execute(
            "INSERT INTO tenant_address (tenant_id, address) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            [tenant.id, address.lower()],
        )
        new += [address] if done.rowcount else []
        owner = connection.execute(
            "SELECT t.id, t.slug FROM tenant_address a JOIN tenant t ON t.id = a.tenant_id WHERE a.address = %s",
            [address.lower()],
        ).fetchall()
        if owner != [(tenant.id, tenant.slug)]:
            raise UsageError(f"'{address}' is an address of '{owner[0][1]}': remove it there first.")
    _record_addresses(connection, tenant, by, "mail addresses changed", new, removed)
    rows = connection.execute("SELECT address FROM tenant_address WHERE tenant_id = %s ORDER BY address", [tenant.id])
    return [address for (address,) in rows]


def _check_addresses(addresses: Sequence[str]) -> None:
    for address in addresses:
        if not _EMAIL.fullmatch(address) or address.count("@") != 1 or len(address) > LONGEST_EMAIL:
            raise UsageError(f"'{address}' is no e-mail address that can be written to: use one like ann@example.com.")


@contextmanager
def as_owner(cloud: Cloud) -> Iterator[Connection]:
    """One transaction as the role that owns the tables."""
    try:
        with psycopg.connect(cloud.database_url(OWNER)) as connection:
            yield connection
    except psycopg.Error as error:
        raise mapped(error) from error


@app.command("list")
def list_(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tenants as JSON.")] = False,
) -> None:
    """List the tenants."""
    with as_owner(Cloud.at(place_of(context.obj))) as connection:
        tenants = connection.execute("SELECT id, slug, name FROM tenant ORDER BY slug").fetchall()
    if as_json:
        print_json([{"id": id_, "slug": slug, "name": name} for id_, slug, name in tenants])
        return
    if not tenants:
        page().print("There are no tenants yet. To add one: counterfoil tenants add SLUG")
        return
    table = Table("tenant", "name", box=None)
    for _, slug, name in tenants:
        table.add_row(slug, name)
    page().print(table)


@app.command("admins")
def admins(
    context: typer.Context,
    slug: Annotated[str, typer.Argument(metavar="TENANT", help="The tenant, by its slug.")],
    *,
    added: Annotated[list[str] | None, typer.Option("--add", help="Add this e-mail address. May be repeated.")] = None,
    removed: Annotated[list[str] | None, typer.Option("--remove", help="Remove this one. May be repeated.")] = None,
    by: By,
    as_json: Annotated[bool, typer.Option("--json", help="Print the addresses as JSON.")] = False,
) -> None:
    """Add, remove and list a tenant's admins: they get an e-mail when its work fails, where e-mail is set up."""
    found = change_admins(Cloud.at(place_of(context.obj)), slug, added=added or (), removed=removed or (), by=by)
    if as_json:
        print_json(found)
    elif found:
        page().print("\n".join(found))
    else:
        page().print(
            f"Tenant '{slug}' has no admins. To add one: counterfoil tenants admins {slug} --add ann@example.com"
        )


@app.command("addresses")
def addresses(
    context: typer.Context,
    slug: Annotated[str, typer.Argument(metavar="TENANT", help="The tenant, by its slug.")],
    *,
    added: Annotated[list[str] | None, typer.Option("--add", help="Add this e-mail address. May be repeated.")] = None,
    removed: Annotated[list[str] | None, typer.Option("--remove", help="Remove this one. May be repeated.")] = None,
    by: By,
    as_json: Annotated[bool, typer.Option("--json", help="Print the addresses as JSON.")] = False,
) -> None:
    """Add, remove and list the addresses by which mail finds a tenant.

    What came before its address was added is a dead letter: sent again, it finds the tenant.
    """
    found = change_addresses(Cloud.at(place_of(context.obj)), slug, added=added or (), removed=removed or (), by=by)
    if as_json:
        print_json(found)
    elif found:
        page().print("\n".join(found))
    else:
        page().print(
            f"No mail finds tenant '{slug}'. "
            f"To add an address: counterfoil tenants addresses {slug} --add invoices@{slug}.example"
        )
