"""Offers are stored once per user despite duplicate messages and crashes.

This holds for retries and invalid profiles too.
"""

import json
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import psycopg
import pytest

from counterfoil.db import Connection
from counterfoil.delivery.attempt import Outcome, TenantAttempt
from counterfoil.errors import DatabaseUnavailableError
from counterfoil.offers import store
from functions.offers import work as offers_work
from functions.offers.work import PoolCache, compute_shard
from tests.delivery.harness import Clock, rows
from tests.factories import make_destination, make_shard
from tests.offers.harness import DAY, jobs, offered_candidates, queue, user
from tests.offers.worker_harness import PEOPLE, OffersHarness, message, offers_harness

__all__ = ["offers_harness"]


def all_rows(admin: Connection) -> list[Any]:
    return [
        sorted(map(str, rows(admin, table))) for table in ("matchmaking_jobs", "offers", "offer_shard", "output_job")
    ]


def test_users_get_five_offers_in_order_of_rank(offers_harness: OffersHarness, admin: Connection):
    assert offers_harness.deliver(*offers_harness.pin()) == []

    assert set(offers_harness.statuses().values()) == {"completed"}
    offers_by_user = offered_candidates(admin)
    assert {len(set(candidates)) for candidates in offers_by_user.values()} == {5}
    assert all(user_id not in candidates for user_id, candidates in offers_by_user.items())
    assert len({row["id"] for row in rows(admin, "offers")}) == 5 * len(PEOPLE)
    external_ids = {str(row["user_id"]): str(row["external_id"]) for row in rows(admin, "profile")}
    for row in rows(admin, "matchmaking_jobs"):
        stored_offers = [(offer["userId"], offer["compatibilityScore"]) for offer in row["offers"]]
        expected_order = sorted(
            (offer for offer in rows(admin, "offers") if offer["user_id"] == row["user_id"]), key=lambda o: o["rank"]
        )
        assert stored_offers == [(external_ids[offer["candidate_id"]], offer["score"]) for offer in expected_order]
        assert [offer["id"] for offer in row["offers"]] == [offer["id"] for offer in expected_order]
        assert (row["attempt"], row["retry_count"], row["algorithm_version"]) == (1, 0, 1)
    assert {(row["name"], row["status"], row["completed"], row["failed"]) for row in rows(admin, "offer_shard")} == {
        ("0", "succeeded", 4, 0),
        ("1", "succeeded", 4, 0),
    }


def test_offers_are_independent_of_sharding(offers_harness: OffersHarness, admin: Connection):
    offers_harness.deliver(*offers_harness.pin(shards=1))
    first = {row["user_id"]: (row["offers"], row["inputs_hash"]) for row in rows(admin, "matchmaking_jobs")}
    admin.execute("TRUNCATE matchmaking_jobs, offers, offer_pool CASCADE")
    offers_harness.pools = PoolCache()

    offers_harness.deliver(*reversed(offers_harness.pin(shards=4)))

    assert {row["user_id"]: (row["offers"], row["inputs_hash"]) for row in rows(admin, "matchmaking_jobs")} == first


def test_duplicate_or_reordered_messages_change_nothing(offers_harness: OffersHarness, admin: Connection, clock: Clock):
    first, second = offers_harness.pin()
    offers_harness.deliver(second, first)
    before = all_rows(admin)
    clock.advance(minutes=1)

    assert offers_harness.deliver(first, second, first, message(first.work_id)) == []

    assert all_rows(admin) == before


def test_blocked_users_are_not_offered(offers_harness: OffersHarness, admin: Connection, tenant: UUID):
    admin.execute("INSERT INTO user_block VALUES (%s, %s, %s, now(), gen_random_uuid())", [user(1), user(2), tenant])
    offers_harness.deliver(*offers_harness.pin(1, 2, 3))
    assert {user_id: set(candidates) for user_id, candidates in offered_candidates(admin).items()} == {
        user(1): {user(3)},
        user(2): {user(3)},
        user(3): {user(1), user(2)},
    }


def test_candidate_is_not_offered_on_consecutive_dates(offers_harness: OffersHarness, admin: Connection):
    offers_harness.deliver(*offers_harness.pin(1, 2, 3))
    offers_harness.deliver(*offers_harness.pin(1, 2, 3, 4, day=DAY + timedelta(days=1)))
    assert set(offered_candidates(admin, DAY + timedelta(days=1))[user(1)]) == {user(4)}


def test_single_user_in_pool_gets_no_offers(offers_harness: OffersHarness, admin: Connection):
    offers_harness.deliver(*offers_harness.pin(1, shards=1))
    assert jobs(admin)[user(1)] == ("completed", [], None)


