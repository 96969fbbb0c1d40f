"""Payloads in a versioned bucket: write, read and remove with a real S3 client."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from counterfoil import aws
from counterfoil.errors import InvalidMessageError, RejectedRequestError
from counterfoil.tasks import payloads
from tests.tasks.conftest import BUCKET

KEY = "tasks/01a2048b/7.json"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The uploads bucket, versioned as in production."""
    with mock_aws():
        s3 = boto3.client("s3", region_name="us-east-1")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        monkeypatch.setattr(aws, "client", {"s3": s3}.__getitem__)
        yield s3


def test_written_payload_is_readable(bucket: Any) -> None:
    payloads.write(BUCKET, KEY, payloads.to_canonical_json({"text": "größer"}))

    assert payloads.read(BUCKET, KEY) == {"text": "größer"}
    assert bucket.head_object(Bucket=BUCKET, Key=KEY)["ContentType"] == "application/json"


def test_removal_is_idempotent(bucket: Any) -> None:
    keys = [f"tasks/01a2048b/{number}.json" for number in range(1000)]
    for key in keys[:3]:
        payloads.write(BUCKET, key, b"{}")

    assert payloads.remove(BUCKET, keys) == payloads.remove(BUCKET, keys) == {}
    assert bucket.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0
    with pytest.raises(RejectedRequestError, match="NoSuchKey"):
        payloads.read(BUCKET, keys[0])


def test_missing_bucket_raises(bucket: Any) -> None:
    with pytest.raises(RejectedRequestError, match="NoSuchBucket"):
        payloads.remove("elsewhere", [KEY])


@pytest.mark.parametrize("content", [b"[]", b"{", b'{"a": "' + b"x" * payloads.MAX_PAYLOAD_BYTES + b'"}'])
def test_invalid_payload_object_raises(bucket: Any, content: bytes) -> None:
    payloads.write(BUCKET, KEY, content)

    with pytest.raises(InvalidMessageError):
        payloads.read(BUCKET, KEY)
