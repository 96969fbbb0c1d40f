"""`/api/users`: users' profiles, blocks and offers."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from counterfoil.db import Connection
from counterfoil.offers.profiles import internal_id, local_date
from tests.dead_letters.audit_trail import verified_changes
from tests.factories import make_pool, make_profile, make_shard
from tests.functions.admin_api.conftest import ApiResponse, CallApi
from tests.functions.admin_api.permissions import PROFILE

USER = UUID("11111111-1111-4111-8111-111111111111")
VIEWER, OPERATOR = "[viewer tenant:acme]", "[operator tenant:acme]"
BERLIN = "Europe/Berlin"
Users = Callable[..., ApiResponse]


@pytest.fixture
def users(call_api: CallApi, acme: UUID) -> Users:
    """`users(method, path, body, ...)` calls the API for a user, as acme's operator."""

    def call(method: str, path: str, body: object = "", *, user: object = USER, **fields: Any) -> ApiResponse:
        return call_api(body, method=method, path=f"/api/users/{user}/{path}", **{"groups": OPERATOR, **fields})

    return call


def profile(**overrides: Any) -> dict[str, Any]:
    """Return the sample profile with changed fields. None removes a field."""
    return {name: value for name, value in {**PROFILE, **overrides}.items() if value is not None}


def test_profile_is_stored_and_returned(users: Users) -> None:
    submitted = profile(traits=[0.25, None, -1, 0.123456789, 1e-50])

    stored = users("PUT", "profile", submitted)

    assert stored.status == 201
    assert stored.body | {"updated_at": "", "version": 0} == {
        **submitted,
        "user_id": str(USER),
        "tenant": "acme",
        "is_active": True,
        "traits": [0.25, None, -1.0, 0.123457, 0.0],
        "updated_at": "",
        "version": 0,
    }
    response = users("GET", "profile", groups=VIEWER)
    assert response.body == stored.body
    assert response.headers["ETag"] == stored.headers["ETag"] == f'"{stored.body["version"]}"'
    assert users("GET", "profile", groups=VIEWER, headers={"if-none-match": stored.headers["ETag"]}).status == 304


def if_match(response: ApiResponse) -> dict[str, dict[str, str]]:
    return {"headers": {"if-match": response.headers["ETag"]}}


def test_put_replaces_the_whole_profile(users: Users) -> None:
    first = users("PUT", "profile", profile(traits=[1], is_active=False))

    second = users("PUT", "profile", profile(max_distance_km=20100, timezone="Pacific/Chatham"), **if_match(first))

    assert second.status == 200
    assert (second.body["traits"], second.body["is_active"], second.body["timezone"]) == ([], True, "Pacific/Chatham")
    assert second.body["version"] > first.body["version"]


def test_concurrent_profile_change_is_rejected(users: Users) -> None:
    both_saw = users("PUT", "profile", PROFILE)
    users("PUT", "profile", profile(max_distance_km=60), **if_match(both_saw))

    stale = users("PUT", "profile", profile(max_distance_km=70), **if_match(both_saw))

    assert (stale.status, stale.body["detail"]) == (412, "Someone else changed the profile.")
    stored = users("GET", "profile")
    assert stored.body["max_distance_km"] == 60
    assert users("PUT", "profile", profile(max_distance_km=70), **if_match(stored)).status == 200


@pytest.mark.parametrize(("condition", "status"), [("", 428), ("*", 428), ('"1"', 412), ('W/"1"', 412)])
def test_outdated_or_invalid_if_match_changes_no_profile(users: Users, condition: str, status: int) -> None:
    users("PUT", "profile", PROFILE)

    response = users("PUT", "profile", profile(max_distance_km=60), headers={"if-match": condition})

    assert response.status == status, response.body
    assert users("GET", "profile").body["max_distance_km"] == PROFILE["max_distance_km"]


def test_put_without_if_match_replaces_any_profile(users: Users) -> None:
    users("PUT", "profile", PROFILE)

    assert users("PUT", "profile", profile(max_distance_km=60)).status == 200
    assert users("GET", "profile").body["max_distance_km"] == 60


