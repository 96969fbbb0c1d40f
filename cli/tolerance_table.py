"""The table of tolerances: what tenants have set, by whom and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg.types.json import Jsonb

from cli.failures import UsageError
from cli.tenants import Tenant, record
from counterfoil import audit
from counterfoil.db import Connection
from counterfoil.documents.three_way_match import Key, Limits, Tolerance
from counterfoil.documents.three_way_match.tolerances import as_json


@dataclass(frozen=True)
class Entry:
    """A tolerance, and where it comes from."""

    tolerance: Tolerance
    set_by: str | None
    """None where it was set before this was kept."""
    reason: str | None
    evidence: Mapping[str, Any] | None
    """The proposal that a person accepted."""

    @property
    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        one = self.tolerance
        scope = {"supplier": one.supplier, "article": one.article}
        trail = {"set_by": self.set_by, "reason": self.reason, "evidence": self.evidence}
        return {"key": one.key.value, **scope, **as_json(one.limits), **trail}


_ENTRIES = """
SELECT key, lower_absolute, lower_percent, upper_absolute, upper_percent, supplier, article, set_by, reason, evidence
FROM tolerance WHERE tenant_id = %s ORDER BY key, supplier NULLS FIRST, article NULLS FIRST
"""
_PUT = """
INSERT INTO tolerance (tenant_id, key, supplier, article, lower_absolute, lower_percent, upper_absolute, upper_percent,
    set_by, reason, evidence)
VALUES (%(tenant)s, %(key)s, %(supplier)s, %(article)s, %(lower_absolute)s, %(lower_percent)s, %(upper_absolute)s,
    %(upper_percent)s, %(by)s, %(reason)s, %(evidence)s)
"""


def entries(connection: Connection, tenant: Tenant) -> list[Entry]:
    """A tenant's own tolerances, the general ones first."""
    return [
        Entry(Tolerance(Key(key), Limits(*limits), supplier, article), *trail)
        for key, *limits, supplier, article, by, reason, evidence in connection.execute(_ENTRIES, [tenant.id])
        for trail in [(by, reason, evidence)]
    ]


def lock(connection: Connection, tenant: Tenant) -> None:
    """Nobody else sets a tolerance of the tenant until the transaction, which is the owner's, ends."""
    connection.execute("SELECT FROM tenant WHERE id = %s FOR UPDATE", [tenant.id])


def put(
    connection: Connection,
    tenant: Tenant,
    wanted: Tolerance,
    by: str,
    reason: str | None,
    evidence: Mapping[str, Any] | None = None,
) -> None:
    """Set a tolerance, in the place of one of the same key and scope."""
    lock(connection, tenant)
    _remove(connection, tenant, wanted)
    limits = wanted.limits
    values = {
        "tenant": tenant.id,
        "key": wanted.key,
        "supplier": wanted.supplier,
        "article": wanted.article,
        "lower_absolute": limits.lower_absolute,
        "lower_percent": limits.lower_percent,
        "upper_absolute": limits.upper_absolute,
        "upper_percent": limits.upper_percent,
        "by": by,
        "reason": reason,
        "evidence": None if evidence is None else Jsonb(evidence),
    }
    connection.execute(_PUT, values)
    record(
        connection,
        tenant,
        by,
        "tolerance set",
        target=wanted.key.value,
        reason=reason,
        detail=_detail(connection, tenant, wanted) | as_json(limits),
    )


def remove(connection: Connection, tenant: Tenant, unwanted: Tolerance, by: str, reason: str | None) -> None:
    """Remove the tolerance of a key and scope.

    Raises:
        UsageError: there is none.
    """
    lock(connection, tenant)
    if not _remove(connection, tenant, unwanted):
        raise UsageError(f"'{tenant.slug}' has no tolerance of {unwanted.key} for {scope(unwanted)}.")
    record(
        connection,
        tenant,
        by,
        "tolerance removed",
        target=unwanted.key.value,
        reason=reason,
        detail=_detail(connection, tenant, unwanted),
    )


def _detail(connection: Connection, tenant: Tenant, tolerance: Tolerance) -> dict[str, Any]:
    """Return supplier and article, keyed, because the audit trail holds no names."""
    scope = {"supplier": tolerance.supplier, "article": tolerance.article}
    return {
        name: None if value is None else audit.keyed(connection, tenant.id, value.encode()).hex()
        for name, value in scope.items()
    }


def _remove(connection: Connection, tenant: Tenant, unwanted: Tolerance) -> bool:
    """Remove those whose supplier and article say the same, however they are written."""
    found = connection.execute(
        "SELECT id, supplier, article FROM tolerance WHERE tenant_id = %s AND key = %s", [tenant.id, unwanted.key]
    ).fetchall()
    same = [
        id_
        for id_, supplier, article in found
        if Tolerance(unwanted.key, unwanted.limits, supplier, article).scope == unwanted.scope
    ]
    connection.execute("DELETE FROM tolerance WHERE id = ANY(%s)", [same])
    return bool(same)


def scope(tolerance: Tolerance) -> str:
    """What a tolerance is for, in words."""
    parts = [f"supplier {tolerance.supplier}"] if tolerance.supplier else []
    parts += [f"article {tolerance.article}"] if tolerance.article else []
    return " and ".join(parts) or "everything"
