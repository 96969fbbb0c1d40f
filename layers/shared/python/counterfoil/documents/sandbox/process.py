"""Runs and reuses child processes that parse untrusted files.

This module is the parent's side. A child has no credentials in its environment, limits its own memory and CPU time, and
terminates with its parent. Several threads may call `run` concurrently, each with its own child. Requests and answers
are frames of JSON and bytes on pipes. Nothing is unpickled.
"""

import atexit
import contextlib
import fcntl
import io
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import Any, NamedTuple

from counterfoil.errors import InvalidDocumentError, ParserError

MEMORY_BYTES = 700 * 1024 * 1024
"""Maximum address space of a child. Two children and their parent fit into the 2048 MB of a function."""
MAX_IDLE = 2
START_SECONDS = 30.0
FRAME = struct.Struct(">IQ")
"""Lengths of a frame's JSON and of its bytes."""
MAX_JSON_BYTES = 8 * 1024 * 1024
MAX_FRAME_BYTES = 128 * 1024 * 1024
"""Maximum size of a frame: enough for a file of `MAX_FILE_BYTES` after pypdf has rewritten it."""
_CHECK_SECONDS = 0.5
_CHUNK_BYTES = 1024 * 1024

TOO_COMPLEX = (
    f"The file is too complex to read: it needs more than {MEMORY_BYTES // 1024**2} MiB of memory, or it crashes its "
    "parser. Print it to a new PDF and send that."
)


@dataclass(frozen=True)
class Limits:
    """Limits of one call."""

    cpu_seconds: int
    seconds: float
    """Maximum wall-clock seconds spent waiting for the child, including time when other processes use the CPU."""
    answer_bytes: int
    """Maximum total size of the frames' bytes."""


class Frame(NamedTuple):
    """A part of an answer."""

    value: Any
    """Parsed JSON."""
    content: bytes


def run(
    operation: str,
    content: bytes,
    arguments: Mapping[str, Any],
    limits: Limits,
    check: Callable[[], None] = lambda: None,
) -> Iterator[Frame]:
    """Run an operation in a child process, and yield the frames of its answer.

    If a reused child fails or crashes, the call is repeated in another child, because an earlier file may be the cause.
    `check` is called about twice a second during waits, and can stop the call by raising an exception.

    Raises:
        InvalidDocumentError: the operation rejected the file, exceeded a limit, or crashed.
        ParserError: the child did not start, was killed from outside, or failed unexpectedly.
    """
    delivered = 0
    while True:
        child = _take()
        is_fresh = child.is_fresh
        try:
            for frame in islice(child.call(operation, content, arguments, limits, check), delivered, None):
                delivered += 1
                yield frame
            return
        except _ChildFailedError as failure:
            if is_fresh or not failure.may_be_earlier:
                raise failure.error from None
        finally:
            _give_back(child)


_idle: list["_Child"] = []
_lock = Lock()


def _take() -> "_Child":
    while True:
        with _lock:
            child = _idle.pop() if _idle else None
        if child is None:
            return _Child()
        if child.is_usable:
            return child
        child.close()


def _give_back(child: "_Child") -> None:
    with _lock:
        is_kept = child.is_usable and len(_idle) < MAX_IDLE
        if is_kept:
            _idle.append(child)
    if not is_kept:
        child.close()


def close_idle() -> None:
    """Kill the idle child processes."""
    with _lock:
        children, _idle[:] = _idle[:], []
    for child in children:
        child.close()


atexit.register(close_idle)


class _ChildFailedError(Exception):
    """A failed call. `error` is the error for the caller."""

    def __init__(self, error: Exception, *, may_be_earlier: bool) -> None:
        super().__init__()
        self.error = error
        self.may_be_earlier = may_be_earlier
        """Whether an earlier file in the same process may be the cause."""


