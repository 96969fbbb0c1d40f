"""Circuit breakers: pause calls to a failing service in all processes.

              n failures in a row                     open_until has passed
  ┌────────┐                      ┌──────┐                                ┌───────────┐  one process makes a
  │ closed │─────────────────────▶│ open │───────────────────────────────▶│ half-open │  single call, the
  └────────┘                      └──────┘◀───────────────────────────────└───────────┘  probe; others are rejected
       ▲                                   probe failed: open twice as long     │
       └────────────────────────────────────────────────────────────────────────┘
                                     the service responded

The state is a row in table `breaker`. Each transition increases the row's generation. A call that began in an earlier
generation changes nothing when it ends. No transaction is open during the call.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from aws_lambda_powertools import Logger

from counterfoil.db import Connection, Database
from counterfoil.errors import (
    BreakerOpenError,
    CounterfoilError,
    InvalidLlmResponseError,
    RejectedRequestError,
    ServiceUnavailableError,
)
from counterfoil.settings import Settings

DESTINATION = "destination:"
"""Name prefix of breakers for services that only one tenant uses."""
STATE_CACHE_SECONDS = timedelta(seconds=1)
"""Cache TTL of a breaker's state. It saves queries during a series of quick calls."""
MAX_OPEN_SECONDS = 600.0
"""Maximum open time through exponential backoff, unless `open_seconds` is longer."""
MAX_RETRY_AFTER_SECONDS = 3600.0
"""Maximum open time that a service can request. A single Retry-After header, possibly from a proxy, must not block
calls for a day."""
OPEN_JITTER = 0.5
"""Fraction of `open_seconds` over which the next attempts of deferred work items are spread."""

logger = Logger()

_READ = "SELECT generation, failures, open_count, opened_at, open_until, is_probing FROM breaker WHERE name = %(name)s"

# Claims the probe. It expires at the new `open_until`, so another process can probe after a crash. If two processes try
# to claim the probe, the second one sees the new `open_until` when it gets the row lock.
_CLAIM_PROBE = """
UPDATE breaker SET generation = generation + 1, open_until = %(until)s, is_probing = true
WHERE name = %(name)s AND open_until <= %(now)s
RETURNING generation, failures, open_count, opened_at, open_until, is_probing
"""

# Transitions at the end of a call. Except for _REGISTER, each returns whether the breaker is now open. It returns no
# row if it does not apply, for example because the call began in an earlier generation.
_REGISTER = "INSERT INTO breaker (name) VALUES (%(name)s) ON CONFLICT (name) DO NOTHING"

_COUNT_FAILURE = """
UPDATE breaker SET failures = failures + 1,
    generation = generation + (failures + 1 >= %(limit)s)::int, open_count = (failures + 1 >= %(limit)s)::int,
    opened_at = CASE WHEN failures + 1 >= %(limit)s THEN %(now)s::timestamptz END,
    open_until = CASE WHEN failures + 1 >= %(limit)s THEN %(until)s::timestamptz END
WHERE name = %(name)s AND generation = %(generation)s RETURNING opened_at IS NOT NULL
"""

# Writes nothing, not even a transaction id, if there are no failures to reset.
_RESET_FAILURES = """
UPDATE breaker SET failures = 0
WHERE name = %(name)s AND generation = %(generation)s AND failures > 0 RETURNING false
"""

_REOPEN = """
UPDATE breaker SET generation = generation + 1, open_count = open_count + 1, open_until = %(until)s, is_probing = false
WHERE name = %(name)s AND generation = %(generation)s RETURNING true
"""

_CLOSE = """
UPDATE breaker SET generation = generation + 1, failures = 0, open_count = 0, opened_at = NULL, open_until = NULL,
    is_probing = false
WHERE name = %(name)s AND generation = %(generation)s RETURNING false
"""

_RELEASE_PROBE = """
UPDATE breaker SET generation = generation + 1, open_until = %(now)s, is_probing = false
WHERE name = %(name)s AND generation = %(generation)s RETURNING true
"""


