"""Matching: structured data in, edges and clusters out."""

from functools import cache
from typing import Any

from counterfoil.delivery import Consumer
from counterfoil.settings import settings
from functions.matching.work import match


@cache
def consumer() -> Consumer:
    """The consumer of this function's queue, made at the first invocation."""
    return Consumer.from_settings(settings(), match)


def handle(event: dict[str, Any], context: Any) -> Any:
    """Process one batch of messages."""
    return consumer().handle(event, context)
