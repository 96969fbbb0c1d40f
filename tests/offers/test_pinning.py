"""Pinning a pool in PostgreSQL: each person once, with a job, despite concurrency."""

import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

import pytest

from counterfoil.db import Connection, Database
from counterfoil.delivery.work import OutboxMessage
from counterfoil.errors import RejectedStatementError
from counterfoil.offers import pinning
from counterfoil.offers.pinning import pin, pin_late
from counterfoil.offers.schedule import Due, Rules, due_on
from tests.delivery.harness import rows
from tests.factories import make_profile

RULES = Rules(offers=5, candidates=1000, most_offered=None, repeat_days=30)
BERLIN = due_on("Europe/Berlin", date(2026, 1, 5))
LISBON = due_on("Europe/Lisbon", date(2026, 1, 5))
NOW = BERLIN.offered_at + timedelta(hours=1, minutes=2)
LATER = NOW + timedelta(hours=1)

Pin = Callable[[Connection, UUID, Due, Rules, int, datetime], list[OutboxMessage]]


@pytest.fixture
def tenant(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


class Town:
    """A tenant's people, and the scheduler's transactions on them."""

    def __init__(self, database: Database, admin: Connection, tenant_id: UUID) -> None:
        self.database, self.admin, self.tenant_id = database, admin, tenant_id

    def add_person(self, zone: str = "Europe/Berlin", **columns: Any) -> UUID:
        return make_profile(self.admin, self.tenant_id, timezone=zone, **columns)

    def pin(
        self, due: Due = BERLIN, now: datetime = NOW, *, by: Pin = pin, each: int = 10, rules: Rules = RULES
    ) -> list[OutboxMessage]:
        with self.database.tenant(self.tenant_id) as connection:
            return by(connection, self.tenant_id, due, rules, each, now)

    def move(self, user_id: UUID, zone: str) -> None:
        self.admin.execute("UPDATE profile SET timezone = %s WHERE user_id = %s", [zone, user_id])

    def shards(self) -> list[tuple[str, list[UUID]]]:
        found = self.admin.execute("SELECT name, users FROM offer_shard ORDER BY created_at, users").fetchall()
        return [(name, users) for name, users in found]

    def jobs(self) -> dict[UUID, str]:
        return dict(self.admin.execute("SELECT user_id, timezone FROM matchmaking_jobs").fetchall())

    def counts(self) -> list[int]:
        return [len(rows(self.admin, name)) for name in ("offer_pool", "offer_shard", "matchmaking_jobs", "outbox")]


@pytest.fixture
def town(database: Database, admin: Connection, tenant: UUID) -> Town:
    return Town(database, admin, tenant)


def make_people(admin: Connection, tenant_id: UUID, number: int) -> list[UUID]:
    """Create varied people in Berlin. Return their ids in order."""
    found = admin.execute(
        """
        INSERT INTO profile (user_id, external_id, tenant_id, timezone, birth_date, gender, seeks_genders, min_age,
                             max_age, latitude, longitude, max_distance_km, traits, updated_at)
        SELECT gen_random_uuid(), gen_random_uuid(), %s, 'Europe/Berlin', '1970-01-01'::date + n %% 9000,
               (ARRAY['woman', 'man', 'nonbinary'])[1 + n %% 3], '{woman,man}', 20, 60, n %% 90, n %% 180, 100,
               ARRAY[(n %% 100) / 100.0, NULL, -1]::real[], now()
        FROM generate_series(1, %s) AS n RETURNING user_id
        """,
        [tenant_id, number],
    ).fetchall()
    return sorted(user_id for (user_id,) in found)


def test_twenty_thousand_people_are_pinned_in_shards(town: Town, admin: Connection, tenant: UUID):
    user_ids = make_people(admin, tenant, 20_000)
    packed: dict[UUID, bytes] = dict(admin.execute("SELECT user_id, packed_row FROM profile").fetchall())

    sends = town.pin(each=3_000)

    (pool,) = rows(admin, "offer_pool")
    shards = admin.execute("SELECT id, name, users, profiles, status, revision FROM offer_shard").fetchall()
    shards.sort(key=lambda shard: int(shard[1]))
    assert [name for _, name, *_ in shards] == [str(number) for number in range(7)]
    assert [len(users) for _, _, users, *_ in shards] == [3_000] * 6 + [2_000]
    assert [user for _, _, users, *_ in shards for user in users] == user_ids
    people = [part for _, _, _, part, *_ in shards]
    assert b"".join(people) == b"".join(packed[user] for user in user_ids)
    assert pool["user_count"] == 20_000
    assert pool["profiles_hash"] == "\\x" + hashlib.sha256(b"".join(people)).hexdigest()
    assert {(status, revision) for *_, status, revision in shards} == {("pending", 1)}
    shard_of: dict[UUID, UUID] = dict(
        admin.execute("SELECT user_id, shard_id FROM matchmaking_jobs WHERE status = 'pending'").fetchall()
    )
    assert shard_of == {user: id_ for id_, _, users, *_ in shards for user in users}
    outbox_rows = admin.execute("SELECT work_id, worker, tenant_id, revision, send_number FROM outbox").fetchall()
    assert sorted(outbox_rows) == sorted((id_, "offers", tenant, 1, 0) for id_, *_ in shards)
    assert {send.message.work_id for send in sends} == {id_ for id_, *_ in shards}


def test_bounded_pool_has_its_own_shard_size(
    town: Town, admin: Connection, tenant: UUID, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pinning, "CAPPED_POOL_SHARD_SIZE", 400)
    user_ids = make_people(admin, tenant, 1_000)

    town.pin(each=10, rules=replace(RULES, most_offered=3))

    assert [users for _, users in sorted(town.shards())] == [user_ids[:400], user_ids[400:800], user_ids[800:]]


def test_pool_and_shard_ids_are_deterministic(town: Town, admin: Connection, tenant: UUID):
    town.add_person()
    town.pin()
    pool = uuid5(UUID("5b0c6e0e-0f5f-5c5e-8a53-6d3f1f6f2c55"), f"{tenant}/2026-01-05/Europe/Berlin")
    assert admin.execute("SELECT id FROM offer_pool").fetchall() == [(pool,)]
    assert admin.execute("SELECT id FROM offer_shard").fetchall() == [(uuid5(pool, "0"),)]


def test_pool_stores_rules_times_and_version(town: Town, admin: Connection):
    town.add_person()
    town.pin(rules=Rules(3, 50, 7, 10))
    stored = admin.execute(
        "SELECT rules, offered_at, expires_at, algorithm_version, pinned_at FROM offer_pool"
    ).fetchone()
    assert stored is not None
    assert Rules.from_json(stored[0]) == Rules(3, 50, 7, 10)
    assert stored[1:] == (BERLIN.offered_at, BERLIN.expires_at, 1, NOW)


def test_a_pool_is_pinned_once(town: Town):
    for _ in range(25):
        town.add_person()
    assert len(town.pin()) == 3
    before = town.counts()
    assert before == [1, 3, 25, 3]
    for now in (NOW, LATER):
        assert town.pin(now=now) == []
        assert town.pin(now=now, by=pin_late) == []
    town.add_person()
    assert town.pin(now=LATER) == []
    assert town.counts() == before


def test_concurrent_pins_pin_a_pool_once(town: Town):
    for _ in range(25):
        town.add_person()
    barrier = threading.Barrier(4)

    def run(_: int) -> int:
        barrier.wait()
        return len(town.pin())

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(run, range(4))) == [0, 0, 0, 3]
    assert town.counts() == [1, 3, 25, 3]


