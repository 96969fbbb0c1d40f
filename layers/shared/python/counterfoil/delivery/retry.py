"""Retry policies, which decide what happens after a failed attempt.

They have no side effects.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from counterfoil.errors import PermanentError, ServiceUnavailableError, TransientError
from counterfoil.settings import Settings

MAX_RECEIVES = 3
"""maxReceiveCount of every queue. At the next receive, SQS moves the message to the dead-letter queue."""

MAX_RETRY_AFTER = timedelta(hours=1)
"""Maximum delay that a service can request. Circuit breakers have the same limit."""


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
    """Retry later with a new message. `RequeuePolicy` retries only this way."""

    at: datetime


@dataclass(frozen=True)
class GiveUp:
    """No retry: the work item has failed permanently."""

    dlq_reason: str
    to_dead_letter_queue: bool
    """Whether the message goes to the dead-letter queue. True only when attempts are exhausted."""


Decision = Redeliver | Park | Requeue | GiveUp

MAX_MESSAGES_PER_REVISION = 1000
"""Maximum number of new messages per revision of a work item, to detect endless deferral. Retries and returns from the
dead-letter queue have their own limits. Most other new messages come from deferring attempts, and from parking work
items that are not due or cannot start in time. If an unavailable service defers every attempt by 10 minutes, a work
item reaches the limit after a week."""


@dataclass(frozen=True)
class RedeliverPolicy:
    """Retries by redelivery of the same message, by default after 5 and 30 minutes.

    A longer Retry-After delay replaces these delays. If the message has no receives left, a new message is used. After
    `max_attempts` attempts, the work item fails.
    """

    delays: tuple[float, ...] = (300, 1800)
    """Delays in seconds after the first, second, ... failed attempt. The last one repeats."""
    max_attempts: int = 3
    jitter: float = 1
    """Maximum seconds of jitter if a service requested the delay. Other delays have no jitter."""
    unknown_is_transient: bool = True
    """Whether errors that are neither transient nor permanent are retried, up to `max_attempts`."""

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
        """Return the decision for an attempt that failed with `error`.

        `attempts` is the number of attempts so far, and `receives` is the message's number of receives. `max_attempts`
        overrides the policy's limit. `spread`, in [0, 1), scales the jitter.
        """
        if not self.is_transient(error):
            return GiveUp("non_retriable_error", to_dead_letter_queue=False)
        if attempts >= (self.max_attempts if max_attempts is None else max_attempts):
            return GiveUp("max_retries_exceeded", to_dead_letter_queue=True)
        at = now + max(self.wait(attempts), _requested_delay(error, spread * self.jitter))
        return Park(at) if receives >= MAX_RECEIVES else Redeliver(at)


@dataclass(frozen=True)
class RequeuePolicy:
    """Retries with a new message for each retry.

    The n-th retry waits min(base * factor^n + U * jitter, cap) seconds, with U in [0, 1). If `attempt_delays` is set,
    it waits the n-th of these delays, without jitter. A longer Retry-After delay replaces either delay.
    """

    base: float = 1
    factor: float = 2
    jitter: float = 1
    cap: float = 300
    max_attempts: int = 6
    """Maximum number of attempts for work items that do not set their own limit."""
    unknown_is_transient: bool = False
    """Whether errors that are neither transient nor permanent are retried."""
    delays: tuple[float, ...] = (300, 1800)
    """Delays in seconds after the first, second, ... receive of a message whose attempt could not be settled."""
    attempt_delays: tuple[float, ...] = ()
    """Delays in seconds after the first, second, ... failed attempt. The last one repeats. Exponential if empty."""

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
        """Return the decision for a failed attempt.

        The parameters are those of `RedeliverPolicy.decide`.
        """
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
    """Return the error's Retry-After delay plus `jitter` seconds.

    Returns zero if the error has no Retry-After. The delay is at most MAX_RETRY_AFTER, before jitter. The service may
    return the same time to all clients. Without jitter, all retries would start together.
    """
    seconds = error.retry_after if isinstance(error, ServiceUnavailableError) else None
    return min(MAX_RETRY_AFTER, timedelta(seconds=seconds)) + timedelta(seconds=jitter) if seconds else timedelta()


def redeliver_policy(settings: Settings) -> RedeliverPolicy:
    """Return the policy for workers whose messages are redelivered."""
    return RedeliverPolicy(
        settings.redelivery_delays_seconds, settings.redelivery_max_attempts, settings.retry_jitter_max_seconds
    )


def requeue_policy(settings: Settings, worker: str) -> RequeuePolicy:
    """Return the policy for a worker with a retry queue.

    A worker in RETRY_DELAYS has one retry per delay. A task can set its own limit.
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
