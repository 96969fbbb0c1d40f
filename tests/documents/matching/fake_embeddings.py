"""A scripted bilingual embedding model, and documents that match by embeddings."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

from counterfoil.db import Database
from counterfoil.deadline import Deadline
from counterfoil.documents import matching
from counterfoil.documents.matching import normalize
from counterfoil.llm import Llm, Vector
from counterfoil.llm.client import embedding_model, embedding_model_name
from counterfoil.settings import Settings
from tests.documents.matching.samples import SampleDocument, invoice, order, random_samples
from tests.llm.conftest import Guards, Time
from tests.llm.server import Request, Server

DIMENSIONS = 256
_CONCEPTS = {"sechskantschraube": "bolt", "sicherungsscheibe": "washer", "farbe": "paint", "kabel": "cable"}


def vector_of(text: str) -> list[float]:
    """Return the sum of one vector per word.

    Synonyms and translations share a vector.
    """
    words = text.lower().split() or [text]
    directions = [Random(_CONCEPTS.get(word, word)) for word in words]
    return [sum(direction.gauss(0, 1) for direction in directions) for _ in range(DIMENSIONS)]


def answer(request: Request) -> str:
    """Return the embedding of the requested text, as JSON."""
    return json.dumps(vector_of(request.user))


def embedding_of(sample: SampleDocument, model: str = "openai/m") -> normalize.Embedding:
    """Return a document's embedding as the database stores it."""
    text = normalize.embedded_text(sample.data)
    return normalize.Embedding(
        normalize.text_hash(text), model, normalize.signature(Vector(vector=vector_of(text)).unit())
    )


def settings_for(server: Server, **fields: str) -> Settings:
    """Return settings that select the scripted model on `server`."""
    defaults = {"EMBEDDING_PROVIDER": "openai", "EMBEDDING_MODEL": "m", "EMBEDDING_URL": f"{server.url}/v1"}
    return Settings.from_environment(defaults | {"EMBEDDING_API_KEY": "k"} | fields)


def embedder(
    database: Database, server: Server, breakers: Any = None, deadline: Deadline | None = None, **fields: str
) -> matching.Embedder:
    """Return an embedder that does not wait between retries."""
    settings = settings_for(server, **fields)
    name = embedding_model_name(settings)
    assert name is not None

    def make() -> Llm:
        llm = embedding_model(settings, database, breakers or Guards())
        llm._wait = Time().wait
        return llm

    return matching.Embedder(name, make, deadline or Deadline())


_BUYER = {"name": "Brede Werke GmbH", "city": "Ulm", "postal_code": "89073", "country": "DE"}
_SELLER = {"city": "Hamburg", "postal_code": "20095", "country": "DE", "iban": "DE89370400440532013000"}


def _line(description: str, quantity: str, price: str) -> dict[str, str]:
    net = f"{float(quantity) * float(price):.2f}"
    return {
        "description": description,
        "quantity": quantity,
        "unit": "C62",
        "unit_price": price,
        "net_amount": net,
    }


def english_order(
    make: Callable[..., SampleDocument] = order, number: str = "4711", when: int = 0, **fields: Any
) -> SampleDocument:
    """Return an English order for bolts and washers.

    The supplier has its English name.
    """
    lines = [_line("hexagon bolt", "10", "4.20"), _line("lock washer", "5", "12.50")]
    return make(number, when, seller=_SELLER | {"name": "Northern Fasteners Ltd"}, buyer=_BUYER, lines=lines, **fields)


def german_invoice(
    make: Callable[..., SampleDocument] = invoice, number: str = "R-9", when: int = 10, **fields: Any
) -> SampleDocument:
    """Return a German invoice for the same goods, without references.

    The supplier has its German name.
    """
    lines = [_line("Sechskantschraube", "10", "4.20"), _line("Sicherungsscheibe", "5", "12.50")]
    seller = _SELLER | {"name": "Nordverbinder Handels GmbH"}
    return make(number, when, seller=seller, buyer=_BUYER, lines=lines, **fields)


def two_languages(seed: int, size: int) -> list[SampleDocument]:
    """Return random documents, and eight that match only by their embeddings."""
    return [
        *random_samples(seed, size),
        english_order(),
        german_invoice(),
        english_order(number="5000", when=120),
        german_invoice(number="R-10", when=128),
        german_invoice(number="R-11", when=129, received=140),
        english_order(number="6000", when=260),
        english_order(number="6001", when=261),
        german_invoice(number="R-12", when=270),
    ]
