"""Exports dead letters to a JSON lines or CSV file.

A small export is returned in the API's response. A large export is an operation: each step uploads one part of the file
to S3, and an interrupted step is repeated. The file is stored for a week. The audit trail records who downloads it.

Dead letters are read in batches, each in its own transaction, so only a few are in memory at a time. A dead letter that
changes during the export may be in the file or missing from it.

JSON lines (UTF-8): one object per dead letter, with the names in FIELDS.

CSV (RFC 4180, UTF-8): a header line with COLUMNS, and one line per dead letter. Texts are quoted, and numbers are not.
Objects and lists are encoded as JSON. `counterfoil.webhooks.payload.to_csv_cell` puts an apostrophe before a text that
a spreadsheet would run as a formula. Semicolons and vertical bars in JSON are escaped, because some programs treat them
as separators.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from counterfoil import audit, aws
from counterfoil.db import Connection, Database, PageCursor
from counterfoil.dead_letters import search
from counterfoil.dead_letters.redaction import redact, without_traceback
from counterfoil.dead_letters.search import ALL_COLUMNS, DeadLetterDetails, DeadLetterFilter
from counterfoil.delivery.outbox import TimeLeft
from counterfoil.errors import ConflictError, InvalidSettingsError, RejectedRequestError
from counterfoil.http import run_with_deadline
from counterfoil.operations import store
from counterfoil.operations.engine import ApplyResult, Definition, Schedule
from counterfoil.operations.store import COLUMNS as OPERATION_COLUMNS
from counterfoil.operations.store import NewOperation, Operation, Result
from counterfoil.webhooks.payload import to_csv_cell

Format = Literal["csv", "json"]
FILE_EXTENSIONS: Mapping[Format, str] = {"csv": "csv", "json": "jsonl"}
"""File name extensions."""
MEDIA_TYPES: Mapping[Format, str] = {"csv": "text/csv; charset=utf-8; header=present", "json": "application/x-ndjson"}
FIELDS = (
    *("job_id", "task_type", "payload", "metadata", "dlq_reason", "dlq_timestamp", "status", "resolution"),
    *(
        "resolved_at",
        "resolved_by",
        "worker",
        "tenant",
        "fingerprint",
        "attempts",
        "previous_failures",
        "work_id",
        "revision",
    ),
    *("version", "file_name", "redacted_paths"),
)
COLUMNS = (
    *("job_id", "task_type", "payload", "metadata.created_at", "metadata.retry_count", "metadata.max_retry"),
    *(f"metadata.last_error.{name}" for name in ("type", "message", "timestamp", "context")),
    *("dlq_reason", "dlq_timestamp", "status", "resolution.action", "resolution.notes", "resolved_at", "resolved_by"),
    *(
        "worker",
        "tenant",
        "fingerprint",
        "attempts",
        "previous_failures",
        "work_id",
        "revision",
        "version",
        "file_name",
    ),
    "redacted_paths",
)
PAGE_SIZE = 500
"""Number of dead letters whose cursors are read in one query."""
MAX_BATCH_BYTES = 2 * 1024 * 1024
"""Maximum size of the JSON that PostgreSQL returns for a batch, unless the batch is a single larger dead letter."""


# -- reading ---------------------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Consecutive dead letters of an export."""

    dead_letters: Sequence[DeadLetterDetails]
    after: PageCursor
    """Cursor for the next batch."""


OpenTransaction = Callable[[], AbstractContextManager[Connection]]
"""Function that opens a transaction in which the tenant's dead letters are visible."""

_SIZES = """
SELECT job_id, octet_length(payload::text) + octet_length(metadata::text) + octet_length(previous_failures::text)
FROM dead_letter WHERE job_id = ANY(%s)
"""
_SELECT_BY_IDS = f"""
SELECT {ALL_COLUMNS} FROM dead_letter WHERE job_id = ANY(%(ids)s) AND tenant_id = %(tenant)s AND purged_at IS NULL
ORDER BY dlq_timestamp DESC, job_id DESC
"""  # noqa: S608  # the columns of the dataclass


