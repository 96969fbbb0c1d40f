"""Cluster diagnostics in PostgreSQL: comparison requests, inputs and results."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil.db import Connection
from counterfoil.delivery.dead_letter import close_pending
from counterfoil.delivery.work import Message, OutboxMessage
from counterfoil.documents.kinds import DIAGNOSTICS
from counterfoil.documents.matching.normalize import words
from counterfoil.documents.three_way_match import (
    Document,
    Key,
    Limits,
    Result,
    Tolerance,
    Tolerances,
    VarianceCode,
    VarianceDecision,
    find_variances,
    read_document,
)
from counterfoil.errors import StaleClaimError

WORKER = "diagnostics"
DEBOUNCE = timedelta(seconds=5)
"""Delay between the first request and the computation, so that changes shortly after the request are included."""
CHANGED_NOTE = "The cluster has changed and will be compared again."

# A pending cluster stays unchanged. Its computation will see the writes of this transaction, because the row is locked
# until the commit (ON CONFLICT also locks rows that its condition excludes). Otherwise a new revision starts, as in
# `work.start_revision`, because an attempt in progress has read old data. That attempt's claim token becomes stale.
# Rows are locked in id order, as in claims.
_REQUEST = DIAGNOSTICS.sql("""
WITH requested AS (
    SELECT id FROM unnest(%(clusters)s::uuid[]) AS c (id)
    WHERE NOT EXISTS (SELECT FROM document WHERE document.id = c.id AND type = 'contract')
    UNION
    SELECT cluster_id FROM document WHERE id = ANY(%(documents)s) AND type <> 'contract' AND cluster_id IS NOT NULL
    ORDER BY id
),
started AS (
    INSERT INTO {table} AS work (id, tenant_id, created_at, {status}, {revision}, {claim_token})
    SELECT id, %(tenant)s, %(now)s, 'pending', 1, nextval('claim_token') FROM requested
    ON CONFLICT (id) DO UPDATE SET {status} = 'pending', {revision} = work.{revision} + 1, {send_number} = 0,
        {claim_token} = nextval('claim_token'), {error} = NULL, {skip_reason} = NULL, {failed_at} = NULL,
        {attempts} = 0, {dlq_returns} = 0, {claimed_at} = NULL, {lease_expires_at} = NULL, {next_attempt_at} = NULL
    WHERE work.{status} IS DISTINCT FROM 'pending' OR work.{attempts} > 0 OR work.{dlq_returns} > 0
       OR work.{next_attempt_at} IS NOT NULL
    RETURNING id, tenant_id, {revision} AS revision, {send_number} AS send_number,
        coalesce(old.{status} = 'failed', false) AS had_failed
), enqueued AS (
    INSERT INTO outbox (tenant_id, worker, work_id, revision, send_number, scheduled_at, created_at)
    SELECT tenant_id, %(worker)s, id, revision, send_number, %(due)s, %(now)s FROM started
    ON CONFLICT (worker, work_id, revision, send_number) DO NOTHING
    RETURNING id, worker, tenant_id, work_id, revision, send_number, scheduled_at
)
SELECT enqueued.*, started.had_failed FROM enqueued JOIN started ON started.id = enqueued.work_id
""")


def enqueue_diagnostics(
    connection: Connection,
    tenant_id: UUID,
    cluster_ids: Collection[UUID],
    now: datetime,
    *,
    document_ids: Collection[UUID] = (),
) -> list[OutboxMessage]:
    """Request the computation of clusters in the transaction that changes them.

    Return outbox messages.

    `cluster_ids` must contain the old and new id of every cluster that gained, lost or changed a document or an edge.
    The current clusters of `document_ids` are included. A pending cluster is computed only once.
    """
    rows = connection.execute(
        _REQUEST,
        {
            "clusters": list(cluster_ids),
            "documents": list(document_ids),
            "tenant": tenant_id,
            "worker": WORKER,
            "due": now + DEBOUNCE,
            "now": now,
        },
    ).fetchall()
    failed = [row[3] for row in rows if row[-1]]
    if failed:
        close_pending(
            connection, [DIAGNOSTICS.job_id(id_) for id_ in failed], "retried", now, actor=WORKER, note=CHANGED_NOTE
        )
    return [
        OutboxMessage(id_, worker, tenant, Message(work_id=work_id, revision=revision, send_number=send_number), due)
        for id_, worker, tenant, work_id, revision, send_number, due, _ in rows
    ]


MAX_IMMEDIATE_DOCUMENTS = 500
"""Maximum number of documents that are compared while the caller waits. The worker compares larger clusters."""
_STORED = "SELECT claim_token, documents FROM cluster_diagnostics WHERE id = %s"


def compare_now(connection: Connection, tenant_id: UUID, cluster_id: UUID, now: datetime) -> None:
    """Compare a small cluster immediately, and store the result.

    A cluster of more than MAX_IMMEDIATE_DOCUMENTS documents is not compared. The caller must have locked the cluster
    and requested its computation. The worker compares it again, because only the worker delivers the result, and only
    its claim excludes concurrent changes.
    """
    ((token, documents),) = connection.execute(_STORED, [cluster_id]).fetchall()
    if documents is None or documents > MAX_IMMEDIATE_DOCUMENTS:
        return
    cluster = load(connection, tenant_id, cluster_id)
    write(connection, cluster_id, token, None if cluster is None else cluster.compare(), now)


@dataclass(frozen=True)
class DiagnosticsInput:
    """Inputs to a cluster's comparison."""

    documents: tuple[Document, ...]
    """The cluster's documents, and contracts linked to them."""
    edges: tuple[tuple[UUID, UUID], ...]
    tolerances: Tolerances
    decisions: tuple[VarianceDecision, ...]
    """Latest decision about each difference."""
    ambiguous_ids: frozenset[UUID]
    """Documents with an open review."""
    confirmed_ids: frozenset[UUID]
    """Documents with a match that a reviewer confirmed."""

    def compare(self) -> Result:
        """Compare the documents. Pure."""
        return find_variances(
            self.documents, self.edges, self.tolerances, self.decisions, self.ambiguous_ids, self.confirmed_ids
        )


