"""The watchdog pauses a queue while a required service is unavailable.

Manual changes take precedence.
"""

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
from functions.watchdog.breakers import MAPPING_TIMEOUT_SECONDS, PROBE_SECONDS, Action, DependentWorker, Row, decide
from tests.breaker_processes import FAILURES, LLM, Start
from tests.delivery.harness import Clock
from tests.factories import NOW
from tests.functions.fake_lambda import (
    MAPPING,
    MATCHING,
    OTHER,
    PAUSE_AFTER,
    FakeLambda,
    WatchdogHarness,
    do_nothing,
    pause_matching_queue,
    refusal,
    status,
)

# Pausing


def test_queue_is_paused_a_minute_after_breaker_opens(watchdog: WatchdogHarness, clock: Clock) -> None:
    watchdog.service_fails()
    clock.advance(seconds=59)
    assert watchdog.pauses.run().paused == []
    clock.advance(seconds=1)
    assert watchdog.pauses.run().paused == ["matching"]
    assert watchdog.state() == "Disabled"


def test_failed_probes_do_not_postpone_the_pause(watchdog: WatchdogHarness) -> None:
    watchdog.service_fails()
    watchdog.service_fails()
    assert watchdog.minute().paused == ["matching"]


def test_queue_with_closed_breaker_is_not_paused(start_watchdog: Callable[..., WatchdogHarness]) -> None:
    watchdog = start_watchdog(MATCHING, DependentWorker("tasks", OTHER, "llm:openai"))
    pause_matching_queue(watchdog)
    assert watchdog.state(OTHER) == "Enabled"


def test_paused_queue_is_not_paused_again(watchdog: WatchdogHarness, lambda_: FakeLambda) -> None:
    pause_matching_queue(watchdog)
    for _ in range(5):
        assert watchdog.minute().paused == []
    assert lambda_.calls == [(MAPPING, False)]


@pytest.mark.parametrize("state", ["Creating", "Enabling", "Disabling", "Updating", "Deleting"])
def test_mapping_in_transition_is_not_changed(
    state: str, watchdog: WatchdogHarness, lambda_: FakeLambda, clock: Clock
) -> None:
    watchdog.service_fails()
    clock.advance(seconds=60)
    lambda_.states[MAPPING] = state
    watchdog.pauses.run()
    assert lambda_.calls == []


def test_pause_is_retried_after_mapping_update(
    watchdog: WatchdogHarness, lambda_: FakeLambda, admin: Connection
) -> None:
    def update_mapping() -> None:
        lambda_.states[MAPPING] = "Updating"

    lambda_.before = update_mapping
    watchdog.service_fails()
    assert watchdog.minute().paused == []
    assert status(admin) == "pausing"
    lambda_.before = do_nothing
    assert watchdog.minute().paused == ["matching"]


# Resuming


def test_queue_is_resumed_when_service_recovers(watchdog: WatchdogHarness, admin: Connection) -> None:
    pause_matching_queue(watchdog)
    watchdog.service_recovers()
    assert watchdog.minute().resumed == ["matching"]
    assert watchdog.state() == "Enabled"
    assert status(admin) == "released"
    assert watchdog.minute().resumed == []


def test_resumed_queue_is_paused_in_next_outage(watchdog: WatchdogHarness) -> None:
    pause_matching_queue(watchdog)
    watchdog.service_recovers()
    watchdog.minute()
    watchdog.service_fails()
    assert watchdog.minute().paused == ["matching"]
    assert watchdog.state() == "Disabled"


def test_new_outage_before_resume_keeps_queue_paused(watchdog: WatchdogHarness, lambda_: FakeLambda) -> None:
    pause_matching_queue(watchdog)
    watchdog.service_recovers()
    watchdog.service_fails()
    watchdog.minute()
    assert watchdog.state() == "Disabled"
    lambda_.switch_manually(MAPPING, on=True)
    assert [watchdog.minute().paused for _ in range(5)] == [[]] * 5  # overridden by the operator for this outage


def test_queue_without_remaining_dependency_is_resumed(
    watchdog: WatchdogHarness, start_watchdog: Callable[..., WatchdogHarness]
) -> None:
    pause_matching_queue(watchdog)
    assert start_watchdog().minute().resumed == [f"a former dependent ({MAPPING})"]
    assert watchdog.state() == "Enabled"
    assert start_watchdog(DependentWorker("matching", MAPPING, "llm:openai")).minute().resumed == []


def test_pause_of_deleted_mapping_is_released(
    start_watchdog: Callable[..., WatchdogHarness], lambda_: FakeLambda, admin: Connection
) -> None:
    pause_matching_queue(start_watchdog(MATCHING))
    del lambda_.states[MAPPING]
    assert start_watchdog().minute().resumed == []
    assert status(admin) == "released"


# Manual changes


