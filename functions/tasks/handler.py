"""Tasks: messages of tasks in, results out."""

from functools import cache
from typing import Any

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Database
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.consumer import Consumer
from counterfoil.llm import Llm
from counterfoil.settings import settings
from counterfoil.tasks.store import read_task_message
from counterfoil.tasks.types import http_request
from functions.tasks.work import Means, carry_out


@cache
def consumer() -> Consumer:
    """The consumer of this function's queues, made at the first invocation."""
    return Consumer.from_settings(settings(), _carry_out, read=read_task_message)


def _carry_out(attempt: TenantAttempt) -> Outcome:
    return carry_out(attempt, means(attempt.database))


@cache
def means(database: Database) -> Means:
    """What tasks may use here: what the settings name."""
    chosen = settings()

    def language_model() -> Llm:
        found = Llm.from_settings(chosen, database, breakers(database))
        assert found is not None  # LLM_PROVIDER is set
        return found

    return Means(
        language_model if chosen.llm_provider is not None else None,
        http_request.way_out(chosen) if chosen.webhooks else None,
        chosen.uploads_bucket,
        chosen,
    )


@cache
def breakers(database: Database) -> Breakers:
    """The circuit breakers, which remember for a moment what they read."""
    return Breakers.from_settings(settings(), database)


def handle(event: dict[str, Any], context: Any) -> Any:
    """Process one batch of messages."""
    return consumer().handle(event, context)
