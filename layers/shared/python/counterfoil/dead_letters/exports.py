"""Exports that are too large for one answer: asked for, found, and given to people, once they are written.

Which letters are meant is fixed by the request: none that dies later. `export_steps` writes them. Who is given a file
comes into the audit trail with it: the filter's hash, and how many letters it has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil import audit, aws
from counterfoil.audit import Operation
from counterfoil.db import Connection
from counterfoil.dead_letters.export import ENDINGS, MEDIA_TYPES, Format
from counterfoil.dead_letters.search import DeadLetterCursor, DeadLetterFilter
from counterfoil.errors import RejectedRequestError

State = Literal["writing", "ready", "failed"]

PREFIX = "dead-letters/"
"""Where they lie in the bucket of uploads: dead-letters/{tenant's id}/{export's id}.{csv|jsonl}."""
KEPT = timedelta(days=7)
LINK_SECONDS = 300
"""How long a link to the file can be used."""
MOST_WRITING = 3
"""Of a tenant at a time."""


@dataclass(frozen=True)
class Export:
    """An export."""

    id: UUID
    tenant_id: UUID
    format: Format
    selection: dict[str, Any]
    filter_hash: bytes
    hides: bool
    """Whether it is without secrets."""
    requested_by: str
    requested_at: datetime
    expires_at: datetime
    state: State
    letters: int
    """That are written by now."""
    bytes: int
    upload_id: str | None
    parts: Sequence[str]
    after_at: datetime | None
    after_id: UUID | None
    is_read: bool
    leased_until: datetime | None
    taken_by: Sequence[str]
    """Who was given the file."""

    @property
    def key(self) -> str:
        """Of the file in the bucket."""
        return f"{PREFIX}{self.tenant_id}/{self.id}.{ENDINGS[self.format]}"

    @property
    def after(self) -> DeadLetterCursor | None:
        """Behind which letter the next part begins."""
        return (
            None if self.after_at is None or self.after_id is None else DeadLetterCursor(self.after_at, self.after_id)
        )


@dataclass(frozen=True)
class Wish:
    """What somebody wants to have."""

    tenant_id: UUID
    selection: DeadLetterFilter
    format: Format
    hides: bool
    by: str
    now: datetime

    def taken(self, connection: Connection, letters: int, size: int) -> Operation:
        """The entry of the audit trail that he has taken it out: so many letters, so many bytes."""
        filter_hash = audit.keyed(connection, self.tenant_id, self.selection.hash)
        return _taken(self, filter_hash, (letters, size), self.by, self.now, None)


class TooManyExportsError(RejectedRequestError):
    """The tenant has MOST_WRITING exports that are being written."""


COLUMNS = ", ".join(Export.__dataclass_fields__)
"""Of its table."""
_SAME = f"""
SELECT {COLUMNS} FROM dead_letter_export
WHERE tenant_id = %(tenant)s AND state = 'writing' AND filter_hash = %(hash)s AND format = %(format)s
  AND hides = %(hides)s AND requested_by = %(by)s LIMIT 1
"""  # noqa: S608  # the columns of the dataclass
_WRITING = "SELECT count(*) FROM dead_letter_export WHERE tenant_id = %(tenant)s AND state = 'writing'"
_REQUEST = f"""
INSERT INTO dead_letter_export (tenant_id, format, selection, filter_hash, hides, requested_by, requested_at,
                                expires_at)
