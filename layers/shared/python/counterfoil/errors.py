"""Counterfoil's error tree. An error's class determines whether a retry can help.

CounterfoilError
 ├── TransientError                  a retry can succeed
 │    ├── DatabaseUnavailableError   no connection, a failover, too many connections
 │    ├── ConflictError              deadlock, serialization failure, lock timeout; retried in process first
 │    ├── ServiceUnavailableError    a call to a service was throttled, timed out or returned 5xx
 │    ├── InvalidLlmResponseError    a language model's answer is empty, not valid JSON, or fails its schema
 │    ├── ParserError                the process that reads files did not start, was killed, or failed unexpectedly
 │    ├── UnsupportedSchemaError     a message has a newer version than this code, during a deployment
 │    └── CancelledError             the attempt was stopped at its invocation's deadline
 ├── PermanentError                  a retry cannot succeed
 │    ├── InvalidMessageError        an unreadable queue message
 │    ├── InvalidDocumentError       an unreadable file: empty, damaged, encrypted, unsafe, incomplete
 │    ├── InvalidSettingsError       a setting is missing or invalid
 │    ├── UnknownTenantError         work for a tenant that does not exist
 │    ├── TooManyDeferralsError      a work item was deferred too often
 │    ├── DataIntegrityError         stored data contradicts itself
 │    ├── RejectedRequestError       a service rejected a call (4xx)
 │    │    ├── VersionConflictError  a change expects an outdated version
 │    │    └── ContextWindowError    a prompt or an answer exceeds the model's limits
 │    └── RejectedStatementError     PostgreSQL rejected a statement: a constraint, a type, a missing privilege
 ├── DeferredError                   not a failure: the attempt ends without being counted
 │    └── BreakerOpenError           the circuit breaker of a required service is open
 └── StaleClaimError                 a newer claim exists: this attempt must not write

Each adapter maps one library's errors to this tree: `db` for psycopg, `aws` for botocore, `http` for httpx and
`validation` for pydantic. Other errors are *unknown*, and the retry policy decides whether to retry them.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from traceback import walk_tb
from typing import Any


class CounterfoilError(Exception):
    """Base class of all errors that Counterfoil raises."""

    code: str | None = None
    """Stable name of the failure. A worker's dead letters with the same code form one group, regardless of the message.

    None for errors with many causes, such as rejected calls. Their dead letters are grouped by message, ignoring
    numbers and quoted names.
    """

    def __init__(self, *args: object, code: str | None = None) -> None:
        super().__init__(*args)
        if code is not None:
            self.code = code


class TransientError(CounterfoilError):
    """A failure after which a retry may succeed."""


class DatabaseUnavailableError(TransientError):
    """PostgreSQL cannot be reached or does not accept writes."""


class ConflictError(TransientError):
    """PostgreSQL aborted the transaction because of a conflict; retry it."""


class ServiceUnavailableError(TransientError):
    """A service throttled the call, timed out, or failed."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """Delay in seconds that the service requested before the next call, or None."""


class InvalidLlmResponseError(TransientError):
    """A language model's answer is empty or invalid.

    It is invalid if it is not JSON or does not match its schema. The message contains a preview of the answer, which
    can quote a document. Only the tenant sees this message. Logs contain `unquoted` instead.
    """

    def __init__(self, message: str, *, preview: str | None = None) -> None:
        super().__init__(message if preview is None else f"{message}: '{preview}'")
        self.unquoted = message
        """The message without the preview."""


class ParserError(TransientError):
    """The process that reads files did not start or did not finish.

    If it did not finish, it was killed from outside or failed unexpectedly.
    """


class UnsupportedSchemaError(TransientError):
    """A message has a newer schema version than this code."""

    code = "newer_schema"


class CancelledError(TransientError):
    """The attempt was stopped because its invocation is about to end."""

    code = "canceled"


class PermanentError(CounterfoilError):
    """A failure after which a retry would fail as well."""


class InvalidMessageError(PermanentError):
    """A queue message is unreadable.

    The error message gives the reason and does not quote the body.
    """

    code = "invalid_message"


class InvalidDocumentError(PermanentError):
    """A file is unreadable.

    The message gives the reason and the remedy, and does not quote the content.
    """

    code: str

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message, code=code)


class InvalidSettingsError(PermanentError):
    """A setting is missing or invalid. The message names the variable."""


class UnknownTenantError(PermanentError):
    """A key or an address names a tenant that does not exist.

    The message can quote an email's addresses, so that an operator can add one of them to a tenant. Logs contain
    `unquoted` instead.
    """

    def __init__(self, message: str, *, code: str, addresses: Sequence[str] = ()) -> None:
        quoted = ", ".join(f"'{address}'" for address in addresses)
        super().__init__(f"{message}: {quoted}" if quoted else message, code=code)
        self.unquoted = message
        """The message without the addresses."""


class TooManyDeferralsError(PermanentError):
    """A work item was deferred too often."""


class DataIntegrityError(PermanentError):
    """Stored data contradicts itself or is unusable. An operator must correct it."""


class RejectedRequestError(PermanentError):
    """A service rejected the call. A retry would fail as well."""


class VersionConflictError(RejectedRequestError):
    """A change expects an outdated version."""


class ContextWindowError(RejectedRequestError):
    """A prompt exceeds the model's context window, or the answer was truncated."""


