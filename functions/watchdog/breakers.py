"""Pauses queues that depend on an unavailable service, and probes the service.

While a breaker is open, each work item is parked, which costs a message and two transactions. If all work items of a
queue would be parked, the watchdog disables the queue's event source mapping instead. Operators also enable and disable
mappings. A row in `breaker_mapping_pause` marks a mapping as disabled by the watchdog, and only these mappings are
enabled again:

- The row is committed before the mapping is disabled. A crash in between leaves the status `pausing`. The next run
  disables the mapping if it is enabled, and treats a disabled mapping as disabled by the watchdog.
- The mapping is enabled before the row is released. A crash in between leaves the status `paused` for an enabled
  mapping, and the next run releases the row.
- A row is not released while a watchdog's call to disable its mapping may still be in progress.
- A mapping that an operator enabled is not disabled again during the same outage.
- If an operator paused the queue during the outage (`counterfoil.queues`), the mapping stays disabled when the service
  recovers. The row is released, and resuming the queue enables the mapping.

Lambda has no conditional updates. An operator's change between the watchdog's read and its call, or while the row
exists, cannot be detected. A mapping that an operator disables in that time is enabled when the service recovers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from math import inf
from typing import Any
from uuid import UUID

from aws_lambda_powertools import Logger
from botocore.exceptions import ClientError

from counterfoil import aws
from counterfoil.circuit_breaker import DESTINATION, Breakers, Outage
from counterfoil.db import Database
from counterfoil.errors import CounterfoilError, RejectedRequestError, ServiceUnavailableError, safe_message
from counterfoil.metrics import Metric, emit
from counterfoil.queues import lock_pause

PROBE_SECONDS = 12.0
"""Minimum time left to start a probe."""
MAPPING_TIMEOUT_SECONDS = 15.0
"""Minimum time left to reconcile a mapping, which takes two calls with a timeout of 7 s each.

