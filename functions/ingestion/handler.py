"""Handler of the worker `ingestion`, which extracts data from documents."""

from functools import cache, partial
from typing import Any

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Database
from counterfoil.delivery.consumer import Consumer
from counterfoil.documents.reading.ocr import Ocr, Textract
from counterfoil.llm import Llm
from counterfoil.settings import settings
from functions.ingestion.work import ingest


@cache
def consumer() -> Consumer:
    """Return the consumer of this function's queue, created at the first invocation."""
    config = settings()
    return Consumer.from_settings(
        config,
        partial(
            ingest,
            language_model=None if config.llm_provider is None else language_model,
            ocr=None if config.ocr_provider is None else ocr,
        ),
    )


def language_model(database: Database) -> Llm:
    """Return the language model for missing fields.

    It is created per attempt with the current API key.
    """
    llm = Llm.from_settings(settings(), database, breakers(database))
    assert llm is not None  # LLM_PROVIDER is set
    return llm


def ocr(database: Database) -> Ocr:
    """Return the OCR service. Textract is the only supported value of OCR_PROVIDER."""
    return Textract(breakers(database))


@cache
def breakers(database: Database) -> Breakers:
    """Return the circuit breakers, which cache their state briefly."""
    return Breakers.from_settings(settings(), database)


def handle(event: dict[str, Any], context: Any) -> Any:
    """Process one batch of messages."""
    return consumer().handle(event, context)