@dataclass(frozen=True)
class Outage:
    """A breaker that is not closed."""

    since: datetime
    """Time when the breaker opened. Failed probes do not change it."""
    until: datetime
    """No calls before this time; afterwards, one call may probe."""


@dataclass(frozen=True)
class _State:
    """A breaker's row, with the time when it was read.

    A call keeps the state that permitted it.
    """

    read_at: datetime
    generation: int = 0
    failures: int = 0
    """Number of consecutive failures while closed."""
    open_count: int = 0
    """Number of consecutive openings without a response; 0 while closed."""
    opened_at: datetime | None = None
    open_until: datetime | None = None
    is_probing: bool = False


def open_seconds(open_count: int, open_seconds: float, retry_after: float | None) -> timedelta:
    """Return how long a breaker stays open after `open_count` consecutive openings.

    `open_count` must be at least 1. The time is `open_seconds` * 2^(open_count - 1), limited to ten minutes or
    `open_seconds`, whichever is longer. A longer `retry_after`, limited to one hour, takes precedence.
    """
    backoff = min(open_seconds * 2 ** min(open_count - 1, 30), max(open_seconds, MAX_OPEN_SECONDS))
    return timedelta(seconds=max(backoff, min(MAX_RETRY_AFTER_SECONDS, retry_after or 0.0)))


