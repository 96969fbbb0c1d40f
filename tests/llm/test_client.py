"""Model calls: retries, time limits, circuit breaker and call records."""

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import count
from math import inf
from threading import Event
from typing import Any

import pytest
from pydantic import BaseModel

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import CommitUnknownError, Connection, Database
from counterfoil.deadline import Deadline
from counterfoil.errors import (
    BreakerOpenError,
    CancelledError,
    ContextWindowError,
    InvalidLlmResponseError,
    InvalidSettingsError,
    RejectedRequestError,
    RejectedStatementError,
    ServiceUnavailableError,
)
from counterfoil.llm import ChatTurn, Llm, LlmRequest, PromptRejectedError, client
from counterfoil.settings import Settings
from tests.factories import NOW
from tests.llm.conftest import KEY, PROVIDERS, Guards, Time
from tests.llm.server import Answer, Failure, Raw, Request, Server, Step

Make = Callable[..., Llm]
GOOD = Answer('{"matches": [1]}')
BODY = b'{"content": [{"type": "text", "text": "{}"}]}'


class Form(BaseModel):
    matches: list[int]


@pytest.fixture(params=PROVIDERS)
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def for_providers(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("provider", names, indirect=True)


@pytest.fixture
def ask(provider: str, model: Make, model_server: Server, question: LlmRequest, time: Time) -> Callable[..., Form]:
    """`ask(*script, **settings)` requests JSON once.

    The server answers with `script`.
    """

    def attempt(*script: Step, **fields: str) -> Form:
        model_server.add_steps(*script)
        fields = {"LLM_TOTAL_TIMEOUT_SECONDS": "5"} | fields
        deadline = Deadline(lambda: time.seconds_left, time.canceled)
        return model(provider, **fields).complete_json(question, Form, deadline).content

    return attempt


def recorded_calls(admin: Connection) -> list[tuple[Any, ...]]:
    return admin.execute("SELECT outcome, input_tokens, output_tokens FROM llm_call ORDER BY ctid").fetchall()


# Attempts


@pytest.mark.parametrize(
    "failure",
    [
        Failure(429),
        Failure(500),
        Failure(503),
        Raw(body=BODY * 9, behavior="reset"),
        Raw(body=BODY[:-9]),
        Raw(503, b"<html>Bad gateway</html>"),
        Answer("I am sorry."),
        Answer('{"matches": '),
        Answer('{"matches": "none"}'),
        Answer("{}"),
        Answer(""),
    ],
    ids=lambda step: repr(step)[:40],
)
def test_transient_failure_is_retried(failure: Step, ask: Any, time: Time, model_server: Server):
    assert ask(failure, failure, GOOD) == Form(matches=[1])
    assert (len(model_server.requests), time.waits) == (3, [2, 4])


def test_slow_provider_is_retried(ask: Any, time: Time, model_server: Server):
    slow = [Raw(body=BODY, behavior=how) for how in ("slow_headers", "slow_body")]
    assert ask(*slow, GOOD, LLM_TOTAL_TIMEOUT_SECONDS="0.2") == Form(matches=[1])
    assert len(model_server.requests) == 3


@pytest.mark.parametrize(
    ("failure", "error"), [(Failure(503), ServiceUnavailableError), (Answer("?"), InvalidLlmResponseError)]
)
def test_third_failure_raises_the_last_error(failure: Step, error: type[Exception], ask: Any, model_server: Server):
    with pytest.raises(error):
        ask(failure, failure, failure, GOOD)
    assert model_server.script == [GOOD]


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_rejected_request_is_not_retried(status: int, ask: Any, time: Time, model_server: Server):
    with pytest.raises(RejectedRequestError):
        ask(Failure(status), GOOD)
    assert (model_server.script, time.waits) == ([GOOD], [])


@pytest.mark.parametrize(
    "failure", [Failure(400, too_long=True), Answer('{"matches": [1', truncated=True), Answer("", True)]
)
def test_context_overflow_or_truncation_is_not_retried(failure: Step, ask: Any, model_server: Server):
    with pytest.raises(ContextWindowError):
        ask(failure, GOOD)
    assert model_server.script == [GOOD]


def test_empty_response_is_not_an_empty_list(ask: Any, model_server: Server):
    assert ask(Answer('{"matches": []}')) == Form(matches=[])
    for empty_response in (Answer(""), Answer("{}"), Answer("null"), Answer("[]"), Raw(body=b"")):
        with pytest.raises((InvalidLlmResponseError, ServiceUnavailableError)):
            ask(empty_response, empty_response, empty_response)


# Conversations


def test_chat_returns_the_model_text(
    model: Make, provider: str, model_server: Server, question: LlmRequest, time: Time
):
    model_server.add_steps(Answer(""), Answer(" I am \x00 fine.\n"))
    message = replace(question, history=[ChatTurn("Hello", "Good day")])
    reply = model(provider).chat(message, Deadline(lambda: time.seconds_left, time.canceled))
    assert (reply.content, reply.output_tokens, time.waits) == ("I am \ufffd fine.", 30, [2])
    assert [request.conversation[:-1] for request in model_server.requests] == [
        [("user", "Hello"), ("assistant", "Good day")]
    ] * 2


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (Answer("No.", refused=True), PromptRejectedError),
        (Answer("", refused=True), PromptRejectedError),
        (Answer("Once upon", truncated=True), ContextWindowError),
        (Failure(400, too_long=True), ContextWindowError),
        (Failure(400), PromptRejectedError),
    ],
)
def test_permanent_chat_failure_is_not_retried(
    failure: Step,
    error: type[Exception],
    model: Make,
    provider: str,
    model_server: Server,
    question: LlmRequest,
    time: Time,
):
    model_server.add_steps(failure, GOOD)
    with pytest.raises(error):
        model(provider).chat(question, Deadline(lambda: time.seconds_left, time.canceled))
    assert model_server.script == [GOOD]


