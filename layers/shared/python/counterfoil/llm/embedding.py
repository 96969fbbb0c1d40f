"""Embedding models: providers whose answer to a text is its vector.

They are asked as language models are, with the same tries, waits, breaker, budget and record: to that, a vector is an
answer in a form like any other.
"""

import math
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from counterfoil.db import Database
from counterfoil.errors import InvalidSettingsError
from counterfoil.llm import calls
from counterfoil.llm.asking import Breakers, Limits, Llm, key_of
from counterfoil.llm.provider import Provider
from counterfoil.settings import Settings

LONGEST_CALL_SECONDS = 10.0
"""A vector comes in a fraction of a second, and a document waits for it that can do without."""
MAX_DIMENSIONS = 16_000
"""What PostgreSQL can keep (pgvector's halfvec)."""


class Vector(BaseModel):
    """What a model makes of a text."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False, defer_build=True)

    vector: Annotated[list[float], Field(min_length=1, max_length=MAX_DIMENSIONS)]

    @field_validator("vector")
    @classmethod
    def _has_a_direction(cls, vector: list[float]) -> list[float]:
        if not 0 < math.hypot(*vector) < math.inf:
            raise ValueError("has no direction")
        return vector

    def unit(self) -> list[float]:
        """The vector of length 1 in its direction."""
        length = math.hypot(*self.vector)
        return [component / length for component in self.vector]


def name_of(settings: Settings) -> str | None:
    """The embedding model that the settings name, behind its provider; None where EMBEDDING_PROVIDER is not set.

    Raises:
        InvalidSettingsError: EMBEDDING_MODEL is missing, or EMBEDDING_URL is none.
    """
    provider, url = settings.embedding_provider, settings.embedding_url
    if provider is None:
        return None
    if not settings.embedding_model:
        message = f"EMBEDDING_MODEL is not set, and EMBEDDING_PROVIDER={provider} needs it."
        raise InvalidSettingsError(message)
    if provider == "bedrock" and url is not None:
        raise InvalidSettingsError("EMBEDDING_URL is not for Bedrock: AWS_ENDPOINT_URL_BEDROCK_RUNTIME is.")
    if url is not None and not url.startswith(("https://", "http://")):
        raise InvalidSettingsError("EMBEDDING_URL is wrong: it must be an address of http or https.")
    return f"{provider}/{settings.embedding_model}"


def embedding_model(settings: Settings, database: Database, breakers: Breakers) -> Llm:
    """The embedding model of which `name_of` has the name, with the key as it is now.

    Its calls count against the same budget as those of the language model; what they cost is not reckoned.

    Raises:
        ServiceUnavailableError: there is no key that can be used.
    """
    limits = Limits(
        min(LONGEST_CALL_SECONDS, settings.llm_total_timeout_seconds),
        0,
        settings.llm_retry_base_seconds,
        0.0,
        0.0,
        calls.Budget.from_settings(settings),
    )
    return Llm(_provider(settings, settings.embedding_model or ""), database, breakers, limits)


def _provider(settings: Settings, model: str) -> Provider:
    if settings.embedding_provider == "bedrock":
        from counterfoil.llm.bedrock import BedrockEmbeddings

        return BedrockEmbeddings(model)
    from counterfoil.llm.openai import OpenAiEmbeddings

    return OpenAiEmbeddings(settings, model, key_of(settings, "EMBEDDING_API_KEY", "EMBEDDING_PROVIDER=openai"))
