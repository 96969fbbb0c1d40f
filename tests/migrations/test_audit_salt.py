"""A chain of the audit trail whose hashes of before were not keyed is verified as a whole."""

import hashlib
import hmac
from pathlib import Path
from shutil import copytree
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from cli.postgres import Server
from counterfoil import audit
from counterfoil.audit import AuditEntry, Operation
from counterfoil.db import Connection, Database
from functions.migrate.runner import apply
from tests import factories
from tests.dead_letters.letters import NOON
from tests.dead_letters.trail import broken
from tools.schema import MIGRATIONS

NOTE = "typo"
EACH = 3
"""Entries of before, and of after."""
LENGTH = 2 * EACH
PLAIN = hashlib.sha256(NOTE.encode()).digest()


def write_as_before(connection: Connection, tenant: UUID | None) -> None:
    """Entries as they were written until 0053: the note's hash is its SHA-256."""
    previous = None
    for number in range(1, EACH + 1):
        said = (NOON, "kim", "resolved", ["a"], 1, 2, PLAIN, {"revision": number})
        entry = AuditEntry(number, *said, previous, b"")
        previous = entry.rightful_hash(tenant)
        connection.execute(
            "INSERT INTO audit_entry (tenant_id, number, recorded_at, actor, action, targets, version_before,"
            " version_after, note_hash, detail, previous_hash, hash)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [tenant, number, *said[:-1], Jsonb(said[-1]), entry.previous_hash, previous],
        )


def write(database: Database, tenant: UUID | None) -> None:
    for number in range(EACH):
        with database.delivery() if tenant is None else database.tenant(tenant) as connection:
            audit.record(
                connection, tenant, Operation("kim", "resolved", ["a"], NOON, NOTE, 1, 2, {"revision": number})
            )


TAMPERED = (
    "UPDATE audit_entry SET actor = 'somebody else'",
    "UPDATE audit_entry SET note_hash = (SELECT o.note_hash FROM audit_entry AS o"
    f" WHERE o.number = {LENGTH} + 1 - audit_entry.number)",  # as the other part has it
    "UPDATE audit_entry SET note_hash = sha256('another')",
    "DELETE FROM audit_entry",
)


@pytest.fixture
def superuser(postgres: Server, empty_database: str):
    with psycopg.connect(postgres.url(empty_database), autocommit=True) as connection:
        yield connection


@pytest.fixture
def now(postgres: Server, empty_database: str):
    database = Database(postgres.url(empty_database, "counterfoil_worker"), max_connections=1)
    yield database
    database.close()


@pytest.fixture(params=["a tenant's", "nobody's"])
def tenant(
    request: pytest.FixtureRequest, postgres: Server, empty_database: str, superuser: Connection, tmp_path: Path
) -> UUID | None:
    """Whose chain has entries from before 0054; all migrations are applied since."""
    below = copytree(MIGRATIONS, tmp_path / "below")
    for path in below.glob("[0-9]*.sql"):
        if path.name >= "0054":
            path.unlink()
    url = postgres.url(empty_database)
    apply(url, below)
    whose = None if request.param == "nobody's" else factories.make_tenant(superuser)
    write_as_before(superuser, whose)
    apply(url, MIGRATIONS)
    return whose


def test_it_is_whole_before_anything_is_added_and_after(now: Database, tenant: UUID | None) -> None:
    for length in (EACH, LENGTH):
        with now.delivery() if tenant is None else now.tenant(tenant) as connection:
            assert broken(connection, tenant) is None
            assert audit.page(connection, tenant, limit=1)[0].number == length
        write(now, tenant)


def test_what_is_added_is_keyed_and_cannot_be_guessed(now: Database, tenant: UUID | None, superuser: Connection):
    write(now, tenant)
    hashes = superuser.execute("SELECT note_hash FROM audit_entry ORDER BY number").fetchall()
    of = "audit_salt FROM tenant" if tenant else "salt FROM audit_salt_of_nobody"
    ((salt,),) = superuser.execute(f"SELECT {of}".encode()).fetchall()
    assert len(salt) == 32
    assert hashes == [(PLAIN,)] * EACH + [(hmac.digest(salt, NOTE.encode(), "sha256"),)] * EACH


def test_what_is_changed_or_taken_out_of_either_part_is_found(
    now: Database, tenant: UUID | None, superuser: Connection
) -> None:
    write(now, tenant)
    for how in TAMPERED:
        for place in range(1, LENGTH + 1):
            with superuser.transaction(force_rollback=True):
                superuser.execute("SET LOCAL session_replication_role = replica")
                superuser.execute(f"{how} WHERE number = {place}".encode())
                found = broken(superuser, tenant)
            assert found is not None, (how, place)
            assert found.number == place, how
    assert broken(superuser, tenant) is None
