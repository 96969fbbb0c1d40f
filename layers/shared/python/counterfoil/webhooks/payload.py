"""Content of deliveries: signed JSON bodies, and the files of exports.

The body is a JSON object with the following fields. It is identical, byte for byte, in all attempts at a revision.

- `schema_version`
- `id`: also the Idempotency-Key
- `event`: "cluster", "document" or "offers"
- `subject_id` and `revision`
- `created_at`: time when this revision was requested, ISO 8601 in UTC
- `data`: null if the subject no longer exists
"""

import csv
import hashlib
import hmac
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from botocore.exceptions import ClientError

from counterfoil import aws
from counterfoil.errors import RejectedRequestError, ServiceUnavailableError

SCHEMA_VERSION = 1
"""Schema version of new revisions. An existing revision keeps its version."""

COLUMNS = (
    "subject_id",
    "revision",
    "outcome",
    "document_id",
    "type",
    "file_name",
    "number",
    "date",
    "seller",
    "seller_vat_id",
    "buyer",
    "buyer_vat_id",
    "currency",
    "total_net",
    "total_tax",
    "total_gross",
)
"""Columns of the CSV file, which has one row per document."""

_NUMBERS = ("invoice", "credit_note", "po", "confirmation", "delivery_note", "receipt", "contract")
_DATES = ("invoice", "credit_note", "order", "confirmation", "delivery", "receipt", "contract")
_SAFE = r"\w'(\[{<#/§€$£"
"""Safe first characters, which no spreadsheet treats as the start of a formula. An apostrophe marks a cell as text."""
_UNSAFE = re.compile(rf"\A(?![ \u00a0]*(?:[{_SAFE}]|\Z))|(?<=[;|\t\r\n])(?![ \u00a0]*(?:[{_SAFE};\t\r\n]|\Z))")
"""Matches before an unsafe first character of a cell, or of a part that some spreadsheets treat as a cell."""


@dataclass(frozen=True)
class OutputJob:
    """Delivery of one revision of a subject to one destination."""

    id: UUID
    revision: int
    """Revision of the content. Retries of a failed delivery do not change it."""
    subject: str
    subject_id: UUID
    schema_version: int
    requested_at: datetime
    payload: str
    """JSON text from PostgreSQL. It is delivered without parsing, because parsing could round numbers."""

    @property
    def key(self) -> str:
        """Idempotency-Key, identical for every attempt at a revision."""
        return f"{self.id}:{self.revision}"

    @property
    def created_at(self) -> str:
        """Time when the revision was requested, in UTC (ISO 8601).

        The fixed length makes texts sort by time.
        """
        return self.requested_at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def render_body(job: OutputJob) -> bytes:
    """Return the body to deliver, which is identical for every attempt at a revision."""
    envelope = {
        "schema_version": job.schema_version,
        "id": job.key,
        "event": job.subject,
        "subject_id": str(job.subject_id),
        "revision": job.revision,
        "created_at": job.created_at,
    }
    return f'{json.dumps(envelope)[:-1]}, "data": {job.payload}}}'.encode()


def to_csv_rows(job: OutputJob) -> bytes:
    """Return a subject's documents as CSV, with a header row and a row per document.

    The file complies with RFC 4180 and is encoded in UTF-8. Values that a spreadsheet could interpret as a formula get
    a leading apostrophe.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for document in _documents(job):
        writer.writerow([to_csv_cell(document.get(column)) for column in COLUMNS])
    return buffer.getvalue().encode()


def _documents(job: OutputJob) -> list[dict[str, Any]]:
    data: Mapping[str, Any] | None = json.loads(job.payload, parse_float=str, parse_int=str)
    if data is None:
        return []
    documents: Sequence[Mapping[str, Any]] = data.get("documents", []) if job.subject == "cluster" else [data]
    shared = {"subject_id": job.subject_id, "revision": job.revision, "outcome": data.get("outcome")}
    return [shared | _to_row(document) for document in documents]


def _to_row(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of one document by column."""
    data: Mapping[str, Any] = document.get("structured_data") or {}
    seller: Mapping[str, Any] = data.get("issuer") or data.get("supplier") or {}
    buyer: Mapping[str, Any] = data.get("recipient") or data.get("buyer") or {}
    return {
        "document_id": document.get("id"),
        "type": document.get("type"),
        "file_name": document.get("file_name"),
        "number": _first(data, [f"{name}_number" for name in _NUMBERS]),
        "date": _first(data, [f"{name}_date" for name in _DATES]),
        "seller": seller.get("name"),
        "seller_vat_id": seller.get("vat_id"),
        "buyer": buyer.get("name"),
        "buyer_vat_id": buyer.get("vat_id"),
        **{name: data.get(name) for name in ("currency", "total_net", "total_tax", "total_gross")},
    }


