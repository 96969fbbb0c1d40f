"""Setup of tenants: names, mail addresses, and admins notified of failures.

The functions require a database connection as counterfoil_api or as the tables' owner. Every change writes an audit
entry in the same transaction. Addresses are stored in lower case.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import LiteralString
from uuid import UUID

from counterfoil import audit
from counterfoil.audit import Change
from counterfoil.db import Connection
from counterfoil.documents.mail.message import recipients
from counterfoil.errors import RejectedRequestError
from counterfoil.tenant_erasure import SLUG_RETENTION
from counterfoil.validation import SLUG

DEFAULT_ORGANIZATION = "Default"
MAX_EMAIL_CHARS = 254
_SLUG = re.compile(SLUG)
_EMAIL = re.compile(r"[!-~]+@[!-~]+\.[!-~]+")


@dataclass(frozen=True)
class Tenant:
    """A tenant, with the name of its organization."""

    id: UUID
    slug: str
    name: str
    organization: str
    created_at: datetime
    disabled_at: datetime | None


_TENANTS = """
SELECT t.id, t.slug, t.name, o.name, t.created_at, t.disabled_at
FROM tenant t JOIN organization o ON o.id = t.organization_id
"""
_PAGE = (
    _TENANTS
    + """
WHERE (%(slugs)s::text[] IS NULL OR t.slug = ANY(%(slugs)s)) AND t.slug > %(after)s
    AND NOT starts_with(t.slug, 'erased-')
ORDER BY t.slug LIMIT %(limit)s
"""
)


def page(connection: Connection, slugs: Sequence[str] | None, after: str, limit: int) -> list[Tenant]:
    """Return at most `limit` tenants after the slug `after`, ordered by slug.

    If `slugs` is given, return only these tenants. Tenants that are being erased are omitted. Requires a transaction of
    `all_tenants`.
    """
    values = {"slugs": slugs, "after": after, "limit": limit}
    return [Tenant(*row) for row in connection.execute(_PAGE, values)]


def find(connection: Connection, tenant_id: UUID) -> Tenant:
    """Return a tenant. Requires a transaction of this tenant."""
    (row,) = connection.execute(f"{_TENANTS} WHERE t.id = %s", [tenant_id]).fetchall()
    return Tenant(*row)


def add(
    connection: Connection, slug: str, name: str | None, organization: str, by: str, at: datetime
) -> tuple[Change, bool]:
    """Add a tenant, and its organization if it does not exist.

    Requires a transaction of `all_tenants`, which becomes a transaction of the tenant. An existing tenant is not
    changed. Returns a `Change` for further setup, and True if the tenant is new.

    Raises:
        RejectedRequestError: the slug is invalid, or belonged to a tenant that was deleted recently.
    """
    if not _SLUG.fullmatch(slug):
        raise RejectedRequestError(
            f"'{slug}' cannot name a tenant: use at most 63 lower-case letters a-z, digits and hyphens. "
            "The first character cannot be a hyphen."
        )
    erased = connection.execute("SELECT requested_at FROM find_tenant_erasure(%s)", [slug]).fetchone()
    if erased is not None:
        raise RejectedRequestError(
            f"The tenant '{slug}' was deleted, and messages about its files may still arrive. Use another slug. "
            f"This slug will be available again on {erased[0] + SLUG_RETENTION + timedelta(days=1):%Y-%m-%d}."
        )
    connection.execute("INSERT INTO organization (name) VALUES (%s) ON CONFLICT DO NOTHING", [organization])
    is_new = (
        connection.execute(
            "INSERT INTO tenant (organization_id, slug, name) SELECT id, %s, %s FROM organization WHERE name = %s "
            "ON CONFLICT (slug) DO NOTHING",
            [slug, name or slug, organization],
        ).rowcount
        == 1
    )
    ((tenant_id,),) = connection.execute("SELECT id FROM tenant WHERE slug = %s", [slug]).fetchall()
    connection.execute("SELECT set_config('counterfoil.tenant', %s, true)", [str(tenant_id)])
    change = Change(tenant_id, by, at)
    if is_new:
        change.record(connection, "tenant added")
    return change, is_new


def rename(connection: Connection, change: Change, name: str) -> None:
    """Change a tenant's full name.

    The slug never changes, because upload keys begin with it.
    """
    cursor = connection.execute(
        "UPDATE tenant SET name = %(name)s WHERE id = %(id)s AND name <> %(name)s",
        {"name": name, "id": change.tenant_id},
    )
    if cursor.rowcount:
        change.record(connection, "tenant renamed")


def set_disabled(connection: Connection, change: Change, *, is_disabled: bool) -> None:
    """Disable or enable a tenant.

    A disabled tenant accepts no new work, but its data remains readable.
    """
    cursor = connection.execute(
        "UPDATE tenant SET disabled_at = %(at)s WHERE id = %(id)s AND (disabled_at IS NULL) = %(disable)s",
        {"at": change.at if is_disabled else None, "id": change.tenant_id, "disable": is_disabled},
    )
    if cursor.rowcount:
        change.record(connection, "tenant disabled" if is_disabled else "tenant enabled")


# -- admins and mail addresses ----------------------------------------------------------------------------------------


def list_admins(connection: Connection, tenant_id: UUID) -> list[str]:
    """Return the email addresses that are notified of a tenant's failures."""
    rows = connection.execute("SELECT email FROM tenant_admin WHERE tenant_id = %s ORDER BY email", [tenant_id])
    return [email for (email,) in rows]


