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
    """A model on Bedrock, called with the Lambda function's permissions.

    `model` is the model's id or inference profile.
    """

    name = "bedrock"

    def __init__(self, model: str) -> None:
        self.model = model

    def reply(
        self, system: str, user: str, *, history: Sequence[ChatTurn] = (), max_tokens: int, total: float
    ) -> Reply:
        """See `Provider`."""
        conversation = chat_messages(user, history)
        return with_temperature_fallback(
            self.name, self.model, lambda *options: self._reply(system, conversation, max_tokens, *options), total
        )

    def _reply(
        self, system: str, conversation: list[tuple[str, str]], max_tokens: int, temperature: float | None, total: float
    ) -> Reply:
        sampling = {} if temperature is None else {"temperature": temperature}

        def converse() -> Any:
            with aws.translate_errors():
                try:
                    return aws.client("bedrock-runtime").converse(
                        modelId=self.model,
                        system=[{"text": system}],
                        messages=[{"role": role, "content": [{"text": text}]} for role, text in conversation],
                        inferenceConfig={"maxTokens": max_tokens, **sampling},
                    )
                except ClientError as error:
                    raise _translate_error(error) from None

        try:
            return _to_reply(http.run_with_deadline(total, converse))
        except TimeoutError:
            message = f"Bedrock did not answer within {total:g} seconds"
            raise ServiceUnavailableError(message) from None


class BedrockEmbeddings:
    """An Amazon Titan embedding model on Bedrock.

    Calls use the Lambda function's permissions.
    """

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
                    response = aws.client("bedrock-runtime").invoke_model(
                        modelId=self.model, body=json.dumps({"inputText": user}), contentType="application/json"
                    )
                except ClientError as error:
                    raise _translate_error(error) from None
                return response["body"].read()

        try:
            body = http.run_with_deadline(total, invoke)
        except TimeoutError:
            message = f"Bedrock did not answer within {total:g} seconds"
            raise ServiceUnavailableError(message) from None
        embedding = read(body.decode(errors="replace"), _Titan)
        return vector_reply(embedding.embedding, embedding.tokens)


def _translate_error(error: ClientError) -> CounterfoilError:
    """Map an error from Bedrock.

    Errors that are not specific to models are mapped by `aws`.
    """
    response: Any = error.response
    code, text = response.get("Error", {}).get("Code", ""), response.get("Error", {}).get("Message", "")
    if code == "ValidationException" and is_context_overflow(text):
        return ContextWindowError(
            "Bedrock answered with ValidationException: the prompt exceeds the model's context window"
        )
    if code == "ValidationException" and is_temperature_error(text):
        return UnsupportedTemperatureError(
            "Bedrock answered with ValidationException: the model does not support a temperature"
        )
    if code == "ValidationException" and not is_parameter_error(text):
        return PromptRejectedError("Bedrock answered with ValidationException")
    retry_after = http.retry_after(response.get("ResponseMetadata", {}).get("HTTPHeaders", {}))
    if code == "ModelErrorException":  # status 424, although the model caused the error
        return ServiceUnavailableError(f"Bedrock answered with {code}", retry_after=retry_after)
    translated = aws.translate_error(error)
    if isinstance(translated, ServiceUnavailableError):
        translated.retry_after = retry_after
    return translated


def _to_reply(response: Any) -> Reply:
    conversation = validate(
        _Conversation,
        response,
        lambda problem: InvalidLlmResponseError(f"Bedrock's answer failed schema validation ({problem.type})"),
    )
    return Reply(
        "".join(block.text for block in conversation.output.message.content),
        conversation.stop_reason not in ("max_tokens", "model_context_window_exceeded"),
        conversation.usage.input_tokens,
        conversation.usage.output_tokens,
        is_refused=conversation.stop_reason in ("content_filtered", "guardrail_intervened", "refusal"),
    )
