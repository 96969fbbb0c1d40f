"""Payloads of tasks: their canonical form, how large they may be, and where a large one lies until its task is run.

A message of SQS holds 1 MiB, and so does a whole batch of ten of them. A payload that would take more than its tenth is
stored in S3, and the message says where: a claim check. It is there for as long as its task is, for a task that failed
can be sent again; table `payload_removal` says which are there for no task, and the watchdog removes them.
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
"""Of the canonical JSON of a payload, and of a result."""
INLINE_BYTES = 96 * 1024
"""Of a payload inside a message: ten of them, with all that is around them, are within the 1 MiB of a batch."""
PREFIX = "tasks/"
"""Where claim checks lead to, in the bucket of uploads."""

Payload = dict[str, JsonValue]


class TooLargeError(RejectedRequestError):
    """A payload is larger than is taken."""

    code = "payload_too_large"


def canonical(value: JsonValue, what: str = "payload") -> bytes:
    """The one JSON text, in UTF-8, of whatever is equal: names in order, no blanks. `what` it is, for people.

    Raises:
        RejectedRequestError: PostgreSQL's jsonb cannot hold it.
    """
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        content = text.encode()
    except (ValueError, TypeError):  # half a surrogate pair, or a number that is none
        raise RejectedRequestError(f"The {what} has something that is no valid JSON.") from None
    if b"\\u0000" in content.replace(b"\\\\", b""):
        raise RejectedRequestError(f"The {what} has the character U+0000, which PostgreSQL cannot hold: leave it out.")
    return content


def digest(task_type: str, payload: JsonValue, max_retry: int | None) -> bytes:
    """32 bytes that are the same for the same request: SHA-256 of the canonical JSON of all that was asked for."""
    return hashlib.sha256(canonical({"task_type": task_type, "payload": payload, "max_retry": max_retry})).digest()


def checked(value: JsonValue, what: str = "payload") -> bytes:
    """The canonical JSON of a payload that may be taken, or of a result that may be kept.

    Raises:
        TooLargeError: it has more than MAX_PAYLOAD_BYTES.
        RejectedRequestError: it cannot be stored.
    """
    content = canonical(value, what)
    size = len(content) + _written_out(value)
    if size > MAX_PAYLOAD_BYTES:
        raise TooLargeError(
            f"The {what} has {size} bytes of JSON, and {MAX_PAYLOAD_BYTES} (256 KiB) are taken: "
            f"put what is larger somewhere else, and say in the {what} where."
        )
    return content


def fits(payload: Payload) -> bool:
    """Whether a message carries the payload itself: not if it would be too long with all escaped that is no ASCII."""
    return len(json.dumps(payload)) + _written_out(payload) <= INLINE_BYTES


def _written_out(value: JsonValue) -> int:
    """How many characters PostgreSQL adds to a JSON value: it writes 1e300 with all its 301 digits."""
    added = 0
    waiting: list[JsonValue] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, float) and "e" in (text := repr(one)):
            added += len(f"{Decimal(text):f}") - len(text)
    return added


def key_of(tenant_id: UUID, job_id: UUID) -> str:
    """Where the payload of a task lies, if it is not in its row."""
    return f"{PREFIX}{tenant_id}/{job_id}.json"


def another_key_of(tenant_id: UUID, job_id: UUID) -> str:
    """Where a payload lies that comes after the one that the task was handed in with: never where one is already."""
    return f"{PREFIX}{tenant_id}/{job_id}-{uuid4()}.json"


def write(bucket: str, key: str, content: bytes) -> None:
    """Store a payload.

    Raises:
        ServiceUnavailableError, RejectedRequestError: S3 did not take it.
    """
    with aws.errors_mapped():
        aws.client("s3").put_object(Bucket=bucket, Key=key, Body=content, ContentType="application/json")


def read(bucket: str, key: str) -> Payload:
    """A payload that was stored.

    Raises:
        InvalidMessageError: what is there is no payload.
        ServiceUnavailableError, RejectedRequestError: S3 did not give it.
    """
    with aws.errors_mapped(), closing(aws.client("s3").get_object(Bucket=bucket, Key=key)["Body"]) as body:
        content = body.read(MAX_PAYLOAD_BYTES + 1)
    try:
        found = from_json(content)
    except ValueError:
        found = None
    if not isinstance(found, dict) or len(content) > MAX_PAYLOAD_BYTES:
        raise InvalidMessageError("The object that the claim check leads to is no payload of a task")
    return found


def remove(bucket: str, keys: Sequence[str]) -> dict[str, str]:
    """Delete up to 1000 payloads; one that is gone already counts as deleted. Returns S3's codes for those it did not.

    Raises:
        ServiceUnavailableError, RejectedRequestError: S3 did not take the call.
    """
    wanted = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
    with aws.errors_mapped():
        answer = aws.client("s3").delete_objects(Bucket=bucket, Delete=wanted)
    return {failure["Key"]: failure.get("Code", "unknown") for failure in answer.get("Errors", ())}
