"""OpenAI's chat completions and embeddings, as OpenAI and many others serve them."""

from collections.abc import Sequence
from typing import Annotated

import httpx
from pydantic import BaseModel, Field, SecretStr

from counterfoil.llm.api import Api
from counterfoil.llm.provider import Reply, Turn, at_low_temperature, spoken, vector_reply
from counterfoil.settings import Settings

URL = "https://api.openai.com/v1"
_OWN_HOSTS = (".openai.com", ".azure.com")


class _Said(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Said
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Completion(BaseModel):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | None = None


class _Datum(BaseModel):
    embedding: list[float]


class _Embeddings(BaseModel):
    data: Annotated[list[_Datum], Field(min_length=1)]
    usage: _Usage | None = None


class OpenAi:
    """A model behind an endpoint that speaks chat completions."""

    name = "openai"

    def __init__(self, settings: Settings, model: str, key: SecretStr) -> None:
        """LLM_URL is the endpoint's address with its `/v1`, where it has one."""
        self.model = model
        base = (settings.llm_url or URL).rstrip("/")
        # OpenAI's newer models refuse the old name of the bound, and several other servers do not know the new one.
        is_own = httpx.URL(base).host.endswith(_OWN_HOSTS)
        self._bound = "max_completion_tokens" if is_own else "max_tokens"
        self._api = Api(
            f"{base}/chat/completions",
            {"authorization": f"Bearer {key.get_secret_value()}"},
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
        messages = [{"role": role, "content": text} for role, text in [("system", system), *said]]
        body = {"model": self.model, self._bound: max_tokens, "temperature": temperature, "messages": messages}
        completion = self._api.post(body, _Completion, total=total)
        choice, usage = completion.choices[0], completion.usage or _Usage()
        return Reply(
            choice.message.content or "",
            choice.finish_reason != "length",
            usage.prompt_tokens,
            usage.completion_tokens,
            is_refused=choice.finish_reason == "content_filter" or bool(choice.message.refusal),
        )


class OpenAiEmbeddings:
    """A model behind an endpoint that speaks OpenAI's embeddings."""

    name = "openai-embeddings"

    def __init__(self, settings: Settings, model: str, key: SecretStr) -> None:
        """EMBEDDING_URL is the endpoint's address with its `/v1`, where it has one."""
        self.model = model
        self._api = Api(
            f"{(settings.embedding_url or URL).rstrip('/')}/embeddings",
            {"authorization": f"Bearer {key.get_secret_value()}"},
            settings.llm_connect_timeout_seconds,
            settings.llm_read_timeout_seconds,
        )

    def reply(  # it is no talk
        self,
        system: str,  # noqa: ARG002
        user: str,
        *,
        history: Sequence[Turn] = (),  # noqa: ARG002
        max_tokens: int,  # noqa: ARG002
        total: float,
    ) -> Reply:
        """See `Provider`."""
        found = self._api.post({"model": self.model, "input": user}, _Embeddings, total=total)
        return vector_reply(found.data[0].embedding, found.usage.prompt_tokens if found.usage else 0)
