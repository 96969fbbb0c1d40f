"""Ingestion of one document: extraction, storage, and the start of matching.

A PDF with several documents has no data. It is split into child documents, each with its own file, row and ingestion.
A file that cannot be read is stored with the reason.

A document can be ingested again. Its stored data is not replaced if the new extraction finds nothing, or finds less
because a language model or OCR is unavailable. If the new data cannot be matched, matching removes the document from
its cluster. A file that was split remains split.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Effects, Outcome, Skipped, Succeeded, TenantAttempt
from counterfoil.delivery.dead_letter import restart
from counterfoil.delivery.work import OutboxMessage, start_revision
from counterfoil.documents import files, removal
from counterfoil.documents.extraction import ExtractionTools, extract, page_ranges
from counterfoil.documents.files import File
from counterfoil.documents.reading.cache import AnswerCache, CachedLlm
from counterfoil.documents.reading.ocr import CachedOcr, Ocr
from counterfoil.documents.sandbox import parsers
from counterfoil.documents.splitting import Part
from counterfoil.documents.structured import DocumentType, ExtractionResult
from counterfoil.errors import CancelledError, DeferredError
from counterfoil.llm import Llm

PREFIX = "children/"
"""Key prefix of children, in their parent's bucket: `children/{tenant}/{parent}/{first page}-{last page}.pdf`."""
COVER_PAGE = "A cover page. It belongs to no document, and is stored but not extracted."
REMATCH_REASON = "The document was extracted again."
NOTHING_EXTRACTED = "Nothing could be read from the file."

MakeLlm = Callable[[Database], Llm]
MakeOcr = Callable[[Database], Ocr]


@dataclass(frozen=True)
class _Document:
    """A document's row and file."""

    file: File
    name: str
    content_hash: bytes
    """Content hash of the document's file; for a child, of the parent's file."""
    root: UUID
    """Id of the parent for a child, otherwise of the document itself."""
    first_page: int
    """Number of the document's first page in the root's file, from 1."""
    is_child: bool
    method: str | None
    """Method of the stored extraction; None if it has no data."""
    recognized: frozenset[int]
    """Pages whose OCR text contributed to the stored extraction."""
    parts: frozenset[tuple[int, int]]
    """First and last page of each stored part."""


@dataclass(frozen=True)
class _Child:
    """A stored part of a file."""

    part: Part
    file: File
    size: int
    content_hash: bytes
    """SHA-256, 32 bytes."""


def ingest(attempt: TenantAttempt, language_model: MakeLlm | None = None, ocr: MakeOcr | None = None) -> Outcome:
    """Ingest one document. `language_model` and `ocr` create the configured services.

    Raises:
        DeferredError: time ran out. New model and OCR answers are cached for the next attempt.
        CounterfoilError: raised by `extract`, `parsers.extract_pages` or S3.
    """
    with attempt.database.tenant(attempt.tenant_id) as connection:
        document = _read(connection, attempt.work_id)
    cache = AnswerCache(attempt.database, attempt.tenant_id, document.root, attempt.now)
    llm = None
    if language_model is not None:
        make = partial(language_model, attempt.database)
        llm = CachedLlm(make, cache, attempt.tenant_id, attempt.work_id)
    cached_ocr = None
    if ocr is not None:
        cached_ocr = CachedOcr(ocr(attempt.database), cache, document.content_hash, document.first_page)
    try:
        return _ingest(attempt, document, ExtractionTools(cached_ocr, llm, attempt.deadline))
    except CancelledError as error:
        if not cache.added:
            raise
        # Not a failure: the next attempt uses the cached answers and makes fewer calls.
        message = f"Out of time after {cache.added} model or OCR calls. The next attempt makes the remaining calls"
        raise DeferredError(message, until=attempt.now()) from error


def _ingest(attempt: TenantAttempt, document: _Document, tools: ExtractionTools) -> Outcome:
    content = files.read(document.file)
    attempt.deadline.check()
    extraction = extract(content, tools, name=document.name, is_part=document.is_child, earlier_parts=document.parts)
    if extraction.split is not None:
        if not document.parts <= page_ranges(extraction.split):
            return Succeeded(lambda _: Effects(note=extraction.reason))
        children = list(_store_children(attempt, document.file.bucket, content, extraction.split.parts))
        return _split(attempt, extraction, children)
    if extraction.method in ("xml", "embedded-xml"):
        extraction = replace(extraction, evidence={"*": {"source": extraction.method, "confidence": 1}})
    reason = _reason_to_keep_previous(extraction, document, _missing_model_reason(tools.llm))
    return _outcome(attempt, extraction) if reason is None else _keep_previous(attempt, reason)


