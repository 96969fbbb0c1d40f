"""The gate: permits for heavy work inside one process."""

from threading import Condition


class Gate:
    """Bounds how many records are worked on at once, over all invocations of this process.

    A record that an earlier invocation had to leave behind keeps its permit until it really ends.
    """

    def __init__(self, permits: int) -> None:
        self._free = permits
        self._changed = Condition()

    def take(self, wanted: int, *, timeout: float = 0) -> int:
        """Take up to `wanted` permits, waiting up to `timeout` seconds for the first. Returns how many were taken."""
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0, timeout)
            taken = min(wanted, self._free)
            self._free -= taken
            return taken

    def give_back(self, permits: int = 1) -> None:
        """Return permits."""
        with self._changed:
            self._free += permits
            self._changed.notify_all()
