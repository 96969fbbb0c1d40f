"""What a batch tells the metrics, and what its log lines say of each record."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Effects, Outcome, Skipped, Succeeded, TenantAttempt
from counterfoil.delivery.batch import logger
from counterfoil.delivery.work import Message
from counterfoil.errors import BreakerOpenError, InvalidDocumentError, ServiceUnavailableError
from tests.delivery.harness import Clock, Context, FakeSqs, event, make_consumer, record
from tests.factories import NOW

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"

Pending = Callable[..., Message]
pytestmark = pytest.mark.usefixtures("sqs")


def _emitted(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "_aws" in line]


def test_a_batch_counts_each_outcome_once_and_times_every_try(
    database: Database, clock: Clock, pending: Pending, capsys: pytest.CaptureFixture[str]
) -> None:
    until = clock.now + timedelta(seconds=30)
    outcomes: list[Outcome | Exception] = [
        Succeeded(lambda _connection: Effects()),
        Skipped("Nothing to match"),
        InvalidDocumentError("It is damaged", code="damaged_pdf"),
        ServiceUnavailableError("It was busy"),
        BreakerOpenError("It is open", until=until),
    ]
    messages = [pending() for _ in outcomes]
    by_work = {message.work_id: outcome for message, outcome in zip(messages, outcomes, strict=True)}

    def work(attempt: TenantAttempt) -> Outcome:
        clock.pass_(seconds=2)
        outcome = by_work[attempt.work_id]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    unknown = Message(work_id=uuid4(), revision=1, send_number=0)
    consumer = make_consumer(
        database, work, clock, worker={"name": "matching", "timeout": 120, "permits": 1, "start_margin": 30}
    )

    consumer.handle(event(*map(record, [*messages, unknown])), Context())

    line, *errors = _emitted(capsys)
    for name in ("Succeeded", "Skipped", "Failed", "Retries", "Deferred"):
        assert line[name] == [1.0]
    assert line["worker"] == "matching"
    assert line["EndToEndSeconds"] == [(clock.now - NOW).total_seconds() - 4 * 2]  # received then, and the first to end
    assert [(one["worker"], one["error_type"], one["Errors"]) for one in errors] == [
        ("matching", "InvalidDocumentError", [1.0]),
        ("matching", "ServiceUnavailableError", [1.0]),
    ]
    assert line["JobSeconds"] == [2.0] * 5
    assert line["AttemptsBeforeSuccess"] == [1.0]
    assert "Unsettled" not in line


def test_work_that_was_begun_anew_tells_nothing_of_how_long_work_takes(
    database: Database, clock: Clock, pending: Pending, capsys: pytest.CaptureFixture[str]
) -> None:
    consumer = make_consumer(database, lambda _attempt: Succeeded(lambda _connection: Effects()), clock)
    consumer.handle(event(record(pending(revision=2))), Context())
    (line,) = _emitted(capsys)
    assert "EndToEndSeconds" not in line


def test_work_that_came_in_by_a_clock_that_is_ahead_took_no_time(
    database: Database, clock: Clock, pending: Pending, admin: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    message = pending()
    admin.execute("UPDATE document SET received_at = %s", [clock.now + timedelta(minutes=5)])
    consumer = make_consumer(database, lambda _attempt: Succeeded(lambda _connection: Effects()), clock)
    consumer.handle(event(record(message)), Context())

    (line,) = _emitted(capsys)
    assert line["EndToEndSeconds"] == [0.0]


def test_a_copy_of_a_message_is_no_work_and_counts_as_nothing(
    database: Database, clock: Clock, pending: Pending, capsys: pytest.CaptureFixture[str]
) -> None:
    consumer = make_consumer(database, lambda _attempt: Skipped("never asked"), clock)

    answer = consumer.handle(event(record(pending(status="succeeded"))), Context())

    assert answer == {"batchItemFailures": []}
    assert _emitted(capsys) == []


def test_every_line_of_a_record_names_its_work_and_trace_and_those_of_no_other(
    database: Database, clock: Clock, pending: Pending
) -> None:
    first, second = pending(), pending()
    traced, untraced = record(first), record(second)
    traced["attributes"]["AWSTraceHeader"] = TRACE
    noted: dict[UUID, dict[str, Any]] = {}

    def work(attempt: TenantAttempt) -> Outcome:
        noted[attempt.work_id] = dict(logger.thread_safe_get_current_keys())
        return Skipped("seen")

    make_consumer(database, work, clock).handle(event(traced, untraced), Context())

    assert noted[first.work_id]["trace_id"] == TRACE
    assert noted[second.work_id]["trace_id"] is None
    assert [noted[message.work_id]["work_id"] for message in (first, second)] == [
        str(first.work_id),
        str(second.work_id),
    ]


def test_the_last_line_of_a_record_tells_when_it_came_how_far(
    database: Database, clock: Clock, pending: Pending, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(logger, "info", lambda outcome, **about: lines.append((outcome, about)))
    begun = clock.now

    def work(_attempt: TenantAttempt) -> Outcome:
        clock.pass_(seconds=7)
        return Skipped("seen")

    make_consumer(database, work, clock).handle(event(record(pending())), Context())

    ((outcome, about),) = lines
    assert outcome == "skipped"
    assert about["stages"] == {
        "protected": begun.isoformat(),
        "permitted": begun.isoformat(),
        "claimed": begun.isoformat(),
        "ended": (begun + timedelta(seconds=7)).isoformat(),
    }


def test_a_message_owed_by_a_try_belongs_to_its_trace(
    database: Database, clock: Clock, pending: Pending, sqs: FakeSqs
) -> None:
    traced = record(pending(), receives=3)
    traced["attributes"]["AWSTraceHeader"] = TRACE

    def fail(_attempt: TenantAttempt) -> Outcome:
        raise ServiceUnavailableError("It was busy")

    make_consumer(database, fail, clock).handle(event(traced), Context())

    (sent,) = [entry for entries in sqs.sent.values() for entry in entries]
    assert sent["MessageSystemAttributes"] == {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}
