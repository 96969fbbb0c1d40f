"""The scheduler queues due offers once. A failed pool does not block others."""

import importlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest

from counterfoil import audit
from counterfoil.db import Connection, Database
from counterfoil.delivery.outbox import Outbox
from counterfoil.errors import ConflictError, DatabaseUnavailableError, PermanentError
from counterfoil.offers import pinning
from counterfoil.offers.schedule import NoSuchDateError, NotDueError, Rules
from counterfoil.settings import settings
from functions.offers_scheduler.scheduler import (
    MIN_SECONDS_LEFT,
    InvalidRunError,
    OffersRequest,
    Scheduler,
    UnfinishedError,
)
from tests.delivery.harness import Context, FakeSqs, rows
from tests.factories import make_profile

QUEUE = "counterfoil-offers"
NOON = datetime(2026, 1, 5, 12, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


class SchedulerHarness:
    """Tenants with users, and a scheduler with a fake clock."""

    def __init__(self, admin: Connection, database: Database, tenants: dict[str, UUID]) -> None:
        self.admin, self.tenants, self.now = admin, tenants, NOON
        outbox = Outbox(database, {"offers": QUEUE}, clock=lambda: self.now, random=lambda: 0.0)
        self.scheduler = Scheduler(database, outbox, lambda: self.now, Rules(5, 1000, None, 30), 2)

    def add_users(self, zone: str, tenant: str = "acme", number: int = 1) -> list[UUID]:
        return [make_profile(self.admin, self.tenants[tenant], timezone=zone) for _ in range(number)]

    def run_due(self, time_left: Callable[[], float] = lambda: 800.0) -> dict[str, int]:
        return self.scheduler.run_due(time_left)

    def run(self, **request_fields: str) -> dict[str, Any]:
        return self.scheduler.run_requested(OffersRequest.of({"by": "ada", **request_fields}), lambda: 800.0)

    def pools(self) -> set[tuple[str, str]]:
        pool_rows = self.admin.execute("SELECT timezone, date::text FROM offer_pool").fetchall()
        return {(zone, day) for zone, day in pool_rows}

    def jobs(self) -> int:
        return len(rows(self.admin, "matchmaking_jobs"))


@pytest.fixture
def harness(
    database_url: str, admin: Connection, make_tenant: Callable[..., UUID], sqs: FakeSqs
) -> Iterator[SchedulerHarness]:
    single_connection = Database(database_url, max_connections=1)  # one connection, as on Lambda
    yield SchedulerHarness(admin, single_connection, {slug: make_tenant(slug) for slug in ("acme", "umbrella")})
    single_connection.close()


def metric_lines(output: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, output.splitlines()) if "_aws" in line]


def test_run_pins_all_due_pools_and_sends_messages(harness: SchedulerHarness, sqs: FakeSqs):
    harness.add_users("Europe/Berlin", number=5)
    harness.add_users("Pacific/Kiritimati")
    harness.add_users("America/New_York", "umbrella")

    assert harness.run_due() == {"pools": 3, "shards": 5, "people": 7}

    assert harness.pools() == {
        ("Europe/Berlin", "2026-01-05"),
        ("Pacific/Kiritimati", "2026-01-05"),
        ("America/New_York", "2026-01-04"),
    }
    assert len(sqs.sent[QUEUE]) == 5
    assert all(row["sent_at"] for row in rows(harness.admin, "outbox"))
    shards = {row["id"] for row in rows(harness.admin, "offer_shard")}
    assert {json.loads(entry["MessageBody"])["work_id"] for entry in sqs.sent[QUEUE]} == shards


def test_second_run_adds_nothing_before_next_due_time(harness: SchedulerHarness, sqs: FakeSqs):
    harness.add_users("Europe/Berlin", number=3)
    harness.add_users("America/New_York")
    harness.run_due()
    assert harness.run_due() == {"pools": 0, "shards": 0, "people": 0}
    harness.now += HOUR
    assert harness.run_due() == {"pools": 0, "shards": 0, "people": 0}
    harness.now += HOUR  # 14:01 UTC is 9:01 in New York
    assert harness.run_due() == {"pools": 1, "shards": 1, "people": 1}
    assert ("America/New_York", "2026-01-05") in harness.pools()
    assert len(sqs.sent[QUEUE]) == 4


