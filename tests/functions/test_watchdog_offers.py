"""The watchdog counts users by offer progress, and detects duplicate offers."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection, Database
from counterfoil.errors import DatabaseUnavailableError
from counterfoil.offers import pool_list
from counterfoil.offers.pool_list import LOOKBACK
from functions.watchdog.backlog_metrics import OfferMetrics
from tests.delivery.harness import Clock
from tests.factories import NOW, make_jobs, make_pool, make_profile, make_shard

Counted = Callable[[], dict[str, int]]
HOUR = timedelta(hours=1)


def unlimited_time() -> float:
    """Return a remaining time in seconds that is always sufficient."""
    return 60


@pytest.fixture
def tenant(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


@pytest.fixture
def clock() -> Clock:
    clock = Clock()
    clock.now = NOW
    return clock


@pytest.fixture
def offers_watch(maintenance_database: Database, clock: Clock) -> OfferMetrics:
    return OfferMetrics(maintenance_database, clock)


def shard(
    admin: Connection, tenant: UUID, size: int, *, offered_at: datetime = NOW, name: str = "0", **columns: Any
) -> UUID:
    """Store a shard in its own pool, due at `offered_at`.

    `columns` are updated in the shard's row.
    """
    pool = make_pool(
        admin, tenant, date=offered_at.date(), offered_at=offered_at, expires_at=offered_at + timedelta(days=1)
    )
    shard_id = make_shard(
        *(admin, tenant, [uuid4() for _ in range(size)]),
        pool_id=pool,
        name=name,
        created_at=offered_at,
        status="in-progress",
    )
    for column, value in columns.items():
        admin.execute(f"UPDATE offer_shard SET {column} = %s WHERE id = %s".encode(), [value, shard_id])
    return shard_id


def test_users_are_counted_by_offer_progress(
    offers_watch: OfferMetrics, admin: Connection, tenant: UUID, make_tenant: Callable[..., UUID]
) -> None:
    shard(admin, tenant, 10, completed=8, failed=2, status="succeeded")
    shard(admin, make_tenant("other"), 2, name="0/failed", status="failed")
    shard(admin, tenant, 5, status="pending")
    shard(admin, tenant, 7)

    counts = offers_watch.run(unlimited_time)

    assert counts == {
        "offers_completed": 8,
        "offers_pending": 12,
        "offers_failed": 2,
        "offers_late_users": 0,
        "offers_twice": 0,
    }


def test_offers_of_past_days_do_not_count(
    offers_watch: OfferMetrics, clock: Clock, admin: Connection, tenant: UUID
) -> None:
    shard(admin, tenant, 3)
    clock.advance(seconds=timedelta(days=1).total_seconds() - 1)
    assert offers_watch.run(unlimited_time)["offers_pending"] == 3

    clock.advance(seconds=1)

    assert offers_watch.run(unlimited_time)["offers_pending"] == 0


@pytest.mark.parametrize(
    ("name", "began_ago", "late"),
    [("0", HOUR, 0), ("0", HOUR * 1.01, 4), ("late/noon/0", HOUR, 0), ("late/noon/0", HOUR * 1.01, 4)],
)
def test_users_are_late_after_an_hour(
    offers_watch: OfferMetrics, admin: Connection, tenant: UUID, name: str, began_ago: timedelta, late: int
) -> None:
    shard_id = shard(admin, tenant, 4, offered_at=NOW - began_ago, name=name)

    assert offers_watch.run(unlimited_time)["offers_late_users"] == late

    admin.execute("UPDATE offer_shard SET status = 'succeeded', completed = 4 WHERE id = %s", [shard_id])
    assert offers_watch.run(unlimited_time)["offers_late_users"] == 0


def test_deadline_of_late_user_is_relative_to_joining(
    offers_watch: OfferMetrics, admin: Connection, tenant: UUID
) -> None:
    shard_id = shard(admin, tenant, 1, offered_at=NOW - HOUR * 5, name="late/noon/0")
    admin.execute("UPDATE offer_shard SET created_at = %s WHERE id = %s", [NOW - HOUR, shard_id])

    assert offers_watch.run(unlimited_time)["offers_late_users"] == 0


OFFER = """
INSERT INTO offers (date, user_id, candidate_id, tenant_id, id, rank, score, offered_at, expires_at)
SELECT date, users[1], %(candidate)s, tenant_id, %(id)s, %(rank)s, 1, created_at, created_at FROM offer_shard
WHERE id = %(shard)s
"""


def offer(admin: Connection, shard_id: UUID, rank: int, candidate: UUID | None = None) -> UUID:
    candidate_id = candidate or uuid4()
    admin.execute(OFFER, {"shard": shard_id, "candidate": candidate_id, "id": uuid4(), "rank": rank})
    return candidate_id


@pytest.fixture
def served_user(admin: Connection, tenant: UUID) -> UUID:
    """Store a completed shard of one user with three offers. Return the shard's id."""
    pool = make_pool(admin, tenant)
    shard_id = make_shard(admin, tenant, [make_profile(admin, tenant)], pool_id=pool, status="in-progress")
    make_jobs(admin, shard_id)
    for rank in (1, 2, 3):
        offer(admin, shard_id, rank)
    admin.execute("UPDATE offer_shard SET status = 'succeeded' WHERE id = %s", [shard_id])
    admin.execute("UPDATE offer_shard SET completed_at = %s WHERE id = %s", [NOW, shard_id])
    return shard_id


def test_second_set_of_offers_is_detected(
    maintenance_database: Database, clock: Clock, admin: Connection, served_user: UUID
) -> None:
    assert OfferMetrics(maintenance_database, clock).run(unlimited_time)["offers_twice"] == 0
    for rank in (1, 2):
        offer(admin, served_user, rank)

    assert OfferMetrics(maintenance_database, clock).run(unlimited_time)["offers_twice"] == 2


