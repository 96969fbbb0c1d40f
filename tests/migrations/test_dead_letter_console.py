"""Dead letters that were there before they were grouped, counted and searched for."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

from cli.postgres import Server
from counterfoil.db import Connection, Database
from counterfoil.dead_letters import groups, search
from counterfoil.dead_letters.entries import STATUSES, Wanted
from functions.migrate.runner import apply, roll_back
from tests import factories
from tools.schema import MIGRATIONS

NOW = datetime.now(UTC)


def letter(connection: Connection, tenant: UUID | None, error: str, *, hours: float, fingerprint: str) -> UUID:
    id_ = uuid4()
    connection.execute(
        """
        INSERT INTO dead_letter (job_id, tenant_id, worker, task_type, payload, metadata, attempts, fingerprint,
                                 dlq_reason, dlq_timestamp)
        VALUES (%s, %s, 'ingestion', 'ingestion', %s, %s, 3, %s, 'max_retries_exceeded', %s)
        """,
        [
            id_,
            tenant,
            Jsonb({"file": {"file_name": f"Invoice-{hours:g}.pdf"}}),
            Jsonb({"last_error": {"type": "TimeoutError", "message": error}}),
            fingerprint,
            NOW - timedelta(hours=hours),
        ],
    )
    return id_


@pytest.fixture
def before(postgres: Server, empty_database: str, tmp_path: Path) -> tuple[str, str]:
    """A database as it was before the migration, by its name, and the last migration that it has."""
    below = copytree(MIGRATIONS, tmp_path / "below")
    for path in below.glob("[0-9]*.sql"):
        if path.name >= "0038":
            path.unlink()
    return empty_database, apply(postgres.url(empty_database), below)[-1]


def test_letters_of_before_are_grouped_counted_and_found(postgres: Server, before: tuple[str, str]) -> None:
    name, last = before
    url = postgres.url(name)
    with psycopg.connect(url, autocommit=True) as connection:
        tenant = factories.make_tenant(connection)
        letter(connection, tenant, "Reading page 3 of 'a.pdf' timed out", hours=30, fingerprint="a")
        newest = letter(connection, tenant, "Reading page 9 of 'b.pdf' timed out", hours=2, fingerprint="a")
        letter(connection, tenant, "The disk is full", hours=300, fingerprint="b")
        letter(connection, None, "Not JSON", hours=1, fingerprint="c")

    apply(url, MIGRATIONS)

    database = Database(postgres.url(name, "counterfoil_worker"), max_connections=1)
    with database.tenant(tenant) as connection:
        first, second = groups.page(connection, tenant, STATUSES, NOW, limit=10)
        found = search.page(connection, tenant, "reading invoice-2", Wanted(), limit=10).entries
        stats = groups.stats(connection, tenant)
    database.close()
    assert (first.sentence, first.pending, sum(first.trend)) == ("Reading page # of # timed out", 2, 1)
    assert (second.sentence, second.pending, sum(second.trend)) == ("The disk is full", 1, 0)
    assert [entry.job_id for entry in found] == [newest]
    assert stats == {"ingestion": {"pending": 3}}
    with psycopg.connect(url, autocommit=True) as connection:
        nobody = connection.execute("SELECT number FROM dead_letter_count WHERE tenant_id IS NULL AND hour IS NULL")
        assert nobody.fetchall() == [(1,)]
    roll_back(url, MIGRATIONS, to=last)
