"""What ours promises beyond Powertools' own layers: a run ends under the claim and the name that it began with."""

import logging
from collections.abc import Callable
from threading import Barrier, Thread
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import jmespath  # type: ignore[import-untyped]
import pytest
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyPersistenceLayerError,
)

from counterfoil.db import Connection, Database
from counterfoil.idempotency import PostgresPersistence
from tests.delivery.harness import Context, rows
from tests.delivery.test_unavailable import Flaky, away, flaky, unknown
from tests.idempotency.conftest import Time
from tests.idempotency.orders import ORDER, PLACED, Killed, Orders

__all__ = ["flaky"]

NEWER = {"status": 200, "by": "the newer run"}


@pytest.fixture
def persistence(database: Database, tenant: UUID, time_told: Time) -> PostgresPersistence:
    """Ours, by a clock that is told."""
    return PostgresPersistence(database, tenant, clock=time_told)


@pytest.fixture
def another(database: Database, tenant: UUID, time_told: Time) -> PostgresPersistence:
    """The same of another process."""
    return PostgresPersistence(database, tenant, clock=time_told)


# A run that ends after its time


def overtaken(late: PostgresPersistence, newer: Orders, time_told: Time, **how: Any) -> Orders:
    """Orders whose run lasts longer than it may, so that `newer` runs in the middle of it."""
    orders = Orders(late, left=10, **how)

    def during() -> None:
        time_told.pass_(seconds=11)
        newer.place(order=ORDER)

    orders.during = during
    return orders


def test_a_late_result_does_not_replace_the_newer_one(
    persistence: PostgresPersistence, another: PostgresPersistence, time_told: Time, caplog: pytest.LogCaptureFixture
) -> None:
    newer = Orders(another)
    newer.answer = NEWER
    late = overtaken(persistence, newer, time_told, use_local_cache=True)

    assert late.place(order=ORDER) == PLACED  # it did what it did
    assert late.place(order=ORDER) == newer.place(order=ORDER) == NEWER  # not even from its cache
    assert "ended after its time" in caplog.text
    assert "#" not in caplog.text


def test_a_late_result_does_not_end_a_newer_run(
    persistence: PostgresPersistence, another: PostgresPersistence, time_told: Time
) -> None:
    newer = Orders(another)
    newer.answer = Killed()
    late = overtaken(persistence, newer, time_told)
    inner = late.during

    def during() -> None:
        with pytest.raises(Killed):
            inner()

    late.during = during
    late.place(order=ORDER)

    with pytest.raises(IdempotencyAlreadyInProgressError):
        late.place(order=ORDER)


def test_a_late_failure_does_not_free_the_key_of_a_newer_run(
    persistence: PostgresPersistence, another: PostgresPersistence, time_told: Time
) -> None:
    newer = Orders(another)
    late = overtaken(persistence, newer, time_told)
    late.answer = ValueError("out of stock")
    with pytest.raises(ValueError, match="out of stock"):
        late.place(order=ORDER)
    late.answer = PLACED

    assert late.place(order=ORDER) == PLACED
    assert (late.runs, newer.runs) == (1, 1)


def test_a_late_result_counts_where_nobody_took_the_key_over(persistence: PostgresPersistence, time_told: Time) -> None:
    late = Orders(persistence, left=10)
    late.during = lambda: time_told.pass_(seconds=11)
    late.place(order=ORDER)

    assert late.place(order=ORDER) == PLACED
    assert late.runs == 1


def test_a_late_result_counts_where_the_newer_run_failed(
    persistence: PostgresPersistence, another: PostgresPersistence, time_told: Time
) -> None:
    newer = Orders(another)
    newer.answer = ValueError("out of stock")
    late = overtaken(persistence, newer, time_told)
    inner = late.during

    def during() -> None:
        with pytest.raises(ValueError, match="out of stock"):
            inner()

    late.during = during
    late.place(order=ORDER)

    assert late.place(order=ORDER) == PLACED
    assert late.runs == 1


# One layer for functions that call one another, and for threads


def guarded(layer: PostgresPersistence, function: Callable[..., Any], name: str) -> Callable[..., Any]:
    config = IdempotencyConfig(lambda_context=Context())
    return idempotent_function(  # type: ignore[no-any-return]
        function, data_keyword_argument="order", persistence_store=layer, config=config, key_prefix=name
    )


def test_a_durable_function_that_is_replayed_ends_under_its_own_name_whatever_it_called(
    persistence: PostgresPersistence, admin: Connection
) -> None:
    is_killed = [True, False]

    def reserve(*, order: Any) -> str:
        return "reserved"

    reserved = guarded(persistence, reserve, "reserve")

    @idempotent(persistence_store=persistence, key_prefix="handle")
    def handle(event: dict[str, Any], context: Any) -> list[str]:
        if is_killed.pop(0):
            raise Killed
        return [reserved(order=event), "placed"]

    context: Any = SimpleNamespace(lambda_context=Context(), state=SimpleNamespace(operations=[]))
    with pytest.raises(Killed):
        handle(ORDER, context)
    context.state.operations = ["begun", "step"]

    assert handle(ORDER, context) == handle(ORDER, Context()) == ["reserved", "placed"]
    assert {row["key"].partition("#")[0]: row["status"] for row in rows(admin, "idempotency")} == {
        "handle": "COMPLETED",
        "reserve": "COMPLETED",
    }


