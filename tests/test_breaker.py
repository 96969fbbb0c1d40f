"""A circuit breaker is one for all processes: it opens, lets one call try, closes, and never invents an outage."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta
from math import inf, nan
from threading import Barrier, Semaphore, Thread

import pytest

from counterfoil.circuit_breaker import KNOWN_FOR, Breakers, open_for
from counterfoil.db import Connection, Database
from counterfoil.errors import (
    BreakerOpenError,
    CancelledError,
    ConflictError,
    ContextWindowError,
    DatabaseUnavailableError,
    InvalidAnswerError,
    RejectedRequestError,
    ServiceUnavailableError,
    StaleClaimError,
)
from counterfoil.settings import Settings
from tests.breakers import FAILURES, LLM, PROBE_SECONDS, ProcessBreakers, Start, end, processes
from tests.delivery.harness import Clock

NO_ANSWER = [
    CancelledError("stopped"),
    StaleClaimError("newer"),
    DatabaseUnavailableError("away"),
    ValueError("a bug"),
    KeyboardInterrupt(),
]
ANSWERS = [RejectedRequestError("401"), ContextWindowError("too long"), InvalidAnswerError("not valid JSON")]


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
    """One call that ends as told. Returns whether it was let through."""
    made = False
    raised: BaseException | None = None
    try:
        with breakers.guard(name):
            made = True
            if error is not None:
                raise error
    except BaseException as outcome:  # noqa: BLE001
        raised = outcome
    if not made:
        assert isinstance(raised, BreakerOpenError)
    else:
        assert raised is error, "the guard changed the outcome of a call"
    return made


def fail(breakers: Breakers, times: int = 1, retry_after: float | None = None) -> None:
    for _ in range(times):
        assert call(breakers, ServiceUnavailableError("503", retry_after=retry_after))


def refused_until(breakers: Breakers, name: str = LLM) -> datetime:
    with pytest.raises(BreakerOpenError) as refusal, breakers.guard(name):
        pytest.fail("let through")
    return refusal.value.until


def later(clock: Clock) -> None:
    """Let pass what a process may rely on from before."""
    clock.pass_(seconds=KNOWN_FOR.total_seconds())


# Opening


def test_the_nth_failure_in_a_row_opens_a_breaker_for_every_process(start: Start, clock: Clock) -> None:
    one, other = start(), start()
    fail(one, FAILURES - 1)
    assert call(other)  # counts as an answer: see below
    later(clock)
    fail(one, FAILURES - 1)
    fail(other)
    assert refused_until(one) == refused_until(other) == refused_until(start()) == clock() + timedelta(seconds=30)


@pytest.mark.parametrize("answer", [None, *ANSWERS], ids=lambda answer: type(answer).__name__)
def test_any_answer_ends_a_row_of_failures(answer: Exception | None, breakers: ProcessBreakers) -> None:
    fail(breakers, FAILURES - 1)
    assert call(breakers, answer)
    fail(breakers, FAILURES - 1)
    assert call(breakers)


@pytest.mark.parametrize("error", NO_ANSWER, ids=lambda error: type(error).__name__)
def test_what_says_nothing_about_the_service_counts_as_nothing(error: BaseException, breakers: ProcessBreakers) -> None:
    for _ in range(FAILURES):
        assert call(breakers, error)
    assert breakers.outages() == {}
    fail(breakers, FAILURES - 1)
    assert call(breakers, error)
    fail(breakers)
    assert LLM in breakers.outages()


def test_breakers_of_two_services_have_nothing_to_do_with_each_other(breakers: ProcessBreakers) -> None:
    fail(breakers, FAILURES)
    assert not call(breakers)
    assert call(breakers, name="webhook:example.com")


def test_calls_that_began_before_it_opened_change_nothing_when_they_end(start: Start, clock: Clock) -> None:
    late_failure, late_answer = start().guard(LLM), start().guard(LLM)
    late_failure.__enter__()
    late_answer.__enter__()
    fail(start(), FAILURES)
    opened = start().outages()
    clock.pass_(seconds=20)
    end(late_answer)
    end(late_failure, ServiceUnavailableError("late"))
    assert start().outages() == opened


def test_a_call_that_began_in_an_earlier_outage_neither_adds_to_a_row_of_failures_nor_ends_it(
    start: Start, clock: Clock
) -> None:
    failure, answer = start().guard(LLM), start().guard(LLM)
    failure.__enter__()
    answer.__enter__()
    fail(start(), FAILURES)
    clock.pass_(seconds=30)
    assert call(start())
    end(failure, ServiceUnavailableError("late"))
    fail(start(), FAILURES - 1)
    assert start().outages() == {}
    end(answer)
    fail(start())
    assert LLM in start().outages()


# How long


def test_refused_work_comes_back_spread_over_half_the_time(start: Start, clock: Clock) -> None:
    fail(start(), FAILURES)
    opened_until = clock() + timedelta(seconds=30)
    assert refused_until(start(spread=0)) == opened_until
    assert refused_until(start(spread=0.999)) == opened_until + timedelta(seconds=15 * 0.999)


def test_a_failed_probe_opens_it_for_twice_as_long_up_to_ten_minutes(breakers: ProcessBreakers, clock: Clock) -> None:
    fail(breakers, FAILURES)
    since = clock()
    waits = []
    for _ in range(7):
        until = refused_until(breakers)
        waits.append((until - clock()).total_seconds())
        clock.now = until
        fail(breakers)
    assert waits == [30, 60, 120, 240, 480, 600, 600]
    assert breakers.outages()[LLM].since == since  # one outage, however often it was tried


def test_an_outage_of_a_year_is_still_tried_every_ten_minutes() -> None:
    assert open_for(50_000, 30.0, None) == timedelta(minutes=10)
    assert open_for(50_000, 3600.0, None) == timedelta(hours=1)  # asked for by the setting
    assert open_for(2, 0.01, None) == timedelta(seconds=0.02)


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [(None, 30), (0, 30), (-5, 30), (29, 30), (31, 31), (3599, 3599), (86_400, 3600), (inf, 3600), (nan, 3600)],
)
def test_a_longer_retry_after_is_honoured_for_an_hour_at_most(
    retry_after: float | None, seconds: float, breakers: ProcessBreakers, clock: Clock
) -> None:
    fail(breakers, FAILURES, retry_after)
    assert refused_until(breakers) == clock() + timedelta(seconds=seconds)


def test_the_retry_after_of_a_probe_is_honoured(breakers: ProcessBreakers, clock: Clock) -> None:
    fail(breakers, FAILURES)
    clock.pass_(seconds=30)
    fail(breakers, retry_after=900)
    assert refused_until(breakers) == clock() + timedelta(seconds=900)


# Half-open


@pytest.mark.parametrize("answer", [None, *ANSWERS], ids=lambda answer: type(answer).__name__)
def test_a_probe_that_gets_an_answer_closes_the_breaker(answer: Exception | None, start: Start, clock: Clock) -> None:
    fail(start(), FAILURES)
    clock.pass_(seconds=30)
    assert call(start(), answer)
    one = start()
    fail(one, FAILURES - 1)  # the row starts afresh
    assert call(one)
    fail(one, FAILURES)
    assert refused_until(one) == clock() + timedelta(seconds=30)  # and so does the doubling


def test_while_one_call_tries_the_others_wait_a_little(start: Start, clock: Clock) -> None:
    fail(start(), FAILURES)
    clock.pass_(seconds=31)
    with start().guard(LLM):
        assert refused_until(start()) == clock() + timedelta(seconds=30)
        clock.pass_(seconds=PROBE_SECONDS - 1)
        assert refused_until(start()) == clock() + timedelta(seconds=1)  # should the prober be dead by then


def test_a_prober_that_dies_makes_room_for_another_whose_word_counts(start: Start, clock: Clock) -> None:
    fail(start(), FAILURES)
    clock.pass_(seconds=30)
    dead, heir = start(), start()
    lost = dead.guard(LLM)
    lost.__enter__()
    assert not call(heir)
    clock.pass_(seconds=PROBE_SECONDS)
    fail(heir)
    end(lost)  # only slow, after all
    assert refused_until(start()) == clock() + timedelta(seconds=60)


@pytest.mark.parametrize("error", NO_ANSWER, ids=lambda error: type(error).__name__)
def test_a_probe_that_learns_nothing_leaves_its_place_to_the_next_caller(
    error: BaseException, start: Start, clock: Clock
) -> None:
    fail(start(), FAILURES)
    clock.pass_(seconds=30)
    assert call(start(), error)
    assert LLM in start().outages()
    with start().guard(LLM):
        assert not call(start())
    assert start().outages() == {}


# Threads and processes


def run_together(*functions: Callable[[], None]) -> None:
    """Run each in a thread of its own, and raise what one of them raised."""
    errors: list[BaseException] = []

    def guarded(function: Callable[[], None]) -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [Thread(target=guarded, args=[function]) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    if errors:
        raise errors[0]


def test_of_all_threads_of_all_processes_exactly_one_gets_the_probe(start: Start, clock: Clock) -> None:
    several = [start(max_connections=3) for _ in range(3)]
    fail(several[0], FAILURES)
    together, concluded, probes = Barrier(9), Semaphore(0), []

    def one(breakers: ProcessBreakers) -> None:
        together.wait(30)
        try:
            with breakers.guard(LLM):
                probes.append(breakers)
                for _ in range(8):
                    assert concluded.acquire(timeout=30), "somebody else got through"
                raise ServiceUnavailableError("503")
        except BreakerOpenError:
            concluded.release()
        except ServiceUnavailableError:
            pass

    for round_ in range(1, 6):
        clock.now = start().outages()[LLM].until
        run_together(*[lambda breakers=breakers: one(breakers) for breakers in several * 3])
        assert len(probes) == round_


def test_failures_of_many_threads_are_each_counted_once(start: Start, admin: Connection) -> None:
    several = [start(max_connections=2, failures=41) for _ in range(4)]

    def one(breakers: ProcessBreakers) -> None:
        fail(breakers, times=5)

    run_together(*[lambda breakers=breakers: one(breakers) for breakers in several * 2])
    assert admin.execute("SELECT failures, opened_at FROM breaker").fetchall() == [(40, None)]
    fail(several[0])
    assert not call(start())


# Cost


def test_a_row_of_quick_calls_costs_one_read_and_no_write(breakers: ProcessBreakers, admin: Connection) -> None:
    for _ in range(100):
        assert call(breakers)
    assert breakers.process.transactions == 1
    assert admin.execute("SELECT * FROM breaker").fetchall() == []


def test_a_slow_call_costs_two_small_transactions_and_writes_nothing(
    breakers: ProcessBreakers, admin: Connection, clock: Clock
) -> None:
    fail(breakers)
    assert call(breakers)
    clock.pass_(seconds=10)
    read_before = breakers.process.transactions
    written = "SELECT pg_snapshot_xmax(pg_current_snapshot())"
    before = admin.execute(written).fetchone()
    with breakers.guard(LLM):
        clock.pass_(seconds=10)
    assert breakers.process.transactions - read_before == 2
    assert admin.execute(written).fetchone() == before


def test_a_batch_that_is_refused_reads_the_breaker_once(breakers: ProcessBreakers) -> None:
    fail(breakers, FAILURES)
    before = breakers.process.transactions
    for _ in range(10):
        assert not call(breakers)
    assert breakers.process.transactions - before == 1


def test_what_a_process_knows_is_a_second_old_at_most(start: Start, clock: Clock) -> None:
    one, other = start(), start()
    assert call(one)
    fail(other, FAILURES)
    clock.pass_(seconds=0.99)
    assert call(one)
    clock.pass_(seconds=0.01)
    assert not call(one)
    clock.pass_(hours=-1)  # a clock that was set back proves nothing about what is known
    assert not call(one)


def test_no_transaction_is_held_during_the_call(breakers: ProcessBreakers, admin: Connection, clock: Clock) -> None:
    open_transactions = """
        SELECT count(*) FROM pg_stat_activity
        WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND datname = current_database()
        AND backend_type = 'client backend' -- autovacuum works whenever it likes
    """
    fail(breakers, FAILURES)
    clock.pass_(seconds=30)
    for _ in ("the probe", "an ordinary call"):
        with breakers.guard(LLM):
            assert admin.execute(open_transactions).fetchone() == (0,)
            with breakers.process.delivery() as connection:  # the pool's only connection is free
                connection.execute("SELECT 1")


# The database away


AWAY = [DatabaseUnavailableError("away"), ConflictError("lock time-out")]


@pytest.mark.parametrize("away", AWAY, ids=lambda error: type(error).__name__)
def test_a_breaker_that_cannot_be_read_lets_the_call_through_and_counts_nothing(away: Exception, start: Start) -> None:
    cut_off = start()
    cut_off.process.away = away
    fail(cut_off, FAILURES)
    assert call(cut_off)
    cut_off.process.away = None
    fail(cut_off, FAILURES - 1)
    assert call(start())


def test_a_breaker_that_is_known_to_be_open_stays_so_for_the_second_that_it_is_known(
    breakers: ProcessBreakers, clock: Clock
) -> None:
    fail(breakers, FAILURES)
    assert not call(breakers)
    breakers.process.away = DatabaseUnavailableError("away")
    assert not call(breakers)
    later(clock)
    assert call(breakers)


@pytest.mark.parametrize("error", [None, ServiceUnavailableError("503"), ANSWERS[0]], ids=["answer", "failure", "4xx"])
def test_a_database_lost_during_the_call_changes_nothing_about_its_outcome(
    error: Exception | None, start: Start, clock: Clock
) -> None:
    breakers = start()
    fail(breakers, FAILURES)
    clock.pass_(seconds=30)
    with ExitStack() as stack:
        if error is not None:
            stack.enter_context(pytest.raises(type(error)))
        with breakers.guard(LLM):
            breakers.process.away = DatabaseUnavailableError("away")
            if error is not None:
                raise error
    assert not call(start())  # nobody heard the probe's answer
    clock.pass_(seconds=PROBE_SECONDS)
    assert call(start())
    assert start().outages() == {}


def test_reading_the_outages_does_say_that_the_database_is_away(breakers: ProcessBreakers) -> None:
    breakers.process.away = DatabaseUnavailableError("away")
    with pytest.raises(DatabaseUnavailableError):
        breakers.outages()


def test_the_settings_say_when_a_breaker_opens(database: Database) -> None:
    given = {"breaker_failures": "2", "breaker_open_seconds": "1000"}
    breakers = Breakers.from_settings(Settings.model_validate(given), database)
    fail(breakers, 2)
    (outage,) = breakers.outages().values()
    assert outage.until - outage.since == timedelta(seconds=1000)
