"""Malformed message bodies do not affect the other messages of a batch."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil.db import Connection, Database
from counterfoil.delivery import settlement
from counterfoil.delivery.attempt import Succeeded, TenantAttempt
from counterfoil.delivery.consumer import Consumer
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import RedeliverPolicy
from counterfoil.delivery.work import Message, enqueue
from counterfoil.documents import files
from counterfoil.errors import DatabaseUnavailableError, UnknownTenantError
from counterfoil.kinds import WORK_KINDS
from functions.acquisition.work import WORKER
from functions.dead_letters.archiver import Archiver
from functions.matching.work import match
from tests.delivery import message_bodies
from tests.delivery.harness import (
    DONE,
    QUEUE_URL,
    Clock,
    Context,
    FakeSqs,
    event,
    life_cycle,
    make_consumer,
    record,
    rows,
    succeed,
)
from tests.delivery.message_bodies import body_of, object_created, s3_event

Pending = Callable[..., Message]


@pytest.fixture
def matching(database: Database, sqs: FakeSqs, clock: Clock) -> Consumer:
    return make_consumer(database, succeed, clock)


@pytest.fixture
def acquisition(database: Database, sqs: FakeSqs, clock: Clock) -> Consumer:
    """A consumer for uploads that reads no files, and fails if the tenant is unknown."""

    def work(attempt: TenantAttempt) -> Succeeded:
        if attempt.tenant_id is None:
            raise UnknownTenantError("The key contains no existing tenant", code="key_without_tenant")
        return DONE

    worker = {"name": "acquisition", "timeout": 120, "permits": 2, "start_margin": 30}
    return make_consumer(database, work, clock, read=files.read_event, worker=worker)


def valid_upload_event() -> str:
    return s3_event(object_created("uploads/acme/good.xml"))


def statuses_by_key(admin: Connection) -> dict[str, str | None]:
    """Return the status of each upload, by key."""
    return {job["key"]: job["status"] for job in rows(admin, "acquisition_job")}


@pytest.mark.parametrize("name", message_bodies.UNREADABLE)
def test_only_unreadable_body_is_dead_lettered(
    matching: Consumer, admin: Connection, pending: Pending, name: str
) -> None:
    before, after = pending(), pending()

    response = matching.handle(event(record(before), record(message_bodies.UNREADABLE[name]), record(after)), Context())

    assert response == {"batchItemFailures": []}
    assert [life_cycle(admin, message.work_id)["status"] for message in (before, after)] == ["succeeded"] * 2
    (dead_letter,) = rows(admin, "dead_letter")
    assert (dead_letter["worker"], dead_letter["work_id"], dead_letter["dlq_reason"]) == (
        "matching",
        None,
        "non_retriable_error",
    )
    assert body_of(dead_letter) == message_bodies.UNREADABLE[name]
    assert dead_letter["metadata"]["last_error"]["message"].startswith("The message")
    assert "counterfoil.delivery.work:" in dead_letter["metadata"]["last_error"]["context"]["traceback"]
    assert message_bodies.WORK_ID not in str(dead_letter["metadata"])
    assert len(rows(admin, "failure_event")) == 1


@pytest.mark.parametrize("worker", ["matching", "acquisition"])
def test_each_unreadable_body_becomes_a_dead_letter(
    request: pytest.FixtureRequest, admin: Connection, worker: str
) -> None:
    consumer: Consumer = request.getfixturevalue(worker)

    response = consumer.handle(event(*map(record, message_bodies.UNREADABLE.values())), Context())

    assert response == {"batchItemFailures": []}
    dead_letters = rows(admin, "dead_letter")
    assert sorted(body_of(dead_letter) for dead_letter in dead_letters) == sorted(message_bodies.UNREADABLE.values())
    assert {dead_letter["worker"] for dead_letter in dead_letters} == {worker}


def test_redelivered_unreadable_message_adds_no_dead_letter(matching: Consumer, admin: Connection) -> None:
    unreadable = record("not JSON")

    matching.handle(event(unreadable), Context())
    admin.execute("UPDATE dead_letter SET status = 'ignored'")  # as if an operator closed it
    matching.handle(event(unreadable), Context())

    (dead_letter,) = rows(admin, "dead_letter")
    assert (dead_letter["status"], dead_letter["previous_failures"]) == ("ignored", [])
    assert len(rows(admin, "failure_event")) == 1


def test_identical_unreadable_messages_create_two_dead_letters(matching: Consumer, admin: Connection) -> None:
    matching.handle(event(record("not JSON"), record("not JSON")), Context())

    assert len(rows(admin, "dead_letter")) == 2


@pytest.mark.parametrize("encoding", message_bodies.UNUSUAL_ENCODINGS)
def test_unusual_message_encoding_claims_same_work_item(
    matching: Consumer, admin: Connection, pending: Pending, encoding: str
) -> None:
    unusual, plain = pending(), pending()

    response = matching.handle(
        event(record(message_bodies.UNUSUAL_ENCODINGS[encoding](unusual.work_id)), record(plain)), Context()
    )

    assert response == {"batchItemFailures": []}
    assert [life_cycle(admin, message.work_id)["status"] for message in (unusual, plain)] == ["succeeded"] * 2


def test_two_encodings_of_one_message_run_once(matching: Consumer, admin: Connection, pending: Pending) -> None:
    message, other_message = pending(), pending()
    other_encoding = message_bodies.UNUSUAL_ENCODINGS["no hyphens"](message.work_id)

    response = matching.handle(event(record(message), record(other_encoding), record(other_message)), Context())

    assert len(response["batchItemFailures"]) == 1  # only one message per work item is used at a time
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"]) == ("succeeded", 1)
    assert life_cycle(admin, other_message.work_id)["status"] == "succeeded"


@pytest.mark.parametrize("version", message_bodies.NEWER_VERSIONS)
def test_newer_schema_waits_for_deployment(
    matching: Consumer, admin: Connection, sqs: FakeSqs, pending: Pending, version: str
) -> None:
    current, newer = pending(), f'{{"schema_version": {message_bodies.NEWER_VERSIONS[version]}, "work": "{uuid4()}"}}'

    response = matching.handle(event(record(newer, handle="newer"), record(current)), Context())

    assert len(response["batchItemFailures"]) == 1
    assert sqs.visibility["newer"] == 300
    assert rows(admin, "dead_letter") == []
    assert life_cycle(admin, current.work_id)["status"] == "succeeded"


def test_newer_schema_is_reported_at_last_receive(matching: Consumer, admin: Connection, sqs: FakeSqs) -> None:
    newer = record('{"schema_version": 2}', receives=3, handle="newer")

    response = matching.handle(event(newer), Context())

    assert len(response["batchItemFailures"]) == 1
    assert rows(admin, "dead_letter") == []


def test_unknown_document_is_audited_without_dead_letter(
    matching: Consumer, admin: Connection, pending: Pending
) -> None:
    existing, unknown_message = pending(), Message(work_id=uuid4(), revision=1, send_number=0)

    response = matching.handle(event(record(unknown_message), record(existing)), Context())

    assert response == {"batchItemFailures": []}
    assert rows(admin, "dead_letter") == []
    (entry,) = rows(admin, "dead_letter_audit")
    assert entry["action"] == "unknown-work"
    assert life_cycle(admin, existing.work_id)["status"] == "succeeded"


@pytest.mark.parametrize("ahead", [{"revision": 2}, {"send_number": 1}, {"revision": 2**31 - 1}])
def test_message_ahead_of_row_enqueues_current_message(
    matching: Consumer, admin: Connection, tenant: UUID, sqs: FakeSqs, pending: Pending, ahead: dict[str, int]
) -> None:
    message, good = pending(), pending()

    response = matching.handle(event(record(message.model_copy(update=ahead)), record(good)), Context())

    assert response == {"batchItemFailures": []}
    (entry,) = rows(admin, "dead_letter_audit")
    assert (entry["action"], entry["actor"], entry["tenant_id"]) == ("enqueued-current", "matching", str(tenant))
    assert entry["detail"].items() >= ({"revision": 1, "send_number": 0} | ahead).items()
    (sent,) = sqs.sent[QUEUE_URL]
    assert Message.model_validate_json(sent["MessageBody"]) == message
    assert matching.handle(event(record(sent["MessageBody"])), Context()) == {"batchItemFailures": []}
    assert life_cycle(admin, message.work_id)["status"] == life_cycle(admin, good.work_id)["status"] == "succeeded"


def test_already_sent_current_message_is_enqueued_again(
    matching: Consumer, admin: Connection, tenant: UUID, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(next_attempt_at=clock() + timedelta(seconds=300))
    enqueue(admin, WORK_KINDS["matching"], [(message.work_id, tenant, 1, 0)], clock(), clock())
    admin.execute("UPDATE outbox SET sent_at = %s", [clock()])

    matching.handle(event(record(message.model_copy(update={"send_number": 1}))), Context())

    (sent,) = sqs.sent[QUEUE_URL]
    assert Message.model_validate_json(sent["MessageBody"]) == message
    assert sent["DelaySeconds"] == pytest.approx(300, abs=1)


def test_current_message_is_delayed_until_lease_expiry(
    matching: Consumer, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    lease = clock() + timedelta(seconds=90)
    message = pending(status="in-progress", attempts=1, claim_token=7, lease_expires_at=lease)

    matching.handle(event(record(message.model_copy(update={"send_number": 1}))), Context())

    (sent,) = sqs.sent[QUEUE_URL]
    assert sent["DelaySeconds"] == pytest.approx(90, abs=1)


def test_current_message_is_not_sent_without_audit_entry(
    matching: Consumer, admin: Connection, sqs: FakeSqs, pending: Pending, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = pending()
    monkeypatch.setattr(settlement, "audit", Mock(side_effect=DatabaseUnavailableError("away")))

    response = matching.handle(event(record(message.model_copy(update={"revision": 2}))), Context())

    assert len(response["batchItemFailures"]) == 1
    assert rows(admin, "outbox") == rows(admin, "dead_letter_audit") == []
    assert not sqs.sent[QUEUE_URL]


@pytest.mark.parametrize("data", [None, {}, {"invoice_number": None}])
def test_document_without_structured_data_is_skipped(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    tenant: UUID,
    make_document: Callable[..., UUID],
    data: dict[str, None] | None,
) -> None:
    state: dict[str, Any] = {"matching_status": "pending", "matching_revision": 1}
    empty = make_document(tenant, data, type="invoice", **state)
    full = make_document(tenant, {"invoice_number": "R-4711", "issuer": {"name": "Acme"}}, type="invoice", **state)
    messages = [Message(work_id=work_id, revision=1, send_number=0) for work_id in (empty, full)]

    response = make_consumer(database, match, clock).handle(event(*map(record, messages)), Context())

    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, empty)
    assert (row["status"], row["error"], row["attempts"]) == (None, None, 1)
    assert row["skip_reason"]
    assert life_cycle(admin, full)["status"] == "succeeded"
    assert rows(admin, "dead_letter") == []


# -- S3 events --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", message_bodies.UNREADABLE_UPLOADS)
def test_only_unreadable_s3_event_is_dead_lettered(
    acquisition: Consumer, admin: Connection, tenant: UUID, name: str
) -> None:
    body = message_bodies.UNREADABLE_UPLOADS[name]

    response = acquisition.handle(event(record(body), record(valid_upload_event())), Context())

    assert response == {"batchItemFailures": []}
    assert statuses_by_key(admin) == {"uploads/acme/good.xml": "succeeded"}
    (dead_letter,) = rows(admin, "dead_letter")
    assert (dead_letter["worker"], dead_letter["work_id"]) == ("acquisition", None)
    assert body_of(dead_letter) == body


@pytest.mark.parametrize("name", message_bodies.EVENTS_WITHOUT_UPLOAD)
def test_s3_event_without_upload_is_acknowledged(
    acquisition: Consumer, admin: Connection, tenant: UUID, name: str
) -> None:
    response = acquisition.handle(
        event(record(message_bodies.EVENTS_WITHOUT_UPLOAD[name]), record(valid_upload_event())), Context()
    )

    assert response == {"batchItemFailures": []}
    assert statuses_by_key(admin) == {"uploads/acme/good.xml": "succeeded"}
    assert rows(admin, "dead_letter") == []


@pytest.mark.parametrize("name", message_bodies.ENCODED_KEYS)
def test_s3_key_is_decoded(acquisition: Consumer, admin: Connection, tenant: UUID, name: str) -> None:
    encoded, decoded = message_bodies.ENCODED_KEYS[name]

    response = acquisition.handle(
        event(record(s3_event(object_created(encoded))), record(valid_upload_event())), Context()
    )

    assert response == {"batchItemFailures": []}
    assert statuses_by_key(admin) == {decoded: "succeeded", "uploads/acme/good.xml": "succeeded"}
    assert {job["tenant_id"] for job in rows(admin, "acquisition_job")} == {str(tenant)}


@pytest.mark.parametrize("name", message_bodies.KEYS_WITHOUT_TENANT)
def test_upload_without_tenant_becomes_unassigned_dead_letter(
    database: Database, sqs: FakeSqs, clock: Clock, admin: Connection, tenant: UUID, name: str
) -> None:
    worker = {"name": "acquisition", "timeout": 120, "permits": 2, "start_margin": 30}
    consumer = make_consumer(database, WORKER, clock, read=files.read_event, worker=worker)
    folder = s3_event(object_created("uploads/acme/folder/"))  # skipped without a request to S3

    response = consumer.handle(
        event(record(s3_event(object_created(message_bodies.KEYS_WITHOUT_TENANT[name]))), record(folder)), Context()
    )

    assert response == {"batchItemFailures": []}
    states = statuses_by_key(admin)
    assert states.pop("uploads/acme/folder/") is None
    assert list(states.values()) == ["failed"]
    (dead_letter,) = rows(admin, "dead_letter")
    assert (dead_letter["tenant_id"], dead_letter["attempts"], dead_letter["dlq_reason"]) == (
        None,
        1,
        "non_retriable_error",
    )
    assert dead_letter["payload"]["file"] == {"bucket": "uploads", "key": next(iter(states))}


def test_each_upload_in_event_gets_one_message(
    acquisition: Consumer, admin: Connection, sqs: FakeSqs, tenant: UUID
) -> None:
    notification = s3_event(
        object_created("uploads/acme/1.xml"),
        object_created("uploads/acme/gone.xml", name="ObjectRemoved:Delete"),
        object_created("uploads/missing/2.xml"),
        object_created("uploads/acme/1.xml"),  # duplicate
    )

    response = acquisition.handle(event(record(notification), record(valid_upload_event())), Context())

    assert response == {"batchItemFailures": []}
    assert statuses_by_key(admin) == {
        "uploads/acme/1.xml": "pending",
        "uploads/missing/2.xml": "pending",
        "uploads/acme/good.xml": "succeeded",
    }
    assert len(rows(admin, "outbox")) == 2

    acquisition.handle(event(record(notification)), Context())  # redelivered
    assert len(rows(admin, "outbox")) == 2


# -- values PostgreSQL rejects ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"revision": 2**40, "send_number": 0},
        {"revision": 1, "send_number": 2**31},
        {"revision": 1, "send_number": 0, "a\x00b": 1},
        {"revision": 1, "send_number": 0, "\ud800": 1},
    ],
)
def test_only_message_with_rejected_value_is_dead_lettered(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, bad: dict[str, Any]
) -> None:
    good = pending()
    body = json.dumps({"schema_version": 1, "work_id": str(uuid4())} | bad)

    response = make_consumer(database, succeed, clock).handle(event(record(body), record(good)), Context())

    assert response == {"batchItemFailures": []}
    assert life_cycle(admin, good.work_id)["status"] == "succeeded"
    assert len(rows(admin, "dead_letter")) == 1
    assert len(rows(admin, "failure_event")) == 1


def test_archiver_dead_letters_message_with_rejected_value(
    maintenance_database: Database, admin: Connection, sqs: FakeSqs, clock: Clock
) -> None:
    archiver = Archiver(maintenance_database, Outbox(maintenance_database, {}, clock=clock), RedeliverPolicy(), clock)
    body = json.dumps({"schema_version": 1, "work_id": str(uuid4()), "revision": 2**40, "send_number": 0})

    assert archiver.process("matching", SQSRecord(record(body))) is None

    assert len(rows(admin, "dead_letter")) == 1


def test_only_upload_with_nul_in_key_fails(acquisition: Consumer, admin: Connection, tenant: UUID) -> None:
    bad = s3_event(object_created("uploads/acme/a%00b.xml"))

    response = acquisition.handle(event(record(bad), record(valid_upload_event())), Context())

    assert response == {"batchItemFailures": []}
    assert statuses_by_key(admin) == {"uploads/acme/good.xml": "succeeded"}
    assert len(rows(admin, "dead_letter")) == 1
