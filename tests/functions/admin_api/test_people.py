"""People in the user pool are managed by admins of all of their tenants."""

import json
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest

from counterfoil import aws
from counterfoil.db import Connection
from counterfoil.settings import settings
from tests.dead_letters.audit_trail import verified_changes
from tests.functions.admin_api.conftest import CLAIMS, SIGN_IN, Answer, Ask
from tests.functions.admin_api.user_pool import FakeUserPool

ADMIN, PLATFORM_ADMIN = "[admin tenant:acme]", "[admin tenant:*]"
PATH = "/api/admin/people"


@pytest.fixture
def pool(ask: Ask, acme: UUID, make_tenant: Callable[..., UUID], monkeypatch: pytest.MonkeyPatch) -> FakeUserPool:
    make_tenant("zenith")
    pool, original_client = FakeUserPool(), aws.client
    monkeypatch.setattr(aws, "client", lambda service: pool if service == "cognito-idp" else original_client(service))
    return pool


def add(ask: Ask, groups: str = ADMIN, email: str = "ann@acme.example", **more: object) -> Answer:
    return ask({"email": email, "role": "operator", "tenants": ["acme"], **more}, path=PATH, groups=groups)


def change(ask: Ask, id_: str, groups: str = ADMIN, **body: object) -> Answer:
    return ask(body, method="PATCH", path=f"{PATH}/{id_}", groups=groups)


def emails(ask: Ask, groups: str = ADMIN, **query: str) -> list[str]:
    answer = ask("", method="GET", path=PATH, query=query, groups=groups)
    assert answer.status == 200, answer.text
    return [person["email"] for person in answer.body["people"]]


def test_admin_invites_a_person_to_their_tenant(ask: Ask, pool: FakeUserPool, admin: Connection, acme: UUID) -> None:
    done = add(ask, email="Ann@acme.example", edits_payloads=True)

    assert done.status == 201
    id_ = done.body["id"]
    assert pool.groups_of(id_) == {"operator", "tenant:acme", "edit-payloads"}
    assert (done.body["email"], done.body["role"], done.body["tenants"]) == ("ann@acme.example", "operator", ["acme"])
    assert verified_changes(admin, acme) == [(CLAIMS["sub"], "person added", [id_])]
    assert add(ask).status == 409
    assert emails(ask) == emails(ask, tenant="acme") == ["ann@acme.example"]


def test_tenant_admin_cannot_invite_to_other_tenants(ask: Ask, pool: FakeUserPool) -> None:
    assert add(ask, tenants=["acme", "zenith"]).status == add(ask, tenants=["*"]).status == 403
    assert add(ask, PLATFORM_ADMIN, tenants=["nowhere"]).status == 404
    assert pool.users == {}


def test_platform_admin_invites_for_all_tenants(ask: Ask, pool: FakeUserPool, admin: Connection) -> None:
    done = add(ask, PLATFORM_ADMIN, tenants=["*"], role="admin")
    assert (done.status, done.body["tenants"]) == (201, ["*"])
    assert admin.execute("SELECT tenant_id, action FROM audit_entry").fetchall() == [(None, "person added")]


def test_people_are_listed_by_tenant_and_page(ask: Ask, pool: FakeUserPool) -> None:
    for number in range(25):
        pool.add(f"{number}@acme.example", "viewer", "tenant:acme")
    pool.add("zoe@zenith.example", "admin", "tenant:zenith")

    first = ask("", method="GET", path=PATH, groups=ADMIN).body
    second = ask("", method="GET", path=PATH, query={"cursor": first["next_cursor"]}, groups=ADMIN).body

    assert (len(first["people"]), len(second["people"]), second["next_cursor"]) == (20, 5, None)
    assert emails(ask, email="zoe@zenith.example") == []
    assert emails(ask, PLATFORM_ADMIN, email="zoe@zenith.example") == ["zoe@zenith.example"]
    assert emails(ask, PLATFORM_ADMIN, tenant="zenith") == ["zoe@zenith.example"]
    assert ask("", method="GET", path=PATH, query={"tenant": "zenith"}, groups=ADMIN).status == 403


def test_role_and_tenants_are_changed(ask: Ask, pool: FakeUserPool, admin: Connection, acme: UUID) -> None:
    id_ = pool.add("ann@acme.example", "operator", "tenant:acme")
    assert change(ask, id_, role="admin").body["role"] == "admin"
    assert pool.groups_of(id_) == {"admin", "tenant:acme"}
    assert change(ask, id_, tenants=["acme", "zenith"]).status == 403
    moved = change(ask, id_, PLATFORM_ADMIN, tenants=["zenith"])
    assert (moved.body["tenants"], pool.groups_of(id_)) == (["zenith"], {"admin", "tenant:zenith"})
    assert verified_changes(admin, acme) == [(CLAIMS["sub"], "person changed", [id_])] * 2


def test_disabled_person_is_signed_out(ask: Ask, pool: FakeUserPool) -> None:
    id_ = pool.add("ann@acme.example", "viewer", "tenant:acme")
    assert change(ask, id_, is_disabled=True).body["is_disabled"]
    assert pool.signed_out == [id_]
    assert not change(ask, id_, is_disabled=False).body["is_disabled"]


def test_shared_person_is_managed_by_platform_admins(ask: Ask, pool: FakeUserPool) -> None:
    both = pool.add("bob@example.com", "viewer", "tenant:acme", "tenant:zenith")
    everywhere = pool.add("kim@example.com", "admin", "tenant:*")
    theirs = pool.add("zoe@zenith.example", "viewer", "tenant:zenith")

    assert change(ask, both, role="admin").status == 403
    unknown = change(ask, str(uuid4()), role="viewer")
    for hidden in (everywhere, theirs):
        answer = change(ask, hidden, role="viewer")
        assert (answer.status, answer.body) == (404, unknown.body)
    assert change(ask, both, PLATFORM_ADMIN, role="operator").status == 200


def test_person_is_removed(ask: Ask, pool: FakeUserPool, admin: Connection, acme: UUID) -> None:
    id_ = pool.add("ann@acme.example", "viewer", "tenant:acme")
    assert ask("", method="DELETE", path=f"{PATH}/{id_}", groups=ADMIN).status == 204
    assert ask("", method="DELETE", path=f"{PATH}/{id_}", groups=ADMIN).status == 404
    assert (pool.users, verified_changes(admin, acme)) == ({}, [(CLAIMS["sub"], "person removed", [id_])])


@pytest.mark.usefixtures("acme")
def test_people_of_other_issuers_are_managed_elsewhere(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OIDC", json.dumps(SIGN_IN | {"pool": None}))
    settings.cache_clear()
    refused = add(ask)
    assert (refused.status, refused.body["detail"]) == (
        409,
        "People are managed at the token issuer of this deployment, not here.",
    )
    assert ask("", method="GET", path=PATH, groups=ADMIN).status == 409
