"""A process's threads, and permits for heavy work."""

import os
from collections import deque
from collections.abc import Callable
from contextvars import Context
from queue import SimpleQueue
from threading import Condition, Lock, Thread, current_thread
from time import monotonic
from typing import Protocol


class Concurrency(Protocol):
    """A process's threads, waits and clock. The simulation replaces them."""

    def start(self, name: str, function: Callable[[], None]) -> None:
        """Run `function` concurrently. It must not raise."""

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Wait up to `timeout` seconds for `predicate` to become true.

        Returns its last value.
        """

    def notify(self) -> None:
        """Wake all waiting threads to check their predicates."""

    def monotonic(self) -> float:
        """Return the time of a monotonic clock, in seconds.

        Only differences are meaningful.
        """

    def end_process(self) -> None:
        """End this process immediately. Lambda starts another one."""


class Threads:
    """Real threads.

    Callers limit their number: one per permit, and one heartbeat per batch.

    They are daemon threads, so an attempt that never ends does not keep the process alive. Idle threads are reused,
    because many attempts take less time than starting a thread.
    """

    def __init__(self) -> None:
        self._condition = Condition()
        self._idle: deque[SimpleQueue[tuple[str, Callable[[], None]]]] = deque()

    def start(self, name: str, function: Callable[[], None]) -> None:
        """Run `function` on an idle or new thread.

        Raises:
            RuntimeError: the process cannot start another thread.
        """
        try:
            calls = self._idle.pop()
        except IndexError:
            calls = SimpleQueue()
            Thread(target=self._run, args=(calls,), daemon=True).start()
        calls.put((name, function))

    def _run(self, calls: SimpleQueue[tuple[str, Callable[[], None]]]) -> None:
        while True:
            current_thread().name, function = calls.get()
            Context().run(function)  # in a new context, like a new thread
            del function  # release its objects
            self._idle.append(calls)

    def wait_for(self, predicate: Callable[[], bool], timeout: float) -> bool:
        """Wait for `predicate`, which must be fast and must not wait for locks."""
        with self._condition:
            return self._condition.wait_for(predicate, timeout)

    def notify(self) -> None:
        """Wake all waiting threads."""
        with self._condition:
            self._condition.notify_all()

    @staticmethod
    def monotonic() -> float:
        """Return the time of the machine's monotonic clock, in seconds."""
        return monotonic()

    @staticmethod
    def end_process() -> None:
        """End the process without waiting for threads."""
        os._exit(1)


class PermitPool:
    """Limits concurrent attempts in this process, across invocations.

    An abandoned attempt holds its permit until its thread ends.
    """

    def __init__(self, permits: int, concurrency: Concurrency) -> None:
        self._free = permits
        self._lock = Lock()
        self._concurrency = concurrency

    @property
    def has_capacity(self) -> bool:
        """True if a permit is free."""
        return self._free > 0

    def acquire(self, max_permits: int, *, timeout: float = 0) -> int:
        """Take up to `max_permits` permits, and return the number taken.

        Waits up to `timeout` seconds until at least one permit is free.
        """
        self._concurrency.wait_for(lambda: self.has_capacity, timeout)
        with self._lock:
            permits = min(max_permits, self._free)
            self._free -= permits
            return permits

    def release(self, permits: int = 1) -> None:
        """Give back `permits` permits."""
        with self._lock:
            self._free += permits
        self._concurrency.notify()
