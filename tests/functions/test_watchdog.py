"""The watchdog sends unsent messages and resends lost messages, and no others."""

import json
from collections.abc import Callable
from datetime import timedelta
from threading import Event
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.outbox import CALL_TIMEOUT_SECONDS, MAX_DELAY, Outbox
from counterfoil.delivery.work import Message, enqueue, start_revision
from counterfoil.kinds import WORK_KINDS
from functions.watchdog import recovery
from functions.watchdog.recovery import DEPTHS_TIMEOUT_SECONDS, QUEUE_RETENTION, Watchdog
from tests.delivery.harness import QUEUE_URL, Clock, FakeSqs, settings
from tests.factories import make_task

Pending = Callable[..., Message]


@pytest.fixture
def watchdog(maintenance_database: Database, clock: Clock, sqs: FakeSqs) -> Watchdog:
    configured = settings()
    return Watchdog(
        configured, maintenance_database, Outbox(maintenance_database, configured.queue_urls, clock=clock), clock
    )


def test_unsent_message_of_a_crashed_writer_is_sent(
    watchdog: Watchdog,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
) -> None:
    start_revision(admin, "matching", [pending().work_id], clock())

    assert watchdog.run().sent == 0  # the writer may be about to send it
    clock.advance(seconds=61)
    assert watchdog.run().sent == 1
    assert watchdog.run().sent == 0
    assert len(sqs.sent[QUEUE_URL]) == 1


def test_message_beyond_maximum_sqs_delay_is_sent_later(
    watchdog: Watchdog,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
) -> None:
    message = pending()
    tenant_id = admin.execute("SELECT tenant_id FROM document WHERE id = %s", [message.work_id]).fetchall()[0][0]
    due_at = clock() + timedelta(seconds=1800)
    enqueue(admin, WORK_KINDS["matching"], [(message.work_id, tenant_id, 1, 0)], due_at, clock())

    assert watchdog.run().sent == 0
    clock.now = due_at - MAX_DELAY
    assert watchdog.run().sent == 1
    (sent_message,) = sqs.sent[QUEUE_URL]
    assert sent_message["DelaySeconds"] == 900


def mark_as_sent(admin: Connection, clock: Clock, message: Message) -> None:
    start_revision(admin, "matching", [message.work_id], clock())
    admin.execute("UPDATE outbox SET sent_at = %s", [clock()])


def test_message_is_resent_if_queue_is_empty(
    watchdog: Watchdog,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
) -> None:
    mark_as_sent(admin, clock, pending())

    clock.advance(minutes=14)
    assert watchdog.run().resent == {"matching": 0}
    clock.advance(minutes=2)
    recovered = watchdog.run()

    assert (recovered.resent, recovered.sent) == ({"matching": 1}, 1)
    (message,) = sqs.sent[QUEUE_URL]
    assert Message.model_validate_json(message["MessageBody"]).send_number == 0  # the same message, not a new one
    assert watchdog.run().resent == {"matching": 0}


@pytest.mark.parametrize("busy_queue", ["first", "retries"])
def test_lost_message_is_resent_while_queue_is_busy(
    maintenance_database: Database,
    admin: Connection,
    tenant: UUID,
    sqs: FakeSqs,
    clock: Clock,
    capsys: pytest.CaptureFixture[str],
    busy_queue: str,
) -> None:
    configured = settings(queue_urls={"tasks": "first"}, retry_queue_urls={"tasks": "retries"})
    outbox = Outbox(maintenance_database, configured.queue_urls, configured.retry_queue_urls, clock=clock)
    watchdog = Watchdog(configured, maintenance_database, outbox, clock)
    task_id = make_task(admin, tenant)
    outbox.send(start_revision(admin, "tasks", [task_id], clock()))
    sqs.depths[busy_queue] = 1  # another message, delayed or in flight; the task's own message is lost
    resent = []
    capsys.readouterr()

    for _ in range(42):
        clock.advance(minutes=1)
        resent.append(watchdog.run().resent["tasks"])

    assert resent.index(1) == 35  # three visibility timeouts of 720 s
    assert sum(resent) == 1
    bodies = [json.loads(entry["MessageBody"]) for entry in sqs.sent["first"]]
    assert [(body["job_id"], body["send_number"]) for body in bodies] == [(str(task_id), 0)] * 2
    metrics = [json.loads(line)["PendingWithoutMessage"] for line in capsys.readouterr().out.splitlines()]
    assert sum(value for (value,) in metrics) == 1


