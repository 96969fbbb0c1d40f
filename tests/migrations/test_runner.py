"""Migrations are applied and rolled back, and unsafe changes are refused."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copy

import psycopg
import pytest

from cli.local.postgres import Server, temporary_server
from counterfoil.errors import ConflictError, RejectedStatementError
from functions.migrate import runner
from functions.migrate.runner import MigrationError, apply, roll_back
from tools.schema import MIGRATIONS
from tools.schema import schema as schema_of

NAMES = [path.stem for path in sorted(MIGRATIONS.glob("[0-9]*.sql")) if not path.name.endswith(".rollback.sql")]
SECOND = "CREATE TABLE second (id int);"


@pytest.fixture
def url(postgres: Server, empty_database: str) -> str:
    """URL of an empty database for the superuser."""
    return postgres.url(empty_database)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the project's roles and one small migration."""
    copy(MIGRATIONS / "roles.sql", tmp_path)
    write(tmp_path, "0001.first", "CREATE TABLE first (id int);", "DROP TABLE first;")
    return tmp_path


def write(folder: Path, name: str, up: str, down: str | None = None) -> None:
    (folder / f"{name}.sql").write_text(up)
    if down is not None:
        (folder / f"{name}.rollback.sql").write_text(down)


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    return {name for (name,) in rows} - {runner.TABLE}


def test_each_rollback_restores_the_previous_schema(url: str, tmp_path: Path):
    copy(MIGRATIONS / "roles.sql", tmp_path)
    write(tmp_path, "0000.nothing", "SELECT;")  # roles.sql alone changes the schema
    apply(url, tmp_path)
    schemas = [schema_of(url)]
    for name in NAMES:
        copy(MIGRATIONS / f"{name}.sql", tmp_path)
        copy(MIGRATIONS / f"{name}.rollback.sql", tmp_path)
        assert apply(url, tmp_path) == [name]
        schemas.append(schema_of(url))
    assert len(set(schemas)) == len(schemas)

    earlier = ["0000.nothing", *NAMES]
    for index in reversed(range(len(NAMES))):
        assert roll_back(url, tmp_path, to=earlier[index]) == [NAMES[index]]
        assert schema_of(url) == schemas[index], NAMES[index]

    assert apply(url, tmp_path) == NAMES
    assert schema_of(url) == schemas[-1]


def test_second_run_applies_nothing(url: str, folder: Path):
    assert apply(url, folder) == ["0001.first"]
    assert apply(url, folder) == []


def test_migrations_are_applied_in_numeric_order(url: str, folder: Path):
    write(folder, "0010.last", "ALTER TABLE second ADD COLUMN note text;")
    write(folder, "0002.second", SECOND)
    assert apply(url, folder) == ["0001.first", "0002.second", "0010.last"]


def test_failed_migration_changes_nothing(url: str, folder: Path):
    write(folder, "0002.second", f"{SECOND} SELECT 1/0;")
    with pytest.raises(RejectedStatementError, match=r"^0002\.second: .*DivisionByZero"):
        apply(url, folder)
    assert tables(url) == {"first"}
    write(folder, "0002.second", SECOND)  # may be corrected, because it was not applied
    assert apply(url, folder) == ["0002.second"]


def test_failed_rollback_leaves_the_migration_applied(url: str, folder: Path):
    write(folder, "0002.second", SECOND, "DROP TABLE second; SELECT 1/0;")
    apply(url, folder)
    with pytest.raises(RejectedStatementError, match=r"^0002\.second: .*DivisionByZero"):
        roll_back(url, folder)
    assert tables(url) == {"first", "second"}
    assert apply(url, folder) == []


def test_lost_connection_changes_nothing(url: str, folder: Path):
    write(folder, "0002.second", f"{SECOND} SELECT pg_terminate_backend(pg_backend_pid());")
    with pytest.raises(Exception, match=r"0002\.second"):
        apply(url, folder)
    assert tables(url) == {"first"}
    write(folder, "0002.second", SECOND)
    assert apply(url, folder) == ["0002.second"]


def test_concurrent_runs_apply_each_migration_once(url: str):
    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(lambda _: apply(url, MIGRATIONS), range(4)))
    assert sorted(applied) == [[], [], [], NAMES]


def test_concurrent_runs_migrate_several_databases(postgres: Server, url: str, folder: Path):
    urls = [url, *(postgres.create_database(f"meeting_{number}") for number in range(3))]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda database: apply(database, folder), urls)) == [["0001.first"]] * 4


