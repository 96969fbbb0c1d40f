"""The watchdog deletes payloads from S3 only after their tasks are deleted."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any
from uuid import UUID

import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.errors import InvalidSettingsError, ServiceUnavailableError
from counterfoil.tasks import store
from counterfoil.tasks.payloads import INLINE_BYTES
from counterfoil.tasks.types import TYPES
from functions.watchdog.retention import TASK_RETENTION, delete_payloads, purge
from tests.tasks.conftest import BUCKET, FakeS3, s3, tenant

__all__ = ["s3", "tenant"]

NOW = datetime.now(UTC)
"""The real current time, because PostgreSQL's clock determines ages."""
LONG_AGO = NOW - TASK_RETENTION - timedelta(days=1)

Run = Callable[..., int]


@pytest.fixture
def make_task(database: Database, admin: Connection, tenant: UUID, s3: FakeS3) -> Callable[..., str]:
    """`make_task(status, ...)` stores a task and returns its payload key.

    The payload is large.
    """

    def make(status: str | None, ended_at: datetime | None = None, failed_at: datetime | None = None) -> str:
        echo = TYPES.get("echo")
        assert echo is not None
        submission = store.submit(
            database, tenant, store.build_request(echo, {"a": "x" * INLINE_BYTES}), NOW, bucket=BUCKET
        )
        admin.execute(
            "UPDATE task SET status = %s, ended_at = %s, failed_at = %s WHERE id = %s",
            [status, ended_at, failed_at, submission.task.job_id],
        )
        ((key,),) = admin.execute("SELECT payload_s3_key FROM task WHERE id = %s", [submission.task.job_id]).fetchall()
        assert key in s3.objects
        return str(key)

    return make


@pytest.fixture
def run(maintenance_database: Database) -> Run:
    """`run()` purges tasks and payloads as the watchdog does.

    Returns the number of deleted objects.
    """

    def run(**options: Any) -> int:
        purge(maintenance_database, lambda: NOW)
        return delete_payloads(maintenance_database, BUCKET, options.pop("time_left", lambda: 30.0), **options)

    return run


def pending_removals(admin: Connection) -> set[str]:
    """Return the keys of objects to delete."""
    return {key for (key,) in admin.execute("SELECT key FROM payload_deletion")}


def test_payload_is_deleted_with_its_task(
    make_task: Callable[..., str], run: Run, s3: FakeS3, admin: Connection
) -> None:
    expired = {make_task("succeeded", LONG_AGO), make_task(None, LONG_AGO)}
    retained = {make_task("succeeded", NOW), make_task(None, NOW), make_task("pending"), make_task("in-progress")}
    retained.add(make_task("failed", failed_at=NOW - timedelta(days=1000)))  # can be retried
    assert set(s3.objects) == expired | retained

    assert run() == len(expired)

    assert set(s3.objects) == retained == {key for (key,) in admin.execute("SELECT payload_s3_key FROM task")}
    assert pending_removals(admin) == set()


def test_large_message_is_deleted_with_its_conversation(
    database: Database, admin: Connection, tenant: UUID, s3: FakeS3, run: Run
) -> None:
    chat = TYPES.get("chat_completion")
    assert chat is not None
    order = store.build_request(chat, {"message": "\u00e9" * 90_000}, user_id="ada")
    session = store.submit(database, tenant, order, NOW, bucket=BUCKET).task.job_id
    admin.execute("UPDATE task SET status = 'failed', failed_at = %s", [LONG_AGO])
    assert run() == 0
    admin.execute("UPDATE chat_session SET last_used_at = %s", [LONG_AGO])

    assert run() == 1

    assert (s3.objects, pending_removals(admin)) == ({}, set())
    assert admin.execute("SELECT id, status, payload, payload_s3_key FROM task").fetchall() == [
        (session, "failed", {"message": "(deleted)"}, None)
    ]


def test_failed_s3_deletion_is_retried(make_task: Callable[..., str], run: Run, s3: FakeS3, admin: Connection) -> None:
    failing, other = make_task("succeeded", LONG_AGO), make_task("succeeded", LONG_AGO)
    s3.refused = {failing}
    with pytest.raises(ServiceUnavailableError, match="S3 did not delete 1 of 2 payloads: InternalError"):
        run()
    assert (set(s3.objects), pending_removals(admin)) == ({failing}, {failing})
    assert other not in s3.objects

    s3.refused = set()
    assert run() == 1
    assert (s3.objects, pending_removals(admin)) == ({}, set())


def test_s3_outage_leaves_the_deletion_pending(
    make_task: Callable[..., str], run: Run, s3: FakeS3, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = make_task("succeeded", LONG_AGO)
    may_answer = Event()
    monkeypatch.setattr(s3, "delete_objects", lambda **_: may_answer.wait(30))
    with pytest.raises(ServiceUnavailableError):
        run(time_left=lambda: 0.05)
    may_answer.set()

    assert pending_removals(admin) == {key}


def test_removal_of_already_deleted_object_succeeds(
    make_task: Callable[..., str], run: Run, s3: FakeS3, admin: Connection
) -> None:
    make_task("succeeded", LONG_AGO)
    s3.objects.clear()  # as if a run crashed after deleting the object

    assert run() == 1
    assert pending_removals(admin) == set()


def test_run_deletes_limited_number_of_oldest_payloads(
    make_task: Callable[..., str], run: Run, s3: FakeS3, admin: Connection
) -> None:
    keys = [make_task("succeeded", LONG_AGO) for _ in range(3)]
    run(batch_size=0)
    for days, key in enumerate(keys):
        admin.execute("UPDATE payload_deletion SET due_at = due_at - %s WHERE key = %s", [timedelta(hours=days), key])

    assert run(batch_size=2) == 2
    assert set(s3.objects) == {keys[0]}


def test_run_without_due_deletions_makes_no_s3_request(
    maintenance_database: Database, admin: Connection, tenant: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.execute(
        "INSERT INTO payload_deletion VALUES ('tasks/' || %(t)s || '/1', %(t)s, now() + interval '1 hour')",
        {"t": tenant},
    )
    monkeypatch.setattr(aws, "client", pytest.fail)

    assert delete_payloads(maintenance_database, None, lambda: 30.0) == 0


def test_missing_bucket_is_reported(make_task: Callable[..., str], run: Run, maintenance_database: Database) -> None:
    make_task("succeeded", LONG_AGO)
    run(batch_size=0)
    with pytest.raises(InvalidSettingsError, match="UPLOADS_BUCKET"):
        delete_payloads(maintenance_database, None, lambda: 30.0)


def test_due_deletions_are_found_by_index(admin: Connection) -> None:
    admin.execute("SET enable_seqscan = off")
    plan = admin.execute(
        "EXPLAIN SELECT key FROM payload_deletion WHERE due_at < now() ORDER BY due_at LIMIT 10"
    ).fetchall()

    assert "payload_deletion_by_due" in str(plan)
