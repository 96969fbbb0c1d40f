"""Task messages: outbox messages are readable, and invalid messages are rejected."""

import json
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.errors import InvalidMessageError, UnsupportedSchemaError
from counterfoil.tasks import store
from counterfoil.tasks.store import read_task_message
from counterfoil.tasks.types import TYPES
from tests.factories import NOW

MESSAGE: dict[str, Any] = {
    "schema_version": 1,
    "job_id": "0b9a2b0e-6c5e-4f43-9d9a-0f6f9f3c1a11",
    "task_type": "chat_completion",
    "payload": {"session_id": "sess_123", "message": "Hello"},
    "metadata": {
        "created_at": "2026-02-11T10:00:00Z",
        "retry_count": 0,
        "max_retry": 5,
        "last_error": None,
        "last_retry_at": None,
        "idempotency_key": "idem_abc123",
    },
    "revision": 2,
    "send_number": 3,
}


def test_message_identifies_its_task() -> None:
    (message,) = read_task_message(json.dumps(MESSAGE)).messages

    assert (message.work_id, message.revision, message.send_number) == (UUID(MESSAGE["job_id"]), 2, 3)


def test_outbox_message_is_readable(database: Database, admin: Connection, tenant: UUID) -> None:
    echo = TYPES.get("echo")
    assert echo is not None
    job_id = store.submit(database, tenant, store.build_request(echo, {"a": "\uffff"}), NOW, bucket=None).task.job_id
    admin.execute(
        """INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome,
                                     error_type, error)
           VALUES (%s, 'tasks', %s, 1, 1, %s, %s, 'retry', 'ServiceUnavailableError', 'It was unavailable.')""",
        [tenant, job_id, NOW, NOW],
    )
    ((body,),) = admin.execute("SELECT body FROM task_messages(%s)", [[job_id]]).fetchall()

    (message,) = read_task_message(json.dumps(body | {"revision": 1, "send_number": 0})).messages

    assert message.work_id == job_id
    assert set(body["metadata"]) == set(MESSAGE["metadata"])


@pytest.mark.parametrize(
    "metadata",
    [
        {"created_at": "2126-02-11T10:00:00Z", "last_retry_at": "1926-02-11T10:00:00Z"},
        {"retry_count": 99, "max_retry": 1},
    ],
)
def test_metadata_does_not_affect_the_message(metadata: dict[str, Any]) -> None:
    wrong = MESSAGE | {"metadata": MESSAGE["metadata"] | metadata}

    assert read_task_message(json.dumps(wrong)) == read_task_message(json.dumps(MESSAGE))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "a JSON array"),
        ({"job_id": "7"}, "invalid at job_id"),
        ({"revision": 0}, "invalid at revision"),
        ({"send_number": 2**31}, "invalid at send_number"),
        ({"payload": "text"}, "invalid at payload"),
        ({"metadata": {}}, "invalid at metadata.created_at"),
        ({"hunter2": 1}, "invalid at a field"),
    ],
)
def test_invalid_message_is_rejected(body: Any, reason: str) -> None:
    text = body if isinstance(body, str) else json.dumps(MESSAGE | body)

    with pytest.raises(InvalidMessageError, match=reason) as error:
        read_task_message(text)
    assert "hunter2" not in str(error.value)


def test_newer_schema_version_raises() -> None:
    with pytest.raises(UnsupportedSchemaError):
        read_task_message(json.dumps({"schema_version": 2}))
