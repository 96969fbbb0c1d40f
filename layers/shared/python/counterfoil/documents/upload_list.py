"""Uploads and emails, each with one state derived from its work items.

| state | meaning |
|---|---|
| waiting | its next attempt has not started |
| working | an attempt is in progress |
| succeeded | it was extracted, and matched if it can be |
| ignored | its last stage had nothing to process; the note gives the reason |
| duplicate | the tenant has a file with the same content, so there is no second document |
| removed | it was deleted or replaced; the note names the user and the reason |
| failed | it failed permanently; the note gives the error, and it has a dead letter |
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from pydantic import Field

from counterfoil.db import Connection, PageCursor
from counterfoil.documents import document_list
from counterfoil.documents.removal import KEEP_ORIGINAL_REASON
from counterfoil.documents.structured import ROLES


class State(StrEnum):
    """State of an upload.

    `ignored`: its last stage had nothing to process. `duplicate`: the tenant has a file with the same content.
    """

    WAITING = "waiting"
    WORKING = "working"
    SUCCEEDED = "succeeded"
    IGNORED = "ignored"
    DUPLICATE = "duplicate"
    REMOVED = "removed"
    FAILED = "failed"

    @property
    def is_final(self) -> bool:
        """True if only a user's action can change the state."""
        return self not in {State.WAITING, State.WORKING}


class Stage(StrEnum):
    """The worker that an upload has reached, or at which it ended."""

    ACQUISITION = "acquisition"
    INGESTION = "ingestion"
    MATCHING = "matching"


STAGES = tuple(Stage)


@dataclass(frozen=True)
class Upload:
    """An upload or email with the document that it became, if any.

    Each document from an email, an archive or a bundle is listed separately.
    """

    id: Annotated[UUID, Field(description="Id of its acquisition job.")]
    tenant: Annotated[str | None, Field(description="null if neither the key nor the email names an existing tenant.")]
    file: str
    key: str
    received_at: datetime
    stage: Annotated[Stage, Field(description="The worker that it has reached, or at which it ended.")]
    state: Annotated[State, Field(description="`waiting` and `working` change automatically.")]
    note: Annotated[str | None, Field(description="Reason, in a sentence.")]
    document_id: UUID | None = None
    type: str | None = None
    number: str | None = None
    sha256: Annotated[str | None, Field(description="Hash of the document's file, hexadecimal.")] = None
    cluster_id: UUID | None = None


class Page(NamedTuple):
    """One page of uploads."""

    uploads: Sequence[Upload]
    next_cursor: PageCursor | None
    """None on the last page."""


_NUMBERS = ", ".join(f"d.structured_data ->> '{roles.number}'" for roles in ROLES.values())
_JOBS = "acquisition_job WHERE skip_reason IS DISTINCT FROM 'The file was erased.'"
_PLACES = f"""
SELECT created_at, id FROM {_JOBS} AND tenant_id = %(tenant)s
  AND (%(after_at)s::timestamptz IS NULL OR (created_at, id) > (%(after_at)s, %(after_id)s::uuid))
ORDER BY created_at, id LIMIT %(limit)s
"""  # noqa: S608  # only constants are inserted
_UPLOADS = f"""
WITH d AS (
    SELECT id, source_id, file_name, type, coalesce({_NUMBERS}) AS number, content_hash, cluster_id, matching_status,
           coalesce(matching_error, matching_skip_reason) AS note, false AS is_removed, structured_data
    FROM document d
    UNION ALL
    SELECT document_id, source_id, file_name, type, NULL, content_hash, NULL, NULL,
           CASE WHEN replaced_by IS NULL THEN 'Deleted by ' ELSE 'Replaced by ' END || deleted_by
               || coalesce(': ' || reason, ''), true, NULL
    FROM document_deletion
)
SELECT a.id, a.key, a.created_at, a.status, coalesce(a.error, a.skip_reason),
       i.id IS NOT NULL, i.status, coalesce(i.error, i.skip_reason), EXISTS (
           SELECT FROM document_replacement r JOIN document replaced ON replaced.id = r.document_id
           WHERE r.replacement_id = d.id AND r.closed_at IS NULL
       ),
       d.matching_status, d.note, coalesce(d.is_removed, false),
       d.id, d.file_name, d.type, d.number, encode(d.content_hash, 'hex'), d.cluster_id, d.structured_data
FROM acquisition_job a
LEFT JOIN source s ON s.job_id = a.id
LEFT JOIN d ON d.source_id = s.id
LEFT JOIN ingestion_job i ON i.id = d.id
WHERE a.id = ANY(%(ids)s)
ORDER BY a.created_at, a.id, d.id
"""  # noqa: S608  # only constants are inserted
_UNASSIGNED = f"""
SELECT id, key, created_at, status, coalesce(error, skip_reason) FROM {_JOBS}
  AND tenant_id IS NULL AND status IS DISTINCT FROM 'succeeded' AND (%(key)s::text IS NULL OR key = %(key)s)
  AND (%(after_at)s::timestamptz IS NULL OR (created_at, id) > (%(after_at)s, %(after_id)s::uuid))
ORDER BY created_at, id LIMIT %(limit)s
"""  # noqa: S608  # only constants are inserted
_OWNERS = f"""
SELECT t.id, t.slug, array_agg(a.id)
FROM (SELECT * FROM {_JOBS} AND bucket = %s AND key = ANY(%s)) AS a JOIN tenant t ON t.id = a.tenant_id
GROUP BY t.id, t.slug ORDER BY t.slug
"""  # noqa: S608  # only constants are inserted


