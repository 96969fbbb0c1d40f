"""The history of a document, of what was kept of it: its tries, what people decided, what came of it.

`work_attempt` has the tries that failed, were put off or lost, and of those that succeeded the first one after a
failure (of tasks, all), for 90 days: what is not kept is not told. Each function runs in a transaction that sees one
tenant alone (`Database.tenant`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.documents.kinds import BY_WORKER
from counterfoil.documents.particulars import works_of

LAST = 100
"""Of each kind of event that are told: the last."""

Kind = Literal["arrival", "work", "try", "running", "due", "letter", "question", "link", "review", "decision", "result"]


@dataclass(frozen=True)
class Event:
    """Something that happened to a document, or to work about it."""

    at: datetime
    """When it was over; of a try under way when it began; of one that is due when it may begin."""
    kind: Kind
    what: str
    who: str
    """The worker, or the person."""
    began_at: datetime | None = None
    revision: int | None = None
    number: int | None = None
    """Of the try."""
    error_type: str | None = None
    error: str | None = None
    next_attempt_at: datetime | None = None
    other: UUID | None = None
    """The other document of a link or a decision."""
    job_id: UUID | None = None
    """Of the dead letter."""
    detail: Mapping[str, Any] = field(default_factory=dict)


_TRIES = """
SELECT t.ended_at, 'try', t.outcome, t.worker, t.began_at, t.revision, t.number, t.error_type, t.error,
       t.next_attempt_at
FROM unnest(%(workers)s::text[], %(works)s::uuid[]) AS about (worker, id)
JOIN work_attempt t ON t.work_id = about.id AND t.worker = about.worker
ORDER BY t.ended_at DESC, t.id DESC LIMIT %(most)s
"""
# What the life cycles say of now: tries under way, and those that are put off.
_NOW = """
WITH work AS (
    SELECT 'acquisition' AS worker, status, claimed_at, next_attempt_at, revision, attempts FROM acquisition_job
    WHERE id = ANY(%(works)s)
    UNION ALL
    SELECT 'ingestion', status, claimed_at, next_attempt_at, revision, attempts FROM ingestion_job WHERE id = %(id)s
    UNION ALL
    SELECT 'matching', matching_status, matching_claimed_at, matching_next_attempt_at, matching_revision,
           matching_attempts FROM document WHERE id = %(id)s
    UNION ALL
    SELECT 'diagnostics', status, claimed_at, next_attempt_at, revision, attempts FROM cluster_diagnostics
    WHERE id = ANY(%(works)s)
    UNION ALL
    SELECT 'document_output', status, claimed_at, next_attempt_at, revision, attempts FROM output_job
    WHERE id = ANY(%(works)s)
)
SELECT CASE status WHEN 'pending' THEN next_attempt_at ELSE claimed_at END,
       CASE status WHEN 'pending' THEN 'due' ELSE 'running' END, status, worker, NULL::timestamptz, revision,
       CASE status WHEN 'pending' THEN attempts + 1 ELSE attempts END
FROM work WHERE CASE status WHEN 'pending' THEN next_attempt_at WHEN 'in-progress' THEN claimed_at END IS NOT NULL
"""
_ARRIVAL = """
SELECT received_at, 'arrival', 'received', 'acquisition', jsonb_build_object('file', file_name) FROM document
WHERE id = %(id)s
UNION ALL
SELECT last_seen_at, 'arrival', 'seen again', 'acquisition', jsonb_build_object('times', seen_again) FROM document
WHERE id = %(id)s AND seen_again > 0
UNION ALL
SELECT created_at, 'work', 'queued', 'ingestion', '{}' FROM ingestion_job WHERE id = %(id)s
UNION ALL
SELECT created_at, 'work', 'queued', 'diagnostics', '{}' FROM cluster_diagnostics WHERE id = ANY(%(works)s)
UNION ALL
SELECT computed_at, 'result', outcome, 'diagnostics', '{}' FROM cluster_diagnostics
WHERE id = ANY(%(works)s) AND computed_at IS NOT NULL AND outcome IS NOT NULL
UNION ALL
SELECT requested_at, 'work', 'queued', 'document_output', jsonb_build_object('subject', subject) FROM output_job
WHERE id = ANY(%(works)s)
UNION ALL
SELECT delivered_at, 'result', 'delivered', 'document_output',
       jsonb_build_object('subject', subject, 'response_status', response_status) FROM output_job
