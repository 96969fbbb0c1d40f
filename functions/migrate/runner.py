"""Applies the numbered migrations to a database, and rolls them back.

`NNNN.name.sql` goes up, `NNNN.name.rollback.sql` down. yoyo reads them, orders them by their `-- depends:` lines and
keeps the list of those applied; `roles.sql` runs before them every time. Each migration and its entry in that list are
one transaction, and one run at a time holds a lock that ends with its connection.
"""

import glob
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict
from yoyo import read_migrations
from yoyo.backends.core.postgresql import PostgresqlPsycopgBackend
from yoyo.connections import DatabaseURI
from yoyo.exceptions import BadMigration
from yoyo.migrations import Migration, MigrationList, default_migration_table

from counterfoil.db import LOCK_SECONDS, mapped
from counterfoil.errors import ConflictError, PermanentError

OWNER = "counterfoil_owner"
LOCK = 0x436F756E746572
"""The advisory lock of a run. Any number that nothing else takes; this one is "Counter" in ASCII."""
WAIT_SECONDS = 300
"""Longest wait for another run to end."""
ROLES_TRIES = 10
"""Roles belong to the whole server: runs for two of its databases can meet at a role, and one of them begins again."""

log = logging.getLogger(__name__)


class MigrationError(PermanentError):
    """The migrations of a folder cannot be applied or rolled back. The sentence names the file and says why."""


class _Backend(PostgresqlPsycopgBackend):  # type: ignore[misc]  # yoyo has no types
    """yoyo's bookkeeping, without its lock: that is a row, which a run that was killed would leave behind."""

    def __init__(self, url: str) -> None:
        arguments = conninfo_to_dict(url)
        database = arguments.pop("dbname", None)
        uri = DatabaseURI("postgresql", None, None, None, None, database, arguments)
        super().__init__(uri, default_migration_table)

    @contextmanager
    def lock(self, timeout: float = 0) -> Iterator[None]:  # noqa: ARG002  # yoyo's signature
        yield


def apply(url: str, folder: Path) -> list[str]:
    """Apply what is not applied yet, in order. Returns the names of the migrations applied.

    `url` connects as a superuser or as RDS's master user.

    Raises:
        MigrationError: the folder holds no migrations, or one that cannot be read.
        CounterfoilError: mapped from psycopg's; the failed migration left nothing, those before it stay.
    """
    migrations = _read(folder)
    with _session(url, folder) as backend:
        return [_move(backend, migration, "apply") for migration in backend.to_apply(migrations)]


def roll_back(url: str, folder: Path, to: str | None = None) -> list[str]:
    """Roll back, newest first, every migration after the one named `to`; without it, all. Returns their names.

    Raises:
        MigrationError: `to` is not applied, or a migration to roll back is not in the folder or has no way down.
        CounterfoilError: mapped from psycopg's; the failed migration is still applied as a whole.
    """
    migrations = _read(folder)
    with _session(url, folder) as backend:
        applied = list(backend.to_rollback(migrations))
        if len(applied) != len(backend.get_applied_migration_hashes()):
            raise MigrationError(f"The database has migrations that {folder} lacks: roll back with the newer code.")
        names = [migration.id for migration in applied]
        if to is not None and to not in names:
            raise MigrationError(f"{to} is not applied: nothing can be rolled back to it.")
        undone = applied if to is None else applied[: names.index(to)]
        for migration in undone:
            if not _way_down(migration).exists():
                raise MigrationError(f"{migration.id} has no way down: {_way_down(migration).name} is missing.")
        return [_move(backend, migration, "rollback") for migration in undone]


def _read(folder: Path) -> MigrationList:
    try:
        migrations = read_migrations(glob.escape(str(folder))).filter(lambda migration: migration.id[0].isdigit())
        for migration in migrations:
            migration.load()  # now: yoyo looks dependencies up among all that the process has read last
    except BadMigration as error:
        raise MigrationError(str(error)) from error
    if not migrations:
        raise MigrationError(f"{folder} holds no migrations.")
    return migrations


def _way_down(migration: Migration) -> Path:
    return Path(migration.path).with_suffix(".rollback.sql")


@contextmanager
def _session(url: str, folder: Path) -> Iterator[_Backend]:
    """One connection that holds the lock, has prepared the roles, and acts as the owner of the tables."""
    try:
        with _Backend(url) as backend:
            connection: psycopg.Connection[Any] = backend.connection
            _lock(connection)
            connection.execute(f"SET lock_timeout = '{LOCK_SECONDS}s'".encode())
            _prepare_roles(connection, (folder / "roles.sql").read_bytes())
            # Not as a start-up option of the connection: RDS Proxy refuses those.
            connection.execute(f"SET ROLE {OWNER}".encode())
            yield backend
    except psycopg.Error as error:
        raise mapped(error) from error


def _lock(connection: psycopg.Connection[Any]) -> None:
    """Wait for the lock, asking again and again: a waiting statement would block CREATE INDEX CONCURRENTLY."""
    deadline = time.monotonic() + WAIT_SECONDS
    while connection.execute("SELECT pg_try_advisory_lock(%s)", [LOCK]).fetchone() != (True,):
        if time.monotonic() > deadline:
            raise ConflictError(f"Other migrations of this database did not end within {WAIT_SECONDS} s")
        time.sleep(0.1)


def _prepare_roles(connection: psycopg.Connection[Any], roles: bytes) -> None:
    for tries_left in reversed(range(ROLES_TRIES)):
        try:
            connection.execute(roles)
        except psycopg.errors.InternalError_ as error:
            if "concurrently updated" not in str(error) or not tries_left:
                raise
            time.sleep(0.05)
        else:
            return


def _move(backend: _Backend, migration: Migration, direction: str) -> str:
    """Apply or roll back one migration, and enter it in the list or strike it off."""
    log.info("%s %s", direction, migration.id)
    enter = backend.mark_one if direction == "apply" else backend.unmark_one
    try:
        if migration.use_transactions:
            with backend.transaction():
                migration.process_steps(backend, direction)
                enter(migration, log=False)
        else:  # statements that refuse a transaction, such as CREATE INDEX CONCURRENTLY
            migration.process_steps(backend, direction)
            enter(migration, log=False)
    except psycopg.Error as error:
        cause = mapped(error)
        raise type(cause)(f"{migration.id}: {cause}") from error
    return str(migration.id)