_READ = """
SELECT d.bucket, d.key, d.version, d.file_name, coalesce(root.content_hash, d.content_hash), coalesce(root.id, d.id),
       coalesce(d.first_page, 1), d.parent_id IS NOT NULL, CASE WHEN d.structured_data IS NOT NULL THEN d.method END,
       ARRAY(
           SELECT (field.value ->> 'page')::int FROM jsonb_each(d.evidence) AS field
           WHERE field.value ->> 'source' LIKE 'ocr:%%'
       ), ARRAY(
           SELECT ARRAY[first_page, last_page] FROM document part WHERE part.parent_id = d.id
           UNION ALL SELECT ARRAY[first_page, last_page] FROM document_duplicate_file copy WHERE copy.parent_id = d.id
       )
FROM document d LEFT JOIN document root ON root.id = d.parent_id WHERE d.id = %s
"""


def _read(connection: Connection, id_: UUID) -> _Document:
    (row,) = connection.execute(_READ, [id_]).fetchall()
    bucket, key, version, name, content_hash, root, first_page, is_child, method, recognized, parts = row
    file, ranges = File(bucket, key, version), frozenset((first, last) for first, last in parts)
    return _Document(file, name, content_hash, root, first_page, is_child, method, frozenset(recognized), ranges)


def _outcome(attempt: TenantAttempt, extraction: ExtractionResult) -> Outcome:
    is_read = extraction.structured_data is not None
    is_matched = is_read and extraction.type not in (None, DocumentType.OTHER)

    def effects(connection: Connection) -> Effects:
        removal.lock_pending_replacement(connection, attempt.work_id)
        _write(connection, attempt, extraction)
        messages = _match(connection, attempt, [attempt.work_id]) if is_matched else _match_again(connection, attempt)
        if not is_read:
            return Effects(messages)
        more_messages, replaced = removal.complete_replacements(connection, attempt.work_id, attempt.now())
        return Effects(messages + more_messages, " ".join(filter(None, (*extraction.warnings, replaced))) or None)

    if not is_read:
        return Skipped(extraction.reason or NOTHING_EXTRACTED, effects)
    if not is_matched:
        return Skipped("Documents of this type are stored but not matched.", effects)
    return Succeeded(effects)


def _missing_model_reason(model: CachedLlm | None) -> str | None:
    """Return the reason why no language model contributed, as a sentence.

    Returns None if a model was available.
    """
    return (
        "The previous extraction used a language model, but none is configured now."
        if model is None
        else model.skip_reason
    )


def _reason_to_keep_previous(
    extraction: ExtractionResult, document: _Document, without_model: str | None
) -> str | None:
    """Return the reason why an extraction must not replace the stored extraction.

    Returns None if the extraction may replace it. An extraction without data may replace stored data if it found a
    document type without data. Results from rules alone do not replace data from a language model, because the model
    may be only temporarily unavailable. The same applies to data from OCR.
    """
    if document.method is None:
        return None
    lacks_model = document.method == "model" and extraction.method != "model"
    if extraction.structured_data is None:
        is_recognized = extraction.type == DocumentType.OTHER and extraction.method != "none" and not lacks_model
        return None if is_recognized else extraction.reason or NOTHING_EXTRACTED
    if extraction.unread & document.recognized:
        return " ".join(extraction.warnings)
    if lacks_model and without_model is not None and extraction.warnings:
        return " ".join(dict.fromkeys((without_model, *extraction.warnings)))
    return None


def _keep_previous(attempt: TenantAttempt, reason: str) -> Succeeded:
    remark = f"The previous extraction is unchanged. Reason: {reason}"
    return Succeeded(lambda connection: Effects(_match_again(connection, attempt), remark))


_MATCHED = "SELECT id FROM document WHERE id = %s AND matching_revision > 0"


def _match_again(connection: Connection, attempt: TenantAttempt) -> list[OutboxMessage]:
    """Restart the matching of a document that was matched before.

    If the document can no longer be matched, matching removes it from its cluster.
    """
    ids = [id_ for (id_,) in connection.execute(_MATCHED, [attempt.work_id])]
    return _match(connection, attempt, ids)


