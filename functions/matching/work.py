"""One attempt at matching a document: search and decision outside a transaction, edges and clusters in one.

That transaction also has the clusters computed that it changed (`diagnostics`). A document that was matched, and cannot
be any more since it was read anew, is taken out of its cluster.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from counterfoil.db import Connection, Database
from counterfoil.delivery import Attempt, Outcome, Skip, Success
from counterfoil.documents import diagnostics, matching
from counterfoil.documents.renewal import renew
from counterfoil.llm import Llm
from counterfoil.work import Send

WITHDRAWN = "A document that it was matched with, or could have been, was read anew and is matched no more."


@dataclass(frozen=True)
class Embedding:
    """The embedding model that is configured."""

    name: str
    """With its provider's."""
    make: Callable[[Database], Llm]


def match(
    attempt: Attempt,
    language_model: Callable[[Database], Llm] | None = None,
    embedding: Embedding | None = None,
) -> Outcome:
    """Match one document against its tenant's others. Where one is configured, `language_model` makes what judges."""
    assert attempt.tenant_id is not None  # a document's tenant is NOT NULL
    tenant_id = attempt.tenant_id

    def judge(make: Callable[[Database], Llm]) -> matching.Judge:
        llm = make(attempt.database)
        return matching.Judge(llm, llm.provider.model, attempt.now, attempt.time_left, attempt.cancelled, attempt.check)

    def embedder(model: Embedding) -> matching.Embedder:
        make = partial(model.make, attempt.database)
        return matching.Embedder(model.name, make, attempt.time_left, attempt.cancelled, attempt.check)

    decided = matching.search_and_decide(
        attempt.database,
        tenant_id,
        attempt.work_id,
        None if language_model is None else partial(judge, language_model),
        None if embedding is None else embedder(embedding),
    )
    if isinstance(decided, matching.Skip):
        return Skip(decided.reason, lambda connection: _withdraw(connection, attempt))
    reasons: list[str | None] = []

    def effects(connection: Connection) -> Sequence[Send]:
        now = attempt.now()
        written = matching.write(connection, decided, now)
        reasons[:] = [written.reason]
        return diagnostics.request(connection, tenant_id, written.clusters, now, document_ids=written.documents)

    return Success(effects, reason=lambda: reasons[0])


def _withdraw(connection: Connection, attempt: Attempt) -> Sequence[Send]:
    assert attempt.tenant_id is not None
    now = attempt.now()
    parts = matching.withdraw(connection, attempt.tenant_id, attempt.work_id, now)
    if parts is None:
        return ()
    sends = renew(connection, "matching", parts.touched, now, actor="matching", why=WITHDRAWN)
    return sends + diagnostics.request(
        connection, attempt.tenant_id, parts.clusters, now, document_ids=parts.neighbours
    )
