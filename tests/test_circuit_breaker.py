"""Circuit breakers shared by all processes: opening, probing and closing."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from math import inf, nan
from threading import Barrier, Semaphore, Thread

import pytest

from counterfoil.circuit_breaker import STATE_CACHE_SECONDS, Breakers, open_seconds
from counterfoil.db import Connection, Database
from counterfoil.errors import (
    BreakerOpenError,
    CancelledError,
    ConflictError,
    ContextWindowError,
    DatabaseUnavailableError,
    InvalidLlmResponseError,
    RejectedRequestError,
    ServiceUnavailableError,
    StaleClaimError,
)
from counterfoil.settings import Settings
from tests.breaker_processes import FAILURES, LLM, PROBE_SECONDS, ProcessBreakers, Start, end, processes
from tests.delivery.harness import Clock

INCONCLUSIVE_ERRORS = [
    CancelledError("stopped"),
    StaleClaimError("newer"),
    DatabaseUnavailableError("away"),
    ValueError("a bug"),
    KeyboardInterrupt(),
]
RESPONSE_ERRORS = [
    RejectedRequestError("401"),
    ContextWindowError("too long"),
    InvalidLlmResponseError("not valid JSON"),
]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def start(database_url: str, clock: Clock) -> Iterator[Start]:
    with processes(database_url, clock) as start:
        yield start


@pytest.fixture
def breakers(start: Start) -> ProcessBreakers:
    return start()


def call(breakers: Breakers, error: BaseException | None = None, name: str = LLM) -> bool:
    """Make one call that ends with `error`. Return True if the breaker allowed it."""
    is_allowed = False
    caught: BaseException | None = None
    try:
        with breakers.guard(name):
            is_allowed = True
            if error is not None:
                raise error
    except BaseException as outcome:  # noqa: BLE001
        caught = outcome
    if not is_allowed:
        assert isinstance(caught, BreakerOpenError)
    else:
        assert caught is error, "the guard changed the outcome of a call"
    return is_allowed


def fail(breakers: Breakers, times: int = 1, retry_after: float | None = None) -> None:
    for _ in range(times):
        assert call(breakers, ServiceUnavailableError("503", retry_after=retry_after))


def rejected_until(breakers: Breakers, name: str = LLM) -> datetime:
    with pytest.raises(BreakerOpenError) as refusal, breakers.guard(name):
        pytest.fail("the call was allowed")
    return refusal.value.until


def expire_cache(clock: Clock) -> None:
    """Advance the clock until every process's cached state has expired."""
    clock.advance(seconds=STATE_CACHE_SECONDS.total_seconds())


# Opening


def test_nth_consecutive_failure_opens_breaker_for_all_processes(start: Start, clock: Clock) -> None:
    first, other = start(), start()
    fail(first, FAILURES - 1)
    assert call(other)  # resets the failure count
    expire_cache(clock)
    fail(first, FAILURES - 1)
    fail(other)
    assert rejected_until(first) == rejected_until(other) == rejected_until(start()) == clock() + timedelta(seconds=30)


@pytest.mark.parametrize("error", [None, *RESPONSE_ERRORS], ids=lambda error: type(error).__name__)
def test_any_response_resets_failure_count(error: Exception | None, breakers: ProcessBreakers) -> None:
    fail(breakers, FAILURES - 1)
    assert call(breakers, error)
    fail(breakers, FAILURES - 1)
    assert call(breakers)


@pytest.mark.parametrize("error", INCONCLUSIVE_ERRORS, ids=lambda error: type(error).__name__)
def test_errors_unrelated_to_service_are_not_counted(error: BaseException, breakers: ProcessBreakers) -> None:
    for _ in range(FAILURES):
        assert call(breakers, error)
    assert breakers.open_breakers() == {}
    fail(breakers, FAILURES - 1)
    assert call(breakers, error)
    fail(breakers)
    assert LLM in breakers.open_breakers()


def test_each_service_has_an_independent_breaker(breakers: ProcessBreakers) -> None:
    fail(breakers, FAILURES)
    assert not call(breakers)
    assert call(breakers, name="webhook:example.com")


def test_calls_started_before_opening_do_not_affect_breaker(start: Start, clock: Clock) -> None:
    late_failure, late_success = start().guard(LLM), start().guard(LLM)
    late_failure.__enter__()
    late_success.__enter__()
    fail(start(), FAILURES)
    opened = start().open_breakers()
    clock.advance(seconds=20)
    end(late_success)
    end(late_failure, ServiceUnavailableError("late"))
    assert start().open_breakers() == opened


def test_calls_spanning_an_outage_do_not_affect_breaker(start: Start, clock: Clock) -> None:
    failure, success = start().guard(LLM), start().guard(LLM)
    failure.__enter__()
    success.__enter__()
    fail(start(), FAILURES)
    clock.advance(seconds=30)
    assert call(start())
    end(failure, ServiceUnavailableError("late"))
    fail(start(), FAILURES - 1)
    assert start().open_breakers() == {}
    end(success)
    fail(start())
    assert LLM in start().open_breakers()


# Duration