def test_manually_disabled_mapping_stays_disabled(watchdog: WatchdogHarness, lambda_: FakeLambda) -> None:
    lambda_.switch_manually(MAPPING, on=False)
    watchdog.service_fails()
    for _ in range(5):
        watchdog.minute()
    watchdog.service_recovers()
    for _ in range(5):
        watchdog.minute()
    assert lambda_.calls == []
    assert watchdog.state() == "Disabled"


def test_manually_enabled_mapping_stays_enabled(
    watchdog: WatchdogHarness, lambda_: FakeLambda, admin: Connection
) -> None:
    pause_matching_queue(watchdog)
    lambda_.switch_manually(MAPPING, on=True)
    assert watchdog.minute().paused == []
    assert status(admin) == "released"
    lambda_.switch_manually(MAPPING, on=False)
    watchdog.service_recovers()
    for _ in range(5):
        watchdog.minute()
    assert watchdog.state() == "Disabled"
    lambda_.switch_manually(MAPPING, on=True)
    pause_matching_queue(watchdog)


@pytest.mark.parametrize("still_depends", [True, False])
def test_manually_paused_queue_stays_paused(
    still_depends: bool,
    start_watchdog: Callable[..., WatchdogHarness],
    lambda_: FakeLambda,
    maintenance_database: Database,
    admin: Connection,
) -> None:
    watchdog = pause_matching_queue(start_watchdog(MATCHING))
    pause_request = PauseRequest("matching", True, "It reads the wrong documents", "kim", NOW, 0)
    request_pause(maintenance_database, pause_request)
    assert apply_pause(maintenance_database, "matching", [MAPPING])
    watchdog.service_recovers()
    watchdog = start_watchdog(MATCHING) if still_depends else start_watchdog()
    assert [watchdog.minute().resumed for _ in range(3)] == [[]] * 3
    assert (MAPPING, True) not in lambda_.calls
    assert (watchdog.state(), status(admin)) == ("Disabled", "released")

    request_pause(maintenance_database, replace(pause_request, is_paused=False, expected_version=1))
    assert apply_pause(maintenance_database, "matching", [MAPPING])
    assert watchdog.state() == "Enabled"


def test_manual_pause_during_resume_takes_precedence(
    watchdog: WatchdogHarness, lambda_: FakeLambda, maintenance_database: Database
) -> None:
    pause_matching_queue(watchdog)
    pause_request = PauseRequest("matching", False, "It is repaired", "kim", NOW, 0)
    request_pause(maintenance_database, replace(pause_request, is_paused=True))
    request_pause(maintenance_database, replace(pause_request, expected_version=1))  # creates the row to lock
    with ThreadPoolExecutor(1) as executor:

        def pause_manually() -> None:
            lambda_.before = do_nothing
            second_request = replace(pause_request, is_paused=True, expected_version=2)
            pauses.append(executor.submit(request_pause, maintenance_database, second_request))
            assert not wait(pauses, timeout=0.2).done  # the watchdog has locked the row

        pauses: list[Future[QueuePause | None]] = []
        lambda_.before = pause_manually
        watchdog.service_recovers()
        watchdog.minute()
        assert pauses[0].result(10) is not None
    lambda_.settle()
    assert apply_pause(maintenance_database, "matching", [MAPPING])
    assert watchdog.state() == "Disabled"
    watchdog.minute()
    assert watchdog.state() == "Disabled"


# Failures


def test_failing_mapping_does_not_block_other_pauses(
    start_watchdog: Callable[..., WatchdogHarness], lambda_: FakeLambda
) -> None:
    watchdog = start_watchdog(MATCHING, DependentWorker("tasks", OTHER, LLM))
    lambda_.refuse[MAPPING] = refusal("AccessDeniedException", "GetEventSourceMapping", 403)
    watchdog.service_fails()
    with pytest.raises(RejectedRequestError, match="AccessDenied"):
        watchdog.minute()
    assert watchdog.state(OTHER) == "Disabled"
    lambda_.refuse[MAPPING] = refusal("TooManyRequestsException", "GetEventSourceMapping", 429)
    with pytest.raises(ServiceUnavailableError):
        watchdog.minute()


def test_run_without_time_left_emits_only_metrics(
    start_watchdog: Callable[..., WatchdogHarness],
    lambda_: FakeLambda,
    clock: Clock,
    capsys: pytest.CaptureFixture[str],
) -> None:
    watchdog = start_watchdog(MATCHING, probes={LLM: lambda: pytest.fail("it takes too long")})
    watchdog.service_fails()
    clock.advance(minutes=2)
    with pytest.raises(ServiceUnavailableError, match="Out of time"):
        watchdog.pauses.run(lambda: PROBE_SECONDS - 1)
    assert metric_names(capsys) == [LLM]
    assert lambda_.calls == []
    assert start_watchdog(MATCHING).pauses.run(lambda: MAPPING_TIMEOUT_SECONDS).paused == ["matching"]


def test_no_mapping_changes_while_database_is_unavailable(watchdog: WatchdogHarness, lambda_: FakeLambda) -> None:
    watchdog.service_fails()
    watchdog.breakers.process.failure = DatabaseUnavailableError("unavailable")
    with pytest.raises(DatabaseUnavailableError):
        watchdog.minute()
    assert lambda_.calls == []


