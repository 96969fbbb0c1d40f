"""`/api/admin/offers`: pools with their shards and users, and queuing of offers."""

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.kinds import WORK_KINDS
from counterfoil.settings import settings
from tests.dead_letters.dead_letter_factory import dead_letter_factory
from tests.factories import make_jobs, make_pool, make_profile, make_shard
from tests.functions.admin_api.conftest import EVENT, ApiResponse, CallApi
from tests.functions.fake_lambda import FakeLambda, refusal

NINE = datetime(2026, 3, 1, 8, tzinfo=UTC)
"""9:00 in Berlin, when offers are due."""
FAULT = "A trait is not a number"
End = Callable[..., None]
Get = Callable[..., ApiResponse]
USER = EVENT["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]


@pytest.fixture
def get(call_api: CallApi, acme: UUID) -> Get:
    """`get(path, **query)` requests acme's offers as a viewer."""

    def request_offers(path: str = "", **query: str) -> ApiResponse:
        return call_api("", method="GET", path=f"/api/admin/offers{path}", query=query, groups="[viewer tenant:acme]")

    return request_offers


@pytest.fixture
def finish(admin: Connection) -> End:
    """`finish(shard, status, minutes=...)` ends a shard `minutes` minutes after NINE."""

    def change(shard: UUID, status: str = "succeeded", *, minutes: float = 5, **columns: Any) -> None:
        # A trigger sets completed_at to the current time, which the second statement overwrites.
        values = {"error": None, "completed": None, "failed": None, "attempts": 1, **columns}
        assignments = ", ".join(f"{name} = %({name})s" for name in values)
        admin.execute(
            f"UPDATE offer_shard SET {assignments}, status = %(status)s WHERE id = %(id)s".encode(),
            {**values, "status": status, "id": shard},
        )
        admin.execute(
            "UPDATE offer_shard SET completed_at = %s WHERE id = %s", [NINE + timedelta(minutes=minutes), shard]
        )

    return change


def pool(admin: Connection, tenant: UUID, day: int = 1, timezone: str = "Europe/Berlin", **columns: Any) -> UUID:
    return make_pool(
        admin,
        tenant,
        date=date(2026, 3, day),
        timezone=timezone,
        offered_at=NINE + timedelta(days=day - 1),
        expires_at=NINE + timedelta(days=day),
        pinned_at=NINE + timedelta(days=day - 1),
        **{"user_count": 3, **columns},
    )


def people(admin: Connection, tenant: UUID, number: int) -> list[UUID]:
    return sorted(make_profile(admin, tenant) for _ in range(number))


def external_ids(admin: Connection, users: list[UUID]) -> list[UUID]:
    external_by_user: dict[UUID, UUID] = dict(admin.execute("SELECT user_id, external_id FROM profile").fetchall())
    return [external_by_user[user] for user in users]


def shard(admin: Connection, tenant: UUID, pool_id: UUID, users: list[UUID], name: str = "0", **columns: Any) -> UUID:
    shard_id = make_shard(
        admin, tenant, users, pool_id=pool_id, name=name, **{"created_at": NINE, "status": "in-progress", **columns}
    )
    make_jobs(admin, shard_id)
    return shard_id


def numbers(body: dict[str, Any]) -> dict[str, int]:
    return {name: body[name] for name in ("user_count", "pending", "running", "completed", "failed")}


def test_pool_is_listed_with_counts_and_state(get: Get, admin: Connection, acme: UUID, finish: End) -> None:
    pool_id = pool(admin, acme, user_count=6)
    users = people(admin, acme, 7)
    finish(shard(admin, acme, pool_id, users[:3]), completed=2, failed=1)
    make_shard(admin, acme, users[2:3], pool_id=pool_id, name="0/failed")  # one quarantined user, one pending user
    shard(admin, acme, pool_id, users[3:6], "1")
    finish(shard(admin, acme, pool_id, users[6:], "late/2026-03-01T09:00:00+00:00/0"), "failed", error="No such zone")

    (body,) = get().body["pools"]

    assert numbers(body) == {"user_count": 7, "pending": 1, "running": 3, "completed": 2, "failed": 1}
    assert (body["pool_size"], body["shards"], body["state"], body["ended_at"]) == (6, 4, "failed", None)
    assert (body["date"], body["timezone"], body["offered_at"]) == (
        "2026-03-01",
        "Europe/Berlin",
        "2026-03-01T08:00:00Z",
    )


def test_pool_state_follows_its_shards(get: Get, admin: Connection, acme: UUID, finish: End) -> None:
    pool_id = pool(admin, acme)
    first, second = (shard(admin, acme, pool_id, people(admin, acme, 1), name) for name in "01")
    finish(first, minutes=7, completed=1)
    assert [(item["state"], item["ended_at"]) for item in get().body["pools"]] == [("running", None)]

    finish(second, "failed", minutes=5)
    assert [item["state"] for item in get().body["pools"]] == ["failed"]

    finish(second, "pending")  # as after an operator's retry
    finish(second, minutes=6, completed=1)
    (body,) = get().body["pools"]
    assert (body["state"], body["ended_at"]) == ("completed", "2026-03-01T08:07:00Z")


@pytest.mark.parametrize(
    ("name", "made_after", "ended_after", "late"),
    [
        ("0", 0, 60, 0),
        ("0", 0, 61, 2),
        ("0", 120, 125, 2),  # late creation does not extend the deadline
        ("0/failed", 50, 61, 2),
        ("late/2026-03-01T11:00:00+00:00/0", 180, 240, 0),
        ("late/2026-03-01T11:00:00+00:00/0", 180, 241, 2),
    ],
)
def test_ended_offers_are_late_after_one_hour(
    get: Get, admin: Connection, acme: UUID, finish: End, name: str, made_after: int, ended_after: int, late: int
) -> None:
    shard_id = shard(
        *(admin, acme, pool(admin, acme), people(admin, acme, 2), name),
        created_at=NINE + timedelta(minutes=made_after),
    )
    finish(shard_id, minutes=ended_after, completed=2)

    assert [item["late_users"] for item in get().body["pools"]] == [late]


def test_pending_offers_are_late_after_one_hour(get: Get, admin: Connection, acme: UUID) -> None:
    now = datetime.now(UTC)
    for minutes, zone in ((59, "on time"), (61, "late")):
        pool_id = make_pool(admin, acme, timezone=zone, offered_at=now - timedelta(minutes=minutes), expires_at=now)
        make_shard(admin, acme, pool_id=pool_id)

    assert {item["timezone"]: item["late_users"] for item in get().body["pools"]} == {"on time": 0, "late": 1}


def test_pools_are_paged_newest_first(get: Get, admin: Connection, acme: UUID) -> None:
    pool_ids = [
        pool(admin, acme, day, timezone) for day in (1, 2) for timezone in ("Asia/Tokyo", "Europe/Berlin", "UTC")
    ]
    for item in pool_ids:
        make_shard(admin, acme, pool_id=item)

    first = get(limit="4").body
    second = get(limit="4", cursor=first["next_cursor"]).body
    listed = [UUID(item["id"]) for item in first["pools"] + second["pools"]]

    assert (len(first["pools"]), len(listed), second["next_cursor"]) == (4, 6, None)
    assert (set(listed[:3]), set(listed[3:])) == (set(pool_ids[3:]), set(pool_ids[:3]))


def test_pools_are_filtered_by_date_zone_and_state(get: Get, admin: Connection, acme: UUID, finish: End) -> None:
    for day in (1, 2, 3):
        shard_id = shard(admin, acme, pool(admin, acme, day), people(admin, acme, 1))
        if day < 3:
            finish(shard_id, "failed" if day == 1 else "succeeded", completed=1)
    shard(admin, acme, pool(admin, acme, 2, "Asia/Tokyo"), people(admin, acme, 1))

    def filtered(**query: str) -> list[tuple[str, str]]:
        return sorted((item["date"][-1], item["timezone"][0]) for item in get(**query).body["pools"])

    assert filtered(**{"from": "2026-03-02", "to": "2026-03-02"}) == [("2", "A"), ("2", "E")]
    assert filtered(timezone="Europe/Berlin") == [("1", "E"), ("2", "E"), ("3", "E")]
    assert filtered(state="failed") == [("1", "E")]
    assert filtered(state="completed") == [("2", "E")]
    assert filtered(state="running", timezone="Asia/Tokyo") == [("2", "A")]


@pytest.mark.parametrize(
    "query", [{"from": "yesterday"}, {"state": "late"}, {"cursor": "x"}, {"limit": "0"}, {"zone": "UTC"}], ids=str
)
def test_invalid_query_is_rejected(get: Get, query: dict[str, str]) -> None:
    assert get(**query).status == 422


def test_pool_shows_failed_shards_first_with_dead_letters(
    get: Get, admin: Connection, acme: UUID, database: Database, finish: End
) -> None:
    pool_id = pool(admin, acme)
    completed, running, failed = (
        shard(admin, acme, pool_id, people(admin, acme, 1), name) for name in ("0", "1", "0/failed")
    )
    finish(completed, completed=0, failed=1)
    finish(failed, "failed", error=FAULT, attempts=1)
    job_id = dead_letter_factory(database, acme)(worker="offers", task_type="offers", work_id=failed)

    body = get(f"/{pool_id}").body

    assert [(UUID(shard_["id"]), shard_["status"], shard_["dead_letter"]) for shard_ in body["parts"]] == [
        (failed, "failed", str(job_id)),
        (running, "in-progress", None),
        (completed, "succeeded", None),
    ]
    assert job_id == WORK_KINDS["offers"].job_id(failed)
    first, _, last = body["parts"]
    assert (first["name"], first["error"], first["users"]) == ("0/failed", FAULT, 1)
    assert (last["completed"], last["quarantined"], last["ended_at"]) == (0, 1, "2026-03-01T08:05:00Z")
    assert body["rules"] == {"max_offers": 5, "max_candidates": 1000, "max_exposure": None, "repeat_interval_days": 30}


def test_failed_users_are_paged_with_their_errors(get: Get, admin: Connection, acme: UUID, finish: End) -> None:
    pool_id = pool(admin, acme)
    users = people(admin, acme, 5)
    other = shard(admin, acme, pool(admin, acme, timezone="Asia/Tokyo"), people(admin, acme, 1))
    finish(other, "failed", error="Another pool")
    finish(shard(admin, acme, pool_id, users[:2]), completed=2)
    finish(shard(admin, acme, pool_id, users[2:], "0/failed"), "failed", error=FAULT, attempts=1)

    first = get(f"/{pool_id}/failed", limit="2").body
    second = get(f"/{pool_id}/failed", limit="2", cursor=first["next_cursor"]).body

    assert [UUID(item["user_id"]) for item in first["users"] + second["users"]] == external_ids(admin, users[2:])
    assert second["next_cursor"] is None
    assert {(item["error"], item["shard"], item["attempts"]) for item in first["users"]} == {(FAULT, "0/failed", 1)}
    assert get(f"/{pool_id}/failed", cursor="17").status == 422


def test_user_page_shows_offers_and_their_computation(get: Get, admin: Connection, acme: UUID, finish: End) -> None:
    pool_id = pool(admin, acme)
    users = people(admin, acme, 2)
    work = shard(admin, acme, pool_id, users[:1])
    user, candidate = external_ids(admin, users)
    offer = {
        "id": str(uuid4()),
        "userId": str(candidate),
        "compatibilityScore": 8731,
        "offeredAt": "2026-03-01T08:00:00.000Z",
        "expiresAt": "2026-03-02T08:00:00.000Z",
    }
    admin.execute(
        """
        UPDATE matchmaking_jobs SET status = 'completed', completed_at = %s, offers = jsonb_build_array(%s::jsonb),
            algorithm_version = 1, inputs_hash = sha256('inputs'), attempt = 2
        """,
        [NINE, json.dumps(offer)],
    )
    admin.execute("UPDATE profile SET is_active = false WHERE external_id = %s", [candidate])

    body = get(f"/{pool_id}/users/{user}").body

    assert body["offers"] == [{**offer, "isWithdrawn": True}]
    assert body["user_id"] == str(user)
    assert (body["status"], body["shard_id"], body["attempts"]) == ("completed", str(work), 2)
    assert body["inputs_hash"] == hashlib.sha256(b"inputs").hexdigest()
    for other_id in (candidate, *users):
        assert get(f"/{pool_id}/users/{other_id}").status == 404
    assert get(f"/{pool_id}/users/17").status == 404


def test_other_tenants_pool_is_not_found(get: Get, admin: Connection, make_tenant: Callable[..., UUID]) -> None:
    foreign = pool(admin, make_tenant("other"))
    make_shard(admin, make_tenant("third"), pool_id=None)

    assert get().body == {"pools": [], "next_cursor": None}
    for path in ("", "/failed", f"/users/{uuid4()}"):
        foreign_pool, missing = get(f"/{foreign}{path}"), get(f"/{uuid4()}{path}")
        assert (foreign_pool.status, foreign_pool.body) == (404, missing.body)


@pytest.fixture
def lambda_(call_api: CallApi, monkeypatch: pytest.MonkeyPatch) -> FakeLambda:
    """Fake Lambda that records invocations of the scheduler."""
    lambda_ = FakeLambda()
    monkeypatch.setattr(aws, "client", lambda _: lambda_)
    monkeypatch.setenv("INVOKED_FUNCTIONS", json.dumps({"offers_scheduler": "counterfoil-offers_scheduler"}))
    settings.cache_clear()
    return lambda_


def queue(call_api: CallApi, groups: str = "[operator tenant:acme]", **body: str) -> ApiResponse:
    return call_api(body, path="/api/admin/offers", groups=groups)


def test_queueing_offers_invokes_the_scheduler(call_api: CallApi, acme: UUID, lambda_: FakeLambda) -> None:
    yesterday = f"{datetime.now(UTC).date() - timedelta(days=1)}"

    response = queue(call_api, date=yesterday, timezone="UTC")

    assert (response.status, response.body) == (202, {"date": yesterday, "timezone": "UTC", "tenant": "acme"})
    event = {"date": yesterday, "timezone": "UTC", "by": USER, "tenant": "acme"}
    assert lambda_.invoked == [("counterfoil-offers_scheduler", event)]


def test_only_admins_queue_offers_of_all_tenants(call_api: CallApi, lambda_: FakeLambda) -> None:
    assert queue(call_api, "[operator tenant:*]", timezone="UTC").status == 403
    assert lambda_.invoked == []

    assert queue(call_api, "[admin tenant:*]", timezone="UTC").body["tenant"] is None

    ((_, event),) = lambda_.invoked
    assert event.keys() == {"date", "timezone", "by"}


def test_queueing_defaults_to_the_last_due_date(call_api: CallApi, acme: UUID, lambda_: FakeLambda) -> None:
    expected = f"{(datetime.now(UTC) - timedelta(hours=9)).date()}"
    assert queue(call_api, timezone="UTC").body["date"] == expected


@pytest.mark.parametrize(
    ("day", "zone", "message"),
    [
        ("2016-01-05", "UTC", "2016-01-05 is more than 7 days ago in UTC"),
        ("9999-12-31", "Pacific/Pago_Pago", "9999-12-31 is in the future in Pacific/Pago_Pago"),
        ("2026-01-05", "Europe/Berlni", "Europe/Berlni"),
    ],
)
def test_invalid_date_or_zone_queues_no_offers(
    call_api: CallApi, acme: UUID, lambda_: FakeLambda, day: str, zone: str, message: str
) -> None:
    response = queue(call_api, date=day, timezone=zone)

    assert response.status == 422
    assert message in response.body["detail"]
    assert lambda_.invoked == []


def test_unavailable_lambda_fails_the_request(call_api: CallApi, acme: UUID, lambda_: FakeLambda) -> None:
    lambda_.invoke_error = refusal("ServiceException", "Invoke", 500)
    assert queue(call_api, timezone="UTC").status == 503
