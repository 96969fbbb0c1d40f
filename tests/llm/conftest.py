"""Fixtures: a scripted model API, and an `Llm` that uses it and a fake clock."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from threading import Event
from uuid import UUID

import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.errors import CounterfoilError
from counterfoil.llm import Llm, LlmRequest
from counterfoil.settings import Settings
from tests.factories import NOW, make_document
from tests.llm.server import Server

PROVIDERS = ("anthropic", "openai", "bedrock")
KEY = "sk-s3cr3t"


@dataclass
class Time:
    """A fake clock that advances only in `wait`.

    `wait` records the seconds and returns immediately.
    """

    seconds_left: float = inf
    waits: list[float] = field(default_factory=list)
    canceled: Event = field(default_factory=Event)
    on_wait: Callable[[], None] = lambda: None

    def wait(self, event: Event, seconds: float) -> bool:
        self.waits.append(seconds)
        self.seconds_left -= seconds
        self.on_wait()
        return event.is_set()


@dataclass
class Guards:
    """Stub of the circuit breakers.

    `guard` raises `error` if set, and otherwise records the call.
    """

    calls: list[tuple[str, str]] = field(default_factory=list)
    error: CounterfoilError | None = None

    @contextmanager
    def guard(self, name: str) -> Iterator[None]:
        if self.error is not None:
            raise self.error
        try:
            yield
        except BaseException as error:
            self.calls.append((name, type(error).__name__))
            raise
        self.calls.append((name, "ok"))


@pytest.fixture
def model_server() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def guards() -> Guards:
    return Guards()


@pytest.fixture
def configure(model_server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Settings]]:
    """`configure(provider, **fields)` returns settings for the scripted server."""

    def configure(provider: str, **fields: str) -> Settings:
        environment = {
            "LLM_PROVIDER": provider,
            "LLM_MODEL": "the-model",
            "LLM_INPUT_USD_PER_MILLION_TOKENS": "3",
            "LLM_OUTPUT_USD_PER_MILLION_TOKENS": "15",
        }
        if provider == "bedrock":
            monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", model_server.url)
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                monkeypatch.setenv(name, "test")
            monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        else:
            environment |= {"LLM_URL": model_server.url_for(provider), "LLM_API_KEY": KEY}
        return Settings.from_environment(environment | fields)

    aws.client.cache_clear()
    yield configure
    aws.client.cache_clear()


@pytest.fixture
def model(configure: Callable[..., Settings], database: Database, guards: Guards, time: Time) -> Callable[..., Llm]:
    """`model(provider, **settings)` returns an `Llm` that calls the scripted server.

    The `Llm` waits on `time`.
    """

    def make(provider: str, **fields: str) -> Llm:
        llm = Llm.from_settings(configure(provider, **fields), database, guards)
        assert llm is not None
        llm._wait = time.wait
        llm._clock = lambda: NOW
        return llm

    return make


@pytest.fixture
def question(admin: Connection, make_tenant: Callable[..., UUID]) -> LlmRequest:
    tenant_id = make_tenant()
    work_id = make_document(admin, tenant_id)
    return LlmRequest("Answer in JSON.", "How many?", "matching", tenant_id, work_id)