def test_run_stops_waiting_for_another_run(url: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runner, "WAIT_SECONDS", 0.01)
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [runner.LOCK])
        with pytest.raises(ConflictError, match="Another migration run"):
            apply(url, folder)
    monkeypatch.undo()
    assert apply(url, folder) == ["0001.first"]  # the lock was released when its connection ended


def test_changed_migration_is_refused(url: str, folder: Path):
    apply(url, folder)
    write(folder, "0001.first", "CREATE TABLE first (id bigint);")
    write(folder, "0002.second", SECOND)
    with pytest.raises(MigrationError, match=r"0001\.first\.sql has changed since it was applied"):
        apply(url, folder)
    assert tables(url) == {"first"}


def test_migration_numbered_below_an_applied_one_is_refused(url: str, folder: Path):
    write(folder, "0003.third", "CREATE TABLE third (id int);")
    apply(url, folder)
    write(folder, "0002.second", SECOND)
    with pytest.raises(MigrationError, match=r"0002\.second comes before 0003\.third, which is applied"):
        apply(url, folder)


def test_two_migrations_with_one_number_are_refused(url: str, folder: Path):
    write(folder, "0001.second", SECOND)
    with pytest.raises(MigrationError, match=r"0001\.first and 0001\.second have the same number"):
        apply(url, folder)


def test_empty_migrations_folder_is_refused(url: str, tmp_path: Path):
    with pytest.raises(MigrationError, match="contains no migrations"):
        apply(url, tmp_path)


def test_previous_release_can_be_deployed_again(url: str, folder: Path):
    write(folder, "0002.second", SECOND)
    apply(url, folder)
    (folder / "0002.second.sql").unlink()
    assert apply(url, folder) == []


def test_rollback_requires_the_applied_migration_file(url: str, folder: Path):
    write(folder, "0002.second", SECOND, "DROP TABLE second;")
    apply(url, folder)
    (folder / "0002.second.sql").unlink()
    with pytest.raises(MigrationError, match="newer release"):
        roll_back(url, folder)


def test_rollback_stops_at_the_named_migration(url: str, folder: Path):
    write(folder, "0002.second", SECOND, "DROP TABLE second;")
    write(folder, "0003.third", "CREATE TABLE third (id int);", "DROP TABLE third;")
    apply(url, folder)
    assert roll_back(url, folder, to="0001.first") == ["0003.third", "0002.second"]
    assert roll_back(url, folder, to="0001.first") == []
    assert tables(url) == {"first"}


def test_rollback_to_an_unapplied_migration_is_refused(url: str, folder: Path):
    apply(url, folder)
    with pytest.raises(MigrationError, match=r"0009\.unknown, because it is not applied"):
        roll_back(url, folder, to="0009.unknown")


def test_missing_rollback_file_is_refused(url: str, folder: Path):
    write(folder, "0002.second", SECOND)
    apply(url, folder)
    with pytest.raises(MigrationError, match=r"0002\.second\.rollback\.sql is missing"):
        roll_back(url, folder)
    assert tables(url) == {"first", "second"}


@pytest.fixture
def rds() -> Iterator[str]:
    """A server like RDS: its master user creates roles and is not a superuser."""
    with temporary_server() as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("CREATE ROLE master LOGIN CREATEROLE CREATEDB")
            connection.execute("CREATE ROLE rds_iam")
            connection.execute("GRANT rds_iam TO master WITH ADMIN TRUE")
            connection.execute("CREATE DATABASE counterfoil OWNER master")
        with psycopg.connect(server.url("counterfoil"), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")  # RDS allows its master user to do this
        yield server.url("counterfoil", "master")


def test_rds_master_user_can_migrate(rds: str):
    assert apply(rds, MIGRATIONS) == NAMES
    assert apply(rds, MIGRATIONS) == []
    assert roll_back(rds, MIGRATIONS) == NAMES[::-1]
    with psycopg.connect(rds) as connection:
        members = connection.execute(
            "SELECT member::regrole::text FROM pg_auth_members WHERE roleid = 'rds_iam'::regrole ORDER BY 1"
        ).fetchall()
    assert [member for (member,) in members] == [
        "counterfoil_api",
        "counterfoil_maintenance",
        "counterfoil_worker",
        "master",
    ]
