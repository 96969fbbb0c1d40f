"""Handler of the worker `document_output`, which delivers results."""

from functools import cache
from typing import Any

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Database
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.consumer import Consumer
from counterfoil.egress import Egress
from counterfoil.settings import settings
from functions.document_output.work import OutputDependencies, deliver


@cache
def consumer() -> Consumer:
    """Return the consumer of this function's queue, created at the first invocation."""
    return Consumer.from_settings(settings(), _deliver)


def _deliver(attempt: TenantAttempt) -> Outcome:
    return deliver(attempt, dependencies(attempt.database))


@cache
def dependencies(database: Database) -> OutputDependencies:
    """Return this function's clients and circuit breakers.

    Breakers cache their state briefly.
    """
    config = settings()
    egress = Egress(config.webhook_allowlist) if config.webhooks_enabled else None
    return OutputDependencies(Breakers.from_settings(config, database), egress, config.uploads_bucket)


def handle(event: dict[str, Any], context: Any) -> Any:
    """Process one batch of messages."""
    return consumer().handle(event, context)