def test_deleted_profile_is_not_recreated_by_a_change(users: Users) -> None:
    first = users("PUT", "profile", PROFILE)
    users("DELETE", "profile")

    response = users("PUT", "profile", PROFILE, **if_match(first))

    assert (response.status, response.body["detail"]) == (412, "The profile no longer exists.")
    assert users("GET", "profile").status == 404


def test_profile_version_increases_despite_clock_skew(users: Users, admin: Connection) -> None:
    users("PUT", "profile", PROFILE)
    admin.execute("UPDATE profile SET updated_at = now() + interval '1 minute'")
    stored = users("GET", "profile")

    updated = users("PUT", "profile", PROFILE, **if_match(stored))

    assert updated.body["version"] == stored.body["version"] + 1


TOMORROW = (datetime.now(UTC) + timedelta(days=2)).date()
SEVENTEEN = (datetime.now(UTC) - timedelta(days=17 * 365.25)).date()
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown zone": ({"timezone": "Europe/Berlim"}, "timezone must be the case-sensitive name of an IANA"),
    "zone in lower case": ({"timezone": "europe/berlin"}, "timezone must be the case-sensitive name of an IANA"),
    "path as zone": ({"timezone": "../../etc/passwd"}, "timezone must be the case-sensitive name of an IANA"),
    "no zone": ({"timezone": None}, "invalid at timezone: Field required"),
    "born in the future": ({"birth_date": str(TOMORROW)}, "birth_date must not be in the future"),
    "born long ago": ({"birth_date": "1899-12-31"}, "birth_date must be 1900-01-01 or later"),
    "minor": ({"birth_date": str(SEVENTEEN)}, "at least 18 years old"),
    "invalid date of birth": ({"birth_date": "1990-02-30"}, "invalid at birth_date"),
    "number as date of birth": ({"birth_date": 631152000}, "invalid at birth_date: should be a date"),
    "minimum age above maximum": ({"min_age": 40, "max_age": 39}, "min_age must not be more than max_age"),
    "minimum age of a minor": ({"min_age": 17}, "invalid at min_age"),
    "fractional age": ({"max_age": 40.5}, "invalid at max_age: should be a whole number"),
    "text as trait": ({"traits": ["NaN"]}, "invalid at traits"),
    "trait out of range": ({"traits": [1.01]}, "invalid at traits"),
    "too many traits": ({"traits": [0.5] * 17}, "invalid at traits"),
    "latitude out of range": ({"latitude": 90.5}, "invalid at latitude"),
    "text as longitude": ({"longitude": "13.4"}, "invalid at longitude"),
    "no gender sought": ({"seeks_genders": []}, "invalid at seeks_genders"),
    "gender sought twice": ({"seeks_genders": ["man", "man"]}, "seeks_genders must contain each gender only once"),
    "unknown gender": ({"gender": "robot"}, "invalid at gender"),
    "no reach": ({"max_distance_km": 0}, "invalid at max_distance_km"),
    "unknown field": ({"packed": "AA=="}, "invalid at a field"),
    "text as boolean": ({"is_active": "yes"}, "invalid at is_active"),
}


@pytest.mark.parametrize(("overrides", "message"), WRONG.values(), ids=WRONG)
def test_invalid_profile_is_rejected_with_its_field(
    users: Users, admin: Connection, overrides: dict[str, Any], message: str
) -> None:
    response = users("PUT", "profile", profile(**overrides))

    assert response.status == 422
    assert message in response.body["detail"]
    assert admin.execute("SELECT count(*) FROM profile").fetchone() == (0,)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["latitude", "traits"])
def test_non_finite_number_is_rejected(users: Users, number: str, field: str) -> None:
    value = f"[{number}]" if field == "traits" else number
    text = json.dumps(profile(**{field: "@"})).replace('"@"', value)

    assert users("PUT", "profile", text).status in {400, 422}


