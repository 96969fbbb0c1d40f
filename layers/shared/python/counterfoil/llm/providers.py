"""Model providers over HTTP: Anthropic, and all OpenAI-compatible endpoints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

import httpx
from pydantic import BaseModel, Field, SecretStr

from counterfoil import http
from counterfoil.errors import ContextWindowError
from counterfoil.llm.answers import (
    ChatTurn,
    PromptRejectedError,
    Reply,
    UnsupportedTemperatureError,
    chat_messages,
    is_context_overflow,
    is_parameter_error,
    is_temperature_error,
    read,
    vector_reply,
    with_temperature_fallback,
)
from counterfoil.settings import Settings

M = TypeVar("M", bound=BaseModel)

_PROMPT_STATUSES = (400, 413, 422)
"""HTTP statuses that a single prompt can cause. Rejections with other statuses (key, billing, URL) affect every prompt.
"""


@dataclass(frozen=True)
class Api:
    """HTTP endpoint of a model's API."""

    url: str
    headers: dict[str, str] = field(repr=False)
    """Headers, including the API key."""
    connect: float
    read: float
    """`connect` and `read` are timeouts in seconds. See `Settings`."""

    def post(self, body: Mapping[str, Any], schema: type[M], *, total: float) -> M:
        """Make one call within `total` seconds, and parse the API's response.

        None values in `body` are omitted. Raises UnsupportedTemperatureError and the same errors as `Provider.reply`.
        """
        response = http.send(
            "POST",
            self.url,
            headers=self.headers,
            json={name: value for name, value in body.items() if value is not None},
            connect=min(self.connect, total),
            read=min(self.read, total),
            total=total,
            check_response=_check,
        )
        return read(response.content.decode(errors="replace"), schema)


def _check(response: httpx.Response) -> None:
    if response.status_code in _PROMPT_STATUSES:
        text = response.content.decode(errors="replace")
        message = f"{response.request.url.host} answered with HTTP {response.status_code}"
        if is_context_overflow(text):
            detail = f"{message}: the prompt exceeds the model's context window"
            raise ContextWindowError(detail)
        if is_temperature_error(text):
            raise UnsupportedTemperatureError(message)
        if not is_parameter_error(text):
            raise PromptRejectedError(message)
    http.check_status(response)


ANTHROPIC_URL = "https://api.anthropic.com"
ANTHROPIC_VERSION = "2023-06-01"
"""Version of Anthropic's API."""


class _Block(BaseModel):
    type: str
    text: str = ""


class _AnthropicUsage(BaseModel):
    input_tokens: int
    output_tokens: int


class _Message(BaseModel):
    content: list[_Block]
    stop_reason: str | None
    usage: _AnthropicUsage


class Anthropic:
    """A model from Anthropic."""

    name = "anthropic"

    def __init__(self, settings: Settings, model: str, key: SecretStr) -> None:
        """LLM_URL must be the API's URL without `/v1`."""
        self.model = model
        self._api = Api(
            f"{(settings.llm_url or ANTHROPIC_URL).rstrip('/')}/v1/messages",
            {"x-api-key": key.get_secret_value(), "anthropic-version": ANTHROPIC_VERSION},
            settings.llm_connect_timeout_seconds,
            settings.llm_read_timeout_seconds,
        )

    def reply(
        self, system: str, user: str, *, history: Sequence[ChatTurn] = (), max_tokens: int, total: float
    ) -> Reply:
        """See `Provider`."""
        conversation = chat_messages(user, history)
        return with_temperature_fallback(
            self._api.url, self.model, lambda *options: self._reply(system, conversation, max_tokens, *options), total
        )

    def _reply(
        self, system: str, conversation: list[tuple[str, str]], max_tokens: int, temperature: float | None, total: float
    ) -> Reply:
        body = {
            "model": self.model,
            "max_tokens": max_tokens,
            "temperature": temperature,
            "system": system,
            "messages": [{"role": role, "content": text} for role, text in conversation],
        }
        message = self._api.post(body, _Message, total=total)
        return Reply(
            "".join(block.text for block in message.content if block.type == "text"),
            message.stop_reason not in ("max_tokens", "model_context_window_exceeded"),
            message.usage.input_tokens,
            message.usage.output_tokens,
            is_refused=message.stop_reason == "refusal",
        )


