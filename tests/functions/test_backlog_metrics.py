"""The watchdog measures each worker's backlog, dead letters and queue depths."""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Message, enqueue, start_revision
from counterfoil.kinds import WORK_KINDS
from counterfoil.metrics import Metric
from functions.watchdog.backlog_metrics import measure
from functions.watchdog.recovery import Watchdog
from tests.delivery.harness import QUEUE_URL, Clock, FakeSqs, settings
from tests.factories import make_task

Pending = Callable[..., Message]
Measure = Callable[[], dict[Metric, float]]


@pytest.fixture
def measure_matching(maintenance_database: Database, clock: Clock) -> Measure:
    """`measure_matching()` returns the current measurements of the matching worker."""

    def measure_matching() -> dict[Metric, float]:
        metrics = measure(maintenance_database, ["matching"], now=clock(), unsent_after=timedelta(seconds=60))
        return dict(metrics["matching"])

    return measure_matching


def work(admin: Connection, message: Message, **columns: Any) -> None:
    for name, value in columns.items():
        admin.execute(f"UPDATE document SET matching_{name} = %s WHERE id = %s".encode(), [value, message.work_id])


def test_idle_system_measures_zero(measure_matching: Measure) -> None:
    assert set(measure_matching().values()) == {0}


def test_old_claim_with_expired_lease_is_stuck(
    measure_matching: Measure, admin: Connection, clock: Clock, pending: Pending
) -> None:
    claimed_at, expired_at = clock() - timedelta(minutes=10), clock()
    work(admin, pending(status="in-progress"), claimed_at=claimed_at, lease_expires_at=expired_at)
    assert measure_matching()[Metric.STUCK_IN_PROGRESS] == 1

    work(
        admin, pending(status="in-progress"), claimed_at=claimed_at, lease_expires_at=expired_at + timedelta(seconds=1)
    )
    work(
        admin, pending(status="in-progress"), claimed_at=claimed_at + timedelta(seconds=1), lease_expires_at=expired_at
    )
    work(admin, pending(status="succeeded"), claimed_at=claimed_at, lease_expires_at=expired_at)

    assert measure_matching()[Metric.STUCK_IN_PROGRESS] == 1


def test_attempted_pending_work_items_await_retry(
    measure_matching: Measure, admin: Connection, clock: Clock, pending: Pending
) -> None:
    pending()
    pending(status="failed", attempts=3)
    pending(attempts=1, next_attempt_at=clock() + timedelta(minutes=30))
    pending(attempts=2)

    assert measure_matching()[Metric.WAITING_FOR_RETRY] == 2


def test_pending_age_is_age_of_oldest_item(
    measure_matching: Measure, admin: Connection, clock: Clock, pending: Pending
) -> None:
    start_revision(admin, "matching", [pending().work_id], clock())
    clock.advance(seconds=100)
    start_revision(admin, "matching", [pending().work_id], clock())
    clock.advance(seconds=20)

    assert measure_matching()[Metric.OLDEST_PENDING_SECONDS] == 120


def test_pending_age_starts_at_due_time(
    measure_matching: Measure, admin: Connection, clock: Clock, pending: Pending
) -> None:
    message = pending()
    start_revision(admin, "matching", [message.work_id], clock())
    work(admin, message, next_attempt_at=clock() + timedelta(seconds=300))

    clock.advance(seconds=299)
    assert measure_matching()[Metric.OLDEST_PENDING_SECONDS] == 0
    clock.advance(seconds=11)
    assert measure_matching()[Metric.OLDEST_PENDING_SECONDS] == 10


def test_resend_does_not_reset_pending_age(
    measure_matching: Measure,
    maintenance_database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
) -> None:
    configured = settings()
    watchdog = Watchdog(
        configured, maintenance_database, Outbox(maintenance_database, configured.queue_urls, clock=clock), clock
    )
    start_revision(admin, "matching", [pending().work_id], clock())
    clock.advance(minutes=1)
    assert watchdog.run().sent == 1  # as if this message were lost
    clock.advance(minutes=20)
    assert watchdog.run().resent == {"matching": 1}

    assert measure_matching()[Metric.OLDEST_PENDING_SECONDS] == 21 * 60


def test_unsent_message_is_overdue_after_a_minute(
    measure_matching: Measure, admin: Connection, clock: Clock, pending: Pending
) -> None:
    (outbox_message,) = start_revision(admin, "matching", [pending().work_id], clock())
    second_message = pending()
    assert outbox_message.tenant_id is not None
    enqueue(
        admin,
        WORK_KINDS["matching"],
        [(second_message.work_id, outbox_message.tenant_id, 1, 0)],
        clock() + timedelta(hours=1),
        clock(),
    )

    clock.advance(seconds=59)
    assert measure_matching()[Metric.OUTBOX_OVERDUE] == 0
    clock.advance(seconds=1)
    assert measure_matching()[Metric.OUTBOX_OVERDUE] == 1
    admin.execute("UPDATE outbox SET sent_at = %s WHERE id = %s", [clock(), outbox_message.id])
    assert measure_matching()[Metric.OUTBOX_OVERDUE] == 0


def add_dead_letter(admin: Connection, tenant_id: UUID, worker: str, *, at: object, status: str = "pending") -> None:
    admin.execute(
        """
        INSERT INTO dead_letter (job_id, tenant_id, worker, task_type, payload, metadata, attempts, fingerprint,
                                 dlq_reason, dlq_timestamp, status)
        VALUES (%s, %s, %s, 'document', '{}', '{}', 3, 'f', 'max_retries_exceeded', %s, %s)
        """,
        [uuid4(), tenant_id, worker, at, status],
    )


