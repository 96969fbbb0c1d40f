"""Matching attempts, for one document or a batch.

Usually, an attempt is one transaction: it searches and decides, takes the tenant's matching lock, and writes edges and
clusters. Search and model calls run before the writing transaction if a model is used, if a document cannot be matched,
or after a concurrent change. The writing transaction also enqueues the comparison of changed clusters (`diagnostics`).
A matched document that can no longer be matched after reprocessing is removed from its cluster.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Effects, Outcome, Skipped, Succeeded, TenantAttempt
from counterfoil.delivery.dead_letter import restart
from counterfoil.documents import diagnostics, matching
from counterfoil.documents.matching import sql
from counterfoil.llm import Llm

WITHDRAWN = "A matched document or candidate was extracted again and can no longer be matched."


@dataclass(frozen=True)
class Embedding:
    """The configured embedding model."""

    name: str
    """Provider and model name."""
    make: Callable[[Database], Llm]


def match(
    attempt: TenantAttempt,
    language_model: Callable[[Database], Llm] | None = None,
    embedding: Embedding | None = None,
) -> Outcome:
    """Match one document with other documents of its tenant.

    `language_model` creates the LLM judge, if configured.
    """
    tenant_id = attempt.tenant_id

    def judge(make: Callable[[Database], Llm]) -> matching.Judge:
        llm = make(attempt.database)
        return matching.Judge(llm, llm.provider.model, attempt.now, attempt.deadline)

    def embedder(model: Embedding) -> matching.Embedder:
        make = partial(model.make, attempt.database)
        return matching.Embedder(model.name, make, attempt.deadline)

    decision = matching.search_and_decide(
        attempt.database,
        tenant_id,
        attempt.work_id,
        None if language_model is None else partial(judge, language_model),
        None if embedding is None else embedder(embedding),
    )
    if isinstance(decision, matching.SkipMatching):
        return Skipped(decision.reason, lambda connection: _skip(connection, attempt, decision))

    def effects(connection: Connection) -> Effects:
        now = attempt.now()
        written = matching.write(connection, decision, now)
        messages = diagnostics.enqueue_diagnostics(
            connection, tenant_id, written.clusters, now, document_ids=written.documents
        )
        return Effects(messages, written.reason)

    return Succeeded(effects)


def match_together(
    connection: Connection, attempts: Sequence[TenantAttempt], *, judging: bool = False
) -> dict[UUID, Effects]:
    """Match a batch of a tenant's independent documents.

    Return the effects by document.

    Documents whose ambiguous matches need the LLM judge (`judging`) are matched separately.
    """
    tenant_id = attempts[0].tenant_id
    results = matching.search(connection, tenant_id, [attempt.work_id for attempt in attempts])
    pending = [
        result
        for result in results.values()
        if isinstance(result, matching.PendingMatch) and not (judging and result.outcome.pending_prompts)
    ]
    if not pending:
        return {}
    now = attempts[0].now()
    written = matching.write_batch(connection, pending, now)
    messages = diagnostics.enqueue_diagnostics(
        connection, tenant_id, written.clusters, now, document_ids=written.documents
    )
    effects: dict[UUID, Effects] = {}
    for id_, remark in written.reasons.items():  # one transaction settles all, so the first effects have all messages
        effects[id_] = Effects(() if effects else messages, remark)
    return effects


def _skip(connection: Connection, attempt: TenantAttempt, skip: matching.SkipMatching) -> Effects:
    """Withdraw a document that cannot be matched, and open a review if needed.

    A review is needed if a reviewer must choose the match.
    """
    now = attempt.now()
    withdrawn = matching.withdraw(connection, attempt.tenant_id, attempt.work_id, now)
    if skip.needs_review:
        sql.open_unmatched(connection, attempt.work_id, skip.reason, now)
    if withdrawn is None:
        return Effects()
    messages = restart(connection, "matching", withdrawn.affected, now, actor="matching", reason=WITHDRAWN)
    tenant_id, clusters = attempt.tenant_id, withdrawn.clusters
    messages += diagnostics.enqueue_diagnostics(connection, tenant_id, clusters, now, document_ids=withdrawn.neighbors)
    return Effects(messages)
