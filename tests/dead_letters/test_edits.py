"""Edited payloads: validated, stored as differences, applied by the next retry."""

import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterfoil import audit, aws
from counterfoil.db import Connection, Database
from counterfoil.dead_letters import actions
from counterfoil.dead_letters.actions import ChangeRequest, NotPendingError, PayloadNotEditableError, changed_fields
from counterfoil.errors import InvalidSettingsError, RejectedRequestError, ServiceUnavailableError, VersionConflictError
from counterfoil.settings import Settings
from counterfoil.tasks import payloads
from counterfoil.tasks.payloads import INLINE_BYTES, MAX_PAYLOAD_BYTES, TooLargeError
from counterfoil.tasks.task_type import InvalidPayloadError
from tests.dead_letters.dead_letter_factory import NOON, MakeDeadLetter
from tests.delivery.harness import rows
from tests.factories import make_task
from tests.tasks.conftest import BUCKET, FakeS3

LARGE = {"say": "x" * INLINE_BYTES}
Fail = Callable[..., UUID]
Edit = Callable[..., int]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> FakeS3:
    fake_s3 = FakeS3()
    monkeypatch.setattr(aws, "client", lambda service: {"s3": fake_s3}[service])
    return fake_s3


@pytest.fixture
def fail(admin: Connection, tenant_id: UUID, make_dead_letter: MakeDeadLetter) -> Fail:
    """`fail(...)` creates a failed task with a dead letter."""

    def make(task_type: str = "echo", payload: dict[str, Any] | None = None, **columns: Any) -> UUID:
        values = {"payload": json.dumps(payload)} if payload is not None else {}
        task = make_task(admin, tenant_id, task_type=task_type, status="failed", attempts=6, **values, **columns)
        return make_dead_letter(worker="tasks", task_type=task_type, work_id=task)

    return make


def change(job_id: UUID, version: int = 1) -> ChangeRequest:
    return ChangeRequest(job_id, version, "kim", NOON, "A typo")


@pytest.fixture
def edit(database: Database, tenant_id: UUID, s3: FakeS3) -> Edit:
    def edit_payload(job_id: UUID, payload: dict[str, Any], version: int = 1, *, bucket: str | None = BUCKET) -> int:
        request = change(job_id, version)
        settings = Settings.model_validate({"http_request_tasks_enabled": True})
        return actions.edit_payload(database, tenant_id, request, payload, bucket=bucket, settings=settings).version

    return edit_payload


def test_edit_stores_differences_and_audits_only_hashes(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection
):
    job_id = fail(payload={"iban": "DE02120300000000202051", "lines": [1, 2], "same": True})

    version = edit(job_id, {"iban": "DE02500105170137075030", "lines": [1], "new": None, "same": True})

    assert version == 2
    [dead_letter] = rows(admin, "dead_letter")
    assert (dead_letter["status"], dead_letter["version"]) == ("pending", 2)
    assert dead_letter["edit_metadata"]["by"] == "kim"
    assert dead_letter["edit_metadata"]["before"] == {"iban": "DE02120300000000202051", "lines": [1, 2]}
    assert dead_letter["edit_metadata"]["after"] == {"iban": "DE02500105170137075030", "lines": [1], "new": None}
    with database.tenant(tenant_id) as connection:
        [entry] = audit.page(connection, tenant_id, limit=5)
    assert (entry.action, entry.version_before, entry.version_after) == ("edited", 1, 2)
    text = repr(entry)
    assert not any(word in text for word in ("iban", "DE02", "new", "lines"))  # the echo task type declares no fields
    ((salt,),) = admin.execute("SELECT audit_salt FROM tenant WHERE id = %s", [tenant_id]).fetchall()
    assert entry.detail["changes"][0]["after_hash"] == hmac.digest(salt, b'"DE02500105170137075030"', "sha256").hex()
    guessed_hashes = [hashlib.sha256(guess).digest() for guess in (b'"DE02500105170137075030"', b"A typo")]
    assert not any(guessed_hash.hex() in text for guessed_hash in guessed_hashes)
    assert entry.note_hash not in guessed_hashes


def test_audit_entry_names_declared_fields(fail: Fail, edit: Edit, database: Database, tenant_id: UUID):
    job_id = fail("http_request", {"method": "GET", "url": "https://example.com/a"})
    edit(job_id, {"method": "GET", "url": "https://example.com/b"})
    with database.tenant(tenant_id) as connection:
        [entry] = audit.page(connection, tenant_id, limit=5)
    assert [change["path"] for change in entry.detail["changes"]] == ["/url"]


def test_latest_edit_is_compared_with_original_payload(fail: Fail, edit: Edit, admin: Connection):
    job_id = fail()
    edit(job_id, {"say": "one"})
    edit(job_id, {"say": "two"}, 2)
    [dead_letter] = rows(admin, "dead_letter")
    assert dead_letter["edited_payload"] == {"say": "two"}
    assert (dead_letter["edit_metadata"]["before"], dead_letter["edit_metadata"]["after"]) == (
        {"say": "hello"},
        {"say": "two"},
    )


