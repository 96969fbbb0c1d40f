"""Handler of the worker `acquisition`, which turns S3 events into documents.

Each file also becomes a source.
"""

from functools import cache
from typing import Any

from counterfoil.delivery.consumer import Consumer
from counterfoil.documents import files
from counterfoil.settings import settings
from functions.acquisition.work import WORKER


@cache
def consumer() -> Consumer:
    """Return the consumer of this function's queue, created at the first invocation."""
    return Consumer.from_settings(settings(), WORKER, read=files.read_event)


def handle(event: dict[str, Any], context: Any) -> Any:
    """Process one batch of messages."""
    return consumer().handle(event, context)