class Breakers:
    """Circuit breakers by service, such as `llm:anthropic` or `webhook:example.com`."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime],
        *,
        failures: int,
        open_seconds: float,
        probe_seconds: float = 90,
        spread: Callable[[], float] = random.random,
    ) -> None:
        """Open a breaker after `failures` consecutive failures.

        The first time, it stays open for `open_seconds`. `probe_seconds` must be longer than any guarded call, because
        another process may probe after this time. `spread` returns random numbers from 0 to 1, which spread the next
        attempts of deferred work items.
        """
        self._database = database
        self._clock = clock
        self._failures = failures
        self._open_seconds = open_seconds
        self._probe_seconds = probe_seconds
        self._spread = spread
        self._cache: dict[str, _State] = {}

    @classmethod
    def from_settings(cls, settings: Settings, database: Database) -> "Breakers":
        """Return breakers with the configured limits.

        The longest guarded calls go to language models.
        """
        return cls(
            database,
            database.clock,
            failures=settings.breaker_failure_threshold,
            open_seconds=settings.breaker_open_seconds,
            probe_seconds=settings.llm_total_timeout_seconds + 30,
        )

    @contextmanager
    def guard(self, name: str) -> Iterator[None]:
        """Guard one call to the service with its breaker.

        ServiceUnavailableError counts as a failure. A normal return, a rejection or an invalid answer shows that the
        service is available. Any other exception (the attempt was canceled, the claim is stale) does not count, and
        another call may probe. If the breaker is neither cached nor readable, the call is permitted and not counted. A
        database outage therefore does not block calls.

        Raises:
            BreakerOpenError: the call must not be made before the error's `until`.
        """
        state = self._enter(name)
        try:
            yield
        except ServiceUnavailableError as error:
            self._record_failure(name, state, error.retry_after)
            raise
        except (InvalidLlmResponseError, RejectedRequestError):
            self._record_response(name, state)
            raise
        except BaseException:
            self._release_probe(name, state)
            raise
        self._record_response(name, state)

    def open_breakers(self) -> dict[str, Outage]:
        """Return all breakers that are not closed.

        Raises:
            DatabaseUnavailableError: the breakers could not be read.
        """
        with self._database.delivery() as connection:
            rows = connection.execute("SELECT name, opened_at, open_until FROM breaker WHERE opened_at IS NOT NULL")
            return {name: Outage(since, until) for name, since, until in rows}

    # -- before the call ----------------------------------------------------------------------------------------------

    def _enter(self, name: str) -> _State | None:
        """Return the state that permits a call, or None if the state could not be read."""
        now = self._clock()
        state = self._cached_state(name, now)
        if state is None or _is_half_open(state, now):
            try:
                state, is_probe = self._read(name, now)
            except CounterfoilError as error:
                logger.warning("A breaker cannot be read: the call is permitted", breaker=name, error=str(error))
                return None
            if is_probe:
                logger.info("A breaker permits one probe", breaker=name)
                return state
            self._cache[name] = state
        if state.open_until is None:
            return state
        until = max(now, state.open_until)
        if state.is_probing:
            until = min(until, now + timedelta(seconds=self._open_seconds))
        until += timedelta(seconds=self._open_seconds * OPEN_JITTER * self._spread())
        message = f"The circuit breaker of {name} is open until {until:%Y-%m-%d %H:%M:%S} UTC"
        raise BreakerOpenError(message, until=until)

    def _cached_state(self, name: str, now: datetime) -> _State | None:
        state = self._cache.get(name)
        return state if state is not None and timedelta() <= now - state.read_at < STATE_CACHE_SECONDS else None

    def _read(self, name: str, now: datetime) -> tuple[_State, bool]:
        """Return the state, and whether the caller may probe a half-open breaker."""
        with self._database.delivery() as connection:
            state = _fetch(connection, _READ, {"name": name}, now) or _State(now)
            if not _is_half_open(state, now):
                return state, False
            until = now + timedelta(seconds=self._probe_seconds)
            claimed = _fetch(connection, _CLAIM_PROBE, {"name": name, "now": now, "until": until}, now)
            if claimed is not None:
                return claimed, True
            return _fetch(connection, _READ, {"name": name}, now) or _State(now), False

    # -- after the call -----------------------------------------------------------------------------------------------

    def _record_failure(self, name: str, state: _State | None, retry_after: float | None) -> None:
        if state is None:
            return
        now = self._clock()
        until = now + open_seconds(state.open_count + 1, self._open_seconds, retry_after)
        if state.open_count:
            is_open = self._write(name, state, _REOPEN, until=until)
        else:
            is_open = self._write(name, state, _REGISTER, _COUNT_FAILURE, now=now, until=until, limit=self._failures)
        if is_open:
            logger.warning("A breaker opened", breaker=name, until=until.isoformat())

    def _record_response(self, name: str, state: _State | None) -> None:
        if state is None:
            return
        if state.open_count:
            if self._write(name, state, _CLOSE) is False:
                logger.info("A breaker closed", breaker=name)
            return
        cached = self._cached_state(name, self._clock())
        if cached is None or (cached.generation, cached.failures) != (state.generation, 0):
            self._write(name, state, _RESET_FAILURES)

    def _release_probe(self, name: str, state: _State | None) -> None:
        if state is not None and state.open_count:
            self._write(name, state, _RELEASE_PROBE, now=self._clock())

    def _write(self, name: str, state: _State, *statements: str, **values: Any) -> bool | None:
        """Apply a transition.

        Returns whether the breaker is open, or None if the transition was not applied.

        If the database is unavailable, only the transition is lost: an unfinished probe expires, and a failure is not
        counted.
        """
        parameters = {"name": name, "generation": state.generation} | values
        try:
            with self._database.delivery() as connection:
                for statement in statements:
                    cursor = connection.execute(statement.encode(), parameters)
                row = cursor.fetchone()
        except CounterfoilError as error:
            logger.warning("A breaker could not be changed", breaker=name, error=str(error))
            return None
        finally:
            self._cache.pop(name, None)
        return None if row is None else bool(row[0])


def _is_half_open(state: _State, now: datetime) -> bool:
    return state.open_until is not None and state.open_until <= now


def _fetch(connection: Connection, statement: str, parameters: Mapping[str, Any], now: datetime) -> _State | None:
    row = connection.execute(statement.encode(), parameters).fetchone()
    return None if row is None else _State(now, *row)
