"""What Powertools promises of a payload that must not differ, held against ours and its layer for DynamoDB."""

from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyValidationError

from tests.idempotency.conftest import NewLayer, Time
from tests.idempotency.orders import ORDER, PLACED, Orders


def test_the_same_key_with_another_payload_is_refused(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, event_key_jmespath="order_id", payload_validation_jmespath="total")
    orders.place(order=ORDER)
    with pytest.raises(IdempotencyValidationError):
        orders.place(order=ORDER | {"total": "1.00"})

    assert orders.place(order=ORDER | {"lines": []}) == PLACED
    assert orders.runs == 1


def test_it_is_refused_while_the_first_one_runs_too(new_layer: NewLayer) -> None:
    how: dict[str, Any] = {"event_key_jmespath": "order_id", "payload_validation_jmespath": "total"}
    one, other = Orders(new_layer(), **how), Orders(new_layer(), **how)

    def while_it_runs() -> None:
        with pytest.raises(IdempotencyValidationError):
            other.place(order=ORDER | {"total": "1.00"})

    one.during = while_it_runs
    assert one.place(order=ORDER) == PLACED
    assert one.place(order=ORDER) == PLACED


def test_what_was_refused_is_not_cached(new_layer: NewLayer) -> None:
    how: dict[str, Any] = {
        "event_key_jmespath": "order_id",
        "payload_validation_jmespath": "total",
        "use_local_cache": True,
    }
    one, other = Orders(new_layer(), **how), Orders(new_layer(), **how)
    one.place(order=ORDER)
    for _ in range(2):
        with pytest.raises(IdempotencyValidationError):
            other.place(order=ORDER | {"total": "1.00"})

    assert other.place(order=ORDER) == PLACED


def test_a_cached_result_is_held_against_the_payload_too(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer, event_key_jmespath="order_id", payload_validation_jmespath="total", use_local_cache=True)
    orders.place(order=ORDER)

    with pytest.raises(IdempotencyValidationError):
        orders.place(order=ORDER | {"total": "1.00"})


def test_the_payload_may_be_another_once_the_record_has_expired(layer: BasePersistenceLayer, time_told: Time) -> None:
    orders = Orders(
        layer, event_key_jmespath="order_id", payload_validation_jmespath="total", expires_after_seconds=300
    )
    orders.place(order=ORDER)
    time_told.pass_(seconds=302)
    orders.place(order=ORDER | {"total": "1.00"})
    assert orders.runs == 2

    with pytest.raises(IdempotencyValidationError):
        orders.place(order=ORDER)
