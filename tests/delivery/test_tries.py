"""What became of each try is written down, once, whatever became of its worker."""

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
from counterfoil.delivery.retry import MAX_SENDS, RedeliverPolicy, RequeuePolicy
from counterfoil.delivery.work import Message, begin
from counterfoil.errors import InvalidDocumentError, ServiceUnavailableError
from counterfoil.kinds import KINDS
from counterfoil.tasks.store import TaskTry
from functions.dead_letters.archiver import Archiver
from tests.delivery.harness import (
    DONE,
    Clock,
    Context,
    FakeSqs,
    done,
    event,
    fails,
    make_consumer,
    record,
    rows,
    task_body,
)
from tests.delivery.requeued import CHANCE, DLQ_ARN, LATE, Run, Task, later, put_off
from tests.factories import NOW

TRACE = "1-67891233-abcdef012345678912345678"


def test_every_try_is_written_down_with_what_came_of_it(
    run: Run, task: Task, admin: Connection, clock: Clock, sqs: FakeSqs
):
    message = task()
    for number, work in enumerate((fails, put_off, done)):
        run(work, later(message, number))
        clock.pass_(seconds=60)
    found = [
        (one["number"], one["outcome"], one["error_type"], one["next_attempt_at"] is not None)
        for one in sorted(rows(admin, "work_attempt"), key=lambda one: one["ended_at"])
    ]
    assert found == [
        (1, "retry", "ServiceUnavailableError", True),
        (2, "deferred", "BreakerOpenError", True),
        (2, "succeeded", None, False),
    ]


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        (f"Root={TRACE};Parent=53995c3f42cd8ad8;Sampled=1", TRACE),
        (f"Sampled=1; Root={TRACE}; Lineage=a87bd80c:0", TRACE),
        (f"Root={TRACE};Parent=53995c3f42cd8ad8;Sampled=0", None),
        (f"Root={TRACE}", None),
        ("Root=1-2-3';Sampled=1", None),
        ("=;;;", None),
    ],
)
def test_a_try_is_kept_with_its_trace_where_there_is_one(
    run: Run, task: Task, admin: Connection, monkeypatch: pytest.MonkeyPatch, header: str, kept: str | None
):
    monkeypatch.setenv("_X_AMZN_TRACE_ID", header)
    run(fails, task())
    assert [one["trace_id"] for one in rows(admin, "work_attempt")] == [kept]


