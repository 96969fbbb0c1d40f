"""Fake Lambda API with event source mappings, and a watchdog that pauses them."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from botocore.exceptions import ClientError

from counterfoil.db import Connection
from counterfoil.errors import ServiceUnavailableError
from functions.watchdog.breakers import DependentWorker, PauseStep, RunResult
from tests.breaker_processes import FAILURES, LLM, ProcessBreakers
from tests.delivery.harness import Clock

MAPPING, OTHER = uuid4(), uuid4()
PAUSE_AFTER = timedelta(seconds=60)
MATCHING = DependentWorker("matching", MAPPING, LLM)


class ProcessKilled(BaseException):
    """Raised to simulate a killed watchdog process."""


def refusal(code: str, operation: str, status: int = 400) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, operation)  # type: ignore[typeddict-item]


def do_nothing() -> None:
    """Default for hooks around calls."""


@dataclass
class FakeLambda:
    """Event source mappings that change state with a delay, as in AWS.

    `disabled_by` records who disabled each mapping.
    """

    states: dict[UUID, str] = field(default_factory=lambda: {MAPPING: "Enabled", OTHER: "Enabled"})
    disabled_by: dict[UUID, str] = field(default_factory=dict)
    calls: list[tuple[UUID, bool]] = field(default_factory=list)
    before: Callable[[], None] = do_nothing
    after: Callable[[], None] = do_nothing
    refuse: dict[UUID, ClientError] = field(default_factory=dict)
    invoked: list[tuple[str, Any]] = field(default_factory=list)
    invoke_error: Exception | None = None

    def invoke(self, *, FunctionName: str, InvocationType: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803
        assert InvocationType == "Event"
        if self.invoke_error is not None:
            raise self.invoke_error
        self.invoked.append((FunctionName, json.loads(Payload)))
        return {"StatusCode": 202}

    def get_event_source_mapping(self, *, UUID: str) -> dict[str, Any]:  # noqa: N803
        mapping = _uuid(UUID)
        if mapping not in self.states:
            raise refusal("ResourceNotFoundException", "GetEventSourceMapping", 404)
        if mapping in self.refuse:
            raise self.refuse[mapping]
        return {"UUID": UUID, "State": self.states[mapping]}

    def update_event_source_mapping(self, *, UUID: str, Enabled: bool) -> dict[str, Any]:  # noqa: N803
        mapping = _uuid(UUID)
        self.before()
        if self.states[mapping] not in {"Enabled", "Disabled"}:
            raise refusal("ResourceInUseException", "UpdateEventSourceMapping")
        if Enabled:
            assert self.disabled_by.get(mapping) != "operator", "enabled a mapping that an operator had disabled"
        self.calls.append((mapping, Enabled))
        self._switch(mapping, Enabled, "watchdog")
        self.after()
        return {"UUID": UUID, "State": self.states[mapping]}

    def switch_manually(self, mapping: UUID, *, on: bool) -> None:
        self._switch(mapping, on, "operator")
        self.settle()

    def _switch(self, mapping: UUID, on: bool, principal: str) -> None:
        target = "Enabled" if on else "Disabled"
        if self.states[mapping] == target:
            return
        self.states[mapping] = "Enabling" if on else "Disabling"
        if on:
            self.disabled_by.pop(mapping, None)
        else:
            self.disabled_by[mapping] = principal

    def settle(self) -> None:
        """Apply all pending changes."""
        settled_states = {"Enabling": "Enabled", "Updating": "Enabled", "Disabling": "Disabled"}
        self.states = {mapping: settled_states.get(state, state) for mapping, state in self.states.items()}


_uuid = UUID


@dataclass
class WatchdogHarness:
    """A watchdog with its breakers, a fake clock and fake mappings."""

    pauses: PauseStep
    breakers: ProcessBreakers
    lambda_: FakeLambda
    clock: Clock

    def minute(self) -> RunResult:
        """Advance the clock by a minute, apply pending changes and run the watchdog."""
        self.clock.advance(seconds=60)
        self.lambda_.settle()
        return self.pauses.run()

    def service_fails(self) -> None:
        """Let calls fail until the breaker opens or reopens."""
        outage = self.breakers.open_breakers().get(LLM)
        if outage is not None:
            self.clock.now = max(self.clock.now, outage.until)
        for _ in range(FAILURES if outage is None else 1):
            with suppress(ServiceUnavailableError), self.breakers.guard(LLM):
                raise ServiceUnavailableError("503")

    def service_recovers(self) -> None:
        """Let a call succeed, which closes the breaker."""
        outage = self.breakers.open_breakers().get(LLM)
        if outage is not None:
            self.clock.now = max(self.clock.now, outage.until)
        with self.breakers.guard(LLM):
            pass
        assert self.breakers.open_breakers() == {}

    def state(self, mapping: UUID = MAPPING) -> str:
        self.lambda_.settle()
        return self.lambda_.states[mapping]


def pause_matching_queue(watchdog: WatchdogHarness) -> WatchdogHarness:
    """Pause the matching queue through an outage of several minutes.

    Return the harness.
    """
    watchdog.service_fails()
    assert watchdog.minute().paused == ["matching"]
    watchdog.minute()
    watchdog.minute()
    assert watchdog.state() == "Disabled"
    return watchdog


def status(admin: Connection) -> str | None:
    """Return the stored status of the only pause, if any."""
    row = admin.execute("SELECT status FROM breaker_mapping_pause").fetchone()
    return None if row is None else str(row[0])
