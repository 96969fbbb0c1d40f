"""Reviewers' decisions to accept or dispute differences in a cluster.

An accepted difference requires no further action. A disputed difference stays open regardless of the tolerances.
Suggested tolerances (`tolerances`) are derived from accepted and disputed differences. Only a difference between two
figures can be accepted or disputed. A missing order or a duplicate invoice can only be resolved by changing the
documents.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from counterfoil import audit
from counterfoil.audit import AuditRecord
from counterfoil.db import Connection
from counterfoil.delivery.work import OutboxMessage
from counterfoil.documents import diagnostics
from counterfoil.documents.review import DecisionContext, DecisionRejected, EarlierDecision
from counterfoil.documents.three_way_match import VarianceCode, VarianceDecision, read_document
from counterfoil.documents.three_way_match.decisions import DecisionLabel, VarianceKey
from counterfoil.documents.three_way_match.model import DecisionKind, parse_number


@dataclass(frozen=True)
class VarianceSelector:
    """Selects differences in a cluster. A field that is None matches all differences."""

    document_id: UUID | None = None
    code: VarianceCode | None = None
    line: str | None = None
    figures: tuple[Decimal, Decimal] | None = None
    """Expected and actual value, as shown to the caller.

    If `figures` is set, `line=None` selects only differences that belong to no line item.
    """


@dataclass(frozen=True)
class DecisionResult:
    """Result of accepting or disputing differences."""

    decision: DecisionKind
    differences: tuple[str, ...]
    """Sentences that describe the accepted or disputed differences."""
    remaining: tuple[str, ...]
    """Sentences that describe the differences that are still open."""
    messages: Sequence[OutboxMessage]
    """Outbox messages to send after the commit."""


_NOT_FOUND = DecisionRejected("gone", "The cluster does not exist or has not been compared yet.")
_LOCK_RESULT = "SELECT result FROM cluster_diagnostics WHERE id = %s AND result IS NOT NULL FOR UPDATE"
_INSERT_DECISION = """
INSERT INTO variance_decision
    (tenant_id, document_id, code, line, expected, actual, unit, currency, decision, decided_by, reason, decided_at)
VALUES (%(tenant)s, %(document)s, %(code)s, %(line)s, %(expected)s, %(actual)s, %(unit)s, %(currency)s, %(decision)s,
    %(by)s, %(reason)s, %(now)s)
