"""What people, programs and alarms are told of offers is what the worker really wrote."""

from datetime import timedelta
from uuid import UUID

from counterfoil.db import Database
from counterfoil.offers import browsing, monitoring, profiles
from counterfoil.offers.monitoring import Standing
from tests.factories import NOW
from tests.offers.day import PEOPLE, Day, day
from tests.offers.harness import DAY, user

__all__ = ["day"]

BROKEN = 3
"""Of the people: a trait of theirs is no number."""


def pool(day: Day, database: Database) -> browsing.Pool:
    with database.tenant(day.tenant_id) as connection:
        (found,) = browsing.page(connection, day.tenant_id, browsing.Wanted(), day.clock(), 2)
    return found


def counts(day: Day, database: Database) -> tuple[int, int, int, int]:
    found = pool(day, database)
    return found.pending, found.running, found.completed, found.failed


def standing(day: Day, keeper_database: Database) -> Standing:
    with keeper_database.delivery() as connection:
        assert monitoring.duplicates(connection, NOW - timedelta(days=1), 60) == 0
        return monitoring.standing(connection, NOW + timedelta(minutes=30))


def test_everybody_is_counted_once_whoever_is_put_aside(
    day: Day, database: Database, keeper_database: Database
) -> None:
    day.spoil(BROKEN)
    first, second = day.pin()
    assert counts(day, database) == (8, 0, 0, 0)
    day.deliver(first)
    assert counts(day, database) == (5, 0, 3, 0)
    day.deliver(second)
    assert counts(day, database) == (1, 0, 7, 0)
    assert standing(day, keeper_database) == Standing(completed=7, pending=1, failed=0, late=0)

    day.deliver(*day.owed())

    assert counts(day, database) == (0, 0, 7, 1)
    assert standing(day, keeper_database) == Standing(completed=7, pending=0, failed=1, late=0)
    found = pool(day, database)
    assert (found.state, found.users, found.ended_at is None) == ("failed", len(PEOPLE), False)


def test_whose_offers_failed_is_told_with_the_reason_and_the_dead_letter_that_tries_again(
    day: Day, database: Database
) -> None:
    day.spoil(BROKEN)
    day.deliver(*day.pin())
    day.deliver(*day.owed())

    found = pool(day, database)
    with database.tenant(day.tenant_id) as connection:
        (failed,) = browsing.failed(connection, found, None, 10)
        job = browsing.job(connection, found, user(BROKEN))
        letters = {shard.name: shard.letter is not None for shard in browsing.shards(connection, found.id)}
        told = profiles.offered(connection, user(BROKEN), DAY, NOW)

    assert (failed.user_id, failed.shard) == (user(BROKEN), "0/failed")
    assert failed.error
    assert letters == {"0": False, "1": False, "0/failed": True}
    assert job is not None
    assert job.letter is not None
    assert told is not None
    assert (told.state, told.offers, told.error) == ("failed", [], failed.error)


def test_who_is_offered_is_told_as_it_was_written_and_marked_when_blocked(day: Day, database: Database) -> None:
    day.deliver(*day.pin())
    with database.tenant(day.tenant_id) as connection:
        before = profiles.offered(connection, user(1), DAY, NOW)
        assert before is not None
        one, *others = [offer["userId"] for offer in before.offers]
        profiles.block(connection, user(1), UUID(one), NOW)
        after = profiles.offered(connection, user(1), DAY, NOW)

    assert len(others) == 4
    assert after is not None
    assert after.offers == before.offers
    assert not before.withdrawn
    assert after.withdrawn == {one}
