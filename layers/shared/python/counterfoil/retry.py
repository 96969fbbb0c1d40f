"""Retry policies as pure values: what a failure means for the work, given how often it was tried. No clock, no I/O."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from counterfoil.errors import PermanentError, ServiceUnavailableError, TransientError

MAX_RECEIVES = 3
"""SQS moves a message to its dead-letter queue at the receive after this one (maxReceiveCount of every queue)."""

LONGEST_RETRY_AFTER = timedelta(hours=1)
"""A service that asks for a longer pause is asked again after this one, as by circuit breakers."""


@dataclass(frozen=True)
class Redeliver:
    """Try again later by the same message."""

    at: datetime


@dataclass(frozen=True)
class Park:
    """Try again later by a new message: this one has no receive left."""

    at: datetime


@dataclass(frozen=True)
class GiveUp:
    """No further try: the work has failed."""

    dlq_reason: str
    to_dead_letter_queue: bool
    """Whether the message follows its work: only work that ran out of tries leaves its message to the DLQ."""


Decision = Redeliver | Park | GiveUp


@dataclass(frozen=True)
class RedeliverPolicy:
    """The same message again, after a wait for each failed attempt: 5 min, 30 min, then dead (the default numbers)."""

    delays: tuple[float, ...] = (300, 1800)
    """Seconds to wait after the first, second, ... failed attempt; the last one repeats."""
    max_attempts: int = 3
    unknown_is_transient: bool = True
    """What an error outside the tree means: worth another try for documents, bounded by max_attempts."""

    def wait(self, attempts: int) -> timedelta:
        """How long to wait after `attempts` (>= 1) failed attempts."""
        return timedelta(seconds=self.delays[min(attempts, len(self.delays)) - 1])

    def is_transient(self, error: BaseException) -> bool:
        """Whether a later try can cure this error."""
        if isinstance(error, TransientError):
            return True
        return not isinstance(error, PermanentError) and self.unknown_is_transient

    def decide(self, error: BaseException, attempts: int, receives: int, now: datetime) -> Decision:
        """What becomes of work whose attempt `attempts` ended in `error`, at receive `receives` of its message."""
        if not self.is_transient(error):
            return GiveUp("non_retriable_error", to_dead_letter_queue=False)
        if attempts >= self.max_attempts:
            return GiveUp("max_retries_exceeded", to_dead_letter_queue=True)
        at = now + max(self.wait(attempts), _asked_for(error))
        return Park(at) if receives >= MAX_RECEIVES else Redeliver(at)


def _asked_for(error: BaseException) -> timedelta:
    """How long the service that failed asked to be left alone."""
    seconds = error.retry_after if isinstance(error, ServiceUnavailableError) else None
    return min(LONGEST_RETRY_AFTER, timedelta(seconds=seconds or 0.0))
