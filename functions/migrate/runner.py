"""Applies the numbered migrations to a database, and rolls them back.

`NNNN.name.sql` is a migration, and `NNNN.name.rollback.sql` is its rollback. Migrations are applied in the order of
their numbers. Each run executes `roles.sql` first. A migration and its row in `applied_migration` are written in one
transaction. An advisory lock allows only one run at a time. It is released when the connection closes.
"""

import hashlib
import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psycopg

from counterfoil.db import LOCK_SECONDS, Connection, translate_error
from counterfoil.errors import ConflictError, PermanentError

OWNER = "counterfoil_owner"
TABLE = "applied_migration"
LOCK = 0x436F756E746572
"""Key of the advisory lock: "Counter" in ASCII. Do not use it for anything else."""
WAIT_SECONDS = 300
"""Maximum wait for another run to end."""
ROLES_ATTEMPTS = 10
"""Maximum attempts to prepare the roles. Databases on a server share roles, so runs for two databases can conflict."""

_FILE = re.compile(r"\d{4}\.\w+\.sql")

log = logging.getLogger(__name__)


class MigrationError(PermanentError):
    """Migrations cannot be applied or rolled back.

    The message contains the file and the reason.
    """


@dataclass(frozen=True)
class Migration:
    """A numbered file."""

    path: Path
    sql: bytes

    @property
    def name(self) -> str:
        """File name without its extension, such as `0001.tenants`."""
        return self.path.stem

    @property
    def number(self) -> str:
        """The first four digits of the name."""
        return self.name[:4]

    @property
    def checksum(self) -> bytes:
        """SHA-256 of the file."""
        return hashlib.sha256(self.sql).digest()

    @property
    def rollback(self) -> Path:
        """Path of the file that undoes the migration."""
        return self.path.with_suffix(".rollback.sql")


def apply(url: str, folder: Path) -> list[str]:
    """Apply pending migrations in order. Return their names.

    `url` connects as a superuser or as RDS's master user. Applied migrations that are not in the folder are ignored, so
    that the previous release can be deployed again.

    Raises:
        MigrationError: the folder has no migrations, an applied migration has changed, or a pending migration precedes
            an applied migration.
        CounterfoilError: mapped from psycopg. The failed migration is rolled back. Earlier migrations remain applied.
    """
    migrations = _read(folder)
    with _session(url, folder) as connection:
        pending = _pending(migrations, _applied(connection))
        for migration in pending:
            log.info("applying %s", migration.name)
            _execute(connection, migration.name, migration.sql, _INSERT, [migration.name, migration.checksum])
    return [migration.name for migration in pending]


def roll_back(url: str, folder: Path, to: str | None = None) -> list[str]:
    """Roll back all migrations, or all migrations after `to`, newest first.

    Return their names.

    Raises:
        MigrationError: `to` is not applied, or a migration to roll back or its rollback is not in the folder.
        CounterfoilError: mapped from psycopg. The migration whose rollback failed remains applied.
    """
    migrations = {migration.name: migration for migration in _read(folder)}
    with _session(url, folder) as connection:
        names = list(_applied(connection))
        if to is not None and to not in names:
            raise MigrationError(f"Cannot roll back to {to}, because it is not applied.")
        rolled_back = names[0 if to is None else names.index(to) + 1 :][::-1]
        for name in rolled_back:
            if name not in migrations:
                raise MigrationError(f"{folder} lacks the applied migration {name}. Roll back with the newer release.")
            if not migrations[name].rollback.exists():
                raise MigrationError(f"{name} cannot be rolled back: {migrations[name].rollback.name} is missing.")
        for name in rolled_back:
            log.info("rolling back %s", name)
            _execute(connection, name, migrations[name].rollback.read_bytes(), _DELETE, [name])
    return rolled_back


def _read(folder: Path) -> list[Migration]:
    paths = sorted(path for path in folder.glob("*.sql") if _FILE.fullmatch(path.name))
    migrations = [Migration(path, path.read_bytes()) for path in paths]
    if not migrations:
        raise MigrationError(f"{folder} contains no migrations.")
    for earlier, later in pairwise(migrations):
        if earlier.number == later.number:
            raise MigrationError(f"{earlier.name} and {later.name} have the same number. Renumber one of them.")
    return migrations


def _pending(migrations: list[Migration], applied: dict[str, bytes]) -> list[Migration]:
    newest = max(applied, default="")
    pending = []
    for migration in migrations:
        checksum = applied.get(migration.name)
        if checksum is None and migration.name < newest:
            raise MigrationError(f"{migration.name} comes before {newest}, which is applied. Give it a higher number.")
        if checksum is None:
            pending.append(migration)
        elif checksum != migration.checksum:
            raise MigrationError(
                f"{migration.path.name} has changed since it was applied. Add a new migration instead."
            )
    return pending


_CREATE = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    name       text PRIMARY KEY,
    checksum   bytea NOT NULL,  -- SHA-256 of the file
    applied_at timestamptz NOT NULL DEFAULT now()
)"""
_INSERT = f"INSERT INTO {TABLE} (name, checksum) VALUES (%s, %s)"  # noqa: S608  # a constant
_DELETE = f"DELETE FROM {TABLE} WHERE name = %s"  # noqa: S608  # a constant
_SELECT = f'SELECT name, checksum FROM {TABLE} ORDER BY name COLLATE "C"'  # noqa: S608  # a constant


def _applied(connection: Connection) -> dict[str, bytes]:
    """Return the checksums of applied migrations by name, oldest first."""
    return dict(connection.execute(_SELECT).fetchall())


@contextmanager
def _session(url: str, folder: Path) -> Iterator[Connection]:
    """Open a connection, take the lock, prepare roles, and become the tables' owner."""
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            _lock(connection)
            connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'".encode())
            _prepare_roles(connection, (folder / "roles.sql").read_bytes())
            # Not a startup option of the connection, because RDS Proxy rejects startup options.
            connection.execute(f"SET ROLE {OWNER}".encode())
            connection.execute(_CREATE.encode())
            yield connection
    except psycopg.Error as error:
        raise translate_error(error) from error


def _lock(connection: Connection) -> None:
    connection.execute(f"SET lock_timeout = '{WAIT_SECONDS}s'".encode())
    try:
        connection.execute("SELECT pg_advisory_lock(%s)", [LOCK])
    except psycopg.errors.LockNotAvailable:
        raise ConflictError(f"Another migration run did not end within {WAIT_SECONDS} s.") from None


def _prepare_roles(connection: Connection, roles: bytes) -> None:
    for attempts_left in reversed(range(ROLES_ATTEMPTS)):
        try:
            connection.execute(roles)
        except psycopg.errors.InternalError_ as error:
            if "concurrently updated" not in str(error) or not attempts_left:
                raise
            time.sleep(0.05)
        else:
            return


def _execute(connection: Connection, name: str, sql: bytes, record_statement: str, values: list[str | bytes]) -> None:
    """Execute a file and update `applied_migration`, in one transaction."""
    try:
        with connection.transaction():
            connection.execute(sql)
            connection.execute(record_statement.encode(), values)
    except psycopg.Error as error:
        cause = translate_error(error)
        raise type(cause)(f"{name}: {cause}") from error
