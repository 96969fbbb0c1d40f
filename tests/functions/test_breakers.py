"""A queue is paused while a required service is unavailable. Manual changes take precedence."""

import json
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import boto3
import pytest
from botocore.stub import Stubber

from counterfoil import aws
from counterfoil.circuit_breaker import Outage
from counterfoil.db import Connection, Database
from counterfoil.errors import DatabaseUnavailableError, RejectedRequestError, ServiceUnavailableError
from counterfoil.queues import PauseRequest, QueuePause, apply_pause, request_pause
from functions.watchdog.breakers import MAPPING_TIMEOUT_SECONDS, PROBE_SECONDS, DependentWorker, Row, Step, decide
from tests.breakers import FAILURES, LLM, Start
from tests.delivery.harness import Clock
from tests.factories import NOW
from tests.functions.fake_lambda import (
    MAPPING,
    MATCHING,
    OTHER,
    PAUSE_AFTER,
    FakeLambda,
    World,
    do_nothing,
    paused,
    refusal,
    status,
)

# Pausing


def test_queue_is_paused_a_minute_after_breaker_opens(world: World, clock: Clock) -> None:
    world.service_fails()
    clock.pass_(seconds=59)
    assert world.pauses.run().paused == []
    clock.pass_(seconds=1)
    assert world.pauses.run().paused == ["matching"]
    assert world.state() == "Disabled"


def test_failed_probes_do_not_restart_the_minute(world: World) -> None:
    world.service_fails()
    world.service_fails()
    assert world.minute().paused == ["matching"]


def test_queue_with_closed_breaker_is_not_paused(watch: Callable[..., World]) -> None:
    world = watch(MATCHING, DependentWorker("tasks", OTHER, "llm:openai"))
    paused(world)
    assert world.state(OTHER) == "Enabled"


def test_paused_queue_is_not_paused_again(world: World, lambda_: FakeLambda) -> None:
    paused(world)
    for _ in range(5):
        assert world.minute().paused == []
    assert lambda_.calls == [(MAPPING, False)]


@pytest.mark.parametrize("state", ["Creating", "Enabling", "Disabling", "Updating", "Deleting"])
def test_mapping_in_transition_is_not_changed(state: str, world: World, lambda_: FakeLambda, clock: Clock) -> None:
    world.service_fails()
    clock.pass_(seconds=60)
    lambda_.states[MAPPING] = state
    world.pauses.run()
    assert lambda_.calls == []


def test_queue_is_paused_after_a_mapping_update(world: World, lambda_: FakeLambda, admin: Connection) -> None:
    def update_mapping() -> None:
        lambda_.states[MAPPING] = "Updating"

    lambda_.before = update_mapping
    world.service_fails()
    assert world.minute().paused == []
    assert status(admin) == "pausing"
    lambda_.before = do_nothing
    assert world.minute().paused == ["matching"]


# Resuming


def test_queue_is_resumed_when_service_recovers(world: World, admin: Connection) -> None:
    paused(world)
    world.service_recovers()
    assert world.minute().resumed == ["matching"]
    assert world.state() == "Enabled"
    assert status(admin) == "released"
    assert world.minute().resumed == []


def test_resumed_queue_is_paused_in_next_outage(world: World) -> None:
    paused(world)
    world.service_recovers()
    world.minute()
    world.service_fails()
    assert world.minute().paused == ["matching"]
    assert world.state() == "Disabled"


def test_new_outage_before_resume_keeps_queue_paused(world: World, lambda_: FakeLambda) -> None:
    paused(world)
    world.service_recovers()
    world.service_fails()
    world.minute()
    assert world.state() == "Disabled"
    lambda_.switch_manually(MAPPING, on=True)
    assert [world.minute().paused for _ in range(5)] == [[]] * 5  # the operator overrode the pause for this outage


def test_worker_without_the_dependency_is_resumed(world: World, watch: Callable[..., World]) -> None:
    paused(world)
    assert watch().minute().resumed == [f"a former dependent ({MAPPING})"]
    assert world.state() == "Enabled"
    assert watch(DependentWorker("matching", MAPPING, "llm:openai")).minute().resumed == []


def test_deleted_mapping_is_forgotten(watch: Callable[..., World], lambda_: FakeLambda, admin: Connection) -> None:
    paused(watch(MATCHING))
    del lambda_.states[MAPPING]
    assert watch().minute().resumed == []
    assert status(admin) == "released"


# Manual changes


