"""Pinning a pool stores each user once, with one job, despite concurrency."""

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

RULES = Rules(max_offers=5, max_candidates=1000, max_exposure=None, repeat_interval_days=30)
BERLIN = due_on("Europe/Berlin", date(2026, 1, 5))
LISBON = due_on("Europe/Lisbon", date(2026, 1, 5))
NOW = BERLIN.offered_at + timedelta(hours=1, minutes=2)
LATER = NOW + timedelta(hours=1)

Pin = Callable[[Connection, UUID, Due, Rules, int, datetime], list[OutboxMessage]]


@pytest.fixture
def tenant(make_tenant: Callable[..., UUID]) -> UUID:
    return make_tenant("acme")


class PinningHarness:
    """A tenant's users, and the scheduler's transactions for them."""

    def __init__(self, database: Database, admin: Connection, tenant_id: UUID) -> None:
        self.database, self.admin, self.tenant_id = database, admin, tenant_id

    def add_person(self, zone: str = "Europe/Berlin", **columns: Any) -> UUID:
        return make_profile(self.admin, self.tenant_id, timezone=zone, **columns)

    def pin(
        self, due: Due = BERLIN, now: datetime = NOW, *, by: Pin = pin, shard_size: int = 10, rules: Rules = RULES
    ) -> list[OutboxMessage]:
        with self.database.tenant(self.tenant_id) as connection:
            return by(connection, self.tenant_id, due, rules, shard_size, now)

    def move(self, user_id: UUID, zone: str) -> None:
        self.admin.execute("UPDATE profile SET timezone = %s WHERE user_id = %s", [zone, user_id])

    def shards(self) -> list[tuple[str, list[UUID]]]:
        records = self.admin.execute("SELECT name, users FROM offer_shard ORDER BY created_at, users").fetchall()
        return [(name, users) for name, users in records]

    def jobs(self) -> dict[UUID, str]:
        return dict(self.admin.execute("SELECT user_id, timezone FROM matchmaking_jobs").fetchall())

    def counts(self) -> list[int]:
        return [len(rows(self.admin, name)) for name in ("offer_pool", "offer_shard", "matchmaking_jobs", "outbox")]


@pytest.fixture
def harness(database: Database, admin: Connection, tenant: UUID) -> PinningHarness:
    return PinningHarness(database, admin, tenant)


