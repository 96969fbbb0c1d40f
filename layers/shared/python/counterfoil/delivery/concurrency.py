"""Threads of a process, and permits for heavy work."""

import os
from collections import deque
from collections.abc import Callable
from contextvars import Context
from queue import SimpleQueue
from threading import Condition, Lock, Thread, current_thread
from time import monotonic
from typing import Protocol


class Concurrency(Protocol):
    """What the records of a batch, its heartbeat and its gate share: all of delivery's waiting goes through here."""

    def begin(self, name: str, function: Callable[[], None]) -> None:
        """Run `function`, which raises nothing, beside the caller."""

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Wait until `predicate` holds, for `timeout` seconds at most. Returns whether it does."""

    def changed(self) -> None:
        """Say that something has changed which others may wait for."""

    def monotonic(self) -> float:
        """Seconds that only grow, for durations."""

    def end_process(self) -> None:
        """End this process at once, whatever runs in it: Lambda starts another in its place."""


class Threads:
    """Real threads. How many there are is bounded by their beginners: a permit for each record, one heartbeat a batch.

    They are daemons: a try that does not end must not keep its process from ending. One whose function has returned
    waits for the next one, since to start a thread takes longer than much of the work.
    """

    def __init__(self) -> None:
        self._condition = Condition()
        self._idle: deque[SimpleQueue[tuple[str, Callable[[], None]]]] = deque()

    def begin(self, name: str, function: Callable[[], None]) -> None:
        """Have a thread that waits run `function`, or start one.

        Raises:
            RuntimeError: the machine gives this process no further thread.
        """
        try:
            given = self._idle.pop()
        except IndexError:
            given = SimpleQueue()
            Thread(target=self._run, args=(given,), daemon=True).start()
        given.put((name, function))

    def _run(self, given: SimpleQueue[tuple[str, Callable[[], None]]]) -> None:
        while True:
            current_thread().name, function = given.get()
            Context().run(function)  # in a context of its own, as a new thread has
            del function  # and all that it holds
            self._idle.append(given)

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Wait on the condition of this process. `predicate` must be quick and must not wait for locks."""
        with self._condition:
            return self._condition.wait_for(predicate, timeout)

    def changed(self) -> None:
        """Wake every waiter, to look again."""
        with self._condition:
            self._condition.notify_all()

    @staticmethod
    def monotonic() -> float:
        """The machine's monotonic clock."""
        return monotonic()

    @staticmethod
    def end_process() -> None:
        """End without waiting for any thread."""
        os._exit(1)


class Gate:
    """Bounds how many records run at the same time, over all invocations of this process.

    A record that an earlier invocation abandoned holds its permit until its thread ends.
    """

    def __init__(self, permits: int, concurrency: Concurrency) -> None:
        self._free = permits
        self._lock = Lock()
        self._concurrency = concurrency

    @property
    def is_open(self) -> bool:
        """At least one permit is free."""
        return self._free > 0

    def take(self, wanted: int, *, timeout: float = 0) -> int:
        """Take up to `wanted` permits and return how many were taken.

        Wait up to `timeout` seconds for the first one.
        """
        self._concurrency.wait_for(lambda: self.is_open, timeout)
        with self._lock:
            taken = min(wanted, self._free)
            self._free -= taken
            return taken

    def give_back(self, permits: int = 1) -> None:
        """Return permits."""
        with self._lock:
            self._free += permits
        self._concurrency.changed()
