"""Daily LLM budget: every call counts once, even with concurrent callers."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Connection, Database
from counterfoil.deadline import Deadline
from counterfoil.errors import BreakerOpenError, ServiceUnavailableError
from counterfoil.llm import CHAT, BudgetExceededError, Llm, LlmRequest
from counterfoil.settings import Settings
from tests.factories import NOW, make_document
from tests.llm.conftest import Time
from tests.llm.server import Answer, Failure, Server

GOOD = '{"matches": [1]}'
Ask = Callable[..., Any]


class Form(BaseModel):
    matches: list[int]


@pytest.fixture
def ask(model: Callable[..., Llm], model_server: Server, question: LlmRequest) -> Ask:
    """`ask(about=..., at=..., **settings)` requests JSON at a given time.

    The model always answers.
    """
    model_server._otherwise = lambda _: GOOD

    def attempt(about: LlmRequest = question, at: datetime = NOW, **fields: str) -> Any:
        llm = model("openai", **fields)
        llm._clock = lambda: at
        return llm.complete_json(about, Form, Deadline())

    return attempt


def other_work(admin: Connection, question: LlmRequest) -> LlmRequest:
    assert question.tenant_id is not None
    return replace(question, work_id=make_document(admin, question.tenant_id))


def call_counts(admin: Connection) -> list[Any]:
    return admin.execute("SELECT day, calls FROM llm_daily_usage ORDER BY day").fetchall()


@pytest.fixture
def say(model: Callable[..., Llm], question: LlmRequest, ask: Ask) -> Ask:
    """`say(**settings)` sends the same chat message each time."""
    chat = replace(question, purpose=CHAT, work_id=uuid4())

    def attempt(**fields: str) -> Any:
        return model("openai", **fields).chat(chat, Deadline())

    return attempt


def test_exhausted_daily_budget_prevents_calls(
    ask: Ask, model_server: Server, admin: Connection, capsys: pytest.CaptureFixture[str]
):
    for _ in range(2):
        ask(LLM_CALLS_PER_DAY="2")
    with pytest.raises(BudgetExceededError) as error:
        ask(LLM_CALLS_PER_DAY="2")
    assert str(error.value) == (
        f"The language model was not called: today's call budget of 2 is used up ({NOW:%Y-%m-%d}, UTC)."
    )
    assert error.value.until == datetime(NOW.year, NOW.month, NOW.day, tzinfo=UTC) + timedelta(days=1)
    assert (len(model_server.requests), call_counts(admin)) == (2, [(NOW.date(), 2)])
    assert admin.execute("SELECT count(*) FROM llm_call").fetchone() == (2,)
    assert capsys.readouterr().out.count('"LlmBudgetExceeded": [1.0]') == 1


def test_documents_have_separate_budgets(ask: Ask, question: LlmRequest, admin: Connection):
    ask(LLM_CALLS_PER_DOCUMENT="1")
    with pytest.raises(BudgetExceededError, match=r"today's call budget of 1 for one document is used up"):
        ask(LLM_CALLS_PER_DOCUMENT="1")
    ask(other_work(admin, question), LLM_CALLS_PER_DOCUMENT="1")
    assert call_counts(admin) == [(NOW.date(), 2)]  # the refused call does not count toward the tenant's budget


def test_chat_and_documents_have_separate_budgets(ask: Ask, say: Ask, admin: Connection):
    budget = {"LLM_CALLS_PER_DAY": "2", "CHAT_CALLS_PER_DAY": "1"}
    say(**budget)
    with pytest.raises(BudgetExceededError) as error:
        say(**budget)
    assert str(error.value) == (
        "The language model was not called: "
        f"today's call budget of 1 in conversations is used up ({NOW:%Y-%m-%d}, UTC)."
    )
    for _ in range(2):
        ask(**budget)
    with pytest.raises(BudgetExceededError, match="budget of 2 is used up"):
        ask(**budget)
    say(CHAT_CALLS_PER_DAY="2")
    assert admin.execute("SELECT calls, chat_calls FROM llm_daily_usage").fetchall() == [(2, 2)]
    assert admin.execute("SELECT count(*) FROM llm_call").fetchone() == (4,)


def test_document_budget_does_not_limit_chat_messages(say: Ask, model_server: Server):
    for _ in range(3):
        say(LLM_CALLS_PER_DOCUMENT="1")
    assert len(model_server.requests) == 3


def test_tenants_do_not_share_a_budget(
    ask: Ask, question: LlmRequest, make_tenant: Callable[..., UUID], model_server: Server, admin: Connection
):
    ask(LLM_CALLS_PER_DAY="1")
    ask(replace(question, tenant_id=make_tenant("another"), work_id=uuid4()), LLM_CALLS_PER_DAY="1")
    assert len(model_server.requests) == 2
    assert call_counts(admin) == [(NOW.date(), 1), (NOW.date(), 1)]


def test_budget_resets_at_midnight_utc(ask: Ask, admin: Connection):
    east = timezone(timedelta(hours=9))
    last, first = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC), datetime(2026, 3, 2, 9, 0, tzinfo=east)
    budget = {"LLM_CALLS_PER_DAY": "1", "LLM_CALLS_PER_DOCUMENT": "1"}
    ask(at=last, **budget)
    with pytest.raises(BudgetExceededError):
        ask(at=last.replace(hour=0), **budget)
    ask(at=first, **budget)
    assert call_counts(admin) == [(date(2026, 3, 1), 1), (date(2026, 3, 2), 1)]


def test_zero_budget_allows_no_call(ask: Ask, model_server: Server):
    for name in ("LLM_CALLS_PER_DAY", "LLM_CALLS_PER_DOCUMENT"):
        with pytest.raises(BudgetExceededError):
            ask(**{name: "0"})
    assert model_server.requests == []


def test_failed_calls_count_toward_the_budget(ask: Ask, model_server: Server, admin: Connection):
    model_server.add_steps(Failure(503), Answer("no JSON"))
    ask()
    assert call_counts(admin) == [(NOW.date(), 3)]


def test_budget_exhausted_between_attempts_raises_budget_error(ask: Ask, model_server: Server):
    model_server.add_steps(Failure(503))
    with pytest.raises(BudgetExceededError):
        ask(LLM_CALLS_PER_DAY="1")


@pytest.mark.parametrize("budget", [{"LLM_CALLS_PER_DAY": "7"}, {"LLM_CALLS_PER_DOCUMENT": "7"}])
def test_concurrent_calls_never_exceed_the_budget(
    budget: dict[str, str], ask: Ask, model_server: Server, admin: Connection
):
    def is_answered(_: int) -> bool:
        try:
            ask(**budget)
        except BudgetExceededError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        answered = list(pool.map(is_answered, range(24)))
    assert (sum(answered), len(model_server.requests), call_counts(admin)) == (7, 7, [(NOW.date(), 7)])


def test_call_over_budget_does_not_affect_breaker(
    configure: Callable[..., Settings], database: Database, question: LlmRequest, model_server: Server
):
    now = [NOW]
    breakers = Breakers(database, lambda: now[0], failures=1, open_seconds=30, spread=lambda: 0.0)

    def make_llm(**fields: str) -> Llm:
        llm = Llm.from_settings(configure("openai", **fields), database, breakers)
        assert llm is not None
        llm._clock, llm._wait = lambda: now[0], Time().wait
        return llm

    def ask(llm: Llm) -> Any:
        return llm.complete_json(question, Form, Deadline()).content

    model_server.add_steps(Failure(503))
    with pytest.raises(ServiceUnavailableError):
        ask(make_llm())
    with pytest.raises(BreakerOpenError):
        ask(make_llm())
    now[0] += timedelta(seconds=31)
    with pytest.raises(BudgetExceededError):
        ask(make_llm(LLM_CALLS_PER_DAY="1"))  # the refused call releases the breaker's probe
    model_server.add_steps(Answer(GOOD))
    assert ask(make_llm()) == Form(matches=[1])


def test_open_breaker_uses_no_budget(ask: Ask, guards: Any, admin: Connection):
    guards.error = BreakerOpenError("open", until=NOW)
    with pytest.raises(BreakerOpenError):
        ask()
    assert call_counts(admin) == []
