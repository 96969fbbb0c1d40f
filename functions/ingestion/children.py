"""The documents that are cut out of a file of many: their files in S3, their rows, their own ingestion."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.delivery import Attempt
from counterfoil.documents import files, pdf
from counterfoil.documents.files import File
from counterfoil.documents.splitting import Part
from counterfoil.work import Send, begin

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


def store(attempt: Attempt, bucket: str, content: bytes, parts: Sequence[Part]) -> list[Child]:
    """Cut the parts out of the parent's `content` and store their files.

    A repeated try stores the same bytes under the same keys, which harms nobody.

    Raises:
        InvalidDocumentError: the file cannot be cut.
        ServiceUnavailableError, RejectedRequestError: S3 did not take a file.
    """
    return list(_stored(attempt, bucket, content, parts))


def _stored(attempt: Attempt, bucket: str, content: bytes, parts: Sequence[Part]) -> Iterator[Child]:
    for part, own in zip(parts, pdf.cut(content, [part.pages for part in parts]), strict=True):
        attempt.check()
        key = f"{PREFIX}{attempt.tenant_id}/{attempt.work_id}/{part.pages.first}-{part.pages.last}.pdf"
        yield Child(part, files.write(bucket, key, own), len(own), hashlib.sha256(own).digest())


_SEEN_AGAIN = """
UPDATE document d SET seen_again = d.seen_again + 1, last_seen_at = greatest(d.last_seen_at, parent.received_at)
FROM document parent
WHERE parent.id = %(parent)s AND d.tenant_id = parent.tenant_id AND d.content_hash = ANY(%(hashes)s)
  AND d.parent_id IS DISTINCT FROM parent.id
"""
_INSERT = """
INSERT INTO document (tenant_id, source_id, parent_id, first_page, last_page, bucket, key, version, file_name, size,
                      content_hash, received_at, last_seen_at, type, method)
SELECT parent.tenant_id, parent.source_id, parent.id, part.first_page, part.last_page, parent.bucket, part.key,
       part.version, regexp_replace(parent.file_name, '([.][Pp][Dd][Ff])?$', part.ending), part.size,
       part.content_hash, parent.received_at, parent.received_at,
       CASE WHEN part.is_cover THEN 'other' END, CASE WHEN part.is_cover THEN 'none' END
FROM document parent CROSS JOIN unnest(
        %(first_pages)s::int[], %(last_pages)s::int[], %(endings)s::text[], %(keys)s::text[], %(versions)s::text[],
        %(sizes)s::bigint[], %(hashes)s::bytea[], %(are_covers)s::boolean[]
    ) AS part (first_page, last_page, ending, key, version, size, content_hash, is_cover)
WHERE parent.id = %(parent)s AND NOT EXISTS (
        SELECT FROM document earlier WHERE earlier.parent_id = parent.id AND (earlier.first_page, earlier.last_page)
            NOT IN (SELECT * FROM unnest(%(first_pages)s::int[], %(last_pages)s::int[]))
    ) AND NOT EXISTS (
        SELECT FROM document_removal gone
        WHERE (gone.parent_id, gone.first_page, gone.last_page) = (parent.id, part.first_page, part.last_page)
    )
ORDER BY part.first_page
ON CONFLICT DO NOTHING
"""
# A cover's ingestion is over before it begins: nobody reads a list of numbers as an invoice.
_BEGIN = """
INSERT INTO ingestion_job (id, tenant_id, created_at, status, reason)
SELECT id, tenant_id, %(now)s, CASE WHEN is_cover THEN NULL ELSE 'pending' END, CASE WHEN is_cover THEN %(cover)s END
FROM (SELECT *, first_page = ANY(%(covers)s::int[]) AS is_cover FROM document WHERE parent_id = %(parent)s) AS child
ORDER BY first_page
ON CONFLICT (id) DO NOTHING RETURNING id, status
"""


def insert(connection: Connection, attempt: Attempt, children: Sequence[Child]) -> list[Send]:
    """Write the rows of the children that are new, and owe each its ingestion, in the caller's transaction.

    Children that are there already, from an earlier splitting of the same file, stay as they are, and where that one
    found other boundaries none are added to them. One that a person removed does not come back. A part that the tenant
    has from elsewhere is no second document, and is counted as seen again. A cover page is kept, and nobody is asked to
    read it.
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
    connection.execute(_SEEN_AGAIN, values)
    connection.execute(_INSERT, values)
    begun = connection.execute(_BEGIN, values).fetchall()
    ids: list[UUID] = [id_ for id_, status in begun if status is not None]
    return begin(connection, "ingestion", ids, attempt.now())
