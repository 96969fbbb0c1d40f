"""Anthropic's Messages API."""

from collections.abc import Sequence

from pydantic import BaseModel, SecretStr

from counterfoil.llm.api import Api
from counterfoil.llm.provider import Reply, Turn, at_low_temperature, spoken
from counterfoil.settings import Settings

URL = "https://api.anthropic.com"
VERSION = "2023-06-01"
"""Of the API, not of a model."""


class _Block(BaseModel):
    type: str
    text: str = ""


class _Usage(BaseModel):
    input_tokens: int
    output_tokens: int


class _Message(BaseModel):
    content: list[_Block]
    stop_reason: str | None
    usage: _Usage


class Anthropic:
    """One of Anthropic's models."""

    name = "anthropic"

    def __init__(self, settings: Settings, model: str, key: SecretStr) -> None:
        """LLM_URL is the API's address without `/v1`."""
        self.model = model
        self._api = Api(
            f"{(settings.llm_url or URL).rstrip('/')}/v1/messages",
            {"x-api-key": key.get_secret_value(), "anthropic-version": VERSION},
            settings.llm_connect_timeout_seconds,
            settings.llm_read_timeout_seconds,
        )

    def reply(self, system: str, user: str, *, history: Sequence[Turn] = (), max_tokens: int, total: float) -> Reply:
        """See `Provider`."""
        said = spoken(user, history)
        return at_low_temperature(
            self._api.url, self.model, lambda *how: self._reply(system, said, max_tokens, *how), total
        )

    def _reply(
        self, system: str, said: list[tuple[str, str]], max_tokens: int, temperature: float | None, total: float
    ) -> Reply:
        body = {
            "model": self.model,
            "max_tokens": max_tokens,
            "temperature": temperature,
            "system": system,
            "messages": [{"role": role, "content": text} for role, text in said],
        }
        message = self._api.post(body, _Message, total=total)
        return Reply(
            "".join(block.text for block in message.content if block.type == "text"),
            message.stop_reason not in ("max_tokens", "model_context_window_exceeded"),
            message.usage.input_tokens,
            message.usage.output_tokens,
            is_refused=message.stop_reason == "refusal",
        )
