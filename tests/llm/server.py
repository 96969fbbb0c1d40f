"""Scripted model API on loopback, for tests of code that calls language models.

The request path selects the API: Anthropic Messages, OpenAI chat completions and embeddings, Bedrock Converse and Titan
embeddings. For embeddings, an answer's text is the vector as JSON. Each request is answered by the next step of the
script, and after the last step by `respond`. Other paths support only raw steps.
"""

import json
import re
import socket
import ssl
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from threading import Event, Lock, Thread
from typing import Any, Literal

Api = Literal["anthropic", "openai", "bedrock", "openai-embeddings", "bedrock-embeddings", "raw"]
_PATHS: tuple[tuple[str, Api], ...] = (
    (r"/v1/messages$", "anthropic"),
    (r"/chat/completions$", "openai"),
    (r"/model/.+/converse$", "bedrock"),
    (r"/embeddings$", "openai-embeddings"),
    (r"/model/.+/invoke$", "bedrock-embeddings"),
)
PAUSE = 0.02
"""Seconds between the bytes of a slow answer."""


@dataclass(frozen=True)
class Request:
    """A request that the server received."""

    api: Api
    path: str
    headers: Mapping[str, str]
    """Header values by lower-case name."""
    body: Any

    @property
    def system(self) -> str:
        """The system prompt."""
        if self.api == "anthropic":
            return str(self.body["system"])
        if self.api == "bedrock":
            return str(self.body["system"][0]["text"])
        return str(self.body["messages"][0]["content"])

    @property
    def user(self) -> str:
        """Text of the last user message, or the text to embed."""
        if self.api in ("openai-embeddings", "bedrock-embeddings"):
            return str(self.body["input" if self.api == "openai-embeddings" else "inputText"])
        return self.conversation[-1][1]

    @property
    def conversation(self) -> list[tuple[str, str]]:
        """All messages as pairs of role and text, without the system prompt."""
        text = (lambda content: content[0]["text"]) if self.api == "bedrock" else str
        turns = [(str(message["role"]), str(text(message["content"]))) for message in self.body["messages"]]
        return [turn for turn in turns if turn[0] != "system"]


@dataclass(frozen=True)
class Answer:
    """A successful response of the model."""

    text: str
    truncated: bool = False
    refused: bool = False
    """True if the model or its content filter declined to answer."""


@dataclass(frozen=True)
class Raw:
    """A literal HTTP response, sent correctly or with the fault in `behavior`.

    `slow_headers` and `slow_body` send that part byte by byte until the client disconnects. `reset` sends half of the
    body and resets the connection. `stalled` sends the body with a Content-Length that is too large. `silent` reads the
    request and never responds.
    """

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    behavior: Literal["well", "slow_headers", "slow_body", "stalled", "reset", "silent"] = "well"


@dataclass(frozen=True)
class Failure:
    """An error response with the provider's original body."""

    status: int
    retry_after: str | None = None
    too_long: bool = False
    """With status 400: True if the prompt exceeds the context window."""


Step = Answer | Raw | Failure


