"""Test harness: a guarded function, a shared clock, and connections that fail."""

import datetime as dt
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer, IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency import base as powertools_handler
from aws_lambda_powertools.utilities.idempotency.persistence import base, datarecord, dynamodb
from aws_lambda_powertools.utilities.typing import LambdaContext
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from powertools_postgres_idempotency import Connect, persistence

ORDER = {"order_id": "PO-2026-0815", "lines": [{"article": "A-1", "quantity": "12.50"}], "total": "148.75"}
PLACED = {"status": 201, "order_id": "PO-2026-0815", "note": "größer, über 100 €"}
SCHEMA = files("powertools_postgres_idempotency").joinpath("schema.sql").read_bytes()
LAMBDA_SECONDS = 900.0
"""Longest timeout of a Lambda function."""

Connection = psycopg.Connection[Any]
NewLayer = Callable[[], BasePersistenceLayer]
"""Returns another layer on the same records, as another process would have."""


class Time:
    """Clock for Powertools, its DynamoDB layer and the PostgreSQL layer.

    Only tests advance it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = 0.0
        self.start = time.time()
        clock = self

        class Datetime(dt.datetime):
            @classmethod
            def now(cls, tz: dt.tzinfo | None = None) -> Any:
                return dt.datetime.fromtimestamp(clock.seconds(), tz)

        module = SimpleNamespace(**vars(dt) | {"datetime": Datetime})
        for powertools_module in (powertools_handler, base, datarecord, dynamodb):
            monkeypatch.setattr(powertools_module, "dt", module)
        monkeypatch.setattr(persistence, "time", SimpleNamespace(time=self.seconds))

    def seconds(self) -> float:
        return self.start + self.passed

    def __call__(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.seconds(), dt.UTC)

    def advance(self, **units: float) -> None:
        self.passed += dt.timedelta(**units).total_seconds()


class Context(LambdaContext):
    """A Lambda context with the given remaining time."""

    def __init__(self, seconds_left: float = 120) -> None:
        self.seconds_left = seconds_left

    def get_remaining_time_in_millis(self) -> int:  # type: ignore[override]  # Powertools declares a static method
        return int(self.seconds_left * 1000)


class Orders:
    """A function whose effect must happen only once.

    It counts its runs, and returns or raises `outcome`.
    """

    def __init__(self, layer: BasePersistenceLayer, *, seconds_left: float = LAMBDA_SECONDS, **config: Any) -> None:
        self.runs = 0
        self.during: Callable[[], object] = lambda: None
        self.outcome: Any = PLACED
        self.config = IdempotencyConfig(lambda_context=Context(seconds_left), **config)
        self.place = idempotent_function(
            self._place, data_keyword_argument="order", persistence_store=layer, config=self.config
        )

    def _place(self, *, order: Any) -> Any:
        self.runs += 1
        self.during()
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


class Killed(BaseException):
    """Simulates a killed process: Powertools and the layer do nothing after it."""


def kill_during_run(orders: Orders) -> None:
    """Simulate a process that is killed in the middle of the function."""
    orders.outcome = Killed()
    with pytest.raises(Killed):
        orders.place(order=ORDER)
    orders.outcome = PLACED


def rows(admin: Connection) -> list[dict[str, Any]]:
    """Return all records as dicts."""
    return admin.cursor(row_factory=dict_row).execute("SELECT * FROM idempotency").fetchall()


class Flaky:
    """Connections whose next transactions fail before or after the commit."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self.failures: list[Callable[[Connection], Exception]] = []
        self.commit_first = False

    @contextmanager
    def __call__(self) -> Iterator[Connection]:
        fail = self.failures.pop(0) if self.failures else None
        with self._connect() as connection:
            connection.execute("SELECT 1")  # begins a transaction
            yield connection
            if fail is not None:
                if self.commit_first:
                    connection.commit()
                raise fail(connection)


def break_connection(connection: Connection) -> Exception:
    """Break the connection like a network failure."""
    connection.pgconn.finish()
    return psycopg.OperationalError("the connection is lost")


def open_pool(url: str, **options: Any) -> ConnectionPool[Connection]:
    """Return a pool for tests, which connects on first use."""
    return ConnectionPool(url, **{"open": True, "min_size": 0, "max_size": 4} | options)
