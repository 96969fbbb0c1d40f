"""How the consumer claims and settles work items, on PostgreSQL and a fake queue."""

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Effects, Skipped, Succeeded, TenantAttempt
from counterfoil.delivery.work import Message, ParsedMessage, start_revision
from counterfoil.errors import InvalidDocumentError, ServiceUnavailableError
from counterfoil.kinds import WORK_KINDS
from tests.delivery.harness import DONE, Clock, Context, FakeSqs, event, life_cycle, make_consumer, record, rows

Pending = Callable[..., Message]


def fail_with(error: BaseException) -> Callable[[TenantAttempt], Any]:
    def work(attempt: TenantAttempt) -> Any:
        raise error

    return work


def failed_ids(response: Any) -> list[str]:
    return [failure["itemIdentifier"] for failure in response["batchItemFailures"]]


def test_success_commits_effects_and_sends_messages(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message, other = pending(), pending()

    def work(attempt: TenantAttempt) -> Succeeded:
        def effects(connection: Connection) -> Any:
            connection.execute("UPDATE document SET method = 'xml' WHERE id = %s", [attempt.work_id])
            return Effects(start_revision(connection, "matching", [other.work_id], clock()), "a remark")

        return Succeeded(effects)

    response = make_consumer(database, work, clock).handle(event(record(message)), Context())

    assert failed_ids(response) == []
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["skip_reason"], row["lease_expires_at"]) == (
        "succeeded",
        1,
        "a remark",
        None,
    )
    assert admin.execute("SELECT method FROM document WHERE id = %s", [message.work_id]).fetchall() == [("xml",)]
    (sent,) = sqs.sent[next(iter(sqs.sent))]
    assert json.loads(sent["MessageBody"]) == {
        "schema_version": 1,
        "work_id": str(other.work_id),
        "revision": other.revision + 1,
        "send_number": 0,
    }
    assert [row["sent_at"] is not None for row in rows(admin, "outbox")] == [True]


def test_permanent_failure_is_dead_lettered_and_acknowledged(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, tenant: UUID
) -> None:
    message = pending()
    fail = fail_with(InvalidDocumentError("The file is empty; send it again.", code="damaged_pdf"))

    response = make_consumer(database, fail, clock).handle(event(record(message)), Context())

    assert failed_ids(response) == []
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["error"], row["failed_at"]) == ("failed", "The file is empty; send it again.", clock.now)
    (dead_letter,) = rows(admin, "dead_letter")
    assert dead_letter["job_id"] == str(WORK_KINDS["matching"].job_id(message.work_id))
    assert (dead_letter["dlq_reason"], dead_letter["status"], dead_letter["attempts"]) == (
        "non_retriable_error",
        "pending",
        1,
    )
    assert dead_letter["payload"]["file"]["key"].endswith(".xml")
    assert dead_letter["metadata"]["last_error"]["type"] == "InvalidDocumentError"
    assert "counterfoil.delivery.batch:" in dead_letter["metadata"]["last_error"]["context"]["traceback"]
    assert [(entry["action"], entry["actor"]) for entry in rows(admin, "dead_letter_audit")] == [
        ("dead-lettered", "matching")
    ]
    (notification,) = rows(admin, "failure_event")
    assert (notification["job_id"], notification["tenant_id"]) == (dead_letter["job_id"], str(tenant))


def test_transient_failure_waits_for_redelivery(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()
    consumer = make_consumer(database, fail_with(ServiceUnavailableError("S3 is slow")), clock)

    first = consumer.handle(event(record(message, handle="first")), Context())
    assert len(failed_ids(first)) == 1
    assert sqs.visibility["first"] == 300
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["error"], row["attempts"]) == ("pending", "S3 is slow", 1)
    assert row["next_attempt_at"] == clock.now + timedelta(seconds=300)

    clock.advance(seconds=301)
    consumer.handle(event(record(message, receives=2, handle="second")), Context())
    assert sqs.visibility["second"] == 1800
    assert life_cycle(admin, message.work_id)["attempts"] == 2
    assert rows(admin, "dead_letter") == []


