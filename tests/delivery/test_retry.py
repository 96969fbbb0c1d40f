"""Retry policies: delays, limits and `retry_after` by error, attempt and receive."""

from datetime import UTC, datetime, timedelta

import pytest

from counterfoil.delivery.retry import GiveUp, Park, Redeliver, RedeliverPolicy, Requeue, RequeuePolicy, requeue_policy
from counterfoil.errors import CancelledError, InvalidDocumentError, ServiceUnavailableError, TransientError
from counterfoil.settings import Settings

NOW = datetime(2026, 1, 2, tzinfo=UTC)
POLICY = RedeliverPolicy()


@pytest.mark.parametrize(
    ("attempts", "receives", "decision"),
    [
        (1, 1, Redeliver(NOW + timedelta(minutes=5))),
        (2, 2, Redeliver(NOW + timedelta(minutes=30))),
        (1, 3, Park(NOW + timedelta(minutes=5))),
        (2, 3, Park(NOW + timedelta(minutes=30))),
        (3, 1, GiveUp("max_retries_exceeded", to_dead_letter_queue=True)),
        (3, 3, GiveUp("max_retries_exceeded", to_dead_letter_queue=True)),
        (4, 1, GiveUp("max_retries_exceeded", to_dead_letter_queue=True)),
    ],
)
def test_transient_failure_is_final_after_two_retries(attempts, receives, decision) -> None:
    for error in (ServiceUnavailableError("x"), CancelledError("x"), RuntimeError("not in the tree")):
        assert POLICY.decide(error, attempts, receives, NOW) == decision


@pytest.mark.parametrize(
    ("retry_after", "attempts", "minutes"), [(60, 1, 5), (1200, 1, 20), (1200, 2, 30), (86_400, 2, 60), (None, 1, 5)]
)
def test_retry_after_extends_delay_up_to_one_hour(retry_after, attempts, minutes) -> None:
    error = ServiceUnavailableError("x", retry_after=retry_after)

    assert POLICY.decide(error, attempts, 1, NOW) == Redeliver(NOW + timedelta(minutes=minutes))
    assert POLICY.decide(error, attempts, 3, NOW) == Park(NOW + timedelta(minutes=minutes))


@pytest.mark.parametrize("receives", [1, 2, 3])
def test_permanent_failure_is_never_retried(receives: int) -> None:
    for policy in (POLICY, RequeuePolicy()):
        decision = policy.decide(InvalidDocumentError("x", code="damaged_pdf"), 1, receives, NOW)

        assert decision == GiveUp("non_retriable_error", to_dead_letter_queue=False)


def test_policies_classify_builtin_errors() -> None:
    assert POLICY.is_transient(RuntimeError())
    for error in (TimeoutError(), ConnectionResetError(), ConnectionRefusedError(), BrokenPipeError()):
        assert RedeliverPolicy(unknown_is_transient=False).is_transient(error)
        assert RequeuePolicy().is_transient(error)
    assert not RedeliverPolicy(unknown_is_transient=False).is_transient(RuntimeError())


def test_last_delay_repeats_for_later_attempts() -> None:
    policy = RedeliverPolicy(delays=(1, 2), max_attempts=9)

    assert [policy.wait(attempts).total_seconds() for attempts in (1, 2, 3, 8)] == [1, 2, 2, 2]


def test_requeue_delay_doubles_up_to_cap() -> None:
    delays = [RequeuePolicy().wait(attempts).total_seconds() for attempts in (*range(1, 10), 30)]

    assert delays == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_listed_delays_have_no_jitter() -> None:
    policy = RequeuePolicy(attempt_delays=(30, 120, 300), max_attempts=4)
    error = ServiceUnavailableError("x")

    decisions = [policy.decide(error, attempts, 1, NOW, spread=0.9) for attempts in range(1, 5)]

    assert decisions[:3] == [Requeue(NOW + timedelta(seconds=seconds)) for seconds in (30, 120, 300)]
    assert decisions[3] == GiveUp("max_retries_exceeded", to_dead_letter_queue=False)
    assert policy.wait(9) == timedelta(minutes=5)


