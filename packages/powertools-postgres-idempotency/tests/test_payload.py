"""Powertools' guarantees about payload validation, for both layers."""

from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyValidationError

from harness import ORDER, PLACED, NewLayer, Orders, Time


def test_same_key_with_other_payload_is_rejected(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, event_key_jmespath="order_id", payload_validation_jmespath="total")
    orders.place(order=ORDER)
    with pytest.raises(IdempotencyValidationError):
        orders.place(order=ORDER | {"total": "1.00"})

    assert orders.place(order=ORDER | {"lines": []}) == PLACED
    assert orders.runs == 1


def test_other_payload_during_run_is_rejected(new_layer: NewLayer) -> None:
    options: dict[str, Any] = {"event_key_jmespath": "order_id", "payload_validation_jmespath": "total"}
    first, second = Orders(new_layer(), **options), Orders(new_layer(), **options)

    def call_during_run() -> None:
        with pytest.raises(IdempotencyValidationError):
            second.place(order=ORDER | {"total": "1.00"})

    first.during = call_during_run
    assert first.place(order=ORDER) == PLACED
    assert first.place(order=ORDER) == PLACED


def test_rejected_payload_is_not_cached(new_layer: NewLayer) -> None:
    options: dict[str, Any] = {
        "event_key_jmespath": "order_id",
        "payload_validation_jmespath": "total",
        "use_local_cache": True,
    }
    first, second = Orders(new_layer(), **options), Orders(new_layer(), **options)
    first.place(order=ORDER)
    for _ in range(2):
        with pytest.raises(IdempotencyValidationError):
            second.place(order=ORDER | {"total": "1.00"})

    assert second.place(order=ORDER) == PLACED


def test_cached_result_validates_payload(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, event_key_jmespath="order_id", payload_validation_jmespath="total", use_local_cache=True)
    orders.place(order=ORDER)

    with pytest.raises(IdempotencyValidationError):
        orders.place(order=ORDER | {"total": "1.00"})


def test_expired_record_accepts_another_payload(layer: BasePersistenceLayer, clock: Time) -> None:
    orders = Orders(
        layer, event_key_jmespath="order_id", payload_validation_jmespath="total", expires_after_seconds=300
    )
    orders.place(order=ORDER)
    clock.advance(seconds=302)
    orders.place(order=ORDER | {"total": "1.00"})
    assert orders.runs == 2

    with pytest.raises(IdempotencyValidationError):
        orders.place(order=ORDER)