def make_people(admin: Connection, tenant_id: UUID, number: int) -> list[UUID]:
    """Create users in Berlin with varied profiles. Return their ids in order."""
    records = admin.execute(
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
    return sorted(user_id for (user_id,) in records)


def test_twenty_thousand_users_are_pinned_in_shards(harness: PinningHarness, admin: Connection, tenant: UUID):
    user_ids = make_people(admin, tenant, 20_000)
    packed: dict[UUID, bytes] = dict(admin.execute("SELECT user_id, packed_row FROM profile").fetchall())

    messages = harness.pin(shard_size=3_000)

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
    assert {message.message.work_id for message in messages} == {id_ for id_, *_ in shards}


def test_capped_pool_has_its_own_shard_size(
    harness: PinningHarness, admin: Connection, tenant: UUID, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(pinning, "CAPPED_POOL_SHARD_SIZE", 400)
    user_ids = make_people(admin, tenant, 1_000)

    harness.pin(shard_size=10, rules=replace(RULES, max_exposure=3))

    assert [users for _, users in sorted(harness.shards())] == [user_ids[:400], user_ids[400:800], user_ids[800:]]


def test_pool_and_shard_ids_are_deterministic(harness: PinningHarness, admin: Connection, tenant: UUID):
    harness.add_person()
    harness.pin()
    pool = uuid5(UUID("5b0c6e0e-0f5f-5c5e-8a53-6d3f1f6f2c55"), f"{tenant}/2026-01-05/Europe/Berlin")
    assert admin.execute("SELECT id FROM offer_pool").fetchall() == [(pool,)]
    assert admin.execute("SELECT id FROM offer_shard").fetchall() == [(uuid5(pool, "0"),)]


def test_pool_stores_rules_times_and_version(harness: PinningHarness, admin: Connection):
    harness.add_person()
    harness.pin(rules=Rules(3, 50, 7, 10))
    stored = admin.execute(
        "SELECT rules, offered_at, expires_at, algorithm_version, pinned_at FROM offer_pool"
    ).fetchone()
    assert stored is not None
    assert Rules.from_json(stored[0]) == Rules(3, 50, 7, 10)
    assert stored[1:] == (BERLIN.offered_at, BERLIN.expires_at, 1, NOW)


def test_pool_is_pinned_once(harness: PinningHarness):
    for _ in range(25):
        harness.add_person()
    assert len(harness.pin()) == 3
    before = harness.counts()
    assert before == [1, 3, 25, 3]
    for now in (NOW, LATER):
        assert harness.pin(now=now) == []
        assert harness.pin(now=now, by=pin_late) == []
    harness.add_person()
    assert harness.pin(now=LATER) == []
    assert harness.counts() == before


def test_concurrent_transactions_pin_a_pool_once(harness: PinningHarness):
    for _ in range(25):
        harness.add_person()
    barrier = threading.Barrier(4)

    def run(_: int) -> int:
        barrier.wait()
        return len(harness.pin())

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(run, range(4))) == [0, 0, 0, 3]
    assert harness.counts() == [1, 3, 25, 3]


def run_concurrently(
    harness: PinningHarness, first: Due, between: Callable[[], None], second: Due
) -> tuple[Sequence[OutboxMessage], Sequence[OutboxMessage]]:
    """Pin two pools in concurrent transactions. Return the messages of both.

    `between` runs after the first pool is pinned. Then the second transaction starts and waits for the first.
    """
    with ThreadPoolExecutor(1) as thread:
        with harness.database.tenant(harness.tenant_id) as connection:
            messages = pin(connection, harness.tenant_id, first, RULES, 10, NOW)
            between()
            other = thread.submit(harness.pin, second)
            while not harness.admin.execute("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchall():
                assert not other.done()
        return messages, other.result(timeout=30)


def test_user_moving_during_pinning_gets_one_job(harness: PinningHarness):
    moving_user, staying_user, other = harness.add_person(), harness.add_person(), harness.add_person("Europe/Lisbon")

    run_concurrently(harness, BERLIN, lambda: harness.move(moving_user, "Europe/Lisbon"), LISBON)

    assert harness.jobs() == {moving_user: "Europe/Berlin", staying_user: "Europe/Berlin", other: "Europe/Lisbon"}
    assert sorted(users for _, users in harness.shards()) == sorted([sorted([moving_user, staying_user]), [other]])
    assert harness.pin(LISBON, by=pin_late) == []


def test_unique_constraint_prevents_second_job_per_date(harness: PinningHarness, monkeypatch: pytest.MonkeyPatch):
    """The constraint is the safeguard if pinning runs without its lock."""
    monkeypatch.setattr(pinning, "_LOCK", "SELECT %(tenant)s::uuid, %(date)s::date")
    moving_user = harness.add_person()

    with pytest.raises(RejectedStatementError, match="matchmaking_jobs_date_user_id_key"):
        run_concurrently(harness, BERLIN, lambda: harness.move(moving_user, "Europe/Lisbon"), LISBON)

    assert harness.admin.execute("SELECT user_id, timezone FROM matchmaking_jobs").fetchall() == [
        (moving_user, "Europe/Berlin")
    ]


def test_user_deleted_during_pinning_is_excluded(harness: PinningHarness):
    leaving_user, staying_user = harness.add_person(), harness.add_person()

    with ThreadPoolExecutor(1) as thread:
        with harness.database.tenant(harness.tenant_id) as connection:
            connection.execute("DELETE FROM profile WHERE user_id = %s", [leaving_user])
            pinned = thread.submit(harness.pin)
            while not harness.admin.execute("SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'").fetchall():
                assert not pinned.done()
        (message,) = pinned.result(timeout=30)

    assert harness.shards() == [("0", [staying_user])]
    assert set(harness.jobs()) == {staying_user}
    assert message.message.revision == 1


def test_pending_users_are_counted_without_scanning_jobs(harness: PinningHarness, admin: Connection):
    make_people(admin, harness.tenant_id, 300)
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

    with harness.database.tenant(harness.tenant_id) as connection:
        (waits,) = pinning.pending_pools(connection, harness.tenant_id, [BERLIN])
        total = connection.execute("SELECT pg_stat_get_xact_tuples_returned('matchmaking_jobs'::regclass)").fetchone()

    assert waits.people == 300
    assert total == (0,)  # number of rows read by sequential scans


def test_pool_without_remaining_users_is_not_pinned(harness: PinningHarness):
    moving_user = harness.add_person()

    _, messages = run_concurrently(harness, BERLIN, lambda: harness.move(moving_user, "Europe/Lisbon"), LISBON)

    assert messages == []
    assert harness.counts() == [1, 1, 1, 1]


def test_zone_without_active_users_gets_no_pool(harness: PinningHarness):
    harness.add_person(is_active=False)
    harness.add_person("Europe/Lisbon")
    assert harness.pin() == []
    assert harness.counts() == [0, 0, 0, 0]


def test_late_users_share_a_late_shard(harness: PinningHarness, admin: Connection):
    early, inactive, other_zone_user = (
        harness.add_person(),
        harness.add_person(is_active=False),
        harness.add_person("Asia/Tokyo"),
    )
    assert harness.pin(by=pin_late) == []  # without a pool, a date gets no late shard
    harness.pin()
    new = harness.add_person()
    admin.execute("UPDATE profile SET is_active = true WHERE user_id = %s", [inactive])
    harness.move(other_zone_user, "Europe/Berlin")

    (message,) = harness.pin(now=LATER, by=pin_late)

    assert harness.shards() == [
        ("0", [early]),
        (f"late/{LATER.isoformat()}/0", sorted([new, inactive, other_zone_user])),
    ]
    people = admin.execute("SELECT profiles FROM offer_shard WHERE id = %s", [message.message.work_id]).fetchone()
    assert people == (None,)
    assert admin.execute("SELECT user_count FROM offer_pool").fetchone() == (1,)
    assert set(harness.jobs()) == {early, new, inactive, other_zone_user}
    assert harness.pin(now=LATER + timedelta(hours=1), by=pin_late) == []
    assert harness.counts() == [1, 2, 4, 2]


def test_many_late_users_get_several_shards(harness: PinningHarness):
    harness.add_person()
    harness.pin()
    late = sorted(harness.add_person() for _ in range(23))
    assert len(harness.pin(now=LATER, by=pin_late)) == 3
    _, *result = harness.shards()
    assert [user for _, users in result for user in users] == late
    assert [name for name, _ in result] == [f"late/{LATER.isoformat()}/{number}" for number in range(3)]


def test_moved_user_gets_no_second_job(harness: PinningHarness):
    moving_user, _ = harness.add_person(), harness.add_person("Europe/Lisbon")
    harness.pin(BERLIN)
    harness.move(moving_user, "Europe/Lisbon")
    harness.pin(LISBON)
    assert harness.pin(LISBON, LATER, by=pin_late) == []
    assert harness.jobs()[moving_user] == "Europe/Berlin"
    tomorrow = due_on("Europe/Lisbon", date(2026, 1, 6))
    harness.pin(tomorrow, tomorrow.offered_at)
    assert len(rows(harness.admin, "matchmaking_jobs")) == 4


def test_small_capped_pool_is_pinned_as_one_shard(harness: PinningHarness):
    for _ in range(25):
        harness.add_person()
    capped = Rules(5, 1000, 3, 30)
    assert len(harness.pin(rules=capped)) == 1
    for _ in range(15):
        harness.add_person()
    assert len(harness.pin(now=LATER, rules=capped, by=pin_late)) == 1
    assert [len(users) for _, users in harness.shards()] == [25, 15]


def test_each_tenant_has_its_own_pool(harness: PinningHarness, admin: Connection, make_tenant: Callable[..., UUID]):
    own = harness.add_person()
    other_harness = PinningHarness(harness.database, admin, make_tenant("umbrella"))
    foreign = other_harness.add_person()
    harness.pin()
    assert list(harness.jobs()) == [own]
    other_harness.pin()
    assert sorted(users for _, users in harness.shards()) == sorted([[own], [foreign]])


def test_zones_of_active_users_are_listed_once(harness: PinningHarness):
    with harness.database.tenant(harness.tenant_id) as connection:
        assert pinning.zones(connection, harness.tenant_id) == []
    for zone in ("Europe/Berlin", "UTC", "Asia/Tokyo", "Europe/Berlin", "Mars/Olympus"):
        harness.add_person(zone)
    harness.add_person("Asia/Kolkata", is_active=False)
    with harness.database.tenant(harness.tenant_id) as connection:
        zones_ = pinning.zones(connection, harness.tenant_id)
    assert len(zones_) == 4
    assert set(zones_) == {"Europe/Berlin", "UTC", "Asia/Tokyo", "Mars/Olympus"}


def test_pending_users_are_counted_per_zone(harness: PinningHarness):
    for _ in range(3):
        harness.add_person()
    harness.add_person("Europe/Lisbon")
    with harness.database.tenant(harness.tenant_id) as connection:
        assert pinning.pinned_pools(connection, harness.tenant_id, []) == set()
        assert pinning.pinned_pools(connection, harness.tenant_id, [BERLIN, LISBON]) == set()
        assert pinning.pending_pools(connection, harness.tenant_id, [BERLIN, LISBON]) == [(BERLIN, 3), (LISBON, 1)]
    harness.pin()
    with harness.database.tenant(harness.tenant_id) as connection:
        assert pinning.pinned_pools(connection, harness.tenant_id, [BERLIN, LISBON]) == {("Europe/Berlin", BERLIN.date)}
        assert pinning.pending_pools(connection, harness.tenant_id, [BERLIN, LISBON]) == [(LISBON, 1)]


def test_pool_in_unknown_zone_is_pinned(harness: PinningHarness):
    harness.add_person("Mars/Olympus")
    assert len(harness.pin(due_on("Mars/Olympus", date(2026, 1, 5)))) == 1
    assert list(harness.jobs().values()) == ["Mars/Olympus"]
