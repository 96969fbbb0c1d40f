"""The files that were in a mail or an archive, each stored on its own."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from counterfoil.delivery.attempt import TenantAttempt
from counterfoil.documents import files
from counterfoil.documents.files import File
from counterfoil.documents.filetype import FileKind
from counterfoil.documents.mail.attachments import Found, Skipped

PREFIX = "attachments/"
"""Where they are, in the bucket of what they came in: `attachments/{tenant}/{SHA-256 of the content}`."""
MAX_NAMED = 3
"""Skipped files that a sentence names; the source lists all."""
_TYPES = {FileKind.PDF: "application/pdf", FileKind.XML: "application/xml", FileKind.ZIP: "application/zip"}


@dataclass(frozen=True)
class Stored:
    """A file in S3 that is to be a document."""

    name: str
    file: File
    size: int
    sha256: bytes


@dataclass(frozen=True)
class Parts:
    """What a mail or an archive was found to hold."""

    documents: tuple[Stored, ...]
    skipped: tuple[Skipped, ...]

    @property
    def not_taken(self) -> str:
        """Which files were left, and why, for people; empty where there are none."""
        return not_taken(self.skipped)


def store(attempt: TenantAttempt, bucket: str, found: Iterable[Found]) -> Parts:
    """Store each attachment, one in memory at a time.

    A key is its content's, and every version of the object holds the same bytes: a try that is repeated, or another
    mail with the same file, stores nothing else. No document names a version, for that reason.

    Raises:
        InvalidDocumentError: there are more files than are read.
        StaleClaimError, CancelledError: the try has lost its claim or its time.
        ServiceUnavailableError, RejectedRequestError: S3 did not take a file.
    """
    documents: dict[bytes, Stored] = {}
    skipped: list[Skipped] = []
    for part in found:
        if isinstance(part, Skipped):
            skipped.append(part)
            continue
        digest = hashlib.sha256(part.content)
        if digest.digest() in documents:
            skipped.append(Skipped(part.name, len(part.content), "The same file is in it twice."))
            continue
        attempt.deadline.check()
        key = f"{PREFIX}{attempt.tenant_id}/{digest.hexdigest()}"
        files.write(bucket, key, part.content, _TYPES.get(part.kind, "application/octet-stream"))
        documents[digest.digest()] = Stored(part.name, File(bucket, key, None), len(part.content), digest.digest())
    return Parts(tuple(documents.values()), tuple(skipped))


def not_taken(skipped: tuple[Skipped, ...]) -> str:
    """Which files were left, and why, in a sentence each for the first ones; empty where there are none."""
    named = [f"'{part.name}': {part.reason}" for part in skipped[:MAX_NAMED]]
    more = len(skipped) - len(named)
    return f"Not taken: {' '.join(named)}{f' And {more} more.' if more else ''}" if skipped else ""
