"""Retry policies: delays, limits and `retry_after` of unavailable services."""

from datetime import UTC, datetime, timedelta

import pytest

from counterfoil.delivery.retry import GiveUp, Park, Redeliver, RedeliverPolicy, Requeue, RequeuePolicy, requeue_policy
from counterfoil.errors import PermanentError, ServiceUnavailableError, TransientError
from counterfoil.settings import Settings

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def seconds(decision: object) -> float:
    assert isinstance(decision, Requeue | Redeliver | Park)
    return (decision.at - NOW).total_seconds()


@pytest.mark.parametrize(("attempts", "wait"), [(1, 5), (2, 60), (3, 600), (4, 600)])
def test_listed_delays_apply_in_order_and_last_repeats(attempts: int, wait: float) -> None:
    policy = RequeuePolicy(attempt_delays=(5, 60, 600), max_attempts=9)

    assert seconds(policy.decide(TransientError("Away"), attempts, 1, NOW)) == wait


def test_each_listed_delay_allows_one_retry() -> None:
    policy = requeue_policy(Settings(retry_delays={"document_output": (5.0, 60.0)}), "document_output")

    assert isinstance(policy.decide(TransientError("Away"), 2, 1, NOW), Requeue)
    assert isinstance(policy.decide(TransientError("Away"), 3, 1, NOW), GiveUp)


@pytest.mark.parametrize(("retry_after", "wait"), [(None, 2), (1, 2), (120, 120.5), (7200, 3600.5)])
def test_longer_retry_after_applies_up_to_one_hour(retry_after: float | None, wait: float) -> None:
    error = ServiceUnavailableError("Busy", retry_after=retry_after)

    assert seconds(RequeuePolicy(jitter=1).decide(error, 1, 1, NOW, spread=0.5)) == pytest.approx(wait, abs=0.5)
    assert seconds(RedeliverPolicy((2,), jitter=1).decide(error, 1, 1, NOW, spread=0.5)) == wait


@pytest.mark.parametrize(("attempts", "wait"), [(1, 2), (2, 4), (7, 128), (8, 256), (9, 300), (30, 300)])
def test_delays_double_up_to_cap(attempts: int, wait: float) -> None:
    assert RequeuePolicy().wait(attempts) == timedelta(seconds=wait)


def test_unknown_errors_are_retried_for_documents_only() -> None:
    assert isinstance(RedeliverPolicy((2,)).decide(ValueError(), 1, 1, NOW), Redeliver)
    assert isinstance(RequeuePolicy().decide(ValueError(), 1, 1, NOW), GiveUp)
    for policy in (RedeliverPolicy((2,)), RequeuePolicy()):
        assert isinstance(policy.decide(PermanentError("Wrong"), 1, 1, NOW), GiveUp)


def test_last_receive_is_parked_instead_of_redelivered() -> None:
    decisions = [
        type(RedeliverPolicy((2,), max_attempts=9).decide(TransientError("Away"), 1, receives, NOW))
        for receives in (1, 2, 3)
    ]

    assert decisions == [Redeliver, Redeliver, Park]
