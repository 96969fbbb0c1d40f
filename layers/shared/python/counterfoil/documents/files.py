"""Document files in S3: bounded reads, upload forms and acquisition jobs.

S3 events create the acquisition jobs. An upload's key names its tenant. A mail's key does not, so the mail's job
belongs to no tenant. It reads the recipients and creates a job for each of their tenants.
"""

import hashlib
import io
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import unquote_plus
from uuid import UUID, uuid4, uuid5

from pydantic_core import from_json

from counterfoil import aws
from counterfoil.db import Connection
from counterfoil.delivery.work import JOB_NAMESPACE, Message, OutboxMessage, ParsedMessage, enqueue, read_message
from counterfoil.documents.filetype import MAX_FILE_BYTES, check_size
from counterfoil.documents.kinds import ACQUISITION
from counterfoil.errors import InvalidMessageError, RejectedRequestError
from counterfoil.validation import DECEPTIVE_CHARS

PREFIX = "uploads/"
"""Keys are uploads/{tenant}/...; the last part is the file's name."""
INBOX = "inbox/"
"""Key prefix of received mail. The rest of the key is arbitrary."""
UNVERSIONED = "null"
"""Version id of objects that were stored while the bucket had no versioning."""
_DECEPTIVE = re.compile(f"[{DECEPTIVE_CHARS}]")


def file_name(key: str) -> str:
    """Return the last part of an object's key as a file name that is safe to show.

    Control characters, line separators and characters that change the writing direction become U+FFFD. After U+202E,
    for example, `fdp.exe` would be displayed as `exe.pdf`.
    """
    return _DECEPTIVE.sub("\N{REPLACEMENT CHARACTER}", key.rsplit("/", 1)[-1])


@dataclass(frozen=True)
class Upload:
    """One object in S3, from an event or a listing."""

    bucket: str
    key: str
    sequencer: str | None
    """None if the object was found in a listing, without an event."""
    size: int
    version: str | None = None

    @property
    def job_id(self) -> UUID:
        """UUIDv5 of bucket, key and version.

        An object's event and its entry in a listing result in the same job. If the object has no version, the event's
        sequencer is used instead.
        """
        unique = self.sequencer if self.version in {None, UNVERSIONED} else self.version
        return uuid5(JOB_NAMESPACE, f"acquisition/{self.bucket}/{self.key}/{unique}")

    @property
    def tenant(self) -> str:
        """Tenant slug in the key; empty if absent."""
        path = self.key.removeprefix(PREFIX)
        return path.split("/", 1)[0] if path != self.key and "/" in path else ""


def read_event(body: str) -> ParsedMessage:
    """Read a message from the acquisition queue, sent by S3 or by the outbox.

    Raises:
        InvalidMessageError, UnsupportedSchemaError: see `read_message`.
    """
    try:
        event = from_json(body)
    except (ValueError, TypeError):
        event = None
    if not isinstance(event, dict) or not ("Records" in event or event.get("Event") == "s3:TestEvent"):
        internal = read_message(body)
        work_ids = [message.work_id for message in internal.messages]
        return ParsedMessage(internal.messages, lambda connection, _now: assign_tenants(connection, work_ids))
    try:
        records = event.get("Records", [])
        if not isinstance(records, list):
            raise TypeError("Records must be a list")
        uploads = [_upload(record) for record in records if _is_created(record)]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InvalidMessageError("The S3 event has no readable bucket, key, sequencer or size") from None
    messages = [Message(work_id=upload.job_id, revision=1, send_number=0) for upload in uploads]
    return ParsedMessage(messages, lambda connection, now: register_uploads(connection, uploads, now))


def _is_created(record: dict[str, Any]) -> bool:
    name = record["eventName"]
    if not isinstance(name, str):
        raise TypeError("eventName must be a string")
    return name.startswith("ObjectCreated:")


def _upload(record: dict[str, Any]) -> Upload:
    entity = record["s3"]
    s3_object = entity["object"]
    # S3 encodes keys like HTML forms: a plus for a space, percent-encoded UTF-8.
    key = unquote_plus(s3_object["key"], errors="strict")
    version = s3_object.get("versionId")
    size = int(s3_object.get("size", 0))
    strings = [entity["bucket"]["name"], key, s3_object["sequencer"], *([] if version is None else [version])]
    if not all(isinstance(string, str) and "\x00" not in string for string in strings) or not 0 <= size < 2**63:
        raise ValueError("Invalid S3 event record")
    return Upload(entity["bucket"]["name"], key, s3_object["sequencer"], size, version)


