"""Connects to PostgreSQL, and opens transactions under row-level security.

The errors of psycopg are mapped to Counterfoil's errors.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import inf
from time import monotonic
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

import psycopg
from psycopg.abc import RV, DumperKey, PQGen
from psycopg.adapt import Dumper, PyFormat
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow
from psycopg.sql import SQL
from psycopg.types.array import ListDumper
from psycopg_pool import ConnectionPool

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

CONFLICT_ATTEMPTS = 3
"""Maximum number of attempts at a transaction that fails with a conflict each time."""
CONNECT_SECONDS = 10
KEEPALIVE_SECONDS = 5
"""Idle time before TCP probes the peer, and interval between probes."""
LOCK_SECONDS = 10
"""Maximum wait for a lock. It must be shorter than LEASE_SECONDS, so that a waiting attempt fails before its lease
expires."""
IDLE_SECONDS = 8
"""Maximum idle time in a transaction. A frozen Lambda environment must not hold its locks for longer."""
TRANSACTION_SECONDS = 60
"""Maximum duration of a transaction, unless its caller sets another limit."""
SHORT_TRANSACTION_SECONDS = 6
"""Maximum duration of a small transaction that a whole batch waits for."""
SERVER_GRACE_SECONDS = 2
"""Grace period for the server to end a transaction at its limit. After that, the client closes the connection."""

# Begins a transaction and sets its options in one round trip, because RDS Proxy rejects connection options.
_OPEN = SQL("""
BEGIN; SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, set_config({setting}, {value}, true),
       set_config('lock_timeout', {lock}, true),
       set_config('idle_in_transaction_session_timeout', {idle}, true),
       set_config('transaction_timeout', {total}, true)""")
BY_INDEX = """
set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
set_config('enable_mergejoin', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)
"""
"""SQL that forces index plans in a transaction. psycopg prepares frequent statements, and a plan that was made when a
table was small or not analyzed would scan the whole table for the lifetime of the connection. Planning every execution
would cost more than it saves."""
_BY_INDEX = b", " + " ".join(BY_INDEX.split()).encode()
_NOT_DURABLE = b"; SET LOCAL synchronous_commit = off"

# SQLSTATE codes, or classes (their first two characters), of transient errors. All others are permanent, except one
# case of 0A000 (see `translate_error`).
_CONFLICTS = {
    "40P01",  # deadlock
    "40001",  # serialization failure
    "55P03",  # lock timeout
    "25P02",  # a statement in a transaction that has already failed
    "26000",  # a prepared statement lost in a failover or by a proxy: psycopg prepares it again
}
_UNAVAILABLE = {
    "08",  # connection
    "25006",  # read-only: a failover is in progress
    "25P03",  # idle_in_transaction_session_timeout
    "25P04",  # transaction_timeout
    "28",  # an expired IAM token: the next connection gets a new one
    "3D",  # no such database: it is being restored
    "40",  # another rollback, or a transaction with an unknown outcome
    "53",  # too many connections, out of memory, disk full
    "55000",  # an object is in use, or its transaction is in progress
    "55006",
    "55P04",
    "57",  # shutting down, starting up, canceled by an operator or a timeout
    "58",  # a system error outside PostgreSQL
    "XX",  # an internal error of PostgreSQL
}
_CLIENT_ERRORS = (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError, psycopg.IntegrityError)
"""Errors that psycopg raises for invalid statements before it sends them, so they have no SQLSTATE."""


class CommitUnknownError(DatabaseUnavailableError):
    """The connection was lost during a commit, so the outcome is unknown."""


def translate_error(error: psycopg.Error) -> CounterfoilError:
    """Map an error from psycopg or its pool by SQLSTATE.

    The message omits the parameters, and also the server's text, which can quote them.
    """
    state = error.sqlstate or ""
    name = f"{type(error).__name__} ({state or 'no SQLSTATE'})"
    if state in _CONFLICTS or (state == "0A000" and error.diag.source_function == "RevalidateCachedQuery"):
        # 0A000: a migration changed a prepared statement's columns, and psycopg prepares it again.
        return ConflictError(f"PostgreSQL ended the transaction: {name}")
    if (state in _UNAVAILABLE or state[:2] in _UNAVAILABLE) if state else not isinstance(error, _CLIENT_ERRORS):
        return DatabaseUnavailableError(f"PostgreSQL is not available: {name}")
    constraint = error.diag.constraint_name
    return RejectedStatementError(f"PostgreSQL rejected a statement: {name}{f', {constraint}' if constraint else ''}")


def retry_on_conflict(action: Callable[[], T]) -> T:
    """Run `action`, which opens a transaction, and repeat it after a conflict.

    Raises:
        ConflictError: each of CONFLICT_ATTEMPTS attempts failed with a conflict.
    """
    for _ in range(CONFLICT_ATTEMPTS - 1):
        try:
            return action()
        except ConflictError:
            continue
    return action()


class PageCursor(NamedTuple):
    """Position in a list ordered by time and id."""

    at: datetime
    id: UUID


class TransactionOptions(NamedTuple):
    """Settings of a new transaction."""

    setting: str
    value: str
    """Value of `setting`, which determines the visible rows."""
    lock_seconds: int
    seconds: float
    """Maximum duration of the transaction."""
    durable: bool
    by_index: bool


@lru_cache(maxsize=1_000)
def _statements(options: TransactionOptions) -> bytes:
    """Return the statements that begin a transaction.

    They are cached by options, which differ for each tenant.
    """
    composed = _OPEN.format(
        setting=options.setting,
        value=options.value,
        lock=f"{options.lock_seconds}s",
        idle=f"{IDLE_SECONDS}s",
        total=f"{options.seconds}s",
    ).as_bytes()
    return composed + (_BY_INDEX if options.by_index else b"") + (b"" if options.durable else _NOT_DURABLE)


class _TextsDumper(Dumper):
    def dump(self, obj: list[str]) -> bytes:
        joined = "\0".join(obj)
        if joined.count("\0") != len(obj) - 1:
            message = "PostgreSQL text fields cannot contain NUL (0x00) bytes"
            raise psycopg.DataError(message)
        escaped = joined.replace("\\", "\\\\").replace('"', '\\"')
        return ('{"' + escaped.replace("\0", '","') + '"}').encode()


class _StrDumper(Dumper):
    """Dumps arrays of values whose `str` is a valid PostgreSQL literal."""

    def dump(self, obj: list[Any]) -> bytes:
        return ("{" + ",".join(map(str, obj)) + "}").encode()


class _IdsDumper(_StrDumper):
    oid = psycopg.adapters.types["uuid"].array_oid


class _IntegersDumper(_StrDumper):
    oid = psycopg.adapters.types["int4"].array_oid


class _BooleansDumper(Dumper):
    oid = psycopg.adapters.types["bool"].array_oid

    def dump(self, obj: list[bool]) -> bytes:
        return ("{" + ",".join(["t" if value else "f" for value in obj]) + "}").encode()


_ELEMENT_DUMPERS: dict[type, type[Dumper]] = {
    str: _TextsDumper,
    UUID: _IdsDumper,
    int: _IntegersDumper,
    bool: _BooleansDumper,
}
_INTEGERS = range(-(2**31), 2**31)


def _find_dumper(values: list[Any]) -> type[Dumper] | None:
    types = set(map(type, values))
    dumper = _ELEMENT_DUMPERS.get(types.pop()) if len(types) == 1 else None
    if dumper is _IntegersDumper and not (min(values) in _INTEGERS and max(values) in _INTEGERS):
        return None
    return dumper


class _ListDumper(ListDumper):
    """Converts lists to arrays, faster than psycopg for lists of one simple type.

    The simple types are texts, UUIDs, integers and booleans. For a search by thirty keys, converting the five arrays
    takes 16 microseconds. psycopg's own dumper takes 80, because it dumps each element separately.
    """

    def get_key(self, obj: list[Any], format: PyFormat) -> DumperKey:  # noqa: A002  # psycopg's name
        """Return the dumper for a list of one simple type, or else psycopg's key."""
        return _find_dumper(obj) or super().get_key(obj, format)

    def upgrade(self, obj: list[Any], format: PyFormat) -> Dumper:  # type: ignore[override]  # noqa: A002
        """Return the dumper for a list of one simple type, or else psycopg's dumper."""
        dumper = _find_dumper(obj)
        return super().upgrade(obj, format) if dumper is None else dumper(list, self._tx)


