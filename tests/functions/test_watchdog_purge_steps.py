"""A failing purge step fails the run, but does not block other steps."""

import importlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.errors import ConflictError, DatabaseUnavailableError
from counterfoil.operations import store
from counterfoil.settings import settings
from functions.watchdog.retention import maintain_dead_letters, purge
from functions.watchdog.steps import StepsFailedError, run_all
from tests.dead_letters.dead_letter_factory import NOON, dead_letter_factory
from tests.delivery.harness import Context
from tests.functions.test_purge import NOW, add_llm_calls, add_messages
from tests.tasks.conftest import BUCKET, FakeS3, s3, tenant

__all__ = ["s3", "tenant"]

LONG_AGO = NOW - timedelta(days=1000)


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


def row_counts(admin: Connection, *tables: str) -> dict[str, int]:
    """Return the number of rows by table."""
    return {table: row[0] for table in tables for row in admin.execute(f"SELECT count(*) FROM {table}".encode())}


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch, maintenance_database_url: str) -> Iterator[ModuleType]:
    """Import the handler with the test's environment variables."""
    monkeypatch.setenv("DATABASE_URL", maintenance_database_url)
    monkeypatch.setenv("QUEUE_URLS", json.dumps({}))
    monkeypatch.setenv("UPLOADS_BUCKET", BUCKET)
    module = importlib.import_module("functions.watchdog.handler")
    settings.cache_clear()
    module.watchdog.cache_clear()
    yield module
    settings.cache_clear()
    module.watchdog.cache_clear()


@pytest.fixture
def everything_due(database: Database, admin: Connection, tenant: UUID) -> str:
    """Store an expired message, LLM call and dead letter, and a due payload deletion.

    Returns the payload's key.
    """
    add_messages(admin, LONG_AGO)
    add_llm_calls(admin, LONG_AGO)
    dead_letter_factory(database, tenant)()
    admin.execute("UPDATE dead_letter SET status = 'resolved', resolved_at = %s", [NOON])
    key = f"tasks/{tenant}/1"
    admin.execute("INSERT INTO payload_deletion VALUES (%s, %s, %s)", [key, tenant, LONG_AGO])
    return key


DUE = ("outbox", "llm_call", "dead_letter", "payload_deletion")


def test_s3_failure_does_not_block_other_purges(
    handler: ModuleType, everything_due: str, s3: FakeS3, admin: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    s3.refused = {everything_due}

    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"run failed: purge$"):
            handler.handle({}, Context())

    assert row_counts(admin, *DUE) == {"outbox": 0, "llm_call": 0, "dead_letter": 0, "payload_deletion": 1}
    logged = [vars(record) for record in caplog.records if record.message == "A step failed"]
    assert [(line["step"], line["error"]) for line in logged] == [
        ("payload", "S3 did not delete 1 of 1 payloads: InternalError")
    ] * 2


@pytest.mark.usefixtures("everything_due", "s3")
@pytest.mark.parametrize(
    ("failing_step", "remaining_steps"),
    [
        ("purge", {"outbox", "llm_call"}),
        ("maintain_dead_letters", {"dead_letter"}),
        ("delete_payloads", {"payload_deletion"}),
    ],
)
def test_failing_step_fails_the_run_after_other_steps(
    handler: ModuleType,
    failing_step: str,
    remaining_steps: set[str],
    admin: Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(handler, failing_step, raising(ValueError("the value 4711 of some column")))

    with pytest.raises(RuntimeError, match=r"run failed: purge$") as raised:
        handler.handle({}, Context())

    assert {table for table, number in row_counts(admin, *DUE).items() if number} == remaining_steps
    assert raised.value.__context__ is None
    logged = [vars(record).get("error") for record in caplog.records if record.levelname == "ERROR"]
    assert len(logged) == 2
    assert "some column" not in str(logged)


def test_unpurgeable_table_does_not_block_others(maintenance_database: Database, admin: Connection) -> None:
    add_messages(admin, LONG_AGO)
    add_llm_calls(admin, LONG_AGO)
    admin.execute("REVOKE DELETE ON outbox FROM counterfoil_maintenance, counterfoil_delivery")

    with pytest.raises(StepsFailedError, match=r"Failed steps: outbox$"):
        purge(maintenance_database, lambda: datetime.now(UTC))

    assert row_counts(admin, "outbox", "llm_call") == {"outbox": 1, "llm_call": 0}


def test_failed_deletion_of_operations_does_not_block_others(
    maintenance_database: Database, everything_due: str, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert everything_due
    monkeypatch.setattr(store, "delete_expired", raising(ConflictError("A deadlock")))

    with pytest.raises(StepsFailedError, match=r"Failed steps: operation$"):
        maintain_dead_letters(maintenance_database, lambda: NOW, timedelta(days=30))

    assert row_counts(admin, "dead_letter") == {"dead_letter": 0}


def test_nested_steps_are_reported_together() -> None:
    assert run_all({"a": lambda: 1, "b": lambda: {"c": 2, "d": 3}}) == {"a": 1, "c": 2, "d": 3}


def test_second_consecutive_outage_stops_further_steps() -> None:
    fail_unavailable = raising(DatabaseUnavailableError("PostgreSQL is not available"))
    executed: list[str] = []

    def runs() -> int:
        executed.append("once more")
        return 1

    with pytest.raises(StepsFailedError, match=r"Failed steps: a, c$"):  # a failed step does not stop later steps
        run_all({"a": fail_unavailable, "b": runs, "c": fail_unavailable, "d": runs})
    assert len(executed) == 2

    with pytest.raises(DatabaseUnavailableError):
        run_all({"a": fail_unavailable, "b": fail_unavailable, "c": lambda: pytest.fail("it would also time out")})
