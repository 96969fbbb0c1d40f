"""Each branch of the archiver: what becomes of a message in a dead-letter queue."""

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
from counterfoil.delivery.work import Message, begin
from counterfoil.errors import NewerSchemaError, ServiceUnavailableError, StaleClaimError
from counterfoil.kinds import KINDS
from functions.dead_letters.archiver import Archiver, Waiting
from functions.watchdog.recovery import Watchdog
from tests.delivery import bodies
from tests.delivery.bodies import body_of, created, s3_event
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
    assert (row["status"], row["attempts"], row["returns"], row["send_number"]) == ("pending", 0, 0, 1)
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
    message = pending(returns=2, attempts=1)

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


@pytest.mark.parametrize(
    ("worker", "unreadable"),
    [("matching", bodies.UNREADABLE), ("acquisition", bodies.UNREADABLE | bodies.UNREADABLE_UPLOADS)],
)
def test_an_unreadable_message_is_a_dead_letter_once(
    archiver: Archiver, admin: Connection, worker: str, unreadable: dict[str, str]
) -> None:
    messages = [dead(body) for body in unreadable.values()]

    for message in messages * 2:  # delivered twice
        assert archiver.settle(worker, message) is None

    letters = rows(admin, "dead_letter")
    assert sorted(body_of(letter) for letter in letters) == sorted(unreadable.values())
    assert {(letter["worker"], letter["work_id"], str(letter["lineage"])) for letter in letters} == {
        (worker, None, "[]")
    }
    assert actions(admin) == ["dead"] * len(unreadable)
    assert len(rows(admin, "notification")) == len(unreadable)
    assert rows(admin, "acquisition_job") == []


def test_a_message_that_its_worker_has_written_down_already_is_the_same_dead_letter(
    archiver: Archiver, database: Database, admin: Connection, clock: Clock
) -> None:
    """The worker wrote its dead letter and died before it could acknowledge, three times; SQS keeps a message's id."""
    message = record("not JSON")
    make_consumer(database, lambda attempt: Succeeded(lambda connection: Effects()), clock).handle(
        event(message), Context()
    )
    admin.execute("UPDATE dead_letter SET status = 'resolved'")

    archiver.settle("matching", SQSRecord(message | {"eventSourceARN": DLQ_ARN}))

    (letter,) = rows(admin, "dead_letter")
    assert letter["status"] == "resolved"
    assert len(rows(admin, "notification")) == 1


@pytest.mark.parametrize("form", bodies.ODD_FORMS)
def test_an_odd_form_of_a_message_finds_its_work(
    archiver: Archiver, admin: Connection, pending: Pending, form: str
) -> None:
    message = pending()

    archiver.settle("matching", dead(bodies.ODD_FORMS[form](message.work_id)))

    assert life_cycle(admin, message.work_id)["send_number"] == 1


@pytest.mark.parametrize("version", bodies.NEWER.values())
def test_a_newer_schema_stays_in_its_queue(archiver: Archiver, admin: Connection, version: str) -> None:
    with pytest.raises(NewerSchemaError):
        archiver.settle("matching", dead(f'{{"schema_version": {version}}}'))
    assert rows(admin, "dead_letter") == []


def test_a_newer_schema_that_no_deployment_came_for_is_written_down_before_its_queue_deletes_it(
    archiver: Archiver, admin: Connection, clock: Clock
) -> None:
    message = dead('{"schema_version": 2}')
    clock.pass_(days=11)  # 12 and some hours since it was sent
    with pytest.raises(NewerSchemaError):
        archiver.settle("matching", message)

    clock.pass_(days=1)
    assert archiver.settle("matching", message) is None

    (letter,) = rows(admin, "dead_letter")
    assert (body_of(letter), letter["metadata"]["last_error"]["type"]) == ('{"schema_version": 2}', "NewerSchemaError")


