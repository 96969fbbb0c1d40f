"""What every provider of language models is to us."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import NamedTuple, Protocol

from counterfoil.errors import RejectedRequestError

TEMPERATURE = 0.0
"""Of every call: what is wanted is the likeliest answer, and the same one again."""


class RefusedQuestionError(RejectedRequestError):
    """A model's API refused this question: there is something in it that it does not answer. Others may be answered."""


class FixedTemperatureError(RejectedRequestError):
    """A model's API refused to be told a temperature: this model takes none but its own."""


@dataclass(frozen=True)
class Reply:
    """What a model said."""

    text: str
    is_complete: bool
    """False where it stopped for want of room, not since it had said all."""
    input_tokens: int
    output_tokens: int
    temperature: float | None = None
    """That the model was told; None: its own."""
    is_refused: bool = False
    """Whether the model, or a filter around it, declined to answer. What it says then is no answer."""


class Turn(NamedTuple):
    """What was said before in a conversation, and what the model answered."""

    user: str
    assistant: str


def spoken(user: str, history: Sequence[Turn]) -> list[tuple[str, str]]:
    """A conversation as (role, text), `user` last."""
    said = [pair for turn in history for pair in (("user", turn.user), ("assistant", turn.assistant))]
    return [*said, ("user", user)]


def vector_reply(vector: list[float], tokens: int) -> Reply:
    """What a model of embeddings said, in the form of `embedding.Vector`."""
    return Reply(json.dumps({"vector": vector}), True, tokens, 0)


class Provider(Protocol):
    """An API that has one model."""

    @property
    def name(self) -> str:
        """As in LLM_PROVIDER."""

    @property
    def model(self) -> str:
        """The model's name at the provider."""

    def reply(self, system: str, user: str, *, history: Sequence[Turn] = (), max_tokens: int, total: float) -> Reply:
        """Make one call, of `total` seconds at most; `history` comes before `user`, oldest first.

        Raises:
            ServiceUnavailableError: throttled, failed, or no answer in time.
            InvalidAnswerError: what came back is no answer of this API.
            ContextWindowError: the prompt is longer than the model can read.
            RefusedQuestionError: refused for good, for what the question says.
            RejectedRequestError: refused for good, as any other question would be.
        """


_FIXED: set[tuple[str, str]] = set()
"""Models that were found to take no temperature, each with its API. Of the process: a call has told us."""


def at_low_temperature(api: str, model: str, call: Callable[[float | None, float], Reply], total: float) -> Reply:
    """A reply at TEMPERATURE, or at the model's own where it takes no other: newer ones refuse to be told any.

    `call` is given the temperature and its longest time. It is made again where the temperature was refused; `total`
    (seconds) is for both. Raises as `call`.
    """
    began = monotonic()
    if (api, model) not in _FIXED:
        try:
            return replace(call(TEMPERATURE, total), temperature=TEMPERATURE)
        except FixedTemperatureError:
            pass
    reply = call(None, max(0.001, total - (monotonic() - began)))
    _FIXED.add((api, model))
    return reply


# Anthropic: invalid_request_error "prompt is too long: 208656 tokens > 200000 maximum", "input length and `max_tokens`
#   exceed context limit: ..."; request_too_large.
# OpenAI: code context_length_exceeded, "This model's maximum context length is ..."; vLLM: "the model's context length
#   is only ..."; llama.cpp: exceed_context_size_error.
# Bedrock: ValidationException "Input is too long for requested model.", "too many total text bytes", and what the
#   model's maker says.
_TOO_LONG = re.compile(
    r"context[ _](length|window|size|limit)|(prompt|input) is too long|request_too_large"
    r"|too many (total text bytes|(input )?tokens)|input token count",
    re.IGNORECASE,
)

# The same status as a refused question, but with the key, the model or the bounds that the settings name.
_OF_THE_SETTINGS = re.compile(
    r"credit balance|max_(completion_|output_)?tokens|maximum tokens|model identifier|model id\b", re.IGNORECASE
)


def is_too_long(message: str) -> bool:
    """Whether a refusal says that the prompt does not fit the model."""
    return _TOO_LONG.search(message) is not None


def is_about_the_settings(message: str) -> bool:
    """Whether a refusal says that no question would be answered as things are set up. To be asked after the length."""
    return _OF_THE_SETTINGS.search(message) is not None


# OpenAI: "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is ..."
# Anthropic, and Bedrock after it: "`temperature` is deprecated for this model."
# LiteLLM: "gpt-5 models don't support temperature=0"; others: "`temperature` must be strictly positive".
_OF_THE_TEMPERATURE = re.compile(
    r"(support|only|remove|allow)[^.]{0,60}\btemperature\b"
    r"|\btemperature\b[^.]{0,60}(support|deprecated|only|must|allow|cannot|remove)",
    re.IGNORECASE,
)


def is_about_the_temperature(message: str) -> bool:
    """Whether a refusal says that the model is not to be told a temperature, or not this one."""
    return _OF_THE_TEMPERATURE.search(message) is not None
