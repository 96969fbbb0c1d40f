"""The archiver returns, dead-letters, drops or retains each message from a DLQ."""

import json
from collections.abc import Callable
from datetime import timedelta
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil.db import Connection, Database
from counterfoil.delivery import sql
from counterfoil.delivery.attempt import Effects, Succeeded
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import RedeliverPolicy
from counterfoil.delivery.work import Message, start_revision
from counterfoil.errors import ServiceUnavailableError, StaleClaimError, UnsupportedSchemaError
from counterfoil.kinds import WORK_KINDS
from functions.dead_letters.archiver import Archiver, RetryAfter
from functions.watchdog.recovery import Watchdog
from tests.delivery import message_bodies
from tests.delivery.harness import (
    QUEUE_URL,
    Clock,
    Context,
    FakeSqs,
    event,
    life_cycle,
    make_consumer,
    record,
    rows,
    settings,
)
from tests.delivery.message_bodies import body_of, object_created, s3_event

DLQ_ARN = "arn:aws:sqs:eu-central-1:000000000000:counterfoil-matching-dlq"
Pending = Callable[..., Message]


@pytest.fixture
def archiver(maintenance_database: Database, clock: Clock, sqs: FakeSqs) -> Archiver:
    queues = {"matching": QUEUE_URL, "acquisition": "acquisition"}
    return Archiver(maintenance_database, Outbox(maintenance_database, queues, clock=clock), RedeliverPolicy(), clock)


def dlq_record(body: str | Message) -> SQSRecord:
    return SQSRecord(record(body, receives=1, arn=DLQ_ARN))


def actions(admin: Connection) -> list[str]:
    return [entry["action"] for entry in rows(admin, "dead_letter_audit")]


def test_unattempted_work_item_is_returned_after_delay(
    archiver: Archiver,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
) -> None:
    message = pending()

    assert archiver.process("matching", dlq_record(message)) is None

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["dlq_returns"], row["send_number"]) == ("pending", 0, 0, 1)
    assert row["next_attempt_at"] == clock.now + timedelta(seconds=300)
    (sent_message,) = sqs.sent[QUEUE_URL]
    assert sent_message["DelaySeconds"] == 300
    assert json.loads(sent_message["MessageBody"])["send_number"] == 1
    assert actions(admin) == ["returned"]
    assert rows(admin, "dead_letter") == []


def test_work_item_of_killed_worker_is_returned(
    archiver: Archiver,
    admin: Connection,
    clock: Clock,
    pending: Pending,
) -> None:
    expired = clock.now - timedelta(seconds=1)
    message = pending(status="in-progress", attempts=1, claim_token=0, lease_expires_at=expired)

    archiver.process("matching", dlq_record(message))

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["dlq_returns"]) == ("pending", 1, 1)
    assert row["claim_token"] > 0


def test_work_item_fails_instead_of_third_return(
    archiver: Archiver,
    admin: Connection,
    pending: Pending,
) -> None:
    message = pending(dlq_returns=2, attempts=1)

    archiver.process("matching", dlq_record(message))

    assert life_cycle(admin, message.work_id)["status"] == "failed"
    (dead_letter,) = rows(admin, "dead_letter")
    assert dead_letter["job_id"] == str(WORK_KINDS["matching"].job_id(message.work_id))
    assert dead_letter["payload"]["file"]["file_name"].endswith(".xml")
    assert len(rows(admin, "failure_event")) == 1


def test_unsettled_last_attempt_is_dead_lettered(
    archiver: Archiver,
    admin: Connection,
    clock: Clock,
    pending: Pending,
) -> None:
    expired = clock.now - timedelta(seconds=1)
    message = pending(status="in-progress", attempts=3, lease_expires_at=expired)

    archiver.process("matching", dlq_record(message))

    assert life_cycle(admin, message.work_id)["status"] == "failed"
    assert [dead_letter["dlq_reason"] for dead_letter in rows(admin, "dead_letter")] == ["max_retries_exceeded"]


def test_running_work_item_retains_message_until_lease_expiry(
    archiver: Archiver,
    admin: Connection,
    clock: Clock,
    pending: Pending,
) -> None:
    message = pending(status="in-progress", attempts=1, lease_expires_at=clock.now + timedelta(seconds=60))

    assert archiver.process("matching", dlq_record(message)) == RetryAfter(61)
    assert life_cycle(admin, message.work_id)["status"] == "in-progress"


@pytest.mark.parametrize("status", ["succeeded", "failed", None])
def test_message_of_ended_work_item_is_only_audited(
    archiver: Archiver,
    admin: Connection,
    pending: Pending,
    status: str | None,
) -> None:
    message = pending(status=status)
    before = life_cycle(admin, message.work_id)

    assert archiver.process("matching", dlq_record(message)) is None

    assert life_cycle(admin, message.work_id) == before
    assert actions(admin) == ["dropped"]
    assert rows(admin, "dead_letter") == []