@pytest.mark.parametrize("user", ["17", "11111111-1111-4111-8111-11111111111g"])
def test_user_id_must_be_a_uuid(users: Users, user: str) -> None:
    response = users("PUT", "profile", PROFILE, user=user)

    assert (response.status, response.body["detail"]) == (422, "A user's id must be a UUID.")


def test_user_ids_are_separate_per_tenant(
    users: Users, admin: Connection, acme: UUID, make_tenant: Callable[..., UUID]
) -> None:
    other_tenant = {"groups": "[operator tenant:other]"}
    make_tenant("other")
    assert users("PUT", "profile", PROFILE).status == 201
    other_id = uuid4()

    created = users("PUT", "profile", profile(max_distance_km=60), **other_tenant)
    assert (created.status, created.body["user_id"], created.body["tenant"]) == (201, str(USER), "other")
    assert users("PUT", f"blocks/{other_id}", **other_tenant).status == 204

    assert [item["user_id"] for item in users("GET", "blocks", **other_tenant).body["users"]] == [str(other_id)]
    assert users("GET", "blocks").body["users"] == []
    assert users("GET", "profile").body["max_distance_km"] == PROFILE["max_distance_km"]
    assert users("DELETE", "profile", **other_tenant).status == 204
    assert users("GET", "profile").status == 200
    assert users("GET", "profile", **other_tenant).status == 404
    assert admin.execute("SELECT user_id, external_id FROM profile").fetchall() == [(internal_id(acme, USER), USER)]


def test_other_tenants_user_is_not_found(users: Users, admin: Connection, make_tenant: Callable[..., UUID]) -> None:
    make_profile(admin, make_tenant("other"), external_id=USER)
    before = admin.execute("SELECT * FROM profile").fetchone()

    for method, path in (("GET", "profile"), ("DELETE", "profile"), ("PUT", f"blocks/{uuid4()}"), ("GET", "offers")):
        foreign, unknown = (users(method, path, user=user) for user in (USER, uuid4()))
        assert (foreign.status, foreign.body) == (404, unknown.body)
    assert admin.execute("SELECT * FROM profile").fetchone() == before


def test_deleting_a_profile_removes_blocks_jobs_and_offers(users: Users, admin: Connection, acme: UUID) -> None:
    other = make_completed_offers(admin, acme, USER)[0]
    users("PUT", f"blocks/{uuid4()}")
    users("PUT", f"blocks/{USER}", user=other)

    assert users("DELETE", "profile").status == 204

    remaining = admin.execute("""
        SELECT (SELECT count(*) FROM matchmaking_jobs), (SELECT count(*) FROM offers),
               (SELECT array_agg(blocked_external_id) FROM user_block)
    """).fetchone()
    assert remaining == (0, 0, [USER])
    assert users("DELETE", "profile").status == 404


def test_block_and_unblock_are_idempotent(users: Users, admin: Connection, acme: UUID) -> None:
    users("PUT", "profile", PROFILE)
    blocked = uuid4()

    assert [users("PUT", f"blocks/{blocked}").status for _ in range(2)] == [204, 204]
    assert admin.execute("SELECT user_id, blocked_id, blocked_external_id FROM user_block").fetchall() == [
        (internal_id(acme, USER), internal_id(acme, blocked), blocked)
    ]
    assert [users("DELETE", f"blocks/{blocked}").status for _ in range(2)] == [204, 204]
    assert admin.execute("SELECT count(*) FROM user_block").fetchone() == (0,)


def test_profile_changes_are_recorded_in_audit_trail(users: Users, admin: Connection, acme: UUID) -> None:
    other = uuid4()
    for _ in range(2):
        users("PUT", "profile", PROFILE)
    for method in ("PUT", "PUT", "DELETE", "DELETE"):  # each second request changes nothing
        users(method, f"blocks/{other}")
    users("DELETE", "profile")

    user_id, other_id = str(internal_id(acme, USER)), str(internal_id(acme, other))
    assert [entry[1:] for entry in verified_changes(admin, acme)] == [
        ("profile created", [user_id]),
        ("profile replaced", [user_id]),
        ("user blocked", [user_id, other_id]),
        ("user unblocked", [user_id, other_id]),
        ("profile deleted", [user_id]),
    ]


