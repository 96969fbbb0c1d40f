"""Offers are retained for 90 days, and their profiles for a week."""

from datetime import UTC, date, datetime, timedelta
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database, maintenance_connection
from counterfoil.errors import RejectedStatementError
from functions.watchdog.retention import OFFERS_RETENTION, DeletedRows, purge
from tests.delivery.harness import rows
from tests.factories import make_profile, make_tenant
from tests.offers.harness import pin

NOW = datetime.now(UTC)
"""The real current time, because PostgreSQL's clock determines ages."""
A_DAY = timedelta(days=1)
OLD, YOUNG = (NOW - OFFERS_RETENTION - 2 * A_DAY).date(), (NOW - OFFERS_RETENTION + 2 * A_DAY).date()


@pytest.fixture
def people(admin: Connection) -> list[UUID]:
    tenant = make_tenant(admin)
    return [make_profile(admin, tenant) for _ in range(4)]


def insert_served_offers(admin: Connection, people: list[UUID], day: date) -> list[UUID]:
    """Store a pool whose users were all offered each other, in two shards.

    Return the shards' ids.
    """
    ((tenant,),) = admin.execute("SELECT id FROM tenant").fetchall()
    shards = pin(admin, tenant, people, shards=2, day=day)
    admin.execute("UPDATE offer_shard SET excluded = '' WHERE date = %s", [day])
    admin.execute(
        "UPDATE matchmaking_jobs SET status = 'completed', offers = '[]', completed_at = now() WHERE date = %s", [day]
    )
    admin.execute(
        """INSERT INTO offers SELECT %s, a, b, %s, gen_random_uuid(), 1, 1, now(), now()
           FROM unnest(%s::uuid[]) a, unnest(%s::uuid[]) b WHERE a <> b""",
        [day, tenant, people, people],
    )
    return shards


def row_counts(admin: Connection) -> dict[str, int]:
    tables = ("offer_pool", "offer_shard", "matchmaking_jobs", "offers")
    return {table: len(rows(admin, table)) for table in tables}


def numbers(purged: DeletedRows) -> tuple[int, int, int]:
    return purged.matchmaking_jobs, purged.offer_pool, purged.offer_shard


def test_old_offers_are_deleted_with_their_pools(maintenance_database: Database, admin: Connection, people: list[UUID]):
    insert_served_offers(admin, people, OLD)
    insert_served_offers(admin, people, YOUNG)

    assert numbers(purge(maintenance_database, lambda: NOW))[:2] == (4, 1)

    assert row_counts(admin) == {"offer_pool": 1, "offer_shard": 2, "matchmaking_jobs": 4, "offers": 12}
    assert {row["date"] for row in rows(admin, "offers")} == {str(YOUNG)}
    assert len(rows(admin, "profile")) == 4


def test_old_offers_are_deleted_in_batches(maintenance_database: Database, admin: Connection, people: list[UUID]):
    insert_served_offers(admin, people, OLD)

    assert numbers(purge(maintenance_database, lambda: NOW, batch_size=3))[0] == 3
    assert row_counts(admin)["offers"] == 3
    assert numbers(purge(maintenance_database, lambda: NOW, batch_size=3))[0] == 1


def test_wrong_watchdog_clock_deletes_no_recent_offers(
    maintenance_database: Database, admin: Connection, people: list[UUID]
):
    insert_served_offers(admin, people, YOUNG)

    assert numbers(purge(maintenance_database, lambda: NOW + 10 * OFFERS_RETENTION))[:2] == (0, 0)


def test_profiles_are_deleted_after_a_week(maintenance_database: Database, admin: Connection, people: list[UUID]):
    week, less = (NOW - 9 * A_DAY).date(), (NOW - 5 * A_DAY).date()
    for day in (week, less):
        insert_served_offers(admin, people, day)

    assert numbers(purge(maintenance_database, lambda: NOW, batch_size=1)) == (0, 0, 1)
    assert numbers(purge(maintenance_database, lambda: NOW)) == (0, 0, 1)
    assert numbers(purge(maintenance_database, lambda: NOW)) == (0, 0, 0)

    stored_shards = {
        (row["date"], row["profiles"] is None, row["excluded"] is None) for row in rows(admin, "offer_shard")
    }
    assert stored_shards == {(str(week), True, True), (str(less), False, False)}
    assert row_counts(admin)["offers"] == 24


def test_watchdog_cannot_read_profiles_or_offers(maintenance_database: Database, admin: Connection, people: list[UUID]):
    insert_served_offers(admin, people, OLD)
    for table_name in (
        "profiles FROM offer_shard",
        "users FROM offer_shard",
        "offers FROM matchmaking_jobs",
        "* FROM offers",
    ):
        with (
            pytest.raises(RejectedStatementError, match="42501"),
            maintenance_connection(maintenance_database) as connection,
        ):
            connection.execute(f"SELECT {table_name}".encode())
