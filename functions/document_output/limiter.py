"""Concurrency limit per destination, so that slow receivers cannot block others.

Circuit breakers do not open because of slow responses. Without the limit, one slow receiver with many deliveries would
use all permits of an invocation.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Lock
from time import monotonic
from uuid import UUID

from counterfoil.errors import DeferredError

MAX_SLOW_CALLS = 2
"""Maximum concurrent calls to a slow destination: half of an invocation's permits."""
SLOW_SECONDS = 5.0
"""A call that takes longer marks its destination as slow for SLOW_MEMORY_SECONDS, or until a faster call."""
SLOW_MEMORY_SECONDS = 60.0
WAIT = timedelta(seconds=30)
"""Delay before a deferred delivery is retried. Deferring does not use up an attempt."""


class DestinationLimiter:
    """Limits the concurrent calls of one process to each slow destination."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """Create a limiter without slow destinations.

        `clock` returns the time in seconds.
        """
        self._clock = clock
        self._lock = Lock()
        self._calls: Counter[UUID] = Counter()
        self._slow: dict[UUID, float] = {}

    @contextmanager
    def slot(self, destination: UUID, name: str, now: datetime) -> Iterator[None]:
        """Acquire a slot for one call to a destination.

        Calls that fail quickly do not count as fast.

        Raises:
            DeferredError: the destination is slow, and its maximum number of calls is in progress.
        """
        started = self._clock()
        with self._lock:
            is_slow = started - self._slow.get(destination, started - SLOW_MEMORY_SECONDS) < SLOW_MEMORY_SECONDS
            if is_slow and self._calls[destination] >= MAX_SLOW_CALLS:
                message = f"The destination '{name}' responds slowly. Other deliveries have priority"
                raise DeferredError(message, until=now + WAIT)
            self._calls[destination] += 1
        is_completed = False
        try:
            yield
            is_completed = True
        finally:
            ended = self._clock()
            with self._lock:
                self._calls[destination] -= 1
                if ended - started > SLOW_SECONDS:
                    self._slow[destination] = ended
                elif is_completed:
                    self._slow.pop(destination, None)
