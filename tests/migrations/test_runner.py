"""Applying the migrations and rolling them back."""

import getpass
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import copytree

import psycopg
import pytest

from cli.postgres import Server, temporary_server
from counterfoil.errors import ConflictError, RejectedStatementError
from functions.migrate import runner
from functions.migrate.runner import MigrationError, apply, roll_back
from tools.schema import MIGRATIONS, SCHEMA, sum_of_migrations
from tools.schema import schema as schema_of

NAMES = sorted(
    path.name.removesuffix(".sql") for path in MIGRATIONS.glob("[0-9]*.sql") if not path.name.endswith(".rollback.sql")
)
TRICKY = """
-- depends: 0001.first
-- A comment; with a semicolon, and it's got an apostrophe.
CREATE FUNCTION tricky() RETURNS text LANGUAGE plpgsql AS $body$
DECLARE
    found text := '--'; -- neither ends; the statement
BEGIN
    IF found = '--' THEN
        found := format($inner$%s; /* kept */ 100%%$inner$, found);
    END IF;
    RETURN CASE WHEN true THEN found ELSE '' END;
END
$body$;
CREATE TABLE "odd;name" (value text DEFAULT 'a;--b');
DO $do$ BEGIN INSERT INTO "odd;name" DEFAULT VALUES; END $do$;
-- a last comment
"""


@pytest.fixture
def url(postgres: Server, empty_database: str) -> str:
    """An empty database, for the superuser."""
    return postgres.url(empty_database)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the project's roles and one migration of its own."""
    (tmp_path / "roles.sql").write_bytes((MIGRATIONS / "roles.sql").read_bytes())
    write(tmp_path, "0001.first", "CREATE TABLE first (id int);", "DROP TABLE first;")
    return tmp_path


def write(folder: Path, name: str, up: str, down: str | None) -> None:
    (folder / f"{name}.sql").write_text(up)
    if down is not None:
        (folder / f"{name}.rollback.sql").write_text(down)


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename NOT LIKE '\\_yoyo%'"
        ).fetchall()
    return {name for (name,) in rows}


def test_every_migration_is_applied_in_order(url: str):
    assert apply(url, MIGRATIONS) == NAMES


def test_applying_again_changes_nothing(url: str):
    apply(url, MIGRATIONS)
    before = schema_of(url)
    assert apply(url, MIGRATIONS) == []
    assert schema_of(url) == before


@pytest.mark.parametrize("name", NAMES)
def test_each_way_down_restores_what_was_before(name: str, url: str, tmp_path: Path):
    below = copytree(MIGRATIONS, tmp_path / "below")
    write(below, "0000.nothing", "SELECT;", "SELECT;")  # roles.sql alone has changed the schema
    for newer in NAMES[NAMES.index(name) + 1 :]:
        (below / f"{newer}.sql").unlink()
    here = copytree(below, tmp_path / "here")
    (below / f"{name}.sql").unlink()

    last_kept = apply(url, below)[-1]
    before = schema_of(url)
    assert apply(url, here) == [name]
    after = schema_of(url)
    assert after != before
    assert roll_back(url, here, to=last_kept) == [name]
    assert schema_of(url) == before
    assert apply(url, here) == [name]
    assert schema_of(url) == after


def test_up_down_and_up_again_ends_where_it_began(url: str):
    apply(url, MIGRATIONS)
    schema = schema_of(url)
    assert roll_back(url, MIGRATIONS) == NAMES[::-1]
    assert tables(url) == set()
    assert apply(url, MIGRATIONS) == NAMES
    assert schema_of(url) == schema


def test_the_schema_file_is_the_sum_of_the_migrations():
    assert SCHEMA.read_text() == sum_of_migrations(), "run: python -m tools.schema"


def test_everything_belongs_to_the_owner(url: str):
    apply(url, MIGRATIONS)
    with psycopg.connect(url) as connection:
        owners = connection.execute(
            "SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        ).fetchall()
    assert owners == [("counterfoil_owner",)]


def test_semicolons_and_dashes_inside_bodies_and_strings_survive(url: str, folder: Path):
    write(folder, "0002.tricky", TRICKY, 'DROP TABLE "odd;name"; -- gone;\nDROP FUNCTION tricky();')
    assert apply(url, folder) == ["0001.first", "0002.tricky"]
    with psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute("SELECT tricky()").fetchone() == ("--; /* kept */ 100%",)
        assert connection.execute('SELECT value FROM "odd;name"').fetchone() == ("a;--b",)
    roll_back(url, folder, to="0001.first")
    assert tables(url) == {"first"}


def test_a_migration_that_fails_leaves_nothing_and_can_be_corrected(url: str, folder: Path):
    write(
        folder, "0002.second", "-- depends: 0001.first\nCREATE TABLE second (id int); SELECT 1/0;", "DROP TABLE second;"
    )
    with pytest.raises(RejectedStatementError, match=r"^0002\.second: .*DivisionByZero"):
        apply(url, folder)
    assert tables(url) == {"first"}
    write(folder, "0002.second", "-- depends: 0001.first\nCREATE TABLE second (id int);", "DROP TABLE second;")
    assert apply(url, folder) == ["0002.second"]


def test_a_migration_and_its_entry_are_one_transaction(url: str, folder: Path):
    ends = "CREATE TABLE second (id int); SELECT pg_terminate_backend(pg_backend_pid());"
    write(folder, "0002.second", f"-- depends: 0001.first\n{ends}", "DROP TABLE second;")
    with pytest.raises(Exception, match=r"0002\.second"):
        apply(url, folder)
    assert tables(url) == {"first"}
    assert roll_back(url, folder) == ["0001.first"]


def test_a_statement_that_refuses_a_transaction_can_be_a_migration(url: str, folder: Path):
    up = "-- depends: 0001.first\n-- transactional: false\nCREATE INDEX CONCURRENTLY first_id ON first (id);"
    write(folder, "0002.index", up, "DROP INDEX CONCURRENTLY first_id;")
    assert apply(url, folder) == ["0001.first", "0002.index"]
    assert roll_back(url, folder) == ["0002.index", "0001.first"]


def test_concurrent_runs_apply_each_migration_once(url: str):
    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(lambda _: apply(url, MIGRATIONS), range(4)))
    assert sorted(applied) == [[], [], [], NAMES]


