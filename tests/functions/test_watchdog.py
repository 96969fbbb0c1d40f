"""The watchdog sends what was left unsent, and re-sends what must be gone, and nothing else."""

from collections.abc import Callable
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from counterfoil.db import Connection, Database
from counterfoil.messages import Message
from counterfoil.outbox import CALL_SECONDS, MAX_DELAY, Outbox
from counterfoil.work import KINDS, begin, owe
from functions.watchdog import recovery
from functions.watchdog.recovery import ASKING_SECONDS, QUEUE_RETENTION, Watchdog
from tests.delivery.harness import QUEUE_URL, Clock, FakeSqs, settings

Pending = Callable[..., Message]


@pytest.fixture
def watchdog(keeper_database: Database, clock: Clock, sqs: FakeSqs) -> Watchdog:
    chosen = settings()
    return Watchdog(chosen, keeper_database, Outbox(keeper_database, chosen.queue_urls, clock=clock), clock)


def test_a_message_whose_writer_died_before_sending_is_sent(
    watchdog: Watchdog,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
) -> None:
    begin(admin, "matching", [pending().work_id], clock())

    assert watchdog.run().sent == 0  # its writer may be about to send it
    clock.pass_(seconds=61)
    assert watchdog.run().sent == 1
    assert watchdog.run().sent == 0
    assert len(sqs.sent[QUEUE_URL]) == 1


def test_a_message_due_later_than_sqs_can_delay_is_sent_when_it_is_near(
    watchdog: Watchdog,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
) -> None:
    message = pending()
    tenant_id = admin.execute("SELECT tenant_id FROM document WHERE id = %s", [message.work_id]).fetchall()[0][0]
    due = clock() + timedelta(seconds=1800)
    owe(admin, KINDS["matching"], [(message.work_id, tenant_id, 1, 0)], due, clock())

    assert watchdog.run().sent == 0
    clock.now = due - MAX_DELAY
    assert watchdog.run().sent == 1
    (sent,) = sqs.sent[QUEUE_URL]
    assert sent["DelaySeconds"] == 900


def sent_long_ago(admin: Connection, clock: Clock, message: Message) -> None:
    begin(admin, "matching", [message.work_id], clock())
    admin.execute("UPDATE outbox SET sent_at = %s", [clock()])


def test_pending_work_whose_queue_is_empty_gets_its_message_again(
    watchdog: Watchdog,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
) -> None:
    sent_long_ago(admin, clock, pending())

    clock.pass_(minutes=14)
    assert watchdog.run().resent == {"matching": 0}
    clock.pass_(minutes=2)
    recovered = watchdog.run()

    assert (recovered.resent, recovered.sent) == ({"matching": 1}, 1)
    (sent,) = sqs.sent[QUEUE_URL]
    assert Message.model_validate_json(sent["MessageBody"]).send_number == 0  # the same message, not a newer one
    assert watchdog.run().resent == {"matching": 0}


def test_pending_work_is_left_alone_while_its_queue_holds_messages_that_may_be_its_own(
    watchdog: Watchdog,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
) -> None:
    sent_long_ago(admin, clock, pending())
    sqs.depths[QUEUE_URL] = 1

    clock.pass_(hours=2)
    assert watchdog.run().resent == {"matching": 0}
    clock.now += QUEUE_RETENTION
    assert watchdog.run().resent == {"matching": 1}  # no queue keeps a message that long


def test_a_queue_that_does_not_say_how_full_it_is_may_hold_any_message(
    watchdog: Watchdog,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent_long_ago(admin, clock, pending())
    may_answer = Event()
    monkeypatch.setattr(sqs, "get_queue_attributes", lambda **_: may_answer.wait(30), raising=False)
    monkeypatch.setattr(recovery, "ASK_SECONDS", 0.05)

    clock.pass_(hours=2)
    assert watchdog.run(lambda: 60).resent == {"matching": 0}
    clock.now += QUEUE_RETENTION
    assert watchdog.run(lambda: 60).resent == {"matching": 1}
    may_answer.set()


def test_when_the_time_for_asking_is_over_no_further_queue_is_asked(
    keeper_database: Database, sqs: FakeSqs, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    left = [60.0]

    def ask(*, QueueUrl: str, AttributeNames: list[str]) -> dict[str, Any]:  # noqa: N803
        asked.append(QueueUrl)
        left[0] -= ASKING_SECONDS / 2
        return {"Attributes": dict.fromkeys(AttributeNames, "0")}

    monkeypatch.setattr(sqs, "get_queue_attributes", ask, raising=False)
    chosen = settings(queue_urls={name: f"http://q/{name}" for name in KINDS})
    watchdog = Watchdog(chosen, keeper_database, Outbox(keeper_database, chosen.queue_urls, clock=clock), clock)

    assert set(watchdog.run(lambda: left[0]).resent) == set(KINDS)
    assert len(asked) == 2 < len(KINDS)


def test_what_there_is_no_time_to_send_is_sent_in_the_next_round(
    watchdog: Watchdog, admin: Connection, sqs: FakeSqs, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.execute(
        "INSERT INTO outbox (worker, work_id, revision, send_number, not_before, created_at) "
        "SELECT 'matching', gen_random_uuid(), 1, 0, %s, %s FROM generate_series(1, 35)",
        [clock(), clock()],
    )
    clock.pass_(seconds=61)
    left = [CALL_SECONDS + 2.0]
    send = sqs.send_message_batch

    def slow(**batch: Any) -> dict[str, Any]:
        left[0] -= 1
        return send(**batch)

    monkeypatch.setattr(sqs, "send_message_batch", slow, raising=False)

    assert watchdog.run(lambda: left[0]).sent == 30
    assert watchdog.run(lambda: 60).sent == 5


def test_work_in_progress_whose_worker_and_message_are_gone_gets_its_message_again(
    watchdog: Watchdog,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
) -> None:
    message = pending()
    sent_long_ago(admin, clock, message)
    admin.execute(
        "UPDATE document SET matching_status = 'in-progress', matching_lease_expires_at = %s",
        [clock() + timedelta(seconds=120)],
    )

    clock.pass_(minutes=16)
    assert watchdog.run().resent == {"matching": 0}  # the lease is over for 14 minutes only
    clock.pass_(minutes=2)
    assert watchdog.run().resent == {"matching": 1}


def test_work_that_waits_for_its_time_is_left_alone(
    watchdog: Watchdog,
    admin: Connection,
    clock: Clock,
    pending: Pending,
) -> None:
    message = pending()
    sent_long_ago(admin, clock, message)
    admin.execute("UPDATE document SET matching_next_attempt_at = %s", [clock() + timedelta(hours=1)])

    clock.pass_(minutes=30)

    assert watchdog.run().resent == {"matching": 0}


def test_ended_work_is_left_alone(
    watchdog: Watchdog,
    admin: Connection,
    clock: Clock,
    pending: Pending,
) -> None:
    for status in ("succeeded", "failed", None):
        sent_long_ago(admin, clock, pending(status=status))
        admin.execute("UPDATE document SET matching_status = %s", [status])

    clock.pass_(hours=2)

    assert watchdog.run().resent == {"matching": 0}
