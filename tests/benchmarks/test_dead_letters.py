"""The benchmark of dead letters asks for what is there: a question that finds nothing is quick, whatever there is."""

from datetime import UTC, datetime
from random import Random

import pytest

from cli.postgres import Server
from counterfoil.db import Database
from counterfoil.dead_letters import groups
from counterfoil.dead_letters.entries import STATUSES
from tests.benchmarks import dead_letters
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


def _content(found: object) -> object:
    return getattr(found, "entries", found)
