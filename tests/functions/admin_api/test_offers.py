"""Offers of a date are queued; pools are listed, and shown with shards and failed users."""

import hashlib
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.kinds import KINDS
from counterfoil.settings import settings
from tests.dead_letters.letters import dying
from tests.factories import make_jobs, make_pool, make_profile, make_shard
from tests.functions.admin_api.conftest import EVENT, Answer, Ask
from tests.functions.mappings import FakeLambda, refusal

NINE = datetime(2026, 3, 1, 8, tzinfo=UTC)
"""In Berlin."""
FAULT = "A trait is no number"
End = Callable[..., None]
Get = Callable[..., Answer]
USER = EVENT["requestContext"]["authorizer"]["jwt"]["claims"]["sub"]


@pytest.fixture
def get(ask: Ask, acme: UUID) -> Get:
    """`get(what, **query)` asks for offers of acme as a viewer."""

    def asked(what: str = "", **query: str) -> Answer:
        return ask("", method="GET", path=f"/api/admin/offers{what}", query=query, groups="[viewer tenant:acme]")

    return asked


@pytest.fixture
def end(admin: Connection) -> End:
    """`end(shard, status, after, ...)`: let a shard end so long after NINE."""

    def change(shard: UUID, status: str = "succeeded", *, minutes: float = 5, **columns: Any) -> None:
        # As the worker and the engine do; a trigger dates it by the clock, which is none of the test's.
        values = {"error": None, "completed": None, "failed": None, "attempts": 1, **columns}
        chosen = ", ".join(f"{name} = %({name})s" for name in values)
        admin.execute(
            f"UPDATE offer_shard SET {chosen}, status = %(status)s WHERE id = %(id)s".encode(),
            {**values, "status": status, "id": shard},
        )
        admin.execute("UPDATE offer_shard SET ended_at = %s WHERE id = %s", [NINE + timedelta(minutes=minutes), shard])

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
        **{"people": 3, **columns},
    )


def people(admin: Connection, tenant: UUID, number: int) -> list[UUID]:
    return sorted(make_profile(admin, tenant) for _ in range(number))


def external_ids(admin: Connection, users: list[UUID]) -> list[UUID]:
    found: dict[UUID, UUID] = dict(admin.execute("SELECT user_id, external_id FROM profile").fetchall())
    return [found[user] for user in users]


def shard(admin: Connection, tenant: UUID, pool_id: UUID, users: list[UUID], name: str = "0", **columns: Any) -> UUID:
    made = make_shard(
        admin, tenant, users, pool_id=pool_id, name=name, **{"created_at": NINE, "status": "in-progress", **columns}
    )
    make_jobs(admin, made)
    return made


def numbers(told: dict[str, Any]) -> dict[str, int]:
    return {name: told[name] for name in ("users", "pending", "running", "completed", "failed")}


def test_a_pool_is_listed_with_how_many_are_served_and_how_far_it_is(
    get: Get, admin: Connection, acme: UUID, end: End
) -> None:
    made = pool(admin, acme, people=6)
    users = people(admin, acme, 7)
    end(shard(admin, acme, made, users[:3]), completed=2, failed=1)
    make_shard(admin, acme, users[2:3], pool_id=made, name="0/failed")  # who was put aside, and waits
    shard(admin, acme, made, users[3:6], "1")
    end(shard(admin, acme, made, users[6:], "late/2026-03-01T09:00:00+00:00/0"), "failed", error="No such zone")

    (told,) = get().body["pools"]

    assert numbers(told) == {"users": 7, "pending": 1, "running": 3, "completed": 2, "failed": 1}
    assert (told["people"], told["shards"], told["state"], told["ended_at"]) == (6, 4, "failed", None)
    assert (told["date"], told["timezone"], told["offered_at"]) == (
        "2026-03-01",
        "Europe/Berlin",
        "2026-03-01T08:00:00Z",
    )


def test_a_pool_is_completed_when_its_last_shard_is_and_failed_while_one_waits_for_a_person(
    get: Get, admin: Connection, acme: UUID, end: End
) -> None:
    made = pool(admin, acme)
    first, second = (shard(admin, acme, made, people(admin, acme, 1), name) for name in "01")
    end(first, minutes=7, completed=1)
    assert [(one["state"], one["ended_at"]) for one in get().body["pools"]] == [("running", None)]

    end(second, "failed", minutes=5)
    assert [one["state"] for one in get().body["pools"]] == ["failed"]

    end(second, "pending")  # a person has it tried again
    end(second, minutes=6, completed=1)
    (told,) = get().body["pools"]
    assert (told["state"], told["ended_at"]) == ("completed", "2026-03-01T08:07:00Z")


