"""Leave to upload one file: a form for one key of S3, which takes so many bytes and ends soon."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from counterfoil import aws
from counterfoil.documents.extraction import MAX_FILE_BYTES
from counterfoil.documents.uploads import DECEPTIVE, PREFIX
from counterfoil.errors import RejectedRequestError

VALID_SECONDS = 15 * 60
LONGEST_NAME = 255
"""Characters of a file's name."""
LONGEST_KEY = 1024
"""Bytes of a key: S3's bound."""
_NO_NAME = re.compile(rf"[/\\{DECEPTIVE}]|^\.{{1,2}}$|\$\{{filename\}}")
"""Paths, control characters, and the variable that S3 replaces by the file name of the sender."""


@dataclass(frozen=True)
class Form:
    """What to post: `fields` first, the file last, as `multipart/form-data` (S3's POST Object)."""

    url: str
    fields: dict[str, str]
    key: str
    expires_at: datetime
    max_bytes: int


def form(bucket: str, tenant: str, file_name: str, now: datetime) -> Form:
    """A form that takes one file of 1 to MAX_FILE_BYTES bytes for the tenant of this slug, within VALID_SECONDS.

    Each has a key of its own, so that files of one name never replace each other; S3 checks size and key.

    Raises:
        RejectedRequestError: the name cannot be a file's.
        ServiceUnavailableError: there are no credentials to sign it with just now.
    """
    if not 1 <= len(file_name) <= LONGEST_NAME or _NO_NAME.search(file_name):
        raise RejectedRequestError(
            f"file_name must be a name of 1 to {LONGEST_NAME} characters, without slashes and control characters"
        )
    key = f"{PREFIX}{tenant}/{uuid4()}/{file_name}"
    if not 0 < _bytes(key) <= LONGEST_KEY:
        raise RejectedRequestError("file_name is too long for S3, or is no valid Unicode: shorten or rename it")
    with aws.errors_mapped():
        post = aws.client("s3").generate_presigned_post(
            Bucket=bucket,
            Key=key,
            Conditions=[["content-length-range", 1, MAX_FILE_BYTES]],
            ExpiresIn=VALID_SECONDS,
        )
    return Form(post["url"], post["fields"], key, now + timedelta(seconds=VALID_SECONDS), MAX_FILE_BYTES)


def _bytes(text: str) -> int:
    """The length of a text in UTF-8; 0 where half a surrogate pair has none."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0
