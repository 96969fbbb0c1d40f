"""Decisions of reviewers to accept or dispute differences in a cluster.

An accepted difference needs no further action. A disputed one stays open regardless of the tolerances. Suggested
tolerances (`tolerances`) are derived from both. Only differences between figures can be accepted. A missing order or a
duplicate invoice requires a change of documents.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from counterfoil import audit
from counterfoil.audit import AuditRecord
from counterfoil.db import Connection
from counterfoil.delivery.work import OutboxMessage
from counterfoil.documents import diagnostics
from counterfoil.documents.review import DecisionContext, DecisionRejected
from counterfoil.documents.three_way_match import VarianceCode, VarianceDecision, read_document
from counterfoil.documents.three_way_match.decisions import About, DecisionLabel
from counterfoil.documents.three_way_match.model import number_of

Word = Literal["accepted", "disputed"]


@dataclass(frozen=True)
class VarianceSelector:
    """Selection of differences in a cluster. None selects all."""

    document_id: UUID | None = None
    code: VarianceCode | None = None
    line: str | None = None
    figures: tuple[Decimal, Decimal] | None = None
    """Expected and found value, as the caller read them.

    With figures, `line` None means a difference without a line item.
    """


@dataclass(frozen=True)
class DecisionResult:
    """Result of a decision."""

    word: Word
    sentences: tuple[str, ...]
    """Sentences that describe the differences."""
    left: tuple[str, ...]
    """Sentences that describe the other open differences."""
    sends: Sequence[OutboxMessage]
    """Outbox messages to send after the commit."""


_NOTHING = DecisionRejected("gone", "The cluster does not exist or has not been compared yet.")
_CASE = "SELECT result FROM cluster_diagnostics WHERE id = %s AND result IS NOT NULL FOR UPDATE"
_SAY = """
INSERT INTO variance_decision
    (tenant_id, document_id, code, line, expected, actual, unit, currency, decision, decided_by, reason, decided_at)
VALUES (%(tenant)s, %(document)s, %(code)s, %(line)s, %(expected)s, %(actual)s, %(unit)s, %(currency)s, %(word)s,
    %(by)s, %(reason)s, %(now)s)