def test_blocked_users_are_paged_newest_first(users: Users, admin: Connection) -> None:
    blocked = [UUID(int=number) for number in (3, 1, 2)]
    assert users("GET", "blocks").status == 404
    users("PUT", "profile", PROFILE)
    other = uuid4()
    users("PUT", "profile", PROFILE, user=other)
    users("PUT", f"blocks/{USER}", user=other)  # users do not see who blocks them
    for item in blocked:
        users("PUT", f"blocks/{item}")
    admin.execute("UPDATE user_block SET created_at = '2026-01-05' WHERE blocked_external_id IN (%s, %s)", blocked[1:])
    admin.execute("UPDATE user_block SET created_at = '2026-01-06' WHERE blocked_external_id = %s", blocked[:1])

    first = users("GET", "blocks", groups=VIEWER, query={"limit": "2"})
    second = users("GET", "blocks", groups=VIEWER, query={"limit": "2", "cursor": first.body["next_cursor"]})

    pages = [[item["user_id"] for item in page.body["users"]] for page in (first, second)]
    assert pages == [[str(UUID(int=3)), str(UUID(int=2))], [str(UUID(int=1))]]
    assert first.body["users"][0]["since"] == "2026-01-06T00:00:00Z"
    assert second.body["next_cursor"] is None


def test_block_requires_a_profile_and_another_user(users: Users) -> None:
    assert users("PUT", f"blocks/{uuid4()}").status == 404
    users("PUT", "profile", PROFILE)

    response = users("PUT", f"blocks/{USER}")

    assert (response.status, response.body["detail"]) == (422, "A user cannot block themselves.")


# Offers

MADE = """
UPDATE matchmaking_jobs SET status = 'completed', completed_at = now(), offers = %s::jsonb WHERE user_id = %s
"""
OFFERED = """
INSERT INTO offers (date, user_id, candidate_id, tenant_id, id, rank, score, offered_at, expires_at)
VALUES (%(date)s, %(user)s, %(candidate)s, %(tenant)s, %(id)s, %(rank)s, 9000, now(), now())
"""


def job(admin: Connection, tenant: UUID, user: UUID, day: date, **columns: Any) -> None:
    """Create a user with a profile in Berlin and a matchmaking job."""
    user_id = make_profile(admin, tenant, external_id=user)
    pool = make_pool(admin, tenant, date=day, timezone=BERLIN)
    shard = make_shard(admin, tenant, [user_id], pool_id=pool)
    values = {"status": "pending", "error_message": None, **columns, "user": user_id, "shard": shard, "tenant": tenant}
    admin.execute(
        """
        INSERT INTO matchmaking_jobs (date, timezone, user_id, status, error_message, tenant_id, shard_id)
        SELECT date, timezone, %(user)s, %(status)s, %(error_message)s, %(tenant)s, id FROM offer_shard
        WHERE id = %(shard)s
        """,
        values,
    )


def make_completed_offers(admin: Connection, tenant: UUID, user: UUID, candidates: int = 3) -> list[UUID]:
    """Create today's completed offers for a user. Return the candidates, best first."""
    day = local_date(BERLIN, datetime.now(UTC))
    job(admin, tenant, user, day)
    external_ids = [uuid4() for _ in range(candidates)]
    offers = []
    for rank, candidate in enumerate(external_ids, 1):
        ids = {"user": internal_id(tenant, user), "candidate": make_profile(admin, tenant, external_id=candidate)}
        values = {**ids, "date": day, "tenant": tenant, "id": uuid4(), "rank": rank}
        admin.execute(OFFERED, values)
        offers.append(
            {
                "id": str(values["id"]),
                "userId": str(candidate),
                "compatibilityScore": 9000 - rank,
                "offeredAt": f"{day}T08:00:00.000Z",
                "expiresAt": f"{day + timedelta(days=1)}T08:00:00.000Z",
            }
        )
    admin.execute(MADE, [json.dumps(offers), internal_id(tenant, user)])
    return external_ids


