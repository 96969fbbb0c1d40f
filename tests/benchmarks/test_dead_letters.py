"""The dead letter benchmark measures queries that find rows."""

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from cli.local.postgres import Server
from counterfoil.db import Database
from counterfoil.dead_letters import groups
from counterfoil.dead_letters.search import STATUSES
from tests.benchmarks import dead_letter_export, dead_letters
from tests.benchmarks.scale import database as scale

DEAD_LETTERS = 20_000


@pytest.fixture(scope="module")
def worker_url(postgres: Server) -> str:
    url = scale.prepare(postgres, "dead_letters", dead_letters.TENANTS)
    dead_letters.load(url, DEAD_LETTERS, datetime.now(UTC))
    return postgres.url("dead_letters", "counterfoil_worker")


def test_every_query_finds_rows(worker_url: str):
    tenant = scale.tenant_id(0)
    database = Database(worker_url, max_connections=1)
    with database.tenant(tenant) as connection:
        fingerprints = [
            group.fingerprint for group in groups.page(connection, tenant, STATUSES, datetime.now(UTC), limit=100)
        ]
        found = {
            name: sum(bool(_content(call(connection))) for _ in range(20))
            for name, call in dead_letters.calls(tenant, DEAD_LETTERS, Random(2), fingerprints).items()
        }
    database.close()
    assert found.pop("search, empty result") == 0
    assert {name for name, number in found.items() if number < 5} == set()


def test_generated_counts_match_the_dead_letters(worker_url: str):
    tenant = scale.tenant_id(0)
    database = Database(worker_url, max_connections=1)
    with database.tenant(tenant) as connection:
        counted = sum(number for of in groups.stats(connection, tenant).values() for number in of.values())
        assert connection.execute("SELECT count(*) FROM dead_letter").fetchone() == (counted,)
    database.close()
    assert 0.5 * DEAD_LETTERS < counted < 0.7 * DEAD_LETTERS


def test_exports_contain_each_dead_letter_once(
    worker_url: str, postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    faults = dead_letter_export.report(postgres, "dead_letters", scale.tenant_id(0), tmp_path, limit=3_000)

    assert faults == []
    table = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[:2] for row in table] == [["csv", "3000"], ["json", "3000"]]
    assert list(tmp_path.iterdir()) == []


def test_excessive_export_memory_is_a_fault(
    worker_url: str, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dead_letter_export, "MAX_MEGABYTES", 1.0)

    faults = dead_letter_export.report(postgres, "dead_letters", scale.tenant_id(0), tmp_path, limit=10)

    assert faults == [f"{format_}: more than 1 MB (10^6 bytes) of memory" for format_ in ("csv", "json")]


def test_missing_and_duplicate_dead_letters_are_counted():
    first, second, stranger = uuid4(), uuid4(), uuid4()
    found = dead_letter_export.find_faults([first, first, stranger], {first, second})
    assert found == ["1 dead letters are missing", "1 dead letters are unexpected", "1 dead letters are duplicate"]


def _content(found: object) -> object:
    return getattr(found, "entries", found)
