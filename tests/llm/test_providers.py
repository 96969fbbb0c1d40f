"""Each provider is tested against a scripted API, which can also misbehave."""

import json
from collections.abc import Callable
from time import monotonic
from typing import Any

import pytest

from counterfoil.errors import (
    ContextWindowError,
    InvalidLlmResponseError,
    InvalidSettingsError,
    RejectedRequestError,
    ServiceUnavailableError,
    TransientError,
)
from counterfoil.llm.answers import ChatTurn, PromptRejectedError, Reply, is_context_overflow
from counterfoil.llm.client import _provider
from counterfoil.settings import Settings
from tests.llm.conftest import KEY, PROVIDERS
from tests.llm.server import Answer, Failure, Raw, Server, Step

Configure = Callable[..., Settings]


def for_providers(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("provider", names, indirect=True)


OVER_HTTP = for_providers("anthropic", "openai")


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def reply(provider: str, configure: Configure, model_server: Server) -> Callable[..., Reply]:
    """`reply(*script, total=5.0, **settings)` calls the provider once.

    It returns the provider's reply.
    """

    def call(*script: Step, total: float = 5.0, **fields: str) -> Reply:
        model_server.add_steps(*script)
        llm = _provider(configure(provider, **fields))
        assert llm is not None
        return llm.reply("The rules.", "The case.", max_tokens=77, total=total)

    return call


def test_reply_has_text_and_token_counts(reply: Any):
    assert reply(Answer('{"a": 1}')) == Reply('{"a": 1}', True, 120, 30, temperature=0.0)


def test_request_matches_the_provider_api(provider: str, reply: Any, model_server: Server):
    reply(Answer("yes"))
    request = model_server.requests[0]
    assert (request.api, request.system, request.user) == (provider, "The rules.", "The case.")
    expected: dict[str, tuple[str, Any]] = {
        "anthropic": ("/v1/messages", ("the-model", 77)),
        "openai": ("/v1/chat/completions", ("the-model", 77)),
        "bedrock": ("/model/the-model/converse", (None, 77)),
    }
    bound = request.body["inferenceConfig"]["maxTokens"] if provider == "bedrock" else request.body["max_tokens"]
    assert (request.path, (request.body.get("model"), bound)) == expected[provider]


def test_history_precedes_the_user_message(provider: str, configure: Configure, model_server: Server):
    model_server.add_steps(Answer("yes"))
    llm = _provider(configure(provider))
    assert llm is not None
    llm.reply("The rules.", "And then?", history=[ChatTurn("Hello", "Good day")], max_tokens=77, total=5)
    request = model_server.requests[0]
    assert request.conversation == [("user", "Hello"), ("assistant", "Good day"), ("user", "And then?")]
    assert request.system == "The rules."


def test_key_is_sent_in_the_provider_header(provider: str, reply: Any, model_server: Server):
    reply(Answer("yes"))
    headers = model_server.requests[0].headers
    if provider == "anthropic":
        assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    elif provider == "openai":
        assert headers["authorization"] == f"Bearer {KEY}"
    else:
        assert headers["authorization"].startswith("AWS4-HMAC-SHA256")


def test_truncated_answer_is_incomplete(reply: Any):
    assert not reply(Answer('{"a"', truncated=True)).is_complete


def test_declined_answer_is_marked_as_refused(reply: Any):
    assert reply(Answer("I", refused=True)).is_refused
    assert not reply(Answer("I")).is_refused


def test_answer_without_content_is_empty(reply: Any):
    assert reply(Answer("")).text == ""


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_throttling_and_failures_are_transient(status: int, reply: Any):
    with pytest.raises(ServiceUnavailableError):
        reply(Failure(status))


def test_retry_after_is_reported(reply: Any):
    with pytest.raises(ServiceUnavailableError) as error:
        reply(Failure(429, retry_after="7"))
    assert error.value.retry_after == 7
    with pytest.raises(ServiceUnavailableError) as error:
        reply(Failure(429))
    assert error.value.retry_after is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, PromptRejectedError),
        (401, RejectedRequestError),
        (403, RejectedRequestError),
        (404, RejectedRequestError),
    ],
)
def test_client_errors_are_permanent(status: int, kind: type[Exception], reply: Any):
    with pytest.raises(RejectedRequestError) as error:
        reply(Failure(status))
    assert type(error.value) is kind


@OVER_HTTP
@pytest.mark.parametrize(
    ("status", "kind"), [(402, RejectedRequestError), (405, RejectedRequestError), (422, PromptRejectedError)]
)
def test_status_decides_whether_prompt_is_rejected(status: int, kind: type[Exception], reply: Any):
    with pytest.raises(RejectedRequestError) as error:
        reply(Failure(status))
    assert type(error.value) is kind


@pytest.mark.parametrize(
    "message",
    [
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade.",
        "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for the-model",
        "Unsupported parameter: 'max_tokens' is not supported with this model.",
        "The provided model identifier is invalid.",
        "Invocation of model ID the-model with on-demand throughput isn't supported.",
    ],
)
def test_configuration_error_does_not_reject_the_prompt(message: str, provider: str, reply: Any):
    body = {"error": {"type": "invalid_request_error", "message": message}, "message": message}
    kind = {"x-amzn-ErrorType": "ValidationException"} if provider == "bedrock" else {}
    with pytest.raises(RejectedRequestError) as error:
        reply(Raw(400, json.dumps(body).encode(), kind))
    assert type(error.value) is RejectedRequestError


