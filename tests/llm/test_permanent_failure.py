"""Work items are dead-lettered if their model calls always fail.

This holds even if the breaker opens.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from threading import Event

from pydantic import BaseModel

from counterfoil.circuit_breaker import Breakers
from counterfoil.db import Connection, Database
from counterfoil.delivery.attempt import Effects, Succeeded, TenantAttempt
from counterfoil.delivery.work import Message
from counterfoil.errors import ServiceUnavailableError
from counterfoil.llm import Llm, LlmRequest
from counterfoil.llm.answers import Reply
from counterfoil.llm.client import Budget, LlmLimits
from tests.delivery.conftest import clock, pending, sqs, tenant
from tests.delivery.harness import Clock, Context, FakeSqs, event, life_cycle, make_consumer, record, rows

__all__ = ["clock", "pending", "sqs", "tenant"]


class Form(BaseModel):
    matches: list[int]


class Failing:
    """A provider that is always unavailable."""

    name = "anthropic"
    model = "m"
    calls = 0

    def reply(self, system: str, user: str, *, history: object = (), max_tokens: int, total: float) -> Reply:
        self.calls += 1
        raise ServiceUnavailableError("An address answered with HTTP 500")


class Malformed(Failing):
    """A provider whose replies never match the schema."""

    def reply(self, system: str, user: str, *, history: object = (), max_tokens: int, total: float) -> Reply:
        self.calls += 1
        return Reply('{"matches": ["three"]}', is_complete=True, input_tokens=10, output_tokens=10)


def test_schema_failure_backs_off_and_is_dead_lettered(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Callable[..., Message]
):
    message, provider, waits = pending(), Malformed(), list[float]()

    def wait(_: Event, seconds: float) -> bool:
        waits.append(seconds)
        return False

    breakers = Breakers(database, clock, failures=5, open_seconds=30, spread=lambda: 0.0)
    llm = Llm(provider, database, breakers, LlmLimits(60, 100, 2, 0, 0, Budget(100, 100, 0)), clock=clock, wait=wait)

    def work(attempt: TenantAttempt) -> Succeeded:
        question = LlmRequest("Answer in JSON.", "How many?", "matching", attempt.tenant_id, attempt.work_id)
        llm.complete_json(question, Form, replace(attempt.deadline, remaining=lambda: 100.0))
        return Succeeded(lambda _connection: Effects())

    consumer, delays = make_consumer(database, work, clock), list[int]()
    for attempt, delay in enumerate((300, 1800, 0), start=1):
        response = consumer.handle(event(record(message, receives=attempt, handle="receipt")), Context(100))
        assert len(response["batchItemFailures"]) == 1
        assert (provider.calls, waits) == (3 * attempt, [2, 4] * attempt)
        delays.append(sqs.visibility["receipt"])
        clock.advance(seconds=delay)

    assert delays == [300, 1800, 0]
    row = life_cycle(admin, message.work_id)
    assert (row["status"], row["attempts"]) == ("failed", 3)
    (dead_letter,) = rows(admin, "dead_letter")
    assert (dead_letter["dlq_reason"], dead_letter["attempts"]) == ("max_retries_exceeded", 3)
    assert dead_letter["metadata"]["last_error"]["type"] == "InvalidLlmResponseError"


def test_failing_call_exhausts_attempts_and_is_dead_lettered(
    database: Database, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Callable[..., Message]
):
    message, failing, started = pending(), Failing(), clock.now

    def wait(_: Event, seconds: float) -> bool:
        clock.advance(seconds=seconds)
        return False

    breakers = Breakers(database, clock, failures=5, open_seconds=30, spread=lambda: 0.0)
    llm = Llm(failing, database, breakers, LlmLimits(60, 100, 2, 0, 0, Budget(100, 100, 0)), clock=clock, wait=wait)

    def work(attempt: TenantAttempt) -> Succeeded:
        question = LlmRequest("Answer in JSON.", "How many?", "matching", attempt.tenant_id, attempt.work_id)
        llm.complete_json(question, Form, replace(attempt.deadline, remaining=lambda: 100.0))
        return Succeeded(lambda _connection: Effects())

    consumer, attempts, receives = make_consumer(database, work, clock), 0, 1
    while (row := life_cycle(admin, message.work_id))["status"] == "pending" and attempts < 20:
        clock.now = max(clock.now, row["next_attempt_at"] or clock.now)
        failures = consumer.handle(event(record(message, receives=receives)), Context(100))["batchItemFailures"]
        send_number = life_cycle(admin, message.work_id)["send_number"]
        message, receives = message.model_copy(update={"send_number": send_number}), receives + 1 if failures else 1
        attempts += 1
    assert (row["status"], row["attempts"], attempts) == ("failed", 3, 3)
    assert clock.now - started < timedelta(hours=1)
    assert [dead_letter["attempts"] for dead_letter in rows(admin, "dead_letter")] == [3]
    assert len(rows(admin, "failure_event")) == 1
    assert failing.calls > 3
