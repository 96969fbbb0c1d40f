"""Ingestion: documents in, structured data out."""

from functools import cache
from typing import Any

from counterfoil.delivery import Consumer
from counterfoil.settings import settings
from functions.ingestion.work import ingest


@cache
def consumer() -> Consumer:
    """The consumer of this function's queue, made at the first invocation."""
    return Consumer.from_settings(settings(), ingest)


def handle(event: dict[str, Any], context: Any) -> Any:
    """Process one batch of messages."""
    return consumer().handle(event, context)
