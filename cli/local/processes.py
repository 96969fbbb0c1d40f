"""Find and end the processes of a local cloud.

Every process of a cloud inherits an environment variable with the cloud's folder. The variable identifies the processes
even if the command that started them was killed. Process ids are not sufficient, because the system reuses them.
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

MARKER_VARIABLE = "COUNTERFOIL_CLOUD_PROCESS"
END_SECONDS = 10


class CloudProcess(StrEnum):
    """Part of a cloud."""

    EMULATOR = "emulator"
    """The emulator, including the functions that it runs."""
    DEPLOYMENT = "deployment"


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def process_marker(folder: Path, part: CloudProcess) -> dict[str, str]:
    """Return the environment variable that marks the processes of `part` in `folder`."""
    return {MARKER_VARIABLE: f"{part}:{folder}"}


def find_processes(folder: Path, parts: Collection[CloudProcess] = tuple(CloudProcess)) -> list[psutil.Process]:
    """Return the live processes of these parts in `folder`, except this process."""
    marks = {process_marker(folder, part)[MARKER_VARIABLE] for part in parts}
    matches = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARKER_VARIABLE) in marks and process.pid != os.getpid() and is_alive(process):
                matches.append(process)
    return matches


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process is running.

    A zombie has ended, although its parent has not reaped it yet.
    """
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def terminate_all(folder: Path, parts: Collection[CloudProcess] = tuple(CloudProcess)) -> int:
    """End the processes of these parts in `folder`, including new child processes.

    Return the number of ended processes.

    Raises:
        CloudError: some processes do not end, or belong to another user.
    """
    ended: set[int] = set()
    deadline = time.monotonic() + END_SECONDS
    while processes := find_processes(folder, parts):
        ended.update(process.pid for process in processes)
        if time.monotonic() > deadline:
            pids = ", ".join(str(process.pid) for process in processes)
            raise CloudError(
                f"These processes of the local cloud do not end: {pids}. End them, then run the command again."
            )
        for process in processes:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(processes, timeout=0.05)
    return len(ended)


def terminate_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group that `process` leads, and wait until `process` ends."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[None]:
    """Treat SIGTERM and a closed terminal like Ctrl-C, so that cleanup runs."""
    with _signals_handled_by(_interrupt):
        yield


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Ignore interruptions during a short cleanup."""
    with _signals_handled_by(signal.SIG_IGN):
        yield


@contextmanager
def _signals_handled_by(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    previous = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, previous_handler in previous.items():
            signal.signal(number, previous_handler)
