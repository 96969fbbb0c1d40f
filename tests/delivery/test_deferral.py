"""Deferred work items spend no attempt and wait for a new message."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Outcome, Succeeded, TenantAttempt
from counterfoil.delivery.work import Message, start_revision
from counterfoil.errors import BreakerOpenError, DeferredError, ServiceUnavailableError
from tests.delivery.harness import (
    DONE,
    QUEUE_URL,
    Clock,
    Context,
    FakeSqs,
    Flaky,
    commit_unknown,
    database_unavailable,
    event,
    life_cycle,
    make_consumer,
    record,
    rows,
)

Pending = Callable[..., Message]
Work = Callable[[TenantAttempt], Outcome]


@pytest.fixture
def deferring_work(clock: Clock) -> Work:
    """Work that is always deferred, because a breaker is open for 40 more seconds."""

    def work(attempt: TenantAttempt) -> Outcome:
        raise BreakerOpenError("The breaker is open", until=clock() + timedelta(seconds=40))

    return work


def sent_messages(sqs: FakeSqs) -> list[tuple[Message, int]]:
    """Return the messages sent to the queue, each with its delay in seconds."""
    return [(Message.model_validate_json(entry["MessageBody"]), entry["DelaySeconds"]) for entry in sqs.sent[QUEUE_URL]]


def with_send_number(message: Message, send_number: int) -> Message:
    return message.model_copy(update={"send_number": send_number})


def outcome_counts(capsys: pytest.CaptureFixture[str]) -> dict[str, list[float]]:
    """Return the outcome counts of the last batch."""
    lines = [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "_aws" in line]
    names = ("Succeeded", "Failed", "Retries", "Deferred", "StaleClaims", "OutcomeNotWritten")
    return {name: line[name] for line in lines for name in names if name in line}


@pytest.mark.parametrize("attempts", [0, 1, 2])
@pytest.mark.parametrize("receives", [1, 2, 3])
def test_deferral_spends_no_attempt_and_sends_new_message(
    attempts: int,
    receives: int,
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    deferring_work: Work,
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = pending(attempts=attempts, send_number=5, error="The error before")

    response = make_consumer(database, deferring_work, clock).handle(
        event(record(message, receives=receives, handle="it")), Context()
    )

    assert response == {"batchItemFailures": []}  # acknowledged; the new message's receive count starts at zero
    until = clock() + timedelta(seconds=40)
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", attempts, 6)
    assert (row["next_attempt_at"], row["lease_expires_at"], row["claimed_at"]) == (until, None, None)
    assert row["error"] == "The error before"
    assert sent_messages(sqs) == [(with_send_number(message, 6), 40)]
    assert [name for name, _ in sqs.log] == ["visibility", "send"]  # the visibility change protects the message
    assert outcome_counts(capsys) == {"Deferred": [1.0]}
    assert rows(admin, "dead_letter") == rows(admin, "failure_event") == []


def test_deferral_until_past_time_is_due_now(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()

    def work(attempt: TenantAttempt) -> Outcome:
        raise DeferredError("The same work item is in progress", until=clock() - timedelta(hours=1))

    make_consumer(database, work, clock).handle(event(record(message)), Context())

    row = life_cycle(admin, message.work_id)
    assert (row["attempts"], row["next_attempt_at"]) == (0, clock())
    assert sent_messages(sqs) == [(with_send_number(message, 1), 0)]  # a past time means now


def test_deferral_in_effects_rolls_effects_back(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring_work: Work
) -> None:
    message, other = pending(), pending()

    def work(attempt: TenantAttempt) -> Outcome:
        def effects(connection: Connection) -> Any:
            start_revision(connection, "matching", [other.work_id], clock())
            return deferring_work(attempt)

        return Succeeded(effects)

    make_consumer(database, work, clock).handle(event(record(message)), Context())

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"]) == ("pending", 0)
    assert sent_messages(sqs) == [(with_send_number(message, 1), 40)]


def test_message_after_deferral_starts_first_attempt(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring_work: Work
) -> None:
    message, attempt_numbers = pending(), []
    make_consumer(database, deferring_work, clock).handle(event(record(message)), Context())
    ((new, delay),) = sent_messages(sqs)

    def work(attempt: TenantAttempt) -> Outcome:
        attempt_numbers.append(attempt.number)
        return DONE

    clock.advance(seconds=delay)
    make_consumer(database, work, clock).handle(event(record(new)), Context())

    assert attempt_numbers == [1]
    assert life_cycle(admin, message.work_id)["status"] == "succeeded"


def test_early_message_after_deferral_is_parked(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring_work: Work
) -> None:
    message = pending()
    consumer = make_consumer(database, deferring_work, clock)
    consumer.handle(event(record(message)), Context())
    clock.advance(seconds=10)

    response = consumer.handle(event(record(with_send_number(message, 1))), Context())

    assert response == {"batchItemFailures": []}
    assert sent_messages(sqs)[1:] == [(with_send_number(message, 2), 30)]
    assert life_cycle(admin, message.work_id)["attempts"] == 0


def test_deferrals_for_one_day_spend_no_attempt(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring_work: Work
) -> None:
    message = pending(attempts=2)
    consumer = make_consumer(database, deferring_work, clock)
    for number in range(50):
        assert consumer.handle(event(record(with_send_number(message, number), receives=3)), Context()) == {
            "batchItemFailures": []
        }
        clock.advance(minutes=30)

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 2, 50)
    assert rows(admin, "dead_letter") == []


def test_deferral_beyond_sqs_delay_limit_waits_in_outbox(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()
    until = clock() + timedelta(seconds=901)

    def work(attempt: TenantAttempt) -> Outcome:
        raise BreakerOpenError("The breaker is open", until=until)

    response = make_consumer(database, work, clock).handle(event(record(message)), Context())

    assert response == {"batchItemFailures": []}
    assert sent_messages(sqs) == []
    (entry,) = rows(admin, "outbox")
    assert (entry["send_number"], entry["sent_at"]) == (1, None)
    assert admin.execute("SELECT scheduled_at FROM outbox").fetchall() == [(until,)]


def test_deferral_does_not_affect_other_messages(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring_work: Work
) -> None:
    messages = [pending() for _ in range(4)]
    deferred = {messages[1].work_id, messages[2].work_id}

    def work(attempt: TenantAttempt) -> Outcome:
        return deferring_work(attempt) if attempt.work_id in deferred else DONE

    response = make_consumer(database, work, clock).handle(event(*map(record, messages)), Context())

    assert response == {"batchItemFailures": []}
    stored = [life_cycle(admin, message.work_id) for message in messages]
    assert [(row["status"], row["attempts"]) for row in stored] == [
        ("succeeded", 1),
        ("pending", 0),
        ("pending", 0),
        ("succeeded", 1),
    ]
    assert {message.work_id for message, _ in sent_messages(sqs)} == deferred


# Newer claims, crashes and an unavailable database


NEW_CLAIM_TOKEN = "matching_claim_token = nextval('claim_token')"


@pytest.mark.parametrize(
    "change",
    [
        NEW_CLAIM_TOKEN,
        f"{NEW_CLAIM_TOKEN}, matching_attempts = matching_attempts + 1",
        f"{NEW_CLAIM_TOKEN}, matching_status = 'failed', matching_failed_at = now()",
        f"{NEW_CLAIM_TOKEN}, matching_status = 'pending', matching_revision = 2, matching_attempts = 0, "
        "matching_send_number = 0",
    ],
    ids=["claimed", "retried", "archived", "new revision"],
)
def test_stale_deferral_changes_nothing(
    change: str,
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    deferring_work: Work,
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = pending()
    row_after_claim: list[dict[str, Any]] = []

    def work(attempt: TenantAttempt) -> Outcome:
        admin.execute(f"UPDATE document SET {change} WHERE id = %s".encode(), [attempt.work_id])
        row_after_claim.append(life_cycle(admin, attempt.work_id))
        return deferring_work(attempt)

    response = make_consumer(database, work, clock).handle(event(record(message, handle="it")), Context())

    assert len(response["batchItemFailures"]) == 1  # the message may belong to the newer attempt
    assert len([entry for entry in sqs.log if entry[0] == "visibility"]) == 1
    assert [life_cycle(admin, message.work_id)] == row_after_claim
    assert rows(admin, "outbox") == []
    assert outcome_counts(capsys) == {"StaleClaims": [1.0]}


def test_message_of_ended_deferral_is_sent_immediately(
    database: Database, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()

    def work(attempt: TenantAttempt) -> Outcome:
        raise DeferredError("Not yet", until=clock() + timedelta(hours=1), is_over=lambda connection: True)

    make_consumer(database, work, clock).handle(event(record(message)), Context())

    assert sent_messages(sqs) == [(with_send_number(message, 2), 0)]


def test_redelivered_message_after_deferral_is_dropped(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring_work: Work
) -> None:
    message, attempt_numbers = pending(), []

    def work(attempt: TenantAttempt) -> Outcome:
        attempt_numbers.append(attempt.number)
        return deferring_work(attempt)

    consumer = make_consumer(database, work, clock)
    consumer.handle(event(record(message)), Context())  # as if killed before the response reached SQS
    before = life_cycle(admin, message.work_id)
    clock.advance(minutes=12)

    response = consumer.handle(event(record(message, receives=2)), Context())

    assert response == {"batchItemFailures": []}
    assert attempt_numbers == [1]
    assert life_cycle(admin, message.work_id) == before
    assert len(sent_messages(sqs)) == 1


def test_unsent_message_after_deferral_stays_in_outbox(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    deferring_work: Work,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = pending()

    def time_out(**_: Any) -> Any:
        raise ServiceUnavailableError("SQS is unavailable")

    monkeypatch.setattr(sqs, "send_message_batch", time_out)

    response = make_consumer(database, deferring_work, clock).handle(event(record(message)), Context())

    assert response == {"batchItemFailures": []}
    assert [(row["send_number"], row["sent_at"]) for row in rows(admin, "outbox")] == [(1, None)]
    assert life_cycle(admin, message.work_id)["attempts"] == 0


def test_rolled_back_deferral_is_repeated(
    flaky_database: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring_work: Work
) -> None:
    message = pending()
    flaky_database.fail_tenant = [commit_unknown]

    response = make_consumer(flaky_database, deferring_work, clock).handle(event(record(message)), Context())

    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, message.work_id)
    assert (row["attempts"], row["send_number"]) == (0, 1)


def test_committed_but_unconfirmed_deferral_is_not_repeated(
    flaky_database: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring_work: Work
) -> None:
    message = pending(attempts=1)
    flaky_database.commit_then_fail = True
    flaky_database.fail_tenant = [commit_unknown]

    response = make_consumer(flaky_database, deferring_work, clock).handle(event(record(message)), Context())

    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 1, 1)
    # The watchdog will send the message.
    assert [(entry["send_number"], entry["sent_at"]) for entry in rows(admin, "outbox")] == [(1, None)]


def test_deferral_during_database_outage_spends_attempt(
    flaky_database: Flaky,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    deferring_work: Work,
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = pending()
    consumer = make_consumer(flaky_database, deferring_work, clock)
    flaky_database.fail_tenant = [database_unavailable] * 9

    response = consumer.handle(event(record(message, handle="it")), Context())

    assert len(response["batchItemFailures"]) == 1
    assert sqs.visibility["it"] == 300
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("in-progress", 1, 0)
    assert outcome_counts(capsys) == {"OutcomeNotWritten": [1.0]}
    flaky_database.fail_tenant = []
    clock.advance(seconds=301)
    assert consumer.handle(event(record(message, receives=2)), Context()) == {"batchItemFailures": []}
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 1, 1)


# With a real breaker


def test_open_breaker_stops_spending_attempts(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    breakers = Breakers(database, clock, failures=3, open_seconds=30, spread=lambda: 0.0)
    messages, is_unavailable = [pending() for _ in range(8)], True

    def work(attempt: TenantAttempt) -> Outcome:
        with breakers.guard("llm:anthropic"):
            if is_unavailable:
                raise ServiceUnavailableError("503")
            return DONE

    worker = {"name": "matching", "timeout": 120, "permits": 1, "start_margin": 30}
    consumer = make_consumer(database, work, clock, worker=worker)
    response = consumer.handle(event(*map(record, messages)), Context())

    def attempt_counts() -> list[int]:
        return [life_cycle(admin, message.work_id)["attempts"] for message in messages]

    assert len(response["batchItemFailures"]) == 3
    assert attempt_counts() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert {delay for _, delay in sent_messages(sqs)} == {30}

    clock.advance(seconds=30)
    consumer.handle(event(*[record(with_send_number(message, 1)) for message in messages[3:]]), Context())
    assert attempt_counts() == [1, 1, 1, 1, 0, 0, 0, 0]  # the probe spends an attempt

    is_unavailable = False
    clock.advance(seconds=60)
    consumer.handle(event(*[record(with_send_number(message, 2)) for message in messages[4:]]), Context())
    assert [life_cycle(admin, message.work_id)["status"] for message in messages[4:]] == ["succeeded"] * 4


def test_breaker_is_shared_by_tenants(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    make_tenant: Callable[..., UUID],
    make_document: Callable[..., UUID],
) -> None:
    breakers = Breakers(database, clock, failures=1, open_seconds=30)
    work_ids = [
        make_document(make_tenant(slug), {}, type="invoice", matching_status="pending", matching_revision=1)
        for slug in ("ours", "theirs")
    ]

    def work(attempt: TenantAttempt) -> Outcome:
        with breakers.guard("llm:anthropic"):
            raise ServiceUnavailableError("503")

    for work_id in work_ids:
        message = Message(work_id=work_id, revision=1, send_number=0)
        make_consumer(database, work, clock).handle(event(record(message)), Context())

    assert [life_cycle(admin, work_id)["attempts"] for work_id in work_ids] == [1, 0]