def iter_batches(
    open_transaction: OpenTransaction, tenant_id: UUID, selection: DeadLetterFilter, after: PageCursor | None = None
) -> Iterator[Batch]:
    """Yield batches of a tenant's dead letters after a cursor, newest first.

    A batch has at most MAX_BATCH_BYTES of JSON, unless it is a single larger dead letter. It can be empty.

    Raises:
        ConflictError, DatabaseUnavailableError: the next batch could not be read; call again with the last cursor.
    """
    next_: PageCursor | None = after
    while True:
        with open_transaction() as connection:
            cursors, next_ = search.page_cursors(connection, tenant_id, selection, limit=PAGE_SIZE, after=next_)
            sizes: dict[UUID, int] = dict(connection.execute(_SIZES, [[cursor.id for cursor in cursors]]).fetchall())
        for chunk in _split_by_size(cursors, sizes):
            with open_transaction() as connection:
                values = {"ids": [cursor.id for cursor in chunk], "tenant": tenant_id}
                dead_letters = [DeadLetterDetails(*row) for row in connection.execute(_SELECT_BY_IDS.encode(), values)]
            yield Batch(dead_letters, chunk[-1])
        if next_ is None:
            return
        yield Batch((), next_)


def _split_by_size(cursors: Sequence[PageCursor], sizes: Mapping[UUID, int]) -> Iterator[Sequence[PageCursor]]:
    chunk: list[PageCursor] = []
    size = 0
    for cursor in cursors:
        bytes_ = sizes.get(cursor.id, 0)
        if chunk and size + bytes_ > MAX_BATCH_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(cursor)
        size += bytes_
    if chunk:
        yield chunk


# -- format -----------------------------------------------------------------------------------------------------------

_REDACTED_FIELDS = ("payload", "metadata", "resolution", "previous_failures", "file_name")
"""Fields of a dead letter that may contain secrets, including notes."""


def header(format_: Format) -> bytes:
    """Return the header line of a CSV file, or empty bytes for a JSON lines file."""
    return b"" if format_ == "json" else _to_csv([COLUMNS])


def encode(dead_letters: Iterable[DeadLetterDetails], tenant: str, format_: Format, *, redacts: bool) -> bytes:
    """Encode dead letters for a file.

    `tenant` is the tenant's slug. With `redacts`, secrets and tracebacks are hidden.
    """
    rows = [_to_row(dead_letter, tenant, redacts=redacts) for dead_letter in dead_letters]
    if format_ == "json":
        return "".join(f"{_to_json(row)}\n" for row in rows).encode()
    return _to_csv(_to_cells(row) for row in rows)


def _to_row(dead_letter: DeadLetterDetails, tenant: str, *, redacts: bool) -> dict[str, Any]:
    fields = {name: _to_json_value(value) for name, value in vars(dead_letter).items()} | {
        "tenant": tenant,
        "redacted_paths": [],
    }
    if redacts:
        redacted = redact(without_traceback({name: fields[name] for name in _REDACTED_FIELDS}))
        fields |= {**redacted.value, "redacted_paths": redacted.pointers}
    return {name: fields[name] for name in FIELDS}


_PATHS = [column.split(".") for column in COLUMNS]


def _to_cells(row: Mapping[str, Any]) -> Iterator[str | int]:
    for field, *path in _PATHS:
        value: Any = row[field]
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, dict | list):  # needs no apostrophe, because JSON starts with a bracket
            yield _to_json(value).replace(";", "\\u003b").replace("|", "\\u007c")
        else:
            yield value if isinstance(value, int) and not isinstance(value, bool) else to_csv_cell(value)


