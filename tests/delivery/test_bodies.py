"""Bodies that no message of ours has: each to its outcome, and the batch's other records untouched."""

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
from counterfoil.kinds import KINDS
from functions.acquisition.work import WORKER
from functions.dead_letters.archiver import Archiver
from functions.matching.work import match
from tests.delivery import bodies
from tests.delivery.bodies import body_of, created, s3_event
from tests.delivery.harness import (
    DONE,
    QUEUE_URL,
    Clock,
    Context,
    FakeSqs,
    done,
    event,
    life_cycle,
    make_consumer,
    record,
    rows,
)

Pending = Callable[..., Message]


@pytest.fixture
def matching(database: Database, sqs: FakeSqs, clock: Clock) -> Consumer:
    return make_consumer(database, done, clock)


@pytest.fixture
def acquisition(database: Database, sqs: FakeSqs, clock: Clock) -> Consumer:
    """A consumer of uploads whose files need no reading: only whose tenant is known succeeds."""

    def work(attempt: TenantAttempt) -> Succeeded:
        if attempt.tenant_id is None:
            raise UnknownTenantError("The key names no tenant that exists", code="key_without_tenant")
        return DONE

    worker = {"name": "acquisition", "timeout": 120, "permits": 2, "start_margin": 30}
    return make_consumer(database, work, clock, read=files.read_event, worker=worker)


def good_upload() -> str:
    return s3_event(created("uploads/acme/good.xml"))


def by_key(admin: Connection) -> dict[str, str | None]:
    """The state of each upload, by its key."""
    return {job["key"]: job["status"] for job in rows(admin, "acquisition_job")}


@pytest.mark.parametrize("name", bodies.UNREADABLE)
def test_an_unreadable_body_becomes_a_dead_letter_and_its_neighbours_succeed(
    matching: Consumer, admin: Connection, pending: Pending, name: str
) -> None:
    before, after = pending(), pending()

    response = matching.handle(event(record(before), record(bodies.UNREADABLE[name]), record(after)), Context())

    assert response == {"batchItemFailures": []}
    assert [life_cycle(admin, message.work_id)["status"] for message in (before, after)] == ["succeeded"] * 2
    (letter,) = rows(admin, "dead_letter")
    assert (letter["worker"], letter["work_id"], letter["dlq_reason"]) == ("matching", None, "non_retriable_error")
    assert body_of(letter) == bodies.UNREADABLE[name]
    assert letter["metadata"]["last_error"]["message"].startswith("The message")
    assert "counterfoil.delivery.work:" in letter["metadata"]["last_error"]["context"]["traceback"]
    assert bodies.WORK not in str(letter["metadata"])
    assert len(rows(admin, "notification")) == 1


@pytest.mark.parametrize("which", ["matching", "acquisition"])
def test_a_batch_of_nothing_but_unreadable_bodies_is_as_many_dead_letters(
    request: pytest.FixtureRequest, admin: Connection, which: str
) -> None:
    consumer: Consumer = request.getfixturevalue(which)

    response = consumer.handle(event(*map(record, bodies.UNREADABLE.values())), Context())

    assert response == {"batchItemFailures": []}
    letters = rows(admin, "dead_letter")
    assert sorted(body_of(letter) for letter in letters) == sorted(bodies.UNREADABLE.values())
    assert {letter["worker"] for letter in letters} == {which}


def test_the_same_unreadable_message_twice_is_one_dead_letter(matching: Consumer, admin: Connection) -> None:
    same = record("not JSON")

    matching.handle(event(same), Context())
    admin.execute("UPDATE dead_letter SET status = 'ignored'")  # a person has seen it
    matching.handle(event(same), Context())

    (letter,) = rows(admin, "dead_letter")
    assert (letter["status"], letter["lineage"]) == ("ignored", [])
    assert len(rows(admin, "notification")) == 1


def test_the_same_body_in_two_messages_is_two_dead_letters(matching: Consumer, admin: Connection) -> None:
    matching.handle(event(record("not JSON"), record("not JSON")), Context())

    assert len(rows(admin, "dead_letter")) == 2


@pytest.mark.parametrize("form", bodies.ODD_FORMS)
def test_an_odd_form_of_a_message_names_the_same_work(
    matching: Consumer, admin: Connection, pending: Pending, form: str
) -> None:
    odd, good = pending(), pending()

    response = matching.handle(event(record(bodies.ODD_FORMS[form](odd.work_id)), record(good)), Context())

    assert response == {"batchItemFailures": []}
    assert [life_cycle(admin, message.work_id)["status"] for message in (odd, good)] == ["succeeded"] * 2


