"""What docs/idempotency.md shows works as it is shown."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from cli.postgres import Server
from counterfoil.db import Connection, Database
from counterfoil.idempotency import PostgresPersistence
from counterfoil.settings import settings
from functions.watchdog.retention import AT_ONCE, KEY_RETENTION
from tests.delivery.conftest import clock, pending, sqs
from tests.delivery.harness import Clock, Context, FakeSqs, event, life_cycle, make_consumer, record, rows
from tests.idempotency.orders import ORDER, PLACED, Orders

__all__ = ["clock", "pending", "sqs"]

PAGE = (Path(__file__).parent.parent.parent / "docs" / "idempotency.md").read_text()
SAMPLES = re.findall(r"^```python\n(.+?)^```", PAGE, re.MULTILINE | re.DOTALL)
ELSEWHERE, TIDYING = re.findall(r"^```sql\n(.+?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run(sample: str, **known: Any) -> dict[str, Any]:
    """The names that a sample defines."""
    names = {"__name__": "sample"} | known
    exec(compile(sample, "docs/idempotency.md", "exec"), names)
    return names


def test_the_first_sample_runs_a_function_once(
    tenant: UUID, database_url: str, monkeypatch: pytest.MonkeyPatch, admin: Connection
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    settings.cache_clear()
    names = run(SAMPLES[0], tenant_id=tenant)
    try:
        for _ in range(2):
            assert names["handle"](ORDER, Context()) == {"status": 201, "order_id": ORDER["order_id"]}
    finally:
        names["database"].close()
        settings.cache_clear()

    assert [(row["status"], row["claims"]) for row in rows(admin, "idempotency")] == [("COMPLETED", 1)]


def test_the_second_sample_is_a_worker(
    database: Any, admin: Connection, sqs: FakeSqs, clock: Clock, pending: Callable[..., Any]
) -> None:
    message = pending()
    make_consumer(database, run(SAMPLES[1])["work"], clock).handle(event(record(message)), Context())

    assert life_cycle(admin, message.work_id)["status"] == "succeeded"
    assert [row["key"].partition("#")[0] for row in rows(admin, "idempotency")] == ["charge"]


def test_every_column_is_told_and_every_column_told_exists(admin: Connection) -> None:
    found = admin.execute("SELECT column_name FROM information_schema.columns WHERE table_name = 'idempotency'")
    table = PAGE.split("## The table")[1].split("\n## ")[0]
    told = {
        name for cell in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    }

    assert told | {"tenant_id"} == {name for (name,) in found}


def test_what_is_kept_is_told_in_its_numbers() -> None:
    kept = PAGE.split("## What is kept")[1]

    assert f"{KEY_RETENTION.days} days" in kept
    assert f"{AT_ONCE:,} of each" in kept


@pytest.fixture
def elsewhere(postgres: Server, empty_database: str) -> Iterator[Connection]:
    """Another application's database, with the table that the page gives it; as its superuser."""
    with psycopg.connect(postgres.url(empty_database), autocommit=True) as connection:
        connection.execute(ELSEWHERE)
        yield connection
        connection.execute("DROP OWNED BY shop; DROP ROLE shop")


def test_another_application_has_its_own_table_and_tenants_apart(
    postgres: Server, empty_database: str, elsewhere: Connection
) -> None:
    database = Database(postgres.url(empty_database, "shop"))
    ours, theirs = (
        Orders(PostgresPersistence(database, tenant, table="shop.idempotency")) for tenant in (uuid4(), uuid4())
    )
    failing = Orders(PostgresPersistence(database, uuid4(), table="shop.idempotency"))
    failing.answer = ValueError("out of stock")

    for _ in range(2):
        assert ours.place(order=ORDER) == theirs.place(order=ORDER) == PLACED
        with pytest.raises(ValueError, match="out of stock"):
            failing.place(order=ORDER)
    with psycopg.connect(postgres.url(empty_database, "shop")) as somebody:
        seen = somebody.execute("SELECT * FROM shop.idempotency").fetchall()
    database.close()

    assert (ours.runs, theirs.runs, failing.runs, seen) == (1, 1, 2, [])
    elsewhere.execute(TIDYING)
    assert len(elsewhere.execute("SELECT * FROM shop.idempotency").fetchall()) == 2
    elsewhere.execute("UPDATE shop.idempotency SET expires_at = now() - interval '1 second'")
    elsewhere.execute(TIDYING)
    assert elsewhere.execute("SELECT * FROM shop.idempotency").fetchall() == []


def test_another_application_s_table_is_like_ours(elsewhere: Connection, admin: Connection) -> None:
    columns = """SELECT column_name, data_type, is_nullable, column_default FROM information_schema.columns
                 WHERE table_name = 'idempotency' ORDER BY ordinal_position"""

    assert elsewhere.execute(columns).fetchall() == admin.execute(columns).fetchall()


def test_the_modules_that_another_application_needs_are_told() -> None:
    told = re.findall(r"`(counterfoil\.\w+)`", PAGE.split("## Elsewhere")[1].split("```")[0])
    loaded = subprocess.run(
        [sys.executable, "-c", "import counterfoil.idempotency, sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()

    assert set(told) == {name for name in loaded if name.startswith("counterfoil.")}