def test_manually_disabled_mapping_stays_disabled(world: World, lambda_: FakeLambda) -> None:
    lambda_.switch_manually(MAPPING, on=False)
    world.service_fails()
    for _ in range(5):
        world.minute()
    world.service_recovers()
    for _ in range(5):
        world.minute()
    assert lambda_.calls == []
    assert world.state() == "Disabled"


def test_manually_enabled_mapping_stays_enabled(world: World, lambda_: FakeLambda, admin: Connection) -> None:
    paused(world)
    lambda_.switch_manually(MAPPING, on=True)
    assert world.minute().paused == []
    assert status(admin) == "released"
    lambda_.switch_manually(MAPPING, on=False)
    world.service_recovers()
    for _ in range(5):
        world.minute()
    assert world.state() == "Disabled"
    lambda_.switch_manually(MAPPING, on=True)
    paused(world)


@pytest.mark.parametrize("still_depends", [True, False])
def test_manually_paused_queue_stays_paused(
    still_depends: bool,
    watch: Callable[..., World],
    lambda_: FakeLambda,
    maintenance_database: Database,
    admin: Connection,
) -> None:
    world = paused(watch(MATCHING))
    pause_request = PauseRequest("matching", True, "It reads the wrong documents", "kim", NOW, 0)
    request_pause(maintenance_database, pause_request)
    assert apply_pause(maintenance_database, "matching", [MAPPING])
    world.service_recovers()
    world = watch(MATCHING) if still_depends else watch()
    assert [world.minute().resumed for _ in range(3)] == [[]] * 3
    assert (MAPPING, True) not in lambda_.calls
    assert (world.state(), status(admin)) == ("Disabled", "released")

    request_pause(maintenance_database, replace(pause_request, is_paused=False, seen=1))
    assert apply_pause(maintenance_database, "matching", [MAPPING])
    assert world.state() == "Enabled"


def test_manual_pause_during_resume_wins(world: World, lambda_: FakeLambda, maintenance_database: Database) -> None:
    paused(world)
    pause_request = PauseRequest("matching", False, "It is repaired", "kim", NOW, 0)
    request_pause(maintenance_database, replace(pause_request, is_paused=True))
    request_pause(maintenance_database, replace(pause_request, seen=1))  # creates the row to lock
    with ThreadPoolExecutor(1) as executor:

        def pause_manually() -> None:
            lambda_.before = do_nothing
            again = replace(pause_request, is_paused=True, seen=2)
            later.append(executor.submit(request_pause, maintenance_database, again))
            assert not wait(later, timeout=0.2).done  # the watchdog has locked the row

        later: list[Future[QueuePause | None]] = []
        lambda_.before = pause_manually
        world.service_recovers()
        world.minute()
        assert later[0].result(10) is not None
    lambda_.settle()
    assert apply_pause(maintenance_database, "matching", [MAPPING])
    assert world.state() == "Disabled"
    world.minute()
    assert world.state() == "Disabled"


# Failures


def test_failing_mapping_does_not_block_other_pauses(watch: Callable[..., World], lambda_: FakeLambda) -> None:
    world = watch(MATCHING, DependentWorker("tasks", OTHER, LLM))
    lambda_.refuse[MAPPING] = refusal("AccessDeniedException", "GetEventSourceMapping", 403)
    world.service_fails()
    with pytest.raises(RejectedRequestError, match="AccessDenied"):
        world.minute()
    assert world.state(OTHER) == "Disabled"
    lambda_.refuse[MAPPING] = refusal("TooManyRequestsException", "GetEventSourceMapping", 429)
    with pytest.raises(ServiceUnavailableError):
        world.minute()


