"""Handler of the worker `tasks`, which runs submitted tasks."""

from functools import cache
from typing import Any

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Database
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.delivery.consumer import Consumer
from counterfoil.llm import Llm
from counterfoil.settings import settings
from counterfoil.tasks.http_request import build_egress
from counterfoil.tasks.store import read_task_message
from counterfoil.tasks.task_type import Services
from functions.tasks.work import run_task


@cache
def consumer() -> Consumer:
    """Return the consumer of this function's queues, created at the first invocation."""
    return Consumer.from_settings(settings(), _run, read=read_task_message)


def _run(attempt: TenantAttempt) -> Outcome:
    return run_task(attempt, services(attempt.database))


@cache
def services(database: Database) -> Services:
    """Return the configured services."""
    config = settings()

    def language_model() -> Llm:
        llm = Llm.from_settings(config, database, breakers(database))
        assert llm is not None  # LLM_PROVIDER is set
        return llm

    return Services(
        language_model if config.llm_provider is not None else None,
        build_egress(config) if config.webhooks_enabled else None,
        config.uploads_bucket,
        config,
    )


@cache
def breakers(database: Database) -> Breakers:
    """Return the circuit breakers, which cache their state briefly."""
    return Breakers.from_settings(settings(), database)


def handle(event: dict[str, Any], context: Any) -> Any:
    """Process one batch of messages."""
    return consumer().handle(event, context)
