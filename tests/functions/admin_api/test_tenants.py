"""Platform admins add and disable tenants. Admins of a tenant set it up."""

from collections.abc import Callable
from uuid import UUID

import pytest

from counterfoil.db import Connection, Database
from counterfoil.documents.files import tenants_of
from tests.dead_letters.audit_trail import verified_changes
from tests.functions.admin_api.conftest import CLAIMS, Answer, Ask

VIEWER, PLATFORM_VIEWER = "[viewer tenant:acme]", "[viewer tenant:*]"
ADMIN, PLATFORM_ADMIN = "[admin tenant:acme]", "[admin tenant:*]"
PATH = "/api/admin/tenants"
SUBJECT = CLAIMS["sub"]


def tenants(ask: Ask, groups: str, **query: str) -> Answer:
    return ask("", method="GET", path=PATH, query=query, groups=groups)


def slugs(answer: Answer) -> list[str]:
    return [tenant["slug"] for tenant in answer.body["tenants"]]


def add(ask: Ask, slug: str, **more: object) -> Answer:
    return ask({"slug": slug, **more}, path=PATH, groups=PLATFORM_ADMIN)


def change(ask: Ask, suffix: str, body: object, groups: str = ADMIN, slug: str = "acme") -> Answer:
    return ask(body, method="PATCH", path=f"{PATH}/{slug}{suffix}", groups=groups)


def show(ask: Ask, slug: str = "acme") -> Answer:
    return ask("", method="GET", path=f"{PATH}/{slug}", groups=PLATFORM_ADMIN)


def test_viewer_lists_their_tenants(ask: Ask, make_tenant: Callable[..., UUID]) -> None:
    for slug in ("zenith", "acme", "midas"):
        make_tenant(slug)
    everything = tenants(ask, PLATFORM_VIEWER)
    assert (slugs(everything), everything.body["unassigned"]) == (["acme", "midas", "zenith"], True)
    few = tenants(ask, "[viewer tenant:zenith tenant:gone]")
    assert few.body == {
        "tenants": [{"slug": "zenith", "name": "zenith", "disabled_at": None}],
        "unassigned": False,
        "next_cursor": None,
    }
    first = tenants(ask, PLATFORM_VIEWER, limit="2")
    assert (slugs(first), first.body["next_cursor"]) == (["acme", "midas"], "midas")
    second = tenants(ask, PLATFORM_VIEWER, limit="2", cursor="midas")
    assert (slugs(second), second.body["next_cursor"]) == (["zenith"], None)
    assert tenants(ask, "[tenant:acme]").status == tenants(ask, "[viewer]").status == 403


def test_new_tenant_has_all_of_its_setup(ask: Ask, admin: Connection) -> None:
    body = {"name": "Globex GmbH", "addresses": ["In@globex.example"], "admins": ["kim@globex.example"]}

    done = add(ask, "globex", organization="Globex", **body)

    assert done.status == 201
    assert done.body == {**show(ask, "globex").body, "is_new": True, "destinations": []}
    assert (done.body["name"], done.body["organization"]) == ("Globex GmbH", "Globex")
    assert (done.body["addresses"], done.body["admins"]) == (["in@globex.example"], ["kim@globex.example"])
    tenant = UUID(done.body["id"])
    assert verified_changes(admin, tenant) == [
        (SUBJECT, action, [str(tenant)]) for action in ("tenant added", "mail addresses changed", "admins changed")
    ]
    assert admin.execute("SELECT count(*) FROM audit_entry WHERE detail::text LIKE '%globex%'").fetchone() == (0,)


def test_existing_tenant_gets_the_missing_setup(ask: Ask, acme: UUID) -> None:
    done = add(ask, "acme", name="Another name", admins=["ann@acme.example"])
    assert (done.status, done.body["is_new"], done.body["id"]) == (200, False, str(acme))
    assert (done.body["name"], done.body["admins"]) == ("acme", ["ann@acme.example"])


def test_invalid_setup_adds_no_tenant(ask: Ask, admin: Connection) -> None:
    assert add(ask, "globex", addresses=["in@globex.example", "nowhere"]).status == 422
    assert add(ask, "Globex").status == 422
    assert admin.execute("SELECT count(*) FROM tenant").fetchone() == (0,)


def test_slug_of_an_erased_tenant_is_refused(ask: Ask, acme: UUID) -> None:
    version = ask("", method="DELETE", path=f"{PATH}/acme", groups=PLATFORM_ADMIN).headers["ETag"]
    erased = ask(
        "",
        method="DELETE",
        path=f"{PATH}/acme",
        query={"confirm": "acme"},
        headers={"if-match": version},
        groups=PLATFORM_ADMIN,
    )
    assert erased.status == 202

    assert slugs(tenants(ask, PLATFORM_VIEWER)) == []
    again = add(ask, "acme")
    assert again.status == 422
    assert "was deleted" in again.body["detail"]