def test_each_resend_to_busy_queue_doubles_the_wait(
    watchdog: Watchdog, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    mark_as_sent(admin, clock, pending())
    sqs.depths[QUEUE_URL] = 1
    passed = 0

    def resent(minutes: int) -> int:
        nonlocal passed
        clock.advance(minutes=minutes - passed)
        passed = minutes
        return watchdog.run().resent["matching"]

    for wait in (36, 72, 144, 288, 576, 1152, 2304, 4608, 9216):
        assert [resent(minutes) for minutes in (wait * 3 // 4, wait - 1, wait, wait + 1)] == [0, 0, 1, 0]


def test_resends_to_busy_queue_are_limited_per_run(
    watchdog: Watchdog, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    work_ids = [pending().work_id for _ in range(250)]
    lost_id = work_ids[-1]
    start_revision(admin, "matching", work_ids, clock())
    admin.execute("UPDATE outbox SET sent_at = %s", [clock()])
    admin.execute("UPDATE outbox SET sent_at = sent_at - interval '1 second' WHERE work_id = %s", [lost_id])
    sqs.depths[QUEUE_URL] = 249
    clock.advance(minutes=36)

    assert [watchdog.run().resent["matching"] for _ in range(4)] == [100, 100, 50, 0]

    first = [Message.model_validate_json(entry["MessageBody"]).work_id for entry in sqs.sent[QUEUE_URL][:100]]
    assert lost_id in first  # the message that was lost first is resent in the first run


def test_message_without_outbox_row_is_resent(
    watchdog: Watchdog, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Pending
) -> None:
    message = pending(next_attempt_at=clock())
    sqs.depths[QUEUE_URL] = 1

    clock.advance(minutes=35)
    assert watchdog.run().resent == {"matching": 0}
    clock.advance(minutes=1)
    assert watchdog.run().resent == {"matching": 1}
    clock.advance(minutes=35)
    assert watchdog.run().resent == {"matching": 0}

    (sent_message,) = sqs.sent[QUEUE_URL]
    assert Message.model_validate_json(sent_message["MessageBody"]) == message


def test_queue_with_unknown_depth_counts_as_busy(
    watchdog: Watchdog,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark_as_sent(admin, clock, pending())
    may_answer = Event()
    monkeypatch.setattr(sqs, "get_queue_attributes", lambda **_: may_answer.wait(30), raising=False)
    monkeypatch.setattr(recovery, "REQUEST_TIMEOUT_SECONDS", 0.05)

    clock.advance(hours=2)
    assert watchdog.run(lambda: 60).resent == {"matching": 0}
    clock.now += QUEUE_RETENTION
    assert watchdog.run(lambda: 60).resent == {"matching": 1}
    may_answer.set()


def test_depth_requests_stop_at_the_time_limit(
    maintenance_database: Database, sqs: FakeSqs, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested_urls: list[str] = []
    seconds_left = [60.0]

    def ask(*, QueueUrl: str, AttributeNames: list[str]) -> dict[str, Any]:  # noqa: N803
        requested_urls.append(QueueUrl)
        seconds_left[0] -= DEPTHS_TIMEOUT_SECONDS / 2
        return {"Attributes": dict.fromkeys(AttributeNames, "0")}

    monkeypatch.setattr(sqs, "get_queue_attributes", ask, raising=False)
    configured = settings(queue_urls={name: f"http://q/{name}" for name in WORK_KINDS})
    watchdog = Watchdog(
        configured, maintenance_database, Outbox(maintenance_database, configured.queue_urls, clock=clock), clock
    )

    assert set(watchdog.run(lambda: seconds_left[0]).resent) == set(WORK_KINDS)
    assert len(requested_urls) == 2 < len(WORK_KINDS)


def test_messages_without_time_left_are_sent_next_run(
    watchdog: Watchdog, admin: Connection, sqs: FakeSqs, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.execute(
        "INSERT INTO outbox (worker, work_id, revision, send_number, scheduled_at, created_at) "
        "SELECT 'matching', gen_random_uuid(), 1, 0, %s, %s FROM generate_series(1, 35)",
        [clock(), clock()],
    )
    clock.advance(seconds=61)
    seconds_left = [CALL_TIMEOUT_SECONDS + 2.0]
    send = sqs.send_message_batch

    def work_slowly(**batch: Any) -> dict[str, Any]:
        seconds_left[0] -= 1
        return send(**batch)

    monkeypatch.setattr(sqs, "send_message_batch", work_slowly, raising=False)

    assert watchdog.run(lambda: seconds_left[0]).sent == 30
    assert watchdog.run(lambda: 60).sent == 5


def test_lost_message_is_resent_after_lease_expiry(
    watchdog: Watchdog,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
) -> None:
    message = pending()
    mark_as_sent(admin, clock, message)
    admin.execute(
        "UPDATE document SET matching_status = 'in-progress', matching_lease_expires_at = %s",
        [clock() + timedelta(seconds=120)],
    )

    clock.advance(minutes=16)
    assert watchdog.run().resent == {"matching": 0}  # the lease expired only 14 minutes ago
    clock.advance(minutes=2)
    assert watchdog.run().resent == {"matching": 1}


def test_message_of_scheduled_work_item_is_not_resent(
    watchdog: Watchdog,
    admin: Connection,
    clock: Clock,
    pending: Pending,
) -> None:
    message = pending()
    mark_as_sent(admin, clock, message)
    admin.execute("UPDATE document SET matching_next_attempt_at = %s", [clock() + timedelta(hours=1)])

    clock.advance(minutes=30)

    assert watchdog.run().resent == {"matching": 0}


def test_message_of_ended_work_item_is_not_resent(
    watchdog: Watchdog,
    admin: Connection,
    clock: Clock,
    pending: Pending,
) -> None:
    for status in ("succeeded", "failed", None):
        mark_as_sent(admin, clock, pending(status=status))
        admin.execute("UPDATE document SET matching_status = %s", [status])

    clock.advance(hours=2)

    assert watchdog.run().resent == {"matching": 0}