def _first(data: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((data[name] for name in names if data.get(name) is not None), None)


def to_csv_cell(value: Any) -> str:
    """Return a cell's text, with an apostrophe before each potentially unsafe part.

    Only the first character of a part matters. Safe characters are listed instead of unsafe ones. Spreadsheets treat
    more characters than OWASP lists (= + - @, tab, carriage return) as the start of a formula or command. Numbers are
    unchanged.
    """
    if value is None:
        return ""
    text = str(value)
    return text if _is_number(text) else _UNSAFE.sub("'", text)


def _is_number(text: str) -> bool:
    return text.removeprefix("-").replace(".", "", 1).isdecimal()


SIGNATURE_HEADER = "Counterfoil-Signature"
"""Signature header of a webhook: `t=1767323045,v1=<hex>,v1=<hex>`, in the format of Stripe's signatures."""


def sign(body: bytes, secrets: Sequence[str], timestamp: int) -> str:
    """Return the value of SIGNATURE_HEADER, with one `v1` for each active secret.

    `t` is `timestamp`, in seconds since 1970. Each `v1` is the HMAC-SHA256 of `t`, a full stop and the body, with one
    secret (UTF-8) as the key. A receiver computes the HMAC with its own secret. To prevent replay of a recorded call,
    it must reject timestamps that are more than five minutes old.
    """
    signed = f"{timestamp}.".encode() + body
    digests = [hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest() for secret in secrets]
    return ",".join([f"t={timestamp}", *(f"v1={digest}" for digest in digests)])


PREFIX = "exports/"
"""Prefix of all exports: exports/{tenant}/{destination's prefix}/{clusters|documents|offers}/{id}.{json|csv}."""
_JOB, _REVISION, _CREATED_AT = "job", "revision", "created-at"
"""Metadata keys of an exported object. Their values identify the revision in the file."""


def export_key(tenant_slug: str, prefix: str, job: OutputJob, extension: str) -> str:
    """Return the S3 key of an exported subject, which is the same for every revision."""
    return f"{PREFIX}{tenant_slug}/{prefix}/{job.subject.removesuffix('s')}s/{job.subject_id}.{extension}"


def export_files(bucket: str, tenant_slug: str, prefix: str, job: OutputJob) -> None:
    """Write a job's files unless newer files exist.

    For offers, no CSV file is written.

    Raises:
        ServiceUnavailableError, RejectedRequestError: a file could not be written.
    """
    files = [("json", "application/json", render_body(job))]
    if job.subject != "offers":
        files.append(("csv", "text/csv; charset=utf-8", to_csv_rows(job)))
    for extension, content_type, content in files:
        _put(bucket, export_key(tenant_slug, prefix, job, extension), job, content, content_type)


def _put(bucket: str, key_: str, job: OutputJob, content: bytes, content_type: str) -> None:
    """Write a file unless a newer file exists.

    A slow attempt must not replace a newer file.

    Raises:
        ServiceUnavailableError: another attempt wrote the file at the same time.
    """
    existing = _head_object(bucket, key_)
    if existing is not None and _is_newer(existing, job):
        return
    condition: dict[str, Any] = {"IfNoneMatch": "*"} if existing is None else {"IfMatch": existing["ETag"]}
    try:
        with aws.translate_errors():
            aws.client("s3").put_object(
                Bucket=bucket,
                Key=key_,
                Body=content,
                ContentType=content_type,
                Metadata={_JOB: str(job.id), _REVISION: str(job.revision), _CREATED_AT: job.created_at},
                **condition,
            )
    except RejectedRequestError as error:
        if _status(error) not in {404, 409, 412}:
            raise
        raise ServiceUnavailableError("The export changed while it was written") from None


def _head_object(bucket: str, key_: str) -> Mapping[str, Any] | None:
    """Return S3's response to HeadObject, or None if the object does not exist.

    Without permission to list, S3 returns 403 for a missing object.
    """
    try:
        with aws.translate_errors():
            response: Mapping[str, Any] = aws.client("s3").head_object(Bucket=bucket, Key=key_)
            return response
    except RejectedRequestError as error:
        if _status(error) in {403, 404}:
            return None
        raise


def _is_newer(existing: Mapping[str, Any], job: OutputJob) -> bool:
    """Return True if a file is newer than `job`.

    Only revisions of the same job can be compared. If an earlier destination with the same prefix wrote the file, it
    comes from another job, so the times are compared instead.
    """
    metadata: Mapping[str, str] = existing.get("Metadata", {})
    if metadata.get(_JOB) != str(job.id):
        return metadata.get(_CREATED_AT, "") > job.created_at
    return int(metadata[_REVISION]) > job.revision


def _status(error: RejectedRequestError) -> int:
    cause = error.__cause__
    return cause.response["ResponseMetadata"]["HTTPStatusCode"] if isinstance(cause, ClientError) else 0
