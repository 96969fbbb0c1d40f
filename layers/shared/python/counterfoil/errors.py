"""The errors of Counterfoil: one tree, in which each class knows whether a later try can help.

CounterfoilError
 ├── TransientError                 a later try can cure it
 │    ├── DatabaseUnavailableError  no connection, a fail-over, too many connections
 │    ├── ConflictError             deadlock, serialization failure, lock time-out: first retried in process
 │    ├── ServiceUnavailableError   a call to a service was throttled, timed out or answered 5xx
 │    ├── InvalidAnswerError        a language model's answer is empty, not valid JSON, or fails its schema
 │    ├── ParserError               the process that reads files did not start, was killed, or failed unexpectedly
 │    ├── NewerSchemaError          a message of a version that this code does not know yet: a deployment is under way
 │    └── CancelledError            the try was stopped at the deadline of its invocation
 ├── PermanentError                 no later try can cure it
 │    ├── InvalidMessageError       a queue message that cannot be read
 │    ├── InvalidDocumentError      a file that cannot be a document: empty, damaged, encrypted, unsafe, incomplete
 │    ├── InvalidSettingsError      a setting is missing or wrong
 │    ├── UnknownTenantError        work for a tenant that does not exist
 │    ├── CirclingError             work that was put off again and again, and never came to an end
 │    ├── InconsistentDataError     what is stored contradicts itself, or nothing can be computed from it
 │    ├── RejectedRequestError      a call to a service was refused (4xx)
 │    │    ├── VersionError         a change names a version that is not the current one
 │    │    └── ContextWindowError   a prompt is longer than its model can read, or its answer was cut off
 │    └── RejectedStatementError    PostgreSQL refused a statement: a constraint, a type, a missing privilege
 ├── DeferredError                  no failure: the work cannot go on just now, and the try gives its attempt back
 │    └── BreakerOpenError          the circuit breaker of a service that the work needs is open
 └── StaleClaimError                a newer claim exists: whatever this try does must change nothing

Foreign errors are mapped into this tree where they arise, once for each adapter: psycopg's in `db`, botocore's in
`aws`, httpx's in `http`, pydantic's in `validation`. An error outside the tree is *unknown*; the retry
policy says what that means.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from traceback import walk_tb
from typing import Any


class CounterfoilError(Exception):
    """Base of every error that Counterfoil raises on purpose."""

    code: str | None = None
    """Stable name of the failure: dead letters with one code are one group, whatever the message says.

    None for errors with many causes, such as refused calls: their messages, without numbers and quoted names, make the
    groups.
    """

    def __init__(self, *args: object, code: str | None = None) -> None:
        super().__init__(*args)
        if code is not None:
            self.code = code


class TransientError(CounterfoilError):
    """A failure that a later try can cure."""


class DatabaseUnavailableError(TransientError):
    """PostgreSQL cannot be reached or does not accept writes just now."""


class ConflictError(TransientError):
    """PostgreSQL ended the transaction in favour of another one; running it again is the cure."""


class ServiceUnavailableError(TransientError):
    """A service throttled the call, did not answer in time, or failed on its side."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Seconds after which the service asked to be called again, where it said so."""


class InvalidAnswerError(TransientError):
    """A language model's answer is empty, not valid JSON, or fails its schema: the next one may be good.

    The message has a preview of the answer, which may repeat what a document says. It is stored with the work that
    failed, where its tenant alone sees it; logs get `unquoted`.
    """

    def __init__(self, message: str, *, preview: str | None = None) -> None:
        super().__init__(message if preview is None else f"{message}: '{preview}'")
        self.unquoted = message
        """The message without the preview."""


class ParserError(TransientError):
    """The process that reads files did not start, was killed from outside, or failed unexpectedly."""


class NewerSchemaError(TransientError):
    """A message names a schema version newer than this code."""

    code = "newer_schema"


class CancelledError(TransientError):
    """The try was stopped before it ended, since its invocation is about to."""

    code = "canceled"