def test_what_cannot_be_settled_for_reasons_unknown_is_kept_and_in_the_end_written_down(
    archiver: Archiver, admin: Connection, clock: Clock, pending: Pending, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = dead(pending())
    monkeypatch.setattr(sql, "give_back", Mock(side_effect=KeyError("DE02")))
    with pytest.raises(KeyError):
        archiver.settle("matching", message)
    assert rows(admin, "dead_letter") == []

    clock.pass_(days=13)
    assert archiver.settle("matching", message) is None

    (letter,) = rows(admin, "dead_letter")
    assert body_of(letter) == message.body
    assert "DE02" not in str(letter)


def test_an_upload_that_no_worker_ever_saw_is_registered_and_returned(
    archiver: Archiver,
    admin: Connection,
    sqs: FakeSqs,
    make_tenant: Callable[..., UUID],
) -> None:
    tenant_id = make_tenant("acme")

    archiver.settle("acquisition", dead(s3_event(created("uploads/acme/a+b.xml"))))

    (job,) = rows(admin, "acquisition_job")
    assert (job["key"], job["tenant_id"], job["status"], job["send_number"]) == (
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


def test_the_message_that_followed_failed_work_is_joined_to_its_dead_letter(
    archiver: Archiver, admin: Connection, pending: Pending
) -> None:
    message = pending(returns=2, attempts=1)
    archiver.settle("matching", dead(message))  # dead, by the archiver itself
    followed = dead(message)

    archiver.settle("matching", followed)

    (letter,) = rows(admin, "dead_letter")
    assert letter["payload"]["dead_letter_queue_message"] == followed.message_id
    assert actions(admin) == ["dead", "joined", "joined"]  # by the message that brought it, and by the next
    assert len(rows(admin, "notification")) == 1


def test_the_last_error_that_was_settled_is_told_beside_the_loss_of_the_worker(
    archiver: Archiver, admin: Connection, clock: Clock, pending: Pending
) -> None:
    lapsed = clock.now - timedelta(seconds=1)
    message = pending(status="in-progress", attempts=3, lease_expires_at=lapsed, error="S3 is slow")

    archiver.settle("matching", dead(message))

    (letter,) = rows(admin, "dead_letter")
    assert letter["metadata"]["last_error"]["message"].endswith("; the last error: S3 is slow")


def test_a_late_worker_cannot_settle_what_the_archiver_returned(
    archiver: Archiver, admin: Connection, database: Database, clock: Clock, pending: Pending
) -> None:
    lapsed = clock.now - timedelta(seconds=1)
    message = pending(status="in-progress", attempts=1, claim_token=5, lease_expires_at=lapsed)
    late = sql.Claim(sql.Answer.MINE, message, None, 1, 5)

    archiver.settle("matching", dead(message))

    with pytest.raises(StaleClaimError), database.delivery() as connection:
        sql.succeed(connection, KINDS["matching"], [(late, None)])
    assert life_cycle(admin, message.work_id)["status"] == "pending"


# -- returned, dead, and dead again -----------------------------------------------------------------------------------


def sent(sqs: FakeSqs, queue: str = QUEUE_URL) -> str:
    """The body of the latest message to a queue."""
    body: str = sqs.sent[queue][-1]["MessageBody"]
    return body


def test_unattempted_work_is_returned_without_bound(
    archiver: Archiver,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    capsys: pytest.CaptureFixture[str],
) -> None:
    message, body, waits = pending(), None, []

    for _ in range(8):
        archiver.settle("matching", dead(body or message))
        waits.append((life_cycle(admin, message.work_id)["next_attempt_at"] - clock()) / timedelta(minutes=1))
        clock.pass_(hours=2)
        Watchdog(settings(), archiver._database, archiver._outbox, clock).run()  # sends messages due after 15 minutes
        body = sent(sqs)

    assert waits == [5, 10, 20, 40, 60, 60, 60, 60]
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["returns"], row["send_number"]) == ("pending", 0, 0, 8)
    assert actions(admin) == ["returned"] * 8
    measured = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["ReturnedUnattempted"] for line in measured if "ReturnedUnattempted" in line] == [[1.0]] * 8


def test_returns_count_from_the_first_attempt(archiver: Archiver, admin: Connection, pending: Pending) -> None:
    message = pending(attempts=1, send_number=5)

    archiver.settle("matching", dead(message))

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["returns"], row["send_number"]) == ("pending", 1, 6)


def test_work_is_returned_twice_by_its_own_messages_and_then_dead(
    archiver: Archiver, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(attempts=1)
    archiver.settle("matching", dead(message))
    clock.pass_(minutes=20)
    archiver.settle("matching", dead(sent(sqs)))
    clock.pass_(minutes=20)
    last = dead(sent(sqs))
    archiver.settle("matching", last)

    assert actions(admin) == ["returned", "returned", "dead", "joined"]
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["returns"], row["send_number"]) == ("failed", 1, 2, 2)
    assert row["failed_at"] == clock.now
    (letter,) = rows(admin, "dead_letter")
    assert (letter["dlq_reason"], letter["revision"]) == ("max_retries_exceeded", 1)
    assert letter["payload"]["dead_letter_queue_body"] == last.body
    assert len(sqs.sent[QUEUE_URL]) == 2


