"""Records of attempts, including attempts whose worker is lost."""

import json
import re
from datetime import timedelta
from typing import Any, get_args, get_type_hints
from uuid import UUID

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from counterfoil.db import Connection, Database
from counterfoil.dead_letters import history, search
from counterfoil.delivery import sql
from counterfoil.delivery.attempt import Outcome, Skipped, Succeeded, TenantAttempt
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.retry import MAX_MESSAGES_PER_REVISION, RedeliverPolicy, RequeuePolicy
from counterfoil.delivery.work import Message, start_revision
from counterfoil.errors import InvalidDocumentError, ServiceUnavailableError
from counterfoil.kinds import WORK_KINDS
from counterfoil.tasks.store import TaskAttempt
from functions.dead_letters.archiver import Archiver
from tests.delivery.harness import (
    DONE,
    Clock,
    Context,
    FakeSqs,
    event,
    fail_transiently,
    make_consumer,
    record,
    rows,
    succeed,
    task_body,
)
from tests.delivery.requeue_harness import DLQ_ARN, FIXED_RANDOM, LATE_CONTEXT, Run, Task, defer, next_send
from tests.factories import NOW

TRACE = "1-67891233-abcdef012345678912345678"


def test_every_attempt_is_recorded_with_outcome(run: Run, task: Task, admin: Connection, clock: Clock, sqs: FakeSqs):
    message = task()
    for number, work in enumerate((fail_transiently, defer, succeed)):
        run(work, next_send(message, number))
        clock.advance(seconds=60)
    recorded = [
        (attempt["number"], attempt["outcome"], attempt["error_type"], attempt["next_attempt_at"] is not None)
        for attempt in sorted(rows(admin, "work_attempt"), key=lambda attempt: attempt["ended_at"])
    ]
    assert recorded == [
        (1, "retry", "ServiceUnavailableError", True),
        (2, "deferred", "BreakerOpenError", True),
        (2, "succeeded", None, False),
    ]


@pytest.mark.parametrize(
    ("header", "trace_id"),
    [
        (f"Root={TRACE};Parent=53995c3f42cd8ad8;Sampled=1", TRACE),
        (f"Sampled=1; Root={TRACE}; Lineage=a87bd80c:0", TRACE),
        (f"Root={TRACE};Parent=53995c3f42cd8ad8;Sampled=0", None),
        (f"Root={TRACE}", None),
        ("Root=1-2-3';Sampled=1", None),
        ("=;;;", None),
    ],
)
def test_only_valid_sampled_trace_id_is_stored(
    run: Run, task: Task, admin: Connection, monkeypatch: pytest.MonkeyPatch, header: str, trace_id: str | None
):
    monkeypatch.setenv("_X_AMZN_TRACE_ID", header)
    run(fail_transiently, task())
    assert [attempt["trace_id"] for attempt in rows(admin, "work_attempt")] == [trace_id]


