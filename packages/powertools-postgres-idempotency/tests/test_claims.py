"""Runs keep their claim and their function name.

Powertools' own layers do not guarantee this.
"""

import logging
from collections.abc import Callable
from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any

import jmespath  # type: ignore[import-untyped]
import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyPersistenceLayerError,
)
from psycopg.errors import DeadlockDetected, SerializationFailure
from psycopg_pool import ConnectionPool

from harness import ORDER, PLACED, Connection, Context, Flaky, Killed, Orders, Time, break_connection, rows
from powertools_postgres_idempotency import PostgresPersistence
from powertools_postgres_idempotency.transactions import MAX_ATTEMPTS

NEWER = {"status": 200, "by": "the newer run"}


@pytest.fixture
def store(pool: ConnectionPool[Connection], clock: Time) -> PostgresPersistence:
    """The PostgreSQL layer, with the test's clock."""
    return PostgresPersistence(pool.connection, clock=clock)


@pytest.fixture
def another(pool: ConnectionPool[Connection], clock: Time) -> PostgresPersistence:
    """The layer of another process."""
    return PostgresPersistence(pool.connection, clock=clock)


# Runs that end after their deadline


def late_orders(late: PostgresPersistence, newer: Orders, clock: Time, **options: Any) -> Orders:
    """Return orders whose run exceeds its deadline.

    During that run, `newer` runs for the same key.
    """
    orders = Orders(late, seconds_left=10, **options)

    def during() -> None:
        clock.advance(seconds=11)
        newer.place(order=ORDER)

    orders.during = during
    return orders


def test_late_result_does_not_replace_newer_result(
    store: PostgresPersistence, another: PostgresPersistence, clock: Time, caplog: pytest.LogCaptureFixture
) -> None:
    newer = Orders(another)
    newer.outcome = NEWER
    late = late_orders(store, newer, clock, use_local_cache=True)

    assert late.place(order=ORDER) == PLACED  # its own result
    assert late.place(order=ORDER) == newer.place(order=ORDER) == NEWER  # not the late run's cached result
    assert "ended after its deadline" in caplog.text
    assert "#" not in caplog.text


def test_late_result_does_not_end_newer_run(
    store: PostgresPersistence, another: PostgresPersistence, clock: Time
) -> None:
    newer = Orders(another)
    newer.outcome = Killed()
    late = late_orders(store, newer, clock)
    inner = late.during

    def during() -> None:
        with pytest.raises(Killed):
            inner()

    late.during = during
    late.place(order=ORDER)

    with pytest.raises(IdempotencyAlreadyInProgressError):
        late.place(order=ORDER)


def test_late_failure_keeps_key_of_newer_run(
    store: PostgresPersistence, another: PostgresPersistence, clock: Time
) -> None:
    newer = Orders(another)
    late = late_orders(store, newer, clock)
    late.outcome = ValueError("out of stock")
    with pytest.raises(ValueError, match="out of stock"):
        late.place(order=ORDER)
    late.outcome = PLACED

    assert late.place(order=ORDER) == PLACED
    assert (late.runs, newer.runs) == (1, 1)


def test_late_result_without_newer_run_is_stored(store: PostgresPersistence, clock: Time) -> None:
    late = Orders(store, seconds_left=10)
    late.during = lambda: clock.advance(seconds=11)
    late.place(order=ORDER)

    assert late.place(order=ORDER) == PLACED
    assert late.runs == 1


def test_late_result_after_failed_newer_run_is_stored(
    store: PostgresPersistence, another: PostgresPersistence, clock: Time
) -> None:
    newer = Orders(another)
    newer.outcome = ValueError("out of stock")
    late = late_orders(store, newer, clock)
    inner = late.during

    def during() -> None:
        with pytest.raises(ValueError, match="out of stock"):
            inner()

    late.during = during
    late.place(order=ORDER)

    assert late.place(order=ORDER) == PLACED
    assert late.runs == 1


# Nested functions and threads that share a layer