def test_retries_of_rejected_calls_are_spread_out(start: Start, clock: Clock) -> None:
    fail(start(), FAILURES)
    opened_until = clock() + timedelta(seconds=30)
    assert rejected_until(start(spread=0)) == opened_until
    assert rejected_until(start(spread=0.999)) == opened_until + timedelta(seconds=15 * 0.999)


def test_failed_probes_double_duration_up_to_ten_minutes(breakers: ProcessBreakers, clock: Clock) -> None:
    fail(breakers, FAILURES)
    opened_at = clock()
    durations = []
    for _ in range(7):
        retry_at = rejected_until(breakers)
        durations.append((retry_at - clock()).total_seconds())
        clock.now = retry_at
        fail(breakers)
    assert durations == [30, 60, 120, 240, 480, 600, 600]
    assert breakers.open_breakers()[LLM].since == opened_at  # several failed probes still count as one outage


def test_ten_minute_cap_allows_longer_configured_duration() -> None:
    assert open_seconds(50_000, 30.0, None) == timedelta(minutes=10)
    assert open_seconds(50_000, 3600.0, None) == timedelta(hours=1)  # the configured duration may exceed the cap
    assert open_seconds(2, 0.01, None) == timedelta(seconds=0.02)


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [(None, 30), (0, 30), (-5, 30), (29, 30), (31, 31), (3599, 3599), (86_400, 3600), (inf, 3600), (nan, 3600)],
)
def test_longer_retry_after_applies_up_to_one_hour(
    retry_after: float | None, seconds: float, breakers: ProcessBreakers, clock: Clock
) -> None:
    fail(breakers, FAILURES, retry_after)
    assert rejected_until(breakers) == clock() + timedelta(seconds=seconds)


def test_retry_after_from_probe_is_honored(breakers: ProcessBreakers, clock: Clock) -> None:
    fail(breakers, FAILURES)
    clock.advance(seconds=30)
    fail(breakers, retry_after=900)
    assert rejected_until(breakers) == clock() + timedelta(seconds=900)


# Half-open


@pytest.mark.parametrize("error", [None, *RESPONSE_ERRORS], ids=lambda error: type(error).__name__)
def test_answered_probe_closes_breaker(error: Exception | None, start: Start, clock: Clock) -> None:
    fail(start(), FAILURES)
    clock.advance(seconds=30)
    assert call(start(), error)
    first = start()
    fail(first, FAILURES - 1)  # the failure count starts at zero again
    assert call(first)
    fail(first, FAILURES)
    assert rejected_until(first) == clock() + timedelta(seconds=30)  # the open duration is reset as well


def test_calls_during_probe_are_rejected_briefly(start: Start, clock: Clock) -> None:
    fail(start(), FAILURES)
    clock.advance(seconds=31)
    with start().guard(LLM):
        assert rejected_until(start()) == clock() + timedelta(seconds=30)
        clock.advance(seconds=PROBE_SECONDS - 1)
        assert rejected_until(start()) == clock() + timedelta(seconds=1)  # afterwards the probe counts as lost


def test_lost_probe_is_replaced_by_next_call(start: Start, clock: Clock) -> None:
    fail(start(), FAILURES)
    clock.advance(seconds=30)
    crashed, replacement = start(), start()
    lost_call = crashed.guard(LLM)
    lost_call.__enter__()
    assert not call(replacement)
    clock.advance(seconds=PROBE_SECONDS)
    fail(replacement)
    end(lost_call)  # the first probe was slow, not lost
    assert rejected_until(start()) == clock() + timedelta(seconds=60)


@pytest.mark.parametrize("error", INCONCLUSIVE_ERRORS, ids=lambda error: type(error).__name__)
def test_inconclusive_probe_lets_next_call_probe(error: BaseException, start: Start, clock: Clock) -> None:
    fail(start(), FAILURES)
    clock.advance(seconds=30)
    assert call(start(), error)
    assert LLM in start().open_breakers()
    with start().guard(LLM):
        assert not call(start())
    assert start().open_breakers() == {}


# Threads and processes