class PermanentError(CounterfoilError):
    """A failure that no later try can cure."""


class InvalidMessageError(PermanentError):
    """A queue message cannot be read. The sentence says what is wrong with it; it never quotes the body."""

    code = "invalid_message"


class InvalidDocumentError(PermanentError):
    """A file cannot be a document. The sentence says what is wrong and what to do; it never quotes the content."""

    code: str

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message, code=code)


class InvalidSettingsError(PermanentError):
    """A setting is missing or wrong. The sentence names the variable."""


class UnknownTenantError(PermanentError):
    """A key or an address names a tenant that does not exist.

    The message may quote addresses of a mail, for whoever looks after delivery to add one of them; logs get `unquoted`.
    """

    def __init__(self, message: str, *, code: str, addresses: Sequence[str] = ()) -> None:
        quoted = ", ".join(f"'{address}'" for address in addresses)
        super().__init__(f"{message}: {quoted}" if quoted else message, code=code)
        self.unquoted = message
        """The message without the addresses."""


class CirclingError(PermanentError):
    """Work was put off again and again, and never came to an end."""


class InconsistentDataError(PermanentError):
    """What is stored contradicts itself, or nothing can be computed from it: a person has to put it right."""


class RejectedRequestError(PermanentError):
    """A service refused the call, and would refuse it again."""


class VersionError(RejectedRequestError):
    """A change names a version that is not the current one."""


class ContextWindowError(RejectedRequestError):
    """A prompt is longer than its model can read, or the model's answer was cut off at its longest."""


class RejectedStatementError(PermanentError):
    """PostgreSQL refused a statement, and would refuse it again."""


class DeferredError(CounterfoilError):
    """The work cannot go on just now, through no fault of its own: the try gives its attempt back and is parked."""

    def __init__(self, message: str, *, until: datetime, is_over: Callable[[Any], bool] | None = None) -> None:
        super().__init__(message)
        self.until = until
        """When it is worth trying again."""
        self.is_over = is_over
        """Says, on the connection of the transaction that parks the work, whether what was in its way has gone
        meanwhile: then it is tried again at once. Whoever clears the way locks the work first, so that one sees the
        other."""


class BreakerOpenError(DeferredError):
    """The circuit breaker of a service that the work needs is open."""


class StaleClaimError(CounterfoilError):
    """A newer claim on the same work exists. Nothing may be written for this one."""


def code_of(error: BaseException) -> str | None:
    """Return the code of an error. None without a code, and for errors of other libraries."""
    return error.code if isinstance(error, CounterfoilError) else None


_OURS = ("counterfoil.", "functions.")
_MOST_FRAMES = 40
"""Frames of a traceback, counted from its innermost end."""


def own_frames(error: BaseException) -> str | None:
    """Return the frames of Counterfoil's code in the traceback of an error and its causes.

    One line per frame: module, line and function. It has no messages and local variables, because they can quote
    documents. None without frames.
    """
    lines: list[str] = []
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        frames = _frames(cause)
        if frames:
            lines = [*frames, type(cause).__name__, *(["", *lines] if lines else [])]
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return "\n".join(lines[-_MOST_FRAMES:]) or None


def _frames(error: BaseException) -> list[str]:
    found = []
    for frame, line in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_OURS):
            found.append(f"{module}:{line} in {frame.f_code.co_name}")
    return found


def sentence(error: BaseException, *, for_log: bool = False) -> str:
    """What may be said of an error outside the process: our own sentence, or the type and place of a foreign error.

    A foreign error's message can quote what it was reading, so it stays inside. A log gets no quotation of a
    model's answer or of a mail's addresses either.
    """
    if isinstance(error, CounterfoilError):
        said = error.unquoted if isinstance(error, InvalidAnswerError | UnknownTenantError) and for_log else str(error)
        return said.encode(errors="replace").decode().replace("\x00", "?")  # what PostgreSQL's text can hold
    place = ""
    trace = error.__traceback__
    while trace is not None:
        place = f" at {trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"Unexpected {type(error).__name__}{place}"
