"""Files of documents in S3, read within bounds, and forms that permit one upload."""

import hashlib
import io
import re
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from counterfoil import aws
from counterfoil.documents.filetype import MAX_FILE_BYTES, check_size
from counterfoil.documents.uploads import DECEPTIVE, INBOX, PREFIX
from counterfoil.errors import RejectedRequestError

CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True)
class File:
    """Where a file is."""

    bucket: str
    key: str
    version: str | None


def _chunks(file: File) -> Generator[bytes]:
    version: dict[str, Any] = {"VersionId": file.version} if file.version else {}
    with aws.errors_mapped():
        answer = aws.client("s3").get_object(Bucket=file.bucket, Key=file.key, **version)
        check_size(answer["ContentLength"])
        with closing(answer["Body"]) as body:
            yield from body.iter_chunks(CHUNK_BYTES)


@dataclass(frozen=True)
class Fetched:
    """A file as it was fetched."""

    size: int
    sha256: bytes
    """32 bytes."""
    content: bytes | None
    """None where nobody asked to keep it."""


def fetch(file: File, *, keep: Callable[[bytes], bool]) -> Fetched:
    """Read a file in pieces; `keep` is shown the first one, and says whether the whole is wanted.

    Raises:
        InvalidDocumentError: it is empty or too large.
        ServiceUnavailableError, RejectedRequestError: S3 did not give it.
    """
    digest, size = hashlib.sha256(), 0
    kept: io.BytesIO | None = None
    for chunk in _chunks(file):
        if size == 0 and keep(chunk):
            kept = io.BytesIO()
        digest.update(chunk)
        size += len(chunk)
        if kept is not None:
            kept.write(chunk)
    return Fetched(size, digest.digest(), None if kept is None else kept.getvalue())


def head(file: File) -> bytes:
    """The first MiB of a file, or all of a smaller one. Raises as `fetch`."""
    with closing(_chunks(file)) as chunks:
        return next(chunks, b"")


def read(file: File) -> bytes:
    """A file's bytes. Raises as `fetch`."""
    content = io.BytesIO()  # gives its bytes away at the end, where a join would hold them twice
    for chunk in _chunks(file):
        content.write(chunk)
    return content.getvalue()


def write(bucket: str, key: str, content: bytes, content_type: str = "application/pdf") -> File:
    """Store a file. Where a bucket keeps versions, the same file twice is two of them, and either will do.

    Raises:
        ServiceUnavailableError, RejectedRequestError: S3 did not take it.
    """
    with aws.errors_mapped():
        answer = aws.client("s3").put_object(Bucket=bucket, Key=key, Body=content, ContentType=content_type)
    return File(bucket, key, answer.get("VersionId"))


VALID_SECONDS = 15 * 60
LONGEST_NAME = 255
"""Characters of a file's name."""
LONGEST_KEY = 1024
"""Bytes of a key: S3's bound."""
_NO_NAME = re.compile(rf"[/\\{DECEPTIVE}]|^\.{{1,2}}$|\$\{{filename\}}")
"""Paths, control characters, and the variable that S3 replaces by the file name of the sender."""


@dataclass(frozen=True)
class UploadForm:
    """Form to post as `multipart/form-data` with the file last (S3's POST Object)."""

    url: str
    fields: dict[str, str]
    key: str
    expires_at: datetime
    max_bytes: int


def upload_form(bucket: str, tenant: str | None, file_name: str, now: datetime) -> UploadForm:
    """Return a form for one file of 1 to MAX_FILE_BYTES bytes, valid for VALID_SECONDS.

    `tenant` is a slug; None for a mail. Each form has its own key, so that files of one name never replace each other.
    S3 checks size and key.

    Raises:
        RejectedRequestError: the name is not a file name.
        ServiceUnavailableError: no credentials are available for the signature.
    """
    if not 1 <= len(file_name) <= LONGEST_NAME or _NO_NAME.search(file_name):
        raise RejectedRequestError(
            f"file_name must be a name of 1 to {LONGEST_NAME} characters, without slashes and control characters"
        )
    key = f"{INBOX if tenant is None else f'{PREFIX}{tenant}/'}{uuid4()}/{file_name}"
    if not 0 < _bytes(key) <= LONGEST_KEY:
        raise RejectedRequestError("file_name is too long for S3, or is no valid Unicode: shorten or rename it")
    with aws.errors_mapped():
        post = aws.client("s3").generate_presigned_post(
            Bucket=bucket,
            Key=key,
            Conditions=[["content-length-range", 1, MAX_FILE_BYTES]],
            ExpiresIn=VALID_SECONDS,
        )
    return UploadForm(post["url"], post["fields"], key, now + timedelta(seconds=VALID_SECONDS), MAX_FILE_BYTES)


def _bytes(text: str) -> int:
    """The length of a text in UTF-8; 0 where half a surrogate pair has none."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0
