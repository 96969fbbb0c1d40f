"""Shared fixtures for task tests: a tenant and an in-memory S3."""

import io
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from botocore.exceptions import ClientError
from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier

from counterfoil import aws
from counterfoil.db import Connection

BUCKET = "counterfoil-uploads"


class FakeS3:
    """In-memory S3."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.refused: set[str] = set()
        """Keys whose deletion fails."""

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, ContentType: str) -> dict[str, Any]:  # noqa: N803
        assert (Bucket, ContentType) == (BUCKET, "application/json")
        self.objects[Key] = Body
        return {}

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        assert Bucket == BUCKET
        if Key not in self.objects:
            missing: Any = {"Error": {"Code": "NoSuchKey"}, "ResponseMetadata": {"HTTPStatusCode": 404}}
            raise ClientError(missing, "GetObject")
        return {"Body": io.BytesIO(self.objects[Key])}

    def list_object_versions(self, **_: object) -> dict[str, Any]:
        return {"IsTruncated": False}

    def delete_objects(self, *, Bucket: str, Delete: dict[str, Any]) -> dict[str, Any]:  # noqa: N803
        assert Bucket == BUCKET
        keys = [item["Key"] for item in Delete["Objects"]]
        assert 1 <= len(keys) <= 1000
        for key in keys:
            if key not in self.refused:
                self.objects.pop(key, None)
        return {"Errors": [{"Key": key, "Code": "InternalError"} for key in keys if key in self.refused]}


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> FakeS3:
    fake = FakeS3()
    monkeypatch.setattr(aws, "client", lambda service: {"s3": fake}[service])
    return fake


@pytest.fixture
def tenant(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


def rows(admin: Connection, table: str) -> list[dict[str, Any]]:
    """Return all rows of a table as Python values."""
    statement = SQL("SELECT * FROM {} AS t ORDER BY t").format(Identifier(table))
    return admin.cursor(row_factory=dict_row).execute(statement).fetchall()