def test_every_edit_is_stored_with_author(fail: Fail, edit: Edit, database: Database, tenant_id: UUID):
    job_id = fail()
    for version, value in enumerate(("one", "two", "hello", "three"), 1):
        edit(job_id, {"say": value}, version)
    actions.retry(database, tenant_id, change(job_id, 5), bucket=BUCKET)

    payload = actions.show_payload(database, tenant_id, job_id, bucket=BUCKET)
    assert [(item.by, item.at, item.note) for item in payload.edits] == [("kim", NOON, "A typo")] * 4
    assert [item.after for item in payload.edits] == [{"say": "three"}, {}, {"say": "two"}, {"say": "one"}]
    assert [item.before for item in payload.edits] == [{"say": "hello"}, {}, {"say": "hello"}, {"say": "hello"}]
    assert (payload.original, payload.edited) == ({"say": "three"}, None)


def test_retry_without_version_uses_concurrent_edit(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection, monkeypatch: pytest.MonkeyPatch
):
    job_id = fail(payload={"say": "hello"})
    store = actions._store_edited_payload

    def edit_concurrently(*args: Any) -> str | None:
        if rows(admin, "dead_letter")[0]["version"] == 1:
            edit(job_id, {"say": "bye"})
        return store(*args)

    monkeypatch.setattr(actions, "_store_edited_payload", edit_concurrently)
    result = actions.retry(database, tenant_id, ChangeRequest(job_id, None, "kim", NOON), bucket=BUCKET)

    assert result.version == 3
    assert rows(admin, "task")[0]["payload"] == {"say": "bye"}


def test_retry_with_version_rejects_concurrent_edit(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection, monkeypatch: pytest.MonkeyPatch
):
    job_id = fail(payload={"say": "hello"})
    monkeypatch.setattr(actions, "_store_edited_payload", lambda *_: edit(job_id, {"say": "bye"}) and None)
    with pytest.raises(VersionConflictError):
        actions.retry(database, tenant_id, change(job_id), bucket=BUCKET)

    assert rows(admin, "task")[0]["payload"] == {"say": "hello"}
    assert [dead_letter["status"] for dead_letter in rows(admin, "dead_letter")] == ["pending"]


def test_only_latest_edits_are_stored(fail: Fail, edit: Edit, database: Database, tenant_id: UUID):
    job_id = fail()
    for version in range(1, actions.MAX_EDITS + 3):
        edit(job_id, {"say": str(version)}, version)

    payload = actions.show_payload(database, tenant_id, job_id, bucket=BUCKET)

    assert [item.after["say"] for item in payload.edits] == [str(version) for version in range(22, 2, -1)]


def test_dead_letter_read_excludes_earlier_edits(fail: Fail, edit: Edit, database: Database, tenant_id: UUID):
    job_id = fail(payload={"say": "hello"})
    for version, text in enumerate(("the first", "the second"), 1):
        edit(job_id, {"say": text}, version)
    with database.tenant(tenant_id) as connection:
        dead_letter = actions.lock_for_change(connection, tenant_id, change(job_id, 3))
    assert dead_letter.edited_payload == {"say": "the second"}
    assert "the first" not in repr(dead_letter)


def test_original_payload_undoes_edit(fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection):
    job_id = fail()
    with pytest.raises(RejectedRequestError, match="has no changes"):
        edit(job_id, {"say": "hello"})
    edit(job_id, {"say": "bye"})
    assert edit(job_id, {"say": "hello"}, 2) == 3
    assert actions.show_payload(database, tenant_id, job_id, bucket=BUCKET).edited is None
    with pytest.raises(RejectedRequestError, match="has no changes"):
        edit(job_id, {"say": "hello"}, 3)
    actions.retry(database, tenant_id, change(job_id, 3), bucket=BUCKET)
    assert rows(admin, "task")[0]["payload"] == {"say": "hello"}


def test_invalid_payload_is_rejected(fail: Fail, edit: Edit, admin: Connection):
    job_id = fail("http_request", {"method": "GET", "url": "https://example.com/a"})
    with pytest.raises(InvalidPayloadError):
        edit(job_id, {"method": "GET", "url": 7})
    with pytest.raises(RejectedRequestError):  # because tasks must not call this address
        edit(job_id, {"method": "GET", "url": "http://127.0.0.1/"})
    with pytest.raises(TooLargeError):
        edit(job_id, {"method": "GET", "url": "https://example.com/" + "x" * MAX_PAYLOAD_BYTES})
    assert rows(admin, "dead_letter")[0]["edit_metadata"] is None


def test_payloads_of_private_or_unknown_types_are_uneditable(fail: Fail, edit: Edit, make_dead_letter: MakeDeadLetter):
    with pytest.raises(PayloadNotEditableError, match="not for a task"):
        edit(make_dead_letter(worker="ingestion"), {})
    with pytest.raises(PayloadNotEditableError, match="belongs to its user"):
        edit(fail("chat_completion", {"message": "Hello"}), {"message": "Bye"})
    with pytest.raises(PayloadNotEditableError):
        edit(fail("a removed type"), {})


