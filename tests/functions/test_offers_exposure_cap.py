"""With an exposure cap, a pool's shards share each candidate's limited slots."""

from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from counterfoil.db import Connection
from counterfoil.delivery.work import Message
from counterfoil.offers import store
from functions.offers.work import PoolCache
from tests.delivery.harness import rows
from tests.factories import make_shard
from tests.offers.harness import offered_candidates, queue, user
from tests.offers.worker_harness import OffersHarness, message, offers_harness

__all__ = ["offers_harness"]

RULES = {"max_offers": 2, "max_candidates": 1000, "max_exposure": 2, "repeat_interval_days": 30}


def late_shard(admin: Connection, tenant: UUID, name: str, *numbers: int) -> Message:
    """Create a shard of late users in the existing pool. Return its message."""
    ((pool,),) = admin.execute("SELECT id FROM offer_pool").fetchall()
    users = [user(number) for number in numbers]
    shard = make_shard(admin, tenant, users, pool_id=pool, name=name)
    queue(admin, tenant, users, shard)
    return message(shard)


def max_exposure(admin: Connection) -> int:
    (maximum,) = admin.execute("SELECT max(n) FROM (SELECT count(*) AS n FROM offers GROUP BY candidate_id)").fetchall()
    return int(maximum[0])


def serve_before_write(offers_harness: OffersHarness, other_message: Message, monkeypatch: pytest.MonkeyPatch) -> None:
    """Process `other_message` between computing and writing the next shard's offers."""
    has_run: list[bool] = []
    reserve = store.reserve_exposure

    def serve_other_and_reserve(connection: Connection, *arguments: Any) -> None:
        if not has_run:
            has_run.append(True)
            offers_harness.deliver(other_message)
        reserve(connection, *arguments)

    monkeypatch.setattr(store, "reserve_exposure", serve_other_and_reserve)


def test_late_users_get_only_candidates_below_cap(offers_harness: OffersHarness, admin: Connection, tenant: UUID):
    offers_harness.deliver(*offers_harness.pin(1, 2, 3, 4, shards=1, rules=Jsonb(RULES)))
    assert max_exposure(admin) == 2

    offers_harness.deliver(late_shard(admin, tenant, "late/9/0", 5, 6, 7))

    assert max_exposure(admin) == 2
    assert {row["status"] for row in rows(admin, "offer_shard")} == {"succeeded"}
    late = {number: offered_candidates(admin).get(user(number)) for number in (5, 6, 7)}
    assert late == {5: [user(4)], 6: [user(4)], 7: None}  # only user 4 is below the cap


def test_concurrent_late_users_do_not_share_slots(
    offers_harness: OffersHarness, admin: Connection, tenant: UUID, monkeypatch: pytest.MonkeyPatch
):
    offers_harness.deliver(*offers_harness.pin(1, 2, shards=1, rules=Jsonb(RULES)))
    first, second = (late_shard(admin, tenant, f"late/{number}/0", number) for number in (5, 6))
    serve_before_write(offers_harness, second, monkeypatch)
    offers_harness.deliver(first)
    assert offers_harness.shard("late/5/0")["status"] == "pending"
    assert "Another shard of the pool" in offers_harness.shard("late/5/0")["error"]

    offers_harness.clock.advance(seconds=31)
    offers_harness.deliver(*[item for item in offers_harness.pending_messages() if item.work_id == first.work_id])

    assert max_exposure(admin) == 2
    assert set(offers_harness.statuses().values()) == {"completed"}


def test_capped_offers_do_not_depend_on_shard_order(offers_harness: OffersHarness, admin: Connection):
    offers_harness.deliver(*offers_harness.pin(shards=3, rules=Jsonb(RULES | {"max_exposure": 4})))
    first = {row["user_id"]: (row["offers"], row["inputs_hash"]) for row in rows(admin, "matchmaking_jobs")}
    assert max_exposure(admin) <= 4
    assert {len(candidates) for candidates in offered_candidates(admin).values()} == {2}
    admin.execute("TRUNCATE matchmaking_jobs, offers, offer_pool CASCADE")
    offers_harness.pools = PoolCache()

    offers_harness.deliver(*reversed(offers_harness.pin(shards=3, rules=Jsonb(RULES | {"max_exposure": 4}))))

    assert {row["user_id"]: (row["offers"], row["inputs_hash"]) for row in rows(admin, "matchmaking_jobs")} == first


def test_concurrent_shards_do_not_exceed_cap(
    offers_harness: OffersHarness, admin: Connection, monkeypatch: pytest.MonkeyPatch
):
    first, second = offers_harness.pin(shards=2, rules=Jsonb(RULES))
    serve_before_write(offers_harness, second, monkeypatch)

    offers_harness.deliver(first)

    assert {(row["status"], row["attempts"]) for row in rows(admin, "offer_shard")} == {("succeeded", 1)}
    assert max_exposure(admin) == 2


def test_late_shard_waits_for_earlier_shards(offers_harness: OffersHarness, admin: Connection):
    first, second = offers_harness.pin(1, 2, 3, 4, shards=2, rules=Jsonb(RULES))
    late = late_shard(admin, offers_harness.tenant_id, "late/9/0", 5, 6)
    offers_harness.deliver(first, late)
    assert (offers_harness.shard("late/9/0")["status"], offers_harness.shard("late/9/0")["attempts"]) == ("pending", 0)
    assert offered_candidates(admin).keys() == {user(1), user(2)}

    offers_harness.deliver(second)
    offers_harness.clock.advance(seconds=61)
    offers_harness.deliver(*offers_harness.pending_messages())

    assert {row["status"] for row in rows(admin, "offer_shard")} == {"succeeded"}
    assert max_exposure(admin) == 2


def test_retried_shard_uses_remaining_slots(offers_harness: OffersHarness, admin: Connection):
    first, second = offers_harness.pin(1, 2, 3, 4, shards=2, rules=Jsonb(RULES))
    offers_harness.deliver(first)
    admin.execute("UPDATE offer_shard SET status = 'failed' WHERE name = '1'")
    offers_harness.deliver(late_shard(admin, offers_harness.tenant_id, "late/9/0", 5, 6, 7, 8))
    assert max_exposure(admin) == 2
    admin.execute("UPDATE offer_shard SET status = 'pending', revision = 2 WHERE name = '1'")

    offers_harness.deliver(Message(work_id=second.work_id, revision=2, send_number=0))

    assert {row["status"] for row in rows(admin, "offer_shard")} == {"succeeded"}
    assert max_exposure(admin) == 2


def test_capped_pools_of_two_zones_are_independent(
    offers_harness: OffersHarness, admin: Connection, monkeypatch: pytest.MonkeyPatch
):
    (berlin,) = offers_harness.pin(1, 2, 3, shards=1, rules=Jsonb(RULES))
    (paris,) = offers_harness.pin(4, 5, 6, shards=1, rules=Jsonb(RULES), zone="Europe/Paris")
    serve_before_write(offers_harness, paris, monkeypatch)

    offers_harness.deliver(berlin)

    assert {(row["status"], row["attempts"]) for row in rows(admin, "offer_shard")} == {("succeeded", 1)}