def _match(connection: Connection, attempt: TenantAttempt, ids: Sequence[UUID]) -> list[OutboxMessage]:
    return restart(connection, "matching", ids, attempt.now(), actor="ingestion", reason=REMATCH_REASON)


def _write(connection: Connection, attempt: TenantAttempt, extraction: ExtractionResult) -> None:
    connection.execute(
        "UPDATE document SET type = %s, method = %s, structured_data = %s, evidence = %s WHERE id = %s",
        [
            extraction.type or DocumentType.OTHER,
            extraction.method,
            None if extraction.structured_data is None else Jsonb(extraction.structured_data),
            Jsonb(extraction.evidence) if extraction.evidence else None,
            attempt.work_id,
        ],
    )


def _split(attempt: TenantAttempt, extraction: ExtractionResult, children: Sequence[_Child]) -> Succeeded:

    def effects(connection: Connection) -> Effects:
        removal.lock_pending_replacement(connection, attempt.work_id)
        _write(connection, attempt, extraction)
        messages = _match_again(connection, attempt)
        connection.execute(
            "UPDATE document SET matching_skip_reason = %s WHERE id = %s", [extraction.reason, attempt.work_id]
        )
        messages += _insert_children(connection, attempt, children)
        more_messages, replaced = removal.complete_replacements(connection, attempt.work_id, attempt.now())
        return Effects(messages + more_messages, " ".join(filter(None, (extraction.reason, replaced))))

    return Succeeded(effects)


# -- children -------------------------------------------------------------------------------------------------------


def _store_children(
    attempt: TenantAttempt, bucket: str, parent_content: bytes, parts: Sequence[Part]
) -> Iterator[_Child]:
    """Extract the parts from their parent's content and store them.

    A repeated attempt stores the same bytes under the same keys.
    """
    contents = parsers.extract_pages(parent_content, [part.pages for part in parts], attempt.deadline.check)
    for part, content in zip(parts, contents, strict=True):
        attempt.deadline.check()
        key = f"{PREFIX}{attempt.tenant_id}/{attempt.work_id}/{part.pages.first}-{part.pages.last}.pdf"
        yield _Child(part, files.write(bucket, key, content), len(content), hashlib.sha256(content).digest())