WHERE id = ANY(%(works)s) AND delivered_at IS NOT NULL
UNION ALL
SELECT opened_at, 'review', 'opened', 'matching', '{}' FROM document_review WHERE document_id = %(id)s
UNION ALL
SELECT changed_at, 'review', 'changed', 'matching', '{}' FROM document_review
WHERE document_id = %(id)s AND changed_at > opened_at AND changed_at IS DISTINCT FROM closed_at
UNION ALL
SELECT closed_at, 'review', state, 'matching', '{}' FROM document_review
WHERE document_id = %(id)s AND closed_at IS NOT NULL
"""
_QUESTIONS = """
SELECT judged_at, 'question', 'judged', model FROM judgement WHERE document_id = %(id)s
UNION ALL
SELECT read_at, 'question', 'read', read_by FROM reading WHERE document_id = %(id)s
ORDER BY 1 DESC LIMIT %(most)s
"""
_LINKS = """
SELECT decided_at, 'link', 'linked', decided_by,
       CASE document_a_id WHEN %(id)s THEN document_b_id ELSE document_a_id END,
       jsonb_build_object('confidence', confidence, 'reasoning', reasoning)
FROM (
    SELECT * FROM document_match WHERE document_a_id = %(id)s
    UNION ALL SELECT * FROM document_match WHERE document_b_id = %(id)s
) AS edge
ORDER BY decided_at DESC, document_a_id, document_b_id LIMIT %(most)s
"""
_DECISIONS = """
SELECT decided_at, 'decision', verdict, decided_by,
       CASE document_a_id WHEN %(id)s THEN document_b_id ELSE document_a_id END,
       jsonb_strip_nulls(jsonb_build_object('reason', reason))
FROM (
    SELECT * FROM match_decision WHERE document_a_id = %(id)s
    UNION ALL SELECT * FROM match_decision WHERE document_b_id = %(id)s
) AS decision
UNION ALL
SELECT decided_at, 'decision', verdict, decided_by, NULL,
       jsonb_strip_nulls(jsonb_build_object('reason', reason, 'code', code, 'line', line))
FROM variance_decision WHERE document_id = %(id)s
ORDER BY 1 DESC LIMIT %(most)s
"""
_LETTERS = """
SELECT t.recorded_at, 'letter', t.action, t.actor, t.job_id, t.detail
FROM dead_letter_audit t JOIN dead_letter l ON l.job_id = t.job_id AND l.purged_at IS NULL
WHERE t.job_id = ANY(%(jobs)s) ORDER BY t.recorded_at DESC, t.id DESC LIMIT %(most)s
"""


def of(connection: Connection, tenant_id: UUID, document_id: UUID) -> list[Event]:
    """What is known to have happened to a document, the first of it first; of each kind the last LAST.

    A later death of work begins with its failed try; what was done about its dead letter is in that letter's history.
    """
    works = works_of(connection, tenant_id, document_id)
    asked = {
        "id": document_id,
        "workers": [work.worker for work in works],
        "works": [work.id for work in works],
        "jobs": [BY_WORKER[work.worker].job_id(work.id) for work in works],
        "most": LAST,
    }
    tries = [Event(*row) for row in connection.execute(_TRIES, asked)]
    now = [Event(*row) for row in connection.execute(_NOW, asked)]
    arrival = [
        Event(at, kind, what, who, detail=detail) for at, kind, what, who, detail in connection.execute(_ARRIVAL, asked)
    ]
    questions = [Event(*row) for row in connection.execute(_QUESTIONS, asked)]
    links = [
        Event(at, kind, what, who, other=other, detail=detail)
        for statement in (_LINKS, _DECISIONS)
        for at, kind, what, who, other, detail in connection.execute(statement, asked)
    ]
    letters = [
        Event(at, kind, what, who, job_id=job_id, detail=detail)
        for at, kind, what, who, job_id, detail in connection.execute(_LETTERS, asked)
    ]
    return sorted([*arrival, *tries, *questions, *letters, *links, *now], key=lambda event: event.at)
