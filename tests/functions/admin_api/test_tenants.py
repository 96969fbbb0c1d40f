"""Platform admins add and disable tenants. A tenant's admins set it up."""

from collections.abc import Callable
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.documents.files import find_tenants_by_address
from tests.dead_letters.audit_trail import verified_changes
from tests.functions.admin_api.conftest import CLAIMS, ApiResponse, CallApi

VIEWER, PLATFORM_VIEWER = "[viewer tenant:acme]", "[viewer tenant:*]"
ADMIN, PLATFORM_ADMIN = "[admin tenant:acme]", "[admin tenant:*]"
PATH = "/api/admin/tenants"
SUBJECT = CLAIMS["sub"]


def tenants(call_api: CallApi, groups: str, **query: str) -> ApiResponse:
    return call_api("", method="GET", path=PATH, query=query, groups=groups)


def slugs(response: ApiResponse) -> list[str]:
    return [tenant["slug"] for tenant in response.body["tenants"]]


def add(call_api: CallApi, slug: str, **fields: object) -> ApiResponse:
    return call_api({"slug": slug, **fields}, path=PATH, groups=PLATFORM_ADMIN)


def change(call_api: CallApi, suffix: str, body: object, groups: str = ADMIN, slug: str = "acme") -> ApiResponse:
    return call_api(body, method="PATCH", path=f"{PATH}/{slug}{suffix}", groups=groups)


def get_tenant(call_api: CallApi, slug: str = "acme") -> ApiResponse:
    return call_api("", method="GET", path=f"{PATH}/{slug}", groups=PLATFORM_ADMIN)


def test_viewer_lists_their_tenants(call_api: CallApi, make_tenant: Callable[..., UUID]) -> None:
    for slug in ("zenith", "acme", "midas"):
        make_tenant(slug)
    all_tenants = tenants(call_api, PLATFORM_VIEWER)
    assert (slugs(all_tenants), all_tenants.body["unassigned"]) == (["acme", "midas", "zenith"], True)
    own_tenants = tenants(call_api, "[viewer tenant:zenith tenant:gone]")
    assert own_tenants.body == {
        "tenants": [{"slug": "zenith", "name": "zenith", "disabled_at": None}],
        "unassigned": False,
        "next_cursor": None,
    }
    first = tenants(call_api, PLATFORM_VIEWER, limit="2")
    assert (slugs(first), first.body["next_cursor"]) == (["acme", "midas"], "midas")
    second = tenants(call_api, PLATFORM_VIEWER, limit="2", cursor="midas")
    assert (slugs(second), second.body["next_cursor"]) == (["zenith"], None)
    assert tenants(call_api, "[tenant:acme]").status == tenants(call_api, "[viewer]").status == 403


def test_new_tenant_is_added_with_its_setup(call_api: CallApi, admin: Connection) -> None:
    body = {"name": "Globex GmbH", "addresses": ["In@globex.example"], "admins": ["kim@globex.example"]}

    response = add(call_api, "globex", organization="Globex", **body)

    assert response.status == 201
    assert response.body == {**get_tenant(call_api, "globex").body, "is_new": True, "destinations": []}
    assert (response.body["name"], response.body["organization"]) == ("Globex GmbH", "Globex")
    assert (response.body["addresses"], response.body["admins"]) == (["in@globex.example"], ["kim@globex.example"])
    tenant = UUID(response.body["id"])
    assert verified_changes(admin, tenant) == [
        (SUBJECT, action, [str(tenant)]) for action in ("tenant added", "mail addresses changed", "admins changed")
    ]
    assert admin.execute("SELECT count(*) FROM audit_entry WHERE detail::text LIKE '%globex%'").fetchone() == (0,)


def test_adding_existing_tenant_adds_only_missing_setup(call_api: CallApi, acme: UUID) -> None:
    response = add(call_api, "acme", name="Another name", admins=["ann@acme.example"])
    assert (response.status, response.body["is_new"], response.body["id"]) == (200, False, str(acme))
    assert (response.body["name"], response.body["admins"]) == ("acme", ["ann@acme.example"])


def test_invalid_setup_adds_no_tenant(call_api: CallApi, admin: Connection) -> None:
    assert add(call_api, "globex", addresses=["in@globex.example", "nowhere"]).status == 422
    assert add(call_api, "Globex").status == 422
    assert admin.execute("SELECT count(*) FROM tenant").fetchone() == (0,)


def test_slug_of_erased_tenant_is_rejected(call_api: CallApi, acme: UUID) -> None:
    version = call_api("", method="DELETE", path=f"{PATH}/acme", groups=PLATFORM_ADMIN).headers["ETag"]
    erased = call_api(
        "",
        method="DELETE",
        path=f"{PATH}/acme",
        query={"confirm": "acme"},
        headers={"if-match": version},
        groups=PLATFORM_ADMIN,
    )
    assert erased.status == 202

    assert slugs(tenants(call_api, PLATFORM_VIEWER)) == []
    repeated = add(call_api, "acme")
    assert repeated.status == 422
    assert "was deleted" in repeated.body["detail"]