def test_two_forms_of_one_message_in_a_batch_are_one_work(
    matching: Consumer, admin: Connection, pending: Pending
) -> None:
    message, good = pending(), pending()
    odd = bodies.ODD_FORMS["no hyphens"](message.work_id)

    response = matching.handle(event(record(message), record(odd), record(good)), Context())

    assert len(response["batchItemFailures"]) == 1  # running, for all that this batch knows
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"]) == ("succeeded", 1)
    assert life_cycle(admin, good.work_id)["status"] == "succeeded"


@pytest.mark.parametrize("version", bodies.NEWER)
def test_a_newer_schema_waits_for_the_deployment(
    matching: Consumer, admin: Connection, sqs: FakeSqs, pending: Pending, version: str
) -> None:
    good, newer = pending(), f'{{"schema_version": {bodies.NEWER[version]}, "work": "{uuid4()}"}}'

    response = matching.handle(event(record(newer, handle="newer"), record(good)), Context())

    assert len(response["batchItemFailures"]) == 1
    assert sqs.visibility["newer"] == 300
    assert rows(admin, "dead_letter") == []
    assert life_cycle(admin, good.work_id)["status"] == "succeeded"


def test_a_newer_schema_at_its_last_receive_is_left_to_the_dead_letter_queue(
    matching: Consumer, admin: Connection, sqs: FakeSqs
) -> None:
    newer = record('{"schema_version": 2}', receives=3, handle="newer")

    response = matching.handle(event(newer), Context())

    assert len(response["batchItemFailures"]) == 1
    assert rows(admin, "dead_letter") == []


def test_an_unknown_document_leaves_a_trace_and_no_dead_letter(
    matching: Consumer, admin: Connection, pending: Pending
) -> None:
    good, unknown = pending(), Message(work_id=uuid4(), revision=1, send_number=0)

    response = matching.handle(event(record(unknown), record(good)), Context())

    assert response == {"batchItemFailures": []}
    assert rows(admin, "dead_letter") == []
    (entry,) = rows(admin, "dead_letter_audit")
    assert entry["action"] == "unknown-work"
    assert life_cycle(admin, good.work_id)["status"] == "succeeded"


