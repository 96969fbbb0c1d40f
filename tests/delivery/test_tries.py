"""What became of each try is written down, once, whatever became of its worker."""

from datetime import timedelta
from typing import Any

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery import Attempt, Outcome, Skip, Success, store
from counterfoil.errors import ServiceUnavailableError
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
)
from tests.delivery.requeued import CHANCE, Run, Task, later, put_off


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


def test_a_wait_is_counted_from_the_end_of_the_try_that_failed(
    run: Run, task: Task, admin: Connection, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    def slow(attempt: Attempt) -> Outcome:
        clock.pass_(seconds=7)
        return fails(attempt)

    note = store.note

    def late(*given: Any) -> None:
        clock.pass_(seconds=3)  # the statements of a settlement take their time, too
        note(*given)

    monkeypatch.setattr(store, "note", late)
    run(slow, task())

    times = admin.execute("SELECT ended_at - began_at, next_attempt_at - ended_at FROM work_attempt").fetchall()
    assert times == [(timedelta(seconds=7), timedelta(seconds=2 + CHANCE))]


def test_a_skip_is_written_down_as_such(run: Run, task: Task, admin: Connection):
    run(lambda _attempt: Skip("There is nothing to do"), task())
    assert [one["outcome"] for one in rows(admin, "work_attempt")] == ["skipped"]


def test_a_try_of_a_stale_claim_is_not_written_down(run: Run, task: Task, admin: Connection):
    message = task()

    def overtaken(attempt: Attempt) -> Success:
        admin.execute("UPDATE task SET claim_token = claim_token + 1")
        return DONE

    assert len(run(overtaken, message)) == 1
    assert rows(admin, "work_attempt") == []


def test_work_of_other_kinds_keeps_no_successes(
    database: Database, admin: Connection, clock: Clock, sqs: FakeSqs, pending: Task
):
    good, bad = pending(), pending()

    def work(attempt: Attempt) -> Outcome:
        if attempt.work_id == bad.work_id:
            raise ServiceUnavailableError("later")
        return DONE

    make_consumer(database, work, clock).handle(event(record(good), record(bad)), Context())
    assert [(one["worker"], one["outcome"]) for one in rows(admin, "work_attempt")] == [("matching", "retry")]
