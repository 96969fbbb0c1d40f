"""The files behind documents: read from S3, within bounds, and written there."""

import hashlib
import io
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from counterfoil import aws
from counterfoil.documents.extraction import check_size

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