class Server:
    """Scripted server on loopback, used as a context manager."""

    def __init__(
        self,
        *script: Step,
        respond: Callable[[Request], str] | None = None,
        failure_rate: float = 0.0,
        seed: int = 0,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Serve the steps of `script`, then the answers that `respond` returns.

        Requests after the script fail with the probability `failure_rate`, in a sequence determined by `seed`.
        """
        self.script = list(script)
        self.requests: list[Request] = []
        self.max_concurrent_requests = 0
        """Highest number of concurrent requests so far."""
        self._in_progress = 0
        self._otherwise = respond
        self._failing = failure_rate
        self._random = Random(seed)
        self._lock = Lock()
        self.ended = Event()
        self._server = _Quiet(("127.0.0.1", port), partial(_Handler, self))
        self._server.daemon_threads = True
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    def __enter__(self) -> "Server":
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), name="scripted model")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        """Base URL, without a path."""
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def url_for(self, provider: str) -> str:
        """Return the LLM_URL by which `provider` calls this server."""
        return f"{self.url}/v1" if provider == "openai" else self.url

    def add_steps(self, *steps: Step) -> None:
        """Append steps to the script."""
        with self._lock:
            self.script += steps

    def next(self, request: Request) -> Step:
        """Record a request and return the step that answers it."""
        with self._lock:
            self.requests.append(request)
            if self.script:
                return self.script.pop(0)
            if self._otherwise is None:
                return Raw(500, b"the script is at its end")
            if self._random.random() < self._failing:
                mishaps: list[Step] = [Failure(429), Failure(503), Failure(529), Answer("no JSON")]
                return self._random.choice(mishaps)
        return Answer(self._otherwise(request))

    def on_request_start(self) -> None:
        """Count a request as started."""
        with self._lock:
            self._in_progress += 1
            self.max_concurrent_requests = max(self.max_concurrent_requests, self._in_progress)

    def on_request_end(self) -> None:
        """Count a request as finished."""
        with self._lock:
            self._in_progress -= 1


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing, because slow responses cause expected disconnects."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, server: Server, *args: Any) -> None:
        self._scripted = server
        super().__init__(*args)

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        api: Api = next((api for pattern, api in _PATHS if re.search(pattern, self.path)), "raw")
        body = json.loads(content) if api != "raw" else content
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._scripted.on_request_start()
        try:
            step = self._scripted.next(Request(api, self.path, headers, body))
            self._send(step if isinstance(step, Raw) else _ENCODERS[api](step))
        finally:
            self._scripted.on_request_end()
            self.close_connection = True

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def _send(self, raw: Raw) -> None:
        head = [f"HTTP/1.1 {raw.status} {'OK' if raw.status < 400 else 'Not so'}", "Content-Type: application/json"]
        head += [f"{name}: {value}" for name, value in raw.headers.items()]
        if "content-length" not in {name.lower() for name in raw.headers}:
            head.append(
                f"Content-Length: {len(raw.body) + (1_000_000 if raw.behavior in {'slow_body', 'stalled'} else 0)}"
            )
        top = "\r\n".join([*head, "Connection: close", "", ""]).encode()
        if raw.behavior == "silent":
            self._scripted.ended.wait(60)
        elif raw.behavior == "slow_headers":
            self._drip(top[:-2])
        elif raw.behavior == "slow_body":
            self.wfile.write(top)
            self._drip(raw.body)
        elif raw.behavior == "stalled":
            self.wfile.write(top + raw.body)
            self.wfile.flush()
            self._scripted.ended.wait(60)
        elif raw.behavior == "reset":
            self.wfile.write(top + raw.body[: len(raw.body) // 2])
            self.wfile.flush()
            # close() sends a reset only with a linger time of 0 seconds.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        else:
            self.wfile.write(top + raw.body)

    def _drip(self, data: bytes) -> None:
        """Send `data` byte by byte, then spaces.

        Sending ends when the client disconnects or the server stops.
        """
        position = 0
        while not self._scripted.ended.wait(PAUSE):
            self.wfile.write(data[position : position + 1] or b" ")
            self.wfile.flush()
            position += 1


def _json(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Raw:
    return Raw(status, json.dumps(content).encode(), headers or {})


def _retry(step: Failure) -> dict[str, str]:
    return {} if step.retry_after is None else {"Retry-After": step.retry_after}


_ANTHROPIC_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


def _anthropic(step: Answer | Failure) -> Raw:
    if isinstance(step, Answer):
        content = [{"type": "text", "text": step.text}] if step.text else []
        return _json(
            {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "claude",
                "content": content,
                "stop_reason": "max_tokens" if step.truncated else "refusal" if step.refused else "end_turn",
                "stop_sequence": None,
                "usage": {"input_tokens": 120, "output_tokens": 30},
            }
        )
    message = "prompt is too long: 208656 tokens > 200000 maximum" if step.too_long else "Something."
    kind = _ANTHROPIC_ERRORS.get(step.status, "api_error")
    return _json({"type": "error", "error": {"type": kind, "message": message}}, step.status, _retry(step))


def _openai(step: Answer | Failure) -> Raw:
    if isinstance(step, Answer):
        return _json(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "model": "gpt",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": step.text or None},
                        "finish_reason": "length" if step.truncated else "content_filter" if step.refused else "stop",
                    }
                ],
                "usage": {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150},
            }
        )
    error = {"message": "Something.", "type": "server_error", "param": None, "code": None}
    if step.too_long:
        error = {
            "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 "
            "tokens. Please reduce the length of the messages.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    return _json({"error": error}, step.status, _retry(step))


_BEDROCK_ERRORS = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}


def _bedrock(step: Answer | Failure) -> Raw:
    if isinstance(step, Answer):
        return _json(
            {
                "output": {"message": {"role": "assistant", "content": [{"text": step.text}] if step.text else []}},
                "stopReason": "max_tokens"
                if step.truncated
                else "guardrail_intervened"
                if step.refused
                else "end_turn",
                "usage": {"inputTokens": 120, "outputTokens": 30, "totalTokens": 150},
                "metrics": {"latencyMs": 1},
            }
        )
    kind = _BEDROCK_ERRORS.get(step.status, "InternalServerException")
    message = "Input is too long for requested model." if step.too_long else "Something."
    return _json({"message": message}, step.status, {"x-amzn-ErrorType": kind, **_retry(step)})


def _vector(step: Answer) -> Any:
    return json.loads(step.text) if step.text.startswith("[") else step.text


def _openai_embeddings(step: Answer | Failure) -> Raw:
    if isinstance(step, Failure):
        return _openai(step)
    data = [{"object": "embedding", "index": 0, "embedding": _vector(step)}]
    return _json({"object": "list", "model": "m", "data": data, "usage": {"prompt_tokens": 40, "total_tokens": 40}})


def _bedrock_embeddings(step: Answer | Failure) -> Raw:
    if isinstance(step, Failure):
        return _bedrock(step)
    vector = _vector(step)
    return _json({"embedding": vector, "inputTextTokenCount": 40, "embeddingsByType": {"float": vector}})


def _raw(step: Answer | Failure) -> Raw:
    if isinstance(step, Answer):
        return Raw(200, step.text.encode())
    return Raw(step.status, b"{}", _retry(step))


_ENCODERS: Mapping[str, Callable[[Answer | Failure], Raw]] = {
    "anthropic": _anthropic,
    "openai": _openai,
    "bedrock": _bedrock,
    "openai-embeddings": _openai_embeddings,
    "bedrock-embeddings": _bedrock_embeddings,
    "raw": _raw,
}


def answers(contents: Iterable[Any]) -> list[Answer]:
    """Return one answer for each of `contents`, serialized as JSON."""
    return [Answer(json.dumps(content)) for content in contents]
