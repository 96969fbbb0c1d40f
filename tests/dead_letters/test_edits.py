"""Edited payloads: checked, kept as a difference, applied when the task is tried again."""

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
from counterfoil.dead_letters.actions import NotEditableError, NotPendingError, Wish, changed_fields
from counterfoil.errors import InvalidSettingsError, RejectedRequestError, ServiceUnavailableError, VersionError
from counterfoil.settings import Settings
from counterfoil.tasks import payloads
from counterfoil.tasks.payloads import INLINE_BYTES, MAX_PAYLOAD_BYTES, TooLargeError
from counterfoil.tasks.task_type import InvalidPayloadError
from tests.dead_letters.letters import NOON, Die
from tests.delivery.harness import rows
from tests.factories import make_task
from tests.tasks.conftest import BUCKET, FakeS3

LARGE = {"say": "x" * INLINE_BYTES}
Fail = Callable[..., UUID]
Edit = Callable[..., int]


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> FakeS3:
    fake = FakeS3()
    monkeypatch.setattr(aws, "client", lambda service: {"s3": fake}[service])
    return fake


@pytest.fixture
def fail(admin: Connection, tenant_id: UUID, die: Die) -> Fail:
    """A task that has failed, with its letter; returns the letter's job_id."""

    def make(task_type: str = "echo", payload: dict[str, Any] | None = None, **columns: Any) -> UUID:
        values = {"payload": json.dumps(payload)} if payload is not None else {}
        task = make_task(admin, tenant_id, task_type=task_type, status="failed", attempts=6, **values, **columns)
        return die(worker="tasks", task_type=task_type, work_id=task)

    return make


def wish(job_id: UUID, version: int = 1) -> Wish:
    return Wish(job_id, version, "kim", NOON, "A typing error")


@pytest.fixture
def edit(database: Database, tenant_id: UUID, s3: FakeS3) -> Edit:
    def act(job_id: UUID, payload: dict[str, Any], version: int = 1, *, bucket: str | None = BUCKET) -> int:
        wanted = wish(job_id, version)
        chosen = Settings.model_validate({"http_requests": True})
        return actions.edit_payload(database, tenant_id, wanted, payload, bucket=bucket, settings=chosen).version

    return act


def test_an_edit_keeps_what_differs_and_the_trail_only_hashes_of_it(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection
):
    job_id = fail(payload={"iban": "DE02120300000000202051", "lines": [1, 2], "same": True})

    version = edit(job_id, {"iban": "DE02500105170137075030", "lines": [1], "new": None, "same": True})

    assert version == 2
    [letter] = rows(admin, "dead_letter")
    assert (letter["status"], letter["version"]) == ("pending", 2)
    assert letter["edit"]["by"] == "kim"
    assert letter["edit"]["before"] == {"iban": "DE02120300000000202051", "lines": [1, 2]}
    assert letter["edit"]["after"] == {"iban": "DE02500105170137075030", "lines": [1], "new": None}
    with database.tenant(tenant_id) as connection:
        [entry] = audit.page(connection, tenant_id, limit=5)
    assert (entry.action, entry.version_before, entry.version_after) == ("edited", 1, 2)
    told = repr(entry)
    assert not any(word in told for word in ("iban", "DE02", "new", "lines"))  # echo has no fields of its own
    ((salt,),) = admin.execute("SELECT audit_salt FROM tenant WHERE id = %s", [tenant_id]).fetchall()
    assert entry.detail["changes"][0]["after_hash"] == hmac.digest(salt, b'"DE02500105170137075030"', "sha256").hex()
    guessed = [hashlib.sha256(what).digest() for what in (b'"DE02500105170137075030"', b"A typing error")]
    assert not any(guess.hex() in told for guess in guessed)
    assert entry.note_hash not in guessed


def test_fields_of_the_form_are_named_in_the_trail(fail: Fail, edit: Edit, database: Database, tenant_id: UUID):
    job_id = fail("http_request", {"method": "GET", "url": "https://example.com/a"})
    edit(job_id, {"method": "GET", "url": "https://example.com/b"})
    with database.tenant(tenant_id) as connection:
        [entry] = audit.page(connection, tenant_id, limit=5)
    assert [change["path"] for change in entry.detail["changes"]] == ["/url"]


def test_the_last_edit_counts_and_is_told_against_what_had_failed(fail: Fail, edit: Edit, admin: Connection):
    job_id = fail()
    edit(job_id, {"say": "one"})
    edit(job_id, {"say": "two"}, 2)
    [letter] = rows(admin, "dead_letter")
    assert letter["edited_payload"] == {"say": "two"}
    assert (letter["edit"]["before"], letter["edit"]["after"]) == ({"say": "hello"}, {"say": "two"})