def test_tenant_is_renamed(call_api: CallApi, admin: Connection, acme: UUID) -> None:
    response = change(call_api, "", {"name": "Acme AG"}, PLATFORM_ADMIN)
    assert (response.status, response.body["name"], get_tenant(call_api).body["name"]) == (200, "Acme AG", "Acme AG")
    change(call_api, "", {"name": "Acme AG"}, PLATFORM_ADMIN)
    assert verified_changes(admin, acme) == [(SUBJECT, "tenant renamed", [str(acme)])]


def test_disabled_tenant_accepts_no_uploads_or_mail(
    call_api: CallApi, database: Database, admin: Connection, acme: UUID
) -> None:
    change(call_api, "/addresses", {"added": ["in@acme.example"]})
    upload = {"tenant": "acme", "file_name": "a.pdf"}

    disabled = change(call_api, "", {"is_disabled": True}, PLATFORM_ADMIN)

    assert disabled.body["disabled_at"] is not None
    response = call_api(upload, groups="[operator tenant:acme]")
    assert (response.status, response.body["detail"]) == (
        403,
        "This tenant is disabled. An admin for all tenants can enable it.",
    )
    with database.delivery() as connection:
        assert find_tenants_by_address(connection, ["in@acme.example"]) == []
    assert slugs(tenants(call_api, VIEWER)) == ["acme"]
    change(call_api, "", {"is_disabled": True}, PLATFORM_ADMIN)
    assert change(call_api, "", {"is_disabled": False}, PLATFORM_ADMIN).body["disabled_at"] is None
    assert call_api(upload, groups="[operator tenant:acme]").status == 201
    with database.delivery() as connection:
        assert find_tenants_by_address(connection, ["in@acme.example"]) == [acme]
    assert [action for _, action, _ in verified_changes(admin, acme)][1:] == ["tenant disabled", "tenant enabled"]


@pytest.mark.parametrize("kind", ["addresses", "admins"])
def test_address_is_added_once_and_removed(call_api: CallApi, acme: UUID, kind: str) -> None:
    addresses = {"added": ["Ann@Acme.example", "bob@acme.example"]}
    added = change(call_api, f"/{kind}", addresses)
    assert added.body == {"tenant": "acme", "addresses": ["ann@acme.example", "bob@acme.example"]}
    change(call_api, f"/{kind}", {"added": ["ann@acme.example"]})
    removal = change(call_api, f"/{kind}", {"removed": ["BOB@acme.example"]})
    assert removal.body["addresses"] == get_tenant(call_api).body[kind] == ["ann@acme.example"]
    invalid_change = change(call_api, f"/{kind}", {"added": ["kim@acme.example"], "removed": ["bob@acme.example"]})
    assert (invalid_change.status, get_tenant(call_api).body[kind]) == (422, ["ann@acme.example"])


@pytest.mark.parametrize(
    "address",
    [
        *("", "ann", "ann@", "@example.com", "ann@localhost", "a n@example.com", "ann@b@example.com"),
        *("ann@exämple.com", "ann@example.com\nBcc: all@example.com", "a" * 250 + "@example.com"),
    ],
)
@pytest.mark.parametrize("kind", ["addresses", "admins"])
def test_invalid_address_changes_nothing(call_api: CallApi, acme: UUID, kind: str, address: str) -> None:
    assert change(call_api, f"/{kind}", {"added": ["good@example.com", address]}).status == 422
    assert get_tenant(call_api).body[kind] == []


@pytest.mark.parametrize(
    "address", ["<in@acme.example>", "in@acme.example,", "a,b@acme.example", '"in"@acme.example', "in@acme_1.example"]
)
def test_unusable_mail_address_is_rejected(call_api: CallApi, acme: UUID, address: str) -> None:
    response = change(call_api, "/addresses", {"added": [address]})
    assert (response.status, get_tenant(call_api).body["addresses"]) == (422, [])
    assert "would not be recognized" in response.body["detail"]


def test_mail_address_belongs_to_one_tenant(call_api: CallApi, acme: UUID, make_tenant: Callable[..., UUID]) -> None:
    make_tenant("zenith")
    of_zenith = "[admin tenant:zenith]"
    change(call_api, "/addresses", {"added": ["in@acme.example"]})

    body = {"added": ["z@zenith.example", "IN@acme.example"]}
    response = change(call_api, "/addresses", body, of_zenith, "zenith")

    assert (response.status, response.body["detail"]) == (
        422,
        "'IN@acme.example' belongs to another tenant: remove it there first.",
    )
    assert get_tenant(call_api, "zenith").body["addresses"] == []
    change(call_api, "/addresses", {"removed": ["in@acme.example"]})
    assert change(call_api, "/addresses", body, of_zenith, "zenith").status == 200


def test_unchanged_addresses_have_no_audit_entry(call_api: CallApi, admin: Connection, acme: UUID) -> None:
    assert change(call_api, "/admins", {}).status == 200
    assert verified_changes(admin, acme) == []


def test_setup_requires_a_subject(call_api: CallApi, acme: UUID) -> None:
    body = {"added": ["ann@acme.example"]}
    assert call_api(body, method="PATCH", path=f"{PATH}/acme/admins", groups=ADMIN, subject="").status == 403
    assert call_api({"slug": "new"}, path=PATH, groups=PLATFORM_ADMIN, subject="").status == 403
