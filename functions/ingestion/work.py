"""One attempt at ingesting a document: its file is read, what it states is written down, and matching begins.

A PDF of many documents has no data of its own: it is cut into its children, each with a file, a row and an ingestion of
its own, and is done.
"""

from collections.abc import Sequence

from psycopg.types.json import Jsonb

from counterfoil.db import Connection
from counterfoil.delivery import Attempt, Outcome, Skip, Success
from counterfoil.documents import files
from counterfoil.documents.extraction import Extraction, extract, extract_text
from counterfoil.documents.files import File
from counterfoil.documents.recognition import FileKind, recognise
from counterfoil.documents.splitting import Split, split
from counterfoil.documents.text import page
from counterfoil.work import Send, begin
from functions.ingestion import children
from functions.ingestion.children import Child


def ingest(attempt: Attempt) -> Outcome:
    """Ingest one document.

    Raises:
        InvalidDocumentError: the file cannot be a document.
        ServiceUnavailableError, RejectedRequestError: S3 did not give the file, or did not take a child's.
    """
    assert attempt.tenant_id is not None  # an ingestion job's tenant is NOT NULL
    with attempt.database.tenant(attempt.tenant_id) as connection:
        bucket, key, version, is_child = connection.execute(
            "SELECT bucket, key, version, parent_id IS NOT NULL FROM document WHERE id = %s", [attempt.work_id]
        ).fetchall()[0]
    content = files.read(File(bucket, key, version))
    attempt.check()
    extraction = extract(content)
    if extraction.structured_data is None and recognise(content) is FileKind.PDF:
        if is_child:
            extraction = extract_text(content)
        elif len((division := split(page.pages(content))).parts) > 1:
            parts = children.store(attempt, bucket, content, division.parts)
            return _divided(attempt, extraction, division, parts)

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


def _divided(attempt: Attempt, extraction: Extraction, division: Split, parts: Sequence[Child]) -> Success:
    reason = division.told

    def effects(connection: Connection) -> Sequence[Send]:
        _write(connection, attempt, extraction)
        connection.execute("UPDATE document SET matching_reason = %s WHERE id = %s", [reason, attempt.work_id])
        return children.insert(connection, attempt, parts)

    return Success(effects, reason=lambda: reason)
