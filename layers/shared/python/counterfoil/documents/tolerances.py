"""A tenant's tolerances in PostgreSQL, and suggestions derived from decisions.

Changes require a database connection as counterfoil_api. Each change writes an audit entry in the same transaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil import audit
from counterfoil.audit import Change
from counterfoil.db import Connection
from counterfoil.delivery.work import OutboxMessage
from counterfoil.documents import diagnostics, differences
from counterfoil.documents.three_way_match import Key, Limits, Tolerance, Tolerances
from counterfoil.documents.three_way_match.decisions import (
    SuggestionResult,
    ToleranceSuggestion,
    format_size,
    suggest_tolerances,
)
from counterfoil.documents.three_way_match.tolerances import as_json

RECOMPARE_BATCH_SIZE = 500
"""Maximum number of clusters whose comparison one transaction requests."""
_KEY_LABELS = {
    Key.PRICE: "prices",
    Key.BILLED_QUANTITY: "quantities billed",
    Key.DELIVERED_QUANTITY: "quantities delivered",
    Key.TOTAL: "totals",
}


@dataclass(frozen=True)
class Entry:
    """A stored tolerance and its origin."""

    tolerance: Tolerance
    set_by: str
    reason: str | None
    evidence: Mapping[str, Any] | None
    """The suggestion that was accepted; None if the tolerance was not suggested."""


_ENTRIES = """
SELECT variance_type, lower_absolute, lower_percent, upper_absolute, upper_percent, supplier, article,
    coalesce(set_by, ''), reason, evidence
FROM tolerance WHERE tenant_id = %s ORDER BY variance_type, supplier NULLS FIRST, article NULLS FIRST
"""
_INSERT = """
INSERT INTO tolerance (tenant_id, variance_type, supplier, article, lower_absolute, lower_percent, upper_absolute,
    upper_percent, set_by, reason, evidence)
VALUES (%(tenant)s, %(key)s, %(supplier)s, %(article)s, %(lower_absolute)s, %(lower_percent)s, %(upper_absolute)s,
    %(upper_percent)s, %(by)s, %(reason)s, %(evidence)s)
"""


def entries(connection: Connection, tenant_id: UUID) -> list[Entry]:
    """Return the tolerances that a tenant has set, by key, general tolerances first."""
    return [
        Entry(Tolerance(Key(key), Limits(*limits), supplier, article), by, reason, evidence)
        for key, *limits, supplier, article, by, reason, evidence in connection.execute(_ENTRIES, [tenant_id])
    ]


def put(
    connection: Connection,
    change: Change,
    tolerance: Tolerance,
    reason: str | None,
    evidence: Mapping[str, Any] | None = None,
) -> None:
    """Set a tolerance. It replaces any tolerance with the same key and scope."""
    _lock(connection, change)
    _remove(connection, change, tolerance)
    limits = as_json(tolerance.limits)
    values = {
        "tenant": change.tenant_id,
        "key": tolerance.key,
        "supplier": tolerance.supplier,
        "article": tolerance.article,
        **{name: getattr(tolerance.limits, name) for name in limits},
        "by": change.by,
        "reason": reason,
        "evidence": None if evidence is None else Jsonb(evidence),
    }
    connection.execute(_INSERT, values)
    detail = _scope_hashes(connection, change, tolerance) | limits
    change.record(connection, "tolerance set", target=tolerance.key.value, reason=reason, detail=detail)


def remove(connection: Connection, change: Change, tolerance: Tolerance, reason: str | None) -> bool:
    """Remove the tolerance with this key and scope. Returns False if it is not set."""
    _lock(connection, change)
    if not _remove(connection, change, tolerance):
        return False
    detail = _scope_hashes(connection, change, tolerance)
    change.record(connection, "tolerance removed", target=tolerance.key.value, reason=reason, detail=detail)
    return True


def _lock(connection: Connection, change: Change) -> None:
    """Lock the tenant's tolerances until the transaction ends."""
    connection.execute("SELECT FROM tenant WHERE id = %s FOR UPDATE", [change.tenant_id])


def _scope_hashes(connection: Connection, change: Change, tolerance: Tolerance) -> dict[str, Any]:
    """Return the supplier and article as keyed hashes.

    The audit trail contains no names.
    """
    scope = {"supplier": tolerance.supplier, "article": tolerance.article}
    return {
        name: None if value is None else audit.hmac_digest(connection, change.tenant_id, value.encode()).hex()
        for name, value in scope.items()
    }


