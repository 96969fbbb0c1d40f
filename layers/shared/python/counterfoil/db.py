"""PostgreSQL: connections, transactions under row-level security, and the mapping of psycopg's errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from uuid import UUID

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolTimeout

from counterfoil.errors import (
    ConflictError,
    CounterfoilError,
    DatabaseUnavailableError,
    InvalidSettingsError,
    RejectedStatementError,
)
from counterfoil.settings import Settings

Connection = psycopg.Connection[TupleRow]
T = TypeVar("T")

CONFLICT_TRIES = 3
"""How often a transaction that lost against another one runs in all, before its error leaves the process."""
CONNECT_SECONDS = 10
LOCK_SECONDS = 10
"""Longest wait for a lock: shorter than any lease, so that a waiter fails while it still owns its work."""
IDLE_SECONDS = 8
"""Longest pause inside a transaction. A frozen Lambda environment must not keep its locks from others for longer."""
TRANSACTION_SECONDS = 60
"""Longest transaction."""

# Settings of one transaction, given in its first statement: RDS Proxy refuses them as options of the connection.
_OPEN = f"""
SELECT set_config(%s, %s, true), set_config('lock_timeout', '{LOCK_SECONDS}s', true),
       set_config('idle_in_transaction_session_timeout', '{IDLE_SECONDS}s', true),
       set_config('transaction_timeout', '{TRANSACTION_SECONDS}s', true)
""".encode()

_CONFLICTS = (pg.DeadlockDetected, pg.SerializationFailure, pg.LockNotAvailable)
_UNAVAILABLE = (
    pg.AdminShutdown,
    pg.CrashShutdown,
    pg.CannotConnectNow,
    pg.ReadOnlySqlTransaction,
    pg.TooManyConnections,
    pg.IdleInTransactionSessionTimeout,
    pg.TransactionTimeout,
    psycopg.InterfaceError,
    PoolTimeout,
)


class CommitUnknownError(DatabaseUnavailableError):
    """The connection was lost while a commit was under way: it may have happened or not."""


def mapped(error: psycopg.Error | PoolTimeout) -> CounterfoilError:
    """The error of our tree for one of psycopg's. The statement's parameters are never part of the message."""
    state = getattr(error, "sqlstate", None) or "no SQLSTATE"
    name = type(error).__name__
    if isinstance(error, _CONFLICTS):
        return ConflictError(f"PostgreSQL ended the transaction: {name} ({state})")
    if isinstance(error, _UNAVAILABLE):
        return DatabaseUnavailableError(f"PostgreSQL is not available: {name} ({state})")
    if isinstance(error, psycopg.OperationalError):
        # Class 08 and errors without a code: no connection. Out of memory, disk full and the like pass too.
        return DatabaseUnavailableError(f"PostgreSQL is not available: {name} ({state})")
    constraint = getattr(getattr(error, "diag", None), "constraint_name", None)
    return RejectedStatementError(
        f"PostgreSQL refused a statement: {name} ({state}{f', {constraint}' if constraint else ''})"
    )


def retry_conflicts(action: Callable[[], T]) -> T:
    """Run `action`, which opens its own transaction, again when PostgreSQL ended it in favour of another one.

    Raises:
        ConflictError: it lost CONFLICT_TRIES times.
    """
    for _ in range(CONFLICT_TRIES - 1):
        try:
            return action()
        except ConflictError:
            continue
    return action()


class Database:
    """Transactions, each for one tenant or for delivery as such, on pooled connections."""

    def __init__(self, conninfo: str | Callable[[], str], *, max_connections: int = 4) -> None:
        """`conninfo` may be a function, called for each new connection: IAM tokens live 15 minutes."""
        self._pool = ConnectionPool[Connection](
            conninfo,
            min_size=0,
            max_size=max_connections,
            timeout=CONNECT_SECONDS,
            check=ConnectionPool.check_connection,
            # The pool doubles its pauses while the database is away; after this long it starts again at the first.
            reconnect_timeout=CONNECT_SECONDS,
            kwargs={"connect_timeout": CONNECT_SECONDS, "tcp_user_timeout": CONNECT_SECONDS * 1000},
            open=True,
            name="counterfoil",
        )

    @classmethod
    def from_settings(cls, settings: Settings, *, max_connections: int = 4) -> "Database":
        """DATABASE_URL where it is set (the local cloud), else DATABASE_HOST with an IAM token for DATABASE_USER.

        Raises:
            InvalidSettingsError: neither is set.
        """
        if settings.database_url is not None:
            return cls(settings.database_url, max_connections=max_connections)
        if settings.database_host is None:
            raise InvalidSettingsError("No database: set DATABASE_URL, or DATABASE_HOST to sign in with IAM.")
        return cls(lambda: iam_conninfo(settings), max_connections=max_connections)

    @contextmanager
    def tenant(self, tenant_id: UUID) -> Iterator[Connection]:
        """One transaction that sees this tenant's rows alone; committed at the end, rolled back on any exception.

        Raises:
            ConflictError, DatabaseUnavailableError, CommitUnknownError, RejectedStatementError: mapped from psycopg.
        """
        with self._transaction("counterfoil.tenant", str(tenant_id)) as connection:
            yield connection

    @contextmanager
    def delivery(self) -> Iterator[Connection]:
        """One transaction as the delivery role: every tenant's life cycles, no content. Raises as `tenant`."""
        with self._transaction("role", "counterfoil_delivery") as connection:
            yield connection

    @contextmanager
    def _transaction(self, setting: str, value: str) -> Iterator[Connection]:
        try:
            connection = self._pool.getconn()
        except (psycopg.Error, PoolTimeout) as error:
            raise mapped(error) from error
        try:
            try:
                connection.execute(_OPEN, [setting, value])
                yield connection
            except BaseException as error:
                self._roll_back(connection)
                if isinstance(error, psycopg.Error):
                    raise mapped(error) from error
                raise
            try:
                connection.commit()
            except psycopg.OperationalError as error:
                if connection.broken or connection.closed:
                    raise CommitUnknownError("The connection to PostgreSQL was lost during a commit") from error
                raise mapped(error) from error
            except psycopg.Error as error:
                raise mapped(error) from error
        finally:
            self._pool.putconn(connection)

    @staticmethod
    def _roll_back(connection: Connection) -> None:
        try:
            connection.rollback()
        except psycopg.Error:
            connection.close()  # the server ends the transaction of a connection that is gone

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()


def iam_conninfo(settings: Settings) -> str:
    """How to connect to RDS Proxy with a fresh IAM token. TLS is required and the server's certificate verified."""
    from counterfoil import aws  # an AWS client is only needed on AWS

    token = aws.client("rds").generate_db_auth_token(
        DBHostname=settings.database_host, Port=settings.database_port, DBUsername=settings.database_user
    )
    return make_conninfo(
        host=settings.database_host,
        port=settings.database_port,
        dbname=settings.database_name,
        user=settings.database_user,
        password=token,
        sslmode="verify-full",
        sslrootcert="system",
    )
