"""A large payload lives as long as its task: noted before it is written, kept by who accepts it, left with the task."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.errors import ServiceUnavailableError
from counterfoil.tasks import payloads, store
from counterfoil.tasks.payloads import INLINE_BYTES
from counterfoil.tasks.store import Submitted
from counterfoil.tasks.types import TYPES
from tests.factories import NOW
from tests.tasks.conftest import BUCKET, FakeS3, rows

LARGE = {"a": "x" * INLINE_BYTES}
Submit = Callable[..., Submitted]


@pytest.fixture
def submit(database: Database, tenant: UUID, s3: FakeS3) -> Submit:
    """`submit(payload, ...)` hands in an echo; the rest is what an order takes."""
    assert s3.objects == {}

    def submit(payload: dict[str, Any], **how: Any) -> Submitted:
        echo = TYPES.get("echo")
        assert echo is not None
        return store.submit(database, tenant, store.order(echo, payload, **how), NOW, bucket=BUCKET)

    return submit


def to_be_removed(admin: Connection) -> dict[str, bool]:
    """Which objects are to be removed, and whether now."""
    return dict(admin.execute("SELECT key, due_at <= now() FROM payload_removal").fetchall())


def test_the_payload_of_an_accepted_task_is_not_to_be_removed(submit: Submit, admin: Connection, s3: FakeS3) -> None:
    submit(LARGE)

    assert len(s3.objects) == 1
    assert to_be_removed(admin) == {}


def test_a_payload_whose_task_was_not_accepted_is_to_be_removed_a_day_later(
    submit: Submit, admin: Connection, s3: FakeS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise ServiceUnavailableError("The process dies here.")

    monkeypatch.setattr(store, "enqueue", away)
    with pytest.raises(ServiceUnavailableError):
        submit(LARGE)

    assert rows(admin, "task") == []
    assert to_be_removed(admin) == dict.fromkeys(s3.objects, False)
    ((hours,),) = admin.execute("SELECT extract(epoch FROM due_at - now()) / 3600 FROM payload_removal").fetchall()
    assert 23 < hours <= 24


def test_a_payload_is_noted_before_it_is_written(
    submit: Submit, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, bool]] = []
    monkeypatch.setattr(payloads, "write", lambda *_: seen.append(to_be_removed(admin)))
    done = submit(LARGE)

    assert [list(noted) for noted in seen] == [[row["payload_key"] for row in rows(admin, "task")]]
    assert done.is_new


def test_of_requests_at_once_under_one_key_all_payloads_but_that_of_the_task_are_to_be_removed(
    submit: Submit, admin: Connection, s3: FakeS3
) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: submit(LARGE, idempotency_key="k"), range(8)))

    (task,) = rows(admin, "task")
    assert set(to_be_removed(admin)) == set(s3.objects) - {task["payload_key"]}


def test_a_task_is_not_accepted_once_its_payload_may_be_removed(
    submit: Submit, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: object) -> None:
        admin.execute("UPDATE payload_removal SET due_at = now() + interval '5 minutes'")

    monkeypatch.setattr(payloads, "write", slow)
    with pytest.raises(ServiceUnavailableError, match="ask again"):
        submit(LARGE)

    assert rows(admin, "task") == rows(admin, "outbox") == []


@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM task", "DELETE FROM tenant", "UPDATE task SET payload = '{}', payload_key = NULL"],
    ids=["task", "tenant", "payload"],
)
def test_the_payload_of_a_task_that_is_deleted_or_emptied_is_to_be_removed_now(
    submit: Submit, admin: Connection, s3: FakeS3, statement: str
) -> None:
    submit(LARGE)
    submit({})
    admin.execute(statement.encode())

    assert to_be_removed(admin) == dict.fromkeys(s3.objects, True)


def test_the_payload_of_a_task_whose_deletion_is_taken_back_stays(submit: Submit, admin: Connection) -> None:
    submit(LARGE)
    with admin.transaction(force_rollback=True):
        admin.execute("DELETE FROM task")

    assert to_be_removed(admin) == {}