def test_mapping_calls_match_the_lambda_api(watchdog: WatchdogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    client = boto3.client("lambda", region_name="eu-central-1", aws_access_key_id="a", aws_secret_access_key="b")
    monkeypatch.setattr(aws, "client", lambda service: {"lambda": client}[service])
    state = {"UUID": str(MAPPING), "State": "Enabled"}
    with Stubber(client) as stubber:
        stubber.add_response("get_event_source_mapping", state, {"UUID": str(MAPPING)})
        stubber.add_response("update_event_source_mapping", state, {"UUID": str(MAPPING), "Enabled": False})
        stubber.add_response("get_event_source_mapping", state | {"State": "Disabled"}, {"UUID": str(MAPPING)})
        stubber.add_client_error("update_event_source_mapping", "ResourceInUseException", http_status_code=400)
        stubber.add_client_error("get_event_source_mapping", "ResourceNotFoundException", http_status_code=404)
        watchdog.service_fails()
        assert watchdog.minute().paused == ["matching"]
        watchdog.service_recovers()
        assert watchdog.minute().resumed == []
        assert watchdog.minute().resumed == []
        stubber.assert_no_pending_responses()


# Probes and metrics


def test_watchdog_probes_service_without_other_callers(
    start_watchdog: Callable[..., WatchdogHarness], start: Start, clock: Clock
) -> None:
    calls = []
    failures = [ServiceUnavailableError("503")]
    late_process = start()

    def probe() -> None:
        with late_process.guard(LLM):
            calls.append(clock())
            for error in failures:
                raise error

    watchdog = start_watchdog(MATCHING, probes={LLM: probe})
    watchdog.service_fails()
    assert [bool(watchdog.minute().paused) for _ in range(5)] == [True, False, False, False, False]
    assert len(calls) == 3  # after 60, 120 and 240 s, because each failure doubles the delay
    failures.clear()
    assert [bool(watchdog.minute().resumed) for _ in range(5)].count(True) == 1
    assert len(calls) == 4
    assert watchdog.state() == "Enabled"


def test_bug_in_probe_does_not_fail_run(start_watchdog: Callable[..., WatchdogHarness]) -> None:
    def probe() -> None:
        raise ValueError("a bug")

    watchdog = start_watchdog(MATCHING, probes={LLM: probe})
    watchdog.service_fails()
    assert watchdog.minute().paused == ["matching"]


def test_watchdog_does_not_probe_service_without_queues(start_watchdog: Callable[..., WatchdogHarness]) -> None:
    calls = []
    watchdog = start_watchdog(probes={LLM: lambda: calls.append(True)})
    watchdog.service_fails()
    for _ in range(3):
        watchdog.minute()
    assert calls == []


def metric_names(capsys: pytest.CaptureFixture[str]) -> list[str]:
    lines = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    return [line["breaker"] for line in lines if "BreakerOpen" in line]


def test_each_run_emits_metrics_of_open_breakers(
    start_watchdog: Callable[..., WatchdogHarness], clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    watchdog = start_watchdog()
    assert (watchdog.pauses.run().open, metric_names(capsys)) == ([], [])
    watchdog.service_fails()
    assert (watchdog.pauses.run().open, metric_names(capsys)) == ([LLM], [LLM])
    clock.advance(seconds=30)  # the probe is due, but nothing calls the service
    assert (watchdog.pauses.run().open, metric_names(capsys)) == ([], [])
    assert (start_watchdog(MATCHING).pauses.run().open, metric_names(capsys)) == ([LLM], [LLM])


def test_unavailable_destinations_are_counted_without_service_alarms(
    start_watchdog: Callable[..., WatchdogHarness], capsys: pytest.CaptureFixture[str]
) -> None:
    watchdog = start_watchdog()
    watchdog.service_fails()
    for destination in ("destination:1", "destination:2"):
        for _ in range(FAILURES):
            with suppress(ServiceUnavailableError), watchdog.breakers.guard(destination):
                raise ServiceUnavailableError("503")
    assert watchdog.pauses.run().open == ["destination:1", "destination:2", LLM]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["breaker"] for line in lines if "BreakerOpen" in line] == [LLM]
    assert [line["DestinationsUnavailable"] for line in lines if "DestinationsUnavailable" in line] == [[2.0]]


# The decision


@pytest.mark.parametrize("state", ["Creating", "Enabling", "Disabling", "Updating", "Deleting"])
@pytest.mark.parametrize("status", [None, "pausing", "paused", "released"])
@pytest.mark.parametrize("since", [None, 0, 100])
def test_mapping_in_transition_requires_no_action(state: str, status: str | None, since: int | None) -> None:
    row = None if status is None else Row(status, NOW)
    outage = None if since is None else Outage(NOW + timedelta(seconds=since), NOW)
    now = NOW + timedelta(hours=1)
    assert decide(state, row, outage, now=now, pause_after=PAUSE_AFTER) is Action.NOTHING