@pytest.mark.parametrize(
    ("name", "made_after", "ended_after", "late"),
    [
        ("0", 0, 60, 0),
        ("0", 0, 61, 2),
        ("0", 120, 125, 2),  # made late is no excuse
        ("0/failed", 50, 61, 2),
        ("late/2026-03-01T11:00:00+00:00/0", 180, 240, 0),
        ("late/2026-03-01T11:00:00+00:00/0", 180, 241, 2),
    ],
)
def test_offers_are_late_that_are_not_there_at_ten_or_within_an_hour_after_somebody_came(
    get: Get, admin: Connection, acme: UUID, end: End, name: str, made_after: int, ended_after: int, late: int
) -> None:
    made = shard(
        *(admin, acme, pool(admin, acme), people(admin, acme, 2), name),
        created_at=NINE + timedelta(minutes=made_after),
    )
    end(made, minutes=ended_after, completed=2)

    assert [one["late"] for one in get().body["pools"]] == [late]


def test_offers_that_are_to_come_are_late_once_it_is_past_ten(get: Get, admin: Connection, acme: UUID) -> None:
    now = datetime.now(UTC)
    for minutes, zone in ((59, "on time"), (61, "late")):
        made = make_pool(admin, acme, timezone=zone, offered_at=now - timedelta(minutes=minutes), expires_at=now)
        make_shard(admin, acme, pool_id=made)

    assert {one["timezone"]: one["late"] for one in get().body["pools"]} == {"on time": 0, "late": 1}


def test_pools_come_the_latest_first_page_by_page(get: Get, admin: Connection, acme: UUID) -> None:
    made = [pool(admin, acme, day, timezone) for day in (1, 2) for timezone in ("Asia/Tokyo", "Europe/Berlin", "UTC")]
    for one in made:
        make_shard(admin, acme, pool_id=one)

    first = get(limit="4").body
    second = get(limit="4", cursor=first["next"]).body
    seen = [UUID(one["id"]) for one in first["pools"] + second["pools"]]

    assert (len(first["pools"]), len(seen), second["next"]) == (4, 6, None)
    assert (set(seen[:3]), set(seen[3:])) == (set(made[3:]), set(made[:3]))


def test_pools_are_found_by_their_dates_zone_and_state(get: Get, admin: Connection, acme: UUID, end: End) -> None:
    for day in (1, 2, 3):
        made = shard(admin, acme, pool(admin, acme, day), people(admin, acme, 1))
        if day < 3:
            end(made, "failed" if day == 1 else "succeeded", completed=1)
    shard(admin, acme, pool(admin, acme, 2, "Asia/Tokyo"), people(admin, acme, 1))

    def found(**query: str) -> list[tuple[str, str]]:
        return sorted((one["date"][-1], one["timezone"][0]) for one in get(**query).body["pools"])

    assert found(**{"from": "2026-03-02", "to": "2026-03-02"}) == [("2", "A"), ("2", "E")]
    assert found(timezone="Europe/Berlin") == [("1", "E"), ("2", "E"), ("3", "E")]
    assert found(state="failed") == [("1", "E")]
    assert found(state="completed") == [("2", "E")]
    assert found(state="running", timezone="Asia/Tokyo") == [("2", "A")]


@pytest.mark.parametrize(
    "query", [{"from": "yesterday"}, {"state": "late"}, {"cursor": "x"}, {"limit": "0"}, {"zone": "UTC"}], ids=str
)
def test_what_cannot_be_asked_for_is_refused(get: Get, query: dict[str, str]) -> None:
    assert get(**query).status == 422


def test_a_pool_shows_its_shards_those_that_failed_first_with_their_dead_letters(
    get: Get, admin: Connection, acme: UUID, database: Database, end: End
) -> None:
    made = pool(admin, acme)
    done, running, failed = (shard(admin, acme, made, people(admin, acme, 1), name) for name in ("0", "1", "0/failed"))
    end(done, completed=0, failed=1)
    end(failed, "failed", error=FAULT, attempts=1)
    letter = dying(database, acme)(worker="offers", task_type="offers", work_id=failed)

    told = get(f"/{made}").body

    assert [(UUID(part["id"]), part["status"], part["dead_letter"]) for part in told["parts"]] == [
        (failed, "failed", str(letter)),
        (running, "in-progress", None),
        (done, "succeeded", None),
    ]
    assert letter == KINDS["offers"].job_id(failed)
    first, _, last = told["parts"]
    assert (first["name"], first["error"], first["users"]) == ("0/failed", FAULT, 1)
    assert (last["completed"], last["put_aside"], last["ended_at"]) == (0, 1, "2026-03-01T08:05:00Z")
    assert told["rules"] == {"offers": 5, "candidates": 1000, "most_offered": None, "repeat_days": 30}


