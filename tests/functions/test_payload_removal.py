"""The watchdog deletes payloads of deleted tasks from S3, never earlier."""

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
"""PostgreSQL's clock decides about ages."""
LONG_AGO = NOW - TASK_RETENTION - timedelta(days=1)

Round = Callable[..., int]


@pytest.fixture
def a_task(database: Database, admin: Connection, tenant: UUID, s3: FakeS3) -> Callable[..., str]:
    """`a_task(status, ended_at)` stores a task with a large payload and returns its key."""

    def make(status: str | None, ended_at: datetime | None = None, failed_at: datetime | None = None) -> str:
        echo = TYPES.get("echo")
        assert echo is not None
        done = store.submit(database, tenant, store.build_request(echo, {"a": "x" * INLINE_BYTES}), NOW, bucket=BUCKET)
        admin.execute(
            "UPDATE task SET status = %s, ended_at = %s, failed_at = %s WHERE id = %s",
            [status, ended_at, failed_at, done.task.job_id],
        )
        ((key,),) = admin.execute("SELECT payload_s3_key FROM task WHERE id = %s", [done.task.job_id]).fetchall()
        assert key in s3.objects
        return str(key)

    return make


@pytest.fixture
def round_(keeper_database: Database) -> Round:
    """`round_()` purges and deletes payloads as the watchdog does. Returns the number of objects."""

    def run(**how: Any) -> int:
        purge(keeper_database, lambda: NOW)
        return delete_payloads(keeper_database, BUCKET, how.pop("time_left", lambda: 30.0), **how)

    return run


def owed(admin: Connection) -> set[str]:
    """Return the objects to delete."""
    return {key for (key,) in admin.execute("SELECT key FROM payload_deletion")}


def test_a_payload_lives_as_long_as_its_task(
    a_task: Callable[..., str], round_: Round, s3: FakeS3, admin: Connection
) -> None:
    gone = {a_task("succeeded", LONG_AGO), a_task(None, LONG_AGO)}
    kept = {a_task("succeeded", NOW), a_task(None, NOW), a_task("pending"), a_task("in-progress")}
    kept.add(a_task("failed", failed_at=NOW - timedelta(days=1000)))  # it can be retried at any time
    assert set(s3.objects) == gone | kept

    assert round_() == len(gone)

    assert set(s3.objects) == kept == {key for (key,) in admin.execute("SELECT payload_s3_key FROM task")}
    assert owed(admin) == set()


def test_large_message_is_deleted_with_its_conversation(
    database: Database, admin: Connection, tenant: UUID, s3: FakeS3, round_: Round
) -> None:
    chat = TYPES.get("chat_completion")
    assert chat is not None
    order = store.build_request(chat, {"message": "\u00e9" * 90_000}, user_id="ada")
    session = store.submit(database, tenant, order, NOW, bucket=BUCKET).task.job_id
    admin.execute("UPDATE task SET status = 'failed', failed_at = %s", [LONG_AGO])
    assert round_() == 0
    admin.execute("UPDATE chat_session SET last_used_at = %s", [LONG_AGO])

    assert round_() == 1

    assert (s3.objects, owed(admin)) == ({}, set())
    assert admin.execute("SELECT id, status, payload, payload_s3_key FROM task").fetchall() == [
        (session, "failed", {"message": "(deleted)"}, None)
    ]


def test_failed_s3_deletion_is_repeated(
    a_task: Callable[..., str], round_: Round, s3: FakeS3, admin: Connection
) -> None:
    stubborn, other = a_task("succeeded", LONG_AGO), a_task("succeeded", LONG_AGO)
    s3.refused = {stubborn}
    with pytest.raises(ServiceUnavailableError, match="S3 did not delete 1 of 2 payloads: InternalError"):
        round_()
    assert (set(s3.objects), owed(admin)) == ({stubborn}, {stubborn})
    assert other not in s3.objects

    s3.refused = set()
    assert round_() == 1
    assert (s3.objects, owed(admin)) == ({}, set())


def test_while_s3_is_away_everything_is_owed(
    a_task: Callable[..., str], round_: Round, s3: FakeS3, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = a_task("succeeded", LONG_AGO)
    may_answer = Event()
    monkeypatch.setattr(s3, "delete_objects", lambda **_: may_answer.wait(30))
    with pytest.raises(ServiceUnavailableError):
        round_(time_left=lambda: 0.05)
    may_answer.set()

    assert owed(admin) == {key}


def test_deleted_object_is_removed_from_the_queue(
    a_task: Callable[..., str], round_: Round, s3: FakeS3, admin: Connection
) -> None:
    a_task("succeeded", LONG_AGO)
    s3.objects.clear()  # deleted by a run that crashed before recording it

    assert round_() == 1
    assert owed(admin) == set()


def test_run_deletes_a_limited_number_oldest_first(
    a_task: Callable[..., str], round_: Round, s3: FakeS3, admin: Connection
) -> None:
    keys = [a_task("succeeded", LONG_AGO) for _ in range(3)]
    round_(at_once=0)
    for age, key in enumerate(keys):
        admin.execute("UPDATE payload_deletion SET due_at = due_at - %s WHERE key = %s", [timedelta(hours=age), key])

    assert round_(at_once=2) == 2
    assert set(s3.objects) == {keys[0]}


def test_idle_run_makes_no_s3_request(
    keeper_database: Database, admin: Connection, tenant: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.execute(
        "INSERT INTO payload_deletion VALUES ('tasks/' || %(t)s || '/1', %(t)s, now() + interval '1 hour')",
        {"t": tenant},
    )
    monkeypatch.setattr(aws, "client", pytest.fail)

    assert delete_payloads(keeper_database, None, lambda: 30.0) == 0


def test_missing_bucket_is_reported(a_task: Callable[..., str], round_: Round, keeper_database: Database) -> None:
    a_task("succeeded", LONG_AGO)
    round_(at_once=0)
    with pytest.raises(InvalidSettingsError, match="UPLOADS_BUCKET"):
        delete_payloads(keeper_database, None, lambda: 30.0)


def test_due_removals_are_found_by_index(admin: Connection) -> None:
    admin.execute("SET enable_seqscan = off")
    plan = admin.execute(
        "EXPLAIN SELECT key FROM payload_deletion WHERE due_at < now() ORDER BY due_at LIMIT 10"
    ).fetchall()

    assert "payload_deletion_by_due" in str(plan)