"""


def say(  # decision, selection and context
    connection: Connection,
    tenant_id: UUID,
    cluster_id: UUID,
    which: VarianceSelector,
    word: Word,
    now: datetime,
    who: DecisionContext,
) -> DecisionResult | DecisionRejected:
    """Accept or dispute the selected differences of a cluster, either all or none.

    Without a selection, accepting applies to open differences, and disputing to all. Runs in the caller's tenant
    transaction, which locks the cluster until it ends. The stored result shows the decision immediately. After the
    commit, the diagnostics worker compares the cluster again and delivers the result.
    """
    row = connection.execute(_CASE, [cluster_id]).fetchone()
    if row is None:
        return _NOTHING
    variances: list[Mapping[str, Any]] = row[0]["variances"]
    said = {
        one.about: one
        for one in diagnostics.list_variance_decisions(connection, {UUID(one["document"]) for one in variances})
    }
    wanted = [one for one in variances if _is_difference(one) and _matches_selector(one, which)]
    if which == VarianceSelector() and word == "accepted":
        accepted = [one for one in wanted if one["decision"] == "accepted"]
        wanted = [one for one in wanted if _is_open(one, {})] or accepted
    if not wanted:
        return DecisionRejected("changed", _no_match(variances, which))
    new = [one for one in wanted if _is_new(said.get(_about(one)), word)]
    if not new:
        last = said[_about(wanted[0])]
        return DecisionRejected("changed", f"{last.sentence[:-1]}. No change is needed.")
    for verdict in (said.get(_about(one)) for one in new):
        if verdict is not None and not who.may_replace(verdict.id):
            return DecisionRejected(
                "changed", f"{verdict.sentence[:-1]} (decision {verdict.id}). Supersede that decision explicitly."
            )
    shared = {"tenant": tenant_id, "word": word, "by": who.by, "reason": who.reason, "now": now}
    for one in new:
        connection.execute(_SAY, {**one, **shared})
    sends = diagnostics.enqueue_diagnostics(connection, tenant_id, [cluster_id], now)
    diagnostics.compare_now(connection, tenant_id, cluster_id, now)
    left = tuple(one["message"] for one in variances if _is_open(one, said) and one not in wanted)
    detail = {"count": len(new)}
    operation = AuditRecord(who.by, f"variances {word}", [str(cluster_id)], now, who.reason, detail=detail)
    audit.record(connection, tenant_id, operation)
    return DecisionResult(word, tuple(one["message"] for one in new), left, sends)


def needs_decision(result: Mapping[str, Any]) -> bool:
    """Return whether a stored result has an open difference that can be accepted."""
    return any(_is_difference(one) and _is_open(one, {}) for one in result["variances"])


def _is_difference(variance: Mapping[str, Any]) -> bool:
    return variance["tolerance"] is not None and None not in (
        number_of(variance["expected"]),
        number_of(variance["actual"]),
    )


def _is_open(variance: Mapping[str, Any], said: Mapping[About, VarianceDecision]) -> bool:
    """Return whether a difference needs action, given the decisions since the comparison."""
    if variance["within_tolerance"] or variance["decided_by"] is not None:
        return False
    verdict = said.get(_about(variance)) if _is_difference(variance) else None
    return verdict is None or not verdict.is_accepted


def _matches_selector(variance: Mapping[str, Any], which: VarianceSelector) -> bool:
    return (
        which.document_id in (None, UUID(variance["document"]))
        and which.code in (None, variance["code"])
        and (which.line == variance["line"] or (which.line is None and which.figures is None))
        and (which.figures is None or which.figures == (number_of(variance["expected"]), number_of(variance["actual"])))
    )


def _is_new(verdict: VarianceDecision | None, word: Word) -> bool:
    return verdict is None or verdict.is_accepted is not (word == "accepted")


def _about(variance: Mapping[str, Any]) -> About:
    return (
        UUID(variance["document"]),
        VarianceCode(variance["code"]),
        variance["line"],
        Decimal(variance["expected"]),
        Decimal(variance["actual"]),
    )


def _no_match(variances: Collection[Mapping[str, Any]], which: VarianceSelector) -> str:
    if which != VarianceSelector() and any(_matches_selector(one, which) for one in variances):
        return (
            "This is not a difference between two figures. Change the documents instead of accepting or disputing it."
        )
    if which != VarianceSelector():
        return "The cluster has no such difference."
    others = [one["message"] for one in variances if _is_open(one, {})]
    return " ".join(["The cluster has no open difference that can be accepted or disputed.", *others])


_SELLERS = "SELECT id, type, received_at, structured_data FROM document WHERE id = ANY(%s)"


# Current results of the documents' clusters.
_RESULTS = """
SELECT result FROM cluster_diagnostics
WHERE result IS NOT NULL AND id IN (SELECT cluster_id FROM document WHERE id = ANY(%s))
"""


def labels(connection: Connection) -> Iterator[DecisionLabel]:
    """Yield the decisions about differences in the transaction's tenant, with each document's supplier.

    An accepted difference counts only while its cluster still has it, because documents may change or move. A disputed
    one always counts.
    """
    found = diagnostics.list_variance_decisions(connection)
    ids = list({verdict.about[0] for verdict in found})
    rows = connection.execute(_SELLERS, [ids]).fetchall()
    sellers = {row[0]: read_document(*row).sellers for row in rows if row[1] != "other" and row[3] is not None}
    results = connection.execute(_RESULTS, [ids])
    standing = {_about(one) for (result,) in results for one in result["variances"] if _is_difference(one)}
    for verdict in found:
        stated = sellers.get(verdict.about[0])
        if stated and (verdict.about in standing or not verdict.is_accepted):
            yield DecisionLabel(stated, verdict)
