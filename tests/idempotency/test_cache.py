"""What Powertools promises of the cache of a process, held against ours and against its layer for DynamoDB."""

import pytest
from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
)

from tests.idempotency.conftest import NewLayer, Time
from tests.idempotency.orders import ORDER, PLACED, Orders


def away(layer: BasePersistenceLayer, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the store is not to be asked."""
    for method in ("_get_record", "_put_record", "_update_record", "_delete_record"):
        monkeypatch.setattr(layer, method, lambda *_, **__: pytest.fail("the store was asked"))


def test_a_cached_result_asks_nobody(layer: BasePersistenceLayer, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = Orders(layer, use_local_cache=True)
    orders.place(order=ORDER)
    away(layer, monkeypatch)

    assert orders.place(order=ORDER) == PLACED


def test_another_process_s_result_is_cached_when_it_is_found(
    new_layer: NewLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    Orders(new_layer(), use_local_cache=True).place(order=ORDER)
    layer = new_layer()
    orders = Orders(layer, use_local_cache=True)
    orders.place(order=ORDER)
    away(layer, monkeypatch)

    assert orders.place(order=ORDER) == PLACED
    assert orders.runs == 0


def test_a_cached_result_expires(layer: BasePersistenceLayer, time_told: Time) -> None:
    orders = Orders(layer, use_local_cache=True, expires_after_seconds=300)
    orders.place(order=ORDER)
    time_told.pass_(seconds=302)
    orders.place(order=ORDER)

    assert orders.runs == 2


def test_what_is_in_progress_is_not_cached(new_layer: NewLayer) -> None:
    one, other = Orders(new_layer(), use_local_cache=True), Orders(new_layer(), use_local_cache=True)

    def while_it_runs() -> None:
        with pytest.raises(IdempotencyAlreadyInProgressError):
            other.place(order=ORDER)

    one.during = while_it_runs
    one.place(order=ORDER)

    assert other.place(order=ORDER) == PLACED


def test_the_cache_is_of_the_size_asked_for(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, use_local_cache=True, local_cache_max_items=2)
    for number in range(4):
        orders.place(order={"order_id": number})

    assert len(layer._cache) == 2
    assert [orders.place(order={"order_id": number}) for number in range(4)] == [PLACED] * 4
    assert orders.runs == 4


def test_a_failure_leaves_nothing_in_the_cache(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, use_local_cache=True)
    orders.answer = ValueError("out of stock")
    with pytest.raises(ValueError, match="stock"):
        orders.place(order=ORDER)

    assert len(layer._cache) == 0
