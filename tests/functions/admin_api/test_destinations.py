"""Admins add, list and remove their tenant's destinations.

Secrets are shown once.
"""

from collections.abc import Callable
from uuid import UUID

import pytest

from counterfoil.db import Connection
from counterfoil.settings import settings
from tests.dead_letters.audit_trail import verified_changes
from tests.delivery.harness import rows
from tests.functions.admin_api.conftest import CLAIMS, ApiResponse, CallApi

ADMIN, PLATFORM_ADMIN = "[admin tenant:acme]", "[admin tenant:*]"
PATH = "/api/admin/tenants/acme/destinations"
URL = "https://hooks.example.com/results"


def webhook(
    call_api: CallApi, name: str = "office", address: str = URL, groups: str = ADMIN, **fields: object
) -> ApiResponse:
    return call_api({"name": name, "kind": "webhook", "address": address, **fields}, path=PATH, groups=groups)


def export(call_api: CallApi, name: str = "erp", prefix: str = "erp/in", **fields: object) -> ApiResponse:
    return call_api({"name": name, "kind": "s3", "address": prefix, **fields}, path=PATH, groups=ADMIN)


def list_destinations(call_api: CallApi, path: str = PATH) -> list[dict[str, object]]:
    destinations_: list[dict[str, object]] = call_api("", method="GET", path=path, groups=PLATFORM_ADMIN).body[
        "destinations"
    ]
    return destinations_


def remove(call_api: CallApi, name: str) -> ApiResponse:
    return call_api("", method="DELETE", path=f"{PATH}/{name}", groups=ADMIN)


def rotate(call_api: CallApi, name: str) -> ApiResponse:
    return call_api("", path=f"{PATH}/{name}/rotate", groups=ADMIN)


def test_webhook_secret_is_shown_once(call_api: CallApi, acme: UUID, admin: Connection) -> None:
    added = webhook(call_api)
    assert added.status == 201
    expected = {"name": "office", "kind": "webhook", "address": URL, "events": ["cluster", "document"]}
    assert added.body == {**expected, "secret": rows(admin, "destination_secret")[0]["secret"]}
    assert added.body["secret"].startswith("whsec_")
    assert len(added.body["secret"]) >= 40
    assert list_destinations(call_api) == [expected]


def test_export_is_added_without_a_secret(call_api: CallApi, acme: UUID) -> None:
    assert export(call_api, events=["offers"]).body == {
        "name": "erp",
        "kind": "s3",
        "address": "erp/in",
        "events": ["offers"],
        "secret": None,
    }
    assert rotate(call_api, "erp").status == 404


def test_changes_are_recorded_in_the_audit_trail(call_api: CallApi, acme: UUID, admin: Connection) -> None:
    webhook(call_api)
    rotate(call_api, "office")
    remove(call_api, "office")
    ((id_,),) = admin.execute("SELECT id FROM destination").fetchall()
    assert verified_changes(admin, acme) == [
        (CLAIMS["sub"], action, [str(id_)])
        for action in ("destination added", "webhook secret rotated", "destination removed")
    ]


def test_both_secrets_are_active_after_a_rotation(call_api: CallApi, acme: UUID, admin: Connection) -> None:
    first = webhook(call_api).body["secret"]
    second = rotate(call_api, "office").body["secret"]
    is_current = {row["secret"]: row["expires_at"] is None for row in rows(admin, "destination_secret")}
    assert is_current == {first: False, second: True}


def test_name_of_removed_destination_is_reusable(call_api: CallApi, acme: UUID, admin: Connection) -> None:
    webhook(call_api)
    assert remove(call_api, "office").status == 204
    assert (list_destinations(call_api), rows(admin, "destination_secret")) == ([], [])
    assert remove(call_api, "office").status == 404
    assert export(call_api, "office").status == 201
    assert [item["kind"] for item in list_destinations(call_api)] == ["s3"]
    assert len(rows(admin, "destination")) == 2


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("http://hooks.example.com/", "only https is"),
        ("https://169.254.169.254/", "no public address"),
        ("nonsense", "must begin with https"),
    ],
)
def test_forbidden_or_invalid_address_is_rejected(
    call_api: CallApi, acme: UUID, address: str, reason: str, admin: Connection
) -> None:
    response = webhook(call_api, address=address)
    assert (response.status, reason in response.body["detail"]) == (422, True)
    assert rows(admin, "destination") == []


@pytest.mark.parametrize("prefix", ["../other", "/erp", "erp/", "", "a" * 201])
def test_invalid_prefix_is_rejected(call_api: CallApi, acme: UUID, prefix: str, admin: Connection) -> None:
    assert export(call_api, prefix=prefix).status == 422
    assert rows(admin, "destination") == []


def test_invalid_events_are_rejected(call_api: CallApi, acme: UUID) -> None:
    assert export(call_api, events=["invoice"]).status == export(call_api, events=[]).status == 422


def test_name_and_prefix_are_unique(call_api: CallApi, acme: UUID) -> None:
    export(call_api, "erp", "out")
    assert "exists: remove it first" in webhook(call_api, "erp").body["detail"]
    assert "'erp' exports to 'out'" in export(call_api, "archive", "out").body["detail"]
    remove(call_api, "erp")
    assert export(call_api, "archive", "out").status == 201


def test_only_platform_admins_add_internal_addresses(
    call_api: CallApi, acme: UUID, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEBHOOK_ALLOWLIST", '["127.0.0.0/8"]')
    settings.cache_clear()
    internal_url = "http://127.0.0.1:8099/"

    assert webhook(call_api, address=internal_url).status == 422
    assert webhook(call_api, "internal", internal_url, PLATFORM_ADMIN).status == 201
    assert webhook(call_api, "public").status == 201
    stored = admin.execute("SELECT name, allows_internal FROM destination ORDER BY name").fetchall()
    assert stored == [("internal", True), ("public", False)]


def test_destinations_belong_to_one_tenant(call_api: CallApi, acme: UUID, make_tenant: Callable[..., UUID]) -> None:
    make_tenant("zenith")
    webhook(call_api)
    assert list_destinations(call_api, PATH.replace("acme", "zenith")) == []


def test_new_tenant_has_its_destinations(call_api: CallApi, admin: Connection) -> None:
    body = {
        "slug": "globex",
        "destinations": [
            {"name": "erp", "kind": "webhook", "address": URL},
            {"name": "files", "kind": "s3", "address": "monthly/in"},
        ],
    }
    first, second = (call_api(body, path="/api/admin/tenants", groups=PLATFORM_ADMIN) for _ in range(2))
    assert [bool(item["secret"]) for item in first.body["destinations"]] == [True, False]
    assert (second.status, second.body["destinations"]) == (200, [])
    assert len(rows(admin, "destination")) == 2