def list_addresses(connection: Connection, tenant_id: UUID) -> list[str]:
    """Return the addresses that receive a tenant's mail."""
    rows = connection.execute("SELECT address FROM tenant_address WHERE tenant_id = %s ORDER BY address", [tenant_id])
    return [address for (address,) in rows]


_ADD_ADMIN = "INSERT INTO tenant_admin (tenant_id, email) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_REMOVE_ADMIN = "DELETE FROM tenant_admin WHERE tenant_id = %s AND email = %s"
_ADD_ADDRESS = "INSERT INTO tenant_address (tenant_id, address) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_REMOVE_ADDRESS = "DELETE FROM tenant_address WHERE tenant_id = %s AND address = %s"


def change_admins(
    connection: Connection, change: Change, added: Sequence[str], removed: Sequence[str] = ()
) -> list[str]:
    """Add and remove admins, all or none.

    Return the resulting addresses of all admins.

    Raises:
        RejectedRequestError: one of `added` is not an email address, or one of `removed` is not an admin's address.
    """
    _remove(connection, change, _REMOVE_ADMIN, removed, "'{}' is not an admin of this tenant.")
    new_emails = _add(connection, change, _ADD_ADMIN, added)
    _record(connection, change, "admins changed", new_emails, removed)
    return list_admins(connection, change.tenant_id)


def change_addresses(
    connection: Connection, change: Change, added: Sequence[str], removed: Sequence[str] = ()
) -> list[str]:
    """Add and remove addresses that receive a tenant's mail, all or none.

    Returns the resulting addresses.

    Raises:
        RejectedRequestError: one of `added` is not an address or belongs to another tenant, or one of `removed` does
            not belong to this tenant.
    """
    _remove(connection, change, _REMOVE_ADDRESS, removed, "'{}' is not an address of this tenant.")
    new_addresses = _add(connection, change, _ADD_ADDRESS, added)
    current = list_addresses(connection, change.tenant_id)
    for address in added:
        if recipients(f"To: <{address}>\r\n\r\n".encode()) != (address.lower(),):
            raise RejectedRequestError(
                f"Mail to '{address}' would not be recognized: use an address like invoices@in.example.com."
            )
        if address.lower() not in current:
            raise RejectedRequestError(f"'{address}' belongs to another tenant: remove it there first.")
    _record(connection, change, "mail addresses changed", new_addresses, removed)
    return current


def _add(connection: Connection, change: Change, statement: LiteralString, added: Sequence[str]) -> list[str]:
    for address in added:
        if not _EMAIL.fullmatch(address) or address.count("@") != 1 or len(address) > MAX_EMAIL_CHARS:
            raise RejectedRequestError(f"'{address}' is not an email address: use one like ann@example.com.")
    return [address for address in added if connection.execute(statement, [change.tenant_id, address.lower()]).rowcount]


def _remove(
    connection: Connection, change: Change, statement: LiteralString, removed: Sequence[str], message: str
) -> None:
    for address in removed:
        if connection.execute(statement, [change.tenant_id, address.lower()]).rowcount == 0:
            raise RejectedRequestError(message.format(address))


def _record(connection: Connection, change: Change, action: str, added: Sequence[str], removed: Sequence[str]) -> None:
    """Record changed addresses as keyed hashes.

    The audit trail must not contain personal data.
    """
    if not added and not removed:
        return
    detail = {
        name: [audit.hmac_digest(connection, change.tenant_id, address.lower().encode()).hex() for address in values]
        for name, values in (("added", added), ("removed", removed))
    }
    change.record(connection, action, detail=detail)
