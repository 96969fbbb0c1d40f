"""Matching: structured data in, edges and clusters out."""

import gc
from functools import cache, partial
from typing import Any

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Database
from counterfoil.delivery.attempt import BatchWorker
from counterfoil.delivery.consumer import Consumer
from counterfoil.llm import Llm, client
from counterfoil.settings import settings
from functions.matching.work import Embedding, match, match_together


@cache
def consumer() -> Consumer:
    """The consumer of this function's queue, made at the first invocation."""
    judging = settings().llm_provider is not None
    name = client.name_of(settings())
    alone = partial(
        match,
        language_model=language_model if judging else None,
        embedding=None if name is None else Embedding(name, embedding_model),
    )
    # What documents are about is asked for one by one, so that there is nothing left to be done together.
    worker = BatchWorker(alone, partial(match_together, judging=judging)) if name is None else alone
    collect_rarely()
    return Consumer.from_settings(settings(), worker)


def collect_rarely() -> None:
    """Have Python look for circles of objects rarely, and never among what is there by now.

    Matching makes few of them, and keeps thousands of documents of many small objects: walking those again and again
    was a tenth of its processor time.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)


def language_model(database: Database) -> Llm:
    """What judges doubtful pairs; made anew for each try that meets one, with the key as it is then."""
    found = Llm.from_settings(settings(), database, breakers(database))
    assert found is not None  # LLM_PROVIDER is set
    return found


def embedding_model(database: Database) -> Llm:
    """What makes vectors of what documents are about; made anew for each that has none, with the key as it is then."""
    return client.embedding_model(settings(), database, breakers(database))


@cache
def breakers(database: Database) -> Breakers:
    """The circuit breakers, which remember for a moment what they read."""
    return Breakers.from_settings(settings(), database)


def handle(event: dict[str, Any], context: Any) -> Any:
    """Process one batch of messages."""
    return consumer().handle(event, context)