class TenantJobs(NamedTuple):
    """One tenant's acquisition jobs for the requested files."""

    tenant_id: UUID
    tenant: str
    jobs: Sequence[UUID]


def page(connection: Connection, tenant_id: UUID, tenant: str, *, limit: int, after: PageCursor | None = None) -> Page:
    """Return the documents from a page of uploads, in order of arrival.

    The page starts after the cursor `after`, and has at most `limit` uploads. Runs in the tenant's transaction.
    `tenant` is the tenant's slug.
    """
    rows = connection.execute(_PLACES.encode(), {"tenant": tenant_id, "limit": limit + 1, **_after(after)}).fetchall()
    cursors = [PageCursor(*row) for row in rows[:limit]]
    return Page(
        list_by_jobs(connection, tenant, [cursor.id for cursor in cursors]), cursors[-1] if len(rows) > limit else None
    )


def list_unassigned(
    connection: Connection, *, limit: int, after: PageCursor | None = None, key: str | None = None
) -> Page:
    """Return a page of uploads and emails without a tenant.

    Runs as the delivery role. The page has at most `limit` entries. An email that was forwarded to its tenants is
    listed only for them.
    """
    rows = connection.execute(_UNASSIGNED.encode(), {"key": key, "limit": limit + 1, **_after(after)}).fetchall()
    uploads = [_upload(None, (*row, *[None] * 14)) for row in rows[:limit]]
    return Page(uploads, PageCursor(uploads[-1].received_at, uploads[-1].id) if len(rows) > limit else None)


def find_owners(connection: Connection, bucket: str, keys: Collection[str]) -> list[TenantJobs]:
    """Return each tenant's acquisition jobs for all versions of these files.

    Runs as the delivery role.
    """
    return [TenantJobs(*row) for row in connection.execute(_OWNERS.encode(), [bucket, list(keys)])]


def list_by_jobs(connection: Connection, tenant: str, jobs: Sequence[UUID]) -> list[Upload]:
    """Return the uploads of these acquisition jobs, one per document.

    Runs in the tenant's transaction.
    """
    rows = connection.execute(_UPLOADS.encode(), {"ids": list(jobs)}).fetchall()
    return [_upload(tenant, row) for row in rows]


def _after(place: PageCursor | None) -> dict[str, Any]:
    return {"after_at": place and place.at, "after_id": place and place.id}


def _upload(tenant: str | None, row: tuple[Any, ...]) -> Upload:
    (
        job,
        key,
        received_at,
        acquired,
        note,
        has_ingestion,
        ingested,
        ingestion_note,
        is_awaited,
        matched,
        matching_note,
        is_removed,
        document,
        *rest,
    ) = row
    file, type_, number, sha256, cluster, data = rest
    stage, status = Stage.ACQUISITION, acquired
    if has_ingestion:
        stage, status, note = Stage.INGESTION, ingested, ingestion_note
        if ingested == "succeeded":
            stage, status, note = Stage.MATCHING, matched, matching_note
    states = {None: State.IGNORED, "pending": State.WAITING, "in-progress": State.WORKING}
    state = states.get(status) or State(status)
    if is_removed:
        stage, state, note = Stage.MATCHING, State.REMOVED, matching_note
    elif stage is Stage.ACQUISITION and state is State.SUCCEEDED:
        state = State.DUPLICATE
    elif is_awaited:
        note = f"{note.rstrip('.')}. {KEEP_ORIGINAL_REASON}" if note else KEEP_ORIGINAL_REASON
    if missing := document_list.missing(type_, data):
        note = " ".join(filter(None, (note, f"Not extracted: {', '.join(missing)}.")))
    return Upload(
        job,
        tenant,
        file or key.rsplit("/", 1)[-1],
        key,
        received_at,
        stage,
        state,
        note or None,
        document,
        type_,
        number,
        sha256,
        cluster,
    )
