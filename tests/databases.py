"""Databases of tests: clones of the migrated database.

A clone in which a test changed only rows is emptied and reused. Creating and dropping a clone takes about 100 ms,
because it has 1,300 files. Emptying one takes a tenth of that. Both happen in a thread while the next test runs.
"""

from collections.abc import Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from itertools import count
from typing import Any

from psycopg import pq
from psycopg.sql import SQL, Identifier

from cli.local.postgres import Server
from counterfoil.db import Connection

LARGEST = 256 * 1024
"""Bytes of a table from which a clone is not reused, because its size would change later plans."""
_numbers = count(1)

_SEEDED = ("applied_migration", "audit_salt_of_nobody")
"""Tables with rows from migrations."""
_TABLES = "pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
# A schema change gives a new row to one of these catalogs, and ANALYZE to pg_statistic.
_CATALOGS = {
    "pg_attrdef": "adrelid",
    "pg_attribute": "attrelid",
    "pg_class": "oid",
    "pg_constraint": "conrelid",
    "pg_index": "indrelid",
    "pg_policy": "polrelid",
    "pg_proc": "oid",
    "pg_rewrite": "ev_class",
    "pg_statistic": "starelid",
    "pg_trigger": "tgrelid",
}
_FIRST_OID = 16384
"""System objects have lower ones."""
_VERSIONS = " UNION ALL ".join(
    f"SELECT concat('{name}', count(*), max(xmin::text::bigint)) FROM {name} WHERE {oid} >= {_FIRST_OID}"
    for name, oid in _CATALOGS.items()
)
_ROWS = " UNION ALL ".join(f"SELECT concat('{name}', one) FROM {name} AS one" for name in _SEEDED)
_STATE = f"""
SELECT md5(string_agg(text, ',' ORDER BY text)) FROM (
    {_VERSIONS} UNION ALL {_ROWS}
    UNION ALL SELECT s::text FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
    WHERE d.datname = current_database()
    UNION ALL SELECT oid::text FROM {_TABLES} AND pg_relation_size(oid) > {LARGEST}
) AS state (text)
"""  # constants
_DISCONNECT = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_EMPTY = f"""
SET session_replication_role = replica;
SET lock_timeout = '5s';
DO $$
DECLARE name regclass;
BEGIN
    FOR name IN SELECT oid::regclass FROM {_TABLES} AND relname <> ALL(ARRAY{list(_SEEDED)})
        AND pg_relation_size(oid) > 0
    LOOP
        EXECUTE format('DELETE FROM %s', name);
    END LOOP;
END $$;
SELECT setval(format('%I.%I', schemaname, sequencename), start_value, false) FROM pg_sequences
WHERE last_value IS NOT NULL;
SELECT pg_stat_reset();
"""  # constants


class Clones:
    """Clones of a migrated database, prepared and cleaned up in a thread."""

    def __init__(self, server: Server, maintenance: Connection, template: str, thread: Executor) -> None:
        self._server, self._maintenance, self._template, self._thread = server, maintenance, template, thread
        self._free: list[str] = []
        self._state = _state(server, template)
        self._next = thread.submit(self._prepare)
        self.returned: list[Future[None]] = []

    def take(self) -> str:
        """Return an empty database that no other test uses."""
        try:
            return self._next.result()
        finally:  # a failed creation must not fail the tests after this one
            self._next = self._thread.submit(self._prepare)

    def give_back(self, name: str) -> None:
        """Empty a database in the thread, or drop it if more than rows changed."""
        self.returned.append(self._thread.submit(self._clean_up, name))

    def _prepare(self) -> str:
        return self._free.pop() if self._free else create(self._maintenance, self._template)

    def _clean_up(self, name: str) -> None:
        if _emptied(self._server, name, self._state):
            self._free.append(name)
        else:
            drop(self._maintenance, name)


def create(maintenance: Connection, template: str) -> str:
    """Create a database and return its name."""
    name = f"test_{next(_numbers)}"
    statement = SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    maintenance.execute(statement.format(Identifier(name), Identifier(template)))
    return name


def drop(maintenance: Connection, name: str) -> None:
    """Drop a database, even if a test has left connections to it."""
    maintenance.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


def _emptied(server: Server, name: str, state: bytes) -> bool:
    """Delete all rows. Return False if the database cannot be reused."""
    with _connection(server, name) as connection:
        return _run(connection, _DISCONNECT) and _run(connection, _EMPTY) and _read(connection) == state


def _state(server: Server, name: str) -> bytes:
    with _connection(server, name) as connection:
        return _read(connection)


def _read(connection: Any) -> bytes:
    return bytes(connection.exec_(_STATE.encode()).get_value(0, 0))


def _run(connection: Any, statements: str) -> bool:
    return bool(connection.exec_(statements.encode()).status == pq.ExecStatus.TUPLES_OK)


@contextmanager
def _connection(server: Server, name: str) -> Iterator[Any]:
    """Connect by libpq itself, because a test may have replaced what psycopg offers."""
    connection = pq.PGconn.connect(server.url(name).encode())
    try:
        yield connection
    finally:
        connection.finish()