def test_every_edit_is_kept_with_who_made_it_whatever_comes_later(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID
):
    job_id = fail()
    for version, said in enumerate(("one", "two", "hello", "three"), 1):
        edit(job_id, {"say": said}, version)
    actions.retry(database, tenant_id, wish(job_id, 5), bucket=BUCKET)

    found = actions.show_payload(database, tenant_id, job_id, bucket=BUCKET)
    assert [(one.by, one.at, one.note) for one in found.edits] == [("kim", NOON, "A typing error")] * 4
    assert [one.after for one in found.edits] == [{"say": "three"}, {}, {"say": "two"}, {"say": "one"}]
    assert [one.before for one in found.edits] == [{"say": "hello"}, {}, {"say": "hello"}, {"say": "hello"}]
    assert (found.original, found.edited) == ({"say": "three"}, None)


def test_retry_without_a_version_takes_a_concurrent_edit(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection, monkeypatch: pytest.MonkeyPatch
):
    job_id = fail(payload={"say": "hello"})
    store = actions._store_edit

    def edited_meanwhile(*args: Any) -> str | None:
        if rows(admin, "dead_letter")[0]["version"] == 1:
            edit(job_id, {"say": "bye"})
        return store(*args)

    monkeypatch.setattr(actions, "_store_edit", edited_meanwhile)
    done = actions.retry(database, tenant_id, Wish(job_id, None, "kim", NOON), bucket=BUCKET)

    assert done.version == 3
    assert rows(admin, "task")[0]["payload"] == {"say": "bye"}


def test_retry_of_a_version_refuses_a_concurrent_edit(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection, monkeypatch: pytest.MonkeyPatch
):
    job_id = fail(payload={"say": "hello"})
    monkeypatch.setattr(actions, "_store_edit", lambda *_: edit(job_id, {"say": "bye"}) and None)
    with pytest.raises(VersionError):
        actions.retry(database, tenant_id, wish(job_id), bucket=BUCKET)

    assert rows(admin, "task")[0]["payload"] == {"say": "hello"}
    assert [letter["status"] for letter in rows(admin, "dead_letter")] == ["pending"]


def test_of_many_edits_the_last_are_kept(fail: Fail, edit: Edit, database: Database, tenant_id: UUID):
    job_id = fail()
    for version in range(1, actions.MOST_EDITS + 3):
        edit(job_id, {"say": str(version)}, version)

    found = actions.show_payload(database, tenant_id, job_id, bucket=BUCKET)

    assert [one.after["say"] for one in found.edits] == [str(version) for version in range(22, 2, -1)]


def test_who_changes_a_letter_does_not_read_its_earlier_edits(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID
):
    job_id = fail(payload={"say": "hello"})
    for version, say in enumerate(("the first", "the second"), 1):
        edit(job_id, {"say": say}, version)
    with database.tenant(tenant_id) as connection:
        letter = actions.look_at(connection, tenant_id, wish(job_id, 3))
    assert letter.edited_payload == {"say": "the second"}
    assert "the first" not in repr(letter)


def test_an_edit_is_taken_back_by_what_the_payload_was(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection
):
    job_id = fail()
    with pytest.raises(RejectedRequestError, match="has no changes"):
        edit(job_id, {"say": "hello"})
    edit(job_id, {"say": "bye"})
    assert edit(job_id, {"say": "hello"}, 2) == 3
    assert actions.show_payload(database, tenant_id, job_id, bucket=BUCKET).edited is None
    with pytest.raises(RejectedRequestError, match="has no changes"):
        edit(job_id, {"say": "hello"}, 3)
    actions.retry(database, tenant_id, wish(job_id, 3), bucket=BUCKET)
    assert rows(admin, "task")[0]["payload"] == {"say": "hello"}


def test_what_the_type_does_not_take_is_no_edit(fail: Fail, edit: Edit, admin: Connection):
    job_id = fail("http_request", {"method": "GET", "url": "https://example.com/a"})
    with pytest.raises(InvalidPayloadError):
        edit(job_id, {"method": "GET", "url": 7})
    with pytest.raises(RejectedRequestError):  # the type's own check: such an address can never be called
        edit(job_id, {"method": "GET", "url": "http://127.0.0.1/"})
    with pytest.raises(TooLargeError):
        edit(job_id, {"method": "GET", "url": "https://example.com/" + "x" * MAX_PAYLOAD_BYTES})
    assert rows(admin, "dead_letter")[0]["edit"] is None


def test_only_payloads_of_tasks_are_edited_and_none_that_are_their_users_alone(fail: Fail, edit: Edit, die: Die):
    with pytest.raises(NotEditableError, match="something else"):
        edit(die(worker="ingestion"), {})
    with pytest.raises(NotEditableError, match="belongs to its user"):
        edit(fail("chat_completion", {"message": "Hello"}), {"message": "Bye"})
    with pytest.raises(NotEditableError):
        edit(fail("a type that was taken away"), {})


