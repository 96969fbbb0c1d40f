"""Lanes: a destination that answers slowly holds a part of an invocation's permits, and the others have the rest.

No circuit breaker opens for whoever answers in the end: without lanes, one receiver that takes its time over many
deliveries would have all permits for as long.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from threading import Lock
from time import monotonic
from uuid import UUID

from counterfoil.errors import DeferredError

MOST = 2
"""Calls at once to a slow destination: half of an invocation's permits."""
SLOW_SECONDS = 5.0
"""Who took longer for the last call is slow, for KNOWN_SECONDS or until it takes a delivery quicker."""
KNOWN_SECONDS = 60.0
WAIT = timedelta(seconds=30)
"""After which what found its lane full is tried again. It loses no attempt."""


class Lanes:
    """The calls of one process that are under way, by destination."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """`clock` counts seconds."""
        self._clock = clock
        self._lock = Lock()
        self._calls: Counter[UUID] = Counter()
        self._slow: dict[UUID, float] = {}

    @contextmanager
    def lane(self, destination: UUID, name: str, now: datetime) -> Iterator[None]:
        """Hold a place for one call to a destination. What raises quickly may be no call, and says nothing of it.

        Raises:
            DeferredError: it is slow, and as many calls to it are under way as it may have.
        """
        began = self._clock()
        with self._lock:
            is_slow = began - self._slow.get(destination, began - KNOWN_SECONDS) < KNOWN_SECONDS
            if is_slow and self._calls[destination] >= MOST:
                message = f"The destination '{name}' answers slowly: others go first"
                raise DeferredError(message, until=now + WAIT)
            self._calls[destination] += 1
        is_answered = False
        try:
            yield
            is_answered = True
        finally:
            ended = self._clock()
            with self._lock:
                self._calls[destination] -= 1
                if ended - began > SLOW_SECONDS:
                    self._slow[destination] = ended
                elif is_answered:
                    self._slow.pop(destination, None)