def _remove(connection: Connection, change: Change, tolerance: Tolerance) -> bool:
    """Remove tolerances whose normalized supplier and article are equal."""
    rows = connection.execute(
        "SELECT id, supplier, article FROM tolerance WHERE tenant_id = %s AND variance_type = %s",
        [change.tenant_id, tolerance.key],
    ).fetchall()
    ids = [
        id_
        for id_, supplier, article in rows
        if Tolerance(tolerance.key, tolerance.limits, supplier, article).scope == tolerance.scope
    ]
    connection.execute("DELETE FROM tolerance WHERE id = ANY(%s)", [ids])
    return bool(ids)


# -- suggestions ------------------------------------------------------------------------------------------------------


def suggest(connection: Connection, tenant_id: UUID) -> list[SuggestionResult]:
    """Return suggested tolerances, and the reasons for missing suggestions.

    Suggestions are derived from reviewers' decisions.
    """
    return suggest_tolerances(differences.labels(connection), Tolerances(diagnostics.tolerances(connection, tenant_id)))


def accept(connection: Connection, change: Change, suggestion_id: str, reason: str | None) -> bool:
    """Set the tolerance of a suggestion.

    Returns False if decisions or tolerances no longer suggest it.
    """
    _lock(connection, change)
    suggestions = suggest(connection, change.tenant_id)
    chosen = next(
        (
            suggestion
            for suggestion in suggestions
            if isinstance(suggestion, ToleranceSuggestion) and suggestion.id == suggestion_id
        ),
        None,
    )
    if chosen is None:
        return False
    put(connection, change, chosen.tolerance, reason, chosen.record)
    return True


def title(suggestion: SuggestionResult) -> str:
    """Return a suggestion's supplier, key and direction as text for users."""
    is_name = suggestion.supplier_name == suggestion.supplier
    supplier = suggestion.supplier_name if is_name else f"{suggestion.supplier_name} ({suggestion.supplier})"
    return f"{supplier}, {_KEY_LABELS[suggestion.key]}, {suggestion.direction} than expected"


def sentences(suggestion: ToleranceSuggestion) -> list[str]:
    """Return a suggestion and its evidence in sentences for users."""
    evidence = suggestion.evidence
    people = f"{', '.join(evidence.people[:3])}{' and others' if len(evidence.people) > 3 else ''}"
    period = (
        f"on {evidence.since}" if evidence.since == evidence.until else f"from {evidence.since} to {evidence.until}"
    )
    smallest = evidence.smallest_disputed
    disputed = (
        "none was disputed"
        if smallest is None
        else f"the smallest disputed is {format_size(smallest, suggestion.limit_kind)}"
    )
    limit, largest = (
        format_size(suggestion.limit, suggestion.limit_kind),
        format_size(evidence.largest_accepted, suggestion.limit_kind),
    )
    return [
        f"Current tolerance: {suggestion.current_limits.text}. Suggested: {suggestion.limits.text}.",
        f"Accepted in {evidence.accepted} documents by {people}, {period}: 95% are within {limit}, and the "
        f"largest is {largest}; {disputed}.",
        f"{evidence.newly_tolerated} of these documents would not have needed a review. Reviewers accept at least "
        f"{evidence.min_acceptance_rate:.0%} of such differences, at 95% confidence.",
    ]


# -- clusters ---------------------------------------------------------------------------------------------------------

_CLUSTERS = """
SELECT id FROM cluster_diagnostics
WHERE (match_status IS NOT NULL OR status = 'in-progress') AND (%(after)s::uuid IS NULL OR id > %(after)s)
ORDER BY id LIMIT %(limit)s
"""


def recompare(
    connection: Connection, tenant_id: UUID, after: UUID | None, now: datetime
) -> tuple[Sequence[UUID], list[OutboxMessage]]:
    """Request the comparison of a tenant's next clusters.

    Return their ids and the messages to send.

    Includes clusters whose first comparison is in progress, because it may have read the previous tolerances.
    """
    values = {"after": after, "limit": RECOMPARE_BATCH_SIZE}
    ids = [id_ for (id_,) in connection.execute(_CLUSTERS, values)]
    return ids, diagnostics.enqueue_diagnostics(connection, tenant_id, ids, now)