def test_outdated_message_changes_nothing(archiver: Archiver, admin: Connection, pending: Pending) -> None:
    message = pending(send_number=2).model_copy(update={"send_number": 1})

    archiver.process("matching", dlq_record(message))

    assert life_cycle(admin, message.work_id)["dlq_returns"] == 0
    assert actions(admin) == ["dropped"]


def test_unknown_work_item_is_audited(archiver: Archiver, admin: Connection) -> None:
    archiver.process("matching", dlq_record(Message(work_id=uuid4(), revision=1, send_number=0)))

    assert actions(admin) == ["dropped-unknown"]


@pytest.mark.parametrize(
    ("worker", "unreadable"),
    [
        ("matching", message_bodies.UNREADABLE),
        ("acquisition", message_bodies.UNREADABLE | message_bodies.UNREADABLE_UPLOADS),
    ],
)
def test_unreadable_message_is_dead_lettered_once(
    archiver: Archiver, admin: Connection, worker: str, unreadable: dict[str, str]
) -> None:
    messages = [dlq_record(body) for body in unreadable.values()]

    for message in messages * 2:  # delivered twice
        assert archiver.process(worker, message) is None

    dead_letters = rows(admin, "dead_letter")
    assert sorted(body_of(dead_letter) for dead_letter in dead_letters) == sorted(unreadable.values())
    assert {
        (dead_letter["worker"], dead_letter["work_id"], str(dead_letter["previous_failures"]))
        for dead_letter in dead_letters
    } == {(worker, None, "[]")}
    assert actions(admin) == ["dead-lettered"] * len(unreadable)
    assert len(rows(admin, "failure_event")) == len(unreadable)
    assert rows(admin, "acquisition_job") == []


def test_dead_lettered_message_is_not_dead_lettered_again(
    archiver: Archiver, database: Database, admin: Connection, clock: Clock
) -> None:
    """The worker dead-lettered the message, but crashed before acknowledging it.

    It crashed three times.
    """
    message = record("not JSON")
    make_consumer(database, lambda attempt: Succeeded(lambda connection: Effects()), clock).handle(
        event(message), Context()
    )
    admin.execute("UPDATE dead_letter SET status = 'resolved'")

    archiver.process("matching", SQSRecord(message | {"eventSourceARN": DLQ_ARN}))

    (dead_letter,) = rows(admin, "dead_letter")
    assert dead_letter["status"] == "resolved"
    assert len(rows(admin, "failure_event")) == 1


@pytest.mark.parametrize("form", message_bodies.UNUSUAL_ENCODINGS)
def test_message_in_unusual_encoding_is_returned(
    archiver: Archiver, admin: Connection, pending: Pending, form: str
) -> None:
    message = pending()

    archiver.process("matching", dlq_record(message_bodies.UNUSUAL_ENCODINGS[form](message.work_id)))

    assert life_cycle(admin, message.work_id)["send_number"] == 1


@pytest.mark.parametrize("version", message_bodies.NEWER_VERSIONS.values())
def test_message_with_newer_schema_stays_in_queue(archiver: Archiver, admin: Connection, version: str) -> None:
    with pytest.raises(UnsupportedSchemaError):
        archiver.process("matching", dlq_record(f'{{"schema_version": {version}}}'))
    assert rows(admin, "dead_letter") == []


def test_unsupported_message_is_archived_before_retention_ends(
    archiver: Archiver, admin: Connection, clock: Clock
) -> None:
    message = dlq_record('{"schema_version": 2}')
    clock.advance(days=11)  # more than 12 days after the message was sent
    with pytest.raises(UnsupportedSchemaError):
        archiver.process("matching", message)

    clock.advance(days=1)
    assert archiver.process("matching", message) is None

    (dead_letter,) = rows(admin, "dead_letter")
    assert (body_of(dead_letter), dead_letter["metadata"]["last_error"]["type"]) == (
        '{"schema_version": 2}',
        "UnsupportedSchemaError",
    )


