"""Fake language model that echoes messages, for trying conversations without an API key.

It serves the part of OpenAI's chat completions that functions use, on loopback only.
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
from cli.local.place import CloudFolder
from cli.output import Checklist, aside

MODEL = "scripted"
HOST = "127.0.0.1"


def settings(port: int) -> dict[str, str]:
    """Return the settings with which functions use it."""
    return {
        "LLM_PROVIDER": "openai",
        "LLM_MODEL": MODEL,
        "LLM_URL": f"http://{HOST}:{port}/v1",
        "LLM_API_KEY": MODEL,
    }


def without_llm_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings without those of any language model."""
    return {name: value for name, value in settings.items() if name not in _NAMES}


def port_of(tuning: DeployOptions) -> int | None:
    """Return its port in the settings of a deployment; None if they use another model or none."""
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
    """False if another command started it and will end it."""


@contextmanager
def running(port: int = 0) -> Iterator[FakeLlm]:
    """Run the fake model, or use the one that another command runs."""
    try:
        server = ThreadingHTTPServer((HOST, port), _Handler)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        yield FakeLlm(port, is_ours=False)
        return
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.05,), name="scripted model")
    thread.start()
    try:
        yield FakeLlm(server.server_address[1], is_ours=True)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def available(cloud: Cloud, *, wanted: bool) -> Iterator[Cloud]:
    """Provide a cloud with a model. While it is the fake one, the app is deployed with its settings."""
    told = cloud.state.tuning
    port = port_of(told)
    if not wanted and not told.settings.get("LLM_PROVIDER"):
        raise UsageError(
            "The local cloud has no language model. 'counterfoil chat --scripted' has a script answer; for a real one: "
            "counterfoil up --setting LLM_PROVIDER=anthropic --setting LLM_MODEL=... --setting LLM_API_KEY=..."
        )
    if not wanted and port is None:
        yield cloud
        return
    if wanted and port is None and told.settings.get("LLM_PROVIDER"):
        raise UsageError("The local cloud has a language model already: without --scripted it answers.")
    with processes.interruptible(), running(port or _free_port()) as script:
        if not script.is_ours:  # the command that started it ends it
            yield cloud
            return
        try:
            wanted_settings = dict(told.settings) | settings(script.port)
            if wanted_settings != dict(told.settings):
                cloud = _tell(cloud.place, DeployOptions(wanted_settings, told.timeout))
            yield cloud
        finally:
            _put_back(cloud.place, told, script.port)


def _tell(place: CloudFolder, tuning: DeployOptions) -> Cloud:
    """Deploy the app with these settings."""
    steps = Checklist()
    with steps.live():
        return local.up(place, steps, tuning=tuning).cloud


def _put_back(place: CloudFolder, before: DeployOptions, port: int) -> None:
    """Restore the settings from before, unless they now name another model."""
    found = State.load(place)
    if found is None or port_of(found.tuning) != port:
        return
    had = {} if port_of(before) else dict(before.settings)
    aside().print("The script ends, so the app is deployed without it:")
    try:
        _tell(
            Cloud.at(place).place,
            DeployOptions(had | without_llm_settings(found.tuning.settings), found.tuning.timeout),
        )
    except BaseException:
        aside().print(
            "The script has ended, but the app would still ask it, also about documents in doubt. 'counterfoil chat' "
            "brings it back, and repairs the settings at its end; 'counterfoil up --setting ...' names another model.",
            style="yellow",
        )
        raise
    aside().print(
        "It has no language model now: a chat needs --scripted again, or 'counterfoil up --setting LLM_PROVIDER=...'. "
        "Messages that have no answer yet get none."
    )


def _free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])


def reply(said: list[dict[str, Any]]) -> str:
    """Return the reply to the messages of a conversation, including instructions."""
    heard = [str(one["content"]) for one in said if one["role"] == "user"]
    before = f" Before that you said {_times(len(heard) - 1)}." if heard[1:] else ""
    return f"I am a script, and heard: {heard[-1]}{before}"


def _times(count: int) -> str:
    return "one thing" if count == 1 else f"{count} things"


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)))
        words = sum(len(str(one["content"]).split()) for one in asked["messages"])
        text = reply(asked["messages"])
        answer = {
            "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": words, "completion_tokens": len(text.split())},
        }
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Log nothing, because it would disturb the displayed conversation."""
