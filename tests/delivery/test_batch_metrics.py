"""A batch's metrics and log lines."""

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


def _metric_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, capsys.readouterr().out.splitlines()) if "_aws" in line]


def test_batch_counts_each_outcome_and_times_attempts(
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
    outcome_by_work_id = {message.work_id: outcome for message, outcome in zip(messages, outcomes, strict=True)}

    def work(attempt: TenantAttempt) -> Outcome:
        clock.advance(seconds=2)
        outcome = outcome_by_work_id[attempt.work_id]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    unknown_message = Message(work_id=uuid4(), revision=1, send_number=0)
    consumer = make_consumer(
        database, work, clock, worker={"name": "matching", "timeout": 120, "permits": 1, "start_margin": 30}
    )

    consumer.handle(event(*map(record, [*messages, unknown_message])), Context())

    line, *errors = _metric_lines(capsys)
    for name in ("Succeeded", "Skipped", "Failed", "Retries", "Deferred"):
        assert line[name] == [1.0]
    assert line["worker"] == "matching"
    # The document was received at NOW. Four more attempts, of two seconds each, ended after its attempt.
    assert line["EndToEndSeconds"] == [(clock.now - NOW).total_seconds() - 4 * 2]
    assert [(error["worker"], error["error_type"], error["Errors"]) for error in errors] == [
        ("matching", "InvalidDocumentError", [1.0]),
        ("matching", "ServiceUnavailableError", [1.0]),
    ]
    assert line["AttemptSeconds"] == [2.0] * 5
    assert line["AttemptsBeforeSuccess"] == [1.0]
    assert "OutcomeNotWritten" not in line


def test_later_revision_reports_no_end_to_end_time(
    database: Database, clock: Clock, pending: Pending, capsys: pytest.CaptureFixture[str]
) -> None:
    consumer = make_consumer(database, lambda _attempt: Succeeded(lambda _connection: Effects()), clock)
    consumer.handle(event(record(pending(revision=2))), Context())
    (line,) = _metric_lines(capsys)
    assert "EndToEndSeconds" not in line


def test_end_to_end_time_is_never_negative(
    database: Database, clock: Clock, pending: Pending, admin: Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    message = pending()
    admin.execute("UPDATE document SET received_at = %s", [clock.now + timedelta(minutes=5)])
    consumer = make_consumer(database, lambda _attempt: Succeeded(lambda _connection: Effects()), clock)
    consumer.handle(event(record(message)), Context())

    (line,) = _metric_lines(capsys)
    assert line["EndToEndSeconds"] == [0.0]


def test_message_of_ended_work_item_emits_no_metrics(
    database: Database, clock: Clock, pending: Pending, capsys: pytest.CaptureFixture[str]
) -> None:
    consumer = make_consumer(database, lambda _attempt: Skipped("must not run"), clock)

    response = consumer.handle(event(record(pending(status="succeeded"))), Context())

    assert response == {"batchItemFailures": []}
    assert _metric_lines(capsys) == []


def test_log_lines_name_their_work_item_and_trace(database: Database, clock: Clock, pending: Pending) -> None:
    first, second = pending(), pending()
    traced, untraced = record(first), record(second)
    traced["attributes"]["AWSTraceHeader"] = TRACE
    log_keys: dict[UUID, dict[str, Any]] = {}

    def work(attempt: TenantAttempt) -> Outcome:
        log_keys[attempt.work_id] = dict(logger.thread_safe_get_current_keys())
        return Skipped("seen")

    make_consumer(database, work, clock).handle(event(traced, untraced), Context())

    assert log_keys[first.work_id]["trace_id"] == TRACE
    assert log_keys[second.work_id]["trace_id"] is None
    assert [log_keys[message.work_id]["work_id"] for message in (first, second)] == [
        str(first.work_id),
        str(second.work_id),
    ]


def test_outcome_log_line_lists_stage_times(
    database: Database, clock: Clock, pending: Pending, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(logger, "info", lambda outcome, **fields: lines.append((outcome, fields)))
    start = clock.now

    def work(_attempt: TenantAttempt) -> Outcome:
        clock.advance(seconds=7)
        return Skipped("seen")

    make_consumer(database, work, clock).handle(event(record(pending())), Context())

    ((outcome, fields),) = lines
    assert outcome == "skipped"
    assert fields["stages"] == {
        "protected": start.isoformat(),
        "permitted": start.isoformat(),
        "claimed": start.isoformat(),
        "ended": (start + timedelta(seconds=7)).isoformat(),
    }


def test_enqueued_message_keeps_trace(database: Database, clock: Clock, pending: Pending, sqs: FakeSqs) -> None:
    traced = record(pending(), receives=3)
    traced["attributes"]["AWSTraceHeader"] = TRACE

    def fail(_attempt: TenantAttempt) -> Outcome:
        raise ServiceUnavailableError("It was busy")

    make_consumer(database, fail, clock).handle(event(traced), Context())

    (sent,) = [entry for entries in sqs.sent.values() for entry in entries]
    assert sent["MessageSystemAttributes"] == {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}
