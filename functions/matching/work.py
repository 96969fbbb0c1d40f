"""One attempt at matching a document: search and decision outside a transaction, edges and clusters in one."""

from collections.abc import Sequence

from counterfoil.db import Connection
from counterfoil.delivery import Attempt, Outcome, Skip, Success
from counterfoil.documents import matching
from counterfoil.work import Send


def match(attempt: Attempt) -> Outcome:
    """Match one document against its tenant's others."""
    assert attempt.tenant_id is not None  # a document's tenant is NOT NULL
    prepared = matching.prepare(attempt.database, attempt.tenant_id, attempt.work_id)
    if isinstance(prepared, matching.Skip):
        return Skip(prepared.reason)
    attempt.check()
    decided = matching.search_and_decide(attempt.database, prepared)
    reasons: list[str | None] = []

    def effects(connection: Connection) -> Sequence[Send]:
        reasons[:] = [matching.write(connection, decided, attempt.now()).reason]
        return ()

    return Success(effects, reason=lambda: reasons[0])
