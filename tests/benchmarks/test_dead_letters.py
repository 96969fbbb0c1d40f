"""The benchmark of dead letters asks for what is there: a question that finds nothing is quick, whatever there is."""

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from cli.local.postgres import Server
from counterfoil.db import Database
from counterfoil.dead_letters import groups
from counterfoil.dead_letters.search import STATUSES
from tests.benchmarks import dead_letters, letters_export
from tests.benchmarks.scale import database as scale

LETTERS = 20_000


@pytest.fixture(scope="module")
def worker_url(postgres: Server) -> str:
    url = scale.prepare(postgres, "letters", dead_letters.TENANTS)
    dead_letters.load(url, LETTERS, datetime.now(UTC))
    return postgres.url("letters", "counterfoil_worker")


def test_everything_it_asks_for_finds_something(worker_url: str):
    tenant = scale.tenant_id(0)
    database = Database(worker_url, max_connections=1)
    with database.tenant(tenant) as connection:
        alike = [group.fingerprint for group in groups.page(connection, tenant, STATUSES, datetime.now(UTC), limit=100)]
        found = {
            name: sum(bool(_content(call(connection))) for _ in range(20))
            for name, call in dead_letters.calls(tenant, LETTERS, Random(2), alike).items()
        }
    database.close()
    assert found.pop("search, nothing") == 0
    assert {name for name, number in found.items() if number < 5} == set()


def test_counts_made_at_once_are_those_of_the_letters(worker_url: str):
    tenant = scale.tenant_id(0)
    database = Database(worker_url, max_connections=1)
    with database.tenant(tenant) as connection:
        counted = sum(number for of in groups.stats(connection, tenant).values() for number in of.values())
        assert connection.execute("SELECT count(*) FROM dead_letter").fetchone() == (counted,)
    database.close()
    assert 0.5 * LETTERS < counted < 0.7 * LETTERS


def test_files_of_its_letters_are_exported_and_have_each_of_them_once(
    worker_url: str, postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    wrong = letters_export.report(postgres, "letters", scale.tenant_id(0), tmp_path, many=3_000)

    assert wrong == []
    table = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[:2] for row in table] == [["csv", "3000"], ["json", "3000"]]
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_takes_too_much_memory_is_wrong(
    worker_url: str, postgres: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(letters_export, "MOST_MEGABYTES", 1.0)

    wrong = letters_export.report(postgres, "letters", scale.tenant_id(0), tmp_path, many=10)

    assert wrong == [f"{format_}: more than 1 MB (10^6 bytes) of memory" for format_ in ("csv", "json")]


def test_letters_that_a_file_lacks_or_has_too_often_are_counted():
    first, second, stranger = uuid4(), uuid4(), uuid4()
    found = letters_export.faults([first, first, stranger], {first, second})
    assert found == ["1 letters are missing", "1 letters are not meant", "1 letters are in it again"]


def _content(found: object) -> object:
    return getattr(found, "entries", found)