def test_a_second_death_opens_the_same_dead_letter_with_its_history_and_notifies_again(
    archiver: Archiver, admin: Connection, clock: Clock, pending: Pending
) -> None:
    message = pending(returns=2, attempts=1)
    archiver.settle("matching", dead(message))
    first = clock.now
    admin.execute("UPDATE dead_letter SET status = 'retried', resolution = '{\"action\": \"retry\"}'")
    clock.pass_(hours=1)
    begin(admin, "matching", [message.work_id], clock.now)
    admin.execute("UPDATE document SET matching_returns = 2, matching_attempts = 1 WHERE id = %s", [message.work_id])

    archiver.settle("matching", dead(message.model_copy(update={"revision": 2})))

    (letter,) = rows(admin, "dead_letter")
    assert (letter["status"], letter["revision"], letter["resolution"]) == ("pending", 2, None)
    (before,) = letter["lineage"]
    assert (before["revision"], before["status"], before["resolution"]) == (1, "retried", {"action": "retry"})
    assert before["dlq_timestamp"].startswith(first.date().isoformat())
    assert sorted(notice["revision"] for notice in rows(admin, "notification")) == [1, 2]


@pytest.mark.parametrize(("attempts", "wait"), [(0, 300), (1, 300), (2, 1800)])
def test_returned_work_waits_as_after_its_latest_attempt(
    archiver: Archiver, admin: Connection, clock: Clock, pending: Pending, attempts: int, wait: int
) -> None:
    message = pending(attempts=attempts)

    archiver.settle("matching", dead(message))

    assert life_cycle(admin, message.work_id)["next_attempt_at"] == clock.now + timedelta(seconds=wait)


def test_work_that_waits_for_its_next_try_is_returned_and_not_hurried(
    archiver: Archiver, admin: Connection, clock: Clock, pending: Pending
) -> None:
    due = clock.now + timedelta(seconds=1500)
    message = pending(attempts=2, next_attempt_at=due)

    archiver.settle("matching", dead(message))

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["returns"]) == ("pending", 1)
    assert row["next_attempt_at"] >= due


def test_a_failed_work_whose_dead_letter_a_person_has_settled_stays_settled(
    archiver: Archiver, admin: Connection, pending: Pending
) -> None:
    message = pending(returns=2, attempts=1)
    archiver.settle("matching", dead(message))
    admin.execute("UPDATE dead_letter SET status = 'ignored'")
    before = rows(admin, "dead_letter")

    archiver.settle("matching", dead(message))

    assert rows(admin, "dead_letter") == before
    assert actions(admin)[-1] == "dropped"


def test_work_of_a_tenant_that_is_gone_leaves_a_trace(archiver: Archiver, admin: Connection, pending: Pending) -> None:
    message = pending()
    admin.execute("DELETE FROM tenant")

    assert archiver.settle("matching", dead(message)) is None

    assert actions(admin) == ["dropped-unknown"]


def test_newer_message_than_its_row_enqueues_the_current_one(
    archiver: Archiver, admin: Connection, tenant: UUID, sqs: FakeSqs, pending: Pending
) -> None:
    message = pending()

    archiver.settle("matching", dead(message.model_copy(update={"revision": 7})))

    (entry,) = rows(admin, "dead_letter_audit")
    assert (entry["action"], entry["tenant_id"]) == ("enqueued-current", str(tenant))
    (sent,) = sqs.sent[QUEUE_URL]
    assert Message.model_validate_json(sent["MessageBody"]) == message
    assert life_cycle(admin, message.work_id)["returns"] == 0


def test_a_queue_that_takes_nothing_leaves_returned_work_in_the_outbox(
    archiver: Archiver, admin: Connection, sqs: FakeSqs, pending: Pending
) -> None:
    message = pending()
    sqs.send_message_batch = Mock(side_effect=ServiceUnavailableError("SQS is away"))  # type: ignore[method-assign]

    assert archiver.settle("matching", dead(message)) is None

    assert [row["sent_at"] for row in rows(admin, "outbox")] == [None]
    assert life_cycle(admin, message.work_id)["send_number"] == 1
