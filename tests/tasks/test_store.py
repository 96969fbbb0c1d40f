"""Task store: idempotent submission, listing and cancellation."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.errors import InvalidSettingsError, RejectedRequestError
from counterfoil.settings import Settings
from counterfoil.tasks import store
from counterfoil.tasks.payloads import INLINE_BYTES, MAX_PAYLOAD_BYTES, TooLargeError
from counterfoil.tasks.store import IdempotencyKeyConflictError, SubmittedTask, TaskFilter, TaskFinishedError
from counterfoil.tasks.task_type import InvalidPayloadError
from counterfoil.tasks.types import TYPES
from tests.dead_letters.audit_trail import verified_changes
from tests.factories import NOW
from tests.tasks.conftest import BUCKET, FakeS3, rows

Submit = Callable[..., SubmittedTask]


@pytest.fixture
def submit(database: Database, tenant: UUID, s3: FakeS3) -> Submit:
    """`submit(payload, at=NOW, **options)` submits a task.

    `build_request` describes the options.
    """
    assert s3.objects == {}

    def submit(payload: dict[str, Any], *, at: Any = NOW, type_: str = "echo", **options: Any) -> SubmittedTask:
        task_type = TYPES.get(type_)
        assert task_type is not None
        return store.submit(database, tenant, store.build_request(task_type, payload, **options), at, bucket=BUCKET)

    return submit


def test_submission_stores_task_and_outbox_row(submit: Submit, admin: Connection, tenant: UUID) -> None:
    submission = submit({"text": "hello"}, idempotency_key="k", user_id="ada", max_retry=2)

    assert submission.is_new
    (row,) = rows(admin, "task")
    assert (row["id"], row["tenant_id"], row["status"], row["revision"], row["payload"], row["max_retry"]) == (
        *(submission.task.job_id, tenant, "pending", 1, {"text": "hello"}, 2),
    )
    (outbox_row,) = rows(admin, "outbox")
    assert (outbox_row["worker"], outbox_row["work_id"], outbox_row["revision"], outbox_row["send_number"]) == (
        "tasks",
        row["id"],
        1,
        0,
    )
    assert [message.message.work_id for message in submission.messages] == [row["id"]]


def test_task_without_key_gets_generated_key(submit: Submit, admin: Connection) -> None:
    first, second = submit({}).task, submit({}).task

    keys = {row["id"]: row["idempotency_key"] for row in rows(admin, "task")}
    assert keys == {first.job_id: first.idempotency_key, second.job_id: second.idempotency_key}
    assert {UUID(key).version for key in keys.values()} == {4}
    assert len(set(keys.values())) == 2


def test_default_retry_limit_comes_from_settings(submit: Submit) -> None:
    assert submit({}).task.max_retry == 5
    assert submit({}, settings=Settings(retry_max_attempts=7)).task.max_retry == 7


def test_changed_default_limit_does_not_affect_repeated_request(submit: Submit) -> None:
    first = submit({}, idempotency_key="k", settings=Settings(retry_max_attempts=7)).task

    assert submit({}, idempotency_key="k", settings=Settings(retry_max_attempts=2)).task == first


def test_repeated_request_returns_first_task_without_message(submit: Submit, admin: Connection) -> None:
    first = submit({"a": 1, "b": 2}, idempotency_key="k")
    admin.execute("UPDATE task SET status = 'succeeded', result = '[7]', ended_at = %s", [NOW])

    repeated = submit({"b": 2, "a": 1}, idempotency_key="k")

    assert (repeated.is_new, repeated.messages, repeated.task.job_id) == (False, (), first.task.job_id)
    assert (repeated.task.status, repeated.task.result) == ("succeeded", [7])
    assert len(rows(admin, "outbox")) == 1


@pytest.mark.parametrize("second", [{"payload": {"a": 2}}, {"max_retry": 1}, {"user_id": "eve"}])
def test_key_reuse_with_another_request_is_rejected(submit: Submit, admin: Connection, second: dict[str, Any]) -> None:
    submit({"a": 1}, idempotency_key="k", user_id="ada")

    with pytest.raises(IdempotencyKeyConflictError):
        submit(**({"payload": {"a": 1}, "idempotency_key": "k", "user_id": "ada"} | second))
    assert len(rows(admin, "task")) == 1


def test_requests_without_key_create_separate_tasks(submit: Submit) -> None:
    assert submit({}).task.job_id != submit({}).task.job_id


def test_concurrent_requests_with_one_key_create_one_task(submit: Submit, admin: Connection) -> None:
    with ThreadPoolExecutor(8) as pool:
        submission = list(pool.map(lambda _: submit({"a": 1}, idempotency_key="k"), range(24)))

    assert [item.is_new for item in submission].count(True) == 1
    assert len({item.task.job_id for item in submission}) == 1
    assert (len(rows(admin, "task")), len(rows(admin, "outbox"))) == (1, 1)


def test_idempotency_keys_are_per_tenant(
    submit: Submit, database: Database, make_tenant: Callable[..., UUID], s3: FakeS3
) -> None:
    own = submit({"a": 1}, idempotency_key="k")
    echo = TYPES.get("echo")
    assert echo is not None
    foreign = store.submit(
        database, make_tenant("other"), store.build_request(echo, {"a": 2}, idempotency_key="k"), NOW, bucket=None
    )

    assert foreign.is_new
    assert foreign.task.job_id != own.task.job_id
    assert s3.objects == {}


@pytest.mark.parametrize(
    ("payload", "options", "error"),
    [
        ({}, {"max_retry": 21}, RejectedRequestError),
        ({}, {"max_retry": -1}, RejectedRequestError),
        ({}, {"idempotency_key": ""}, RejectedRequestError),
        ({}, {"idempotency_key": "k" * 256}, RejectedRequestError),
        ({}, {"idempotency_key": "a\nb"}, RejectedRequestError),
        ({"a": "\x00"}, {}, RejectedRequestError),
        ({"\x00": 1}, {}, RejectedRequestError),
        ({"a": float("inf")}, {}, RejectedRequestError),
        ({"a": "\ud800"}, {}, RejectedRequestError),
        ({"a": "x" * MAX_PAYLOAD_BYTES}, {}, TooLargeError),
        ({"nowhere": 1}, {"type_": "http_request"}, InvalidPayloadError),
    ],
)
def test_invalid_submission_is_rejected(
    submit: Submit, admin: Connection, payload: dict[str, Any], options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        submit(payload, **options)
    assert rows(admin, "task") == []


def test_escaped_u0000_text_is_stored(submit: Submit, admin: Connection) -> None:
    submit({"a": "\\u0000"})

    assert rows(admin, "task")[0]["payload"] == {"a": "\\u0000"}


def test_large_payload_is_stored_in_s3(submit: Submit, admin: Connection, s3: FakeS3) -> None:
    largest = {"a": "x" * (MAX_PAYLOAD_BYTES - len('{"a":""}'))}
    submission = submit(largest)

    (row,) = rows(admin, "task")
    assert (row["payload"], list(s3.objects)) == (None, [row["payload_s3_key"]])
    assert row["payload_s3_key"] == f"tasks/{row['tenant_id']}/{submission.task.job_id}.json"
    assert len(s3.objects[row["payload_s3_key"]]) == MAX_PAYLOAD_BYTES
    record = admin.execute("SELECT body -> 'payload' FROM task_messages(%s)", [[row["id"]]]).fetchone()
    assert record == ({"$claim_check": {"key": row["payload_s3_key"]}},)


def test_inline_limit_counts_escaped_characters(submit: Submit, s3: FakeS3) -> None:
    submit({"a": "x" * (INLINE_BYTES - len('{"a": ""}'))})
    assert s3.objects == {}
    submit({"a": "é" * (INLINE_BYTES // 6 + 1)})
    assert len(s3.objects) == 1


def test_repeated_large_request_stores_one_object(submit: Submit, s3: FakeS3) -> None:
    large = {"a": "x" * INLINE_BYTES}
    first = submit(large, idempotency_key="k")

    assert submit(large, idempotency_key="k").task.job_id == first.task.job_id
    assert len(s3.objects) == 1


def test_large_payload_without_bucket_is_rejected(database: Database, tenant: UUID) -> None:
    echo = TYPES.get("echo")
    assert echo is not None
    with pytest.raises(InvalidSettingsError, match="UPLOADS_BUCKET"):
        store.submit(database, tenant, store.build_request(echo, {"a": "x" * INLINE_BYTES}), NOW, bucket=None)


# Listing


def test_pages_list_every_task_newest_first(submit: Submit, database: Database, tenant: UUID) -> None:
    job_ids = [submit({}, at=NOW + timedelta(seconds=number // 3)).task for number in range(10)]
    collected: list[store.TaskSummary] = []
    with database.tenant(tenant) as connection:
        while page_ := store.page(
            connection, TaskFilter(after=(collected[-1].created_at, collected[-1].job_id) if collected else None), 4
        ):
            collected += page_

    assert [item.job_id for item in collected] == [
        item.job_id for item in sorted(job_ids, key=lambda item: (item.created_at, item.job_id), reverse=True)
    ]


@pytest.mark.parametrize(
    ("task_filter", "keys"),
    [
        (TaskFilter(), "cba"),
        (TaskFilter(status="pending"), "c"),
        (TaskFilter(status="canceled"), "b"),
        (TaskFilter(status="failed"), "a"),
        (TaskFilter(task_type="echo", created_from=NOW + timedelta(hours=1)), "cb"),
        (TaskFilter(created_until=NOW + timedelta(hours=1)), "a"),
        (TaskFilter(task_type="http_request"), ""),
        (TaskFilter(user_id="ada"), "c"),
    ],
)
def test_list_applies_filters(
    submit: Submit, database: Database, admin: Connection, tenant: UUID, task_filter: TaskFilter, keys: str
) -> None:
    submit({}, idempotency_key="a")
    admin.execute("UPDATE task SET status = 'failed', failed_at = %s", [NOW])
    canceled = submit({}, idempotency_key="b", at=NOW + timedelta(hours=1)).task
    submit({}, idempotency_key="c", at=NOW + timedelta(hours=2), user_id="ada")
    with database.tenant(tenant) as connection:
        store.cancel(connection, canceled.job_id, NOW, "ada")

        assert "".join(item.idempotency_key for item in store.page(connection, task_filter, 10)) == keys


def test_attempts_are_listed_in_order(submit: Submit, database: Database, admin: Connection, tenant: UUID) -> None:
    job_id = submit({}).task.job_id
    for number, outcome in ((2, "succeeded"), (1, "retry")):
        admin.execute(
            """INSERT INTO work_attempt (tenant_id, worker, work_id, revision, number, started_at, ended_at, outcome)
               VALUES (%s, 'tasks', %s, 1, %s, %s, %s, %s)""",
            [tenant, job_id, number, NOW, NOW + timedelta(seconds=number), outcome],
        )
    with database.tenant(tenant) as connection:
        assert [(item.attempt, item.outcome) for item in store.list_attempts(connection, job_id)] == [
            (1, "retry"),
            (2, "succeeded"),
        ]


# Cancellation


def test_canceled_task_gets_a_new_claim_token(
    submit: Submit, database: Database, admin: Connection, tenant: UUID
) -> None:
    job_id = submit({}).task.job_id
    admin.execute("UPDATE task SET status = 'in-progress', claimed_at = %s, lease_expires_at = %s", [NOW, NOW])
    ((token,),) = admin.execute("SELECT claim_token FROM task").fetchall()
    with database.tenant(tenant) as connection:
        canceled = store.cancel(connection, job_id, NOW, "ada")

    assert canceled is not None
    assert (canceled[0].status, canceled[0].ended_at) == ("canceled", NOW)
    (row,) = rows(admin, "task")
    assert row["claim_token"] > token
    assert (row["status"], row["skip_reason"], row["canceled_at"], row["lease_expires_at"]) == (
        *(None, "Canceled by ada.", NOW, None),
    )


def test_ended_task_cannot_be_canceled(submit: Submit, database: Database, admin: Connection, tenant: UUID) -> None:
    first, second = submit({}).task.job_id, submit({}).task.job_id
    admin.execute("UPDATE task SET status = 'succeeded', ended_at = %s WHERE id = %s", [NOW, second])
    with database.tenant(tenant) as connection:
        store.cancel(connection, first, NOW, "ada")
        store.cancel(connection, first, NOW + timedelta(hours=1), "eve")
        with pytest.raises(TaskFinishedError, match="has already succeeded"):
            store.cancel(connection, second, NOW, "ada")
        assert store.cancel(connection, uuid4(), NOW, "ada") is None

    assert {row["id"]: row["skip_reason"] for row in rows(admin, "task")} == {first: "Canceled by ada.", second: None}
    assert verified_changes(admin, tenant) == [("ada", "task canceled", [str(first)])]
