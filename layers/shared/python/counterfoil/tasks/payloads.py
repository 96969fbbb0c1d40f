"""Task payloads: canonical form, size limits, and storage of large ones in S3.

SQS limits both a message and a batch of ten messages to 1 MiB. A payload of more than INLINE_BYTES is stored in S3, and
the message contains its key (claim check). The object is retained as long as its task, because a failed task can be
retried. The watchdog deletes objects without a task, which the table `payload_deletion` lists.
"""

import hashlib
import json
from collections.abc import Sequence
from contextlib import closing
from decimal import Decimal
from uuid import UUID, uuid4

from pydantic import JsonValue
from pydantic_core import from_json

from counterfoil import aws
from counterfoil.errors import InvalidMessageError, RejectedRequestError

MAX_PAYLOAD_BYTES = 256 * 1024
"""Maximum size of a payload or result as canonical JSON."""
INLINE_BYTES = 96 * 1024
"""Maximum size of a payload inside a message. Ten messages with overhead fit into a batch of 1 MiB."""
PREFIX = "tasks/"
"""Key prefix of payloads in the uploads bucket."""

Payload = dict[str, JsonValue]


class TooLargeError(RejectedRequestError):
    """A payload or result exceeds the size limit."""

    code = "payload_too_large"


def to_canonical_json(value: JsonValue, noun: str = "payload") -> bytes:
    """Return a value as canonical JSON in UTF-8, with sorted keys and no whitespace.

    `noun` is the word for the value in error messages.

    Raises:
        RejectedRequestError: PostgreSQL's jsonb cannot store the value.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        content = text.encode()
    except (ValueError, TypeError):  # an unpaired surrogate, or NaN or infinity
        raise RejectedRequestError(f"The {noun} contains a value that is not valid JSON.") from None
    if b"\\u0000" in content.replace(b"\\\\", b""):
        raise RejectedRequestError(f"The {noun} contains U+0000, which PostgreSQL cannot store. Remove it.")
    return content


def digest(task_type: str, payload: JsonValue, max_retry: int | None) -> bytes:
    """Return the SHA-256 hash of a request's canonical JSON.

    Equal requests have equal hashes.
    """
    return hashlib.sha256(
        to_canonical_json({"task_type": task_type, "payload": payload, "max_retry": max_retry})
    ).digest()


def validate_size(value: JsonValue, noun: str = "payload") -> bytes:
    """Check the size of a payload or result, and return it as canonical JSON.

    Raises:
        TooLargeError: the value has more than MAX_PAYLOAD_BYTES.
        RejectedRequestError: the value cannot be stored.
    """
    content = to_canonical_json(value, noun)
    size = len(content) + _expanded_chars(value)
    if size > MAX_PAYLOAD_BYTES:
        raise TooLargeError(
            f"The {noun} has {size} bytes of JSON; the maximum is {MAX_PAYLOAD_BYTES} (256 KiB). "
            f"Store large content elsewhere, and refer to it in the {noun}."
        )
    return content


def fits_inline(payload: Payload) -> bool:
    """Return True if a payload fits into a message.

    The size is measured with all non-ASCII characters escaped.
    """
    return len(json.dumps(payload)) + _expanded_chars(payload) <= INLINE_BYTES


def _expanded_chars(value: JsonValue) -> int:
    """Return the number of characters that PostgreSQL's JSON adds to Python's.

    For example, PostgreSQL writes 1e300 with 301 digits.
    """
    added = 0
    values: list[JsonValue] = [value]
    while values:
        item = values.pop()
        if isinstance(item, dict):
            values.extend(item.values())
        elif isinstance(item, list):
            values.extend(item)
        elif isinstance(item, float) and "e" in (text := repr(item)):
            added += len(f"{Decimal(text):f}") - len(text)
    return added


def payload_key(tenant_id: UUID, job_id: UUID) -> str:
    """Return the S3 key of a task's payload."""
    return f"{PREFIX}{tenant_id}/{job_id}.json"


def new_payload_key(tenant_id: UUID, job_id: UUID) -> str:
    """Return a new S3 key for a replacement payload."""
    return f"{PREFIX}{tenant_id}/{job_id}-{uuid4()}.json"


def write(bucket: str, key: str, content: bytes) -> None:
    """Store a payload.

    Raises:
        ServiceUnavailableError, RejectedRequestError: S3 did not store the object.
    """
    with aws.translate_errors():
        aws.client("s3").put_object(Bucket=bucket, Key=key, Body=content, ContentType="application/json")


def read(bucket: str, key: str) -> Payload:
    """Return a stored payload.

    Raises:
        InvalidMessageError: the object is not a payload.
        ServiceUnavailableError, RejectedRequestError: S3 did not return the object.
    """
    with aws.translate_errors(), closing(aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"]) as body:
        content = body.read(MAX_PAYLOAD_BYTES + 1)
    try:
        payload = from_json(content)
    except ValueError:
        payload = None
    if not isinstance(payload, dict) or len(content) > MAX_PAYLOAD_BYTES:
        raise InvalidMessageError("The object at the S3 key in the message is not a task payload")
    return payload


def remove(bucket: str, keys: Sequence[str]) -> dict[str, str]:
    """Delete up to 1000 payloads.

    Returns S3's error codes by key. Missing objects count as deleted.

    Raises:
        ServiceUnavailableError, RejectedRequestError: the call to S3 failed.
    """
    request = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
    with aws.translate_errors():
        response = aws.client("s3").delete_objects(Bucket=bucket, Delete=request)
    return {failure["Key"]: failure.get("Code", "unknown") for failure in response.get("Errors", ())}
