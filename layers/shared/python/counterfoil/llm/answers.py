"""Replies from models: the `Provider` protocol, error classification and parsing."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import NamedTuple, Protocol, TypeVar

from pydantic import BaseModel

from counterfoil.errors import InvalidLlmResponseError, RejectedRequestError
from counterfoil.validation import ValidationProblem, validate_json

TEMPERATURE = 0.0
"""Temperature of calls, if the model supports one. At 0, the model gives its most likely answer."""


class PromptRejectedError(RejectedRequestError):
    """A model or its API rejects this prompt because of its content.

    Other prompts may succeed.
    """


class UnsupportedTemperatureError(RejectedRequestError):
    """A model's API rejects the temperature, because it is fixed."""


@dataclass(frozen=True)
class Reply:
    """A model's reply."""

    text: str
    is_complete: bool
    """False if the text was truncated at the token limit."""
    input_tokens: int
    output_tokens: int
    temperature: float | None = None
    """Temperature of the call, or None for the model's default."""
    is_refused: bool = False
    """Whether the model or its filter declined to answer. In this case, the text is not an answer."""


class ChatTurn(NamedTuple):
    """A user's earlier message in a conversation, and the model's reply."""

    user: str
    assistant: str


def chat_messages(user: str, history: Sequence[ChatTurn]) -> list[tuple[str, str]]:
    """Return a conversation as pairs of role and text, with `user` last."""
    earlier = [pair for turn in history for pair in (("user", turn.user), ("assistant", turn.assistant))]
    return [*earlier, ("user", user)]


def vector_reply(vector: list[float], tokens: int) -> Reply:
    """Return an embedding model's reply, with the vector as JSON for `client.Vector`."""
    return Reply(json.dumps({"vector": vector}), True, tokens, 0)


class Provider(Protocol):
    """A model behind a provider's API."""

    @property
    def name(self) -> str:
        """Name of the provider, for the circuit breaker, the call log and metrics."""

    @property
    def model(self) -> str:
        """Name of the model at the provider."""

    def reply(
        self, system: str, user: str, *, history: Sequence[ChatTurn] = (), max_tokens: int, total: float
    ) -> Reply:
        """Make one call that takes at most `total` seconds.

        `history`, oldest first, precedes `user`.

        Raises:
            ServiceUnavailableError: the call was throttled, failed or timed out.
            InvalidLlmResponseError: the response does not match the API's schema.
            ContextWindowError: the prompt exceeds the model's context window.
            PromptRejectedError: the API rejected the prompt's content.
            RejectedRequestError: the API would reject every prompt.
        """


_FIXED_TEMPERATURE: set[tuple[str, str]] = set()
"""Pairs of API and model that have rejected the temperature in this process."""


def with_temperature_fallback(
    api: str, model: str, call: Callable[[float | None, float], Reply], total: float
) -> Reply:
    """Call a model at TEMPERATURE, or at its default if its temperature is fixed.

    Newer models have a fixed temperature. `call` takes the temperature and a time limit in seconds. It runs again if
    the temperature was rejected. `total` limits the seconds of both calls together. Raises the same errors as `call`.
    """
    started = monotonic()
    if (api, model) not in _FIXED_TEMPERATURE:
        try:
            return replace(call(TEMPERATURE, total), temperature=TEMPERATURE)
        except UnsupportedTemperatureError:
            pass
    reply = call(None, max(0.001, total - (monotonic() - started)))
    _FIXED_TEMPERATURE.add((api, model))
    return reply


# Anthropic: invalid_request_error "prompt is too long: 208656 tokens > 200000 maximum", "input length and `max_tokens`
#   exceed context limit: ..."; request_too_large.
# OpenAI: code context_length_exceeded, "This model's maximum context length is ..."; vLLM: "the model's context length
#   is only ..."; llama.cpp: exceed_context_size_error.
# Bedrock: ValidationException "Input is too long for requested model.", "too many total text bytes", and messages from
#   the model's vendor.
_CONTEXT_OVERFLOW = re.compile(
    r"context[ _](length|window|size|limit)|(prompt|input) is too long|request_too_large"
    r"|too many (total text bytes|(input )?tokens)|input token count",
    re.IGNORECASE,
)

