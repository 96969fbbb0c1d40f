"""A function that must have its effect once, to be guarded by a persistence layer."""

from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer, IdempotencyConfig, idempotent_function

from tests.delivery.harness import Context

ORDER = {"order_id": "PO-2026-0815", "lines": [{"article": "A-1", "quantity": "12.50"}], "total": "148.75"}
PLACED = {"status": 201, "order_id": "PO-2026-0815", "note": "größer, über 100 €"}
LONGEST = 900.0
"""Seconds that a Lambda function may run, at most."""


class Orders:
    """A function with an effect that must happen once: it counts, and returns or raises as told."""

    def __init__(self, layer: BasePersistenceLayer, *, left: float = LONGEST, **config: Any) -> None:
        self.runs = 0
        self.during: Callable[[], object] = lambda: None
        self.answer: Any = PLACED
        self.config = IdempotencyConfig(lambda_context=Context(left), **config)
        self.place = idempotent_function(
            self._place, data_keyword_argument="order", persistence_store=layer, config=self.config
        )

    def _place(self, *, order: Any) -> Any:
        self.runs += 1
        self.during()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Killed(BaseException):
    """The process is gone: nothing that it would have done after this is done."""


def lose(orders: Orders) -> None:
    """Run until the process dies in the middle of it."""
    orders.answer = Killed()
    with pytest.raises(Killed):
        orders.place(order=ORDER)
    orders.answer = PLACED
