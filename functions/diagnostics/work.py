"""One attempt at a cluster: its documents are read and held against one another, what comes of it is written and told.

A cluster that is no more has no result, and whoever was told of it is told so.
"""

from collections.abc import Sequence

from counterfoil.db import Connection
from counterfoil.delivery import Attempt, Outcome, Skip, Success
from counterfoil.documents import diagnostics
from counterfoil.documents.cluster_payload import cluster_data
from counterfoil.webhooks.destinations import enqueue
from counterfoil.work import Send


def diagnose(attempt: Attempt) -> Outcome:
    """Compute one cluster.

    Raises:
        StaleClaimError: the cluster has changed meanwhile.
    """
    assert attempt.tenant_id is not None  # a cluster's tenant is NOT NULL
    tenant_id, cluster_id = attempt.tenant_id, attempt.work_id
    with attempt.database.tenant(tenant_id) as connection:
        cluster = diagnostics.load(connection, tenant_id, cluster_id)
    attempt.check()
    result = None if cluster is None else cluster.examine()
    attempt.check()

    def effects(connection: Connection) -> Sequence[Send]:
        now = attempt.now()
        diagnostics.write(connection, cluster_id, attempt.token, result, now)

        def data() -> str | None:
            return None if result is None else cluster_data(connection, tenant_id, cluster_id, result.record)

        return enqueue(connection, tenant_id, "cluster", cluster_id, data, now)

    if result is None:
        return Skip("The cluster is no more, or has nothing to be compared.", effects)
    return Success(effects, reason=lambda: result.reasons[0])