def test_completed_offers_are_returned_as_stored(users: Users, admin: Connection, acme: UUID) -> None:
    candidates = make_completed_offers(admin, acme, USER)
    stored = admin.execute("SELECT offers FROM matchmaking_jobs").fetchone()
    assert stored is not None

    response = users("GET", "offers", groups=VIEWER)

    assert response.status == 200
    assert [item["userId"] for item in response.body["offers"]] == list(map(str, candidates))
    assert response.body["offers"] == [{**item, "isWithdrawn": False} for item in stored[0]]
    assert (response.body["status"], response.body["timezone"]) == ("completed", BERLIN)
    assert response.body["date"] == str(local_date(BERLIN, datetime.now(UTC)))
    repeated = users("GET", "offers", groups=VIEWER, headers={"if-none-match": response.headers["ETag"]})
    assert repeated.status == 304


def test_offers_of_unavailable_candidates_are_withdrawn(users: Users, admin: Connection, acme: UUID) -> None:
    deleted, inactive, blocked, blocking, available, moved = make_completed_offers(admin, acme, USER, 6)
    users("DELETE", "profile", user=deleted)
    admin.execute("UPDATE profile SET is_active = false WHERE external_id = %s", [inactive])
    admin.execute("UPDATE profile SET timezone = 'Asia/Tokyo' WHERE external_id = %s", [moved])
    users("PUT", f"blocks/{blocked}")
    users("PUT", f"blocks/{USER}", user=blocking)
    users("PUT", f"blocks/{available}", user=moved)  # blocks between other users do not matter

    offers = users("GET", "offers").body["offers"]

    assert {UUID(item["userId"]): item["isWithdrawn"] for item in offers} == {
        **dict.fromkeys([deleted, inactive, blocked, blocking], True),
        **dict.fromkeys([available, moved], False),
    }


@pytest.mark.parametrize("status", ["pending", "running", "failed"])
def test_incomplete_offers_have_status_and_error(users: Users, admin: Connection, acme: UUID, status: str) -> None:
    job(admin, acme, USER, date(2026, 3, 1), status=status, error_message="A trait is not a number")

    response = users("GET", "offers", query={"date": "2026-03-01"})

    assert (response.status, response.body["status"], response.body["offers"]) == (200, status, [])
    assert response.body["error"] == "A trait is not a number"


def test_offers_require_a_profile_but_no_job(users: Users) -> None:
    assert users("GET", "offers").status == 404
    users("PUT", "profile", PROFILE)

    body = users("GET", "offers", query={"date": "2030-12-31"}).body

    assert (body["status"], body["date"], body["timezone"]) == ("none", "2030-12-31", PROFILE["timezone"])
    assert body["offers"] == []


@pytest.mark.parametrize("day", ["today", "1", "2026-13-01", "2026-01-01T00:00:00Z", "20260101"])
def test_invalid_date_is_rejected(users: Users, day: str) -> None:
    assert users("GET", "offers", query={"date": day}).status == 422


@pytest.mark.parametrize(
    ("timezone", "now", "expected"),
    [
        ("Pacific/Kiritimati", datetime(2026, 1, 1, 10, 30, tzinfo=UTC), date(2026, 1, 2)),
        ("Pacific/Pago_Pago", datetime(2026, 1, 1, 10, 30, tzinfo=UTC), date(2025, 12, 31)),
        ("Nowhere/Else", datetime(2026, 1, 1, 23, 59, tzinfo=UTC), date(2026, 1, 1)),
    ],
)
def test_today_is_the_users_local_date(timezone: str, now: datetime, expected: date) -> None:
    assert local_date(timezone, now) == expected
