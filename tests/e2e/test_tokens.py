"""The gateway rejects invalid tokens on every route, without side effects."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from cli.local.cloud import Cloud
from cli.local.console import ConsoleUser, make_person
from cli.local.tenants import Tenant
from counterfoil.db import Connection
from tests.e2e.polling import wait_until

pytestmark = pytest.mark.e2e

PATIENCE = 60
"""Timeout in seconds. The first request waits for a process to start."""
UNKNOWN_ID = str(uuid4())
Names = Mapping[str, Any]
Make = Callable[[Names, Names, str], str]
"""Creates a forged token from a valid token's header, claims and encoded text."""


def requests(slug: str) -> list[tuple[str, str, Any]]:
    """Return method, path and body of requests that are valid except for their token."""
    return [
        ("GET", "/api/openapi.json", None),
        ("GET", f"/api/tasks?tenant={slug}", None),
        ("GET", f"/api/admin/dlq?tenant={slug}", None),
        ("GET", f"/api/admin/dlq/export?format=csv&tenant={slug}", None),
        ("GET", "/api/admin/queues/paused", None),
        ("POST", "/api/tasks", {"tenant": slug, "task_type": "echo", "payload": {}}),
        ("POST", "/api/uploads", {"tenant": slug, "file_name": "a.xml"}),
        ("POST", "/api/admin/dlq/bulk-ignore", {"filter": {"tenant": slug}, "reason": "A trial"}),
        ("PATCH", f"/api/admin/dlq/{UNKNOWN_ID}/payload", {"payload": {}}),
        ("DELETE", f"/api/admin/dlq/purge?tenant={slug}&before_date=2020-01-01T00:00:00Z&status=ignored", None),
    ]


@pytest.fixture
def admin_of_all(cloud: Cloud) -> ConsoleUser:
    """An admin of every tenant."""
    return make_person(cloud, f"{uuid4().hex}@example.com", ["admin", "tenant:*"])


def token_of(cloud: Cloud, person: ConsoleUser) -> str:
    response = cloud.client("cognito-idp").admin_initiate_auth(
        UserPoolId=cloud.outputs["UserPoolId"],
        ClientId=cloud.outputs["UserPoolClientId"],
        AuthFlow="ADMIN_USER_PASSWORD_AUTH",
        AuthParameters={"USERNAME": person.email, "PASSWORD": person.password},
    )
    return str(response["AuthenticationResult"]["IdToken"])


def statuses(cloud: Cloud, slug: str, token: str) -> dict[tuple[str, str], int]:
    """Send every request with this token. Return the statuses by method and path."""
    headers = {"Authorization": f"Bearer {token}", "If-Match": '"1"'}
    with httpx.Client(base_url=cloud.api_url, headers=headers, timeout=PATIENCE) as client:
        return {
            (method, path): client.request(method, path, json=body).status_code for method, path, body in requests(slug)
        }


def created_rows(admin: Connection, tenant: Tenant) -> object:
    """Return the numbers of rows in the tables to which the requests add rows."""
    counts = (
        "SELECT (SELECT count(*) FROM task WHERE tenant_id = %(id)s),"
        " (SELECT count(*) FROM operation WHERE tenant_id = %(id)s),"
        " (SELECT count(*) FROM audit_entry WHERE tenant_id = %(id)s)"
    )
    return admin.execute(counts, {"id": tenant.id}).fetchone()