_EDGES = """
WITH member AS (SELECT id FROM document WHERE tenant_id = %(tenant)s AND cluster_id = %(cluster)s)
SELECT document_a_id, document_b_id, decided_by = 'reviewer' FROM document_match
WHERE document_a_id IN (SELECT id FROM member)
UNION
SELECT document_a_id, document_b_id, decided_by = 'reviewer' FROM document_match
WHERE document_b_id IN (SELECT id FROM member)
"""

# The cluster's documents, and contracts linked to them.
_DOCUMENTS = """
SELECT id, type, received_at, structured_data FROM document
WHERE ((tenant_id = %(tenant)s AND cluster_id = %(cluster)s) OR id = ANY(%(others)s))
  AND type <> 'other' AND structured_data IS NOT NULL
"""

_IS_COMPARABLE = """
SELECT FROM document WHERE tenant_id = %s AND cluster_id = %s AND type NOT IN ('other', 'contract')
  AND structured_data IS NOT NULL
"""

_IN_REVIEW = """
SELECT r.document_id FROM document d JOIN document_review r ON r.document_id = d.id
WHERE d.tenant_id = %(tenant)s AND d.cluster_id = %(cluster)s AND r.state = 'open'
"""

_TOLERANCES = """
SELECT variance_type, lower_absolute, lower_percent, upper_absolute, upper_percent, supplier, article FROM tolerance
WHERE tenant_id = %s ORDER BY created_at, id
"""


