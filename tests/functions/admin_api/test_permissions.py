"""Permissions for every route, role, tenant and token.

Rejected requests reveal nothing.
"""

from datetime import UTC, datetime
from itertools import product
from typing import Any
from uuid import uuid4

import pytest

from counterfoil.db import Connection, Database
from functions.admin_api.auth import LEEWAY_SECONDS, Role
from functions.admin_api.handler import document
from tests.functions.admin_api.conftest import CLAIMS, ApiResponse, CallApi
from tests.functions.admin_api.permissions import (
    PERMISSIONS,
    ApiRequest,
    Permission,
    Resources,
    SampleTenant,
    Tenancy,
    method_and_path,
    operations_by_route,
    set_up_environment,
)

ROLES = {
    "no role": (Role.NONE, ""),
    "editor": (Role.NONE, "edit-payloads"),
    "viewer": (Role.VIEWER, "viewer"),
    "viewer with edits": (Role.VIEWER, "viewer edit-payloads"),
    "operator": (Role.OPERATOR, "operator"),
    "operator with edits": (Role.OPERATOR, "operator edit-payloads"),
    "admin": (Role.ADMIN, "admin"),
}
TENANTS: dict[str, tuple[Tenancy, str]] = {
    "own": ("own", "tenant:acme"),
    "foreign": ("foreign", "tenant:other"),
    "every": ("every", "tenant:*"),
    "none": ("none", ""),
    "similar name": ("foreign", "tenant:acme-2"),
}


@pytest.fixture
def sample_tenant(
    call_api: CallApi, database: Database, admin: Connection, monkeypatch: pytest.MonkeyPatch
) -> SampleTenant:
    """Create the tenants `acme` and `other`. All requests concern acme."""
    set_up_environment(monkeypatch)
    SampleTenant(database, admin, "other")
    return SampleTenant(database, admin, "acme")


def send(
    call_api: CallApi, operation: str, request: ApiRequest, groups: str, claims: dict[str, Any] | None = None
) -> ApiResponse:
    method, _ = method_and_path(operation)
    query, if_match = dict(request.query), {"if-match": f'"{request.version}"'}
    return call_api(
        request.body,
        method=method,
        path=request.path,
        query=query,
        groups=f"[{groups}]",
        headers=if_match,
        claims=claims,
    )


def test_table_has_every_route() -> None:
    assert PERMISSIONS.keys() == operations_by_route(document()).keys()


def test_routes_admit_exactly_the_permitted_callers(
    call_api: CallApi, sample_tenant: SampleTenant, admin: Connection
) -> None:
    mismatches: list[tuple[object, ...]] = []
    succeeded: set[str] = set()
    shared = sample_tenant.resources()
    before: object = None  # reread after each request that may change it
    for (operation, permission), role, tenant in product(PERMISSIONS.items(), ROLES, TENANTS):
        (rank, groups), (tenancy, tenant_group) = ROLES[role], TENANTS[tenant]
        is_allowed = permission.allows(rank, tenancy, edits="edit-payloads" in groups)
        expected = permission.statuses if is_allowed else {permission.refusal(rank, tenancy)}
        resources = sample_tenant.resources() if is_allowed and not operation.startswith("GET ") else shared
        before = None if is_allowed else before or state(admin)
        response = send(call_api, operation, permission.request(resources), f"{groups} {tenant_group}".strip())
        if response.status < 300:
            succeeded.add(operation)
        if response.status not in expected:
            mismatches.append((operation, role, tenant, response.status, sorted(expected), response.body))
        if before is not None and state(admin) != before:
            mismatches.append((operation, role, tenant, "something was changed"))

    assert mismatches == []
    assert succeeded >= {
        operation for operation, permission in PERMISSIONS.items() if not {404, 409, 412} & permission.statuses
    }


_STATE = """
SELECT (SELECT count(*) FROM audit_entry), (SELECT sum(version) FROM dead_letter), (SELECT count(*) FROM task),
       (SELECT count(*) FROM task WHERE status IS NULL), (SELECT count(*) FROM chat_session),
       (SELECT count(*) FROM match_decision), (SELECT count(*) FROM outbox),
       (SELECT count(*) FROM rate_limit_bucket WHERE purpose = 'change'),
       (SELECT sum(tokens) FROM rate_limit_bucket WHERE purpose = 'change'),
       (SELECT count(*) FROM operation WHERE action = 'purge' AND restored_at IS NULL),
       (SELECT count(*) FROM tenant WHERE dmarc_policy = 'hold'),
       (SELECT count(*) FROM profile), (SELECT max(updated_at) FROM profile), (SELECT count(*) FROM user_block)
"""


def state(admin: Connection) -> object:
    """Return counts, versions and tokens that reveal a change."""
    return admin.execute(_STATE).fetchone()