def encode(part: Names | bytes) -> str:
    content = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def decode(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=="))


def make_token(header: Names, claims: Names, sign: Callable[[bytes], bytes]) -> str:
    content = f"{encode(header)}.{encode(claims)}"
    return f"{content}.{encode(sign(content.encode()))}"


FOREIGN_KEY = rsa.generate_private_key(65537, 2048)
MODULUS = FOREIGN_KEY.public_key().public_numbers().n.to_bytes(256)


def sign_with_foreign_key(text: bytes) -> bytes:
    return FOREIGN_KEY.sign(text, padding.PKCS1v15(), hashes.SHA256())


def sign_nothing(_: bytes) -> bytes:
    return b""


def sign_with_secret(text: bytes) -> bytes:
    return hmac.digest(b"secret", text, hashlib.sha256)


FORGERIES: dict[str, Make] = {
    "signed by another key": lambda header, claims, _: make_token(header, claims, sign_with_foreign_key),
    "signed by another key with another key id": lambda header, claims, _: make_token(
        {**header, "kid": "ours"}, claims, sign_with_foreign_key
    ),
    "signed by a key in its own header": lambda header, claims, _: make_token(
        {**header, "jwk": {"kty": "RSA", "n": encode(MODULUS), "e": "AQAB"}},
        claims,
        sign_with_foreign_key,
    ),
    "with alg none": lambda _, claims, __: make_token({"alg": "none", "typ": "JWT"}, claims, sign_nothing),
    "with alg none and the key's id": lambda header, claims, _: make_token(
        {**header, "alg": "none"}, claims, sign_nothing
    ),
    "with alg none and a valid signature": lambda header, claims, valid: (
        f"{encode({**header, 'alg': 'none'})}.{encode(claims)}.{valid.rpartition('.')[2]}"
    ),
    "signed with a secret": lambda header, claims, _: make_token({**header, "alg": "HS256"}, claims, sign_with_secret),
    "extended after it was signed": lambda header, claims, valid: (
        f"{encode(header)}.{encode({**claims, 'exp': claims['exp'] + 3600})}.{valid.rpartition('.')[2]}"
    ),
    "cut off": lambda _, __, valid: valid.rpartition(".")[0],
    "not a token": lambda _, __, ___: "x",
}


def test_forged_tokens_are_rejected(cloud: Cloud, admin: Connection, tenant: Tenant, admin_of_all: ConsoleUser) -> None:
    valid_token = token_of(cloud, admin_of_all)
    header, claims = (decode(part) for part in valid_token.split(".")[:2])
    rows_before = created_rows(admin, tenant)

    accepted = {
        (name, *request): status
        for name, make in FORGERIES.items()
        for request, status in statuses(cloud, tenant.slug, make(header, claims, valid_token)).items()
        if status != 401
    }

    assert accepted == {}
    assert created_rows(admin, tenant) == rows_before
    allowed = statuses(cloud, tenant.slug, valid_token)  # the same requests with a valid token
    assert {status for (_, path), status in allowed.items() if UNKNOWN_ID not in path} <= {200, 201, 202}, allowed
    assert [status for (_, path), status in allowed.items() if UNKNOWN_ID in path] == [404]
    assert created_rows(admin, tenant) != rows_before


@pytest.fixture
def short_lived(cloud: Cloud) -> Iterator[None]:
    """Make new tokens expire after 5 seconds during the test.

    Afterwards, new tokens expire after an hour again.
    """
    client = {"UserPoolId": cloud.outputs["UserPoolId"], "ClientId": cloud.outputs["UserPoolClientId"]}
    validity = partial(
        cloud.client("cognito-idp").update_user_pool_client, **client, TokenValidityUnits={"IdToken": "seconds"}
    )
    validity(IdTokenValidity=5)
    yield
    validity(IdTokenValidity=60 * 60)


@pytest.mark.usefixtures("short_lived")
def test_expired_token_is_rejected(cloud: Cloud, admin: Connection, tenant: Tenant, admin_of_all: ConsoleUser) -> None:
    token = token_of(cloud, admin_of_all)
    url, headers = f"{cloud.api_url}/api/admin/queues/paused", {"Authorization": f"Bearer {token}"}
    rows_before = created_rows(admin, tenant)

    def status() -> int:
        return httpx.get(url, headers=headers, timeout=PATIENCE).status_code

    assert status() == 200
    wait_until(lambda: status() == 401)
    assert set(statuses(cloud, tenant.slug, token).values()) == {401}
    assert created_rows(admin, tenant) == rows_before