def test_a_letter_that_was_changed_or_settled_takes_no_edit(fail: Fail, edit: Edit, admin: Connection):
    job_id = fail()
    with pytest.raises(VersionError):
        edit(job_id, {"say": "bye"}, 2)
    admin.execute("UPDATE dead_letter SET status = 'ignored', version = version + 1")
    with pytest.raises(NotPendingError):
        edit(job_id, {"say": "bye"}, 2)


def test_an_edit_that_loses_against_another_change_is_not_kept(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection, monkeypatch: pytest.MonkeyPatch
):
    job_id = fail()

    def resolved_meanwhile(*_: object) -> list[str]:
        actions.resolve(database, tenant_id, wish(job_id))
        return ["say"]

    monkeypatch.setattr(actions, "changed_fields", resolved_meanwhile)
    with pytest.raises(VersionError):
        edit(job_id, {"say": "bye"})
    assert rows(admin, "dead_letter")[0]["edit"] is None


def test_an_edit_that_is_settled_becomes_history(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection
):
    job_id = fail()
    edit(job_id, {"say": "bye"})
    actions.ignore(database, tenant_id, wish(job_id, 2))
    [letter] = rows(admin, "dead_letter")
    assert (letter["edit"]["settled"], letter["edit"]["after"]) == ("ignored", {"say": "bye"})
    assert rows(admin, "task")[0]["payload"] == {"say": "hello"}


# -- large payloads ---------------------------------------------------------------------------------------------------


def to_be_removed(admin: Connection) -> dict[str, bool]:
    """Which objects are to be removed, and whether now."""
    return dict(admin.execute("SELECT key, due_at <= now() FROM payload_removal").fetchall())


def test_a_large_edit_goes_where_large_payloads_are_and_the_old_one_goes(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection, s3: FakeS3
):
    old = f"tasks/{tenant_id}/old.json"
    s3.objects[old] = json.dumps(LARGE).encode()
    job_id = fail()
    admin.execute("UPDATE task SET payload = NULL, payload_key = %s", [old])
    wanted = {"say": "y" * INLINE_BYTES}
    edit(job_id, wanted)
    assert to_be_removed(admin) == {}

    actions.retry(database, tenant_id, wish(job_id, 2), bucket=BUCKET)

    [task] = rows(admin, "task")
    assert task["payload"] is None
    assert payloads.read(BUCKET, task["payload_key"]) == wanted
    assert to_be_removed(admin) == {old: True}


def test_a_small_edit_of_a_large_payload_is_in_the_task_itself(
    fail: Fail, edit: Edit, database: Database, tenant_id: UUID, admin: Connection, s3: FakeS3
):
    old = f"tasks/{tenant_id}/old.json"
    s3.objects[old] = json.dumps(LARGE).encode()
    job_id = fail()
    admin.execute("UPDATE task SET payload = NULL, payload_key = %s", [old])
    edit(job_id, {"say": "less"})
    actions.retry(database, tenant_id, wish(job_id, 2), bucket=BUCKET)
    [task] = rows(admin, "task")
    assert (task["payload"], task["payload_key"]) == ({"say": "less"}, None)
    assert to_be_removed(admin) == {old: True}


def test_what_was_stored_for_a_retry_that_did_not_come_about_is_removed_a_day_later(
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

    def away(*_: object, **__: object) -> None:
        raise ServiceUnavailableError("The process dies here.")

    monkeypatch.setattr(actions, "begin", away)
    with pytest.raises(ServiceUnavailableError):
        actions.retry(database, tenant_id, wish(job_id, 2), bucket=BUCKET)
    assert to_be_removed(admin) == dict.fromkeys(s3.objects, False)
    assert rows(admin, "dead_letter")[0]["status"] == "pending"
    assert rows(admin, "task")[0]["payload"] == {"say": "hello"}


def test_a_large_payload_needs_a_bucket(fail: Fail, edit: Edit, database: Database, tenant_id: UUID):
    job_id = fail()
    edit(job_id, LARGE, bucket=None)
    with pytest.raises(InvalidSettingsError, match="UPLOADS_BUCKET"):
        actions.retry(database, tenant_id, wish(job_id, 2), bucket=None)


# -- differences ------------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=1), inner, max_size=2),
    max_leaves=4,
)
PAYLOADS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


@given(PAYLOADS, PAYLOADS)
def test_what_differs_leads_from_one_payload_to_the_other(before: dict[str, Any], after: dict[str, Any]):
    fields = changed_fields(before, after)
    kept = {name: before[name] for name in before if name not in fields}
    led = kept | {name: after[name] for name in fields if name in after}
    assert json.dumps(led, sort_keys=True) == json.dumps(after, sort_keys=True)
    for name in fields:
        assert json.dumps(before.get(name, "absent")) != json.dumps(after.get(name, "absent"))
