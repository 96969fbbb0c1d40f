"""The watchdog restores undone pauses and records each minute."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.delivery.outbox import Outbox
from counterfoil.delivery.work import Message, start_revision
from counterfoil.queues import PauseRequest, request_pause
from counterfoil.settings import QueueSettings
from functions.watchdog.measures import update_queues
from functions.watchdog.parts import StepsFailedError
from functions.watchdog.recovery import QUEUE_RETENTION, Watchdog
from tests.delivery.harness import QUEUE_URL, Clock, FakeSqs, settings
from tests.functions.mappings import MAPPING, FakeLambda, refusal

QUEUES = {"matching": QueueSettings(urls=(QUEUE_URL,), mappings=(MAPPING,), gate=100)}
Round = Callable[[], dict[str, int]]


@pytest.fixture
def look_after(
    keeper_database: Database, clock: Clock, sqs: FakeSqs, lambda_: FakeLambda, monkeypatch: pytest.MonkeyPatch
) -> Round:
    monkeypatch.setattr(aws, "client", lambda service: {"lambda": lambda_, "sqs": sqs}[service])
    return lambda: update_queues(keeper_database, QUEUES, clock, lambda: 30.0)


def pause(database: Database, clock: Clock) -> None:
    request_pause(database, PauseRequest("matching", True, "Its model is unavailable", "kim", clock(), 0))


def test_pauses_are_applied_and_minutes_recorded(
    look_after: Round, keeper_database: Database, clock: Clock, sqs: FakeSqs, lambda_: FakeLambda, admin: Connection
) -> None:
    pause(keeper_database, clock)
    sqs.depths[QUEUE_URL] = 3  # for each of its three numbers

    assert look_after() == {"queue_pause": 1, "queue_ends": 0, "queue_minute_stats": 1}

    lambda_.settle()
    assert lambda_.states[MAPPING] == "Disabled"
    assert admin.execute("SELECT worker, pending, depth FROM queue_minute_stats").fetchall() == [("matching", 0, 9)]
    assert look_after()["queue_pause"] == 0


def test_a_mapping_in_transition_is_waited_for(
    look_after: Round, keeper_database: Database, clock: Clock, lambda_: FakeLambda
) -> None:
    pause(keeper_database, clock)
    lambda_.states[MAPPING] = "Updating"
    look_after()
    assert lambda_.calls == []
    lambda_.settle()
    look_after()
    assert lambda_.calls == [(MAPPING, False)]


def test_unavailable_lambda_does_not_block_minutes(
    look_after: Round, keeper_database: Database, clock: Clock, lambda_: FakeLambda
) -> None:
    pause(keeper_database, clock)
    lambda_.refuse[MAPPING] = refusal("ServiceException", "GetEventSourceMapping", 500)
    assert look_after()["queue_minute_stats"] == 1


def test_unavailable_sqs_leaves_depth_unknown(
    look_after: Round, sqs: FakeSqs, monkeypatch: pytest.MonkeyPatch, admin: Connection
) -> None:
    def away(**_: object) -> dict[str, object]:
        raise refusal("InternalError", "GetQueueAttributes", 500)

    monkeypatch.setattr(sqs, "get_queue_attributes", away)
    assert look_after()["queue_minute_stats"] == 1
    assert admin.execute("SELECT depth FROM queue_minute_stats").fetchall() == [(None,)]


def test_failures_are_reported(look_after: Round, admin: Connection) -> None:
    admin.execute("ALTER TABLE queue_minute_stats RENAME TO elsewhere")
    with pytest.raises(StepsFailedError, match="queue_minute_stats"):
        look_after()


def test_work_of_paused_queue_is_resent_after_retention(
    keeper_database: Database,
    admin: Connection,
    sqs: FakeSqs,
    clock: Clock,
    pending: Callable[..., Message],
) -> None:
    """A paused queue is not empty, so its messages are not duplicated, however long they wait."""
    chosen = settings()
    watchdog = Watchdog(chosen, keeper_database, Outbox(keeper_database, chosen.queue_urls, clock=clock), clock)
    pause(keeper_database, clock)
    waiting, begun = pending(), pending(status="in-progress")
    for message in (waiting, begun):
        start_revision(admin, "matching", [message.work_id], clock())
    admin.execute(
        "UPDATE document SET matching_status = 'in-progress', matching_claimed_at = %s, matching_lease_expires_at = %s"
        " WHERE id = %s",
        [clock(), clock() + timedelta(minutes=2), begun.work_id],  # its worker crashed when the queue was paused
    )
    clock.pass_(seconds=61)
    assert watchdog.run().sent == 2  # the outbox continues
    sqs.depths[QUEUE_URL] = 1

    for _ in range(9):
        clock.pass_(hours=24)
        assert watchdog.run().resent == {"matching": 0}
    clock.now += QUEUE_RETENTION - timedelta(days=9) + timedelta(minutes=1)  # counts from the end of the lease
    assert watchdog.run().resent == {"matching": 2}
    assert watchdog.run().resent == {"matching": 0}


def test_workers_of_another_deployment_are_left_alone(
    look_after: Round, keeper_database: Database, clock: Clock, lambda_: FakeLambda
) -> None:
    request_pause(keeper_database, PauseRequest("tasks", True, "Its model is unavailable", "kim", clock(), 0))
    assert look_after()["queue_pause"] == 0
    assert lambda_.calls == []