def test_a_wait_is_counted_from_the_end_of_the_try_that_failed(
    run: Run, task: Task, admin: Connection, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    def slow(attempt: TenantAttempt) -> Outcome:
        clock.pass_(seconds=7)
        return fails(attempt)

    note = sql.note

    def late(*given: Any) -> None:
        clock.pass_(seconds=3)  # the statements of a settlement take their time, too
        note(*given)

    monkeypatch.setattr(sql, "note", late)
    run(slow, task())

    times = admin.execute("SELECT ended_at - began_at, next_attempt_at - ended_at FROM work_attempt").fetchall()
    assert times == [(timedelta(seconds=7), timedelta(seconds=2 + CHANCE))]


def test_a_skip_is_written_down_as_such(run: Run, task: Task, admin: Connection):
    run(lambda _attempt: Skipped("No action needed"), task())
    assert [one["outcome"] for one in rows(admin, "work_attempt")] == ["skipped"]


def test_a_try_of_a_stale_claim_is_not_written_down(run: Run, task: Task, admin: Connection):
    message = task()

    def overtaken(attempt: TenantAttempt) -> Succeeded:
        admin.execute("UPDATE task SET claim_token = claim_token + 1")
        return DONE

    assert len(run(overtaken, message)) == 1
    assert rows(admin, "work_attempt") == []


def test_work_of_other_kinds_keeps_no_successes(
    database: Database, admin: Connection, clock: Clock, sqs: FakeSqs, pending: Task
):
    good, bad = pending(), pending()

    def work(attempt: TenantAttempt) -> Outcome:
        if attempt.work_id == bad.work_id:
            raise ServiceUnavailableError("later")
        return DONE

    make_consumer(database, work, clock).handle(event(record(good), record(bad)), Context())
    assert [(one["worker"], one["outcome"]) for one in rows(admin, "work_attempt")] == [("matching", "retry")]


def test_the_success_after_a_failure_is_kept_and_none_of_the_successes_after_that(
    database: Database, admin: Connection, clock: Clock, sqs: FakeSqs, pending: Task, tenant: UUID
):
    message = pending()
    bodies: list[str | Message] = [message]

    def breaks(attempt: TenantAttempt) -> Outcome:
        raise InvalidDocumentError("It is damaged", code="damaged_pdf")

    for work in (breaks, done, done):
        make_consumer(database, work, clock).handle(event(record(bodies[-1])), Context())
        clock.pass_(seconds=60)
        bodies.append(begin(admin, "matching", [message.work_id], clock())[0].message)

    with database.tenant(tenant) as connection:
        letter = search.show(connection, tenant, KINDS["matching"].job_id(message.work_id))
        assert letter is not None
        told = [(one.kind, one.what, one.revision) for one in history.events(connection, tenant, letter, limit=9)]
    assert [one for one in told if one[0] == "try"] == [("try", "failed", 1), ("try", "succeeded", 2)]


def test_success_after_failure_and_deferral_is_recorded(
    database: Database, admin: Connection, clock: Clock, sqs: FakeSqs, pending: Task
):
    message = pending()
    for number, work in ((0, fails), (0, put_off), (1, done)):
        make_consumer(database, work, clock).handle(event(record(later(message, number))), Context())
        clock.pass_(seconds=600)
    outcomes = admin.execute("SELECT outcome FROM work_attempt ORDER BY id").fetchall()
    assert outcomes == [("retry",), ("deferred",), ("succeeded",)]


def test_a_success_is_kept_where_only_the_dead_letter_tells_of_the_failure(
    database: Database, admin: Connection, clock: Clock, sqs: FakeSqs, pending: Task
):
    first, other = pending(), pending()
    for message, work in ((first, fails), (other, done)):
        make_consumer(database, work, clock, redelivery_max_attempts=1).handle(event(record(message)), Context())
    admin.execute("DELETE FROM work_attempt")  # they are kept for 90 days
    again = begin(admin, "matching", [first.work_id, other.work_id], clock())
    make_consumer(database, done, clock).handle(event(*(record(send.message) for send in again)), Context())
    assert [(one["work_id"], one["outcome"]) for one in rows(admin, "work_attempt")] == [
        (str(first.work_id), "succeeded")
    ]


# -- tries that were lost ---------------------------------------------------------------------------------------------

LOST = {"status": "in-progress", "attempts": 1, "claimed_at": NOW, "lease_expires_at": NOW, "claim_token": 1}


def timeline(admin: Connection) -> list[tuple[int, str, str | None]]:
    """Every try that is written down, in the order in which it was."""
    return admin.execute("SELECT number, outcome, error_type FROM work_attempt ORDER BY id").fetchall()


def errors(capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """What the metrics were told of errors, by their type."""
    lines = [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "error_type" in line]
    assert {line["worker"] for line in lines} <= {"tasks"}
    return {line["error_type"]: sum(line["Errors"]) for line in lines}


def test_a_try_that_was_lost_with_its_worker_is_written_down_by_the_next_claim(
    run: Run, task: Task, admin: Connection, clock: Clock, capsys: pytest.CaptureFixture[str]
):
    message = task(**LOST)

    run(fails, message, receives=2)

    assert timeline(admin) == [(1, "lost", "WorkerLost"), (2, "retry", "ServiceUnavailableError")]
    (lost,) = admin.execute(
        "SELECT began_at, ended_at, error, next_attempt_at FROM work_attempt WHERE outcome = 'lost'"
    )
    assert lost == (NOW, clock.now, "The worker ended during attempt 1 of 6 without settling it", None)
    assert errors(capsys) == {"WorkerLost": 1, "ServiceUnavailableError": 1}


def test_a_lost_try_is_written_down_once_however_often_its_work_is_looked_at(
    run: Run, task: Task, admin: Connection, outbox: Outbox, keeper_database: Database, clock: Clock
):
    message = task(**LOST)
    archiver = Archiver(keeper_database, outbox, RedeliverPolicy(), clock, {"tasks": RequeuePolicy()})
    run(done, message, context=LATE)
    archiver.settle("tasks", SQSRecord(record(task_body(later(message)), arn=DLQ_ARN)))
    assert timeline(admin) == []
    clock.pass_(seconds=60)

    run(put_off, later(message, 2))
    clock.pass_(seconds=60)
    run(done, later(message, 3))

    assert timeline(admin) == [(1, "lost", "WorkerLost"), (2, "deferred", "BreakerOpenError"), (2, "succeeded", None)]


def test_a_try_that_was_slow_and_called_lost_writes_down_nothing_more(
    run: Run, task: Task, admin: Connection, clock: Clock
):
    message = task()

    def slow(attempt: TenantAttempt) -> Outcome:
        admin.execute("UPDATE task SET lease_expires_at = claimed_at")
        clock.pass_(seconds=60)
        run(done, message, receives=2)
        return DONE

    assert len(run(slow, message)) == 1
    assert timeline(admin) == [(1, "lost", "WorkerLost"), (2, "succeeded", None)]


def test_a_try_lost_before_its_work_came_back_from_the_dead_letters_too_often_is_written_down(
    task: Task, admin: Connection, outbox: Outbox, keeper_database: Database, clock: Clock,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    archiver = Archiver(keeper_database, outbox, RedeliverPolicy(), clock, {"tasks": RequeuePolicy()})

    archiver.settle("tasks", SQSRecord(record(task_body(task(**LOST, returns=2)), arn=DLQ_ARN)))

    assert timeline(admin) == [(1, "lost", "WorkerLost")]
    assert errors(capsys) == {"WorkerLost": 1}


def test_the_last_try_lost_is_the_failure_and_is_counted_whoever_finds_it(
    run: Run, task: Task, admin: Connection, outbox: Outbox, keeper_database: Database, clock: Clock,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    archiver = Archiver(keeper_database, outbox, RedeliverPolicy(), clock, {"tasks": RequeuePolicy()})

    archiver.settle("tasks", SQSRecord(record(task_body(task(**LOST, max_retry=0)), arn=DLQ_ARN)))
    assert errors(capsys) == {"WorkerLost": 1}
    run(done, task(**LOST, max_retry=0))
    assert errors(capsys) == {"WorkerLost": 1}

    assert timeline(admin) == [(1, "failed", "WorkerLost")] * 2


def test_lowered_limit_fails_with_last_error(
    run: Run, task: Task, admin: Connection, outbox: Outbox, keeper_database: Database, clock: Clock,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    archiver = Archiver(keeper_database, outbox, RedeliverPolicy(), clock, {"tasks": RequeuePolicy()})
    by_worker, by_archiver = (task(attempts=4, max_retry=2, error="S3 is slow") for _ in range(2))

    run(done, by_worker)
    archiver.settle("tasks", SQSRecord(record(task_body(by_archiver), arn=DLQ_ARN)))

    errors_ = [letter["metadata"]["last_error"] for letter in rows(admin, "dead_letter")]
    expected = "4 attempts have failed, and the limit was lowered to 3 before the next one; the last error: S3 is slow"
    assert [(error["type"], error["message"]) for error in errors_] == [("AttemptsExhausted", expected)] * 2
    assert timeline(admin) == []
    assert errors(capsys) == {"AttemptsExhausted": 1}


def test_a_try_lost_before_its_work_went_in_circles_is_written_down(run: Run, task: Task, admin: Connection):
    run(done, task(**LOST, send_number=MAX_SENDS), context=LATE)
    assert timeline(admin) == [(1, "lost", "WorkerLost")]


def test_people_may_be_shown_every_outcome_that_a_try_may_have(admin: Connection):
    (allowed,) = admin.execute(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'work_attempt_outcome_check'"
    )
    shown = get_type_hints(TaskTry)["outcome"]
    assert set(re.findall(r"'(\w+)'", allowed[0])) == set(get_args(shown))