def test_runs_for_two_databases_of_one_server_may_meet(postgres: Server, url: str):
    urls = [url, *(postgres.create_database(f"meeting_{number}") for number in range(3))]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda each: apply(each, MIGRATIONS), urls)) == [NAMES] * 4


def test_a_run_waits_for_another_one_and_gives_up_in_the_end(url: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runner, "WAIT_SECONDS", 0)
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [runner.LOCK])
        with pytest.raises(ConflictError, match="Other migrations"):
            apply(url, MIGRATIONS)
    assert apply(url, MIGRATIONS) == NAMES  # the lock went with its connection


def test_rolling_back_stops_at_the_migration_named(url: str):
    apply(url, MIGRATIONS)
    assert roll_back(url, MIGRATIONS, to=NAMES[0]) == NAMES[:0:-1]
    assert roll_back(url, MIGRATIONS, to=NAMES[0]) == []


def test_rolling_back_to_a_migration_that_is_not_applied_is_refused(url: str, folder: Path):
    apply(url, folder)
    with pytest.raises(MigrationError, match=r"0009\.unknown is not applied"):
        roll_back(url, folder, to="0009.unknown")


def test_a_migration_without_a_way_down_is_not_silently_struck_off(url: str, folder: Path):
    write(folder, "0002.second", "-- depends: 0001.first\nCREATE TABLE second (id int);", None)
    apply(url, folder)
    with pytest.raises(MigrationError, match=r"0002\.second\.rollback\.sql is missing"):
        roll_back(url, folder)
    assert tables(url) == {"first", "second"}


def test_older_code_does_not_roll_back_under_newer_migrations(url: str, folder: Path, tmp_path: Path):
    write(folder, "0002.second", "-- depends: 0001.first\nCREATE TABLE second (id int);", "DROP TABLE second;")
    apply(url, folder)
    (folder / "0002.second.sql").unlink()
    with pytest.raises(MigrationError, match="newer code"):
        roll_back(url, folder)


@pytest.mark.parametrize(
    ("up", "reason"),
    [(None, "holds no migrations"), ("-- depends: 0000.lost\nSELECT 1;", r"0001\.first\.sql")],
    ids=["no migrations", "a lost dependency"],
)
def test_a_folder_that_cannot_be_read_is_refused(up: str | None, reason: str, url: str, folder: Path):
    (folder / "0001.first.sql").unlink()
    if up:
        write(folder, "0001.first", up, None)
    with pytest.raises(MigrationError, match=reason):
        apply(url, folder)


def test_every_migration_has_a_way_down_and_names_what_it_depends_on():
    for earlier, name in zip([None, *NAMES], NAMES, strict=False):
        assert (MIGRATIONS / f"{name}.rollback.sql").exists(), name
        assert earlier is None or f"-- depends: {earlier}" in (MIGRATIONS / f"{name}.sql").read_text(), name


@pytest.fixture(scope="module")
def rds() -> Iterator[str]:
    """A server like one of RDS: its master user may create roles and owns the database, and is no superuser."""
    with temporary_server() as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("CREATE ROLE master LOGIN CREATEROLE CREATEDB")
            connection.execute("CREATE ROLE rds_iam")
            connection.execute("GRANT rds_iam TO master WITH ADMIN TRUE")
            connection.execute("CREATE DATABASE counterfoil OWNER master")
        with psycopg.connect(server.url("counterfoil"), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")  # which the master user of RDS is let to do itself
        yield server.url("counterfoil", "master")


def test_a_master_user_who_is_no_superuser_can_migrate(rds: str):
    assert apply(rds, MIGRATIONS) == NAMES
    assert apply(rds, MIGRATIONS) == []
    assert roll_back(rds, MIGRATIONS) == NAMES[::-1]
    assert apply(rds, MIGRATIONS) == NAMES
    with psycopg.connect(rds) as connection:
        members = connection.execute(
            "SELECT member::regrole::text FROM pg_auth_members WHERE roleid = 'rds_iam'::regrole ORDER BY 1"
        ).fetchall()
    assert members == [("counterfoil_keeper",), ("counterfoil_worker",), ("master",)]


def test_a_run_asks_neither_for_a_user_name_nor_for_a_host_name(url: str, monkeypatch: pytest.MonkeyPatch):
    def unknown(*_: object) -> str:
        raise KeyError  # as on a machine whose user has no entry, and that no name server knows

    monkeypatch.setattr(getpass, "getuser", unknown)
    monkeypatch.setattr(socket, "getfqdn", unknown)
    assert apply(url, MIGRATIONS) == NAMES
    assert roll_back(url, MIGRATIONS) == NAMES[::-1]