def test_only_pending_dead_letters_are_counted(
    measure_matching: Measure, admin: Connection, clock: Clock, tenant: UUID
) -> None:
    for _ in range(2):
        add_dead_letter(admin, tenant, "matching", at=clock())
    for status in ("retried", "resolved", "ignored"):
        add_dead_letter(admin, tenant, "matching", at=clock() - timedelta(hours=1), status=status)
    add_dead_letter(admin, tenant, "ingestion", at=clock())

    assert measure_matching()[Metric.PENDING_DEAD_LETTERS] == 2


def test_dead_letters_from_skipped_minute_are_measured(
    measure_matching: Measure, admin: Connection, clock: Clock, tenant: UUID, capsys: pytest.CaptureFixture[str]
) -> None:
    for seconds in (0, 59, 60, 61, 119, 300):  # 2 in the last minute, 3 in the previous minute, 1 too old
        add_dead_letter(admin, tenant, "matching", at=clock() - timedelta(seconds=seconds), status="retried")

    measure_matching()

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "DeadLettersPerMinute" in line]
    assert [line["DeadLettersPerMinute"] for line in lines] == [[3.0]]


def test_dead_letter_rate_covers_five_minutes(
    measure_matching: Measure, admin: Connection, clock: Clock, tenant: UUID, capsys: pytest.CaptureFixture[str]
) -> None:
    for status in ("pending", "retried", "ignored"):
        add_dead_letter(admin, tenant, "matching", at=clock() - timedelta(seconds=299), status=status)
    add_dead_letter(admin, tenant, "matching", at=clock() - timedelta(minutes=5))

    measure_matching()

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "DeadLetterRate" in line]
    assert [line["DeadLetterRate"] for line in lines] == [[0.01]]


def test_workers_are_measured_separately(
    maintenance_database: Database, admin: Connection, clock: Clock, pending: Pending, tenant: UUID
) -> None:
    document = pending(status="succeeded").work_id
    admin.execute(
        "INSERT INTO ingestion_job (id, tenant_id, created_at, status, attempts) VALUES (%s, %s, %s, 'pending', 1)",
        [document, tenant, clock()],
    )
    admin.execute(
        "UPDATE acquisition_job SET status = 'in-progress', claimed_at = %(at)s, lease_expires_at = %(at)s",
        {"at": clock() - timedelta(hours=1)},
    )

    measurements = measure(maintenance_database, list(WORK_KINDS), now=clock(), unsent_after=timedelta(0))

    assert set(measurements) == set(WORK_KINDS)
    assert {worker: values[Metric.WAITING_FOR_RETRY] for worker, values in measurements.items()} == dict.fromkeys(
        WORK_KINDS, 0
    ) | {"ingestion": 1}
    stuck = {worker: values[Metric.STUCK_IN_PROGRESS] for worker, values in measurements.items()}
    assert stuck == dict.fromkeys(WORK_KINDS, 0) | {"acquisition": 1}


def lines(capsys: pytest.CaptureFixture[str]) -> Sequence[dict[str, Any]]:
    return [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "_aws" in line]


def test_measurements_are_emitted_to_cloudwatch(measure_matching: Measure, capsys: pytest.CaptureFixture[str]) -> None:
    measurements = measure_matching()

    rate, line = lines(capsys)
    assert rate["DeadLetterRate"] == [0.0]
    assert line["worker"] == "matching"
    assert {name: line[name] for name in measurements} == {name: [value] for name, value in measurements.items()}


def test_lost_message_is_counted_when_both_queues_empty(
    maintenance_database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    tenant: UUID,
    capsys: pytest.CaptureFixture[str],
) -> None:
    configured = settings(queue_urls={"tasks": "first"}, retry_queue_urls={"tasks": "retries"})
    outbox = Outbox(maintenance_database, configured.queue_urls, configured.retry_queue_urls, clock=clock)
    watchdog = Watchdog(configured, maintenance_database, outbox, clock)
    start_revision(admin, "tasks", [make_task(admin, tenant)], clock())
    clock.advance(minutes=1)
    watchdog.run()
    clock.advance(minutes=20)
    sqs.depths["retries"] = 1
    capsys.readouterr()

    watchdog.run()
    (line,) = lines(capsys)
    assert (line["QueueDepth"], line["RetryQueueDepth"], line["PendingWithoutMessage"]) == ([0.0], [3.0], [0.0])

    sqs.depths["retries"] = 0
    watchdog.run()
    (line,) = lines(capsys)
    assert (line["RetryQueueDepth"], line["PendingWithoutMessage"]) == ([0.0], [1.0])


def test_run_reports_queue_depth_and_lost_messages(
    maintenance_database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Pending,
    capsys: pytest.CaptureFixture[str],
) -> None:
    configured = settings()
    watchdog = Watchdog(
        configured, maintenance_database, Outbox(maintenance_database, configured.queue_urls, clock=clock), clock
    )
    start_revision(admin, "matching", [pending().work_id], clock())
    clock.advance(minutes=1)
    watchdog.run()
    capsys.readouterr()

    sqs.depths[QUEUE_URL] = 7  # SQS returns this number for each of its three message counts
    watchdog.run()
    assert [(line["QueueDepth"], line["PendingWithoutMessage"]) for line in lines(capsys)] == [([21.0], [0.0])]

    sqs.depths[QUEUE_URL] = 0
    clock.advance(minutes=20)
    watchdog.run()
    assert [(line["QueueDepth"], line["PendingWithoutMessage"]) for line in lines(capsys)] == [([0.0], [1.0])]
