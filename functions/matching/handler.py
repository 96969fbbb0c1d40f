"""Handler of the worker `matching`, which matches and clusters documents."""

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
    """Return the consumer of this function's queue, created at the first invocation."""
    judging = settings().llm_provider is not None
    name = client.embedding_model_name(settings())
    match_one = partial(
        match,
        language_model=language_model if judging else None,
        embedding=None if name is None else Embedding(name, embedding_model),
    )
    # With embeddings, each document requires its own call, so batches have no advantage.
    worker = BatchWorker(match_one, partial(match_together, judging=judging)) if name is None else match_one
    raise_gc_threshold()
    return Consumer.from_settings(settings(), worker)


def raise_gc_threshold() -> None:
    """Run Python's cyclic garbage collection rarely, and exclude existing objects.

    Matching creates few cycles, but caches thousands of documents with many small objects. Traversing these repeatedly
    took a tenth of the CPU time.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)


def language_model(database: Database) -> Llm:
    """Return the language model of the LLM judge.

    It is created per attempt with the current API key.
    """
    llm = Llm.from_settings(settings(), database, breakers(database))
    assert llm is not None  # LLM_PROVIDER is set
    return llm


def embedding_model(database: Database) -> Llm:
    """Return the embedding model, created per document with the current API key."""
    return client.embedding_model(settings(), database, breakers(database))


@cache
def breakers(database: Database) -> Breakers:
    """Return the circuit breakers, which cache their state briefly."""
    return Breakers.from_settings(settings(), database)


def handle(event: dict[str, Any], context: Any) -> Any:
    """Process one batch of messages."""
    return consumer().handle(event, context)
