"""Fixtures for worker tests: a fake queue, clock and Lambda API, and pending documents."""

from collections.abc import Callable, Iterator

import pytest

from counterfoil import aws
from functions.watchdog.breakers import DependentWorker, Pauses
from tests.breakers import Start, processes
from tests.delivery.conftest import clock, pending, sqs, tenant
from tests.delivery.harness import Clock
from tests.functions.fake_lambda import MAPPING, MATCHING, OTHER, PAUSE_AFTER, FakeLambda, World

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
def watch(start: Start, clock: Clock, lambda_: FakeLambda) -> Callable[..., World]:
    """`watch(*dependents, probes={})` starts a watchdog."""

    def watch(*dependents: DependentWorker, probes: dict[str, Callable[[], object]] | None = None) -> World:
        breakers = start()
        workers = {MAPPING: "matching", OTHER: "tasks"}
        pauses = Pauses(
            breakers.process, breakers, dependents, probes or {}, clock, pause_after=PAUSE_AFTER, workers=workers
        )
        return World(pauses, breakers, lambda_, clock)

    return watch


@pytest.fixture
def world(watch: Callable[..., World]) -> World:
    return watch(MATCHING)