class RejectedStatementError(PermanentError):
    """PostgreSQL rejected a statement. A retry would fail as well."""


class DeferredError(CounterfoilError):
    """The work item cannot continue yet.

    The attempt is not counted, and the work item is parked.
    """

    def __init__(self, message: str, *, until: datetime, is_over: Callable[[Any], bool] | None = None) -> None:
        super().__init__(message)
        self.until = until
        """Time of the next attempt."""
        self.is_over = is_over
        """Called with the connection in the transaction that parks the work item. Returns True if the reason for
        deferral no longer exists, so the next attempt can start immediately. A transaction that removes the reason must
        lock the work item first."""


class BreakerOpenError(DeferredError):
    """The circuit breaker of a required service is open."""


class StaleClaimError(CounterfoilError):
    """A newer claim on the work item exists. This attempt must not write."""


def code_of(error: BaseException) -> str | None:
    """Return an error's code, or None if it has none or comes from another library."""
    return error.code if isinstance(error, CounterfoilError) else None


_OWN_PACKAGES = ("counterfoil.", "functions.")
_MAX_FRAMES = 40
"""Maximum number of lines in a stored traceback. Earlier lines are dropped."""


def own_frames(error: BaseException) -> str | None:
    """Return Counterfoil's own frames from an error's tracebacks, or None.

    The tracebacks of its causes are included. Each frame is one line with module, line number and function. Messages
    and local variables are omitted, because they can quote documents.
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
    return "\n".join(lines[-_MAX_FRAMES:]) or None


def _frames(error: BaseException) -> list[str]:
    frames = []
    for frame, line in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_OWN_PACKAGES):
            frames.append(f"{module}:{line} in {frame.f_code.co_name}")
    return frames


def safe_message(error: BaseException, *, for_log: bool = False) -> str:
    """Return a Counterfoil error's message, or another error's type and location.

    Messages from other errors are omitted, because they can quote documents. With `for_log`, mail addresses and model
    answers are also omitted.
    """
    if isinstance(error, CounterfoilError):
        message = (
            error.unquoted
            if isinstance(error, InvalidLlmResponseError | UnknownTenantError) and for_log
            else str(error)
        )
        # PostgreSQL cannot store NUL or lone surrogates.
        return message.encode(errors="replace").decode().replace("\x00", "?")
    location = ""
    traceback = error.__traceback__
    while traceback is not None:
        location = f" at {traceback.tb_frame.f_globals.get('__name__', '?')}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return f"Unexpected {type(error).__name__}{location}"
