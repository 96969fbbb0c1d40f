"""Fixtures for worker tests, such as a fake queue, clock and Lambda API.

The fixture `pending` creates pending documents.
"""

from collections.abc import Callable, Iterator

import pytest

from counterfoil import aws
from functions.watchdog.breakers import DependentWorker, PauseStep
from tests.breaker_processes import Start, processes
from tests.delivery.conftest import clock, pending, sqs, tenant
from tests.delivery.harness import Clock
from tests.functions.fake_lambda import MAPPING, MATCHING, OTHER, PAUSE_AFTER, FakeLambda, WatchdogHarness

__all__ = ["clock", "pending", "sqs", "tenant"]


@pytest.fixture
def lambda_(monkeypatch: pytest.MonkeyPatch) -> FakeLambda:
    fake = FakeLambda()
    monkeypatch.setattr(aws, "client", lambda service: {"lambda": fake}[service])
    return fake


@pytest.fixture
def start(maintenance_database_url: str, clock: Clock) -> Iterator[Start]:
    with processes(maintenance_database_url, clock) as start:
        yield start


@pytest.fixture
def start_watchdog(start: Start, clock: Clock, lambda_: FakeLambda) -> Callable[..., WatchdogHarness]:
    """`start_watchdog(*dependents, ...)` returns a watchdog with its own breakers."""

    def start_watchdog(
        *dependents: DependentWorker, probes: dict[str, Callable[[], object]] | None = None
    ) -> WatchdogHarness:
        breakers = start()
        workers = {MAPPING: "matching", OTHER: "tasks"}
        pauses = PauseStep(
            breakers.process, breakers, dependents, probes or {}, clock, pause_after=PAUSE_AFTER, workers=workers
        )
        return WatchdogHarness(pauses, breakers, lambda_, clock)

    return start_watchdog


@pytest.fixture
def watchdog(start_watchdog: Callable[..., WatchdogHarness]) -> WatchdogHarness:
    return start_watchdog(MATCHING)
