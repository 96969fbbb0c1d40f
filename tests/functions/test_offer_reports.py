"""The API and the watchdog report the offers that the worker wrote."""

from datetime import timedelta
from uuid import UUID

from counterfoil.db import Database
from counterfoil.offers import pool_list, profiles
from counterfoil.offers.pool_list import OfferStats
from tests.factories import NOW, make_profile
from tests.offers.harness import DAY, pin
from tests.offers.worker_harness import NO_NUMBER, PEOPLE, OffersHarness, message, offers_harness

__all__ = ["offers_harness"]

BROKEN = 3
"""Number of the user whose trait is invalid."""


def pin_users(offers_harness: OffersHarness, *, broken_id: UUID | None = None) -> list[UUID]:
    """Pin a pool of six users in one shard and process it. Return their external ids."""
    external_ids = [UUID(int=number) for number in range(1, 7)]
    users = [
        make_profile(
            offers_harness.admin,
            offers_harness.tenant_id,
            external_id=external_id,
            traits=NO_NUMBER if external_id == broken_id else [],
        )
        for external_id in external_ids
    ]
    offers_harness.deliver(*map(message, pin(offers_harness.admin, offers_harness.tenant_id, users)))
    return external_ids


def pool(offers_harness: OffersHarness, database: Database) -> pool_list.OfferPool:
    with database.tenant(offers_harness.tenant_id) as connection:
        (listed_pool,) = pool_list.page(
            connection, offers_harness.tenant_id, pool_list.PoolFilter(), offers_harness.clock(), 2
        )
    return listed_pool


def counts(offers_harness: OffersHarness, database: Database) -> tuple[int, int, int, int]:
    listed_pool = pool(offers_harness, database)
    return listed_pool.pending, listed_pool.running, listed_pool.completed, listed_pool.failed


def offer_stats(offers_harness: OffersHarness, maintenance_database: Database) -> OfferStats:
    with maintenance_database.delivery() as connection:
        assert pool_list.duplicates(connection, NOW - timedelta(days=1), 60) == 0
        return pool_list.current_stats(connection, NOW + timedelta(minutes=30))


def test_quarantined_users_are_counted_once(
    offers_harness: OffersHarness, database: Database, maintenance_database: Database
) -> None:
    offers_harness.invalidate_profiles(BROKEN)
    first, second = offers_harness.pin()
    assert counts(offers_harness, database) == (8, 0, 0, 0)
    offers_harness.deliver(first)
    assert counts(offers_harness, database) == (5, 0, 3, 0)
    offers_harness.deliver(second)
    assert counts(offers_harness, database) == (1, 0, 7, 0)
    assert offer_stats(offers_harness, maintenance_database) == OfferStats(
        completed=7, pending=1, failed=0, late_users=0
    )

    offers_harness.deliver(*offers_harness.pending_messages())

    assert counts(offers_harness, database) == (0, 0, 7, 1)
    assert offer_stats(offers_harness, maintenance_database) == OfferStats(
        completed=7, pending=0, failed=1, late_users=0
    )
    listed_pool = pool(offers_harness, database)
    assert (listed_pool.state, listed_pool.user_count, listed_pool.ended_at is None) == ("failed", len(PEOPLE), False)


def test_failed_users_have_reason_and_dead_letter(offers_harness: OffersHarness, database: Database) -> None:
    broken_id = UUID(int=BROKEN)
    pin_users(offers_harness, broken_id=broken_id)
    offers_harness.deliver(*offers_harness.pending_messages())

    listed_pool = pool(offers_harness, database)
    with database.tenant(offers_harness.tenant_id) as connection:
        (failed,) = pool_list.failed_users(connection, offers_harness.tenant_id, listed_pool, None, 10)
        job = pool_list.job(connection, offers_harness.tenant_id, listed_pool, broken_id)
        statuses = {shard.name: shard.dead_letter is not None for shard in pool_list.shards(connection, listed_pool.id)}
        user_offers = profiles.get_offers(connection, offers_harness.tenant_id, broken_id, DAY, NOW)

    assert (failed.user_id, failed.shard) == (broken_id, "0/failed")
    assert failed.error
    assert statuses == {"0": False, "0/failed": True}
    assert job is not None
    assert job.dead_letter is not None
    assert user_offers is not None
    assert (user_offers.state, user_offers.offers, user_offers.error) == ("failed", [], failed.error)


def test_stored_offers_of_blocked_users_are_marked_withdrawn(offers_harness: OffersHarness, database: Database) -> None:
    first, *external_ids = pin_users(offers_harness)
    with database.tenant(offers_harness.tenant_id) as connection:
        before = profiles.get_offers(connection, offers_harness.tenant_id, first, DAY, NOW)
        assert before is not None
        one, *others = [offer["userId"] for offer in before.offers]
        profiles.block(connection, offers_harness.tenant_id, first, UUID(one), NOW, by="ann")
        after = profiles.get_offers(connection, offers_harness.tenant_id, first, DAY, NOW)

    assert {UUID(candidate) for candidate in (one, *others)} == set(external_ids)
    assert after is not None
    assert after.offers == before.offers
    assert not before.withdrawn
    assert after.withdrawn == {one}