def test_new_and_moved_users_are_added_once(harness: SchedulerHarness):
    (mover,) = harness.add_users("Asia/Tokyo")
    harness.add_users("Europe/Berlin", number=2)
    harness.run_due()
    harness.add_users("Europe/Berlin")
    harness.admin.execute("UPDATE profile SET timezone = 'Europe/Berlin' WHERE user_id = %s", [mover])
    harness.now += HOUR
    # The moved user already has offers for this date.
    assert harness.run_due() == {"pools": 1, "shards": 1, "people": 1}
    assert harness.jobs() == 4
    assert harness.run_due()["pools"] == 0


def test_missed_dates_are_caught_up_within_a_day(harness: SchedulerHarness):
    harness.add_users("Europe/Berlin")
    harness.now = datetime(2026, 1, 6, 7, 59, tzinfo=UTC)
    harness.run_due()
    assert harness.pools() == {("Europe/Berlin", "2026-01-05")}
    harness.now = datetime(2026, 1, 9, 12, tzinfo=UTC)
    harness.run_due()
    assert harness.pools() == {("Europe/Berlin", "2026-01-05"), ("Europe/Berlin", "2026-01-09")}


def test_pool_in_unknown_zone_is_pinned_by_utc(harness: SchedulerHarness):
    harness.add_users("Mars/Olympus")
    harness.run_due()
    assert harness.pools() == {("Mars/Olympus", "2026-01-05")}


def test_failed_pool_is_reported_and_blocks_no_others(
    harness: SchedulerHarness,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
):
    for zone in ("Asia/Tokyo", "Europe/Berlin", "Europe/Lisbon"):
        harness.add_users(zone)
    pin = pinning.pin

    def fail(connection: Connection, tenant_id: UUID, due_pool: Any, *arguments: Any) -> Any:
        if due_pool.zone == "Europe/Berlin":
            raise ValueError("the value 4711 of some column")
        return pin(connection, tenant_id, due_pool, *arguments)

    monkeypatch.setattr(pinning, "pin", fail)
    with pytest.raises(UnfinishedError, match=r"Failed tenants or pools: 1\. Not processed: 0\.$"):
        harness.run_due()

    assert {zone for zone, _ in harness.pools()} == {"Asia/Tokyo", "Europe/Lisbon"}
    (metrics,) = metric_lines(capsys.readouterr().out)
    assert (metrics["PoolsPinned"], metrics["PoolsNotPinned"]) == ([2.0], [1.0])
    assert [entry.message for entry in caplog.records if entry.levelname == "ERROR"] == ["Daily offers were not queued"]
    assert "4711" not in str([vars(entry) for entry in caplog.records])
    monkeypatch.setattr(pinning, "pin", pin)
    assert harness.run_due() == {"pools": 1, "shards": 1, "people": 1}


def test_unreadable_tenant_does_not_block_others(harness: SchedulerHarness, monkeypatch: pytest.MonkeyPatch):
    harness.add_users("Europe/Berlin")
    harness.add_users("Europe/Berlin", "umbrella")
    zones = pinning.zones

    def fail(connection: Connection, tenant_id: UUID) -> list[str]:
        if tenant_id == harness.tenants["acme"]:
            raise DatabaseUnavailableError("unavailable")
        return zones(connection, tenant_id)

    monkeypatch.setattr(pinning, "zones", fail)
    with pytest.raises(UnfinishedError, match=r"Failed tenants or pools: 1\. Not processed: 0\."):
        harness.run_due()
    assert [row["tenant_id"] for row in rows(harness.admin, "offer_pool")] == [str(harness.tenants["umbrella"])]


def test_pool_with_a_transaction_conflict_is_retried(harness: SchedulerHarness, monkeypatch: pytest.MonkeyPatch):
    harness.add_users("Europe/Berlin")
    pin, lost = pinning.pin, [1, 2]

    def conflict_twice(*arguments: Any) -> Any:
        if lost:
            raise ConflictError(f"the {lost.pop()}. time")
        return pin(*arguments)

    monkeypatch.setattr(pinning, "pin", conflict_twice)
    assert harness.run_due()["pools"] == 1


def test_unprocessed_pools_are_queued_in_next_run(harness: SchedulerHarness):
    harness.add_users("Asia/Tokyo", number=3)
    harness.add_users("Europe/Berlin", number=1)
    harness.add_users("Europe/Lisbon", number=2)
    times = iter([800.0] * 6)  # one check per tenant and two per pool

    with pytest.raises(UnfinishedError, match=r"Failed tenants or pools: 0\. Not processed: 2\."):
        harness.run_due(lambda: next(times, MIN_SECONDS_LEFT - 1))

    assert {zone for zone, _ in harness.pools()} == {"Europe/Berlin"}
    assert harness.run_due() == {"pools": 2, "shards": 3, "people": 5}


