"""One attempt at acquiring a file: its source, its document unless the tenant has it already, and its ingestion."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.delivery import Attempt, Outcome, Skip, Success
from counterfoil.documents import files
from counterfoil.documents.extraction import check_size
from counterfoil.documents.files import File
from counterfoil.documents.uploads import PREFIX
from counterfoil.errors import UnknownTenantError
from counterfoil.work import Send, begin

SEEN_BEFORE = "The tenant already has this file; it was counted as seen again"


def acquire(attempt: Attempt) -> Outcome:
    """Acquire the file of one S3 event.

    Raises:
        UnknownTenantError: the key names no tenant.
        InvalidDocumentError: the file is empty or too large.
        ServiceUnavailableError, RejectedRequestError: S3 did not give the file.
    """
    if attempt.tenant_id is None:
        message = f"The key names no tenant that exists; upload to {PREFIX}{{tenant}}/{{file name}}"
        raise UnknownTenantError(message)
    tenant_id = attempt.tenant_id
    with attempt.database.tenant(tenant_id) as connection:
        bucket, key, version, size, received_at = connection.execute(
            "SELECT bucket, key, version, size, created_at FROM acquisition_job WHERE id = %s", [attempt.work_id]
        ).fetchall()[0]
    if key.endswith("/"):
        return Skip("A folder, not a file")
    check_size(size)
    file = File(bucket, key, version)
    content_hash = files.sha256(file)
    seen: list[bool] = []

    def effects(connection: Connection) -> Sequence[Send]:
        document_id = _insert(connection, attempt.work_id, tenant_id, file, size, content_hash, received_at)
        seen[:] = [document_id is None]
        return begin(connection, "ingestion", [document_id], attempt.now()) if document_id else ()

    return Success(effects, reason=lambda: SEEN_BEFORE if seen == [True] else None)


def _insert(
    connection: Connection,
    job_id: UUID,
    tenant_id: UUID,
    file: File,
    size: int,
    content_hash: bytes,
    received_at: datetime,
) -> UUID | None:
    """Write source, document and ingestion job. None when the tenant has a document of the same content."""
    values = {
        "tenant": tenant_id,
        "job": job_id,
        "bucket": file.bucket,
        "key": file.key,
        "version": file.version,
        "file_name": file.key.rsplit("/", 1)[-1],
        "size": size,
        "hash": content_hash,
        "received_at": received_at,
    }
    row = connection.execute(
        """
        WITH origin AS (
            INSERT INTO source (tenant_id, job_id, kind, bucket, key, received_at)
            VALUES (%(tenant)s, %(job)s, 'upload', %(bucket)s, %(key)s, %(received_at)s) RETURNING id
        )
        INSERT INTO document AS d (tenant_id, source_id, bucket, key, version, file_name, size, content_hash,
                                   received_at, last_seen_at)
        SELECT %(tenant)s, origin.id, %(bucket)s, %(key)s, %(version)s, %(file_name)s, %(size)s, %(hash)s,
               %(received_at)s, %(received_at)s FROM origin
        ON CONFLICT (tenant_id, content_hash) DO UPDATE
            SET seen_again = d.seen_again + 1, last_seen_at = greatest(d.last_seen_at, excluded.last_seen_at)
        RETURNING new.id, old.id IS NULL
        """,
        values,
    ).fetchone()
    if row is None or not row[1]:
        return None
    document_id: UUID = row[0]
    connection.execute(
        "INSERT INTO ingestion_job (id, tenant_id, created_at) VALUES (%s, %s, %s)",
        [document_id, tenant_id, received_at],
    )
    return document_id
