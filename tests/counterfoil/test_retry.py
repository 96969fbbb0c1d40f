"""What the redeliver policy decides, for every class of error, attempt and receive."""

from datetime import UTC, datetime, timedelta

import pytest

from counterfoil.errors import CancelledError, InvalidDocumentError, ServiceUnavailableError
from counterfoil.retry import GiveUp, Park, Redeliver, RedeliverPolicy

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
def test_a_transient_failure_waits_five_then_thirty_minutes_then_dies(attempts, receives, decision) -> None:
    for error in (ServiceUnavailableError("x"), CancelledError("x"), RuntimeError("not in the tree")):
        assert POLICY.decide(error, attempts, receives, NOW) == decision


@pytest.mark.parametrize(
    ("asked", "attempts", "minutes"), [(60, 1, 5), (1200, 1, 20), (1200, 2, 30), (86_400, 2, 60), (None, 1, 5)]
)
def test_a_service_that_asks_for_a_longer_wait_gets_it_for_an_hour_at_most(asked, attempts, minutes) -> None:
    error = ServiceUnavailableError("x", retry_after=asked)

    assert POLICY.decide(error, attempts, 1, NOW) == Redeliver(NOW + timedelta(minutes=minutes))
    assert POLICY.decide(error, attempts, 3, NOW) == Park(NOW + timedelta(minutes=minutes))


@pytest.mark.parametrize("receives", [1, 2, 3])
def test_a_permanent_failure_is_never_retried(receives: int) -> None:
    decision = POLICY.decide(InvalidDocumentError("x"), 1, receives, NOW)

    assert decision == GiveUp("non_retriable_error", to_dead_letter_queue=False)


def test_an_error_outside_the_tree_means_what_the_policy_says() -> None:
    assert POLICY.is_transient(RuntimeError())
    assert not RedeliverPolicy(unknown_is_transient=False).is_transient(RuntimeError())


def test_the_last_wait_repeats_where_more_attempts_are_allowed() -> None:
    policy = RedeliverPolicy(delays=(1, 2), max_attempts=9)

    assert [policy.wait(attempts).total_seconds() for attempts in (1, 2, 3, 8)] == [1, 2, 2, 2]
