"""A document's fields, progress and matches, and its history.

Attempts in the history come from `work_attempt`. It stores failed, deferred and lost attempts, and the first success
after a failure, for 90 days. Each function runs in a transaction of one tenant (`Database.tenant`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

from pydantic import Field, JsonValue

from counterfoil.db import Connection
from counterfoil.documents import document_list
from counterfoil.documents.document_list import DocumentStage, DocumentSummary
from counterfoil.documents.kinds import BY_WORKER
from counterfoil.documents.matching.evidence import Step, evidence_steps
from counterfoil.documents.matching.sql import ReviewState
from counterfoil.documents.three_way_match.model import unit_name

MAX_LINE_ITEMS = 1_000
MAX_MATCHES = 100
MAX_PARTS = 200
"""Maximum number of parts shown per document."""


@dataclass(frozen=True)
class DocumentField:
    """A field of a document."""

    path: str
    value: JsonValue
    source: Annotated[str | None, Field(description="How it was found, such as `text:label`; null if not stored.")]
    confidence: Annotated[float | None, Field(description="0 to 1.")]
    page: int | None
    unit_name: Annotated[str | None, Field(description="Name of a unit code, such as `piece`; null for other fields.")]


@dataclass(frozen=True)
class Progress(DocumentStage):
    """Progress of a stage, with its attempt count."""

    attempts: int
    revision: int
    failed_at: datetime | None
    next_attempt_at: datetime | None


@dataclass(frozen=True)
class DocumentMatch:
    """A matched document, with the evidence."""

    document: DocumentSummary
    score: Annotated[float, Field(description="Match score in bits (log2 of the odds).")]
    confidence: str
    decided_by: str
    reasoning: str
    decided_at: datetime
    evidence: Annotated[Sequence[Step], Field(description="Result of each feature, in the order of scoring.")]


@dataclass(frozen=True)
class DocumentPart:
    """A document that was split off from a file with several documents."""

    id: UUID
    first_page: int
    last_page: int


@dataclass(frozen=True)
class DocumentDeadLetter:
    """A dead letter of one of the document's work items."""

    job_id: UUID
    worker: str
    status: str


@dataclass(frozen=True)
class DocumentSource:
    """Email or upload that the file came from."""

    kind: str
    received_at: datetime
    sender: str | None
    subject: str | None
    spf: Annotated[
        str | None, Field(description="Result from Amazon SES, such as pass or fail; null if SES reported none.")
    ]
    dkim: str | None
    dmarc: str | None


@dataclass(frozen=True, kw_only=True)
class Document(DocumentSummary):
    """A document with its fields, progress and matches."""

    size: Annotated[int, Field(description="File size in bytes.")]
    method: Annotated[str | None, Field(description="Extraction method.")]
    duplicate_uploads: Annotated[int, Field(description="Number of later files with the same content.")]
    last_duplicate_at: datetime
    source: DocumentSource
    parent_id: Annotated[UUID | None, Field(description="Document whose file this document was split from.")]
    first_page: int | None
    last_page: int | None
    parts: Annotated[Sequence[DocumentPart], Field(description=f"At most the first {MAX_PARTS}.")]
    fields: Annotated[Sequence[DocumentField], Field(description="Header fields.")]
    lines: Annotated[Sequence[Sequence[DocumentField]], Field(description=f"At most the first {MAX_LINE_ITEMS}.")]
    lines_total: int
    progress: Sequence[Progress]
    matches: Annotated[Sequence[DocumentMatch], Field(description=f"At most the {MAX_MATCHES} strongest.")]
    matches_total: int
    dead_letters: Sequence[DocumentDeadLetter]
    review: Annotated[ReviewState | None, Field(description="State of its review; null if it never needed a review.")]