@pytest.mark.parametrize("ahead", [{"revision": 2}, {"send_number": 1}, {"revision": 2**31 - 1}])
def test_newer_message_than_its_row_enqueues_the_current_one(
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
    enqueue(admin, KINDS["matching"], [(message.work_id, tenant, 1, 0)], clock(), clock())
    admin.execute("UPDATE outbox SET sent_at = %s", [clock()])

    matching.handle(event(record(message.model_copy(update={"send_number": 1}))), Context())

    (sent,) = sqs.sent[QUEUE_URL]
    assert Message.model_validate_json(sent["MessageBody"]) == message
    assert sent["DelaySeconds"] == pytest.approx(300, abs=1)


def test_current_message_waits_for_the_lease(matching: Consumer, sqs: FakeSqs, clock: Clock, pending: Pending) -> None:
    lease = clock() + timedelta(seconds=90)
    message = pending(status="in-progress", attempts=1, claim_token=7, lease_expires_at=lease)

    matching.handle(event(record(message.model_copy(update={"send_number": 1}))), Context())

    (sent,) = sqs.sent[QUEUE_URL]
    assert sent["DelaySeconds"] == pytest.approx(90, abs=1)


def test_current_message_is_enqueued_only_with_its_audit_entry(
    matching: Consumer, admin: Connection, sqs: FakeSqs, pending: Pending, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = pending()
    monkeypatch.setattr(settlement, "audit", Mock(side_effect=DatabaseUnavailableError("away")))

    response = matching.handle(event(record(message.model_copy(update={"revision": 2}))), Context())

    assert len(response["batchItemFailures"]) == 1
    assert rows(admin, "outbox") == rows(admin, "dead_letter_audit") == []
    assert not sqs.sent[QUEUE_URL]


@pytest.mark.parametrize("data", [None, {}, {"invoice_number": None}])
def test_a_document_without_structured_data_is_skipped_with_a_reason(
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
    assert row["reason"]
    assert life_cycle(admin, full)["status"] == "succeeded"
    assert rows(admin, "dead_letter") == []


# -- events of S3 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", bodies.UNREADABLE_UPLOADS)
def test_an_unreadable_event_of_s3_becomes_a_dead_letter_and_its_neighbour_succeeds(
    acquisition: Consumer, admin: Connection, tenant: UUID, name: str
) -> None:
    body = bodies.UNREADABLE_UPLOADS[name]

    response = acquisition.handle(event(record(body), record(good_upload())), Context())

    assert response == {"batchItemFailures": []}
    assert by_key(admin) == {"uploads/acme/good.xml": "succeeded"}
    (letter,) = rows(admin, "dead_letter")
    assert (letter["worker"], letter["work_id"]) == ("acquisition", None)
    assert body_of(letter) == body


@pytest.mark.parametrize("name", bodies.NO_UPLOAD)
def test_an_event_of_s3_that_brings_nothing_is_acknowledged(
    acquisition: Consumer, admin: Connection, tenant: UUID, name: str
) -> None:
    response = acquisition.handle(event(record(bodies.NO_UPLOAD[name]), record(good_upload())), Context())

    assert response == {"batchItemFailures": []}
    assert by_key(admin) == {"uploads/acme/good.xml": "succeeded"}
    assert rows(admin, "dead_letter") == []


@pytest.mark.parametrize("name", bodies.KEYS)
def test_a_key_is_read_as_s3_meant_it(acquisition: Consumer, admin: Connection, tenant: UUID, name: str) -> None:
    written, meant = bodies.KEYS[name]

    response = acquisition.handle(event(record(s3_event(created(written))), record(good_upload())), Context())

    assert response == {"batchItemFailures": []}
    assert by_key(admin) == {meant: "succeeded", "uploads/acme/good.xml": "succeeded"}
    assert {job["tenant_id"] for job in rows(admin, "acquisition_job")} == {str(tenant)}


@pytest.mark.parametrize("name", bodies.NO_TENANT)
def test_an_upload_for_nobody_is_a_dead_letter_of_no_tenant(
    database: Database, sqs: FakeSqs, clock: Clock, admin: Connection, tenant: UUID, name: str
) -> None:
    worker = {"name": "acquisition", "timeout": 120, "permits": 2, "start_margin": 30}
    consumer = make_consumer(database, WORKER, clock, read=files.read_event, worker=worker)
    folder = s3_event(created("uploads/acme/folder/"))  # which acquisition skips without asking S3

    response = consumer.handle(event(record(s3_event(created(bodies.NO_TENANT[name]))), record(folder)), Context())

    assert response == {"batchItemFailures": []}
    states = by_key(admin)
    assert states.pop("uploads/acme/folder/") is None
    assert list(states.values()) == ["failed"]
    (letter,) = rows(admin, "dead_letter")
    assert (letter["tenant_id"], letter["attempts"], letter["dlq_reason"]) == (None, 1, "non_retriable_error")
    assert letter["payload"]["file"] == {"bucket": "uploads", "key": next(iter(states))}


def test_several_uploads_in_one_event_get_messages_of_their_own(
    acquisition: Consumer, admin: Connection, sqs: FakeSqs, tenant: UUID
) -> None:
    several = s3_event(
        created("uploads/acme/1.xml"),
        created("uploads/acme/gone.xml", name="ObjectRemoved:Delete"),
        created("uploads/nobody/2.xml"),
        created("uploads/acme/1.xml"),  # the same again
    )

    response = acquisition.handle(event(record(several), record(good_upload())), Context())

    assert response == {"batchItemFailures": []}
    assert by_key(admin) == {
        "uploads/acme/1.xml": "pending",
        "uploads/nobody/2.xml": "pending",
        "uploads/acme/good.xml": "succeeded",
    }
    assert len(rows(admin, "outbox")) == 2

    acquisition.handle(event(record(several)), Context())  # delivered twice
    assert len(rows(admin, "outbox")) == 2


# -- what PostgreSQL cannot hold --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"revision": 2**40, "send_number": 0},
        {"revision": 1, "send_number": 2**31},
        {"revision": 1, "send_number": 0, "a\x00b": 1},
        {"revision": 1, "send_number": 0, "\ud800": 1},
    ],
)
def test_a_value_that_postgres_cannot_hold_is_a_dead_letter_of_its_own(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, bad: dict[str, Any]
) -> None:
    good = pending()
    body = json.dumps({"schema_version": 1, "work_id": str(uuid4())} | bad)

    response = make_consumer(database, done, clock).handle(event(record(body), record(good)), Context())

    assert response == {"batchItemFailures": []}
    assert life_cycle(admin, good.work_id)["status"] == "succeeded"
    assert len(rows(admin, "dead_letter")) == 1
    assert len(rows(admin, "notification")) == 1


def test_the_archiver_settles_such_a_value_too(
    keeper_database: Database, admin: Connection, sqs: FakeSqs, clock: Clock
) -> None:
    archiver = Archiver(keeper_database, Outbox(keeper_database, {}, clock=clock), RedeliverPolicy(), clock)
    body = json.dumps({"schema_version": 1, "work_id": str(uuid4()), "revision": 2**40, "send_number": 0})

    assert archiver.settle("matching", SQSRecord(record(body))) is None

    assert len(rows(admin, "dead_letter")) == 1


def test_an_upload_whose_key_holds_nul_fails_alone(acquisition: Consumer, admin: Connection, tenant: UUID) -> None:
    bad = s3_event(created("uploads/acme/a%00b.xml"))

    response = acquisition.handle(event(record(bad), record(good_upload())), Context())

    assert response == {"batchItemFailures": []}
    assert by_key(admin) == {"uploads/acme/good.xml": "succeeded"}
    assert len(rows(admin, "dead_letter")) == 1
