"""Work that cannot go on through no fault of its own has its attempt back, and a new message waits in its place."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Outcome, Succeeded, TenantAttempt
from counterfoil.delivery.work import Message, begin
from counterfoil.errors import BreakerOpenError, DeferredError, ServiceUnavailableError
from tests.delivery.harness import (
    DONE,
    QUEUE_URL,
    Clock,
    Context,
    FakeSqs,
    Flaky,
    away,
    event,
    life_cycle,
    make_consumer,
    record,
    rows,
    unknown,
)

Pending = Callable[..., Message]
Work = Callable[[TenantAttempt], Outcome]


@pytest.fixture
def deferring(clock: Clock) -> Work:
    """Work whose service is away for 40 more seconds whenever it is called."""

    def work(attempt: TenantAttempt) -> Outcome:
        raise BreakerOpenError("The breaker is open", until=clock() + timedelta(seconds=40))

    return work


def sent(sqs: FakeSqs) -> list[tuple[Message, int]]:
    """Messages sent to the queue, each with its delay in seconds."""
    return [(Message.model_validate_json(entry["MessageBody"]), entry["DelaySeconds"]) for entry in sqs.sent[QUEUE_URL]]


def numbered(message: Message, send_number: int) -> Message:
    return message.model_copy(update={"send_number": send_number})


def outcomes(capsys: pytest.CaptureFixture[str]) -> dict[str, list[float]]:
    """The counts of the last batch."""
    lines = [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "_aws" in line]
    names = ("Succeeded", "Failed", "Retries", "Deferred", "Stale", "Unsettled")
    return {name: line[name] for line in lines for name in names if name in line}


@pytest.mark.parametrize("attempts", [0, 1, 2])
@pytest.mark.parametrize("receives", [1, 2, 3])
def test_deferred_work_has_its_attempt_back_and_waits_behind_a_new_message(
    attempts: int,
    receives: int,
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    deferring: Work,
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = pending(attempts=attempts, send_number=5, error="The error before")

    response = make_consumer(database, deferring, clock).handle(
        event(record(message, receives=receives, handle="it")), Context()
    )

    assert response == {"batchItemFailures": []}  # acknowledged: its receives end here, the new message has none
    until = clock() + timedelta(seconds=40)
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", attempts, 6)
    assert (row["next_attempt_at"], row["lease_expires_at"], row["claimed_at"]) == (until, None, None)
    assert row["error"] == "The error before"
    assert sent(sqs) == [(numbered(message, 6), 40)]
    assert [name for name, _ in sqs.log] == ["visibility", "send"]  # the visibility is its protection
    assert outcomes(capsys) == {"Deferred": [1.0]}
    assert rows(admin, "dead_letter") == rows(admin, "notification") == []


def test_any_deferral_is_one_not_only_a_breakers(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()

    def work(attempt: TenantAttempt) -> Outcome:
        raise DeferredError("The same work is under way", until=clock() - timedelta(hours=1))

    make_consumer(database, work, clock).handle(event(record(message)), Context())

    row = life_cycle(admin, message.work_id)
    assert (row["attempts"], row["next_attempt_at"]) == (0, clock())
    assert sent(sqs) == [(numbered(message, 1), 0)]  # a time that has passed is now


def test_a_deferral_that_arises_while_effects_are_written_takes_the_effects_back(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring: Work
) -> None:
    message, other = pending(), pending()

    def work(attempt: TenantAttempt) -> Outcome:
        def effects(connection: Connection) -> Any:
            begin(connection, "matching", [other.work_id], clock())
            return deferring(attempt)

        return Succeeded(effects)

    make_consumer(database, work, clock).handle(event(record(message)), Context())

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"]) == ("pending", 0)
    assert sent(sqs) == [(numbered(message, 1), 40)]


def test_the_new_message_comes_at_its_time_and_is_the_first_attempt(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring: Work
) -> None:
    message, numbers = pending(), []
    make_consumer(database, deferring, clock).handle(event(record(message)), Context())
    ((new, delay),) = sent(sqs)

    def work(attempt: TenantAttempt) -> Outcome:
        numbers.append(attempt.number)
        return DONE

    clock.pass_(seconds=delay)
    make_consumer(database, work, clock).handle(event(record(new)), Context())

    assert numbers == [1]
    assert life_cycle(admin, message.work_id)["status"] == "succeeded"


def test_a_message_that_comes_before_its_time_is_parked_until_then(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring: Work
) -> None:
    message = pending()
    consumer = make_consumer(database, deferring, clock)
    consumer.handle(event(record(message)), Context())
    clock.pass_(seconds=10)

    response = consumer.handle(event(record(numbered(message, 1))), Context())

    assert response == {"batchItemFailures": []}
    assert sent(sqs)[1:] == [(numbered(message, 2), 30)]
    assert life_cycle(admin, message.work_id)["attempts"] == 0


def test_work_deferred_for_a_day_is_as_good_as_new(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring: Work
) -> None:
    message = pending(attempts=2)
    consumer = make_consumer(database, deferring, clock)
    for number in range(50):
        assert consumer.handle(event(record(numbered(message, number), receives=3)), Context()) == {
            "batchItemFailures": []
        }
        clock.pass_(minutes=30)

    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 2, 50)
    assert rows(admin, "dead_letter") == []


def test_a_deferral_longer_than_sqs_can_delay_waits_in_the_outbox(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()
    until = clock() + timedelta(seconds=901)

    def work(attempt: TenantAttempt) -> Outcome:
        raise BreakerOpenError("The breaker is open", until=until)

    response = make_consumer(database, work, clock).handle(event(record(message)), Context())

    assert response == {"batchItemFailures": []}
    assert sent(sqs) == []
    (owed,) = rows(admin, "outbox")
    assert (owed["send_number"], owed["sent_at"]) == (1, None)
    assert admin.execute("SELECT not_before FROM outbox").fetchall() == [(until,)]


def test_a_deferral_leaves_the_other_records_of_its_batch_alone(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring: Work
) -> None:
    messages = [pending() for _ in range(4)]
    deferred = {messages[1].work_id, messages[2].work_id}

    def work(attempt: TenantAttempt) -> Outcome:
        return deferring(attempt) if attempt.work_id in deferred else DONE

    response = make_consumer(database, work, clock).handle(event(*map(record, messages)), Context())

    assert response == {"batchItemFailures": []}
    found = [life_cycle(admin, message.work_id) for message in messages]
    assert [(row["status"], row["attempts"]) for row in found] == [
        ("succeeded", 1),
        ("pending", 0),
        ("pending", 0),
        ("succeeded", 1),
    ]
    assert {message.work_id for message, _ in sent(sqs)} == deferred


# A newer claim, a crash, the database away


NEWER = "matching_claim_token = nextval('claim_token')"


@pytest.mark.parametrize(
    "change",
    [
        NEWER,
        f"{NEWER}, matching_attempts = matching_attempts + 1",
        f"{NEWER}, matching_status = 'failed', matching_failed_at = now()",
        f"{NEWER}, matching_status = 'pending', matching_revision = 2, matching_attempts = 0, matching_send_number = 0",
    ],
    ids=["claimed", "tried again", "archived", "new revision"],
)
def test_a_stale_try_that_defers_changes_nothing(
    change: str,
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    deferring: Work,
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = pending()
    left: list[dict[str, Any]] = []

    def work(attempt: TenantAttempt) -> Outcome:
        admin.execute(f"UPDATE document SET {change} WHERE id = %s".encode(), [attempt.work_id])
        left.append(life_cycle(admin, attempt.work_id))
        return deferring(attempt)

    response = make_consumer(database, work, clock).handle(event(record(message, handle="it")), Context())

    assert len(response["batchItemFailures"]) == 1  # the message may be the newer try's
    assert len([entry for entry in sqs.log if entry[0] == "visibility"]) == 1
    assert [life_cycle(admin, message.work_id)] == left
    assert rows(admin, "outbox") == []
    assert outcomes(capsys) == {"Stale": [1.0]}


def test_deferred_work_without_obstacle_is_tried_at_once(
    database: Database, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending()

    def work(attempt: TenantAttempt) -> Outcome:
        raise DeferredError("Not yet", until=clock() + timedelta(hours=1), is_over=lambda connection: True)

    make_consumer(database, work, clock).handle(event(record(message)), Context())

    assert sent(sqs) == [(numbered(message, 2), 0)]


def test_a_message_whose_acknowledgement_was_lost_is_recognised_as_older(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring: Work
) -> None:
    message, tries = pending(), []

    def work(attempt: TenantAttempt) -> Outcome:
        tries.append(attempt.number)
        return deferring(attempt)

    consumer = make_consumer(database, work, clock)
    consumer.handle(event(record(message)), Context())  # killed before SQS heard the answer
    before = life_cycle(admin, message.work_id)
    clock.pass_(minutes=12)

    response = consumer.handle(event(record(message, receives=2)), Context())

    assert response == {"batchItemFailures": []}
    assert tries == [1]
    assert life_cycle(admin, message.work_id) == before
    assert len(sent(sqs)) == 1


def test_a_deferral_whose_message_could_not_be_sent_is_still_owed(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    deferring: Work,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = pending()

    def no_answer(**_: Any) -> Any:
        raise ServiceUnavailableError("SQS is away")

    monkeypatch.setattr(sqs, "send_message_batch", no_answer)

    response = make_consumer(database, deferring, clock).handle(event(record(message)), Context())

    assert response == {"batchItemFailures": []}
    assert [(row["send_number"], row["sent_at"]) for row in rows(admin, "outbox")] == [(1, None)]
    assert life_cycle(admin, message.work_id)["attempts"] == 0


def test_a_deferral_whose_commit_was_lost_after_all_is_made_again(
    flaky: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring: Work
) -> None:
    message = pending()
    flaky.fail_tenant = [unknown]

    response = make_consumer(flaky, deferring, clock).handle(event(record(message)), Context())

    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, message.work_id)
    assert (row["attempts"], row["send_number"]) == (0, 1)


def test_a_deferral_that_was_committed_unheard_gives_one_attempt_back(
    flaky: Flaky, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending, deferring: Work
) -> None:
    message = pending(attempts=1)
    flaky.commit_then_fail = True
    flaky.fail_tenant = [unknown]

    response = make_consumer(flaky, deferring, clock).handle(event(record(message)), Context())

    assert response == {"batchItemFailures": []}
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 1, 1)
    assert [(owed["send_number"], owed["sent_at"]) for owed in rows(admin, "outbox")] == [(1, None)]  # the watchdog's


def test_a_deferral_that_the_database_does_not_hear_of_comes_again_with_its_attempt_spent(
    flaky: Flaky,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    deferring: Work,
    capsys: pytest.CaptureFixture[str],
) -> None:
    message = pending()
    consumer = make_consumer(flaky, deferring, clock)
    flaky.fail_tenant = [away] * 9

    response = consumer.handle(event(record(message, handle="it")), Context())

    assert len(response["batchItemFailures"]) == 1
    assert sqs.visibility["it"] == 300
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("in-progress", 1, 0)
    assert outcomes(capsys) == {"Unsettled": [1.0]}
    flaky.fail_tenant = []
    clock.pass_(seconds=301)
    assert consumer.handle(event(record(message, receives=2)), Context()) == {"batchItemFailures": []}
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"], row["send_number"]) == ("pending", 1, 1)


# With a breaker in earnest


def test_an_outage_costs_attempts_until_its_breaker_opens_and_none_after(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    breakers = Breakers(database, clock, failures=3, open_seconds=30, spread=lambda: 0.0)
    messages, away = [pending() for _ in range(8)], True

    def work(attempt: TenantAttempt) -> Outcome:
        with breakers.guard("llm:anthropic"):
            if away:
                raise ServiceUnavailableError("503")
            return DONE

    one_by_one = {"name": "matching", "timeout": 120, "permits": 1, "start_margin": 30}
    consumer = make_consumer(database, work, clock, worker=one_by_one)
    response = consumer.handle(event(*map(record, messages)), Context())

    def attempts() -> list[int]:
        return [life_cycle(admin, message.work_id)["attempts"] for message in messages]

    assert len(response["batchItemFailures"]) == 3
    assert attempts() == [1, 1, 1, 0, 0, 0, 0, 0]
    assert {delay for _, delay in sent(sqs)} == {30}

    clock.pass_(seconds=30)
    consumer.handle(event(*[record(numbered(message, 1)) for message in messages[3:]]), Context())
    assert attempts() == [1, 1, 1, 1, 0, 0, 0, 0]  # the probe's, which was a real try

    away = False
    clock.pass_(seconds=60)
    consumer.handle(event(*[record(numbered(message, 2)) for message in messages[4:]]), Context())
    assert [life_cycle(admin, message.work_id)["status"] for message in messages[4:]] == ["succeeded"] * 4


def test_a_tenants_breaker_is_everybodys(
    database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    make_tenant: Callable[..., UUID],
    make_document: Callable[..., UUID],
) -> None:
    breakers = Breakers(database, clock, failures=1, open_seconds=30)
    works = [
        make_document(make_tenant(slug), {}, type="invoice", matching_status="pending", matching_revision=1)
        for slug in ("ours", "theirs")
    ]

    def work(attempt: TenantAttempt) -> Outcome:
        with breakers.guard("llm:anthropic"):
            raise ServiceUnavailableError("503")

    for work_id in works:
        message = Message(work_id=work_id, revision=1, send_number=0)
        make_consumer(database, work, clock).handle(event(record(message)), Context())

    assert [life_cycle(admin, work_id)["attempts"] for work_id in works] == [1, 0]
