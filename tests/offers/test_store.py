"""Shards are loaded with their pinned users, and their results are written once."""

from contextlib import closing
from datetime import timedelta
from uuid import UUID

import numpy as np
import psycopg
import pytest

from counterfoil.db import Connection, Database
from counterfoil.errors import StaleClaimError
from counterfoil.offers import store
from counterfoil.offers.store import ShardInput, WriteResult
from tests.delivery.conftest import tenant
from tests.delivery.harness import rows
from tests.factories import NOW, make_profile, make_shard
from tests.offers.harness import DAY, jobs, make_people, offered_candidates, pin, queue, results, user

__all__ = ["tenant"]

ALL = range(1, 7)


@pytest.fixture
def shards(admin: Connection, tenant: UUID) -> list[UUID]:
    """Ids of two shards with three users each."""
    return pin(admin, tenant, make_people(admin, tenant, ALL), shards=2)


def read_shard(database: Database, tenant: UUID, shard_id: UUID) -> ShardInput:
    with database.tenant(tenant) as connection:
        shard_input = store.load_shard(connection, shard_id)
    assert shard_input is not None
    return shard_input


def write(database: Database, tenant: UUID, shard_id: UUID, outcome: store.ShardResults) -> WriteResult:
    shard = read_shard(database, tenant, shard_id)
    with database.tenant(tenant) as connection:
        return store.write(connection, shard, outcome, NOW)


def test_shard_is_loaded_with_users_and_times(database: Database, tenant: UUID, shards: list[UUID]):
    shard = read_shard(database, tenant, shards[1])

    assert (shard.name, shard.date, shard.timezone, shard.pool_people) == ("1", DAY, "Europe/Berlin", 6)
    assert list(shard.users) == [user(number) for number in (4, 5, 6)]
    assert shard.profiles is not None
    assert shard.profiles[::76] == bytes(3)
    assert (shard.offered_at, shard.expires_at) == (NOW, NOW + timedelta(days=1))
    assert not shard.is_quarantine


def test_other_tenants_shard_is_not_found(
    database: Database, admin: Connection, shards: list[UUID], make_tenant: object
):
    other = make_tenant("other")  # type: ignore[operator]
    with database.tenant(other) as connection:
        assert store.load_shard(connection, shards[0]) is None


def test_pool_profiles_are_in_shard_order(database: Database, admin: Connection, tenant: UUID, shards: list[UUID]):
    first, second = (read_shard(database, tenant, id_) for id_ in shards)
    make_shard(admin, tenant, [user(0)], pool_id=first.pool_id, name="late/now/0")
    with database.tenant(tenant) as connection:
        assert store.pool_people(connection, first.pool_id) == (first.profiles or b"") + (second.profiles or b"")


def test_reloaded_profiles_omit_deleted_users(database: Database, admin: Connection, tenant: UUID):
    make_people(admin, tenant, (1, 3))
    with database.tenant(tenant) as connection:
        numbers, people = store.reload_profiles(connection, [user(1), user(2), user(3)])
    assert list(numbers) == [0, 2]
    assert [people[:16], people[76:92]] == [user(1).bytes, user(3).bytes]


def test_blocked_and_recently_offered_users_are_excluded(
    database: Database, admin: Connection, tenant: UUID, shards: list[UUID]
):
    def block(blocker: int, blocked: int) -> None:
        admin.execute(
            "INSERT INTO user_block VALUES (%s, %s, %s, now(), gen_random_uuid())",
            [user(blocker), user(blocked), tenant],
        )

    block(1, 9)
    block(5, 2)
    block(4, 6)  # user 4 is in the other shard
    for days, candidate in (
        (2, 12),
        (3, 13),
        (-1, 14),
        (-3, 15),
    ):  # -1 and -3 are later dates whose offers were computed first
        day = DAY - timedelta(days=days)
        (earlier,) = pin(admin, tenant, [user(1)], day=day)
        write(database, tenant, earlier, results([(user(1), [user(candidate)])]))
    shard = read_shard(database, tenant, shards[0])
    admin.execute("UPDATE offer_shard SET claim_token = 7")

    with database.tenant(tenant) as connection:
        stored = store.pin_excluded(connection, shard, 2, 7)
        assert store.load_excluded(connection, shard.id) == stored

    exclusions = [
        (int.from_bytes(stored[at : at + 4]), UUID(bytes=stored[at + 4 : at + 20])) for at in range(0, len(stored), 20)
    ]
    assert exclusions == [(0, user(9)), (0, user(12)), (0, user(14)), (1, user(5))]


def test_stale_attempt_pins_no_exclusions(database: Database, admin: Connection, tenant: UUID, shards: list[UUID]):
    admin.execute("UPDATE offer_shard SET claim_token = 8")
    with pytest.raises(StaleClaimError), database.tenant(tenant) as connection:
        store.pin_excluded(connection, read_shard(database, tenant, shards[0]), 30, 7)
    with database.tenant(tenant) as connection:
        assert store.load_excluded(connection, shards[0]) is None


def test_offers_for_other_dates_are_not_counted(
    database: Database, admin: Connection, tenant: UUID, shards: list[UUID]
):
    (yesterday,) = pin(admin, tenant, [user(1)], day=DAY - timedelta(days=1))
    write(database, tenant, yesterday, results([(user(1), [user(5), user(6)])]))
    write(database, tenant, shards[0], results([(user(1), [user(5)])]))

    with database.tenant(tenant) as connection:
        counts = store.offer_counts(connection, read_shard(database, tenant, shards[1]))

    assert [(int(row["number"]), UUID(bytes=row["candidate"])) for row in counts] == [(1, user(5))]