def test_message_failing_unexpectedly_is_archived_before_expiry(
    archiver: Archiver, admin: Connection, clock: Clock, pending: Pending, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = dlq_record(pending())
    monkeypatch.setattr(sql, "return_to_queue", Mock(side_effect=KeyError("DE02")))
    with pytest.raises(KeyError):
        archiver.process("matching", message)
    assert rows(admin, "dead_letter") == []

    clock.advance(days=13)
    assert archiver.process("matching", message) is None

    (dead_letter,) = rows(admin, "dead_letter")
    assert body_of(dead_letter) == message.body
    assert "DE02" not in str(dead_letter)


def test_unprocessed_upload_is_registered_and_returned(
    archiver: Archiver,
    admin: Connection,
    sqs: FakeSqs,
    make_tenant: Callable[..., UUID],
) -> None:
    tenant_id = make_tenant("acme")

    archiver.process("acquisition", dlq_record(s3_event(object_created("uploads/acme/a+b.xml"))))

    (job,) = rows(admin, "acquisition_job")
    assert (job["key"], job["tenant_id"], job["status"], job["send_number"]) == (
        "uploads/acme/a b.xml",
        str(tenant_id),
        "pending",
        1,
    )
    assert len(sqs.sent["acquisition"]) == 1


def test_repeated_message_is_archived_once(archiver: Archiver, admin: Connection, pending: Pending) -> None:
    message = dlq_record(pending())

    archiver.process("matching", message)
    archiver.process("matching", message)

    assert actions(admin) == ["returned", "dropped"]  # the second message has an outdated send number


def test_later_message_is_attached_to_dead_letter(archiver: Archiver, admin: Connection, pending: Pending) -> None:
    message = pending(dlq_returns=2, attempts=1)
    archiver.process("matching", dlq_record(message))  # the archiver itself creates the dead letter
    followed = dlq_record(message)

    archiver.process("matching", followed)

    (dead_letter,) = rows(admin, "dead_letter")
    assert dead_letter["payload"]["dead_letter_queue_message"] == followed.message_id
    # Both the original message and the later message are attached.
    assert actions(admin) == ["dead-lettered", "message-attached", "message-attached"]
    assert len(rows(admin, "failure_event")) == 1


def test_lost_worker_error_includes_previous_error(
    archiver: Archiver, admin: Connection, clock: Clock, pending: Pending
) -> None:
    expired = clock.now - timedelta(seconds=1)
    message = pending(status="in-progress", attempts=3, lease_expires_at=expired, error="S3 is slow")

    archiver.process("matching", dlq_record(message))

    (dead_letter,) = rows(admin, "dead_letter")
    assert dead_letter["metadata"]["last_error"]["message"].endswith("; the last error: S3 is slow")


def test_late_worker_cannot_settle_returned_work_item(
    archiver: Archiver, admin: Connection, database: Database, clock: Clock, pending: Pending
) -> None:
    expired = clock.now - timedelta(seconds=1)
    message = pending(status="in-progress", attempts=1, claim_token=5, lease_expires_at=expired)
    late = sql.Claim(sql.ClaimStatus.CLAIMED, message, None, 1, 5)

    archiver.process("matching", dlq_record(message))

    with pytest.raises(StaleClaimError), database.delivery() as connection:
        sql.succeed(connection, WORK_KINDS["matching"], [(late, None)])
    assert life_cycle(admin, message.work_id)["status"] == "pending"


# -- returns and repeated failures -----------------------------------------------------------------------------------


def last_sent_body(sqs: FakeSqs, queue: str = QUEUE_URL) -> str:
    """Return the body of the last message sent to a queue."""
    body: str = sqs.sent[queue][-1]["MessageBody"]
    return body


def test_unattempted_work_item_is_returned_without_limit(
    archiver: Archiver,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    capsys: pytest.CaptureFixture[str],
) -> None:
    message, body, waits = pending(), None, []

    for _ in range(8):
        archiver.process("matching", dlq_record(body or message))
        waits.append((life_cycle(admin, message.work_id)["next_attempt_at"] - clock()) / timedelta(minutes=1))
        clock.advance(hours=2)
        Watchdog(
            settings(), archiver._database, archiver._outbox, clock
        ).run()  # the watchdog sends messages delayed by more than 15 minutes
        body = last_sent_body(sqs)

    assert waits == [5, 10, 20, 40, 60, 60, 60, 60]
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["dlq_returns"], row["send_number"]) == ("pending", 0, 0, 8)
    assert actions(admin) == ["returned"] * 8
    metrics = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["ReturnedUnattempted"] for line in metrics if "ReturnedUnattempted" in line] == [[1.0]] * 8


def test_dlq_returns_are_counted_after_first_attempt(archiver: Archiver, admin: Connection, pending: Pending) -> None:
    message = pending(attempts=1, send_number=5)

    archiver.process("matching", dlq_record(message))

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["dlq_returns"], row["send_number"]) == ("pending", 1, 6)