def test_transaction_times_out_before_the_invocation(harness: SchedulerHarness, monkeypatch: pytest.MonkeyPatch):
    harness.add_users("Europe/Berlin")
    bounds: list[str] = []

    def record_timeout(connection: Connection, *_: Any) -> list[Any]:
        bounds.extend(connection.execute("SHOW transaction_timeout").fetchone() or ())
        return []

    monkeypatch.setattr(pinning, "pin", record_timeout)
    harness.run_due(lambda: 55.0)
    assert bounds == ["45s"]


def test_large_pool_may_exceed_the_default_timeout(harness: SchedulerHarness, monkeypatch: pytest.MonkeyPatch):
    harness.add_users("Europe/Berlin")
    pin = pinning.pin

    def pin_slowly(connection: Connection, *arguments: Any) -> Any:
        connection.execute("SELECT pg_sleep(1.5)")
        return pin(connection, *arguments)

    monkeypatch.setattr("counterfoil.db.TRANSACTION_SECONDS", 1)
    monkeypatch.setattr(pinning, "pin", pin_slowly)
    assert harness.run_due()["pools"] == 1
    harness.add_users("Europe/Lisbon")
    monkeypatch.setattr("functions.offers_scheduler.scheduler.RESERVED_SECONDS", 799)
    with pytest.raises(UnfinishedError):
        harness.run_due()


def test_request_queues_one_date_for_one_zone(harness: SchedulerHarness):
    for tenant in ("acme", "umbrella"):
        harness.add_users("Europe/Berlin", tenant, 2)
        harness.add_users("Europe/Lisbon", tenant)
    request_fields = {"date": "2026-01-04", "timezone": "Europe/Berlin"}
    assert harness.run(**request_fields, tenant="acme") == {"date": "2026-01-04", "pools": 1, "shards": 1, "people": 2}
    assert harness.run(**request_fields) == {"date": "2026-01-04", "pools": 1, "shards": 1, "people": 2}
    assert harness.run(**request_fields) == {"date": "2026-01-04", "pools": 0, "shards": 0, "people": 0}
    assert harness.pools() == {("Europe/Berlin", "2026-01-04")}


@pytest.mark.parametrize(
    ("zone", "date"),
    [("UTC", "2026-01-05"), ("Pacific/Kiritimati", "2026-01-05"), ("America/Los_Angeles", "2026-01-04")],
)
def test_default_date_is_the_last_due_date(zone: str, date: str, harness: SchedulerHarness):
    harness.add_users(zone)

    assert harness.run(timezone=zone) == {"date": date, "pools": 1, "shards": 1, "people": 1}
    assert harness.pools() == {(zone, date)}


def test_requested_offers_are_recorded_in_audit_trail(harness: SchedulerHarness):
    for tenant in ("acme", "umbrella"):
        harness.add_users("Europe/Berlin", tenant)
    harness.run_due()
    harness.add_users("Europe/Berlin")
    harness.run(date="2026-01-05", timezone="Europe/Berlin", by="ada")
    harness.run(date="2026-01-04", timezone="Europe/Berlin", by="bob", tenant="umbrella")
    harness.run(date="2026-01-04", timezone="Europe/Berlin", by="cem", tenant="umbrella")

    pools = {row["id"]: (row["tenant_id"], row["date"]) for row in rows(harness.admin, "offer_pool")}
    entries = rows(harness.admin, "audit_entry")
    acme, umbrella = harness.tenants.values()
    assert {(entry["actor"], entry["action"], *pools[entry["targets"][0]]) for entry in entries} == {
        ("ada", "offers queued", str(acme), "2026-01-05"),
        ("bob", "offers queued", str(umbrella), "2026-01-04"),
    }
    assert {entry["actor"]: entry["detail"]["late"] for entry in entries} == {"ada": True, "bob": False}
    assert len(entries) == 2


def test_failed_audit_entry_queues_no_offers(harness: SchedulerHarness, monkeypatch: pytest.MonkeyPatch):
    harness.add_users("Europe/Berlin")

    def refuse(*_: Any) -> int:
        raise ConflictError("The audit trail is locked")

    monkeypatch.setattr(audit, "record", refuse)
    with pytest.raises(UnfinishedError):
        harness.run(date="2026-01-05", timezone="Europe/Berlin")
    assert not harness.pools()
    assert not harness.jobs()