def test_context_overflow_is_recognized(reply: Any):
    with pytest.raises(ContextWindowError):
        reply(Failure(400, too_long=True))


@pytest.mark.parametrize("how", ["silent", "slow_headers", "slow_body"])
def test_slow_provider_times_out(how: Any, reply: Any):
    started_at = monotonic()
    with pytest.raises(ServiceUnavailableError):
        reply(Raw(body=b'{"a": 1}', behavior=how), total=0.3)
    assert monotonic() - started_at < 1.5


def test_connection_reset_is_transient(reply: Any):
    with pytest.raises(ServiceUnavailableError):
        reply(Raw(body=b'{"content": []}' * 50, behavior="reset"))


@pytest.mark.parametrize("body", [b'{"content": [{"type": "te', b"", b"<html>", b"[]", b'{"content": 1}', b"\xff\xfe"])
def test_malformed_response_is_retryable(body: bytes, provider: str, reply: Any):
    # botocore treats an unreadable response like a missing response.
    with pytest.raises(InvalidLlmResponseError if provider != "bedrock" else TransientError):
        reply(Raw(body=body))


@OVER_HTTP
def test_missing_model_is_permanent_and_missing_key_transient(provider: str, configure: Configure):
    with pytest.raises(InvalidSettingsError, match="LLM_MODEL"):
        _provider(configure(provider, LLM_MODEL=""))
    with pytest.raises(ServiceUnavailableError, match="LLM_API_KEY"):
        _provider(configure(provider, LLM_API_KEY=""))


@pytest.mark.parametrize("key", ["sk\n-1", "sk-ü", "sk\x00"])
@OVER_HTTP
def test_malformed_key_is_not_quoted(provider: str, key: str, configure: Configure):
    with pytest.raises(ServiceUnavailableError, match="LLM_API_KEY") as error:
        _provider(configure(provider, LLM_API_KEY=key))
    assert key not in str(error.value)


@OVER_HTTP
def test_invalid_url_is_rejected(provider: str, configure: Configure):
    with pytest.raises(InvalidSettingsError, match="LLM_URL"):
        _provider(configure(provider, LLM_URL="api.example.com"))


@OVER_HTTP
def test_repr_hides_the_key(provider: str, configure: Configure):
    llm: Any = _provider(configure(provider))
    assert KEY not in repr(llm._api) + repr(llm) + str(vars(llm))


# Provider-specific behavior


@for_providers("anthropic")
def test_anthropic_overload_is_transient(reply: Any):
    with pytest.raises(ServiceUnavailableError):
        reply(Failure(529))


@for_providers("anthropic")
def test_oversized_anthropic_request_exceeds_the_context(reply: Any):
    with pytest.raises(ContextWindowError):
        reply(Failure(413))


@for_providers("anthropic")
def test_thinking_is_not_part_of_the_answer(reply: Any):
    body = b"""{"content": [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "text", "text": "{}"}],
                "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 2}}"""
    assert reply(Raw(body=body)) == Reply("{}", True, 1, 2, temperature=0.0)


@for_providers("openai")
def test_missing_token_counts_become_zero(reply: Any):
    body = b'{"choices": [{"message": {"content": "{}"}, "finish_reason": "stop"}]}'
    assert reply(Raw(body=body)) == Reply("{}", True, 0, 0, temperature=0.0)


@for_providers("openai")
def test_only_openai_hosts_use_max_completion_tokens(provider: str, configure: Configure):
    bounds = {
        url: _provider(configure(provider, LLM_URL=url))._max_tokens_field  # type: ignore[union-attr]
        for url in (
            "",
            "https://api.openai.com/v1",
            "https://mine.openai.azure.com/openai/v1",
            "http://10.0.0.1:8000/v1",
        )
    }
    assert list(bounds.values()) == ["max_completion_tokens"] * 3 + ["max_tokens"]


@for_providers("bedrock")
def test_bedrock_model_error_is_transient(reply: Any):
    with pytest.raises(ServiceUnavailableError, match="ModelErrorException"):
        reply(Failure(424))


@for_providers("bedrock")
def test_botocore_does_not_retry_bedrock_calls(reply: Any, model_server: Server):
    with pytest.raises(ServiceUnavailableError):
        reply(Failure(503))
    assert len(model_server.requests) == 1  # retries by botocore would not count toward the budget


@for_providers("bedrock")
def test_bedrock_rejects_a_url_and_requires_a_model(provider: str, configure: Configure):
    with pytest.raises(InvalidSettingsError, match="LLM_URL"):
        _provider(configure(provider, LLM_URL="https://example.com"))
    with pytest.raises(InvalidSettingsError, match="LLM_MODEL"):
        _provider(configure(provider, LLM_MODEL=""))


# Error messages about prompts that exceed the context window


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: 208656 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        "You passed 1015 input tokens and requested 10 output tokens. However, the model's context length is only 1024",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "the request exceeds the available context size. try increasing the context size or enable context shift",
        "Input is too long for requested model.",
        "The model returned the following errors: prompt is too long: 903884 tokens > 200000 maximum",
        "The model returned the following errors: too many total text bytes: 23500000 > 9000000",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ],
)
def test_context_overflow_messages_are_recognized(message: str):
    assert is_context_overflow(message)


@pytest.mark.parametrize(
    "message",
    [
        "messages: text content blocks must be non-empty",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens",
        "The provided model identifier is invalid.",
    ],
)
def test_unrelated_messages_are_not_context_overflows(message: str):
    assert not is_context_overflow(message)
