"""The gate: permits for heavy work inside one process."""

from threading import Lock

from counterfoil.delivery.concurrency import Concurrency


class Gate:
    """Bounds how many records are worked on at once, over all invocations of this process.

    A record that an earlier invocation had to leave behind keeps its permit until it really ends.
    """

    def __init__(self, permits: int, concurrency: Concurrency) -> None:
        self._free = permits
        self._lock = Lock()
        self._concurrency = concurrency

    @property
    def is_open(self) -> bool:
        """Whether a permit is free just now."""
        return self._free > 0

    def take(self, wanted: int, *, timeout: float = 0) -> int:
        """Take up to `wanted` permits, waiting up to `timeout` seconds for the first. Returns how many were taken."""
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