class _Child:
    """One child process, for one call at a time."""

    def __init__(self) -> None:
        """Start the process. Raises `ParserError` if the system rejects it."""
        lifeline, self._lifeline = os.pipe()
        program = [sys.executable, "-B", "-P", "-S", "-m", "counterfoil.documents.sandbox.program", str(lifeline)]
        try:
            self._process = subprocess.Popen(  # noqa: S603  # our own program
                program,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # error messages could quote the file
                bufsize=0,
                pass_fds=(lifeline,),
                cwd="/",
                env={"PYTHONPATH": os.pathsep.join(sys.path)} | _library_path(),
            )
        except OSError as error:
            os.close(self._lifeline)
            raise ParserError(_NOT_STARTED) from error
        finally:
            os.close(lifeline)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._input, False)
        os.set_blocking(self._output, False)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # the total size of a user's pipes is limited
                fcntl.fcntl(self._input, fcntl.F_SETPIPE_SZ, _CHUNK_BYTES)
        self._calls = 0
        self._is_busy = False
        self._is_closed = False

    @property
    def is_fresh(self) -> bool:
        """True until its first call."""
        return self._calls == 0

    @property
    def is_usable(self) -> bool:
        return not self._is_busy and not self._is_closed and self._process.poll() is None

    def call(
        self,
        operation: str,
        content: bytes,
        arguments: Mapping[str, Any],
        limits: Limits,
        check: Callable[[], None],
    ) -> Iterator[Frame]:
        """Yield the frames of an answer.

        After an unfinished call, the child stays busy and is not reused.

        Raises:
            _ChildFailedError: any failure, except for errors that `check` raises.
        """
        self._is_busy = True
        if self.is_fresh:
            self._await_start(check)
        self._calls += 1
        clock = _Clock(limits.seconds, check)
        head = {"operation": operation, "arguments": arguments, "cpu_seconds": limits.cpu_seconds}
        try:
            encoded = json.dumps(head).encode()
            self._write(FRAME.pack(len(encoded), len(content)) + encoded, content, clock)
            remaining = limits.answer_bytes
            while (frame := self._frame(clock, remaining)) is not None:
                remaining -= len(frame.content)
                yield frame
        except _PipeClosedError:
            raise self._end_error(limits) from None
        except TimeoutError:
            raise _ChildFailedError(_too_slow_error(limits.seconds), may_be_earlier=False) from None

    def close(self) -> None:
        """Kill the process."""
        if self._is_closed:
            return
        self._is_closed = True
        os.close(self._lifeline)
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _await_start(self, check: Callable[[], None]) -> None:
        """Wait for the byte that reports a successful start.

        The file never causes a failed start.
        """
        try:
            self._read(1, _Clock(START_SECONDS, check))
        except (_PipeClosedError, TimeoutError):
            raise _ChildFailedError(ParserError(_NOT_STARTED), may_be_earlier=False) from None

    def _frame(self, clock: "_Clock", most_bytes: int) -> Frame | None:
        """Read one frame; None at the end of an answer."""
        json_length, length = FRAME.unpack(self._read(FRAME.size, clock))
        if json_length > MAX_JSON_BYTES or length > min(most_bytes, MAX_FRAME_BYTES):
            raise _ChildFailedError(
                InvalidDocumentError(_CONTENT_TOO_LARGE, code="too_much_content"), may_be_earlier=False
            )
        try:
            head = json.loads(self._read(json_length, clock))
            kind, value, is_worn = head["kind"], head["value"], bool(head["retire"])
        except (ValueError, TypeError, KeyError):
            raise _ChildFailedError(_too_complex_error(), may_be_earlier=True) from None
        content = self._read(length, clock)
        match kind:
            case "part":
                return Frame(value, content)
            case "end":
                self._is_busy = is_worn
                return None
            case "invalid":
                self._is_busy = is_worn
                error = InvalidDocumentError(str(value["message"]), code=str(value["code"]))
                raise _ChildFailedError(error, may_be_earlier=False)
            case "memory":
                raise _ChildFailedError(_too_complex_error(), may_be_earlier=True)
            case _:
                raise _ChildFailedError(ParserError(f"Reading the file failed: {value}"), may_be_earlier=True)

    def _read(self, length: int, clock: "_Clock") -> bytes:
        piece = self._piece(length, clock) if length else b""
        if len(piece) == length:  # most frames, which require no copy
            return piece
        buffer = io.BytesIO()  # its getvalue() does not copy, unlike bytes(bytearray)
        buffer.write(piece)
        while (remaining := length - buffer.tell()) > 0:
            buffer.write(self._piece(remaining, clock))
        return buffer.getvalue()

    def _piece(self, most_bytes: int, clock: "_Clock") -> bytes:
        while True:
            try:
                piece = os.read(self._output, min(most_bytes, _CHUNK_BYTES))
            except BlockingIOError:
                clock.wait(self._output, select.POLLIN)
                continue
            if not piece:
                raise _PipeClosedError
            return piece

    def _write(self, head: bytes, content: bytes, clock: "_Clock") -> None:
        """Write a request.

        Most fit into the pipe in one write, which wakes the child once.
        """
        head_left, content_left = memoryview(head), memoryview(content)
        while head_left or content_left:
            try:
                written = os.writev(self._input, (head_left, content_left[:_CHUNK_BYTES]))
            except BlockingIOError:
                clock.wait(self._input, select.POLLOUT)
                continue
            except BrokenPipeError:
                raise _PipeClosedError from None
            content_left = content_left[max(0, written - len(head_left)) :]
            head_left = head_left[written:]

    def _end_error(self, limits: Limits) -> _ChildFailedError:
        """Return the error for a process that ended during a call."""
        try:
            code = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:  # it closed its pipes but is still running
            code = None
        if code == -signal.SIGXCPU:
            return _ChildFailedError(_too_slow_error(limits.cpu_seconds), may_be_earlier=False)
        if code in {-signal.SIGKILL, -signal.SIGTERM}:
            return _ChildFailedError(ParserError(_KILLED), may_be_earlier=True)
        return _ChildFailedError(_too_complex_error(), may_be_earlier=True)


