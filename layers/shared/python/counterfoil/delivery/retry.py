"""Retry policies as pure values: what a failure means for the work, given how often it was tried. No clock, no I/O."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from counterfoil.errors import PermanentError, ServiceUnavailableError, TransientError
from counterfoil.settings import Settings

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
class Requeue:
    """Try again later by a new message, as is this policy's way."""

    at: datetime


@dataclass(frozen=True)
class GiveUp:
    """No further try: the work has failed."""

    dlq_reason: str
    to_dead_letter_queue: bool
    """Whether the message follows its work: only work that ran out of tries leaves its message to the DLQ."""


Decision = Redeliver | Park | Requeue | GiveUp

MAX_SENDS = 1000
"""New messages for one revision of a work: whoever puts it off more often goes in circles. Beyond attempts and returns,
which have bounds of their own, more are sent by tries that give their attempt back, and for work that is parked unbegun
since no time is left or its time has not come. What waits for a service that is away, 10 minutes each, does it for a
week."""


@dataclass(frozen=True)
class RedeliverPolicy:
    """The same message again, after a wait for each failed attempt: 5 min, 30 min, then dead (the default numbers)."""

    delays: tuple[float, ...] = (300, 1800)
    """Seconds to wait after the first, second, ... failed attempt; the last one repeats."""
    max_attempts: int = 3
    jitter: float = 1
    """Seconds over which those come back whom a service told the same time. Waits of its own are the same for all."""
    unknown_is_transient: bool = True
    """What an error outside the tree means: worth another try for documents, bounded by max_attempts."""

    def wait(self, attempts: int) -> timedelta:
        """How long to wait after `attempts` (>= 1) failed attempts."""
        return timedelta(seconds=self.delays[min(attempts, len(self.delays)) - 1])

    def is_transient(self, error: BaseException) -> bool:
        """Whether a later try can cure this error."""
        return _is_transient(error, unknown_is_transient=self.unknown_is_transient)

    def decide(
        self,
        error: BaseException,
        attempts: int,
        receives: int,
        now: datetime,
        *,
        max_attempts: int | None = None,
        chance: float = 0.0,
    ) -> Decision:
        """What becomes of work whose attempt `attempts` ended in `error`, at receive `receives` of its message.

        `max_attempts` is the work's own bound, where it has one; `chance`, from [0, 1), spreads what failed together.
        """
        if not self.is_transient(error):
            return GiveUp("non_retriable_error", to_dead_letter_queue=False)
        if attempts >= (self.max_attempts if max_attempts is None else max_attempts):
            return GiveUp("max_retries_exceeded", to_dead_letter_queue=True)
        at = now + max(self.wait(attempts), _asked_for(error, chance * self.jitter))
        return Park(at) if receives >= MAX_RECEIVES else Redeliver(at)


@dataclass(frozen=True)
class RequeuePolicy:
    """A new message for each retry: the n-th waits min(base * factor^n + U * jitter, cap) seconds, U from [0, 1).

    Where `waits` are given, the n-th waits the n-th of them instead, and so long all the same whoever failed with it.
    """

    base: float = 1
    factor: float = 2
    jitter: float = 1
    cap: float = 300
    max_attempts: int = 6
    """Of work that has no bound of its own."""
    unknown_is_transient: bool = False
    """What an error outside the tree means: nothing that another try would cure."""
    delays: tuple[float, ...] = (300, 1800)
    """Seconds for which the same message waits after its first, second, ... receive where nothing could be settled."""
    waits: tuple[float, ...] = ()
    """Seconds to wait after the first, second, ... failed attempt; the last one repeats. Empty: ever longer ones."""

    def wait(self, attempts: int, chance: float = 0.0) -> timedelta:
        """How long to wait after `attempts` (>= 1) failed attempts; `chance` is U."""
        if self.waits:
            return timedelta(seconds=self.waits[min(attempts, len(self.waits)) - 1])
        return timedelta(seconds=min(self.base * self.factor**attempts + chance * self.jitter, self.cap))

    def is_transient(self, error: BaseException) -> bool:
        """Whether a later try can cure this error."""
        return _is_transient(error, unknown_is_transient=self.unknown_is_transient)

    def decide(
        self,
        error: BaseException,
        attempts: int,
        receives: int,  # noqa: ARG002  # its messages are each received for one try
        now: datetime,
        *,
        max_attempts: int | None = None,
        chance: float = 0.0,
    ) -> Decision:
        """As RedeliverPolicy."""
        if not self.is_transient(error):
            return GiveUp("non_retriable_error", to_dead_letter_queue=False)
        if attempts >= (self.max_attempts if max_attempts is None else max_attempts):
            return GiveUp("max_retries_exceeded", to_dead_letter_queue=False)
        return Requeue(now + max(self.wait(attempts, chance), _asked_for(error, chance * self.jitter)))


RetryPolicy = RedeliverPolicy | RequeuePolicy


def _is_transient(error: BaseException, *, unknown_is_transient: bool) -> bool:
    if isinstance(error, TransientError | TimeoutError | ConnectionError):
        return True
    return not isinstance(error, PermanentError) and unknown_is_transient


def _asked_for(error: BaseException, jitter: float) -> timedelta:
    """How long the service that failed asked to be left alone, and `jitter` seconds more; nothing where it did not.

    It tells everybody the same time. Whoever came back just then would come with all others.
    """
    seconds = error.retry_after if isinstance(error, ServiceUnavailableError) else None
    return min(LONGEST_RETRY_AFTER, timedelta(seconds=seconds)) + timedelta(seconds=jitter) if seconds else timedelta()


def redeliver(settings: Settings) -> RedeliverPolicy:
    """The same message again."""
    return RedeliverPolicy(
        settings.retry_redeliver_delays_seconds, settings.redelivery_max_attempts, settings.retry_jitter_max_seconds
    )


def requeue(settings: Settings, worker: str) -> RequeuePolicy:
    """A new message on the queue for retries of `worker`.

    A task may set its own limit. A worker's row that names each wait has one retry after each.
    """
    waits = settings.retry_waits.get(worker)
    if waits is not None:
        return RequeuePolicy(
            jitter=settings.retry_jitter_max_seconds,
            max_attempts=len(waits) + 1,
            delays=settings.retry_redeliver_delays_seconds,
            waits=waits,
        )
    return RequeuePolicy(
        base=settings.retry_base_delay_seconds,
        factor=settings.retry_exponential_base,
        jitter=settings.retry_jitter_max_seconds,
        cap=settings.retry_max_delay_seconds,
        max_attempts=settings.retry_max_attempts + 1,
        delays=settings.retry_redeliver_delays_seconds,
    )