def test_duplicate_offer_is_detected_without_unique_constraint(
    offers_watch: OfferMetrics, admin: Connection, served_user: UUID
) -> None:
    first = offer(admin, served_user, 4)
    admin.execute("ALTER TABLE offers DROP CONSTRAINT offers_once")
    offer(admin, served_user, 5, first)

    assert offers_watch.run(unlimited_time)["offers_twice"] == 1


def test_recent_shards_are_checked_hourly(
    offers_watch: OfferMetrics, clock: Clock, admin: Connection, served_user: UUID
) -> None:
    offer(admin, served_user, 1)
    observed = []
    for _ in range(3 * 60):
        counts = offers_watch.run(unlimited_time)
        observed += [counts["offers_twice"]] if "offers_twice" in counts else []
        clock.advance(seconds=60)

    assert timedelta(hours=2) == LOOKBACK
    assert observed == [1, 1, 1]
    clock.advance(seconds=60)
    assert offers_watch.run(unlimited_time)["offers_twice"] == 0


def test_slow_duplicate_check_fails_one_run_per_hour(
    offers_watch: OfferMetrics, clock: Clock, admin: Connection
) -> None:
    admin.execute("""
        CREATE OR REPLACE FUNCTION count_duplicate_offers(since timestamptz) RETURNS bigint LANGUAGE sql
        AS 'SELECT 0::bigint FROM pg_sleep(60)'
    """)
    with pytest.raises(DatabaseUnavailableError):
        offers_watch.run(lambda: 0.05)

    assert "offers_twice" not in offers_watch.run(unlimited_time)
    clock.advance(hours=1)
    with pytest.raises(DatabaseUnavailableError):
        offers_watch.run(lambda: 0.05)


def test_counts_are_emitted_as_global_metrics(
    offers_watch: OfferMetrics, admin: Connection, tenant: UUID, capsys: pytest.CaptureFixture[str]
) -> None:
    shard(admin, tenant, 3, status="failed")

    offers_watch.run(unlimited_time)

    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    counts = {name: value for line in lines for name, value in line.items() if name.startswith(("Offers", "Duplicate"))}
    assert counts == {
        "OffersCompleted": [0.0],
        "OffersPending": [0.0],
        "OffersFailed": [3.0],
        "OffersOverdue": [0.0],
        "OffersIncompletePercent": [0.0],
        "DuplicateOffers": [0.0],
    }
    assert {
        tuple(dimensions) for line in lines for dimensions in line["_aws"]["CloudWatchMetrics"][0]["Dimensions"]
    } == {()}


def test_offers_count_as_incomplete_after_one_hour(
    maintenance_database: Database, admin: Connection, tenant: UUID, make_tenant: Callable[..., UUID]
) -> None:
    started_at = NOW - HOUR * 1.01
    day = {"date": started_at.date(), "timezone": "Europe/Berlin", "offered_at": started_at, "expires_at": NOW + HOUR}
    other_tenant = make_tenant("other")
    own_pool, other_pool = make_pool(admin, tenant, **day), make_pool(admin, other_tenant, **day)
    completed_shard = make_shard(admin, tenant, [uuid4() for _ in range(995)], pool_id=own_pool, status="in-progress")
    admin.execute("UPDATE offer_shard SET status = 'succeeded', completed = 995 WHERE id = %s", [completed_shard])
    make_shard(admin, tenant, [uuid4() for _ in range(3)], pool_id=own_pool, name="1", status="pending")
    make_shard(admin, other_tenant, [uuid4(), uuid4()], pool_id=other_pool, name="0/failed", status="failed")
    shard(admin, tenant, 700, offered_at=NOW - HOUR)  # due exactly an hour ago
    shard(admin, tenant, 300, offered_at=NOW - HOUR * 30, status="failed")  # the day has ended

    with maintenance_database.delivery() as connection:
        assert pool_list.incomplete_percent(connection, NOW) == pytest.approx(0.5)


def test_incomplete_percentage_is_that_of_worst_zone(
    maintenance_database: Database, admin: Connection, tenant: UUID
) -> None:
    shard(admin, tenant, 10_000, offered_at=NOW - HOUR * 2, completed=10_000, status="succeeded")
    small = make_pool(
        *(admin, tenant), date=NOW.date(), timezone="Asia/Tokyo", offered_at=NOW - HOUR * 2, expires_at=NOW + HOUR
    )
    make_shard(admin, tenant, [uuid4(), uuid4()], pool_id=small, created_at=NOW - HOUR * 2, status="failed")

    with maintenance_database.delivery() as connection:
        assert pool_list.incomplete_percent(connection, NOW) == 100


def test_offer_duration_percentile_is_weighted_by_users(
    maintenance_database: Database, admin: Connection, tenant: UUID
) -> None:
    for number, (users, seconds) in enumerate([(94, 10), (2, 40), (4, 90)]):
        shard_id = shard(admin, tenant, users, name=str(number))
        admin.execute(
            "UPDATE offer_shard SET claimed_at = clock_timestamp() - %s WHERE id = %s",
            [timedelta(seconds=seconds), shard_id],
        )
        admin.execute("UPDATE offer_shard SET status = 'succeeded', claimed_at = NULL WHERE id = %s", [shard_id])
    admin.execute("UPDATE offer_shard SET completed_at = %s", [NOW - timedelta(minutes=14)])

    with maintenance_database.delivery() as connection:
        assert pool_list.user_seconds(connection, NOW) == pytest.approx(40, abs=5)
        assert pool_list.user_seconds(connection, NOW + timedelta(minutes=1)) is None