NOW = int(datetime.now(UTC).timestamp())
TOKENS: dict[str, dict[str, Any]] = {
    "expired": {"exp": str(NOW - LEEWAY_SECONDS - 1)},
    "without expiry": {"exp": None},
    "not valid yet": {"nbf": str(NOW + 3600)},
    "issued in the future": {"iat": str(NOW + 3600)},
    "of another issuer": {"iss": CLAIMS["iss"] + "x"},
    "without issuer": {"iss": None},
    "for another audience": {"aud": "another-client"},
    "without audience": {"aud": None},
    "access token": {"token_use": "access", "client_id": CLAIMS["aud"], "aud": None},
    "access token with our audience": {"token_use": "access"},
    "refresh token": {"token_use": "refresh"},
    "without use": {"token_use": None},
    "without claims": dict.fromkeys([*CLAIMS, "cognito:groups"]),
}


def test_invalid_token_is_rejected_by_every_route(
    call_api: CallApi, sample_tenant: SampleTenant, admin: Connection
) -> None:
    resources = sample_tenant.resources()
    before = state(admin)
    mismatches = []
    for (operation, permission), token in product(PERMISSIONS.items(), TOKENS):
        for request in (permission.request(resources), permission.request(Resources.missing())):
            response = send(call_api, operation, request, "admin tenant:*", TOKENS[token])
            if (response.status, "WWW-Authenticate" in response.headers) != (401, True):
                mismatches.append((operation, token, response.status))

    assert mismatches == []
    assert state(admin) == before


@pytest.mark.parametrize("groups", [None, "", "[]", "admin", "[admin]", "[tenant:acme]", "[ADMIN tenant:acme]", "{}"])
def test_incomplete_or_unknown_groups_grant_nothing(
    groups: str | None, call_api: CallApi, sample_tenant: SampleTenant
) -> None:
    resources = sample_tenant.resources()
    for operation, permission in PERMISSIONS.items():
        request = permission.request(resources)
        method, _ = method_and_path(operation)
        response = call_api(request.body, method=method, path=request.path, query=dict(request.query), groups=groups)
        expected = permission.statuses if permission.reach == "public" else {403, 404}
        assert response.status in expected, (operation, response.status)


def comparable(response: ApiResponse, request: ApiRequest, resources: Resources) -> tuple[object, ...]:
    """Return a response without the request's ids, for comparison."""
    text = response.text
    for value in (
        resources.slug,
        resources.task,
        resources.session,
        resources.dead_letter,
        resources.purge,
        resources.export,
        resources.user,
        resources.pool,
        *resources.documents,
    ):
        text = text.replace(value, "it")
    headers = {name: value for name, value in response.headers.items() if name != "ETag"}
    return response.status, text, headers


@pytest.mark.parametrize("role", ["viewer", "operator edit-payloads", "admin"])
@pytest.mark.parametrize("tenant", ["tenant:other", ""])
def test_other_tenants_resources_look_missing(
    role: str, tenant: str, call_api: CallApi, sample_tenant: SampleTenant
) -> None:
    existing, missing = sample_tenant.resources(), Resources.missing()
    differ = []
    for operation, permission in PERMISSIONS.items():
        if permission.reach not in {"resource", "tenant"}:
            continue
        responses = [
            comparable(
                send(call_api, operation, permission.request(resources), f"{role} {tenant}".strip()),
                permission.request(resources),
                resources,
            )
            for resources in (existing, missing)
        ]
        if responses[0] != responses[1]:
            differ.append((operation, *responses))

    assert differ == []


def test_other_tenants_document_in_body_looks_missing(
    call_api: CallApi, sample_tenant: SampleTenant, database: Database, admin: Connection
) -> None:
    own, foreign = sample_tenant.resources(), SampleTenant(database, admin, "third").resources()
    third = own.documents[2]
    for document_id in (foreign.documents[0], str(uuid4())):
        for path, body in (
            (f"{third}/confirm", {"document": document_id}),
            (f"{third}/reject", {"documents": [document_id]}),
            ("merge", {"documents": [third, document_id]}),
            ("merge", {"documents": [document_id, third]}),
        ):
            response = call_api(body, path=f"/api/admin/reviews/{path}", groups="[operator tenant:acme]")
            assert (path, response.status) == (path, 404)
            assert response.text.replace(document_id, "it") == response.text


def test_responses_are_private_with_security_headers(call_api: CallApi, sample_tenant: SampleTenant) -> None:
    resources = sample_tenant.resources()
    for operation, permission in PERMISSIONS.items():
        for groups in ("admin tenant:acme", "viewer tenant:other"):
            response = send(call_api, operation, permission.request(resources), groups)
            cached = response.headers["Cache-Control"]
            assert "no-store" in cached or "private" in cached, operation
            assert "public" not in cached
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["X-Frame-Options"] == "DENY"
            assert response.headers["Content-Security-Policy"] == "default-src 'none'; frame-ancestors 'none'"
            assert "Access-Control-Allow-Origin" not in response.headers


def test_payload_edits_require_admin_or_edit_group() -> None:
    editing = Permission(Role.OPERATOR, "resource", lambda _: ApiRequest("/"), requires_editor=True)

    assert [editing.allows(role, "own", edits=edits) for role in Role for edits in (False, True)] == [
        *(False, False, False, False, False, True, True, True)
    ]
    assert not editing.allows(Role.ADMIN, "foreign", edits=True)
