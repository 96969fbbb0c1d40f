"""A question is asked with patience, within its time, and every call is on record."""

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
    InvalidAnswerError,
    InvalidSettingsError,
    RejectedRequestError,
    RejectedStatementError,
    ServiceUnavailableError,
)
from counterfoil.llm import Llm, Question, RefusedQuestionError, Turn, client
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


def only(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("provider", names, indirect=True)


@pytest.fixture
def ask(provider: str, model: Make, scripted: Server, question: Question, time: Time) -> Callable[..., Form]:
    """`ask(*script, **settings)`: one question; the script must be used up by it."""

    def once(*script: Step, **more: str) -> Form:
        scripted.then(*script)
        more = {"LLM_TOTAL_TIMEOUT_SECONDS": "5"} | more
        return model(provider, **more).ask(question, Form, Deadline(lambda: time.left, time.cancelled)).said

    return once


def on_record(admin: Connection) -> list[tuple[Any, ...]]:
    return admin.execute("SELECT outcome, input_tokens, output_tokens FROM llm_call ORDER BY ctid").fetchall()


# Tries


@pytest.mark.parametrize(
    "bad",
    [
        Failure(429),
        Failure(500),
        Failure(503),
        Raw(body=BODY * 9, how="reset"),
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
def test_a_failure_that_can_pass_is_followed_by_another_try(bad: Step, ask: Any, time: Time, scripted: Server):
    assert ask(bad, bad, GOOD) == Form(matches=[1])
    assert (len(scripted.requests), time.waits) == (3, [2, 4])


def test_a_slow_provider_is_tried_again(ask: Any, time: Time, scripted: Server):
    slow = [Raw(body=BODY, how=how) for how in ("slow_headers", "slow_body")]
    assert ask(*slow, GOOD, LLM_TOTAL_TIMEOUT_SECONDS="0.2") == Form(matches=[1])
    assert len(scripted.requests) == 3


@pytest.mark.parametrize(("bad", "error"), [(Failure(503), ServiceUnavailableError), (Answer("?"), InvalidAnswerError)])
def test_after_three_tries_the_last_error_is_raised(bad: Step, error: type[Exception], ask: Any, scripted: Server):
    with pytest.raises(error):
        ask(bad, bad, bad, GOOD)
    assert scripted.script == [GOOD]


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_refusal_is_not_tried_again(status: int, ask: Any, time: Time, scripted: Server):
    with pytest.raises(RejectedRequestError):
        ask(Failure(status), GOOD)
    assert (scripted.script, time.waits) == ([GOOD], [])


@pytest.mark.parametrize("bad", [Failure(400, too_long=True), Answer('{"matches": [1', cut_off=True), Answer("", True)])
def test_what_does_not_fit_is_not_tried_again(bad: Step, ask: Any, scripted: Server):
    with pytest.raises(ContextWindowError):
        ask(bad, GOOD)
    assert scripted.script == [GOOD]


def test_a_list_is_empty_only_where_the_model_said_so(ask: Any, scripted: Server):
    assert ask(Answer('{"matches": []}')) == Form(matches=[])
    for silent in (Answer(""), Answer("{}"), Answer("null"), Answer("[]"), Raw(body=b"")):
        with pytest.raises((InvalidAnswerError, ServiceUnavailableError)):
            ask(silent, silent, silent)


# In its own words


def test_a_conversation_is_answered_in_the_model_s_own_words(
    model: Make, provider: str, scripted: Server, question: Question, time: Time
):
    scripted.then(Answer(""), Answer(" I am \x00 fine.\n"))
    asked = replace(question, history=[Turn("Hello", "Good day")])
    said = model(provider).chat(asked, Deadline(lambda: time.left, time.cancelled))
    assert (said.said, said.output_tokens, time.waits) == ("I am \ufffd fine.", 30, [2])
    assert [request.said[:-1] for request in scripted.requests] == [[("user", "Hello"), ("assistant", "Good day")]] * 2


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (Answer("No.", refused=True), RefusedQuestionError),
        (Answer("", refused=True), RefusedQuestionError),
        (Answer("Once upon", cut_off=True), ContextWindowError),
        (Failure(400, too_long=True), ContextWindowError),
        (Failure(400), RefusedQuestionError),
    ],
)
def test_a_conversation_that_cannot_be_answered_is_not_tried_again(
    bad: Step, error: type[Exception], model: Make, provider: str, scripted: Server, question: Question, time: Time
):
    scripted.then(bad, GOOD)
    with pytest.raises(error):
        model(provider).chat(question, Deadline(lambda: time.left, time.cancelled))
    assert scripted.script == [GOOD]


@pytest.mark.parametrize("said", [GOOD.text, "", "I would rather not."])
def test_what_a_model_says_with_a_refusal_is_no_answer_in_any_form(
    said: str, ask: Callable[..., Form], scripted: Server, admin: Connection
):
    with pytest.raises(RefusedQuestionError, match="declined to answer"):
        ask(Answer(said, refused=True))
    assert [outcome for outcome, *_ in on_record(admin)] == ["rejected"]


# Waits, without waiting


@only("anthropic")
def test_pauses_double_up_to_eight_seconds(ask: Any, time: Time):
    with pytest.raises(ServiceUnavailableError):
        ask(Failure(503), Failure(503), Failure(503), LLM_RETRY_BASE_SECONDS="5")
    assert time.waits == [5, 8]


def test_the_pause_that_the_provider_asks_for_is_made(ask: Any, time: Time):
    assert ask(Failure(429, retry_after="7"), Failure(503, retry_after="1"), GOOD) == Form(matches=[1])
    assert time.waits == [7, 4]  # never shorter than our own


def test_a_pause_that_does_not_fit_the_time_left_is_not_begun(ask: Any, time: Time, scripted: Server):
    time.left = 60
    with pytest.raises(ServiceUnavailableError) as caught:
        ask(Failure(429, retry_after="60"), GOOD)
    assert (caught.value.retry_after, time.waits, scripted.script) == (60, [], [GOOD])


@only("openai")
@pytest.mark.parametrize(("left", "tries"), [(2.9, 1), (3.1, 2), (6.9, 2), (7.1, 3)])
def test_no_try_is_begun_without_time_for_it(left: float, tries: int, ask: Any, time: Time, scripted: Server):
    time.left = left
    with pytest.raises(ServiceUnavailableError):
        ask(Failure(503), Failure(503), Failure(503))
    assert len(scripted.requests) == tries


@only("openai")
@pytest.mark.parametrize("left", [0.9, 0.0, -5.0])
def test_without_time_for_one_try_none_is_made(left: float, ask: Any, time: Time, scripted: Server, admin: Connection):
    time.left = left
    with pytest.raises(CancelledError):
        ask(GOOD)
    assert (scripted.requests, on_record(admin)) == ([], [])


def test_a_call_that_our_own_time_cuts_off_is_no_failure_of_the_provider(
    provider: str, model: Make, question: Question, guards: Guards, scripted: Server, admin: Connection
):
    scripted.then(Raw(how="silent"))
    left = iter([1.0, 0.2, -0.1, -0.1])  # to begin with, for the call, and after it
    with pytest.raises(CancelledError):
        model(provider).ask(question, Form, Deadline(lambda: next(left)))
    assert guards.seen == [(f"llm:{provider}", "CancelledError")]
    assert on_record(admin) == [("cancelled", None, None)]


@only("anthropic")
def test_a_pause_ends_when_the_try_is_cancelled(ask: Any, time: Time, scripted: Server):
    time.on_wait = time.cancelled.set
    with pytest.raises(CancelledError):
        ask(Failure(503), GOOD)
    assert (time.waits, scripted.script) == ([2], [GOOD])


@only("anthropic")
def test_a_cancelled_try_asks_nothing(ask: Any, time: Time, scripted: Server):
    time.cancelled.set()
    with pytest.raises(CancelledError):
        ask(GOOD)
    assert scripted.requests == []


@only("anthropic")
def test_real_waits_end_at_once_when_the_try_is_cancelled(
    provider: str, configured: Callable[..., Settings], database: Database, guards: Guards, question: Question,
    scripted: Server,
):  # fmt: skip
    llm = Llm.from_settings(configured(provider, LLM_RETRY_BASE_SECONDS="8"), database, guards)
    assert llm is not None
    cancelled = Event()
    asked = count(1)

    def time_left() -> float:
        if next(asked) == 3:  # the last look before the pause
            cancelled.set()
        return inf

    scripted.then(Failure(503))
    with pytest.raises(CancelledError, match="while waiting"):
        llm.ask(question, Form, Deadline(time_left, cancelled))


# The breaker


def test_every_call_goes_through_the_breaker_of_its_provider(provider: str, ask: Any, guards: Guards):
    ask(Failure(503), Answer("?"), GOOD)
    name = f"llm:{provider}"
    assert guards.seen == [(name, "ServiceUnavailableError"), (name, "InvalidAnswerError"), (name, "ok")]


@only("anthropic")
def test_an_open_breaker_makes_no_call_and_leaves_no_record(
    ask: Any, guards: Guards, scripted: Server, time: Time, admin: Connection
):
    guards.closed = BreakerOpenError("open", until=NOW)
    with pytest.raises(BreakerOpenError):
        ask(GOOD)
    assert (scripted.requests, time.waits, on_record(admin)) == ([], [], [])


@only("openai")
@pytest.mark.parametrize(
    ("bad", "error"), [(Failure(503), ServiceUnavailableError), (Answer("?"), InvalidAnswerError)], ids=["503", "?"]
)
def test_a_breaker_that_opens_after_a_call_of_ours_ends_in_that_call_s_failure(
    bad: Step, error: type[Exception], ask: Any, guards: Guards, scripted: Server, time: Time
):
    def opened() -> None:
        guards.closed = BreakerOpenError("open", until=NOW)

    time.on_wait = opened
    with pytest.raises(error):
        ask(bad, GOOD)
    assert scripted.script == [GOOD]


@only("openai")
def test_a_question_that_opens_the_breaker_itself_has_failed_and_the_next_one_is_put_off(
    provider: str, configured: Any, database: Database, question: Question, scripted: Server, time: Time
):
    breakers = Breakers(database, lambda: NOW, failures=2, open_seconds=30)
    llm = Llm.from_settings(configured(provider), database, breakers)
    assert llm is not None
    llm._wait = time.wait
    scripted.then(Failure(503), Failure(503), GOOD)
    with pytest.raises(ServiceUnavailableError):
        llm.ask(question, Form, Deadline())
    with pytest.raises(BreakerOpenError) as caught:
        llm.ask(question, Form, Deadline())
    assert caught.value.until >= NOW + timedelta(seconds=30)
    assert scripted.script == [GOOD]


# On record


def test_every_call_is_one_row(provider: str, ask: Any, question: Question, admin: Connection):
    ask(Failure(503), Answer("?"), GOOD)
    assert on_record(admin) == [("unavailable", None, None), ("invalid_answer", 120, 30), ("answered", 120, 30)]
    rows = admin.execute(
        "SELECT tenant_id, work_id, purpose, provider, model, latency_ms >= 0, cost_usd, created_at FROM llm_call"
    ).fetchall()
    about = (question.tenant_id, question.work_id, "matching", provider, "the-model", True)
    assert [row[:6] for row in rows] == [about] * 3
    assert [None if row[6] is None else float(row[6]) for row in rows] == [None, 0.00081, 0.00081]
    assert {row[7] for row in rows} == {NOW}


@only("openai")
@pytest.mark.parametrize(
    ("step", "outcome"),
    [
        (Failure(401), ("rejected", None, None)),
        (Failure(400, too_long=True), ("too_long", None, None)),
        (Answer("{", cut_off=True), ("too_long", 120, 30)),
    ],
)
def test_a_call_that_failed_for_good_is_on_record_too(step: Step, outcome: Any, ask: Any, admin: Connection):
    with pytest.raises(RejectedRequestError):
        ask(step)
    assert on_record(admin) == [outcome]


@only("openai")
def test_an_answer_is_worth_more_than_its_record(
    ask: Any, admin: Connection, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
):
    admin.execute("REVOKE UPDATE ON llm_call FROM counterfoil_worker")
    assert ask(GOOD) == Form(matches=[1])
    assert "not on record" in capsys.readouterr().out + caplog.text
    assert on_record(admin) == [(None, None, None)]  # that it was made is


@only("openai")
def test_a_call_that_cannot_be_put_on_record_is_not_made(ask: Any, admin: Connection, scripted: Server):
    admin.execute("REVOKE INSERT ON llm_call FROM counterfoil_worker")
    with pytest.raises(RejectedStatementError):
        ask(GOOD)
    assert scripted.requests == []


@only("openai")
def test_a_call_is_on_record_while_it_is_made(ask: Any, admin: Connection, scripted: Server):
    found: list[Any] = []

    def look(_: Request) -> str:
        found.extend(on_record(admin))
        return GOOD.text

    scripted._otherwise = look
    ask()
    assert found == [(None, None, None)]  # a process that dies now has made it


@only("openai")
@pytest.mark.parametrize("which", ["_begin", "_end"])
def test_a_record_whose_commit_is_in_doubt_is_written_once(
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
    assert on_record(admin) == [("answered", 120, 30)]
    assert admin.execute("SELECT calls FROM llm_day").fetchall() == [(1,)]


def test_nothing_of_question_answer_or_key_gets_into_a_log(
    provider: str, ask: Any, question: Question, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
):
    caplog.set_level(logging.INFO)
    with pytest.raises(InvalidAnswerError):
        ask(Answer("Total elevenninety"), Answer("Total elevenninety"), Answer("Total elevenninety"))
    said = caplog.text + "".join(capsys.readouterr()) + repr(question)
    assert not [secret for secret in ("elevenninety", KEY, question.user, question.system) if secret in said]
    assert "LlmCalls" in said


# The smallest call


def test_a_probe_is_one_small_call_behind_the_breaker(
    provider: str, model: Make, scripted: Server, guards: Guards, admin: Connection, keeper_database: Database
):
    scripted.then(Answer("", cut_off=True))
    llm = model(provider)
    llm._database = keeper_database  # as the watchdog has it
    llm.probe()
    body = scripted.requests[0].body
    bound = body["inferenceConfig"]["maxTokens"] if provider == "bedrock" else body["max_tokens"]
    assert (bound, guards.seen) == (client.PROBE_TOKENS, [(f"llm:{provider}", "ok")])
    assert admin.execute("SELECT tenant_id, work_id, purpose, outcome FROM llm_call").fetchall() == [
        (None, None, "probe", "answered")
    ]


def test_a_probe_that_fails_is_not_repeated(provider: str, model: Make, scripted: Server, guards: Guards):
    scripted.then(Failure(503), GOOD)
    with pytest.raises(ServiceUnavailableError):
        model(provider).probe()
    assert scripted.script == [GOOD]


# Settings


def test_without_a_provider_there_is_no_model(database: Database):
    assert Llm.from_settings(Settings(), database, Guards()) is None


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_the_provider_s_own_address_is_the_default(provider: str, database: Database):
    settings = Settings.from_environment({"LLM_PROVIDER": provider, "LLM_MODEL": "m", "LLM_API_KEY": "k"})
    llm: Any = Llm.from_settings(settings, database, Guards())
    assert (
        llm.provider._api.url
        == {
            "anthropic": "https://api.anthropic.com/v1/messages",
            "openai": "https://api.openai.com/v1/chat/completions",
        }[provider]
    )


def test_a_provider_without_its_model_is_refused_with_the_variable_s_name(database: Database):
    settings = Settings.from_environment({"LLM_PROVIDER": "anthropic"})
    with pytest.raises(InvalidSettingsError, match="LLM_MODEL"):
        Llm.from_settings(settings, database, Guards())


@pytest.mark.parametrize("key", [None, "", "sk-\N{EN DASH}1", "sk-1\n"])
def test_a_key_that_cannot_be_used_is_no_fault_of_the_work(key: str | None, database: Database):
    given = {"LLM_PROVIDER": "anthropic", "LLM_MODEL": "m"} | ({} if key is None else {"LLM_API_KEY": key})
    with pytest.raises(ServiceUnavailableError, match="LLM_API_KEY"):
        Llm.from_settings(Settings.from_environment(given), database, Guards())