def at_once(
    town: Town, first: Due, between: Callable[[], None], second: Due
) -> tuple[Sequence[OutboxMessage], Sequence[OutboxMessage]]:
    """Pin two pools. The second starts before the first commits, after `between`."""
    with ThreadPoolExecutor(1) as thread:
        with town.database.tenant(town.tenant_id) as connection:
            sent = pin(connection, town.tenant_id, first, RULES, 10, NOW)
            between()
            other = thread.submit(town.pin, second)
            while not town.admin.execute("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchall():
                assert not other.done()
        return sent, other.result(timeout=30)


def test_moving_during_pinning_yields_one_job(town: Town):
    mover, stays, other = town.add_person(), town.add_person(), town.add_person("Europe/Lisbon")

    at_once(town, BERLIN, lambda: town.move(mover, "Europe/Lisbon"), LISBON)

    assert town.jobs() == {mover: "Europe/Berlin", stays: "Europe/Berlin", other: "Europe/Lisbon"}
    assert sorted(users for _, users in town.shards()) == sorted([sorted([mover, stays]), [other]])
    assert town.pin(LISBON, by=pin_late) == []


def test_unique_constraint_prevents_second_job_per_date(town: Town, monkeypatch: pytest.MonkeyPatch):
    """The unique constraint alone separates concurrent pins."""
    monkeypatch.setattr(pinning, "_LOCK", "SELECT %(tenant)s::uuid, %(date)s::date")
    mover = town.add_person()

    with pytest.raises(RejectedStatementError, match="matchmaking_jobs_date_user_id_key"):
        at_once(town, BERLIN, lambda: town.move(mover, "Europe/Lisbon"), LISBON)

    assert town.admin.execute("SELECT user_id, timezone FROM matchmaking_jobs").fetchall() == [(mover, "Europe/Berlin")]


def test_user_deleted_during_pinning_is_left_out(town: Town):
    leaver, stays = town.add_person(), town.add_person()

    with ThreadPoolExecutor(1) as thread:
        with town.database.tenant(town.tenant_id) as connection:
            connection.execute("DELETE FROM profile WHERE user_id = %s", [leaver])
            pinned = thread.submit(town.pin)
            while not town.admin.execute("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchall():
                assert not pinned.done()
        (send,) = pinned.result(timeout=30)

    assert town.shards() == [("0", [stays])]
    assert set(town.jobs()) == {stays}
    assert send.message.revision == 1


def test_waiting_query_reads_no_jobs_of_other_days(town: Town, admin: Connection):
    make_people(admin, town.tenant_id, 300)
    admin.execute(
        """
        INSERT INTO matchmaking_jobs (date, timezone, user_id, status, tenant_id, shard_id, completed_at, offers)
        SELECT %(day)s::date - days, %(zone)s, user_id, 'completed', tenant_id, user_id, now(),
               to_jsonb(repeat('-', 900))
        FROM profile, generate_series(1, 20) AS days
        """,
        {"day": BERLIN.date, "zone": BERLIN.zone},
    )
    admin.execute("VACUUM ANALYZE matchmaking_jobs")

    with town.database.tenant(town.tenant_id) as connection:
        (waits,) = pinning.pending_pools(connection, town.tenant_id, [BERLIN])
        whole = connection.execute("SELECT pg_stat_get_xact_tuples_returned('matchmaking_jobs'::regclass)").fetchone()

    assert waits.people == 300
    assert whole == (0,)  # rows read sequentially


def test_pool_without_remaining_people_is_not_pinned(town: Town):
    mover = town.add_person()

    _, sends = at_once(town, BERLIN, lambda: town.move(mover, "Europe/Lisbon"), LISBON)

    assert sends == []
    assert town.counts() == [1, 1, 1, 1]


def test_no_active_people_yield_no_pool(town: Town):
    town.add_person(is_active=False)
    town.add_person("Europe/Lisbon")
    assert town.pin() == []
    assert town.counts() == [0, 0, 0, 0]


def test_late_user_gets_a_late_shard(town: Town, admin: Connection):
    early, away, elsewhere = town.add_person(), town.add_person(is_active=False), town.add_person("Asia/Tokyo")
    assert town.pin(by=pin_late) == []  # no late shard before a pool exists
    town.pin()
    new = town.add_person()
    admin.execute("UPDATE profile SET is_active = true WHERE user_id = %s", [away])
    town.move(elsewhere, "Europe/Berlin")

    (send,) = town.pin(now=LATER, by=pin_late)

    assert town.shards() == [("0", [early]), (f"late/{LATER.isoformat()}/0", sorted([new, away, elsewhere]))]
    people = admin.execute("SELECT profiles FROM offer_shard WHERE id = %s", [send.message.work_id]).fetchone()
    assert people == (None,)
    assert admin.execute("SELECT user_count FROM offer_pool").fetchone() == (1,)
    assert set(town.jobs()) == {early, new, away, elsewhere}
    assert town.pin(now=LATER + timedelta(hours=1), by=pin_late) == []
    assert town.counts() == [1, 2, 4, 2]


def test_many_late_users_get_several_shards(town: Town):
    town.add_person()
    town.pin()
    late = sorted(town.add_person() for _ in range(23))
    assert len(town.pin(now=LATER, by=pin_late)) == 3
    _, *found = town.shards()
    assert [user for _, users in found for user in users] == late
    assert [name for name, _ in found] == [f"late/{LATER.isoformat()}/{number}" for number in range(3)]


def test_moved_user_gets_no_second_job(town: Town):
    mover, _ = town.add_person(), town.add_person("Europe/Lisbon")
    town.pin(BERLIN)
    town.move(mover, "Europe/Lisbon")
    town.pin(LISBON)
    assert town.pin(LISBON, LATER, by=pin_late) == []
    assert town.jobs()[mover] == "Europe/Berlin"
    tomorrow = due_on("Europe/Lisbon", date(2026, 1, 6))
    town.pin(tomorrow, tomorrow.offered_at)
    assert len(rows(town.admin, "matchmaking_jobs")) == 4


def test_capped_pool_is_one_shard(town: Town):
    for _ in range(25):
        town.add_person()
    capped = Rules(5, 1000, 3, 30)
    assert len(town.pin(rules=capped)) == 1
    for _ in range(15):
        town.add_person()
    assert len(town.pin(now=LATER, rules=capped, by=pin_late)) == 1
    assert [len(users) for _, users in town.shards()] == [25, 15]


def test_each_tenant_has_its_own_pool(town: Town, admin: Connection, make_tenant: Callable[..., UUID]):
    ours = town.add_person()
    their_town = Town(town.database, admin, make_tenant("umbrella"))
    theirs = their_town.add_person()
    town.pin()
    assert list(town.jobs()) == [ours]
    their_town.pin()
    assert sorted(users for _, users in town.shards()) == sorted([[ours], [theirs]])


def test_zones_are_distinct_zones_of_active_people(town: Town):
    with town.database.tenant(town.tenant_id) as connection:
        assert pinning.zones(connection, town.tenant_id) == []
    for zone in ("Europe/Berlin", "UTC", "Asia/Tokyo", "Europe/Berlin", "Mars/Olympus"):
        town.add_person(zone)
    town.add_person("Asia/Kolkata", is_active=False)
    with town.database.tenant(town.tenant_id) as connection:
        found = pinning.zones(connection, town.tenant_id)
    assert len(found) == 4
    assert set(found) == {"Europe/Berlin", "UTC", "Asia/Tokyo", "Mars/Olympus"}


def test_waiting_people_are_counted_per_zone(town: Town):
    for _ in range(3):
        town.add_person()
    town.add_person("Europe/Lisbon")
    with town.database.tenant(town.tenant_id) as connection:
        assert pinning.pinned_pools(connection, town.tenant_id, []) == set()
        assert pinning.pinned_pools(connection, town.tenant_id, [BERLIN, LISBON]) == set()
        assert pinning.pending_pools(connection, town.tenant_id, [BERLIN, LISBON]) == [(BERLIN, 3), (LISBON, 1)]
    town.pin()
    with town.database.tenant(town.tenant_id) as connection:
        assert pinning.pinned_pools(connection, town.tenant_id, [BERLIN, LISBON]) == {("Europe/Berlin", BERLIN.date)}
        assert pinning.pending_pools(connection, town.tenant_id, [BERLIN, LISBON]) == [(LISBON, 1)]


def test_unknown_zone_is_pinned_like_any_other(town: Town):
    town.add_person("Mars/Olympus")
    assert len(town.pin(due_on("Mars/Olympus", date(2026, 1, 5)))) == 1
    assert list(town.jobs().values()) == ["Mars/Olympus"]