def test_retry_delay_starts_at_end_of_failed_attempt(
    run: Run, task: Task, admin: Connection, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    def fail_slowly(attempt: TenantAttempt) -> Outcome:
        clock.advance(seconds=7)
        return fail_transiently(attempt)

    note = sql.record_attempt

    def fail_late(*arguments: Any) -> None:
        clock.advance(seconds=3)  # settlement statements also take time
        note(*arguments)

    monkeypatch.setattr(sql, "record_attempt", fail_late)
    run(fail_slowly, task())

    times = admin.execute("SELECT ended_at - started_at, next_attempt_at - ended_at FROM work_attempt").fetchall()
    assert times == [(timedelta(seconds=7), timedelta(seconds=2 + FIXED_RANDOM))]


def test_skip_is_recorded(run: Run, task: Task, admin: Connection):
    run(lambda _attempt: Skipped("No action needed"), task())
    assert [attempt["outcome"] for attempt in rows(admin, "work_attempt")] == ["skipped"]


def test_stale_attempt_is_not_recorded(run: Run, task: Task, admin: Connection):
    message = task()

    def lose_claim(attempt: TenantAttempt) -> Succeeded:
        admin.execute("UPDATE task SET claim_token = claim_token + 1")
        return DONE

    assert len(run(lose_claim, message)) == 1
    assert rows(admin, "work_attempt") == []


def test_matching_records_failures_but_not_successes(
    database: Database, admin: Connection, clock: Clock, sqs: FakeSqs, pending: Task
):
    succeeding, failing = pending(), pending()

    def work(attempt: TenantAttempt) -> Outcome:
        if attempt.work_id == failing.work_id:
            raise ServiceUnavailableError("later")
        return DONE

    make_consumer(database, work, clock).handle(event(record(succeeding), record(failing)), Context())
    assert [(attempt["worker"], attempt["outcome"]) for attempt in rows(admin, "work_attempt")] == [
        ("matching", "retry")
    ]


def test_only_first_success_after_failure_is_recorded(
    database: Database, admin: Connection, clock: Clock, sqs: FakeSqs, pending: Task, tenant: UUID
):
    message = pending()
    bodies: list[str | Message] = [message]

    def fail_permanently(attempt: TenantAttempt) -> Outcome:
        raise InvalidDocumentError("It is damaged", code="damaged_pdf")

    for work in (fail_permanently, succeed, succeed):
        make_consumer(database, work, clock).handle(event(record(bodies[-1])), Context())
        clock.advance(seconds=60)
        bodies.append(start_revision(admin, "matching", [message.work_id], clock())[0].message)

    with database.tenant(tenant) as connection:
        dead_letter = search.show(connection, tenant, WORK_KINDS["matching"].job_id(message.work_id))
        assert dead_letter is not None
        outcomes = [
            (item.kind, item.outcome, item.revision)
            for item in history.events(connection, tenant, dead_letter, limit=9)
        ]
    assert [item for item in outcomes if item[0] == "attempt"] == [
        ("attempt", "failed", 1),
        ("attempt", "succeeded", 2),
    ]


def test_success_after_failure_and_deferral_is_recorded(
    database: Database, admin: Connection, clock: Clock, sqs: FakeSqs, pending: Task
):
    message = pending()
    for number, work in ((0, fail_transiently), (0, defer), (1, succeed)):
        make_consumer(database, work, clock).handle(event(record(next_send(message, number))), Context())
        clock.advance(seconds=600)
    outcomes = admin.execute("SELECT outcome FROM work_attempt ORDER BY id").fetchall()
    assert outcomes == [("retry",), ("deferred",), ("succeeded",)]


def test_success_after_dead_letter_is_recorded(
    database: Database, admin: Connection, clock: Clock, sqs: FakeSqs, pending: Task
):
    first, other = pending(), pending()
    for message, work in ((first, fail_transiently), (other, succeed)):
        make_consumer(database, work, clock, redelivery_max_attempts=1).handle(event(record(message)), Context())
    admin.execute("DELETE FROM work_attempt")  # as if the 90-day retention period had ended
    messages = start_revision(admin, "matching", [first.work_id, other.work_id], clock())
    make_consumer(database, succeed, clock).handle(event(*(record(send.message) for send in messages)), Context())
    assert [(attempt["work_id"], attempt["outcome"]) for attempt in rows(admin, "work_attempt")] == [
        (str(first.work_id), "succeeded")
    ]


# -- lost attempts ----------------------------------------------------------------------------------------------------

LOST_ATTEMPT = {"status": "in-progress", "attempts": 1, "claimed_at": NOW, "lease_expires_at": NOW, "claim_token": 1}


def timeline(admin: Connection) -> list[tuple[int, str, str | None]]:
    """Return the recorded attempts in insertion order."""
    return admin.execute("SELECT number, outcome, error_type FROM work_attempt ORDER BY id").fetchall()


def errors(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """Return the emitted error counts, by error type."""
    lines = [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "error_type" in line]
    assert {line["worker"] for line in lines} <= {"tasks"}
    return {line["error_type"]: sum(line["Errors"]) for line in lines}


def test_lost_attempt_is_recorded_by_next_claim(
    run: Run, task: Task, admin: Connection, clock: Clock, capsys: pytest.CaptureFixture[str]
):
    message = task(**LOST_ATTEMPT)

    run(fail_transiently, message, receives=2)

    assert timeline(admin) == [(1, "worker_lost", "WorkerLost"), (2, "retry", "ServiceUnavailableError")]
    (lost_attempt,) = admin.execute(
        "SELECT started_at, ended_at, error, next_attempt_at FROM work_attempt WHERE outcome = 'worker_lost'"
    )
    assert lost_attempt == (NOW, clock.now, "The worker ended during attempt 1 of 6 without settling it", None)
    assert errors(capsys) == {"WorkerLost": 1, "ServiceUnavailableError": 1}


def test_lost_attempt_is_recorded_once(
    run: Run, task: Task, admin: Connection, outbox: Outbox, maintenance_database: Database, clock: Clock
):
    message = task(**LOST_ATTEMPT)
    archiver = Archiver(maintenance_database, outbox, RedeliverPolicy(), clock, {"tasks": RequeuePolicy()})
    run(succeed, message, context=LATE_CONTEXT)
    archiver.process("tasks", SQSRecord(record(task_body(next_send(message)), arn=DLQ_ARN)))
    assert timeline(admin) == []
    clock.advance(seconds=60)

    run(defer, next_send(message, 2))
    clock.advance(seconds=60)
    run(succeed, next_send(message, 3))

    assert timeline(admin) == [
        (1, "worker_lost", "WorkerLost"),
        (2, "deferred", "BreakerOpenError"),
        (2, "succeeded", None),
    ]


def test_late_success_of_lost_attempt_is_not_recorded(run: Run, task: Task, admin: Connection, clock: Clock):
    message = task()

    def outlive_lease(attempt: TenantAttempt) -> Outcome:
        admin.execute("UPDATE task SET lease_expires_at = claimed_at")
        clock.advance(seconds=60)
        run(succeed, message, receives=2)
        return DONE

    assert len(run(outlive_lease, message)) == 1
    assert timeline(admin) == [(1, "worker_lost", "WorkerLost"), (2, "succeeded", None)]


def test_archiver_records_lost_attempt_at_dlq_return_limit(
    task: Task, admin: Connection, outbox: Outbox, maintenance_database: Database, clock: Clock,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    archiver = Archiver(maintenance_database, outbox, RedeliverPolicy(), clock, {"tasks": RequeuePolicy()})

    archiver.process("tasks", SQSRecord(record(task_body(task(**LOST_ATTEMPT, dlq_returns=2)), arn=DLQ_ARN)))

    assert timeline(admin) == [(1, "worker_lost", "WorkerLost")]
    assert errors(capsys) == {"WorkerLost": 1}


def test_lost_last_attempt_is_recorded_as_failure(
    run: Run, task: Task, admin: Connection, outbox: Outbox, maintenance_database: Database, clock: Clock,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    archiver = Archiver(maintenance_database, outbox, RedeliverPolicy(), clock, {"tasks": RequeuePolicy()})

    archiver.process("tasks", SQSRecord(record(task_body(task(**LOST_ATTEMPT, max_retry=0)), arn=DLQ_ARN)))
    assert errors(capsys) == {"WorkerLost": 1}
    run(succeed, task(**LOST_ATTEMPT, max_retry=0))
    assert errors(capsys) == {"WorkerLost": 1}

    assert timeline(admin) == [(1, "failed", "WorkerLost")] * 2


def test_error_after_lowered_limit_includes_last_error(
    run: Run, task: Task, admin: Connection, outbox: Outbox, maintenance_database: Database, clock: Clock,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    archiver = Archiver(maintenance_database, outbox, RedeliverPolicy(), clock, {"tasks": RequeuePolicy()})
    worker_message, archiver_message = (task(attempts=4, max_retry=2, error="S3 is slow") for _ in range(2))

    run(succeed, worker_message)
    archiver.process("tasks", SQSRecord(record(task_body(archiver_message), arn=DLQ_ARN)))

    last_errors = [dead_letter["metadata"]["last_error"] for dead_letter in rows(admin, "dead_letter")]
    expected = "4 attempts have failed, and the limit was lowered to 3 before the next one; the last error: S3 is slow"
    assert [(error["type"], error["message"]) for error in last_errors] == [("AttemptsExhausted", expected)] * 2
    assert timeline(admin) == []
    assert errors(capsys) == {"AttemptsExhausted": 1}


def test_lost_attempt_is_recorded_at_deferral_limit(run: Run, task: Task, admin: Connection):
    run(succeed, task(**LOST_ATTEMPT, send_number=MAX_MESSAGES_PER_REVISION), context=LATE_CONTEXT)
    assert timeline(admin) == [(1, "worker_lost", "WorkerLost")]


def test_api_type_lists_every_allowed_outcome(admin: Connection):
    (allowed,) = admin.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'work_attempt_outcome_check'"
    )
    documented = get_type_hints(TaskAttempt)["outcome"]
    assert set(re.findall(r"'(\w+)'", allowed[0])) == set(get_args(documented))