def load(connection: Connection, tenant_id: UUID, cluster_id: UUID) -> DiagnosticsInput | None:
    """Return a cluster's comparison inputs, or None if no document is comparable.

    The result is also None if the cluster no longer exists. The statements may see different snapshots. This is safe,
    because every change to the cluster starts a new revision in the same transaction, and `write` then rejects the
    outdated result.
    """
    if connection.execute(_IS_COMPARABLE, [tenant_id, cluster_id]).fetchone() is None:
        return None
    parameters = {"tenant": tenant_id, "cluster": cluster_id}
    edges = connection.execute(_EDGES, parameters).fetchall()
    document_ids = list({end for *edge, _ in edges for end in edge})
    rows = connection.execute(_DOCUMENTS, {**parameters, "others": document_ids}).fetchall()
    return DiagnosticsInput(
        tuple(read_document(*row) for row in rows),
        tuple((a, b) for a, b, _ in edges),
        Tolerances(tolerances(connection, tenant_id)),
        tuple(list_variance_decisions(connection, [row[0] for row in rows])),
        frozenset(id_ for (id_,) in connection.execute(_IN_REVIEW, parameters)),
        frozenset(end for *edge, is_confirmed in edges if is_confirmed for end in edge),
    )


def tolerances(connection: Connection, tenant_id: UUID) -> list[Tolerance]:
    """Return the tenant's tolerances, oldest first."""
    rows = connection.execute(_TOLERANCES, [tenant_id])
    return [Tolerance(Key(key), Limits(*limits), supplier, article) for key, *limits, supplier, article in rows]


# The latest decision about a difference applies.
_DECISIONS = """
SELECT DISTINCT ON (document_id, code, line, expected, actual)
    id, document_id, code, line, expected, actual, coalesce(currency, unit), decision = 'accepted', decided_by,
    decided_at, reason
FROM variance_decision WHERE %(ids)s::uuid[] IS NULL OR document_id = ANY(%(ids)s)
ORDER BY document_id, code, line, expected, actual, id DESC
"""


def list_variance_decisions(
    connection: Connection, document_ids: Collection[UUID] | None = None
) -> list[VarianceDecision]:
    """Return the latest decision about each difference in these documents.

    If `document_ids` is None, all documents are included.
    """
    rows = connection.execute(_DECISIONS, {"ids": None if document_ids is None else list(document_ids)})
    return [
        VarianceDecision(
            id_, (document_id, VarianceCode(code), line, expected, actual), measure, accepted, by, at, reason
        )
        for id_, document_id, code, line, expected, actual, measure, accepted, by, at, reason in rows
    ]


_WRITE = """
UPDATE cluster_diagnostics
SET match_status = %(outcome)s, result = %(result)s, computed_at = %(now)s, cluster_status = %(cluster_status)s,
    supplier = %(supplier)s, supplier_key = %(supplier_key)s, order_numbers = %(order_numbers)s,
    currency = %(currency)s, amount_ordered = %(ordered)s, amount_delivered = %(delivered)s,
    amount_billed = %(billed)s, amount_affected = %(affected)s, waiting_since = %(waiting_since)s,
    documents = %(documents)s
WHERE id = %(id)s AND claim_token = %(token)s
"""
_SUMMARY = ("supplier", "currency", "ordered", "delivered", "billed", "affected", "waiting_since", "documents")


def write(connection: Connection, cluster_id: UUID, token: int, result: Result | None, now: datetime) -> None:
    """Store the result of a cluster's comparison.

    `result` is None if there was nothing to compare.

    The claim token shows whether the documents have changed, because every change takes a new token in the same
    transaction. The row stays locked until the commit, so that no change can be committed concurrently.

    Raises:
        StaleClaimError: the cluster has changed since it was read. The newer revision will compare it.
    """
    values = dict.fromkeys((*_SUMMARY, "outcome", "result", "cluster_status", "supplier_key", "order_numbers"))
    if result is not None:
        summary = result.summary
        values = {name: getattr(summary, name) for name in _SUMMARY}
        values |= {
            "outcome": result.outcome.value,
            "result": Jsonb(result.record),
            "cluster_status": summary.status.value,
            "supplier_key": words(summary.supplier) if summary.supplier else None,
            "order_numbers": list(summary.order_numbers),
        }
    cursor = connection.execute(_WRITE, {**values, "id": cluster_id, "token": token, "now": now})
    if cursor.rowcount == 0:
        message = f"Cluster {cluster_id} has a newer claim token than {token}"
        raise StaleClaimError(message)
