"""Calls use temperature 0, unless the model supports only its default."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from counterfoil.llm import answers
from counterfoil.llm.answers import PromptRejectedError, Reply, is_temperature_error
from counterfoil.llm.client import _provider
from counterfoil.settings import Settings
from tests.llm.conftest import PROVIDERS
from tests.llm.server import Answer, Raw, Server

REFUSALS = {
    "openai": b"""{"error": {"message": "Unsupported value: 'temperature' does not support 0 with this model. Only the
        default (1) value is supported.", "type": "invalid_request_error", "param": "temperature"}}""",
    "anthropic": b"""{"type": "error", "error": {"type": "invalid_request_error",
        "message": "`temperature` is deprecated for this model."}}""",
    "bedrock": b"""{"message": "The model returned the following errors: temperature is deprecated for it."}""",
}


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def _clear_cache() -> Iterator[None]:
    answers._FIXED_TEMPERATURE.clear()
    yield
    answers._FIXED_TEMPERATURE.clear()


@pytest.fixture
def reply(provider: str, configure: Callable[..., Settings], model_server: Server) -> Callable[[], Reply]:
    def call() -> Reply:
        llm = _provider(configure(provider))
        assert llm is not None
        return llm.reply("The rules.", "The case.", max_tokens=77, total=5)

    return call


def refusal(provider: str) -> Raw:
    return Raw(400, REFUSALS[provider].replace(b"\n        ", b" "), {"x-amzn-ErrorType": "ValidationException"})


def sent_temperature(body: dict[str, Any]) -> Any:
    return body.get("inferenceConfig", body).get("temperature", "its own")


def test_temperature_zero_is_sent(reply: Any, model_server: Server):
    model_server.add_steps(Answer("yes"))
    assert reply().temperature == 0
    assert [sent_temperature(request.body) for request in model_server.requests] == [0]


def test_unsupported_temperature_is_not_sent_again(provider: str, reply: Any, model_server: Server):
    model_server.add_steps(refusal(provider), Answer("yes"), Answer("yes"))
    assert [reply().temperature for _ in range(2)] == [None, None]
    assert [sent_temperature(request.body) for request in model_server.requests] == [0, "its own", "its own"]


def test_unrelated_error_does_not_disable_the_temperature(provider: str, reply: Any, model_server: Server):
    model_server.add_steps(
        refusal(provider), Raw(400, b"{}", {"x-amzn-ErrorType": "ValidationException"}), Answer("yes")
    )
    with pytest.raises(PromptRejectedError):
        reply()
    assert reply().temperature == 0


@pytest.mark.parametrize(
    "message",
    [
        "Unsupported parameter: 'temperature' is not supported with this model.",
        "gpt-5 models don't support temperature=0. Only temperature=1 is supported.",
        "This model doesn't support the temperature field. Remove temperature and try again.",
        "temperature may only be set to 1 when thinking is enabled",
        "`temperature` must be strictly positive",
    ],
)
def test_temperature_errors_are_recognized(message: str):
    assert is_temperature_error(message)


@pytest.mark.parametrize("message", ["Invalid value for temperature", "This model does not support tools.", ""])
def test_unrelated_messages_are_not_temperature_errors(message: str):
    assert not is_temperature_error(message)
