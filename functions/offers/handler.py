"""Handler of the worker `offers`, which computes daily offers for user shards."""

from functools import cache, partial
from typing import Any

from counterfoil.delivery.consumer import Consumer
from counterfoil.settings import settings
from functions.offers.work import PoolCache, compute_shard


@cache
def consumer() -> Consumer:
    """Return the consumer of this function's queues, created at the first invocation."""
    return Consumer.from_settings(settings(), partial(compute_shard, pools=PoolCache()))


def handle(event: dict[str, Any], context: Any) -> Any:
    """Process one batch of messages."""
    return consumer().handle(event, context)
