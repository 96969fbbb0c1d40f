"""Pauses queues while the one service that all of their work needs is away, and looks whether it is back.

An open breaker parks work, at the price of a message and two transactions for each; where nothing but that can happen,
the queue is better not read at all. The event source mapping (below: the mapping) is AWS's switch for that, and people
use it too. What tells ours from theirs is a row of `mapping_pause`, and a mapping is enabled only if a row says that we
disabled it:

- The row is committed before the mapping is disabled. A crash in between leaves `pausing`: found enabled, it is
  disabled now; found disabled, it counts as ours.
- The mapping is enabled before the row is released. A crash in between leaves `paused` for a mapping that is enabled;
  it is released then.
- A row is not released while a call to disable the mapping, made for it by any watchdog, can still be under way.
- A mapping that a person enabled again is left alone for the rest of this outage.
- A mapping of a queue that a person paused in the meantime (`counterfoil.queues`) stays disabled when the service
  is back: the row is released, and whoever resumes the queue enables it.

Lambda knows no conditional update. If a person disables a mapping in the moment between our look and our own call, or
while a row says that we did, nothing can tell, and it is enabled when the service is back.
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
from counterfoil.errors import CounterfoilError, RejectedRequestError, ServiceUnavailableError, sentence
from counterfoil.metrics import Metric, record
from counterfoil.queues import lock_pause

PROBE_SECONDS = 12.0
"""Time that must be left for a probe."""
MAPPING_SECONDS = 15.0
"""Time that must be left to look after one more mapping: two calls, each of which ends in 7 s. None is left to itself,
or it could disable a mapping when nobody expects that any more."""
CALL_UNDER_WAY = timedelta(minutes=2)
"""Longer than a watchdog lives: after this, a call that it was about to make was made or never will be."""

logger = Logger()

_ROWS = "SELECT mapping, status, opened_at FROM mapping_pause"

_INTEND = """
INSERT INTO mapping_pause (mapping, status, opened_at, intended_at)
VALUES (%(mapping)s, 'pausing', %(opened_at)s, %(now)s)
ON CONFLICT (mapping) DO UPDATE
SET status = excluded.status, opened_at = excluded.opened_at, intended_at = excluded.intended_at
"""

_NOTE = """
UPDATE mapping_pause SET status = 'paused', opened_at = %(opened_at)s
WHERE mapping = %(mapping)s AND status <> 'released'
"""

_RELEASE = "UPDATE mapping_pause SET status = 'released' WHERE mapping = %(mapping)s AND intended_at <= %(before)s"


@dataclass(frozen=True)
class Dependent:
    """A worker all of whose work depends on one breaker."""

    worker: str
    mapping: UUID
    """The event source mapping of its queue."""
    depends_on: str
    """The breaker's name."""


@dataclass(frozen=True)
class Row:
    """What is on record about a mapping."""

    status: str
    opened_at: datetime
    """The outage that it is about."""


class Step(StrEnum):
    """What is to be done about a mapping."""

    NOTHING = "nothing"
    PAUSE = "pause"
    NOTE = "note"
    """It is disabled and ours: put this, and the outage, on record."""
    RESUME = "resume"
    RELEASE = "release"
    """It is enabled, or exists no more: the row about it has done its service."""


def decide(state: str, row: Row | None, outage: Outage | None, *, now: datetime, pause_after: timedelta) -> Step:
    """What to do about a mapping in this state, given what is on record and whether its breaker is open.

    `state` is one of Lambda's, or "deleted". Transitions are waited for until the next round.
    """
    ours = row is not None and row.status != "released"
    same_outage = row is not None and outage is not None and row.opened_at == outage.since
    if state == "Disabled" and ours:
        if outage is None:
            return Step.RESUME
        noted = same_outage and row is not None and row.status == "paused"
        return Step.NOTHING if noted else Step.NOTE
    if state == "Enabled":
        paused_once = same_outage and row is not None and row.status != "pausing"
        if outage is not None and now - outage.since >= pause_after and not paused_once:
            return Step.PAUSE
        if ours:
            return Step.RELEASE
    return Step.RELEASE if state == "deleted" and ours else Step.NOTHING


@dataclass
class Round:
    """What one round found and did."""

    open: list[str] = field(default_factory=list)
    """Breakers that keep work waiting."""
    paused: list[str] = field(default_factory=list)
    """Workers."""
    resumed: list[str] = field(default_factory=list)


