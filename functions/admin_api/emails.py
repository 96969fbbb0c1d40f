"""Email addresses of people who made changes, shown in the console and the CLI.

Tables and responses identify people by the subject of their token, which does not change. The address comes from the
token of the person's last change.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from uuid import UUID

from counterfoil.db import Database, all_tenants

_MAX_CACHED = 1000
"""Maximum number of cached addresses. A full cache is cleared."""


@dataclass
class EmailStore:
    """Stores email addresses.

    The process remembers stored addresses, so most changes write nothing.
    """

    stored: set[tuple[UUID | None, str, str]] = field(default_factory=set)
    """Tenant id, subject and address of each stored address."""

    def save(self, database: Database, tenant_id: UUID | None, subject: str, email: str) -> None:
        """Store the address of a person who makes a change in a tenant.

        `tenant_id` is None for several tenants or unassigned data.

        Raises the same errors as `Database.tenant`.
        """
        person = tenant_id, subject, email
        if person in self.stored:
            return
        with all_tenants(database) as connection:
            connection.execute(_SAVE, person)
        if len(self.stored) >= _MAX_CACHED:
            self.stored.clear()
        self.stored.add(person)


def find(database: Database, subjects: Collection[str], slugs: Collection[str] | None) -> dict[str, str]:
    """Return the addresses of people who made changes in these tenants, by subject.

    `slugs` is None for all tenants.

    Raises the same errors as `Database.tenant`.
    """
    values = {"subjects": list(subjects), "slugs": None if slugs is None else list(slugs)}
    with all_tenants(database) as connection:
        return dict(connection.execute(_FIND, values).fetchall())


_SAVE = """
INSERT INTO person AS stored (tenant_id, subject, email) VALUES (%s, %s, %s)
ON CONFLICT (tenant_id, subject) DO UPDATE SET email = excluded.email WHERE stored.email <> excluded.email
"""
_FIND = """
SELECT p.subject, max(p.email) FROM person p LEFT JOIN tenant t ON t.id = p.tenant_id
WHERE p.subject = ANY(%(subjects)s) AND (%(slugs)s::text[] IS NULL OR t.slug = ANY(%(slugs)s::text[]))
GROUP BY p.subject
"""
