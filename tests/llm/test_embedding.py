"""Embedding calls have retries, breakers and records, like language model calls."""

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.deadline import Deadline
from counterfoil.errors import (
    ContextWindowError,
    InvalidLlmResponseError,
    InvalidSettingsError,
    RejectedRequestError,
    ServiceUnavailableError,
)
from counterfoil.llm import LlmRequest, Vector
from counterfoil.llm.client import embedding_model, embedding_model_name
from counterfoil.settings import Settings
from tests.llm.conftest import KEY, Guards, Time
from tests.llm.server import Answer, Failure, Raw, Server, Step

PROVIDERS = ("openai", "bedrock")
VECTOR = [0.25, -0.5, 0.125]
TEXT = "Hexagon bolt\nLock washer"


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def settings(provider: str, model_server: Server, configure: Callable[..., Settings]) -> Settings:
    configure("bedrock")  # sets the environment for the scripted server
    environment = {"EMBEDDING_PROVIDER": provider, "EMBEDDING_MODEL": "the-model"}
    if provider == "openai":
        environment |= {"EMBEDDING_URL": f"{model_server.url}/v1/", "EMBEDDING_API_KEY": KEY}
    return Settings.from_environment(environment)


@pytest.fixture
def embed(
    settings: Settings, model_server: Server, database: Database, guards: Guards, time: Time, make_tenant: Any
) -> Callable[..., list[float]]:
    """`embed(*script)` embeds TEXT while the server answers with `script`.

    Waits are instant.
    """
    tenant_id: UUID = make_tenant()

    def ask(*script: Step) -> list[float]:
        model_server.add_steps(*script)
        model = embedding_model(settings, database, guards)
        model._wait = time.wait
        question = LlmRequest("", TEXT, "embedding", tenant_id, tenant_id)
        return model.complete_json(question, Vector, Deadline()).content.vector

    return ask


def test_embedding_returns_the_vector(embed: Any):
    assert embed(Answer(json.dumps(VECTOR))) == VECTOR


def test_request_matches_the_provider_api(provider: str, embed: Any, model_server: Server):
    embed(Answer(json.dumps(VECTOR)))
    (request,) = model_server.requests
    assert (request.api, request.path, request.body) == {
        "openai": ("openai-embeddings", "/v1/embeddings", {"model": "the-model", "input": TEXT}),
        "bedrock": ("bedrock-embeddings", "/model/the-model/invoke", {"inputText": TEXT}),
    }[provider]
    key = request.headers["authorization"]
    assert key == f"Bearer {KEY}" if provider == "openai" else key.startswith("AWS4-HMAC-SHA256")


def test_embedding_call_has_its_own_breaker_and_record(provider: str, embed: Any, guards: Guards, admin: Connection):
    embed(Answer(json.dumps(VECTOR)))
    assert guards.calls == [(f"llm:{provider}-embeddings", "ok")]
    record = "SELECT purpose, provider, model, outcome, input_tokens, output_tokens FROM llm_call"
    assert admin.execute(record).fetchall() == [("embedding", f"{provider}-embeddings", "the-model", "answered", 40, 0)]


def test_failed_call_is_retried(embed: Any, model_server: Server):
    assert embed(Failure(503), Answer("none"), Answer(json.dumps(VECTOR))) == VECTOR
    assert len(model_server.requests) == 3


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (Failure(429), ServiceUnavailableError),
        (Failure(403), RejectedRequestError),
        (Failure(400, too_long=True), ContextWindowError),
        (Raw(200, b""), InvalidLlmResponseError),
        (Raw(200, b'{"data": []}'), InvalidLlmResponseError),
        (Raw(200, b'{"embedding": null, "data": [{"embedding": null}]}'), InvalidLlmResponseError),
        (Raw(200, b'{"embedding": [1e999], "data": [{"embedding": [1e999]}]}'), InvalidLlmResponseError),
        (
            Raw(200, b'{"embedding": [1e308, 1.7e308], "data": [{"embedding": [1e308, 1.7e308]}]}'),
            InvalidLlmResponseError,
        ),
        (Answer("[]"), InvalidLlmResponseError),
        (Answer("[0.0, -0.0]"), InvalidLlmResponseError),
        (Answer(json.dumps([0.1] * 16_001)), InvalidLlmResponseError),
    ],
)
def test_provider_failure_raises_the_matching_error(step: Step, error: type[Exception], embed: Any):
    with pytest.raises(error):
        embed(*[step] * 3)


def test_normalized_vector_keeps_its_direction():
    assert Vector(vector=[3.0, -4.0]).unit() == [0.6, -0.8]


# Settings


def test_missing_provider_disables_embeddings():
    assert embedding_model_name(Settings.from_environment({"EMBEDDING_MODEL": "m", "LLM_PROVIDER": "openai"})) is None


def test_model_name_includes_its_provider(settings: Settings, provider: str):
    assert embedding_model_name(settings) == f"{provider}/the-model"


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({}, "EMBEDDING_MODEL is not set, but EMBEDDING_PROVIDER=openai requires it"),
        ({"EMBEDDING_MODEL": "m", "EMBEDDING_URL": "example.com"}, "EMBEDDING_URL is invalid"),
        (
            {"EMBEDDING_PROVIDER": "bedrock", "EMBEDDING_MODEL": "m", "EMBEDDING_URL": "https://example.com"},
            "EMBEDDING_URL is not supported for Bedrock",
        ),
        ({"EMBEDDING_PROVIDER": "anthropic"}, "EMBEDDING_PROVIDER is invalid"),
    ],
)
def test_invalid_settings_are_rejected(environment: dict[str, str], reason: str):
    with pytest.raises(InvalidSettingsError, match=reason):
        embedding_model_name(Settings.from_environment({"EMBEDDING_PROVIDER": "openai", **environment}))


def test_llm_key_is_not_used_for_embeddings(database: Database):
    settings = Settings.from_environment(
        {"EMBEDDING_PROVIDER": "openai", "EMBEDDING_MODEL": "m", "LLM_PROVIDER": "openai", "LLM_API_KEY": KEY}
    )
    with pytest.raises(ServiceUnavailableError, match="EMBEDDING_API_KEY is missing"):
        embedding_model(settings, database, Guards())