class Pauses:
    """Looks after the mappings of `dependents`, and after those that are still paused though they depend no more."""

    def __init__(
        self,
        database: Database,
        breakers: Breakers,
        dependents: Sequence[Dependent],
        probes: Mapping[str, Callable[[], object]],
        clock: Callable[[], datetime],
        *,
        pause_after: timedelta,
        workers: Mapping[UUID, str],
    ) -> None:
        """`probes` holds, by a breaker's name, the smallest call behind it; the call itself goes through its guard.

        `workers` names the worker of each mapping, as people pause its queue.
        """
        self._database = database
        self._breakers = breakers
        self._dependents = dependents
        self._probes = probes
        self._clock = clock
        self._pause_after = pause_after
        self._workers = workers

    def run(self, time_left: Callable[[], float] = lambda: inf) -> Round:
        """One round. Every mapping is looked after, whatever happens to the others, as long as there is time.

        Raises:
            DatabaseUnavailableError: nothing is known without the database, and nothing was done.
            CounterfoilError: the first that a mapping could not be looked after for.
        """
        self._probe(time_left)
        outages = self._breakers.outages()
        done = Round(open=self._report(outages))
        with self._database.delivery() as connection:
            rows = {mapping: Row(status, at) for mapping, status, at in connection.execute(_ROWS)}
        first_error: CounterfoilError | None = None
        for worker, mapping, depends_on in self._mappings(rows):
            outage = outages.get(depends_on) if depends_on is not None else None
            try:
                if time_left() < MAPPING_SECONDS:
                    raise ServiceUnavailableError("No time is left: the next round looks after it")
                self._look_after(worker, mapping, rows.get(mapping), outage, done)
            except CounterfoilError as error:
                logger.error("A mapping could not be looked after", worker=worker, error=str(error))
                first_error = first_error or error
        if first_error is not None:
            raise first_error
        return done

    def _probe(self, time_left: Callable[[], float]) -> None:
        """Try the services whose breakers are due: nobody else may call them while their queues are paused."""
        names = {dependent.depends_on for dependent in self._dependents} & self._probes.keys()
        if not names:
            return
        outages = self._breakers.outages()
        for name in sorted(names & outages.keys()):
            if outages[name].until > self._clock():
                continue
            if time_left() < PROBE_SECONDS:
                logger.warning("A service was not tried: no time is left", breaker=name)
                continue
            try:
                self._probes[name]()
            except Exception as error:  # noqa: BLE001  # the breaker has been told; a round has more to do
                logger.info("A service was tried in vain", breaker=name, error=sentence(error))

    def _report(self, outages: Mapping[str, Outage]) -> list[str]:
        """Measure which breakers keep work waiting: not one that is due, for its next caller may try.

        A tenant's destination that is away is that tenant's affair, and hides no service that everybody needs: they are
        counted, and have no metric each.
        """
        depended_on = {dependent.depends_on for dependent in self._dependents}
        names = [name for name, outage in outages.items() if outage.until > self._clock() or name in depended_on]
        for name in names:
            if not name.startswith(DESTINATION):
                record({Metric.BREAKER_OPEN: 1}, breaker=name)
        record({Metric.DESTINATIONS_AWAY: sum(name.startswith(DESTINATION) for name in outages)})
        return sorted(names)

    def _mappings(self, rows: Mapping[UUID, Row]) -> list[tuple[str, UUID, str | None]]:
        """Worker, mapping and breaker, of all that can be paused and all that we paused before they no longer could."""
        known = {dependent.mapping for dependent in self._dependents}
        left = [mapping for mapping, row in rows.items() if mapping not in known and row.status != "released"]
        return [
            *((dependent.worker, dependent.mapping, dependent.depends_on) for dependent in self._dependents),
            *((f"a former dependent ({mapping})", mapping, None) for mapping in left),
        ]

    def _look_after(self, worker: str, mapping: UUID, row: Row | None, outage: Outage | None, done: Round) -> None:
        answer = _lambda("get_event_source_mapping", "ResourceNotFoundException", UUID=str(mapping))
        state = answer["State"] if answer is not None else "deleted"
        now = self._clock()
        step = decide(state, row, outage, now=now, pause_after=self._pause_after)
        if step is Step.PAUSE and outage is not None:
            self._write(_INTEND, mapping=mapping, opened_at=outage.since, now=now)
            if self._switch(mapping, on=False):
                self._write(_NOTE, mapping=mapping, opened_at=outage.since)
                done.paused.append(worker)
        elif step is Step.NOTE and outage is not None:
            self._write(_NOTE, mapping=mapping, opened_at=outage.since)
        elif step is Step.RESUME:
            if self._resume(worker, mapping, done):
                self._write(_RELEASE, mapping=mapping, before=now - CALL_UNDER_WAY)
        elif step is Step.RELEASE:
            self._write(_RELEASE, mapping=mapping, before=now - CALL_UNDER_WAY)
        if step is not Step.NOTHING:
            logger.warning("A mapping is looked after", worker=worker, state=state, step=step)

    def _resume(self, worker: str, mapping: UUID, done: Round) -> bool:
        """Enable a mapping, unless a person has paused its queue. False: somebody else is changing it."""
        with lock_pause(self._database, self._workers.get(mapping, worker)) as is_paused:
            if is_paused:
                logger.warning("A queue stays paused, for a person has paused it", worker=worker)
                return True
            is_enabled = self._switch(mapping, on=True)
        if is_enabled:
            done.resumed.append(worker)
        return is_enabled

    def _write(self, statement: str, **parameters: Any) -> None:
        with self._database.delivery() as connection:
            connection.execute(statement.encode(), parameters)

    @staticmethod
    def _switch(mapping: UUID, *, on: bool) -> bool:
        """Enable or disable a mapping. False when somebody else is changing it: the next round sees to what."""
        busy = ("ResourceInUseException", "ResourceConflictException")
        return _lambda("update_event_source_mapping", *busy, UUID=str(mapping), Enabled=on) is not None


def _lambda(operation: str, *codes: str, **parameters: Any) -> dict[str, Any] | None:
    """The answer of Lambda's API; None when it is a refusal with one of these codes.

    Raises:
        ServiceUnavailableError, RejectedRequestError: mapped from botocore.
    """
    try:
        with aws.errors_mapped():
            answer: dict[str, Any] = getattr(aws.client("lambda"), operation)(**parameters)
            return answer
    except RejectedRequestError as error:
        cause = error.__cause__
        if isinstance(cause, ClientError) and cause.response["Error"]["Code"] in codes:
            return None
        raise