_REGISTER = """
WITH late AS MATERIALIZED (
    SELECT erase_late_uploads(%(buckets)s, %(keys)s, %(tenants)s, %(now)s) AS key
)
INSERT INTO acquisition_job (id, tenant_id, bucket, key, version, sequencer, size, created_at)
SELECT v.id, t.id, v.bucket, v.key, v.version, v.sequencer, v.size, %(now)s
FROM unnest(%(ids)s::uuid[], %(buckets)s::text[], %(keys)s::text[], %(versions)s::text[], %(sequencers)s::text[],
            %(sizes)s::bigint[], %(tenants)s::text[]) AS v (id, bucket, key, version, sequencer, size, tenant)
LEFT JOIN tenant t ON t.slug = v.tenant AND t.disabled_at IS NULL
WHERE v.key NOT IN (SELECT key FROM late)
ORDER BY v.id
ON CONFLICT DO NOTHING
"""

_ADD_SEQUENCERS = """
UPDATE acquisition_job SET sequencer = v.sequencer
FROM unnest(%(ids)s::uuid[], %(sequencers)s::text[]) AS v (id, sequencer)
WHERE acquisition_job.id = v.id AND v.sequencer IS NOT NULL AND acquisition_job.id IN (
    SELECT id FROM acquisition_job WHERE id = ANY(%(ids)s) AND sequencer IS NULL ORDER BY id FOR UPDATE
)
"""


_FIND_TENANTS = """
WITH late AS (
    UPDATE acquisition_job j SET tenant_id = t.id FROM tenant t
    WHERE j.id = ANY(%(ids)s) AND j.tenant_id IS NULL AND t.slug = split_part(j.key, '/', 2) AND j.key LIKE %(pattern)s
      AND t.disabled_at IS NULL
    RETURNING j.id, j.tenant_id
)
UPDATE dead_letter d SET tenant_id = late.tenant_id, version = version + 1
FROM late JOIN unnest(%(ids)s, %(letters)s::uuid[]) AS l (id, letter) ON l.id = late.id
WHERE d.job_id = l.letter AND d.tenant_id IS NULL
"""


def assign_tenants(connection: Connection, job_ids: Sequence[UUID]) -> None:
    """Set the tenant of jobs that were registered before the tenant existed.

    The jobs' keys name the tenant. It is also set in their dead letters. Otherwise, the next failure of such a job
    could not reopen its dead letter.
    """
    dead_letters = [ACQUISITION.job_id(id_) for id_ in job_ids]
    connection.execute(_FIND_TENANTS, {"ids": list(job_ids), "letters": dead_letters, "pattern": f"{PREFIX}%/%"})


def register_uploads(connection: Connection, uploads: Sequence[Upload], now: datetime) -> None:
    """Insert jobs for `uploads`, as the delivery role.

    An existing job gets its tenant if the tenant was created later, and its sequencer if the event arrives after a
    listing. Nothing else changes in existing jobs. An upload for an erased tenant gets no job, and its object is
    erased.
    """
    values = {
        "ids": [upload.job_id for upload in uploads],
        "buckets": [upload.bucket for upload in uploads],
        "keys": [upload.key for upload in uploads],
        "versions": [upload.version for upload in uploads],
        "sequencers": [upload.sequencer for upload in uploads],
        "sizes": [upload.size for upload in uploads],
        "tenants": [upload.tenant for upload in uploads],
        "now": now,
    }
    inserted = connection.execute(_REGISTER, values).rowcount
    if inserted < len(uploads):
        connection.execute(_ADD_SEQUENCERS, values)
    assign_tenants(connection, [upload.job_id for upload in uploads])


_JOBS_OF_TENANTS = """
INSERT INTO acquisition_job (id, tenant_id, bucket, key, version, sequencer, size, created_at)
SELECT v.id, v.tenant_id, a.bucket, a.key, a.version, a.sequencer, a.size, a.created_at
FROM unnest(%(ids)s::uuid[], %(tenants)s::uuid[]) AS v (id, tenant_id) JOIN acquisition_job a ON a.id = %(mail)s
ORDER BY v.id
ON CONFLICT DO NOTHING
RETURNING id, tenant_id, revision, send_number
"""


def tenant_job_id(mail_job: UUID, tenant_id: UUID) -> UUID:
    """Return the id of a tenant's job for an email.

    It is the UUIDv5 of the email's own job and the tenant.
    """
    return uuid5(JOB_NAMESPACE, f"acquisition/{mail_job}/{tenant_id}")


def find_tenants_by_address(connection: Connection, addresses: Sequence[str]) -> list[UUID]:
    """Return the ids of enabled tenants with one of these lowercase addresses.

    Runs as the delivery role.
    """
    rows = connection.execute(
        "SELECT DISTINCT t.id FROM tenant_address a JOIN tenant t ON t.id = a.tenant_id "
        "WHERE a.address = ANY(%s) AND t.disabled_at IS NULL ORDER BY t.id",
        [list(addresses)],
    ).fetchall()
    return [tenant_id for (tenant_id,) in rows]


def create_tenant_jobs(
    connection: Connection, mail_job: UUID, tenants: Sequence[UUID], now: datetime
) -> list[OutboxMessage]:
    """Create an email's job for each tenant and enqueue the job's message.

    Runs as the delivery role. Existing jobs stay unchanged.
    """
    ids = [tenant_job_id(mail_job, tenant_id) for tenant_id in tenants]
    rows = connection.execute(_JOBS_OF_TENANTS, {"ids": ids, "tenants": list(tenants), "mail": mail_job}).fetchall()
    return enqueue(connection, ACQUISITION, rows, now, now)


CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True)
class File:
    """Location of a file in S3."""

    bucket: str
    key: str
    version: str | None


def _chunks(file: File) -> Generator[bytes]:
    version: dict[str, Any] = {"VersionId": file.version} if file.version else {}
    with aws.translate_errors():
        response = aws.client("s3").get_object(Bucket=file.bucket, Key=file.key, **version)
        check_size(response["ContentLength"])
        with closing(response["Body"]) as body:
            yield from body.iter_chunks(CHUNK_BYTES)


@dataclass(frozen=True)
class FetchedFile:
    """A downloaded file."""

    size: int
    sha256: bytes
    """SHA-256 digest: 32 bytes."""
    content: bytes | None
    """None unless `needs_content` requested it."""


def fetch(file: File, *, needs_content: Callable[[bytes], bool]) -> FetchedFile:
    """Download a file in chunks.

    `needs_content` receives the first chunk, and returns whether to return the content.

    Raises:
        InvalidDocumentError: the file is empty or too large.
        ServiceUnavailableError, RejectedRequestError: S3 did not return the file.
    """
    digest, size = hashlib.sha256(), 0
    content: io.BytesIO | None = None
    for chunk in _chunks(file):
        if size == 0 and needs_content(chunk):
            content = io.BytesIO()
        digest.update(chunk)
        size += len(chunk)
        if content is not None:
            content.write(chunk)
    return FetchedFile(size, digest.digest(), None if content is None else content.getvalue())


def read_header(file: File) -> bytes:
    """Return the first MiB of a file, or all of a smaller one.

    Raises the same errors as `fetch`.
    """
    with closing(_chunks(file)) as chunks:
        return next(chunks, b"")


def read(file: File) -> bytes:
    """Return the content of a file. Raises the same errors as `fetch`."""
    content = io.BytesIO()  # its getvalue() does not copy, while joining chunks would
    for chunk in _chunks(file):
        content.write(chunk)
    return content.getvalue()


def write(bucket: str, key: str, content: bytes, content_type: str = "application/pdf") -> File:
    """Store a file.

    In a versioned bucket, storing the same file twice creates two versions; either is valid.

    Raises:
        ServiceUnavailableError, RejectedRequestError: S3 did not store the file.
    """
    with aws.translate_errors():
        response = aws.client("s3").put_object(Bucket=bucket, Key=key, Body=content, ContentType=content_type)
    return File(bucket, key, response.get("VersionId"))


VALID_SECONDS = 15 * 60
MAX_NAME_CHARS = 255
"""Maximum length of a file name, in characters."""
MAX_KEY_CHARS = 1024
"""Maximum length of a key in S3, in bytes of UTF-8."""
_INVALID_NAME = re.compile(rf"[/\\{DECEPTIVE_CHARS}]|^\.{{1,2}}$|\$\{{filename\}}")
"""Matches paths, control characters, and the variable that S3 replaces with the uploaded file's name."""


@dataclass(frozen=True)
class UploadForm:
    """Form to post as `multipart/form-data`: `fields` first, the file last."""

    url: str
    fields: dict[str, str]
    key: str
    expires_at: datetime
    max_bytes: int


def upload_form(bucket: str, tenant: str | None, file_name: str, now: datetime) -> UploadForm:
    """Return a form for uploading one file of 1 to MAX_FILE_BYTES bytes.

    The form is valid for VALID_SECONDS. `tenant` is a slug, or None for mail. Each form has its own key, so that files
    with the same name never replace each other. S3 enforces the size and the key.

    Raises:
        RejectedRequestError: the name is not a valid file name.
        ServiceUnavailableError: no credentials are available for the signature.
    """
    if not 1 <= len(file_name) <= MAX_NAME_CHARS or _INVALID_NAME.search(file_name):
        raise RejectedRequestError(
            f"file_name must be a name of 1 to {MAX_NAME_CHARS} characters, without slashes or control characters"
        )
    key = f"{INBOX if tenant is None else f'{PREFIX}{tenant}/'}{uuid4()}/{file_name}"
    if not 0 < _utf8_length(key) <= MAX_KEY_CHARS:
        raise RejectedRequestError("file_name is too long for S3, or is not valid Unicode. Use another name.")
    with aws.translate_errors():
        post = aws.client("s3").generate_presigned_post(
            Bucket=bucket,
            Key=key,
            Conditions=[["content-length-range", 1, MAX_FILE_BYTES]],
            ExpiresIn=VALID_SECONDS,
        )
    return UploadForm(post["url"], post["fields"], key, now + timedelta(seconds=VALID_SECONDS), MAX_FILE_BYTES)


def _utf8_length(text: str) -> int:
    """Return the length of a text in UTF-8; 0 if it contains an unpaired surrogate."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0
