"""The watchdog sends what was left unsent, and re-sends what must be gone, and nothing else."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from counterfoil.db import Connection, Database
from counterfoil.messages import Message
from counterfoil.outbox import MAX_DELAY, Outbox
from counterfoil.work import KINDS, begin, owe
from functions.watchdog.recovery import OUTBOX_RETENTION, QUEUE_RETENTION, Watchdog
from tests.delivery.harness import QUEUE_URL, Clock, FakeSqs, rows, settings

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


def test_sent_rows_are_purged_after_their_time(
    watchdog: Watchdog,
    admin: Connection,
    clock: Clock,
    pending: Pending,
) -> None:
    sent_long_ago(admin, clock, pending())
    admin.execute("UPDATE document SET matching_status = 'succeeded'")

    assert watchdog.run().purged == 0
    clock.now += OUTBOX_RETENTION + timedelta(seconds=1)

    assert watchdog.run().purged == 1
    assert rows(admin, "outbox") == []