def test_work_item_fails_after_two_returns(
    archiver: Archiver, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(attempts=1)
    archiver.process("matching", dlq_record(message))
    clock.advance(minutes=20)
    archiver.process("matching", dlq_record(last_sent_body(sqs)))
    clock.advance(minutes=20)
    last = dlq_record(last_sent_body(sqs))
    archiver.process("matching", last)

    assert actions(admin) == ["returned", "returned", "dead-lettered", "message-attached"]
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["dlq_returns"], row["send_number"]) == ("failed", 1, 2, 2)
    assert row["failed_at"] == clock.now
    (dead_letter,) = rows(admin, "dead_letter")
    assert (dead_letter["dlq_reason"], dead_letter["revision"]) == ("max_retries_exceeded", 1)
    assert dead_letter["payload"]["dead_letter_queue_body"] == last.body
    assert len(sqs.sent[QUEUE_URL]) == 2


def test_second_failure_reopens_dead_letter_and_notifies(
    archiver: Archiver, admin: Connection, clock: Clock, pending: Pending
) -> None:
    message = pending(dlq_returns=2, attempts=1)
    archiver.process("matching", dlq_record(message))
    first = clock.now
    admin.execute("UPDATE dead_letter SET status = 'retried', resolution = '{\"action\": \"retry\"}'")
    clock.advance(hours=1)
    start_revision(admin, "matching", [message.work_id], clock.now)
    admin.execute(
        "UPDATE document SET matching_dlq_returns = 2, matching_attempts = 1 WHERE id = %s", [message.work_id]
    )

    archiver.process("matching", dlq_record(message.model_copy(update={"revision": 2})))

    (dead_letter,) = rows(admin, "dead_letter")
    assert (dead_letter["status"], dead_letter["revision"], dead_letter["resolution"]) == ("pending", 2, None)
    (before,) = dead_letter["previous_failures"]
    assert (before["revision"], before["status"], before["resolution"]) == (1, "retried", {"action": "retry"})
    assert before["dlq_timestamp"].startswith(first.date().isoformat())
    assert sorted(notification["revision"] for notification in rows(admin, "failure_event")) == [1, 2]


@pytest.mark.parametrize(("attempts", "wait"), [(0, 300), (1, 300), (2, 1800)])
def test_returned_work_item_waits_for_retry_delay(
    archiver: Archiver, admin: Connection, clock: Clock, pending: Pending, attempts: int, wait: int
) -> None:
    message = pending(attempts=attempts)

    archiver.process("matching", dlq_record(message))

    assert life_cycle(admin, message.work_id)["next_attempt_at"] == clock.now + timedelta(seconds=wait)


def test_returned_work_item_keeps_later_due_time(
    archiver: Archiver, admin: Connection, clock: Clock, pending: Pending
) -> None:
    due_at = clock.now + timedelta(seconds=1500)
    message = pending(attempts=2, next_attempt_at=due_at)

    archiver.process("matching", dlq_record(message))

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["dlq_returns"]) == ("pending", 1)
    assert row["next_attempt_at"] >= due_at


def test_closed_dead_letter_stays_closed(archiver: Archiver, admin: Connection, pending: Pending) -> None:
    message = pending(dlq_returns=2, attempts=1)
    archiver.process("matching", dlq_record(message))
    admin.execute("UPDATE dead_letter SET status = 'ignored'")
    before = rows(admin, "dead_letter")

    archiver.process("matching", dlq_record(message))

    assert rows(admin, "dead_letter") == before
    assert actions(admin)[-1] == "dropped"


def test_work_item_of_deleted_tenant_is_audited(archiver: Archiver, admin: Connection, pending: Pending) -> None:
    message = pending()
    admin.execute("DELETE FROM tenant")

    assert archiver.process("matching", dlq_record(message)) is None

    assert actions(admin) == ["dropped-unknown"]


def test_message_with_future_revision_enqueues_current_message(
    archiver: Archiver, admin: Connection, tenant: UUID, sqs: FakeSqs, pending: Pending
) -> None:
    message = pending()

    archiver.process("matching", dlq_record(message.model_copy(update={"revision": 7})))

    (entry,) = rows(admin, "dead_letter_audit")
    assert (entry["action"], entry["tenant_id"]) == ("enqueued-current", str(tenant))
    (sent_message,) = sqs.sent[QUEUE_URL]
    assert Message.model_validate_json(sent_message["MessageBody"]) == message
    assert life_cycle(admin, message.work_id)["dlq_returns"] == 0


def test_unavailable_queue_leaves_returned_message_in_outbox(
    archiver: Archiver, admin: Connection, sqs: FakeSqs, pending: Pending
) -> None:
    message = pending()
    sqs.send_message_batch = Mock(side_effect=ServiceUnavailableError("SQS is unavailable"))  # type: ignore[method-assign]

    assert archiver.process("matching", dlq_record(message)) is None

    assert [row["sent_at"] for row in rows(admin, "outbox")] == [None]
    assert life_cycle(admin, message.work_id)["send_number"] == 1
