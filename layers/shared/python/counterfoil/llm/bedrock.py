"""Amazon Bedrock's Converse API and its Titan embedding models."""

import json
from collections.abc import Sequence
from typing import Any

from botocore.exceptions import ClientError
from pydantic import BaseModel, Field

from counterfoil import aws, http
from counterfoil.errors import ContextWindowError, CounterfoilError, InvalidLlmResponseError, ServiceUnavailableError
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
from counterfoil.validation import validate


class _Block(BaseModel):
    text: str = ""


class _Message(BaseModel):
    content: list[_Block]


class _Output(BaseModel):
    message: _Message


class _Usage(BaseModel):
    input_tokens: int = Field(alias="inputTokens")
    output_tokens: int = Field(alias="outputTokens")


class _Conversation(BaseModel):
    output: _Output
    stop_reason: str = Field(alias="stopReason")
    usage: _Usage


class _Titan(BaseModel):
    embedding: list[float]
    tokens: int = Field(default=0, alias="inputTextTokenCount")


class Bedrock:
    """A model on Bedrock, by its id or inference profile, with the function's permissions."""

    name = "bedrock"

    def __init__(self, model: str) -> None:
        self.model = model

    def reply(
        self, system: str, user: str, *, history: Sequence[ChatTurn] = (), max_tokens: int, total: float
    ) -> Reply:
        """See `Provider`."""
        said = chat_messages(user, history)
        return with_temperature_fallback(
            self.name, self.model, lambda *how: self._reply(system, said, max_tokens, *how), total
        )

    def _reply(
        self, system: str, said: list[tuple[str, str]], max_tokens: int, temperature: float | None, total: float
    ) -> Reply:
        told = {} if temperature is None else {"temperature": temperature}

        def converse() -> Any:
            with aws.translate_errors():
                try:
                    return aws.client("bedrock-runtime").converse(
                        modelId=self.model,
                        system=[{"text": system}],
                        messages=[{"role": role, "content": [{"text": text}]} for role, text in said],
                        inferenceConfig={"maxTokens": max_tokens, **told},
                    )
                except ClientError as error:
                    raise _mapped(error) from None

        try:
            return _reply(http.run_with_deadline(total, converse))
        except TimeoutError:
            message = f"Bedrock did not answer within {total:g} seconds"
            raise ServiceUnavailableError(message) from None


class BedrockEmbeddings:
    """One of Amazon's Titan models on Bedrock, with the function's permissions."""

    name = "bedrock-embeddings"

    def __init__(self, model: str) -> None:
        self.model = model

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

        def invoke() -> Any:
            with aws.translate_errors():
                try:
                    answer = aws.client("bedrock-runtime").invoke_model(
                        modelId=self.model, body=json.dumps({"inputText": user}), contentType="application/json"
                    )
                except ClientError as error:
                    raise _mapped(error) from None
                return answer["body"].read()

        try:
            body = http.run_with_deadline(total, invoke)
        except TimeoutError:
            message = f"Bedrock did not answer within {total:g} seconds"
            raise ServiceUnavailableError(message) from None
        found = read(body.decode(errors="replace"), _Titan)
        return vector_reply(found.embedding, found.tokens)


def _mapped(error: ClientError) -> CounterfoilError:
    """Translate errors that are specific to models, and all others like other AWS errors."""
    about: Any = error.response
    code, text = about.get("Error", {}).get("Code", ""), about.get("Error", {}).get("Message", "")
    if code == "ValidationException" and is_context_overflow(text):
        return ContextWindowError(
            "Bedrock answered with ValidationException: the prompt is longer than the model reads"
        )
    if code == "ValidationException" and is_temperature_error(text):
        return UnsupportedTemperatureError("Bedrock answered with ValidationException: the model takes no temperature")
    if code == "ValidationException" and not is_parameter_error(text):
        return PromptRejectedError("Bedrock answered with ValidationException")
    retry_after = http.retry_after(about.get("ResponseMetadata", {}).get("HTTPHeaders", {}))
    if code == "ModelErrorException":  # status 424, but caused by the model
        return ServiceUnavailableError(f"Bedrock answered with {code}", retry_after=retry_after)
    ours = aws.translate_error(error)
    if isinstance(ours, ServiceUnavailableError):
        ours.retry_after = retry_after
    return ours


def _reply(answer: Any) -> Reply:
    found = validate(
        _Conversation,
        answer,
        lambda problem: InvalidLlmResponseError(f"Bedrock's answer failed schema validation ({problem.type})"),
    )
    return Reply(
        "".join(block.text for block in found.output.message.content),
        found.stop_reason not in ("max_tokens", "model_context_window_exceeded"),
        found.usage.input_tokens,
        found.usage.output_tokens,
        is_refused=found.stop_reason in ("content_filtered", "guardrail_intervened", "refusal"),
    )
