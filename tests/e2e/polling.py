"""Poll for the effects of other processes, with a timeout."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_PAUSE = threading.Event()


def wait_until(condition: Callable[[], T], seconds: float = 60) -> T:
    """Call `condition` until it returns a truthy value, and return that value.

    Fail after `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"after {seconds} s still {value!r}"
        _PAUSE.wait(0.05)
    return value