OPENAI_URL = "https://api.openai.com/v1"
_OPENAI_HOSTS = (".openai.com", ".azure.com")


class _ChoiceMessage(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _ChoiceMessage
    finish_reason: str | None = None


class _OpenAiUsage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Completion(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _OpenAiUsage | None = None


class _Datum(BaseModel):
    embedding: list[float]


class _Embeddings(BaseModel):
    data: Annotated[list[_Datum], Field(min_length=1)]
    usage: _OpenAiUsage | None = None


class OpenAi:
    """A model behind an endpoint with the chat completions API."""

    name = "openai"

    def __init__(self, settings: Settings, model: str, key: SecretStr) -> None:
        """LLM_URL must include the `/v1` of the endpoint's URL, if there is one."""
        self.model = model
        base = (settings.llm_url or OPENAI_URL).rstrip("/")
        # OpenAI's newer models reject the old name of the limit. Several other servers do not support the new name.
        is_openai = httpx.URL(base).host.endswith(_OPENAI_HOSTS)
        self._max_tokens_field = "max_completion_tokens" if is_openai else "max_tokens"
        self._api = Api(
            f"{base}/chat/completions",
            {"authorization": f"Bearer {key.get_secret_value()}"},
            settings.llm_connect_timeout_seconds,
            settings.llm_read_timeout_seconds,
        )

    def reply(
        self, system: str, user: str, *, history: Sequence[ChatTurn] = (), max_tokens: int, total: float
    ) -> Reply:
        """See `Provider`."""
        conversation = chat_messages(user, history)
        return with_temperature_fallback(
            self._api.url, self.model, lambda *options: self._reply(system, conversation, max_tokens, *options), total
        )

    def _reply(
        self, system: str, conversation: list[tuple[str, str]], max_tokens: int, temperature: float | None, total: float
    ) -> Reply:
        messages = [{"role": role, "content": text} for role, text in [("system", system), *conversation]]
        body = {
            "model": self.model,
            self._max_tokens_field: max_tokens,
            "temperature": temperature,
            "messages": messages,
        }
        completion = self._api.post(body, _Completion, total=total)
        choice, usage = completion.choices[0], completion.usage or _OpenAiUsage()
        return Reply(
            choice.message.content or "",
            choice.finish_reason != "length",
            usage.prompt_tokens,
            usage.completion_tokens,
            is_refused=choice.finish_reason == "content_filter" or bool(choice.message.refusal),
        )


class OpenAiEmbeddings:
    """A model behind an endpoint with OpenAI's embeddings API."""

    name = "openai-embeddings"

    def __init__(self, settings: Settings, model: str, key: SecretStr) -> None:
        """EMBEDDING_URL must include the `/v1` of the endpoint's URL, if there is one."""
        self.model = model
        self._api = Api(
            f"{(settings.embedding_url or OPENAI_URL).rstrip('/')}/embeddings",
            {"authorization": f"Bearer {key.get_secret_value()}"},
            settings.llm_connect_timeout_seconds,
            settings.llm_read_timeout_seconds,
        )

    def reply(  # not a conversation
        self,
        system: str,  # noqa: ARG002
        user: str,
        *,
        history: Sequence[ChatTurn] = (),  # noqa: ARG002
        max_tokens: int,  # noqa: ARG002
        total: float,
    ) -> Reply:
        """See `Provider`."""
        response = self._api.post({"model": self.model, "input": user}, _Embeddings, total=total)
        return vector_reply(response.data[0].embedding, response.usage.prompt_tokens if response.usage else 0)