def test_invalid_profile_fails_only_its_user(offers_harness: OffersHarness, admin: Connection):
    offers_harness.invalidate_profiles(2)
    offers_harness.deliver(*offers_harness.pin(shards=1))

    assert offers_harness.statuses() == dict.fromkeys(PEOPLE, "completed") | {2: "failed"}
    assert jobs(admin)[user(2)] == ("failed", None, "A trait of the profile is not a number.")
    assert user(2) not in {candidate for candidates in offered_candidates(admin).values() for candidate in candidates}
    row = offers_harness.shard("0")
    assert (row["status"], row["completed"], row["failed"]) == ("succeeded", 7, 1)
    assert row["skip_reason"] == "1 of 8 users quarantined because of invalid profiles."


def test_shard_of_quarantined_users_is_dead_lettered(offers_harness: OffersHarness, admin: Connection):
    offers_harness.invalidate_profiles(2, 3)
    offers_harness.deliver(*offers_harness.pin(shards=1))

    assert offers_harness.deliver(*offers_harness.pending_messages()) == []

    assert offers_harness.shard("0/failed")["status"] == "failed"
    (dead_letter,) = rows(admin, "dead_letter")
    assert (dead_letter["dlq_reason"], dead_letter["worker"]) == ("non_retriable_error", "offers")
    assert dead_letter["payload"]["file"] == {"date": str(DAY), "timezone": "Europe/Berlin", "shard": "0/failed"}
    assert {offers_harness.statuses()[number] for number in (2, 3)} == {"failed"}
    assert len(rows(admin, "failure_event")) == 1


def test_only_user_with_valid_profile_leaves_quarantine(offers_harness: OffersHarness, admin: Connection):
    offers_harness.invalidate_profiles(2, 3)
    offers_harness.deliver(*offers_harness.pin(shards=1))
    admin.execute("UPDATE profile SET traits = '{1}' WHERE user_id = %s", [user(3)])

    offers_harness.deliver(*offers_harness.pending_messages())

    assert (offers_harness.statuses()[2], offers_harness.statuses()[3]) == ("failed", "completed")
    assert len(offered_candidates(admin)[user(3)]) == 5
    assert offers_harness.shard("0/failed")["status"] == "succeeded"
    assert [shard_row["name"] for shard_row in rows(admin, "offer_shard") if shard_row["status"] == "pending"] == [
        "0/failed/failed"
    ]


def test_late_user_is_served_from_the_pinned_pool(offers_harness: OffersHarness, admin: Connection, tenant: UUID):
    offers_harness.deliver(*offers_harness.pin(1, 2, 3, shards=1))
    ((pool,),) = admin.execute("SELECT id FROM offer_pool").fetchall()
    late = [user(number) for number in (4, 5)]
    shard = make_shard(admin, tenant, late, pool_id=pool, name="late/9/0")
    queue(admin, tenant, late, shard)
    admin.execute("DELETE FROM profile WHERE user_id = %s", [user(4)])  # user 4 has deleted their profile

    offers_harness.deliver(message(shard))

    assert set(offered_candidates(admin)[user(5)]) == {user(1), user(2), user(3)}
    row = offers_harness.shard("late/9/0")
    assert (row["status"], row["completed"], row["failed"]) == ("succeeded", 1, 0)


def test_late_user_is_not_offered_blocked_users(offers_harness: OffersHarness, admin: Connection, tenant: UUID):
    offers_harness.deliver(*offers_harness.pin(1, 2, shards=1))
    ((pool,),) = admin.execute("SELECT id FROM offer_pool").fetchall()
    admin.execute("INSERT INTO user_block VALUES (%s, %s, %s, now(), gen_random_uuid())", [user(6), user(1), tenant])
    late = [user(number) for number in (4, 6, 8)]
    shard = make_shard(admin, tenant, late, pool_id=pool, name="late/9/0")
    queue(admin, tenant, late, shard)
    admin.execute("DELETE FROM profile WHERE user_id = %s", [user(4)])

    offers_harness.deliver(message(shard))

    assert {user_id: set(offered_candidates(admin)[user_id]) for user_id in late[1:]} == {
        user(6): {user(2)},
        user(8): {user(1), user(2)},
    }


def test_shard_with_unknown_time_zone_is_dead_lettered(offers_harness: OffersHarness, admin: Connection):
    offers_harness.deliver(*offers_harness.pin(shards=1, zone="Europe/Atlantis"))

    assert set(offers_harness.statuses().values()) == {"failed"}
    (dead_letter,) = rows(admin, "dead_letter")
    assert "Europe/Atlantis" in dead_letter["metadata"]["last_error"]["message"]
    assert offered_candidates(admin) == {}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE offer_pool SET profiles_hash = sha256('another')", "differ from the pinned profiles"),
        ("UPDATE offer_shard SET profiles = NULL", "were deleted"),
    ],
)
def test_shard_of_changed_pool_fails(offers_harness: OffersHarness, admin: Connection, change: str, says: str):
    messages = offers_harness.pin(shards=1)
    admin.execute(change.encode())

    assert offers_harness.deliver(*messages) == []

    assert says in str(offers_harness.shard("0")["error"])
    assert set(offers_harness.statuses().values()) == {"failed"}


