"""People in the user pool are managed by admins of all their tenants."""

import json
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from counterfoil import aws
from counterfoil.db import Connection, Database
from counterfoil.errors import RejectedStatementError
from counterfoil.settings import settings
from tests.dead_letters.audit_trail import verified_changes
from tests.functions.admin_api.conftest import CLAIMS, SIGN_IN, ApiResponse, CallApi
from tests.functions.admin_api.user_pool import FakeUserPool

ADMIN, PLATFORM_ADMIN = "[admin tenant:acme]", "[admin tenant:*]"
PATH = "/api/admin/people"


@pytest.fixture
def pool(
    call_api: CallApi, acme: UUID, make_tenant: Callable[..., UUID], monkeypatch: pytest.MonkeyPatch
) -> FakeUserPool:
    make_tenant("zenith")
    pool, original_client = FakeUserPool(), aws.client
    monkeypatch.setattr(aws, "client", lambda service: pool if service == "cognito-idp" else original_client(service))
    return pool


def add(
    call_api: CallApi,
    groups: str = ADMIN,
    email: str = "ann@acme.example",
    claims: dict[str, object] | None = None,
    **fields: object,
) -> ApiResponse:
    body = {"email": email, "role": "operator", "tenants": ["acme"], **fields}
    return call_api(body, path=PATH, groups=groups, claims=claims)


def change(call_api: CallApi, id_: str, groups: str = ADMIN, **body: object) -> ApiResponse:
    return call_api(body, method="PATCH", path=f"{PATH}/{id_}", groups=groups)


def look_up_emails(call_api: CallApi, *subjects: str, groups: str = "[viewer tenant:acme]") -> dict[str, str]:
    query = {"subject": ",".join(subjects)}
    response = call_api("", method="GET", path=f"{PATH}/emails", query=query, groups=groups)
    assert response.status == 200, response.text
    addresses: dict[str, str] = response.body["emails"]
    return addresses


def listed_emails(call_api: CallApi, groups: str = ADMIN, **query: str) -> list[str]:
    response = call_api("", method="GET", path=PATH, query=query, groups=groups)
    assert response.status == 200, response.text
    return [person["email"] for person in response.body["people"]]


def test_admin_invites_a_person_to_their_tenant(
    call_api: CallApi, pool: FakeUserPool, admin: Connection, acme: UUID
) -> None:
    response = add(call_api, email="Ann@acme.example", edits_payloads=True)

    assert response.status == 201
    id_ = response.body["id"]
    assert pool.groups_of(id_) == {"operator", "tenant:acme", "edit-payloads"}
    assert (response.body["email"], response.body["role"], response.body["tenants"]) == (
        "ann@acme.example",
        "operator",
        ["acme"],
    )
    assert verified_changes(admin, acme) == [(CLAIMS["sub"], "person added", [id_])]
    assert add(call_api).status == 409
    assert listed_emails(call_api) == listed_emails(call_api, tenant="acme") == ["ann@acme.example"]


def test_tenant_admin_cannot_invite_to_other_tenants(call_api: CallApi, pool: FakeUserPool) -> None:
    assert add(call_api, tenants=["acme", "zenith"]).status == add(call_api, tenants=["*"]).status == 403
    assert add(call_api, PLATFORM_ADMIN, tenants=["nowhere"]).status == 404
    assert pool.users == {}


def test_platform_admin_invites_for_all_tenants(call_api: CallApi, pool: FakeUserPool, admin: Connection) -> None:
    response = add(call_api, PLATFORM_ADMIN, tenants=["*"], role="admin")
    assert (response.status, response.body["tenants"]) == (201, ["*"])
    assert admin.execute("SELECT tenant_id, action FROM audit_entry").fetchall() == [(None, "person added")]


def test_people_are_listed_by_tenant_and_page(call_api: CallApi, pool: FakeUserPool) -> None:
    for number in range(25):
        pool.add(f"{number}@acme.example", "viewer", "tenant:acme")
    pool.add("zoe@zenith.example", "admin", "tenant:zenith")

    first = call_api("", method="GET", path=PATH, groups=ADMIN).body
    second = call_api("", method="GET", path=PATH, query={"cursor": first["next_cursor"]}, groups=ADMIN).body

    assert (len(first["people"]), len(second["people"]), second["next_cursor"]) == (20, 5, None)
    assert listed_emails(call_api, email="zoe@zenith.example") == []
    assert listed_emails(call_api, PLATFORM_ADMIN, email="zoe@zenith.example") == ["zoe@zenith.example"]
    assert listed_emails(call_api, PLATFORM_ADMIN, tenant="zenith") == ["zoe@zenith.example"]
    assert call_api("", method="GET", path=PATH, query={"tenant": "zenith"}, groups=ADMIN).status == 403


def test_role_and_tenants_are_changed(call_api: CallApi, pool: FakeUserPool, admin: Connection, acme: UUID) -> None:
    id_ = pool.add("ann@acme.example", "operator", "tenant:acme")
    assert change(call_api, id_, role="admin").body["role"] == "admin"
    assert pool.groups_of(id_) == {"admin", "tenant:acme"}
    assert change(call_api, id_, tenants=["acme", "zenith"]).status == 403
    response = change(call_api, id_, PLATFORM_ADMIN, tenants=["zenith"])
    assert (response.body["tenants"], pool.groups_of(id_)) == (["zenith"], {"admin", "tenant:zenith"})
    assert verified_changes(admin, acme) == [(CLAIMS["sub"], "person changed", [id_])] * 2


