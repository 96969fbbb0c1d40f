"""Stores a source and its documents, in the transaction that settles the job.

A job has one source, regardless of the number of its attempts. A file or email that the tenant already has does not
create a second document. It is counted as a duplicate of the existing document, once per job.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil.db import Connection
from counterfoil.delivery.attempt import TenantAttempt
from counterfoil.documents.files import File
from counterfoil.documents.kinds import ACQUISITION
from counterfoil.documents.mail.attachments import SkippedAttachment
from counterfoil.documents.mail.holds import Hold
from counterfoil.documents.mail.message import NO_RESULTS, REFUSALS, Envelope, Refusal, SenderAuthentication
from counterfoil.errors import InvalidDocumentError

MAX_NAMED_FILES = 3
"""Maximum number of skipped files named in a remark. The source lists all skipped files."""
SEEN_BEFORE = "The tenant already has this file; it was counted as a duplicate."
REMOVED = "A document from this file was removed. Upload the file again to restore the document."


class OtherFilesError(InvalidDocumentError):
    """An email has the Message-ID and sender of an earlier email, but other files.

    An operator can accept it by retrying the dead letter.
    """

    code = "mail_with_other_files"

    def __init__(self) -> None:
        super().__init__(
            "The tenant already has an email with this Message-ID and sender, but not all of its files. No file was"
            " accepted. If this is a different email, retry its dead letter to accept its files.",
            code=self.code,
        )


@dataclass(frozen=True)
class StoredFile:
    """A file in S3 that becomes a document."""

    name: str
    file: File
    size: int
    sha256: bytes


@dataclass(frozen=True)
class IncomingFile:
    """A file or email that one job acquires."""

    job_id: UUID
    tenant_id: UUID
    file: File
    received_at: datetime
    envelope: Envelope | None = None
    """Envelope of an email; None for other files."""
    authentication: SenderAuthentication = NO_RESULTS
    hold: Hold | None = None
    """State of an email that failed DMARC; None for other files."""
    documents: tuple[StoredFile, ...] = ()
    skipped: tuple[SkippedAttachment, ...] = ()

    @classmethod
    def of(cls, attempt: TenantAttempt, file: File, received_at: datetime, **fields: Any) -> "IncomingFile":
        """Create the incoming file of an attempt's job."""
        return cls(attempt.work_id, attempt.tenant_id, file, received_at, **fields)

    @property
    def is_container(self) -> bool:
        """Return whether the file is an email or archive that contains documents."""
        return self.envelope is not None or any(part.file != self.file for part in self.documents) or bool(self.skipped)


@dataclass(frozen=True)
class AcquisitionResult:
    """Result of an acquisition."""

    documents: list[UUID] = field(default_factory=list)
    """Ids of new documents."""
    remark: str | None = None
    document: UUID | None = None
    """Id of the file's document, new or existing. None unless it has exactly one."""


def write(connection: Connection, arrival: IncomingFile, *, refusal: Refusal | None = None) -> AcquisitionResult:
    """Store the source and the tenant's new documents, with their ingestion jobs.

    If `refusal` is given, store only the source.

    Raises:
        OtherFilesError: see `reject_conflicting_mail`.
    """
    earlier = None if refusal else _find_earlier_mail(connection, arrival)
    if earlier is not None and _has_other_files(connection, arrival):
        if not _is_accepted(connection, arrival):
            raise OtherFilesError
        earlier = None
    if earlier is not None:
        refusal = Refusal.DUPLICATE
    source_id, is_counted = _upsert_source(connection, arrival, refusal)
    if earlier is not None:
        return _record_duplicate(connection, arrival, earlier, is_counted=is_counted)
    if refusal:
        _write_attachments(connection, arrival, source_id, {})
        return AcquisitionResult()
    documents = _upsert_documents(connection, arrival, source_id, is_counted=is_counted)
    if arrival.is_container:
        _write_attachments(connection, arrival, source_id, documents)
    ids = [document.id for document in documents.values()]
    return AcquisitionResult(
        [document.id for document in documents.values() if document.is_new],
        _remark(arrival, documents),
        ids[0] if len(ids) == 1 else None,
    )