"""


def decide(
    connection: Connection,
    tenant_id: UUID,
    cluster_id: UUID,
    selector: VarianceSelector,
    decision: DecisionKind,
    now: datetime,
    context: DecisionContext,
) -> DecisionResult | DecisionRejected:
    """Accept or dispute the selected differences in a cluster, either all or none.

    If `selector` is empty, `accepted` applies to the open differences and `disputed` to all. Runs in the caller's
    tenant transaction, which locks the cluster until it ends. The stored result shows the decision immediately. After
    the commit, the diagnostics worker compares the cluster again and delivers the result.
    """
    row = connection.execute(_LOCK_RESULT, [cluster_id]).fetchone()
    if row is None:
        return _NOT_FOUND
    variances: list[Mapping[str, Any]] = row[0]["variances"]
    decisions = {
        previous.variance_key: previous
        for previous in diagnostics.list_variance_decisions(
            connection, {UUID(variance["document"]) for variance in variances}
        )
    }
    selected = [
        variance for variance in variances if _is_difference(variance) and _matches_selector(variance, selector)
    ]
    if selector == VarianceSelector() and decision == "accepted":
        accepted = [variance for variance in selected if variance["decision"] == "accepted"]
        selected = [variance for variance in selected if _is_open(variance, {})] or accepted
    if not selected:
        return DecisionRejected("changed", _no_match_message(variances, selector))
    changes = [variance for variance in selected if _is_new(decisions.get(_decision_key(variance)), decision)]
    if not changes:
        current = decisions[_decision_key(selected[0])]
        return DecisionRejected("changed", f"{current.sentence[:-1]}. No change is needed.", _earlier(current))
    for previous in (decisions.get(_decision_key(variance)) for variance in changes):
        if previous is not None and not context.may_replace(previous.id):
            earlier = _earlier(previous)
            return DecisionRejected("changed", f"{previous.sentence[:-1]}. {earlier.replacement}", earlier)
    common = {"tenant": tenant_id, "decision": decision, "by": context.by, "reason": context.reason, "now": now}
    for variance in changes:
        connection.execute(_INSERT_DECISION, {**variance, **common})
    messages = diagnostics.enqueue_diagnostics(connection, tenant_id, [cluster_id], now)
    diagnostics.compare_now(connection, tenant_id, cluster_id, now)
    remaining = tuple(
        variance["message"] for variance in variances if _is_open(variance, decisions) and variance not in selected
    )
    detail = {"count": len(changes)}
    operation = AuditRecord(context.by, f"variances {decision}", [str(cluster_id)], now, context.reason, detail=detail)
    audit.record(connection, tenant_id, operation)
    return DecisionResult(decision, tuple(variance["message"] for variance in changes), remaining, messages)


def needs_decision(result: Mapping[str, Any]) -> bool:
    """Return whether a stored result has an open difference that can be accepted."""
    return any(_is_difference(variance) and _is_open(variance, {}) for variance in result["variances"])


def _is_difference(variance: Mapping[str, Any]) -> bool:
    return variance["tolerance"] is not None and None not in (
        parse_number(variance["expected"]),
        parse_number(variance["actual"]),
    )


def _is_open(variance: Mapping[str, Any], decisions: Mapping[VarianceKey, VarianceDecision]) -> bool:
    """Return whether a difference requires action.

    `decisions` includes the decisions made since the comparison.
    """
    if variance["within_tolerance"] or variance["decided_by"] is not None:
        return False
    previous = decisions.get(_decision_key(variance)) if _is_difference(variance) else None
    return previous is None or not previous.is_accepted


def _matches_selector(variance: Mapping[str, Any], selector: VarianceSelector) -> bool:
    return (
        selector.document_id in (None, UUID(variance["document"]))
        and selector.code in (None, variance["code"])
        and (selector.line == variance["line"] or (selector.line is None and selector.figures is None))
        and (
            selector.figures is None
            or selector.figures == (parse_number(variance["expected"]), parse_number(variance["actual"]))
        )
    )


def _earlier(decision: VarianceDecision) -> EarlierDecision:
    return EarlierDecision(decision.id, "accepted" if decision.is_accepted else "disputed", decision.by, decision.at)


def _is_new(current: VarianceDecision | None, decision: DecisionKind) -> bool:
    return current is None or current.is_accepted is not (decision == "accepted")


def _decision_key(variance: Mapping[str, Any]) -> VarianceKey:
    return (
        UUID(variance["document"]),
        VarianceCode(variance["code"]),
        variance["line"],
        Decimal(variance["expected"]),
        Decimal(variance["actual"]),
    )


def _no_match_message(variances: Collection[Mapping[str, Any]], selector: VarianceSelector) -> str:
    if selector != VarianceSelector() and any(_matches_selector(variance, selector) for variance in variances):
        return (
            "This is not a difference between two figures. Change the documents instead of accepting or disputing it."
        )
    if selector != VarianceSelector():
        return "The cluster has no such difference."
    open_messages = [variance["message"] for variance in variances if _is_open(variance, {})]
    return " ".join(["The cluster has no open difference that can be accepted or disputed.", *open_messages])


_SELLERS = "SELECT id, type, received_at, structured_data FROM document WHERE id = ANY(%s)"


# Current results of the documents' clusters.
_RESULTS = """
SELECT result FROM cluster_diagnostics
WHERE result IS NOT NULL AND id IN (SELECT cluster_id FROM document WHERE id = ANY(%s))
"""


def labels(connection: Connection) -> Iterator[DecisionLabel]:
    """Yield the tenant's decisions about differences, with the document's supplier.

    An acceptance is yielded only while the cluster still has the difference, because documents may change or move to
    another cluster. Disputes are always yielded.
    """
    decisions = diagnostics.list_variance_decisions(connection)
    ids = list({decision.variance_key[0] for decision in decisions})
    rows = connection.execute(_SELLERS, [ids]).fetchall()
    sellers = {row[0]: read_document(*row).sellers for row in rows if row[1] != "other" and row[3] is not None}
    results = connection.execute(_RESULTS, [ids])
    current = {
        _decision_key(variance) for (result,) in results for variance in result["variances"] if _is_difference(variance)
    }
    for decision in decisions:
        suppliers = sellers.get(decision.variance_key[0])
        if suppliers and (decision.variance_key in current or not decision.is_accepted):
            yield DecisionLabel(suppliers, decision)
