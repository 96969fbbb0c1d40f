"""Matching calls the language model within the time limit and raises its errors."""

import gc
import json
from collections.abc import Callable, Iterator
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.deadline import Deadline
from counterfoil.delivery.attempt import Succeeded, TenantAttempt
from counterfoil.errors import CancelledError, ServiceUnavailableError, StaleClaimError
from counterfoil.llm import Llm
from counterfoil.settings import Settings
from functions.matching import handler
from functions.matching.work import Embedding, match
from tests.documents.matching.fake_embeddings import answer as vector
from tests.documents.matching.fake_embeddings import english_order, german_invoice, settings_for
from tests.documents.matching.tenant_harness import NOW, TenantHarness
from tests.documents.matching.test_judge import CHOICE, TWICE, duplicate_of, sample_invoice
from tests.llm.conftest import Guards, Time
from tests.llm.server import Answer, Failure, Request, Server

OUTAGE = ClientError({"Error": {"Code": "InternalServiceError"}, "ResponseMetadata": {"HTTPStatusCode": 500}}, "Get")  # type: ignore[typeddict-item]
REFUSED = ClientError({"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "Get")  # type: ignore[typeddict-item]


@pytest.fixture
def model_server() -> Iterator[Server]:
    with Server() as model_api:
        yield model_api


@pytest.fixture
def language_model(model_server: Server) -> Callable[[Database], Llm]:
    def make(database: Database) -> Llm:
        settings = Settings.from_environment(
            {"LLM_PROVIDER": "openai", "LLM_MODEL": "m", "LLM_URL": f"{model_server.url}/v1", "LLM_API_KEY": "k"}
        )
        llm_ = Llm.from_settings(settings, database, Guards())
        assert llm_ is not None
        llm_._wait = Time().wait
        return llm_

    return make


@pytest.fixture
def harness(database: Database, admin: Connection) -> TenantHarness:
    harness = TenantHarness(database, admin, TWICE)
    harness.match_all([0, 1])
    return harness


def attempt(harness: TenantHarness, position: int, **options: Any) -> TenantAttempt:
    return TenantAttempt(harness.ids[position], harness.tenant_id, 1, 1, 1, harness.database, lambda: NOW, **options)


def test_ambiguous_match_is_judged_before_write_phase(
    harness: TenantHarness, model_server: Server, language_model: Any, admin: Connection
):
    model_server.add_steps(Answer(json.dumps({"matches": [CHOICE]})))
    outcome = match(attempt(harness, 2), language_model)
    assert isinstance(outcome, Succeeded)
    assert (harness.links(), len(model_server.requests)) == (set(), 1)
    with harness.database.tenant(harness.tenant_id) as connection:
        effects = outcome.effects(connection)
    assert (harness.links(), effects.note, len(model_server.requests)) == ({(0, 2)}, None, 1)
    assert admin.execute("SELECT work_id, purpose FROM llm_call").fetchall() == [(harness.ids[2], "matching")]


def test_model_failure_fails_the_attempt(harness: TenantHarness, model_server: Server, language_model: Any):
    model_server.add_steps(Failure(503), Failure(503), Failure(503))
    with pytest.raises(ServiceUnavailableError):
        match(attempt(harness, 2), language_model)


@pytest.mark.parametrize("seconds_left", [0.5, -1.0])
def test_attempt_without_time_left_calls_no_model(
    seconds_left: float, harness: TenantHarness, model_server: Server, language_model: Any
):
    with pytest.raises(CancelledError):
        match(attempt(harness, 2, deadline=Deadline(lambda: seconds_left)), language_model)
    assert model_server.requests == []


def test_canceled_attempt_calls_no_model(harness: TenantHarness, model_server: Server, language_model: Any):
    canceled = Event()

    def make(database: Database) -> Llm:
        canceled.set()
        llm: Llm = language_model(database)
        return llm

    with pytest.raises(CancelledError):
        match(attempt(harness, 2, deadline=Deadline(canceled=canceled)), make)
    assert model_server.requests == []


def test_superseded_attempt_with_llm_answers_is_not_deferred(
    harness: TenantHarness, model_server: Server, language_model: Any, admin: Connection
):
    harness.match_all([harness.file(sample_invoice(0)), harness.file(sample_invoice(1))])
    third, superseded = harness.file(duplicate_of(2)), Event()

    def answered(_: Request) -> str:
        superseded.set()
        return json.dumps({"matches": []})

    model_server._otherwise = answered
    with pytest.raises(StaleClaimError):
        match(attempt(harness, third, deadline=Deadline(superseded=superseded)), language_model)
    assert (len(model_server.requests), len(admin.execute("SELECT FROM llm_judgment").fetchall())) == (1, 1)


def test_superseded_attempt_stops_calling_the_model(harness: TenantHarness, model_server: Server, language_model: Any):
    superseded = Event()

    def make(database: Database) -> Llm:
        llm: Llm = language_model(database)
        llm._wait = Time(on_wait=superseded.set).wait  # superseded while waiting to retry the call
        return llm

    model_server.add_steps(Failure(503), Answer(json.dumps({"matches": [CHOICE]})))
    with pytest.raises(StaleClaimError):
        match(attempt(harness, 2, deadline=Deadline(superseded=superseded)), make)
    assert len(model_server.requests) == 1


def test_unused_model_is_not_created(harness: TenantHarness):
    def never(_: Database) -> Llm:
        raise AssertionError

    assert isinstance(match(attempt(harness, 0), never), Succeeded)


def test_document_is_embedded_before_matching(
    database: Database, admin: Connection, model_server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(handler, "settings", lambda: settings_for(model_server))
    model = Embedding("openai/m", handler.embedding_model)
    model_server._otherwise = vector
    harness = TenantHarness(database, admin, [english_order(), german_invoice()])
    for position in (0, 1):
        outcome = match(attempt(harness, position), embedding=model)
        assert isinstance(outcome, Succeeded)
        with harness.database.tenant(harness.tenant_id) as connection:
            outcome.effects(connection)
    assert (harness.links(), len(model_server.requests)) == ({(0, 1)}, 2)


def test_unavailable_embedding_model_does_not_fail_attempts(
    database: Database, admin: Connection, model_server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(handler, "settings", lambda: settings_for(model_server, LLM_RETRY_BASE_SECONDS="0"))
    harness = TenantHarness(database, admin, [english_order()])
    model_server.add_steps(*[Failure(503)] * 3)
    assert isinstance(match(attempt(harness, 0), embedding=Embedding("openai/m", handler.embedding_model)), Succeeded)


@pytest.mark.parametrize("empty", ["{}", "sk-1", OUTAGE, REFUSED])
def test_missing_or_changed_api_key_is_reread(
    empty: str | Exception,
    harness: TenantHarness,
    model_server: Server,
    admin: Connection,
    monkeypatch: pytest.MonkeyPatch,
):
    configured = Settings.from_environment(
        {"LLM_PROVIDER": "openai", "LLM_MODEL": "m", "LLM_URL": f"{model_server.url}/v1", "SECRETS_ARN": "arn"}
    )
    manager = Mock()
    monkeypatch.setattr(handler, "settings", lambda: configured)
    monkeypatch.setattr(aws, "client", lambda _: manager)
    monkeypatch.setattr(aws, "_secret_cache", {})
    monkeypatch.setattr(aws, "SECRET_CACHE_SECONDS", 0)  # cached values expire immediately

    def stored(what: str | Exception) -> None:
        manager.get_secret_value.side_effect = [what if isinstance(what, Exception) else {"SecretString": what}] * 2

    stored(empty)
    for _ in range(2):
        with pytest.raises(ServiceUnavailableError):
            match(attempt(harness, 2), handler.language_model)
    assert (model_server.requests, admin.execute("SELECT FROM breaker").fetchall()) == ([], [])
    for key, position in (("k-1", 2), ("k-2", harness.file(duplicate_of(2)))):
        stored(json.dumps({"LLM_API_KEY": key}))
        model_server.add_steps(Answer(json.dumps({"matches": []})))
        assert isinstance(match(attempt(harness, position), handler.language_model), Succeeded)
    assert [request.headers["authorization"] for request in model_server.requests] == ["Bearer k-1", "Bearer k-2"]


def test_error_for_missing_api_key_names_remedy(harness: TenantHarness, monkeypatch: pytest.MonkeyPatch):
    configured = Settings.from_environment({"LLM_PROVIDER": "anthropic", "LLM_MODEL": "m"})
    monkeypatch.setattr(handler, "settings", lambda: configured)
    with pytest.raises(ServiceUnavailableError, match=r"LLM_API_KEY is missing.*: add it to the secret"):
        match(attempt(harness, 2), handler.language_model)


@pytest.fixture
def collector() -> Iterator[None]:
    """Reset Python's garbage collector to its defaults, and restore it afterwards."""
    before = gc.get_threshold()
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_handler_reduces_garbage_collection(collector: None, database_url: str, monkeypatch: pytest.MonkeyPatch):
    environment = {
        "DATABASE_URL": database_url,
        "WORKER": '{"name": "matching", "timeout": 300, "permits": 1, "start_margin": 30}',
        "QUEUE_URLS": '{"matching": "https://queue.test/matching"}',
    }
    monkeypatch.setattr(handler, "settings", lambda: Settings.from_environment(environment))
    handler.consumer.cache_clear()
    try:
        handler.consumer().database.close()
    finally:
        handler.consumer.cache_clear()
    assert gc.get_freeze_count() > 10_000
    assert gc.get_threshold()[0] > 7_000