def test_request_adds_late_users_until_expiry(harness: SchedulerHarness):
    harness.add_users("Europe/Berlin")
    for day, people in (("2026-01-05", 1), ("2026-01-04", 0)):
        harness.run(date=day, timezone="Europe/Berlin")
        harness.add_users("Europe/Berlin")
        assert harness.run(date=day, timezone="Europe/Berlin")["people"] == people


@pytest.mark.parametrize(
    ("request_fields", "message"),
    [
        (
            {"date": "2026-01-06", "timezone": "Europe/Berlin"},
            "2026-01-06 is not due yet in Europe/Berlin: "
            "its 9:00 is at 2026-01-06 08:00 UTC, and it is 2026-01-05 12:01 UTC",
        ),
        (
            {"date": "2026-06-01", "timezone": "Europe/Berlin"},
            "2026-06-01 is in the future in Europe/Berlin: it is 2026-01-05 there",
        ),
        (
            {"date": "9999-12-31", "timezone": "Pacific/Pago_Pago"},
            "9999-12-31 is in the future in Pacific/Pago_Pago: it is 2026-01-05 there",
        ),
        (
            {"date": "2016-01-05", "timezone": "Europe/Berlin"},
            "2016-01-05 is more than 7 days ago in Europe/Berlin: it is 2026-01-05 there",
        ),
        ({"date": "2026-01-05", "timezone": "Europe/Berlni"}, "Unknown time zone 'Europe/Berlni'"),
        ({"date": "2026-01-05", "timezone": "UTC", "tenant": "missing"}, "Unknown tenant 'missing'"),
        ({"date": "2026-02-30", "timezone": "UTC"}, "date is invalid: Input should be a valid date"),
        ({"timezone": "Europe/Berlni"}, "Unknown time zone"),
        ({"date": "2026-01-05"}, "timezone is invalid: Field required"),
        ({"date": "2026-01-05", "timezone": "UTC", "tenants": "acme"}, "tenants is invalid: Extra inputs"),
        ({"date": "2026-01-05", "timezone": "UTC", "by": ""}, "by is invalid: String should have at least 1 character"),
    ],
)
def test_invalid_request_queues_no_offers(harness: SchedulerHarness, request_fields: dict[str, str], message: str):
    harness.add_users("Europe/Berlin")
    with pytest.raises(PermanentError) as raised:
        harness.run(**request_fields)
    assert str(raised.value).startswith(message)
    assert harness.pools() == set()


def test_date_skipped_by_its_time_zone_is_rejected(harness: SchedulerHarness):
    harness.add_users("Pacific/Apia")
    harness.now = datetime(2011, 12, 31, 12, tzinfo=UTC)
    with pytest.raises(NoSuchDateError, match=r"^There is no 2011-12-30 in the time zone 'Pacific/Apia'"):
        harness.run(date="2011-12-30", timezone="Pacific/Apia")


def test_run_without_tenants_is_rejected(database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch):
    harness = SchedulerHarness(admin, database, {})
    with pytest.raises(InvalidRunError, match=r"^No tenant exists$"):
        harness.run(date="2026-01-05", timezone="UTC")


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch, database_url: str, sqs: FakeSqs) -> Iterator[ModuleType]:
    """Import the handler with the test's environment variables."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("OFFERS_PER_USER", "3")
    monkeypatch.setenv("OFFERS_MAX_EXPOSURE", "12")
    module = importlib.import_module("functions.offers_scheduler.handler")
    settings.cache_clear()
    module.function.cache_clear()
    yield module
    settings.cache_clear()
    module.function.cache_clear()


def test_event_with_time_zone_is_a_request(handler: ModuleType, harness: SchedulerHarness):
    harness.add_users("UTC")
    yesterday = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}"
    with pytest.raises(NotDueError):
        handler.handle({"date": "2999-01-01", "timezone": "UTC", "by": "ada"}, Context())
    assert handler.handle({"date": yesterday, "timezone": "UTC", "by": "ada"}, Context())["people"] == 1
    (pool,) = rows(harness.admin, "offer_pool")
    assert pool["rules"] == {"max_offers": 3, "max_candidates": 1000, "max_exposure": 12, "repeat_interval_days": 30}


def test_database_outage_fails_the_invocation(handler: ModuleType, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nowhere")
    monkeypatch.setattr("counterfoil.db.CONNECT_SECONDS", 0.2)
    settings.cache_clear()
    with pytest.raises(DatabaseUnavailableError):
        handler.handle({}, Context())
