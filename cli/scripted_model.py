"""A language model that is none: it says back what it hears. For trying conversations out without a key.

It speaks as much of OpenAI's chat completions as functions ask for, on loopback alone.
"""

import errno
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from cli.local.deployment import Tuning

MODEL = "scripted"
HOST = "127.0.0.1"


def settings(port: int) -> dict[str, str]:
    """What functions are to be told so that they ask it."""
    return {
        "LLM_PROVIDER": "openai",
        "LLM_MODEL": MODEL,
        "LLM_URL": f"http://{HOST}:{port}/v1",
        "LLM_API_KEY": MODEL,
    }


def taken_out(settings: Mapping[str, str]) -> dict[str, str]:
    """What functions are told, but for what leads them to it or to any other model."""
    return {name: value for name, value in settings.items() if name not in _NAMES}


def port_of(tuning: Tuning) -> int | None:
    """Where functions that were deployed so expect it; None where they ask another model, or none."""
    if tuning.settings.get("LLM_MODEL") != MODEL:
        return None
    port = tuning.settings.get("LLM_URL", "").removeprefix(f"http://{HOST}:").removesuffix("/v1")
    return int(port) if port.isdecimal() else None


_NAMES = frozenset(settings(0))


@dataclass(frozen=True)
class Script:
    """One that answers."""

    port: int
    is_ours: bool
    """False: another command's, for as long as that one goes on."""


@contextmanager
def running(port: int = 0) -> Iterator[Script]:
    """Have it answer; where another command has it answer there already, that one goes on."""
    try:
        server = ThreadingHTTPServer((HOST, port), _Handler)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        yield Script(port, is_ours=False)
        return
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.05,), name="scripted model")
    thread.start()
    try:
        yield Script(server.server_address[1], is_ours=True)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def reply(said: list[dict[str, Any]]) -> str:
    """What it answers to the messages of a conversation, instructions among them."""
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
        """Nothing: it would stand in the middle of the conversation."""
