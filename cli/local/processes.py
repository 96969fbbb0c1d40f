"""The processes of a local cloud, and their end.

Every process that a cloud starts inherits one environment variable, which names the cloud's folder. So a cloud knows
its own, and nobody else's, whatever became of the command that started them; no process number is trusted, for the
system gives it to another process when the first has ended.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from types import FrameType

import psutil

from cli.failures import CloudError

MARK = "COUNTERFOIL_CLOUD_PROCESS"
END_SECONDS = 10


class Part(StrEnum):
    """What a process belongs to."""

    EMULATOR = "emulator"
    """The emulator, with the functions that it runs."""
    DEPLOYMENT = "deployment"


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def mark(folder: Path, part: Part) -> dict[str, str]:
    """The environment variable for the processes of a part of the cloud in `folder`."""
    return {MARK: f"{part}:{folder}"}


def belonging_to(folder: Path, parts: Collection[Part] = tuple(Part)) -> list[psutil.Process]:
    """The live processes of the cloud in `folder`."""
    marks = {mark(folder, part)[MARK] for part in parts}
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARK) in marks and process.pid != os.getpid() and is_alive(process):
                found.append(process)
    return found


def is_alive(process: psutil.Process) -> bool:
    """Whether it runs. A zombie does not: it has ended, and only its parent has not looked yet."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end_all(folder: Path, parts: Collection[Part] = tuple(Part)) -> int:
    """End every process of the cloud in `folder`, or of some parts of it, with those that they start meanwhile.

    Returns how many there were.

    Raises:
        CloudError: some do not end, or belong to somebody else.
    """
    ended: set[int] = set()
    deadline = time.monotonic() + END_SECONDS
    while processes := belonging_to(folder, parts):
        ended.update(process.pid for process in processes)
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in processes)
            raise CloudError(f"These processes of the local cloud do not end: {pids}. End them, and try again.")
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=0.05)
    return len(ended)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group of its own, with the whole group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """Treat being ended, and the terminal's closing, as Ctrl-C, so that what was begun is cleared away then too."""
    with _handling(_interrupt):
        yield


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let nothing interrupt clearing away, which is short."""
    with _handling(signal.SIG_IGN):
        yield


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
