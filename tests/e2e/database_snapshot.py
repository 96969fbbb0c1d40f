"""Database state of a tenant's documents, by file name.

Reading it requires a superuser.
"""

from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import psycopg

from cli.local.cloud import Cloud
from cli.local.tenants import Tenant

_STATES = """
SELECT a.status, i.status, d.matching_status FROM acquisition_job a
LEFT JOIN source s ON s.job_id = a.id LEFT JOIN document d ON d.source_id = s.id
LEFT JOIN ingestion_job i ON i.id = d.id WHERE a.tenant_id = %(tenant)s
"""
_ATTEMPTS = """
SELECT 'acquisition', coalesce(max(attempts), 0) FROM acquisition_job WHERE tenant_id = %(tenant)s
UNION ALL SELECT 'ingestion', coalesce(max(attempts), 0) FROM ingestion_job WHERE tenant_id = %(tenant)s
UNION ALL SELECT 'matching', coalesce(max(matching_attempts), 0) FROM document WHERE tenant_id = %(tenant)s
"""
_RETRIED = """
SELECT (SELECT count(*) FROM acquisition_job WHERE tenant_id = %(tenant)s AND attempts > 1)
     + (SELECT count(*) FROM ingestion_job WHERE tenant_id = %(tenant)s AND attempts > 1)
     + (SELECT count(*) FROM document WHERE tenant_id = %(tenant)s AND matching_attempts > 1)
"""
_EDGES = """
SELECT least(a.file_name, b.file_name), greatest(a.file_name, b.file_name), m.decided_by FROM document_match m
JOIN document a ON a.id = m.document_a_id JOIN document b ON b.id = m.document_b_id WHERE m.tenant_id = %(tenant)s
"""
_CLUSTERS = """
SELECT array_agg(file_name) FROM document WHERE tenant_id = %(tenant)s GROUP BY coalesce(cluster_id, id)
"""
_FAILED = """
SELECT 'acquisition ' || id, regexp_replace(key, '.*/', '') FROM acquisition_job
WHERE tenant_id = %(tenant)s AND status = 'failed'
UNION ALL SELECT 'ingestion ' || id, file_name FROM ingestion_job JOIN document USING (tenant_id, id)
WHERE tenant_id = %(tenant)s AND status = 'failed'
UNION ALL SELECT 'matching ' || id, file_name FROM document WHERE tenant_id = %(tenant)s AND matching_status = 'failed'
"""
_DEAD_LETTERS = """
SELECT worker || ' ' || work_id, dlq_reason, attempts FROM dead_letter WHERE tenant_id = %(tenant)s
"""
_NOTIFIED = """
SELECT l.worker || ' ' || l.work_id FROM failure_event n JOIN dead_letter l USING (job_id)
WHERE n.tenant_id = %(tenant)s
"""

FINAL_STATES = {
    ("failed", None, None),
    ("succeeded", "failed", None),
    ("succeeded", "succeeded", "failed"),
    ("succeeded", "succeeded", "succeeded"),
}
"""Final combinations of an upload's acquisition, ingestion and matching states."""


@dataclass(frozen=True)
class Snapshot:
    """Database state of the processing of a tenant's documents."""

    states: Counter[tuple[str | None, ...]]
    """Number of uploads by acquisition, ingestion and matching state."""
    documents: Counter[str]
    attempts: dict[str, int]
    """Highest attempt count of any work item, by worker."""
    retried_items: int
    """Number of work items with more than one attempt."""
    edges: Counter[tuple[str, str, str]]
    """Number of matches by pair of file names and `decided_by`."""
    clusters: frozenset[frozenset[str]]
    failed: Counter[str]
    """Failed work items, as worker and id."""
    failed_files: frozenset[str]
    """Names of the failed work items' files."""
    dead_letters: Counter[tuple[str, str, int]]
    """Dead letters, as work item, reason and number of attempts."""
    notified: Counter[str]
    unsent: int
    """Number of unsent messages in the outbox."""

    @property
    def ended_count(self) -> int:
        """Number of uploads in a final state."""
        return sum(self.states[end] for end in FINAL_STATES)


def read_snapshot(cloud: Cloud, tenant: Tenant) -> Snapshot:
    """Read the current state of a tenant's documents."""
    with psycopg.connect(cloud.state.database_url, connect_timeout=5) as admin:

        def rows(statement: str) -> list[Any]:
            return admin.execute(statement.encode(), {"tenant": tenant.id}).fetchall()

        return Snapshot(
            states=Counter(rows(_STATES)),
            documents=Counter(name for (name,) in rows("SELECT file_name FROM document WHERE tenant_id = %(tenant)s")),
            attempts=dict(rows(_ATTEMPTS)),
            retried_items=rows(_RETRIED)[0][0],
            edges=Counter(rows(_EDGES)),
            clusters=frozenset(frozenset(names) for (names,) in rows(_CLUSTERS)),
            failed=Counter(work_id for work_id, _ in rows(_FAILED)),
            failed_files=frozenset(name for _, name in rows(_FAILED)),
            dead_letters=Counter(rows(_DEAD_LETTERS)),
            notified=Counter(name for (name,) in rows(_NOTIFIED)),
            unsent=len(rows("SELECT 1 FROM outbox WHERE tenant_id = %(tenant)s AND sent_at IS NULL")),
        )


def queued_messages(cloud: Cloud) -> dict[str, int]:
    """Return the number of messages in each non-empty queue.

    In-flight and delayed messages are included.
    """
    counts = {}
    names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
    with closing(cloud.client("sqs")) as sqs:
        for name, url in cloud.outputs.items():
            if name.endswith("QueueUrl"):
                attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
                counts[name] = sum(int(number) for number in attributes.values())
    return {name: number for name, number in counts.items() if number}
