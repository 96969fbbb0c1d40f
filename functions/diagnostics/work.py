"""One attempt to compare a cluster: stores the result and enqueues deliveries.

If the cluster no longer exists, no result is stored. Destinations that received the cluster are notified.
"""

from counterfoil.db import Connection
from counterfoil.delivery.attempt import Effects, Outcome, Skipped, Succeeded, TenantAttempt
from counterfoil.documents import diagnostics
from counterfoil.documents.clusters import cluster_data
from counterfoil.webhooks.destinations import enqueue


def diagnose(attempt: TenantAttempt) -> Outcome:
    """Compare the documents of one cluster.

    Raises:
        StaleClaimError: the cluster was changed concurrently.
    """
    tenant_id, cluster_id = attempt.tenant_id, attempt.work_id
    with attempt.database.tenant(tenant_id) as connection:
        cluster = diagnostics.load(connection, tenant_id, cluster_id)
    attempt.deadline.check()
    result = None if cluster is None else cluster.compare()
    attempt.deadline.check()

    def effects(connection: Connection) -> Effects:
        now = attempt.now()
        diagnostics.write(connection, cluster_id, attempt.token, result, now)

        def data() -> str | None:
            return None if result is None else cluster_data(connection, tenant_id, cluster_id, result.record)

        messages = enqueue(connection, tenant_id, "cluster", cluster_id, data, now)
        return Effects(messages, None if result is None else result.reasons[0])

    if result is None:
        return Skipped("The cluster no longer exists, or has no documents to compare.", effects)
    return Succeeded(effects)
