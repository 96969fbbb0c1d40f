"""The child process that parses untrusted files.

It limits itself before it reads the first file.
"""

import fcntl
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from counterfoil.documents.sandbox.process import FRAME, MEMORY_BYTES
from counterfoil.errors import InvalidDocumentError, safe_message

RETIRE_CPU_SECONDS = 300
"""CPU seconds after which the process is replaced."""
MAX_CPU_SECONDS = 600
RETIRE_BYTES = MEMORY_BYTES // 2
"""Address space in bytes, at the end of a request, above which the process is replaced before it runs out of memory."""

_ANSWER_BUFFER_BYTES = 64 * 1024

Part = tuple[Any, bytes]
Operation = Callable[..., Iterator[Part]]
"""Takes a file's bytes and arguments, and yields the parts of its answer: JSON and bytes."""


def limit() -> None:
    """Limit memory, CPU time, files and processes.

    The process cannot lift these limits.
    """
    limits = {
        resource.RLIMIT_CPU: MAX_CPU_SECONDS,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_CORE: 0,
    }
    if sys.platform == "linux":  # other systems do not enforce these
        limits |= {resource.RLIMIT_AS: MEMORY_BYTES, resource.RLIMIT_NPROC: 0}
    for kind, maximum in limits.items():
        resource.setrlimit(kind, (maximum, maximum))


def end_with_parent(lifeline: int) -> None:
    """Let the kernel kill this process when the parent's end of a pipe closes.

    This works even during a call into C.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    if select.select([lifeline], [], [], 0)[0]:  # the parent has already ended
        sys.exit()


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the parent closes the pipe."""
    while head := requests.read(FRAME.size):
        json_length, length = FRAME.unpack(head)
        request = json.loads(requests.read(json_length))
        _limit_cpu(request["cpu_seconds"])
        _answer(answers, request, requests.read(length))


def _limit_cpu(seconds: int) -> None:
    """Limit the CPU time of this request: the kernel ends the process with SIGXCPU."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (min(soft, MAX_CPU_SECONDS), MAX_CPU_SECONDS))


def _answer(answers: BinaryIO, request: dict[str, Any], content: bytes) -> None:
    from counterfoil.documents.sandbox.operations import OPERATIONS

    try:
        for value, body in OPERATIONS[request["operation"]](content, **request["arguments"]):
            _write(answers, "part", value, body)
    except InvalidDocumentError as error:
        _write(answers, "invalid", {"message": str(error), "code": error.code}, is_last=True)
    except MemoryError:
        _write(answers, "memory", None, is_last=True)
    except Exception as error:  # noqa: BLE001  # the parent raises it
        _write(answers, "failed", safe_message(error), is_last=True)
    else:
        _write(answers, "end", None, is_last=True)


def _write(answers: BinaryIO, kind: str, value: Any, body: bytes = b"", *, is_last: bool = False) -> None:
    head = json.dumps({"kind": kind, "value": value, "retire": is_last and _is_worn()}).encode()
    answers.write(FRAME.pack(len(head), len(body)) + head)
    answers.write(body)
    if is_last:  # a short answer is one write, which wakes the parent once
        answers.flush()


def _is_worn() -> bool:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime > RETIRE_CPU_SECONDS or _address_space() > RETIRE_BYTES


def _address_space() -> int:
    """Return the size of the address space in bytes, or 0 if it is not reported."""
    try:
        statm = Path("/proc/self/statm").read_text()
    except FileNotFoundError:
        return 0
    return int(statm.split()[0]) * resource.getpagesize()


def main() -> None:
    """Limit this process, report its start, and serve requests."""
    end_with_parent(int(sys.argv[1]))
    limit()
    with os.fdopen(os.dup(1), "wb", _ANSWER_BUFFER_BYTES) as answers, Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # libraries may print
        answers.write(b"\n")
        answers.flush()
        serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