@pytest.mark.parametrize("text", [GOOD.text, "", "I would rather not."])
def test_refusal_text_is_not_returned_as_answer(
    text: str, ask: Callable[..., Form], model_server: Server, admin: Connection
):
    with pytest.raises(PromptRejectedError, match="declined to answer"):
        ask(Answer(text, refused=True))
    assert [outcome for outcome, *_ in recorded_calls(admin)] == ["rejected"]


# Delays between attempts, on a fake clock


@for_providers("anthropic")
def test_delays_double_up_to_eight_seconds(ask: Any, time: Time):
    with pytest.raises(ServiceUnavailableError):
        ask(Failure(503), Failure(503), Failure(503), LLM_RETRY_BASE_SECONDS="5")
    assert time.waits == [5, 8]


def test_retry_after_extends_the_delay(ask: Any, time: Time):
    assert ask(Failure(429, retry_after="7"), Failure(503, retry_after="1"), GOOD) == Form(matches=[1])
    assert time.waits == [7, 4]  # Retry-After never shortens the backoff


def test_delay_beyond_remaining_time_raises_immediately(ask: Any, time: Time, model_server: Server):
    time.seconds_left = 60
    with pytest.raises(ServiceUnavailableError) as error:
        ask(Failure(429, retry_after="60"), GOOD)
    assert (error.value.retry_after, time.waits, model_server.script) == (60, [], [GOOD])


@for_providers("openai")
@pytest.mark.parametrize(("left", "attempts"), [(2.9, 1), (3.1, 2), (6.9, 2), (7.1, 3)])
def test_attempt_requires_enough_remaining_time(left: float, attempts: int, ask: Any, time: Time, model_server: Server):
    time.seconds_left = left
    with pytest.raises(ServiceUnavailableError):
        ask(Failure(503), Failure(503), Failure(503))
    assert len(model_server.requests) == attempts


@for_providers("openai")
@pytest.mark.parametrize("left", [0.9, 0.0, -5.0])
def test_call_is_not_made_with_too_little_time(
    left: float, ask: Any, time: Time, model_server: Server, admin: Connection
):
    time.seconds_left = left
    with pytest.raises(CancelledError):
        ask(GOOD)
    assert (model_server.requests, recorded_calls(admin)) == ([], [])


def test_deadline_during_call_is_not_a_provider_failure(
    provider: str, model: Make, question: LlmRequest, guards: Guards, model_server: Server, admin: Connection
):
    model_server.add_steps(Raw(behavior="silent"))
    left = iter([1.0, 0.2, -0.1, -0.1])  # remaining seconds before the call, for its timeout and after it
    with pytest.raises(CancelledError):
        model(provider).complete_json(question, Form, Deadline(lambda: next(left)))
    assert guards.calls == [(f"llm:{provider}", "CancelledError")]
    assert recorded_calls(admin) == [("canceled", None, None)]


@for_providers("anthropic")
def test_cancellation_ends_the_delay_between_attempts(ask: Any, time: Time, model_server: Server):
    time.on_wait = time.canceled.set
    with pytest.raises(CancelledError):
        ask(Failure(503), GOOD)
    assert (time.waits, model_server.script) == ([2], [GOOD])


