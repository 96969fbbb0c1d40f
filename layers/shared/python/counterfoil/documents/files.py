"""The files behind documents: read from S3, within bounds, and written there."""

import hashlib
from collections.abc import Iterator
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


def _chunks(file: File) -> Iterator[bytes]:
    version: dict[str, Any] = {"VersionId": file.version} if file.version else {}
    with aws.errors_mapped():
        answer = aws.client("s3").get_object(Bucket=file.bucket, Key=file.key, **version)
        check_size(answer["ContentLength"])
        with closing(answer["Body"]) as body:
            yield from body.iter_chunks(CHUNK_BYTES)


def sha256(file: File) -> bytes:
    """The SHA-256 of a file, read in pieces: 32 bytes.

    Raises:
        InvalidDocumentError: it is empty or too large.
        ServiceUnavailableError, RejectedRequestError: S3 did not give it.
    """
    digest = hashlib.sha256()
    for chunk in _chunks(file):
        digest.update(chunk)
    return digest.digest()


def read(file: File) -> bytes:
    """A file's bytes. Raises as `sha256`."""
    return b"".join(_chunks(file))


def write(bucket: str, key: str, content: bytes) -> File:
    """Store a PDF. Where a bucket keeps versions, the same file twice is two of them, and either will do.

    Raises:
        ServiceUnavailableError, RejectedRequestError: S3 did not take it.
    """
    with aws.errors_mapped():
        answer = aws.client("s3").put_object(Bucket=bucket, Key=key, Body=content, ContentType="application/pdf")
    return File(bucket, key, answer.get("VersionId"))