def reject_conflicting_mail(connection: Connection, arrival: IncomingFile) -> bool:
    """Record an email as a duplicate if the tenant has it with different files.

    Returns True if the duplicate was recorded.

    It may be the same email with files modified by a server, or a different email from a program that reuses
    Message-IDs. The same email must not create a second document, and a different email must not be lost. So an
    operator decides whether to retry the dead letter. The duplicate is committed separately, because a failed attempt
    is rolled back.
    """
    earlier = _find_earlier_mail(connection, arrival)
    if earlier is None or not _has_other_files(connection, arrival) or _is_accepted(connection, arrival):
        return False
    source_id, is_counted = _upsert_source(connection, arrival, Refusal.DUPLICATE)
    _record_duplicate(connection, arrival, earlier, is_counted=is_counted)
    _write_attachments(connection, arrival, source_id, {}, REFUSALS[Refusal.DUPLICATE])
    return True


_LOCK_MAIL = "SELECT pg_advisory_xact_lock(hashtextextended('mail/' || %s::text || '/' || %s::text, 0))"
_EARLIER_MAIL = """
SELECT id FROM source
WHERE tenant_id = %(tenant)s AND rejection_reason IS NULL AND message_id IS NOT NULL
  AND md5(message_id || ' ' || coalesce(sender, '')) = md5(%(message_id)s || ' ' || %(sender)s) AND job_id <> %(job)s
  AND NOT EXISTS (SELECT FROM source own WHERE own.job_id = %(job)s AND own.rejection_reason IS NULL)
ORDER BY id LIMIT 1
"""


def _find_earlier_mail(connection: Connection, arrival: IncomingFile) -> UUID | None:
    """Return the source of an earlier email with the same Message-ID and sender.

    The sender is compared too, because Message-IDs may be forged or reused. Returns None if an earlier attempt of this
    job accepted the email. Concurrent emails with the same Message-ID are serialized.
    """
    if arrival.envelope is None or not arrival.envelope.message_id:
        return None
    connection.execute(_LOCK_MAIL, [arrival.tenant_id, arrival.envelope.message_id])
    row = connection.execute(
        _EARLIER_MAIL,
        {
            "tenant": arrival.tenant_id,
            "message_id": arrival.envelope.message_id,
            "sender": arrival.envelope.sender,
            "job": arrival.job_id,
        },
    ).fetchone()
    return None if row is None else row[0]


_UPSERT_SOURCE = """
INSERT INTO source AS s (tenant_id, job_id, kind, bucket, key, received_at, sender, subject, message_id,
                         rejection_reason, spf, dkim, dmarc, hold, content_hash)
VALUES (%(tenant)s, %(job)s, %(kind)s, %(bucket)s, %(key)s, %(received_at)s, %(sender)s, %(subject)s, %(message_id)s,
        %(refusal)s, %(spf)s, %(dkim)s, %(dmarc)s, %(hold)s, %(content_hash)s)
ON CONFLICT (job_id) DO UPDATE SET rejection_reason = excluded.rejection_reason, hold = excluded.hold
RETURNING new.id,
          old.id IS NULL OR old.rejection_reason IS DISTINCT FROM new.rejection_reason
          AND old.rejection_reason IS DISTINCT FROM 'duplicate'
"""


def _upsert_source(connection: Connection, arrival: IncomingFile, refusal: Refusal | None) -> tuple[UUID, bool]:
    """Insert or update this job's source.

    Return its id, and whether to count duplicates.

    A repeated job does not count its duplicates again.
    """
    envelope = arrival.envelope
    row = connection.execute(
        _UPSERT_SOURCE,
        {
            "tenant": arrival.tenant_id,
            "job": arrival.job_id,
            "kind": "upload" if envelope is None else "mail",
            "bucket": arrival.file.bucket,
            "key": arrival.file.key,
            "received_at": arrival.received_at,
            "sender": envelope and (envelope.sender or None),
            "subject": envelope and (envelope.subject or None),
            "message_id": envelope and (envelope.message_id or None),
            "refusal": refusal,
            **arrival.authentication._asdict(),
            "hold": arrival.hold,
            "content_hash": arrival.documents[0].sha256 if arrival.documents and not arrival.is_container else None,
        },
    ).fetchone()
    assert row is not None  # an upsert always returns its row
    return row[0], row[1]


