"""Powertools' guarantees about a process's local cache, for both layers."""

import pytest
from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
)

from harness import ORDER, PLACED, NewLayer, Orders, Time


def forbid(layer: BasePersistenceLayer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if the store is used from now on."""
    for method in ("_get_record", "_put_record", "_update_record", "_delete_record"):
        monkeypatch.setattr(layer, method, lambda *_, **__: pytest.fail("the store was used"))


def test_cached_result_does_not_use_store(layer: BasePersistenceLayer, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = Orders(layer, use_local_cache=True)
    orders.place(order=ORDER)
    forbid(layer, monkeypatch)

    assert orders.place(order=ORDER) == PLACED


def test_stored_result_from_another_process_is_cached(new_layer: NewLayer, monkeypatch: pytest.MonkeyPatch) -> None:
    Orders(new_layer(), use_local_cache=True).place(order=ORDER)
    layer = new_layer()
    orders = Orders(layer, use_local_cache=True)
    orders.place(order=ORDER)
    forbid(layer, monkeypatch)

    assert orders.place(order=ORDER) == PLACED
    assert orders.runs == 0


def test_cached_result_expires(layer: BasePersistenceLayer, clock: Time) -> None:
    orders = Orders(layer, use_local_cache=True, expires_after_seconds=300)
    orders.place(order=ORDER)
    clock.advance(seconds=302)
    orders.place(order=ORDER)

    assert orders.runs == 2


def test_record_in_progress_is_not_cached(new_layer: NewLayer) -> None:
    first, second = Orders(new_layer(), use_local_cache=True), Orders(new_layer(), use_local_cache=True)

    def call_during_run() -> None:
        with pytest.raises(IdempotencyAlreadyInProgressError):
            second.place(order=ORDER)

    first.during = call_during_run
    first.place(order=ORDER)

    assert second.place(order=ORDER) == PLACED


def test_cache_size_is_limited(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, use_local_cache=True, local_cache_max_items=2)
    for number in range(4):
        orders.place(order={"order_id": number})

    assert len(layer._cache) == 2
    assert [orders.place(order={"order_id": number}) for number in range(4)] == [PLACED] * 4
    assert orders.runs == 4


def test_failure_is_not_cached(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, use_local_cache=True)
    orders.outcome = ValueError("out of stock")
    with pytest.raises(ValueError, match="stock"):
        orders.place(order=ORDER)

    assert len(layer._cache) == 0
