"""Retry policies: decide what happens after a failed attempt. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from counterfoil.errors import PermanentError, ServiceUnavailableError, TransientError
from counterfoil.settings import Settings

MAX_RECEIVES = 3
"""maxReceiveCount of every queue. SQS moves a message to the dead-letter queue at the next receive."""

MAX_RETRY_AFTER = timedelta(hours=1)
"""Maximum delay that a service can request, as for circuit breakers."""


@dataclass(frozen=True)
class Redeliver:
    """Retry later with the same message."""

    at: datetime


@dataclass(frozen=True)
class Park:
    """Retry later with a new message, because this one has no receives left."""

    at: datetime


@dataclass(frozen=True)
class Requeue:
    """Retry later with a new message, as always with `RequeuePolicy`."""

    at: datetime


@dataclass(frozen=True)
class GiveUp:
    """No retry: the work item has failed permanently."""

    dlq_reason: str
    to_dead_letter_queue: bool
    """Whether the message goes to the dead-letter queue. True only when attempts are exhausted."""


Decision = Redeliver | Park | Requeue | GiveUp

MAX_MESSAGES_PER_REVISION = 1000
"""Maximum number of new messages for one revision of a work item, so that endless deferral is detected. Attempts and
returns have separate limits. The remaining messages come from deferrals, and from parking a work item because it is
early or no time is left. Deferrals of 10 minutes for an unavailable service reach the limit after a week."""


@dataclass(frozen=True)
class RedeliverPolicy:
    """SQS redelivers the message after a delay: by default 5 min, 30 min, then the work item fails."""

    delays: tuple[float, ...] = (300, 1800)
    """Delays in seconds after the first, second, ... failed attempt. The last one repeats."""
    max_attempts: int = 3
    jitter: float = 1
    """Seconds over which retries are spread if a service chose the delay. Other delays have no jitter."""
    unknown_is_transient: bool = True
    """Whether errors outside the error tree are retried, up to `max_attempts`."""

    def wait(self, attempts: int) -> timedelta:
        """Return the delay after `attempts` (>= 1) failed attempts."""
        return timedelta(seconds=self.delays[min(attempts, len(self.delays)) - 1])

    def is_transient(self, error: BaseException) -> bool:
        """Return True if a retry can succeed."""
        return _is_transient(error, unknown_is_transient=self.unknown_is_transient)

    def decide(
        self,
        error: BaseException,
        attempts: int,
        receives: int,
        now: datetime,
        *,
        max_attempts: int | None = None,
        spread: float = 0.0,
    ) -> Decision:
        """Decide after attempt `attempts` failed with `error`, at receive `receives` of its message.

        `max_attempts` is the limit of the work item, if it has one. `spread` from [0, 1) spreads retries.
        """
        if not self.is_transient(error):
            return GiveUp("non_retriable_error", to_dead_letter_queue=False)
        if attempts >= (self.max_attempts if max_attempts is None else max_attempts):
            return GiveUp("max_retries_exceeded", to_dead_letter_queue=True)
        at = now + max(self.wait(attempts), _requested_delay(error, spread * self.jitter))
        return Park(at) if receives >= MAX_RECEIVES else Redeliver(at)


@dataclass(frozen=True)
class RequeuePolicy:
    """Each retry uses a new message.

    The n-th retry waits min(base * factor^n + U * jitter, cap) seconds, with U from [0, 1). With
    `attempt_delays`, it waits the n-th of them, without jitter.
    """

    base: float = 1
    factor: float = 2
    jitter: float = 1
    cap: float = 300
    max_attempts: int = 6
    """Limit for work items that do not set their own."""
    unknown_is_transient: bool = False
    """Whether errors outside the error tree are retried."""
    delays: tuple[float, ...] = (300, 1800)
    """Delays in seconds after the first, second, ... receive of a message whose attempt could not be settled."""
    attempt_delays: tuple[float, ...] = ()
    """Delays in seconds after the first, second, ... failed attempt. The last one repeats. Empty: exponential."""

    def wait(self, attempts: int, spread: float = 0.0) -> timedelta:
        """Return the delay after `attempts` (>= 1) failed attempts. `spread` is U."""
        if self.attempt_delays:
            return timedelta(seconds=self.attempt_delays[min(attempts, len(self.attempt_delays)) - 1])
        return timedelta(seconds=min(self.base * self.factor**attempts + spread * self.jitter, self.cap))

    def is_transient(self, error: BaseException) -> bool:
        """Return True if a retry can succeed."""
        return _is_transient(error, unknown_is_transient=self.unknown_is_transient)

    def decide(
        self,
        error: BaseException,
        attempts: int,
        receives: int,  # noqa: ARG002  # each message is for one attempt
        now: datetime,
        *,
        max_attempts: int | None = None,
        spread: float = 0.0,
    ) -> Decision:
        """Decide as `RedeliverPolicy.decide`."""
        if not self.is_transient(error):
            return GiveUp("non_retriable_error", to_dead_letter_queue=False)
        if attempts >= (self.max_attempts if max_attempts is None else max_attempts):
            return GiveUp("max_retries_exceeded", to_dead_letter_queue=False)
        return Requeue(now + max(self.wait(attempts, spread), _requested_delay(error, spread * self.jitter)))


RetryPolicy = RedeliverPolicy | RequeuePolicy


def _is_transient(error: BaseException, *, unknown_is_transient: bool) -> bool:
    if isinstance(error, TransientError | TimeoutError | ConnectionError):
        return True
    return not isinstance(error, PermanentError) and unknown_is_transient


def _requested_delay(error: BaseException, jitter: float) -> timedelta:
    """Return the delay from Retry-After plus `jitter` seconds, or zero without one.

    The service returns the same time to all clients. Without jitter, all retries would start together.
    """
    seconds = error.retry_after if isinstance(error, ServiceUnavailableError) else None
    return min(MAX_RETRY_AFTER, timedelta(seconds=seconds)) + timedelta(seconds=jitter) if seconds else timedelta()


def redeliver_policy(settings: Settings) -> RedeliverPolicy:
    """Return the policy of workers whose messages are redelivered."""
    return RedeliverPolicy(
        settings.redelivery_delays_seconds, settings.redelivery_max_attempts, settings.retry_jitter_max_seconds
    )


def requeue_policy(settings: Settings, worker: str) -> RequeuePolicy:
    """Return the policy of a worker with a retry queue.

    A task can set its own limit. A worker in RETRY_DELAYS has one retry per delay.
    """
    attempt_delays = settings.retry_delays.get(worker)
    if attempt_delays is not None:
        return RequeuePolicy(
            jitter=settings.retry_jitter_max_seconds,
            max_attempts=len(attempt_delays) + 1,
            delays=settings.redelivery_delays_seconds,
            attempt_delays=attempt_delays,
        )
    return RequeuePolicy(
        base=settings.retry_base_delay_seconds,
        factor=settings.retry_exponential_base,
        jitter=settings.retry_jitter_max_seconds,
        cap=settings.retry_max_delay_seconds,
        max_attempts=settings.retry_max_attempts + 1,
        delays=settings.redelivery_delays_seconds,
    )