def test_disabled_person_is_signed_out(call_api: CallApi, pool: FakeUserPool) -> None:
    id_ = pool.add("ann@acme.example", "viewer", "tenant:acme")
    assert change(call_api, id_, is_disabled=True).body["is_disabled"]
    assert pool.signed_out == [id_]
    assert not change(call_api, id_, is_disabled=False).body["is_disabled"]


def test_person_of_several_tenants_requires_platform_admin(call_api: CallApi, pool: FakeUserPool) -> None:
    shared = pool.add("bob@example.com", "viewer", "tenant:acme", "tenant:zenith")
    everywhere = pool.add("kim@example.com", "admin", "tenant:*")
    foreign = pool.add("zoe@zenith.example", "viewer", "tenant:zenith")

    assert change(call_api, shared, role="admin").status == 403
    unknown = change(call_api, str(uuid4()), role="viewer")
    for hidden in (everywhere, foreign):
        response = change(call_api, hidden, role="viewer")
        assert (response.status, response.body) == (404, unknown.body)
    assert change(call_api, shared, PLATFORM_ADMIN, role="operator").status == 200


def test_person_is_removed(call_api: CallApi, pool: FakeUserPool, admin: Connection, acme: UUID) -> None:
    id_ = pool.add("ann@acme.example", "viewer", "tenant:acme")
    assert call_api("", method="DELETE", path=f"{PATH}/{id_}", groups=ADMIN).status == 204
    assert call_api("", method="DELETE", path=f"{PATH}/{id_}", groups=ADMIN).status == 404
    assert (pool.users, verified_changes(admin, acme)) == ({}, [(CLAIMS["sub"], "person removed", [id_])])


@pytest.mark.usefixtures("acme")
def test_people_cannot_be_managed_with_external_issuer(call_api: CallApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OIDC", json.dumps(SIGN_IN | {"pool": None}))
    settings.cache_clear()
    response = add(call_api)
    assert (response.status, response.body["detail"]) == (
        409,
        "People are managed at this deployment's token issuer, not here.",
    )
    assert call_api("", method="GET", path=PATH, groups=ADMIN).status == 409


def make_change(call_api: CallApi, tenant: str = "acme", groups: str = ADMIN, *, claims: dict[str, object]) -> None:
    path = f"/api/admin/tenants/{tenant}/admins"
    done = call_api({"added": [f"{uuid4()}@acme.example"]}, method="PATCH", path=path, groups=groups, claims=claims)
    assert done.status == 200, done.text


@pytest.mark.usefixtures("pool")
def test_email_of_change_author_is_found(call_api: CallApi) -> None:
    assert look_up_emails(call_api, "ann", "bob", "matching") == {}
    make_change(call_api, claims={"sub": "ann", "email": "ann@acme.example"})
    make_change(call_api, claims={"sub": "bob", "email": "bob@acme.example", "email_verified": "true"})

    assert look_up_emails(call_api, "ann", "bob", "matching") == {"ann": "ann@acme.example", "bob": "bob@acme.example"}


@pytest.mark.usefixtures("pool")
def test_latest_email_of_change_author_is_found(call_api: CallApi) -> None:
    make_change(call_api, claims={"sub": "ann", "email": "ann@acme.example"})
    make_change(call_api, claims={"sub": "ann", "email": "ann.lee@acme.example"})

    assert look_up_emails(call_api, "ann") == {"ann": "ann.lee@acme.example"}


@pytest.mark.parametrize("claims", [{"email_verified": "false"}, {"email": "no address"}, {"email": ["a@b.example"]}])
@pytest.mark.usefixtures("pool")
def test_unverified_or_invalid_email_is_not_stored(
    call_api: CallApi, admin: Connection, claims: dict[str, object]
) -> None:
    make_change(call_api, claims={"sub": "ann", "email": "ann@acme.example"} | claims)

    assert admin.execute("SELECT count(*) FROM person").fetchone() == (0,)


@pytest.mark.usefixtures("pool")
def test_author_email_is_visible_only_to_changed_tenant(call_api: CallApi) -> None:
    make_change(call_api, "acme", PLATFORM_ADMIN, claims={"sub": "kim", "email": "kim@example.com"})
    add(call_api, PLATFORM_ADMIN, tenants=["*"], claims={"sub": "zoe", "email": "zoe@example.com"})

    assert look_up_emails(call_api, "kim", "zoe") == {"kim": "kim@example.com"}
    assert look_up_emails(call_api, "kim", "zoe", groups="[viewer tenant:zenith]") == {}
    assert look_up_emails(call_api, "kim", "zoe", groups="[viewer tenant:*]") == {
        "kim": "kim@example.com",
        "zoe": "zoe@example.com",
    }


def test_workers_read_only_their_tenants_emails(
    call_api: CallApi, pool: FakeUserPool, database: Database, acme: UUID, make_tenant: Callable[..., UUID]
) -> None:
    make_change(call_api, claims={"sub": "ann", "email": "ann@acme.example"})

    for tenant_id, addresses in ((acme, [("ann@acme.example",)]), (make_tenant("globex"), [])):
        with database.tenant(tenant_id) as connection:
            assert connection.execute("SELECT email FROM person").fetchall() == addresses
    with pytest.raises(RejectedStatementError), database.delivery() as connection:
        connection.execute("SELECT email FROM person")