_UPSERT_DOCUMENTS = """
INSERT INTO document AS d (tenant_id, source_id, bucket, key, version, file_name, size, content_hash, received_at,
                           last_duplicate_at)
SELECT %(tenant)s, %(source)s, p.bucket, p.key, p.version, p.name, p.size, p.hash, %(received_at)s, %(received_at)s
FROM unnest(%(buckets)s::text[], %(keys)s::text[], %(versions)s::text[], %(names)s::text[], %(sizes)s::bigint[],
            %(hashes)s::bytea[]) WITH ORDINALITY AS p (bucket, key, version, name, size, hash, ordinal)
WHERE NOT EXISTS (
    SELECT FROM document_deletion deletion
    WHERE deletion.tenant_id = %(tenant)s AND deletion.content_hash = p.hash AND (deletion.source_id = %(source)s
        OR deletion.document_id IN (SELECT document_id FROM document_duplicate_file WHERE source_id = %(source)s))
)
ORDER BY p.ordinal
ON CONFLICT (tenant_id, content_hash) DO UPDATE
    SET duplicate_uploads = d.duplicate_uploads + %(count)s::int,
        last_duplicate_at = greatest(d.last_duplicate_at, excluded.last_duplicate_at)
RETURNING new.content_hash, new.id, old.id IS NULL, new.source_id <> %(source)s
"""
# The document is also a part of another file. If that file is removed, the document moves to this file.
_INSERT_DUPLICATE_FILES = """
INSERT INTO document_duplicate_file (tenant_id, document_id, source_id, bucket, key, version, file_name)
SELECT d.tenant_id, d.id, %(source)s, p.bucket, p.key, p.version, p.name
FROM unnest(%(buckets)s::text[], %(keys)s::text[], %(versions)s::text[], %(names)s::text[], %(hashes)s::bytea[])
     AS p (bucket, key, version, name, hash)
JOIN document d ON d.tenant_id = %(tenant)s AND d.content_hash = p.hash
WHERE d.parent_id IS NOT NULL AND d.source_id <> %(source)s
ON CONFLICT (source_id, document_id) WHERE parent_id IS NULL DO NOTHING
"""
_INSERT_INGESTION_JOBS = """
INSERT INTO ingestion_job (id, tenant_id, created_at) SELECT id, %s, %s FROM unnest(%s::uuid[]) AS d (id)
"""


class ExistingDocument(NamedTuple):
    """A document with the content of a file, new or existing."""

    id: UUID
    is_new: bool
    is_from_other_job: bool
    """Whether another job created the document."""


Documents = dict[bytes, ExistingDocument]
"""Documents by content hash. A repeated job does not recreate documents that a user removed."""


def _upsert_documents(connection: Connection, arrival: IncomingFile, source_id: UUID, *, is_counted: bool) -> Documents:
    parts = arrival.documents
    values = {
        "tenant": arrival.tenant_id,
        "source": source_id,
        "received_at": arrival.received_at,
        "count": int(is_counted),
        "buckets": [part.file.bucket for part in parts],
        "keys": [part.file.key for part in parts],
        "versions": [part.file.version for part in parts],
        "names": [part.name for part in parts],
        "sizes": [part.size for part in parts],
        "hashes": _hashes(arrival),
    }
    rows = connection.execute(_UPSERT_DOCUMENTS, values).fetchall()
    connection.execute(_INSERT_DUPLICATE_FILES, values)
    documents = {bytes(content_hash): ExistingDocument(*row) for content_hash, *row in rows}
    new = [document.id for document in documents.values() if document.is_new]
    connection.execute(_INSERT_INGESTION_JOBS, [arrival.tenant_id, arrival.received_at, new])
    return documents


