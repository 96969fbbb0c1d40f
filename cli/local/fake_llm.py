"""Fake language model that echoes messages, for conversations without an API key.

It serves the part of OpenAI's chat completions API that functions use, on loopback only.
"""

import errno
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from cli.failures import UsageError
from cli.local import cloud as local
from cli.local import processes
from cli.local.cloud import Cloud, State
from cli.local.deployment import DeployOptions
from cli.local.paths import CloudPaths
from cli.output import Checklist, stderr

MODEL = "scripted"
HOST = "127.0.0.1"


def settings(port: int) -> dict[str, str]:
    """Return the settings that make functions use the fake model."""
    return {
        "LLM_PROVIDER": "openai",
        "LLM_MODEL": MODEL,
        "LLM_URL": f"http://{HOST}:{port}/v1",
        "LLM_API_KEY": MODEL,
    }


def without_llm_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without the language model's settings."""
    return {name: value for name, value in settings.items() if name not in _NAMES}


def port_of(tuning: DeployOptions) -> int | None:
    """Return the port of the fake model, or None if the settings do not use it."""
    if tuning.settings.get("LLM_MODEL") != MODEL:
        return None
    port = tuning.settings.get("LLM_URL", "").removeprefix(f"http://{HOST}:").removesuffix("/v1")
    return int(port) if port.isdecimal() else None


_NAMES = frozenset(settings(0))


@dataclass(frozen=True)
class FakeLlm:
    """A running fake model."""

    port: int
    is_ours: bool
    """False if another command started the model and will end it."""


@contextmanager
def running(port: int = 0) -> Iterator[FakeLlm]:
    """Run the fake model, or use the one that another command runs on `port`."""
    try:
        server = ThreadingHTTPServer((HOST, port), _Handler)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        yield FakeLlm(port, is_ours=False)
        return
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.05,), name="fake model")
    thread.start()
    try:
        yield FakeLlm(server.server_address[1], is_ours=True)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def available(cloud: Cloud, *, requested: bool) -> Iterator[Cloud]:
    """Yield the cloud with a language model.

    If `requested`, the app uses the fake model during the block.
    """
    tuning = cloud.state.tuning
    port = port_of(tuning)
    if not requested and not tuning.settings.get("LLM_PROVIDER"):
        raise UsageError(
            "The local cloud has no language model. To use a fake model: counterfoil chat --fake-llm. For a real one: "
            "counterfoil up --setting LLM_PROVIDER=anthropic --setting LLM_MODEL=... --setting LLM_API_KEY=..."
        )
    if not requested and port is None:
        yield cloud
        return
    if requested and port is None and tuning.settings.get("LLM_PROVIDER"):
        raise UsageError("The local cloud already has a language model. Remove --fake-llm to use it.")
    with processes.interruptible(), running(port or _free_port()) as fake_model:
        if not fake_model.is_ours:  # the command that started the fake model ends it
            yield cloud
            return
        try:
            new_settings = dict(tuning.settings) | settings(fake_model.port)
            if new_settings != dict(tuning.settings):
                cloud = _deploy(cloud.paths, DeployOptions(new_settings, tuning.timeout))
            yield cloud
        finally:
            _restore_settings(cloud.paths, tuning, fake_model.port)


def _deploy(paths: CloudPaths, tuning: DeployOptions) -> Cloud:
    """Deploy the app with these settings."""
    steps = Checklist()
    with steps.live():
        return local.up(paths, steps, tuning=tuning).cloud


def _restore_settings(paths: CloudPaths, previous: DeployOptions, port: int) -> None:
    """Restore the previous settings, unless the app now uses another model."""
    state = State.load(paths)
    if state is None or port_of(state.tuning) != port:
        return
    previous_settings = {} if port_of(previous) else dict(previous.settings)
    stderr().print("Deploying the app without the fake model:")
    try:
        _deploy(
            Cloud.at(paths).paths,
            DeployOptions(previous_settings | without_llm_settings(state.tuning.settings), state.tuning.timeout),
        )
    except BaseException:
        stderr().print(
            "The fake model has stopped, but the app is still configured to use it, including for ambiguous matches. "
            "Run 'counterfoil chat' to restart the model and restore the settings on exit, or configure another model "
            "with 'counterfoil up --setting ...'.",
            style="yellow",
        )
        raise
    stderr().print(
        "The local cloud has no language model now. To chat again, use --fake-llm or "
        "'counterfoil up --setting LLM_PROVIDER=...'. Unanswered messages will not be answered."
    )


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def reply(messages: list[dict[str, Any]]) -> str:
    """Return the reply to a conversation's messages."""
    received = [str(message["content"]) for message in messages if message["role"] == "user"]
    earlier = f" Before that you said {_times(len(received) - 1)}." if received[1:] else ""
    return f"I am a fake model. You said: {received[-1]}{earlier}"


def _times(count: int) -> str:
    return "one thing" if count == 1 else f"{count} things"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        words = sum(len(str(message["content"]).split()) for message in request["messages"])
        text = reply(request["messages"])
        response = {
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": words, "completion_tokens": len(text.split())},
        }
        content = json.dumps(response).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing, because it would disturb the displayed conversation."""