def test_edit_rejects_changed_or_closed_dead_letter(fail: Fail, edit: Edit, admin: Connection):
    job_id = fail()
    with pytest.raises(VersionConflictError):
        edit(job_id, {"say": "bye"}, 2)
    admin.execute("UPDATE dead_letter SET status = 'ignored', version = version + 1")
    with pytest.raises(NotPendingError):
        edit(job_id, {"say": "bye"}, 2)


def test_edit_conflicts_with_concurrent_change(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection, monkeypatch: pytest.MonkeyPatch
):
    job_id = fail()

    def resolve_concurrently(*_: object) -> list[str]:
        actions.resolve(database, tenant_id, change(job_id))
        return ["say"]

    monkeypatch.setattr(actions, "changed_fields", resolve_concurrently)
    with pytest.raises(VersionConflictError):
        edit(job_id, {"say": "bye"})
    assert rows(admin, "dead_letter")[0]["edit_metadata"] is None


def test_edit_of_closed_dead_letter_becomes_history(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection
):
    job_id = fail()
    edit(job_id, {"say": "bye"})
    actions.ignore(database, tenant_id, change(job_id, 2))
    [dead_letter] = rows(admin, "dead_letter")
    assert (dead_letter["edit_metadata"]["closed_as"], dead_letter["edit_metadata"]["after"]) == (
        "ignored",
        {"say": "bye"},
    )
    assert rows(admin, "task")[0]["payload"] == {"say": "hello"}


# -- large payloads ---------------------------------------------------------------------------------------------------


def scheduled_removals(admin: Connection) -> dict[str, bool]:
    """Return whether the deletion of each object is due, by key."""
    return dict(admin.execute("SELECT key, due_at <= now() FROM payload_deletion").fetchall())


def test_large_edit_replaces_stored_payload(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection, s3: FakeS3
):
    old = f"tasks/{tenant_id}/old.json"
    s3.objects[old] = json.dumps(LARGE).encode()
    job_id = fail()
    admin.execute("UPDATE task SET payload = NULL, payload_s3_key = %s", [old])
    payload = {"say": "y" * INLINE_BYTES}
    edit(job_id, payload)
    assert scheduled_removals(admin) == {}

    actions.retry(database, tenant_id, change(job_id, 2), bucket=BUCKET)

    [task] = rows(admin, "task")
    assert task["payload"] is None
    assert payloads.read(BUCKET, task["payload_s3_key"]) == payload
    assert scheduled_removals(admin) == {old: True}


def test_small_edit_of_large_payload_is_stored_inline(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection, s3: FakeS3
):
    old = f"tasks/{tenant_id}/old.json"
    s3.objects[old] = json.dumps(LARGE).encode()
    job_id = fail()
    admin.execute("UPDATE task SET payload = NULL, payload_s3_key = %s", [old])
    edit(job_id, {"say": "less"})
    actions.retry(database, tenant_id, change(job_id, 2), bucket=BUCKET)
    [task] = rows(admin, "task")
    assert (task["payload"], task["payload_s3_key"]) == ({"say": "less"}, None)
    assert scheduled_removals(admin) == {old: True}


def test_payload_of_failed_retry_is_scheduled_for_deletion(
    fail: Fail,
    edit: Edit,
    database: Database,
    tenant_id: UUID,
    admin: Connection,
    s3: FakeS3,
    monkeypatch: pytest.MonkeyPatch,
):
    job_id = fail()
    edit(job_id, LARGE)

    def crash(*_: object, **__: object) -> None:
        raise ServiceUnavailableError("The process ends here.")

    monkeypatch.setattr(actions, "start_revision", crash)
    with pytest.raises(ServiceUnavailableError):
        actions.retry(database, tenant_id, change(job_id, 2), bucket=BUCKET)
    assert scheduled_removals(admin) == dict.fromkeys(s3.objects, False)
    assert rows(admin, "dead_letter")[0]["status"] == "pending"
    assert rows(admin, "task")[0]["payload"] == {"say": "hello"}


def test_large_payload_requires_bucket(fail: Fail, edit: Edit, database: Database, tenant_id: UUID):
    job_id = fail()
    edit(job_id, LARGE, bucket=None)
    with pytest.raises(InvalidSettingsError, match="UPLOADS_BUCKET"):
        actions.retry(database, tenant_id, change(job_id, 2), bucket=None)


# -- differences ------------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=2),
    max_leaves=4,
)
PAYLOADS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


@given(PAYLOADS, PAYLOADS)
def test_changed_fields_are_complete_and_minimal(before: dict[str, Any], after: dict[str, Any]):
    fields = changed_fields(before, after)
    unchanged = {name: before[name] for name in before if name not in fields}
    result = unchanged | {name: after[name] for name in fields if name in after}
    assert json.dumps(result, sort_keys=True) == json.dumps(after, sort_keys=True)
    for name in fields:
        assert json.dumps(before.get(name, "absent")) != json.dumps(after.get(name, "absent"))