def test_each_listed_delay_allows_one_retry() -> None:
    policy = requeue_policy(Settings(retry_delays={"document_output": (5.0, 60.0)}), "document_output")

    assert isinstance(policy.decide(TransientError("x"), 2, 1, NOW), Requeue)
    assert isinstance(policy.decide(TransientError("x"), 3, 1, NOW), GiveUp)


@pytest.mark.parametrize(("spread", "seconds"), [(0.0, 4), (0.5, 4.5), (0.999, 4.999)])
def test_jitter_is_added_to_requeue_delay(spread: float, seconds: float) -> None:
    decision = RequeuePolicy().decide(ServiceUnavailableError("x"), 2, 1, NOW, spread=spread)

    assert decision == Requeue(NOW + timedelta(seconds=seconds))


def test_cap_includes_jitter() -> None:
    policy = RequeuePolicy(base=3, factor=1, jitter=10, cap=8)

    assert [policy.wait(1, spread).total_seconds() for spread in (0, 0.25, 0.5, 0.9)] == [3, 5.5, 8, 8]


@pytest.mark.parametrize("receives", [1, 2, 3])
def test_requeue_ignores_receives(receives: int) -> None:
    assert RequeuePolicy().decide(CancelledError("x"), 5, receives, NOW) == Requeue(NOW + timedelta(seconds=32))
    assert RequeuePolicy().decide(CancelledError("x"), 6, receives, NOW) == GiveUp(
        "max_retries_exceeded", to_dead_letter_queue=False
    )


@pytest.mark.parametrize("policy", [RedeliverPolicy(), RequeuePolicy()])
def test_work_item_limit_overrides_policy(policy: RedeliverPolicy | RequeuePolicy) -> None:
    def is_exhausted(attempts: int, limit: int) -> bool:
        return isinstance(policy.decide(ServiceUnavailableError("x"), attempts, 1, NOW, max_attempts=limit), GiveUp)

    assert [is_exhausted(1, 1), is_exhausted(1, 2), is_exhausted(20, 21), is_exhausted(21, 21)] == [
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("retry_after", "spread", "seconds"),
    [(120, 0.0, 120), (120, 0.5, 125), (0, 0.5, 7), (1, 0.5, 7), (3, 0.0, 3), (3, 0.5, 8), (86_400, 0.5, 3605)],
)
def test_requeue_honors_retry_after_with_jitter(retry_after: float, spread: float, seconds: float) -> None:
    error = ServiceUnavailableError("x", retry_after=retry_after)

    decision = RequeuePolicy(jitter=10).decide(error, 1, 1, NOW, spread=spread)

    assert decision == Requeue(NOW + timedelta(seconds=seconds))


def test_cap_does_not_shorten_retry_after() -> None:
    error = ServiceUnavailableError("x", retry_after=400)

    assert RequeuePolicy(cap=300).decide(error, 1, 1, NOW, spread=0.5) == Requeue(NOW + timedelta(seconds=400.5))


def test_redelivery_adds_jitter_to_retry_after() -> None:
    with_retry_after, without_retry_after = ServiceUnavailableError("x", retry_after=1200), ServiceUnavailableError("x")
    policy = RedeliverPolicy(jitter=10)

    assert policy.decide(with_retry_after, 1, 1, NOW, spread=0.5) == Redeliver(NOW + timedelta(seconds=1205))
    assert policy.decide(with_retry_after, 1, 3, NOW, spread=0.5) == Park(NOW + timedelta(seconds=1205))
    assert policy.decide(without_retry_after, 1, 1, NOW, spread=0.5) == Redeliver(NOW + timedelta(minutes=5))


def test_unknown_error_is_not_requeued() -> None:
    assert RequeuePolicy().decide(RuntimeError(), 1, 1, NOW) == GiveUp(
        "non_retriable_error", to_dead_letter_queue=False
    )
