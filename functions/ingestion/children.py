"""The documents that are cut out of a file of many: their files in S3, their rows, their own ingestion."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

from counterfoil.db import Connection
from counterfoil.delivery import Attempt
from counterfoil.documents import files, pdf
from counterfoil.documents.files import File
from counterfoil.documents.splitting import PageRange
from counterfoil.work import Send, begin

PREFIX = "children/"
"""Where their files are, in the bucket of their parents: `children/{tenant}/{parent}/{first page}.pdf`."""


@dataclass(frozen=True)
class Child:
    """A document that was cut out of another one's file, and stored."""

    pages: PageRange
    file: File
    size: int
    content_hash: bytes
    """SHA-256, 32 bytes."""


def store(attempt: Attempt, bucket: str, content: bytes, ranges: Sequence[PageRange]) -> list[Child]:
    """Cut the children out of the parent's `content` and store their files.

    A repeated try stores the same bytes under the same keys, which harms nobody.

    Raises:
        InvalidDocumentError: the file cannot be cut.
        ServiceUnavailableError, RejectedRequestError: S3 did not take a file.
    """
    return list(_stored(attempt, bucket, content, ranges))


def _stored(attempt: Attempt, bucket: str, content: bytes, ranges: Sequence[PageRange]) -> Iterator[Child]:
    for pages, part in zip(ranges, pdf.cut(content, ranges), strict=True):
        attempt.check()
        key = f"{PREFIX}{attempt.tenant_id}/{attempt.work_id}/{pages.first}.pdf"
        yield Child(pages, files.write(bucket, key, part), len(part), hashlib.sha256(part).digest())


_SEEN_AGAIN = """
UPDATE document d SET seen_again = d.seen_again + 1, last_seen_at = greatest(d.last_seen_at, parent.received_at)
FROM document parent
WHERE parent.id = %(parent)s AND d.tenant_id = parent.tenant_id AND d.content_hash = ANY(%(hashes)s)
  AND d.parent_id IS DISTINCT FROM parent.id
"""
_INSERT = """
INSERT INTO document (tenant_id, source_id, parent_id, first_page, last_page, bucket, key, version, file_name, size,
                      content_hash, received_at, last_seen_at)
SELECT parent.tenant_id, parent.source_id, parent.id, part.first_page, part.last_page, parent.bucket, part.key,
       part.version, regexp_replace(parent.file_name, '([.][Pp][Dd][Ff])?$', part.ending), part.size,
       part.content_hash, parent.received_at, parent.received_at
FROM document parent CROSS JOIN unnest(
        %(first_pages)s::int[], %(last_pages)s::int[], %(endings)s::text[], %(keys)s::text[], %(versions)s::text[],
        %(sizes)s::bigint[], %(hashes)s::bytea[]
    ) AS part (first_page, last_page, ending, key, version, size, content_hash)
WHERE parent.id = %(parent)s ORDER BY part.first_page
ON CONFLICT DO NOTHING
"""
_BEGIN = """
INSERT INTO ingestion_job (id, tenant_id, created_at)
SELECT id, tenant_id, %(now)s FROM document WHERE parent_id = %(parent)s ORDER BY first_page
ON CONFLICT (id) DO NOTHING RETURNING id
"""


def insert(connection: Connection, attempt: Attempt, children: Sequence[Child]) -> list[Send]:
    """Write the rows of the children that are new, and owe each its ingestion, in the caller's transaction.

    Children that are there already, from an earlier splitting of the same file, stay as they are; a part that the
    tenant has from elsewhere is no second document, and is counted as seen again.
    """
    values = {
        "parent": attempt.work_id,
        "first_pages": [child.pages.first for child in children],
        "last_pages": [child.pages.last for child in children],
        "endings": [f" {child.pages.first}-{child.pages.last}.pdf" for child in children],
        "keys": [child.file.key for child in children],
        "versions": [child.file.version for child in children],
        "sizes": [child.size for child in children],
        "hashes": [child.content_hash for child in children],
    }
    connection.execute(_SEEN_AGAIN, values)
    connection.execute(_INSERT, values)
    begun = connection.execute(_BEGIN, {"parent": attempt.work_id, "now": attempt.now()}).fetchall()
    ids: list[UUID] = [row[0] for row in begun]
    return begin(connection, "ingestion", ids, attempt.now())
