"""Waiting for what other processes do: looks again and again, and gives up with what it saw last."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_PAUSE = threading.Event()


def until(look: Callable[[], T], seconds: float = 60) -> T:
    """Return what `look` sees as soon as it is true in a boolean sense."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, f"after {seconds} s still {seen!r}"
        _PAUSE.wait(0.05)
    return seen