psycopg.adapters.register_dumper(list, _ListDumper)


class BoundedConnection(psycopg.Connection[TupleRow]):
    """A connection that stops waiting at its deadline.

    A hung server does not enforce its own timeouts.
    """

    deadline = inf
    """Time on the monotonic clock at which the connection is closed."""

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait for the server as psycopg does, but not past the deadline.

        Raises:
            psycopg.OperationalError: the deadline has passed, and the connection is closed.
        """
        remaining = self.deadline - monotonic()
        try:
            return super().wait(gen, interval, remaining if timeout is None else min(timeout, remaining))
        except psycopg.OperationalError:
            if monotonic() >= self.deadline:
                self.close()
            raise


class DatabaseClock:
    """The server's clock, derived from this process's clock.

    It is corrected at the start of each transaction. Leases, due times and send times come from many processes. They
    are comparable because all use the server's clock.
    """

    def __init__(self, local: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        """`local` is this process's clock.

        It is used without correction until the first transaction.
        """
        self.local = local
        self.is_set = False
        self._offset = timedelta()

    def __call__(self) -> datetime:
        """Return the corrected time."""
        return self.local() - self._offset

    def set(self, now: datetime, requested_at: datetime) -> None:
        """Correct the clock to the server's time `now`.

        The server's time was requested at the local time `requested_at`. The clock is not changed if it showed `now` at
        any moment since the request, because a slow response must not make a correct clock wrong.
        """
        self._offset = min(max(self._offset, requested_at - now), self.local() - now)
        self.is_set = True


class Database:
    """Transactions on pooled connections, for one tenant or for the delivery role."""

    def __init__(self, conninfo: str | Callable[[], str], *, max_connections: int = 4) -> None:
        """`conninfo` may be a function that is called for each new connection.

        A function can return new IAM tokens, because old tokens expire.
        """
        self.clock = DatabaseClock()
        self._pool = ConnectionPool[BoundedConnection](
            conninfo,
            connection_class=BoundedConnection,
            min_size=0,
            max_size=max_connections,
            timeout=CONNECT_SECONDS,
            # While the database is unavailable, the pool doubles its retry delay until this time has passed, and then
            # starts over.
            reconnect_timeout=CONNECT_SECONDS,
            kwargs={
                "autocommit": True,  # `_OPEN` begins each transaction together with its settings
                "connect_timeout": CONNECT_SECONDS,
                "tcp_user_timeout": CONNECT_SECONDS * 1000,
                "keepalives_idle": KEEPALIVE_SECONDS,
                "keepalives_interval": KEEPALIVE_SECONDS,
                "keepalives_count": 3,
            },
            open=True,
            name="counterfoil",
        )

    @classmethod
    def from_settings(cls, settings: Settings, *, max_connections: int = 4) -> "Database":
        """Return the database at DATABASE_URL, or at DATABASE_HOST with IAM tokens.

        IAM tokens are for DATABASE_USER. The local cloud sets DATABASE_URL.

        Raises:
            InvalidSettingsError: neither is set.
        """
        if settings.database_url is not None:
            return cls(settings.database_url, max_connections=max_connections)
        if settings.database_host is None:
            raise InvalidSettingsError("No database is set: set DATABASE_URL, or DATABASE_HOST to sign in with IAM.")
        return cls(lambda: iam_conninfo(settings), max_connections=max_connections)

    def now(self) -> datetime:
        """Return the server's time.

        Opens a transaction if no earlier one has set the clock.

        Raises:
            DatabaseUnavailableError: the server's time could not be read.
        """
        if not self.clock.is_set:
            with self.delivery(seconds=SHORT_TRANSACTION_SECONDS):
                pass
        return self.clock()

    @contextmanager
    def tenant(self, tenant_id: UUID, *, by_index: bool = False, seconds: float | None = None) -> Iterator[Connection]:
        """Open a transaction that sees only the rows of this tenant.

        An exception rolls it back.

        `by_index` forces index plans (`BY_INDEX`). After `seconds` (TRANSACTION_SECONDS if None), PostgreSQL ends the
        transaction. If the server does not respond, the client closes the connection SERVER_GRACE_SECONDS later.

        Raises:
            ConflictError, DatabaseUnavailableError, CommitUnknownError, RejectedStatementError: mapped from psycopg.
        """
        with self._transaction("counterfoil.tenant", str(tenant_id), by_index=by_index, seconds=seconds) as connection:
            yield connection

    @contextmanager
    def delivery(
        self,
        *,
        lock_seconds: int = LOCK_SECONDS,
        durable: bool = True,
        by_index: bool = False,
        seconds: float | None = None,
    ) -> Iterator[Connection]:
        """Open a transaction of the delivery role.

        The role sees the work item states of all tenants, but no content. If `durable` is False, a server crash soon
        after the commit can lose the changes, so they must be repeatable. The other parameters and the errors are those
        of `tenant`.
        """
        with self._transaction(
            "role", "counterfoil_delivery", lock_seconds, durable=durable, by_index=by_index, seconds=seconds
        ) as connection:
            yield connection

    @contextmanager
    def _transaction(
        self,
        setting: str,
        value: str,
        lock_seconds: int = LOCK_SECONDS,
        *,
        durable: bool = True,
        by_index: bool = False,
        seconds: float | None = None,
    ) -> Iterator[Connection]:
        max_seconds = TRANSACTION_SECONDS if seconds is None else seconds
        try:
            connection = self._open_transaction(
                TransactionOptions(setting, value, lock_seconds, max_seconds, durable, by_index)
            )
        except psycopg.Error as error:
            raise translate_error(error) from error
        try:
            try:
                yield connection
            except BaseException as error:
                self._roll_back(connection)
                if isinstance(error, psycopg.Error):
                    raise translate_error(error) from error
                if isinstance(error, UnicodeEncodeError):  # a Python error that psycopg raises unchanged
                    raise RejectedStatementError("PostgreSQL cannot store a text with a lone surrogate") from error
                raise
            try:
                connection.commit()
            except psycopg.OperationalError as error:
                if connection.broken or connection.closed:
                    raise CommitUnknownError("The connection to PostgreSQL was lost during a commit") from error
                raise translate_error(error) from error
            except psycopg.Error as error:
                raise translate_error(error) from error
        finally:
            self._pool.putconn(connection)

    def _open_transaction(self, options: TransactionOptions) -> BoundedConnection:
        """Return a connection with a new transaction.

        A pooled connection may have been lost while the environment was frozen or the database was unavailable. Then
        its first statement fails, and the next connection is tried. This needs no extra statement to check each
        connection.
        """
        lost_connections, deadline = 0, monotonic() + options.seconds + SERVER_GRACE_SECONDS
        while True:
            connection = self._pool.getconn(min(self._pool.timeout, deadline - monotonic()))
            connection.deadline = deadline
            try:
                self._begin(connection, options)
            except BaseException as error:
                self._roll_back(connection)
                is_lost = connection.closed and isinstance(error, psycopg.OperationalError)
                self._pool.putconn(connection)
                lost_connections += is_lost
                if not is_lost or lost_connections > self._pool.max_size:
                    raise
            else:
                return connection

    def _begin(self, connection: Connection, options: TransactionOptions) -> None:
        requested_at = self.clock.local()
        cursor = connection.execute(_statements(options), prepare=False)
        cursor.nextset()  # skip the result of BEGIN
        (microseconds, *_) = cursor.fetchall()[0]
        self.clock.set(datetime.fromtimestamp(microseconds / 1_000_000, UTC), requested_at)

    @staticmethod
    def _roll_back(connection: Connection) -> None:
        try:
            connection.rollback()
        except psycopg.Error:
            connection.close()  # the server ends the transaction of a closed connection

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()


@contextmanager
def maintenance_connection(database: Database, *, seconds: float | None = None) -> Iterator[Connection]:
    """Open a transaction as counterfoil_maintenance.

    `database` must connect as this user.

    After `seconds`, PostgreSQL ends the transaction. Raises the same errors as `Database.tenant`. The delivery role is
    not sufficient: workers can use it, and they must not see people's addresses or delete expired rows.
    """
    with database.delivery(seconds=seconds) as connection:
        connection.execute("SET LOCAL ROLE counterfoil_maintenance")
        yield connection


@contextmanager
def all_tenants(database: Database) -> Iterator[Connection]:
    """Open a transaction that can list and add tenants.

    `database` must connect as counterfoil_api.

    Raises the same errors as `Database.tenant`.
    """
    with database.delivery() as connection:
        connection.execute("SET LOCAL ROLE counterfoil_api")
        yield connection


def iam_conninfo(settings: Settings) -> str:
    """Return RDS Proxy's connection string, with a new IAM token and verified TLS."""
    from counterfoil import aws

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
