"""The archiver acknowledges or retains each message of a batch independently."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection
from counterfoil.delivery.work import Message
from infra.worker_table import WORKERS, queue_workers
from tests.delivery import message_bodies
from tests.delivery.harness import Context, FakeSqs, event, life_cycle, record, rows
from tests.delivery.message_bodies import object_created, s3_event
from tests.functions.test_handlers import handler, s3

__all__ = ["handler", "s3"]

Pending = Callable[..., Message]
ROW = next(row for row in WORKERS if row.name == "dead_letters")


@pytest.fixture
def dead_letters(handler: Callable[..., ModuleType]) -> ModuleType:
    return handler(ROW)


def dlq_record(body: str | Message, worker: str = "matching", **options: Any) -> dict[str, Any]:
    """Return a record from a worker's dead-letter queue, sent at the current time."""
    arn = f"arn:aws:sqs:eu-central-1:000000000000:counterfoil-{worker}-dlq"
    sqs_record = record(body, arn=arn, **options)
    sqs_record["attributes"]["SentTimestamp"] = str(int(datetime.now(UTC).timestamp() * 1000))
    return sqs_record


def retained_ids(response: dict[str, Any]) -> list[str]:
    return [failure["itemIdentifier"] for failure in response["batchItemFailures"]]


def test_records_of_a_batch_are_settled_independently(
    dead_letters: ModuleType, admin: Connection, sqs: FakeSqs, pending: Pending
) -> None:
    lease = datetime.now(UTC) + timedelta(seconds=100)
    valid, running = pending(), pending(status="in-progress", attempts=1, lease_expires_at=lease)
    batch = [
        dlq_record(valid),
        dlq_record("not JSON"),
        dlq_record(running, handle="running"),
        dlq_record('{"schema_version": 2}'),
        dlq_record(Message(work_id=uuid4(), revision=1, send_number=0)),
        dlq_record(valid, "an-unknown-worker"),
        dlq_record(s3_event(object_created("uploads/acme/a.xml")), "acquisition"),
    ]

    batch_response = dead_letters.handle(event(*batch), Context())

    assert retained_ids(batch_response) == [batch[2]["messageId"], batch[3]["messageId"], batch[5]["messageId"]]
    assert 95 <= sqs.visibility["running"] <= 101
    assert life_cycle(admin, valid.work_id)["send_number"] == 1
    assert [dead_letter["payload"]["body"] for dead_letter in rows(admin, "dead_letter")] == ["not JSON"]
    assert [job["send_number"] for job in rows(admin, "acquisition_job") if job["key"] == "uploads/acme/a.xml"] == [1]


def test_visibility_is_extended_before_the_first_settlement(
    dead_letters: ModuleType, sqs: FakeSqs, pending: Pending
) -> None:
    batch = [dlq_record(pending(), handle=f"{number}") for number in range(12)]

    dead_letters.handle(event(*batch), Context())

    calls = [name for name, _ in sqs.log]
    assert calls.index("send") == calls.count("visibility") == 12


def test_failed_visibility_change_does_not_prevent_settlement(
    dead_letters: ModuleType, admin: Connection, sqs: FakeSqs, pending: Pending
) -> None:
    message = pending()
    sqs.refuse_visibility = {"it": 2}

    assert retained_ids(dead_letters.handle(event(dlq_record(message, handle="it")), Context())) == []

    assert life_cycle(admin, message.work_id)["send_number"] == 1


def test_records_without_time_left_are_retained(dead_letters: ModuleType, admin: Connection, pending: Pending) -> None:
    messages, context = [pending(), pending()], Context(seconds_left=24)
    batch = [dlq_record(message) for message in messages]

    assert retained_ids(dead_letters.handle(event(*batch), context)) == [
        sqs_record["messageId"] for sqs_record in batch
    ]

    assert {life_cycle(admin, message.work_id)["send_number"] for message in messages} == {0}
    context.left = 26
    assert retained_ids(dead_letters.handle(event(*batch), context)) == []


def test_each_unreadable_body_becomes_a_dead_letter(dead_letters: ModuleType, admin: Connection) -> None:
    batch = [dlq_record(body) for body in message_bodies.UNREADABLE.values()]

    assert retained_ids(dead_letters.handle(event(*batch), Context())) == []

    assert len(rows(admin, "dead_letter")) == len(batch)


def test_unexpected_error_retains_only_its_message(
    dead_letters: ModuleType, admin: Connection, pending: Pending, monkeypatch: pytest.MonkeyPatch
) -> None:
    archiver = dead_letters.function()._archiver
    invalid, valid, settle = dlq_record(pending()), pending(), archiver.process

    def fail(worker: str, sqs_record: Any) -> Any:
        if sqs_record.message_id == invalid["messageId"]:
            raise KeyError("DE02")
        return settle(worker, sqs_record)

    monkeypatch.setattr(archiver, "process", Mock(side_effect=fail))

    assert retained_ids(dead_letters.handle(event(invalid, dlq_record(valid)), Context())) == [invalid["messageId"]]

    assert life_cycle(admin, valid.work_id)["send_number"] == 1


def test_retained_messages_are_counted_unless_items_are_running(
    dead_letters: ModuleType, pending: Pending, capsys: pytest.CaptureFixture[str]
) -> None:
    lease = datetime.now(UTC) + timedelta(seconds=100)
    running = pending(status="in-progress", attempts=1, lease_expires_at=lease)
    batch = [
        dlq_record(pending()),
        dlq_record(running),
        dlq_record('{"schema_version": 2}'),
        dlq_record(pending(), "an-unknown-worker"),
    ]

    assert len(retained_ids(dead_letters.handle(event(*batch), Context()))) == 3

    metrics = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["worker"], line["DlqRetained"]) for line in metrics if "DlqRetained" in line] == [
        ("matching", [1.0]),
        ("unknown", [1.0]),
    ]


def test_unprocessed_upload_is_queued_in_its_tenants_group(
    dead_letters: ModuleType, admin: Connection, sqs: FakeSqs, make_tenant: Callable[..., UUID]
) -> None:
    tenant_id = make_tenant("acme")

    dead_letters.handle(event(dlq_record(s3_event(object_created("uploads/acme/a.xml")), "acquisition")), Context())

    (message,) = sqs.sent["counterfoil-acquisition"]
    assert message["MessageGroupId"] == str(tenant_id)
    assert json.loads(message["MessageBody"])["send_number"] == 1


@pytest.mark.parametrize("worker", [row.name for row in queue_workers(WORKERS)])
def test_dead_letter_queues_of_all_workers_are_settled(
    dead_letters: ModuleType, admin: Connection, worker: str
) -> None:
    assert retained_ids(dead_letters.handle(event(dlq_record("not JSON", worker)), Context())) == []

    assert [dead_letter["worker"] for dead_letter in rows(admin, "dead_letter")] == [worker]
