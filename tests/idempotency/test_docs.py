"""What docs/idempotency.md shows works as it is shown."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection
from counterfoil.settings import settings
from functions.watchdog.purge import AT_ONCE, KEY_RETENTION
from tests.delivery.conftest import clock, pending, sqs
from tests.delivery.harness import Clock, Context, FakeSqs, event, life_cycle, make_consumer, record, rows
from tests.idempotency.orders import ORDER

__all__ = ["clock", "pending", "sqs"]

PAGE = (Path(__file__).parent.parent.parent / "docs" / "idempotency.md").read_text()
SAMPLES = re.findall(r"^```python\n(.+?)^```", PAGE, re.MULTILINE | re.DOTALL)


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
