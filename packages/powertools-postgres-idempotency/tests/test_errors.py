"""Errors name their cause, and errors and logs contain no payloads or results."""

import logging
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any

import psycopg
import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyPersistenceLayerError
from psycopg.errors import CheckViolation, DeadlockDetected, SerializationFailure, UndefinedTable
from psycopg_pool import PoolTimeout

from harness import ORDER, PLACED, Connection, Flaky, Killed, Orders, break_connection, open_pool
from powertools_postgres_idempotency import Config, PostgresPersistence
from powertools_postgres_idempotency.config import GRACE_SECONDS
from powertools_postgres_idempotency.transactions import MAX_ATTEMPTS

SECRET = "DE02120300000000202051"  # an account number


def cause(action: Callable[[], object]) -> BaseException:
    """Return the cause of Powertools' error."""
    with pytest.raises(IdempotencyPersistenceLayerError) as raised:
        action()
    assert raised.value.__cause__ is not None
    return raised.value.__cause__


@pytest.mark.parametrize("fail", [break_connection, lambda _: SerializationFailure(), lambda _: DeadlockDetected()])
@pytest.mark.parametrize("when", ["before", "after a result", "after a failure"])
def test_database_error_is_the_cause(fail: Callable[[Connection], Exception], when: str, flaky: Flaky) -> None:
    orders = Orders(PostgresPersistence(flaky))
    orders.outcome = ValueError("out of stock") if when == "after a failure" else PLACED
    failures = [fail] * MAX_ATTEMPTS
    if when == "before":
        flaky.failures = failures
    orders.during = lambda: flaky.failures.extend(failures)

    assert isinstance(cause(lambda: orders.place(order=ORDER)), psycopg.OperationalError)
    assert orders.runs == (when != "before")


def test_rejected_statement_is_not_repeated(flaky: Flaky) -> None:
    flaky.failures = [lambda _: CheckViolation()]
    orders = Orders(PostgresPersistence(flaky))

    assert isinstance(cause(lambda: orders.place(order=ORDER)), CheckViolation)
    assert orders.place(order=ORDER) == PLACED


def test_unavailable_database_is_a_pool_timeout() -> None:
    with open_pool("postgresql://app@127.0.0.1:1/nothing", timeout=0.5) as pool:
        orders = Orders(PostgresPersistence(pool.connection))

        assert isinstance(cause(lambda: orders.place(order=ORDER)), PoolTimeout)


def test_missing_table_raises_undefined_table(store: PostgresPersistence, admin: Connection) -> None:
    admin.execute("DROP TABLE idempotency")

    error = cause(lambda: Orders(store).place(order=ORDER))
    assert isinstance(error, UndefinedTable)
    assert str(error) == "PostgreSQL failed: UndefinedTable (42P01)"


@pytest.mark.parametrize("error", [ValueError("out of stock"), Killed()], ids=repr)
def test_function_error_is_unchanged(store: PostgresPersistence, error: BaseException) -> None:
    orders = Orders(store)
    orders.outcome = error
    with pytest.raises(type(error)) as raised:
        orders.place(order=ORDER)

    assert raised.value is error


# Configuration


def test_config_has_safer_defaults() -> None:
    config = Config("order_id", use_local_cache=True)

    assert config.expires_after_seconds == 86_400
    assert (config.hash_function, config.event_key_jmespath, config.use_local_cache) == ("sha256", "order_id", True)
    assert config.lambda_context is None


@pytest.mark.parametrize(("left", "millis"), [(60, 60_000), (0, 0), (inf, 86_400_000)])
def test_run_counts_as_lost_after_grace_period(left: float, millis: int) -> None:
    context = Config(time_left=lambda: left).lambda_context

    assert context is not None
    assert context.get_remaining_time_in_millis() == min(millis + GRACE_SECONDS * 1000, 86_400_000)


# Contents


@pytest.mark.parametrize("outcome", [{"account": SECRET}, ValueError("out of stock"), Killed()], ids=repr)
def test_payload_and_result_are_not_logged(outcome: Any, flaky: Flaky, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    orders = Orders(PostgresPersistence(flaky), payload_validation_jmespath="account")
    orders.outcome = outcome
    flaky.failures = [break_connection] * MAX_ATTEMPTS
    for _ in range(3):
        with suppress(Killed, Exception):
            orders.place(order={"order_id": "PO-1", "account": SECRET})

    assert caplog.records
    assert SECRET not in caplog.text


def test_rejected_result_is_not_in_the_error(store: PostgresPersistence, admin: Connection) -> None:
    admin.execute("ALTER TABLE idempotency ADD CONSTRAINT small CHECK (length(result) < 10)")
    orders = Orders(store)
    orders.outcome = {"account": SECRET}
    with pytest.raises(IdempotencyPersistenceLayerError, match=r"CheckViolation \(23514, constraint small\)") as raised:
        orders.place(order=ORDER)

    error: BaseException | None = raised.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__