def run_concurrently(*functions: Callable[[], None]) -> None:
    """Run each function in a thread, and raise the first error."""
    errors: list[BaseException] = []

    def call_guarded(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [Thread(target=call_guarded, args=[function]) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


def test_exactly_one_thread_gets_the_probe(start: Start, clock: Clock) -> None:
    processes = [start(max_connections=3) for _ in range(3)]
    fail(processes[0], FAILURES)
    barrier, finished, probes = Barrier(9), Semaphore(0), []

    def probe(breakers: ProcessBreakers) -> None:
        barrier.wait(30)
        try:
            with breakers.guard(LLM):
                probes.append(breakers)
                for _ in range(8):
                    assert finished.acquire(timeout=30), "another call was allowed"
                raise ServiceUnavailableError("503")
        except BreakerOpenError:
            finished.release()
        except ServiceUnavailableError:
            pass

    for round_ in range(1, 6):
        clock.now = start().open_breakers()[LLM].until
        run_concurrently(*[lambda breakers=breakers: probe(breakers) for breakers in processes * 3])
        assert len(probes) == round_


def test_each_concurrent_failure_is_counted_once(start: Start, admin: Connection) -> None:
    processes = [start(max_connections=2, failures=41) for _ in range(4)]

    def fail_repeatedly(breakers: ProcessBreakers) -> None:
        fail(breakers, times=5)

    run_concurrently(*[lambda breakers=breakers: fail_repeatedly(breakers) for breakers in processes * 2])
    assert admin.execute("SELECT failures, opened_at FROM breaker").fetchall() == [(40, None)]
    fail(processes[0])
    assert not call(start())


# Cost


def test_quick_calls_read_breaker_once(breakers: ProcessBreakers, admin: Connection) -> None:
    for _ in range(100):
        assert call(breakers)
    assert breakers.process.transactions == 1
    assert admin.execute("SELECT * FROM breaker").fetchall() == []


def test_slow_call_rereads_breaker_without_writing(breakers: ProcessBreakers, admin: Connection, clock: Clock) -> None:
    fail(breakers)
    assert call(breakers)
    clock.advance(seconds=10)
    transactions_before = breakers.process.transactions
    snapshot_query = "SELECT pg_snapshot_xmax(pg_current_snapshot())"
    snapshot_before = admin.execute(snapshot_query).fetchone()
    with breakers.guard(LLM):
        clock.advance(seconds=10)
    assert breakers.process.transactions - transactions_before == 2
    assert admin.execute(snapshot_query).fetchone() == snapshot_before


def test_rejected_calls_read_breaker_once(breakers: ProcessBreakers) -> None:
    fail(breakers, FAILURES)
    transactions_before = breakers.process.transactions
    for _ in range(10):
        assert not call(breakers)
    assert breakers.process.transactions - transactions_before == 1


def test_cached_state_expires_after_one_second(start: Start, clock: Clock) -> None:
    first, other = start(), start()
    assert call(first)
    fail(other, FAILURES)
    clock.advance(seconds=0.99)
    assert call(first)
    clock.advance(seconds=0.01)
    assert not call(first)
    clock.advance(hours=-1)  # setting the clock back does not extend the cache TTL
    assert not call(first)


def test_no_transaction_is_open_during_call(breakers: ProcessBreakers, admin: Connection, clock: Clock) -> None:
    open_transactions_query = """
        SELECT count(*) FROM pg_stat_activity
        WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND datname = current_database()
        AND backend_type = 'client backend' -- autovacuum may run at any time
    """
    fail(breakers, FAILURES)
    clock.advance(seconds=30)
    for _ in ("the probe", "an ordinary call"):
        with breakers.guard(LLM):
            assert admin.execute(open_transactions_query).fetchone() == (0,)
            with breakers.process.delivery() as connection:  # the pool's only connection is free
                connection.execute("SELECT 1")


# Unavailable database


UNAVAILABLE = [DatabaseUnavailableError("away"), ConflictError("lock time-out")]


@pytest.mark.parametrize("failure", UNAVAILABLE, ids=lambda error: type(error).__name__)
def test_unreadable_breaker_allows_calls_without_counting(failure: Exception, start: Start) -> None:
    disconnected = start()
    disconnected.process.failure = failure
    fail(disconnected, FAILURES)
    assert call(disconnected)
    disconnected.process.failure = None
    fail(disconnected, FAILURES - 1)
    assert call(start())


def test_open_breaker_stays_open_while_cached(breakers: ProcessBreakers, clock: Clock) -> None:
    fail(breakers, FAILURES)
    assert not call(breakers)
    breakers.process.failure = DatabaseUnavailableError("away")
    assert not call(breakers)
    expire_cache(clock)
    assert call(breakers)


@pytest.mark.parametrize(
    "error", [None, ServiceUnavailableError("503"), RESPONSE_ERRORS[0]], ids=["answer", "failure", "4xx"]
)
def test_database_outage_does_not_change_call_outcome(error: Exception | None, start: Start, clock: Clock) -> None:
    breakers = start()
    fail(breakers, FAILURES)
    clock.advance(seconds=30)
    with ExitStack() as stack:
        if error is not None:
            stack.enter_context(pytest.raises(type(error)))
        with breakers.guard(LLM):
            breakers.process.failure = DatabaseUnavailableError("away")
            if error is not None:
                raise error
    assert not call(start())  # the probe's result was lost
    clock.advance(seconds=PROBE_SECONDS)
    assert call(start())
    assert start().open_breakers() == {}


def test_listing_open_breakers_raises_if_database_unavailable(breakers: ProcessBreakers) -> None:
    breakers.process.failure = DatabaseUnavailableError("away")
    with pytest.raises(DatabaseUnavailableError):
        breakers.open_breakers()


def test_breaker_limits_come_from_settings(database: Database) -> None:
    values = {"breaker_failure_threshold": "2", "breaker_open_seconds": "1000"}
    breakers = Breakers.from_settings(Settings.model_validate(values), database)
    fail(breakers, 2)
    (outage,) = breakers.open_breakers().values()
    assert outage.until - outage.since == timedelta(seconds=1000)
