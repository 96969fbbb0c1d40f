"""Fixtures for all tests: one database per test, and no remote network access."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from pytest_socket import socket_allow_hosts
from xdist.scheduler import LoadFileScheduling

from cli.local.postgres import Server, temporary_server
from counterfoil.db import Connection, Database
from functions.migrate.runner import apply
from tests import factories

MIGRATIONS = Path(__file__).parent.parent / "migrations"
TEMPLATE = "migrated"
CLOUDS = ("tests/e2e/", "tests/e2e/console/", "tests/e2e/test_chaos.py", "tests/e2e/test_tasks.py")
SLOWEST = (*CLOUDS, "tests/tools/test_delivery_model.py", "tests/tools/simulation/test_simulation.py")
"""The slowest tests, slowest first."""
SINGLE_PROCESS_FOLDERS = ("tests/infra/", "tests/tools/sample_generator/")
"""Folders whose tests share a process. Importing aws_cdk takes 4 s, and generating samples 5 s."""
_numbers = count(1)
_resolved: dict[str, set[str]] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Allow only loopback and Unix sockets, in fixtures as well."""
    socket_allow_hosts(["127.0.0.1", "::1", "localhost"], allow_unix_socket=True, resolution_cache=_resolved)


class ByCloud(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Assign tests to processes by file or folder.

    End-to-end tests are assigned by the cloud that they share.
    """

    def _split_scope(self, nodeid: str) -> str:
        folder = next((folder for folder in SINGLE_PROCESS_FOLDERS if nodeid.startswith(folder)), None)
        return folder or cloud_of(nodeid) or super()._split_scope(nodeid)


def cloud_of(nodeid: str) -> str | None:
    """Return the folder or file whose tests share one local cloud, or None."""
    return max((cloud for cloud in CLOUDS if nodeid.startswith(cloud)), key=len, default=None)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByCloud:
    """Keep the collection order, because xdist would start with the largest files."""
    config.option.loadscopereorder = False
    return ByCloud(config, log)


def pytest_xdist_auto_num_workers() -> int:
    """Return the number of cores plus one, because end-to-end tests mostly wait."""
    return (os.cpu_count() or 1) + 1


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark tests that use PostgreSQL. `make test-unit` skips them."""
    if "postgres" in getattr(item, "fixturenames", ()):
        item.add_marker("database")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest tests first.

    Otherwise, processes would wait for them at the end.
    """

    def rank(item: pytest.Item) -> int:
        scope = cloud_of(item.nodeid) or item.nodeid.split("::")[0]
        return SLOWEST.index(scope) if scope in SLOWEST else len(SLOWEST)

    items.sort(key=rank)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A temporary PostgreSQL 18 server for the session."""
    with temporary_server() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_template(postgres: Server) -> str:
    """Name of the fully migrated template database."""
    apply(postgres.create_database(TEMPLATE), MIGRATIONS)
    psycopg.connect(postgres.url(TEMPLATE)).close()  # writes a catalog cache, which clones inherit
    return TEMPLATE


@pytest.fixture(scope="session")
def server_connection(postgres: Server) -> Iterator[Connection]:
    """A connection for creating and dropping databases."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        yield connection


@pytest.fixture
def empty_database(server_connection: Connection) -> Iterator[str]:
    """Name of a new empty database."""
    yield from _database(server_connection, "template1")


@pytest.fixture
def migrated_database(clones: "Clones") -> Iterator[str]:
    """Name of a new database with all migrations."""
    name = clones.take()
    yield name
    clones.drop(name)


@pytest.fixture(scope="session")
def clones(postgres: Server, migrated_template: str) -> Iterator["Clones"]:
    """Factory for clones of the migrated database."""
    with (
        ThreadPoolExecutor(1) as creating,
        ThreadPoolExecutor(1) as dropping,
        psycopg.connect(postgres.url(), autocommit=True) as creator,
        psycopg.connect(postgres.url(), autocommit=True) as dropper,
    ):
        clones = Clones(
            lambda: creating.submit(_create, creator, migrated_template),
            lambda name: dropping.submit(_drop, dropper, name),
        )
        yield clones
        for drop in clones.drops:
            drop.result()  # raises the background thread's error


class Clones:
    """Database clones, created ahead of time and dropped in the background.

    Dropping uses a separate thread, because PostgreSQL waits 100 ms if a connection from the test is still closing.
    """

    def __init__(self, create: Callable[[], Future[str]], drop: Callable[[str], Future[None]]) -> None:
        self._create, self._drop = create, drop
        self._next = create()
        self.drops: list[Future[None]] = []

    def take(self) -> str:
        """Return the name of a new database that no other test uses."""
        try:
            return self._next.result()
        finally:  # a failed creation must not affect later tests
            self._next = self._create()

    def drop(self, name: str) -> None:
        """Drop a database in the background thread."""
        self.drops.append(self._drop(name))


def _database(server_connection: Connection, template: str) -> Iterator[str]:
    name = _create(server_connection, template)
    yield name
    _drop(server_connection, name)


def _create(server_connection: Connection, template: str) -> str:
    name = f"test_{next(_numbers)}"
    create = SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    server_connection.execute(create.format(Identifier(name), Identifier(template)))
    return name


def _drop(server_connection: Connection, name: str) -> None:
    server_connection.execute(SQL("DROP DATABASE {} WITH (FORCE)").format(Identifier(name)))


@pytest.fixture
def database_url(postgres: Server, migrated_database: str) -> str:
    """URL of the test's database for workers (counterfoil_worker)."""
    return postgres.url(migrated_database, "counterfoil_worker")


@pytest.fixture
def api_database_url(postgres: Server, migrated_database: str) -> str:
    """URL of the same database for the API (counterfoil_api)."""
    return postgres.url(migrated_database, "counterfoil_api")


@pytest.fixture
def maintenance_database_url(postgres: Server, migrated_database: str) -> str:
    """URL of the same database for counterfoil_maintenance.

    The watchdog and dead_letters use this role.
    """
    return postgres.url(migrated_database, "counterfoil_maintenance")


@pytest.fixture
def admin_database_url(postgres: Server, migrated_database: str) -> str:
    """URL of the same database for a superuser, which bypasses row-level security."""
    return postgres.url(migrated_database)


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    """The test's database as counterfoil_worker."""
    database = Database(database_url)
    yield database
    database.close()


@pytest.fixture
def maintenance_database(maintenance_database_url: str) -> Iterator[Database]:
    """The same database as counterfoil_maintenance."""
    database = Database(maintenance_database_url)
    yield database
    database.close()


@pytest.fixture
def admin(admin_database_url: str) -> Iterator[Connection]:
    """Superuser connection in autocommit mode, for creating and inspecting rows."""
    with psycopg.connect(admin_database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def make_tenant(admin: Connection) -> Callable[..., UUID]:
    """`make_tenant(slug) -> id`."""
    return partial(factories.make_tenant, admin)


@pytest.fixture
def make_document(admin: Connection) -> Callable[..., UUID]:
    """`make_document(tenant_id, structured_data=None, **columns) -> id`."""
    return partial(factories.make_document, admin)
