"""One attempt at ingesting a document: its file is read, what it states is written down, and matching begins."""

from collections.abc import Sequence

from psycopg.types.json import Jsonb

from counterfoil.db import Connection
from counterfoil.delivery import Attempt, Outcome, Skip, Success
from counterfoil.documents import files
from counterfoil.documents.extraction import Extraction, extract
from counterfoil.documents.files import File
from counterfoil.work import Send, begin


def ingest(attempt: Attempt) -> Outcome:
    """Ingest one document.

    Raises:
        InvalidDocumentError: the file cannot be a document.
        ServiceUnavailableError, RejectedRequestError: S3 did not give the file.
    """
    assert attempt.tenant_id is not None  # an ingestion job's tenant is NOT NULL
    with attempt.database.tenant(attempt.tenant_id) as connection:
        bucket, key, version = connection.execute(
            "SELECT bucket, key, version FROM document WHERE id = %s", [attempt.work_id]
        ).fetchall()[0]
    content = files.read(File(bucket, key, version))
    attempt.check()
    extraction = extract(content)

    def effects(connection: Connection) -> Sequence[Send]:
        _write(connection, attempt, extraction)
        return ()

    def effects_with_matching(connection: Connection) -> Sequence[Send]:
        _write(connection, attempt, extraction)
        return begin(connection, "matching", [attempt.work_id], attempt.now())

    if extraction.structured_data is None:
        return Skip(extraction.reason or "Nothing could be read from the file", effects)
    if extraction.type in (None, "other"):
        return Skip("A kind of document that is kept and not matched", effects)
    return Success(effects_with_matching, reason=lambda: " ".join(extraction.remarks) or None)


def _write(connection: Connection, attempt: Attempt, extraction: Extraction) -> None:
    connection.execute(
        "UPDATE document SET type = %s, method = %s, structured_data = %s WHERE id = %s",
        [
            extraction.type or "other",
            extraction.method,
            Jsonb(extraction.structured_data) if extraction.structured_data is not None else None,
            attempt.work_id,
        ],
    )
