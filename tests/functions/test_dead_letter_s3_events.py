"""The archiver returns S3 events that no worker processed.

Dead letters preserve the data for a retry.
"""

from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

import pytest

from counterfoil.db import Connection
from counterfoil.delivery.work import Message, start_revision
from functions.dead_letters.archiver import Archiver, RetryAfter
from tests.delivery import message_bodies
from tests.delivery.harness import Clock, FakeSqs, rows
from tests.delivery.message_bodies import body_of, object_created, s3_event
from tests.functions.test_dead_letters import archiver, dlq_record

__all__ = ["archiver"]


@pytest.mark.parametrize("name", message_bodies.EVENTS_WITHOUT_UPLOAD)
def test_s3_event_without_objects_stores_nothing(archiver: Archiver, admin: Connection, name: str) -> None:
    assert archiver.process("acquisition", dlq_record(message_bodies.EVENTS_WITHOUT_UPLOAD[name])) is None

    assert rows(admin, "acquisition_job") == rows(admin, "dead_letter") == []


@pytest.mark.parametrize("name", message_bodies.ENCODED_KEYS)
def test_unattempted_upload_is_returned_with_decoded_key(
    archiver: Archiver, admin: Connection, make_tenant: Callable[..., UUID], name: str
) -> None:
    tenant_id = make_tenant("acme")
    encoded_key, decoded_key = message_bodies.ENCODED_KEYS[name]

    archiver.process("acquisition", dlq_record(s3_event(object_created(encoded_key))))

    (job,) = rows(admin, "acquisition_job")
    assert (job["key"], job["tenant_id"], job["send_number"]) == (decoded_key, str(tenant_id), 1)


@pytest.mark.parametrize("name", message_bodies.KEYS_WITHOUT_TENANT)
def test_unattempted_upload_without_a_tenant_is_returned(
    archiver: Archiver, admin: Connection, sqs: FakeSqs, make_tenant: Callable[..., UUID], name: str
) -> None:
    make_tenant("acme")

    archiver.process("acquisition", dlq_record(s3_event(object_created(message_bodies.KEYS_WITHOUT_TENANT[name]))))

    (job,) = rows(admin, "acquisition_job")
    assert (job["tenant_id"], job["status"], job["send_number"]) == (None, "pending", 1)
    assert "MessageGroupId" not in sqs.sent["acquisition"][0]


def test_event_with_several_uploads_settles_each_once(
    archiver: Archiver, admin: Connection, sqs: FakeSqs, clock: Clock, make_tenant: Callable[..., UUID]
) -> None:
    make_tenant("acme")
    batch = dlq_record(
        s3_event(*[object_created(f"uploads/acme/{n}.xml") for n in range(5)], object_created("uploads/acme/0.xml"))
    )
    lease = clock.now + timedelta(seconds=60)
    for body in (s3_event(object_created("uploads/acme/3.xml")), s3_event(object_created("uploads/acme/4.xml"))):
        archiver.process("acquisition", dlq_record(body))
    running = "UPDATE acquisition_job SET status = 'in-progress', send_number = 0, lease_expires_at = %s WHERE key = %s"
    admin.execute(running, [lease, "uploads/acme/4.xml"])
    admin.execute("DELETE FROM outbox")

    retained = archiver.process("acquisition", batch)  # the message for 3 is outdated, and 4 is running

    assert retained == RetryAfter(61)
    returned = {job["key"][-5]: job["send_number"] for job in rows(admin, "acquisition_job")}
    assert returned == {"0": 1, "1": 1, "2": 1, "3": 1, "4": 0}
    clock.advance(seconds=61)
    assert archiver.process("acquisition", batch) is None
    returned = {job["key"][-5]: job["send_number"] for job in rows(admin, "acquisition_job")}
    assert returned == {"0": 1, "1": 1, "2": 1, "3": 1, "4": 1}


@pytest.mark.parametrize("is_own_tenant", [False, True])
def test_returned_upload_is_assigned_to_new_tenant(
    archiver: Archiver, admin: Connection, sqs: FakeSqs, make_tenant: Callable[..., UUID], is_own_tenant: bool
) -> None:
    arrival = dlq_record(s3_event(object_created("uploads/acme/a.xml")))
    archiver.process("acquisition", arrival)
    admin.execute("UPDATE acquisition_job SET send_number = 0, dlq_returns = 0; DELETE FROM outbox")
    tenant_id = make_tenant("acme")
    (job,) = rows(admin, "acquisition_job")

    archiver.process(
        "acquisition", dlq_record(Message(work_id=job["id"], revision=1, send_number=0)) if is_own_tenant else arrival
    )

    (job,) = rows(admin, "acquisition_job")
    assert (job["tenant_id"], job["send_number"]) == (str(tenant_id), 1)
    assert sqs.sent["acquisition"][-1]["MessageGroupId"] == str(tenant_id)


# -- preserved data ---------------------------------------------------------------------------------------------------


def test_dead_lettered_upload_can_be_retried(
    archiver: Archiver, admin: Connection, sqs: FakeSqs, clock: Clock, make_tenant: Callable[..., UUID]
) -> None:
    tenant_id = make_tenant("acme")
    arrival = s3_event(object_created("uploads/acme/a+b.xml", versionId="v1", sequencer="0A"))
    archiver.process("acquisition", dlq_record(arrival))
    admin.execute("UPDATE acquisition_job SET dlq_returns = 2, attempts = 1, send_number = 0")
    archiver.process("acquisition", dlq_record(arrival))
    admin.execute("DELETE FROM outbox")

    (dead_letter,) = rows(admin, "dead_letter")
    assert dead_letter["payload"]["file"] == {"bucket": "uploads", "key": "uploads/acme/a b.xml"}
    assert dead_letter["payload"]["dead_letter_queue_body"] == arrival
    work_id = UUID(dead_letter["payload"]["message"]["work_id"])
    (outbox_message,) = start_revision(admin, dead_letter["worker"], [work_id], clock.now)
    assert (outbox_message.message, outbox_message.tenant_id) == (
        Message(work_id=work_id, revision=2, send_number=0),
        tenant_id,
    )
    (job,) = rows(admin, "acquisition_job")
    assert (job["bucket"], job["key"], job["version"]) == ("uploads", "uploads/acme/a b.xml", "v1")


@pytest.mark.parametrize("body", ["\U0001f4c4 {", '"\x01"', "x" * 1024 * 1024, "\x00", "\ud800", "\r\n\t"])
def test_unreadable_body_is_stored_unchanged(archiver: Archiver, admin: Connection, body: str) -> None:
    archiver.process("matching", dlq_record(body))

    (dead_letter,) = rows(admin, "dead_letter")
    assert (dead_letter["worker"], body_of(dead_letter)) == ("matching", body)