def test_run_without_time_left_only_reports(
    watch: Callable[..., World], lambda_: FakeLambda, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    world = watch(MATCHING, probes={LLM: lambda: pytest.fail("it takes too long")})
    world.service_fails()
    clock.pass_(minutes=2)
    with pytest.raises(ServiceUnavailableError, match="No time is left"):
        world.pauses.run(lambda: PROBE_SECONDS - 1)
    assert measured(capsys) == [LLM]
    assert lambda_.calls == []
    assert watch(MATCHING).pauses.run(lambda: MAPPING_TIMEOUT_SECONDS).paused == ["matching"]


def test_unavailable_database_changes_nothing(world: World, lambda_: FakeLambda) -> None:
    world.service_fails()
    world.breakers.process.failure = DatabaseUnavailableError("unavailable")
    with pytest.raises(DatabaseUnavailableError):
        world.minute()
    assert lambda_.calls == []


def test_mapping_calls_match_the_lambda_api(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    client = boto3.client("lambda", region_name="eu-central-1", aws_access_key_id="a", aws_secret_access_key="b")
    monkeypatch.setattr(aws, "client", lambda service: {"lambda": client}[service])
    state = {"UUID": str(MAPPING), "State": "Enabled"}
    with Stubber(client) as stubber:
        stubber.add_response("get_event_source_mapping", state, {"UUID": str(MAPPING)})
        stubber.add_response("update_event_source_mapping", state, {"UUID": str(MAPPING), "Enabled": False})
        stubber.add_response("get_event_source_mapping", state | {"State": "Disabled"}, {"UUID": str(MAPPING)})
        stubber.add_client_error("update_event_source_mapping", "ResourceInUseException", http_status_code=400)
        stubber.add_client_error("get_event_source_mapping", "ResourceNotFoundException", http_status_code=404)
        world.service_fails()
        assert world.minute().paused == ["matching"]
        world.service_recovers()
        assert world.minute().resumed == []
        assert world.minute().resumed == []
        stubber.assert_no_pending_responses()


# Probes and metrics


def test_watchdog_probes_service_without_other_callers(watch: Callable[..., World], start: Start, clock: Clock) -> None:
    calls = []
    failures = [ServiceUnavailableError("503")]
    behind = start()

    def probe() -> None:
        with behind.guard(LLM):
            calls.append(clock())
            for error in failures:
                raise error

    world = watch(MATCHING, probes={LLM: probe})
    world.service_fails()
    assert [bool(world.minute().paused) for _ in range(5)] == [True, False, False, False, False]
    assert len(calls) == 3  # after 60, 120 and 240 s: each failure doubles the wait
    failures.clear()
    assert [bool(world.minute().resumed) for _ in range(5)].count(True) == 1
    assert len(calls) == 4
    assert world.state() == "Enabled"


def test_broken_probe_does_not_fail_the_run(watch: Callable[..., World]) -> None:
    def probe() -> None:
        raise ValueError("a bug")

    world = watch(MATCHING, probes={LLM: probe})
    world.service_fails()
    assert world.minute().paused == ["matching"]


def test_service_without_queues_is_probed_by_its_callers(watch: Callable[..., World]) -> None:
    calls = []
    world = watch(probes={LLM: lambda: calls.append(True)})
    world.service_fails()
    for _ in range(3):
        world.minute()
    assert calls == []


def measured(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    return [line["breaker"] for line in lines if "BreakerOpen" in line]


def test_each_run_emits_metrics_of_open_breakers(
    watch: Callable[..., World], clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    world = watch()
    assert (world.pauses.run().open, measured(capsys)) == ([], [])
    world.service_fails()
    assert (world.pauses.run().open, measured(capsys)) == ([LLM], [LLM])
    clock.pass_(seconds=30)  # due, without another caller
    assert (world.pauses.run().open, measured(capsys)) == ([], [])
    assert (watch(MATCHING).pauses.run().open, measured(capsys)) == ([LLM], [LLM])


def test_unavailable_destinations_are_counted_without_service_alarms(
    watch: Callable[..., World], capsys: pytest.CaptureFixture[str]
) -> None:
    world = watch()
    world.service_fails()
    for destination in ("destination:1", "destination:2"):
        for _ in range(FAILURES):
            with suppress(ServiceUnavailableError), world.breakers.guard(destination):
                raise ServiceUnavailableError("503")
    assert world.pauses.run().open == ["destination:1", "destination:2", LLM]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["breaker"] for line in lines if "BreakerOpen" in line] == [LLM]
    assert [line["DestinationsUnavailable"] for line in lines if "DestinationsUnavailable" in line] == [[2.0]]


# The decision


@pytest.mark.parametrize("state", ["Creating", "Enabling", "Disabling", "Updating", "Deleting"])
@pytest.mark.parametrize("status", [None, "pausing", "paused", "released"])
@pytest.mark.parametrize("since", [None, 0, 100])
def test_no_decision_during_a_transition(state: str, status: str | None, since: int | None) -> None:
    row = None if status is None else Row(status, NOW)
    outage = None if since is None else Outage(NOW + timedelta(seconds=since), NOW)
    now = NOW + timedelta(hours=1)
    assert decide(state, row, outage, now=now, pause_after=PAUSE_AFTER) is Step.NOTHING