def test_users_whose_offers_failed_are_listed_with_the_reason_page_by_page(
    get: Get, admin: Connection, acme: UUID, end: End
) -> None:
    made = pool(admin, acme)
    users = people(admin, acme, 5)
    other = shard(admin, acme, pool(admin, acme, timezone="Asia/Tokyo"), people(admin, acme, 1))
    end(other, "failed", error="Another pool")
    end(shard(admin, acme, made, users[:2]), completed=2)
    end(shard(admin, acme, made, users[2:], "0/failed"), "failed", error=FAULT, attempts=1)

    first = get(f"/{made}/failed", limit="2").body
    second = get(f"/{made}/failed", limit="2", cursor=first["next"]).body

    assert [UUID(one["user_id"]) for one in first["users"] + second["users"]] == external_ids(admin, users[2:])
    assert second["next"] is None
    assert {(one["error"], one["shard"], one["attempts"]) for one in first["users"]} == {(FAULT, "0/failed", 1)}
    assert get(f"/{made}/failed", cursor="17").status == 422


def test_the_job_of_a_user_tells_how_the_offers_came_about(get: Get, admin: Connection, acme: UUID, end: End) -> None:
    made = pool(admin, acme)
    users = people(admin, acme, 2)
    work = shard(admin, acme, made, users[:1])
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

    told = get(f"/{made}/users/{user}").body

    assert told["offers"] == [{**offer, "isWithdrawn": True}]
    assert told["user_id"] == str(user)
    assert (told["status"], told["shard_id"], told["attempts"]) == ("completed", str(work), 2)
    assert told["inputs_hash"] == hashlib.sha256(b"inputs").hexdigest()
    for unknown in (candidate, *users):
        assert get(f"/{made}/users/{unknown}").status == 404
    assert get(f"/{made}/users/17").status == 404


def test_a_pool_of_another_tenant_is_as_one_that_there_is_not(
    get: Get, admin: Connection, make_tenant: Callable[..., UUID]
) -> None:
    theirs = pool(admin, make_tenant("other"))
    make_shard(admin, make_tenant("third"), pool_id=None)

    assert get().body == {"pools": [], "next": None}
    for what in ("", "/failed", f"/users/{uuid4()}"):
        there, gone = get(f"/{theirs}{what}"), get(f"/{uuid4()}{what}")
        assert (there.status, there.body) == (404, gone.body)


@pytest.fixture
def lambda_(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> FakeLambda:
    """A deployment whose scheduler can be invoked."""
    lambda_ = FakeLambda()
    monkeypatch.setattr(aws, "client", lambda _: lambda_)
    monkeypatch.setenv("INVOKED_FUNCTIONS", json.dumps({"offers_scheduler": "counterfoil-offers_scheduler"}))
    settings.cache_clear()
    return lambda_


def queue(ask: Ask, groups: str = "[operator tenant:acme]", **body: str) -> Answer:
    return ask(body, path="/api/admin/offers", groups=groups)


def test_queueing_offers_invokes_the_scheduler(ask: Ask, acme: UUID, lambda_: FakeLambda) -> None:
    yesterday = f"{datetime.now(UTC).date() - timedelta(days=1)}"

    answer = queue(ask, date=yesterday, timezone="UTC")

    assert (answer.status, answer.body) == (202, {"date": yesterday, "timezone": "UTC", "tenant": "acme"})
    event = {"date": yesterday, "timezone": "UTC", "by": USER, "tenant": "acme"}
    assert lambda_.invoked == [("counterfoil-offers_scheduler", event)]


def test_admins_queue_offers_of_all_tenants(ask: Ask, lambda_: FakeLambda) -> None:
    assert queue(ask, "[operator tenant:*]", timezone="UTC").status == 403
    assert lambda_.invoked == []

    assert queue(ask, "[admin tenant:*]", timezone="UTC").body["tenant"] is None

    ((_, event),) = lambda_.invoked
    assert event.keys() == {"date", "timezone", "by"}


def test_queueing_without_date_chooses_the_last_due_one(ask: Ask, acme: UUID, lambda_: FakeLambda) -> None:
    expected = f"{(datetime.now(UTC) - timedelta(hours=9)).date()}"
    assert queue(ask, timezone="UTC").body["date"] == expected


@pytest.mark.parametrize(
    ("day", "zone", "message"),
    [
        ("2016-01-05", "UTC", "2016-01-05 is more than 7 days ago in UTC"),
        ("9999-12-31", "Pacific/Pago_Pago", "9999-12-31 is in the future in Pacific/Pago_Pago"),
        ("2026-01-05", "Europe/Berlni", "Europe/Berlni"),
    ],
)
def test_queueing_refuses_dates_not_due(
    ask: Ask, acme: UUID, lambda_: FakeLambda, day: str, zone: str, message: str
) -> None:
    answer = queue(ask, date=day, timezone=zone)

    assert answer.status == 422
    assert message in answer.body["detail"]
    assert lambda_.invoked == []


def test_unavailable_lambda_fails_the_request(ask: Ask, acme: UUID, lambda_: FakeLambda) -> None:
    lambda_.invoke_error = refusal("ServiceException", "Invoke", 500)
    assert queue(ask, timezone="UTC").status == 503
