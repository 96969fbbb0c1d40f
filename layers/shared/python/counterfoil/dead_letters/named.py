"""Finds what people name by a part of its id: the end of it, and of a group the beginning of its fingerprint."""

from collections.abc import Sequence
from typing import Literal, LiteralString
from uuid import UUID

from counterfoil.db import Connection

Kind = Literal["letter", "operation", "group"]
LEAST = 4
"""Characters of a part."""
_INDEXED = 8
"""Last characters of a letter's id that the index `dead_letter_by_end` knows, backwards."""

# Found by the index first, whatever the planner thinks of tenants: a large one's letters are not read for one of them.
_LETTER = """
WITH ending AS MATERIALIZED (
    SELECT job_id, tenant_id FROM dead_letter
    WHERE reverse(right(job_id::text, 8)) COLLATE "C" BETWEEN %(first)s AND %(last)s
      AND right(job_id::text, length(%(part)s)) = %(part)s AND purged_at IS NULL
)
SELECT d.job_id, t.slug FROM ending d LEFT JOIN tenant t ON t.id = d.tenant_id
WHERE %(slugs)s::text[] IS NULL OR t.slug = ANY(%(slugs)s)
LIMIT 2
"""
_OPERATION = """
SELECT o.id, t.slug FROM operation o JOIN tenant t ON t.id = o.tenant_id
WHERE right(o.id::text, length(%(part)s)) = %(part)s AND (%(slugs)s::text[] IS NULL OR t.slug = ANY(%(slugs)s))
LIMIT 2
"""
_GROUP = """
SELECT g.fingerprint, min(t.slug) FROM dead_letter_group g LEFT JOIN tenant t ON t.id = g.tenant_id
WHERE starts_with(g.fingerprint, %(part)s) AND (%(slugs)s::text[] IS NULL OR t.slug = ANY(%(slugs)s))
GROUP BY g.fingerprint
LIMIT 2
"""
_QUERIES: dict[Kind, LiteralString] = {"letter": _LETTER, "operation": _OPERATION, "group": _GROUP}


def find(
    connection: Connection, kind: Kind, part: str, slugs: Sequence[str] | None
) -> list[tuple[UUID | str, str | None]]:
    """Up to two ids that a part of LEAST characters or more names, each with its tenant's slug; as the delivery role.

    Of these tenants alone; None: of all, and what is nobody's, which has no slug. Letters that were purged are none.
    """
    backwards = part[::-1][:_INDEXED]
    values = {"part": part, "first": backwards, "last": f"{backwards}~", "slugs": None if slugs is None else [*slugs]}
    return connection.execute(_QUERIES[kind], values).fetchall()
