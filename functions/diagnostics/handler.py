"""Handler of the worker `diagnostics`, which compares the documents of clusters."""

from functools import cache
from typing import Any

from counterfoil.delivery.consumer import Consumer
from counterfoil.settings import settings
from functions.diagnostics.work import diagnose


@cache
def consumer() -> Consumer:
    """Return the consumer of this function's queue, created at the first invocation."""
    return Consumer.from_settings(settings(), diagnose)


def handle(event: dict[str, Any], context: Any) -> Any:
    """Process one batch of messages."""
    return consumer().handle(event, context)