def guarded(layer: PostgresPersistence, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    config = IdempotencyConfig(lambda_context=Context())
    return idempotent_function(  # type: ignore[no-any-return]
        function, data_keyword_argument="order", persistence_store=layer, config=config, key_prefix=name
    )


def test_replayed_durable_function_keeps_its_name(store: PostgresPersistence, admin: Connection) -> None:
    is_killed = [True, False]

    def reserve(*, order: Any) -> str:
        return "reserved"

    reserved = guarded(store, reserve, "reserve")

    @idempotent(persistence_store=store, key_prefix="handle")
    def handle(event: dict[str, Any], context: Any) -> list[str]:
        if is_killed.pop(0):
            raise Killed
        return [reserved(order=event), "placed"]

    context: Any = SimpleNamespace(lambda_context=Context(), state=SimpleNamespace(operations=[]))
    with pytest.raises(Killed):
        handle(ORDER, context)
    context.state.operations = ["begun", "step"]

    assert handle(ORDER, context) == handle(ORDER, Context()) == ["reserved", "placed"]
    assert {row["key"].partition("#")[0]: row["status"] for row in rows(admin)} == {
        "handle": "COMPLETED",
        "reserve": "COMPLETED",
    }


@pytest.mark.parametrize("order", [ORDER, "PO-1"], ids=["object", "text"])
def test_nested_functions_keep_their_own_results(store: PostgresPersistence, order: Any) -> None:
    ran: list[str] = []

    def reserve(*, order: Any) -> str:
        ran.append("reserve")
        return "reserved"

    def place(*, order: Any) -> list[str]:
        ran.append("place")
        return [reserved(order=order), "placed"]

    reserved, placed = guarded(store, reserve, "reserve"), guarded(store, place, "place")

    for _ in range(2):
        assert placed(order=order) == ["reserved", "placed"]
        assert reserved(order=order) == "reserved"
    assert ran == ["place", "reserve"]


def test_failed_outer_function_frees_only_its_key(
    store: PostgresPersistence,
) -> None:
    ran: list[str] = []

    def reserve(*, order: Any) -> str:
        ran.append("reserve")
        return "reserved"

    def place(*, order: Any) -> str:
        ran.append("place")
        reserved(order=order)
        if ran.count("place") == 1:
            raise ValueError("out of stock")
        return "placed"

    reserved, placed = guarded(store, reserve, "reserve"), guarded(store, place, "place")
    with pytest.raises(ValueError, match="out of stock"):
        placed(order=ORDER)

    assert placed(order=ORDER) == "placed"
    assert ran == ["place", "reserve", "place"]


def test_aborted_inner_function_does_not_affect_outer(store: PostgresPersistence, admin: Connection) -> None:
    def reserve(*, order: Any) -> str:
        raise Killed

    def place(*, order: Any) -> str:
        with pytest.raises(Killed):
            guarded(store, reserve, "reserve")(order=order)
        return "placed"

    guarded(store, place, "place")(order=ORDER)

    assert {row["key"].partition("#")[0]: row["status"] for row in rows(admin)} == {
        "place": "COMPLETED",
        "reserve": "INPROGRESS",
    }
    assert store._thread.runs == []


def test_threads_keep_their_own_results(store: PostgresPersistence) -> None:
    all_running = Barrier(3, timeout=30)
    ran: list[str] = []

    def make(name: str) -> Callable[..., Any]:
        def function(*, order: Any) -> str:
            ran.append(name)
            all_running.wait()
            return name

        return guarded(store, function, name)

    functions = {name: make(name) for name in ("place", "change", "cancel")}
    threads = [Thread(target=function, kwargs={"order": ORDER}) for function in functions.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {name: function(order=ORDER) for name, function in functions.items()} == {name: name for name in functions}
    assert sorted(ran) == sorted(functions)


def test_concurrent_first_use_sees_complete_configuration(
    store: PostgresPersistence, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_ = jmespath.compile
    orders = Orders(store, event_key_jmespath="order_id")
    errors: list[BaseException] = []

    def place() -> None:
        try:
            orders.place(order=ORDER)
        except IdempotencyAlreadyInProgressError:
            pass
        except BaseException as error:  # noqa: BLE001  # checked at the end
            errors.append(error)

    second_call = Thread(target=place)

    def slow_compile(expression: str) -> Any:
        second_call.start()
        second_call.join(0.3)  # long enough to overtake; with a correct layer, the second call waits
        return compile_(expression)

    monkeypatch.setattr(jmespath, "compile", slow_compile)
    place()
    second_call.join()

    assert errors == []
    assert orders.runs == 1


# Lost connections and conflicts


@pytest.mark.parametrize("fail", [break_connection, lambda _: SerializationFailure(), lambda _: DeadlockDetected()])
def test_rolled_back_claim_is_repeated(
    flaky: Flaky, fail: Callable[[Connection], Exception], admin: Connection
) -> None:
    orders = Orders(PostgresPersistence(flaky))
    flaky.failures = [fail] * (MAX_ATTEMPTS - 1)

    assert orders.place(order=ORDER) == PLACED
    assert orders.runs == 1
    assert [(row["status"], row["claims"]) for row in rows(admin)] == [("COMPLETED", 1)]


def test_claim_with_lost_commit_response_is_repeated(flaky: Flaky, admin: Connection) -> None:
    orders = Orders(PostgresPersistence(flaky))
    flaky.failures, flaky.commit_first = [break_connection], True

    assert orders.place(order=ORDER) == PLACED
    assert orders.runs == 1
    assert [(row["status"], row["claims"]) for row in rows(admin)] == [("COMPLETED", 1)]


@pytest.mark.parametrize("commit_first", [False, True])
def test_key_is_freed_despite_lost_connection(flaky: Flaky, commit_first: bool) -> None:
    flaky.commit_first = commit_first
    orders = Orders(PostgresPersistence(flaky))
    orders.during = lambda: flaky.failures.append(break_connection)
    orders.outcome = ValueError("out of stock")
    with pytest.raises(ValueError, match="out of stock"):
        orders.place(order=ORDER)
    orders.outcome = PLACED

    assert orders.place(order=ORDER) == PLACED
    orders.during = lambda: None
    assert orders.place(order=ORDER) == PLACED
    assert orders.runs == 2


@pytest.mark.parametrize("begins", [False, True])
def test_dead_pooled_connection_is_replaced(
    begins: bool, pool: ConnectionPool[Connection], flaky: Flaky, admin: Connection
) -> None:
    orders = Orders(PostgresPersistence(flaky if begins else pool.connection))
    orders.during = lambda: admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename='app'")

    assert orders.place(order=ORDER) == PLACED
    assert [row["status"] for row in rows(admin)] == ["COMPLETED"]


def test_unstored_result_leaves_key_taken(flaky: Flaky, admin: Connection) -> None:
    orders = Orders(PostgresPersistence(flaky))
    orders.during = lambda: flaky.failures.extend([break_connection] * MAX_ATTEMPTS)
    with pytest.raises(IdempotencyPersistenceLayerError):
        orders.place(order=ORDER)

    with pytest.raises(IdempotencyAlreadyInProgressError):
        orders.place(order=ORDER)
    admin.execute("UPDATE idempotency SET in_progress_until = now() - interval '1 second'")
    orders.during = lambda: None
    assert orders.place(order=ORDER) == PLACED


def test_record_counts_its_claims(store: PostgresPersistence, clock: Time, admin: Connection) -> None:
    orders = Orders(store, expires_after_seconds=300, payload_validation_jmespath="total")
    orders.place(order=ORDER)
    clock.advance(seconds=302)
    orders.place(order=ORDER)

    (row,) = rows(admin)
    assert (row["status"], row["claims"]) == ("COMPLETED", 2)
    assert row["payload_hash"]
    assert row["completed_at"]


@pytest.fixture(autouse=True)
def _log_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
