"""What became of a tenant's documents, as nobody but the database's owner may see it; they go by their files' names."""

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
_BEGUN_AGAIN = """
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
_LETTERS = """
SELECT worker || ' ' || work_id, dlq_reason, attempts FROM dead_letter WHERE tenant_id = %(tenant)s
"""
_NOTIFIED = """
SELECT l.worker || ' ' || l.work_id FROM notification n JOIN dead_letter l USING (job_id)
WHERE n.tenant_id = %(tenant)s
"""

ENDS = {
    ("failed", None, None),
    ("succeeded", "failed", None),
    ("succeeded", "succeeded", "failed"),
    ("succeeded", "succeeded", "succeeded"),
}
"""The states of acquisition, ingestion and matching together, where nothing is under way any more."""


@dataclass(frozen=True)
class Found:
    """Everything about the documents that an end may be judged by."""

    states: Counter[tuple[str | None, ...]]
    """Of acquisition, ingestion and matching together, how many uploads are in them."""
    documents: Counter[str]
    attempts: dict[str, int]
    """The most that any piece of work had, by worker."""
    begun_again: int
    """Pieces of work that had more than one attempt."""
    edges: Counter[tuple[str, str, str]]
    """With who decided them."""
    clusters: frozenset[frozenset[str]]
    failed: Counter[str]
    """Work that has failed, by worker and id."""
    spoilt: frozenset[str]
    """The files of that work."""
    letters: Counter[tuple[str, str, int]]
    """Dead letters: of which work, why, after how many attempts."""
    notified: Counter[str]
    unsent: int
    """Messages that are owed."""

    @property
    def ended(self) -> int:
        """Uploads of which nothing is under way any more."""
        return sum(self.states[end] for end in ENDS)


def look(cloud: Cloud, tenant: Tenant) -> Found:
    """What there is now."""
    with psycopg.connect(cloud.state.database_url, connect_timeout=5) as admin:

        def rows(statement: str) -> list[Any]:
            return admin.execute(statement.encode(), {"tenant": tenant.id}).fetchall()

        return Found(
            states=Counter(rows(_STATES)),
            documents=Counter(name for (name,) in rows("SELECT file_name FROM document WHERE tenant_id = %(tenant)s")),
            attempts=dict(rows(_ATTEMPTS)),
            begun_again=rows(_BEGUN_AGAIN)[0][0],
            edges=Counter(rows(_EDGES)),
            clusters=frozenset(frozenset(names) for (names,) in rows(_CLUSTERS)),
            failed=Counter(work for work, _ in rows(_FAILED)),
            spoilt=frozenset(name for _, name in rows(_FAILED)),
            letters=Counter(rows(_LETTERS)),
            notified=Counter(name for (name,) in rows(_NOTIFIED)),
            unsent=len(rows("SELECT 1 FROM outbox WHERE tenant_id = %(tenant)s AND sent_at IS NULL")),
        )


def queued(cloud: Cloud) -> dict[str, int]:
    """Messages in every queue that holds any, hidden and delayed ones too."""
    found = {}
    names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
    with closing(cloud.client("sqs")) as sqs:
        for name, url in cloud.outputs.items():
            if name.endswith("QueueUrl"):
                attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
                found[name] = sum(int(number) for number in attributes.values())
    return {name: number for name, number in found.items() if number}
