"""Purging is many parts: one that fails fails the round, and stops none of the others."""

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
from functions.watchdog.parts import PartsError, run_each
from functions.watchdog.retention import keep_dead_letters, purge
from tests.dead_letters.letters import NOON, dying
from tests.delivery.harness import Context
from tests.functions.test_purge import NOW, called, sent
from tests.tasks.conftest import BUCKET, FakeS3, s3, tenant

__all__ = ["s3", "tenant"]

LONG_AGO = NOW - timedelta(days=1000)


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


def there(admin: Connection, *tables: str) -> dict[str, int]:
    """How many rows there are."""
    return {table: row[0] for table in tables for row in admin.execute(f"SELECT count(*) FROM {table}".encode())}


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch, keeper_database_url: str) -> Iterator[ModuleType]:
    """The handler, in an environment of its own."""
    monkeypatch.setenv("DATABASE_URL", keeper_database_url)
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
    """A message, a call, a dead letter and a payload that are past keeping: the payload's key."""
    sent(admin, LONG_AGO)
    called(admin, LONG_AGO)
    dying(database, tenant)()
    admin.execute("UPDATE dead_letter SET status = 'resolved', resolved_at = %s", [NOON])
    key = f"tasks/{tenant}/1"
    admin.execute("INSERT INTO payload_removal VALUES (%s, %s, %s)", [key, tenant, LONG_AGO])
    return key


DUE = ("outbox", "llm_call", "dead_letter", "payload_removal")


def test_while_s3_refuses_a_payload_everything_else_is_purged(
    handler: ModuleType, everything_due: str, s3: FakeS3, admin: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    s3.refused = {everything_due}

    for _ in range(2):
        with pytest.raises(RuntimeError, match=r"failed in part: purge$"):
            handler.handle({}, Context())

    assert there(admin, *DUE) == {"outbox": 0, "llm_call": 0, "dead_letter": 0, "payload_removal": 1}
    told = [vars(record) for record in caplog.records if "part" in vars(record)]
    assert [(one["part"], one["error"]) for one in told] == [
        ("payload", "S3 did not delete 1 of 1 payloads: InternalError")
    ] * 2


@pytest.mark.usefixtures("everything_due", "s3")
@pytest.mark.parametrize(
    ("broken", "left"),
    [
        ("purge", {"outbox", "llm_call"}),
        ("keep_dead_letters", {"dead_letter"}),
        ("remove_payloads", {"payload_removal"}),
    ],
)
def test_whichever_part_fails_the_others_run_and_the_round_fails(
    handler: ModuleType,
    broken: str,
    left: set[str],
    admin: Connection,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(handler, broken, failing(ValueError("the value 4711 of some column")))

    with pytest.raises(RuntimeError, match=r"failed in part: purge$") as raised:
        handler.handle({}, Context())

    assert {table for table, number in there(admin, *DUE).items() if number} == left
    assert raised.value.__context__ is None
    told = [vars(record).get("error") for record in caplog.records if record.levelname == "ERROR"]
    assert len(told) == 2
    assert "some column" not in str(told)


def test_a_table_that_cannot_be_purged_stops_no_other(keeper_database: Database, admin: Connection) -> None:
    sent(admin, LONG_AGO)
    called(admin, LONG_AGO)
    admin.execute("REVOKE DELETE ON outbox FROM counterfoil_keeper, counterfoil_delivery")

    with pytest.raises(PartsError, match=r"failed: outbox$"):
        purge(keeper_database, lambda: datetime.now(UTC))

    assert there(admin, "outbox", "llm_call") == {"outbox": 1, "llm_call": 0}


def test_failed_deletion_of_operations_stops_no_other(
    keeper_database: Database, everything_due: str, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert everything_due
    monkeypatch.setattr(store, "forget", failing(ConflictError("A deadlock")))

    with pytest.raises(PartsError, match=r"failed: operation$"):
        keep_dead_letters(keeper_database, lambda: NOW, timedelta(days=30))

    assert there(admin, "dead_letter") == {"dead_letter": 0}


def test_parts_within_parts_are_told_in_one() -> None:
    assert run_each({"a": lambda: 1, "b": lambda: {"c": 2, "d": 3}}) == {"a": 1, "c": 2, "d": 3}


def test_once_the_database_is_away_nothing_more_is_asked_of_it() -> None:
    away = failing(DatabaseUnavailableError("PostgreSQL is not available"))
    ran: list[str] = []

    def runs() -> int:
        ran.append("once more")
        return 1

    with pytest.raises(PartsError, match=r"failed: a, c$"):  # each for a reason of its own
        run_each({"a": away, "b": runs, "c": away, "d": runs})
    assert len(ran) == 2

    with pytest.raises(DatabaseUnavailableError):
        run_each({"a": away, "b": away, "c": lambda: pytest.fail("it would wait, too")})
