"""The watchdog applies requested pauses and records queue statistics each minute."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Message, start_revision
from counterfoil.queues import PauseRequest, request_pause
from counterfoil.settings import QueueSettings
from functions.watchdog.backlog_metrics import update_queues
from functions.watchdog.recovery import QUEUE_RETENTION, Watchdog
from functions.watchdog.steps import StepsFailedError
from tests.delivery.harness import QUEUE_URL, Clock, FakeSqs, settings
from tests.functions.fake_lambda import MAPPING, FakeLambda, refusal

QUEUES = {"matching": QueueSettings(urls=(QUEUE_URL,), mappings=(MAPPING,), limit=100)}
Run = Callable[[], dict[str, int]]


@pytest.fixture
def run_step(
    maintenance_database: Database, clock: Clock, sqs: FakeSqs, lambda_: FakeLambda, monkeypatch: pytest.MonkeyPatch
) -> Run:
    monkeypatch.setattr(aws, "client", lambda service: {"lambda": lambda_, "sqs": sqs}[service])
    return lambda: update_queues(maintenance_database, QUEUES, clock, lambda: 30.0)


def pause(database: Database, clock: Clock) -> None:
    request_pause(database, PauseRequest("matching", True, "Its model is unavailable", "kim", clock(), 0))


def test_pauses_are_applied_and_statistics_recorded(
    run_step: Run, maintenance_database: Database, clock: Clock, sqs: FakeSqs, lambda_: FakeLambda, admin: Connection
) -> None:
    pause(maintenance_database, clock)
    sqs.depths[QUEUE_URL] = 3  # SQS returns this number for each of its three message counts

    assert run_step() == {"queue_pause": 1, "queue_ends": 0, "queue_minute_stats": 1}

    lambda_.settle()
    assert lambda_.states[MAPPING] == "Disabled"
    assert admin.execute("SELECT worker, pending, depth FROM queue_minute_stats").fetchall() == [("matching", 0, 9)]
    assert run_step()["queue_pause"] == 0


def test_mapping_in_transition_is_paused_later(
    run_step: Run, maintenance_database: Database, clock: Clock, lambda_: FakeLambda
) -> None:
    pause(maintenance_database, clock)
    lambda_.states[MAPPING] = "Updating"
    run_step()
    assert lambda_.calls == []
    lambda_.settle()
    run_step()
    assert lambda_.calls == [(MAPPING, False)]


def test_unavailable_lambda_does_not_block_queue_statistics(
    run_step: Run, maintenance_database: Database, clock: Clock, lambda_: FakeLambda
) -> None:
    pause(maintenance_database, clock)
    lambda_.refuse[MAPPING] = refusal("ServiceException", "GetEventSourceMapping", 500)
    assert run_step()["queue_minute_stats"] == 1


def test_unavailable_sqs_leaves_depth_unknown(
    run_step: Run, sqs: FakeSqs, monkeypatch: pytest.MonkeyPatch, admin: Connection
) -> None:
    def unavailable(**_: object) -> dict[str, object]:
        raise refusal("InternalError", "GetQueueAttributes", 500)

    monkeypatch.setattr(sqs, "get_queue_attributes", unavailable)
    assert run_step()["queue_minute_stats"] == 1
    assert admin.execute("SELECT depth FROM queue_minute_stats").fetchall() == [(None,)]


def test_failed_queue_statistics_are_reported(run_step: Run, admin: Connection) -> None:
    admin.execute("ALTER TABLE queue_minute_stats RENAME TO elsewhere")
    with pytest.raises(StepsFailedError, match="queue_minute_stats"):
        run_step()


def test_messages_in_paused_queue_are_resent_after_retention(
    maintenance_database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Callable[..., Message],
) -> None:
    """Messages in a paused queue are resent only after SQS's retention.

    Only then are they certainly lost.
    """
    configured = settings()
    watchdog = Watchdog(
        configured, maintenance_database, Outbox(maintenance_database, configured.queue_urls, clock=clock), clock
    )
    pause(maintenance_database, clock)
    pending_id, running_id = pending(), pending(status="in-progress")
    for message in (pending_id, running_id):
        start_revision(admin, "matching", [message.work_id], clock())
    admin.execute(
        "UPDATE document SET matching_status = 'in-progress', matching_claimed_at = %s, matching_lease_expires_at = %s"
        " WHERE id = %s",
        [clock(), clock() + timedelta(minutes=2), running_id.work_id],  # as if its worker crashed
    )
    clock.advance(seconds=61)
    assert watchdog.run().sent == 2  # unsent messages are still sent
    sqs.depths[QUEUE_URL] = 1

    for _ in range(9):
        clock.advance(hours=24)
        assert watchdog.run().resent == {"matching": 0}
    clock.now += QUEUE_RETENTION - timedelta(days=9) + timedelta(minutes=1)  # counted from the end of the lease
    assert watchdog.run().resent == {"matching": 2}
    assert watchdog.run().resent == {"matching": 0}


def test_workers_of_another_deployment_are_skipped(
    run_step: Run, maintenance_database: Database, clock: Clock, lambda_: FakeLambda
) -> None:
    request_pause(maintenance_database, PauseRequest("tasks", True, "Its model is unavailable", "kim", clock(), 0))
    assert run_step()["queue_pause"] == 0
    assert lambda_.calls == []