def test_transient_failures_are_retried_with_increasing_delay(
    offers_harness: OffersHarness, admin: Connection, clock: Clock
):
    def fail(attempt: TenantAttempt) -> Outcome:
        raise DatabaseUnavailableError("unavailable")

    offers_harness.pin(shards=1)
    waits, statuses = [], []
    for _ in range(4):
        assert offers_harness.deliver(*offers_harness.pending_messages(), action=fail) == []
        next_attempt_at = admin.execute("SELECT next_attempt_at FROM offer_shard").fetchone()
        statuses.append(set(offers_harness.statuses().values()))
        if next_attempt_at and next_attempt_at[0]:
            waits.append((next_attempt_at[0] - clock()).total_seconds())
            clock.now = next_attempt_at[0]

    assert waits == [30, 120, 300]
    assert statuses == [{"pending"}] * 3 + [{"failed"}]
    (dead_letter,) = rows(admin, "dead_letter")
    assert dead_letter["dlq_reason"] == "max_retries_exceeded"
    assert {row["retry_count"] for row in rows(admin, "matchmaking_jobs")} == {3}


def test_offer_notifications_contain_no_user_ids(offers_harness: OffersHarness, admin: Connection, tenant: UUID):
    make_destination(admin, tenant, "app", url="https://app.example.com", events=["offers"])
    make_destination(admin, tenant, "office", url="https://office.example.com")
    offers_harness.invalidate_profiles(8)

    offers_harness.deliver(*offers_harness.pin())

    output_jobs = sorted(rows(admin, "output_job"), key=lambda row: str(row["payload"]["shard"]))
    assert [row["subject"] for row in output_jobs] == ["offers", "offers"]
    assert output_jobs[1]["payload"] == {
        "date": str(DAY),
        "timezone": "Europe/Berlin",
        "shard": "1",
        "users": 4,
        "completed": 3,
        "failed": 1,
        "fetch": f"/api/users/{{user_id}}/offers?date={DAY}",
    }
    assert not any(str(user(number)) in json.dumps(output_jobs[0]["payload"]) for number in PEOPLE)


STEPS = ("load_shard", "pool_people", "pin_excluded", "write", "enqueue", "commit")


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_each_user_is_served_once_after_any_crash(
    step: str,
    is_done: bool,
    offers_harness: OffersHarness,
    admin: Connection,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
):
    make_destination(admin, offers_harness.tenant_id, "app", url="https://app.example.com", events=["offers"])
    messages = offers_harness.pin()
    failed: list[str] = []

    def break_(function: Callable[..., Any], error: Exception, *arguments: Any) -> Any:
        result = function(*arguments) if is_done or failed else None
        if failed:
            return result
        failed.append(step)
        raise error

    with monkeypatch.context() as patch:
        if step == "commit":
            _break_commits(patch, break_)
        else:
            module, name = (offers_work, "enqueue") if step == "enqueue" else (store, step)
            patch.setattr(module, name, partial(break_, getattr(module, name), DatabaseUnavailableError("unavailable")))
        for _ in range(3):
            assert offers_harness.deliver(*offers_harness.pending_messages()) == []
            clock.advance(minutes=6)

    assert failed
    assert set(offers_harness.statuses().values()) == {"completed"}
    assert offers_harness.deliver(*messages) == []
    assert {len(candidates) for candidates in offered_candidates(admin).values()} == {5}
    assert len(rows(admin, "output_job")) == 2


def _break_commits(patch: pytest.MonkeyPatch, break_: Callable[..., Any]) -> None:
    """Make the connection fail before or after a shard's results are committed."""
    original = store.write

    def write(connection: Connection, *arguments: Any) -> Any:
        def commit(commit: Callable[[], None]) -> None:
            try:
                break_(commit, psycopg.OperationalError("lost"))
            except psycopg.OperationalError:
                connection.close()
                raise

        result = original(connection, *arguments)
        patch.setattr(connection, "commit", partial(commit, connection.commit))
        return result

    patch.setattr(store, "write", write)


def test_stale_attempt_writes_nothing(offers_harness: OffersHarness, admin: Connection):
    def work_slowly(attempt: TenantAttempt) -> Outcome:
        outcome = compute_shard(attempt, offers_harness.pools)
        admin.execute("UPDATE offer_shard SET claim_token = nextval('claim_token')")
        return outcome

    offers_harness.deliver(*offers_harness.pin(shards=1), action=work_slowly)

    assert set(offers_harness.statuses().values()) == {"running"}
    assert offered_candidates(admin) == {}