VALUES (%(tenant)s, %(format)s, %(selection)s, %(hash)s, %(hides)s, %(by)s, %(now)s, %(expires)s) RETURNING {COLUMNS}
"""  # noqa: S608


def request(connection: Connection, wish: Wish) -> Export:
    """Store an export, in the tenant's transaction; one that the same person asked for and that is being written is it.

    Raises:
        TooManyExportsError: the tenant has too many that are being written.
    """
    values = {
        "tenant": wish.tenant_id,
        "format": wish.format,
        "selection": Jsonb(wish.selection.before(wish.now).stored),
        "hash": wish.selection.hash,
        "hides": wish.hides,
        "by": wish.by,
        "now": wish.now,
        "expires": wish.now + KEPT,
    }
    row = connection.execute(_SAME.encode(), values).fetchone()
    if row is not None:
        return Export(*row)
    ((writing,),) = connection.execute(_WRITING, values).fetchall()
    if writing >= MOST_WRITING:
        raise TooManyExportsError(f"{writing} exports of this tenant are being written: ask again when one is ready.")
    return Export(*connection.execute(_REQUEST.encode(), values).fetchall()[0])


_FIND = f"SELECT {COLUMNS} FROM dead_letter_export WHERE id = %s"  # noqa: S608


def find(connection: Connection, export_id: UUID) -> Export | None:
    """One export: of the tenant's, or as the delivery role of any tenant's. None where there is none."""
    row = connection.execute(_FIND.encode(), [export_id]).fetchone()
    return None if row is None else Export(*row)


_LIST = f"""
SELECT {COLUMNS} FROM dead_letter_export
WHERE tenant_id = %(tenant)s AND expires_at > %(now)s
  AND (%(by)s::text IS NULL OR requested_by = %(by)s AND hides)
  AND (%(at)s::timestamptz IS NULL OR (requested_at, id) < (%(at)s::timestamptz, %(id)s::uuid))
ORDER BY requested_at DESC, id DESC LIMIT %(limit)s
"""  # noqa: S608


def of_tenant(
    connection: Connection,
    tenant_id: UUID,
    *,
    by: str | None,
    now: datetime,
    limit: int,
    after: tuple[datetime, UUID] | None = None,
) -> list[Export]:
    """At most `limit` of a tenant's exports, the newest first; those behind the one of this time and id.

    Those past keeping are left out. `by`: of this person alone, and without secrets; None: everybody's.
    """
    at, id_ = after or (None, None)
    values = {"tenant": tenant_id, "by": by, "now": now, "at": at, "id": id_, "limit": limit}
    return [Export(*row) for row in connection.execute(_LIST.encode(), values)]


_TAKE = """
UPDATE dead_letter_export SET taken_by = taken_by || %(by)s::text
WHERE id = %(id)s AND state = 'ready' AND NOT %(by)s = ANY(taken_by)
"""


def take(connection: Connection, wanted: Export, *, by: str, now: datetime) -> None:
    """Note that somebody is given the file, in the tenant's transaction: once for each, with an audit entry."""
    if connection.execute(_TAKE, {"id": wanted.id, "by": by}).rowcount == 1:
        amount = (wanted.letters, wanted.bytes)
        filter_hash = audit.keyed(connection, wanted.tenant_id, wanted.filter_hash)
        operation = _taken(wanted, filter_hash, amount, by, now, wanted.id)
        audit.record(connection, wanted.tenant_id, operation)


def link(bucket: str, wanted: Export, tenant: str) -> str:
    """An address from which the file can be fetched for LINK_SECONDS, by whoever has it.

    Raises:
        ServiceUnavailableError: there are no credentials to sign it with just now.
    """
    name = file_name(tenant, wanted.format, wanted.requested_at)
    asked = {
        "Bucket": bucket,
        "Key": wanted.key,
        "ResponseContentDisposition": f'attachment; filename="{name}"',
        "ResponseContentType": MEDIA_TYPES[wanted.format],
        "ResponseCacheControl": "no-store",
    }
    with aws.errors_mapped():
        found: str = aws.client("s3").generate_presigned_url("get_object", Params=asked, ExpiresIn=LINK_SECONDS)
    return found


def file_name(tenant: str, format_: Format, at: datetime) -> str:
    """What a browser saves an export as: a tenant's slug and a time have nothing in them that a header could not."""
    return f"dead-letters-{tenant}-{at:%Y%m%dT%H%M%SZ}.{ENDINGS[format_]}"


def _taken(  # what is taken out, by whom
    of: Wish | Export, filter_hash: bytes, amount: tuple[int, int], by: str, now: datetime, export_id: UUID | None
) -> Operation:
    letters, size = amount
    detail = {
        "filter": filter_hash.hex(),
        "format": of.format,
        "letters": letters,
        "bytes": size,
        "redacted": of.hides,
    }
    return Operation(by, "exported", [] if export_id is None else [str(export_id)], now, detail=detail)