A call must not outlive the run, because it could disable a mapping later.
"""
MAX_CALL_DURATION = timedelta(minutes=2)
"""Upper bound on the duration of a call: longer than an invocation of the watchdog."""

logger = Logger()

_SELECT_PAUSES = "SELECT mapping, status, breaker_opened_at FROM breaker_mapping_pause"

_MARK_PAUSING = """
INSERT INTO breaker_mapping_pause (mapping, status, breaker_opened_at, intended_at)
VALUES (%(mapping)s, 'pausing', %(opened_at)s, %(now)s)
ON CONFLICT (mapping) DO UPDATE
SET status = excluded.status, breaker_opened_at = excluded.breaker_opened_at, intended_at = excluded.intended_at
"""

_MARK_PAUSED = """
UPDATE breaker_mapping_pause SET status = 'paused', breaker_opened_at = %(opened_at)s
WHERE mapping = %(mapping)s AND status <> 'released'
"""

_MARK_RELEASED = (
    "UPDATE breaker_mapping_pause SET status = 'released' WHERE mapping = %(mapping)s AND intended_at <= %(before)s"
)


@dataclass(frozen=True)
class DependentWorker:
    """A worker whose work items all depend on one breaker."""

    worker: str
    mapping: UUID
    """Event source mapping of its queue."""
    depends_on: str
    """Name of the breaker."""


@dataclass(frozen=True)
class Row:
    """Stored state of a mapping, from `breaker_mapping_pause`."""

    status: str
    opened_at: datetime
    """Start of the outage."""


class Action(StrEnum):
    """Action for a mapping."""

    NOTHING = "nothing"
    PAUSE = "pause"
    NOTE = "note"
    """The watchdog disabled the mapping: record the pause and the outage."""
    RESUME = "resume"
    RELEASE = "release"
    """The mapping is enabled or no longer exists: release its row."""


def decide(state: str, row: Row | None, outage: Outage | None, *, now: datetime, pause_after: timedelta) -> Action:
    """Return the action for a mapping, from its state, row and breaker's outage.

    `state` is a mapping state of Lambda, or "deleted". Mappings in transition are skipped until the next run.
    """
    is_ours = row is not None and row.status != "released"
    same_outage = row is not None and outage is not None and row.opened_at == outage.since
    if state == "Disabled" and is_ours:
        if outage is None:
            return Action.RESUME
        is_recorded = same_outage and row is not None and row.status == "paused"
        return Action.NOTHING if is_recorded else Action.NOTE
    if state == "Enabled":
        was_paused = same_outage and row is not None and row.status != "pausing"
        if outage is not None and now - outage.since >= pause_after and not was_paused:
            return Action.PAUSE
        if is_ours:
            return Action.RELEASE
    return Action.RELEASE if state == "deleted" and is_ours else Action.NOTHING


@dataclass
class RunResult:
    """Result of a run."""

    open: list[str] = field(default_factory=list)
    """Breakers that delay work items."""
    paused: list[str] = field(default_factory=list)
    """Workers whose queues were paused."""
    resumed: list[str] = field(default_factory=list)


class PauseStep:
    """Watchdog step that reconciles the mappings of dependent workers.

    Mappings of former dependents are reconciled while they are paused.
    """

    def __init__(
        self,
        database: Database,
        breakers: Breakers,
        dependents: Sequence[DependentWorker],
        probes: Mapping[str, Callable[[], object]],
        clock: Callable[[], datetime],
        *,
        pause_after: timedelta,
        workers: Mapping[UUID, str],
    ) -> None:
        """Create the step for these dependents and probes.

        `probes` maps the name of a breaker to a minimal call, which itself uses the breaker. `workers` maps each
        mapping to its worker, because operators pause queues by worker.
        """
        self._database = database
        self._breakers = breakers
        self._dependents = dependents
        self._probes = probes
        self._clock = clock
        self._pause_after = pause_after
        self._workers = workers

    def run(self, time_left: Callable[[], float] = lambda: inf) -> RunResult:
        """Reconcile all mappings until time runs out, even if some fail.

        Raises:
            DatabaseUnavailableError: nothing was done.
            CounterfoilError: the first error from a mapping. The other mappings were reconciled.
        """
        self._probe(time_left)
        outages = self._breakers.open_breakers()
        result = RunResult(open=self._report(outages))
        with self._database.delivery() as connection:
            rows = {mapping: Row(status, at) for mapping, status, at in connection.execute(_SELECT_PAUSES)}
        first_error: CounterfoilError | None = None
        for worker, mapping, depends_on in self._mappings(rows):
            outage = outages.get(depends_on) if depends_on is not None else None
            try:
                if time_left() < MAPPING_TIMEOUT_SECONDS:
                    raise ServiceUnavailableError("Out of time. The next run reconciles the mapping")
                self._reconcile(worker, mapping, rows.get(mapping), outage, result)
            except CounterfoilError as error:
                logger.error("An event source mapping could not be reconciled", worker=worker, error=str(error))
                first_error = first_error or error
        if first_error is not None:
            raise first_error
        return result

    def _probe(self, time_left: Callable[[], float]) -> None:
        """Probe services whose breakers are due for a probe.

        Paused workers make no calls, so their breakers would stay open.
        """
        names = {dependent.depends_on for dependent in self._dependents} & self._probes.keys()
        if not names:
            return
        outages = self._breakers.open_breakers()
        for name in sorted(names & outages.keys()):
            if outages[name].until > self._clock():
                continue
            if time_left() < PROBE_SECONDS:
                logger.warning("A service was not probed because time ran out", breaker=name)
                continue
            try:
                self._probes[name]()
            except Exception as error:  # noqa: BLE001  # the breaker has recorded the failure; the run continues
                logger.info("The probe of a service failed", breaker=name, error=safe_message(error))

    def _report(self, outages: Mapping[str, Outage]) -> list[str]:
        """Emit metrics for breakers that delay work items, and return the breaker names.

        A breaker that is due for a probe is omitted, unless a worker depends on it. Breakers of tenants' destinations
        are only counted, because tenants do not share them and they must not hide other services.
        """
        depended_on = {dependent.depends_on for dependent in self._dependents}
        names = [name for name, outage in outages.items() if outage.until > self._clock() or name in depended_on]
        for name in names:
            if not name.startswith(DESTINATION):
                emit({Metric.BREAKER_OPEN: 1}, breaker=name)
        emit({Metric.DESTINATIONS_UNAVAILABLE: sum(name.startswith(DESTINATION) for name in outages)})
        return sorted(names)

    def _mappings(self, rows: Mapping[UUID, Row]) -> list[tuple[str, UUID, str | None]]:
        """Return the worker, mapping and breaker of each dependent.

        Former dependents are included while they are paused, without a breaker.
        """
        current = {dependent.mapping for dependent in self._dependents}
        former = [mapping for mapping, row in rows.items() if mapping not in current and row.status != "released"]
        return [
            *((dependent.worker, dependent.mapping, dependent.depends_on) for dependent in self._dependents),
            *((f"a former dependent ({mapping})", mapping, None) for mapping in former),
        ]

    def _reconcile(self, worker: str, mapping: UUID, row: Row | None, outage: Outage | None, result: RunResult) -> None:
        response = _call_lambda("get_event_source_mapping", "ResourceNotFoundException", UUID=str(mapping))
        state = response["State"] if response is not None else "deleted"
        now = self._clock()
        action = decide(state, row, outage, now=now, pause_after=self._pause_after)
        if action is Action.PAUSE and outage is not None:
            self._execute(_MARK_PAUSING, mapping=mapping, opened_at=outage.since, now=now)
            if self._switch(mapping, enabled=False):
                self._execute(_MARK_PAUSED, mapping=mapping, opened_at=outage.since)
                result.paused.append(worker)
        elif action is Action.NOTE and outage is not None:
            self._execute(_MARK_PAUSED, mapping=mapping, opened_at=outage.since)
        elif action is Action.RESUME:
            if self._resume(worker, mapping, result):
                self._execute(_MARK_RELEASED, mapping=mapping, before=now - MAX_CALL_DURATION)
        elif action is Action.RELEASE:
            self._execute(_MARK_RELEASED, mapping=mapping, before=now - MAX_CALL_DURATION)
        if action is not Action.NOTHING:
            logger.warning("An event source mapping is reconciled", worker=worker, state=state, action=action)

    def _resume(self, worker: str, mapping: UUID, result: RunResult) -> bool:
        """Enable a mapping, unless an operator paused its queue.

        Return False if it is being changed.
        """
        with lock_pause(self._database, self._workers.get(mapping, worker)) as is_paused:
            if is_paused:
                logger.warning("A queue stays paused because an operator paused it", worker=worker)
                return True
            is_enabled = self._switch(mapping, enabled=True)
        if is_enabled:
            result.resumed.append(worker)
        return is_enabled

    def _execute(self, statement: str, **parameters: Any) -> None:
        with self._database.delivery() as connection:
            connection.execute(statement.encode(), parameters)

    @staticmethod
    def _switch(mapping: UUID, *, enabled: bool) -> bool:
        """Enable or disable a mapping.

        Return False if it is being changed; the next run retries.
        """
        busy_codes = ("ResourceInUseException", "ResourceConflictException")
        return _call_lambda("update_event_source_mapping", *busy_codes, UUID=str(mapping), Enabled=enabled) is not None


def _call_lambda(operation: str, *codes: str, **parameters: Any) -> dict[str, Any] | None:
    """Call Lambda's API and return the response, or None for an error in `codes`.

    Raises:
        ServiceUnavailableError, RejectedRequestError: mapped from botocore.
    """
    try:
        with aws.translate_errors():
            response: dict[str, Any] = getattr(aws.client("lambda"), operation)(**parameters)
            return response
    except RejectedRequestError as error:
        cause = error.__cause__
        if isinstance(cause, ClientError) and cause.response["Error"]["Code"] in codes:
            return None
        raise