_PARTS = """unnest(
    %(first_pages)s::int[], %(last_pages)s::int[], %(endings)s::text[], %(keys)s::text[], %(versions)s::text[],
    %(sizes)s::bigint[], %(hashes)s::bytea[], %(are_covers)s::boolean[]
) AS part (first_page, last_page, ending, key, version, size, content_hash, is_cover)"""
_FILE_NAME = "regexp_replace(parent.file_name, '([.][Pp][Dd][Ff])?$', part.ending)"
# Serialized with removals, which lock rows in the same order.
_LOCK_DUPLICATES = "SELECT FROM document WHERE tenant_id = %s AND content_hash = ANY(%s) ORDER BY id FOR NO KEY UPDATE"
# False if an earlier split had other boundaries.
_HAS_SAME_BOUNDARIES = """
NOT EXISTS (
    SELECT FROM (
        SELECT parent_id, first_page, last_page FROM document UNION ALL
        SELECT parent_id, first_page, last_page FROM document_duplicate_file
    ) AS earlier
    WHERE earlier.parent_id = parent.id AND (earlier.first_page, earlier.last_page)
        NOT IN (SELECT * FROM unnest(%(first_pages)s::int[], %(last_pages)s::int[]))
)"""
# A removed part: the part itself, or another file's document with the same content.
_REMOVED = """
SELECT FROM document_deletion deletion
WHERE (deletion.parent_id, deletion.first_page, deletion.last_page) = (parent.id, part.first_page, part.last_page)
UNION ALL
SELECT FROM document_duplicate_file c JOIN document_deletion deletion ON deletion.document_id = c.document_id
WHERE (c.parent_id, c.first_page, c.last_page) = (parent.id, part.first_page, part.last_page)
"""
# A conflict locks the existing document with the same content, which _INSERT_DUPLICATE_FILES counts.
_INSERT_CHILDREN = f"""
INSERT INTO document AS d (tenant_id, source_id, parent_id, first_page, last_page, bucket, key, version, file_name,
                           size, content_hash, received_at, last_duplicate_at, type, method)
SELECT parent.tenant_id, parent.source_id, parent.id, part.first_page, part.last_page, parent.bucket, part.key,
       part.version, {_FILE_NAME}, part.size, part.content_hash, parent.received_at, parent.received_at,
       CASE WHEN part.is_cover THEN 'other' END, CASE WHEN part.is_cover THEN 'none' END
FROM document parent
CROSS JOIN (SELECT DISTINCT ON (content_hash) * FROM {_PARTS} ORDER BY content_hash, first_page) AS part
WHERE parent.id = %(parent)s AND {_HAS_SAME_BOUNDARIES} AND NOT EXISTS ({_REMOVED}) AND NOT EXISTS (
        SELECT FROM document own WHERE (own.parent_id, own.first_page) = (parent.id, part.first_page)
    )
ORDER BY part.first_page
ON CONFLICT (tenant_id, content_hash) DO UPDATE SET last_duplicate_at = greatest(d.last_duplicate_at,
    excluded.last_duplicate_at)
"""  # noqa: S608  # built from the constants above
_INSERT_DUPLICATE_FILES = f"""
WITH copied AS (
    INSERT INTO document_duplicate_file (tenant_id, document_id, source_id, parent_id, first_page, last_page,
                               bucket, key, version, file_name)
    SELECT d.tenant_id, d.id, parent.source_id, parent.id, part.first_page, part.last_page, parent.bucket, part.key,
           part.version, {_FILE_NAME}
    FROM document parent CROSS JOIN {_PARTS}
    JOIN document d ON d.tenant_id = parent.tenant_id AND d.content_hash = part.content_hash
    WHERE parent.id = %(parent)s AND d.parent_id IS DISTINCT FROM parent.id AND {_HAS_SAME_BOUNDARIES}
    ORDER BY part.first_page
    ON CONFLICT (parent_id, first_page) WHERE parent_id IS NOT NULL DO NOTHING
    RETURNING document_id
)
UPDATE document SET duplicate_uploads = duplicate_uploads + 1 WHERE id IN (SELECT document_id FROM copied)
"""  # noqa: S608
# Cover pages are not ingested, because a list of numbers could be mistaken for an invoice.
_INSERT_JOBS = """
INSERT INTO ingestion_job (id, tenant_id, created_at, status, skip_reason)
SELECT id, tenant_id, %(now)s, CASE WHEN is_cover THEN NULL ELSE 'pending' END, CASE WHEN is_cover THEN %(cover)s END
FROM (SELECT *, first_page = ANY(%(covers)s::int[]) AS is_cover FROM document WHERE parent_id = %(parent)s) AS child
ORDER BY first_page
ON CONFLICT (id) DO NOTHING RETURNING id, status
"""


def _insert_children(connection: Connection, attempt: TenantAttempt, children: Sequence[_Child]) -> list[OutboxMessage]:
    """Insert the rows of new children and start their ingestion.

    Both happen in the caller's transaction. Children of an earlier split of the same file remain unchanged. If that
    split had other boundaries, no child is added. A removed child is not inserted again. A part that the tenant already
    has from another file does not become a second document. It is counted once as a duplicate, and becomes a part of
    this file if the other file is removed. A cover page is stored but not ingested.
    """
    ranges = [child.part.pages for child in children]
    values = {
        "parent": attempt.work_id,
        "now": attempt.now(),
        "cover": COVER_PAGE,
        "covers": [child.part.pages.first for child in children if child.part.kind == "cover"],
        "are_covers": [child.part.kind == "cover" for child in children],
        "first_pages": [pages.first for pages in ranges],
        "last_pages": [pages.last for pages in ranges],
        "endings": [f" {pages.first}-{pages.last}.pdf" for pages in ranges],
        "keys": [child.file.key for child in children],
        "versions": [child.file.version for child in children],
        "sizes": [child.size for child in children],
        "hashes": [child.content_hash for child in children],
    }
    connection.execute(_LOCK_DUPLICATES, [attempt.tenant_id, values["hashes"]])
    connection.execute(_INSERT_CHILDREN.encode(), values)
    connection.execute(_INSERT_DUPLICATE_FILES.encode(), values)
    jobs = connection.execute(_INSERT_JOBS, values).fetchall()
    ids: list[UUID] = [id_ for id_, status in jobs if status is not None]
    return start_revision(connection, "ingestion", ids, attempt.now())