_COUNT_DUPLICATE = """
UPDATE document
SET duplicate_uploads = duplicate_uploads + 1, last_duplicate_at = greatest(last_duplicate_at, %s) WHERE source_id = %s
  AND parent_id IS NULL
"""
_KNOWN = "SELECT content_hash FROM document WHERE tenant_id = %s AND content_hash = ANY(%s)"
_KNOWN_OR_REMOVED = f"""
{_KNOWN} UNION SELECT content_hash FROM document_deletion WHERE tenant_id = %s AND content_hash = ANY(%s)
"""  # noqa: S608


def _record_duplicate(
    connection: Connection, arrival: IncomingFile, earlier: UUID, *, is_counted: bool
) -> AcquisitionResult:
    """Count a duplicate of each of the earlier email's documents.

    Return the result for this email.
    """
    if is_counted:
        connection.execute(_COUNT_DUPLICATE, [arrival.received_at, earlier])
    hashes = _hashes(arrival)
    has_all_files = connection.execute(_KNOWN, [arrival.tenant_id, hashes]).rowcount == len(hashes)
    remark = REFUSALS[Refusal.DUPLICATE]
    return AcquisitionResult(remark=remark if has_all_files else f"{remark} {REMOVED}")


def _has_other_files(connection: Connection, arrival: IncomingFile) -> bool:
    """Return whether the email contains a file that the tenant never had."""
    values = [arrival.tenant_id, _hashes(arrival)]
    return connection.execute(_KNOWN_OR_REMOVED.encode(), values * 2).rowcount < len(arrival.documents)


_IS_ACCEPTED = "SELECT FROM dead_letter WHERE job_id = %s AND metadata #>> '{last_error,code}' = %s"


def _is_accepted(connection: Connection, arrival: IncomingFile) -> bool:
    """Return whether an operator accepted the email despite an `OtherFilesError`.

    An operator accepts the email by retrying the dead letter of this error. A retry after another error does not accept
    the email.
    """
    dead_letter = ACQUISITION.job_id(arrival.job_id)
    return connection.execute(_IS_ACCEPTED, [dead_letter, OtherFilesError.code]).rowcount > 0


def _hashes(arrival: IncomingFile) -> list[bytes]:
    return [part.sha256 for part in arrival.documents]


_SET_ATTACHMENTS = "UPDATE source SET attachments = %s WHERE id = %s"


def _write_attachments(
    connection: Connection, arrival: IncomingFile, source_id: UUID, documents: Documents, reason: str = REMOVED
) -> None:
    """Store the source's list of files.

    Each file has its document, or the reason why it has no document.
    """
    attachments: list[dict[str, Any]] = [
        {
            "name": part.name,
            "size": part.size,
            "sha256": part.sha256.hex(),
            "document": str(documents[part.sha256].id) if part.sha256 in documents else None,
            "reason": None if part.sha256 in documents else reason,
        }
        for part in arrival.documents
    ]
    attachments += [
        {"name": part.name, "size": part.size, "sha256": None, "document": None, "reason": part.reason}
        for part in arrival.skipped
    ]
    connection.execute(_SET_ATTACHMENTS, [Jsonb(attachments), source_id])


def describe_skipped(skipped: Sequence[SkippedAttachment]) -> str:
    """Return the names of the first skipped files with the reasons.

    The result is empty if no file was skipped.
    """
    reasons = [f"'{part.name}': {part.reason}" for part in skipped[:MAX_NAMED_FILES]]
    omitted = len(skipped) - len(reasons)
    return f"Skipped files: {' '.join(reasons)}{f' And {omitted} more.' if omitted else ''}" if skipped else ""


def _remark(arrival: IncomingFile, documents: Documents) -> str | None:
    duplicates = sum(document.is_from_other_job for document in documents.values())
    if not arrival.is_container:
        return SEEN_BEFORE if duplicates else None if documents else REMOVED
    duplicates_remark = (
        f"Duplicates of files that the tenant already has: {duplicates} of {len(documents)}." if duplicates else ""
    )
    return " ".join(sentence for sentence in (duplicates_remark, describe_skipped(arrival.skipped)) if sentence) or None