class _PipeClosedError(Exception):
    """The other end of a pipe is closed."""


class _Clock:
    """The remaining time of a call. Only time spent waiting for the child counts."""

    def __init__(self, seconds: float, check: Callable[[], None]) -> None:
        self._left = seconds
        self._check = check

    def wait(self, descriptor: int, event: int) -> None:
        """Wait until a pipe is ready or closed.

        Raises:
            TimeoutError: no time is left.
            CounterfoilError: raised by `check`.
        """
        poll = select.poll()
        poll.register(descriptor, event)
        is_ready = False
        while not is_ready:
            if self._left <= 0:
                raise TimeoutError
            started = time.monotonic()
            is_ready = bool(poll.poll(1000 * min(_CHECK_SECONDS, self._left)))
            self._left -= time.monotonic() - started
            if not is_ready:
                self._check()


def _library_path() -> dict[str, str]:
    """Return the environment variable for the library search path, if set.

    Lambda's interpreter requires it.
    """
    path = os.environ.get("LD_LIBRARY_PATH")
    return {} if path is None else {"LD_LIBRARY_PATH": path}


def _too_slow_error(seconds: float) -> InvalidDocumentError:
    limit = "1 second" if seconds == 1 else f"{seconds:g} seconds"
    message = f"Reading the file takes longer than {limit}. Print it to a new PDF, or send it in smaller parts."
    return InvalidDocumentError(message, code="file_too_slow")


_CONTENT_TOO_LARGE = "The unpacked content of the file is too large. Send it in smaller parts."
_NOT_STARTED = "The process that reads files did not start. The next attempt starts a new one."
_KILLED = "The process that reads files was killed from outside. The next attempt starts a new one."


def _too_complex_error() -> InvalidDocumentError:
    return InvalidDocumentError(TOO_COMPLEX, code="file_too_complex")