def hold(connection: Connection, shard: ShardInput) -> None:
    """Reserve exposure in the shard's pool, or fail if the lock is busy for 10 ms."""
    connection.execute("SET LOCAL lock_timeout = '10ms'")
    candidates, numbers = store.uuids(np.array([user(1).bytes], "V16")), store.integers(np.array([1]))
    store.reserve_exposure(connection, shard, candidates, numbers, max_users=1)


def test_shards_of_a_pool_reserve_exposure_sequentially(
    database: Database, database_url: str, tenant: UUID, shards: list[UUID]
):
    first, second = (read_shard(database, tenant, id_) for id_ in shards)
    with closing(Database(database_url)) as other, database.tenant(tenant) as connection:
        hold(connection, first)
        with other.tenant(tenant) as waiting, pytest.raises(psycopg.errors.LockNotAvailable):
            hold(waiting, second)


def test_nested_loops_are_enabled_again_after_write(database: Database, tenant: UUID, shards: list[UUID]):
    with database.tenant(tenant) as connection:
        shard_input = store.load_shard(connection, shards[0])
        assert shard_input is not None
        store.write(connection, shard_input, results([(user(1), [])]), NOW)
        assert connection.execute("SHOW enable_nestloop").fetchone() == ("on",)


def test_results_are_written_to_jobs_offers_and_shard(
    database: Database, admin: Connection, tenant: UUID, shards: list[UUID]
):
    outcome = results([(user(1), [user(5), user(4)]), (user(2), []), (user(3), [user(1)])])

    assert write(database, tenant, shards[0], outcome) == WriteResult(3, 0, [])

    stored_jobs = jobs(admin)
    assert {number: stored_jobs[user(number)] for number in ALL} == {
        1: ("completed", [str(user(1)), 2], None),
        2: ("completed", [str(user(2)), 0], None),
        3: ("completed", [str(user(3)), 1], None),
        **dict.fromkeys((4, 5, 6), ("pending", None, None)),
    }
    assert offered_candidates(admin) == {user(1): [user(5), user(4)], user(3): [user(1)]}
    (row,) = [row for row in rows(admin, "offer_shard") if row["name"] == "0"]
    assert (row["completed"], row["failed"]) == (3, 0)


def test_second_write_changes_nothing(database: Database, admin: Connection, tenant: UUID, shards: list[UUID]):
    write(database, tenant, shards[0], results([(user(1), [user(5)])]))
    before = rows(admin, "matchmaking_jobs"), rows(admin, "offers")

    repeated = write(database, tenant, shards[0], results([(user(1), [user(6)])], [(user(1), "no")]))

    assert repeated == WriteResult(0, 0, [])
    assert (rows(admin, "matchmaking_jobs"), rows(admin, "offers")) == before
    with pytest.raises(psycopg.errors.RestrictViolation):
        admin.execute("UPDATE matchmaking_jobs SET offers = '[]' WHERE status = 'completed'")


def test_deleted_user_gets_no_offers(database: Database, admin: Connection, tenant: UUID, shards: list[UUID]):
    admin.execute("DELETE FROM profile WHERE user_id = %s", [user(1)])

    assert write(database, tenant, shards[0], results([(user(1), [user(5)]), (user(2), [user(5)])])).completed == 1

    assert offered_candidates(admin) == {user(2): [user(5)]}


def test_failed_users_are_quarantined_and_others_completed(
    database: Database, admin: Connection, tenant: UUID, shards: list[UUID]
):
    outcome = results([(user(1), [user(5)])], [(user(3), "A trait is not a number"), (user(2), "There is no age")])

    write_result = write(database, tenant, shards[0], outcome)

    assert (write_result.completed, write_result.failed) == (1, 2)
    stored_jobs = jobs(admin)
    assert stored_jobs[user(2)] == ("failed", None, "There is no age")
    assert stored_jobs[user(3)] == ("failed", None, "A trait is not a number")
    (message,) = write_result.messages
    quarantined = read_shard(database, tenant, message.message.work_id)
    assert (quarantined.name, list(quarantined.users), quarantined.profiles, quarantined.is_quarantine) == (
        "0/failed",
        [user(2), user(3)],
        None,
        True,
    )
    assert [(row["work_id"], row["revision"]) for row in rows(admin, "outbox")] == [(str(quarantined.id), 1)]


def test_quarantined_jobs_follow_their_quarantine_shard(
    database: Database, admin: Connection, tenant: UUID, shards: list[UUID]
):
    write_result = write(database, tenant, shards[0], results(faults=[(user(1), "no")]))
    (message,) = write_result.messages
    admin.execute(
        "UPDATE offer_shard SET status = 'in-progress', claim_token = 1 WHERE id = %s", [message.message.work_id]
    )
    assert jobs(admin)[user(1)] == ("running", None, "no")

    write(database, tenant, message.message.work_id, results([(user(1), [user(5)])]))

    assert jobs(admin)[user(1)] == ("completed", [str(user(1)), 1], None)


def test_shard_writes_no_offers_for_another_tenant(
    database: Database, admin: Connection, tenant: UUID, make_tenant: object
):
    other = make_tenant("other")  # type: ignore[operator]
    foreign = make_profile(admin, other, user_id=user(7))
    (shard,) = pin(admin, tenant, make_people(admin, tenant, (1,)))
    queue(admin, other, [foreign], shard)

    assert write(database, tenant, shard, results([(user(1), [user(7)]), (foreign, [user(1)])])).completed == 1

    assert jobs(admin)[foreign][0] == "pending"