def test_tenant_is_renamed(ask: Ask, admin: Connection, acme: UUID) -> None:
    done = change(ask, "", {"name": "Acme AG"}, PLATFORM_ADMIN)
    assert (done.status, done.body["name"], show(ask).body["name"]) == (200, "Acme AG", "Acme AG")
    change(ask, "", {"name": "Acme AG"}, PLATFORM_ADMIN)
    assert verified_changes(admin, acme) == [(SUBJECT, "tenant renamed", [str(acme)])]


def test_disabled_tenant_takes_no_new_work(ask: Ask, database: Database, admin: Connection, acme: UUID) -> None:
    change(ask, "/addresses", {"added": ["in@acme.example"]})
    upload = {"tenant": "acme", "file_name": "a.pdf"}

    done = change(ask, "", {"is_disabled": True}, PLATFORM_ADMIN)

    assert done.body["disabled_at"] is not None
    refused = ask(upload, groups="[operator tenant:acme]")
    assert (refused.status, refused.body["detail"]) == (
        403,
        "This tenant is disabled. An admin for all tenants can enable it.",
    )
    with database.delivery() as connection:
        assert tenants_of(connection, ["in@acme.example"]) == []
    assert slugs(tenants(ask, VIEWER)) == ["acme"]
    change(ask, "", {"is_disabled": True}, PLATFORM_ADMIN)
    assert change(ask, "", {"is_disabled": False}, PLATFORM_ADMIN).body["disabled_at"] is None
    assert ask(upload, groups="[operator tenant:acme]").status == 201
    with database.delivery() as connection:
        assert tenants_of(connection, ["in@acme.example"]) == [acme]
    assert [action for _, action, _ in verified_changes(admin, acme)][1:] == ["tenant disabled", "tenant enabled"]


@pytest.mark.parametrize("kind", ["addresses", "admins"])
def test_address_is_added_once_and_removed(ask: Ask, acme: UUID, kind: str) -> None:
    both = {"added": ["Ann@Acme.example", "bob@acme.example"]}
    added = change(ask, f"/{kind}", both)
    assert added.body == {"tenant": "acme", "addresses": ["ann@acme.example", "bob@acme.example"]}
    change(ask, f"/{kind}", {"added": ["ann@acme.example"]})
    left = change(ask, f"/{kind}", {"removed": ["BOB@acme.example"]})
    assert left.body["addresses"] == show(ask).body[kind] == ["ann@acme.example"]
    gone = change(ask, f"/{kind}", {"added": ["kim@acme.example"], "removed": ["bob@acme.example"]})
    assert (gone.status, show(ask).body[kind]) == (422, ["ann@acme.example"])


@pytest.mark.parametrize(
    "address",
    [
        *("", "ann", "ann@", "@example.com", "ann@localhost", "a n@example.com", "ann@b@example.com"),
        *("ann@exämple.com", "ann@example.com\nBcc: all@example.com", "a" * 250 + "@example.com"),
    ],
)
@pytest.mark.parametrize("kind", ["addresses", "admins"])
def test_invalid_address_changes_nothing(ask: Ask, acme: UUID, kind: str, address: str) -> None:
    assert change(ask, f"/{kind}", {"added": ["good@example.com", address]}).status == 422
    assert show(ask).body[kind] == []


@pytest.mark.parametrize(
    "address", ["<in@acme.example>", "in@acme.example,", "a,b@acme.example", '"in"@acme.example', "in@acme_1.example"]
)
def test_unusable_mail_address_is_rejected(ask: Ask, acme: UUID, address: str) -> None:
    refused = change(ask, "/addresses", {"added": [address]})
    assert (refused.status, show(ask).body["addresses"]) == (422, [])
    assert "would not be recognized" in refused.body["detail"]


def test_mail_address_belongs_to_one_tenant(ask: Ask, acme: UUID, make_tenant: Callable[..., UUID]) -> None:
    make_tenant("zenith")
    of_zenith = "[admin tenant:zenith]"
    change(ask, "/addresses", {"added": ["in@acme.example"]})

    body = {"added": ["z@zenith.example", "IN@acme.example"]}
    refused = change(ask, "/addresses", body, of_zenith, "zenith")

    assert (refused.status, refused.body["detail"]) == (
        422,
        "'IN@acme.example' belongs to another tenant: remove it there first.",
    )
    assert show(ask, "zenith").body["addresses"] == []
    change(ask, "/addresses", {"removed": ["in@acme.example"]})
    assert change(ask, "/addresses", body, of_zenith, "zenith").status == 200


def test_unchanged_addresses_have_no_audit_entry(ask: Ask, admin: Connection, acme: UUID) -> None:
    assert change(ask, "/admins", {}).status == 200
    assert verified_changes(admin, acme) == []


def test_setup_requires_a_subject(ask: Ask, acme: UUID) -> None:
    body = {"added": ["ann@acme.example"]}
    assert ask(body, method="PATCH", path=f"{PATH}/acme/admins", groups=ADMIN, subject="").status == 403
    assert ask({"slug": "new"}, path=PATH, groups=PLATFORM_ADMIN, subject="").status == 403