# Errors with the same status as a rejected prompt, but caused by a key, a model or a limit in the settings.
_PARAMETER_ERROR = re.compile(
    r"credit balance|max_(completion_|output_)?tokens|maximum tokens|model identifier|model id\b", re.IGNORECASE
)


def is_context_overflow(message: str) -> bool:
    """Return True if an error states that the prompt exceeds the context window."""
    return _CONTEXT_OVERFLOW.search(message) is not None


def is_parameter_error(message: str) -> bool:
    """Return True if an error message indicates an incorrect setting.

    Call `is_context_overflow` first.
    """
    return _PARAMETER_ERROR.search(message) is not None


# OpenAI: "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is ..."
# Anthropic, also on Bedrock: "`temperature` is deprecated for this model."
# LiteLLM: "gpt-5 models don't support temperature=0"; others: "`temperature` must be strictly positive".
_TEMPERATURE_ERROR = re.compile(
    r"(support|only|remove|allow)[^.]{0,60}\btemperature\b"
    r"|\btemperature\b[^.]{0,60}(support|deprecated|only|must|allow|cannot|remove)",
    re.IGNORECASE,
)


def is_temperature_error(message: str) -> bool:
    """Return True if an error message rejects the temperature."""
    return _TEMPERATURE_ERROR.search(message) is not None


M = TypeVar("M", bound=BaseModel)

PREVIEW_CHARS = 200
"""Number of characters of an answer that an error quotes."""

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*)```", re.DOTALL | re.IGNORECASE)

_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
"""JSON escapes. The group matches U+0000 and lone surrogates, which PostgreSQL cannot store."""


def read(text: str, schema: type[M]) -> M:
    """Parse an answer as an instance of `schema`.

    Text around a fenced block is ignored.

    Characters that PostgreSQL cannot store are replaced by U+FFFD. Otherwise a page could never be stored if it made
    the model write such characters.

    Raises:
        InvalidLlmResponseError: the answer is empty, not valid JSON, or fails schema validation. The message quotes the
            first PREVIEW_CHARS characters of the answer.
    """
    stripped = _replace_escapes(text).strip()
    if not stripped:
        raise InvalidLlmResponseError("The answer is empty")
    fenced = None if stripped.startswith(("{", "[")) else _FENCED.search(stripped)

    def invalid(problem: ValidationProblem) -> InvalidLlmResponseError:
        failure = (
            "is not valid JSON" if problem.type == "json_invalid" else f"failed schema validation ({problem.type})"
        )
        return InvalidLlmResponseError(f"The answer {failure}", preview=preview(stripped))

    return validate_json(schema, fenced.group(1) if fenced else stripped, invalid)


def extract_text(text: str) -> str:
    """Return the text of an answer without a schema.

    Characters are replaced as in `read`.

    Raises:
        InvalidLlmResponseError: the answer is empty.
    """
    stripped = _replace_unstorable(text).strip()
    if not stripped:
        raise InvalidLlmResponseError("The answer is empty")
    return stripped


def _replace_unstorable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\x00", "\ufffd")


def _replace_escapes(text: str) -> str:
    return _ESCAPES.sub(lambda match: "\\ufffd" if match[1] else match[0], _replace_unstorable(text))


def preview(text: str) -> str:
    """Return the start of a text on one line.

    Invisible characters and apostrophes are replaced.
    """
    visible = "".join(character if character.isprintable() else " " for character in text[:PREVIEW_CHARS])
    return visible.replace("'", "\N{RIGHT SINGLE QUOTATION MARK}")