_SHOW = """
SELECT d.size, d.method, d.duplicate_uploads, d.last_duplicate_at, s.kind, s.received_at, s.sender, s.subject,
       s.spf, s.dkim, s.dmarc, d.parent_id, d.first_page, d.last_page, d.structured_data, d.evidence, (
           SELECT state FROM document_review r WHERE r.document_id = d.id
       )
FROM document d JOIN source s ON s.id = d.source_id WHERE d.tenant_id = %(tenant)s AND d.id = %(id)s
"""
_PROGRESS = """
SELECT a.attempts, a.revision, a.failed_at, a.next_attempt_at, i.attempts, i.revision, i.failed_at, i.next_attempt_at,
       d.matching_attempts, d.matching_revision, d.matching_failed_at, d.matching_next_attempt_at,
       output.attempts, output.revision, output.failed_at, output.next_attempt_at
FROM document d JOIN source s ON s.id = d.source_id LEFT JOIN acquisition_job a ON a.id = s.job_id
LEFT JOIN ingestion_job i ON i.id = d.id
CROSS JOIN LATERAL (
    SELECT max(o.attempts) AS attempts, max(o.revision) AS revision, max(o.failed_at) AS failed_at,
           min(o.next_attempt_at) AS next_attempt_at
    FROM output_job o WHERE o.tenant_id = d.tenant_id AND o.subject_id IN (d.id, d.cluster_id)
      AND (o.subject, o.subject_id) IN (('document', d.id), ('cluster', d.cluster_id))
) AS output
WHERE d.id = %(id)s
"""
_PARTS = "SELECT id, first_page, last_page FROM document WHERE parent_id = %(id)s ORDER BY first_page LIMIT %(most)s"


def show(connection: Connection, tenant_id: UUID, document_id: UUID) -> Document | None:
    """Return the tenant's document, or None if it does not exist."""
    parameters = {"tenant": tenant_id, "id": document_id}
    summaries = document_list.page_of_ids(connection, tenant_id, [document_id])
    row = connection.execute(_SHOW, parameters).fetchone()
    attempts = connection.execute(_PROGRESS, parameters).fetchone()
    if not summaries or row is None or attempts is None:
        return None
    size, method, duplicate_uploads, last_duplicate_at, *source, parent_id, first, last, data, evidence, review = row
    (summary,) = summaries
    fields, lines = _fields(data or {}, evidence or {})
    edges, edges_total = list_matches(connection, tenant_id, document_id)
    work_items = list_work_items(connection, tenant_id, document_id)
    return Document(
        **vars(summary),
        size=size,
        method=method,
        duplicate_uploads=duplicate_uploads,
        last_duplicate_at=last_duplicate_at,
        source=DocumentSource(*source),
        parent_id=parent_id,
        first_page=first,
        last_page=last,
        parts=[DocumentPart(*part) for part in connection.execute(_PARTS, {**parameters, "most": MAX_PARTS})],
        fields=fields,
        lines=lines[:MAX_LINE_ITEMS],
        lines_total=len(lines),
        progress=list(_progress(summary.stages, attempts)),
        matches=edges,
        matches_total=edges_total,
        dead_letters=_dead_letters(connection, work_items),
        review=review,
    )


def _progress(stages: Sequence[DocumentStage], attempt_columns: Sequence[Any]) -> Iterator[Progress]:
    for index, stage in enumerate(stages):
        attempts, revision, failed_at, next_attempt_at = attempt_columns[4 * index : 4 * index + 4]
        yield Progress(stage.stage, stage.state, stage.reason, attempts or 0, revision or 0, failed_at, next_attempt_at)


def _fields(
    data: Mapping[str, Any], evidence: Mapping[str, Any]
) -> tuple[list[DocumentField], list[list[DocumentField]]]:
    """Return a document's header fields, and the fields of each line item.

    `evidence` maps field paths to evidence. The entry `*` applies to all paths that have no entry.
    """
    lines: Sequence[Mapping[str, Any]] = data.get("line_items") or ()
    header = {name: value for name, value in data.items() if name != "line_items"}
    return (
        list(_flatten_fields(header, "", evidence)),
        [list(_flatten_fields(line, f"line_items.{number}.", evidence)) for number, line in enumerate(lines)],
    )


def _flatten_fields(data: Mapping[str, Any], prefix: str, evidence: Mapping[str, Any]) -> Iterator[DocumentField]:
    for name, value in data.items():
        if isinstance(value, Mapping):
            yield from _flatten_fields(value, f"{prefix}{name}.", evidence)
            continue
        unit = unit_name(value, Decimal(1)) if name == "unit" and isinstance(value, str) else None
        field_evidence: Mapping[str, Any] = evidence.get(f"{prefix}{name}") or evidence.get("*") or {}
        yield DocumentField(
            f"{prefix}{name}",
            value,
            field_evidence.get("source"),
            field_evidence.get("confidence"),
            field_evidence.get("page"),
            unit,
        )


# -- matches ----------------------------------------------------------------------------------------------------------

_EDGES = """
SELECT CASE document_a_id WHEN %(id)s THEN document_b_id ELSE document_a_id END, score, confidence, decided_by,
       reasoning, decided_at, evidence -> 'features'
FROM (
    SELECT * FROM document_match WHERE document_a_id = %(id)s
    UNION ALL SELECT * FROM document_match WHERE document_b_id = %(id)s
) AS edge
ORDER BY score DESC, document_a_id, document_b_id LIMIT %(most)s
"""
_EDGES_TOTAL = """
SELECT (SELECT count(*) FROM document_match WHERE document_a_id = %(id)s)
     + (SELECT count(*) FROM document_match WHERE document_b_id = %(id)s)
"""


