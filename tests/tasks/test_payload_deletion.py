"""The removal of a large payload is scheduled before its upload.

It is canceled when the task is accepted.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.errors import ServiceUnavailableError
from counterfoil.tasks import payloads, store
from counterfoil.tasks.payloads import INLINE_BYTES
from counterfoil.tasks.store import SubmittedTask
from counterfoil.tasks.types import TYPES
from tests.factories import NOW
from tests.tasks.conftest import BUCKET, FakeS3, rows

LARGE = {"a": "x" * INLINE_BYTES}
Submit = Callable[..., SubmittedTask]


@pytest.fixture
def submit(database: Database, tenant: UUID, s3: FakeS3) -> Submit:
    """`submit(payload, **options)` submits an echo task.

    `build_request` describes the options.
    """
    assert s3.objects == {}

    def submit(payload: dict[str, Any], **options: Any) -> SubmittedTask:
        echo = TYPES.get("echo")
        assert echo is not None
        return store.submit(database, tenant, store.build_request(echo, payload, **options), NOW, bucket=BUCKET)

    return submit


def scheduled_removals(admin: Connection) -> dict[str, bool]:
    """Return the keys of objects to delete, and whether each deletion is due."""
    return dict(admin.execute("SELECT key, due_at <= now() FROM payload_deletion").fetchall())


def test_accepted_task_keeps_its_payload(submit: Submit, admin: Connection, s3: FakeS3) -> None:
    submit(LARGE)

    assert len(s3.objects) == 1
    assert scheduled_removals(admin) == {}


def test_payload_of_failed_submission_is_scheduled_for_removal(
    submit: Submit, admin: Connection, s3: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise ServiceUnavailableError("The process dies here.")

    monkeypatch.setattr(store, "enqueue", crash)
    with pytest.raises(ServiceUnavailableError):
        submit(LARGE)

    assert rows(admin, "task") == []
    assert scheduled_removals(admin) == dict.fromkeys(s3.objects, False)
    ((hours,),) = admin.execute("SELECT extract(epoch FROM due_at - now()) / 3600 FROM payload_deletion").fetchall()
    assert 23 < hours <= 24


def test_removal_is_scheduled_before_the_upload(
    submit: Submit, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected: list[dict[str, bool]] = []
    monkeypatch.setattr(payloads, "write", lambda *_: collected.append(scheduled_removals(admin)))
    submission = submit(LARGE)

    assert [list(noted) for noted in collected] == [[row["payload_s3_key"] for row in rows(admin, "task")]]
    assert submission.is_new


def test_concurrent_requests_schedule_removal_of_extra_payloads(submit: Submit, admin: Connection, s3: FakeS3) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: submit(LARGE, idempotency_key="k"), range(8)))

    (task,) = rows(admin, "task")
    assert set(scheduled_removals(admin)) == set(s3.objects) - {task["payload_s3_key"]}


def test_submission_shortly_before_payload_removal_is_rejected(
    submit: Submit, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work_slowly(*_: object) -> None:
        admin.execute("UPDATE payload_deletion SET due_at = now() + interval '5 minutes'")

    monkeypatch.setattr(payloads, "write", work_slowly)
    with pytest.raises(ServiceUnavailableError, match="expired"):
        submit(LARGE)

    assert rows(admin, "task") == rows(admin, "outbox") == []


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM task", "DELETE FROM tenant", "UPDATE task SET payload = '{}', payload_s3_key = NULL"],
    ids=["task", "tenant", "payload"],
)
def test_deleting_task_tenant_or_payload_schedules_removal(
    submit: Submit, admin: Connection, s3: FakeS3, statement: str
) -> None:
    submit(LARGE)
    submit({})
    admin.execute(statement.encode())

    assert scheduled_removals(admin) == dict.fromkeys(s3.objects, True)


def test_rolled_back_deletion_keeps_the_payload(submit: Submit, admin: Connection) -> None:
    submit(LARGE)
    with admin.transaction(force_rollback=True):
        admin.execute("DELETE FROM task")

    assert scheduled_removals(admin) == {}
