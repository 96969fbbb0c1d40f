"""Powertools' guarantees about payload and result types, for both layers."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer, IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.serialization.dataclass import DataclassSerializer
from aws_lambda_powertools.utilities.idempotency.serialization.pydantic import PydanticSerializer
from pydantic import BaseModel

from harness import ORDER, Context, Orders


@pytest.mark.parametrize(
    "outcome",
    [None, "", 0, False, [], {}, [1, {"a": None}], {"nul": "\x00", "half a pair": "\ud800", "€": "ß"}, "x" * 300_000],
    ids=["none", "empty text", "zero", "false", "empty list", "empty object", "nested", "odd characters", "long"],
)
def test_json_results_are_stored_and_returned(layer: BasePersistenceLayer, outcome: Any) -> None:
    orders = Orders(layer)
    orders.outcome = outcome
    first, second = orders.place(order=ORDER), orders.place(order=ORDER)

    assert first == outcome
    assert second == (outcome or None)  # Powertools returns None for empty results
    assert orders.runs == 1


def test_other_types_are_converted_to_json(layer: BasePersistenceLayer) -> None:
    order = {"id": UUID(int=7), "day": date(2026, 2, 11), "at": datetime(2026, 2, 11, 10, tzinfo=UTC), "net": 1.5}
    orders = Orders(layer)
    orders.outcome = {"total": Decimal("148.75"), "order": Numbered(number="PO-1")}
    orders.place(order=order)

    assert orders.place(order=dict(order)) == {"total": "148.75", "order": {"number": "PO-1"}}
    assert orders.runs == 1


@dataclass
class Order:
    number: str


@dataclass
class Placed:
    number: str


def test_dataclass_is_serialized(layer: BasePersistenceLayer) -> None:
    runs = []
    config = IdempotencyConfig(lambda_context=Context())

    def place(*, order: Order) -> Placed:
        runs.append(order)
        return Placed(order.number)

    idempotent_place = idempotent_function(
        place,
        data_keyword_argument="order",
        persistence_store=layer,
        config=config,
        output_serializer=DataclassSerializer(model=Placed),
    )
    assert idempotent_place(order=Order("PO-1")) == idempotent_place(order=Order("PO-1")) == Placed("PO-1")
    assert len(runs) == 1


class Numbered(BaseModel):
    number: str


def test_model_is_serialized(layer: BasePersistenceLayer) -> None:
    orders = Orders(layer)

    def place(*, order: Numbered) -> Numbered:
        orders.runs += 1
        return order

    idempotent_place = idempotent_function(
        place,
        data_keyword_argument="order",
        persistence_store=layer,
        config=orders.config,
        output_serializer=PydanticSerializer(model=Numbered),
    )

    assert (
        idempotent_place(order=Numbered(number="PO-1"))
        == idempotent_place(order=Numbered(number="PO-1"))
        == Numbered(number="PO-1")
    )
    assert orders.runs == 1


def test_model_is_identified_by_its_fields(layer: BasePersistenceLayer) -> None:
    class Model(BaseModel):
        number: str

    orders = Orders(layer)
    orders.place(order=Model(number="PO-1"))
    orders.place(order=Model(number="PO-1"))
    orders.place(order={"number": "PO-1"})

    assert orders.runs == 1