def list_matches(connection: Connection, tenant_id: UUID, document_id: UUID) -> tuple[list[DocumentMatch], int]:
    """Return a document's strongest matches, and the total number of matches.

    At most MAX_MATCHES matches are returned.
    """
    rows = connection.execute(_EDGES, {"id": document_id, "most": MAX_MATCHES}).fetchall()
    summaries = {
        summary.id: summary for summary in document_list.page_of_ids(connection, tenant_id, [row[0] for row in rows])
    }
    matches = [
        DocumentMatch(
            summaries[other], score, confidence, decided_by, reasoning, decided_at, evidence_steps(features or ())
        )
        for other, score, confidence, decided_by, reasoning, decided_at, features in rows
        if other in summaries
    ]
    if len(rows) < MAX_MATCHES:
        return matches, len(matches)
    total_row = connection.execute(_EDGES_TOTAL, {"id": document_id}).fetchone()
    return matches, total_row[0] if total_row else len(matches)


# -- work items -------------------------------------------------------------------------------------------------------

_WORKS = """
SELECT 'acquisition', s.job_id FROM document d JOIN source s ON s.id = d.source_id WHERE d.id = %(id)s
UNION ALL
SELECT 'diagnostics', cluster_id FROM document WHERE id = %(id)s AND cluster_id IS NOT NULL
UNION ALL
SELECT 'document_output', o.id FROM document d JOIN output_job o
    ON o.tenant_id = d.tenant_id AND o.subject_id IN (d.id, d.cluster_id)
    AND (o.subject, o.subject_id) IN (('document', d.id), ('cluster', d.cluster_id))
WHERE d.id = %(id)s AND d.tenant_id = %(tenant)s
"""


class WorkItem(NamedTuple):
    """Worker and work id of a document's work item."""

    worker: str
    id: UUID


def list_work_items(connection: Connection, tenant_id: UUID, document_id: UUID) -> list[WorkItem]:
    """Return the work items of a document, its source and its cluster."""
    rows = connection.execute(_WORKS, {"id": document_id, "tenant": tenant_id})
    return [WorkItem("ingestion", document_id), WorkItem("matching", document_id), *(WorkItem(*row) for row in rows)]


_DEAD_LETTERS = """
SELECT job_id, worker, status FROM dead_letter WHERE job_id = ANY(%s) AND purged_at IS NULL
ORDER BY dlq_timestamp DESC, job_id
"""


def _dead_letters(connection: Connection, work_items: Sequence[WorkItem]) -> list[DocumentDeadLetter]:
    ids = [BY_WORKER[work.worker].job_id(work.id) for work in work_items]
    return [DocumentDeadLetter(*row) for row in connection.execute(_DEAD_LETTERS, [ids])]


MAX_EVENTS = 100
"""Maximum number of events of each kind. Older events are omitted."""

Kind = Literal[
    "arrival",
    "work",
    "attempt",
    "running",
    "scheduled",
    "dead_letter",
    "question",
    "link",
    "review",
    "decision",
    "result",
]


@dataclass(frozen=True)
class DocumentEvent:
    """An event in the history of a document or its work items."""

    at: Annotated[
        datetime,
        Field(description="Time of the event. For an attempt, its end, or its start if it is running or scheduled."),
    ]
    kind: Kind
    outcome: str
    actor: Annotated[str, Field(description="Worker, user or model.")]
    started_at: datetime | None = None
    revision: int | None = None
    attempt: Annotated[int | None, Field(description="Attempt number.")] = None
    error_type: str | None = None
    error: str | None = None
    next_attempt_at: datetime | None = None
    other_document_id: Annotated[UUID | None, Field(description="The other document in a link or a decision.")] = None
    job_id: Annotated[UUID | None, Field(description="Id of the dead letter.")] = None
    detail: Mapping[str, JsonValue] = field(default_factory=dict)