def test_message_goes_to_dlq_after_last_failed_attempt(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(attempts=2)

    response = make_consumer(database, fail_with(ServiceUnavailableError("S3 is slow")), clock).handle(
        event(record(message, receives=3, handle="third")), Context()
    )

    assert len(failed_ids(response)) == 1
    assert sqs.visibility["third"] == 0
    assert life_cycle(admin, message.work_id)["status"] == "failed"
    assert [dead_letter["dlq_reason"] for dead_letter in rows(admin, "dead_letter")] == ["max_retries_exceeded"]
    assert len(rows(admin, "failure_event")) == 1


def test_failure_at_last_receive_parks_work_item(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()

    response = make_consumer(database, fail_with(ServiceUnavailableError("S3 is slow")), clock).handle(
        event(record(message, receives=3)), Context()
    )

    assert failed_ids(response) == []
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 1, 1)
    ((_, entries),) = sqs.sent.items()
    assert entries[0]["DelaySeconds"] == 300
    assert json.loads(entries[0]["MessageBody"])["send_number"] == 1


def test_older_message_of_parked_work_item_is_dropped(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(send_number=1)
    older = message.model_copy(update={"send_number": 0})

    response = make_consumer(database, fail_with(AssertionError("must not run")), clock).handle(
        event(record(older)), Context()
    )

    assert failed_ids(response) == []
    assert life_cycle(admin, message.work_id)["attempts"] == 0


def test_early_message_is_parked_until_due(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    due_at = clock.now + timedelta(seconds=200)
    message = pending(attempts=1, next_attempt_at=due_at)

    response = make_consumer(database, fail_with(AssertionError("must not run")), clock).handle(
        event(record(message)), Context()
    )

    assert failed_ids(response) == []
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"], row["next_attempt_at"]) == ("pending", 1, 1, due_at)
    ((_, entries),) = sqs.sent.items()
    assert entries[0]["DelaySeconds"] == 200


def test_early_work_item_is_parked_for_requested_delay(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(attempts=1, next_attempt_at=clock.now + timedelta(seconds=10))
    claims = make_consumer(database, fail_with(AssertionError("must not run")), clock).claims

    assert claims.park({message: ParsedMessage([message])}, timedelta(seconds=60)) == {message: None}

    assert life_cycle(admin, message.work_id)["next_attempt_at"] == clock.now + timedelta(seconds=60)


def test_duplicate_message_is_delayed_until_lease_expiry(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(
        status="in-progress", attempts=1, claim_token=7, lease_expires_at=clock.now + timedelta(seconds=90)
    )

    response = make_consumer(database, fail_with(AssertionError("must not run")), clock).handle(
        event(record(message, handle="copy")), Context()
    )

    assert len(failed_ids(response)) == 1
    assert sqs.visibility["copy"] == 91
    assert life_cycle(admin, message.work_id)["claim_token"] == 7


@pytest.mark.parametrize("overdue", [0, 1])
def test_expired_lease_is_reclaimed_with_newer_token(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, overdue: float
) -> None:
    token = admin.execute("SELECT nextval('claim_token')").fetchall()[0][0]
    message = pending(
        status="in-progress", attempts=1, claim_token=token, lease_expires_at=clock.now - timedelta(seconds=overdue)
    )

    make_consumer(database, lambda attempt: DONE, clock).handle(event(record(message, receives=2)), Context())

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"]) == ("succeeded", 2)
    assert row["claim_token"] > token


def test_reclaimed_work_item_runs_after_other_work_items(
    database: Database, sqs: FakeSqs, clock: Clock, pending: Pending, admin: Connection
) -> None:
    expired = pending(status="in-progress", attempts=1, lease_expires_at=clock.now - timedelta(seconds=1))
    others = [pending() for _ in range(4)]
    order: list[UUID] = []

    def work(attempt: TenantAttempt) -> Succeeded:
        if attempt.work_id == expired.work_id:
            assert all(life_cycle(admin, other.work_id)["status"] == "succeeded" for other in others)
        order.append(attempt.work_id)
        return DONE

    response = make_consumer(database, work, clock).handle(event(record(expired), *map(record, others)), Context())

    assert failed_ids(response) == []
    assert order[-1] == expired.work_id
    assert len(order) == 5


def test_unsettled_last_attempt_fails_work_item(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(status="in-progress", attempts=3, lease_expires_at=clock.now - timedelta(seconds=1))

    response = make_consumer(database, fail_with(AssertionError("must not run")), clock).handle(
        event(record(message, receives=3)), Context()
    )

    assert failed_ids(response) == []
    assert life_cycle(admin, message.work_id)["status"] == "failed"
    assert [dead_letter["dlq_reason"] for dead_letter in rows(admin, "dead_letter")] == ["max_retries_exceeded"]
    assert len(rows(admin, "failure_event")) == 1


@pytest.mark.parametrize("status", ["succeeded", "failed", None])
def test_message_of_ended_work_item_is_acknowledged(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, status: str | None
) -> None:
    message = pending(status=status, attempts=1)
    before = life_cycle(admin, message.work_id)

    response = make_consumer(database, fail_with(AssertionError("must not run")), clock).handle(
        event(record(message)), Context()
    )

    assert failed_ids(response) == []
    assert life_cycle(admin, message.work_id) == before


def test_unknown_work_item_is_audited_and_acknowledged(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock
) -> None:
    message = Message(work_id=uuid4(), revision=1, send_number=0)

    response = make_consumer(database, fail_with(AssertionError("must not run")), clock).handle(
        event(record(message)), Context()
    )

    assert failed_ids(response) == []
    assert [entry["action"] for entry in rows(admin, "dead_letter_audit")] == ["unknown-work"]


def test_skipped_work_item_stores_only_reason(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()

    response = make_consumer(database, lambda attempt: Skipped("no counterparty"), clock).handle(
        event(record(message)), Context()
    )

    assert failed_ids(response) == []
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["skip_reason"]) == (None, "no counterparty")


def test_stale_success_writes_nothing_and_reports_message(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()

    def work(attempt: TenantAttempt) -> Succeeded:
        admin.execute(
            "UPDATE document SET matching_claim_token = nextval('claim_token') WHERE id = %s", [attempt.work_id]
        )

        def effects(connection: Connection) -> Any:
            connection.execute("UPDATE document SET method = 'xml' WHERE id = %s", [attempt.work_id])
            return Effects()

        return Succeeded(effects)

    response = make_consumer(database, work, clock).handle(event(record(message, handle="stale")), Context())

    assert len(failed_ids(response)) == 1
    assert sqs.visibility["stale"] == 300  # unchanged since the message was protected
    assert life_cycle(admin, message.work_id)["status"] == "in-progress"
    assert admin.execute("SELECT method FROM document WHERE id = %s", [message.work_id]).fetchall() == [(None,)]


@pytest.mark.parametrize(
    ("error", "receives"),
    [
        (ServiceUnavailableError("S3 is slow"), 1),
        (ServiceUnavailableError("S3 is slow"), 3),
        (InvalidDocumentError("It is damaged", code="damaged_pdf"), 1),
    ],
)
def test_stale_failure_changes_nothing(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    error: Exception,
    receives: int,
) -> None:
    message = pending()

    def work(attempt: TenantAttempt) -> Succeeded:
        admin.execute(
            "UPDATE document SET matching_claim_token = nextval('claim_token') WHERE id = %s", [attempt.work_id]
        )
        raise error

    response = make_consumer(database, work, clock).handle(event(record(message, receives=receives)), Context())

    assert len(failed_ids(response)) == 1
    assert life_cycle(admin, message.work_id)["status"] == "in-progress"
    assert rows(admin, "outbox") == rows(admin, "dead_letter") == []


@pytest.mark.parametrize(
    "error", [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), ZeroDivisionError("secret 4711")]
)
def test_unexpected_exception_is_isolated_and_redacted(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, error: BaseException
) -> None:
    failing, succeeding = pending(), pending()

    def work(attempt: TenantAttempt) -> Succeeded:
        if attempt.work_id == failing.work_id:
            raise error
        return DONE

    response = make_consumer(database, work, clock).handle(event(record(failing), record(succeeding)), Context())

    assert len(failed_ids(response)) == 1
    assert life_cycle(admin, succeeding.work_id)["status"] == "succeeded"
    row = life_cycle(admin, failing.work_id)
    assert row["status"] == "pending"
    assert type(error).__name__ in row["error"]
    assert "4711" not in row["error"]


def test_work_item_with_two_messages_runs_once(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()
    runs: list[int] = []

    def work(attempt: TenantAttempt) -> Succeeded:
        runs.append(attempt.number)
        return DONE

    make_consumer(database, work, clock).handle(event(record(message), record(message)), Context())

    assert runs == [1]
    assert life_cycle(admin, message.work_id)["status"] == "succeeded"


def test_messages_waiting_for_permits_are_protected_but_unclaimed(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    messages = [pending() for _ in range(3)]

    def work(attempt: TenantAttempt) -> Succeeded:
        sqs.log.append(("work", attempt.work_id))
        return DONE

    consumer = make_consumer(database, work, clock)
    assert consumer.permits.acquire(2) == 2
    protected, observed = threading.Event(), list[Any]()
    change_visibility = sqs.change_message_visibility_batch

    def change_and_signal(**arguments: Any) -> Any:
        response = change_visibility(**arguments)
        protected.set()
        return response

    sqs.change_message_visibility_batch = change_and_signal  # type: ignore[method-assign]

    def release_permits() -> None:
        assert protected.wait(10)
        observed.extend(life_cycle(admin, message.work_id)["status"] for message in messages)
        observed.append([kind for kind, _ in sqs.log])
        consumer.permits.release(2)

    releaser = threading.Thread(target=release_permits)
    releaser.start()
    response = consumer.handle(event(*map(record, messages)), Context())
    releaser.join()

    assert failed_ids(response) == []
    assert observed == ["pending", "pending", "pending", ["visibility"] * 3]
    assert [kind for kind, _ in sqs.log] == ["visibility"] * 3 + ["work"] * 3
    assert consumer.permits.acquire(9) == 2  # every permit was returned


def test_permits_limit_concurrent_attempts(database: Database, sqs: FakeSqs, clock: Clock, pending: Pending) -> None:
    barrier = threading.Barrier(2, timeout=10)
    running, peak, lock = 0, 0, threading.Lock()

    def work(attempt: TenantAttempt) -> Succeeded:
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
        barrier.wait()  # passes only if two attempts run concurrently
        with lock:
            running -= 1
        return DONE

    response = make_consumer(database, work, clock).handle(event(*(record(pending()) for _ in range(8))), Context())

    assert failed_ids(response) == []
    assert peak == 2


def test_unprotected_message_is_not_started(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    unprotected, protected_on_retry = pending(), pending()
    sqs.refuse_visibility = {"exposed": 2, "once": 1}

    response = make_consumer(database, lambda attempt: DONE, clock).handle(
        event(record(unprotected, handle="exposed"), record(protected_on_retry, handle="once")), Context()
    )

    assert len(failed_ids(response)) == 1
    assert life_cycle(admin, unprotected.work_id)["attempts"] == 0
    assert life_cycle(admin, protected_on_retry.work_id)["status"] == "succeeded"


def test_late_message_is_parked_without_spending_attempt(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(attempts=1)

    response = make_consumer(database, fail_with(AssertionError("must not run")), clock).handle(
        event(record(message)), Context(seconds_left=20)
    )

    assert failed_ids(response) == []
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 1, 1)
    assert sum(map(len, sqs.sent.values())) == 1


@pytest.mark.parametrize("left", [3, 0])
def test_invocation_without_time_left_loses_no_message(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, left: float
) -> None:
    message = pending()

    response = make_consumer(database, fail_with(AssertionError("must not run")), clock).handle(
        event(record(message)), Context(seconds_left=left)
    )

    sent = [entry for entries in sqs.sent.values() for entry in entries]
    assert len(failed_ids(response)) + len(sent) == 1
    assert life_cycle(admin, message.work_id)["status"] == "pending"


def test_attempt_canceled_at_deadline_waits_for_retry(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message, context = pending(), Context()

    def work(attempt: TenantAttempt) -> Succeeded:
        context.left = 8
        assert attempt.deadline.canceled.wait(10)
        attempt.deadline.check()
        return DONE

    response = make_consumer(database, work, clock, worker=_quick()).handle(event(record(message)), context)

    assert len(failed_ids(response)) == 1
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"]) == ("pending", 1)
    assert "about to end" in row["error"]


def test_hung_attempt_is_abandoned_and_reported(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message, context, release = pending(), Context(), threading.Event()

    def work(attempt: TenantAttempt) -> Succeeded:
        context.left = 2
        assert release.wait(10)
        return DONE

    consumer = make_consumer(database, work, clock, worker=_quick())
    response = consumer.handle(event(record(message)), context)

    assert len(failed_ids(response)) == 1
    assert consumer.permits.acquire(2) == 1  # the abandoned attempt still holds its permit
    release.set()
    assert consumer.permits.acquire(1, timeout=10) == 1  # returned when the attempt settles
    # The claim was still valid, so the attempt settled. The redelivered message will be dropped.
    assert life_cycle(admin, message.work_id)["status"] == "succeeded"


def _quick() -> dict[str, Any]:
    """Return settings for a worker that checks the remaining time within a second."""
    return {"name": "matching", "timeout": 120, "permits": 2, "start_margin": 119}


def test_messages_are_protected_before_waiting_for_permits(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Callable[..., Message]
) -> None:
    worker = {"name": "matching", "timeout": 120, "permits": 2, "start_margin": 30}
    messages, waits = [pending(), pending()], list[tuple[float, set[str]]]()
    consumer = make_consumer(database, lambda attempt: DONE, clock, worker=worker)
    consumer.permits.acquire(2)  # as if held by attempts from an earlier invocation
    acquire = consumer.permits.acquire

    def record_wait(*arguments: Any, **options: Any) -> int:
        waits.append((options["timeout"], set(sqs.visibility)))
        consumer.permits.release()
        return acquire(*arguments, **options)

    consumer.permits.acquire = record_wait  # type: ignore[method-assign]
    response = consumer.handle(
        event(*(record(message, handle=str(message.work_id)) for message in messages)), Context()
    )

    assert response == {"batchItemFailures": []}
    seconds, protected = waits[0]
    assert seconds > 5
    assert protected == {str(message.work_id) for message in messages}
