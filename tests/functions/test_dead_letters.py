"""Each branch of the archiver: what becomes of a message in a dead-letter queue."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil.db import Connection, Database
from counterfoil.delivery import store
from counterfoil.errors import NewerSchemaError, StaleClaimError
from counterfoil.messages import Message
from counterfoil.outbox import Outbox
from counterfoil.retry import RedeliverPolicy
from counterfoil.work import KINDS
from functions.dead_letters.archiver import Archiver, Waiting
from tests.delivery.harness import QUEUE_URL, Clock, FakeSqs, life_cycle, record, rows

DLQ_ARN = "arn:aws:sqs:eu-central-1:000000000000:counterfoil-matching-dlq"
Pending = Callable[..., Message]


@pytest.fixture
def archiver(keeper_database: Database, clock: Clock, sqs: FakeSqs) -> Archiver:
    queues = {"matching": QUEUE_URL, "acquisition": "acquisition"}
    return Archiver(keeper_database, Outbox(keeper_database, queues, clock=clock), RedeliverPolicy(), clock)


def dead(body: str | Message) -> SQSRecord:
    return SQSRecord(record(body, receives=1, arn=DLQ_ARN))


def actions(admin: Connection) -> list[str]:
    return [entry["action"] for entry in rows(admin, "dead_letter_audit")]


def test_work_that_never_ran_is_returned_with_a_wait_and_a_new_message(
    archiver: Archiver,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
) -> None:
    message = pending()

    assert archiver.settle("matching", dead(message)) is None

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["returns"], row["send_number"]) == ("pending", 0, 1, 1)
    assert row["next_attempt_at"] == clock.now + timedelta(seconds=300)
    (sent,) = sqs.sent[QUEUE_URL]
    assert sent["DelaySeconds"] == 300
    assert json.loads(sent["MessageBody"])["send_number"] == 1
    assert actions(admin) == ["returned"]
    assert rows(admin, "dead_letter") == []


def test_work_of_a_worker_that_was_killed_is_returned_and_its_try_made_stale(
    archiver: Archiver,
    admin: Connection,
    clock: Clock,
    pending: Pending,
) -> None:
    lapsed = clock.now - timedelta(seconds=1)
    message = pending(status="in-progress", attempts=1, claim_token=0, lease_expires_at=lapsed)

    archiver.settle("matching", dead(message))

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["returns"]) == ("pending", 1, 1)
    assert row["claim_token"] > 0


def test_work_that_came_back_twice_is_dead_at_the_third_time(
    archiver: Archiver,
    admin: Connection,
    pending: Pending,
) -> None:
    message = pending(returns=2)

    archiver.settle("matching", dead(message))

    assert life_cycle(admin, message.work_id)["status"] == "failed"
    (letter,) = rows(admin, "dead_letter")
    assert letter["job_id"] == str(KINDS["matching"].job_id(message.work_id))
    assert letter["payload"]["file"]["file_name"].endswith(".xml")
    assert len(rows(admin, "notification")) == 1


def test_a_last_attempt_that_never_settled_is_dead(
    archiver: Archiver,
    admin: Connection,
    clock: Clock,
    pending: Pending,
) -> None:
    lapsed = clock.now - timedelta(seconds=1)
    message = pending(status="in-progress", attempts=3, lease_expires_at=lapsed)

    archiver.settle("matching", dead(message))

    assert life_cycle(admin, message.work_id)["status"] == "failed"
    assert [letter["dlq_reason"] for letter in rows(admin, "dead_letter")] == ["max_retries_exceeded"]


def test_running_work_keeps_its_message_until_the_lease_is_over(
    archiver: Archiver,
    admin: Connection,
    clock: Clock,
    pending: Pending,
) -> None:
    message = pending(status="in-progress", attempts=1, lease_expires_at=clock.now + timedelta(seconds=60))

    assert archiver.settle("matching", dead(message)) == Waiting(61)
    assert life_cycle(admin, message.work_id)["status"] == "in-progress"


@pytest.mark.parametrize("status", ["succeeded", "failed", None])
def test_a_message_of_ended_work_leaves_a_trace_and_changes_nothing(
    archiver: Archiver,
    admin: Connection,
    pending: Pending,
    status: str | None,
) -> None:
    message = pending(status=status)
    before = life_cycle(admin, message.work_id)

    assert archiver.settle("matching", dead(message)) is None

    assert life_cycle(admin, message.work_id) == before
    assert actions(admin) == ["dropped"]
    assert rows(admin, "dead_letter") == []


def test_an_older_copy_changes_nothing(archiver: Archiver, admin: Connection, pending: Pending) -> None:
    message = pending(send_number=2).model_copy(update={"send_number": 1})

    archiver.settle("matching", dead(message))

    assert life_cycle(admin, message.work_id)["returns"] == 0
    assert actions(admin) == ["dropped"]


def test_unknown_work_leaves_a_trace(archiver: Archiver, admin: Connection) -> None:
    archiver.settle("matching", dead(Message(work_id=uuid4(), revision=1, send_number=0)))

    assert actions(admin) == ["dropped-unknown"]


def test_an_unreadable_message_is_a_dead_letter_once(archiver: Archiver, admin: Connection) -> None:
    message = dead("not JSON")

    archiver.settle("matching", message)
    archiver.settle("matching", message)

    (letter,) = rows(admin, "dead_letter")
    assert (letter["payload"]["body"], letter["work_id"]) == ("not JSON", None)


def test_a_newer_schema_stays_in_its_queue(archiver: Archiver, admin: Connection) -> None:
    with pytest.raises(NewerSchemaError):
        archiver.settle("matching", dead('{"schema_version": 2}'))


def test_an_upload_that_no_worker_ever_saw_is_registered_and_returned(
    archiver: Archiver,
    admin: Connection,
    sqs: FakeSqs,
    make_tenant: Callable[..., UUID],
) -> None:
    tenant_id = make_tenant("acme")

    archiver.settle("acquisition", dead(s3_event("uploads/acme/a+b.xml")))

    (job,) = rows(admin, "acquisition_job")
    assert (job["key"], job["tenant_id"], job["status"], job["returns"]) == (
        "uploads/acme/a b.xml",
        str(tenant_id),
        "pending",
        1,
    )
    assert len(sqs.sent["acquisition"]) == 1


def test_archiving_twice_is_archiving_once(archiver: Archiver, admin: Connection, pending: Pending) -> None:
    message = dead(pending())

    archiver.settle("matching", message)
    archiver.settle("matching", message)

    assert actions(admin) == ["returned", "dropped"]  # the second copy is of an older send number


def s3_event(key: str, sequencer: str = "0055AED6DCD90281E5") -> str:
    item: dict[str, Any] = {
        "eventName": "ObjectCreated:Put",
        "s3": {"bucket": {"name": "uploads"}, "object": {"key": key, "size": 3, "sequencer": sequencer}},
    }
    return json.dumps({"Records": [item]})


def test_the_message_that_followed_failed_work_is_joined_to_its_dead_letter(
    archiver: Archiver, admin: Connection, pending: Pending
) -> None:
    message = pending(returns=2)
    archiver.settle("matching", dead(message))  # dead, by the archiver itself
    followed = dead(message)

    archiver.settle("matching", followed)

    (letter,) = rows(admin, "dead_letter")
    assert letter["payload"]["dead_letter_queue_message"] == followed.message_id
    assert actions(admin) == ["dead", "joined"]
    assert len(rows(admin, "notification")) == 1


def test_the_last_error_that_was_settled_is_told_beside_the_loss_of_the_worker(
    archiver: Archiver, admin: Connection, clock: Clock, pending: Pending
) -> None:
    lapsed = clock.now - timedelta(seconds=1)
    message = pending(status="in-progress", attempts=3, lease_expires_at=lapsed, error="S3 is slow")

    archiver.settle("matching", dead(message))

    (letter,) = rows(admin, "dead_letter")
    assert letter["metadata"]["last_error"]["message"].endswith("; the error before that: S3 is slow")


def test_a_late_worker_cannot_settle_what_the_archiver_returned(
    archiver: Archiver, admin: Connection, database: Database, clock: Clock, pending: Pending
) -> None:
    lapsed = clock.now - timedelta(seconds=1)
    message = pending(status="in-progress", attempts=1, claim_token=5, lease_expires_at=lapsed)
    late = store.Claim(store.Answer.MINE, message, None, 1, 5)

    archiver.settle("matching", dead(message))

    with pytest.raises(StaleClaimError), database.delivery() as connection:
        store.succeed(connection, KINDS["matching"], late, None)
    assert life_cycle(admin, message.work_id)["status"] == "pending"
