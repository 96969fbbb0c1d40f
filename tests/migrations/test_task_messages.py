"""Task messages have the expected content.

Payloads are readable only while their message is unsent.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.work import enqueue
from counterfoil.errors import RejectedStatementError
from counterfoil.kinds import WORK_KINDS
from tests.factories import NOW, make_task

Bodies = Callable[..., dict[UUID, Any]]


@pytest.fixture
def tenant(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def bodies(database: Database) -> Bodies:
    """`bodies(*ids)` returns message bodies by task, read with the delivery role."""

    def read_bodies(*ids: UUID) -> dict[UUID, Any]:
        with database.delivery() as connection:
            return dict(connection.execute(str(WORK_KINDS["tasks"].body_query).encode(), {"ids": list(ids)}).fetchall())

    return read_bodies


def enqueued_task(admin: Connection, tenant: UUID, **columns: Any) -> UUID:
    task = make_task(admin, tenant, **columns)
    enqueue(admin, WORK_KINDS["tasks"], [(task, tenant, 1, columns.get("send_number", 0))], NOW, NOW)
    return task


def test_message_contains_task_and_metadata(admin: Connection, tenant: UUID, bodies: Bodies):
    task = enqueued_task(admin, tenant, idempotency_key="idem_abc123")
    assert bodies(task)[task] == {
        "schema_version": 1,
        "job_id": str(task),
        "task_type": "echo",
        "payload": {"say": "hello"},
        "metadata": {
            "created_at": NOW.isoformat(),
            "retry_count": 0,
            "max_retry": 5,
            "last_error": None,
            "last_retry_at": None,
            "idempotency_key": "idem_abc123",
        },
    }


def test_retry_message_has_the_revisions_last_error(admin: Connection, tenant: UUID, bodies: Bodies):
    task = enqueued_task(admin, tenant, attempts=2)
    for revision, minute, error in ((1, 1, "first"), (1, 2, "second"), (0, 3, "of an older revision")):
        ended_at = NOW + timedelta(minutes=minute)
        admin.execute(
            """
            INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome,
                                      error_type, error)
            VALUES (%(tenant)s, 'tasks', %(task)s, %(revision)s, %(number)s, %(at)s, %(at)s, 'retry', 'Away', %(error)s)
            """,
            {"tenant": tenant, "task": task, "revision": revision, "number": minute, "at": ended_at, "error": error},
        )
    metadata = bodies(task)[task]["metadata"]
    second_minute = (NOW + timedelta(minutes=2)).isoformat()
    assert metadata["retry_count"] == 2
    assert metadata["last_retry_at"] == second_minute
    assert metadata["last_error"] == {
        "type": "Away",
        "message": "second",
        "timestamp": second_minute,
        "context": {"attempt": 2},
    }


def test_large_payload_is_sent_as_claim_check(admin: Connection, tenant: UUID, bodies: Bodies):
    task = enqueued_task(admin, tenant, payload=None, payload_s3_key="tasks/1.json")
    assert bodies(task)[task]["payload"] == {"$claim_check": {"key": "tasks/1.json"}}


def test_null_payload_is_sent_as_null(admin: Connection, tenant: UUID, bodies: Bodies):
    task = enqueued_task(admin, tenant, payload="null")
    assert bodies(task)[task]["payload"] is None


def test_body_requires_an_unsent_message(admin: Connection, tenant: UUID, bodies: Bodies):
    without_message, with_sent_message = make_task(admin, tenant), enqueued_task(admin, tenant)
    admin.execute("UPDATE outbox SET sent_at = %s", [NOW])
    assert bodies(without_message, with_sent_message, uuid4()) == {without_message: None, with_sent_message: None}


@pytest.mark.parametrize(
    "column", ["payload", "payload_s3_key", "payload_hash", "idempotency_key", "user_id", "result"]
)
def test_delivery_cannot_read_task_content(column: str, database: Database):
    with pytest.raises(RejectedStatementError, match="Insufficient"), database.delivery() as connection:
        connection.execute(f"SELECT {column} FROM task".encode())


def test_worker_cannot_call_task_messages(database_url: str):
    with (
        psycopg.connect(database_url) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        connection.execute("SELECT * FROM task_messages('{}')")


@pytest.mark.parametrize(
    "columns",
    [
        {"payload_s3_key": "and a payload"},
        {"payload": None},
        {"max_retry": 21},
        {"max_retry": -1},
        {"payload_hash": b"short"},
        {"status": "canceled"},
    ],
)
def test_invalid_task_is_rejected(columns: dict[str, Any], admin: Connection, tenant: UUID):
    with pytest.raises(psycopg.errors.CheckViolation):
        make_task(admin, tenant, **columns)


def test_idempotency_key_is_required_and_unique_per_tenant(
    admin: Connection, tenant: UUID, make_tenant: Callable[..., UUID]
):
    for owner in (tenant, make_tenant("others")):
        make_task(admin, owner, idempotency_key="once")
        with pytest.raises(psycopg.errors.NotNullViolation):
            make_task(admin, owner, idempotency_key=None)
        with pytest.raises(psycopg.errors.UniqueViolation):
            make_task(admin, owner, idempotency_key="once")
