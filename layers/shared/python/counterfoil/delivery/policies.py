"""Retry policies with the numbers that the settings give them."""

from counterfoil.retry import RedeliverPolicy, RequeuePolicy
from counterfoil.settings import Settings


def redeliver(settings: Settings) -> RedeliverPolicy:
    """The same message again."""
    return RedeliverPolicy(
        settings.retry_redeliver_delays_seconds, settings.retry_max_attempts, settings.retry_jitter_max_seconds
    )


def requeue(settings: Settings) -> RequeuePolicy:
    """A new message on a queue for retries; how many there may be, the work itself says."""
    return RequeuePolicy(
        base=settings.retry_base_delay_seconds,
        factor=settings.retry_exponential_base,
        jitter=settings.retry_jitter_max_seconds,
        cap=settings.retry_max_delay_seconds,
        delays=settings.retry_redeliver_delays_seconds,
    )