@pytest.mark.parametrize("order", [ORDER, "PO-1"], ids=["object", "text"])
def test_a_function_within_a_function_keeps_its_own_result(persistence: PostgresPersistence, order: Any) -> None:
    ran: list[str] = []

    def reserve(*, order: Any) -> str:
        ran.append("reserve")
        return "reserved"

    def place(*, order: Any) -> list[str]:
        ran.append("place")
        return [reserved(order=order), "placed"]

    reserved, placed = guarded(persistence, reserve, "reserve"), guarded(persistence, place, "place")

    for _ in range(2):
        assert placed(order=order) == ["reserved", "placed"]
        assert reserved(order=order) == "reserved"
    assert ran == ["place", "reserve"]


def test_a_function_that_fails_frees_its_own_key_and_not_that_of_the_one_within(
    persistence: PostgresPersistence,
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

    reserved, placed = guarded(persistence, reserve, "reserve"), guarded(persistence, place, "place")
    with pytest.raises(ValueError, match="out of stock"):
        placed(order=ORDER)

    assert placed(order=ORDER) == "placed"
    assert ran == ["place", "reserve", "place"]


def test_a_function_within_that_never_ended_does_not_confuse_the_outer_one(
    persistence: PostgresPersistence, admin: Connection
) -> None:
    def reserve(*, order: Any) -> str:
        raise Killed

    def place(*, order: Any) -> str:
        with pytest.raises(Killed):
            guarded(persistence, reserve, "reserve")(order=order)
        return "placed"

    guarded(persistence, place, "place")(order=ORDER)

    assert {row["key"].partition("#")[0]: row["status"] for row in rows(admin, "idempotency")} == {
        "place": "COMPLETED",
        "reserve": "INPROGRESS",
    }
    assert persistence._thread.runs == []


def test_threads_that_run_different_functions_keep_each_its_own(persistence: PostgresPersistence) -> None:
    everybody_runs = Barrier(3, timeout=30)
    ran: list[str] = []

    def make(name: str) -> Callable[..., Any]:
        def function(*, order: Any) -> str:
            ran.append(name)
            everybody_runs.wait()
            return name

        return guarded(persistence, function, name)

    functions = {name: make(name) for name in ("place", "change", "cancel")}
    threads = [Thread(target=function, kwargs={"order": ORDER}) for function in functions.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {name: function(order=ORDER) for name, function in functions.items()} == {name: name for name in functions}
    assert sorted(ran) == sorted(functions)


def test_threads_that_come_at_the_first_use_find_the_whole_configuration(
    persistence: PostgresPersistence, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_ = jmespath.compile
    orders = Orders(persistence, event_key_jmespath="order_id")
    failed: list[BaseException] = []

    def place() -> None:
        try:
            orders.place(order=ORDER)
        except IdempotencyAlreadyInProgressError:
            pass
        except BaseException as error:  # noqa: BLE001  # told by the test's own thread
            failed.append(error)

    other = Thread(target=place)

    def slow(expression: str) -> Any:
        other.start()
        other.join(0.3)  # as long as it may get ahead; it waits, if all is well
        return compile_(expression)

    monkeypatch.setattr(jmespath, "compile", slow)
    place()
    other.join()

    assert failed == []
    assert orders.runs == 1


# A commit that nobody heard


@pytest.mark.parametrize("was_made", [False, True])
def test_a_claim_whose_commit_nobody_heard_is_found_or_made_again(
    flaky: Flaky, tenant: UUID, was_made: bool, admin: Connection
) -> None:
    orders = Orders(PostgresPersistence(flaky, tenant))
    flaky.fail_tenant, flaky.commit_then_fail = [unknown], was_made

    assert orders.place(order=ORDER) == PLACED
    assert orders.runs == 1
    assert [(row["status"], row["claims"]) for row in rows(admin, "idempotency")] == [("COMPLETED", 1)]


@pytest.mark.parametrize("was_made", [False, True])
def test_an_end_whose_commit_nobody_heard_is_found_or_made_again(flaky: Flaky, tenant: UUID, was_made: bool) -> None:
    flaky.commit_then_fail = was_made
    orders = Orders(PostgresPersistence(flaky, tenant))
    orders.during = lambda: flaky.fail_tenant.append(unknown)
    orders.answer = ValueError("out of stock")
    with pytest.raises(ValueError, match="out of stock"):
        orders.place(order=ORDER)
    orders.answer = PLACED

    assert orders.place(order=ORDER) == PLACED
    orders.during = lambda: None
    assert orders.place(order=ORDER) == PLACED
    assert orders.runs == 2


def test_a_result_that_could_not_be_kept_leaves_the_key_taken(flaky: Flaky, tenant: UUID, admin: Connection) -> None:
    orders = Orders(PostgresPersistence(flaky, tenant))
    orders.during = lambda: flaky.fail_tenant.append(away)
    with pytest.raises(IdempotencyPersistenceLayerError):
        orders.place(order=ORDER)

    with pytest.raises(IdempotencyAlreadyInProgressError):
        orders.place(order=ORDER)
    admin.execute("UPDATE idempotency SET in_progress_until = now() - interval '1 second'")
    orders.during = lambda: None
    assert orders.place(order=ORDER) == PLACED


# What is kept


def test_a_record_tells_of_its_runs_and_keeps_a_hash_of_the_result(
    persistence: PostgresPersistence, time_told: Time, admin: Connection
) -> None:
    orders = Orders(persistence, expires_after_seconds=300, payload_validation_jmespath="total")
    orders.place(order=ORDER)
    time_told.pass_(seconds=302)
    orders.place(order=ORDER)

    (row,) = rows(admin, "idempotency")
    assert (row["status"], row["claims"]) == ("COMPLETED", 2)
    assert len(row["result_hash"]) == len("\\x") + 64
    assert row["payload_hash"]
    assert row["completed_at"]


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