@for_providers("anthropic")
def test_canceled_attempt_makes_no_call(ask: Any, time: Time, model_server: Server):
    time.canceled.set()
    with pytest.raises(CancelledError):
        ask(GOOD)
    assert model_server.requests == []


@for_providers("anthropic")
def test_cancellation_ends_a_real_wait(
    provider: str, configure: Callable[..., Settings], database: Database, guards: Guards, question: LlmRequest,
    model_server: Server,
):  # fmt: skip
    llm = Llm.from_settings(configure(provider, LLM_RETRY_BASE_SECONDS="8"), database, guards)
    assert llm is not None
    canceled = Event()
    checks = count(1)

    def time_left() -> float:
        if next(checks) == 3:  # the third check is the last one before the delay
            canceled.set()
        return inf

    model_server.add_steps(Failure(503))
    with pytest.raises(CancelledError, match="while waiting"):
        llm.complete_json(question, Form, Deadline(time_left, canceled))


# Circuit breaker


def test_calls_use_their_providers_breaker(provider: str, ask: Any, guards: Guards):
    ask(Failure(503), Answer("?"), GOOD)
    name = f"llm:{provider}"
    assert guards.calls == [(name, "ServiceUnavailableError"), (name, "InvalidLlmResponseError"), (name, "ok")]


@for_providers("anthropic")
def test_open_breaker_prevents_call_and_record(
    ask: Any, guards: Guards, model_server: Server, time: Time, admin: Connection
):
    guards.error = BreakerOpenError("open", until=NOW)
    with pytest.raises(BreakerOpenError):
        ask(GOOD)
    assert (model_server.requests, time.waits, recorded_calls(admin)) == ([], [], [])


@for_providers("openai")
@pytest.mark.parametrize(
    ("failure", "error"),
    [(Failure(503), ServiceUnavailableError), (Answer("?"), InvalidLlmResponseError)],
    ids=["503", "?"],
)
def test_breaker_opening_between_attempts_raises_last_error(
    failure: Step, error: type[Exception], ask: Any, guards: Guards, model_server: Server, time: Time
):
    def opened() -> None:
        guards.error = BreakerOpenError("open", until=NOW)

    time.on_wait = opened
    with pytest.raises(error):
        ask(failure, GOOD)
    assert model_server.script == [GOOD]


@for_providers("openai")
def test_failures_open_breaker_for_next_request(
    provider: str, configure: Any, database: Database, question: LlmRequest, model_server: Server, time: Time
):
    breakers = Breakers(database, lambda: NOW, failures=2, open_seconds=30)
    llm = Llm.from_settings(configure(provider), database, breakers)
    assert llm is not None
    llm._wait = time.wait
    model_server.add_steps(Failure(503), Failure(503), GOOD)
    with pytest.raises(ServiceUnavailableError):
        llm.complete_json(question, Form, Deadline())
    with pytest.raises(BreakerOpenError) as error:
        llm.complete_json(question, Form, Deadline())
    assert error.value.until >= NOW + timedelta(seconds=30)
    assert model_server.script == [GOOD]


# Call records


def test_every_call_is_recorded(provider: str, ask: Any, question: LlmRequest, admin: Connection):
    ask(Failure(503), Answer("?"), GOOD)
    assert recorded_calls(admin) == [("unavailable", None, None), ("invalid_answer", 120, 30), ("answered", 120, 30)]
    rows = admin.execute(
        "SELECT tenant_id, work_id, purpose, provider, model, latency_ms >= 0, cost_usd, created_at FROM llm_call"
    ).fetchall()
    about = (question.tenant_id, question.work_id, "matching", provider, "the-model", True)
    assert [row[:6] for row in rows] == [about] * 3
    assert [None if row[6] is None else float(row[6]) for row in rows] == [None, 0.00081, 0.00081]
    assert {row[7] for row in rows} == {NOW}


@for_providers("openai")
@pytest.mark.parametrize(
    ("step", "outcome"),
    [
        (Failure(401), ("rejected", None, None)),
        (Failure(400, too_long=True), ("too_long", None, None)),
        (Answer("{", truncated=True), ("too_long", 120, 30)),
    ],
)
def test_permanent_failure_is_recorded(step: Step, outcome: Any, ask: Any, admin: Connection):
    with pytest.raises(RejectedRequestError):
        ask(step)
    assert recorded_calls(admin) == [outcome]


@for_providers("openai")
def test_answer_is_returned_despite_failed_record_update(
    ask: Any, admin: Connection, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
):
    admin.execute("REVOKE UPDATE ON llm_call FROM counterfoil_worker")
    assert ask(GOOD) == Form(matches=[1])
    assert "was not recorded" in capsys.readouterr().out + caplog.text
    assert recorded_calls(admin) == [(None, None, None)]  # the call is recorded without its outcome


