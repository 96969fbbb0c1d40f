"""Retry policies with the numbers that the settings give them."""

from counterfoil.retry import RedeliverPolicy, RequeuePolicy
from counterfoil.settings import Settings


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