def _to_csv(rows: Iterable[Iterable[str | int]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _to_json_value(value: Any) -> Any:
    """Convert a value to a JSON type. Times are converted to UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, UUID):
        return str(value)
    return list(value) if isinstance(value, tuple) else value


# -- requests --------------------------------------------------------------------------------------------------------

PREFIX = "dead-letters/"
"""Key prefix of export files in the uploads bucket: dead-letters/{tenant id}/{operation id}.{csv|jsonl}."""
RETENTION = timedelta(days=7)
"""Time from the request during which a file can be downloaded. The bucket's lifecycle rule deletes the file."""
URL_EXPIRY_SECONDS = 300
"""Lifetime of a download link, in seconds."""
MAX_ACTIVE = 3
"""Maximum number of exports in progress per tenant."""


@dataclass(frozen=True)
class ExportFile:
    """State of an export's file, stored with its operation."""

    format: Format
    redacted: bool
    """Whether secrets are redacted."""
    bytes: int = 0
    upload_id: str | None = None
    """Id of the multipart upload, or None before the upload starts and after it is complete."""
    parts: Sequence[str] = ()
    """ETags of the uploaded parts. Empty after the upload is complete."""
    downloaded_by: Sequence[str] = ()
    """Callers who received a download link."""

    @classmethod
    def from_operation(cls, operation: Operation) -> "ExportFile":
        """Return the file of an export operation."""
        return cls(**operation.file or {})


class TooManyExportsError(RejectedRequestError):
    """The tenant has MAX_ACTIVE exports in progress."""


_FIND_SAME = f"""
SELECT {OPERATION_COLUMNS} FROM operation
WHERE tenant_id = %(tenant)s AND action = 'export' AND ended_at IS NULL AND requested_by = %(by)s
  AND filter = %(filter)s AND file ->> 'format' = %(format)s AND (file -> 'redacted')::boolean = %(redacted)s LIMIT 1
"""  # noqa: S608  # the columns of the dataclass
_COUNT_ACTIVE = "SELECT count(*) FROM operation WHERE tenant_id = %(tenant)s AND action = 'export' AND ended_at IS NULL"


def request(
    connection: Connection, tenant_id: UUID, filter_: DeadLetterFilter, file: ExportFile, *, by: str, now: datetime
) -> Operation:
    """Store an export, or return an identical export in progress by the same caller.

    Runs in the tenant's transaction.

    Raises:
        TooManyExportsError: the tenant has too many exports in progress.
    """
    values = {"tenant": tenant_id, "by": by, "filter": Jsonb(filter_.stored_fields), **vars(file)}
    row = connection.execute(_FIND_SAME.encode(), values).fetchone()
    if row is not None:
        return Operation(*row)
    ((active,),) = connection.execute(_COUNT_ACTIVE, values).fetchall()
    if active >= MAX_ACTIVE:
        raise TooManyExportsError(f"{active} exports of this tenant are in progress. Retry when one is done.")
    return store.insert(connection, tenant_id, NewOperation("export", filter_.stored_fields, by, now, file=vars(file)))


_RECORD_DOWNLOADER = """
UPDATE operation SET file = jsonb_set(file, '{downloaded_by}', (file -> 'downloaded_by') || to_jsonb(%(by)s::text))
WHERE id = %(id)s AND state = 'done' AND NOT (file -> 'downloaded_by') ? %(by)s
"""


def record_download(connection: Connection, operation: Operation, *, by: str, now: datetime) -> None:
    """Record a download.

    Only a caller's first download of a file adds an audit entry.

    Runs in the tenant's transaction.
    """
    if connection.execute(_RECORD_DOWNLOADER, {"id": operation.id, "by": by}).rowcount == 1:
        filter_, file = DeadLetterFilter(**operation.filter or {}), ExportFile.from_operation(operation)
        record_export(connection, operation.tenant_id, filter_, file, operation.succeeded, by, now, operation.id)


def record_export(
    connection: Connection,
    tenant_id: UUID,
    filter_: DeadLetterFilter,
    file: ExportFile,
    dead_letters: int,
    by: str,
    now: datetime,
    operation_id: UUID | None = None,
) -> None:
    """Record the download of a file in the audit trail."""
    detail = {
        "filter": audit.hmac_digest(connection, tenant_id, filter_.hash).hex(),
        "format": file.format,
        "dead_letters": dead_letters,
        "bytes": file.bytes,
        "redacted": file.redacted,
    }
    targets = [] if operation_id is None else [str(operation_id)]
    audit.record(connection, tenant_id, audit.AuditRecord(by, "exported", targets, now, detail=detail))


def presigned_url(bucket: str, operation: Operation, tenant: str) -> str:
    """Return a download link for the file.

    It is valid for URL_EXPIRY_SECONDS and requires no login.

    Raises:
        ServiceUnavailableError: there are no credentials to sign the link.
    """
    file = ExportFile.from_operation(operation)
    name = file_name(tenant, file.format, operation.requested_at)
    values = {
        "Bucket": bucket,
        "Key": object_key(operation),
        "ResponseContentDisposition": f'attachment; filename="{name}"',
        "ResponseContentType": MEDIA_TYPES[file.format],
        "ResponseCacheControl": "no-store",
    }
    with aws.translate_errors():
        url: str = aws.client("s3").generate_presigned_url("get_object", Params=values, ExpiresIn=URL_EXPIRY_SECONDS)
    return url


def object_key(operation: Operation) -> str:
    """Return the file's key in the bucket."""
    return (
        f"{PREFIX}{operation.tenant_id}/{operation.id}.{FILE_EXTENSIONS[ExportFile.from_operation(operation).format]}"
    )


def file_name(tenant: str, format_: Format, at: datetime) -> str:
    """Return the name of the downloaded file. It needs no escaping in a header."""
    return f"dead-letters-{tenant}-{at:%Y%m%dT%H%M%SZ}.{FILE_EXTENSIONS[format_]}"


# -- steps -----------------------------------------------------------------------------------------------------------

PART_BYTES = 5 * 1024 * 1024
"""Minimum size of every part except the last. S3 accepts 10,000 parts, so a file of 50 GB always fits."""
WRITE_TIMEOUT = timedelta(days=1)
"""Maximum time from the request until the file is complete. An export that takes longer fails."""
LEASE = timedelta(seconds=60)
"""Lease of the process that writes the next part. It is longer than an invocation of the function that runs steps."""
MIN_SECONDS_LEFT = 6.0
"""Minimum number of seconds left to start the upload of a part."""
CALL_TIMEOUT_SECONDS = 15.0
"""Maximum timeout of a call to S3. It is shorter if less time is left."""

_ACQUIRE_LEASE = f"""
UPDATE operation SET last_step_at = %(until)s WHERE id = %(id)s AND state = 'running' AND last_step_at <= %(now)s
RETURNING {OPERATION_COLUMNS}, (SELECT slug FROM tenant WHERE id = tenant_id)
"""  # noqa: S608  # the columns of the dataclass
_RESTART = """
UPDATE operation SET file = %(file)s, cursor_at = NULL, cursor_id = NULL, selected = 0, processed = 0, succeeded = 0
WHERE id = %(id)s AND state = 'running' AND last_step_at = %(lease)s
"""
_SAVE_FILE = "UPDATE operation SET file = %(file)s WHERE id = %(id)s"


class _Part(NamedTuple):
    """Result of a step: the uploaded part, if any, and the state after the upload."""

    lease: datetime
    file: ExportFile
    dead_letters: int = 0
    cursor: PageCursor | None = None
    is_last: bool = False
    reason: str | None = None
    """Reason why the export failed, or None."""


@dataclass(frozen=True)
class ExportSteps(Definition):
    """Steps of the operation export.

    S3 is called before the step's transaction. `last_step_at` is the end of the lease of the process that writes the
    next part. If S3 rejects a part or the complete file, the export starts over.
    """

    bucket: str | None
    actions = ("export",)

    def prepare(
        self,
        database: Database,
        operation_id: UUID,
        tenant_id: UUID,
        now: datetime,
        _batch_size: int,
        time_left: TimeLeft,
    ) -> _Part | None:
        """Upload the next part if enough time is left.

        Returns None if another process holds the lease.
        """
        with database.tenant(tenant_id) as connection:
            values = {"id": operation_id, "now": now, "until": now + LEASE}
            row = connection.execute(_ACQUIRE_LEASE.encode(), values).fetchone()
        if row is None:
            return None
        operation, slug = Operation(*row[:-1]), row[-1]
        file = ExportFile.from_operation(operation)
        if now - operation.requested_at > WRITE_TIMEOUT:
            return _Part(operation.last_step_at, file, is_last=True, reason="It was not complete within a day.")
        part = self._read(database, operation, slug, time_left)
        if part is None:
            return _Part(operation.last_step_at, file)
        try:
            return self._upload(operation, file, *part, time_left)
        except RejectedRequestError:
            restarted = replace(file, bytes=0, upload_id=None, parts=())
            values = {"id": operation.id, "lease": operation.last_step_at, "file": Jsonb(vars(restarted))}
            with database.tenant(tenant_id) as connection:
                connection.execute(_RESTART, values)
            raise

    def apply(
        self, connection: Connection, operation: Operation, _limit: int, _schedule: Schedule, prepared: _Part | None
    ) -> ApplyResult | None:
        """Record the uploaded part and the progress of the export."""
        if prepared is None:
            return None
        if operation.last_step_at != prepared.lease:
            raise ConflictError("Another process is writing this export")
        connection.execute(_SAVE_FILE, {"id": operation.id, "file": Jsonb(vars(prepared.file))})
        counts: dict[Result, int] = {"succeeded": prepared.dead_letters}
        return ApplyResult(counts, (), is_last=prepared.is_last, reason=prepared.reason, cursor=prepared.cursor)

    def _read(
        self, database: Database, operation: Operation, slug: str, time_left: TimeLeft
    ) -> tuple[bytes, int, PageCursor | None, bool] | None:
        """Return the next part, or None if there is not enough time to upload it.

        The result is the content, the number of dead letters, the last cursor, and whether this is the last part.
        """
        file = ExportFile.from_operation(operation)
        filter_ = DeadLetterFilter(**operation.filter or {}).before(operation.requested_at)
        cursor_at, cursor_id = operation.cursor_at, operation.cursor_id
        cursor = None if cursor_at is None or cursor_id is None else PageCursor(cursor_at, cursor_id)
        content, dead_letters = bytearray() if file.parts else bytearray(header(file.format)), 0
        tenant_id = operation.tenant_id
        for batch in iter_batches(lambda: database.tenant(tenant_id), tenant_id, filter_, cursor):
            if time_left() < MIN_SECONDS_LEFT:
                return None
            content += encode(batch.dead_letters, slug, file.format, redacts=file.redacted)
            dead_letters, cursor = dead_letters + len(batch.dead_letters), batch.after
            if len(content) >= PART_BYTES:
                return bytes(content), dead_letters, cursor, False
        return bytes(content), dead_letters, cursor, True

    def _upload(
        self,
        operation: Operation,
        file: ExportFile,
        content: bytes,
        dead_letters: int,
        cursor: PageCursor | None,
        is_last: bool,
        time_left: TimeLeft,
    ) -> _Part:
        call = partial(self._call, object_key(operation), time_left)
        upload_id = file.upload_id
        if upload_id is None:
            upload_id = call("create_multipart_upload", ContentType=MEDIA_TYPES[file.format])["UploadId"]
        etags = list(file.parts)
        if content or not etags:
            number = len(etags) + 1
            etags.append(call("upload_part", UploadId=upload_id, PartNumber=number, Body=content)["ETag"])
        if is_last:
            parts = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, start=1)]
            call("complete_multipart_upload", UploadId=upload_id, MultipartUpload={"Parts": parts})
            upload_id, etags = None, []
        updated = replace(file, bytes=file.bytes + len(content), upload_id=upload_id, parts=etags)
        return _Part(operation.last_step_at, updated, dead_letters, cursor, is_last)

    def _call(self, key_: str, time_left: TimeLeft, name: str, **values: Any) -> dict[str, Any]:
        if self.bucket is None:
            raise InvalidSettingsError("UPLOADS_BUCKET is not set. Exports require a bucket.")
        call = partial(getattr(aws.client("s3"), name), Bucket=self.bucket, Key=key_, **values)
        with aws.translate_errors():
            response: dict[str, Any] = run_with_deadline(min(CALL_TIMEOUT_SECONDS, time_left()), call)
        return response