_ATTEMPTS = """
SELECT t.ended_at, 'attempt', t.outcome, t.worker, t.started_at, t.revision, t.number, t.error_type, t.error,
       t.next_attempt_at
FROM unnest(%(workers)s::text[], %(works)s::uuid[]) AS about (worker, id)
JOIN work_attempt t ON t.work_id = about.id AND t.worker = about.worker
ORDER BY t.ended_at DESC, t.id DESC LIMIT %(most)s
"""
# Attempts in progress and scheduled attempts.
_CURRENT_STATE = """
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
       CASE status WHEN 'pending' THEN 'scheduled' ELSE 'running' END, status, worker, NULL::timestamptz, revision,
       CASE status WHEN 'pending' THEN attempts + 1 ELSE attempts END
FROM work WHERE CASE status WHEN 'pending' THEN next_attempt_at WHEN 'in-progress' THEN claimed_at END IS NOT NULL
"""
_ARRIVAL = """
SELECT received_at, 'arrival', 'received', 'acquisition', jsonb_build_object('file', file_name) FROM document
WHERE id = %(id)s
UNION ALL
SELECT last_duplicate_at, 'arrival', 'duplicate', 'acquisition', jsonb_build_object('times', duplicate_uploads)
FROM document
WHERE id = %(id)s AND duplicate_uploads > 0
UNION ALL
SELECT created_at, 'work', 'queued', 'ingestion', '{}' FROM ingestion_job WHERE id = %(id)s
UNION ALL
SELECT created_at, 'work', 'queued', 'diagnostics', '{}' FROM cluster_diagnostics WHERE id = ANY(%(works)s)
UNION ALL
SELECT computed_at, 'result', match_status, 'diagnostics', '{}' FROM cluster_diagnostics
WHERE id = ANY(%(works)s) AND computed_at IS NOT NULL AND match_status IS NOT NULL
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
SELECT answered_at, 'question', 'judged', model FROM llm_judgment WHERE document_id = %(id)s
UNION ALL
SELECT created_at, 'question', 'read', provider FROM page_reading_cache WHERE document_id = %(id)s
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
SELECT decided_at, 'decision', decision, decided_by,
       CASE document_a_id WHEN %(id)s THEN document_b_id ELSE document_a_id END,
       jsonb_strip_nulls(jsonb_build_object('reason', reason))
FROM (
    SELECT * FROM match_decision WHERE document_a_id = %(id)s
    UNION ALL SELECT * FROM match_decision WHERE document_b_id = %(id)s
) AS decision
UNION ALL
SELECT decided_at, 'decision', decision, decided_by, NULL,
       jsonb_strip_nulls(jsonb_build_object('reason', reason, 'code', code, 'line', line))
FROM variance_decision WHERE document_id = %(id)s
ORDER BY 1 DESC LIMIT %(most)s
"""
_DEAD_LETTER_EVENTS = """
SELECT t.recorded_at, 'dead_letter', t.action, t.actor, t.job_id, t.detail
FROM dead_letter_audit t JOIN dead_letter l ON l.job_id = t.job_id AND l.purged_at IS NULL
WHERE t.job_id = ANY(%(jobs)s) ORDER BY t.recorded_at DESC, t.id DESC LIMIT %(most)s
"""


def history(connection: Connection, tenant_id: UUID, document_id: UUID) -> list[DocumentEvent]:
    """Return the events of a document and its dead letters, oldest first.

    At most MAX_EVENTS events of each kind are returned.
    """
    work_items = list_work_items(connection, tenant_id, document_id)
    parameters = {
        "id": document_id,
        "workers": [work.worker for work in work_items],
        "works": [work.id for work in work_items],
        "jobs": [BY_WORKER[work.worker].job_id(work.id) for work in work_items],
        "most": MAX_EVENTS,
    }
    attempts = [DocumentEvent(*row) for row in connection.execute(_ATTEMPTS, parameters)]
    current_state = [DocumentEvent(*row) for row in connection.execute(_CURRENT_STATE, parameters)]
    arrival = [
        DocumentEvent(at, kind, outcome, actor, detail=detail)
        for at, kind, outcome, actor, detail in connection.execute(_ARRIVAL, parameters)
    ]
    questions = [DocumentEvent(*row) for row in connection.execute(_QUESTIONS, parameters)]
    links = [
        DocumentEvent(at, kind, outcome, actor, other_document_id=other, detail=detail)
        for statement in (_LINKS, _DECISIONS)
        for at, kind, outcome, actor, other, detail in connection.execute(statement, parameters)
    ]
    dead_letters = [
        DocumentEvent(at, kind, outcome, actor, job_id=job_id, detail=detail)
        for at, kind, outcome, actor, job_id, detail in connection.execute(_DEAD_LETTER_EVENTS, parameters)
    ]
    return sorted([*arrival, *attempts, *questions, *dead_letters, *links, *current_state], key=lambda event: event.at)
