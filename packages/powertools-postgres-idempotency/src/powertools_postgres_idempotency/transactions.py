"""Transactions that are repeated after conflicts and lost connections."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import psycopg
from psycopg.errors import AdminShutdown, ConnectionTimeout, CrashShutdown, DeadlockDetected, SerializationFailure
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row
from psycopg_pool import PoolTimeout

MAX_ATTEMPTS = 3
"""Maximum number of attempts at a transaction, including the first."""

Connect = Callable[[], AbstractContextManager[psycopg.Connection[Any]]]
"""Returns a context manager that commits at its end and rolls back on an exception: `ConnectionPool.connection`."""
Cursor = psycopg.Cursor[TupleRow]
T = TypeVar("T")


def transact(connect: Connect, action: Callable[[Cursor], T]) -> T:
    """Run `action` in a transaction, up to MAX_ATTEMPTS times.

    The connection can be lost after PostgreSQL committed, so a repeated `action` must recognize its own rows.

    Raises:
        psycopg.Error: PostgreSQL's error class without its message, which can quote stored values, or psycopg's own
            error.
    """
    attempts = 0
    while True:
        attempts += 1
        try:
            with connect() as connection, _transaction(connection):
                # The cursor does not depend on the connection's row and cursor factories.
                return action(psycopg.Cursor(connection, row_factory=tuple_row))
        except psycopg.Error as error:
            if attempts < MAX_ATTEMPTS and _is_transient(error):
                continue
            if error.sqlstate is None:  # raised by the client
                raise
            constraint = error.diag.constraint_name
            detail = f", constraint {constraint}" if constraint else ""
            raise type(error)(f"PostgreSQL failed: {type(error).__name__} ({error.sqlstate}{detail})") from None


def _is_transient(error: psycopg.Error) -> bool:
    """Return True if a retry can succeed, after a conflict or a lost connection."""
    if error.sqlstate is None:
        has_waited = isinstance(error, (ConnectionTimeout, PoolTimeout))
        return isinstance(error, psycopg.OperationalError) and not has_waited
    return isinstance(error, (AdminShutdown, CrashShutdown, DeadlockDetected, SerializationFailure))


def _transaction(connection: psycopg.Connection[Any]) -> AbstractContextManager[object]:
    """Begin a transaction, even with autocommit, unless `connect` began one."""
    is_idle = connection.info.transaction_status == TransactionStatus.IDLE
    return connection.transaction() if is_idle else nullcontext()
