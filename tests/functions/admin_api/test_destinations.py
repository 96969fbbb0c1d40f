"""Admins add, list and remove the destinations of their tenant. Secrets are shown once."""

from collections.abc import Callable
from uuid import UUID

import pytest

from counterfoil.db import Connection
from counterfoil.settings import settings
from tests.dead_letters.audit_trail import verified_changes
from tests.delivery.harness import rows
from tests.functions.admin_api.conftest import CLAIMS, Answer, Ask

ADMIN, PLATFORM_ADMIN = "[admin tenant:acme]", "[admin tenant:*]"
PATH = "/api/admin/tenants/acme/destinations"
URL = "https://hooks.example.com/results"


def webhook(ask: Ask, name: str = "office", address: str = URL, groups: str = ADMIN, **more: object) -> Answer:
    return ask({"name": name, "kind": "webhook", "address": address, **more}, path=PATH, groups=groups)


def export(ask: Ask, name: str = "erp", prefix: str = "erp/in", **more: object) -> Answer:
    return ask({"name": name, "kind": "s3", "address": prefix, **more}, path=PATH, groups=ADMIN)


def listed(ask: Ask, path: str = PATH) -> list[dict[str, object]]:
    found: list[dict[str, object]] = ask("", method="GET", path=path, groups=PLATFORM_ADMIN).body["destinations"]
    return found


def remove(ask: Ask, name: str) -> Answer:
    return ask("", method="DELETE", path=f"{PATH}/{name}", groups=ADMIN)


def rotate(ask: Ask, name: str) -> Answer:
    return ask("", path=f"{PATH}/{name}/rotate", groups=ADMIN)


def test_secret_of_a_webhook_is_shown_once(ask: Ask, acme: UUID, admin: Connection) -> None:
    added = webhook(ask)
    assert added.status == 201
    expected = {"name": "office", "kind": "webhook", "address": URL, "events": ["cluster", "document"]}
    assert added.body == {**expected, "secret": rows(admin, "destination_secret")[0]["secret"]}
    assert added.body["secret"].startswith("whsec_")
    assert len(added.body["secret"]) >= 40
    assert listed(ask) == [expected]


def test_export_is_added_without_a_secret(ask: Ask, acme: UUID) -> None:
    assert export(ask, events=["offers"]).body == {
        "name": "erp",
        "kind": "s3",
        "address": "erp/in",
        "events": ["offers"],
        "secret": None,
    }
    assert rotate(ask, "erp").status == 404


def test_changes_reach_the_audit_trail(ask: Ask, acme: UUID, admin: Connection) -> None:
    webhook(ask)
    rotate(ask, "office")
    remove(ask, "office")
    ((id_,),) = admin.execute("SELECT id FROM destination").fetchall()
    assert verified_changes(admin, acme) == [
        (CLAIMS["sub"], action, [str(id_)])
        for action in ("destination added", "webhook secret rotated", "destination removed")
    ]


def test_both_secrets_are_active_after_a_rotation(ask: Ask, acme: UUID, admin: Connection) -> None:
    first = webhook(ask).body["secret"]
    second = rotate(ask, "office").body["secret"]
    is_current = {row["secret"]: row["expires_at"] is None for row in rows(admin, "destination_secret")}
    assert is_current == {first: False, second: True}


def test_name_of_a_removed_destination_is_reusable(ask: Ask, acme: UUID, admin: Connection) -> None:
    webhook(ask)
    assert remove(ask, "office").status == 204
    assert (listed(ask), rows(admin, "destination_secret")) == ([], [])
    assert remove(ask, "office").status == 404
    assert export(ask, "office").status == 201
    assert [item["kind"] for item in listed(ask)] == ["s3"]
    assert len(rows(admin, "destination")) == 2


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("http://hooks.example.com/", "only https is"),
        ("https://169.254.169.254/", "no public address"),
        ("nonsense", "must begin with https"),
    ],
)
def test_forbidden_address_is_refused(ask: Ask, acme: UUID, address: str, reason: str, admin: Connection) -> None:
    refused = webhook(ask, address=address)
    assert (refused.status, reason in refused.body["detail"]) == (422, True)
    assert rows(admin, "destination") == []


@pytest.mark.parametrize("prefix", ["../other", "/erp", "erp/", "", "a" * 201])
def test_invalid_prefix_is_refused(ask: Ask, acme: UUID, prefix: str, admin: Connection) -> None:
    assert export(ask, prefix=prefix).status == 422
    assert rows(admin, "destination") == []


def test_invalid_events_are_refused(ask: Ask, acme: UUID) -> None:
    assert export(ask, events=["invoice"]).status == export(ask, events=[]).status == 422


def test_name_and_prefix_are_unique(ask: Ask, acme: UUID) -> None:
    export(ask, "erp", "out")
    assert "exists: remove it first" in webhook(ask, "erp").body["detail"]
    assert "'erp' exports to 'out'" in export(ask, "archive", "out").body["detail"]
    remove(ask, "erp")
    assert export(ask, "archive", "out").status == 201


def test_only_platform_admins_add_internal_addresses(
    ask: Ask, acme: UUID, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBHOOK_ALLOWLIST", '["127.0.0.0/8"]')
    settings.cache_clear()
    here = "http://127.0.0.1:8099/"

    assert webhook(ask, address=here).status == 422
    assert webhook(ask, "internal", here, PLATFORM_ADMIN).status == 201
    assert webhook(ask, "public").status == 201
    found = admin.execute("SELECT name, allows_internal FROM destination ORDER BY name").fetchall()
    assert found == [("internal", True), ("public", False)]


def test_destinations_belong_to_one_tenant(ask: Ask, acme: UUID, make_tenant: Callable[..., UUID]) -> None:
    make_tenant("zenith")
    webhook(ask)
    assert listed(ask, PATH.replace("acme", "zenith")) == []


def test_new_tenant_has_its_destinations(ask: Ask, admin: Connection) -> None:
    body = {
        "slug": "globex",
        "destinations": [
            {"name": "erp", "kind": "webhook", "address": URL},
            {"name": "files", "kind": "s3", "address": "monthly/in"},
        ],
    }
    first, second = (ask(body, path="/api/admin/tenants", groups=PLATFORM_ADMIN) for _ in range(2))
    assert [bool(item["secret"]) for item in first.body["destinations"]] == [True, False]
    assert (second.status, second.body["destinations"]) == (200, [])
    assert len(rows(admin, "destination")) == 2