@for_providers("openai")
def test_failed_recording_prevents_the_call(ask: Any, admin: Connection, model_server: Server):
    admin.execute("REVOKE INSERT ON llm_call FROM counterfoil_worker")
    with pytest.raises(RejectedStatementError):
        ask(GOOD)
    assert model_server.requests == []


@for_providers("openai")
def test_call_is_recorded_before_it_ends(ask: Any, admin: Connection, model_server: Server):
    during: list[Any] = []

    def look(_: Request) -> str:
        during.extend(recorded_calls(admin))
        return GOOD.text

    model_server._otherwise = look
    ask()
    assert during == [(None, None, None)]  # a call counts even if the process crashes before the call ends


@for_providers("openai")
@pytest.mark.parametrize("which", ["_begin", "_end"])
def test_record_with_unknown_commit_is_written_once(
    which: str, ask: Any, database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
):
    written: list[Any] = []
    write = getattr(client, which)

    def lose_the_first_answer(*about: Any) -> None:
        write(*about)
        written.append(about)
        if len(written) == 1:
            raise CommitUnknownError("The connection was lost")

    monkeypatch.setattr(client, which, lose_the_first_answer)
    ask(GOOD)
    assert len(written) == 2
    assert recorded_calls(admin) == [("answered", 120, 30)]
    assert admin.execute("SELECT calls FROM llm_daily_usage").fetchall() == [(1,)]


def test_logs_omit_prompt_answer_and_key(
    provider: str, ask: Any, question: LlmRequest, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
):
    caplog.set_level(logging.INFO)
    with pytest.raises(InvalidLlmResponseError):
        ask(Answer("Total elevenninety"), Answer("Total elevenninety"), Answer("Total elevenninety"))
    logged = caplog.text + "".join(capsys.readouterr()) + repr(question)
    assert not [secret for secret in ("elevenninety", KEY, question.user, question.system) if secret in logged]
    assert "LlmCalls" in logged


# Probe


def test_probe_is_one_small_guarded_call(
    provider: str, model: Make, model_server: Server, guards: Guards, admin: Connection, maintenance_database: Database
):
    model_server.add_steps(Answer("", truncated=True))
    llm = model(provider)
    llm._database = maintenance_database  # connects with the watchdog's role
    llm.probe()
    body = model_server.requests[0].body
    bound = body["inferenceConfig"]["maxTokens"] if provider == "bedrock" else body["max_tokens"]
    assert (bound, guards.calls) == (client.PROBE_TOKENS, [(f"llm:{provider}", "ok")])
    assert admin.execute("SELECT tenant_id, work_id, purpose, outcome FROM llm_call").fetchall() == [
        (None, None, "probe", "answered")
    ]


def test_failed_probe_is_not_retried(provider: str, model: Make, model_server: Server, guards: Guards):
    model_server.add_steps(Failure(503), GOOD)
    with pytest.raises(ServiceUnavailableError):
        model(provider).probe()
    assert model_server.script == [GOOD]


# Settings


def test_missing_provider_disables_the_llm(database: Database):
    assert Llm.from_settings(Settings(), database, Guards()) is None


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_default_url_is_the_provider_url(provider: str, database: Database):
    settings = Settings.from_environment({"LLM_PROVIDER": provider, "LLM_MODEL": "m", "LLM_API_KEY": "k"})
    llm: Any = Llm.from_settings(settings, database, Guards())
    assert (
        llm.provider._api.url
        == {
            "anthropic": "https://api.anthropic.com/v1/messages",
            "openai": "https://api.openai.com/v1/chat/completions",
        }[provider]
    )


def test_missing_model_error_names_the_variable(database: Database):
    settings = Settings.from_environment({"LLM_PROVIDER": "anthropic"})
    with pytest.raises(InvalidSettingsError, match="LLM_MODEL"):
        Llm.from_settings(settings, database, Guards())


@pytest.mark.parametrize("key", [None, "", "sk-\N{EN DASH}1", "sk-1\n"])
def test_missing_or_invalid_key_means_unavailable_service(key: str | None, database: Database):
    environment = {"LLM_PROVIDER": "anthropic", "LLM_MODEL": "m"} | ({} if key is None else {"LLM_API_KEY": key})
    with pytest.raises(ServiceUnavailableError, match="LLM_API_KEY"):
        Llm.from_settings(Settings.from_environment(environment), database, Guards())
