"""The documents that are cut out of a file of many: their files in S3, their rows, their own ingestion."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.delivery.attempt import TenantAttempt
from counterfoil.delivery.work import Send, begin
from counterfoil.documents import files
from counterfoil.documents.files import File
from counterfoil.documents.sandbox import parsers
from counterfoil.documents.splitting import Part

PREFIX = "children/"
"""Where their files are, in the bucket of their parents: `children/{tenant}/{parent}/{first page}-{last page}.pdf`."""
COVER = "A cover page, which belongs to no document; it is kept and not read."


@dataclass(frozen=True)
class Child:
    """A part that was cut out of a file, and stored."""

    part: Part
    file: File
    size: int
    content_hash: bytes
    """SHA-256, 32 bytes."""


def store(attempt: TenantAttempt, bucket: str, content: bytes, parts: Sequence[Part]) -> list[Child]:
    """Cut the parts out of the parent's `content` and store their files.

    A repeated try stores the same bytes under the same keys, which harms nobody.

    Raises:
        InvalidDocumentError: the file cannot be cut, or not within `parsers.CUT`.
        ParserError: the process that cuts it failed.
        ServiceUnavailableError, RejectedRequestError: S3 did not take a file.
    """
    return list(_stored(attempt, bucket, content, parts))


def _stored(attempt: TenantAttempt, bucket: str, content: bytes, parts: Sequence[Part]) -> Iterator[Child]:
    cut = parsers.cut(content, [part.pages for part in parts], attempt.deadline.check)
    for part, own in zip(parts, cut, strict=True):
        attempt.deadline.check()
        key = f"{PREFIX}{attempt.tenant_id}/{attempt.work_id}/{part.pages.first}-{part.pages.last}.pdf"
        yield Child(part, files.write(bucket, key, own), len(own), hashlib.sha256(own).digest())


_PARTS = """unnest(
    %(first_pages)s::int[], %(last_pages)s::int[], %(endings)s::text[], %(keys)s::text[], %(versions)s::text[],
    %(sizes)s::bigint[], %(hashes)s::bytea[], %(are_covers)s::boolean[]
) AS part (first_page, last_page, ending, key, version, size, content_hash, is_cover)"""
_FILE_NAME = "regexp_replace(parent.file_name, '([.][Pp][Dd][Ff])?$', part.ending)"
# A removal waits for these, or they for it. In the order of their ids, as it takes them.
_LOCK_HELD = "SELECT FROM document WHERE tenant_id = %s AND content_hash = ANY(%s) ORDER BY id FOR NO KEY UPDATE"
# None of them, where an earlier splitting found other boundaries.
_AS_BEFORE = """
NOT EXISTS (
    SELECT FROM (
        SELECT parent_id, first_page, last_page FROM document UNION ALL
        SELECT parent_id, first_page, last_page FROM document_copy
    ) AS earlier
    WHERE earlier.parent_id = parent.id AND (earlier.first_page, earlier.last_page)
        NOT IN (SELECT * FROM unnest(%(first_pages)s::int[], %(last_pages)s::int[]))
)"""
# The part itself, or the document of another file that it was seen as.
_REMOVED = """
SELECT FROM document_removal gone
WHERE (gone.parent_id, gone.first_page, gone.last_page) = (parent.id, part.first_page, part.last_page)
UNION ALL
SELECT FROM document_copy c JOIN document_removal gone ON gone.document_id = c.document_id
WHERE (c.parent_id, c.first_page, c.last_page) = (parent.id, part.first_page, part.last_page)
"""
# A document of these bytes that is there is locked by the conflict, and counted below.
_INSERT = f"""
INSERT INTO document AS d (tenant_id, source_id, parent_id, first_page, last_page, bucket, key, version, file_name,
                           size, content_hash, received_at, last_seen_at, type, method)
SELECT parent.tenant_id, parent.source_id, parent.id, part.first_page, part.last_page, parent.bucket, part.key,
       part.version, {_FILE_NAME}, part.size, part.content_hash, parent.received_at, parent.received_at,
       CASE WHEN part.is_cover THEN 'other' END, CASE WHEN part.is_cover THEN 'none' END
FROM document parent
CROSS JOIN (SELECT DISTINCT ON (content_hash) * FROM {_PARTS} ORDER BY content_hash, first_page) AS part
WHERE parent.id = %(parent)s AND {_AS_BEFORE} AND NOT EXISTS ({_REMOVED}) AND NOT EXISTS (
        SELECT FROM document own WHERE (own.parent_id, own.first_page) = (parent.id, part.first_page)
    )
ORDER BY part.first_page
ON CONFLICT (tenant_id, content_hash) DO UPDATE SET last_seen_at = greatest(d.last_seen_at, excluded.last_seen_at)
"""  # noqa: S608  # put together from the constants above
_COPY = f"""
WITH copied AS (
    INSERT INTO document_copy (tenant_id, document_id, source_id, parent_id, first_page, last_page, bucket, key,
                               version, file_name)
    SELECT d.tenant_id, d.id, parent.source_id, parent.id, part.first_page, part.last_page, parent.bucket, part.key,
           part.version, {_FILE_NAME}
    FROM document parent CROSS JOIN {_PARTS}
    JOIN document d ON d.tenant_id = parent.tenant_id AND d.content_hash = part.content_hash
    WHERE parent.id = %(parent)s AND d.parent_id IS DISTINCT FROM parent.id AND {_AS_BEFORE}
    ORDER BY part.first_page
    ON CONFLICT (parent_id, first_page) WHERE parent_id IS NOT NULL DO NOTHING
    RETURNING document_id
)
UPDATE document SET seen_again = seen_again + 1 WHERE id IN (SELECT document_id FROM copied)
"""  # noqa: S608
# A cover's ingestion is over before it begins: nobody reads a list of numbers as an invoice.
_BEGIN = """
INSERT INTO ingestion_job (id, tenant_id, created_at, status, reason)
SELECT id, tenant_id, %(now)s, CASE WHEN is_cover THEN NULL ELSE 'pending' END, CASE WHEN is_cover THEN %(cover)s END
FROM (SELECT *, first_page = ANY(%(covers)s::int[]) AS is_cover FROM document WHERE parent_id = %(parent)s) AS child
ORDER BY first_page
ON CONFLICT (id) DO NOTHING RETURNING id, status
"""


def insert(connection: Connection, attempt: TenantAttempt, children: Sequence[Child]) -> list[Send]:
    """Write the rows of the children that are new, and owe each its ingestion, in the caller's transaction.

    Children that are there already, from an earlier splitting of the same file, stay as they are, and where that one
    found other boundaries none are added to them. One that a person removed does not come back. A part that the tenant
    has from elsewhere is no second document: that one is counted as seen again, once, and is this file's too when the
    other one goes. A cover page is kept, and nobody is asked to read it.
    """
    ranges = [child.part.pages for child in children]
    values = {
        "parent": attempt.work_id,
        "now": attempt.now(),
        "cover": COVER,
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
    connection.execute(_LOCK_HELD, [attempt.tenant_id, values["hashes"]])
    connection.execute(_INSERT.encode(), values)
    connection.execute(_COPY.encode(), values)
    begun = connection.execute(_BEGIN, values).fetchall()
    ids: list[UUID] = [id_ for id_, status in begun if status is not None]
    return begin(connection, "ingestion", ids, attempt.now())
